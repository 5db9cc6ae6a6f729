//! The root file system both kinds of machine run: systemd, udev and busybox, as Debian packages them, less what no test needs.

use super::{
    Drivers, elf,
    kernel::Kernel,
    store::{self, Inputs},
    tools, tree,
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The kernel an image with these drivers boots.
pub(super) fn kernel(drivers: Drivers) -> Result<Kernel> {
    Kernel::open(drivers.package())
}

/// What every image depends on: the packages and the builders themselves.
pub(super) fn inputs(drivers: Drivers) -> Result<Inputs> {
    let mut inputs = Inputs::new()?;
    inputs.packages("root")?;
    inputs.packages("ignition")?;
    inputs.text("kernel", &kernel(drivers)?.release);
    inputs.file(&busybox()?)?;
    inputs.text("loader", &tools::run("grub-mkimage", ["--version"])?);
    Ok(inputs)
}

/// The host's static busybox: shell and small tools of every image.
pub(super) fn busybox() -> Result<PathBuf> {
    let dirs = ["/usr/bin/busybox", "/bin/busybox"].map(PathBuf::from);
    dirs.into_iter().find(|path| path.exists()).context("no /bin/busybox: install busybox-static")
}

/// Installs busybox and a link for each of its applets that `root` has no program of its own for.
pub(super) fn install_busybox(root: &Path) -> Result<()> {
    let busybox = busybox()?;
    fs::create_dir_all(root.join("usr/bin"))?;
    fs::copy(&busybox, root.join("usr/bin/busybox")).context("copying busybox")?;
    for applet in tools::run(&busybox.to_string_lossy(), ["--list"])?.lines() {
        if !tree::present(&root.join("usr/sbin").join(applet)) {
            tree::link("busybox", &root.join("usr/bin").join(applet))?;
        }
    }
    Ok(())
}

/// The empty directories and the links of a root with everything below `usr`.
pub(super) fn skeleton(root: &Path) -> Result<()> {
    let usr = ["usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/local/bin"];
    let top = ["dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var"];
    for dir in usr.into_iter().chain(top) {
        fs::create_dir_all(root.join(dir))?;
    }
    for dir in ["bin", "sbin", "lib", "lib64"] {
        tree::link(&format!("usr/{dir}"), &root.join(dir))?;
    }
    Ok(())
}

/// The directories of `root` programs find libraries in, relative to it.
pub(super) fn library_dirs(root: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    for entry in fs::read_dir(root.join("usr/lib"))? {
        let name = entry?.file_name();
        if name.to_string_lossy().ends_with("-linux-gnu") {
            let dir = Path::new("usr/lib").join(name);
            dirs.push(dir.join("systemd"));
            dirs.push(dir);
        }
    }
    Ok(dirs)
}

/// Puts the libraries of `base` that `programs` of it need into `tree`, and the loader.
pub(super) fn install_libraries(base: &Path, tree: &Path, programs: Vec<PathBuf>) -> Result<()> {
    for library in elf::closure(base, &library_dirs(base)?, programs)? {
        let file = base.join(&library).canonicalize().with_context(|| format!("following {}", library.display()))?;
        tree::place(&file, &tree.join(&library))?;
    }
    // Programs name the loader by its path below lib64, a link to one of the libraries just placed.
    tree::overlay(&base.join("usr/lib64"), &tree.join("usr/lib64"))
}

/// The root common to live and installed machines; a directory.
pub(super) fn base(drivers: Drivers) -> Result<PathBuf> {
    store::cached("root", "d", &inputs(drivers)?, |_, root| {
        skeleton(root)?;
        let package = store::packages("root")?;
        let excluded = tree::list(&store::data_dir().join("root.exclude"))?;
        install_packages(&package, &excluded, root)?;
        drop_unused_libraries(root)?;
        install_busybox(root)?;
        let modules = tree::list(&store::data_dir().join("root.modules"))?;
        kernel(drivers)?.install_modules(&modules, root)?;
        tree::overlay(&store::data_dir().join("root"), root)?;
        // Git keeps no modes but "executable".
        for secret in ["etc/shadow", "etc/gshadow"] {
            fs::set_permissions(root.join(secret), PermissionsExt::from_mode(0o600))?;
        }
        fs::set_permissions(root.join("tmp"), PermissionsExt::from_mode(0o1777))?;
        Ok(())
    })
}

/// What was unpacked into `package`, less what is `excluded`, into `root`.
pub(super) fn install_packages(package: &Path, excluded: &[String], root: &Path) -> Result<()> {
    for entry in tree::walk(package)? {
        let path = below_usr(&entry);
        if path.as_os_str() != ".done" && !is_excluded(&path, excluded) && !package.join(&entry).is_dir() {
            tree::place(&package.join(&entry), &root.join(&path))?;
        }
    }
    Ok(())
}

/// Debian's bin, sbin, lib and lib64 are moved below usr.
pub(super) fn below_usr(path: &Path) -> PathBuf {
    match path.components().next() {
        Some(first) if ["bin", "sbin", "lib", "lib64"].iter().any(|dir| first.as_os_str() == *dir) => {
            Path::new("usr").join(path)
        }
        _ => path.to_owned(),
    }
}

/// An excluded path covers all below it; one ending in `*` all that start so.
fn is_excluded(path: &Path, excluded: &[String]) -> bool {
    excluded.iter().any(|rule| match rule.strip_suffix('*') {
        Some(prefix) => path.to_string_lossy().starts_with(prefix),
        None => path.starts_with(rule),
    })
}

fn drop_unused_libraries(root: &Path) -> Result<()> {
    let dirs = library_dirs(root)?;
    let is_library =
        |path: &Path| dirs.iter().any(|dir| path.parent() == Some(dir)) && path.to_string_lossy().contains(".so");
    let files: Vec<PathBuf> = tree::walk(root)?.into_iter().filter(|path| !root.join(path).is_dir()).collect();
    let programs = files.iter().filter(|path| !is_library(path) && elf::is_elf(&root.join(path))).cloned().collect();
    let mut used: BTreeSet<PathBuf> = elf::closure(root, &dirs, programs)?;
    for path in used.clone() {
        if let Ok(target) = fs::canonicalize(root.join(&path)) {
            used.extend(target.strip_prefix(fs::canonicalize(root)?).ok().map(Path::to_owned));
        }
    }
    for path in files.iter().filter(|path| is_library(path) && !used.contains(*path)) {
        fs::remove_file(root.join(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_cover_directories_and_prefixes_and_nothing_beside() {
        let rules = ["usr/share/doc".to_owned(), "usr/bin/ls*".to_owned()];
        assert!(is_excluded(Path::new("usr/share/doc/a"), &rules));
        assert!(!is_excluded(Path::new("usr/share/docs"), &rules));
        assert!(is_excluded(Path::new("usr/bin/lscpu"), &rules));
        assert_eq!(below_usr(Path::new("lib64/ld.so")), Path::new("usr/lib64/ld.so"));
        assert_eq!(below_usr(Path::new("library/a")), Path::new("library/a"));
    }
}
