//! Where a rack is on this machine.

use anyhow::Context;
use std::{
    env,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// The service's state directory, in the rack's.
pub(super) const SERVICE: &str = "service";

/// A path as people write it.
pub(super) fn shown(path: &Path) -> String {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.components().count() > 1);
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Others read nothing of a rack.
pub(super) fn make(directory: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot make {}", directory.display()))
}
