//! Reading of ISO 9660 (ECMA-119) images: volume descriptor, directories, files. Extensions (Joliet, Rock Ridge) are ignored, as
//! the names wanted here are the plain ones.

use std::io::{self, Read, Seek, SeekFrom};

/// Size of a sector, and of every unit addresses count in.
pub const SECTOR_BYTES: u64 = 2048;
/// The primary volume descriptor's sector.
const PVD_SECTOR: u64 = 16;
/// A larger directory is refused; the largest of live ISOs are a few sectors.
const MAX_DIRECTORY_BYTES: u64 = 4 << 20;
/// Flag of a record: it is a directory.
const DIRECTORY: u8 = 0x02;
/// Flag of a record: the file goes on in the next record.
const CONTINUED: u8 = 0x80;

/// Why something in an image can't be read.
#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// The device or file fails.
    #[error("{len} bytes at offset {offset} of the ISO image can't be read")]
    Io {
        /// Byte offset.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Cause.
        source: io::Error,
    },
    /// Another kind of file.
    #[error("not an ISO 9660 image: no volume descriptor at offset {offset}")]
    NotIso {
        /// Where it was looked for.
        offset: u64,
    },
    /// The end is missing.
    #[error("ISO image is incomplete: it says it has {expected} bytes, and {found} are there; fetch it again")]
    Incomplete {
        /// By the volume descriptor.
        expected: u64,
        /// Of the file.
        found: u64,
    },
    /// A name on the way is not there.
    #[error("{path} is not in the ISO image: {missing} does not exist")]
    NotFound {
        /// As asked for.
        path: String,
        /// The first part that is missing.
        missing: String,
    },
    /// A directory where a file is wanted, or a file on the way.
    #[error("{path} in the ISO image is {found}")]
    Kind {
        /// As asked for.
        path: String,
        /// What it is.
        found: &'static str,
    },
    /// A directory whose records make no sense.
    #[error("the directory at offset {offset} of the ISO image is damaged")]
    Directory {
        /// Byte offset of the record.
        offset: u64,
    },
    /// More than the caller has room for.
    #[error("{path} in the ISO image has {len} bytes, and at most {max} are read")]
    TooLarge {
        /// As asked for.
        path: String,
        /// Its length in bytes.
        len: u64,
        /// The caller's limit.
        max: u64,
    },
}

/// Bytes of an image that belong to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Byte offset from the start of the image.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// The first byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// An image.
#[derive(Debug)]
pub struct Iso<R> {
    reader: R,
    len: u64,
    root: Extent,
    volume_id: String,
}

/// An entry of a directory.
struct Record {
    name: String,
    extent: Extent,
    is_directory: bool,
    continued: bool,
}

impl<R: Read + Seek> Iso<R> {
    /// Reads the volume descriptor, and checks that nothing of the image is missing at its end.
    pub fn open(mut reader: R) -> Result<Self, IsoError> {
        let len = reader.seek(SeekFrom::End(0)).map_err(|source| IsoError::Io { offset: 0, len: 0, source })?;
        let offset = PVD_SECTOR * SECTOR_BYTES;
        if len < offset + SECTOR_BYTES {
            return Err(IsoError::NotIso { offset });
        }
        let sector = read_at(&mut reader, offset, SECTOR_BYTES)?;
        // type 1, "CD001", version 1
        let (Some(b"\x01CD001\x01"), Some(blocks), Some(root)) =
            (sector.get(..7), u32_le(&sector, 80), sector.get(156..190))
        else {
            return Err(IsoError::NotIso { offset });
        };
        let expected = u64::from(blocks) * SECTOR_BYTES;
        if expected > len {
            return Err(IsoError::Incomplete { expected, found: len });
        }
        let root = record(root).ok_or(IsoError::NotIso { offset })?.extent;
        let volume_id = sector.get(40..72).map(text).unwrap_or_default();
        Ok(Self { reader, len, root, volume_id })
    }

    /// Length of the image in bytes, with whatever follows the volume.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes; an image that opened has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The volume's label.
    pub fn volume_id(&self) -> &str {
        &self.volume_id
    }

    /// Where the file at `path` is. Case doesn't matter, nor whether names are cut to eight and three characters.
    pub fn find(&mut self, path: &str) -> Result<Extent, IsoError> {
        let not_found = |missing: &str| IsoError::NotFound { path: path.to_owned(), missing: missing.to_owned() };
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let mut directory = self.root;
        while let Some(part) = parts.next() {
            let records = self.directory(directory)?;
            let at = position(&records, part).ok_or_else(|| not_found(part))?;
            let is_directory = records.get(at).is_some_and(|record| record.is_directory);
            match (is_directory, parts.peek().is_some()) {
                (true, true) => directory = records.get(at).map_or(directory, |record| record.extent),
                (false, false) => return self.whole(path, &records, at),
                (true, false) => return Err(IsoError::Kind { path: path.to_owned(), found: "a directory" }),
                (false, true) => return Err(IsoError::Kind { path: path.to_owned(), found: "below a file" }),
            }
        }
        Err(IsoError::Kind { path: path.to_owned(), found: "a directory" })
    }

    /// Whether there is a file at `path`; other errors than its absence are errors.
    pub fn find_optional(&mut self, path: &str) -> Result<Option<Extent>, IsoError> {
        match self.find(path) {
            Ok(extent) => Ok(Some(extent)),
            Err(IsoError::NotFound { .. } | IsoError::Kind { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file at `path`, of at most `max` bytes.
    pub fn read_file(&mut self, path: &str, max: u64) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        if extent.len > max {
            return Err(IsoError::TooLarge { path: path.to_owned(), len: extent.len, max });
        }
        self.read(extent)
    }

    /// The bytes of `extent`, which must be of a size that fits memory.
    pub fn read(&mut self, extent: Extent) -> Result<Vec<u8>, IsoError> {
        if extent.end() > self.len {
            return Err(IsoError::Incomplete { expected: extent.end(), found: self.len });
        }
        read_at(&mut self.reader, extent.offset, extent.len)
    }

    /// The extent of the file whose first record is `records[at]`; larger files than 4 GiB have several, one after the other.
    fn whole(&self, path: &str, records: &[Record], at: usize) -> Result<Extent, IsoError> {
        let mut rest = records.iter().skip(at);
        let Some(first) = rest.next() else {
            return Err(IsoError::Kind { path: path.to_owned(), found: "missing" });
        };
        let mut extent = first.extent;
        let mut continued = first.continued;
        while continued {
            match rest.next() {
                Some(next) if next.name == first.name && next.extent.offset == extent.end() => {
                    extent.len += next.extent.len;
                    continued = next.continued;
                }
                _ => {
                    return Err(IsoError::Kind {
                        path: path.to_owned(),
                        found: "in pieces that don't follow each other",
                    });
                }
            }
        }
        if extent.end() > self.len {
            return Err(IsoError::Incomplete { expected: extent.end(), found: self.len });
        }
        Ok(extent)
    }

    fn directory(&mut self, extent: Extent) -> Result<Vec<Record>, IsoError> {
        if extent.len > MAX_DIRECTORY_BYTES {
            return Err(IsoError::Directory { offset: extent.offset });
        }
        let bytes = self.read(extent)?;
        let mut records = Vec::new();
        let mut offset = extent.offset;
        // Records don't cross sectors; a length of zero ends the sector's.
        for sector in bytes.chunks(2048) {
            let mut rest = sector;
            let mut at = offset;
            while let Some(&length) = rest.first().filter(|length| **length != 0) {
                let found =
                    rest.get(..usize::from(length)).and_then(record).ok_or(IsoError::Directory { offset: at })?;
                records.push(found);
                rest = rest.get(usize::from(length)..).unwrap_or_default();
                at += u64::from(length);
            }
            offset += SECTOR_BYTES;
        }
        Ok(records)
    }
}

/// The record called `name`, as it is or cut to eight and three characters.
fn position(records: &[Record], name: &str) -> Option<usize> {
    let called = |name: &str| records.iter().position(|record| record.name.eq_ignore_ascii_case(name));
    called(name).or_else(|| called(&cut(name)))
}

/// The name as interchange level 1 has it: `igninfo.json` is `IGNINFO.JSO`.
fn cut(name: &str) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let stem: String = stem.chars().take(8).collect();
    let extension: String = extension.chars().take(3).collect();
    if extension.is_empty() { stem } else { format!("{stem}.{extension}") }
}

/// Parses a record; `bytes` is at least as long as it says it is.
fn record(bytes: &[u8]) -> Option<Record> {
    let name_len = usize::from(*bytes.get(32)?);
    let name = bytes.get(33..33 + name_len)?;
    let flags = *bytes.get(25)?;
    let name = text(name);
    // `;1` is the version. A name without extension may end in a dot.
    let name = name.split_once(';').map_or(name.as_str(), |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name).to_owned();
    Some(Record {
        name,
        extent: Extent { offset: u64::from(u32_le(bytes, 2)?) * SECTOR_BYTES, len: u64::from(u32_le(bytes, 10)?) },
        is_directory: flags & DIRECTORY != 0,
        continued: flags & CONTINUED != 0,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches([' ', '\0']).to_owned()
}

fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn read_at(reader: &mut (impl Read + Seek), offset: u64, len: u64) -> Result<Vec<u8>, IsoError> {
    let failed = |source| IsoError::Io { offset, len, source };
    reader.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut bytes = Vec::new();
    reader.take(len).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|found| found == len) {
        Ok(bytes)
    } else {
        Err(failed(io::ErrorKind::UnexpectedEof.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::image;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn sample() -> Vec<u8> {
        image(&[
            ("COREOS/IGNINFO.JSO", b"{}"),
            ("IMAGES/IGNITION.IMG", &[7; 5000]),
            ("ZIPL.PRM", b"x"),
            ("NODOT.", b"y"),
        ])
    }

    #[test]
    fn names_are_found_in_any_case_whole_or_cut() {
        let mut iso = Iso::open(Cursor::new(sample())).unwrap();
        assert_eq!(iso.volume_id(), "test-volume");
        for path in ["/coreos/igninfo.json", "COREOS/IGNINFO.JSO", "coreos//igninfo.json"] {
            assert_eq!(iso.read_file(path, 10).unwrap(), b"{}", "{path}");
        }
        assert_eq!(iso.read_file("images/ignition.img", 5000).unwrap(), [7; 5000]);
        assert_eq!(iso.read_file("zipl.prm", 1).unwrap(), b"x");
        assert_eq!(iso.read_file("nodot", 1).unwrap(), b"y");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let mut iso = Iso::open(Cursor::new(sample())).unwrap();
        let text = |error: IsoError| error.to_string();
        assert_eq!(
            text(iso.find("coreos/nothing").unwrap_err()),
            "coreos/nothing is not in the ISO image: nothing does not exist"
        );
        assert_eq!(text(iso.find("images").unwrap_err()), "images in the ISO image is a directory");
        assert_eq!(text(iso.find("").unwrap_err()), " in the ISO image is a directory");
        assert_eq!(text(iso.find("zipl.prm/a").unwrap_err()), "zipl.prm/a in the ISO image is below a file");
        assert!(matches!(
            iso.read_file("images/ignition.img", 4999),
            Err(IsoError::TooLarge { len: 5000, max: 4999, .. })
        ));
        assert_eq!(iso.find_optional("zipl.prm/a").unwrap(), None);
    }

    #[test]
    fn other_files_and_cut_images_are_told_apart() {
        let open = |bytes: Vec<u8>| Iso::open(Cursor::new(bytes)).map(|_| ()).unwrap_err();
        assert!(matches!(open(Vec::new()), IsoError::NotIso { offset: 32768 }));
        assert!(matches!(open(vec![0; 100_000]), IsoError::NotIso { .. }));
        let mut cut = sample();
        cut.truncate(cut.len() - 1);
        let error = open(cut).to_string();
        assert!(error.starts_with("ISO image is incomplete"), "{error}");
    }

    #[test]
    fn a_file_that_points_outside_is_refused() {
        let mut bytes = sample();
        let at = bytes.windows(12).position(|w| w == b"IGNITION.IMG").unwrap() - 33;
        bytes[at + 2..at + 6].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut iso = Iso::open(Cursor::new(bytes)).unwrap();
        assert!(matches!(iso.find("images/ignition.img"), Err(IsoError::Incomplete { .. })));
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(changes in proptest::collection::vec((32768_usize..46000, any::<u8>()), 1..30)) {
            let mut bytes = sample();
            for (at, byte) in changes {
                if let Some(old) = bytes.get_mut(at) { *old = byte; }
            }
            if let Ok(mut iso) = Iso::open(Cursor::new(bytes)) {
                for path in ["coreos/igninfo.json", "images/ignition.img", "zipl.prm", "a/b/c"] {
                    let _ = iso.read_file(path, 1 << 20);
                }
                let _ = crate::embed::locate(&mut iso);
            }
        }
    }
}
