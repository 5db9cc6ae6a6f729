//! Why install-time files can't be used.

use super::reading::{MAX_BYTES, REQUIRED};
use crate::store::seal::SealError;
use std::{io, path::PathBuf};

/// Files that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterFilesError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// Larger than any such file.
    #[error("{} is larger than {}", path.display(), kernel::units::binary(MAX_BYTES))]
    TooLarge { path: PathBuf },
    /// A required file is missing.
    #[error("{} is missing: a control plane needs {}, in the directory itself or in one for each cluster, named by its id or \
        its name and domain", path.display(), REQUIRED.join(", "))]
    Missing { path: PathBuf },
    /// Ignition would refuse it.
    #[error("{} is not a usable Ignition config: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    /// It is sealed with another key.
    #[error("{} can't be decrypted", path.display())]
    Sealed { path: PathBuf, source: SealError },
}
