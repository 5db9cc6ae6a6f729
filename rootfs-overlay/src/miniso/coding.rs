//! bincode's variable-length numbers, little endian: up to 250 one byte, else a byte that tells the width and the number.

use std::io;

pub(super) fn number(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=250 => out.extend_from_slice(&bytes[..1]),
        251..=0xffff => out.extend([&[251], &bytes[..2]].concat()),
        0x1_0000..=0xffff_ffff => out.extend([&[252], &bytes[..4]].concat()),
        _ => out.extend([&[253], &bytes[..]].concat()),
    }
}

/// Appends bytes with their number before them.
pub(super) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

/// Reads from front to back.
pub(super) struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    /// A number of any width.
    pub(crate) fn number(&mut self) -> io::Result<u64> {
        let [width] = self.array()?;
        Ok(match width {
            0..=250 => width.into(),
            251 => u16::from_le_bytes(self.array()?).into(),
            252 => u32::from_le_bytes(self.array()?).into(),
            253 => u64::from_le_bytes(self.array()?),
            _ => return Err(bad("a number is too wide")),
        })
    }

    /// One of at most 32 bits.
    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        u32::try_from(self.number()?).map_err(|_| bad("a number is too large"))
    }

    /// As many bytes as are asked for.
    pub(crate) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(|| bad("io error: failed to fill whole buffer"))?;
        self.0 = rest;
        Ok(*array)
    }

    /// As many bytes as the number before them says.
    pub(crate) fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let len = usize::try_from(self.number()?).map_err(|_| bad("a length is too large"))?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(|| bad("io error: failed to fill whole buffer"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn bad(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
