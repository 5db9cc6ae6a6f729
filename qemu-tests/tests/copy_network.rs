//! `landfall install --copy-network` in a machine, and the first boot of what it installed: the profiles are with NetworkManager before
//! Ignition looks for its config, whether the image reads them in its initramfs or, as older ones do, on the boot file system.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::{Facts, LIMIT};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths,
    vm::{Disk, Vm},
};
use std::{fs, time::Instant};

const MIB: u64 = 1 << 20;
const PROFILE: &str = "[connection]\nid=eth0\n";

/// Makes the image an older one: in its initramfs another program, which looks on the boot file system, takes the place of the first.
const AGE: &str = r#"
mkdir -p /run/boot /run/old/usr/sbin
mount -t ext4 $(findfs LABEL=boot) /run/boot
cat >/run/old/usr/sbin/coreos-copy-firstboot-network <<'EOF'
#!/bin/sh
mkdir -p /mnt /run/NetworkManager/system-connections
ln -s /sysroot/boot /mnt/boot_partition
cp -p /mnt/boot_partition/coreos-firstboot-network/* /run/NetworkManager/system-connections/
EOF
chmod 755 /run/old/usr/sbin/coreos-copy-firstboot-network
initramfs=$(ls /run/boot/ostree/landfall-test/initramfs-*)
cd /run/old
find . | cpio -o -H newc | gzip >>"$initramfs"
cd /
umount /run/boot
"#;

fn install_and_boot(layout: &str, prepare: &str, said: &str) {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let (image, target) = (dir.path().join("image"), dir.path().join("target"));
    fs::copy(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud).unwrap(), &image).unwrap();
    let size_bytes = fs::metadata(&image).unwrap().len() + 8 * MIB;
    let run = format!("copy-network-{layout}");
    let mut vm = Vm::builder(&run, "install")
        .memory_mib(768)
        .kernel(media::shell_system(Drivers::Cloud).unwrap())
        .shell()
        .disk(Disk::virtio(&image, "IMAGE", 0))
        .disk(Disk::virtio(&target, "TARGET", size_bytes))
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.run(prepare);
    let words = facts.text(&format!(
        "mkdir /run/nm; printf '{}' >/run/nm/eth0.nmconnection; chmod 600 /run/nm/eth0.nmconnection
         echo '{{\"ignition\":{{\"version\":\"3.3.0\"}}}}' >/run/host.ign
         landfall install --insecure --no-verify -f - -i /run/host.ign -n --network-dir /run/nm \
         /dev/disk/by-id/virtio-TARGET </dev/disk/by-id/virtio-IMAGE 2>&1; sync",
        PROFILE.replace('\n', "\\n"),
    ));
    assert!(words.contains(said), "{words}");
    vm.quit().unwrap();
    vm.wait_end(LIMIT).unwrap();

    let mut vm = Vm::builder(&run, "node").disk(Disk::virtio(&target, "TARGET", 0)).start().unwrap();
    vm.wait_for("node ready", 2 * LIMIT).unwrap();
    let markers: Vec<String> = vm.markers().into_iter().map(|marker| marker.text).collect();
    let at = |text: &str| {
        markers.iter().position(|marker| marker.starts_with(text)).unwrap_or_else(|| panic!("{text}: {markers:#?}"))
    };
    assert!(at("firstboot-network eth0.nmconnection") < at("ignition fetch-offline ok"), "{markers:#?}");
    at("node file:/etc/NetworkManager/system-connections/eth0.nmconnection sha256=");
    println!("{run}: {:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn an_image_finds_network_profiles_in_its_initramfs() {
    install_and_boot("new", "", "Appended network configuration to initramfs /ostree/landfall-test/initramfs-");
}

#[test]
fn an_older_image_finds_network_profiles_on_its_boot_file_system() {
    install_and_boot("old", AGE, "Copying /run/nm/eth0.nmconnection to installed system");
}
