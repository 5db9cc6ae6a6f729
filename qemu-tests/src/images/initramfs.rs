//! The initramfs both kinds of machine boot: a busybox init that runs the real Ignition on the first boot.

use super::{Hardware, kernel::Kernel, root, store, tools, tree};
use crate::arch::Arch;
use anyhow::{Result, bail};
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// What Ignition starts to make users and groups.
const PROGRAMS: [&str; 5] = ["useradd", "usermod", "userdel", "groupadd", "groupdel"];

/// The initramfs, zstd.
pub(super) fn initramfs(hardware: Hardware) -> Result<PathBuf> {
    let (arch, base) = (hardware.arch, root::base(hardware)?);
    store::cached(&arch.build_name("initramfs"), "img", &root::inputs(hardware)?, |scratch, result| {
        let tree = scratch.join("tree");
        root::skeleton(&tree)?;
        for program in PROGRAMS {
            let path = Path::new("usr/sbin").join(program);
            tree::place(&base.join(&path), &tree.join(&path))?;
        }
        let ignition = ignition(arch)?;
        tree::place(&ignition, &tree.join("usr/bin/ignition"))?;
        let mut programs: Vec<PathBuf> = PROGRAMS.iter().map(|name| Path::new("usr/sbin").join(name)).collect();
        // An absolute path stays itself when joined to the base: Ignition isn't part of it.
        programs.push(ignition);
        root::install_libraries(arch, &base, &tree, programs)?;
        root::install_busybox(arch, &tree)?;
        let modules = tree::list(&store::data_dir().join("initramfs.modules"))?;
        Kernel::open(hardware)?.install_modules(&modules, &tree)?;
        tree::overlay(&store::data_dir().join("initramfs"), &tree)?;

        let mut archive = super::cpio::Archive::default();
        archive.tree(&tree)?;
        archive.device("dev/console", 5, 1)?;
        let mut zstd = tools::tool("zstd");
        zstd.args(["-q", "-12", "-T0", "-c"]).stdout(File::create(result)?);
        tools::feed(zstd, &archive.finish()?)
    })
}

pub(super) fn ignition(arch: Arch) -> Result<PathBuf> {
    let package = store::packages(arch, "ignition")?;
    for dir in ["usr/lib/dracut/modules.d/30ignition", "usr/bin", "usr/libexec"] {
        let path = package.join(dir).join("ignition");
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!("{} contains no program named ignition", package.display())
}
