//! Where on its disk a file is: what an osmet file is made from.

use kernel::file_system;
use nix::errno::Errno;
use serde::Serialize;
use std::fs::File;

/// No file of an image has more extents.
const MAX_EXTENTS: usize = 1 << 20;
/// `FIEMAP_EXTENT_LAST` of linux/fiemap.h.
const LAST: u32 = 1;
/// What is not a plain run of bytes on the disk, the graver first: `FIEMAP_EXTENT_UNKNOWN` and `_DATA_ENCRYPTED`; `_UNWRITTEN`;
/// `_DELALLOC`; `_ENCODED`; `_MERGED`; `_NOT_ALIGNED`, `_DATA_INLINE` and `_DATA_TAIL`. The words are coreos-installer's.
const UNUSABLE: [(u32, &str); 6] = [
    (0x4, "extent not allocated yet"),
    (0x2 | 0x80, "extent inaccessible"),
    (0x800, "extent preallocated"),
    (0x8, "extent encoded"),
    (0x1000, "file does not support extents"),
    (0x100 | 0x200 | 0x400, "extent not aligned"),
];

/// A run of bytes of a file, and where the disk has it; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// Where in the file.
    pub logical: u64,
    /// Where on the file system's device.
    pub physical: u64,
    /// How long; the last may go on after the file's end.
    pub length: u64,
}

/// Why the extents are not known.
#[derive(Debug, thiserror::Error)]
pub enum ExtentsError {
    /// The file system doesn't say.
    #[error("ioctl(FS_IOC_FIEMAP)")]
    Ioctl(#[source] Errno),
    /// Not a plain run of bytes.
    #[error("{0}")]
    Unusable(&'static str),
    #[error("the file has more than {MAX_EXTENTS} extents")]
    TooMany,
}

/// All extents of `file`, in the order of the file. Holes have none.
pub fn extents(file: &File) -> Result<Vec<Extent>, ExtentsError> {
    collect(|start| file_system::extents(file, start))
}

fn collect(mut next: impl FnMut(u64) -> Result<Vec<file_system::Extent>, Errno>) -> Result<Vec<Extent>, ExtentsError> {
    let mut all: Vec<Extent> = Vec::new();
    loop {
        let start = all.last().map_or(0, |last| last.logical.saturating_add(last.length));
        let found = next(start).map_err(ExtentsError::Ioctl)?;
        let ends = found.last().is_none_or(|last| last.flags & LAST != 0);
        for extent in found {
            if let Some((_, why)) = UNUSABLE.iter().find(|(flags, _)| extent.flags & flags != 0) {
                return Err(ExtentsError::Unusable(why));
            }
            let file_system::Extent { logical, physical, length, .. } = extent;
            all.push(Extent { logical, physical, length });
        }
        if ends {
            return Ok(all);
        }
        if all.len() > MAX_EXTENTS || all.last().is_some_and(|last| last.logical.saturating_add(last.length) <= start) {
            return Err(ExtentsError::TooMany);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    fn extent(logical: u64, flags: u32) -> file_system::Extent {
        file_system::Extent { logical, physical: logical + (1 << 30), length: 4096, flags }
    }

    #[test]
    fn a_file_of_many_extents_is_asked_for_in_parts() {
        let answers = [vec![extent(0, 0), extent(8192, 0)], vec![extent(16384, LAST)]];
        let mut asked = Vec::new();
        let all = collect(|start| {
            asked.push(start);
            Ok(answers[asked.len() - 1].clone())
        });
        let expected = [0, 8192, 16384].map(|logical| Extent { logical, physical: logical + (1 << 30), length: 4096 });
        assert_eq!((all.unwrap(), asked), (expected.to_vec(), vec![0, 12288]));
        assert_eq!(collect(|_| Ok(Vec::new())).unwrap(), []);
        // A file system that says the same for ever.
        assert!(matches!(collect(|_| Ok(vec![extent(0, 0)])), Err(ExtentsError::TooMany)));
    }

    #[test]
    fn what_is_no_plain_run_of_bytes_is_named() {
        for (flags, why) in [
            (0x806, "extent not allocated yet"),
            (2, "extent inaccessible"),
            (0x801, "extent preallocated"),
            (8, "extent encoded"),
            (0x1001, "file does not support extents"),
            (0x301, "extent not aligned"),
        ] {
            assert_eq!(collect(|_| Ok(vec![extent(0, flags)])).unwrap_err().to_string(), why);
        }
        // Shared ones are as good as others.
        assert!(collect(|_| Ok(vec![extent(0, 0x2001)])).is_ok());
    }

    #[test]
    fn a_hole_has_no_extent() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for at in [1 << 20, 3 << 20] {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[7; 8192]).unwrap();
        }
        match extents(&file) {
            Ok(all) => {
                let logical: Vec<u64> = all.iter().map(|extent| extent.logical).collect();
                assert_eq!(logical, [1 << 20, 3 << 20]);
                assert!(all.iter().all(|extent| extent.length == 8192 && extent.physical != 0), "{all:?}");
            }
            // Not every file system can tell.
            Err(error) => assert!(matches!(error, ExtentsError::Ioctl(Errno::EOPNOTSUPP)), "{error:?}"),
        }
    }
}
