//! ISO 9660 (ECMA-119) and UDF (ECMA-167 and OSTA's UDF specification).

use super::bytes::{Bytes, grouped, text, utf16_be};
use super::{Area, Kind, Signature};

/// Volume descriptors begin here, in sectors of 2 KiB or larger ones.
const DESCRIPTORS_AT: u64 = 32768;
const DESCRIPTOR_BYTES: u64 = 2048;
const MAX_DESCRIPTORS: u64 = 16;

/// By the primary descriptor, wherever it is among the others.
pub(super) fn iso9660(area: &Area<'_>) -> Option<Signature> {
    const PRIMARY: u8 = 1;
    const SUPPLEMENTARY: u8 = 2;
    const END: u8 = 255;
    if !area.has(DESCRIPTORS_AT + 1, b"CD001") {
        return None;
    }
    let places = (0..MAX_DESCRIPTORS).map(|index| DESCRIPTORS_AT + index * DESCRIPTOR_BYTES);
    let all = places.map_while(|at| area.get(at, 1024).map(Bytes)).take_while(|block| block.byte(0) != END);
    let (mut primary, mut joliet) = (None, None);
    for block in all {
        match block.byte(0) {
            PRIMARY if primary.is_none() => primary = Some(block),
            SUPPLEMENTARY if joliet.is_none() => {
                joliet = Some(block).filter(|block| matches!(block.part(88, 3), b"%/@" | b"%/C" | b"%/E"));
            }
            _ => {}
        }
    }
    let primary = primary?;
    // When it was modified, else when it was made: 16 digits and the zone.
    let date = [830, 813].into_iter().find_map(|at| {
        let date = primary.part(at, 16);
        let is_set = date.iter().all(u8::is_ascii_digit) && date.iter().any(|digit| *digit != b'0');
        is_set.then(|| String::from_utf8_lossy(date).into_owned())
    });
    let uuid = date.and_then(|date| grouped(&date, &[4, 2, 2, 2, 2, 2, 2]));
    let name = primary.part(40, 32);
    let label = match joliet.as_ref().map(|joliet| joliet.part(40, 32)) {
        Some(wide) => merged(wide, name).or_else(|| utf16_be(wide)),
        None => text(name),
    };
    let magics = vec![area.on_disk(DESCRIPTORS_AT + 1, 5)];
    Some(Signature { label, uuid, ..Signature::new(Kind::Iso9660, magics) })
}

/// Joliet's name has lower case, the primary one more characters: both, where they do not contradict each other.
fn merged(wide: &[u8], narrow: &[u8]) -> Option<String> {
    let mut units = wide.chunks_exact(2).filter_map(|pair| Some(u16::from_be_bytes(pair.try_into().ok()?)));
    let mut name = String::new();
    for byte in narrow {
        let byte = char::from(*byte);
        let Some(unit) = units.next() else {
            name.push(byte);
            continue;
        };
        let other = char::from_u32(unit.into())?;
        name.push(match (byte, other) {
            ('_', _) => other,
            (_, '_') => byte,
            _ if byte.eq_ignore_ascii_case(&other) => {
                if byte.is_ascii_uppercase() {
                    other
                } else {
                    byte
                }
            }
            _ => return None,
        });
    }
    text(name.as_bytes())
}

/// By the volume recognition sequence, and the anchor that must follow.
pub(super) fn udf(area: &Area<'_>) -> Option<Signature> {
    const FIRST: [&[u8]; 7] = [b"BEA01", b"BOOT2", b"CD001", b"CDW02", b"NSR02", b"NSR03", b"TEA01"];
    const BLOCKS: [u64; 4] = [512, 1024, 2048, 4096];
    let id = |at: u64| area.get(at + 1, 5).filter(|id| FIRST.contains(&id.as_slice()));
    let mut magics = vec![DESCRIPTORS_AT];
    for step in [DESCRIPTOR_BYTES, 4096] {
        let mut at = DESCRIPTORS_AT;
        while let Some(id) = id(at).filter(|_| at < DESCRIPTORS_AT + 64 * step) {
            if id.starts_with(b"NSR") && !magics.contains(&at) {
                magics.push(at);
            }
            at += step;
        }
    }
    // The first may be one itself, and is in the list already.
    if magics.len() < 2 && !id(DESCRIPTORS_AT)?.starts_with(b"NSR") {
        return None;
    }
    kernel::order::sort(&mut magics);
    let magics = magics.into_iter().map(|at| area.on_disk(at + 1, 5)).collect();
    let anchor = BLOCKS.into_iter().find_map(|block| {
        let anchor = |place: u64| {
            let anchor = area.get(block * place, 512).map(Bytes)?;
            (u64::from(anchor.le32(12)) == place && anchor.le16(0) == 2).then_some((block, anchor))
        };
        anchor(256).or_else(|| anchor(512))
    });
    let (label, uuid) = anchor.as_ref().map_or((None, None), |(block, anchor)| names(area, *block, anchor));
    Some(Signature { label, uuid, remains: anchor.is_none(), ..Signature::new(Kind::Udf, magics) })
}

/// Out of the descriptors that the anchor leads to: the logical volume's name, and the start of the volume set's.
fn names(area: &Area<'_>, block: u64, anchor: &Bytes) -> (Option<String>, Option<String>) {
    let (mut label, mut uuid) = (None, None);
    let (first, count) = (u64::from(anchor.le32(20)), u64::from(anchor.le32(16)) / block);
    for at in (first..first.saturating_add(count)).take(64) {
        let Some(found) = at.checked_mul(block).and_then(|at| area.get(at, 512)).map(Bytes) else { break };
        match found.le16(0) {
            _ if u64::from(found.le32(12)) != at => break,
            0 | 8 => break,
            1 if uuid.is_none() && is_udf(&found, 200) => uuid = set_id(found.part(72, 128)),
            6 if label.is_none() && is_udf(&found, 20) => label = dstring(found.part(84, 128)),
            _ => {}
        }
    }
    (label, uuid)
}

fn is_udf(found: &Bytes, at: usize) -> bool {
    found.byte(at) == 0 && found.part(at + 1, 24) == b"OSTA Compressed Unicode\0"
}

/// A text whose first byte says how it is coded, and the last how long it is.
fn dstring(field: &[u8]) -> Option<String> {
    let (code, len) = (field.first()?, usize::from(*field.last()?).checked_sub(1)?);
    let bytes = field.get(1..field.len() - 1)?;
    let bytes = bytes.get(..len.min(bytes.len()))?;
    match code {
        8 => {
            let latin: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            text(latin.as_bytes())
        }
        16 => utf16_be(bytes),
        _ => None,
    }
}

/// 16 digits of the volume set's name; what is no digit is shown as digits.
fn set_id(field: &[u8]) -> Option<String> {
    let name = dstring(field)?;
    let name = name.as_bytes();
    let digits = name.iter().take(16).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let text = |len: usize| Some(String::from_utf8_lossy(&name.get(..len)?.to_ascii_lowercase()).into_owned());
    let hex = |from: usize, to: usize| {
        Some((from..to).map(|at| format!("{:02x}", name.get(at).copied().unwrap_or_default())).collect::<String>())
    };
    name.get(..8)?;
    match digits {
        16 => text(16),
        8.. => Some(text(8)? + &hex(8, 12)?),
        _ => hex(0, 8),
    }
}
