//! Loop devices over files of the tests' own.

use super::run;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// A loop device. It is detached once, when this is dropped: its number is any other test's from then on.
pub struct Loop {
    node: PathBuf,
    backing: PathBuf,
}

impl Loop {
    /// Over a file or a device, with options of `losetup`.
    pub fn over(backing: &Path, options: &[&str]) -> Self {
        let backing = backing.canonicalize().unwrap();
        let path = backing.display().to_string();
        let node = run("losetup", &[&["--find", "--show"], options, &[&path]].concat());
        let attached = Self { node: node.trim().into(), backing };
        attached.node();
        attached
    }

    /// The device's path, after making sure that it is a loop device over our file and nothing else.
    #[track_caller]
    pub fn node(&self) -> &Path {
        assert!(self.is_ours(), "{} is not over {}", self.node.display(), self.backing.display());
        &self.node
    }

    /// The device's name without its directory: `loop7`.
    pub fn name(&self) -> String {
        self.node.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn is_ours(&self) -> bool {
        let name = self.name();
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
        self.node == Path::new("/dev").join(&name)
            && name.starts_with("loop")
            && Path::new(backing.trim()) == self.backing
    }

    /// Numbers of the partitions the kernel knows.
    pub fn partitions(&self) -> Vec<u32> {
        let name = self.name();
        let prefix = format!("{name}p");
        let entries = fs::read_dir(format!("/sys/block/{name}")).unwrap();
        let mut numbers: Vec<u32> = entries
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix(&prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if !self.is_ours() {
            // A second panic would end the process before the first is reported.
            assert!(thread::panicking(), "{} was detached by another", self.node.display());
            return;
        }
        // Partitions outlive a loop device that does not scan for them.
        if !self.partitions().is_empty() {
            let _ = Command::new("partx").arg("--delete").arg(&self.node).stderr(Stdio::null()).status();
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.node).status();
    }
}
