//! Minimal ISOs of made-up full ones, and of those of xorriso, which looks at the result too.

use super::*;
use crate::area::LiveIso;
use crate::iso9660::Descriptor;
use kernel::bytes::{le32, le64};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const URL: &str = "http://192.0.2.1:8090/boot-artifacts/rootfs?arch=arm64";
const ARGUMENT: &str = "coreos.live.rootfs_url=http://192.0.2.1:8090/boot-artifacts/rootfs?arch=arm64";

/// A menu whose area of 300 bytes begins at its seventh byte.
fn menu() -> Vec<u8> {
    let mut menu = b"linux  coreos.liveiso=x-1 ignition.firstboot a=1\n".to_vec();
    menu.resize(307, b'#');
    menu.extend_from_slice(b"# COREOS_KARG_EMBED_AREA\ninitrd /images/pxeboot/initrd.img /images/ignition.img\n");
    menu
}

const KARGS: &[u8] = br##"{"default":"coreos.liveiso=x-1 ignition.firstboot","files":[{"path":"EFI/redhat/grub.cfg","offset":7,"pad":"#","end":"\n"}],"size":300}"##;

fn noise(len: u32) -> Vec<u8> {
    (0..len).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn cut(full: &[u8]) -> Result<(tempfile::TempDir, PathBuf), String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("full.iso"), full).unwrap();
    cut_file(&dir.path().join("full.iso"), dir.path().join("minimal.iso")).map(|minimal| (dir, minimal))
}

fn cut_file(full: &Path, minimal: PathBuf) -> Result<PathBuf, String> {
    let mut out = File::create(&minimal).unwrap();
    write(full, URL, &mut out).map(|()| minimal).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}

fn files(iso: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut iso = Iso::open(BufReader::new(File::open(iso).unwrap())).unwrap();
    let all = iso.walk().unwrap().into_iter().filter(|(_, record)| !record.is_directory);
    all.map(|(path, record)| (path, iso.read(record.extent()).unwrap())).collect()
}

#[test]
fn an_iso_without_root_file_system_is_refused_as_others_are_that_cannot_be_minimal() {
    let text = |image: &[u8]| cut(image).map(|_| ()).unwrap_err();
    let image = crate::testing::image(&[("PXEBOOT/ROOTFS.IMG", b"in another directory")]);
    assert!(text(&image).contains("it has no images/pxeboot/rootfs.img"));
    assert!(text(b"no ISO").contains("cannot read the ISO 9660 file system"));
    let dir = tempfile::tempdir().unwrap();
    for url in ["http://h/$x", "http://h/a\\b", "http://h/a b", "http://h/?a=1&b=2", "http://h/\"", "http://h/;"] {
        let mut out = tempfile::tempfile().unwrap();
        fs::write(dir.path().join("full.iso"), &image).unwrap();
        let error = write(&dir.path().join("full.iso"), url, &mut out).unwrap_err();
        assert!(error.to_string().contains("in the URL of its root file system"), "{url}");
    }
}

/// What the tests' own images lack: directories in directories.
struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    /// The files of a live ISO. None if there is no xorriso.
    fn new(kargs: Option<&[u8]>) -> Option<Self> {
        if Command::new("xorriso").arg("-version").output().is_err() {
            testkit::skip::because("no xorriso on PATH");
            return None;
        }
        let tree = Self { dir: tempfile::tempdir().unwrap() };
        let menu = match kargs {
            Some(_) => menu(),
            None => b"linux /images/pxeboot/vmlinuz coreos.liveiso=x-1 a=1\n".to_vec(),
        };
        tree.put("EFI/redhat/grub.cfg", &menu);
        tree.put("boot/grub/a_name_for_which_rock_ridge_needs_much_room_in_its_record.txt", b"");
        tree.put("coreos/igninfo.json", br#"{"file":"images/ignition.img"}"#);
        kargs.into_iter().for_each(|kargs| tree.put("coreos/kargs.json", kargs));
        tree.put("images/efiboot.img", &noise(70_000));
        tree.put("images/eltorito.img", &noise(30_000));
        tree.put("images/ignition.img", &[0; 256 << 10]);
        tree.put("images/pxeboot/initrd.img", &noise(9000));
        tree.put("images/pxeboot/rootfs.img", &noise(3_000_001));
        tree.put("images/pxeboot/vmlinuz", &noise(12_345));
        tree.put("zipl.prm", b"last");
        Some(tree)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// With the root file system first of all files, so that everything moves, or last.
    fn iso(&self, root_weight: &str, arguments: &[&str]) -> PathBuf {
        fs::write(self.path("mbr"), noise(432)).unwrap();
        let iso = self.path("full.iso");
        let mut command = Command::new("xorriso");
        command.args(["-as", "mkisofs", "-quiet", "-volid", "x-1", "-R", "-J", "-o"]).arg(&iso);
        command.args(["--sort-weight", root_weight, "/images/pxeboot/rootfs.img"]);
        command.args(["-b", "images/eltorito.img", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"]);
        command.args(arguments).args(["--protective-msdos-label"]);
        command.args(["--efi-boot", "images/efiboot.img", "-efi-boot-part", "--efi-boot-image"]).arg(self.path("tree"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        iso
    }
}

/// All of an image as xorriso finds it, by Rock Ridge's names.
fn by_xorriso(iso: &Path, to: &Path) -> BTreeMap<String, Vec<u8>> {
    let output =
        Command::new("xorriso").args(["-osirrox", "on", "-indev"]).arg(iso).args(["-extract", "/"]).arg(to).output();
    assert!(output.as_ref().unwrap().status.success(), "{output:?}");
    let mut found = BTreeMap::new();
    let mut open = vec![to.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    drop(found.insert(path.strip_prefix(to).unwrap().display().to_string(), fs::read(&path).unwrap()))
                }
            }
        }
    }
    found
}

#[test]
fn everything_but_the_root_file_system_is_where_firmware_and_loaders_look_for_it() {
    let Some(tree) = Tree::new(Some(KARGS)) else { return };
    let grub_mbr = tree.path("mbr").display().to_string();
    for (weight, grub) in [("1000", true), ("-1000", true), ("0", false)] {
        let hybrid = ["--grub2-boot-info", "--grub2-mbr", &grub_mbr];
        let full = tree.iso(weight, if grub { &hybrid } else { &[] });
        let minimal = cut_file(&full, tree.path("minimal.iso")).unwrap();
        let bytes = fs::read(&minimal).unwrap();
        assert!(bytes.len() + 1_600_000 < fs::read(&full).unwrap().len(), "1 MiB of room came, 3 MB went");

        let (mut old, mut new) = (files(&full), files(&minimal));
        assert_eq!(old.remove("IMAGES/PXEBOOT/ROOTFS.IMG").unwrap(), noise(3_000_001));
        assert_eq!(new.get("IMAGES/IGNITION.IMG"), Some(&vec![0; (256 << 10) + (1 << 20)]));
        // Boot loaders have numbers of their own in there, looked at below.
        for changed in
            ["IMAGES/IGNITION.IMG", "COREOS/KARGS.JSO", "EFI/REDHAT/GRUB.CFG", "IMAGES/ELTORITO.IMG", "BOOT.CAT"]
        {
            assert_eq!((old.remove(changed).is_some(), new.remove(changed).is_some()), (true, true), "{changed}");
        }
        assert!(old == new, "{weight}");
        let _ = fs::remove_dir_all(tree.path("out"));
        let extracted = by_xorriso(&minimal, &tree.path("out"));
        assert_eq!(extracted["images/efiboot.img"], noise(70_000));
        assert!(extracted.contains_key("boot/grub/a_name_for_which_rock_ridge_needs_much_room_in_its_record.txt"));
        assert!(!extracted.contains_key("images/pxeboot/rootfs.img"));
        assert_eq!(extracted.len(), 11);

        let mut iso = Iso::open(File::open(&minimal).unwrap()).unwrap();
        let sector = |extent: Extent| extent.offset / 2048;
        let efi = sector(iso.find("images/efiboot.img").unwrap());
        let boot = iso.find("images/eltorito.img").unwrap();
        let catalog = usize::try_from(sector(iso.find("boot.cat").unwrap())).unwrap() * 2048;
        assert_eq!(le32(&bytes, 17 * 2048 + 71).map(|at| usize::try_from(at).unwrap() * 2048), Some(catalog));
        let entries: Vec<u64> = bytes[catalog..catalog + 2048]
            .chunks(32)
            .skip(1)
            .filter(|e| e[0] == 0x88)
            .map(|e| le32(e, 8).unwrap().into())
            .collect();
        assert_eq!(entries, [sector(boot), efi]);
        let inside = usize::try_from(boot.offset).unwrap();
        assert_eq!(le32(&bytes, inside + 12), Some(u32::try_from(sector(boot)).unwrap()));
        if grub {
            assert_eq!(le64(&bytes, inside + 2548), Some(sector(boot) * 4 + 5));
            assert_eq!(le64(&bytes, 432), Some(sector(boot) * 4 + 4));
        }
        // The GPT: sealed, the second at the end, and the EFI partition where the file is.
        let tables = Tables::read(bytes.len().try_into().unwrap(), |offset, len| {
            let at = usize::try_from(offset).ok()?;
            bytes.get(at..at + usize::try_from(len).ok()?).map(<[u8]>::to_vec)
        });
        assert!(tables.tail_bytes() > 0, "valid");
        assert_eq!(&bytes[bytes.len() - 512..bytes.len() - 504], b"EFI PART");
        let entries = usize::try_from(le64(&bytes, 512 + 72).unwrap()).unwrap() * 512;
        let starts: Vec<u64> = (0..4).map(|n| le64(&bytes, entries + 128 * n + 32).unwrap()).collect();
        assert!(starts.contains(&(efi * 4)), "{starts:?} without {efi}");
        assert!(iso.descriptors().iter().any(|one| matches!(one, Descriptor::Primary { volume_id, volume_space_size, .. } if volume_id == "x-1" && volume_space_size * 2048 <= iso.len())));

        let again = cut_file(&full, tree.path("again.iso")).unwrap();
        assert!(fs::read(again).unwrap() == bytes, "the same each time");
        let live = LiveIso::open(&minimal).unwrap();
        let kargs = live.kargs().unwrap();
        assert_eq!(kargs.current(), format!("ignition.firstboot a=1 {ARGUMENT}"));
        assert_eq!(kargs.default_arguments(), format!("ignition.firstboot {ARGUMENT}"), "what a reset restores boots");
        assert_eq!(live.area().extent.len, (256 << 10) + (1 << 20));
        let grub = String::from_utf8(extracted["EFI/redhat/grub.cfg"].clone()).unwrap();
        assert_eq!((grub.len(), grub.find("# COREOS_KARG_EMBED_AREA")), (menu().len(), Some(307)));
        let error = cut_file(&minimal, tree.path("twice.iso")).unwrap_err();
        assert!(error.contains("it is not a full"), "{error}");
    }
}

#[test]
fn menus_without_areas_become_longer_files() {
    let Some(tree) = Tree::new(None) else { return };
    tree.put("isolinux/isolinux.cfg", b"label linux\n append initrd=/images/pxeboot/initrd.img coreos.liveiso=x-1\n");
    let minimal = cut_file(&tree.iso("0", &[]), tree.path("minimal.iso")).unwrap();
    let extracted = by_xorriso(&minimal, &tree.path("out"));
    let text = |path: &str| String::from_utf8(extracted[path].clone()).unwrap();
    assert_eq!(text("EFI/redhat/grub.cfg"), format!("linux /images/pxeboot/vmlinuz a=1 {ARGUMENT}\n"));
    assert_eq!(
        text("isolinux/isolinux.cfg"),
        format!("label linux\n append initrd=/images/pxeboot/initrd.img {ARGUMENT}\n")
    );
    tree.put("EFI/redhat/grub.cfg", b"configfile elsewhere");
    tree.put("isolinux/isolinux.cfg", b"menu");
    let error = cut_file(&tree.iso("0", &[]), tree.path("none.iso")).unwrap_err();
    assert!(error.contains("no boot menu"), "{error}");
}

#[test]
fn what_names_the_medium_where_it_cannot_be_changed_is_refused() {
    let Some(tree) = Tree::new(Some(KARGS)) else { return };
    tree.put("images/efiboot.img", &[&noise(5000)[..], b"linux x coreos.liveiso=x-1"].concat());
    let error = cut_file(&tree.iso("0", &[]), tree.path("a.iso")).unwrap_err();
    assert!(error.contains("images/efiboot.img has its own boot menu"), "{error}");
    tree.put("images/cdboot.img", b"IBM Z");
    let error = cut_file(&tree.iso("0", &[]), tree.path("b.iso")).unwrap_err();
    assert!(error.contains("it boots IBM Z"), "{error}");
}

#[test]
fn no_damage_makes_it_panic() {
    let Some(tree) = Tree::new(Some(KARGS)) else { return };
    tree.put("images/pxeboot/rootfs.img", &noise(50_000));
    let good = fs::read(tree.iso("1000", &[])).unwrap();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..300 {
        let mut image = good.clone();
        for _ in 0..1 + random(20) {
            // The partition tables, the descriptors, and what follows them.
            let at = random(4) * random(32_768).max(1) % image.len();
            image[at] = u8::try_from(random(256)).unwrap();
        }
        let _ = cut(&image);
    }
}
