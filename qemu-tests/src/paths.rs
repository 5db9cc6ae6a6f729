//! Where build products, logs and scratch files are.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The workspace's target directory.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).join("target"),
    }
}

/// Logs of VMs and services; left after a run, replaced by the next of the same name.
pub fn log_dir(run: &str) -> io::Result<PathBuf> {
    let dir = target_dir().join("vm/logs").join(run);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// A scratch directory beside the build products, for disks: removed on drop, and by the next run if this one is killed.
pub fn scratch_dir() -> io::Result<tempfile::TempDir> {
    let parent = target_dir().join("vm/run");
    std::fs::create_dir_all(&parent)?;
    sweep(&parent);
    tempfile::Builder::new().prefix(&scratch_prefix(std::process::id())).tempdir_in(parent)
}

/// A directory for sockets, whose paths must stay below 108 bytes (unix(7)).
pub fn socket_dir() -> io::Result<tempfile::TempDir> {
    let parent = std::env::temp_dir();
    sweep(&parent);
    tempfile::Builder::new().prefix(&scratch_prefix(std::process::id())).tempdir_in(parent)
}

/// Removes this process' scratch and socket directories at once: for an end without unwinding.
pub fn remove_directories() {
    for parent in [target_dir().join("vm/run"), std::env::temp_dir()] {
        remove(&parent, |pid| pid == std::process::id());
    }
}

fn scratch_prefix(pid: u32) -> String {
    format!("landfall-vm-{pid}-")
}

/// Removes what processes that are gone left behind.
fn sweep(parent: &Path) {
    remove(parent, |pid| !Path::new("/proc").join(pid.to_string()).exists());
}

/// Removes directories of [`scratch_prefix`]'s form by their process. What can't be removed belongs to another user.
fn remove(parent: &Path, whose: impl Fn(u32) -> bool) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix("landfall-vm-")?.split('-').next());
        if owner.and_then(|pid| pid.parse().ok()).is_some_and(&whose) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeping_removes_what_the_dead_left() {
        let parent = tempfile::tempdir().unwrap();
        let ours = parent.path().join(format!("{}x", scratch_prefix(std::process::id())));
        // Above any pid_max (4 Mi).
        let dead = parent.path().join(format!("{}x", scratch_prefix(4_194_305)));
        let other = parent.path().join("landfall-vm-x");
        for dir in [&ours, &dead, &other] {
            std::fs::create_dir(dir).unwrap();
        }
        sweep(parent.path());
        assert!(ours.exists() && other.exists() && !dead.exists());
    }
}
