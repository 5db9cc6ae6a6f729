//! The options of `landfall up`.

use std::{net::SocketAddr, path::PathBuf};

/// Groups of options in the help.
const SYSTEM: &str = "What is installed";
const SERVICE: &str = "Service";
const STICK: &str = "USB stick";
const MACHINES: &str = "Virtual machines";

const AFTER_HELP: &str = "\
Examples:
  landfall up                             # three machines, Fedora CoreOS
  landfall up --vms 3                     # three virtual machines of QEMU
  landfall up --hosts 1 --iso live.iso --image metal.raw.xz
  landfall up --init                      # write rack.toml, with comments
  landfall up --rack rack.toml --stick /dev/sdX
  landfall up --down                      # end the virtual machines

Ctrl-C stops the service; machines keep running, and a second `landfall up`
continues. Exit codes: 0 all installed, 1 cannot continue, 2 wrong usage,
3 the installation failed or was cancelled, 130 Ctrl-C.";

/// Install a rack: one command from images to nodes
///
/// Starts the service, makes a cluster and the ISO that its machines boot from, shows how far each machine is and what it waits for,
/// installs all of them when they are complete and ready, and ends with their addresses. What is not given is found: a live ISO and an
/// image of Fedora CoreOS are downloaded, and the SSH key is that of the user.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Up {
    /// Machines: 1, or 3 and more [default: 3]
    #[arg(long, value_name = "COUNT", conflicts_with = "vms")]
    pub(super) hosts: Option<u64>,

    /// The rack's plan: a rack.toml, or a directory of manifests (AgentConfig, install-config, those of zero-touch provisioning)
    /// [default: rack.toml in this directory, if it exists]
    #[arg(long, value_name = "PATH")]
    pub(super) rack: Option<PathBuf>,

    /// Write rack.toml into this directory, with a comment on each setting, and end
    #[arg(long, conflicts_with_all = ["rack", "down", "stick"])]
    pub(super) init: bool,

    /// Name of the rack [default: rack]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Public SSH key of the user core [default: the first of ~/.ssh/id_*.pub]
    #[arg(long, value_name = "FILE")]
    pub(super) ssh_key: Option<PathBuf>,

    /// Live ISO that the machines boot from; an agent is delivered to one that has none [default: Fedora CoreOS, downloaded]
    #[arg(help_heading = SYSTEM, long, value_name = "FILE")]
    pub(super) iso: Option<PathBuf>,

    /// Image that is installed [default: Fedora CoreOS, downloaded]
    #[arg(help_heading = SYSTEM, long, value_name = "FILE")]
    pub(super) image: Option<PathBuf>,

    /// Stream of Fedora CoreOS to download: stable, testing or next
    #[arg(help_heading = SYSTEM, long, value_name = "NAME", default_value = "stable")]
    pub(super) stream: String,

    /// Directory with the files of a control plane, as openshift-install makes them. Without it no control plane is brought up
    #[arg(help_heading = SYSTEM, long, value_name = "DIR")]
    pub(super) cluster_files: Option<PathBuf>,

    /// Where everything is stored [default: ~/.local/state/landfall/NAME]
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<PathBuf>,

    /// Address and port of the service [default: 0.0.0.0:8090, with --vms 127.0.0.1:8090; another port where that is taken]
    #[arg(help_heading = SERVICE, long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<SocketAddr>,

    /// URL at which machines reach the service [default: this machine's address]
    #[arg(help_heading = SERVICE, long, value_name = "URL")]
    pub(super) url: Option<String>,

    /// Write the discovery ISO to this disk; everything on it is lost
    #[arg(help_heading = STICK, long, value_name = "DEVICE")]
    pub(super) stick: Option<PathBuf>,

    /// Do not ask before the stick is overwritten
    #[arg(help_heading = STICK, long, requires = "stick")]
    pub(super) yes: bool,

    /// Make this many virtual machines with QEMU, in a network of their own: 1, or 3 to 9. They use KVM where that works
    #[arg(help_heading = MACHINES, long, value_name = "COUNT", value_parser = vms)]
    pub(super) vms: Option<u8>,

    /// Memory of each virtual machine, MiB [default: 4096]
    #[arg(help_heading = MACHINES, long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(256..))]
    pub(super) vm_memory: Option<u32>,

    /// Disk of each virtual machine, GiB; it takes the space that is used [default: 20]
    #[arg(help_heading = MACHINES, long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    pub(super) vm_disk: Option<u64>,

    /// End the virtual machines of an earlier `up --vms`, and remove the rack's directory
    #[arg(long)]
    pub(super) down: bool,

    /// Print the nodes as JSON when all are installed
    #[arg(long)]
    pub(super) json: bool,
}

fn vms(text: &str) -> Result<u8, &'static str> {
    match text.parse() {
        Ok(count @ (1 | 3..=9)) => Ok(count),
        _ => Err("give 1, or 3 to 9"),
    }
}
