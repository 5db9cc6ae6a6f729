//! The smallest OS image that an installer can install and that boots: all it does is report its name and its config.

use super::{
    Drivers, Hardware, cpio,
    gpt::{self, Partition},
    grub::{self, Platform},
    kernel::Kernel,
    metal::{boot_files, copy_sparse, ext4},
    root, store, tools, tree,
};
use crate::arch::Arch;
use anyhow::Result;
use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

const MIB: u64 = 1 << 20;
const BOOT_BYTES: u64 = 24 * MIB;
const DATA_BYTES: u64 = 8 * MIB;
const HARDWARE: Hardware = Hardware { arch: Arch::X86_64, drivers: Drivers::Cloud };
const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic"];

/// A minimal system. Two of them have nothing in the same place.
#[derive(Clone, Copy, Debug)]
pub struct Minimal {
    /// Its name, also of its partition of noise: what it reports when it boots.
    pub name: &'static str,
    /// How far its partitions are moved back.
    pub shift_mib: u64,
}

impl Minimal {
    /// First byte and length of the boot file system, which an installer changes.
    pub fn boot(&self) -> (u64, u64) {
        ((2 + self.shift_mib) * MIB, BOOT_BYTES)
    }

    fn partitions(&self) -> [Partition; 3] {
        let (start, len) = self.boot();
        let part = |name, kind, start, len| Partition { name, kind, start, len };
        [
            part("BIOS-BOOT", 0x2168_6148_6449_6e6f_744e_6565_6445_4649, MIB, MIB),
            part("boot", 0xbc13_c2ff_59e6_4262_a352_b275_fd6f_7172, start, len),
            part(self.name, 0x4f68_bce3_e8cd_4db1_96e7_fbca_f984_b709, start + len, DATA_BYTES),
        ]
    }
}

/// The raw image of a minimal system for BIOS, built unless one of the same inputs exists. On the first serial port it says
/// `@@ system name=NAME config=SHA256`, of the Ignition config that was installed for it, and powers off.
pub fn minimal_image(minimal: &Minimal) -> Result<PathBuf> {
    let mut inputs = root::inputs(HARDWARE)?;
    inputs.text("minimal", &format!("{minimal:?}"));
    store::cached(&format!("minimal-{}", minimal.name), "raw", &inputs, |scratch, result| {
        build(minimal, scratch, result)
    })
}

fn build(minimal: &Minimal, scratch: &Path, result: &Path) -> Result<()> {
    let [bios, boot, data] = minimal.partitions();
    let disk_len = data.start + data.len + MIB;
    let disk = File::options().read(true).write(true).create_new(true).open(result)?;
    disk.set_len(disk_len)?;

    let boot_tree = scratch.join("boot");
    boot_files(HARDWARE.arch, &boot_tree, &initramfs(minimal, scratch)?, &Kernel::open(HARDWARE)?)?;
    let boot_image = scratch.join("boot.ext4");
    ext4(&boot_tree, &boot_image, boot.len, "boot", "5d2c1a52-0a4e-4c63-9a0d-7d3f3a1f6b21")?;
    copy_sparse(&boot_image, &disk, boot.start)?;

    // Noise, so that a misplaced block is detected.
    let mut noise = vec![0; usize::try_from(data.len)?];
    fastrand::Rng::with_seed(u64::from(crc32fast::hash(minimal.name.as_bytes()))).fill(&mut noise);
    disk.write_all_at(&noise, data.start)?;

    let core = scratch.join("core.img");
    grub::image(Platform::BiosDisk, "/grub2", &grub::template("metal-early.cfg", &[])?, &["ext2"], &core)?;
    let (code, core) = grub::bios_disk(&core, bios.start / 512)?;
    disk.write_all_at(&code, 0)?;
    disk.write_all_at(&core, bios.start)?;
    gpt::write(&disk, disk_len, 512, &[bios, boot, data])
}

fn initramfs(minimal: &Minimal, scratch: &Path) -> Result<PathBuf> {
    let tree = scratch.join("initramfs");
    root::skeleton(&tree)?;
    root::install_busybox(HARDWARE.arch, &tree)?;
    Kernel::open(HARDWARE)?.install_modules(&MODULES.map(str::to_owned), &tree)?;
    tree::overlay(&store::data_dir().join("minimal"), &tree)?;
    tree::write(&tree.join("etc/system"), minimal.name, 0o644)?;
    let mut archive = cpio::Archive::default();
    archive.tree(&tree)?;
    archive.device("dev/console", 5, 1)?;
    let file = scratch.join("initramfs.img");
    let mut gzip = tools::tool("gzip");
    gzip.args(["-6", "-n", "-c"]).stdout(File::create(&file)?);
    tools::feed(gzip, &archive.finish()?)?;
    Ok(file)
}
