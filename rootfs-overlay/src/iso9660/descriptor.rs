//! Volume descriptors (ECMA-119 §8): one sector each from the 16th on, up to the terminator.

use super::directory::{Directory, record};
use super::{IsoError, SECTOR_BYTES};
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{self, Read, Seek, SeekFrom};

const FIRST_SECTOR: u64 = 16;
/// Maximum number; anything with more is not an image.
const MAX_DESCRIPTORS: usize = 4096;

/// A volume descriptor, as far as needed here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Descriptor {
    /// Where BIOS boots from (El Torito).
    Boot {
        /// Which standard it boots by.
        boot_system_id: String,
        /// Name of what boots.
        boot_id: String,
    },
    Primary {
        /// System that reads the first sectors.
        system_id: String,
        /// The volume's label.
        volume_id: String,
        /// Its length in sectors.
        volume_space_size: u64,
        root: Directory,
    },
    /// The volume with other names (Joliet).
    Supplementary,
    Unknown {
        /// By its first byte.
        type_id: u8,
    },
}

/// Why a volume descriptor can't be read.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// There are no more bytes.
    #[error("reading volume descriptor")]
    Read(#[source] io::Error),
    #[error("parsing {kind} descriptor")]
    Header {
        /// What it says it is.
        kind: &'static str,
        source: HeaderError,
    },
    /// The root directory is none.
    #[error("failed to parse root directory record from primary descriptor")]
    Root,
    /// There is no end of them.
    #[error("more than {MAX_DESCRIPTORS} volume descriptors; not an ISO image")]
    TooMany,
}

/// What is wrong at a descriptor's start.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// Not `CD001`.
    #[error("unknown descriptor ID: {}", Bytes(found))]
    Id { found: [u8; 5] },
    /// Not 1.
    #[error("unknown descriptor version: {found}")]
    Version { found: u8 },
}

/// Bytes as Rust writes them in a literal.
struct Bytes<'a>(&'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("b\"")?;
        for &byte in self.0 {
            match byte {
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                b'\t' => f.write_str("\\t")?,
                b'\\' | b'"' => write!(f, "\\{}", char::from(byte))?,
                0 => f.write_str("\\0")?,
                0x20..=0x7e => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

/// All descriptors before the terminator.
pub(super) fn read_all(reader: &mut (impl Read + Seek)) -> Result<Vec<Descriptor>, IsoError> {
    let failed = |number: usize, source| IsoError::Descriptor { number, source };
    let start = SeekFrom::Start(FIRST_SECTOR * SECTOR_BYTES);
    reader.seek(start).map_err(|source| failed(1, DescriptorError::Read(source)))?;
    let mut all = Vec::new();
    loop {
        let number = all.len() + 1;
        if number > MAX_DESCRIPTORS {
            return Err(failed(number, DescriptorError::TooMany));
        }
        let mut sector = [0; 2048];
        reader.read_exact(&mut sector).map_err(|source| failed(number, DescriptorError::Read(source)))?;
        match parse(&sector).map_err(|source| failed(number, source))? {
            Some(descriptor) => all.push(descriptor),
            None => return Ok(all),
        }
    }
}

/// One sector; none for the terminator.
fn parse(sector: &[u8; 2048]) -> Result<Option<Descriptor>, DescriptorError> {
    Ok(Some(match sector[0] {
        0 => {
            check(sector, "boot")?;
            Descriptor::Boot { boot_system_id: padded(&sector[7..39]), boot_id: padded(&sector[39..71]) }
        }
        1 => {
            check(sector, "primary")?;
            let [a, b, c, d] = [sector[80], sector[81], sector[82], sector[83]];
            let root = record(&sector[156..190]).filter(|root| root.is_directory).ok_or(DescriptorError::Root)?;
            Descriptor::Primary {
                system_id: padded(&sector[8..40]),
                volume_id: padded(&sector[40..72]),
                volume_space_size: u64::from(u32::from_le_bytes([a, b, c, d])),
                root: Directory { name: ".".to_owned(), address: root.address, length: root.length },
            }
        }
        2 => Descriptor::Supplementary,
        255 => return Ok(None),
        type_id => Descriptor::Unknown { type_id },
    }))
}

fn check(sector: &[u8; 2048], kind: &'static str) -> Result<(), DescriptorError> {
    let source = match (&sector[1..6], sector[6]) {
        (b"CD001", 1) => return Ok(()),
        (b"CD001", found) => HeaderError::Version { found },
        _ => HeaderError::Id { found: [sector[1], sector[2], sector[3], sector[4], sector[5]] },
    };
    Err(DescriptorError::Header { kind, source })
}

/// Text up to the first zero, without the spaces it is filled up with.
fn padded(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim_end_matches(' ').to_owned()
}
