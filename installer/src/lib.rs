//! Installs a host: one disk by hand, or the whole flow a service asks of a role, from its request to the reboot.
//!
//! A request becomes a [`plan::Plan`] (pure: no disk, no network), which [`flow`] carries out against the machine
//! ([`host::Host`]) and the service, telling the latter how far it is (`report`).

mod args;
pub mod boot_order;
pub mod bootstrap;
pub mod cli;
pub mod controller_manifests;
pub mod disk_cli;
mod display;
pub mod download;
pub mod flow;
pub mod host;
pub mod ignition_disks;
mod ignition_source;
pub mod kube;
pub mod live_units;
mod network;
pub mod plan;
pub mod programs;
pub mod rdcore;
pub mod reclaim;
mod report;
mod root_deploy;
mod running;
mod source;
mod streams;
mod target;
pub mod wipe_cli;
pub mod writable;
