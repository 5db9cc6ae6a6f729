//! A machine that encrypts its disk and unlocks it: the live system of real parts in one archive, with the real Ignition, cryptsetup and
//! clevis. systemd is its first process, because Ignition waits for devices by asking it.

use super::{Drivers, Hardware, cpio, dracut, initramfs, kernel::Kernel, root, store, tools, tree};
use anyhow::{Context, Result};
use std::{fs, path::PathBuf};

const PACKAGES: &str = "encryption";
/// What a device's cipher and its file system are made of; the rest is in the kernel or in the common root.
const MODULES: [&str; 6] = ["dm-crypt", "essiv", "aesni-intel", "xts", "xfs", "virtio_console"];
/// What Ignition's module for dracut has an initramfs contain for encrypted devices, and where.
const SETTINGS: [(&str, &str); 2] = [
    ("99-xx-ignition-systemd-cryptsetup.rules", "usr/lib/udev/rules.d"),
    ("ignition-luks.conf", "etc/security/pwquality.conf.d"),
];
const RELABEL: &str = "usr/sbin/setfiles";

/// Kernel and initramfs, with a shell for [`crate::vm::Vm::shell`]. Built unless one of the same inputs exists.
pub fn encryption_system() -> Result<(PathBuf, PathBuf)> {
    let hardware = Hardware::from(Drivers::Cloud);
    let (arch, base, kernel) = (hardware.arch, dracut::base(hardware)?, Kernel::open(hardware)?);
    let mut inputs = dracut::inputs(hardware)?;
    inputs.packages(arch, PACKAGES)?;
    // Not compressed: under emulation that takes longer than loading it.
    let archive = store::cached(&arch.build_name("encryption"), "cpio", &inputs, |scratch, result| {
        let tree = scratch.join("tree");
        tree::overlay(&base, &tree)?;
        root::install_packages(&store::packages(arch, PACKAGES)?, &root::excluded(arch, "dracut.exclude")?, &tree)?;
        let ignition = initramfs::ignition(arch)?;
        tree::place(&ignition, &tree.join("usr/bin/ignition"))?;
        for (name, directory) in SETTINGS {
            tree::place(&ignition.with_file_name(name), &tree.join(directory).join(name))?;
        }
        tree::place(&store::data_dir().join("initramfs").join(RELABEL), &tree.join(RELABEL))?;
        fs::create_dir_all(tree.join("usr/lib/ignition"))?;
        kernel.install_modules(&MODULES.map(str::to_owned), &tree)?;
        tools::run("ldconfig", ["-X".as_ref(), "-r".as_ref(), tree.as_os_str()])?;
        tree::link("usr/lib/systemd/systemd", &tree.join("init"))?;
        let mut archive = cpio::Archive::default();
        archive.tree(&tree)?;
        archive.device("dev/console", 5, 1)?;
        fs::write(result, archive.finish()?).with_context(|| format!("writing {}", result.display()))
    })?;
    Ok((kernel.image, archive))
}
