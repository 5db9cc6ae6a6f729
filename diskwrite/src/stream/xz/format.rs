//! The fixed parts of the .xz file format 1.2.1: stream header and footer, block headers, variable-length integers.

/// Bytes of a stream header, and of a stream footer.
pub(super) const STREAM_HEADER_BYTES: usize = 12;
const MAGIC: [u8; 6] = [0xFD, b'7', b'z', b'X', b'Z', 0];
const FOOTER_MAGIC: [u8; 2] = *b"YZ";
/// The one filter that compresses; the last of every chain (section 5.3.1).
const LZMA2: u64 = 0x21;
/// Sections 3.1.2: what the flags of a block header say.
const FILTERS: u8 = 0x03;
const RESERVED: u8 = 0x3C;
const PACKED_SIZE: u8 = 0x40;
const UNPACKED_SIZE: u8 = 0x80;

/// Where an xz stream is not what the format allows. What is within blocks is left to liblzma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum XzError {
    /// Its first 12 bytes.
    #[error("the stream header is damaged or of an unknown kind")]
    StreamHeader,
    /// The start of a block.
    #[error("a block header is damaged or of an unknown kind")]
    BlockHeader,
    #[error(
        "it needs a dictionary of {needed} bytes, above the memory limit of {limit} bytes, set by the available memory"
    )]
    Memory {
        /// As its block header says.
        needed: u64,
        /// What we give.
        limit: u64,
    },
    /// The start of a chunk of LZMA2.
    #[error("a chunk begins with the invalid byte {0:#04x}")]
    Chunk(u8),
    /// Unpacked, it is larger than anything.
    #[error("its size is out of range")]
    Size,
    /// The list of blocks at the end.
    #[error("the index does not match the blocks")]
    Index,
    /// Its last 12 bytes.
    #[error("the stream footer is damaged or does not match the stream")]
    Footer,
}

/// Checks a stream header; returns its check's size in bytes (section 2.1.1.2).
pub(super) fn stream_header(header: &[u8]) -> Result<u64, XzError> {
    let [magic @ .., 0, check @ 0..=15, c0, c1, c2, c3] = header else { return Err(XzError::StreamHeader) };
    let crc = u32::from_le_bytes([*c0, *c1, *c2, *c3]);
    if *magic != MAGIC || crc32fast::hash(&[0, *check]) != crc {
        return Err(XzError::StreamHeader);
    }
    Ok(match check {
        0 => 0,
        1..=3 => 4,
        4..=6 => 8,
        7..=9 => 16,
        10..=12 => 32,
        _ => 64,
    })
}

/// Checks a stream footer against the stream's header and the size of its index in bytes (section 2.1.2).
pub(super) fn stream_footer(footer: &[u8], header: &[u8], index_bytes: u64) -> Result<(), XzError> {
    let (Some((crc, rest)), Some(flags)) = (footer.split_first_chunk::<4>(), header.get(6..8)) else {
        return Err(XzError::Footer);
    };
    let Some((fields, magic)) = rest.split_at_checked(6) else { return Err(XzError::Footer) };
    let Some((backward, footer_flags)) = fields.split_first_chunk::<4>() else { return Err(XzError::Footer) };
    let index_said = (u64::from(u32::from_le_bytes(*backward)) + 1) * 4;
    let good = u32::from_le_bytes(*crc) == crc32fast::hash(fields)
        && index_said == index_bytes
        && footer_flags == flags
        && magic == FOOTER_MAGIC;
    if good { Ok(()) } else { Err(XzError::Footer) }
}

/// What a block header says of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// Memory the block's decoder needs for its dictionary, in bytes.
    pub dict_bytes: u64,
    /// The packed size in bytes, if given.
    pub packed_bytes: Option<u64>,
}

/// Parses a whole block header (section 3.1).
pub(super) fn block_header(header: &[u8]) -> Result<BlockHeader, XzError> {
    parse_block_header(header).ok_or(XzError::BlockHeader)
}

fn parse_block_header(header: &[u8]) -> Option<BlockHeader> {
    let (rest, crc) = header.split_last_chunk::<4>()?;
    if u32::from_le_bytes(*crc) != crc32fast::hash(rest) {
        return None;
    }
    let (_size, rest) = rest.split_first()?;
    let (flags, mut rest) = rest.split_first()?;
    if flags & RESERVED != 0 {
        return None;
    }
    let packed_bytes = if flags & PACKED_SIZE != 0 { Some(take_number(&mut rest)?) } else { None };
    if flags & UNPACKED_SIZE != 0 {
        take_number(&mut rest)?;
    }
    let mut dict_bytes = None;
    for _ in 0..=(flags & FILTERS) {
        let id = take_number(&mut rest)?;
        let len = usize::try_from(take_number(&mut rest)?).ok()?;
        let (properties, after) = rest.split_at_checked(len)?;
        rest = after;
        dict_bytes = match properties {
            [bits] if id == LZMA2 => Some(dictionary(*bits)?),
            _ => None,
        };
    }
    if rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    Some(BlockHeader { dict_bytes: dict_bytes?, packed_bytes })
}

/// The dictionary's size in bytes of its encoding in six bits (section 5.3.1).
fn dictionary(bits: u8) -> Option<u64> {
    match bits {
        40 => Some(u64::from(u32::MAX)),
        0..40 => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
        _ => None,
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = Number::default();
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if let Some(value) = number.push(*byte).ok()? {
            return Some(value);
        }
    }
}

/// A variable-length integer as its bytes come (section 1.2): seven bits each, low ones first, at most nine bytes.
#[derive(Debug, Default)]
pub(super) struct Number {
    value: u64,
    bits: u32,
}

impl Number {
    /// Adds a byte; the value, if that was the last.
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<u64>, XzError> {
        // No number ends in a zero byte, and none has a tenth byte.
        if (byte == 0 && self.bits > 0) || self.bits >= 63 {
            return Err(XzError::Index);
        }
        self.value |= u64::from(byte & 0x7F) << self.bits;
        self.bits += 7;
        if byte & 0x80 != 0 {
            return Ok(None);
        }
        Ok(Some(std::mem::take(self).value))
    }
}
