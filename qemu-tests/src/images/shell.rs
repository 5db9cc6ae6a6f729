//! A small live system in one archive, for machines that are inspected from outside: udev, every driver they need, and a
//! shell controlled by tests (see [`crate::shell`]).

use super::{Drivers, Hardware, cpio, elf, kernel::Kernel, root, store, tools, tree};
use crate::arch::Arch;
use anyhow::{Context, Result};
use std::{
    fs, iter,
    path::{Path, PathBuf},
};

/// What udev is made of, in the common root; directories whole.
const UDEV: [&str; 6] =
    ["usr/bin/udevadm", "usr/lib/systemd/systemd-udevd", "usr/lib/udev", "etc/udev", "etc/passwd", "etc/group"];

/// Files of the sets of packages in the directory of packages, libraries aside.
struct Packages {
    sets: &'static [&'static str],
    /// Programs, and libraries that a program looks for by itself.
    programs: &'static [&'static str],
    data: &'static [&'static str],
}

/// What builds stacks of devices on disks, and what names arrays and mapped devices. Nothing here assembles or opens any by itself.
const STORAGE: Packages = Packages {
    sets: &["storage", "volumes"],
    programs: &[
        "usr/sbin/mdadm",
        "usr/sbin/lvm",
        "usr/sbin/dmsetup",
        "usr/sbin/cryptsetup",
        "usr/sbin/mke2fs",
        "usr/sbin/mkfs.ext4",
    ],
    data: &[
        "usr/lib/udev/rules.d/63-md-raid-arrays.rules",
        "usr/lib/udev/rules.d/55-dm.rules",
        "usr/lib/udev/rules.d/60-persistent-storage-dm.rules",
        "usr/lib/udev/rules.d/95-dm-notify.rules",
    ],
};

/// What tells of hardware.
const HARDWARE: Packages = Packages {
    sets: &["hardware"],
    programs: &[
        "usr/bin/ipmitool",
        "usr/bin/lshw",
        "usr/bin/lspci",
        "usr/bin/lsusb",
        "usr/bin/sg_inq",
        "usr/bin/sg_logs",
        "usr/bin/sg_readcap",
        "usr/bin/sg_vpd",
        "usr/bin/tpm2",
        "usr/bin/tpm2_getcap",
        "usr/bin/tpm2_pcrread",
        "usr/lib/x86_64-linux-gnu/libtss2-tcti-device.so.0",
        "usr/sbin/dmidecode",
        "usr/sbin/ethtool",
        "usr/sbin/nvme",
        "usr/sbin/smartctl",
    ],
    data: &["usr/share/misc/pci.ids"],
};

/// What a machine has besides `landfall`, udev and busybox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra<'a> {
    /// The host's own programs of these names.
    HostTools(&'a [&'a str]),
    /// mdadm, lvm, dmsetup, cryptsetup and mkfs.ext4.
    Storage,
    /// What tells of hardware: `ipmitool`, `lshw`, `lspci`, `lsusb`, `sg_inq` and the like, `tpm2_getcap`, `dmidecode`, `ethtool`, `nvme`,
    /// `smartctl`.
    Hardware,
}

impl Extra<'_> {
    fn packages(self) -> Option<&'static Packages> {
        match self {
            Self::HostTools(_) => None,
            Self::Storage => Some(&STORAGE),
            Self::Hardware => Some(&HARDWARE),
        }
    }
}

/// Kernel and initramfs, with `program` inside as `/usr/bin/landfall`. Built unless one of the same inputs exists.
pub fn shell_system(hardware: impl Into<Hardware>, program: &Path, extra: Extra<'_>) -> Result<(PathBuf, PathBuf)> {
    let hardware = hardware.into();
    let Hardware { arch, drivers } = hardware;
    let kernel = Kernel::open(hardware)?;
    let common = Drivers::Cloud.of(arch);
    let base = root::base(common)?;
    let mut inputs = root::inputs(common)?;
    inputs.packages(arch, drivers.package())?;
    inputs.file(program)?;
    let names: &[&str] = if let Extra::HostTools(names) = extra { names } else { &[] };
    if let Some(packages) = extra.packages() {
        packages.sets.iter().try_for_each(|set| inputs.packages(arch, set))?;
        inputs.text("programs", &[packages.programs, packages.data].concat().join(" "));
    }
    let tools = names.iter().map(|name| HostTool::find(name)).collect::<Result<Vec<_>>>()?;
    for file in tools.iter().flat_map(|tool| iter::once(&tool.file).chain(&tool.libraries)) {
        inputs.text("tool", &file.to_string_lossy());
        inputs.file(file)?;
    }
    // Not compressed: under emulation that takes longer than loading it.
    let name = arch.build_name(&format!("shell-{}", drivers.package()));
    let archive = store::cached(&name, "cpio", &inputs, |scratch, result| {
        let tree = scratch.join("tree");
        root::skeleton(&tree)?;
        for path in UDEV {
            let (from, to) = (base.join(path), tree.join(path));
            if from.is_dir() { tree::overlay(&from, &to)? } else { tree::place(&from, &to)? }
        }
        let programs: Vec<PathBuf> = tree::walk(&tree)?
            .into_iter()
            // What an absolute link leads to is a file of this host.
            .filter(|path| !tree.join(path).is_symlink() && elf::is_elf(&tree.join(path)))
            .collect();
        root::install_libraries(arch, &base, &tree, programs)?;
        tools.iter().try_for_each(|tool| tool.install(&tree))?;
        if let Some(packages) = extra.packages() {
            packages.install(arch, &scratch.join("packages"), &tree)?;
        }
        root::install_busybox(arch, &tree)?;
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

impl Packages {
    /// Their libraries are those of the release that the rest of the tree is of.
    fn install(&self, arch: Arch, base: &Path, tree: &Path) -> Result<()> {
        root::skeleton(base)?;
        for set in self.sets {
            let package = store::packages(arch, set)?;
            for entry in tree::walk(&package)? {
                let path = root::below_usr(&entry);
                if path.starts_with("usr") && !package.join(&entry).is_dir() {
                    tree::place(&package.join(&entry), &base.join(&path))?;
                }
            }
        }
        for path in self.programs.iter().chain(self.data) {
            // What a link leads to need not be in the list.
            let file = base.join(path).canonicalize().with_context(|| format!("following {path}"))?;
            tree::place(&file, &tree.join(path))?;
        }
        root::install_libraries(arch, base, tree, self.programs.iter().map(PathBuf::from).collect())
    }
}

/// Where a guest has the host's tools and their libraries, which are not those of its own programs.
const TOOLS: &str = "usr/lib/host-tools";

/// A program of this host.
struct HostTool {
    file: PathBuf,
    /// The loader last.
    libraries: Vec<PathBuf>,
}

impl HostTool {
    fn find(name: &str) -> Result<Self> {
        let file = PathBuf::from(tools::run("sh", ["-c", &format!("command -v {name}")])?.trim_end());
        let listed = tools::run("ldd", [&file])?;
        Ok(Self { libraries: libraries(&listed), file })
    }

    /// Started by their own loader with their own libraries, whatever libraries the guest has.
    fn install(&self, root: &Path) -> Result<()> {
        let loader = self.libraries.last().with_context(|| format!("{} has no loader", self.file.display()))?;
        let [name, loader] = [&self.file, loader].map(|path| file_name(path));
        for path in iter::once(&self.file).chain(&self.libraries) {
            let real = path.canonicalize().with_context(|| format!("following {}", path.display()))?;
            tree::place(&real, &root.join(TOOLS).join(file_name(path)))?;
        }
        let start = format!("#!/bin/sh\nexec /{TOOLS}/{loader} --library-path /{TOOLS} /{TOOLS}/{name} \"$@\"\n");
        tree::write(&root.join("usr/sbin").join(name), start, 0o755)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files in what `ldd` says; the loader, alone on its line, last.
fn libraries(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let place = line.split_once("=>").map_or(line, |(_, place)| place);
        place.split_whitespace().next().filter(|path| path.starts_with('/')).map(PathBuf::from)
    };
    let (found, loader): (Vec<&str>, Vec<&str>) = listed.lines().partition(|line| line.contains("=>"));
    found.into_iter().chain(loader).filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_is_the_last_library() {
        let listed =
            "\tlinux-vdso.so.1 (0x1)\n\t/lib64/ld-linux-x86-64.so.2 (0x2)\n\tlibc.so.6 => /lib/libc.so.6 (0x3)\n";
        assert_eq!(libraries(listed), [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]);
    }
}
