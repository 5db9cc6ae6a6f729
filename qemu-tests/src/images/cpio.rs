//! Writes newc cpio archives, all owned by root.

use super::tree;
use anyhow::{Context, Result};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

/// An archive in memory.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    /// Adds everything below `dir`, parents before children; times are zero, so that the same tree gives the same bytes.
    pub(super) fn tree(&mut self, dir: &Path) -> Result<()> {
        for entry in tree::walk(dir)? {
            let path = dir.join(&entry);
            let name = entry.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
            let meta = fs::symlink_metadata(&path)?;
            let mode = meta.permissions().mode() & 0o7777;
            if meta.is_dir() {
                self.entry(name, DIRECTORY | mode, (0, 0), &[])?;
            } else if meta.is_symlink() {
                self.entry(name, SYMLINK | 0o777, (0, 0), fs::read_link(&path)?.as_os_str().as_encoded_bytes())?;
            } else {
                let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                self.entry(name, REGULAR | mode, (0, 0), &content)?;
            }
        }
        Ok(())
    }

    /// Adds a file.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        self.entry(name, REGULAR | 0o644, (0, 0), content)
    }

    /// Adds a character device node.
    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) -> Result<()> {
        self.entry(name, CHARACTER | 0o600, (major, minor), &[])
    }

    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(content.len()).with_context(|| format!("{name} is too large for a cpio archive"))?;
        let name_size = u32::try_from(name.len() + 1)?;
        // ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
