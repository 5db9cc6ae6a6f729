//! What installations leave on the boot file system.

use crate::installs;

use diskwrite::{
    BootError, Changes, DiskState, Event, Failure, ImageError, InstallOptions, NetworkPlace, OptionsError, Source,
    osmet,
};
use installs::*;
use testkit::disk::{ENTRY, GRUB, INITRAMFS, Image, LoopDisk, MIB, osmet as made, skipped};

const HASH: &str = "sha256-a12bb1a5ae2b9b2e8ec2ed6ca0c2a3e4a4c2d9cbde9ae4ab1a4a3ef0ef3a2f6a";

fn entry(edited: &[(&str, &str)]) -> String {
    edited.iter().fold(ENTRY.to_owned(), |entry, (from, to)| entry.replace(from, to))
}

fn grub(commands: &str) -> String {
    GRUB.replace("terminal_input console\n", commands)
}

#[test]
fn every_setting_of_the_first_boot() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let (image, network) = (Image::new(sector), keyfiles());
        let disk = LoopDisk::new(64 * MIB, sector, true);
        let options = InstallOptions {
            ignition: Some(IGNITION.to_vec()),
            platform: Some("qemu".into()),
            consoles: vec!["tty0".into(), "ttyS0,115200".into()],
            firstboot_args: Some("rd.neednet=1 ip=dhcp".into()),
            changes: Changes {
                append_kargs: vec!["nosmt".into()],
                delete_kargs: vec!["console=tty0".into()],
                network_dir: Some(network.path().to_owned()),
                ..Default::default()
            },
            ..from_file(&disk, &image.packed(None))
        };
        go(&options).0.unwrap();
        assert_installed(&disk, &image);
        assert_eq!(image.debugfs(&disk, "cat /ignition/config.ign").as_bytes(), IGNITION);
        assert_eq!(
            image.debugfs(&disk, "cat /loader/entries/ostree-1-test.conf"),
            entry(&[(" quiet", ""), ("=metal", "=qemu console=ttyS0,115200n8 nosmt")])
        );
        assert_eq!(
            image.debugfs(&disk, "cat /ignition.firstboot"),
            "set ignition_network_kcmdline=\"rd.neednet=1 ip=dhcp\"\n"
        );
        let commands = "serial --unit=0 --speed=115200 --word=8 --parity=no\nterminal_input console serial\n\
                        terminal_output console serial\n";
        assert_eq!(image.debugfs(&disk, "cat /grub2/grub.cfg"), grub(commands));
        assert_network(&disk, &image);
    }
}

#[test]
fn network_profiles_go_where_the_caller_says() {
    if skipped() {
        return;
    }
    let (image, network) = (Image::new(512), keyfiles());
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let options = InstallOptions {
        changes: Changes { network_dir: Some(network.path().to_owned()), ..Default::default() },
        network_place: NetworkPlace::Boot,
        ..from_file(&disk, &image.packed(None))
    };
    let (result, events) = go(&options);
    result.unwrap();
    assert_installed(&disk, &image);
    assert_eq!(image.debugfs(&disk, "cat /coreos-firstboot-network/eth0.nmconnection"), "[connection]\nid=eth0\n");
    assert!(image.debugfs(&disk, "stat /coreos-firstboot-network/eth0.nmconnection").contains("Mode:  0600"));
    assert_eq!(image.boot_file(&disk, INITRAMFS.0), INITRAMFS.1);
    let to =
        events.iter().find_map(|event| if let Event::CopyingNetwork { to, .. } = event { Some(*to) } else { None });
    assert_eq!(to, Some(NetworkPlace::Boot));
}

#[test]
fn a_boot_file_system_without_room_for_a_second_initramfs_undoes_the_installation() {
    if skipped() {
        return;
    }
    let mut state = 1u32;
    let noise: Vec<u8> = (0..5 * MIB)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let (image, network) = (Image::with_initramfs(512, &noise), keyfiles());
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let options = full(&disk, &image.packed(None), network.path());
    let (error, cause) = fail(&options);
    assert!(matches!(error.disk, DiskState::Cleared), "{error}");
    assert!(
        matches!(&cause, Failure::Boot(BootError::Space { needed_bytes, .. }) if *needed_bytes > 5 * MIB),
        "{cause}"
    );
    disk.assert_cleared();
}

#[test]
fn platform_brings_its_own_consoles() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let options = InstallOptions { platform: Some("qemu".into()), ..from_file(&disk, &image.packed(None)) };
    go(&options).0.unwrap();
    assert_eq!(
        image.debugfs(&disk, "cat /loader/entries/ostree-1-test.conf"),
        entry(&[(" quiet", ""), ("=metal", "=qemu console=tty0 console=ttyS0,115200n8")])
    );
    let commands = "serial --speed=115200\nterminal_input serial console\n";
    assert_eq!(image.debugfs(&disk, "cat /grub2/grub.cfg"), grub(commands));
    // Metal is what the image is for: not a byte changes.
    let options = InstallOptions { platform: Some("metal".into()), ..options };
    go(&options).0.unwrap();
    assert!(disk.read(0, 32 * MIB)[34 << 9..32 << 20] == image.data[34 << 9..]);
}

#[test]
fn bad_settings_are_refused_before_the_disk_is_touched() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.put_old_tables(512);
    let good = || InstallOptions { ignition: Some(IGNITION.to_vec()), ..from_file(&disk, &image.packed(None)) };
    let hash = InstallOptions { ignition_hash: Some(HASH.into()), ..good() };
    assert!(matches!(fail(&hash).1, Failure::Options(OptionsError::Hash(_))));
    let console = InstallOptions { consoles: vec!["/dev/ttyS0".into()], ..good() };
    assert!(matches!(fail(&console).1, Failure::Options(OptionsError::Console(_))));
    let platform = InstallOptions { platform: Some("a=b".into()), ..good() };
    assert!(matches!(fail(&platform).1, Failure::Options(OptionsError::Platform { .. })));
    disk.assert_untouched(512);
}

#[test]
fn boot_is_found_by_the_label_of_its_file_system() {
    if skipped() {
        return;
    }
    let image = Image::with_partition(512, "boot-1");
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let options = InstallOptions { ignition: Some(IGNITION.to_vec()), ..from_file(&disk, &image.packed(None)) };
    go(&options).0.unwrap();
    assert_installed(&disk, &image);
    assert_eq!(image.debugfs(&disk, "cat /ignition/config.ign").as_bytes(), IGNITION);
    // Without the label there is nothing to go by, and no table.
    let raw = image.packed(None);
    let mut data = image.data.clone();
    let label = usize::try_from(image.boot_start).unwrap() + 1024 + 120;
    assert_eq!(&data[label..label + 4], b"boot");
    data[label] = b'B';
    std::fs::write(&raw, &data).unwrap();
    let (_, cause) = fail(&options);
    assert!(matches!(cause, Failure::Image(ImageError::NotOneLabel { .. })), "{cause}");
    disk.assert_cleared();
}

#[test]
fn image_of_the_live_system_is_installed() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let (dir, repo) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (start, len) = (17 * MIB, MIB + 4096);
    let at = usize::try_from(start).unwrap();
    let object = made::add_object(repo.path(), &image.data[at..at + usize::try_from(len).unwrap()]);
    let partitions = [(16 * MIB, 31 * MIB, vec![made::Extent { file_offset: 0, start, len, object }])];
    made::write(&dir.path().join("x.osmet"), &image.data, 512, &partitions);
    assert_eq!(osmet(dir.path(), "x86_64", 4096).unwrap(), None);
    let mut found = osmet(dir.path(), "x86_64", 512).unwrap().unwrap();
    found.repo = repo.path().to_owned();
    let options = InstallOptions {
        source: Source::Osmet(found),
        ignition: Some(IGNITION.to_vec()),
        ..from_file(&disk, dir.path())
    };
    go(&options).0.unwrap();
    assert_installed(&disk, &image);
    assert_eq!(image.debugfs(&disk, "cat /ignition/config.ign").as_bytes(), IGNITION);
    // A file of the live system that is not what it was.
    let path = made::object_path(repo.path(), &object);
    let mut bad = std::fs::read(&path).unwrap();
    bad[100] ^= 1;
    std::fs::write(&path, bad).unwrap();
    let (_, cause) = fail(&options);
    assert!(matches!(cause, Failure::Source(_)), "{cause}");
    disk.assert_cleared();
}
