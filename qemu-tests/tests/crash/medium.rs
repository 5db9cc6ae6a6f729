//! What a disk holds after an interruption, by the tests' own table reader.

use qemu_tests::images::Minimal;
use std::{fs::File, ops::Range, os::unix::fs::FileExt, path::Path, sync::Arc};

pub(crate) const MIB: usize = 1 << 20;
const SECTOR: usize = 512;
/// Where the boot code ends and the rest of a boot sector begins.
const BOOT_CODE: usize = 440;
/// The partition that stays.
pub(crate) const KEPT: &str = "data";

#[derive(Clone)]
pub(crate) struct System {
    pub name: &'static str,
    /// What an installer changes.
    pub boot: Range<usize>,
    pub image: Arc<Vec<u8>>,
}

impl System {
    pub(crate) fn new(minimal: &Minimal, image: &Path) -> Self {
        let (start, len) = minimal.boot();
        let boot = usize::try_from(start).unwrap()..usize::try_from(start + len).unwrap();
        Self { name: minimal.name, boot, image: Arc::new(std::fs::read(image).unwrap()) }
    }

    /// Whether all of it but its boot file system and its tables is on `medium`.
    fn is_on(&self, medium: &[u8]) -> bool {
        let parts = [0..BOOT_CODE, MIB..self.boot.start, self.boot.end..self.image.len() - MIB];
        parts.into_iter().all(|part| medium[part.clone()] == self.image[part])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The old system, whole.
    Untouched,
    /// The old system, whole, but without part of what leads to it.
    NoWayIn,
    /// Nothing leads anywhere.
    NoTable,
    /// Only the partition that stays.
    OnlyKept,
    /// The new system.
    Complete,
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Names and places of the partitions in the table whose header is in this sector, if all of it is sound (UEFI 2.10, 5.3.2).
/// Without a protective MBR it is not looked for.
fn table(medium: &[u8], lba: usize) -> Option<Vec<(String, Range<usize>)>> {
    if medium[510..512] != [0x55, 0xAA] {
        return None;
    }
    let header = &medium[lba * SECTOR..][..92];
    if &header[..8] != b"EFI PART" || number(header, 12, 4) != 92 {
        return None;
    }
    let mut zeroed = header.to_vec();
    zeroed[16..20].fill(0);
    let start = usize::try_from(number(header, 72, 8)).ok()?.checked_mul(SECTOR)?;
    let entries = medium.get(start..start + 128 * 128)?;
    let crc = |bytes: &[u8]| u64::from(crc32fast::hash(bytes));
    if crc(&zeroed) != number(header, 16, 4) || crc(entries) != number(header, 88, 4) {
        return None;
    }
    let used = entries.chunks(128).filter(|entry| entry[..16] != [0; 16]);
    let partition = |entry: &[u8]| {
        let units = entry[56..128].chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let name = String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<_>>());
        let at = |offset| usize::try_from(number(entry, offset, 8)).unwrap() * SECTOR;
        (name, at(32)..at(40) + SECTOR)
    };
    Some(used.map(partition).collect())
}

/// Where the partition to keep is; it must be in the table at the start.
pub(crate) fn saved_partition(medium: &[u8]) -> Option<Range<usize>> {
    table(medium, 1)?.into_iter().find_map(|(name, place)| (name == KEPT).then_some(place))
}

/// What a machine would make of `medium`, which held `old` as in `before` while `new` was being installed. An error says what
/// must not be.
pub(crate) fn judge(medium: &[u8], before: &[u8], old: &System, new: &System) -> Result<State, String> {
    let last = medium.len() / SECTOR - 1;
    let tables = [table(medium, 1), table(medium, last)];
    if let Some(place) = saved_partition(before) {
        if medium[place.clone()] != before[place.clone()] {
            return Err("the partition to keep has changed".into());
        }
        let listed = |table: &Vec<_>| table.contains(&(KEPT.to_owned(), place.clone()));
        // Readers take the first that is valid.
        if !tables.iter().flatten().next().is_some_and(listed) {
            return Err("no table lists the partition to keep".into());
        }
    }
    let leads_to =
        |system: &System| tables.iter().flatten().any(|table| table.iter().any(|(name, _)| name == system.name));
    let middle = MIB..medium.len() - MIB;
    match (leads_to(old), leads_to(new)) {
        (true, true) => Err(format!("one table leads to {}, the other to {}", old.name, new.name)),
        (true, false) if medium[middle.clone()] != before[middle] => {
            Err(format!("the table leads to {}, of which something is gone", old.name))
        }
        (true, false) if medium == before => Ok(State::Untouched),
        (true, false) => Ok(State::NoWayIn),
        (false, true) if new.is_on(medium) => Ok(State::Complete),
        (false, true) => Err(format!("the table leads to {}, of which something is missing", new.name)),
        (false, false) if tables.iter().flatten().next().is_some() => Ok(State::OnlyKept),
        (false, false) => Ok(State::NoTable),
    }
}

/// What was on the medium of a disk whose writes were recorded, since it was `at_power_on`, after its last flush: what a power
/// cut can't take away. The format is that of the kernel's dm-log-writes
/// (Documentation/admin-guide/device-mapper/log-writes.rst); QEMU counts in its head what came up to a flush.
pub(crate) fn flushed(log: &Path, at_power_on: &[u8]) -> Vec<u8> {
    const FLUSH: u64 = 1;
    const DISCARD: u64 = 4;
    let file = File::open(log).unwrap();
    let mut medium = at_power_on.to_vec();
    let mut head = [0; 32];
    file.read_exact_at(&mut head, 0).unwrap();
    if number(&head, 0, 8) != 0x006a_7366_7773_6872 {
        // Never flushed.
        return medium;
    }
    let (count, mut at) = (number(&head, 16, 8), 512);
    let (mut writes, mut sound) = (Vec::new(), 0);
    for _ in 0..count {
        file.read_exact_at(&mut head, at).unwrap();
        let (start, sectors, flags) = (number(&head, 0, 8), number(&head, 8, 8), number(&head, 16, 8));
        at += 512;
        if flags & FLUSH != 0 {
            sound = writes.len();
        }
        // A discard guarantees nothing, and these disks ignore it.
        if flags & DISCARD == 0 && sectors > 0 {
            writes.push((start * 512, at, sectors * 512));
            at += sectors * 512;
        }
    }
    for (to, from, len) in &writes[..sound] {
        let [to, len] = [*to, *len].map(|value| usize::try_from(value).unwrap());
        file.read_exact_at(&mut medium[to..to + len], *from).unwrap();
    }
    medium
}

/// What a power cut leaves of `written`, of which `flushed` is safe: each piece that differs for itself.
pub(crate) fn after_power_cut(flushed: Vec<u8>, written: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut medium = flushed;
    // All, none, or some.
    let odds = random.choice([0.0, 0.5, 0.5, 1.0]).unwrap();
    for (safe, written) in medium.chunks_mut(4096).zip(written.chunks(4096)) {
        if safe != written && random.f64() < odds {
            safe.copy_from_slice(written);
        }
    }
    medium
}
