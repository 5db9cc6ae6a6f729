//! Searches one layer of an image for a file, by the rules of layers: OCI image layer specification, "Whiteouts".
//!
//! Nothing of an archive becomes a path on this machine: names are only compared, and content goes to a file that the caller opened.

use flate2::bufread::MultiGzDecoder;
use std::{
    cell::Cell,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, Write},
};
use tar::{Entry, EntryType, PaxExtensions};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// A path, or the attributes of an entry.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;
const COPY_BYTES: usize = 1 << 16;

/// A path in an image, by its parts from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(Vec<Vec<u8>>);

impl Place {
    /// None for a path with `..`, which no archive of an image has.
    pub(super) fn parse(path: &[u8]) -> Option<Self> {
        let parts = parts(path).map(|part| (part != b"..").then(|| part.to_vec()));
        parts.collect::<Option<_>>().map(Self)
    }

    /// Where a symbolic link here leads. As in a container, nothing is above the root.
    fn linked(&self, target: &[u8]) -> Self {
        let mut at = if target.starts_with(b"/") { Vec::new() } else { self.0.clone() };
        if !target.starts_with(b"/") {
            at.pop();
        }
        for part in parts(target) {
            if part == b".." {
                at.pop();
            } else {
                at.push(part.to_vec());
            }
        }
        Self(at)
    }

    /// What is left of `self` below `directory`; None if it is not in it.
    fn below(&self, directory: &Self) -> Option<&[Vec<u8>]> {
        self.0.strip_prefix(directory.0.as_slice())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.join(&b'/')).into_owned()
    }
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// What a layer says of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has the file, which was written.
    File,
    /// The path leads to another, which any layer may have.
    Symlink(Place),
    /// The file is another name of one in this layer or below.
    Hardlink(Place),
    /// Layers below do not count.
    Hidden,
    Nothing,
}

/// What a layer may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerBounds {
    pub unpacked_bytes: u64,
    pub file_bytes: u64,
}

/// Why a layer can't be searched, or what it has is not a file.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("it can't be unpacked")]
    Unpack(#[source] io::Error),
    #[error("it unpacks to more than {limit_bytes} bytes")]
    Bomb { limit_bytes: u64 },
    #[error("{path} has {size_bytes} bytes, more than {limit_bytes}")]
    TooLong { path: String, size_bytes: u64, limit_bytes: u64 },
    #[error("{path} is neither a file nor a link")]
    Kind { path: String },
    #[error("{path} ends after {found_bytes} of {size_bytes} bytes")]
    Cut { path: String, size_bytes: u64, found_bytes: u64 },
    #[error("{needed_bytes} bytes are needed, {free_bytes} are free")]
    NoSpace { needed_bytes: u64, free_bytes: u64 },
    #[error("the file can't be written")]
    Write(#[source] io::Error),
}

/// Looks for `wanted` in a layer, packed or not. If it is a file, `file` has its content afterwards. `free_bytes` says how much space
/// there is for it.
pub(super) fn search(
    layer: &mut dyn Read,
    wanted: &Place,
    bounds: LayerBounds,
    file: &File,
    free_bytes: &dyn Fn() -> u64,
) -> Result<Verdict, LayerError> {
    let is_bomb = Cell::new(false);
    let unpacked =
        Bounded { inner: unpack(layer).map_err(LayerError::Unpack)?, left: bounds.unpacked_bytes, is_bomb: &is_bomb };
    let result = Search { wanted, bounds, file, free_bytes }.run(unpacked);
    // Whatever came of it: the end was not that of the layer.
    if is_bomb.get() { Err(LayerError::Bomb { limit_bytes: bounds.unpacked_bytes }) } else { result }
}

fn unpack<'a>(layer: &'a mut dyn Read) -> io::Result<Box<dyn Read + 'a>> {
    let mut layer = BufReader::new(layer);
    let start = layer.fill_buf()?;
    Ok(if start.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(layer))
    } else if start.starts_with(&ZSTD) {
        Box::new(zstd::stream::read::Decoder::with_buffer(layer)?)
    } else {
        Box::new(layer)
    })
}

struct Bounded<'a, R> {
    inner: R,
    left: u64,
    is_bomb: &'a Cell<bool>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(to_u64(length)) else {
            self.is_bomb.set(true);
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        Ok(length)
    }
}

struct Search<'a> {
    wanted: &'a Place,
    bounds: LayerBounds,
    file: &'a File,
    free_bytes: &'a dyn Fn() -> u64,
}

/// What comes before an entry and is about it.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Search<'_> {
    fn run(&self, layer: impl Read) -> Result<Verdict, LayerError> {
        let mut archive = tar::Archive::new(layer);
        // Raw: the crate reads names of any length into memory.
        let entries = archive.entries().map_err(LayerError::Unpack)?.raw(true);
        let mut extensions = Extensions::default();
        // Of the path itself, and of the directories on the way to it. A later entry replaces an earlier one.
        let (mut own, mut way, mut hidden) = (None, None, false);
        for entry in entries {
            let mut entry = entry.map_err(LayerError::Unpack)?;
            if extensions.take(&mut entry).map_err(LayerError::Unpack)? {
                continue;
            }
            let known = std::mem::take(&mut extensions);
            let path = known.path.unwrap_or_else(|| entry.path_bytes().into_owned());
            let Some(place) = Place::parse(&path) else { continue };
            if self.is_whiteout(&place) {
                hidden = true;
                continue;
            }
            let Some(rest) = self.wanted.below(&place) else { continue };
            let link = known.link.or_else(|| entry.link_name_bytes().map(|link| link.into_owned())).unwrap_or_default();
            match (rest, entry.header().entry_type()) {
                ([], EntryType::Regular | EntryType::Continuous) => {
                    self.copy(&mut entry)?;
                    own = Some(Verdict::File);
                }
                ([], EntryType::Link) => own = Place::parse(&link).map(Verdict::Hardlink),
                ([], EntryType::Symlink) => own = Some(Verdict::Symlink(place.linked(&link))),
                ([], _) => return Err(LayerError::Kind { path: place.text() }),
                (_, EntryType::Directory) => way = None,
                (rest, EntryType::Symlink) => {
                    let mut target = place.linked(&link);
                    target.0.extend_from_slice(rest);
                    way = Some(Verdict::Symlink(target));
                }
                // Something that is not a directory is in the way.
                (_, _) => way = Some(Verdict::Hidden),
            }
        }
        Ok(own.or(way).unwrap_or(if hidden { Verdict::Hidden } else { Verdict::Nothing }))
    }

    /// Whether an entry removes the path, or a directory on the way to it, from the layers below.
    fn is_whiteout(&self, place: &Place) -> bool {
        let Some((name, directory)) = place.0.split_last() else { return false };
        let hidden = |parts: &[Vec<u8>]| self.wanted.0.starts_with(parts);
        if name == OPAQUE {
            return hidden(directory) && self.wanted.0.len() > directory.len();
        }
        name.strip_prefix(WHITEOUT).is_some_and(|name| hidden(&[directory, &[name.to_vec()]].concat()))
    }

    fn copy(&self, entry: &mut Entry<'_, impl Read>) -> Result<(), LayerError> {
        let (size_bytes, limit_bytes) = (entry.size(), self.bounds.file_bytes);
        let path = || self.wanted.text();
        if size_bytes > limit_bytes {
            return Err(LayerError::TooLong { path: path(), size_bytes, limit_bytes });
        }
        let free_bytes = (self.free_bytes)();
        if size_bytes > free_bytes {
            return Err(LayerError::NoSpace { needed_bytes: size_bytes, free_bytes });
        }
        let mut file = self.file;
        file.set_len(0).and_then(|()| file.rewind()).map_err(LayerError::Write)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut found_bytes = 0;
        loop {
            let length = entry.read(&mut buffer).map_err(LayerError::Unpack)?;
            let Some(part) = buffer.get(..length).filter(|part| !part.is_empty()) else { break };
            file.write_all(part).map_err(LayerError::Write)?;
            found_bytes += to_u64(length);
        }
        if found_bytes != size_bytes {
            return Err(LayerError::Cut { path: path(), size_bytes, found_bytes });
        }
        Ok(())
    }
}

impl Extensions {
    /// Whether `entry` is about the next one. GNU's long names, and those of POSIX (pax).
    fn take(&mut self, entry: &mut Entry<'_, impl Read>) -> io::Result<bool> {
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName | EntryType::GNULongLink => {
                let mut text = read_extension(entry)?;
                text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
                let field = if kind == EntryType::GNULongName { &mut self.path } else { &mut self.link };
                *field = Some(text);
            }
            EntryType::XHeader => {
                let text = read_extension(entry)?;
                for extension in PaxExtensions::new(&text) {
                    let extension = extension?;
                    match extension.key_bytes() {
                        b"path" => self.path = Some(extension.value_bytes().to_vec()),
                        b"linkpath" => self.link = Some(extension.value_bytes().to_vec()),
                        _ => {}
                    }
                }
            }
            EntryType::XGlobalHeader => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn read_extension(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    if entry.size() > MAX_EXTENSION_BYTES {
        return Err(io::Error::other(format!("a name of {} bytes", entry.size())));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text)?;
    Ok(text)
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
