//! Numbers, texts and identifiers out of bytes that may hold anything. What is not there is zero, or None.

/// Some bytes of a disk.
pub(super) struct Bytes(pub Vec<u8>);

impl Bytes {
    pub(super) fn part(&self, at: usize, len: usize) -> &[u8] {
        at.checked_add(len).and_then(|end| self.0.get(at..end)).unwrap_or_default()
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        kernel::bytes::array(&self.0, at).unwrap_or([0; N])
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or_default()
    }

    pub(super) fn le16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(super) fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(super) fn le32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(super) fn be32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    pub(super) fn le64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub(super) fn be64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// Text up to the first zero, without blanks after it; None if nothing is left.
    pub(super) fn text(&self, at: usize, len: usize) -> Option<String> {
        text(self.part(at, len))
    }

    /// UTF-16 text, little endian, of up to `units` units.
    pub(super) fn utf16(&self, at: usize, units: usize) -> Option<String> {
        utf16(self.part(at, units.saturating_mul(2)))
    }

    /// A UUID in the order of its bytes; None for zeros.
    pub(super) fn uuid(&self, at: usize) -> Option<String> {
        uuid(self.array(at))
    }
}

/// Text up to the first zero, without blanks after it, with control characters replaced: it is shown on terminals.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    printable(&kernel::bytes::text(bytes))
}

pub(super) fn utf16(bytes: &[u8]) -> Option<String> {
    wide(bytes, u16::from_le_bytes)
}

/// The same, big endian.
pub(super) fn utf16_be(bytes: &[u8]) -> Option<String> {
    wide(bytes, u16::from_be_bytes)
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let units = bytes.chunks_exact(2).filter_map(|pair| Some(unit(pair.try_into().ok()?)));
    let units: Vec<_> = units.take_while(|unit| *unit != 0).collect();
    printable(&String::from_utf16_lossy(&units))
}

fn printable(text: &str) -> Option<String> {
    let text: String =
        text.trim_end().chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    (!text.is_empty()).then_some(text)
}

/// `8-4-4-4-12` hexadecimal digits; None for zeros.
pub(super) fn uuid(bytes: [u8; 16]) -> Option<String> {
    if bytes == [0; 16] {
        return None;
    }
    grouped(&kernel::hex::lower(bytes), &[8, 4, 4, 4, 12])
}

/// A GUID, whose first three fields are little endian (UEFI 2.10, appendix A).
pub(super) fn guid(mut bytes: [u8; 16]) -> Option<String> {
    for (from, to) in [(0, 4), (4, 6), (6, 8)] {
        bytes.get_mut(from..to)?.reverse();
    }
    uuid(bytes)
}

/// Bytes in hexadecimal digits, after these of them (place and count) were turned around, in groups; None for zeros.
pub(super) fn guid_text(bytes: &[u8], turned: &[(usize, usize)], groups: &[usize]) -> Option<String> {
    let mut bytes = bytes.to_vec();
    for (at, len) in turned {
        bytes.get_mut(*at..at.checked_add(*len)?)?.reverse();
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    grouped(&kernel::hex::lower(&bytes), groups)
}

/// A serial number of 32 bits, as DOS shows it; None for zero.
pub(super) fn serial(bytes: &[u8]) -> Option<String> {
    let number = u32::from_le_bytes(bytes.try_into().ok()?);
    if number == 0 { None } else { grouped(&format!("{number:08X}"), &[4, 4]) }
}

/// The text in groups with `-` between.
pub(super) fn grouped(text: &str, groups: &[usize]) -> Option<String> {
    let mut rest = text;
    let mut parts = Vec::new();
    for len in groups {
        let (part, tail) = rest.split_at_checked(*len)?;
        parts.push(part);
        rest = tail;
    }
    Some(parts.join("-"))
}
