//! `landfall inventory`: the facts by hand, and as the child process of an agent's step.

use crate::{Limits, Root, collect, identity};
use anyhow::Context;
use std::{
    io::{Write, stdout},
    path::PathBuf,
};

/// Report what this machine is: processors, memory, disks, interfaces, routes, firmware
///
/// Prints one JSON object on stdout, in the form the assisted-installer service takes. Nothing is written to any disk. Root's
/// rights are needed for SMBIOS, serial numbers and first sectors; without them those facts are missing.
///
/// A fact that cannot be read is left out; LANDFALL_LOG=debug tells why.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"Examples:
  landfall inventory --pretty | less
  landfall inventory | jq '.disks[] | {path, size_bytes, why: .installation_eligibility.not_eligible_reasons}'
  landfall inventory --host-id
  landfall inventory --root ./captured-machine --pretty"#)]
pub struct Inventory {
    /// Read /sys, /proc, /run and /dev/disk below this directory, such as a captured tree
    ///
    /// Of a captured tree neither addresses nor routes are known, nor boot signatures of disks.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print for people, over many lines
    #[arg(long)]
    pretty: bool,
    /// Print only the host's id, and what it was made from: board-serial, system-uuid, mac or nothing
    ///
    /// Hosts with nothing to tell them apart by all get deaddead-dead-dead-dead-deaddeaddead.
    #[arg(long, conflicts_with_all = ["pretty", "output_max_size", "disk_min_size"])]
    host_id: bool,
    /// Leave out disks until the JSON fits; 0 is no limit
    ///
    /// Disks that nothing can be installed to are left out first. `truncation` in the output says if others had to go.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    output_max_size: u64,
    /// Leave out disks that are smaller; 0 is no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    disk_min_size: u64,
}

impl Inventory {
    /// Runs the subcommand. An error means that the root or stdout is unusable; facts that are missing are none.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::open(&self.root)?;
        let text = if self.host_id {
            let identity = identity::host_id(&root);
            format!("{} {}\n", identity.id, identity.source)
        } else {
            let inventory = self.limits().apply(collect(&root));
            if self.pretty {
                serde_json::to_string_pretty(&inventory)? + "\n"
            } else {
                serde_json::to_string(&inventory)?
            }
        };
        let mut out = stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the inventory")
    }

    fn limits(&self) -> Limits {
        let limit = |bytes: u64| (bytes > 0).then_some(bytes);
        Limits { output_max_bytes: limit(self.output_max_size), disk_min_bytes: limit(self.disk_min_size) }
    }
}
