//! Requests to the kernel while a disk is made free.

use super::mapper::{Mapped, Mapper};
use crate::probe::probe;
use kernel::{DevNumber, Root, block::Usage};
use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// A process that has a device open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Opener {
    pub number: DevNumber,
    pub pid: u32,
    pub program: String,
}

const ROUNDS: u32 = 8;

/// The kernel; tests have their own.
pub(super) trait Kernel {
    fn usage(&self) -> io::Result<Usage>;
    /// The number of the block device at a path.
    fn number_of(&self, path: &Path) -> Option<DevNumber>;
    /// Processes that have one of these open.
    fn openers(&self, numbers: &BTreeSet<DevNumber>) -> Vec<Opener>;
    /// Whether the device of this kernel name, or a part of it, is claimed exclusively.
    fn is_claimed(&self, name: &str, number: DevNumber) -> bool;
    /// How often a mapped device is open, by its holders too.
    fn open_count(&self, device: &Mapped) -> io::Result<u32>;
    /// Makes a mapped device of so many sectors fail all requests, if its kind allows.
    fn cut(&self, device: &Mapped, sectors: u64) -> io::Result<bool>;
    fn remove(&self, device: &Mapped) -> io::Result<()>;
    /// Erases the signatures of what is in a device that lies on this disk alone; best effort.
    fn forget_contents(&self, name: &str, number: DevNumber) -> io::Result<()>;
    /// Writes an attribute of sysfs.
    fn write(&self, attribute: &Path, value: &str) -> io::Result<()>;
    /// Sleeps.
    fn pause(&self, time: Duration);
}

/// The names in a directory; none where there is no such directory.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The running one.
pub(super) struct Live;

impl Kernel for Live {
    fn usage(&self) -> io::Result<Usage> {
        Usage::read(&Root::open("/")?)
    }

    fn number_of(&self, path: &Path) -> Option<DevNumber> {
        DevNumber::of_block_device(path)
    }

    fn openers(&self, numbers: &BTreeSet<DevNumber>) -> Vec<Opener> {
        let mut found = BTreeSet::new();
        for pid in names(Path::new("/proc")).iter().filter_map(|name| name.parse::<u32>().ok()) {
            if pid == std::process::id() {
                continue;
            }
            let dir = PathBuf::from(format!("/proc/{pid}/fd"));
            for open in names(&dir).iter().filter_map(|fd| self.number_of(&dir.join(fd))) {
                if numbers.contains(&open) {
                    let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                    found.insert(Opener { number: open, pid, program: program.trim().to_owned() });
                }
            }
        }
        found.into_iter().collect()
    }

    fn is_claimed(&self, name: &str, number: DevNumber) -> bool {
        let node = Path::new("/dev").join(name.replace('!', "/"));
        // A node of another device, or a missing one, says nothing.
        self.number_of(&node) == Some(number)
            && matches!(
                OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&node),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY)
            )
    }

    fn open_count(&self, device: &Mapped) -> io::Result<u32> {
        Ok(Mapper::open(Path::new("/"))?.status(device)?.open_count)
    }

    fn cut(&self, device: &Mapped, sectors: u64) -> io::Result<bool> {
        Mapper::open(Path::new("/"))?.cut(device, sectors)
    }

    fn remove(&self, device: &Mapped) -> io::Result<()> {
        Mapper::open(Path::new("/"))?.remove(device)
    }

    fn forget_contents(&self, name: &str, number: DevNumber) -> io::Result<()> {
        let node = Path::new("/dev").join(name.replace('!', "/"));
        if self.number_of(&node) != Some(number) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(&node)?;
        let (len, sector_bytes) = (kernel::disk::size_bytes(&file)?, kernel::disk::sector_bytes(&file)?);
        // What lies below another signature is recognized only then.
        for _ in 0..ROUNDS {
            let found = probe(&file, len, sector_bytes);
            let inside = found.partitions.iter().flat_map(|partition| &partition.signatures);
            let magics: Vec<_> = inside.chain(&found.signatures).flat_map(|signature| &signature.magics).collect();
            if magics.is_empty() {
                break;
            }
            for magic in magics.into_iter().filter(|magic| magic.end() <= len) {
                file.write_all_at(&vec![0; usize::try_from(magic.len).unwrap_or_default()], magic.offset)?;
            }
            file.sync_all()?;
        }
        Ok(())
    }

    fn write(&self, attribute: &Path, value: &str) -> io::Result<()> {
        fs::write(attribute, value)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
