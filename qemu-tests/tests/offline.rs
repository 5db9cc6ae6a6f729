//! `landfall install --offline` in a machine without a network: its live system has an osmet file, made of the image's disk, and the
//! files that the image has too. What it installed boots. The osmet file is made by `landfall pack osmet` in the machine, or by the
//! released program here.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::{Facts, LIMIT};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths,
    vm::{Disk, Vm},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};
use testkit::disk::LoopDisk;

const MIB: u64 = 1 << 20;

/// Gives the image an ostree repository with links to its larger files. Prints the sum of the whole disk.
const MAKE_REPOSITORY: &str = r#"
mkdir -p /run/root
mount -t ext4 $(findfs LABEL=root) /run/root
cd /run/root
find usr -type f -size +16 -exec sha256sum '{}' ';' >/run/files
while read -r sum file; do
    rest=${sum#??}
    objects=ostree/repo/objects/${sum%$rest}
    [ -d $objects ] || mkdir -p $objects
    ln -f "$file" $objects/$rest.file
done </run/files
cd /
umount /run/root
sync
sha256sum </dev/disk/by-id/virtio-IMAGE
"#;

/// Who makes the osmet file.
enum Packer {
    /// The program under test, in the machine.
    Landfall,
    /// The program in whose place it is, here.
    Released(PathBuf),
}

fn end(mut vm: Vm) {
    vm.quit().unwrap();
    vm.wait_end(LIMIT).unwrap();
}

/// Makes the osmet file of the disk in `image` here. It is padded to whole sectors: what follows its end is not read.
fn pack(peer: &Path, image: &Path, sum: &str, osmet: &Path) {
    let bytes = fs::read(image).unwrap();
    let disk = LoopDisk::new(u64::try_from(bytes.len()).unwrap(), 512, true);
    disk.write(0, &bytes);
    disk.list_partitions();
    let mut command = Command::new(peer);
    command.args(["pack", "osmet", "--fast", "--checksum", sum, "--description", "Test OS 1", "--output"]);
    let output = command.arg(osmet).arg(disk.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = fs::OpenOptions::new().write(true).open(osmet).unwrap();
    file.set_len(file.metadata().unwrap().len().next_multiple_of(MIB)).unwrap();
}

fn install_and_boot(name: &str, packer: &Packer) {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let [image, osmet, target] = ["image", "osmet", "target"].map(|name| dir.path().join(name));
    fs::copy(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud).unwrap(), &image).unwrap();
    let size_bytes = fs::metadata(&image).unwrap().len() + 8 * MIB;
    let run = format!("offline-{name}");
    let machine = |name: &str| {
        let machine = Vm::builder(&run, name).memory_mib(1024).kernel(media::shell_system(Drivers::Cloud).unwrap());
        machine.shell().disk(Disk::virtio(&image, "IMAGE", 0))
    };
    let mut vm = machine("prepare").start().unwrap();
    let sum = Facts::ask(&mut vm).text(MAKE_REPOSITORY);
    let sum = sum.split_whitespace().next().unwrap();
    end(vm);

    let mut machine = machine("install").disk(Disk::virtio(&target, "TARGET", size_bytes));
    if let Packer::Released(peer) = packer {
        pack(peer, &image, sum, &osmet);
        machine = machine.disk(Disk::virtio(&osmet, "OSMET", 0));
    }
    let mut vm = machine.start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    let file = "/run/coreos-installer/osmet/test.osmet";
    facts.run("mkdir -p /run/coreos-installer/osmet /sysroot");
    match packer {
        Packer::Landfall => {
            let words = facts.text(&format!(
                "modprobe loop; landfall pack osmet --fast --checksum {sum} --description 'Test OS 1' --output {file} \
                 /dev/disk/by-id/virtio-IMAGE 2>&1"
            ));
            let skipped = words.lines().find_map(|line| line.strip_prefix("Total bytes skipped: ")).unwrap();
            assert!(skipped.parse::<u64>().unwrap() > MIB, "{words}");
        }
        Packer::Released(_) => drop(facts.run(&format!("cp /dev/disk/by-id/virtio-OSMET {file}"))),
    }
    facts.run(
        "[ ! -e /sys/class/net/eth0 ]
         mount -t ext4 -o ro $(findfs LABEL=root) /sysroot
         echo '{\"ignition\":{\"version\":\"3.3.0\"}}' >/run/host.ign
         landfall install --offline -i /run/host.ign /dev/disk/by-id/virtio-TARGET 2>&1
         sync",
    );
    end(vm);

    let mut vm = Vm::builder(&run, "node").disk(Disk::virtio(&target, "TARGET", 0)).start().unwrap();
    vm.wait_for("node ready", 2 * LIMIT).unwrap();
    println!("{run}: {:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn a_machine_without_a_network_installs_what_we_packed() {
    install_and_boot("ours", &Packer::Landfall);
}

#[test]
fn a_machine_without_a_network_installs_what_the_released_program_packed() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join("coreos-installer"));
    let named = std::env::var_os("COREOS_INSTALLER").map(PathBuf::from);
    let Some(peer) = named.into_iter().chain(in_path).find(|path| path.is_file()) else {
        return testkit::skip::because("there is no coreos-installer; name one in COREOS_INSTALLER");
    };
    if !testkit::disk::skipped() {
        install_and_boot("theirs", &Packer::Released(peer));
    }
}
