//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod boot;
mod failures;
mod install;
mod installs;
mod kinds;
mod plan;
mod probe;
mod redirect;
mod saved;
mod speed;
mod trust;
mod wipe;
