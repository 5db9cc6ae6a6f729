//! Trees of files that stand for a machine, or a part of one.

use std::{fs, os::unix::fs::symlink, path::Path};
use tempfile::TempDir;

/// In a temporary directory, gone with it.
pub struct Tree(TempDir);

impl Tree {
    /// A tree of these files: path and content.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self::empty();
        for (path, content) in files {
            tree.add(path, content);
        }
        tree
    }

    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// In memory where that can be had: for trees of very many files.
    pub fn in_memory() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    pub fn add(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        put(self.path(), path, content);
        self
    }

    pub fn dir(&self, path: &str) -> &Self {
        fs::create_dir_all(self.path().join(path)).unwrap();
        self
    }

    pub fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Writes a file below `directory`, with the directories on the way to it.
pub fn put(directory: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
