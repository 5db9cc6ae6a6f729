//! A stand-in for a cluster's control plane, for machines under test: the way to a real API server on the test's host, a machine-config
//! server, kubelets, and what starts the installer's controller as its Job says. It runs no container and is not secure; it shows that an
//! installer and a controller wait for the right things in the right order.
//!
//! On the bootstrap host `bootkube` has the cluster's address until enough masters are ready, then ends. The first master takes the
//! address when nothing answers there any more: so a host that boots late finds a control plane although the bootstrap host is gone.
//!
//! [`cluster_files`] makes the install-time files that a service hands out, and in them the units that run all this. A test is the
//! cluster's operators.

mod address;
mod api;
pub mod cluster_files;
mod https;
mod job;
mod machine_config;
mod manifests;
mod node;
mod pods;
mod run;
mod settings;

pub use machine_config::{NAMESPACE as MACHINE_CONFIG_NAMESPACE, ROLE_FILE, rendered_name};
pub use run::{bootkube, control_plane, kubelet, progress};
pub use settings::{Role, SETTINGS_PATH, Settings};

use std::{path::Path, process::Command};

/// The Kubernetes API's port.
const API_PORT: u16 = 6443;
/// The machine-config server's port.
const CONFIG_PORT: u16 = 22623;
/// A kubelet's port.
pub const KUBELET_PORT: u16 = 10250;
/// On the machines: the program, and what it is made of.
const PROGRAM: &str = "/opt/stand-in/stand-in-control-plane";
const LIBRARY: &str = "/opt/stand-in/libgcc_s.so.1";
const LIBRARY_PATH: &str = "/opt/stand-in";
/// On masters: the installer's controller, a program of its image's name for it.
const CONTROLLER: &str = "/opt/stand-in/assisted-installer-controller";

/// A line for the machine's serial port.
fn say(text: &str) {
    let program = "/usr/lib/landfall-test/say";
    if Path::new(program).exists() {
        // Without it the test only sees less.
        let _ = Command::new(program).arg("stand-in").arg(text).status();
    }
    eprintln!("{text}");
}
