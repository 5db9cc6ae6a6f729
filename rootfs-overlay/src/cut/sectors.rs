//! A file with some of its bytes changed in memory.

use super::error::CutError;
use crate::bake::splice::Piece;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Offsets are those of the file, whatever is left out when it is written.
pub(super) struct Sectors<'a> {
    path: &'a Path,
    file: &'a File,
    changed: BTreeMap<u64, u8>,
}

impl<'a> Sectors<'a> {
    pub(super) fn new(path: &'a Path, file: &'a File) -> Self {
        Self { path, file, changed: BTreeMap::new() }
    }

    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, CutError> {
        let failed = |source| CutError::Read { path: self.path.to_owned(), source };
        let mut bytes = vec![0; usize::try_from(len).map_err(|error| failed(std::io::Error::other(error)))?];
        self.file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        for (at, byte) in (offset..).zip(&mut bytes) {
            *byte = self.changed.get(&at).copied().unwrap_or(*byte);
        }
        Ok(bytes)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.changed.extend((offset..).zip(bytes.iter().copied()));
    }

    /// The bytes from `start` to before `end`.
    pub(super) fn pieces(&self, start: u64, end: u64) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut at = start;
        for (offset, byte) in self.changed.range(start..end) {
            match pieces.last_mut() {
                Some(Piece::Bytes(bytes)) if *offset == at => bytes.push(*byte),
                _ => {
                    pieces.push(Piece::Copy { file: self.file, offset: at, len: offset - at });
                    pieces.push(Piece::Bytes(vec![*byte]));
                }
            }
            at = offset + 1;
        }
        pieces.push(Piece::Copy { file: self.file, offset: at, len: end.saturating_sub(at) });
        pieces
    }
}
