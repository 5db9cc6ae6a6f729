//! The real programs as judges: our agent and installer at the real service, the real ones at ours, and every exchange between
//! them beside those recorded from the real ones. `make peers-check` runs it; docs/development.md says what it needs.
#![allow(clippy::unwrap_used)]

mod host;
mod report;
mod scenarios;
mod service;
mod site;
mod user;
mod wire;

use testkit::{disk, net};
