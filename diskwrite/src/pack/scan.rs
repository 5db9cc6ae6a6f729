//! Which parts of a disk are files of its ostree repository.

use super::overlaps::{Overlaps, arrange};
use super::{BOOT, PackError, ROOT};
use crate::extents::{Extent, ExtentsError, extents};
use crate::gpt;
use crate::source::osmet::format::{MAX_MAPPINGS, Mapping, Partition};
use kernel::{Cancel, hex, order};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, DirEntry, File},
    io::{self, Read},
    path::Path,
};

/// A smaller file of the boot file system is packed: to refer to it would hardly be shorter.
const MIN_BOOT_FILE_BYTES: u64 = 1025;
const BUFFER_BYTES: usize = 256 << 10;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Objects with extents.
    pub mapped: usize,
    /// Objects without.
    pub empty: usize,
    /// Objects that are not plain runs of bytes on the disk, and are packed.
    pub packed: usize,
    /// Files of the boot file system that are objects too.
    pub boot_files: usize,
    /// Extents of the boot file system.
    pub boot_extents: usize,
    pub boot_overlaps: Overlaps,
    /// Extents of the root file system.
    pub root_extents: usize,
    pub root_overlaps: Overlaps,
}

/// A file of the boot file system that may be an object too.
#[derive(Debug)]
pub(super) struct BootFile {
    len: u64,
    sha256: [u8; 32],
    extents: Vec<Extent>,
}

/// The larger files of the boot file system at `dir`.
pub(super) fn boot_files(dir: &Path, cancel: &Cancel) -> Result<Vec<BootFile>, PackError> {
    let mut files = Vec::new();
    let mut directories = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in entries(&directory, BOOT, cancel)? {
            let path = entry.path();
            let failed = |source| PackError::File { path: path.clone(), label: BOOT, source };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                directories.push(path);
                continue;
            }
            let len = if kind.is_file() { entry.metadata().map_err(failed)?.len() } else { 0 };
            if len < MIN_BOOT_FILE_BYTES {
                continue;
            }
            let file = File::open(&path).map_err(failed)?;
            if let Some(extents) = plain_extents(&file, &path, BOOT)? {
                files.push(BootFile { len, sha256: sha256(file).map_err(failed)?, extents });
            }
        }
    }
    Ok(files)
}

/// Both partitions in the order of the disk, with the extents of objects of the repository at `repo`.
pub(super) fn partitions(
    repo: &Path,
    mut boot_files: Vec<BootFile>,
    boot: &gpt::Partition,
    root: &gpt::Partition,
    cancel: &Cancel,
) -> Result<(Vec<Partition>, Scan), PackError> {
    let mut scan = Scan::default();
    let (mut of_boot, mut of_root) = (Mapped::new(boot), Mapped::new(root));
    for directory in entries(&repo.join("objects"), ROOT, cancel)? {
        let path = directory.path();
        let failed = |source| PackError::Walk { path: path.clone(), label: ROOT, source };
        if !directory.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        for entry in entries(&path, ROOT, cancel)? {
            let path = entry.path();
            let failed = |source| PackError::File { path: path.clone(), label: ROOT, source };
            let Some(object) = object_of(&path) else { continue };
            if !entry.file_type().map_err(failed)?.is_file() {
                continue;
            }
            let file = File::open(&path).map_err(failed)?;
            match plain_extents(&file, &path, ROOT)? {
                None => scan.packed += 1,
                Some(extents) if extents.is_empty() => scan.empty += 1,
                Some(extents) => {
                    of_root.add(&extents, object)?;
                    scan.mapped += 1;
                }
            }
            let len = entry.metadata().map_err(failed)?.len();
            if boot_files.iter().any(|one| one.len == len) {
                let sum = sha256(file).map_err(failed)?;
                for same in boot_files.extract_if(.., |one| one.len == len && one.sha256 == sum) {
                    of_boot.add(&same.extents, object)?;
                    scan.boot_files += 1;
                }
            }
        }
    }
    let mut both = [of_boot.finish(), of_root.finish()];
    let [(boot, boot_overlaps), (root, root_overlaps)] = &both;
    (scan.boot_extents, scan.boot_overlaps) = (boot.mappings.len(), *boot_overlaps);
    (scan.root_extents, scan.root_overlaps) = (root.mappings.len(), *root_overlaps);
    order::sort_by_key(&mut both, |(partition, _)| partition.start);
    Ok((both.map(|(partition, _)| partition).into(), scan))
}

/// The mappings of one partition.
struct Mapped {
    start: u64,
    end: u64,
    mappings: Vec<Mapping>,
}

impl Mapped {
    fn new(partition: &gpt::Partition) -> Self {
        let (start, end) = (partition.start, partition.start.saturating_add(partition.len));
        Self { start, end, mappings: Vec::new() }
    }

    /// Adds the extents of a file with the content of `object`; those outside of the partition are not believed.
    fn add(&mut self, extents: &[Extent], object: [u8; 32]) -> Result<(), PackError> {
        for Extent { logical, physical, length } in extents {
            let start = self.start.saturating_add(*physical);
            if start.saturating_add(*length) <= self.end {
                self.mappings.push(Mapping { file_offset: *logical, start, len: *length, object });
            }
        }
        // Half for each partition.
        let is_too_many = u64::try_from(self.mappings.len()).is_ok_and(|count| count > MAX_MAPPINGS / 2);
        if is_too_many { Err(PackError::TooMany) } else { Ok(()) }
    }

    fn finish(mut self) -> (Partition, Overlaps) {
        let overlaps = arrange(&mut self.mappings);
        (Partition { start: self.start, end: self.end, mappings: self.mappings }, overlaps)
    }
}

/// What is in a directory, by name: which of two equal files is taken does not depend on their order.
fn entries(path: &Path, label: &'static str, cancel: &Cancel) -> Result<Vec<DirEntry>, PackError> {
    if cancel.is_cancelled() {
        return Err(PackError::Cancelled);
    }
    let failed = |source| PackError::Walk { path: path.to_owned(), label, source };
    let entries: io::Result<Vec<DirEntry>> = fs::read_dir(path).map_err(failed)?.collect();
    let mut entries = entries.map_err(failed)?;
    order::sort_by_key(&mut entries, DirEntry::file_name);
    Ok(entries)
}

/// The object that ostree names `ab/cdef….file`; None for a file of another kind.
fn object_of(path: &Path) -> Option<[u8; 32]> {
    let first = path.parent()?.file_name()?.to_str()?;
    let rest = path.file_name()?.to_str()?.strip_suffix(".file")?;
    (first.len() == 2).then(|| hex::parse(&format!("{first}{rest}")))?
}

/// Where the file is; None if it is not plain runs of bytes, such as one that is compressed or kept in its inode.
fn plain_extents(file: &File, path: &Path, label: &'static str) -> Result<Option<Vec<Extent>>, PackError> {
    match extents(file) {
        Ok(extents) => Ok(Some(extents)),
        Err(ExtentsError::Unusable(_)) => Ok(None),
        Err(source) => Err(PackError::Extents { path: path.to_owned(), label, source }),
    }
}

fn sha256(mut file: File) -> io::Result<[u8; 32]> {
    let (mut hasher, mut buf) = (Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buf) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(count) => hasher.update(&buf[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_files_with_the_names_that_ostree_gives() {
        let rest = "0f".repeat(31);
        let of = |path: &str| object_of(Path::new(path));
        assert_eq!(of(&format!("/r/objects/ab/{rest}.file")).unwrap()[..2], [0xab, 0x0f]);
        for other in [
            format!("/r/objects/ab/{rest}.dirtree"),
            format!("/r/objects/ab/{rest}.filez"),
            format!("/r/objects/ab/{rest}"),
            format!("/r/objects/ab0f/{}.file", "0f".repeat(30)),
            format!("/r/objects/a/b{rest}.file"),
            format!("/r/objects/xy/{rest}.file"),
            "/".to_owned(),
        ] {
            assert_eq!(of(&other), None, "{other}");
        }
    }

    #[test]
    fn extents_beyond_the_partition_are_not_believed() {
        let partition = gpt::Partition { number: 4, name: "root".into(), start: 1 << 20, len: 1 << 20 };
        let mut mapped = Mapped::new(&partition);
        let extent = |physical, length| Extent { logical: 0, physical, length };
        let all = [extent((1 << 20) - 4096, 4096), extent((1 << 20) - 4096, 8192), extent(u64::MAX, 1)];
        mapped.add(&all, [1; 32]).unwrap();
        let (found, _) = mapped.finish();
        assert_eq!((found.start, found.end, found.mappings.len()), (1 << 20, 2 << 20, 1));
        assert_eq!(found.mappings[0].start, (2 << 20) - 4096);
    }
}
