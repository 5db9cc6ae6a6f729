//! Writes the partition table of a disk image: UEFI specification 2.10, chapter 5.

use anyhow::{Context, Result};
use std::{fs::File, os::unix::fs::FileExt};

const ENTRIES: u64 = 128;
const ENTRY_BYTES: u64 = 128;
/// Placeholder disk GUID of every CoreOS image, 00000000-0000-4000-a000-000000000001 as it lies on disk.
const DISK_GUID: u128 = 0x0000_0000_0000_4000_a000_0000_0000_0001;

pub(super) struct Partition {
    pub name: &'static str,
    /// Type GUID, as its text reads.
    pub kind: u128,
    /// First byte on the disk.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Writes protective MBR, primary and backup table onto `disk` of `len` bytes. Boot code in the first 440 bytes stays.
pub(super) fn write(disk: &File, len: u64, sector: u64, partitions: &[Partition]) -> Result<()> {
    let mut entries = Vec::new();
    for (index, partition) in partitions.iter().enumerate() {
        entries.extend(guid(partition.kind));
        // Any GUID does, as long as it is the same in every build and different in every partition.
        entries.extend(guid(0x1aed_fa11_0000_4000_a000_0000_0000_0000 + u128::try_from(index)? + 1));
        for value in [partition.start / sector, (partition.start + partition.len) / sector - 1, 0] {
            entries.extend(value.to_le_bytes());
        }
        let mut name: Vec<u8> = partition.name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        name.resize(72, 0);
        entries.extend(name);
    }
    entries.resize(usize::try_from(ENTRIES * ENTRY_BYTES)?, 0);

    let table_sectors = ENTRIES * ENTRY_BYTES / sector;
    let last = len / sector - 1;
    let usable = (2 + table_sectors, last - table_sectors - 1);
    for (at, other, table) in [(1, last, 2), (last, 1, last - table_sectors)] {
        disk.write_all_at(&header(at, other, table, usable, &entries), at * sector).context("writing a GPT header")?;
        disk.write_all_at(&entries, table * sector).context("writing GPT entries")?;
    }
    // One partition of type 0xEE over the whole disk.
    let mut mbr = [0_u8; 66];
    mbr[..8].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    mbr[8..12].copy_from_slice(&1_u32.to_le_bytes());
    mbr[12..16].copy_from_slice(&u32::try_from(last).unwrap_or(u32::MAX).to_le_bytes());
    mbr[64..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_all_at(&mbr, 446).context("writing the protective MBR")
}

fn header(at: u64, other: u64, table: u64, usable: (u64, u64), entries: &[u8]) -> Vec<u8> {
    let mut header = b"EFI PART\0\0\x01\0".to_vec();
    for value in [92_u32, 0, 0] {
        header.extend(value.to_le_bytes());
    }
    for value in [at, other, usable.0, usable.1] {
        header.extend(value.to_le_bytes());
    }
    header.extend(guid(DISK_GUID));
    header.extend(table.to_le_bytes());
    for value in [128_u32, 128, crc32fast::hash(entries)] {
        header.extend(value.to_le_bytes());
    }
    let crc = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header
}

/// A GUID on disk: its first three fields are little-endian.
fn guid(text: u128) -> [u8; 16] {
    let mut bytes = text.to_be_bytes();
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tools;

    #[test]
    fn sgdisk_finds_nothing_wrong() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let len = 8 << 20;
        file.as_file().set_len(len).unwrap();
        let esp = 0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b;
        let partition = Partition { name: "EFI-SYSTEM", kind: esp, start: 1 << 20, len: 1 << 20 };
        write(file.as_file(), len, 512, &[partition]).unwrap();
        let verify = tools::run("sgdisk", ["-v".as_ref(), file.path().as_os_str()]).unwrap();
        assert!(verify.contains("No problems found"), "{verify}");
        let print = tools::run("sgdisk", ["-p".as_ref(), "-i1".as_ref(), file.path().as_os_str()]).unwrap();
        assert!(print.contains("00000000-0000-4000-A000-000000000001"), "{print}");
        assert!(print.contains("C12A7328-F81F-11D2-BA4B-00A0C93EC93B") && print.contains("'EFI-SYSTEM'"), "{print}");
    }
}
