//! `rdcore rootmap`: the kernel arguments by which the initramfs of later boots finds the root file system.

use super::kargs::Boot;
use super::system::{Device, Kind, System};
use anyhow::{Context, bail};
use clap::Args;
use diskwrite::KargEdits;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// Below the mounted root: the file system itself, where what is mounted is a deployment in it.
pub(super) const PHYSICAL_ROOT: &str = "sysroot";
/// The distribution's program that says with which options its root is mounted. It knows what the distribution wants, and what the user's
/// Ignition config says; no file or call has that.
const ROOT_FLAGS: &str = "coreos-rootflags";
const MAX_CRYPTTAB_BYTES: usize = 1 << 20;

/// Describe the devices below the root file system in kernel arguments
///
/// They are printed, or appended to those of the boot entry. The lowest device comes first, the root file system last.
#[derive(Debug, Args)]
pub struct Rootmap {
    /// Device with the boot file system whose entry is edited
    #[arg(long, value_name = "DEVPATH", conflicts_with = "boot_mount")]
    boot_device: Option<PathBuf>,
    /// Where the boot file system is mounted whose entry is edited
    #[arg(long, value_name = "BOOT_MOUNT")]
    boot_mount: Option<PathBuf>,
    /// Where the root file system is mounted
    #[arg(value_name = "ROOT_MOUNT")]
    root_mount: PathBuf,
}

impl Rootmap {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let system = System::open(Path::new("/"))?;
        let append = arguments(&system, &self.root_mount, root_flags)?;
        let line = append.join(" ");
        let Some(boot) = Boot::new(self.boot_mount.as_deref(), self.boot_device.as_deref()) else {
            return writeln!(io::stdout(), "{line}").context("printing the arguments");
        };
        let edits = KargEdits { append, ..KargEdits::default() };
        boot.edit(|args| edits.apply(args).map(Some)).context("appending rootmap kargs")?;
        // A closed standard error is not a failure.
        let _ = writeln!(io::stderr(), "Injected kernel arguments into BLS: {line}");
        Ok(())
    }
}

/// What the distribution's program says.
fn root_flags(root_mount: &Path) -> anyhow::Result<String> {
    let output = Command::new(ROOT_FLAGS).arg(root_mount).output().with_context(|| format!("running {ROOT_FLAGS}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{ROOT_FLAGS} {} failed with {}: {}", root_mount.display(), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The arguments for the root file system that is mounted there.
pub(super) fn arguments(
    system: &System,
    root_mount: &Path,
    root_flags: impl FnOnce(&Path) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<String>> {
    system.mount(root_mount)?;
    let mount = system.mount(&root_mount.join(PHYSICAL_ROOT))?;
    let device = system.device_of(&mount)?;
    let mut arguments = Vec::new();
    for device in system.stack(&device) {
        arguments.extend(of_device(system, root_mount, &device)?);
    }
    // By the general name systemd may mount one of the paths, before multipathd has taken them.
    let is_multipath = system.below(&device).iter().any(|below| matches!(below.kind, Kind::Multipath(_)));
    let place = if is_multipath { "/dev/disk/by-uuid/dm-mpath-" } else { "UUID=" };
    arguments.push(format!("root={place}{}", system.file_system_uuid(&device, &mount)?));
    // With root=, systemd mounts it, by default to be read only.
    arguments.push("rw".into());
    let flags = root_flags(root_mount)?;
    if !flags.is_empty() {
        arguments.push(format!("rootflags={flags}"));
    }
    Ok(arguments)
}

fn of_device(system: &System, root_mount: &Path, device: &Device) -> anyhow::Result<Vec<String>> {
    Ok(match &device.kind {
        Kind::Disk | Kind::Partition | Kind::Integrity => Vec::new(),
        Kind::Raid => vec![format!("rd.md.uuid={}", system.raid_uuid(device)?)],
        Kind::Multipath(wwid) => vec![format!("mpath.wwid={wwid}")],
        Kind::Crypt => {
            let (name, uuid) = system.luks(device)?;
            let mut arguments = vec![format!("rd.luks.name={uuid}={name}")];
            if needs_network(system, root_mount, &name)? {
                arguments.extend(["rd.neednet=1".into(), "rd.luks.options=_netdev".into()]);
            }
            arguments
        }
        Kind::Other(kind) => bail!("unknown block device type {kind}"),
    })
}

/// Whether the network is needed to open a device, by crypttab(5): name, device, key, options.
fn needs_network(system: &System, root_mount: &Path, name: &str) -> anyhow::Result<bool> {
    let path = root_mount.join("etc/crypttab");
    let text = system.root.read(&path, MAX_CRYPTTAB_BYTES).with_context(|| format!("opening {}", path.display()))?;
    for line in String::from_utf8_lossy(&text).lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.split_whitespace();
        let (Some(first), Some(_)) = (fields.next(), fields.next()) else {
            bail!("crypttab line missing name or device: {line}");
        };
        if first == name {
            return Ok(fields.nth(1).is_some_and(|options| options.split(',').any(|option| option == "_netdev")));
        }
    }
    bail!("couldn't find {name} in {}", path.display())
}
