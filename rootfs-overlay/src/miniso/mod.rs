//! The minimal ISO inside of a full one (`coreos/miniso.dat`, docs/compatibility.md#minimal-iso): which of its files are also in the full
//! ISO and where, and all its other bytes, packed. Texts of errors are those of coreos-installer.

mod coding;
#[cfg(test)]
mod tests;
mod unpack;

pub use unpack::unpack;

use crate::iso9660::{Record, SECTOR_BYTES};
use coding::Decoder;
use liblzma::read::XzDecoder;
use liblzma::stream::Stream;
use liblzma::write::XzEncoder;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Where it is in a full ISO.
pub const MINISO_PATH: &str = "COREOS/MINISO.DAT";
/// The largest description, bytes.
pub const MAX_DATA_BYTES: u64 = 1 << 20;
const MAGIC: [u8; 8] = *b"MINISO\0\0";
const VERSION: u32 = 1;
/// What xz may use; a dictionary of 64 MiB, the largest preset's, needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
/// Bytes copied at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum length of a minimal ISO, whatever its description says; real ones have 100 MiB.
const MAX_ISO_BYTES: u64 = 16 << 30;

/// Why a minimal ISO can't be made.
#[derive(Debug, thiserror::Error)]
pub enum MinisoError {
    /// The description is truncated or invalid.
    #[error("failed to deserialize {what}")]
    Decode { what: &'static str, source: io::Error },
    /// It is too long to be written.
    #[error("failed to serialize data")]
    TooLarge(#[source] io::Error),
    /// Another kind of file, or one of another version.
    #[error("validating header")]
    Header(#[source] HeaderError),
    #[error("validating table")]
    Table(#[source] TableError),
    /// A file the full ISO lacks.
    #[error("missing minimal file {path} in full ISO")]
    Missing { path: String },
    /// A file that differs.
    #[error("File {path} has different lengths in full and minimal ISOs")]
    Lengths { path: String },
    #[error("copying {what} at offset {offset}")]
    Copy { what: String, offset: u64, source: io::Error },
    /// The bytes after the last file can't be copied.
    #[error("copying remaining {what} bytes")]
    Rest { what: &'static str, source: io::Error },
    #[error("finishing xz stream")]
    Pack(#[source] io::Error),
    /// The result is not what was packed.
    #[error("wrong final digest: expected {expected}, found {found}")]
    Digest {
        /// SHA-256 of what was packed, hexadecimal.
        expected: String,
        found: String,
    },
}

/// What is wrong at the start of a description.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    #[error("not a miniso file!")]
    Magic,
    #[error("incompatible miniso file version: {VERSION} vs {found} (created by {by})")]
    Version {
        found: u32,
        /// The version of the program that made it.
        by: String,
    },
}

/// What is wrong with a table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("table is empty; ISOs have no files in common?")]
    Empty,
    /// Two files in one place.
    #[error("Files at offsets {first} and {second} overlap")]
    Overlap {
        /// Byte offset of one.
        first: u64,
        /// Byte offset of the other.
        second: u64,
    },
}

/// A file both ISOs have: sectors it starts at, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    minimal: u32,
    full: u32,
    length: u32,
}

impl Entry {
    fn minimal_offset(&self) -> u64 {
        u64::from(self.minimal) * SECTOR_BYTES
    }

    fn minimal_end(&self) -> u64 {
        self.minimal_offset() + u64::from(self.length)
    }

    fn full_offset(&self) -> u64 {
        u64::from(self.full) * SECTOR_BYTES
    }
}

/// A stretch of a minimal ISO.
enum Piece {
    /// Its own bytes, which are packed.
    Packed { offset: u64, len: u64 },
    /// Bytes that the full ISO has too.
    File(Entry),
}

/// A minimal ISO with these files, from its start to the end of the last.
fn pieces(entries: &[Entry]) -> impl Iterator<Item = Piece> {
    let ends = std::iter::once(0).chain(entries.iter().map(Entry::minimal_end));
    entries.iter().zip(ends).flat_map(|(entry, offset)| {
        let len = entry.minimal_offset().saturating_sub(offset);
        [Piece::Packed { offset, len }, Piece::File(*entry)]
    })
}

/// A minimal ISO's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    entries: Vec<Entry>,
    digest: [u8; 32],
    packed: Vec<u8>,
}

/// The result of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Files of the minimal ISO that are in the full one.
    pub matches: usize,
    pub skipped_bytes: u64,
    /// All other bytes.
    pub written_bytes: u64,
    pub packed_bytes: u64,
}

impl Data {
    /// Describes the minimal ISO `minimal`, whose files are also in a full one.
    pub fn pack(
        minimal: &mut (impl Read + Seek),
        full_files: &BTreeMap<String, Record>,
        minimal_files: &BTreeMap<String, Record>,
    ) -> Result<(Self, Statistics), MinisoError> {
        let entries = table(full_files, minimal_files)?;
        let rewinding = |source| MinisoError::Rest { what: "miniso", source };
        minimal.rewind().map_err(rewinding)?;
        let mut hasher = Sha256::new();
        io::copy(minimal, &mut hasher).map_err(rewinding)?;
        minimal.rewind().map_err(rewinding)?;

        let mut encoder = XzEncoder::new(Vec::new(), 9);
        for piece in pieces(&entries) {
            match piece {
                Piece::Packed { offset, len } => copy(minimal, &mut encoder, len)
                    .map_err(|source| MinisoError::Copy { what: format!("{len} miniso bytes"), offset, source })?,
                Piece::File(entry) => {
                    minimal.seek(SeekFrom::Start(entry.minimal_end())).map_err(rewinding)?;
                }
            }
        }
        io::copy(minimal, &mut encoder).map_err(rewinding)?;
        encoder.try_finish().map_err(MinisoError::Pack)?;
        let (written_bytes, packed_bytes) = (encoder.total_in(), encoder.total_out());
        let packed = encoder.finish().map_err(MinisoError::Pack)?;
        let skipped_bytes = entries.iter().map(|entry| u64::from(entry.length)).sum();
        let statistics = Statistics { matches: minimal_files.len(), skipped_bytes, written_bytes, packed_bytes };
        Ok((Self { entries, digest: hasher.finalize().into(), packed }, statistics))
    }

    /// Writes the minimal ISO, with the files of `full`, and checks it.
    pub fn unpack(&self, full: &mut (impl Read + Seek), out: impl Write) -> Result<(), MinisoError> {
        let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0).map_err(|error| MinisoError::Pack(error.into()))?;
        let mut packed = XzDecoder::new_stream(self.packed.as_slice(), stream);
        let mut out = Hashed { out, hasher: Sha256::new(), room: MAX_ISO_BYTES };
        for piece in pieces(&self.entries) {
            match piece {
                Piece::Packed { offset, len } => copy(&mut packed, &mut out, len)
                    .map_err(|source| MinisoError::Copy { what: format!("{len} packed bytes"), offset, source })?,
                Piece::File(entry) => {
                    let offset = entry.full_offset();
                    let copied = full.seek(SeekFrom::Start(offset));
                    copied
                        .and_then(|_| copy(full, &mut out, entry.length.into()))
                        .map_err(|source| MinisoError::Copy { what: "full ISO file".to_owned(), offset, source })?;
                }
            }
        }
        io::copy(&mut packed, &mut out).map_err(|source| MinisoError::Rest { what: "packed", source })?;
        let found: [u8; 32] = out.hasher.finalize().into();
        if found == self.digest {
            return Ok(());
        }
        Err(MinisoError::Digest { expected: kernel::hex::lower(self.digest), found: kernel::hex::lower(found) })
    }

    /// As the file has it; `app_version` is only for people.
    pub fn encode(&self, app_version: &str) -> Result<Vec<u8>, MinisoError> {
        let mut out = MAGIC.to_vec();
        coding::number(&mut out, VERSION.into());
        coding::bytes(&mut out, app_version.as_bytes());
        coding::number(&mut out, u64::try_from(self.entries.len()).unwrap_or(u64::MAX));
        for entry in &self.entries {
            for number in [entry.minimal, entry.full, entry.length] {
                coding::number(&mut out, number.into());
            }
        }
        out.extend_from_slice(&self.digest);
        coding::bytes(&mut out, &self.packed);
        match u64::try_from(out.len()) {
            Ok(len) if len <= MAX_DATA_BYTES => Ok(out),
            _ => Err(MinisoError::TooLarge(collision("data size limit", MAX_DATA_BYTES))),
        }
    }

    /// Reads what the file has; more may follow.
    pub fn decode(bytes: &[u8]) -> Result<Self, MinisoError> {
        let header = |source| MinisoError::Decode { what: "header", source };
        let body = |source| MinisoError::Decode { what: "data", source };
        let mut decoder = Decoder(bytes);
        let magic: [u8; 8] = decoder.array().map_err(header)?;
        let found = decoder.u32().map_err(header)?;
        let by = String::from_utf8_lossy(decoder.bytes().map_err(header)?).into_owned();
        if magic != MAGIC {
            return Err(MinisoError::Header(HeaderError::Magic));
        }
        if found != VERSION {
            return Err(MinisoError::Header(HeaderError::Version { found, by }));
        }
        let mut entries = Vec::new();
        for _ in 0..decoder.number().map_err(body)? {
            let mut number = || decoder.u32().map_err(body);
            entries.push(Entry { minimal: number()?, full: number()?, length: number()? });
        }
        let digest = decoder.array().map_err(body)?;
        let packed = decoder.bytes().map_err(body)?.to_vec();
        check(&entries).map_err(MinisoError::Table)?;
        Ok(Self { entries, digest, packed })
    }
}

/// An error as it says that there is no room.
pub(crate) fn collision(with: &str, offset: u64) -> io::Error {
    io::Error::other(format!("collision with {with} at offset {offset}"))
}

/// The files both have, in the order of the minimal ISO, without empty ones and without other names of the same.
fn table(
    full_files: &BTreeMap<String, Record>,
    minimal_files: &BTreeMap<String, Record>,
) -> Result<Vec<Entry>, MinisoError> {
    let mut entries = BTreeSet::new();
    for (path, minimal) in minimal_files {
        match full_files.get(path) {
            None => return Err(MinisoError::Missing { path: path.clone() }),
            Some(full) if full.length != minimal.length => return Err(MinisoError::Lengths { path: path.clone() }),
            Some(full) => entries.insert(Entry { minimal: minimal.address, full: full.address, length: full.length }),
        };
    }
    let entries: Vec<_> = entries.into_iter().filter(|entry| entry.length > 0).collect();
    check(&entries).map_err(MinisoError::Table)?;
    Ok(entries)
}

fn check(entries: &[Entry]) -> Result<(), TableError> {
    if entries.is_empty() {
        return Err(TableError::Empty);
    }
    match entries.iter().zip(&entries[1..]).find(|(first, second)| first.minimal_end() > second.minimal_offset()) {
        Some((first, second)) => {
            Err(TableError::Overlap { first: first.minimal_offset(), second: second.minimal_offset() })
        }
        None => Ok(()),
    }
}

/// Copies `len` bytes, or fails.
fn copy(from: &mut impl Read, to: &mut impl Write, len: u64) -> io::Result<()> {
    let copied = io::copy(&mut from.take(len), to)?;
    if copied < len {
        let text = format!("expected to copy {len} bytes but instead copied {copied} bytes");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    Ok(())
}

/// Hashes what passes through, up to a limit.
struct Hashed<W> {
    out: W,
    hasher: Sha256,
    room: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let count = self.out.write(buf)?;
        let written = u64::try_from(count).unwrap_or(u64::MAX);
        self.room = self.room.checked_sub(written).ok_or_else(|| collision("size limit", MAX_ISO_BYTES))?;
        self.hasher.update(&buf[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
