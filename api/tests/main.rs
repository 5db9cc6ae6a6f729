//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod absent_and_null;
mod endpoints;
mod pinned_certificate;
mod through_a_proxy;
