//! A view of a file with some bytes replaced, without a copy.

use kernel::order;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that replace those of a file. Its `Debug` doesn't show them, they may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Patch {
    /// Byte offset of the first.
    pub offset: u64,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// The patch that turns `old` at `offset` into `new` of the same length: from the first byte that differs to the last. `None`
    /// if they are equal.
    pub fn difference(offset: u64, old: &[u8], new: &[u8]) -> Option<Self> {
        let differs = |(old, new): (&u8, &u8)| old != new;
        let start = old.iter().zip(new).position(differs)?;
        let end = old.iter().zip(new).rposition(differs)?;
        let bytes = new.get(start..=end)?.to_vec();
        Some(Self { offset: offset.checked_add(u64::try_from(start).ok()?)?, bytes })
    }

    /// The first byte after it; `None` on overflow.
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::try_from(self.bytes.len()).ok()?)
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Patch({} bytes at offset {})", self.bytes.len(), self.offset)
    }
}

/// Why a file can't be patched.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The file can't be opened.
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// A patch past the end of the file.
    #[error("a patch of {patch_bytes} bytes at offset {offset} reaches past the end of {} ({file_bytes} bytes)", path.display())]
    PastEnd {
        path: PathBuf,
        /// Offset of the patch.
        offset: u64,
        patch_bytes: usize,
        /// Length of the file.
        file_bytes: u64,
    },
    /// Overlapping patches.
    #[error("two patches of {} overlap at offset {offset}", path.display())]
    Overlap {
        path: PathBuf,
        /// The first byte both change.
        offset: u64,
    },
}

/// A file with patches applied. Reading needs no exclusive access, so one may serve many requests.
#[derive(Debug)]
pub struct PatchedImage {
    file: File,
    len: u64,
    /// Sorted by offset, not overlapping, none empty.
    patches: Vec<Patch>,
}

impl PatchedImage {
    /// The file at `path` with `patches` applied.
    pub fn open(path: impl AsRef<Path>, patches: Vec<Patch>) -> Result<Self, PatchError> {
        Self::prefix(path, u64::MAX, patches)
    }

    /// The first `len` bytes of the file at `path`, or all if there are fewer, with `patches` applied.
    pub fn prefix(path: impl AsRef<Path>, len: u64, mut patches: Vec<Patch>) -> Result<Self, PatchError> {
        let path = path.as_ref();
        let most = len;
        let open = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len().min(most);
            Ok((file, len))
        };
        let (file, len) = open().map_err(|source| PatchError::Open { path: path.to_owned(), source })?;
        patches.retain(|patch| !patch.bytes.is_empty());
        order::sort_by_key(&mut patches, |patch| patch.offset);
        let mut end = 0;
        for patch in &patches {
            if patch.offset < end {
                return Err(PatchError::Overlap { path: path.to_owned(), offset: patch.offset });
            }
            end = patch.end().filter(|end| *end <= len).ok_or_else(|| PatchError::PastEnd {
                path: path.to_owned(),
                offset: patch.offset,
                patch_bytes: patch.bytes.len(),
                file_bytes: len,
            })?;
        }
        Ok(Self { file, len, patches })
    }

    /// Length in bytes, which patches don't change.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads bytes at `offset` into `buf`, and returns how many: fewer than fit at the end of the image or of a patch, none only at
    /// the end of the image.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let remaining = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let room = buf.len().min(remaining);
        let buf = &mut buf[..room];
        // The first patch that ends after `offset`.
        let next = self.patches.partition_point(|patch| patch.end().is_some_and(|end| end <= offset));
        let Some(patch) = self.patches.get(next) else {
            return self.file.read_at(buf, offset);
        };
        if let Some(ahead) = patch.offset.checked_sub(offset).filter(|ahead| *ahead > 0) {
            let room = buf.len().min(usize::try_from(ahead).unwrap_or(usize::MAX));
            return self.file.read_at(&mut buf[..room], offset);
        }
        let skip = usize::try_from(offset - patch.offset).unwrap_or(usize::MAX);
        let bytes = patch.bytes.get(skip..).unwrap_or_default();
        let count = bytes.len().min(buf.len());
        buf[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// All of it, from its start.
    pub fn reader(&self) -> Reader<'_> {
        Reader { image: self, offset: 0 }
    }
}

/// Reads a [`PatchedImage`] from start to end.
#[derive(Debug)]
pub struct Reader<'a> {
    image: &'a PatchedImage,
    offset: u64,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.image.read_at(self.offset, buf)?;
        self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

impl io::Seek for Reader<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let offset = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::End(distance) => self.image.len.checked_add_signed(distance),
            io::SeekFrom::Current(distance) => self.offset.checked_add_signed(distance),
        };
        self.offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn patch(offset: u64, bytes: &[u8]) -> Patch {
        Patch { offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn patches_that_overlap_or_reach_past_the_end_are_refused() {
        let base = file(b"0123456789");
        let open = |patches: &[Patch]| PatchedImage::open(base.path(), patches.to_vec());
        assert!(open(&[patch(8, b"ab"), patch(0, b"c"), patch(10, b"")]).is_ok());
        assert!(matches!(open(&[patch(9, b"ab")]), Err(PatchError::PastEnd { offset: 9, file_bytes: 10, .. })));
        assert!(matches!(open(&[patch(u64::MAX, b"ab")]), Err(PatchError::PastEnd { .. })));
        assert!(matches!(open(&[patch(4, b"ab"), patch(3, b"ab")]), Err(PatchError::Overlap { offset: 4, .. })));
    }

    #[test]
    fn a_difference_is_no_longer_than_it_must_be() {
        for (new, expected) in
            [("abcdef", None), ("Abcdef", Some((7, "A"))), ("aBcDef", Some((8, "BcD"))), ("abcdeF", Some((12, "F")))]
        {
            let found = Patch::difference(7, b"abcdef", new.as_bytes());
            assert_eq!(found, expected.map(|(offset, bytes)| patch(offset, bytes.as_bytes())), "{new}");
        }
    }

    proptest! {
        #[test]
        fn every_range_reads_as_if_the_file_were_rewritten(
            base in proptest::collection::vec(any::<u8>(), 1..200),
            places in proptest::collection::vec((0_usize..200, 0_usize..40), 0..5),
            offset in 0_u64..220,
            room in 0_usize..220,
        ) {
            let mut expected = base.clone();
            let mut patches = Vec::new();
            let mut end = 0;
            for (gap, len) in places {
                let start = end + gap / 8;
                end = start + len;
                if end > base.len() { break; }
                let bytes = vec![0xa5; len];
                expected[start..end].copy_from_slice(&bytes);
                patches.push(Patch { offset: start.try_into().unwrap(), bytes });
            }
            patches.reverse();
            let base = file(&base);
            let image = PatchedImage::open(base.path(), patches).unwrap();
            let mut all = Vec::new();
            image.reader().read_to_end(&mut all).unwrap();
            prop_assert_eq!(&all, &expected);

            let mut buf = vec![0; room];
            let count = image.read_at(offset, &mut buf).unwrap();
            let start = usize::try_from(offset).unwrap().min(expected.len());
            prop_assert!(expected[start..].starts_with(&buf[..count]));
            prop_assert_eq!(count == 0, room == 0 || start == expected.len());
        }
    }
}
