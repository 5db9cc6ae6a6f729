//! Making a mounted file system writable.

use nix::{
    mount::MsFlags,
    sys::statvfs::{FsFlags, statvfs},
};
use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
#[error("cannot make the file system at {} writable", path.display())]
pub struct WritableError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Remounts what is mounted at `path`, unless it is writable already.
pub fn make_writable(path: &Path) -> Result<(), WritableError> {
    let fail = |source| WritableError { path: path.to_owned(), source };
    let flags = statvfs(path).map_err(|errno| fail(errno.into()))?.flags();
    if !flags.contains(FsFlags::ST_RDONLY) {
        return Ok(());
    }
    // Only the named flags retain the mount's other options.
    let preserved = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let preserved = preserved.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, flag)| flag);
    let flags = preserved.fold(MsFlags::MS_REMOUNT, |flags, flag| flags | flag);
    assist::remount(path, flags).map_err(fail)?;
    // What was waiting to be written when it was made read-only.
    nix::unistd::sync();
    Ok(())
}
