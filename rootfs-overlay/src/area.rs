//! A live ISO: the content of its embed area (docs/compatibility.md#iso-areas), its kernel arguments, and changes to both. Changes
//! are computed in memory; only [`Output`] writes. Error texts are coreos-installer's.

use crate::embed::{EmbedArea, EmbedError, locate};
use crate::initrd::{Archive, ArchiveError, Compression};
use crate::iso9660::{Iso, IsoError};
use crate::kargs::{Kargs, KargsError};
pub use crate::output::{Output, OutputError};
use crate::patched::Patch;
use serde::Deserialize;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader};
use std::path::PathBuf;

/// The member with the config.
pub(crate) const CONFIG_NAME: &str = "config.ign";
/// Prefix of the members with network settings.
pub(crate) const NETWORK_PREFIX: &str = "etc/coreos-firstboot-network/";
/// A longer file is not a description of features.
const MAX_FEATURES_BYTES: u64 = 64 << 10;

/// Why an ISO can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// The image can't be opened.
    #[error("opening {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("parsing ISO9660 image")]
    Parse(#[source] IsoError),
    /// It is not a live ISO.
    #[error("Unrecognized CoreOS ISO image.")]
    Unrecognized(#[source] EmbedError),
    /// The area holds something else.
    #[error("Unrecognized CoreOS ISO image.")]
    Content(#[source] ContentError),
    /// Its kernel arguments are invalid.
    #[error(transparent)]
    Kargs(#[from] KargsError),
    /// The system's features can't be read.
    #[error("{doing} OS features")]
    Features {
        /// What was being done.
        doing: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The new content can't be packed.
    #[error("cannot pack the new content of the embed area")]
    Pack(#[source] ArchiveError),
    #[error("This ISO image already has an embedded Ignition config; use -f to force.")]
    Present,
    #[error("No embedded Ignition config.")]
    Absent,
    #[error("Compressed initramfs is too large: {packed_bytes} > {area_bytes}")]
    TooLarge {
        /// Length of the compressed archive.
        packed_bytes: usize,
        /// Length of the area.
        area_bytes: usize,
    },
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// What is wrong with an area's content.
#[derive(Debug, thiserror::Error)]
#[error("decoding initrd embed area")]
pub struct ContentError(#[from] ArchiveError);

/// The features of a live system, as it declares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Features {
    /// The installer reads configs from `/etc/coreos/installer.d`.
    pub installer_config: bool,
    /// The keys of these configs that were added later.
    pub installer_config_directives: Directives,
    /// The live system reads NetworkManager's keyfiles from the initrd.
    pub live_initrd_network: bool,
}

/// Keys of the installer's configs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Directives {
    pub console: bool,
}

/// A live ISO, opened to read its embed area and kernel arguments.
pub struct LiveIso {
    file: File,
    iso: Iso<BufReader<File>>,
    area: EmbedArea,
    content: Vec<u8>,
    archive: Archive,
    kargs: Option<Kargs>,
}

impl fmt::Debug for LiveIso {
    /// Without the area's content, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveIso").field("area", &self.area).field("archive", &self.archive).finish_non_exhaustive()
    }
}

impl LiveIso {
    /// Opens the image at `path` to read it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, AreaError> {
        Self::open_for(path, &Output::Stdout)
    }

    /// Opens the image at `path` to write it to `output`.
    pub fn open_for(path: impl Into<PathBuf>, output: &Output) -> Result<Self, AreaError> {
        let path = path.into();
        let file = OpenOptions::new().read(true).write(*output == Output::InPlace).open(&path);
        Self::from_file(file.map_err(|source| AreaError::Open { path, source })?)
    }

    /// The image in `file`.
    pub fn from_file(file: File) -> Result<Self, AreaError> {
        let clone = file.try_clone().map_err(|source| IsoError::Io { offset: 0, len: 0, source });
        let mut iso = clone.and_then(|file| Iso::open(BufReader::new(file))).map_err(AreaError::Parse)?;
        let area = locate(&mut iso).map_err(AreaError::Unrecognized)?;
        let content = iso.read(area.extent).map_err(|error| AreaError::Unrecognized(EmbedError::Iso(error)))?;
        let archive = Archive::unpack(&content).map_err(|error| AreaError::Content(error.into()))?.into_files();
        let kargs = Kargs::find(&mut iso)?;
        Ok(Self { file, iso, area, content, archive, kargs })
    }

    pub fn iso(&mut self) -> &mut Iso<BufReader<File>> {
        &mut self.iso
    }

    pub fn area(&self) -> EmbedArea {
        self.area
    }

    /// The files in the area.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The embedded Ignition config.
    pub fn ignition(&self) -> Result<Vec<u8>, AreaError> {
        self.archive.get(CONFIG_NAME).map(<[u8]>::to_vec).ok_or(AreaError::Absent)
    }

    /// The kernel arguments, if they can be changed.
    pub(crate) fn kargs_if_any(&self) -> Option<&Kargs> {
        self.kargs.as_ref()
    }

    pub fn kargs(&self) -> Result<&Kargs, KargsError> {
        self.kargs.as_ref().ok_or(KargsError::None)
    }

    /// The system's features.
    pub fn features(&mut self) -> Result<Features, AreaError> {
        let bytes = self.iso.read_optional("COREOS/FEATURES.JSO", MAX_FEATURES_BYTES);
        match bytes.map_err(|error| AreaError::Features { doing: "looking up", source: error.into() })? {
            Some(bytes) => features(&bytes),
            None => Ok(Features::default()),
        }
    }

    /// The change that embeds `config`, which is not parsed; an existing one is replaced only with `force`.
    pub fn embed(&self, config: &[u8], force: bool) -> Result<Vec<Patch>, AreaError> {
        if self.archive.get(CONFIG_NAME).is_some() && !force {
            return Err(AreaError::Present);
        }
        let mut archive = self.archive.clone();
        archive.add(CONFIG_NAME, 0o600, config).map_err(AreaError::Pack)?;
        self.replace(&archive)
    }

    /// The change that removes the config, if there is one.
    pub fn remove(&self) -> Result<Vec<Patch>, AreaError> {
        let mut archive = self.archive.clone();
        archive.remove(CONFIG_NAME);
        self.replace(&archive)
    }

    /// The change that makes `archive` the content of the area: packed, or all zeros if it is empty, as in the original. Only what
    /// differs is written.
    pub fn replace(&self, archive: &Archive) -> Result<Vec<Patch>, AreaError> {
        let packed = match archive.is_empty() {
            true => Vec::new(),
            false => archive.pack(Compression::Xz).map_err(AreaError::Pack)?,
        };
        let patch = Patch::difference(self.area.extent.offset, &self.content, &self.filled(packed)?);
        Ok(patch.into_iter().collect())
    }

    /// `packed` with zeros up to the end of the area.
    fn filled(&self, mut packed: Vec<u8>) -> Result<Vec<u8>, AreaError> {
        let (packed_bytes, area_bytes) = (packed.len(), self.content.len());
        if packed_bytes > area_bytes {
            return Err(AreaError::TooLarge { packed_bytes, area_bytes });
        }
        packed.resize(area_bytes, 0);
        Ok(packed)
    }

    /// Writes the image with `patches` to `output`, for which it was opened.
    pub fn write(&self, patches: Vec<Patch>, output: &Output) -> Result<(), AreaError> {
        Ok(output.write(&self.file, patches)?)
    }
}

/// Reads the features that a system declares.
pub fn features(json: &[u8]) -> Result<Features, AreaError> {
    serde_json::from_slice(json).map_err(|error| AreaError::Features { doing: "parsing", source: error.into() })
}

/// The change that makes `config` the only content of the embed area of the ISO at `path`, in the form the image service gives
/// it: gzip, one member, zeros up to the end of the area. `config` is not parsed.
pub fn ignition_patch(path: impl Into<PathBuf>, config: &[u8]) -> Result<Patch, AreaError> {
    content_patch(path, ignition::pack(config).map_err(|source| AreaError::Pack(ArchiveError::Compress(source)))?)
}

/// The same with whole archives, one behind the other.
pub fn content_patch(path: impl Into<PathBuf>, archives: Vec<u8>) -> Result<Patch, AreaError> {
    let iso = LiveIso::open(path)?;
    Ok(Patch { offset: iso.area.extent.offset, bytes: iso.filled(archives)? })
}
