//! The manifest of a segment, as JSON: for `--check`, for a second bake, and for removal.

use crate::Patch;
use serde::{Deserialize, Serialize};

/// The only version of the manifest. Readers refuse others.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Content of `etc/landfall/baked.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `SCHEMA_VERSION`.
    pub schema_version: u32,
    /// Version of the Landfall that baked.
    pub landfall_version: String,
    pub program: ProgramFacts,
    /// All files on the live host, including the program, sorted by path.
    pub files: Vec<FileFacts>,
    /// Units that are enabled, sorted.
    pub units: Vec<String>,
    /// The service that agents report to, without user and query.
    pub service_url: Option<String>,
    /// Whether there is a plan for a rack with nothing else around.
    pub rendezvous: bool,
    /// An OS image beside the live system, on an ISO.
    pub image: Option<ImageFacts>,
    /// Length of the initrd without the segment.
    pub initrd_bytes: u64,
    /// The original ISO.
    pub iso: Option<IsoBase>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFacts {
    /// The version of Landfall it claims.
    pub version: Option<String>,
    /// Processor, as `uname -m` prints it.
    pub architecture: String,
    /// Of its bytes, hexadecimal.
    pub sha256: String,
}

/// A file on the live host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    pub path: String,
    /// Permission bits, octal.
    pub mode: String,
    /// Length.
    pub bytes: u64,
    /// Of its content, hexadecimal.
    pub sha256: String,
}

/// An OS image on the medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// Where the live system sees it.
    pub path: String,
    /// Length.
    pub bytes: u64,
}

/// What an ISO was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsoBase {
    pub bytes: u64,
    /// The original bytes that were changed.
    pub undo: Vec<Change>,
}

/// Bytes as they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Offset of the first.
    pub offset: u64,
    /// Hexadecimal.
    pub bytes: String,
}

impl Change {
    /// The undo of `patch`.
    pub(crate) fn undoing(patch: &Patch) -> Self {
        Self { offset: patch.offset, bytes: kernel::hex::lower(&patch.bytes) }
    }

    /// The patch; `None` if its digits are not hexadecimal.
    pub fn patch(&self) -> Option<Patch> {
        let digits = self.bytes.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                Some(digit(*high)? * 16 + digit(*low)?)
            }
            _ => None,
        });
        Some(Patch { offset: self.offset, bytes: digits.collect::<Option<_>>()? })
    }
}
