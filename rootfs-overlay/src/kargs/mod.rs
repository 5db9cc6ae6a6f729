//! The kernel arguments inside a live ISO: the room its boot loader configurations keep for them (docs/compatibility.md#iso-areas). Texts
//! of errors are those of coreos-installer.

mod edit;
#[cfg(test)]
mod tests;

pub use edit::{Edit, NoReplacement};

use crate::iso9660::{Extent, Iso, IsoError};
use crate::patched::Patch;
use kernel::order;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// No area is longer, bytes.
const MAX_AREA_BYTES: u64 = 2048;
/// No list of areas is longer, bytes.
const MAX_INFO_BYTES: u64 = 64 << 10;
/// Where the areas are listed since 2021.
const INFO_PATH: &str = "COREOS/KARGS.JSO";
/// Where older ISOs list their areas: a magic, then nine numbers of 64 bits.
const HEADER: Extent = Extent { offset: 32_672, len: 72 };

/// Why arguments can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KargsError {
    /// The image can't be opened.
    #[error("opening {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// The image can't be read.
    #[error("parsing ISO9660 image")]
    Iso(#[source] IsoError),
    /// The list of areas can't be read.
    #[error("reading kargs embed area info")]
    ReadInfo(#[source] IsoError),
    /// The list of areas is no such list.
    #[error("decoding kargs embed area info")]
    Info(#[source] serde_json::Error),
    /// A file that is listed is not there.
    #[error("looking up '{path}'")]
    LookUp { path: String, source: IsoError },
    /// An area can't be read.
    #[error("reading {what}")]
    Read { what: &'static str, source: IsoError },
    #[error("karg embed area {measure} larger than {MAX_AREA_BYTES} (found {found})")]
    Size {
        /// What it is called.
        measure: &'static str,
        found: u64,
    },
    /// Default arguments that don't fit.
    #[error("default kargs size {default} larger than embed areas ({size})")]
    Default {
        default: usize,
        /// Length of an area.
        size: u64,
    },
    /// A character that is not one byte.
    #[error("kargs embed area info: {found:?} can't be a padding or an end; it must be one ASCII character")]
    Filling { found: char },
    #[error("No karg embed areas found; corrupted CoreOS ISO image.")]
    Empty,
    #[error("No karg embed areas found; old or corrupted CoreOS ISO image.")]
    None,
    #[error("invalid UTF-8 in karg area")]
    Text(#[from] std::string::FromUtf8Error),
    /// Areas with different content.
    #[error("kargs don't match at all offsets! (expected '{expected}', but offset {offset} has: '{found}')")]
    Mismatch {
        /// What the first says.
        expected: String,
        /// Where another one is.
        offset: u64,
        found: String,
    },
    #[error("kargs too large for area: {needed} vs {room}")]
    TooLong {
        /// Length of all arguments and their end.
        needed: usize,
        /// Length of the area.
        room: usize,
    },
    /// The list of areas has grown.
    #[error("New version of {INFO_PATH} does not fit in space ({needed} vs {room})")]
    InfoTooLong {
        needed: usize,
        /// Length of the file.
        room: u64,
    },
    /// An invalid edit.
    #[error(transparent)]
    Edit(#[from] NoReplacement),
}

/// `coreos/kargs.json`, in the order in which it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Info {
    default: String,
    files: Vec<InfoFile>,
    size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct InfoFile {
    path: String,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<char>,
}

/// Room for arguments, and what ends and fills it.
#[derive(Debug, Serialize)]
struct Place {
    offset: u64,
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<char>,
}

/// A place and its content.
#[derive(Debug, Serialize)]
struct Area {
    #[serde(flatten)]
    place: Place,
    #[serde(skip)]
    content: Vec<u8>,
}

/// What an ISO says of its places, in whichever form.
struct Listing {
    length: u64,
    default: String,
    places: Vec<Place>,
}

/// All places of an ISO, which have the same content. Serialized as `dev show iso --kargs` shows it.
#[derive(Debug, Serialize)]
pub struct Kargs {
    length: u64,
    default: String,
    #[serde(rename = "kargs")]
    areas: Vec<Area>,
    #[serde(skip)]
    current: String,
}

impl Kargs {
    /// Those of an image, if it has any.
    pub fn find<R: Read + Seek>(iso: &mut Iso<R>) -> Result<Option<Self>, KargsError> {
        let listing = match info(iso)? {
            Some(info) => Some(info.listing(iso)?),
            None => legacy(iso)?,
        };
        let Some(Listing { length, default, places }) = listing else { return Ok(None) };
        let areas = places.into_iter().map(|place| place.read(iso, "kargs embed area"));
        let areas = areas.collect::<Result<Vec<_>, _>>()?;
        let current = areas.first().ok_or(KargsError::Empty)?.arguments()?;
        for area in &areas {
            let found = area.arguments()?;
            if found != current {
                return Err(KargsError::Mismatch { expected: current, offset: area.place.offset, found });
            }
        }
        Ok(Some(Self { length, default, areas, current }))
    }

    /// The arguments it has.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// The original ones.
    pub(crate) fn default_arguments(&self) -> &str {
        &self.default
    }

    /// The changes that put `arguments` into every place; only what differs is written.
    pub fn patches(&self, arguments: &str) -> Result<Vec<Patch>, KargsError> {
        let arguments = arguments.trim();
        self.areas.iter().filter_map(|area| area.patch(arguments).transpose()).collect()
    }
}

impl Place {
    fn read<R: Read + Seek>(self, iso: &mut Iso<R>, what: &'static str) -> Result<Area, KargsError> {
        let extent = Extent { offset: self.offset, len: self.length };
        let content = iso.read(extent).map_err(|source| KargsError::Read { what, source })?;
        Ok(Area { place: self, content })
    }
}

impl Area {
    /// Filling and end.
    fn marks(&self) -> (char, char) {
        (self.place.pad.unwrap_or('#'), self.place.end.unwrap_or('\n'))
    }

    fn arguments(&self) -> Result<String, KargsError> {
        let text = String::from_utf8(self.content.clone())?;
        let (pad, end) = self.marks();
        Ok(text.trim_end_matches(pad).trim_end_matches(end).trim().to_owned())
    }

    fn patch(&self, arguments: &str) -> Result<Option<Patch>, KargsError> {
        let room = self.content.len();
        if arguments.len() >= room {
            return Err(KargsError::TooLong { needed: arguments.len() + 1, room });
        }
        let (pad, end) = self.marks();
        let mut text = format!("{arguments}{end}");
        text.extend(std::iter::repeat_n(pad, room - text.len()));
        Ok(Patch::difference(self.place.offset, &self.content, text.as_bytes()))
    }
}

fn info<R: Read + Seek>(iso: &mut Iso<R>) -> Result<Option<Info>, KargsError> {
    let bytes = iso.read_optional(INFO_PATH, MAX_INFO_BYTES).map_err(KargsError::ReadInfo)?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(KargsError::Info)).transpose()
}

impl Info {
    fn listing<R: Read + Seek>(self, iso: &mut Iso<R>) -> Result<Listing, KargsError> {
        let Self { default, files, size } = self;
        if size > MAX_AREA_BYTES {
            return Err(KargsError::Size { measure: "size", found: size });
        }
        if !usize::try_from(size).is_ok_and(|size| default.len() <= size) {
            return Err(KargsError::Default { default: default.len(), size });
        }
        let mut place = |InfoFile { path, offset, pad, end }| {
            let file = iso.find(&path.to_uppercase()).map_err(|source| KargsError::LookUp { path, source })?;
            match pad.into_iter().chain(end).find(|character| !character.is_ascii()) {
                Some(found) => Err(KargsError::Filling { found }),
                None => Ok(Place { offset: file.offset.saturating_add(offset), length: size, pad, end }),
            }
        };
        let mut places = files.into_iter().map(&mut place).collect::<Result<Vec<_>, _>>()?;
        order::sort_by_key(&mut places, |place| place.offset);
        Ok(Listing { length: size, default, places })
    }
}

/// By the header in the system area: magic, length, place of the default arguments, up to six places.
fn legacy<R: Read + Seek>(iso: &mut Iso<R>) -> Result<Option<Listing>, KargsError> {
    let header = iso.read(HEADER).map_err(|source| KargsError::Read { what: "karg embed header", source })?;
    let Some(rest) = header.strip_prefix(b"coreKarg") else { return Ok(None) };
    let mut numbers = rest.chunks_exact(8).filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let length = numbers.next().unwrap_or(0);
    if length > MAX_AREA_BYTES {
        return Err(KargsError::Size { measure: "length", found: length });
    }
    let place = |offset| Place { offset, length, pad: None, end: None };
    let default = place(numbers.next().unwrap_or(0)).read(iso, "default kargs")?.arguments()?;
    let places = numbers.take_while(|offset| *offset != 0).map(place).collect();
    Ok(Some(Listing { length, default, places }))
}

/// The change that makes `default` the arguments that a reset restores.
pub(crate) fn default_patch<R: Read + Seek>(iso: &mut Iso<R>, default: &str) -> Result<Patch, KargsError> {
    let (file, mut text) = with_default(iso, default)?.ok_or(KargsError::None)?;
    let needed = text.len();
    match usize::try_from(file.len) {
        Ok(room) if needed <= room => text.resize(room, b' '),
        _ => return Err(KargsError::InfoTooLong { needed, room: file.len }),
    }
    Ok(Patch { offset: file.offset, bytes: text })
}

/// Where the list of areas is, and what it says with `default` as the arguments that a reset restores. Older ISOs have none.
pub(crate) fn with_default<R: Read + Seek>(
    iso: &mut Iso<R>,
    default: &str,
) -> Result<Option<(Extent, Vec<u8>)>, KargsError> {
    let Some(mut info) = info(iso)? else { return Ok(None) };
    let file = iso.find(INFO_PATH).map_err(KargsError::ReadInfo)?;
    default.clone_into(&mut info.default);
    Ok(Some((file, serde_json::to_vec_pretty(&info).map_err(KargsError::Info)?)))
}

/// The changes that append `arguments` in every place of the ISO at `path` that has them.
pub fn append_patches(path: &Path, arguments: &[String]) -> Result<Vec<Patch>, KargsError> {
    let file = File::open(path).map_err(|source| KargsError::Open { path: path.to_owned(), source })?;
    let mut iso = Iso::open(BufReader::new(file)).map_err(KargsError::Iso)?;
    let kargs = Kargs::find(&mut iso)?.ok_or(KargsError::None)?;
    let edit = Edit { append: arguments.to_vec(), ..Edit::default() };
    kargs.patches(&edit.apply(kargs.current())?)
}
