//! The live ISO: CoreOS layout, UEFI and, where it exists, BIOS, from a drive or written to a disk.

use super::{
    Drivers, Hardware, cpio, dracut, fat,
    grub::{self, Platform},
    initramfs::initramfs,
    kernel::Kernel,
    root, store, tools, tree,
};
use crate::arch::Arch;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Bytes of the area for the kernel arguments in each GRUB configuration: the most installers accept.
const KARGS_AREA: usize = 2048;
/// Bytes of the area for an Ignition configuration.
const EMBED_AREA: u64 = 256 * 1024;
/// Bytes of the file that the description of the minimal ISO is packed into.
const MINISO_AREA: u64 = 1 << 20;
/// GRUB's configuration for UEFI and for BIOS. Image tools look for `EFI/redhat`, `EFI/fedora`, `EFI/centos` and `boot/grub`.
const EFI_DIR: &str = "EFI/redhat";
const BIOS_DIR: &str = "boot/grub";

/// What the live system is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum System {
    /// systemd with networkd, and an initramfs of busybox: a minimum, for tests of other things.
    #[default]
    Busybox,
    /// systemd with NetworkManager, chrony, a bus and logins, and dracut's initramfs: as distributions have it.
    Dracut,
}

/// What goes into a live ISO.
#[derive(Debug, Clone)]
pub struct LiveIso {
    /// Directories laid over the root file system, in this order. None is fine: the ISO boots to a bare systemd.
    pub overlays: Vec<PathBuf>,
    /// Single files for the root file system: path in it (`usr/bin/landfall`), source. Their modes stay.
    pub files: Vec<(String, PathBuf)>,
    /// The ISO's volume id, by which the running initramfs finds it; at most 32 characters.
    pub volume_id: String,
    /// Kernel arguments after those the live boot itself needs.
    pub kargs: String,
    /// What it can boot on.
    pub hardware: Hardware,
    /// What it is made of.
    pub system: System,
    /// Whether the root file system is inside, and space for the description of an ISO without it (`coreos/miniso.dat`).
    pub with_rootfs: bool,
}

impl Default for LiveIso {
    fn default() -> Self {
        Self {
            overlays: Vec::new(),
            files: Vec::new(),
            volume_id: "landfall-live".to_owned(),
            kargs: Arch::default().kernel_arguments.to_owned(),
            hardware: Drivers::Cloud.into(),
            system: System::default(),
            with_rootfs: true,
        }
    }
}

impl LiveIso {
    fn default_kargs(&self) -> String {
        format!("coreos.liveiso={} ignition.firstboot ignition.platform.id=metal {}", self.volume_id, self.kargs)
    }
}

/// The ISO of `spec`, built unless one of the same inputs exists.
pub fn live_iso(spec: &LiveIso) -> Result<PathBuf> {
    let (mut inputs, base, initramfs) = match spec.system {
        System::Busybox => (root::inputs(spec.hardware)?, root::base(spec.hardware)?, initramfs(spec.hardware)?),
        System::Dracut => {
            (dracut::inputs(spec.hardware)?, dracut::base(spec.hardware)?, dracut::initramfs(spec.hardware)?)
        }
    };
    inputs.text("system", &format!("{:?} {}", spec.system, spec.with_rootfs));
    inputs.text("volume", &spec.volume_id);
    inputs.text("kargs", &spec.kargs);
    for dir in &spec.overlays {
        inputs.text("overlay", "");
        inputs.tree(dir)?;
    }
    for (path, source) in &spec.files {
        inputs.text("file", path);
        inputs.text(
            "mode",
            &format!(
                "{:?}",
                fs::metadata(source).with_context(|| format!("reading {}", source.display()))?.permissions()
            ),
        );
        inputs.file(source)?;
    }
    store::cached(&spec.hardware.arch.build_name("live"), "iso", &inputs, |scratch, result| {
        let tree = scratch.join("iso");
        fs::create_dir_all(tree.join("images/pxeboot"))?;
        fs::create_dir_all(tree.join("coreos"))?;
        fs::copy(Kernel::open(spec.hardware)?.image, tree.join("images/pxeboot/vmlinuz"))?;
        fs::copy(initramfs, tree.join("images/pxeboot/initrd.img"))?;
        if spec.with_rootfs {
            rootfs_image(spec, &base, scratch, &tree.join("images/pxeboot/rootfs.img"))?;
            File::create(tree.join("coreos/miniso.dat"))?.set_len(MINISO_AREA)?;
        }
        File::create(tree.join("images/ignition.img"))?.set_len(EMBED_AREA)?;
        let igninfo = json!({"file": "images/ignition.img"});
        fs::write(tree.join("coreos/igninfo.json"), igninfo.to_string())?;
        // `iso customize` must not request what this live system doesn't do.
        let features = json!({"installer-config": false, "live-initrd-network": spec.system == System::Dracut});
        fs::write(tree.join("coreos/features.json"), features.to_string())?;
        boot_files(spec, &tree)?;
        make_iso(spec, &tree, result)
    })
}

/// `rootfs.img` is a cpio archive, so that a network boot may also append it to the initramfs.
fn rootfs_image(spec: &LiveIso, base: &Path, scratch: &Path, out: &Path) -> Result<()> {
    let tree = scratch.join("root");
    tree::overlay(base, &tree)?;
    if spec.system == System::Busybox {
        tree::overlay(&store::data_dir().join("root-live"), &tree)?;
    }
    // Where the running system's own source is mounted.
    fs::create_dir_all(tree.join("sysroot"))?;
    for dir in &spec.overlays {
        tree::overlay(dir, &tree).with_context(|| format!("copying {} over the root", dir.display()))?;
    }
    for (path, source) in &spec.files {
        tree::place(source, &tree.join(path))?;
    }
    let squashfs = scratch.join("root.squashfs");
    let mut command = tools::tool("mksquashfs");
    command.arg(&tree).arg(&squashfs).args(["-all-root", "-noappend", "-no-progress", "-quiet", "-no-xattrs"]);
    command.args(["-comp", "zstd", "-Xcompression-level", "9", "-b", "128K"]);
    tools::finish(command)?;
    let mut archive = cpio::Archive::default();
    archive.file("root.squashfs", &fs::read(&squashfs)?)?;
    fs::write(out, archive.finish()?)?;
    Ok(())
}

fn boot_files(spec: &LiveIso, tree: &Path) -> Result<()> {
    let kargs = spec.default_kargs();
    let area = kargs_area(&kargs)?;
    let mut files = Vec::new();
    let arch = spec.hardware.arch;
    let dirs = if arch.has_bios { &[EFI_DIR, BIOS_DIR][..] } else { &[EFI_DIR] };
    for dir in dirs {
        let config = grub::menu(arch, "live.cfg", &[("KARGS", &area)])?;
        let offset = config.find(&area).context("live.cfg has no @KARGS@")?;
        tree::write(&tree.join(dir).join("grub.cfg"), &config, 0o644)?;
        files.push(json!({"path": format!("{dir}/grub.cfg"), "offset": offset, "pad": "#", "end": "\n"}));
    }
    let info = json!({"default": kargs, "files": files, "size": KARGS_AREA});
    // Extracting the minimal ISO writes other defaults there, longer by the address of the root file system.
    fs::write(tree.join("coreos/kargs.json"), format!("{:KARGS_AREA$}\n", info.to_string()))?;

    let early = |dir| grub::template("live-early.cfg", &[("VOLUME", &spec.volume_id), ("DIR", dir)]);
    let modules = ["iso9660", "linux", "fat"];
    let efi = tree.join("boot.efi");
    grub::image(Platform::Efi(arch), "/EFI/redhat", &early(EFI_DIR)?, &modules, &efi)?;
    // A FAT of a few MiB: the loader, and space for its tables.
    let len = fs::metadata(&efi)?.len().next_multiple_of(1 << 20) + (1 << 20);
    fat::image(&tree.join("images/efiboot.img"), len, 512, "EFIBOOT", &[(&fallback_loader(arch), &efi)])?;
    fs::remove_file(&efi)?;
    fs::remove_file(efi.with_extension("early.cfg"))?;
    if arch.has_bios {
        let eltorito = tree.join("images/eltorito.img");
        grub::image(Platform::BiosCd, "/boot/grub", &early(BIOS_DIR)?, &modules, &eltorito)?;
        fs::remove_file(eltorito.with_extension("early.cfg"))?;
    }
    Ok(())
}

/// What UEFI starts from media that it has no boot entry for (UEFI 2.10, 3.5.1.1).
pub(super) fn fallback_loader(arch: Arch) -> String {
    format!("EFI/BOOT/BOOT{}.EFI", arch.efi_suffix.to_uppercase())
}

/// The area as it is in a configuration: the arguments, the end of their line, padding.
fn kargs_area(kargs: &str) -> Result<String> {
    ensure!(kargs.len() < KARGS_AREA, "{} bytes of kernel arguments don't fit the area of {KARGS_AREA}", kargs.len());
    Ok(format!("{:#<KARGS_AREA$}", format!("{kargs}\n")))
}

fn make_iso(spec: &LiveIso, tree: &Path, out: &Path) -> Result<()> {
    let volume_id = &spec.volume_id;
    ensure!(volume_id.len() <= 32, "the volume id {volume_id} has more than 32 characters");
    let mut command = tools::tool("xorriso");
    command.args(["-as", "mkisofs", "-quiet", "-volid", volume_id, "-iso-level", "1", "-R", "-o"]).arg(out);
    // What only the full ISO has comes last: everything else is at the same place as in the minimal one.
    for path in ["coreos/miniso.dat", "images/pxeboot/rootfs.img"] {
        if tree.join(path).exists() {
            command.args(["--sort-weight", "-1", &format!("/{path}")]);
        }
    }
    if spec.hardware.arch.has_bios {
        // El Torito, and an MBR for when the ISO is a disk.
        command.args([
            "-b",
            "images/eltorito.img",
            "-no-emul-boot",
            "-boot-load-size",
            "4",
            "-boot-info-table",
            "--grub2-boot-info",
        ]);
        command.arg("--grub2-mbr").arg(grub::hybrid_mbr()?);
    }
    command.arg("--protective-msdos-label");
    // UEFI: a further El Torito entry, which the GPT lists too.
    command.args(["--efi-boot", "images/efiboot.img", "-efi-boot-part", "--efi-boot-image"]).arg(tree);
    tools::finish(command)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CONFIG: &str = r#"{"ignition":{"version":"3.2.0"}}"#;

    /// The ISO without additions, or `None` (and why) without its packages.
    fn bare_iso() -> Option<PathBuf> {
        match store::packages(Arch::default(), "root") {
            Ok(_) => Some(live_iso(&LiveIso::default()).unwrap()),
            Err(reason) => {
                testkit::skip::because(format_args!("{reason:#}"));
                None
            }
        }
    }

    fn extract(iso: &Path, path: &str, dir: &Path) -> Vec<u8> {
        let out = dir.join("extracted");
        let _ = fs::remove_file(&out);
        let mut command = tools::tool("xorriso");
        command.args(["-osirrox", "on", "-indev"]).arg(iso).args(["-extract", path]).arg(&out);
        tools::finish(command).unwrap();
        fs::read(out).unwrap()
    }

    #[test]
    fn the_areas_installers_write_are_where_the_iso_says() {
        let (Some(iso), dir) = (bare_iso(), tempfile::tempdir().unwrap()) else { return };
        let info: serde_json::Value = serde_json::from_slice(&extract(&iso, "/coreos/kargs.json", dir.path())).unwrap();
        let area = kargs_area(info["default"].as_str().unwrap()).unwrap();
        let files = info["files"].as_array().unwrap();
        assert_eq!(files.len(), 2);
        for file in files {
            let path = format!("/{}", file["path"].as_str().unwrap());
            let config = String::from_utf8(extract(&iso, &path, dir.path())).unwrap();
            let (before, rest) = config.split_at(usize::try_from(file["offset"].as_u64().unwrap()).unwrap());
            assert!(before.ends_with("\tlinux /images/pxeboot/vmlinuz "), "{before}");
            assert!(rest.strip_prefix(&area).unwrap().starts_with("# COREOS_KARG_EMBED_AREA\n"));
        }
        assert_eq!(extract(&iso, "/images/ignition.img", dir.path()), vec![0; 256 * 1024]);
    }

    #[test]
    fn the_real_installer_accepts_it() {
        let (Some(iso), dir) = (bare_iso(), tempfile::tempdir().unwrap()) else { return };
        let installer =
            |args: &[&str]| Command::new("coreos-installer").args(args).arg(dir.path().join("live.iso")).output();
        if installer(&["--version"]).is_err() {
            return testkit::skip::because("no coreos-installer on PATH");
        }
        fs::copy(&iso, dir.path().join("live.iso")).unwrap();
        let config = dir.path().join("config.ign");
        fs::write(&config, CONFIG).unwrap();
        for (args, expected) in [
            (vec!["iso", "ignition", "embed", "-i", config.to_str().unwrap()], None),
            (vec!["iso", "ignition", "show"], Some(CONFIG.to_owned())),
            (vec!["iso", "kargs", "modify", "-a", "extra=1"], None),
            (vec!["iso", "kargs", "show"], Some(format!("{} extra=1\n", LiveIso::default().default_kargs()))),
        ] {
            let output = installer(&args).unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(expected.is_none_or(|expected| expected.as_bytes() == output.stdout), "{args:?}: {output:?}");
        }
    }

    #[test]
    fn an_area_has_its_size_and_ends_the_line_before_the_padding() {
        let area = kargs_area("a b").unwrap();
        assert_eq!(area.len(), KARGS_AREA);
        assert!(area.starts_with("a b\n##"));
        assert!(kargs_area(&"x".repeat(KARGS_AREA)).is_err());
        assert!(kargs_area(&"x".repeat(KARGS_AREA - 1)).unwrap().ends_with("x\n"));
    }
}
