//! What tests of several crates need: loop devices and images, network namespaces, servers, ports, certificates, logs, recordings, waits,
//! turns, seeds, and the decision whether a test may be skipped.
#![allow(clippy::unwrap_used)]

pub mod disk;
pub mod gpg;
pub mod http;
pub mod kept;
pub mod log;
pub mod net;
pub mod port;
pub mod process;
pub mod recordings;
pub mod registry;
#[cfg(test)]
mod report_tests;
pub mod seed;
pub mod skip;
pub mod tls;
pub mod tpm;
pub mod tree;
pub mod turn;
pub mod wait;
pub mod wire;
