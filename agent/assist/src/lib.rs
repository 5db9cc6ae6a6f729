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

#[cfg(test)]
mod tests;
