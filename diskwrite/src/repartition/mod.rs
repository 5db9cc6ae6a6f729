//! Changes a disk's partition table to what a config wants, as Ignition does (docs/compatibility.md#ignition-disks): looks at
//! the disk, plans without writing, and writes both copies of the table so that one of them is whole at any time.

mod place;
mod plan;
mod wanted;

pub use wanted::{Change, Fate, RepartitionError, Wanted};

use crate::disk::{Disk, Geometry};
use crate::gpt::{FindError, Partition, Table, find, put_protective, reads};
use crate::layout::LayoutPartition;
use crate::maps;
use crate::partitions::{self, node_among};
use crate::probe::{Contents, Kind, Signature, Span, probe_part};
use crate::saved::new_guid;
use kernel::{DevNumber, Root, block::nodes};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// What is at either end of a disk with a table: its entries, with the sectors for MBR and header.
const ENTRIES_BYTES: u64 = 16_384;
/// The kernel and udev make the nodes of new partitions.
const NODE_TRIES: u32 = 100;
const NODE_PAUSE: Duration = Duration::from_millis(100);

/// A disk that may be written to, as it is.
#[derive(Debug)]
pub struct Found {
    pub disk: Geometry,
    pub contents: Contents,
    file: File,
    table: Option<Table>,
}

/// What becomes of a disk's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePlan {
    pub disk: Geometry,
    /// Whether it begins with an empty one.
    pub wipe: bool,
    /// In the order in which they are decided.
    pub changes: Vec<Change>,
    /// All partitions afterwards, by number.
    pub partitions: Vec<LayoutPartition>,
    before: Option<Table>,
    after: Option<Table>,
}

impl TablePlan {
    /// One that makes these partitions of an empty table, for tests of those who have further plans.
    #[doc(hidden)]
    pub fn of(disk: Geometry, wipe: bool, changes: Vec<Change>, partitions: Vec<LayoutPartition>) -> Self {
        Self { disk, wipe, changes, partitions, before: None, after: None }
    }

    /// Whether anything is written.
    pub fn writes(&self) -> bool {
        self.wipe || self.before != self.after
    }
}

/// Looks at a disk by any of its names. One that is in use, or may not be written to otherwise, is an error; so is a damaged
/// table, unless it is wiped.
pub fn inspect(device: &Path, wipe: bool) -> Result<Found, RepartitionError> {
    let inspection = Disk::inspect(device)?;
    if let Some(refusal) = inspection.refusals.into_iter().next() {
        return Err(refusal.into());
    }
    let disk = inspection.geometry;
    let file = File::open(&disk.path).map_err(|source| RepartitionError::Open { device: disk.path.clone(), source })?;
    let table = match find_table(&file, &disk) {
        Err(source) if !wipe => return Err(RepartitionError::Find { device: disk.path, source }),
        table => table.ok().flatten(),
    };
    Ok(Found { disk, contents: inspection.contents, file, table })
}

fn find_table(file: &File, disk: &Geometry) -> Result<Option<Table>, FindError> {
    Ok(find(&mut reads(file), disk.size_bytes, disk.sector_bytes)?.map(|found| found.table))
}

impl Found {
    /// What is in a part of the disk, whether that is a partition yet or not.
    pub fn signatures(&self, start: u64, len: u64) -> Vec<Signature> {
        probe_part(&self.file, Span { offset: start, len }, self.disk.sector_bytes)
    }

    /// What becomes of the table. Without anything wanted of it, it stays.
    pub fn plan(&self, wipe: bool, wanted: &[Wanted]) -> Result<TablePlan, RepartitionError> {
        let (disk, before) = (self.disk.clone(), self.table.clone());
        let other =
            self.contents.signatures.iter().map(|found| found.kind).find(|kind| kind.is_table() && *kind != Kind::Gpt);
        if let Some(kind) = other.filter(|_| before.is_none() && !wipe && !wanted.is_empty()) {
            return Err(RepartitionError::OtherTable { device: disk.path, kind });
        }
        let (after, changes) = if wanted.is_empty() {
            (before.clone().filter(|_| !wipe), Vec::new())
        } else {
            let base = match before.clone().filter(|_| !wipe) {
                Some(mut table) => {
                    table.resize(disk.size_bytes)?;
                    table
                }
                None => Table::new(disk.size_bytes, disk.sector_bytes, new_guid())?,
            };
            let (after, changes) = plan::plan(&base, wanted, &mut new_guid)?;
            let is_same = !wipe && changes.iter().all(|change| change.fate == Fate::Keep);
            (if is_same { before.clone() } else { Some(after) }, changes)
        };
        let partitions = after.as_ref().map(LayoutPartition::all).transpose()?.unwrap_or_default();
        Ok(TablePlan { disk, wipe, changes, partitions, before, after })
    }
}

/// Writes the planned table and makes the kernel know it. The disk must be what it was when the plan was made.
pub fn apply(plan: &TablePlan) -> Result<(), RepartitionError> {
    if !plan.writes() {
        return Ok(());
    }
    let device = || plan.disk.path.clone();
    let disk = Disk::open(&plan.disk.path)?;
    if *disk.geometry() != plan.disk || find_table(disk.file(), &plan.disk).ok().flatten() != plan.before {
        return Err(RepartitionError::Changed { device: device() });
    }
    write(disk.file(), plan).map_err(|source| RepartitionError::Write { device: device(), source })?;
    let table = plan.after.as_ref().map(Table::partitions).transpose()?.unwrap_or_default();
    partitions::reread_as(&disk, &table).map_err(|source| RepartitionError::Kernel { device: device(), source })
}

/// The backup first: as long as the primary is the old one, that is the table.
fn write(disk: &File, plan: &TablePlan) -> io::Result<()> {
    let sector = u64::from(plan.disk.sector_bytes);
    let zeros = |bytes: u64| vec![0; usize::try_from(bytes).unwrap_or_default()];
    let (tail_offset, tail, head) = match &plan.after {
        Some(table) => {
            let (offset, backup) = table.backup();
            (offset, backup, table.primary())
        }
        None => {
            let tail = ENTRIES_BYTES + sector;
            (plan.disk.size_bytes.saturating_sub(tail), zeros(tail), zeros(ENTRIES_BYTES + sector))
        }
    };
    disk.write_all_at(&tail, tail_offset)?;
    disk.sync_all()?;
    // Boot code beside a table that is changed stays.
    if plan.wipe || plan.before.is_none() {
        let mut first = zeros(sector);
        if plan.after.is_some() {
            put_protective(&mut first, plan.disk.size_bytes / sector.max(1));
        }
        disk.write_all_at(&first, 0)?;
    }
    disk.write_all_at(&head, sector)?;
    disk.sync_all()
}

/// The device node of a partition that the kernel has in the same place; waits for one that is new.
pub fn node(disk: &Geometry, partition: &LayoutPartition) -> Result<PathBuf, RepartitionError> {
    let LayoutPartition { number, start, len, .. } = *partition;
    let wanted = Partition { number, name: String::new(), start, len };
    let find = || -> Option<PathBuf> {
        let device = DevNumber::from_raw(fs::metadata(&disk.path).ok()?.rdev());
        let sysfs = fs::canonicalize(format!("/sys/dev/block/{device}")).ok()?;
        let root = Root::open("/").ok()?;
        node_among(nodes(&root, &sysfs).ok()?, &wanted).or_else(|| maps::node(&root, &sysfs, number, len))
    };
    for _ in 0..NODE_TRIES {
        if let Some(node) = find() {
            return Ok(node);
        }
        thread::sleep(NODE_PAUSE);
    }
    Err(RepartitionError::NoNode { device: disk.path.clone(), number })
}

/// Whether the kernel makes no partitions of the disk, but udev, in its own time: a multipath device's.
pub fn is_mapped(disk: &Geometry) -> bool {
    let device = fs::metadata(&disk.path).map(|found| DevNumber::from_raw(found.rdev()));
    let sysfs = device.ok().and_then(|device| fs::canonicalize(format!("/sys/dev/block/{device}")).ok());
    sysfs.is_some_and(|sysfs| Root::open("/").is_ok_and(|root| maps::is_mapped(&root, &sysfs)))
}

/// Zeroes the magic numbers of all that is recognized on an open device of `len` bytes.
pub fn erase(device: &File, len: u64, sector_bytes: u32) -> io::Result<()> {
    // What lies below another signature is recognized only then.
    for _ in 0..8 {
        let found = probe_part(device, Span { offset: 0, len }, sector_bytes);
        let magics: Vec<_> = found.iter().flat_map(|signature| &signature.magics).collect();
        if magics.is_empty() {
            break;
        }
        for magic in magics {
            device.write_all_at(&vec![0; usize::try_from(magic.len).unwrap_or_default()], magic.offset)?;
        }
        device.sync_all()?;
    }
    Ok(())
}
