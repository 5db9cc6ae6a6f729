//! Makes an osmet file of a disk: where the disk has files of its ostree repository, the file refers to them; all other bytes are
//! packed. The result is put together once, and must be the disk again.
//!
//! The disk is opened for reading only, and its file systems are mounted through loop devices that allow no writes.

mod overlaps;
mod scan;

pub use overlaps::Overlaps;
pub use scan::Scan;

use crate::extents::ExtentsError;
use crate::gpt::{self, Partition};
use crate::mount::{MountError, PartitionDevice};
use crate::probe::{PartitionContents, probe};
use crate::source::osmet::format::{self, Header, MAX_MAPPINGS};
use crate::source::osmet::{OsmetError, OsmetReader};
use kernel::Cancel;
use liblzma::{
    stream::{Check, Stream},
    write::XzEncoder,
};
use std::{
    fs::{self, File},
    io::{self, BufReader, Seek, Write},
    os::unix::fs::{FileExt, FileTypeExt},
    path::{Path, PathBuf},
};

/// The version that files name: that of the program whose format it is.
const PROGRAM_VERSION: &str = "0.27.0";
/// Labels of the file systems with files that the live system has too.
const BOOT: &str = "boot";
const ROOT: &str = "root";
/// Below the root file system.
const REPO: &str = "ostree/repo";
/// Presets of xz.
const BEST: u32 = 9;
const FASTEST: u32 = 0;
const BUFFER_BYTES: usize = 1 << 20;

/// Why there is no osmet file. Texts are coreos-installer's where it has the same.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("canonicalizing {}", path.display())]
    Name { path: PathBuf, source: io::Error },
    #[error("opening {path:?}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is neither a disk nor an image of one with a GUID partition table", path.display())]
    NotADisk { path: PathBuf },
    #[error("couldn't find any partitions on {}", path.display())]
    NoPartitions { path: PathBuf },
    /// No file system has the label.
    #[error("couldn't find {label} device for {}", path.display())]
    Missing { path: PathBuf, label: &'static str },
    #[error("found multiple devices on {} with label \"{label}\"", path.display())]
    Ambiguous { path: PathBuf, label: &'static str },
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A directory of one of the file systems.
    #[error("walking {} of the {label} file system", path.display())]
    Walk { path: PathBuf, label: &'static str, source: io::Error },
    /// A file of one of the file systems.
    #[error("reading {} of the {label} file system", path.display())]
    File { path: PathBuf, label: &'static str, source: io::Error },
    #[error("mapping {} of the {label} file system", path.display())]
    Extents { path: PathBuf, label: &'static str, source: ExtentsError },
    #[error("the file systems' files have more than {MAX_MAPPINGS} extents")]
    TooMany,
    #[error("cannot read {} at byte {offset}", path.display())]
    Read { path: PathBuf, offset: u64, source: io::Error },
    #[error("cannot write the osmet file")]
    Write(#[source] io::Error),
    /// Another disk than expected, or files that are not what their extents have.
    #[error("unpacking test: got checksum {found} but expected {expected}")]
    Sum { found: String, expected: String },
    #[error("unpacking test")]
    Unpack(#[source] OsmetError),
    #[error("interrupted; no osmet file is left")]
    Cancelled,
}

/// What to make an osmet file of.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// A disk, or a file with the image of one.
    pub disk: PathBuf,
    /// Name and version of the operating system.
    pub description: String,
    /// As `uname -m` calls it.
    pub architecture: String,
    /// Of the whole disk.
    pub sha256: [u8; 32],
    /// Compress little, for builds that are soon thrown away.
    pub fast: bool,
    pub cancel: Cancel,
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackEvent {
    Scanned(Scan),
    /// So many bytes of the disk are packed or left out.
    Packing {
        done: u64,
        total: u64,
    },
    Packed(Packed),
    /// So many bytes of the disk are put together again.
    Verifying {
        done: u64,
        total: u64,
    },
}

/// How many bytes went where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Those of files.
    pub skipped: u64,
    /// All others.
    pub written: u64,
    /// Those others, compressed.
    pub compressed: u64,
}

/// Writes the osmet file to `out`, a new file that is open for reading too, and checks it.
///
/// # Errors
///
/// What is in `out` then is not an osmet file.
pub fn pack(
    options: &PackOptions,
    out: &mut File,
    on_event: &mut (dyn FnMut(PackEvent) + Send),
) -> Result<(), PackError> {
    let disk = Source::open(&options.disk)?;
    let (boot, root) = disk.partitions()?;
    let (boot_device, root_device) = (disk.mount(&boot)?, disk.mount(&root)?);
    let boot_files = boot_device.enter(|| scan::boot_files(Path::new("/"), &options.cancel))??;
    root_device.enter(|| {
        let inside = Path::new("/");
        let (partitions, scan) = scan::partitions(&inside.join(REPO), boot_files, &boot, &root, &options.cancel)?;
        on_event(PackEvent::Scanned(scan));
        let header = Header {
            sector_bytes: disk.sector_bytes,
            description: options.description.clone(),
            architecture: options.architecture.clone(),
        };
        let head = format::head(&header, PROGRAM_VERSION, &partitions, &options.sha256, disk.size_bytes);
        out.write_all(&head).map_err(PackError::Write)?;
        write(&disk, &partitions, options, out, on_event)?;
        verify(options, out, &inside.join(REPO), on_event)
    })?
}

/// A disk, or an image of one.
struct Source {
    file: File,
    /// Links resolved.
    path: PathBuf,
    size_bytes: u64,
    sector_bytes: u32,
}

impl Source {
    fn open(given: &Path) -> Result<Self, PackError> {
        let path = fs::canonicalize(given).map_err(|source| PackError::Name { path: given.to_owned(), source })?;
        let open = |source| PackError::Open { path: path.clone(), source };
        let file = File::open(&path).map_err(open)?;
        let meta = file.metadata().map_err(open)?;
        let (size_bytes, sector_bytes) = if meta.file_type().is_block_device() {
            (kernel::disk::size_bytes(&file).map_err(open)?, kernel::disk::sector_bytes(&file).map_err(open)?)
        } else if let Some(sector) = image_sector_bytes(&file, meta.is_file()) {
            (meta.len(), sector)
        } else {
            return Err(PackError::NotADisk { path });
        };
        Ok(Self { file, path, size_bytes, sector_bytes })
    }

    /// The partitions whose file systems are labelled `boot` and `root`.
    fn partitions(&self) -> Result<(Partition, Partition), PackError> {
        let path = || self.path.clone();
        let all = probe(&self.file, self.size_bytes, self.sector_bytes).partitions;
        if all.is_empty() {
            return Err(PackError::NoPartitions { path: path() });
        }
        let labelled = |label| {
            let is_it = |one: &&PartitionContents| one.signatures.iter().any(|s| s.label.as_deref() == Some(label));
            let mut found = all.iter().filter(is_it);
            let one = found.next().ok_or_else(|| PackError::Missing { path: path(), label })?;
            match found.next() {
                Some(_) => Err(PackError::Ambiguous { path: path(), label }),
                None => {
                    let (start, len) = (one.span.offset, one.span.len);
                    Ok(Partition { number: one.number, name: label.to_owned(), start, len })
                }
            }
        };
        Ok((labelled(BOOT)?, labelled(ROOT)?))
    }

    fn mount(&self, partition: &Partition) -> Result<PartitionDevice, MountError> {
        PartitionDevice::read_only(&self.file, &self.path, partition)
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), PackError> {
        let read = self.file.read_exact_at(buf, offset);
        read.map_err(|source| PackError::Read { path: self.path.clone(), offset, source })
    }
}

fn image_sector_bytes(file: &File, is_file: bool) -> Option<u32> {
    let mut head = [0; 8192];
    (is_file && file.read_exact_at(&mut head, 0).is_ok()).then(|| gpt::image_sector_bytes(&head))?
}

/// The packed part: all bytes of the disk that are not in a mapping.
fn write(
    disk: &Source,
    partitions: &[format::Partition],
    options: &PackOptions,
    out: &mut File,
    on_event: &mut dyn FnMut(PackEvent),
) -> Result<(), PackError> {
    let preset = if options.fast { FASTEST } else { BEST };
    let stream = Stream::new_easy_encoder(preset, Check::Crc64).map_err(|error| PackError::Write(error.into()))?;
    let mut encoder = XzEncoder::new_stream(out, stream);
    let mut buf = vec![0; BUFFER_BYTES];
    let mut packed = Packed::default();
    let total = disk.size_bytes;
    let mappings = partitions.iter().flat_map(|partition| &partition.mappings);
    let ends = mappings.map(|mapping| (mapping.start, mapping.len)).chain([(total, 0)]);
    let mut at = 0;
    for (end, skipped) in ends {
        while at < end {
            if options.cancel.is_cancelled() {
                return Err(PackError::Cancelled);
            }
            let room = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(buf.len());
            let chunk = &mut buf[..room];
            disk.read(chunk, at)?;
            encoder.write_all(chunk).map_err(PackError::Write)?;
            let count = u64::try_from(room).unwrap_or(u64::MAX);
            packed.written = packed.written.saturating_add(count);
            at = at.saturating_add(count);
            on_event(PackEvent::Packing { done: at, total });
        }
        packed.skipped = packed.skipped.saturating_add(skipped);
        at = at.saturating_add(skipped);
    }
    encoder.try_finish().map_err(PackError::Write)?;
    packed.compressed = encoder.total_out();
    on_event(PackEvent::Packed(packed));
    Ok(())
}

/// Puts the image together from what was written and from the repository, as a live system does.
fn verify(
    options: &PackOptions,
    out: &File,
    repo: &Path,
    on_event: &mut dyn FnMut(PackEvent),
) -> Result<(), PackError> {
    let mut input = out.try_clone().map_err(PackError::Write)?;
    input.rewind().map_err(PackError::Write)?;
    let failed = |error| match error {
        OsmetError::Sum { found, expected, .. } => PackError::Sum { found, expected },
        error => PackError::Unpack(error),
    };
    let mut reader = OsmetReader::over(BufReader::new(input), "the new osmet file".into(), repo).map_err(failed)?;
    let (mut buf, mut done, total) = (vec![0; BUFFER_BYTES], 0_u64, reader.size_bytes());
    loop {
        if options.cancel.is_cancelled() {
            return Err(PackError::Cancelled);
        }
        match reader.next(&mut buf).map_err(failed)? {
            0 => return Ok(()),
            count => done = done.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)),
        }
        on_event(PackEvent::Verifying { done, total });
    }
}

#[cfg(test)]
mod tests;
