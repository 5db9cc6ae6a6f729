//! Where new partitions go: the choices of sgdisk, by which Ignition partitions (docs/compatibility.md#ignition-disks).

use crate::gpt::Table;
use kernel::order;

/// Partitions begin at multiples of this many bytes.
const ALIGNMENT_BYTES: u64 = 1 << 20;
/// From this size in sectors on, disks may have physical sectors of 4096 bytes.
const LARGE_DISK_SECTORS: u64 = 586_072_368;
/// In sectors, on such a disk.
const LARGE_DISK_ALIGNMENT: u64 = 8;

/// In sectors: what all partitions of a table are aligned to, at most a MiB.
pub(super) fn alignment(table: &Table) -> u64 {
    let mut alignment = (ALIGNMENT_BYTES / u64::from(table.sector_bytes).max(1)).max(1);
    let starts: Vec<_> = table.entries().map(|(_, entry)| entry.first_lba()).collect();
    while alignment > 1 && starts.iter().any(|start| !start.is_multiple_of(alignment)) {
        alignment /= 2;
    }
    if table.usable().1 >= LARGE_DISK_SECTORS { alignment.max(LARGE_DISK_ALIGNMENT) } else { alignment }
}

/// Blocks of sectors in no partition, first and last of each, in order.
fn free_blocks(table: &Table) -> Vec<(u64, u64)> {
    let (first, last) = table.usable();
    let mut used: Vec<_> = table.entries().map(|(_, entry)| (entry.first_lba(), entry.last_lba())).collect();
    order::sort(&mut used);
    let mut free = Vec::new();
    let mut next = first;
    for (start, end) in used {
        if start > next {
            free.push((next, start - 1));
        }
        next = next.max(end.saturating_add(1));
    }
    if next <= last {
        free.push((next, last));
    }
    free
}

/// The first and last sector of a partition that begins at `start`, or in the largest block, and has `sectors`, or what is left
/// of its block. The error is how many are free there.
pub(super) fn place(
    table: &Table,
    alignment: u64,
    start: Option<u64>,
    sectors: Option<u64>,
) -> Result<(u64, u64), u64> {
    let blocks = free_blocks(table);
    let (first, end) = match start {
        Some(start) => {
            let block = blocks.iter().find(|(first, last)| (*first..=*last).contains(&start)).ok_or(0u64)?;
            (start, block.1)
        }
        None => {
            let size = |block: &(u64, u64)| block.1 - block.0;
            // The first of equals.
            let (first, last) = *blocks.iter().rev().max_by_key(|block| size(block)).ok_or(0u64)?;
            let aligned = first.checked_next_multiple_of(alignment).filter(|aligned| *aligned <= last);
            (aligned.unwrap_or(first), last)
        }
    };
    let free = end - first + 1;
    match sectors {
        None => Ok((first, end)),
        Some(sectors) if (1..=free).contains(&sectors) => Ok((first, first + (sectors - 1))),
        Some(_) => Err(free),
    }
}
