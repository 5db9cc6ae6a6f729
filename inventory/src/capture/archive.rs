//! Captures as files: a tar archive, compressed, of directories, regular files and links.

use crate::record::Kind;
use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use liblzma::{bufread::XzDecoder, stream::Stream};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// A capture of fifteen thousand disks has a million entries and some 100 MB.
const MAX_ENTRIES: usize = 4_000_000;
const MAX_BYTES: u64 = 1 << 30;
/// What `xz -9` needs, and some.
const XZ_MEMORY_BYTES: u64 = 128 << 20;
/// First bytes of what an archive may be compressed with.
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Directories by which the root of a machine is known.
const LANDMARKS: [&str; 3] = ["sys", "proc", "landfall"];

/// An archive that can't be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It can't be read, or its directory can't be written.
    #[error("cannot unpack it")]
    Io(#[from] io::Error),
    /// An entry would land outside.
    #[error("its entry {} leads out of the archive", path.display())]
    Outside {
        /// As written in the archive.
        path: PathBuf,
    },
    /// More than a capture holds.
    #[error("it has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes, which no capture has")]
    TooLarge,
}

/// Writes entries as `.tar.gz`. The same entries give the same bytes.
pub(super) fn pack(entries: &BTreeMap<PathBuf, Kind>, to: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(to, Compression::default()));
    for (path, kind) in entries {
        let Ok(path) = path.strip_prefix("/") else { continue };
        if path.as_os_str().is_empty() {
            continue;
        }
        let mut header = Header::new_gnu();
        header.set_mode(if *kind == Kind::Directory { 0o755 } else { 0o644 });
        header.set_size(0);
        match kind {
            Kind::Directory => {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, path, io::empty())?;
            }
            Kind::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, path, target)?;
            }
            Kind::File(bytes) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(u64::try_from(bytes.len()).map_err(io::Error::other)?);
                archive.append_data(&mut header, path, bytes.as_slice())?;
            }
            Kind::Unread | Kind::Refused(_) => {
                header.set_entry_type(EntryType::Regular);
                archive.append_data(&mut header, path, io::empty())?;
            }
            Kind::Special => {}
        }
    }
    archive.into_inner()?.finish()?.flush()
}

/// Unpacks an archive, plain or compressed by gzip, xz or zstd, into a directory of its own. Gives that directory, and the
/// one in it that is the machine's root: archives of other programs have it one level down.
pub(crate) fn unpack(path: &Path) -> Result<(TempDir, PathBuf), ArchiveError> {
    let dir = tempfile::Builder::new().prefix("landfall-capture-").tempdir()?;
    unpack_to(decoded(File::open(path)?)?, dir.path())?;
    let root = root_in(dir.path())?;
    Ok((dir, root))
}

fn decoded(file: File) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(file);
    let start = file.fill_buf()?;
    Ok(if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else if start.starts_with(XZ) {
        let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0)?;
        Box::new(XzDecoder::new_stream(file, stream))
    } else if start.starts_with(ZSTD) {
        Box::new(zstd::Decoder::with_buffer(file)?)
    } else {
        Box::new(file)
    })
}

/// Links are made last, so that no entry is ever written through one.
fn unpack_to(archive: impl Read, dir: &Path) -> Result<(), ArchiveError> {
    let mut links = Vec::new();
    let mut bytes_left = MAX_BYTES;
    // Headers and long names count too.
    let archive = archive.take(MAX_BYTES);
    for (count, entry) in tar::Archive::new(archive).entries()?.enumerate() {
        let mut entry = entry?;
        bytes_left = bytes_left.checked_sub(entry.size()).ok_or(ArchiveError::TooLarge)?;
        if count >= MAX_ENTRIES {
            return Err(ArchiveError::TooLarge);
        }
        let path = inside(&entry.path()?)?;
        if path.as_os_str().is_empty() {
            continue;
        }
        let place = dir.join(&path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&place)?,
            EntryType::Regular | EntryType::Continuous => {
                io::copy(&mut entry, &mut File::create(&place)?)?;
            }
            EntryType::Symlink => links.push((place, entry.link_name()?.unwrap_or_default().into_owned())),
            EntryType::Link => {
                let target = inside(&entry.link_name()?.unwrap_or_default())?;
                fs::copy(dir.join(target), &place)?;
            }
            // Device nodes, sockets and the like.
            _ => {}
        }
    }
    for (place, target) in links {
        match symlink(&target, &place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The path without its root and dots.
fn inside(path: &Path) -> Result<PathBuf, ArchiveError> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ArchiveError::Outside { path: path.to_owned() });
            }
        }
    }
    Ok(clean)
}

fn root_in(dir: &Path) -> io::Result<PathBuf> {
    let is_root = |dir: &Path| LANDMARKS.iter().any(|name| dir.join(name).is_dir());
    if !is_root(dir) {
        let mut entries = fs::read_dir(dir)?;
        if let (Some(only), None) = (entries.next(), entries.next()) {
            let only = only?.path();
            // Never a link: those of an archive may lead anywhere.
            if fs::symlink_metadata(&only)?.is_dir() && is_root(&only) {
                return Ok(only);
            }
        }
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the archive has neither sys nor proc at its top: it is no capture of a machine",
        ));
    }
    Ok(dir.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> BTreeMap<PathBuf, Kind> {
        let long = format!("/sys/{}", "d".repeat(200));
        BTreeMap::from([
            ("/sys".into(), Kind::Directory),
            (long.clone().into(), Kind::Directory),
            (format!("{long}/file").into(), Kind::File(b"content".to_vec())),
            ("/sys/link".into(), Kind::Link("../sys/nowhere".into())),
            ("/sys/unread".into(), Kind::Unread),
            ("/sys/refused".into(), Kind::Refused(5)),
        ])
    }

    fn packed() -> Vec<u8> {
        let mut bytes = Vec::new();
        pack(&entries(), &mut bytes).unwrap();
        bytes
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn what_is_packed_comes_out() {
        assert_eq!(packed(), packed());
        let tar = {
            let mut tar = Vec::new();
            MultiGzDecoder::new(packed().as_slice()).read_to_end(&mut tar).unwrap();
            tar
        };
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
        xz.write_all(&tar).unwrap();
        let zstd = zstd::encode_all(tar.as_slice(), 0).unwrap();
        for archive in [packed(), tar, xz.finish().unwrap(), zstd] {
            let (_dir, root) = unpack(file(&archive).path()).unwrap();
            let content = root.join(format!("sys/{}/file", "d".repeat(200)));
            assert_eq!(fs::read_to_string(content).unwrap(), "content");
            assert_eq!(fs::read_link(root.join("sys/link")).unwrap(), Path::new("../sys/nowhere"));
            assert_eq!(fs::read(root.join("sys/unread")).unwrap(), b"");
            assert!(root.join("sys/refused").exists());
        }
    }

    /// An archive whose entries are not what they should be.
    fn hostile(build: impl FnOnce(&mut Builder<Vec<u8>>)) -> tempfile::NamedTempFile {
        let mut archive = Builder::new(Vec::new());
        build(&mut archive);
        file(&archive.into_inner().unwrap())
    }

    fn header(kind: EntryType, name: &str, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        // Past the crate's own checks of names.
        let bytes = &mut header.as_old_mut().name;
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        header
    }

    #[test]
    fn nothing_is_written_outside() {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().to_str().unwrap();
        let through_link = hostile(|archive| {
            let mut link = header(EntryType::Symlink, "sys", 0);
            link.set_link_name(target).unwrap();
            link.set_cksum();
            archive.append(&link, io::empty()).unwrap();
            archive.append(&header(EntryType::Regular, "sys/planted", 1), &b"x"[..]).unwrap();
        });
        let (_dir, root) = unpack(through_link.path()).unwrap();
        assert_eq!(fs::read(root.join("sys/planted")).unwrap(), b"x");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        let upwards = hostile(|archive| {
            archive.append(&header(EntryType::Regular, "sys/../../planted", 1), &b"x"[..]).unwrap();
        });
        assert!(matches!(unpack(upwards.path()), Err(ArchiveError::Outside { .. })));
    }

    #[test]
    fn files_that_are_no_captures() {
        assert!(matches!(unpack(Path::new("/nonexistent")), Err(ArchiveError::Io(_))));
        assert!(unpack(file(b"#!/bin/sh\n").path()).is_err());
        assert!(unpack(file(&packed()[..100]).path()).is_err());
        let large = hostile(|archive| {
            archive.append(&header(EntryType::Regular, "sys", MAX_BYTES + 1), io::empty()).unwrap();
        });
        assert!(matches!(unpack(large.path()), Err(ArchiveError::TooLarge)));
        let other = hostile(|archive| archive.append(&header(EntryType::Regular, "x", 1), &b"x"[..]).unwrap());
        assert!(unpack(other.path()).unwrap_err().to_string().contains("cannot unpack"));
    }
}
