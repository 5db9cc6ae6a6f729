//! `landfall reclaim`.

use super::{Architecture, DOWNLOADED, NodeHost, Pace, download, reboot};
use api::{BootArtifactsRequest, Document, RebootForReclaimRequest, ReclaimDocument};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Turn an installed node back into a host that can be discovered
///
/// The service does this to hosts that leave a cluster: `download` puts the discovery system's kernel and initramfs on the node's
/// boot file system, with a loader entry that comes first; `reboot` boots it. The installed system is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A request is {\"request\": {\"kernel_url\", \"initrd_url\", \"rootfs_url\", \"host_fs_mount_dir\"}, \"ca_cert\": PATH, \
\"insecure\": false} for download, and {\"request\": {\"host_fs_mount_dir\"}, \"reboot\": true} for reboot, which is \
refused without \"reboot\". host_fs_mount_dir is where the node's root is mounted, / on the node itself.

Exit codes:
  0  done
  1  failed; what is booted next has not changed
  2  wrong usage

Examples:
  landfall reclaim download --request request.json
  landfall reclaim reboot --request - < request.json")]
pub struct Reclaim {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the node boot into discovery next time
    Download(Request),
    /// Reboot the node
    Reboot(Request),
}

#[derive(Debug, clap::Args)]
struct Request {
    /// JSON file, or standard input with '-'
    #[arg(long, value_name = "PATH")]
    request: PathBuf,
    /// Directory for downloads before they go to the boot file system; created if missing, refused if other users can
    /// access it
    #[arg(long, value_name = "DIR", default_value = "/run/landfall/reclaim")]
    scratch: PathBuf,
}

impl Reclaim {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let architecture = Architecture::of_this_program();
        match self.command {
            Command::Download(Request { request, scratch }) => {
                let document = ReclaimDocument::<BootArtifactsRequest>::read(&request)?;
                let host = NodeHost { root: document.request.host_fs_mount_dir.clone(), allow_reboot: false };
                download(&document.request, &document.http(), &host, architecture, &scratch, Pace::default())?;
                io::stdout().write_all(DOWNLOADED.as_bytes())?;
            }
            Command::Reboot(Request { request, .. }) => {
                let document = ReclaimDocument::<RebootForReclaimRequest>::read(&request)?;
                let root = document.request.host_fs_mount_dir;
                reboot(&root, &NodeHost { root: root.clone(), allow_reboot: document.reboot }, architecture)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
