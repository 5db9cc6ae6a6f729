//! The root file system both kinds of machine run: systemd, udev and busybox, as Debian packages them, without what no
//! test needs.

use super::{
    Hardware, elf,
    kernel::Kernel,
    store::{self, Inputs},
    tools, tree,
};
use crate::arch::Arch;
use anyhow::{Context, Result};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// What every image depends on: the packages and the builders themselves.
pub(super) fn inputs(hardware: Hardware) -> Result<Inputs> {
    let mut inputs = Inputs::new()?;
    inputs.text("processor", hardware.arch.name);
    inputs.packages(hardware.arch, "root")?;
    inputs.packages(hardware.arch, "ignition")?;
    inputs.text("kernel", &Kernel::open(hardware)?.release);
    inputs.file(&busybox(hardware.arch)?)?;
    inputs.text("loader", &tools::run("grub-mkimage", ["--version"])?);
    Ok(inputs)
}

/// A static busybox, the host's own if it fits: shell and small tools of every image.
pub(super) fn busybox(arch: Arch) -> Result<PathBuf> {
    let root = if arch == Arch::X86_64 { PathBuf::from("/") } else { store::packages(arch, "busybox")? };
    let paths = ["usr/bin/busybox", "bin/busybox"].map(|path| root.join(path));
    paths.into_iter().find(|path| path.exists()).context("no /bin/busybox: install busybox-static")
}

/// What a program of a processor says when it is run with `arguments`.
fn output_of(arch: Arch, program: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = tools::tool(arch.emulator);
    if arch.is_host() {
        command = tools::tool(&program.to_string_lossy());
    } else {
        command.arg(program);
    }
    command.args(arguments);
    tools::finish(command)
}

/// Installs busybox and a link for each of its applets that `root` has no own program for.
pub(super) fn install_busybox(arch: Arch, root: &Path) -> Result<()> {
    let busybox = busybox(arch)?;
    fs::create_dir_all(root.join("usr/bin"))?;
    fs::copy(&busybox, root.join("usr/bin/busybox")).context("copying busybox")?;
    for applet in output_of(arch, &busybox, &["--list"])?.lines() {
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
pub(super) fn install_libraries(arch: Arch, base: &Path, tree: &Path, programs: Vec<PathBuf>) -> Result<()> {
    for library in elf::closure(base, &library_dirs(base)?, programs)? {
        let file = base.join(&library).canonicalize().with_context(|| format!("following {}", library.display()))?;
        tree::place(&file, &tree.join(&library))?;
    }
    // A link to one of the libraries just placed.
    tree::place(&base.join(arch.loader), &tree.join(arch.loader))
}

/// The root common to live and installed machines; a directory.
pub(super) fn base(hardware: Hardware) -> Result<PathBuf> {
    let arch = hardware.arch;
    store::cached(&arch.build_name("root"), "d", &inputs(hardware)?, |_, root| {
        skeleton(root)?;
        install_packages(&store::packages(arch, "root")?, &excluded(arch, "root.exclude")?, root)?;
        drop_unused_libraries(root)?;
        install_busybox(arch, root)?;
        let modules = tree::list(&store::data_dir().join("root.modules"))?;
        Kernel::open(hardware)?.install_modules(&modules, root)?;
        tree::overlay(&store::data_dir().join("root"), root)?;
        // Git stores no modes but "executable".
        for secret in ["etc/shadow", "etc/gshadow"] {
            fs::set_permissions(root.join(secret), PermissionsExt::from_mode(0o600))?;
        }
        fs::set_permissions(root.join("tmp"), PermissionsExt::from_mode(0o1777))?;
        Ok(())
    })
}

/// A list of what images leave out of the packages, whose libraries' directory is called LIBRARIES there.
pub(super) fn excluded(arch: Arch, list: &str) -> Result<Vec<String>> {
    let rules = tree::list(&store::data_dir().join(list))?;
    Ok(rules.iter().map(|rule| rule.replace("LIBRARIES", arch.library_dir)).collect())
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

/// An excluded path covers all below it; one ending in `*` all paths with that prefix.
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
    // A link may be absolute, and lead to the host's file of that name.
    let is_program = |path: &Path| !is_library(path) && !root.join(path).is_symlink() && elf::is_elf(&root.join(path));
    let programs = files.iter().filter(|path| is_program(path)).cloned().collect();
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
