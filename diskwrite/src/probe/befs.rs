//! BeOS's file system keeps its identifier as an attribute of the root directory.

use super::bytes::Bytes;
use super::superblock::Superblock;

const NAME: &[u8] = b"be:volume_id";
/// The attribute's type, `ULLG`.
const TYPE: u32 = 0x554C_4C47;
/// What precedes the small attributes in an i-node.
const INODE_BYTES: usize = 232;
const MAX_ATTRIBUTES: usize = 512;

/// As it is stored beside the i-node, where its maker puts it.
pub(super) fn uuid(found: &Superblock<'_>) -> Option<String> {
    let big = found.magic == b"BFS1";
    let group_bits = found.word(76, big).checked_add(found.word(44, big))?;
    let group = u64::from(found.word(116, big)).checked_mul(1u64.checked_shl(group_bits)?)?;
    let start = u64::from(found.half(120, big)).checked_mul(1u64.checked_shl(found.word(44, big))?)?;
    let at = group.checked_add(start)?;
    let inode = Superblock { area: found.area, at, block: Bytes(found.area.get(at, 2048)?), magic: found.magic };
    if inode.word(0, big) != 0x3BBE_0AD9 {
        return None;
    }
    let mut at = INODE_BYTES;
    for _ in 0..MAX_ATTRIBUTES {
        let (kind, name, len) = (inode.word(at, big), inode.half(at + 4, big), inode.half(at + 6, big));
        if kind == 0 || inode.block.part(at, 8).is_empty() {
            break;
        }
        let data = at.checked_add(8 + 3)?.checked_add(name.into())?;
        if kind == TYPE && len == 8 && inode.block.part(at + 8, name.into()) == NAME {
            let id = if big { inode.block.be64(data) } else { inode.block.le64(data) };
            return Some(id).filter(|id| *id != 0).map(|id| format!("{id:016x}"));
        }
        at = data.checked_add(len.into())?.checked_add(1)?;
    }
    None
}
