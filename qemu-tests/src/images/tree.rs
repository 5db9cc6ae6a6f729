//! Directory trees under construction: copied, merged.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// All paths below `dir`, relative to it, parents before children, in the same order on every machine.
pub(super) fn walk(dir: &Path) -> Result<Vec<PathBuf>> {
    fn enter(dir: &Path, below: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
        let at = dir.join(below);
        let mut names = Vec::new();
        for entry in fs::read_dir(&at).with_context(|| format!("listing {}", at.display()))? {
            let entry = entry?;
            names.push((entry.file_name(), entry.file_type()?.is_dir()));
        }
        names.sort();
        for (name, is_dir) in names {
            let path = below.join(name);
            paths.push(path.clone());
            if is_dir {
                enter(dir, &path, paths)?;
            }
        }
        Ok(())
    }
    let mut paths = Vec::new();
    enter(dir, Path::new(""), &mut paths)?;
    Ok(paths)
}

/// Whether anything exists at `path`, a dangling symbolic link included.
pub(super) fn present(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Merges `from` into `to`: files replace files, directories merge.
pub(super) fn overlay(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in walk(from)? {
        place(&from.join(&entry), &to.join(&entry)).with_context(|| format!("copying over {}", entry.display()))?;
    }
    Ok(())
}

/// Puts one file, link or (empty) directory at `to`, making parents.
pub(super) fn place(from: &Path, to: &Path) -> Result<()> {
    let meta = fs::symlink_metadata(from).with_context(|| format!("reading {}", from.display()))?;
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    if meta.is_dir() {
        // A link to a directory (lib -> usr/lib) stays, so that what is merged may use either name.
        if !to.is_dir() {
            fs::create_dir(to)?;
            fs::set_permissions(to, meta.permissions())?;
        }
        return Ok(());
    }
    if present(to) {
        if to.is_dir() && !to.is_symlink() {
            bail!("{} is a directory, {} is not", to.display(), from.display());
        }
        fs::remove_file(to)?;
    }
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if meta.is_file() {
        fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    } else {
        bail!("{} is neither file, link nor directory", from.display());
    }
    Ok(())
}

/// Writes a generated file, replacing (never writing through) an existing one.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    if present(path) {
        fs::remove_file(path)?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    Ok(())
}

/// Makes a symbolic link unless something of that name exists.
pub(super) fn link(target: &str, path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    if !present(path) {
        symlink(target, path).with_context(|| format!("linking {}", path.display()))?;
    }
    Ok(())
}

/// The lines of a list file that are neither empty nor comments.
pub(super) fn list(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_replaces_files_and_never_writes_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let (base, over, out) = (dir.path().join("base"), dir.path().join("over"), dir.path().join("out"));
        write(&base.join("usr/lib/a"), "base", 0o644).unwrap();
        link("usr/lib", &base.join("lib")).unwrap();
        write(&over.join("lib/a"), "over", 0o755).unwrap();
        overlay(&base, &out).unwrap();
        overlay(&over, &out).unwrap();
        assert_eq!(fs::read_to_string(out.join("usr/lib/a")).unwrap(), "over");
        assert_eq!(fs::read_to_string(base.join("usr/lib/a")).unwrap(), "base");
        assert!(out.join("lib").is_symlink());
    }
}
