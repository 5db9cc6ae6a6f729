//! What fuzzers call: each function takes hostile bytes and does all that is done with them. No part of the API.

use crate::{boot::label, gpt, source::osmet::format, stream::xz, verify};

/// Reads a disk's partition table, primary or backup, and the one of an image; what is understood is written again, which
/// must read the same. The bytes are the two ends of the disk.
pub fn fuzz_gpt(ends: &[u8]) {
    let (start, end) = ends.split_at(ends.len() / 2);
    let gap = vec![0; (1 << 16) + (4096 - ends.len() % 4096)];
    let disk = &[start, &gap, end].concat();
    let disk_bytes = u64::try_from(disk.len()).unwrap_or(u64::MAX);
    for sector_bytes in gpt::SECTOR_SIZES {
        let _ = gpt::partitions(disk, sector_bytes);
        let table = find(disk, disk_bytes, sector_bytes);
        let Some(mut table) = table.filter(|table| table.clone().resize(disk_bytes).is_ok()) else { continue };
        let _ = (table.check(), table.resize(disk_bytes));
        let (offset, backup) = table.backup();
        for (from, bytes) in [(sector_bytes.into(), table.primary()), (offset, backup)] {
            let mut copy = vec![0; disk.len()];
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            copy.iter_mut().skip(from).zip(bytes).for_each(|(byte, value)| *byte = value);
            assert!(find(&copy, disk_bytes, sector_bytes).as_ref() == Some(&table));
        }
    }
}

fn find(disk: &[u8], disk_bytes: u64, sector_bytes: u32) -> Option<gpt::Table> {
    let mut read = |offset: u64, len: usize| {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = disk.get(from..from.saturating_add(len));
        bytes.map(<[u8]>::to_vec).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    };
    gpt::find(&mut read, disk_bytes, sector_bytes).ok().flatten().map(|found| found.table)
}

/// Reads the head of an osmet file.
pub fn fuzz_osmet(mut head: &[u8]) {
    if format::header(&mut head).is_ok() {
        let _ = format::index(&mut head);
    }
}

/// Reads the bytes as public keys, and as signatures of them.
pub fn fuzz_trust(bytes: &[u8]) {
    verify::fuzz(bytes);
}

/// Looks for the label of a file system.
pub fn fuzz_superblock(start: &[u8]) {
    let _ = label::superblock(start);
}

/// Reads what NVMe and ATA disks say of themselves, and the device mapper of what lies on them.
pub fn fuzz_erasure(bytes: &[u8]) {
    crate::release::fuzz(bytes);
    crate::wipe::fuzz(bytes);
}

/// Recognizes what is on a disk of these bytes.
pub fn fuzz_probe(disk: &[u8]) {
    let len = u64::try_from(disk.len()).unwrap_or(u64::MAX);
    for sector_bytes in [512, 4096] {
        let _ = crate::probe::probe(&disk, len, sector_bytes);
    }
}

/// Finds the blocks of an xz stream that comes in pieces of as many bytes as the first byte says.
pub fn fuzz_xz(input: &[u8]) {
    let Some((piece, stream)) = input.split_first() else { return };
    xz::walk(stream, usize::from(*piece));
}
