//! Bakes into an initrd for network boot.

use super::content::Content;
use super::manifest::Manifest;
use super::segment::{self, Found, WINDOW_BYTES};
use super::splice::Piece;
use super::{BakeError, manifest};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How an initrd starts: cpio, gzip, xz, zstd, and what else the kernel unpacks (lz4, lzma, lzo, bzip2).
const MAGICS: [&[u8]; 9] = [
    b"070701",
    b"070702",
    b"\x1f\x8b",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"\x02\x21\x4c\x18",
    b"\x5d\0\0",
    b"\x89LZO",
    b"BZh",
];

/// An initrd, baked or not.
#[derive(Debug)]
pub struct InitrdFile {
    path: PathBuf,
    file: File,
    len: u64,
    found: Option<Found>,
}

impl InitrdFile {
    /// Looks into the file at `path`.
    pub fn open(path: &Path) -> Result<Self, BakeError> {
        let unreadable = |source| BakeError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let len = file.metadata().map_err(unreadable)?.len();
        let read = |offset: u64, len: u64| {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes).map_err(unreadable)
        };
        let start = read(0, len.min(6))?;
        if !MAGICS.iter().any(|magic| start.starts_with(magic)) {
            let what = "it does not start like an initrd; for an ISO image use `iso bake`".to_owned();
            return Err(BakeError::Base { path: path.to_owned(), what });
        }
        let window = len.min(WINDOW_BYTES);
        let found = segment::find(&read(len - window, window)?, len - window)?;
        Ok(Self { path: path.to_owned(), file, len, found })
    }

    /// What is baked in.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.found.as_ref().map(|found| &found.manifest)
    }

    /// Length of the initrd without what was baked in, but with what was appended later.
    pub fn base_bytes(&self) -> u64 {
        let (base, later) = self.parts();
        base + later.map_or(0, |(_, len)| len)
    }

    /// Length of the base, and what follows the segment: offset and length.
    fn parts(&self) -> (u64, Option<(u64, u64)>) {
        match &self.found {
            Some(found) => {
                let later = self.len - found.end.min(self.len);
                (found.manifest.initrd_bytes, (later > 0).then_some((found.end, later)))
            }
            None => (self.len, None),
        }
    }

    /// The original initrd, with what was appended later.
    pub fn removed(&self) -> Result<Vec<Piece<'_>>, BakeError> {
        if self.found.is_none() {
            return Err(BakeError::Absent { path: self.path.clone() });
        }
        let (base, later) = self.parts();
        let mut pieces = vec![Piece::Copy { file: &self.file, offset: 0, len: base }];
        if later.is_some() {
            pieces.push(Piece::Zeros(base.next_multiple_of(4) - base));
        }
        pieces.extend(self.later(later));
        Ok(pieces)
    }

    /// The initrd with `content`, which replaces what was baked in before.
    pub fn baked(&self, content: &Content) -> Result<Vec<Piece<'_>>, BakeError> {
        let (base, later) = self.parts();
        let archive = segment::config_archive(&content.config()?)?;
        let segment = segment::pack(&archive, &manifest(content, base, None, None))?;
        let mut pieces = vec![Piece::Copy { file: &self.file, offset: 0, len: base }, Piece::Bytes(segment)];
        pieces.extend(self.later(later));
        Ok(pieces)
    }

    fn later(&self, later: Option<(u64, u64)>) -> Option<Piece<'_>> {
        later.map(|(offset, len)| Piece::Copy { file: &self.file, offset, len })
    }
}
