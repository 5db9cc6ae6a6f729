//! Empties a disk: a ladder from forgetting what is on it to overwriting all of it.
//!
//! The disk is claimed for as long as it takes. Whatever the level, nothing recognizes anything on it afterwards: that is
//! looked at again, from the medium, and the report says what was really done.

pub(crate) mod ata;
mod erase;
mod error;
pub(crate) mod nvme;
mod secure;
mod zero;

use crate::{
    disk::{Disk, DiskError, Geometry},
    identity::DiskIdentity,
    partitions,
    plan::{Fate, OldPartition},
    probe::{Contents, Span, probe},
    release::{self, Takedown},
};
use kernel::{Cancel, in_full, units::binary};
use serde::{Deserialize, Serialize};
use std::{
    fmt, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

pub use error::WipeError;

/// Of the documents' shape.
const SCHEMA_VERSION: u32 = 1;

/// How far to go; each level also does away with what the ones before it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The magic numbers of partition tables, file systems, RAID and the like are zeroed: nothing recognizes the old
    /// contents, which are all still there.
    #[default]
    Signatures,
    /// The disk may forget everything. Whether it does is up to it.
    Discard,
    /// Every byte reads as zero. Blocks that the disk has set aside may keep old contents.
    Zero,
    /// The disk erases itself by its own command: NVMe Format or Sanitize, ATA SECURITY ERASE UNIT.
    Secure,
}

impl Level {
    /// From the weakest on.
    pub const ALL: [Self; 4] = [Self::Signatures, Self::Discard, Self::Zero, Self::Secure];

    /// What it does, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Signatures => "erase all magic numbers, until none is found; all other bytes are unchanged",
            Self::Discard => "tell the disk to forget everything; it promises nothing about the contents",
            Self::Zero => "make every byte read as zero",
            Self::Secure => {
                "let the disk erase itself by its own command (NVMe Format or Sanitize, ATA security erase)"
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signatures => "signatures",
            Self::Discard => "discard",
            Self::Zero => "zero",
            Self::Secure => "secure",
        })
    }
}

#[derive(Clone, Debug)]
pub struct WipeOptions {
    /// A whole disk.
    pub device: PathBuf,
    /// How far.
    pub level: Level,
    /// First take down the idle devices on the disk.
    pub release: bool,
    /// Go on with a weaker level when the disk can't do this one.
    pub allow_weaker: bool,
    /// Read all zeros back, and not samples of them.
    pub verify_all: bool,
    /// Set to stop.
    pub cancel: Cancel,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WipeProgress {
    /// The level at work.
    pub level: Level,
    /// Whether this is the reading back.
    pub verifying: bool,
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// What would be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WipePlan {
    /// Of this document's shape.
    pub schema_version: u32,
    pub disk: Geometry,
    /// All its names.
    pub identity: DiskIdentity,
    /// What is on it; all of it goes.
    pub found: Contents,
    /// Why it will not be done; empty if it will.
    pub refusals: Vec<String>,
    /// What will be taken down before, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release: Vec<Takedown>,
    /// What will be done, in order.
    pub levels: Vec<Level>,
    /// Levels that stand in, in order, when the disk can't do the first one.
    pub weaker: Vec<Level>,
}

impl fmt::Display for WipePlan {
    /// A report of some lines, for a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, identity, found, .. } = self;
        writeln!(f, "Disk {}: {identity}", disk.path.display())?;
        for link in &identity.by_id {
            writeln!(f, "  /dev/disk/by-id/{link}")?;
        }
        if !found.systems.is_empty() {
            writeln!(f, "Appears to hold: {}", found.systems.join(", "))?;
        }
        if found.is_empty() {
            writeln!(f, "Nothing was recognized on it.")?;
        }
        for signature in &found.signatures {
            writeln!(f, "  {}: {signature}", Fate::Goes)?;
        }
        for contents in &found.partitions {
            writeln!(f, "  {}", OldPartition { fate: Fate::Goes, contents: contents.clone() })?;
        }
        for refusal in &self.refusals {
            writeln!(f, "Refused: {refusal}")?;
        }
        if !self.refusals.is_empty() {
            return Ok(());
        }
        let release = self.release.iter().map(|step| format!("take down {step}"));
        let levels = self.levels.iter().map(|level| level.describe().to_owned());
        for (number, step) in (1u32..).zip(release.chain(levels)) {
            writeln!(f, "{number}. {step}")?;
        }
        for level in &self.weaker {
            writeln!(f, "   if the disk cannot: {}", level.describe())?;
        }
        Ok(())
    }
}

/// What became of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Done {
        /// Bytes zeroed or given back.
        bytes: u64,
        /// What was read back of them and found right; 0 where nothing is promised.
        verified_bytes: u64,
        /// The disk's command, where there is a choice.
        #[serde(skip_serializing_if = "Option::is_none")]
        how: Option<String>,
    },
    /// The disk can't, or won't.
    Refused {
        /// Its word.
        reason: String,
    },
}

/// One level of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    pub level: Level,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What was really done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiped {
    /// Of this document's shape.
    pub schema_version: u32,
    pub disk: Geometry,
    /// What was taken down before, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_down: Vec<Takedown>,
    /// What was on it.
    pub found: Contents,
    /// What was tried, in order.
    pub rungs: Vec<Rung>,
    /// Where the last look for signatures could not read: what is there is not known.
    pub unreadable: Vec<Span>,
}

impl Wiped {
    /// The strongest level that was done.
    pub fn done(&self) -> Option<Level> {
        let done = self.rungs.iter().filter(|rung| matches!(rung.outcome, Outcome::Done { .. }));
        done.map(|rung| rung.level).max()
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.level)?;
        match &self.outcome {
            Outcome::Refused { reason } => write!(f, "REFUSED: {reason}"),
            Outcome::Done { bytes, verified_bytes, how } => {
                let (size, verified) = (binary(*bytes), binary(*verified_bytes));
                match self.level {
                    Level::Signatures if *bytes == 0 => f.write_str("none is left")?,
                    Level::Signatures => write!(f, "{size} of magic numbers erased, none is left")?,
                    Level::Discard => write!(f, "{size} discarded; what they read as is not promised")?,
                    Level::Zero => write!(f, "{size} zeroed, {verified} of it read back")?,
                    Level::Secure => {
                        write!(f, "{size} erased by the disk itself, {verified} of it read back")?;
                    }
                }
                how.iter().try_for_each(|how| write!(f, " ({how})"))
            }
        }
    }
}

/// The levels that a wish comes to: whatever the disk does, signatures are looked for last.
fn levels(level: Level) -> Vec<Level> {
    match level {
        Level::Signatures => vec![Level::Signatures],
        other => vec![other, Level::Signatures],
    }
}

/// What stands in when the disk can't do this level. Zeros can be written to any disk.
fn weaker(level: Level) -> Option<Level> {
    match level {
        Level::Signatures | Level::Zero => None,
        Level::Discard => Some(Level::Signatures),
        Level::Secure => Some(Level::Zero),
    }
}

/// Looks at the disk and says what [`wipe`] would do, or why it would not. Nothing is written.
pub fn plan(options: &WipeOptions) -> Result<WipePlan, WipeError> {
    let found = Disk::inspect(&options.device)?;
    let mut refusals: Vec<String> = found.refusals.iter().map(|refusal| in_full(refusal)).collect();
    let mut release = Vec::new();
    if options.release {
        let planned = release::plan(&options.device)?;
        // The release's plan knows the users of the disk better.
        let others = found.refusals.iter().filter(|refusal| !is_about_users(refusal));
        refusals = others.map(|refusal| in_full(refusal)).collect();
        refusals.extend(planned.refusals);
        refusals.dedup();
        release = planned.steps;
    }
    Ok(WipePlan {
        schema_version: SCHEMA_VERSION,
        disk: found.geometry,
        identity: found.identity,
        found: found.contents,
        refusals,
        release,
        levels: levels(options.level),
        weaker: weaker(options.level).filter(|_| options.allow_weaker).into_iter().collect(),
    })
}

fn is_about_users(refusal: &DiskError) -> bool {
    matches!(refusal, DiskError::InUse { .. } | DiskError::Claimed { .. } | DiskError::BootMedium { .. })
}

/// What is done to a disk before an image is written to it: it is made free, and all signatures go.
pub fn clean(device: &Path, cancel: &Cancel) -> Result<Wiped, WipeError> {
    let options = WipeOptions {
        device: device.to_owned(),
        level: Level::Signatures,
        release: true,
        allow_weaker: false,
        verify_all: false,
        cancel: cancel.clone(),
    };
    wipe(&options, &mut |_| {})
}

/// A boot sector's bytes, whatever the sector size.
const BOOT_SECTOR: Span = Span { offset: 0, len: 512 };

/// Zeroes the boot sector of a disk that is not in use, so that firmware does not start from it.
pub fn clear_boot_sector(device: &Path) -> Result<(), WipeError> {
    let disk = Disk::open(device)?;
    let zeros = [0; 512];
    let written = disk.file().write_all_at(&zeros, BOOT_SECTOR.offset).and_then(|()| disk.file().sync_all());
    let device = disk.geometry().path.clone();
    written.map_err(|source| WipeError::Io { device, what: "zero", span: BOOT_SECTOR, source })?;
    partitions::reread(&disk);
    Ok(())
}

pub fn wipe(options: &WipeOptions, progress: &mut dyn FnMut(WipeProgress)) -> Result<Wiped, WipeError> {
    // Held to the end: nothing may reassemble what was taken down until there is nothing left to find.
    let released = options.release.then(|| release::release(&options.device, &options.cancel)).transpose()?;
    let taken_down = released.as_ref().map(|(released, _)| released.taken_down.clone()).unwrap_or_default();
    let disk = Disk::open(&options.device)?;
    if let Err(error) = disk.file().try_lock() {
        tracing::debug!(%error, "another program has locked the disk; continuing without the lock");
    }
    let geometry = disk.geometry().clone();
    let found = probe(disk.file(), geometry.size_bytes, geometry.sector_bytes);
    partitions::forget(&disk)?;
    let work = Work { disk: &disk, geometry: &geometry, cancel: &options.cancel };
    let result = climb(&work, options, progress);
    // After a refusal the table exists; otherwise the kernel learns that it is gone, and notifies udev.
    partitions::reread(&disk);
    let rungs = result?;
    let unreadable = probe(disk.file(), geometry.size_bytes, geometry.sector_bytes).unreadable;
    Ok(Wiped { unreadable, schema_version: SCHEMA_VERSION, disk: geometry, taken_down, found, rungs })
}

/// All levels in turn, and what stands in for those that the disk can't do.
fn climb(
    work: &Work<'_>,
    options: &WipeOptions,
    progress: &mut dyn FnMut(WipeProgress),
) -> Result<Vec<Rung>, WipeError> {
    let mut rungs: Vec<Rung> = Vec::new();
    let mut next = Some(options.level);
    while let Some(level) = next {
        let outcome = match level {
            Level::Signatures => erase::signatures(work),
            Level::Discard => zero::discard(work, progress),
            Level::Zero => zero::zero(work, options.verify_all, progress),
            Level::Secure => secure::secure(work, progress),
        };
        let (outcome, after) = match outcome {
            Err(WipeError::Refused { source, .. }) if options.allow_weaker => {
                (Outcome::Refused { reason: source.to_string() }, weaker(level))
            }
            outcome => (outcome?, Some(Level::Signatures).filter(|_| level != Level::Signatures)),
        };
        rungs.push(Rung { level, outcome });
        next = after;
    }
    Ok(rungs)
}

/// A disk at work.
struct Work<'a> {
    disk: &'a Disk,
    geometry: &'a Geometry,
    cancel: &'a Cancel,
}

impl Work<'_> {
    fn device(&self) -> PathBuf {
        self.geometry.path.clone()
    }

    fn io(&self, what: &'static str, span: Span) -> impl FnOnce(io::Error) -> WipeError {
        let device = self.device();
        move |source| WipeError::Io { device, what, span, source }
    }

    /// Whether it is to stop, with so much done.
    fn check_cancelled(&self, done_bytes: u64) -> Result<(), WipeError> {
        if self.cancel.is_cancelled() {
            let total_bytes = self.geometry.size_bytes;
            return Err(WipeError::Cancelled { device: self.device(), done_bytes, total_bytes });
        }
        Ok(())
    }

    /// All written is on the medium, and what is read next comes from there.
    fn flush(&self) -> Result<(), WipeError> {
        let file = self.disk.file();
        let flushed = file.sync_all().and_then(|()| kernel::disk::drop_cache(file));
        flushed.map_err(|source| WipeError::Flush { device: self.device(), source })
    }

    /// The pieces of the disk in order, until it is stopped.
    fn pieces(&self, piece_bytes: u64, mut each: impl FnMut(Span) -> Result<(), WipeError>) -> Result<(), WipeError> {
        let total_bytes = self.geometry.size_bytes;
        let mut offset = 0;
        while offset < total_bytes {
            self.check_cancelled(offset)?;
            let span = Span { offset, len: piece_bytes.min(total_bytes - offset) };
            each(span)?;
            offset = span.end();
        }
        Ok(())
    }
}

/// Reads what disks say of themselves before and while they are erased.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    let _ = ata::security(bytes);
    let _ = nvme::sanitizing(bytes);
    let _ = nvme::namespaces(bytes);
    let ways = nvme::ways(nvme::abilities(bytes), true);
    for way in ways {
        let _ = nvme::command(way, 1, bytes);
    }
}
