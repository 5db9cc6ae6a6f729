//! Built images by the digest of what they are made of: built once, moved into place atomically, shared by parallel tests.

use crate::{arch::Arch, paths};
use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// How many builds of one name are stored; the least recently used are removed.
const KEPT: usize = 4;

/// The data files of the builders.
pub(super) fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("images")
}

/// The directory `.ci/vm-packages` unpacked the package set `name` of a processor into.
pub(super) fn packages(arch: Arch, name: &str) -> Result<PathBuf> {
    let dir = vm_dir()?.join(arch.packages).join(name);
    let complete = dir.join(".done").exists();
    ensure!(complete, "{} is missing or incomplete: run {} first", dir.display(), arch.set_up_with);
    Ok(dir)
}

fn vm_dir() -> Result<PathBuf> {
    std::path::absolute(paths::target_dir().join("vm")).context("the target directory's path")
}

/// The digest of everything a build reads. Each part is framed by its name and length.
#[derive(Clone)]
pub(super) struct Inputs(Sha256);

impl Inputs {
    /// Starts with the builders' own source and data: a change of either rebuilds everything.
    pub(super) fn new() -> Result<Self> {
        let mut inputs = Self(Sha256::new());
        inputs.tree(&data_dir())?;
        inputs.tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/images"))?;
        Ok(inputs)
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.part(name, value.as_bytes());
    }

    /// Adds the versions of a package set.
    pub(super) fn packages(&mut self, arch: Arch, name: &str) -> Result<()> {
        let list = packages(arch, name)?.join(".done");
        let versions = fs::read(&list).with_context(|| format!("reading {}", list.display()))?;
        self.part(name, &versions);
        Ok(())
    }

    /// Adds a file's content.
    pub(super) fn file(&mut self, path: &Path) -> Result<()> {
        let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        self.part("file", &content);
        Ok(())
    }

    /// Adds a directory: names, modes, link targets and contents, whatever its own path is.
    pub(super) fn tree(&mut self, dir: &Path) -> Result<()> {
        for entry in super::tree::walk(dir)? {
            let path = dir.join(&entry);
            let meta = fs::symlink_metadata(&path).with_context(|| format!("reading {}", path.display()))?;
            self.part("path", entry.as_os_str().as_encoded_bytes());
            if meta.is_symlink() {
                self.part("link", fs::read_link(&path)?.as_os_str().as_encoded_bytes());
            } else {
                self.text("mode", &format!("{:o}", meta.permissions().mode()));
                if meta.is_file() {
                    self.file(&path)?;
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, name: &str, value: &[u8]) {
        self.0.update(format!("{name} {}\n", value.len()));
        self.0.update(value);
    }

    fn digest(&self) -> String {
        self.0.clone().finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The file or directory `name-DIGEST.ext`, made by `build` unless it exists. `build` gets a scratch directory and the
/// path (inside it) to leave the result at. Other processes that want the same name wait for it.
pub(super) fn cached(
    name: &str,
    ext: &str,
    inputs: &Inputs,
    build: impl FnOnce(&Path, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let dir = vm_dir()?.join("images");
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let path = dir.join(format!("{name}-{}.{ext}", inputs.digest()));
    let lock = File::create(dir.join(format!(".{name}.{ext}.lock")))?;
    lock.lock().with_context(|| format!("locking the builds of {name}"))?;
    if !path.exists() {
        // The lock is ours: anything under this prefix is left over from a killed build.
        let prefix = format!(".building-{name}.{ext}-");
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                fs::remove_dir_all(entry.path()).with_context(|| format!("removing {}", entry.path().display()))?;
            }
        }
        let scratch = tempfile::Builder::new().prefix(&prefix).tempdir_in(&dir)?;
        let result = scratch.path().join(format!("result.{ext}"));
        build(scratch.path(), &result).with_context(|| format!("building {}", path.display()))?;
        fs::rename(&result, &path).with_context(|| format!("moving {} into place", path.display()))?;
    }
    // Only the order in which old builds are removed depends on it.
    let _ = File::open(&path).and_then(|build| build.set_modified(SystemTime::now()));
    drop_old(&dir, &format!("{name}-"), ext)?;
    Ok(path)
}

fn drop_old(dir: &Path, prefix: &str, ext: &str) -> Result<()> {
    let mut builds = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let digest = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(ext)?.strip_suffix('.'));
        if digest.is_some_and(|digest| digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            builds.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    builds.sort();
    let excess = builds.len().saturating_sub(KEPT);
    for (_, path) in builds.drain(..excess) {
        if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_mode_or_name_changes_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let digest = || {
            let mut inputs = Inputs(Sha256::new());
            inputs.tree(dir.path()).unwrap();
            inputs.digest()
        };
        fs::write(dir.path().join("a"), "1").unwrap();
        let first = digest();
        assert_eq!(first, digest());
        fs::set_permissions(dir.path().join("a"), PermissionsExt::from_mode(0o755)).unwrap();
        let executable = digest();
        assert_ne!(first, executable);
        fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert_ne!(executable, digest());
    }
}
