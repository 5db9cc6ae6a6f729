//! Texts as management controllers store them: a byte of kind and length, then the text (IPMI 2.0 43.15; FRU information
//! storage definition 1.0, 13). Pure.

use kernel::hex;

/// How the upper two bits of the byte are read; the two specifications differ in the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of sensor records: the first is Unicode.
    Record,
    /// Of a part's data: the first is bytes without a meaning.
    Part,
}

/// Digits of "BCD plus".
const BCD_PLUS: &[u8; 16] = b"0123456789 -.:,_";

/// The text, trimmed; none if it is blank.
pub(super) fn text(kind_and_len: u8, bytes: &[u8], kind: Kind) -> Option<String> {
    let text = match (kind_and_len >> 6, kind) {
        (0, Kind::Part) if bytes.is_empty() => String::new(),
        (0, Kind::Part) => format!("0x{}", hex::lower(bytes)),
        (0, Kind::Record) => {
            let (pairs, _) = bytes.as_chunks::<2>();
            String::from_utf16_lossy(&pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect::<Vec<_>>())
        }
        (1, _) => bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).filter_map(bcd).collect(),
        (2, _) => six_bits(bytes),
        // Latin 1.
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

fn bcd(digit: u8) -> Option<char> {
    BCD_PLUS.get(usize::from(digit)).map(|byte| char::from(*byte))
}

/// Four characters in three bytes, the lowest bits first.
fn six_bits(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let characters = group.len() * 8 / 6;
        text.extend((0..characters).filter_map(|at| char::from_u32((bits >> (6 * at) & 0x3f) + 0x20)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds() {
        let record = |kind: u8, bytes: &[u8]| text(kind << 6, bytes, Kind::Record);
        assert_eq!(record(3, b"CPU \xb0C\0 ").as_deref(), Some("CPU °C"));
        // "IPMI" of the specification's example.
        assert_eq!(record(2, &[0x29, 0xdc, 0xa6]).as_deref(), Some("IPMI"));
        assert_eq!(record(2, &[0x29, 0xdc]).as_deref(), Some("IP"));
        assert_eq!(record(1, &[0x12, 0xbc]).as_deref(), Some("12-."));
        assert_eq!(record(0, b"A\0b\0").as_deref(), Some("Ab"));
        assert_eq!(text(4, &[1, 0xff], Kind::Part).as_deref(), Some("0x01ff"));
        assert_eq!([text(0, &[], Kind::Part), record(3, b"  \0")], [None, None]);
    }
}
