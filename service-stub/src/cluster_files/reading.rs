//! Reading of install-time files.

use super::error::ClusterFilesError;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// A control plane needs these.
pub(super) const REQUIRED: [&str; 3] = ["bootstrap.ign", "master.ign", "worker.ign"];
/// A larger file is a mistake: configs have a few MB at most.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// The contents of a file, if it exists.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, ClusterFilesError> {
    let failed = |source| ClusterFilesError::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut contents = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut contents).map_err(failed)?;
    if u64::try_from(contents.len()).is_ok_and(|len| len > MAX_BYTES) {
        return Err(ClusterFilesError::TooLarge { path: path.to_owned() });
    }
    Ok(Some(contents))
}
