//! Starts the host's programs and mounts file systems: in this process, or, once [`fork`] was called, in an *assistant* that it
//! forked before it confined itself. The assistant does what its [`Table`] allows and nothing else, so the process that parses
//! what others sent needs neither the power to execute a program nor the power to mount.
//!
//! Both ways lead through the same code ([`start`], [`remount`], [`bind_loop`], [`PrivateMounts`]); callers cannot tell them apart.

mod client;
mod host;
mod program;
mod server;
mod table;
mod tree;
mod wire;

pub use client::{Child, PrivateMounts, bind_loop, remount, start};
pub use host::HostProgram;
pub use program::Place;
pub use server::fork;
pub use table::{Program, Table};

/// For an installation's private mounts and script: below the live system's root.
pub const INSTALLATION_DIRECTORY: &str = "/run/landfall/installation";
/// The script that makes a new root file system around its contents.
pub const TRANSPOSE_SCRIPT: &str = "/run/landfall/installation/transposefs.sh";
/// Locked by the installation that runs.
pub const INSTALLATION_LOCK: &str = "/run/landfall-install.lock";

#[cfg(test)]
mod tests;
