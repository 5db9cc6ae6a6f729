//! Errors.

use crate::embed::EmbedError;
use crate::iso9660::IsoError;
use crate::kargs::KargsError;
use std::io;
use std::path::PathBuf;

/// Why there is no minimal ISO.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the ISO 9660 file system")]
    Iso(#[from] IsoError),
    /// It has no embed area.
    #[error("it has no room for an Ignition config")]
    Area(#[from] EmbedError),
    #[error(transparent)]
    Kargs(#[from] KargsError),
    /// It is not fit for it.
    #[error("cannot make a minimal ISO of {}: {what}", path.display())]
    Base {
        path: PathBuf,
        /// Why not, and what to do.
        what: String,
    },
    #[error("cannot write the minimal ISO")]
    Write(#[source] io::Error),
}
