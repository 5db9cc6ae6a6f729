//! GRUB images: for the ISO, the EFI system partition and the BIOS boot partition.

use super::{store, tools};
use crate::arch::Arch;
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeSet,
    fs, iter,
    path::{Path, PathBuf},
};

/// What every configuration here uses; a file system, a disk driver and a loader come with the platform.
const COMMON: [&str; 17] = [
    "normal",
    "configfile",
    "search",
    "search_label",
    "part_gpt",
    "part_msdos",
    "echo",
    "test",
    "true",
    "serial",
    "terminal",
    "boot",
    "regexp",
    "cat",
    "ls",
    "reboot",
    "halt",
];

#[derive(Clone, Copy)]
pub(super) enum Platform {
    Efi(Arch),
    BiosDisk,
    BiosCd,
}

impl Platform {
    fn format(self) -> &'static str {
        match self {
            Self::Efi(arch) => arch.grub_efi,
            Self::BiosDisk => "i386-pc",
            Self::BiosCd => "i386-pc-eltorito",
        }
    }

    /// Where the platform's modules are, also below GRUB's own directory on the boot file system.
    pub(super) fn modules_name(self) -> &'static str {
        match self {
            Self::Efi(arch) => arch.grub_efi,
            Self::BiosDisk | Self::BiosCd => "i386-pc",
        }
    }

    /// Those of this host, and of another processor in the unpacked package.
    fn modules_dir(self) -> Result<PathBuf> {
        let root = match self {
            Self::Efi(arch) if arch != Arch::X86_64 => store::packages(arch, "grub")?,
            _ => PathBuf::from("/"),
        };
        Ok(root.join("usr/lib/grub").join(self.modules_name()))
    }

    /// The platforms whose loaders an image for machines of `arch` has.
    pub(super) fn all(arch: Arch) -> Vec<Self> {
        let bios = arch.has_bios.then_some(Self::BiosDisk);
        iter::once(Self::Efi(arch)).chain(bios).collect()
    }
}

/// Makes GRUB write to the first serial port too; with UEFI only, UEFI's own console does.
fn terminal(arch: Arch) -> &'static str {
    if arch.has_bios {
        "serial --unit=0 --speed=115200\nterminal_input serial console\nterminal_output serial console"
    } else {
        "terminal_output console"
    }
}

/// A menu of the `grub` directory with each `@NAME@` replaced.
pub(super) fn menu(arch: Arch, name: &str, values: &[(&str, &str)]) -> Result<String> {
    let mut values = values.to_vec();
    values.push(("TERMINAL", terminal(arch)));
    template(name, &values)
}

/// A data file of the `grub` directory with each `@NAME@` replaced.
pub(super) fn template(name: &str, values: &[(&str, &str)]) -> Result<String> {
    let path = store::data_dir().join("grub").join(name);
    let mut text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    for (key, value) in values {
        text = text.replace(&format!("@{key}@"), value);
    }
    Ok(text)
}

/// Makes a GRUB image at `out` with `modules` beside the common ones; it starts with the script `early`.
pub(super) fn image(platform: Platform, prefix: &str, early: &str, modules: &[&str], out: &Path) -> Result<()> {
    let config = out.with_extension("early.cfg");
    fs::write(&config, early)?;
    let mut command = tools::tool("grub-mkimage");
    command
        .args(["-O", platform.format(), "-d"])
        .arg(platform.modules_dir()?)
        .args(["-p", prefix, "-c"])
        .arg(&config)
        .arg("-o")
        .arg(out)
        .args(COMMON)
        .args(modules);
    if !matches!(platform, Platform::Efi(_)) {
        command.arg("biosdisk");
    }
    tools::finish(command)?;
    Ok(())
}

/// Copies `module` and what it depends on below `dir`, for `insmod` at boot.
pub(super) fn copy_modules(platform: Platform, module: &str, dir: &Path) -> Result<()> {
    let from = platform.modules_dir()?;
    let list = fs::read_to_string(from.join("moddep.lst")).context("reading GRUB's moddep.lst")?;
    let mut open = vec![module.to_owned()];
    let mut done = BTreeSet::new();
    fs::create_dir_all(dir)?;
    while let Some(name) = open.pop() {
        if done.insert(name.clone()) {
            let file = format!("{name}.mod");
            fs::copy(from.join(&file), dir.join(&file)).with_context(|| format!("copying GRUB's {file}"))?;
            let line = list.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
            open.extend(line.into_iter().flat_map(str::split_whitespace).map(str::to_owned));
        }
    }
    Ok(())
}

/// The MBR boot code that makes an ISO bootable as a disk.
pub(super) fn hybrid_mbr() -> Result<PathBuf> {
    Ok(Platform::BiosCd.modules_dir()?.join("boot_hybrid.img"))
}

/// The two parts of a BIOS boot loader on a disk with a BIOS boot partition at sector `lba` (512-byte sectors): the first 440
/// bytes of the disk and the content of that partition.
pub(super) fn bios_disk(core: &Path, lba: u64) -> Result<([u8; 440], Vec<u8>)> {
    // GRUB 2.06 boot.S: the core's sector at 0x5c, and at 0x66 a jump for buggy floppies, which disks do without.
    let boot = fs::read(Platform::BiosDisk.modules_dir()?.join("boot.img")).context("reading GRUB's boot.img")?;
    let mut code: [u8; 440] = boot.get(..440).and_then(|code| code.try_into().ok()).context("boot.img is too short")?;
    code[0x5c..0x64].copy_from_slice(&lba.to_le_bytes());
    code[0x66..0x68].fill(0x90);
    // diskboot.S: a list of blocks at the end of the core's first sector: where the rest is, how long, which segment it goes to.
    let mut core = fs::read(core)?;
    ensure!(core.len() > 512, "GRUB's core is only {} bytes", core.len());
    let rest = u16::try_from(core.len().div_ceil(512) - 1).context("GRUB's core is too large")?;
    core[0x1f4..0x1fc].copy_from_slice(&(lba + 1).to_le_bytes());
    core[0x1fc..0x1fe].copy_from_slice(&rest.to_le_bytes());
    core[0x1fe..0x200].copy_from_slice(&0x820_u16.to_le_bytes());
    Ok((code, core))
}
