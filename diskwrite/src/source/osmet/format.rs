//! The head of an osmet file: what it is for, and which parts of the image are files of the running system.
//!
//! The format is coreos-installer's: two structures in bincode's variable-length integers (below 251 the byte itself, then
//! 251, 252 or 253 followed by two, four or eight bytes, least significant first), then the rest of the image as xz.

use std::io::{self, Read};

const MAGIC: &[u8; 8] = b"OSMET\0\0\0";
/// The only version there is.
const VERSION: u64 = 1;
/// Names and versions are short.
const MAX_TEXT_BYTES: u64 = 4096;
/// `boot` and `root`.
const MAX_PARTITIONS: u64 = 128;
/// Ten times the files of an operating system; 64 MiB of memory.
pub(crate) const MAX_MAPPINGS: u64 = 1 << 20;

/// Why the head can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OsmetFormatError {
    #[error("cannot read its {field}")]
    Read { field: &'static str, source: io::Error },
    #[error("not an OSMET file: it starts with {found:02x?}")]
    Magic { found: [u8; 8] },
    #[error("incompatible OSMET file version {found}, only {VERSION} is supported")]
    Version { found: u64 },
    #[error("its {field} is {found}, more than the limit of {limit}")]
    Size { field: &'static str, found: u64, limit: u64 },
    /// Not a number of the encoding.
    #[error("its {field} starts with byte {found}, which does not start a number")]
    Number { field: &'static str, found: u8 },
    /// Not UTF-8.
    #[error("its {field} is not text")]
    Text { field: &'static str },
    #[error("it has no partitions")]
    NoPartitions,
    #[error("its {what} {index} starts at byte {start} and ends at byte {end}, outside bytes {from} to {to}")]
    Order {
        /// `partition` or `mapping`.
        what: &'static str,
        /// Position in its list.
        index: usize,
        start: u64,
        /// Byte after its last; the largest number if it has none.
        end: u64,
        /// Where it may start.
        from: u64,
        /// Where it must have ended.
        to: u64,
    },
}

/// What the file is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub sector_bytes: u32,
    pub description: String,
    pub architecture: String,
}

/// A part of the image that is a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub file_offset: u64,
    /// Offset in the image.
    pub start: u64,
    pub len: u64,
    /// Name of the file among the system's objects.
    pub object: [u8; 32],
}

/// What the image is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// Sorted, none overlaps another or ends past the image.
    pub mappings: Vec<Mapping>,
    pub sha256: [u8; 32],
    pub size_bytes: u64,
}

/// A partition of the image, for the second structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub start: u64,
    /// Byte after its last.
    pub end: u64,
    /// Sorted, none overlaps another.
    pub mappings: Vec<Mapping>,
}

/// Both structures as they are written.
pub(crate) fn head(
    header: &Header,
    program_version: &str,
    partitions: &[Partition],
    sha256: &[u8; 32],
    size_bytes: u64,
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_number(&mut out, VERSION);
    put_text(&mut out, program_version);
    put_number(&mut out, header.sector_bytes.into());
    put_text(&mut out, &header.description);
    put_text(&mut out, &header.architecture);
    put_len(&mut out, partitions.len());
    for partition in partitions {
        put_number(&mut out, partition.start);
        put_number(&mut out, partition.end);
        put_len(&mut out, partition.mappings.len());
        for mapping in &partition.mappings {
            put_number(&mut out, mapping.file_offset);
            put_number(&mut out, mapping.start.saturating_sub(partition.start));
            put_number(&mut out, mapping.len);
            out.extend_from_slice(&mapping.object);
        }
    }
    out.extend_from_slice(sha256);
    put_number(&mut out, size_bytes);
    out
}

fn put_number(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    let (first, rest) = match value {
        0..=250 => (None, 1),
        251..=0xFFFF => (Some(251), 2),
        0x1_0000..=0xFFFF_FFFF => (Some(252), 4),
        _ => (Some(253), 8),
    };
    out.extend(first);
    out.extend(bytes.iter().take(rest));
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    put_number(out, u64::try_from(len).unwrap_or(u64::MAX));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Reads the first structure.
pub(crate) fn header(input: &mut impl Read) -> Result<Header, OsmetFormatError> {
    let found: [u8; 8] = bytes(input, "magic")?;
    if found != *MAGIC {
        return Err(OsmetFormatError::Magic { found });
    }
    let found = number(input, "version")?;
    if found != VERSION {
        return Err(OsmetFormatError::Version { found });
    }
    text(input, "program version")?;
    let sector = limited(input, "sector size", u32::MAX.into())?;
    Ok(Header {
        sector_bytes: u32::try_from(sector).unwrap_or(u32::MAX),
        description: text(input, "description")?,
        architecture: text(input, "architecture")?,
    })
}

/// Reads the second structure, which follows the first.
pub(crate) fn index(input: &mut impl Read) -> Result<Index, OsmetFormatError> {
    let partitions = limited(input, "number of partitions", MAX_PARTITIONS)?;
    if partitions == 0 {
        return Err(OsmetFormatError::NoPartitions);
    }
    let mut mappings = Vec::new();
    // Where the last partition ended.
    let mut ended = 0;
    for partition in 0..usize::try_from(partitions).unwrap_or(0) {
        let (start, end) = (number(input, "partition start")?, number(input, "partition end")?);
        ordered("partition", partition, (start, Some(end)), (ended, u64::MAX))?;
        ended = end;
        let room = MAX_MAPPINGS.saturating_sub(u64::try_from(mappings.len()).unwrap_or(u64::MAX));
        let mut cursor = start;
        for mapping in 0..usize::try_from(limited(input, "number of mappings", room)?).unwrap_or(0) {
            let file_offset = number(input, "offset in a file")?;
            let from_partition = number(input, "offset in a partition")?;
            let len = number(input, "length of a mapping")?;
            let object = bytes(input, "object")?;
            let at = start.saturating_add(from_partition);
            ordered("mapping", mapping, (at, at.checked_add(len)), (cursor, end))?;
            cursor = at.saturating_add(len);
            mappings.push(Mapping { file_offset, start: at, len, object });
        }
    }
    let sha256 = bytes(input, "checksum")?;
    let size_bytes = number(input, "image size")?;
    if ended > size_bytes {
        return Err(OsmetFormatError::Size { field: "last partition's end", found: ended, limit: size_bytes });
    }
    Ok(Index { mappings, sha256, size_bytes })
}

fn ordered(
    what: &'static str,
    index: usize,
    (start, end): (u64, Option<u64>),
    (from, to): (u64, u64),
) -> Result<(), OsmetFormatError> {
    if start >= from && end.is_some_and(|end| end >= start && end <= to) {
        return Ok(());
    }
    Err(OsmetFormatError::Order { what, index, start, end: end.unwrap_or(u64::MAX), from, to })
}

fn bytes<const N: usize>(input: &mut impl Read, field: &'static str) -> Result<[u8; N], OsmetFormatError> {
    let mut found = [0; N];
    input.read_exact(&mut found).map_err(|source| OsmetFormatError::Read { field, source })?;
    Ok(found)
}

fn number(input: &mut impl Read, field: &'static str) -> Result<u64, OsmetFormatError> {
    let [first] = bytes(input, field)?;
    match first {
        0..=250 => Ok(first.into()),
        251 => bytes(input, field).map(|two| u16::from_le_bytes(two).into()),
        252 => bytes(input, field).map(|four| u32::from_le_bytes(four).into()),
        253 => bytes(input, field).map(u64::from_le_bytes),
        found => Err(OsmetFormatError::Number { field, found }),
    }
}

fn limited(input: &mut impl Read, field: &'static str, limit: u64) -> Result<u64, OsmetFormatError> {
    let found = number(input, field)?;
    if found > limit { Err(OsmetFormatError::Size { field, found, limit }) } else { Ok(found) }
}

fn text(input: &mut impl Read, field: &'static str) -> Result<String, OsmetFormatError> {
    let len = limited(input, field, MAX_TEXT_BYTES)?;
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    input.read_exact(&mut text).map_err(|source| OsmetFormatError::Read { field, source })?;
    String::from_utf8(text).map_err(|_| OsmetFormatError::Text { field })
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
