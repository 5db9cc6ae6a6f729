//! Swap, free or with a hibernated system in it, for each page size (`include/linux/swap.h`, `kernel/power/swap.c`).

use super::bytes::Bytes;
use super::{Area, Kind, Signature};

const MAGICS: [(&[u8], Kind); 6] = [
    (b"SWAPSPACE2", Kind::Swap),
    (b"SWAP-SPACE", Kind::Swap),
    (b"S1SUSPEND", Kind::Hibernation),
    (b"S2SUSPEND", Kind::Hibernation),
    (b"ULSUSPEND", Kind::Hibernation),
    (b"LINHIB0001", Kind::Hibernation),
];
const PAGES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];
const LEAST_BYTES: u64 = 10 * 4096;

pub(super) fn find(area: &Area<'_>) -> Option<Signature> {
    if area.len() < LEAST_BYTES {
        return None;
    }
    let (at, (magic, kind)) = PAGES.into_iter().find_map(|page| {
        let at = page - 10;
        Some((at, MAGICS.into_iter().find(|(magic, _)| area.has(at, magic))?))
    })?;
    let block = Bytes(area.get(1024, 512)?);
    // The first version has no header; the second has pages.
    let is_whole = magic != b"SWAPSPACE2" || (block.le32(4) != 0 && (block.le32(0) == 1 || block.be32(0) == 1));
    let (label, uuid) = if magic == b"SWAP-SPACE" { (None, None) } else { names(area) };
    let magics = vec![area.on_disk(at, u64::try_from(magic.len()).unwrap_or(0))];
    Some(Signature { label, uuid, remains: !is_whole, ..Signature::new(kind, magics) })
}

/// Label and UUID out of the header.
pub(super) fn names(area: &Area<'_>) -> (Option<String>, Option<String>) {
    let Some(block) = area.get(1024, 512).map(Bytes) else { return (None, None) };
    // Old ones list bad pages there.
    if block.part(76, 2) != [0, 0] { (None, None) } else { (block.text(28, 16), block.uuid(12)) }
}
