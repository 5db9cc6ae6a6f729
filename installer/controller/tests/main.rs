//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod controller_agent_based;
mod controller_cluster;
mod controller_end;
mod controller_faults;
mod controller_finalizing;
mod controller_hosts;
mod controller_logs;
mod controller_operators;
mod controller_requests;
mod controller_rights;
mod controller_scale;
mod controller_taints;
mod controller_whole;
mod rig;
