//! All files of some directories as one journal.

use super::{
    entries::Entries,
    file::{Bytes, Entry, Fault, JournalFile},
    query::Query,
};
use kernel::order;
use std::{
    cmp::Ordering,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// More files than this are left out, the oldest first: each is open.
const MAX_FILES: usize = 512;
/// Faults listed; the rest are counted.
const MAX_FAULTS: usize = 16;
/// A field is cut here. A message is a line, seldom a page.
const MAX_FIELD_BYTES: usize = 1 << 20;

/// Where journald stores its files: those that survive a boot, and those that don't.
pub fn directories() -> Vec<PathBuf> {
    ["/var/log/journal", "/run/log/journal"].map(PathBuf::from).into()
}

/// Times of entries, microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first that counts.
    pub since_us: u64,
    /// The last that counts: two readings of a journal that is written to give the same.
    pub until_us: u64,
}

impl Default for Range {
    fn default() -> Self {
        Self { since_us: 0, until_us: u64::MAX }
    }
}

/// An entry with the fields that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// When journald got it, microseconds since 1970.
    pub realtime_us: u64,
    pub boot_id: [u8; 16],
    fields: Vec<(usize, Vec<u8>)>,
    wanted: &'static [&'static str],
}

impl Found {
    /// The value of a field that was asked for.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let index = self.wanted.iter().position(|wanted| *wanted == name)?;
        self.fields.iter().find(|(at, _)| *at == index).map(|(_, value)| value.as_slice())
    }
}

struct Open<B> {
    path: PathBuf,
    file: JournalFile<B>,
    entries: Entries,
    head: Option<Entry>,
}

/// What makes two entries in different files the same one, and else which comes first.
#[derive(Clone, Copy)]
struct Place {
    seqnum_id: [u8; 16],
    seqnum: u64,
    boot_id: [u8; 16],
    monotonic_us: u64,
    realtime_us: u64,
    xor_hash: u64,
}

impl Place {
    fn new(seqnum_id: [u8; 16], entry: &Entry) -> Self {
        Self {
            seqnum_id,
            seqnum: entry.seqnum,
            boot_id: entry.boot_id,
            monotonic_us: entry.monotonic_us,
            realtime_us: entry.realtime_us,
            xor_hash: entry.xor_hash,
        }
    }

    /// As journalctl orders: by number where one journald counted, by the boot's own clock within a boot, else by time.
    fn order(&self, other: &Self) -> Ordering {
        if self.seqnum_id == other.seqnum_id && self.seqnum != other.seqnum {
            return self.seqnum.cmp(&other.seqnum);
        }
        let same_boot = self.boot_id == other.boot_id;
        let by_boot = if same_boot { self.monotonic_us.cmp(&other.monotonic_us) } else { Ordering::Equal };
        by_boot.then(self.realtime_us.cmp(&other.realtime_us)).then(self.xor_hash.cmp(&other.xor_hash))
    }
}

/// The entries that answer a query, from many files, each once and in order. Holds of each file some windows, and of each
/// entry what was asked for.
pub struct Journal<B = File> {
    open: Vec<Open<B>>,
    range: Range,
    wanted: &'static [&'static str],
    last: Option<Place>,
    faults: Vec<String>,
    more_faults: usize,
}

impl Journal<File> {
    /// Opens the `.journal` files in `directories` and in their subdirectories. What can't be read is in [`Self::faults`].
    pub fn open(directories: &[PathBuf], query: &Query, range: Range, wanted: &'static [&'static str]) -> Self {
        let mut journal = Self::empty(range, wanted);
        let mut paths = Vec::new();
        for directory in directories {
            if let Err(error) = list(directory, true, &mut paths)
                && error.kind() != io::ErrorKind::NotFound
            {
                journal.fault(directory, &error);
            }
        }
        // The newest last: those stay.
        order::sort(&mut paths);
        let excess = paths.len().saturating_sub(MAX_FILES);
        for (_, path) in paths.drain(..excess) {
            journal.fault(&path, &"left out: too many files");
        }
        for (_, path) in paths {
            match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path) {
                Ok(file) => journal.add(path, file, query),
                Err(error) => journal.fault(&path, &error),
            }
        }
        journal
    }
}

/// Whether there is a journal file at all.
fn list(directory: &Path, deeper: bool, paths: &mut Vec<(Option<std::time::SystemTime>, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if metadata.is_dir() && deeper {
            // One that can't be read is another's journal.
            let _ = list(&path, false, paths);
        } else if metadata.is_file() && (name.ends_with(".journal") || name.ends_with(".journal~")) {
            paths.push((metadata.modified().ok(), path));
        }
    }
    Ok(())
}

impl<B: Bytes> Journal<B> {
    pub(super) fn empty(range: Range, wanted: &'static [&'static str]) -> Self {
        Self { open: Vec::new(), range, wanted, last: None, faults: Vec::new(), more_faults: 0 }
    }

    pub(super) fn add(&mut self, path: PathBuf, source: B, query: &Query) {
        let mut file = match JournalFile::open(source) {
            Ok(file) => file,
            Err(fault) => return self.fault(&path, &anyhow::Error::from(fault)),
        };
        let mut faults = Vec::new();
        let entries = Entries::new(&mut file, query, &mut faults);
        self.all_faults(&path, faults);
        let mut open = Open { path, file, entries, head: None };
        self.advance(&mut open);
        if open.head.is_some() {
            self.open.push(open);
        }
    }

    /// What could not be read, and why; at most a few, the last being the number of the others.
    pub fn faults(&self) -> Vec<String> {
        let more = (self.more_faults > 0).then(|| format!("and {} more faults in journal files", self.more_faults));
        self.faults.iter().cloned().chain(more).collect()
    }

    fn fault(&mut self, path: &Path, fault: &dyn std::fmt::Display) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(format!("{}: {fault:#}", path.display()));
        } else {
            self.more_faults += 1;
        }
    }

    fn all_faults(&mut self, path: &Path, faults: Vec<Fault>) {
        for fault in faults {
            self.fault(path, &anyhow::Error::from(fault));
        }
    }

    /// To the file's next entry in range. Clocks jump, so all are looked at.
    fn advance(&mut self, open: &mut Open<B>) {
        let mut faults = Vec::new();
        open.head = loop {
            match open.entries.next(&mut open.file, &mut faults) {
                Some(entry) if !(self.range.since_us..=self.range.until_us).contains(&entry.realtime_us) => {}
                entry => break entry,
            }
            let path = open.path.clone();
            self.all_faults(&path, std::mem::take(&mut faults));
        };
        let path = open.path.clone();
        self.all_faults(&path, faults);
    }

    #[allow(clippy::should_implement_trait)] // It is lent a journal's reader, and gives what that allows.
    pub fn next(&mut self) -> Option<Found> {
        loop {
            let place = |open: &Open<B>| open.head.as_ref().map(|entry| Place::new(open.file.seqnum_id, entry));
            let mut first: Option<(usize, Place)> = None;
            for (index, open) in self.open.iter().enumerate() {
                let Some(place) = place(open) else { continue };
                if first.as_ref().is_none_or(|(_, first)| place.order(first) == Ordering::Less) {
                    first = Some((index, place));
                }
            }
            let (index, place) = first?;
            let mut open = self.open.swap_remove(index);
            let entry = open.head.take();
            let repeated = self.last.is_some_and(|last| last.order(&place) == Ordering::Equal);
            let found = entry.filter(|_| !repeated).map(|entry| self.read(&mut open, &entry));
            self.advance(&mut open);
            if open.head.is_some() {
                self.open.push(open);
            }
            self.last = Some(place);
            if found.is_some() {
                return found;
            }
        }
    }

    fn read(&mut self, open: &mut Open<B>, entry: &Entry) -> Found {
        let mut fields: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut faults = Vec::new();
        for offset in &entry.items {
            match open.file.field(*offset, self.wanted, MAX_FIELD_BYTES) {
                Ok(Some(data)) => {
                    let Some(at) = data.bytes.iter().position(|byte| *byte == b'=') else { continue };
                    let (name, value) = data.bytes.split_at(at);
                    let index = self.wanted.iter().position(|wanted| wanted.as_bytes() == name);
                    let mut value = value.get(1..).unwrap_or_default().to_vec();
                    if data.cut {
                        value.extend_from_slice("… (cut)".as_bytes());
                    }
                    // Of one that is there twice the last counts.
                    fields.retain(|(at, _)| Some(*at) != index);
                    fields.extend(index.map(|index| (index, value)));
                }
                Ok(None) => {}
                Err(fault) => faults.push(fault),
            }
        }
        let path = open.path.clone();
        self.all_faults(&path, faults);
        Found { realtime_us: entry.realtime_us, boot_id: entry.boot_id, fields, wanted: self.wanted }
    }
}
