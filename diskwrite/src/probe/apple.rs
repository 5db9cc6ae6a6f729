//! Names of HFS and HFS+ (Apple's Technical Note 1150).

use super::Kind;
use super::bytes::{Bytes, utf16_be};
use super::superblock::Superblock;
use md5::{Digest, Md5};
use uuid::Builder;

/// The header of the volume, and how far its blocks are behind the device's start: an HFS may wrap it.
fn header(found: &Superblock<'_>) -> Option<(Bytes, u64)> {
    let block = &found.block;
    let offset = if found.magic == b"BD" {
        let (first, size, inner) = (block.be16(28), block.be32(20), block.be16(126));
        u64::from(first) * 512 + u64::from(inner) * u64::from(size)
    } else {
        0
    };
    Some((Bytes(found.area.get(found.at.checked_add(offset)?, 512)?), offset))
}

/// The first name of the catalogue is the volume's.
pub(super) fn label(found: &Superblock<'_>) -> Option<String> {
    let (header, offset) = header(found)?;
    let size = u64::from(header.be32(40)).max(1);
    // The catalogue's extents.
    let extents: Vec<_> =
        (0..8).map(|index| 288 + index * 8).map(|at| (header.be32(at), header.be32(at + 4))).collect();
    let place = |block: u64| offset.checked_add(block.checked_mul(size)?);
    let tree = Bytes(found.area.get(place(extents.first()?.0.into())?, 512)?);
    let (leaf, node) = (u64::from(tree.be32(24)), u64::from(tree.be16(32)));
    let mut rest = leaf.checked_mul(node)? / size;
    let extent = extents.iter().find(|(_, blocks)| {
        let is_here = rest < u64::from(*blocks);
        rest = if is_here { rest } else { rest.saturating_sub((*blocks).into()) };
        is_here
    });
    let at = place(u64::from(extent?.0).checked_add(rest)?)?;
    let leaf = Bytes(found.area.get(at, node.clamp(530, 32 << 10))?);
    let (kind, records, parent, units) = (leaf.byte(8), leaf.be16(10), leaf.be32(16), usize::from(leaf.be16(20)));
    (kind == 0xFF && records != 0 && parent == 1 && units <= 255).then(|| utf16_be(leaf.part(22, units * 2)))?
}

/// Apple makes a UUID of the eight bytes that the Finder stores.
pub(super) fn uuid(kind: Kind, found: &Superblock<'_>) -> Option<String> {
    const NAMESPACE: &[u8] = b"\xb3\xe2\x0f\x39\xf2\x92\x11\xd6\x97\xa4\x00\x30\x65\x43\xec\xac";
    let id = match kind {
        Kind::Hfs => found.block.part(116, 8).to_vec(),
        _ => header(found)?.0.part(104, 8).to_vec(),
    };
    if id.iter().all(|byte| *byte == 0) {
        return None;
    }
    let mut sum = Md5::new();
    sum.update(NAMESPACE);
    sum.update(&id);
    Some(Builder::from_md5_bytes(sum.finalize().into()).into_uuid().to_string())
}
