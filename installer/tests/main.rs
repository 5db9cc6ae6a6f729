//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

#[path = "bootstrap/main.rs"]
mod bootstrap;
mod flow;
mod ignition_disks;
mod machine;
mod reclaim;
mod retries;
