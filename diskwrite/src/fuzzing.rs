//! What fuzzers call: each function takes hostile bytes and does all that is done with them. No part of the API.

use crate::{boot::label, gpt, source::osmet::format, verify};

/// Reads the partition table at the start of an image.
pub fn fuzz_gpt(disk: &[u8]) {
    for sector_bytes in [512, 4096] {
        let _ = gpt::partitions(disk, sector_bytes);
    }
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

/// Recognizes what is on a disk of these bytes.
pub fn fuzz_probe(disk: &[u8]) {
    let len = u64::try_from(disk.len()).unwrap_or(u64::MAX);
    for sector_bytes in [512, 4096] {
        let _ = crate::probe::probe(&disk, len, sector_bytes);
    }
}
