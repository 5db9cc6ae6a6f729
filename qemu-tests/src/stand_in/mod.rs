//! A stand-in for a cluster's control plane, for machines under test: as much of a Kubernetes API, a machine-config server, a
//! kubelet and the installer's controller as an installation needs. It runs no container and is not secure; it shows that
//! an installer waits for the right things in the right order.
//!
//! On the bootstrap host `bootkube` serves the API on the cluster's address until enough masters are ready and the first of
//! them has a copy of all objects, then ends. On installed masters `control-plane` holds such a copy, and the first master
//! takes the address when nothing answers there any more: so a host that boots late finds a control plane although the
//! bootstrap host is gone.
//!
//! [`cluster_files`] makes the install-time files that a service hands out, and in them the units that run all this.

mod address;
mod api;
pub mod cluster_files;
mod controller;
mod https;
mod machine_config;
mod node;
mod objects;
mod run;
mod settings;

pub use machine_config::ROLE_FILE;
pub use run::{bootkube, control_plane, kubelet, progress};
pub use settings::{Role, SETTINGS_PATH, Settings};

use std::{path::Path, process::Command};

/// The Kubernetes API's port.
const API_PORT: u16 = 6443;
/// The machine-config server's port.
const CONFIG_PORT: u16 = 22623;
/// On the machines: the program, and what it is made of.
const PROGRAM: &str = "/opt/stand-in/stand-in-control-plane";
const LIBRARY: &str = "/opt/stand-in/libgcc_s.so.1";
const LIBRARY_PATH: &str = "/opt/stand-in";

/// A line for the machine's serial port.
fn say(text: &str) {
    let program = "/usr/lib/landfall-test/say";
    if Path::new(program).exists() {
        // Without it the test only sees less.
        let _ = Command::new(program).arg("stand-in").arg(text).status();
    }
    eprintln!("{text}");
}
