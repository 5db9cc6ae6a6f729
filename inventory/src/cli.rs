//! `landfall inventory`: the facts by hand, and as the child process of an agent's step.

use crate::{GpuFilter, Limits, Root, collect_with, collect_without_controller, identity};
use anyhow::Context;
use std::{
    io::{Read, Write, stdout},
    path::PathBuf,
};

/// Longest file of `--gpu-config-file`.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Report what this machine is: processors, memory, disks, interfaces, routes, firmware
///
/// Prints one JSON object on stdout, in the form that the assisted-installer service accepts. Nothing is written to any
/// disk. SMBIOS, serial numbers and first sectors need root; otherwise those facts are missing.
///
/// A fact that cannot be read is left out; LANDFALL_LOG=debug says why.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"Examples:
  landfall inventory --pretty | less
  landfall inventory | jq '.disks[] | {path, size_bytes,
    why: .installation_eligibility.not_eligible_reasons}'
  landfall inventory --host-id
  landfall inventory --root ./captured-machine --pretty"#)]
pub struct Inventory {
    /// Read /sys, /proc, /run and /dev/disk below this directory, or in a file of `landfall capture`
    ///
    /// A tree that was copied by other means lacks addresses, routes, and what only the disks themselves report.
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    root: PathBuf,
    /// Print indented, over many lines
    #[arg(long)]
    pretty: bool,
    /// Print only the host's id, and its source
    ///
    /// An id set by the operator comes first: kernel-argument (landfall.host_id=UUID), fw-cfg (QEMU's opt/landfall/host_id),
    /// oem-string (SMBIOS); then that of the hardware: board-serial, system-uuid, mac. Hosts without any of these all get
    /// deaddead-dead-dead-dead-deaddeaddead.
    #[arg(long, conflicts_with_all = ["pretty", "output_max_size", "disk_min_size", "gpu_config_file"])]
    host_id: bool,
    /// Leave out disks until the JSON fits; 0: no limit
    ///
    /// Ineligible disks are left out first. `truncation` in the output says if others were left out too.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    output_max_size: u64,
    /// Leave out smaller disks; 0: no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    disk_min_size: u64,
    /// Which PCI functions count as graphics or accelerators: YAML with the lists classes, vendors and models
    ///
    /// Such as `classes: ['0300']`, `vendors: ['0302 10de']`, `models: ['1200 1da3 1020']`. It replaces the built-in list
    /// of classes 0300, 0302, 0380 and 1200, which is used if the file is invalid.
    #[arg(long, value_name = "FILE")]
    gpu_config_file: Option<PathBuf>,
    /// Do not ask the management controller (BMC) for its addresses: it may take seconds
    #[arg(long)]
    skip_bmc: bool,
}

impl Inventory {
    /// Runs the subcommand. An error means that the root or stdout is unusable; missing facts are not errors.
    pub fn run(self) -> anyhow::Result<()> {
        let text = self.output()?;
        let mut out = stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the inventory")
    }

    fn output(&self) -> anyhow::Result<String> {
        let root = Root::open(&self.root)?;
        if self.host_id {
            let identity = identity::host_id(&root);
            return Ok(format!("{} {}\n", identity.id, identity.source));
        }
        let gpus = self.gpu_filter();
        let inventory =
            if self.skip_bmc { collect_without_controller(&root, &gpus) } else { collect_with(&root, &gpus) };
        let inventory = self.limits().apply(inventory);
        Ok(if self.pretty {
            serde_json::to_string_pretty(&inventory)? + "\n"
        } else {
            serde_json::to_string(&inventory)?
        })
    }

    /// The operator's own file, not one of the machine looked at.
    fn gpu_filter(&self) -> GpuFilter {
        let Some(path) = &self.gpu_config_file else { return GpuFilter::default() };
        let read = || -> anyhow::Result<GpuFilter> {
            let file = std::fs::File::open(path)?;
            let mut text = String::new();
            file.take(MAX_CONFIG_BYTES).read_to_string(&mut text)?;
            Ok(GpuFilter::parse(&text)?)
        };
        read().unwrap_or_else(|error| {
            let error = format!("{error:#}");
            tracing::warn!(path = %path.display(), error, "the GPU configuration is invalid; using the built-in one");
            GpuFilter::default()
        })
    }

    fn limits(&self) -> Limits {
        let limit = |bytes: u64| (bytes > 0).then_some(bytes);
        Limits { output_max_bytes: limit(self.output_max_size), disk_min_bytes: limit(self.disk_min_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        inventory: Inventory,
    }

    fn machine() -> Tree {
        Tree::new(&[
            ("sys/class/dmi/id/board_serial", "123-456-789\n"),
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sdb/size", "4096\n"),
            ("proc/meminfo", "MemTotal: 1024 kB\n"),
        ])
    }

    fn output(tree: &Tree, options: &[&str]) -> String {
        let root = tree.path().to_str().unwrap();
        let words = ["inventory", "--root", root].into_iter().chain(options.iter().copied());
        Cli::try_parse_from(words).unwrap().inventory.output().unwrap()
    }

    #[test]
    fn the_output_is_the_json_and_nothing_else() {
        let tree = machine();
        let plain = output(&tree, &[]);
        let read: api::Inventory = serde_json::from_str(&plain).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), plain);
        assert_eq!((read.disks.len(), read.memory.as_ref().unwrap().usable_bytes), (2, 1 << 20));
        assert_eq!(read.bmc_address, "0.0.0.0");
        let pretty = output(&tree, &["--pretty"]);
        assert!(pretty.lines().count() > 20);
        assert_eq!(serde_json::from_str::<api::Inventory>(&pretty).unwrap(), read);
    }

    #[test]
    fn the_id_alone() {
        assert_eq!(output(&machine(), &["--host-id"]), "856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf board-serial\n");
        assert!(Cli::try_parse_from(["inventory", "--host-id", "--pretty"]).is_err());
    }

    #[test]
    fn limits_of_the_service() {
        let disks = |options: &[&str]| {
            let read: api::Inventory = serde_json::from_str(&output(&machine(), options)).unwrap();
            (read.disks.len(), read.truncation.map(|truncation| truncation.kind))
        };
        assert_eq!(disks(&["--disk-min-size=2000000"]), (1, None));
        assert_eq!(disks(&["--output-max-size=0", "--disk-min-size=0"]), (2, None));
        assert_eq!(disks(&["--output-max-size=100"]), (0, Some("full".to_owned())));
    }

    #[test]
    fn which_gpus_count() {
        let tree = machine();
        tree.add(
            "sys/bus/pci/devices/0000:03:00.0/modalias",
            "pci:v000010DEd000015F8sv00000000sd00000000bc03sc02i00\n",
        );
        tree.add("gpus.yaml", "models: ['1200 1da3 1020']\n").add("bad.yaml", "models: '1200'\n");
        let gpus = |file: &str| {
            let option = format!("--gpu-config-file={}", tree.path().join(file).display());
            serde_json::from_str::<api::Inventory>(&output(&tree, &[&option])).unwrap().gpus.len()
        };
        assert_eq!((gpus("gpus.yaml"), gpus("bad.yaml"), gpus("none.yaml")), (0, 1, 1));
    }

    #[test]
    fn a_root_that_is_none() {
        let cli = Cli::try_parse_from(["inventory", "--root", "/nonexistent"]).unwrap();
        let text = format!("{:#}", cli.inventory.output().unwrap_err());
        assert!(text.starts_with("cannot open /nonexistent as a system root"), "{text}");
    }
}
