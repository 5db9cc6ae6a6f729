//! What a live host does with the files below `/etc/assisted/network`, before NetworkManager starts: the service's own
//! `pre-network-manager-config.sh` (docs/compatibility.md#static-network), planned first and then carried out.
//!
//! Of policies no nmstatectl is needed: each capture is an interface's MAC address, which is looked up here, and the rest is
//! NMState.

mod interfaces;
mod names;
mod plan;
mod source;

pub use interfaces::{Settled, interfaces, settle};
pub use plan::{Host, NamedInterface, Plan, Write, plan};
pub use source::{HostDir, read_hosts};

use super::{FILE_MODE, Mac, NetworkError};
use kernel::order;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What exists in an initramfs only.
const INITRAMFS_MARK: &str = "/etc/initrd-release";
/// Where an initramfs has profiles for NetworkManager, there and in the system it starts.
const INITRAMFS_TARGET: &str = "/etc/coreos-firstboot-network";
/// Where NetworkManager has its profiles.
const TARGET: &str = "/etc/NetworkManager/system-connections";

/// Why a host's network can't be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{} can't be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has more than {max} bytes", path.display())]
    TooLong { path: PathBuf, max: u64 },
    #[error("{} has a name or content that is not UTF-8", path.display())]
    Text { path: PathBuf },
    /// A line of the map that is not `MAC=name`.
    #[error("{}, line {line}: {reason}", path.display())]
    Map { path: PathBuf, line: usize, reason: String },
    #[error("{} is not a policy of captured MAC addresses: {reason}", path.display())]
    Policy { path: PathBuf, reason: String },
    #[error("{}: no interface of this machine has the MAC address {mac}, which the policy captures", path.display())]
    NotHere { path: PathBuf, mac: Mac },
    #[error("{} can't be converted to keyfiles", path.display())]
    Keyfiles { path: PathBuf, source: NetworkError },
    #[error("{one} and {other} would both become {name}; only one may match this machine")]
    SameFile { name: String, one: String, other: String },
    #[error("{one} and {other} have the same uuid, {uuid}; NetworkManager would drop one of them")]
    SameUuid { uuid: String, one: String, other: String },
    #[error("{} has a directory {name:?}, so it is not NetworkManager's directory of profiles; nothing was changed", path.display())]
    NotProfiles { path: PathBuf, name: String },
    #[error("{} can't be written", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Where the running system expects profiles.
pub fn default_target() -> &'static Path {
    Path::new(if Path::new(INITRAMFS_MARK).exists() { INITRAMFS_TARGET } else { TARGET })
}

/// The names of what lies in `target` and the plan doesn't write. Empty where nothing matched: then existing profiles stay.
pub fn stale(plan: &Plan, target: &Path) -> Result<Vec<String>, ApplyError> {
    let read = |source| ApplyError::Read { path: target.to_owned(), source };
    let mut names = Vec::new();
    if plan.write.is_empty() {
        return Ok(names);
    }
    let entries = match fs::read_dir(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries.map_err(read)?,
    };
    for entry in entries {
        let entry = entry.map_err(read)?;
        let name = entry.file_name().into_string().map_err(|_| ApplyError::Text { path: entry.path() })?;
        if entry.file_type().map_err(read)?.is_dir() {
            return Err(ApplyError::NotProfiles { path: target.to_owned(), name });
        }
        if plan.write.iter().all(|write| write.name != name) {
            names.push(name);
        }
    }
    order::sort(&mut names);
    Ok(names)
}

/// Writes the plan's profiles into `target`, each completely or not at all, then removes `stale` ones. After an
/// interruption it can be repeated.
pub fn carry_out(plan: &Plan, target: &Path, stale: &[String]) -> Result<(), ApplyError> {
    if plan.write.is_empty() {
        return Ok(());
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| ApplyError::Write { path, source }
    };
    fs::DirBuilder::new().recursive(true).mode(0o755).create(target).map_err(failed(target))?;
    for Write { name, text, .. } in &plan.write {
        let path = target.join(name);
        write_whole(target, &path, text.as_bytes()).map_err(failed(&path))?;
    }
    for name in stale {
        let path = target.join(name);
        fs::remove_file(&path).map_err(failed(&path))?;
    }
    fs::File::open(target).and_then(|dir| dir.sync_all()).map_err(failed(target))
}

/// Writes a file that holds what only root may see, and the directories above it.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), ApplyError> {
    let dir = path.parent().unwrap_or(path);
    let made = fs::create_dir_all(dir).and_then(|()| write_whole(dir, path, bytes));
    made.map_err(|source| ApplyError::Write { path: path.to_owned(), source })
}

fn write_whole(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".landfall-").tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
