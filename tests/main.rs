//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

#[path = "agent_faults/main.rs"]
mod agent_faults;
mod announce;
mod bad_input;
mod burnin;
mod by_name;
mod clients;
mod completion;
mod confined;
#[path = "coreos_installer/main.rs"]
mod coreos_installer;
mod disk_speed;
#[path = "docs/main.rs"]
mod docs;
mod dropin;
mod dry_agents;
#[path = "faults/main.rs"]
mod faults;
mod ignition_apply;
mod ignition_validate;
mod image;
mod install;
mod log;
mod mistakes;
mod netcheck;
mod open_by_default;
mod own_resolver;
#[path = "packages/main.rs"]
mod packages;
mod peer_install;
mod rdcore;
mod references;
mod replay;
mod steps;
mod supervise;
mod upgrade;
