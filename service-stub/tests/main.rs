//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod attest;
mod certify;
mod common;
mod control_plane;
mod damage;
mod files;
mod flow;
mod hostile;
#[path = "common/iso.rs"]
mod iso;
#[path = "load/main.rs"]
mod load;
mod payload;
#[path = "preparing/main.rs"]
mod preparing;
mod refusals;
#[path = "load/server.rs"]
mod server;
mod steps;
mod wire;
