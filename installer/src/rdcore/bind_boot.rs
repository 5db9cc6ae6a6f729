//! `rdcore bind-boot`: boot file system, root file system and boot loader learn which belong together.

use super::kargs::Boot;
use super::rootmap::PHYSICAL_ROOT;
use super::system::System;
use anyhow::{Context, bail};
use clap::Args;
use diskwrite::{KargEdits, enter_device};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// For the mount of /boot in the boot that is under way.
const RUNNING: &str = "/run/coreos/bootfs_uuid";
/// On the boot file system, the root file system that it belongs to.
const ROOT_STAMP: &str = ".root_uuid";
/// What GRUB includes.
const GRUB_FILE: &str = "bootuuid.cfg";
const MAX_STAMP_BYTES: usize = 4096;

/// Bind the boot file system to the root file system and the boot loader
///
/// By UUIDs: in the kernel arguments of the boot entry, in GRUB's configuration on the boot file system and on each EFI system partition
/// of its disks, and in a file that names the root file system. A boot file system that is bound to another one is refused.
#[derive(Debug, Args)]
pub struct BindBoot {
    /// Where the root file system is mounted
    #[arg(value_name = "ROOT_MOUNT")]
    root_mount: PathBuf,
    /// Where the boot file system is mounted
    #[arg(value_name = "BOOT_MOUNT")]
    boot_mount: PathBuf,
}

impl BindBoot {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let system = System::open(Path::new("/"))?;
        let (boot_uuid, partitions) = bind(&system, &self.root_mount, &self.boot_mount)?;
        for device in partitions {
            enter_device(&device, &["vfat"], || write_grub(&vendor(Path::new("/"), &device)?, &boot_uuid))??;
        }
        Ok(())
    }
}

/// All but the EFI system partitions, which are returned with the UUID to write there.
pub(super) fn bind(system: &System, root_mount: &Path, boot_mount: &Path) -> anyhow::Result<(String, Vec<PathBuf>)> {
    let uuid_of = |at: &Path| {
        let mount = system.mount(at)?;
        let device = system.device_of(&mount)?;
        system.file_system_uuid(&device, &mount).map(|uuid| (device, uuid))
    };
    let (boot_device, boot_uuid) = uuid_of(boot_mount)?;
    let (_, root_uuid) = uuid_of(&root_mount.join(PHYSICAL_ROOT))?;
    let boot = system.path(boot_mount);
    let edits = KargEdits { append: vec![format!("boot=UUID={boot_uuid}")], ..KargEdits::default() };
    let edit = |args: &str| {
        let is_bound = args.split(' ').any(|arg| arg.starts_with("boot="));
        if is_bound { Ok(None) } else { edits.apply(args).map(Some) }
    };
    if Boot::Mounted(&boot).edit(edit).context("appending boot kargs")? {
        let path = system.path(Path::new(RUNNING));
        path.parent().map_or(Ok(()), fs::create_dir_all).with_context(|| format!("creating {}", path.display()))?;
        write(&path, &format!("{boot_uuid}\n"))?;
    }
    let stamp = boot_mount.join(ROOT_STAMP);
    match system.root.read(&stamp, MAX_STAMP_BYTES) {
        Ok(bound) => {
            // Ignition may run a second time.
            let bound = String::from_utf8_lossy(&bound).trim().to_owned();
            if bound != root_uuid {
                bail!("boot filesystem already bound to a root filesystem (UUID: {})", bound.escape_debug());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write(&boot.join(ROOT_STAMP), &format!("{root_uuid}\n"))?;
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", stamp.display())),
    }
    write_grub(&boot.join("grub2"), &boot_uuid)?;
    let partitions = system.efi_partitions(&boot_device).context("looking for the EFI system partitions")?;
    Ok((boot_uuid, partitions.iter().map(|partition| partition.node()).collect()))
}

fn write_grub(dir: &Path, boot_uuid: &str) -> anyhow::Result<()> {
    write(&dir.join(GRUB_FILE), &format!("set BOOT_UUID=\"{boot_uuid}\"\n"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = fs::File::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("writing {}", path.display()))
}

/// The one directory below EFI with a configuration of GRUB: its name is the vendor's.
pub(super) fn vendor(esp: &Path, device: &Path) -> anyhow::Result<PathBuf> {
    let dir = esp.join("EFI");
    let failed = || format!("listing EFI on {}", device.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(&dir).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        if entry.file_type().with_context(failed)?.is_dir() && entry.path().join("grub.cfg").is_file() {
            found.push(entry.path());
        }
    }
    let found = <[_; 1]>::try_from(found).map_err(|found| {
        let (count, device) = (found.len(), device.display());
        anyhow::anyhow!("Expected one vendor dir on {device}, got {count} ({found:?})")
    });
    found.map(|[dir]| dir)
}
