//! The disk to write: opened exclusively, and only if it is a whole, writable disk that is not in use.

use crate::identity::{self, Change, DiskIdentity, ResolveError, multipath_of};
use crate::in_use::{Use, uses};
use crate::maps;
use crate::probe::{Contents, Kind, probe};
use crate::release::mapper::Mapped;
use kernel::{
    DevNumber, Root,
    block::{Node, Usage, holders, nodes, number_of},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Why a path is not a disk to write to. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No disk, or no single one, goes by the name.
    #[error(transparent)]
    Name(#[from] ResolveError),
    /// There is nothing, or it can't be opened.
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// Something else than a block device.
    #[error("{} is not a disk but a {kind}: choose a disk such as /dev/sda", path.display())]
    NotADisk { path: PathBuf, kind: &'static str },
    #[error("{} is partition {number} of {disk}: choose the whole disk", path.display())]
    Partition {
        path: PathBuf,
        number: u32,
        /// Kernel name of its disk.
        disk: String,
    },
    /// The image would be read from where it is written to.
    #[error("the image {image} is the target disk {} or one of its partitions: choose another disk", path.display())]
    OwnImage {
        /// Links resolved.
        path: PathBuf,
        /// The image as given.
        image: String,
    },
    /// An optical drive, or a card reader without a card.
    #[error("{} has no medium to write an image to", path.display())]
    NoMedium {
        /// Links resolved.
        path: PathBuf,
    },
    /// What runs here came from it.
    #[error("{} is the medium this system was booted from ({sign}): choose another disk", path.display())]
    BootMedium {
        /// Links resolved.
        path: PathBuf,
        /// By what it was recognized.
        sign: String,
    },
    /// One of several paths to a disk.
    #[error("{} is one path of the multipath device {mapper}: use /dev/mapper/{mapper}", path.display())]
    MultipathMember {
        /// Links resolved.
        path: PathBuf,
        /// Device mapper name of the whole.
        mapper: String,
    },
    /// Not the disk that was checked.
    #[error("{} changed since it was checked: {}", path.display(), join(changes))]
    Changed {
        /// Links resolved.
        path: PathBuf,
        /// What differs; not empty.
        changes: Vec<Change>,
    },
    /// The kernel allows no writes.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// Links resolved.
        path: PathBuf,
    },
    #[error("{} is in use: {}{}", path.display(), join(uses), release_hint(path, uses))]
    InUse {
        /// Links resolved.
        path: PathBuf,
        /// By what; not empty.
        uses: Vec<Use>,
    },
    /// Something that can't be seen from here has claimed it, such as a mount in another namespace.
    #[error("{0} is in use by a process or mount that cannot be seen from here (see `landfall wipe --release --dry-run {0}`)", path.display())]
    Claimed {
        /// Links resolved.
        path: PathBuf,
    },
    /// They would keep the disk from being claimed.
    #[error("cannot remove the idle partition maps of {}", path.display())]
    Maps { path: PathBuf, source: io::Error },
    /// The kernel does not report something that must be known.
    #[error("cannot read the {what} of {}", path.display())]
    Query {
        /// Links resolved.
        path: PathBuf,
        what: &'static str,
        source: io::Error,
    },
    /// Too small for what is written before the image.
    #[error("{} has only {}, too little for any image", path.display(), kernel::units::binary(*size_bytes))]
    TooSmall {
        /// Links resolved.
        path: PathBuf,
        size_bytes: u64,
    },
}

fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join("; ")
}

/// What to do about idle devices on the disk.
fn release_hint(path: &Path, uses: &[Use]) -> String {
    if uses.iter().any(|used| matches!(used, Use::Held { .. })) {
        format!(" (`landfall wipe --release {}` takes down idle volumes and arrays)", path.display())
    } else {
        String::new()
    }
}

/// What is known of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Device node, links resolved.
    pub path: PathBuf,
    /// Size in bytes (`BLKGETSIZE64`).
    pub size_bytes: u64,
    /// Logical sector size in bytes (`BLKSSZGET`).
    pub sector_bytes: u32,
}

/// What is found out about a disk without write access to it.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub geometry: Geometry,
    pub identity: DiskIdentity,
    pub contents: Contents,
    /// Why it is not written to; empty if it may be.
    pub refusals: Vec<DiskError>,
    /// Disks with the same WWN that no multipath device holds together.
    pub twins: Vec<String>,
}

/// A disk that is to be made free.
#[derive(Debug)]
pub(crate) struct Target {
    /// Links resolved.
    pub path: PathBuf,
    pub sysfs: PathBuf,
    /// What speaks against it but its users.
    pub refusals: Vec<DiskError>,
}

/// An open disk that has no other user.
#[derive(Debug)]
pub(crate) struct Disk {
    root: Root,
    geometry: Geometry,
    identity: DiskIdentity,
    sysfs: PathBuf,
    number: DevNumber,
    file: File,
}

/// Less can't hold a head and a tail of one MiB.
const MIN_BYTES: u64 = 4 << 20;
/// udev may hold the lock while it looks at the disk.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Where a live system has its medium mounted: dracut's dmsquash-live, and CoreOS's (docs/compatibility.md#installer-config-files).
pub(crate) const LIVE_MOUNTS: [&str; 3] = ["/run/initramfs/live", "/run/media/iso", "/run/live/medium"];

/// A block device that is a whole disk.
struct Found {
    root: Root,
    path: PathBuf,
    sysfs: PathBuf,
    number: DevNumber,
    identity: DiskIdentity,
}

impl Found {
    /// Resolves what a disk was called to one, whatever its state.
    fn new(given: &Path) -> Result<Self, DiskError> {
        let root = Root::open("/").map_err(|source| DiskError::Open { path: "/".into(), source })?;
        let given = identity::resolve(&root, given)?;
        let open_error = |source| DiskError::Open { path: given.clone(), source };
        let path = fs::canonicalize(&given).map_err(open_error)?;
        let meta = fs::metadata(&path).map_err(open_error)?;
        if let Some(kind) = other_kind(meta.file_type()) {
            return Err(DiskError::NotADisk { path: given, kind });
        }
        let number = DevNumber::from_raw(meta.rdev());
        let sysfs_error = |source| DiskError::Query { path: path.clone(), what: "sysfs entry", source };
        let sysfs = fs::canonicalize(format!("/sys/dev/block/{number}")).map_err(sysfs_error)?;
        if let Ok(text) = fs::read_to_string(sysfs.join("partition")) {
            let disk = sysfs.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
            return Err(DiskError::Partition { path: given, number: text.trim().parse().unwrap_or_default(), disk });
        }
        let identity = DiskIdentity::read_dir(&root, &sysfs)
            .ok_or_else(|| sysfs_error(io::Error::from(io::ErrorKind::InvalidData)))?;
        Ok(Self { root, path, sysfs, number, identity })
    }

    /// All that speaks against writing to it, but what only its size and content tell.
    fn refusals(&self) -> Result<Vec<DiskError>, DiskError> {
        let path = || self.path.clone();
        let query = |what| move |source| DiskError::Query { path: self.path.clone(), what, source };
        let mut found = Vec::new();
        if self.identity.name.starts_with("sr") || self.identity.size_bytes == 0 {
            found.push(DiskError::NoMedium { path: path() });
        }
        let uses = self.uses().map_err(query("users"))?;
        let is_live = |used: &&Use| matches!(used, Use::Mounted { at, .. } if LIVE_MOUNTS.iter().any(|live| at == Path::new(live)));
        if let Some(used) = uses.iter().find(is_live) {
            found.push(DiskError::BootMedium { path: path(), sign: used.to_string() });
        }
        if let Some((kernel, mapper)) = multipath_of(&self.root, &self.identity.name) {
            let mapper = if mapper.is_empty() { kernel } else { mapper };
            found.push(DiskError::MultipathMember { path: path(), mapper });
        }
        let read_only = fs::read_to_string(self.sysfs.join("ro")).map_err(query("read-only flag"))?;
        if read_only.trim() != "0" {
            found.push(DiskError::ReadOnly { path: path() });
        }
        if !uses.is_empty() && maps::idle(&self.root, &self.sysfs, &uses).is_empty() {
            found.push(DiskError::InUse { path: path(), uses });
        }
        Ok(found)
    }

    fn uses(&self) -> io::Result<Vec<Use>> {
        let number_of = |path: &Path| number_of(&self.root, path);
        let holders = |node: &Node| holders(&self.root, &node.dir);
        Ok(uses(&nodes(&self.root, &self.sysfs)?, &Usage::read(&self.root)?, &number_of, &holders))
    }

    /// Partitions of a multipath device that nothing uses, if nothing else uses the disk.
    fn idle_maps(&self) -> Result<Vec<Mapped>, DiskError> {
        let query = |source| DiskError::Query { path: self.path.clone(), what: "users", source };
        Ok(maps::idle(&self.root, &self.sysfs, &self.uses().map_err(query)?))
    }

    /// Opens it, and makes sure that it is what was looked at: the node may have been replaced.
    fn open(&self, write: bool, flags: i32) -> Result<File, DiskError> {
        let error = |source| DiskError::Open { path: self.path.clone(), source };
        let file = match OpenOptions::new().read(true).write(write).custom_flags(flags).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(DiskError::Claimed { path: self.path.clone() });
            }
            Err(source) => return Err(error(source)),
        };
        let opened = file.metadata().map_err(error)?;
        if DevNumber::from_raw(opened.rdev()) != self.number || !opened.file_type().is_block_device() {
            return Err(error(io::Error::other("the device node changed while it was being opened")));
        }
        Ok(file)
    }

    fn geometry(&self, file: &File) -> Result<Geometry, DiskError> {
        let query = |what| move |source| DiskError::Query { path: self.path.clone(), what, source };
        Ok(Geometry {
            path: self.path.clone(),
            size_bytes: kernel::disk::size_bytes(file).map_err(query("size"))?,
            sector_bytes: kernel::disk::sector_bytes(file).map_err(query("sector size"))?,
        })
    }
}

/// The label of the live ISO in the kernel's arguments (docs/compatibility.md#iso-areas).
fn live_label(cmdline: &str) -> Option<&str> {
    cmdline.split_whitespace().find_map(|arg| arg.strip_prefix("coreos.liveiso=")).filter(|label| !label.is_empty())
}

/// By which content a disk is the boot medium.
fn live_sign(contents: &Contents, label: &str) -> Option<String> {
    let parts = contents.partitions.iter().flat_map(|partition| &partition.signatures);
    let mut all = contents.signatures.iter().chain(parts);
    let is_it = |kind, found: Option<&str>| kind == Kind::Iso9660 && found == Some(label);
    all.any(|signature| is_it(signature.kind, signature.label.as_deref()))
        .then(|| format!("it holds the ISO '{label}'"))
}

impl Disk {
    /// Opens the disk for writing, claiming it (`O_EXCL`) against mounts and the like as long as it is open.
    pub(crate) fn open(given: &Path) -> Result<Self, DiskError> {
        let found = Found::new(given)?;
        match found.refusals()?.into_iter().next() {
            Some(refusal) => Err(refusal),
            None => {
                let error = |source| DiskError::Maps { path: found.path.clone(), source };
                maps::remove(&found.idle_maps()?).map_err(error)?;
                Self::opened(found, libc::O_EXCL)
            }
        }
    }

    /// As [`open`](Self::open), for callers that put back what was there: idle volumes and arrays on the disk do not
    /// count as use. The disk then can't be claimed, since they hold it.
    pub(crate) fn open_beside_idle(given: &Path) -> Result<Self, DiskError> {
        let found = Found::new(given)?;
        let mut flags = if found.idle_maps()?.is_empty() { libc::O_EXCL } else { 0 };
        for refusal in found.refusals()? {
            match refusal {
                DiskError::InUse { uses, .. } if maps::has_idle_holders_only(&found.root, &found.sysfs, &uses) => {
                    flags = 0;
                }
                refusal => return Err(refusal),
            }
        }
        Self::opened(found, flags)
    }

    fn opened(found: Found, flags: i32) -> Result<Self, DiskError> {
        let file = found.open(true, flags)?;
        let geometry = found.geometry(&file)?;
        if geometry.size_bytes < MIN_BYTES {
            return Err(DiskError::TooSmall { path: geometry.path, size_bytes: geometry.size_bytes });
        }
        refuse_live_medium(&file, &geometry)?;
        Ok(Self {
            root: found.root,
            geometry,
            identity: found.identity,
            sysfs: found.sysfs,
            number: found.number,
            file,
        })
    }

    /// What a path means if the disk is to be made free.
    pub(crate) fn target(given: &Path) -> Result<Target, DiskError> {
        let found = Found::new(given)?;
        let is_other = |refusal: &DiskError| !matches!(refusal, DiskError::InUse { .. } | DiskError::BootMedium { .. });
        let mut refusals: Vec<_> = found.refusals()?.into_iter().filter(is_other).collect();
        if !refusals.iter().any(|refusal| matches!(refusal, DiskError::NoMedium { .. })) {
            let file = found.open(false, 0)?;
            // That it is mounted is seen with the other users.
            refusals.extend(refuse_live_medium(&file, &found.geometry(&file)?).err());
        }
        Ok(Target { path: found.path, sysfs: found.sysfs, refusals })
    }

    /// Finds out all about the disk, what speaks against writing to it too, without write access.
    pub(crate) fn inspect(given: &Path) -> Result<Inspection, DiskError> {
        let found = Found::new(given)?;
        let mut refusals = found.refusals()?;
        // Not even a drive without a medium is opened.
        if refusals.iter().any(|refusal| matches!(refusal, DiskError::NoMedium { .. })) {
            let DiskIdentity { size_bytes, sector_bytes, .. } = found.identity;
            let geometry = Geometry { path: found.path, size_bytes, sector_bytes };
            let contents = Contents::default();
            return Ok(Inspection { geometry, identity: found.identity, contents, refusals, twins: Vec::new() });
        }
        if refusals.is_empty() && found.idle_maps()?.is_empty() {
            match found.open(false, libc::O_EXCL) {
                Err(claimed @ DiskError::Claimed { .. }) => refusals.push(claimed),
                other => drop(other?),
            }
        }
        let file = found.open(false, 0)?;
        let geometry = found.geometry(&file)?;
        if geometry.size_bytes < MIN_BYTES {
            let (path, size_bytes) = (geometry.path.clone(), geometry.size_bytes);
            refusals.push(DiskError::TooSmall { path, size_bytes });
        }
        if let Err(refusal) = refuse_live_medium(&file, &geometry) {
            refusals.push(refusal);
        }
        let contents = probe(&file, geometry.size_bytes, geometry.sector_bytes);
        let twins = found.identity.twins(&found.root);
        Ok(Inspection { geometry, identity: found.identity, contents, refusals, twins })
    }

    /// Whether it still is the disk that was opened, just before the first write: waiting for the source may have taken
    /// long, and what hangs on a cable can be pulled.
    pub(crate) fn check_unchanged(&self) -> Result<(), DiskError> {
        let path = &self.geometry.path;
        let gone = || Change { what: "device".to_owned(), was: "present".to_owned(), is: "gone".to_owned() };
        let changed = |changes| DiskError::Changed { path: path.clone(), changes };
        let meta = fs::metadata(path).map_err(|_| changed(vec![gone()]))?;
        let node = DevNumber::from_raw(meta.rdev());
        let now = DiskIdentity::read_dir(&self.root, &self.sysfs).ok_or_else(|| changed(vec![gone()]))?;
        let mut changes = self.identity.changes(&now);
        let mut differs = |what: &str, was: String, is: String| {
            if was != is {
                changes.push(Change { what: what.to_owned(), was, is });
            }
        };
        differs("device node", self.number.to_string(), node.to_string());
        let size = kernel::disk::size_bytes(&self.file).map_err(|source| DiskError::Query {
            path: path.clone(),
            what: "size",
            source,
        })?;
        differs("size in bytes", self.geometry.size_bytes.to_string(), size.to_string());
        if changes.is_empty() { Ok(()) } else { Err(changed(changes)) }
    }

    /// Whether the kernel has lost it: what is open still then has no size any more.
    pub(crate) fn is_gone(&self) -> bool {
        !self.sysfs.exists() || !kernel::disk::size_bytes(&self.file).is_ok_and(|size| size > 0)
    }

    /// What is known of it.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// All its names.
    pub(crate) fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    /// The claimed descriptor.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The partitions the kernel knows at the moment, by number.
    pub(crate) fn partitions(&self) -> io::Result<Vec<Node>> {
        Ok(nodes(&self.root, &self.sysfs)?.into_iter().filter(|node| node.partition.is_some()).collect())
    }

    /// Gives up the claim, which would keep a partition from being mounted, and locks the disk instead: udev leaves a
    /// locked disk alone (systemd's "Locking Block Device Access"), so that it does not reread the table under us.
    pub(crate) fn release(&mut self) -> Result<(), DiskError> {
        let path = &self.geometry.path;
        let error = |source| DiskError::Open { path: path.clone(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(error)?;
        if DevNumber::from_raw(file.metadata().map_err(error)?.rdev()) != self.number {
            return Err(error(io::Error::other("the device node changed during the installation")));
        }
        let mut tries = LOCK_TRIES;
        // The lock is a courtesy: without it a conflict is unlikely.
        while file.try_lock().is_err() && tries > 0 {
            tries -= 1;
            thread::sleep(LOCK_PAUSE);
        }
        self.file = file;
        Ok(())
    }
}

/// Looks for the live ISO, which need not be mounted, if the kernel's arguments name one.
fn refuse_live_medium(file: &File, geometry: &Geometry) -> Result<(), DiskError> {
    let cmdline = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let Some(label) = live_label(&cmdline) else { return Ok(()) };
    match live_sign(&probe(file, geometry.size_bytes, geometry.sector_bytes), label) {
        Some(sign) => Err(DiskError::BootMedium { path: geometry.path.clone(), sign }),
        None => Ok(()),
    }
}

fn other_kind(kind: fs::FileType) -> Option<&'static str> {
    if kind.is_block_device() {
        None
    } else if kind.is_dir() {
        Some("directory")
    } else if kind.is_file() {
        Some("regular file")
    } else if kind.is_char_device() {
        Some("character device")
    } else if kind.is_fifo() {
        Some("pipe")
    } else {
        Some("socket")
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
