//! The installed machine's disk image: CoreOS partitions, boot loader entry and first-boot stamp.

use super::{
    Hardware, fat,
    gpt::{self, Partition},
    grub::{self, Platform},
    initramfs::initramfs,
    iso::fallback_loader,
    kernel::Kernel,
    root, store, tools, tree,
};
use crate::arch::Arch;
use anyhow::{Context, Result};
use std::{
    fmt::Write,
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

const MIB: u64 = 1 << 20;

/// The logical sector size an image is made for; it can't boot on disks of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectorSize {
    /// 512 bytes; boots with BIOS and UEFI.
    B512,
    /// 4096 bytes (4Kn); boots with UEFI only.
    B4096,
}

impl SectorSize {
    pub fn bytes(self) -> u64 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }
}

/// How an image is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As on the disk, sparse.
    Raw,
    /// gzip, the `.gz` of image mirrors.
    Gzip,
    /// Zstandard.
    Zstd,
    /// xz, what CoreOS publishes.
    Xz,
}

impl Compression {
    fn extension(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Gzip => "raw.gz",
            Self::Zstd => "raw.zst",
            Self::Xz => "raw.xz",
        }
    }

    /// The program that packs stdin to stdout.
    fn program(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Raw => None,
            Self::Gzip => Some(("gzip", &["-6", "-n", "-c"])),
            Self::Zstd => Some(("zstd", &["-q", "-9", "-T0", "-c"])),
            Self::Xz => Some(("xz", &["-2", "-T0", "-c"])),
        }
    }
}

/// The metal image, built unless one of the same inputs exists.
pub fn metal_image(sector: SectorSize, compression: Compression, hardware: impl Into<Hardware>) -> Result<PathBuf> {
    let hardware = hardware.into();
    let inputs = root::inputs(hardware)?;
    let name = hardware.arch.build_name(match sector {
        SectorSize::B512 => "metal",
        SectorSize::B4096 => "metal4k",
    });
    let (base, initramfs) = (root::base(hardware)?, initramfs(hardware)?);
    let raw = store::cached(&name, Compression::Raw.extension(), &inputs, |scratch, result| {
        let kernel = Kernel::open(hardware)?;
        build(hardware.arch, sector, &base, &initramfs, &kernel, scratch, result)
    })?;
    let Some((program, args)) = compression.program() else { return Ok(raw) };
    store::cached(&name, compression.extension(), &inputs, |_, result| {
        let mut command = tools::tool(program);
        command.args(args).stdin(File::open(&raw)?).stdout(File::create(result)?);
        let status = command.status().with_context(|| format!("starting {program}"))?;
        anyhow::ensure!(status.success(), "{program} failed ({status})");
        Ok(())
    })
}

/// The layout of CoreOS images with the sizes cut down; installers rely on numbers, names and types.
fn partitions(arch: Arch, sector: SectorSize) -> [Partition; 4] {
    // The 4Kn image's FAT needs more room: its clusters are eight times as large, and firmware counts them to tell FAT12 from FAT16.
    let esp = if sector == SectorSize::B512 { 16 } else { 32 };
    let part = |name, kind, start, len| Partition { name, kind, start: start * MIB, len: len * MIB };
    // Without BIOS, a placeholder preserves the others' numbers.
    let (first, kind) = if arch.has_bios {
        ("BIOS-BOOT", 0x2168_6148_6449_6e6f_744e_6565_6445_4649)
    } else {
        ("reserved", 0x8da6_3339_0007_60c0_c436_083a_c823_0908)
    };
    [
        part(first, kind, 1, 1),
        part("EFI-SYSTEM", 0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b, 2, esp),
        part("boot", 0xbc13_c2ff_59e6_4262_a352_b275_fd6f_7172, 2 + esp, 64),
        part("root", 0x4f68_bce3_e8cd_4db1_96e7_fbca_f984_b709, 66 + esp, 160),
    ]
}

fn build(
    arch: Arch,
    sector: SectorSize,
    base: &Path,
    initramfs: &Path,
    kernel: &Kernel,
    scratch: &Path,
    result: &Path,
) -> Result<()> {
    let [bios, esp, boot, root] = partitions(arch, sector);
    let disk_len = root.start + root.len + MIB;
    let disk = File::options().read(true).write(true).create_new(true).open(result)?;
    disk.set_len(disk_len)?;

    let early = grub::template("metal-early.cfg", &[])?;
    let efi = scratch.join("grub.efi");
    grub::image(Platform::Efi(arch), "/grub2", &early, &["ext2", "fat"], &efi)?;
    let esp_image = scratch.join("esp");
    // Without Secure Boot the name of the shim is enough; boot entries point there.
    let named = |name| format!("EFI/redhat/{name}{}.efi", arch.efi_suffix);
    let [fallback, shim, grub] = [fallback_loader(arch), named("shim"), named("grub")];
    let files: [(&str, &Path); 3] = [(&fallback, &efi), (&shim, &efi), (&grub, &efi)];
    fat::image(&esp_image, esp.len, sector.bytes(), "EFI-SYSTEM", &files)?;
    copy_sparse(&esp_image, &disk, esp.start)?;

    let boot_tree = scratch.join("boot");
    boot_files(arch, &boot_tree, initramfs, kernel)?;
    let boot_image = scratch.join("boot.ext4");
    ext4(&boot_tree, &boot_image, boot.len, "boot", "96d15588-3596-4b3c-adca-a2ff7279ea63")?;
    copy_sparse(&boot_image, &disk, boot.start)?;

    let root_tree = scratch.join("root");
    tree::overlay(base, &root_tree)?;
    tree::overlay(&store::data_dir().join("root-metal"), &root_tree)?;
    fs::create_dir_all(root_tree.join("boot"))?;
    let root_image = scratch.join("root.ext4");
    ext4(&root_tree, &root_image, root.len, "root", "910678ff-f77e-4a7d-8d53-86f2ac47a823")?;
    copy_sparse(&root_image, &disk, root.start)?;

    if arch.has_bios && sector == SectorSize::B512 {
        let core = scratch.join("core.img");
        grub::image(Platform::BiosDisk, "/grub2", &early, &["ext2"], &core)?;
        let (code, core) = grub::bios_disk(&core, bios.start / sector.bytes())?;
        disk.write_all_at(&code, 0)?;
        disk.write_all_at(&core, bios.start)?;
    }
    gpt::write(&disk, disk_len, sector.bytes(), &[bios, esp, boot, root])
}

pub(super) fn boot_files(arch: Arch, tree: &Path, initramfs: &Path, kernel: &Kernel) -> Result<()> {
    let release = kernel.release.as_str();
    let os = tree.join("ostree/landfall-test");
    tree::place(&kernel.image, &os.join(format!("vmlinuz-{release}")))?;
    tree::place(initramfs, &os.join(format!("initramfs-{release}.img")))?;
    let entry = grub::template("entry.conf", &[("RELEASE", release), ("KARGS", arch.kernel_arguments)])?;
    tree::write(&tree.join("loader/entries/ostree-1.conf"), entry, 0o644)?;
    tree::write(&tree.join("grub2/grub.cfg"), grub::menu(arch, "metal.cfg", &[])?, 0o644)?;
    for platform in Platform::all(arch) {
        grub::copy_modules(platform, "linux", &tree.join("grub2").join(platform.modules_name()))?;
    }
    tree::write(&tree.join("ignition.firstboot"), "", 0o644)?;
    tree::write(&tree.join("coreos/platforms.json"), r#"{"metal":{"grub_commands":[],"kernel_arguments":[]}}"#, 0o644)?;
    // Entries may name their files from the root of the system, where this file system is /boot.
    tree::link(".", &tree.join("boot"))
}

/// Makes an ext4 of `len` bytes at `image` from `tree`, all of it owned by root. Blocks are of 4096 bytes, so
/// that it serves disks of either sector size.
pub(super) fn ext4(tree: &Path, image: &Path, len: u64, label: &str, uuid: &str) -> Result<()> {
    File::create(image)?.set_len(len)?;
    let mut mke2fs = tools::tool("mke2fs");
    mke2fs.args([
        "-q",
        "-F",
        "-t",
        "ext4",
        "-b",
        "4096",
        "-L",
        label,
        "-U",
        uuid,
        "-m",
        "0",
        "-E",
        "root_owner=0:0",
        "-d",
    ]);
    mke2fs.arg(tree).arg(image);
    tools::finish(mke2fs)?;
    let mut script = String::new();
    for path in tree::walk(tree)? {
        for field in ["uid", "gid"] {
            writeln!(script, "sif \"/{}\" {field} 0", path.display())?;
        }
    }
    let mut debugfs = tools::tool("debugfs");
    debugfs
        .args(["-w", "-f", "/dev/stdin"])
        .arg(image)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    tools::feed(debugfs, script.as_bytes())
}

/// Copies `from` onto `disk` at `start`, leaving holes where it is zero.
pub(super) fn copy_sparse(from: &Path, disk: &File, start: u64) -> Result<()> {
    let mut file = File::open(from)?;
    let mut at = start;
    let mut block = vec![0; 64 * 1024];
    loop {
        let len = file.read(&mut block)?;
        if len == 0 {
            return Ok(());
        }
        if block[..len].iter().any(|byte| *byte != 0) {
            disk.write_all_at(&block[..len], at).with_context(|| format!("writing at byte {at} of the disk image"))?;
        }
        at += u64::try_from(len)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Drivers;

    fn debugfs(image: &Path, partition: &Partition, request: &str) -> String {
        let at = format!("{}?offset={}", image.display(), partition.start);
        tools::run("debugfs", ["-R", request, &at]).unwrap()
    }

    #[test]
    fn installers_find_what_they_look_for() {
        if let Err(reason) = store::packages(Arch::default(), "root") {
            return testkit::skip::because(format_args!("{reason:#}"));
        }
        for sector in [SectorSize::B512, SectorSize::B4096] {
            let image = metal_image(sector, Compression::Raw, Drivers::Cloud).unwrap();
            let disk = File::open(&image).unwrap();
            let mut signature = [0; 8];
            disk.read_exact_at(&mut signature, sector.bytes()).unwrap();
            assert_eq!(&signature, b"EFI PART");
            disk.read_exact_at(&mut signature, disk.metadata().unwrap().len() - sector.bytes()).unwrap();
            assert_eq!(&signature, b"EFI PART");

            let [_, esp, boot, root] = partitions(Arch::default(), sector);
            let entry = debugfs(&image, &boot, "cat /loader/entries/ostree-1.conf");
            let options: Vec<&str> = entry.lines().filter(|line| line.starts_with("options ")).collect();
            assert!(options.len() == 1 && options[0].contains(" $ignition_firstboot "), "{entry}");
            assert!(options[0].contains(" ignition.platform.id=metal"), "{entry}");
            assert!(debugfs(&image, &boot, "stat /ignition.firstboot").contains("Size: 0"));
            assert!(debugfs(&image, &boot, "stats").contains("Filesystem volume name:   boot"));
            assert!(debugfs(&image, &root, "stats").contains("Filesystem volume name:   root"));
            let shadow = debugfs(&image, &root, "stat /etc/shadow");
            assert!(shadow.contains("Mode:  0600") && shadow.contains("User:     0   Group:     0"), "{shadow}");
            let mut fat = [0; 2];
            disk.read_exact_at(&mut fat, esp.start + 11).unwrap();
            assert_eq!(u64::from(u16::from_le_bytes(fat)), sector.bytes());
        }
    }
}
