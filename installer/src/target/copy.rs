//! Copies a directory with all in it, as `rsync -a` does, and with hard links.

use super::{TargetError, failed};
use kernel::Cancel;
use std::{
    collections::HashMap,
    fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink},
    path::{Path, PathBuf},
};

const BUFFER_BYTES: usize = 1 << 20;
/// Of directories in directories; a path can't have more.
const MAX_DEPTH: u32 = 2048;

/// Bytes of all files and directories below `path`, itself included, as `du -sb` counts them.
pub(super) fn size(path: &Path) -> Result<u64, TargetError> {
    let mut todo = vec![path.to_owned()];
    let (mut bytes, mut linked) = (0u64, std::collections::HashSet::new());
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().map_err(failed("look at", &path))?;
        if meta.nlink() < 2 || meta.is_dir() || linked.insert((meta.dev(), meta.ino())) {
            bytes = bytes.saturating_add(meta.len());
        }
        if meta.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed("list", &path))? {
                todo.push(entry.map_err(failed("list", &path))?.path());
            }
        }
    }
    Ok(bytes)
}

/// Copies what is in `from` to `to`, which is made with its parents. What is there already is overwritten, so that it can be done again
/// after it was cut off. `on_bytes` gets how many bytes are done.
pub(super) fn tree(from: &Path, to: &Path, cancel: &Cancel, on_bytes: &mut dyn FnMut(u64)) -> Result<(), TargetError> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(failed("make", parent))?;
    }
    let mut copy = Copy { cancel, on_bytes, done: 0, linked: HashMap::new(), buffer: vec![0; BUFFER_BYTES] };
    let meta = from.symlink_metadata().map_err(failed("look at", from))?;
    copy.directory(from, to, &meta, 0)?;
    (copy.on_bytes)(copy.done);
    File::open(to).and_then(|root| root.sync_all()).map_err(failed("write", to))
}

struct Copy<'a> {
    cancel: &'a Cancel,
    on_bytes: &'a mut dyn FnMut(u64),
    done: u64,
    /// Files with more than one name, and where the first of them is now.
    linked: HashMap<(u64, u64), PathBuf>,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn directory(&mut self, from: &Path, to: &Path, meta: &Metadata, depth: u32) -> Result<(), TargetError> {
        if depth > MAX_DEPTH {
            return Err(failed("copy", from)(ErrorKind::InvalidFilename.into()));
        }
        match fs::DirBuilder::new().mode(0o700).create(to) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && to.is_dir() => {}
            result => result.map_err(failed("make", to))?,
        }
        self.done = self.done.saturating_add(meta.len());
        let entries = fs::read_dir(from).map_err(failed("list", from))?;
        for entry in entries {
            let entry = entry.map_err(failed("list", from))?;
            if self.cancel.is_cancelled() {
                return Err(TargetError::Cancelled);
            }
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let meta = from.symlink_metadata().map_err(failed("look at", &from))?;
            if meta.is_dir() {
                self.directory(&from, &to, &meta, depth + 1)?;
            } else {
                self.entry(&from, &to, &meta)?;
            }
        }
        // Last: what was made in it would change its time, and it may not be writable.
        let directory = File::open(to).map_err(failed("open", to))?;
        keep(&directory, to, meta)
    }

    fn entry(&mut self, from: &Path, to: &Path, meta: &Metadata) -> Result<(), TargetError> {
        match fs::remove_file(to) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("replace", to)(error)),
            _ => {}
        }
        if meta.nlink() > 1 {
            match self.linked.get(&(meta.dev(), meta.ino())) {
                Some(first) => return fs::hard_link(first, to).map_err(failed("link", to)),
                None => drop(self.linked.insert((meta.dev(), meta.ino()), to.to_owned())),
            }
        }
        if meta.is_symlink() {
            self.done = self.done.saturating_add(meta.len());
            let target = fs::read_link(from).map_err(failed("read", from))?;
            symlink(target, to)
                .and_then(|()| lchown(to, Some(meta.uid()), Some(meta.gid())))
                .map_err(failed("make", to))
        } else if meta.is_file() {
            self.file(from, to, meta)
        } else {
            tracing::warn!(path = %from.display(), "neither file, directory nor link: not copied");
            Ok(())
        }
    }

    fn file(&mut self, from: &Path, to: &Path, meta: &Metadata) -> Result<(), TargetError> {
        let mut source = File::open(from).map_err(failed("open", from))?;
        // Private until it has its own mode.
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        let mut target = options.map_err(failed("make", to))?;
        loop {
            if self.cancel.is_cancelled() {
                return Err(TargetError::Cancelled);
            }
            let count = source.read(&mut self.buffer).map_err(failed("read", from))?;
            let piece = self.buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            target.write_all(piece).map_err(failed("write", to))?;
            self.done = self.done.saturating_add(u64::try_from(count).unwrap_or_default());
            (self.on_bytes)(self.done);
        }
        keep(&target, to, meta)
    }
}

/// Owner, mode and time.
fn keep(file: &File, path: &Path, meta: &Metadata) -> Result<(), TargetError> {
    fchown(file, Some(meta.uid()), Some(meta.gid()))
        .and_then(|()| file.set_permissions(Permissions::from_mode(meta.mode() & 0o7777)))
        .and_then(|()| file.set_times(FileTimes::new().set_modified(meta.modified()?).set_accessed(meta.accessed()?)))
        .map_err(failed("set owner, mode and time of", path))
}
