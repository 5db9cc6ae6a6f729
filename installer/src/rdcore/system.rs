//! Mounts and block devices: from the tables of the kernel, sysfs, and superblocks.

use anyhow::{Context, anyhow, bail};
use diskwrite::probe::{self, Contents, Kind as Signed, Signature};
use kernel::block::{self, MAX_STACK, linked, nodes};
use kernel::mounts::{Mount, mounts};
use kernel::order::Gather;
use kernel::udev::Udev;
use kernel::{DevNumber, Root, disk};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    path::{Path, PathBuf},
};

const MAX_TABLE_BYTES: usize = 16 << 20;
const EFI_SYSTEM: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";

/// The system below a directory.
#[derive(Debug)]
pub(super) struct System {
    dir: PathBuf,
    pub root: Root,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Disk,
    /// Of a disk, or of a multipath device.
    Partition,
    /// LUKS that was opened.
    Crypt,
    /// The layer of dm-integrity below that.
    Integrity,
    /// With its WWID.
    Multipath(String),
    Raid,
    /// By lsblk's name.
    Other(String),
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// In sysfs.
    pub dir: PathBuf,
    pub kind: Kind,
}

impl Device {
    /// Kernel name.
    fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn node(&self) -> PathBuf {
        Path::new("/dev").join(self.name().replace('!', "/"))
    }
}

impl System {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let root = Root::open(dir).with_context(|| format!("opening {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), root })
    }

    /// Where the file at a path of the system is.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        self.dir.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What is mounted at a path, and not covered by another mount there.
    pub(super) fn mount(&self, at: &Path) -> anyhow::Result<Mount> {
        let table = self.root.read("/proc/self/mountinfo", MAX_TABLE_BYTES).context("reading mount table")?;
        let mut all = mounts(&String::from_utf8_lossy(&table));
        all.retain(|mount| Path::new(&mount.target) == at);
        all.pop().ok_or_else(|| anyhow!("mountpoint {} not found", at.display()))
    }

    /// The device of a mount.
    pub(super) fn device_of(&self, mount: &Mount) -> anyhow::Result<Device> {
        // Some file systems have a number that is not their device's.
        let number = Some(mount.device).filter(|number| number.major != 0);
        let number = number.or_else(|| block::number_of(&self.root, Path::new(&mount.source)));
        let dir = number.and_then(|number| self.root.resolve(format!("/sys/dev/block/{number}")));
        dir.map(|dir| self.device(dir)).with_context(|| format!("{} is not a block device", mount.source))
    }

    fn device(&self, dir: PathBuf) -> Device {
        Device { kind: self.kind(&dir), dir }
    }

    fn attribute(&self, dir: &Path, name: &str) -> Option<String> {
        self.root.attribute(dir.join(name)).filter(|text| !text.is_empty())
    }

    /// By what lsblk takes for the type.
    fn kind(&self, dir: &Path) -> Kind {
        if self.root.exists(dir.join("partition")) {
            return Kind::Partition;
        }
        if self.root.is_dir(dir.join("dm")) {
            let uuid = self.attribute(dir, "dm/uuid").unwrap_or_else(|| "dm".into());
            return match uuid.split_once('-') {
                // The names of it before and since cryptsetup 2.8.
                Some(("CRYPT", rest)) if rest.starts_with("INTEGRITY-") || rest.starts_with("SUBDEV-") => {
                    Kind::Integrity
                }
                Some(("CRYPT", _)) => Kind::Crypt,
                Some(("mpath", wwid)) => Kind::Multipath(wwid.to_owned()),
                Some((part, _)) if part.starts_with("part") => Kind::Partition,
                Some((other, _)) => Kind::Other(other.to_ascii_lowercase()),
                None => Kind::Other("dm".into()),
            };
        }
        if self.root.is_dir(dir.join("md")) {
            let level = self.attribute(dir, "md/level").unwrap_or_else(|| "md".into());
            return if level.starts_with("raid") || level == "linear" { Kind::Raid } else { Kind::Other(level) };
        }
        let is_loop = dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"loop"));
        if is_loop { Kind::Other("loop".into()) } else { Kind::Disk }
    }

    /// The devices right below; of a partition, none.
    pub(super) fn below(&self, device: &Device) -> Vec<Device> {
        linked(&self.root, &device.dir, "slaves").into_iter().map(|dir| self.device(dir)).collect()
    }

    /// All devices below and the device itself, the lowest first, each once.
    pub(super) fn stack(&self, device: &Device) -> Vec<Device> {
        let mut stack = Vec::new();
        self.collect(device, MAX_STACK, &mut stack);
        stack
    }

    fn collect(&self, device: &Device, depth: u32, stack: &mut Vec<Device>) {
        if stack.contains(device) {
            return;
        }
        if depth > 0 {
            self.below(device).iter().for_each(|below| self.collect(below, depth - 1, stack));
        }
        stack.push(device.clone());
    }

    /// Disks and multipath devices at the bottom.
    fn disks(&self, device: &Device, depth: u32, found: &mut BTreeSet<PathBuf>) {
        let is_plain = self.root.exists(device.dir.join("partition"));
        let below = match device.dir.parent() {
            Some(disk) if is_plain => vec![self.device(disk.to_owned())],
            _ => self.below(device),
        };
        if depth == 0 || below.is_empty() || matches!(device.kind, Kind::Multipath(_)) {
            found.insert(device.dir.clone());
        } else {
            below.iter().for_each(|below| self.disks(below, depth - 1, found));
        }
    }

    /// EFI system partitions on the disks of a device.
    pub(super) fn efi_partitions(&self, device: &Device) -> anyhow::Result<Vec<Device>> {
        let mut disks = BTreeSet::new();
        self.disks(device, 2 * MAX_STACK, &mut disks);
        let mut found = Vec::new();
        for dir in disks {
            let disk = self.device(dir);
            let partitions = self.contents(&disk)?.partitions;
            let numbers: Vec<_> = partitions.iter().filter(|p| p.type_id == EFI_SYSTEM).map(|p| p.number).collect();
            if let Kind::Multipath(wwid) = &disk.kind {
                let mapped = linked(&self.root, &disk.dir, "holders");
                let names: Vec<_> = numbers.iter().map(|number| format!("part{number}-mpath-{wwid}")).collect();
                let is_one = |dir: &PathBuf| self.attribute(dir, "dm/uuid").is_some_and(|uuid| names.contains(&uuid));
                found.extend(mapped.into_iter().filter(is_one).map(|dir| self.device(dir)));
            } else {
                let nodes = nodes(&self.root, &disk.dir).with_context(|| format!("reading {}", disk.dir.display()))?;
                let ours = nodes.into_iter().filter(|node| node.partition.is_some_and(|n| numbers.contains(&n)));
                found.extend(ours.map(|node| self.device(node.dir)));
            }
        }
        Ok(found)
    }

    pub(super) fn open_node(&self, device: &Device) -> io::Result<File> {
        File::open(self.path(&device.node()))
    }

    /// What is recognized on a device.
    pub(super) fn contents(&self, device: &Device) -> anyhow::Result<Contents> {
        let failed = || format!("reading {}", device.node().display());
        let file = self.open_node(device).with_context(failed)?;
        // A captured system has files in the place of devices.
        let size = disk::size_bytes(&file).or_else(|_| file.metadata().map(|meta| meta.len())).with_context(failed)?;
        Ok(probe::probe(&file, size, disk::sector_bytes(&file).unwrap_or(512)))
    }

    /// The UUID of the file system of a mount on a device.
    pub(super) fn file_system_uuid(&self, device: &Device, mount: &Mount) -> anyhow::Result<String> {
        let found = self.contents(device)?.signatures;
        // The driver of ext4 mounts those before it too.
        let is_it = |signature: &&Signature| {
            signature.kind.name() == mount.kind || (mount.kind == "ext4" && signature.kind.name().starts_with("ext"))
        };
        let uuid = found.iter().find(is_it).and_then(|signature| signature.uuid.clone());
        uuid.with_context(|| format!("filesystem {} has no UUID", mount.source))
    }

    /// The name of an opened device, and the UUID of its LUKS header.
    pub(super) fn luks(&self, device: &Device) -> anyhow::Result<(String, String)> {
        let node = device.node();
        let name = self.attribute(&device.dir, "dm/name").with_context(|| format!("{} has no name", node.display()))?;
        let mut at = device.clone();
        for _ in 0..MAX_STACK {
            let below = <[_; 1]>::try_from(self.below(&at)).map_err(|below| match below.len() {
                0 => anyhow!("missing parent device for {}", at.node().display()),
                _ => anyhow!("found multiple parent devices for crypt device {}", at.node().display()),
            });
            let [below] = below?;
            if below.kind != Kind::Integrity {
                let header = self.contents(&below)?.signatures.into_iter().find(|found| found.kind == Signed::Luks);
                let uuid = header.and_then(|header| header.uuid);
                return Ok((name, uuid.with_context(|| format!("{} has no LUKS header", below.node().display()))?));
            }
            at = below;
        }
        bail!("the devices below {} have no end", node.display())
    }

    /// The UUID of an array, as mdadm writes it: from its members; where a firmware's RAID has it elsewhere, from udev, which asked mdadm.
    pub(super) fn raid_uuid(&self, device: &Device) -> anyhow::Result<String> {
        let of_member = |member: Device| {
            let found = self.contents(&member).ok()?.signatures;
            let uuid = found.into_iter().find(|found| found.kind == Signed::MdRaid)?.uuid?;
            let digits = uuid.replace('-', "");
            let words: Vec<_> = digits.as_bytes().chunks(8).map(String::from_utf8_lossy).collect();
            Some(words.join(":"))
        };
        let of_udev = || {
            let number = DevNumber::parse(&self.attribute(&device.dir, "dev")?)?;
            Udev::read(&self.root, number, &["MD_UUID"]).get("MD_UUID").map(str::to_owned)
        };
        let found = self.below(device).into_iter().find_map(of_member).or_else(of_udev);
        found.with_context(|| format!("missing MD_UUID for {}", device.node().display()))
    }

    /// All that can hold a file system: disks without partitions, and the others.
    pub(super) fn leaves(&self) -> Vec<Device> {
        let all = self.root.list("/sys/class/block");
        let dirs: BTreeSet<PathBuf> =
            all.iter().filter_map(|name| self.root.resolve(Path::new("/sys/class/block").join(name))).gather();
        // A floppy drive without a disk answers after seconds.
        let is_floppy = |dir: &Path| dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"fd"));
        let is_leaf = |dir: &PathBuf| {
            self.root.number::<u64>(dir.join("size")).is_some_and(|sectors| sectors > 0)
                && !is_floppy(dir)
                && nodes(&self.root, dir).is_ok_and(|nodes| nodes.len() == 1)
        };
        dirs.into_iter().filter(is_leaf).map(|dir| self.device(dir)).collect()
    }

    /// All disks.
    pub(super) fn whole_disks(&self) -> Vec<Device> {
        let dirs =
            self.root.list("/sys/block").into_iter().filter_map(|name| self.root.resolve(format!("/sys/block/{name}")));
        dirs.map(|dir| self.device(dir)).collect()
    }

    /// Whether something is stacked on a device.
    pub(super) fn has_holders(&self, device: &Device) -> bool {
        !linked(&self.root, &device.dir, "holders").is_empty()
    }
}
