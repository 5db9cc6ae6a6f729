//! What the kernel knows of a disk's partitions: made to forget them, and to know those of a table in memory.
//!
//! `BLKRRPART` alone is not enough: a kernel without a parser for GPT succeeds and makes no nodes, some devices refuse it,
//! and it can only read a table that is on the disk already.

use crate::disk::Disk;
use crate::gpt::Partition;
use kernel::block::Node;
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// A udev worker may have a partition open for a moment.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A partition the kernel will not let go.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The kernel's list can't be read.
    #[error("cannot list the partitions of {}", device.display())]
    List { device: PathBuf, source: io::Error },
    #[error("cannot remove partition {name} from the kernel's list: is a program using it?")]
    Forget { name: String, source: io::Error },
}

fn list(disk: &Disk) -> Result<Vec<Node>, PartitionError> {
    disk.partitions().map_err(|source| PartitionError::List { device: disk.geometry().path.clone(), source })
}

/// Removes all partitions from the kernel's list, so that nothing of what they held in memory reaches the disk later.
/// After a failure the list is what the table on the disk says.
pub(crate) fn forget(disk: &Disk) -> Result<(), PartitionError> {
    for node in list(disk)? {
        let Some(number) = node.partition else { continue };
        let removed = while_busy(|| kernel::disk::delete_partition(disk.file(), number));
        if let Err(source) = removed {
            reread(disk);
            return Err(PartitionError::Forget { name: node.name, source });
        }
    }
    Ok(())
}

/// Asks the kernel to read the table on the disk; it may be unable to.
pub(crate) fn reread(disk: &Disk) {
    if let Err(error) = while_busy(|| kernel::disk::reread_partition_table(disk.file())) {
        tracing::debug!(%error, "the kernel cannot read the partition table");
    }
}

/// Makes the kernel know exactly these partitions, whatever is on the disk. A kernel that can't leaves them without nodes.
pub(crate) fn announce(disk: &Disk, table: &[Partition]) -> Result<(), PartitionError> {
    let mut known = Vec::new();
    for node in list(disk)? {
        match table.iter().find(|partition| matches(&node, partition)) {
            Some(partition) => known.push(partition.number),
            None => {
                let number = node.partition.unwrap_or_default();
                while_busy(|| kernel::disk::delete_partition(disk.file(), number))
                    .map_err(|source| PartitionError::Forget { name: node.name, source })?;
            }
        }
    }
    for partition in table.iter().filter(|partition| !known.contains(&partition.number)) {
        let added =
            while_busy(|| kernel::disk::add_partition(disk.file(), partition.number, partition.start, partition.len));
        if let Err(error) = added {
            tracing::warn!(number = partition.number, %error, "the kernel does not accept a partition");
        }
    }
    Ok(())
}

/// Lets the kernel read the new table from the disk, and makes up for what it misses.
pub(crate) fn reread_as(disk: &Disk, table: &[Partition]) -> Result<(), PartitionError> {
    reread(disk);
    announce(disk, table)
}

fn matches(node: &Node, partition: &Partition) -> bool {
    // sysfs counts in units of 512 bytes, whatever the sector size.
    let number = |file| fs::read_to_string(node.dir.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok());
    node.partition == Some(partition.number)
        && number("start") == Some(partition.start / 512)
        && number("size") == Some(partition.len / 512)
}

/// The device node of a partition, if the kernel knows it and a node for it is in `/dev`.
pub(crate) fn node_of(disk: &Disk, partition: &Partition) -> Option<PathBuf> {
    node_among(disk.partitions().ok()?, partition)
}

/// The same among what sysfs lists of a disk.
pub(crate) fn node_among(nodes: Vec<Node>, partition: &Partition) -> Option<PathBuf> {
    let node = nodes.into_iter().find(|node| matches(node, partition))?;
    let uevent = fs::read_to_string(node.dir.join("uevent")).ok()?;
    let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    let path = Path::new("/dev").join(name);
    let meta = fs::metadata(&path).ok()?;
    let same = meta.file_type().is_block_device() && kernel::DevNumber::from_raw(meta.rdev()) == node.number;
    same.then_some(path)
}

fn while_busy(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut tries = TRIES;
    loop {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries > 0 => tries -= 1,
            result => return result,
        }
        thread::sleep(PAUSE);
    }
}
