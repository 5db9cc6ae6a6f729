//! A small live system in one archive, for machines that are looked at from outside: udev, every driver they need, and a shell
//! that tests type into (see [`crate::shell`]).

use super::{cpio, elf, kernel::Kernel, root, store, tree};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What udev is made of, in the common root; directories whole.
const UDEV: [&str; 6] =
    ["usr/bin/udevadm", "usr/lib/systemd/systemd-udevd", "usr/lib/udev", "etc/udev", "etc/passwd", "etc/group"];

/// Which hardware a kernel has drivers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// Virtio and little else; starts fast.
    Cloud,
    /// All.
    Full,
}

impl Drivers {
    fn package(self) -> &'static str {
        match self {
            Self::Cloud => "cloud",
            Self::Full => "full",
        }
    }
}

/// Kernel and initramfs, with `program` inside as `/usr/bin/landfall`. Built unless there is one of the same inputs.
pub fn shell_system(drivers: Drivers, program: &Path) -> Result<(PathBuf, PathBuf)> {
    let kernel = Kernel::open(drivers.package())?;
    let base = root::base()?;
    let mut inputs = root::inputs()?;
    inputs.packages(drivers.package())?;
    inputs.file(program)?;
    // Not compressed: under emulation that takes longer than loading it.
    let archive = store::cached(&format!("shell-{}", drivers.package()), "cpio", &inputs, |scratch, result| {
        let tree = scratch.join("tree");
        root::skeleton(&tree)?;
        for path in UDEV {
            let (from, to) = (base.join(path), tree.join(path));
            if from.is_dir() { tree::overlay(&from, &to)? } else { tree::place(&from, &to)? }
        }
        let programs: Vec<PathBuf> = tree::walk(&tree)?
            .into_iter()
            .filter(|path| tree.join(path).is_file() && elf::is_elf(&tree.join(path)))
            .collect();
        root::install_libraries(&base, &tree, programs)?;
        root::install_busybox(&tree)?;
        kernel.install_modules(&tree::list(&store::data_dir().join("shell.modules"))?, &tree)?;
        tree::overlay(&store::data_dir().join("shell"), &tree)?;
        tree::place(program, &tree.join("usr/bin/landfall"))?;

        let mut archive = cpio::Archive::default();
        archive.tree(&tree)?;
        archive.device("dev/console", 5, 1)?;
        fs::write(result, archive.finish()?).with_context(|| format!("writing {}", result.display()))
    })?;
    Ok((kernel.image, archive))
}
