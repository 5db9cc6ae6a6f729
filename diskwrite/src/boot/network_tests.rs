//! Network keyfiles: where they go, and what an initramfs says of that.

use super::*;
use flate2::write::GzEncoder;
use std::os::unix::fs::PermissionsExt;

const NAME: &str = "/ostree/os-1/initramfs.img";
const KEYFILE: &str = "etc/coreos-firstboot-network/eth0.nmconnection";
/// What such programs have in common.
const READS_BOOT: &str = "bootmnt=/mnt/boot_partition\nmount -o ro /dev/disk/by-label/boot $bootmnt\n";
const READS_INITRAMFS: &str = "cp /etc/coreos-firstboot-network/* /run/NetworkManager/system-connections/\n";

/// A boot file system with two entries; the last one's initramfs has this content.
fn boot(initramfs: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let entries = dir.path().join("loader/entries");
    fs::create_dir_all(&entries).unwrap();
    fs::write(entries.join("ostree-1.conf"), "linux /vmlinuz\ninitrd /old.img\noptions a\n").unwrap();
    fs::write(entries.join("ostree-2.conf"), format!("linux /vmlinuz\ninitrd  {NAME} \noptions b\n")).unwrap();
    fs::create_dir_all(dir.path().join("ostree/os-1")).unwrap();
    let path = dir.path().join(&NAME[1..]);
    fs::write(&path, initramfs).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    dir
}

fn network(place: NetworkPlace) -> Network {
    let file = |name: &str, content: &str| NetworkFile {
        name: name.into(),
        content: content.into(),
        permissions: Permissions::from_mode(0o644),
    };
    let files = vec![file("eth0.nmconnection", "[connection]\nid=eth0\n"), file("eth1.nmconnection", "")];
    Network { directory: "/nm/".into(), files, place }
}

fn run(root: &Path, network: &Network) -> Result<Vec<Event>, BootError> {
    let mut done = Vec::new();
    copy(root, network, &mut done).map(|()| done)
}

fn initramfs(root: &Path) -> Vec<u8> {
    fs::read(root.join(&NAME[1..])).unwrap()
}

#[test]
fn the_initramfs_gets_the_files_behind_what_it_has() {
    let dir = boot(b"as it was");
    let done = run(dir.path(), &network(NetworkPlace::Initramfs)).unwrap();
    let found = initramfs(dir.path());
    let added = found.strip_prefix(b"as it was").unwrap();
    // The kernel can't unpack another check than CRC32.
    assert!(added.starts_with(b"\xfd7zXZ\0\0\x01"), "{:x?}", &added[..8]);
    let archive = Archive::unpack(added).unwrap();
    assert_eq!(archive.get(KEYFILE), Some(&b"[connection]\nid=eth0\n"[..]));
    let members: Vec<String> = archive.members().map(|(name, member)| format!("{name} {member:?}")).collect();
    let expected = [
        "etc Directory(0755)",
        "etc/coreos-firstboot-network Directory(0755)",
        "etc/coreos-firstboot-network/eth0.nmconnection File(0600, 21 bytes)",
        "etc/coreos-firstboot-network/eth1.nmconnection File(0600, 0 bytes)",
    ];
    assert_eq!(members, expected);
    let beside: Vec<_> = fs::read_dir(dir.path().join("ostree/os-1")).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    let mode = fs::metadata(dir.path().join(&NAME[1..])).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert!(!dir.path().join(DIRECTORY).exists());
    let files = vec!["/nm/eth0.nmconnection".into(), "/nm/eth1.nmconnection".into()];
    let copying = Event::CopyingNetwork { directory: "/nm/".into(), files, to: NetworkPlace::Initramfs };
    assert_eq!(done, [copying, Event::AppendedNetwork { initramfs: NAME.into() }]);
}

#[test]
fn no_files_change_nothing_and_need_no_initramfs() {
    let dir = tempfile::tempdir().unwrap();
    for place in [NetworkPlace::Auto, NetworkPlace::Boot, NetworkPlace::Initramfs] {
        let done = run(dir.path(), &Network { files: vec![], ..network(place) }).unwrap();
        assert_eq!(done, [Event::CopyingNetwork { directory: "/nm/".into(), files: vec![], to: place }]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// An initramfs as images have it: microcode, not compressed, and then the system.
fn system(reader: Option<(&str, &str)>, pack: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut microcode = Archive::new();
    microcode.add("kernel/x86/microcode/GenuineIntel.bin", 0o644, vec![7; 5000]).unwrap();
    let mut system = Archive::new();
    system.add("etc/initrd-release", 0o644, "x").unwrap();
    system.add("usr/lib/large", 0o644, vec![1; 300_000]).unwrap();
    if let Some((name, content)) = reader {
        system.add(name, 0o755, content).unwrap();
    }
    let mut whole = microcode.to_cpio().unwrap();
    whole.resize(whole.len().next_multiple_of(512), 0);
    [whole, pack(system.to_cpio().unwrap())].concat()
}

fn gzip(content: Vec<u8>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&content).unwrap();
    encoder.finish().unwrap()
}

fn xz(content: Vec<u8>) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(&content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_image_whose_initramfs_reads_the_boot_file_system_gets_them_there() {
    let plain = |content| content;
    let zstd = |content: Vec<u8>| zstd::encode_all(&content[..], 1).unwrap();
    for pack in [&plain as &dyn Fn(Vec<u8>) -> Vec<u8>, &zstd, &gzip, &xz] {
        for reader in READERS {
            for (content, reads_boot) in [(READS_BOOT, true), (READS_INITRAMFS, false)] {
                let before = system(Some((reader, content)), pack);
                let dir = boot(&before);
                run(dir.path(), &network(NetworkPlace::Auto)).unwrap();
                assert_eq!(initramfs(dir.path()) == before, reads_boot, "{reader}: {content}");
                let keyfile = dir.path().join(DIRECTORY).join("eth0.nmconnection");
                assert_eq!(keyfile.exists(), reads_boot, "{reader}: {content}");
            }
        }
    }
}

#[test]
fn an_initramfs_that_does_not_say_gets_them_itself() {
    let damaged = system(Some((READERS[0], READS_BOOT)), |content| gzip(content)[..40].to_vec());
    for before in [b"noise".to_vec(), vec![], damaged, system(None, gzip)] {
        let dir = boot(&before);
        let done = run(dir.path(), &network(NetworkPlace::Auto)).unwrap();
        assert!(initramfs(dir.path()).len() > before.len());
        assert_eq!(done.last(), Some(&Event::AppendedNetwork { initramfs: NAME.into() }));
    }
    let dir = boot(&system(Some((READERS[0], READS_BOOT)), gzip));
    run(dir.path(), &network(NetworkPlace::Initramfs)).unwrap();
    assert!(!dir.path().join(DIRECTORY).exists(), "what the caller says counts");
}

#[test]
fn the_last_program_of_that_name_counts_as_in_the_kernel() {
    let replaced = |first, last| {
        let mut whole = system(Some((READERS[0], first)), gzip);
        let mut later = Archive::new();
        later.add(READERS[0], 0o755, last).unwrap();
        whole.extend(later.pack(Compression::Xz).unwrap());
        let dir = boot(&whole);
        run(dir.path(), &network(NetworkPlace::Auto)).unwrap();
        dir.path().join(DIRECTORY).exists()
    };
    assert!(replaced(READS_INITRAMFS, READS_BOOT));
    assert!(!replaced(READS_BOOT, READS_INITRAMFS));
}

#[test]
fn an_initramfs_is_read_within_bounds() {
    let find = |whole: Vec<u8>, bounds| {
        let dir = boot(&whole);
        reader(&dir.path().join(&NAME[1..]), bounds).map_err(|error| error.to_string())
    };
    let whole = || system(Some((READERS[0], READS_BOOT)), gzip);
    assert_eq!(find(whole(), BOUNDS).unwrap().as_deref(), Some(READS_BOOT.as_bytes()));
    assert!(find(whole(), Bounds { unpacked_bytes: 200_000, ..BOUNDS }).is_err());
    let long = "x".repeat((1 << 20) + 1);
    let error = find(system(Some((READERS[1], &long)), gzip), BOUNDS).unwrap_err();
    assert_eq!(error, "the matching files exceed 1048576 bytes together");
    assert_eq!(find(system(None, gzip), BOUNDS).unwrap(), None);
}

#[test]
fn an_initramfs_that_cannot_be_found_is_named() {
    let refused = |line: &str| {
        let dir = boot(b"x");
        fs::write(dir.path().join("loader/entries/ostree-2.conf"), format!("linux /a\n{line}\n")).unwrap();
        let error = run(dir.path(), &network(NetworkPlace::Initramfs)).unwrap_err().to_string();
        assert_eq!(initramfs(dir.path()), b"x");
        error.replace(dir.path().to_str().unwrap(), "")
    };
    assert_eq!(refused("initrd /no.img"), "initramfs file not found at \"/no.img\"");
    assert_eq!(refused("initrd /ostree"), "initramfs file not found at \"/ostree\"");
    assert_eq!(refused("initrd no.img"), "BLS path is not absolute: no.img");
    assert_eq!(refused("initrd /a/../../b"), "BLS path contains '..': /a/../../b");
    assert!(refused("options x").starts_with("missing 'initrd' key in default BLS config"));
    // Of several lines the last one counts.
    assert_eq!(refused(&format!("initrd {NAME}\ninitrd /no.img")), "initramfs file not found at \"/no.img\"");
    let dir = boot(b"x");
    fs::remove_dir_all(dir.path().join("loader")).unwrap();
    assert!(matches!(run(dir.path(), &network(NetworkPlace::Auto)), Err(BootError::NoEntries { .. })));
}

#[test]
fn files_whose_names_would_be_the_same_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let mut network = network(NetworkPlace::Initramfs);
    for (file, byte) in network.files.iter_mut().zip([0xFE, 0xFF]) {
        file.name = OsString::from_vec(vec![b'a', byte]);
    }
    let dir = boot(b"x");
    let error = run(dir.path(), &network).unwrap_err().to_string();
    assert_eq!(error, "multiple input files named 'a\u{FFFD}'");
}

proptest::proptest! {
    #[test]
    fn no_damage_makes_it_panic(cut in 0_usize..8000, at in 0_usize..8000, byte in proptest::prelude::any::<u8>()) {
        let mut whole = system(Some((READERS[0], READS_BOOT)), gzip);
        whole.truncate(whole.len() - cut.min(whole.len()));
        if let Some(damaged) = whole.get_mut(at) {
            *damaged = byte;
        }
        let dir = boot(&whole);
        let _ = reader(&dir.path().join(&NAME[1..]), BOUNDS);
    }
}
