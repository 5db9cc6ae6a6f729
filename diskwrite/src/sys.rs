//! io_uring: the one place with unsafe code.
#![allow(unsafe_code)]

pub mod ring;
