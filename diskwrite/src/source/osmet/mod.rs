//! The image inside a live system: its large files are the system's own, the rest is packed beside it (osmet).

pub(crate) mod format;

use format::{Index, Mapping};
use kernel::hex;
use kernel::order;
use liblzma::{bufread::XzDecoder, stream::Stream};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

pub use format::OsmetFormatError;

/// Where the live system keeps its objects.
const REPO: &str = "/sysroot/ostree/repo";
/// Files in the directory that are looked at.
const MAX_FILES: usize = 64;
/// As xz -9 needs, twice.
const XZ_MEMORY_BYTES: u64 = 128 << 20;
const INPUT_BYTES: usize = 64 << 10;

/// Why the live system's image can't be had.
#[derive(Debug, thiserror::Error)]
pub enum OsmetError {
    /// The file or the directory can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Osmet file or directory.
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot use the osmet file {}", path.display())]
    Format { path: PathBuf, source: OsmetFormatError },
    /// The packed rest of the image is damaged.
    #[error("cannot unpack {} at byte {offset} of the image", path.display())]
    Packed {
        path: PathBuf,
        /// Bytes of the image that came before.
        offset: u64,
        source: io::Error,
    },
    /// The packed rest is longer than the image.
    #[error("{} holds more than the {size_bytes} bytes of its image", path.display())]
    Long {
        path: PathBuf,
        /// What the image should have.
        size_bytes: u64,
    },
    /// A file of the live system that can't be read.
    #[error("cannot read byte {file_offset} of the live system's {}, for byte {offset} of the image", object.display())]
    Object {
        object: PathBuf,
        file_offset: u64,
        /// Offset in the image.
        offset: u64,
        source: io::Error,
    },
    /// Some file of the live system is not what it was.
    #[error("the image unpacked from {} is damaged: its SHA-256 is {found}, not {expected}", path.display())]
    Sum { path: PathBuf, found: String, expected: String },
}

/// An image inside the live system. It is as trustworthy as the system that runs, so nothing else need vouch for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Osmet {
    /// The file that describes how it is put together.
    pub path: PathBuf,
    /// The ostree repository that has its files.
    pub repo: PathBuf,
    /// Name and version of the operating system.
    pub description: String,
    /// As `uname -m` calls it.
    pub architecture: String,
    /// Sectors of the disks it is for, in bytes.
    pub sector_bytes: u32,
}

impl Osmet {
    /// What the osmet file at `path` is of, whose files are in `repo`.
    pub fn read(path: PathBuf, repo: PathBuf) -> Result<Self, OsmetError> {
        let header = format::header(&mut open(&path)?);
        let header = header.map_err(|source| OsmetError::Format { path: path.clone(), source })?;
        let format::Header { sector_bytes, description, architecture } = header;
        Ok(Self { path, repo, description, architecture, sector_bytes })
    }
}

impl fmt::Display for Osmet {
    /// Such as `Fedora CoreOS 44 x86_64 (512-byte sectors)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}-byte sectors)", self.description, self.architecture, self.sector_bytes)
    }
}

/// The image for this architecture and sector size among the osmet files directly in `dir`; a live system has them in
/// `/run/coreos-installer/osmet`. None if there is no such directory or none of them fits.
pub fn osmet(dir: &Path, architecture: &str, sector_bytes: u32) -> Result<Option<Osmet>, OsmetError> {
    let error = |source| OsmetError::Read { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(error)?,
    };
    let mut files = Vec::new();
    for entry in entries.take(MAX_FILES) {
        let entry = entry.map_err(error)?;
        if entry.file_type().map_err(error)?.is_file() {
            files.push(entry.path());
        }
    }
    order::sort(&mut files);
    for path in files {
        let osmet = Osmet::read(path, REPO.into())?;
        if osmet.architecture == architecture && osmet.sector_bytes == sector_bytes {
            return Ok(Some(osmet));
        }
    }
    Ok(None)
}

fn open(path: &Path) -> Result<BufReader<File>, OsmetError> {
    let file = File::open(path).map_err(|source| OsmetError::Read { path: path.to_owned(), source })?;
    Ok(BufReader::with_capacity(INPUT_BYTES, file))
}

/// Puts the image together. The last of its bytes are given only if its sum is right.
pub(crate) struct OsmetReader {
    path: PathBuf,
    objects: PathBuf,
    packed: XzDecoder<BufReader<File>>,
    /// What is to come, the next one last.
    mappings: Vec<Mapping>,
    /// The file of the last mapping in the list, once it is open.
    object: Option<Object>,
    offset: u64,
    size_bytes: u64,
    hasher: Sha256,
    expected: [u8; 32],
}

struct Object {
    file: File,
    path: PathBuf,
    /// What is left of the file; beyond it the image has zeros.
    remaining: u64,
}

impl OsmetReader {
    pub(super) fn open(osmet: &Osmet) -> Result<Self, OsmetError> {
        Self::over(open(&osmet.path)?, osmet.path.clone(), &osmet.repo)
    }

    /// Of an open osmet file at its start; `path` is for errors.
    pub(crate) fn over(mut input: BufReader<File>, path: PathBuf, repo: &Path) -> Result<Self, OsmetError> {
        let index = format::header(&mut input).and_then(|_| format::index(&mut input));
        let Index { mut mappings, sha256, size_bytes } =
            index.map_err(|source| OsmetError::Format { path: path.clone(), source })?;
        mappings.reverse();
        let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0);
        let stream =
            stream.map_err(|error| OsmetError::Packed { path: path.clone(), offset: 0, source: error.into() })?;
        Ok(Self {
            path,
            objects: repo.join("objects"),
            packed: XzDecoder::new_stream(input, stream),
            mappings,
            object: None,
            offset: 0,
            size_bytes,
            hasher: Sha256::new(),
            expected: sha256,
        })
    }

    /// Size of the image in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The next bytes; none at the end of the image.
    pub(crate) fn next(&mut self, buf: &mut [u8]) -> Result<usize, OsmetError> {
        while self.mappings.last().is_some_and(|next| next.start.saturating_add(next.len) <= self.offset) {
            self.mappings.pop();
            self.object = None;
        }
        let (until, mapped) = match self.mappings.last() {
            Some(next) if next.start <= self.offset => (next.start.saturating_add(next.len), true),
            Some(next) => (next.start, false),
            None => (self.size_bytes, false),
        };
        let room = usize::try_from(until.saturating_sub(self.offset)).unwrap_or(usize::MAX).min(buf.len());
        let buf = &mut buf[..room];
        if buf.is_empty() {
            return Ok(0);
        }
        let count = if mapped { self.read_object(buf)? } else { self.read_packed(buf)? };
        if count == 0 {
            return Err(self.unpacking(io::ErrorKind::UnexpectedEof.into()));
        }
        self.hasher.update(&buf[..count]);
        self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if self.offset == self.size_bytes {
            self.finish()?;
        }
        Ok(count)
    }

    fn unpacking(&self, source: io::Error) -> OsmetError {
        OsmetError::Packed { path: self.path.clone(), offset: self.offset, source }
    }

    fn read_packed(&mut self, buf: &mut [u8]) -> Result<usize, OsmetError> {
        retried(|| self.packed.read(buf)).map_err(|source| self.unpacking(source))
    }

    fn read_object(&mut self, buf: &mut [u8]) -> Result<usize, OsmetError> {
        let Some(mapping) = self.mappings.last() else { return Ok(0) };
        let offset = self.offset;
        let file_offset = mapping.file_offset.saturating_add(offset.saturating_sub(mapping.start));
        let error = |object: &Path| {
            let object = object.to_owned();
            move |source| OsmetError::Object { object, file_offset, offset, source }
        };
        let object = match &mut self.object {
            Some(object) => object,
            none => {
                let path = object_path(&self.objects, &mapping.object);
                let object = open_object(&path, file_offset).map_err(error(&path))?;
                none.insert(object)
            }
        };
        let room = usize::try_from(object.remaining).unwrap_or(usize::MAX).min(buf.len());
        if room == 0 {
            buf.fill(0);
            return Ok(buf.len());
        }
        let count = retried(|| object.file.read(&mut buf[..room])).map_err(error(&object.path))?;
        if count == 0 {
            return Err(error(&object.path)(io::ErrorKind::UnexpectedEof.into()));
        }
        object.remaining = object.remaining.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }

    /// The packed part must end with the image; reading on to its end also checks its own sums.
    fn finish(&mut self) -> Result<(), OsmetError> {
        if self.read_packed(&mut [0])? > 0 {
            return Err(OsmetError::Long { path: self.path.clone(), size_bytes: self.size_bytes });
        }
        let found = hex::lower(self.hasher.finalize_reset());
        let expected = hex::lower(self.expected);
        if found == expected { Ok(()) } else { Err(OsmetError::Sum { path: self.path.clone(), found, expected }) }
    }
}

fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn open_object(path: &Path, at: u64) -> io::Result<Object> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.seek(SeekFrom::Start(at))?;
    Ok(Object { file, path: path.to_owned(), remaining: meta.len().saturating_sub(at) })
}

/// As ostree names a file by its checksum: `objects/ab/cdef….file`.
fn object_path(objects: &Path, sum: &[u8; 32]) -> PathBuf {
    let (first, rest) = sum.split_at(1);
    objects.join(hex::lower(first)).join(format!("{}.file", hex::lower(rest)))
}

#[cfg(test)]
#[path = "osmet_tests.rs"]
mod tests;
