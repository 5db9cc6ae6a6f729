//! What a bootstrap host does besides writing its disk: it carries the temporary control plane, and waits until that has become
//! one of other hosts (docs/compatibility.md#bootstrap).
//!
//! In the order of a flow:
//!
//! 1. [`start`] makes the running live system a bootstrap host;
//! 2. several nodes: [`configuring::Watcher`] reports in the background which hosts have fetched their configs; a single node:
//!    [`wait_for_bootkube`], then [`single_node_ignition`] gives the config for the disk;
//! 3. several nodes, after the disk is written: [`wait_for_control_plane`].

pub mod configuring;
mod controller;
mod disk_config;
mod error;
mod files;
mod hosts;
mod machine_configs;
mod manifests;
pub mod mcs_log;
mod name;
mod nodes;
mod payload;
mod services;
mod ssh;
mod start;
mod taints;
mod wait;
mod workers;

pub use disk_config::single_node_ignition;
pub use error::BootstrapError;
pub use start::start;
pub use wait::{wait_for_bootkube, wait_for_control_plane};

#[cfg(fuzzing)]
pub use mcs_log::fuzz_mcs_log;

use api::{Client, HostStage, InstallRequest, ServiceDocument};
use std::time::Duration;

/// What all of it works with.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What the service asked for.
    pub request: &'a InstallRequest,
    /// How the controller in the cluster will reach the service.
    pub service: &'a ServiceDocument,
    /// For required requests; its retries end when the installation is cancelled.
    pub patient: &'a Client,
    /// For requests that a loop repeats: one attempt.
    pub brief: &'a Client,
    /// How long things take.
    pub pace: Pace,
}

impl Context<'_> {
    /// Whether the control plane is this host alone.
    fn is_single_node(&self) -> bool {
        self.request.control_plane_count == 1
    }
}

/// Reports the stage of this host, and its detail, to the service.
pub type Report<'a> = dyn FnMut(HostStage, &str) + 'a;

/// How long things take; tests make it short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between looks at nodes, units and files.
    pub poll: Duration,
    /// Between attempts to get a file that the service does not have yet; its client has tried for a minute or so each time.
    pub file_retry: Duration,
    /// How long the service may take to make it: it hands hosts their orders while it still prepares the cluster.
    pub file_patience: Duration,
    /// Between uploads of the controller's logs.
    pub controller_logs: Duration,
    /// Between looks at the workers that the service knows.
    pub workers_poll: Duration,
    /// Between looks at the logs of the machine-config server: they are files of this host, and a node that is ready
    /// before the first look is never seen being configured.
    pub configuring_poll: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            file_retry: Duration::from_secs(10),
            file_patience: Duration::from_secs(30 * 60),
            controller_logs: Duration::from_secs(5 * 60),
            workers_poll: Duration::from_secs(30),
            configuring_poll: Duration::from_secs(5),
        }
    }
}
