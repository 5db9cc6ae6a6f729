//! Disks as they come back from the field, with what an earlier life left on them: each ends installed, or refused with the reason,
//! and no disk that was not named changes a byte.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::Facts;
use qemu_tests::{
    media, paths,
    vm::{Bus, Disk, Vm, with_path},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 16 * MIB;
const IMAGE_BYTES: u64 = 8 * MIB;
/// Where the image has its partitions.
const PARTITIONS: std::ops::Range<usize> = 1 << 20..7 << 20;
/// Each on its own bus; the other disks are virtio.
const TWO_PATHS: &str = "TWO-PATHS";
const STICK: &str = "STICK";
/// So slow that it is gone before the image is written.
const GONE: &str = "GONE";
const GONE_BYTES_PER_SECOND: u64 = MIB;
/// How long an installation may run when its disk is gone.
const GONE_LIMIT: Duration = Duration::from_secs(300);
const PLAIN: [&str; 9] = ["MD-A", "MD-B", "SPAN", "LUKS", "ZFS", "CEPH", "COREOS", "OTHER-BOOT", "MOUNTED"];

fn run(program: &str, args: &[&str]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output = Command::new(program).args(args).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file with this at its places.
fn make(path: &Path, bytes: u64, parts: &[(u64, &[u8])]) {
    let file = File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    parts.iter().for_each(|(at, part)| file.write_all_at(part, *at).unwrap());
}

fn file_system(dir: &Path, label: &str, bytes: u64) -> Vec<u8> {
    let path = dir.join("file-system");
    make(&path, bytes, &[]);
    run("mke2fs", &["-q", "-F", "-t", "ext4", "-L", label, path.to_str().unwrap()]);
    let made = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    made
}

/// The partitions of an installed CoreOS, at the size of toys.
fn coreos(dir: &Path, path: &Path, bytes: u64) {
    make(path, bytes, &[]);
    let name = path.to_str().unwrap();
    let parts = ["--new=1:2048:+1M", "--change-name=1:EFI-SYSTEM", "--new=2:4096:+2M", "--change-name=2:boot"];
    run("sgdisk", &[&parts[..], &["--new=3:8192:+3M", "--change-name=3:root", name]].concat());
    let file = File::options().write(true).open(path).unwrap();
    for (sector, label, mib) in [(4096, "boot", 2), (8192, "root", 3)] {
        file.write_all_at(&file_system(dir, label, mib * MIB), sector * 512).unwrap();
    }
}

/// What was on the disks before.
fn leftovers(dir: &Path) {
    let at = |name: &str| dir.join(name);
    coreos(dir, &at("image"), IMAGE_BYTES);
    for name in ["COREOS", "MOUNTED"] {
        coreos(dir, &at(name), DISK_BYTES);
    }
    make(&at("OTHER-BOOT"), DISK_BYTES, &[(0, &file_system(dir, "boot", 4 * MIB))]);
    make(&at(STICK), DISK_BYTES, &[(0, &file_system(dir, "live", 4 * MIB))]);
    make(&at("CEPH"), DISK_BYTES, &[(0, b"bluestore block device\n4fbd7e29-9d25-41b8-afd0-062c0ceff05d\n")]);
    let mut second = vec![0; 512];
    second[..8].copy_from_slice(b"SKUL\xba\xbe\0\x02");
    second[256..264].copy_from_slice(&0x4000u64.to_be_bytes());
    make(&at("LUKS"), DISK_BYTES, &[(0, b"LUKS\xba\xbe\0\x02"), (0x4000, &second)]);
    let block = &0x00BA_B10Cu64.to_le_bytes()[..];
    let labels = [0, 256 << 10, DISK_BYTES - (512 << 10), DISK_BYTES - (256 << 10)];
    let rings: Vec<_> =
        labels.iter().flat_map(|at| (0..4).map(move |i| (at + (128 << 10) + i * 1024, block))).collect();
    make(&at("ZFS"), DISK_BYTES, &rings);
    for name in ["MD-A", "MD-B", "SPAN", TWO_PATHS, GONE] {
        make(&at(name), DISK_BYTES, &[]);
    }
}

fn start(dir: &Path) -> Vm {
    let mut builder =
        Vm::builder("dirty-disks", "dirty").kernel(media::storage_system().unwrap()).memory_mib(1024).shell();
    for name in PLAIN {
        let (path, serial) = (dir.join(name), name.to_owned());
        builder = builder.disk(Disk { path, size_bytes: DISK_BYTES, serial, sector_bytes: 512, bus: Bus::Virtio });
    }
    // The image is on a disk too; and one disk has two ways to it.
    let image = Disk {
        path: dir.join("image"),
        size_bytes: IMAGE_BYTES,
        serial: "IMAGE".into(),
        sector_bytes: 512,
        bus: Bus::Virtio,
    };
    builder = builder.disk(image).with("-device", "virtio-scsi-pci,id=hba").with("-device", "qemu-xhci");
    for way in 1..=2 {
        let drive = format!("if=none,id=way{way},format=raw,cache=unsafe,file.locking=off,file=");
        let device = format!(
            "scsi-hd,bus=hba.0,scsi-id={way},drive=way{way},serial={TWO_PATHS},wwn=0x5000c5000000cafe,share-rw=on"
        );
        builder = builder.with("-drive", with_path(&drive, &dir.join(TWO_PATHS), "")).with("-device", device);
    }
    let drive = |name, options: &str| {
        with_path(&format!("if=none,id={name},format=raw,cache=unsafe{options},file="), &dir.join(name), "")
    };
    let throttled = format!(",throttling.bps-write={GONE_BYTES_PER_SECOND}");
    builder
        .with("-drive", drive(STICK, ""))
        .with("-device", format!("usb-storage,drive={STICK},serial={STICK},removable=on"))
        .with("-drive", drive(GONE, &throttled))
        .with("-device", format!("virtio-blk-pci,id={GONE},drive={GONE},serial={GONE}"))
        .start()
        .unwrap()
}

/// A machine with dirty disks, and their files.
struct Bench {
    facts: Facts,
    dir: PathBuf,
    nodes: BTreeMap<String, Vec<String>>,
    contents: BTreeMap<String, Vec<u8>>,
}

impl Bench {
    /// Kernel name of a disk.
    fn name(&self, serial: &str) -> &str {
        self.nodes[serial][0].strip_prefix("/dev/").unwrap()
    }

    fn node(&self, serial: &str) -> String {
        self.nodes[serial][0].clone()
    }

    /// All disks but those of these names are as they were when this was last asked, byte for byte.
    fn assert_unchanged(&mut self, but: &[&str], after: &str) {
        self.facts.run("sync");
        for name in PLAIN.into_iter().chain(["image", TWO_PATHS, STICK, GONE]) {
            let now = fs::read(self.dir.join(name)).unwrap();
            let before = self.contents.insert(name.to_owned(), now);
            let same = before.is_none() || before.as_ref() == self.contents.get(name);
            assert!(same || but.contains(&name), "{name} changed by {after}");
        }
    }

    /// Runs `script`, after which all disks but those of these names are as before. Gives whether it succeeded and what it said.
    fn row(&mut self, named: &[&str], script: &str) -> (bool, String) {
        let said = self
            .facts
            .text(&format!("if ( {script} ) >/run/said 2>&1; then echo done; else echo failed; fi; cat /run/said"));
        self.assert_unchanged(named, &format!("{script}:\n{said}"));
        let (end, said) = said.split_once('\n').unwrap();
        (end == "done", said.to_owned())
    }

    /// The disk is made free and installed to, by a program that is confined to an installation to that disk.
    fn installed(&mut self, state: &str, serial: &str, disk: &str) -> String {
        let install = format!("landfall wipe --release {disk} && landfall install -f /run/image --insecure {disk}");
        let script = format!("export LANDFALL_STEP_TYPE=install LANDFALL_STEP_TARGETS={disk}; {install}");
        let (done, said) = self.row(&[serial], &script);
        assert!(done, "{state}: {said}");
        let steps: Vec<_> = said.lines().filter_map(|line| line.trim().strip_prefix("taken down: ")).collect();
        let steps = if steps.is_empty() {
            "nothing was up on it".to_owned()
        } else {
            format!("taken down: {}", steps.join("; "))
        };
        println!("dirty disk: {state} | {steps} | installed; all other disks as before");
        // Table and contents are the image's.
        let (disk, image) = (fs::read(self.dir.join(serial)).unwrap(), fs::read(self.dir.join("image")).unwrap());
        assert!(disk[PARTITIONS] == image[PARTITIONS], "{state}: not what is in the image");
        said
    }

    /// Neither the disk nor any other is touched.
    fn refused(&mut self, state: &str, disk: &str, reason: &str) {
        let wipe = format!("landfall wipe --release {disk}");
        let (done, said) = self.row(&[], &wipe);
        assert!(!done && said.contains(reason), "{state}: {said}");
        let (done, _) = self.row(&[], &format!("landfall install -f /run/image --insecure {disk}"));
        assert!(!done, "{state}: installed");
        let reason = said.lines().last().unwrap_or_default();
        println!("dirty disk: {state} | nothing | refused: {reason}");
    }
}

const SETUP: &str = r#"
export DM_DISABLE_UDEV=1 LVM_SYSTEM_DIR=/run/lvm
mkdir -p /run/lvm /run/lock /run/media/iso
echo 'devices { use_devicesfile=0 obtain_device_list_from_udev=0 }
      activation { udev_sync=0 udev_rules=0 monitoring=0 }
      global { thin_check_executable="" event_activation=0 }' >/run/lvm/lvm.conf
modprobe -a dm-mod raid1 dm-crypt ecb xts dm-thin-pool dm-multipath dm-round-robin ext4
quietly() { "$@" >/run/tool 2>&1 || { echo "$*"; cat /run/tool; exit 1; } >&2; }
dd if=$IMAGE of=/run/image bs=1M 2>/dev/null

quietly mdadm --create /dev/md127 --run --assume-clean --bitmap=none --level=1 --metadata=1.2 --raid-devices=2 $MDA $MDB
quietly lvm pvcreate /dev/md127 $SPAN
quietly lvm vgcreate -s 1M vg /dev/md127 $SPAN
quietly lvm lvcreate -Zn -l 2 --poolmetadataspare n -T vg/pool -V 8M -n thin /dev/md127
quietly lvm lvcreate -Zn -Wn -l 100%FREE -n both vg
dmsetup create luks-data -u CRYPT-LUKS2-0123-luks-data --table "0 8192 crypt aes-xts-plain64 $(printf '%0128d' 7) 0 $LUKS 8192"
quietly mke2fs -F /dev/mapper/luks-data
mount -t ext4 -o ro ${MOUNTED}3 /mnt
mount -t ext4 -o ro $STICK /run/media/iso
sync
until grep -q clean /sys/block/md127/md/array_state; do usleep 50000; done
echo 0 $(blockdev --getsz $WAY1) >/run/size
"#;

#[test]
fn each_dirty_disk_ends_installed_or_refused_and_no_other_changes() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    leftovers(dir.path());
    let mut vm = start(dir.path());
    let mut facts = Facts::ask(&mut vm);
    // Disks on USB are looked for a second after the others.
    let nodes = facts.until(|inventory| {
        let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for disk in inventory["disks"].as_array().unwrap() {
            let text = |key: &str| disk[key].as_str().unwrap_or_default().to_owned();
            nodes.entry(text("serial")).or_default().push(text("path"));
        }
        let mut wanted = PLAIN.into_iter().chain(["IMAGE", STICK, GONE]);
        let two_ways = nodes.get(TWO_PATHS).is_some_and(|ways| ways.len() == 2);
        (two_ways && wanted.all(|serial| nodes.contains_key(serial))).then_some(nodes)
    });
    let mut bench = Bench { facts, dir: dir.path().to_owned(), nodes, contents: BTreeMap::new() };
    let ways = bench.nodes[TWO_PATHS].clone();
    let [way, other_way] = &ways[..] else { panic!("{:?}", bench.nodes) };
    let variables = [
        ("IMAGE", "IMAGE"),
        ("MDA", "MD-A"),
        ("MDB", "MD-B"),
        ("SPAN", "SPAN"),
        ("LUKS", "LUKS"),
        ("MOUNTED", "MOUNTED"),
        ("STICK", STICK),
        ("WAY1", TWO_PATHS),
    ];
    let variables: String = variables.map(|(name, serial)| format!("{name}={}\n", bench.node(serial))).concat();
    bench.facts.run(&format!("{variables}{SETUP}"));
    bench.assert_unchanged(&[], "nothing");
    println!("dirty disks: ready after {:.1} s", began.elapsed().as_secs_f64());

    // Devices of an earlier life that are up: a volume over an array and another disk,
    // and a thin pool on the array, which writes its metadata when it is taken down.
    let node = bench.node("MD-A");
    let (done, said) = bench.row(&[], &format!("landfall install -f /run/image --insecure {node}"));
    assert!(!done && said.contains(&format!("landfall wipe --release {node}")), "{said}");
    let said = bench.installed("LVM and a thin pool over RAID 1 and another disk", "MD-A", &node);
    for step in
        ["vg-pool_tdata", "vg-pool_tmeta", "vg-thin", "(vg-both), LVM volume, also on ", "md127, RAID array, also on "]
    {
        assert!(said.contains(step), "{step}: {said}");
    }
    let node = bench.node("LUKS");
    let said = bench.installed("LUKS, opened", "LUKS", &node);
    assert!(said.contains("luks-data"), "{said}");

    let (asked, other) = (bench.node("ZFS"), bench.node("CEPH"));
    let step = format!("LANDFALL_STEP_TYPE=install LANDFALL_STEP_TARGETS={asked}");
    let (done, said) = bench.row(&[], &format!("{step} landfall install -f /run/image --insecure {other}"));
    assert!(!done && said.contains("Permission denied"), "an installation wrote to another disk: {said}");

    // What is only known by its signatures.
    for (state, serial) in [("member of a ZFS pool", "ZFS"), ("Ceph OSD", "CEPH"), ("an older CoreOS", "COREOS")] {
        let node = bench.node(serial);
        let said = bench.installed(state, serial, &node);
        let other = bench.node("OTHER-BOOT");
        assert!(said.contains("a file system labelled 'boot' too") && said.contains(&other), "{said}");
    }
    println!("dirty disk: a second disk with a file system 'boot' | as above | warned of {}", bench.node("OTHER-BOOT"));

    // One disk, two ways.
    let (_, said) = bench.row(&[], &format!("landfall install --dry-run -f /run/image --insecure {way}"));
    assert!(said.contains("has the same WWN as"), "{said}");
    bench.installed("two paths without a multipath device (warned)", TWO_PATHS, way);
    bench.facts.run(&format!(
        "export DM_DISABLE_UDEV=1; read start size </run/size
         dmsetup create mpatha -u mpath-35000c5000000cafe \
             --table \"0 $size multipath 0 0 1 1 round-robin 0 2 1 {way} 1000 {other_way} 1000\"
         dmsetup create mpatha3 -u part3-mpath-35000c5000000cafe --table '0 4096 linear /dev/mapper/mpatha 8192'
         dmsetup create vg-old -u LVM-old --table '0 2048 linear /dev/mapper/mpatha3 0'"
    ));
    bench.refused(
        "one path of a multipath device",
        way,
        "is one path of the multipath device mpatha: use /dev/mapper/mpatha",
    );
    bench.installed("a multipath device with a volume on its partition", TWO_PATHS, "/dev/mapper/mpatha");
    bench.facts.run("dmsetup info mpatha; ! dmsetup info vg-old");

    // In use.
    let (node, name) = (bench.node("MOUNTED"), bench.name("MOUNTED").to_owned());
    bench.refused("a mounted partition", &node, &format!("{name}3 is mounted on /mnt"));
    let (node, name) = (bench.node(STICK), bench.name(STICK).to_owned());
    bench.refused(
        "the USB stick we booted from",
        &node,
        &format!("{name} is mounted on /run/media/iso: this is the disk or USB stick that this system was booted from"),
    );

    gone(&mut bench, &mut vm);
    println!("dirty disks: {:.1} s", began.elapsed().as_secs_f64());
}

/// The disk is pulled while the image is written to it.
fn gone(bench: &mut Bench, vm: &mut Vm) {
    let (node, name) = (bench.node(GONE), bench.name(GONE).to_owned());
    bench.facts.run(&format!(
        "( landfall install -f /run/image --insecure {node} >/run/said 2>&1 || echo $? >/run/code ) >/dev/null 2>&1 &
         until [ \"$(awk '{{ print $7 }}' /sys/block/{name}/stat)\" -gt 0 ]; do usleep 20000; done"
    ));
    let pulled = Instant::now();
    vm.execute("device_del", json!({ "id": GONE })).unwrap();
    let seconds = GONE_LIMIT.as_secs();
    let said = bench.facts.text(&format!(
        "for i in $(seq {}); do [ ! -e /run/code ] || break; usleep 200000; done
         [ -e /run/code ] || echo STILL RUNNING
         [ ! -e /sys/block/{name} ] || echo STILL THERE
         cat /run/code /run/said",
        seconds * 5
    ));
    let took = pulled.elapsed();
    assert!(said.starts_with("1\n") && said.contains("the disk is gone") && !said.contains("STILL"), "{said}");
    bench.assert_unchanged(&[GONE], "pulling it");
    let error = said.lines().last().unwrap_or_default();
    println!("dirty disk: pulled in mid-write | {:.1} s until the end | failed: {error}", took.as_secs_f64());
}
