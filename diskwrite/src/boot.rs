//! Changes to a mounted boot file system: Ignition config, kernel arguments, network keyfiles.

use crate::kargs::{EntryError, KargEdits, edit_entry};
use crate::prepare::{BootConfig, NetworkFile};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where GRUB looks for entries.
const ENTRIES: &str = "loader/entries";
/// Ignition runs on the first boot because this exists.
const STAMP: &str = "ignition.firstboot";
/// Where the first boot finds keyfiles.
const NETWORK: &str = "coreos-firstboot-network";
/// An entry is a few hundred bytes.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

/// Why the boot file system can't be made ready. Paths are as seen from its root.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// Something can't be read or written.
    #[error("cannot {action} {} on the boot file system", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The image already carries a config.
    #[error("{} exists on the boot file system: the image was configured before", path.display())]
    Configured {
        /// The config.
        path: PathBuf,
    },
    /// Ignition would not run.
    #[error("the boot file system has no {}: Ignition would not run, and the config would have no effect", path.display())]
    NoStamp {
        /// The missing file.
        path: PathBuf,
    },
    /// No place for kernel arguments.
    #[error("Found no BLS entries in {}", path.display())]
    NoEntries {
        /// The directory.
        path: PathBuf,
    },
    /// An entry that is not understood.
    #[error("cannot edit the kernel arguments in {}", path.display())]
    Entry {
        /// The entry.
        path: PathBuf,
        /// Cause.
        source: EntryError,
    },
    /// Larger than any entry.
    #[error("{} has more than {MAX_ENTRY_BYTES} bytes", path.display())]
    EntrySize {
        /// The entry.
        path: PathBuf,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BootError {
    let path = path.to_owned();
    move |source| BootError::Io { action, path, source }
}

/// Makes all changes below `root`.
pub(crate) fn configure(root: &Path, config: &BootConfig) -> Result<(), BootError> {
    if let Some(ignition) = &config.ignition {
        write_ignition(root, ignition)?;
    }
    if config.kargs != KargEdits::default() {
        edit_last_entry(root, &config.kargs)?;
    }
    if let Some(files) = &config.network {
        copy_network(root, files)?;
    }
    Ok(())
}

fn write_ignition(root: &Path, ignition: &[u8]) -> Result<(), BootError> {
    let stamp = root.join(STAMP);
    if !stamp.is_file() {
        return Err(BootError::NoStamp { path: stamp });
    }
    let dir = root.join("ignition");
    make_dir(&dir, 0o700)?;
    let path = dir.join("config.ign");
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(BootError::Configured { path }),
        result => result.map_err(failed("create", &path))?,
    };
    file.write_all(ignition).and_then(|()| file.sync_all()).map_err(failed("write", &path))
}

/// An existing directory stays as it is.
fn make_dir(dir: &Path, mode: u32) -> Result<(), BootError> {
    match DirBuilder::new().mode(mode).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(failed("create", dir)(error)),
        // The umask may have taken bits away.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(mode)).map_err(failed("set the mode of", dir)),
    }
}

/// Only the last entry by name: ostree sorts the newest last, and a fresh image has one.
fn edit_last_entry(root: &Path, edits: &KargEdits) -> Result<(), BootError> {
    let dir = root.join(ENTRIES);
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BootError::NoEntries { path: dir }),
        result => result.map_err(failed("list", &dir))?,
    };
    let mut last: Option<PathBuf> = None;
    for entry in entries {
        let path = entry.map_err(failed("list", &dir))?.path();
        if path.extension().is_some_and(|extension| extension == "conf") && Some(&path) > last.as_ref() {
            last = Some(path);
        }
    }
    let path = last.ok_or(BootError::NoEntries { path: dir })?;
    let file = File::open(&path).map_err(failed("read", &path))?;
    let mut text = String::new();
    file.take(MAX_ENTRY_BYTES + 1).read_to_string(&mut text).map_err(failed("read", &path))?;
    if u64::try_from(text.len()).is_ok_and(|len| len > MAX_ENTRY_BYTES) {
        return Err(BootError::EntrySize { path });
    }
    let edited = edit_entry(&text, edits).map_err(|source| BootError::Entry { path: path.clone(), source })?;
    // In place, so that the file keeps its SELinux label. There is no partition table yet that leads to a half-written one.
    let mut file = OpenOptions::new().write(true).truncate(true).open(&path).map_err(failed("open", &path))?;
    file.write_all(edited.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write", &path))
}

fn copy_network(root: &Path, files: &[NetworkFile]) -> Result<(), BootError> {
    let dir = root.join(NETWORK);
    make_dir(&dir, 0o755)?;
    for NetworkFile { name, content, permissions } in files {
        let path = dir.join(name);
        // Closed to others until it has its own mode: keyfiles hold passwords.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed("create", &path))?;
        let done = file.write_all(content).and_then(|()| file.set_permissions(permissions.clone()));
        done.and_then(|()| file.sync_all()).map_err(failed("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("loader.0/entries")).unwrap();
        std::os::unix::fs::symlink("loader.0", dir.path().join("loader")).unwrap();
        fs::write(dir.path().join("loader/entries/ostree-1.conf"), "title a\noptions old\n").unwrap();
        fs::write(dir.path().join("loader/entries/ostree-2.conf"), "title b\noptions x ignition.platform.id=metal\n")
            .unwrap();
        fs::write(dir.path().join("loader/entries/zzz.txt"), "no entry").unwrap();
        fs::write(dir.path().join(STAMP), "").unwrap();
        dir
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn makes_all_changes() {
        let dir = boot();
        let root = dir.path();
        let config = BootConfig {
            ignition: Some(b"{}".to_vec()),
            kargs: KargEdits { delete: vec!["x".into()], append: vec!["y=1".into()] },
            network: Some(vec![NetworkFile {
                name: "eth0.nmconnection".into(),
                content: b"[connection]\n".to_vec(),
                permissions: Permissions::from_mode(0o640),
            }]),
        };
        configure(root, &config).unwrap();
        assert_eq!(fs::read(root.join("ignition/config.ign")).unwrap(), b"{}");
        assert_eq!(mode(&root.join("ignition")), 0o700);
        assert_eq!(mode(&root.join("ignition/config.ign")), 0o600);
        let entry = |name: &str| fs::read_to_string(root.join(ENTRIES).join(name)).unwrap();
        assert_eq!(entry("ostree-2.conf"), "title b\noptions ignition.platform.id=metal y=1\n");
        assert_eq!(entry("ostree-1.conf"), "title a\noptions old\n");
        let keyfile = root.join("coreos-firstboot-network/eth0.nmconnection");
        assert_eq!(fs::read(&keyfile).unwrap(), b"[connection]\n");
        assert_eq!(mode(&keyfile), 0o640);
        assert!(matches!(configure(root, &config), Err(BootError::Configured { .. })));
    }

    #[test]
    fn missing_parts_are_named() {
        let dir = boot();
        let kargs = KargEdits { delete: vec![], append: vec!["a".into()] };
        let edit = || configure(dir.path(), &BootConfig { kargs: kargs.clone(), ..Default::default() });
        fs::write(dir.path().join("loader/entries/ostree-3.conf"), "title only\n").unwrap();
        assert!(matches!(edit(), Err(BootError::Entry { source: EntryError::NoOptions, .. })));
        fs::remove_dir_all(dir.path().join("loader.0/entries")).unwrap();
        assert!(edit().unwrap_err().to_string().starts_with("Found no BLS entries in "));
        fs::create_dir(dir.path().join("loader.0/entries")).unwrap();
        assert!(matches!(edit(), Err(BootError::NoEntries { .. })));
        fs::remove_file(dir.path().join(STAMP)).unwrap();
        let ignition = BootConfig { ignition: Some(b"{}".to_vec()), ..Default::default() };
        assert!(matches!(configure(dir.path(), &ignition), Err(BootError::NoStamp { .. })));
    }
}
