//! A stand-in for a cluster's control plane: see `qemu_tests::stand_in`. Runs on machines under test only.

use anyhow::Result;
use clap::Parser;
use qemu_tests::stand_in;

/// Stands in for a cluster's control plane on a machine under test. Units of the tests' configs start it; it takes
/// addresses and ports, so do not start it elsewhere.
#[derive(Parser)]
enum StandIn {
    /// The temporary control plane of a bootstrap host, until masters have theirs.
    Bootkube,
    /// Ends when the control plane is that of a master.
    Progress,
    /// A node of the cluster.
    Kubelet,
    /// A master's part of the control plane, with the installer's controller.
    ControlPlane,
}

fn main() -> Result<()> {
    match StandIn::parse() {
        StandIn::Bootkube => stand_in::bootkube(),
        StandIn::Progress => stand_in::progress(),
        StandIn::Kubelet => stand_in::kubelet(),
        StandIn::ControlPlane => stand_in::control_plane(),
    }
}
