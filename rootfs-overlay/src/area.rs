//! Changing what is in an ISO's embed area: the Ignition config, with network settings beside it left alone.
//!
//! What the area is to hold is worked out in memory ([`with_ignition`], [`without_ignition`]); only [`Output`] writes.

use crate::embed::{EmbedArea, EmbedError, locate};
use crate::initrd::{Archive, ArchiveError, Compression};
use crate::iso9660::Iso;
use crate::patched::{Patch, PatchError, PatchedImage};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The member that is the config.
pub const CONFIG_NAME: &str = "config.ign";

/// Why an area can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// The image can't be opened.
    #[error("{} can't be opened", path.display())]
    Open {
        /// The image.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// It is no live ISO.
    #[error("{} can't be used", path.display())]
    Iso {
        /// The image.
        path: PathBuf,
        /// Cause.
        source: EmbedError,
    },
    /// The area holds something else.
    #[error("what is embedded in {} can't be read", path.display())]
    Content {
        /// The image.
        path: PathBuf,
        /// Cause.
        source: ArchiveError,
    },
    /// The new content can't be packed.
    #[error("the new content of the embed area can't be packed")]
    Pack(#[source] ArchiveError),
    /// The config is not JSON.
    #[error("the Ignition config is not valid JSON (a Butane config must be translated first)")]
    NotJson(#[source] serde_json::Error),
    /// There is one already.
    #[error("{} already has an embedded Ignition config; use --force to replace it", path.display())]
    Present {
        /// The image.
        path: PathBuf,
    },
    /// There is none.
    #[error("No embedded Ignition config in {}", path.display())]
    Absent {
        /// The image.
        path: PathBuf,
    },
    /// No room.
    #[error(
        "Compressed initramfs is too large: {packed_bytes} > {area_bytes}; \
         deliver large files from a web server (contents.source) instead of inside the config"
    )]
    TooLarge {
        /// Length of the compressed archive.
        packed_bytes: u64,
        /// Length of the area.
        area_bytes: u64,
    },
    /// Patching failed.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The output exists.
    #[error("{} exists; it is not overwritten", path.display())]
    OutputExists {
        /// The output.
        path: PathBuf,
    },
    /// Writing failed.
    #[error("{} can't be written", path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Where a changed image goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The image itself is changed.
    InPlace,
    /// A new file; one that exists is not touched.
    NewFile(PathBuf),
    /// Standard output.
    Stdout,
}

/// A live ISO, opened for a look at its embed area.
pub struct LiveIso {
    path: PathBuf,
    area: EmbedArea,
    content: Vec<u8>,
}

impl fmt::Debug for LiveIso {
    /// Without what is in the area, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveIso").field("path", &self.path).field("area", &self.area).finish_non_exhaustive()
    }
}

impl LiveIso {
    /// Opens the image at `path` and reads its area.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, AreaError> {
        let path = path.into();
        let file = File::open(&path).map_err(|source| AreaError::Open { path: path.clone(), source })?;
        let read = || -> Result<_, EmbedError> {
            let mut iso = Iso::open(BufReader::new(file))?;
            let area = locate(&mut iso)?;
            let content = iso.read(area.extent)?;
            Ok((area, content))
        };
        match read() {
            Ok((area, content)) => Ok(Self { path, area, content }),
            Err(source) => Err(AreaError::Iso { path, source }),
        }
    }

    /// The area.
    pub fn area(&self) -> EmbedArea {
        self.area
    }

    /// What is in the area.
    pub fn archive(&self) -> Result<Archive, AreaError> {
        Archive::unpack(&self.content).map_err(|source| AreaError::Content { path: self.path.clone(), source })
    }

    /// The embedded Ignition config.
    pub fn ignition(&self) -> Result<Vec<u8>, AreaError> {
        let config = self.archive()?.get(CONFIG_NAME).map(<[u8]>::to_vec);
        config.ok_or_else(|| AreaError::Absent { path: self.path.clone() })
    }

    /// The change that embeds `config`; one that is there is replaced only with `force`.
    pub fn embed(&self, config: &[u8], force: bool) -> Result<Patch, AreaError> {
        serde_json::from_slice::<serde::de::IgnoredAny>(config).map_err(AreaError::NotJson)?;
        let archive = self.archive()?;
        if archive.get(CONFIG_NAME).is_some() && !force {
            return Err(AreaError::Present { path: self.path.clone() });
        }
        self.patch(with_ignition(archive, config)?)
    }

    /// The change that removes the config, and is none when there is none.
    pub fn remove(&self) -> Result<Patch, AreaError> {
        self.patch(without_ignition(self.archive()?)?)
    }

    /// The change that makes `packed` the only content of the area.
    fn patch(&self, mut packed: Vec<u8>) -> Result<Patch, AreaError> {
        let packed_bytes = u64::try_from(packed.len()).unwrap_or(u64::MAX);
        if packed_bytes > self.area.extent.len {
            return Err(AreaError::TooLarge { packed_bytes, area_bytes: self.area.extent.len });
        }
        // The area was read into a vector of its length.
        packed.resize(self.content.len(), 0);
        Ok(Patch { offset: self.area.extent.offset, bytes: packed })
    }

    /// Writes the image with `patch` to `output`.
    pub fn write(&self, patch: Patch, output: &Output) -> Result<(), AreaError> {
        match output {
            Output::InPlace => {
                let write = || {
                    let file = OpenOptions::new().write(true).open(&self.path)?;
                    file.write_all_at(&patch.bytes, patch.offset)?;
                    file.sync_all()
                };
                write().map_err(|source| AreaError::Write { path: self.path.clone(), source })
            }
            Output::NewFile(path) => self.write_new(patch, path),
            Output::Stdout => self.stream(patch, &mut io::stdout().lock()),
        }
    }

    /// Writes the image with `patch` to `out`, from start to end.
    pub fn stream(&self, patch: Patch, out: &mut impl Write) -> Result<(), AreaError> {
        let image = PatchedImage::open(&self.path, vec![patch])?;
        io::copy(&mut image.reader(), out)
            .and_then(|_| out.flush())
            .map_err(|source| AreaError::Write { path: "the output stream".into(), source })
    }

    /// Writes a new file under another name beside `path`, and gives it its name once it is complete.
    fn write_new(&self, patch: Patch, path: &Path) -> Result<(), AreaError> {
        let failed = |source| AreaError::Write { path: path.to_owned(), source };
        let exists = || AreaError::OutputExists { path: path.to_owned() };
        if path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut source =
            File::open(&self.path).map_err(|source| AreaError::Open { path: self.path.clone(), source })?;
        // As a file made by hand would have; the umask applies.
        let permissions = std::fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(directory).map_err(failed)?;
        // From file to file, so that the kernel copies, or shares the blocks where the filesystem can.
        io::copy(&mut source, file.as_file_mut()).map_err(failed)?;
        file.as_file().write_all_at(&patch.bytes, patch.offset).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => failed(error.error),
        })?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

/// `archive` with `config` in it, packed as coreos-installer packs it.
pub fn with_ignition(mut archive: Archive, config: &[u8]) -> Result<Vec<u8>, AreaError> {
    archive.add(CONFIG_NAME, 0o600, config).map_err(AreaError::Pack)?;
    archive.pack(Compression::Xz).map_err(AreaError::Pack)
}

/// `archive` without a config, packed; nothing at all when nothing else is in it, so that the area is as it was made.
pub fn without_ignition(mut archive: Archive) -> Result<Vec<u8>, AreaError> {
    archive.remove(CONFIG_NAME);
    if archive.is_empty() { Ok(Vec::new()) } else { archive.pack(Compression::Xz).map_err(AreaError::Pack) }
}

/// The change that makes `config` the only content of the embed area of the ISO at `path`, in the form the image service gives
/// it: gzip, one member, zeros up to the end of the area. `config` is not looked into.
pub fn ignition_patch(path: impl Into<PathBuf>, config: &[u8]) -> Result<Patch, AreaError> {
    let iso = LiveIso::open(path)?;
    let packed = ignition::pack(config).map_err(|source| AreaError::Pack(ArchiveError::Compress(source)))?;
    iso.patch(packed)
}
