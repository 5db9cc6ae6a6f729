//! Where an image says where a file is: volume descriptors and directory records, to be changed.

use super::directory::record;
use super::{Directory, Extent, Iso, IsoError, SECTOR_BYTES, read_at};
use kernel::order::{self, Gather};
use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::iter;

/// A volume's directories under one kind of names: plain, or Joliet's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Byte offset of its descriptor.
    pub descriptor: u64,
    pub root: Directory,
    /// Whether names are in UCS-2.
    pub is_joliet: bool,
}

/// As many directories at most.
const MAX_DIRECTORIES: usize = 1 << 16;
/// The sector of the first descriptor.
const FIRST_SECTOR: u64 = 16;

impl<R: Read + Seek> Iso<R> {
    /// The trees, in the order of their descriptors.
    pub fn trees(&mut self) -> Result<Vec<Tree>, IsoError> {
        let mut trees = Vec::new();
        for (sector, _) in (FIRST_SECTOR..).zip(0..self.descriptors.len()) {
            let descriptor = sector * SECTOR_BYTES;
            let bytes = read_at(&mut self.reader, descriptor, SECTOR_BYTES)?;
            let root = bytes.get(156..190).and_then(record).filter(|root| root.is_directory);
            let (Some(kind @ (1 | 2)), Some(root)) = (bytes.first(), root) else { continue };
            let is_joliet = *kind == 2 && matches!(bytes.get(88..91), Some(b"%/@" | b"%/C" | b"%/E"));
            let root = Directory { name: ".".to_owned(), address: root.address, length: root.length };
            trees.push(Tree { descriptor, root, is_joliet });
        }
        Ok(trees)
    }

    /// Byte offsets of all records of a tree that name exactly these bytes.
    pub fn places(&mut self, tree: &Tree, wanted: Extent) -> Result<Vec<u64>, IsoError> {
        let mut places = Vec::new();
        let mut open = vec![tree.root.clone()];
        let mut seen: BTreeSet<_> = iter::once(tree.root.address).gather();
        while let Some(directory) = open.pop() {
            for (offset, found) in self.records(&directory)? {
                if found.is_directory {
                    if seen.len() > MAX_DIRECTORIES {
                        return Err(IsoError::Directory { offset });
                    }
                    // Also `.` and `..`, and whatever else was there already.
                    if seen.insert(found.address) {
                        open.push(found.directory());
                    }
                } else if found.extent() == wanted {
                    if found.continued {
                        return Err(IsoError::InPieces { name: found.name });
                    }
                    places.push(offset);
                }
            }
        }
        order::sort(&mut places);
        Ok(places)
    }
}
