//! The inventory of a machine with everything QEMU emulates, field by field against QEMU's command line.
//!
//! `LANDFALL_KEEP_CAPTURES=DIR` stores the captures made of the machines.

#![allow(clippy::unwrap_used)]

mod devices;
use crate::facts;
mod ipmi;
mod machine;
mod odd;
mod report;
mod tools;

use facts::Facts;
use machine::{INTERFACES, MIB, PARTITIONED_SERIAL, TWO_PATHS_SERIAL, smbios};
use qemu_tests::{
    images::Drivers,
    media, paths,
    vm::{Bus, Disk, Vm},
};
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn every_value_on_qemus_command_line_is_in_the_inventory() {
    let began = Instant::now();
    let (parts, mut vm) = machine::start("bios");
    let mut facts = Facts::ask(&mut vm);
    println!("hardware: the shell is ready after {:.1} s", began.elapsed().as_secs_f64());

    facts.run("for port in /sys/class/net/eth*; do ip link set ${port##*/} up; done");
    facts.until(|inventory| have_carrier(inventory, true).then_some(()));
    let inventory = facts.stable_inventory();
    the_whole_machine(&mut facts, &inventory, &parts.kernel.arguments);
    every_disk(&mut facts, &inventory);
    every_interface(&mut facts, &inventory);
    println!("hardware: the inventory compared after {:.1} s", began.elapsed().as_secs_f64());

    report::every_value(&mut facts, &inventory);
    println!("hardware: the report compared after {:.1} s", began.elapsed().as_secs_f64());
    let report = facts.report();
    tools::every_fact(&mut facts, &report);
    println!("hardware: other programs' facts compared after {:.1} s", began.elapsed().as_secs_f64());
    facts.replays("hardware-bios", &["inventory", "report --json"]);
    addresses_and_routes(&mut facts);
    links_that_are_down(&mut facts, &mut vm);
    vlan_bond_and_bridge(&mut facts);
    facts.replays("hardware-vlan-bond-bridge", &["inventory"]);
    mounted_disks(&mut facts);
    report::virtual_functions(&mut facts);
    println!("hardware: addresses, links and mounts after {:.1} s", began.elapsed().as_secs_f64());
    facts.all_as_expected();
    println!("hardware: {:.1} s", began.elapsed().as_secs_f64());
}

/// The disk's reads never return; the program must, and with it the process that waits for its end.
#[test]
fn a_disk_that_hangs_costs_no_other_fact() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let disk = |serial: &str| Disk {
        path: dir.path().join(serial),
        size_bytes: 64 * MIB,
        serial: serial.to_owned(),
        sector_bytes: 512,
        bus: Bus::Virtio,
    };
    let mut vm = Vm::builder("hardware", "hanging-disk")
        .kernel(media::shell_system(Drivers::Cloud).unwrap())
        .shell()
        .disk(disk("FINE-1"))
        .disk(disk("HANGING"))
        .disk(disk("FINE-2"))
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    let before = facts.inventory();
    // The limits of the second disk: one byte a second, of which the first read uses up three days' worth. After that no
    // process has the disk open, and its sectors are not in memory.
    let limits = ["bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr"].map(|name| (name.to_owned(), json!(0)));
    let mut limits: serde_json::Map<String, Value> = limits.into_iter().collect();
    limits.extend([("device".to_owned(), json!("disk1")), ("bps".to_owned(), json!(1))]);
    vm.execute("block_set_io_throttle", Value::Object(limits)).unwrap();
    facts.run("echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/disk/by-id/virtio-HANGING of=/dev/null bs=256k count=1 iflag=direct");
    let after = facts.inventory();
    facts.compare("with a disk that hangs, the inventory", &after, &before);
    facts.all_as_expected();
    println!("hardware, a disk that hangs: {:.1} s", began.elapsed().as_secs_f64());
}

/// All but disks, interfaces and routes.
fn the_whole_machine(facts: &mut Facts, inventory: &Value, arguments: &str) {
    let mut rest = inventory.clone();
    for list in ["disks", "interfaces", "routes"] {
        assert!(rest.as_object_mut().unwrap().remove(list).unwrap().is_array(), "{list}");
    }
    let (bmc, cpuinfo) = (machine::bmc(), facts.text("cat /proc/cpuinfo"));
    let of_cpu = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().unwrap().trim() == key).unwrap();
        line.split_once(':').unwrap().1.trim().to_owned()
    };
    let flags: Vec<String> = of_cpu("flags").split(' ').map(str::to_owned).collect();
    assert!(!flags.contains(&machine::FLAG_OFF.to_owned()));
    // QEMU's command line does not set the processor's own clock.
    let frequency = rest["cpu"]["frequency"].take().as_f64().unwrap();
    assert!(
        cpuinfo.lines().any(|line| line.starts_with("cpu MHz") && line.ends_with(&format!(": {frequency:.3}"))),
        "{frequency}"
    );
    let meminfo = facts.text("grep MemTotal /proc/meminfo");
    let usable_kib: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    facts.compare(
        "inventory",
        &rest,
        &json!({
            "bmc_address": bmc.ipv4.0.to_string(),
            "bmc_v6address": bmc.ipv6_dynamic.unwrap().0.to_string(),
            "boot": {
                "command_line": format!("{arguments}\n"),
                "current_boot_mode": "bios",
                "pxe_interface": machine::BOOT_MAC,
                "secure_boot_state": "NotSupported",
            },
            "cpu": {
                "architecture": "x86_64",
                "count": 2,
                "flags": flags,
                "frequency": null,
                "model_name": machine::PROCESSOR,
            },
            "gpus": [],
            "hostname": "shell",
            "memory": {
                "physical_bytes": u64::from(machine::MEMORY_MIB) * MIB,
                "physical_bytes_method": "dmidecode",
                "usable_bytes": usable_kib * 1024,
            },
            "system_vendor": {
                "manufacturer": smbios(1, "manufacturer"),
                "product_name": smbios(1, "product"),
                "serial_number": smbios(1, "serial"),
                "virtual": true,
            },
            "tpm_version": "2.0",
        }),
    );
    // MD5 of the board's serial number.
    let id = facts.text(&format!(
        r"printf %s {} | md5sum | sed 's/ .*//; s/\(.\{{8\}}\)\(....\)\(....\)\(....\)/\1-\2-\3-\4-/'",
        smbios(2, "serial")
    ));
    assert_eq!(facts.text("landfall inventory --host-id"), format!("{} board-serial\n", id.trim()));
}

fn every_disk(facts: &mut Facts, inventory: &Value) {
    let found = inventory["disks"].as_array().unwrap();
    let mut links = Vec::new();
    for disk in machine::disks() {
        let path = &disk.inventory["by_path"];
        let mut found =
            found.iter().find(|found| found["by_path"] == *path).unwrap_or_else(|| panic!("no {path}")).clone();
        let mut expected = disk.inventory.clone();
        if disk.serial == TWO_PATHS_SERIAL {
            // udev's link leads to the path that was found last.
            links.extend(found.get("by_id").cloned());
            expected.as_object_mut().unwrap().extend(found.get("by_id").map(|link| ("by_id".to_owned(), link.clone())));
        }
        expected["id"] = expected.get("by_id").unwrap_or(path).clone();
        expected["serial"] = disk.serial.into();
        expected["size_bytes"] = (disk.mib * MIB).into();
        expected["installation_eligibility"] = json!({"eligible": true, "not_eligible_reasons": null});
        expected["path"] = format!("/dev/{}", found["name"].as_str().unwrap()).into();
        found.as_object_mut().unwrap().remove("name");
        // Adapters are numbered as their drivers come up.
        if let Some((_, behind)) = found["hctl"].as_str().and_then(|hctl| hctl.split_once(':')) {
            found["hctl"] = behind.into();
        }
        facts.compare(disk.serial, &found, &expected);
    }
    assert_eq!(links, ["/dev/disk/by-id/wwn-0x5000c5000000cafe"]);
    let names: Vec<&str> = found.iter().map(|disk| disk["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), machine::disks().len(), "{names:?}");
    assert!(names.is_sorted(), "{names:?}");
}

fn every_interface(facts: &mut Facts, inventory: &Value) {
    for (_, interface) in machine::interfaces() {
        let mut found = by_mac(inventory, interface.mac).clone();
        assert!(found.as_object_mut().unwrap().remove("name").is_some());
        facts.compare(
            interface.device,
            &found,
            &json!({
                "flags": ["up", "broadcast", "multicast", "running"],
                "has_carrier": true,
                "ipv4_addresses": [],
                "ipv6_addresses": [],
                "mac_address": interface.mac,
                "mtu": 1500,
                "product": interface.product,
                "speed_mbps": interface.speed_mbps,
                "type": "physical",
                "vendor": interface.vendor,
            }),
        );
    }
    assert_eq!(
        inventory["interfaces"][0],
        json!({
            "flags": ["up", "loopback", "running"],
            "has_carrier": true,
            "ipv4_addresses": ["127.0.0.1/8"],
            "ipv6_addresses": ["::1/128"],
            "mtu": 65536,
            "name": "lo",
            "type": "device",
        })
    );
    assert_eq!(inventory["interfaces"].as_array().unwrap().len(), 1 + machine::interfaces().count());
}

fn addresses_and_routes(facts: &mut Facts) {
    let name = facts.interface(INTERFACES[0].mac);
    facts.run(&format!(
        "ip link set {name} mtu 1400
         ip addr add 192.0.2.10/24 dev {name}
         ip addr add 169.254.7.7/16 dev {name}
         ip -6 addr add 2001:db8:a::10/64 dev {name}
         ip route add default via 192.0.2.1 dev {name} metric 100
         ip route add 198.51.100.0/24 via 192.0.2.2 dev {name}
         ip route add blackhole 203.0.113.0/24
         ip -6 route add default via 2001:db8:a::1 dev {name} metric 50"
    ));
    let inventory = facts.inventory();
    let found = by_mac(&inventory, INTERFACES[0].mac);
    assert_eq!(found["ipv4_addresses"], json!(["192.0.2.10/24"]), "link-local ones are left out");
    assert_eq!(found["ipv6_addresses"], json!(["2001:db8:a::10/64"]));
    assert_eq!(found["mtu"], 1400);
    let routes = inventory["routes"].as_array().unwrap();
    let of_family = |family| routes.iter().filter(move |route| route["family"] == family).cloned().collect::<Vec<_>>();
    assert_eq!(
        of_family(2),
        [
            json!({"interface": name, "destination": "0.0.0.0", "gateway": "192.0.2.1", "family": 2, "metric": 100}),
            json!({"interface": name, "destination": "169.254.0.0", "family": 2}),
            json!({"interface": name, "destination": "192.0.2.0", "family": 2}),
            json!({"interface": name, "destination": "198.51.100.0", "gateway": "192.0.2.2", "family": 2}),
        ]
    );
    let of_ours: Vec<Value> = of_family(10)
        .into_iter()
        .filter(|route| route["interface"] == name && route["destination"] != "fe80::")
        .collect();
    assert_eq!(
        of_ours,
        [
            json!({"interface": name, "destination": "::", "gateway": "2001:db8:a::1", "family": 10, "metric": 50}),
            json!({"interface": name, "destination": "2001:db8:a::", "family": 10, "metric": 256}),
        ]
    );
}

fn links_that_are_down(facts: &mut Facts, vm: &mut Vm) {
    let mut cables = |plugged| machine::interfaces().for_each(|(index, _)| vm.set_link(index, plugged).unwrap());
    cables(false);
    let inventory = facts.until(|inventory| have_carrier(inventory, false).then(|| inventory.clone()));
    for (_, interface) in machine::interfaces() {
        let flags = &by_mac(&inventory, interface.mac)["flags"];
        facts.compare(
            &format!("{} without its cable: flags", interface.device),
            flags,
            &json!(["up", "broadcast", "multicast"]),
        );
    }
    cables(true);
    facts.until(|inventory| have_carrier(inventory, true).then_some(()));
}

fn vlan_bond_and_bridge(facts: &mut Facts) {
    let names = INTERFACES.each_ref().map(|interface| facts.try_interface(interface.mac));
    let [_, Some(tagged), Some(first), second, Some(port)] = &names else { panic!("{names:?}") };
    // An older QEMU has no fourth interface: then the bond has one port.
    let ports: Vec<&String> = [Some(first), second.as_ref()].into_iter().flatten().collect();
    facts.run(&format!(
        "ip link add link {tagged} name storage.42 type vlan id 42
         ip link set storage.42 up
         ip addr add 198.51.100.9/25 dev storage.42
         ip link add bond7 type bond
         echo active-backup >/sys/class/net/bond7/bonding/mode
         echo 100 >/sys/class/net/bond7/bonding/miimon
         ip link set bond7 address 02:00:00:00:00:77
         for port in {}; do ip link set $port down; ip link set $port master bond7; done
         ip link set bond7 up
         ip addr add 203.0.113.7/24 dev bond7
         ip link add br3 type bridge
         ip link set br3 address 02:00:00:00:00:33
         ip link set {port} master br3
         ip link set br3 up
         ip -6 addr add 2001:db8:b::3/64 dev br3",
        ports.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
    ));
    let inventory = facts.until(|inventory| {
        let is_up = |name| by_name(inventory, name)["has_carrier"] == true && is_running(by_name(inventory, name));
        // The bond is up with its first port; the other one's link takes its time.
        let all_up = have_carrier(inventory, true) && ["bond7", "br3", "storage.42"].into_iter().all(is_up);
        all_up.then(|| inventory.clone())
    });
    let mut expect = |name: &str, expected: Value| {
        for (key, value) in expected.as_object().unwrap() {
            facts.compare(&format!("{name}.{key}"), &by_name(&inventory, name)[key], value);
        }
    };
    expect(
        "storage.42",
        json!({"type": "vlan", "mac_address": INTERFACES[1].mac, "ipv4_addresses": ["198.51.100.9/25"], "speed_mbps": 1000}),
    );
    expect(
        "bond7",
        json!({"type": "bond", "mac_address": "02:00:00:00:00:77", "ipv4_addresses": ["203.0.113.7/24"], "speed_mbps": 1000}),
    );
    expect(
        "br3",
        json!({"type": "bridge", "mac_address": "02:00:00:00:00:33", "ipv6_addresses": ["2001:db8:b::3/64"]}),
    );
    for (name, interface) in ports.iter().zip(&INTERFACES[2..]) {
        expect(name, json!({"type": "physical", "mac_address": interface.mac}));
    }
    // That is the address they were made with; now they have the bond's.
    for name in ports {
        assert_eq!(facts.text(&format!("cat /sys/class/net/{name}/address")), "02:00:00:00:00:77\n");
    }
}

fn mounted_disks(facts: &mut Facts) {
    let name = facts.inventory()["disks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|disk| disk["serial"] == PARTITIONED_SERIAL)
        .unwrap()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut judged = |command: &str| {
        facts.run(command);
        let inventory = facts.inventory();
        let disk = inventory["disks"].as_array().unwrap().iter().find(|disk| disk["name"] == name).unwrap();
        assert_eq!(disk["installation_eligibility"]["eligible"].as_bool(), None);
        (disk["is_installation_media"] == true, disk["installation_eligibility"]["not_eligible_reasons"].clone())
    };
    assert_eq!(
        judged(&format!("mke2fs /dev/{name}1 && mount -t ext4 /dev/{name}1 /mnt")),
        (false, json!([format!("Disk has partition '{name}1' mounted on '/mnt'")]))
    );
    assert_eq!(
        judged(&format!("umount /mnt && mkdir -p /run/media/iso && mount -t ext4 /dev/{name}1 /run/media/iso")),
        (true, json!(["Disk appears to be an ISO installation media (has partition with mountpoint suffix iso)"]))
    );
    // A live root is an image on a loop device.
    facts.run("dd if=/dev/zero of=/run/image bs=1M count=4 2>/dev/null && mke2fs -F /run/image && mkdir /sysroot && mount -t ext4 -o loop /run/image /sysroot");
    assert_eq!(facts.inventory()["boot"]["device_type"], "ephemeral");
    facts.run(&format!("umount /sysroot && umount /run/media/iso && mount -t ext4 /dev/{name}1 /sysroot"));
    assert_eq!(facts.inventory()["boot"]["device_type"], "persistent");
}

/// Whether all interfaces have a carrier and run, or none does. The kernel tells the second up to a second after the first.
fn have_carrier(inventory: &Value, carrier: bool) -> bool {
    machine::interfaces().all(|(_, one)| {
        let found = by_mac(inventory, one.mac);
        (found["has_carrier"] == true) == carrier && is_running(found) == carrier
    })
}

fn is_running(interface: &Value) -> bool {
    interface["flags"].as_array().unwrap().iter().any(|flag| flag == "running")
}

fn by_mac<'a>(inventory: &'a Value, mac: &str) -> &'a Value {
    let all = inventory["interfaces"].as_array().unwrap();
    // A VLAN has its interface's address.
    all.iter()
        .find(|one| one["mac_address"] == mac && one["type"] == "physical")
        .unwrap_or_else(|| panic!("no {mac} in {all:#?}"))
}

fn by_name<'a>(inventory: &'a Value, name: &str) -> &'a Value {
    let all = inventory["interfaces"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {all:#?}"))
}
