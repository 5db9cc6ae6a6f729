//! What only a real kernel's disks show: those that erase themselves, and volumes of an earlier life that are up.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::Facts;
use qemu_tests::{
    images::Drivers,
    media, paths,
    vm::{Bus, Disk, Vm, with_path},
};
use serde_json::{Value, json};
use std::{fs::File, path::Path, time::Instant};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 64 * MIB;
/// 256 samples of 4 KiB.
const SAMPLED_BYTES: u64 = MIB;

fn disk(dir: &Path, serial: &str, bus: Bus) -> Disk {
    Disk { path: dir.join(serial), size_bytes: DISK_BYTES, serial: serial.to_owned(), sector_bytes: 512, bus }
}

/// The node of the disk with this serial number.
fn node(facts: &mut Facts, serial: &str) -> String {
    let inventory = facts.inventory();
    let disks = inventory["disks"].as_array().unwrap();
    let found = disks.iter().find(|disk| disk["serial"] == serial).unwrap_or_else(|| panic!("{disks:#?}"));
    found["path"].as_str().unwrap().to_owned()
}

/// Noise, with a file system at its start.
fn fill(facts: &mut Facts, node: &str) {
    facts.run(&format!("dd if=/dev/urandom of={node} bs=1M count=64 conv=fsync; mke2fs -F {node}; sync"));
}

fn sum(facts: &mut Facts, node: &str) -> String {
    facts.text(&format!("echo 3 >/proc/sys/vm/drop_caches; md5sum <{node}"))
}

fn assert_zero(facts: &mut Facts, node: &str) {
    let left = facts.text(&format!("echo 3 >/proc/sys/vm/drop_caches; tr -d '\\0' <{node} | wc -c"));
    assert_eq!(left.trim(), "0", "{node} is not zero");
}

/// The report of a wipe that succeeds.
fn wipe(facts: &mut Facts, arguments: &str) -> Value {
    let wiped: Value = serde_json::from_slice(&facts.run(&format!("landfall wipe --json {arguments}"))).unwrap();
    assert_eq!(wiped["disk"]["size_bytes"], DISK_BYTES);
    wiped["rungs"].clone()
}

/// What a command that must fail says.
fn failure(facts: &mut Facts, command: &str) -> String {
    facts.text(&format!("if {command} 2>&1; then echo IT SUCCEEDED; fi"))
}

#[test]
fn a_disk_erases_itself_or_says_that_it_cannot() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    for namespace in [&first, &second] {
        File::create(namespace).unwrap().set_len(DISK_BYTES).unwrap();
    }
    let mut vm = Vm::builder("disks", "erase")
        .kernel(media::shell_system(Drivers::Full).unwrap())
        .shell()
        .disk(disk(dir.path(), "ALONE", Bus::Nvme))
        .disk(disk(dir.path(), "PLAIN-ATA", Bus::Sata))
        .disk(disk(dir.path(), "PLAIN-VIRTIO", Bus::Virtio))
        // A controller with two namespaces.
        .with("-drive", with_path("if=none,id=first,format=raw,file=", &first, ""))
        .with("-drive", with_path("if=none,id=second,format=raw,file=", &second, ""))
        .with("-device", "nvme,id=both,serial=BOTH")
        .with("-device", "nvme-ns,bus=both,nsid=1,drive=first")
        .with("-device", "nvme-ns,bus=both,nsid=2,drive=second")
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    let [alone, ata, virtio] = ["ALONE", "PLAIN-ATA", "PLAIN-VIRTIO"].map(|serial| node(&mut facts, serial));

    fill(&mut facts, &alone);
    let found = json!([
        {
            "level": "secure", "outcome": "done", "bytes": DISK_BYTES, "verified_bytes": SAMPLED_BYTES,
            "how": "NVMe Format NVM, user data erase",
        },
        {"level": "signatures", "outcome": "done", "bytes": 0, "verified_bytes": 0},
    ]);
    assert_eq!(wipe(&mut facts, &format!("--level secure {alone}")), found);
    assert_zero(&mut facts, &alone);

    // The other namespace must not be touched.
    // Not the paths to them, which have no nodes.
    let both = facts.text("cd /sys/block; grep -l BOTH nvme*/device/serial | sed 's,/.*,,' | grep -v c");
    let both: Vec<String> = both.lines().map(|name| format!("/dev/{name}")).collect();
    assert_eq!(both.len(), 2, "{both:?}");
    both.iter().for_each(|node| fill(&mut facts, node));
    let spared = sum(&mut facts, &both[1]);
    let rungs = wipe(&mut facts, &format!("--level secure {}", both[0]));
    assert_eq!(rungs[0]["how"], "NVMe Format NVM, user data erase");
    assert_zero(&mut facts, &both[0]);
    assert_eq!(sum(&mut facts, &both[1]), spared);

    for (node, reason) in
        [(&ata, "the disk has no ATA security feature set"), (&virtio, " is neither an NVMe nor an ATA disk")]
    {
        fill(&mut facts, node);
        let before = sum(&mut facts, node);
        let said = failure(&mut facts, &format!("landfall wipe --level secure {node}"));
        assert!(said.contains("does not support level 'secure'") && said.contains(reason), "{said}");
        assert_eq!(sum(&mut facts, node), before, "a refused wipe wrote to {node}");
        let rungs = wipe(&mut facts, &format!("--level secure --allow-weaker {node}"));
        assert_eq!(rungs[0]["outcome"], "refused");
        assert!(rungs[0]["reason"].as_str().unwrap().contains(reason), "{rungs}");
        assert_eq!((&rungs[1]["level"], &rungs[1]["outcome"]), (&json!("zero"), &json!("done")));
        assert_zero(&mut facts, node);
    }
    println!("disks, erasing themselves: {:.1} s", began.elapsed().as_secs_f64());
}

/// The service wants a disk measured that still carries an array; an unused one does not matter.
#[test]
fn a_disk_under_an_idle_array_is_measured_and_one_in_use_is_not() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let mut vm = Vm::builder("disks", "array")
        .kernel(media::shell_system(Drivers::Cloud).unwrap())
        .shell()
        .disk(disk(dir.path(), "HALF-1", Bus::Virtio))
        .disk(disk(dir.path(), "HALF-2", Bus::Virtio))
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    let half = node(&mut facts, "HALF-1");
    facts.make_mirror();
    let before = sum(&mut facts, &half);
    let measure = format!("landfall disk speed --json --size 256KiB {half}");
    let speed: Value = serde_json::from_slice(&facts.run(&measure)).unwrap();
    assert_eq!((&speed["contents"], &speed["failed_writers"]), (&json!("restored"), &json!(0)));
    assert_eq!(sum(&mut facts, &half), before);
    // To be written over it must be free.
    let said = failure(&mut facts, &format!("landfall wipe {half}"));
    assert!(said.contains("is in use by md127"), "{said}");
    // Not even a mount that writes nothing goes with it.
    facts.run("mount -t ext4 -o ro /dev/md127 /mnt");
    let said = failure(&mut facts, &measure);
    assert!(said.contains("is in use by md127"), "{said}");
    assert_eq!(sum(&mut facts, &half), before);
    println!("disks, under an array: {:.1} s", began.elapsed().as_secs_f64());
}
