//! The boot entries of real UEFI firmware, before and after an installation. That the machine then starts its disk although the
//! ISO is first, install_single shows, where the firmware puts the ISO first at every start.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::Facts;
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths,
    vm::{Bus, Disk, Firmware, Vm},
};
use serde_json::Value;
use std::{fs, time::Instant};

fn entries(facts: &mut Facts) -> Value {
    serde_json::from_slice(&facts.run("landfall boot-order show --json")).unwrap()
}

/// Entries with the label of the installed system.
fn ours(shown: &Value) -> Vec<&Value> {
    let all = shown["entries"].as_array().unwrap();
    all.iter().filter(|entry| entry["label"] == "Red Hat Enterprise Linux").collect()
}

#[test]
fn an_installed_disk_has_one_entry_that_is_first_and_next() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let image = media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud).unwrap();
    let path = dir.path().join("disk");
    fs::copy(image, &path).unwrap();
    let disk = Disk { path, size_bytes: 0, serial: "INSTALLED".into(), sector_bytes: 512, bus: Bus::Virtio };
    let mut vm = Vm::builder("boot-order", "entries")
        .firmware(Firmware::Uefi)
        .memory_mib(768)
        .kernel(media::shell_system(Drivers::Cloud).unwrap())
        .shell()
        .disk(disk)
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    let show = |facts: &mut Facts| facts.text("landfall boot-order show");
    println!("before:\n{}", show(&mut facts));
    let before = entries(&mut facts);
    assert_eq!((&before["firmware"], ours(&before).len()), (&"uefi".into(), 0));

    let device = "/dev/disk/by-id/virtio-INSTALLED";
    let planned = facts.text(&format!("landfall boot-order set --dry-run {device}"));
    assert_eq!(entries(&mut facts), before, "{planned}");
    println!("{planned}{}", facts.text(&format!("landfall boot-order set {device} 2>&1")));
    println!("after:\n{}", show(&mut facts));
    let after = entries(&mut facts);
    let [own] = ours(&after)[..] else { panic!("{after:#}") };
    assert_eq!((&after["order"][0], &after["next"]), (&own["number"], &own["number"]));
    let path = own["path"].as_str().unwrap();
    assert!(path.starts_with("HD(2,GPT,") && path.ends_with(r"/\EFI\redhat\shimx64.efi"), "{path}");
    let rest = |shown: &Value| {
        let order = shown["order"].as_array().unwrap();
        order.iter().filter(|number| **number != own["number"]).cloned().collect::<Vec<_>>()
    };
    assert_eq!(rest(&after), rest(&before));

    let again = facts.text(&format!("landfall boot-order set {device}"));
    assert!(again.ends_with("everything was already set\n"), "{again}");

    // The entry of a system that is gone, and one that is not ours.
    let own = own["number"].as_str().unwrap();
    facts.run(&format!(
        "cd /sys/firmware/efi/efivars; global=8be4df61-93ca-11d2-aa0d-00e098032b8c
         cat Boot{own}-$global >/run/gone; printf gone | dd of=/run/gone bs=1 seek=84 conv=notrunc; cat /run/gone >Boot0077-$global
         printf '\\7\\0\\0\\0\\1\\0\\0\\0\\4\\0P\\0X\\0E\\0\\0\\0\\177\\377\\4\\0' >/run/pxe; cat /run/pxe >Boot0078-$global"
    ));
    let crowded = entries(&mut facts);
    assert_eq!(ours(&crowded).len(), 2, "{crowded:#}");
    let tidied = facts.text(&format!("landfall boot-order set {device}"));
    assert!(tidied.ends_with("delete Boot0077 Red Hat Enterprise Linux\n"), "{tidied}");
    let tidy = entries(&mut facts);
    assert_eq!((ours(&tidy).len(), &tidy["order"]), (1, &after["order"]));
    assert!(tidy["entries"].as_array().unwrap().iter().any(|entry| entry["label"] == "PXE"), "{tidy:#}");
    println!("boot-order: {:.1} s", began.elapsed().as_secs_f64());
}
