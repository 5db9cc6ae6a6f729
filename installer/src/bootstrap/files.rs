//! Files below the host's root: whole or not at all.

use super::BootstrapError;
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// None of our files is larger.
pub(super) const MAX_BYTES: u64 = 256 << 20;

/// Where a path of the host is.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Writes a file with its directories. The draft it is until it is whole has the same name each time, so that a killed run leaves
/// one that the next one takes.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), BootstrapError> {
    let fail = |source| BootstrapError::File { doing: "writing", path: path.to_owned(), source };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let draft = path.with_file_name(format!(".{name}.draft"));
    make_directory(path.parent().unwrap_or(Path::new("/")))?;
    remove(&draft)?;
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
        file.write_all(bytes)?;
        // Whatever the umask is.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&draft, path)
    })();
    written.map_err(fail)
}

/// Makes a directory, and those it is in.
pub(super) fn make_directory(path: &Path) -> Result<(), BootstrapError> {
    let fail = |source| BootstrapError::File { doing: "making the directory", path: path.to_owned(), source };
    fs::create_dir_all(path).map_err(fail)
}

/// A file's bytes; `None` if it is missing.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, BootstrapError> {
    let fail = |source| BootstrapError::File { doing: "reading", path: path.to_owned(), source };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut bytes = Vec::new();
    let len = file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    if u64::try_from(len).is_ok_and(|len| len > MAX_BYTES) {
        return Err(fail(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(Some(bytes))
}

/// Removes a file; a missing one is not an error.
pub(super) fn remove(path: &Path) -> Result<(), BootstrapError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BootstrapError::File { doing: "removing", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}
