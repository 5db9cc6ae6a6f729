//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod common;
mod coreos_installer;
mod live_iso;
mod units;
