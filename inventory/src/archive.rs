//! Captures as files: a tar archive, compressed, of directories, regular files and links.

use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use kernel::record::Kind;
use liblzma::{bufread::XzDecoder, stream::Stream};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    mem,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Component, Path, PathBuf},
};
use tar::{Builder, EntryType, Header, PaxExtensions};
use tempfile::TempDir;

/// A capture of fifteen thousand disks has a million entries and some 100 MB. Directories that no entry names count too.
const MAX_ENTRIES: usize = 2_000_000;
const MAX_BYTES: u64 = 1 << 30;
/// Of a long name or of a pax header, which is held in memory. No path of Linux is longer than 4 KiB.
const MAX_NAME_BYTES: u64 = 64 << 10;
/// Of the names of all symbolic links, which are held in memory until the end.
const MAX_LINK_BYTES: usize = 256 << 20;
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
    #[error("its entry {} points outside the archive", path.display())]
    Outside {
        /// As written in the archive.
        path: PathBuf,
    },
    /// More than a capture holds.
    #[error(
        "it has more than {MAX_ENTRIES} entries, {MAX_BYTES} bytes or {MAX_NAME_BYTES} bytes of a name, which no capture has"
    )]
    TooLarge,
    /// A hard link to what is not a file of the archive, or not yet.
    #[error("its entry {} is a hard link to {}, which is not an earlier file of the archive", path.display(), target.display())]
    HardLink {
        /// As written in the archive.
        path: PathBuf,
        /// As written in the archive.
        target: PathBuf,
    },
}

/// Writes entries as `.tar.gz`. The same entries give the same bytes.
pub(crate) fn pack(entries: &BTreeMap<PathBuf, Kind>, to: impl Write) -> io::Result<()> {
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

/// Unpacks an archive, plain or compressed by gzip, xz or zstd, into its own directory. Gives that directory, and the
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

/// Symbolic links are made last, so that no entry is ever written through one.
fn unpack_to(archive: impl Read, dir: &Path) -> Result<(), ArchiveError> {
    let mut links = Vec::new();
    let mut link_bytes_left = MAX_LINK_BYTES;
    let mut bytes_left = MAX_BYTES;
    let mut entries_left = MAX_ENTRIES;
    let mut long = LongNames::default();
    // Headers and long names count too.
    let archive = archive.take(MAX_BYTES);
    // Raw, as the crate would otherwise read long names of any length into memory.
    for entry in tar::Archive::new(archive).entries()?.raw(true) {
        let mut entry = entry?;
        bytes_left = bytes_left.checked_sub(entry.size()).ok_or(ArchiveError::TooLarge)?;
        entries_left = entries_left.checked_sub(1).ok_or(ArchiveError::TooLarge)?;
        if long.take(&mut entry)? {
            continue;
        }
        let LongNames { path: long_path, target: long_target } = mem::take(&mut long);
        let path = match long_path {
            Some(path) => path,
            None => entry.path()?.into_owned(),
        };
        let target = match long_target {
            Some(target) => target,
            None => entry.link_name()?.unwrap_or_default().into_owned(),
        };
        let inner = inside(&path)?;
        if inner.as_os_str().is_empty() {
            continue;
        }
        let place = dir.join(&inner);
        match entry.header().entry_type() {
            EntryType::Directory => create_directories(dir, &inner, &mut entries_left)?,
            EntryType::Regular | EntryType::Continuous => {
                make_place(dir, &inner, &mut entries_left)?;
                io::copy(&mut entry, &mut File::create_new(&place)?)?;
            }
            EntryType::Symlink => {
                create_directories(dir, inner.parent().unwrap_or(Path::new("")), &mut entries_left)?;
                let len = inner.as_os_str().len() + target.as_os_str().len();
                link_bytes_left = link_bytes_left.checked_sub(len).ok_or(ArchiveError::TooLarge)?;
                links.push((inner, target));
            }
            EntryType::Link => {
                // One file under both names: a copy for each would be more than the archive's size tells.
                let original = dir.join(inside(&target)?);
                if !fs::symlink_metadata(&original).is_ok_and(|original| original.is_file()) {
                    return Err(ArchiveError::HardLink { path, target });
                }
                if original != place {
                    make_place(dir, &inner, &mut entries_left)?;
                    fs::hard_link(original, &place)?;
                }
            }
            // Device nodes, sockets and the like.
            _ => {}
        }
    }
    for (place, target) in links {
        match symlink(&target, dir.join(&place)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Names of the next entry that are too long for its header, in the entries that come before it.
#[derive(Default)]
struct LongNames {
    path: Option<PathBuf>,
    target: Option<PathBuf>,
}

impl LongNames {
    /// Whether the entry was such a name.
    fn take(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<bool, ArchiveError> {
        let kind = entry.header().entry_type();
        if !matches!(kind, EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader) {
            return Ok(false);
        }
        if entry.size() > MAX_NAME_BYTES {
            return Err(ArchiveError::TooLarge);
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let path = |bytes: &[u8]| Some(PathBuf::from(OsStr::from_bytes(bytes)));
        // GNU's names end with a zero.
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        match kind {
            EntryType::GNULongName => self.path = path(name),
            EntryType::GNULongLink => self.target = path(name),
            _ => {
                for record in PaxExtensions::new(&bytes) {
                    let record = record?;
                    match record.key_bytes() {
                        b"path" => self.path = path(record.value_bytes()),
                        b"linkpath" => self.target = path(record.value_bytes()),
                        _ => {}
                    }
                }
            }
        }
        Ok(true)
    }
}

/// The directories of a path below `dir`, each of which counts as an entry.
fn create_directories(dir: &Path, path: &Path, entries_left: &mut usize) -> Result<(), ArchiveError> {
    if dir.join(path).is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_directories(dir, parent, entries_left)?;
    }
    *entries_left = entries_left.checked_sub(1).ok_or(ArchiveError::TooLarge)?;
    Ok(fs::create_dir(dir.join(path))?)
}

/// Makes room for a file. An earlier one of that name goes: written to, it would change under all its names.
fn make_place(dir: &Path, path: &Path, entries_left: &mut usize) -> Result<(), ArchiveError> {
    create_directories(dir, path.parent().unwrap_or(Path::new("")), entries_left)?;
    match fs::remove_file(dir.join(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
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
            "the archive has neither sys nor proc at its top: it is not a capture of a machine",
        ));
    }
    Ok(dir.to_owned())
}

#[cfg(test)]
mod tests;
