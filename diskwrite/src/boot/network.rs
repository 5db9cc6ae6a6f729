//! Network keyfiles for the first boot (docs/compatibility.md#network-keyfiles): at the end of the initramfs, which has them before it
//! finds a disk, or in a directory of the boot file system, where older systems look for them.

use super::{BootError, failed, last_entry, make_dir};
use crate::event::Event;
use crate::initrd::{Archive, Bounds, Compression, Names, scan_within};
use crate::options::NetworkPlace;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Component, Path, PathBuf},
};

/// Their directory, on the boot file system or in the initramfs' `etc`.
const DIRECTORY: &str = "coreos-firstboot-network";
/// What the initramfs hands them to NetworkManager with. Newer systems have one directory for both.
const READERS: [&str; 2] = ["usr/sbin/coreos-copy-firstboot-network", "usr/bin/coreos-copy-firstboot-network"];
const READER_PATTERN: &str = "*usr/*bin/coreos-copy-firstboot-network";
/// Where that program mounts the boot file system, if it reads them there: then it does not read the initramfs on installed systems.
const BOOT_MOUNT: &[u8] = b"/mnt/boot_partition";
/// An initramfs with firmware and drivers of all kinds has some 300 MiB; that program is a short script.
const BOUNDS: Bounds = Bounds { matched_bytes: 1 << 20, unpacked_bytes: 2 << 30 };

/// What to copy where.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Network {
    /// Where the files come from.
    pub directory: PathBuf,
    /// Possibly none.
    pub files: Vec<NetworkFile>,
    pub place: NetworkPlace,
}

/// A keyfile.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct NetworkFile {
    pub name: OsString,
    pub content: Vec<u8>,
    pub permissions: Permissions,
}

/// Copies the files, if any, below the boot file system's `root`.
pub(super) fn copy(root: &Path, network: &Network, done: &mut Vec<Event>) -> Result<(), BootError> {
    let Network { directory, files, place } = network;
    let copying = |to| Event::CopyingNetwork {
        directory: directory.clone(),
        files: files.iter().map(|file| directory.join(&file.name)).collect(),
        to,
    };
    if files.is_empty() {
        done.push(copying(*place));
        return Ok(());
    }
    let initramfs = match place {
        NetworkPlace::Boot => None,
        NetworkPlace::Initramfs => Some(Initramfs::find(root)?),
        NetworkPlace::Auto => Some(Initramfs::find(root)?).filter(|initramfs| !initramfs.reads_boot()),
    };
    let Some(initramfs) = initramfs else {
        done.push(copying(NetworkPlace::Boot));
        return to_boot(root, files);
    };
    done.push(copying(NetworkPlace::Initramfs));
    initramfs.append(&archive(files)?)?;
    done.push(Event::AppendedNetwork { initramfs: initramfs.name });
    Ok(())
}

fn to_boot(root: &Path, files: &[NetworkFile]) -> Result<(), BootError> {
    let dir = root.join(DIRECTORY);
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

/// As coreos-installer packs them, to the byte; NetworkManager reads no keyfile that others may read.
fn archive(files: &[NetworkFile]) -> Result<Vec<u8>, BootError> {
    let mut archive = Archive::new();
    for NetworkFile { name, content, .. } in files {
        let name = name.to_string_lossy();
        let path = format!("etc/{DIRECTORY}/{name}");
        if archive.get(&path).is_some() {
            return Err(BootError::SameName { name: name.into_owned() });
        }
        archive.add(&path, 0o600, content.clone())?;
    }
    Ok(archive.pack(Compression::Xz)?)
}

/// The initramfs of the boot loader's last entry.
struct Initramfs {
    /// As the entry says, from the boot file system's root.
    name: String,
    path: PathBuf,
}

impl Initramfs {
    fn find(root: &Path) -> Result<Self, BootError> {
        let (entry, text) = last_entry(root)?;
        let name = text.lines().filter_map(|line| line.strip_prefix("initrd ")).next_back();
        let name = name.ok_or(BootError::NoInitrdKey { path: entry })?.trim().to_owned();
        let refused = |problem| BootError::InitramfsPath { problem, initramfs: name.clone() };
        let relative = name.strip_prefix('/').ok_or_else(|| refused("is not absolute"))?;
        if Path::new(relative).components().any(|part| part == Component::ParentDir) {
            return Err(refused("contains '..'"));
        }
        let path = root.join(relative.trim_start_matches('/'));
        // A pipe would wait for a writer.
        if !fs::metadata(&path).is_ok_and(|meta| meta.is_file()) {
            return Err(BootError::NoInitramfs { path });
        }
        Ok(Self { name, path })
    }

    /// Whether it looks for keyfiles on the boot file system, and only there. False also if that can't be found out.
    fn reads_boot(&self) -> bool {
        match reader(&self.path, BOUNDS) {
            Ok(Some(reader)) => reader.windows(BOOT_MOUNT.len()).any(|text| text == BOOT_MOUNT),
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(error, initramfs = self.name, "cannot find out where the image reads network keyfiles");
                false
            }
        }
    }

    /// Replaces the file by a copy that is on the medium as a whole.
    fn append(&self, archive: &[u8]) -> Result<(), BootError> {
        let path = &self.path;
        let mut file = File::open(path).map_err(failed("open", path))?;
        let meta = file.metadata().map_err(failed("read", path))?;
        let needed_bytes = meta.len().saturating_add(u64::try_from(archive.len()).unwrap_or(u64::MAX));
        let copying = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => BootError::Space { path: path.clone(), needed_bytes },
            _ => failed("copy", path)(error),
        };
        let dir = path.parent().unwrap_or(Path::new("/"));
        let mut copy = tempfile::Builder::new().prefix(".landfall-initramfs-").tempfile_in(dir).map_err(copying)?;
        io::copy(&mut file, copy.as_file_mut()).map_err(copying)?;
        copy.as_file_mut().write_all(archive).map_err(copying)?;
        fchown(copy.as_file(), Some(meta.uid()), Some(meta.gid())).map_err(copying)?;
        copy.as_file().set_permissions(meta.permissions()).map_err(copying)?;
        copy.as_file().sync_all().map_err(copying)?;
        copy.persist(path).map_err(|error| failed("replace", path)(error.error))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("flush", dir))
    }
}

/// The program of an initramfs that hands keyfiles to NetworkManager.
fn reader(initramfs: &Path, bounds: Bounds) -> Result<Option<Vec<u8>>, String> {
    let names = Names::new(&[READER_PATTERN]).map_err(|error| kernel::in_full(&error))?;
    let file = File::open(initramfs).map_err(|error| error.to_string())?;
    let found = scan_within(file, &names, bounds).map_err(|error| kernel::in_full(&error))?;
    Ok(READERS.iter().find_map(|name| found.get(name)).map(<[u8]>::to_vec))
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
