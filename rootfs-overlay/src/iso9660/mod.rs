//! Reading of ISO 9660 (ECMA-119) images: volume descriptors, directories, files. Extensions (Joliet, Rock Ridge) are ignored, as
//! the names wanted here are the plain ones. Texts of errors are those of coreos-installer where it has one.

mod descriptor;
mod directory;
mod places;

pub use descriptor::{Descriptor, DescriptorError, HeaderError};
pub use directory::{Directory, Record};
pub use places::Tree;

use std::io::{self, Read, Seek, SeekFrom};

/// Size of a sector, and of every unit addresses count in.
pub(crate) const SECTOR_BYTES: u64 = 2048;

/// Why something in an image can't be read.
#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// The device or file fails.
    #[error("reading {len} bytes at {offset}")]
    Io { offset: u64, len: u64, source: io::Error },
    #[error("getting volume descriptor #{number}")]
    Descriptor {
        /// Which one, from 1.
        number: usize,
        source: DescriptorError,
    },
    #[error("no primary volume descriptor found in ISO")]
    NoVolume,
    #[error("ISO image is incomplete")]
    Incomplete,
    /// A name on the way is not there.
    #[error("intermediate directory {name} does not exist")]
    NoParent {
        /// The first one that is missing.
        name: String,
    },
    /// A name on the way is a file's.
    #[error("component {name:?} in path {path} is not a directory")]
    BelowFile { name: String, path: String },
    #[error("no record for {name} in directory {directory}")]
    NotFound {
        name: String,
        /// Where it should be.
        directory: String,
    },
    /// A directory where a file is wanted.
    #[error("entry {name} is a directory")]
    IsDirectory { name: String },
    /// A file where a directory is wanted.
    #[error("entry {name} is a file")]
    NotADirectory { name: String },
    /// A large file that isn't in one piece.
    #[error("entry {name} is in pieces that don't follow each other")]
    InPieces { name: String },
    /// A file beyond the end.
    #[error("entry {name} ends at byte {end}, behind the end of the ISO image ({image} bytes)")]
    Outside {
        name: String,
        /// The first byte after it.
        end: u64,
        /// Length of the image.
        image: u64,
    },
    /// A directory that can't be read.
    #[error("listing directory {name}")]
    List { name: String, source: Box<IsoError> },
    /// A directory whose records make no sense.
    #[error("the directory at offset {offset} is damaged; corrupt ISO?")]
    Directory {
        /// Byte offset of the record.
        offset: u64,
    },
    /// More than the caller has room for.
    #[error("{path} in the ISO image has {len} bytes, and at most {max} are read")]
    TooLarge {
        path: String,
        /// Its length in bytes.
        len: u64,
        max: u64,
    },
}

impl IsoError {
    /// Whether it says that there is no such file.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NoParent { .. } | Self::BelowFile { .. })
    }

    /// Whether it says that this is no image: nothing is where its first volume descriptor should be, or something else.
    pub(crate) fn is_another_file(&self) -> bool {
        let Self::Descriptor { number: 1, source } = self else { return false };
        match source {
            DescriptorError::Read(source) => source.kind() == io::ErrorKind::UnexpectedEof,
            DescriptorError::Header { .. } => true,
            DescriptorError::Root | DescriptorError::TooMany => false,
        }
    }
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

#[derive(Debug)]
pub struct Iso<R> {
    reader: R,
    len: u64,
    descriptors: Vec<Descriptor>,
    root: Directory,
}

impl<R: Read + Seek> Iso<R> {
    /// Reads the volume descriptors, and checks that nothing of the image is missing at its end.
    pub fn open(mut reader: R) -> Result<Self, IsoError> {
        let len = reader.seek(SeekFrom::End(0)).map_err(|source| IsoError::Io { offset: 0, len: 0, source })?;
        let descriptors = descriptor::read_all(&mut reader)?;
        let volume = descriptors.iter().find_map(|descriptor| match descriptor {
            Descriptor::Primary { volume_space_size, root, .. } => Some((*volume_space_size, root.clone())),
            _ => None,
        });
        let (sectors, root) = volume.ok_or(IsoError::NoVolume)?;
        if sectors.saturating_mul(SECTOR_BYTES) > len {
            return Err(IsoError::Incomplete);
        }
        Ok(Self { reader, len, descriptors, root })
    }

    /// Length of the image in bytes, with whatever follows the volume.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes; an image that opened has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// Where the file at `path` is. Case doesn't matter, nor whether names are cut to eight and three characters.
    pub fn find(&mut self, path: &str) -> Result<Extent, IsoError> {
        let (records, at) = self.look_up(path)?;
        self.whole(&records, at)
    }

    /// Whether there is a file at `path`; other errors than its absence are errors.
    pub fn find_optional(&mut self, path: &str) -> Result<Option<Extent>, IsoError> {
        match self.find(path) {
            Ok(extent) => Ok(Some(extent)),
            Err(error) if error.is_absence() => Ok(None),
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

    /// [`Iso::read_file`] of a file that may not be there.
    pub(crate) fn read_optional(&mut self, path: &str, max: u64) -> Result<Option<Vec<u8>>, IsoError> {
        match self.read_file(path, max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of `extent`, which must be of a size that fits memory.
    pub fn read(&mut self, extent: Extent) -> Result<Vec<u8>, IsoError> {
        if extent.end() > self.len {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, "failed to fill whole buffer");
            return Err(IsoError::Io { offset: extent.offset, len: extent.len, source });
        }
        read_at(&mut self.reader, extent.offset, extent.len)
    }
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
        let is_labelled = |descriptor: &Descriptor| matches!(descriptor, Descriptor::Primary { volume_id, .. } if volume_id == "test-volume");
        assert!(iso.descriptors().iter().any(is_labelled));
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
        let missing = iso.find("COREOS/NOTHING").unwrap_err();
        assert_eq!(text(missing), "no record for NOTHING in directory COREOS");
        assert_eq!(text(iso.find("NONE/A").unwrap_err()), "intermediate directory NONE does not exist");
        assert_eq!(text(iso.find("IMAGES").unwrap_err()), "entry IMAGES is a directory");
        assert_eq!(text(iso.find("").unwrap_err()), "entry . is a directory");
        assert_eq!(text(iso.directory("ZIPL.PRM").unwrap_err()), "entry ZIPL.PRM is a file");
        let below = "component \"zipl.prm\" in path zipl.prm/a is not a directory";
        assert_eq!(text(iso.find("zipl.prm/a").unwrap_err()), below);
        assert!(matches!(
            iso.read_file("images/ignition.img", 4999),
            Err(IsoError::TooLarge { len: 5000, max: 4999, .. })
        ));
        assert_eq!(iso.find_optional("zipl.prm/a").unwrap(), None);
        assert_eq!(iso.find("/a/../images/./ignition.img").unwrap(), iso.find("IMAGES/IGNITION.IMG").unwrap());
    }

    #[test]
    fn the_walk_has_each_directory_before_its_files() {
        let mut iso = Iso::open(Cursor::new(sample())).unwrap();
        let paths: Vec<String> = iso.walk().unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["COREOS", "COREOS/IGNINFO.JSO", "IMAGES", "IMAGES/IGNITION.IMG", "ZIPL.PRM", "NODOT"]);
    }

    #[test]
    fn a_directory_in_itself_is_no_endless_walk() {
        let mut bytes = sample();
        let at = bytes.windows(6).position(|w| w == b"COREOS").unwrap() - 33;
        bytes[at + 2..at + 6].copy_from_slice(&18_u32.to_le_bytes());
        let mut iso = Iso::open(Cursor::new(bytes)).unwrap();
        assert!(matches!(iso.walk(), Err(IsoError::Directory { .. })));
    }

    #[test]
    fn other_files_and_truncated_images_are_distinguished() {
        let open = |bytes: Vec<u8>| {
            let error = Iso::open(Cursor::new(bytes)).map(|_| ()).unwrap_err();
            let mut text = error.to_string();
            let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        };
        let cut = "getting volume descriptor #1: reading volume descriptor: failed to fill whole buffer";
        assert_eq!(open(Vec::new()), cut);
        assert_eq!(
            open(vec![0; 100_000]),
            "getting volume descriptor #1: parsing boot descriptor: unknown descriptor ID: b\"\\0\\0\\0\\0\\0\""
        );
        assert!(open(vec![7; 32768 + 2048 * 5000]).contains("more than 4096 volume descriptors"));
        let mut cut = sample();
        cut.truncate(cut.len() - 1);
        assert_eq!(open(cut), "ISO image is incomplete");
    }

    #[test]
    fn a_file_that_points_outside_is_refused() {
        let mut bytes = sample();
        let at = bytes.windows(12).position(|w| w == b"IGNITION.IMG").unwrap() - 33;
        bytes[at + 2..at + 6].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut iso = Iso::open(Cursor::new(bytes)).unwrap();
        assert!(matches!(iso.find("images/ignition.img"), Err(IsoError::Outside { .. })));
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
                let _ = crate::kargs::Kargs::find(&mut iso);
                let _ = iso.walk();
            }
        }
    }
}
