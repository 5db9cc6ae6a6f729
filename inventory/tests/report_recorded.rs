//! Reports of machines recorded by others: they report what lscpu reports, and what their makers say.

#![allow(clippy::unwrap_used)]

use inventory::{
    Root,
    report::{Report, collect},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A recorded tree, unpacked until dropped.
struct Recorded(tempfile::TempDir);

impl Recorded {
    fn unpack(archive: &str) -> Option<Self> {
        let archive = testkit::recordings::path(&format!("data/{archive}"))?;
        let dir = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(dir.path()).status().unwrap();
        assert!(unpacked.success());
        Some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn report(&self) -> Report {
        report(self.path())
    }
}

fn report(path: impl Into<PathBuf>) -> Report {
    let path = path.into();
    let report = collect(&Root::open(&path).unwrap());
    let again = collect(&Root::open(&path).unwrap());
    // But for what is measured.
    if path != Path::new("/") {
        assert_eq!(serde_json::to_string(&report).unwrap(), serde_json::to_string(&again).unwrap());
    }
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    report
}

/// What lscpu prints; `None` when it can't be run here.
fn lscpu(root: &Path, options: &[&str]) -> Option<String> {
    let found = Command::new("lscpu").arg("-s").arg(root).args(options).env("LC_ALL", "C").output();
    match found {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => panic!("lscpu: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            testkit::skip::because(format_args!("lscpu: {error}"));
            None
        }
    }
}

/// Compares CPUs, cores, packages and nodes, each cache, and the words of the summary.
fn agrees_with_lscpu(root: &Path, report: &Report) {
    let Some(table) = lscpu(root, &["-p=CPU,CORE,SOCKET,NODE"]) else { return };
    let found = &report.processors;
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect()).collect();
    let count = |column: usize| rows.iter().map(|row| row[column]).collect::<BTreeSet<_>>().len();
    let counted = [found.threads, found.cores].map(|count| usize::try_from(count.unwrap()).unwrap());
    assert_eq!(counted, [count(0), count(1)]);
    assert_eq!(found.packages.len(), count(2));
    let nodes = found.numa_nodes.iter().filter(|node| node.cpus.as_deref() != Some("")).count();
    assert_eq!(nodes.max(1), count(3));

    let caches: Value = serde_json::from_str(&lscpu(root, &["-C", "-B", "-J"]).unwrap()).unwrap();
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let mut printed: BTreeMap<&str, u64> = BTreeMap::new();
    for cache in caches["caches"].as_array().unwrap() {
        printed.insert(cache["name"].as_str().unwrap(), number(&cache["all-size"]).unwrap());
        let same = found.caches.iter().any(|own| {
            let same_lines = own.line_bytes.map(u64::from) == number(&cache["coherency-size"]);
            own.size_bytes == number(&cache["one-size"])
                && own.ways.map(u64::from) == number(&cache["ways"])
                && Some(u64::from(own.level)) == number(&cache["level"])
                && same_lines
        });
        assert!(same, "{cache}");
    }
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for cache in &found.caches {
        *own.entry(&cache.name).or_default() += cache.size_bytes.unwrap() * u64::from(cache.instances);
    }
    assert_eq!(own, printed);

    let summary: Value = serde_json::from_str(&lscpu(root, &["-J"]).unwrap()).unwrap();
    let summary = summary["lscpu"].as_array().unwrap();
    let word = |name: &str| {
        summary.iter().find(|line| line["field"].as_str() == Some(name)).and_then(|line| line["data"].as_str())
    };
    let package = &found.packages[0];
    let text = |number: Option<u32>| number.map(|number| number.to_string());
    assert_eq!(package.vendor_id.as_deref(), word("Vendor ID:"));
    assert_eq!(package.model_name.as_deref(), word("Model name:"));
    assert_eq!(text(package.family).as_deref(), word("CPU family:"));
    assert_eq!(text(package.model).as_deref(), word("Model:"));
    assert_eq!(text(package.stepping).as_deref(), word("Stepping:"));
    let flags: BTreeSet<&str> = word("Flags:").unwrap().split(' ').collect();
    assert_eq!(found.flags.iter().map(String::as_str).collect::<BTreeSet<_>>(), flags);
    assert_eq!(
        found.virtualization.as_deref(),
        word("Virtualization:").map(|name| if name == "AMD-V" { "svm" } else { "vmx" })
    );
    let bits = found.physical_address_bits.zip(found.virtual_address_bits);
    let bits = bits.map(|(physical, virtual_)| format!("{physical} bits physical, {virtual_} bits virtual"));
    assert_eq!(bits.as_deref(), word("Address sizes:"));
}

/// lscpu asks for a file that this recording lacks.
fn add_possible(machine: &Recorded, list: &str) {
    fs::write(machine.path().join("sys/devices/system/cpu/possible"), format!("{list}\n")).unwrap();
}

#[test]
fn a_ryzen_desktop() {
    let Some(machine) = Recorded::unpack("machines/amd-ryzen-1600.tar.gz") else { return };
    add_possible(&machine, "0-11");
    let found = machine.report();
    agrees_with_lscpu(machine.path(), &found);
    let processors = &found.processors;
    let package = &processors.packages[0];
    assert_eq!((package.cores, package.threads, package.dies), (6, 12, Some(1)));
    assert_eq!((package.microcode.as_slice(), package.cpus.as_str()), (&["0x8001138".to_owned()][..], "0-11"));
    // Two complexes of three cores, of four that were made.
    let last = processors.caches.last().unwrap();
    assert_eq!((last.name.as_str(), last.size_bytes, last.instances), ("L3", Some(8 << 20), 2));
    assert_eq!(last.shared_by, ["0-2,6-8", "3-5,9-11"]);
    assert_eq!(found.memory.usable_bytes, Some(32_777_916 * 1024));
    assert_eq!(found.pci.len(), 43);
    let by_address = |address: &str| found.pci.iter().find(|function| function.address == address).unwrap();
    let gpu = by_address("0000:0a:00.0");
    assert_eq!((gpu.vendor_id.as_str(), gpu.device_id.as_str()), ("1002", "6758"));
    assert_eq!((gpu.class.as_deref(), gpu.link.as_ref()), (Some("VGA compatible controller"), None));
    assert_eq!(gpu.parent.as_deref(), Some("0000:00:03.1"));
    // Behind the chipset: its port, its switch, then the card.
    assert_eq!(by_address("0000:03:00.0").parent.as_deref(), Some("0000:02:00.0"));
    assert_eq!(by_address("0000:02:00.0").parent.as_deref(), Some("0000:01:00.2"));
    // Nothing of these was recorded, so nothing is said.
    assert_eq!((found.firmware.boot_mode.as_ref(), found.security.iommu.groups), (None, None));
    assert_eq!((found.health, found.kernel.release), (Default::default(), None));
}

#[test]
fn a_machine_with_an_accelerator() {
    let Some(machine) = Recorded::unpack("machines/nvidia-accelerator.tar.gz") else { return };
    add_possible(&machine, "0-7");
    let found = machine.report();
    agrees_with_lscpu(machine.path(), &found);
    assert_eq!(found.processors.numa_nodes[0].memory_bytes, Some(30_601_816 * 1024));
    assert_eq!(found.system.is_virtual, Some(true));
    let accelerator = found.pci.iter().find(|function| function.vendor_id == "10de").unwrap();
    assert_eq!((accelerator.device_id.as_str(), accelerator.class.as_deref()), ("15f8", Some("3D controller")));
    assert_eq!(accelerator.subsystem_device_id.as_deref(), Some("118f"));
    assert_eq!(accelerator.revision.as_deref(), Some("a1"));
}

#[test]
fn offline_processors_are_no_cores() {
    let Some(machine) = Recorded::unpack("machines/offline-cpus.tar.gz") else { return };
    let found = machine.report();
    agrees_with_lscpu(machine.path(), &found);
    let processors = &found.processors;
    let lists = [&processors.present, &processors.online, &processors.offline, &processors.isolated];
    assert_eq!(lists.map(Option::as_deref), [Some("0-3"), Some("0-1"), Some("2-3"), Some("")]);
    assert_eq!((processors.smt_active, processors.smt_control.as_deref()), (Some(false), Some("notsupported")));
    assert_eq!(processors.vulnerabilities["meltdown"], "Mitigation: PTI");
    assert_eq!(processors.vulnerabilities.len(), 13);
    // None of its sizes has a page set aside.
    assert!(processors.numa_nodes[0].huge_pages.is_empty());
}

#[test]
fn this_machine() {
    let found = report("/");
    agrees_with_lscpu(Path::new("/"), &found);
}

#[test]
fn the_firmware_of_a_small_desktop() {
    let Some(table) = testkit::recordings::path("data/smbios/minisforum-um790pro.dmi") else { return };
    let tree = testkit::tree::Tree::empty();
    tree.add("sys/firmware/dmi/tables/DMI", fs::read(table).unwrap());
    let found = report(tree.path());
    let product = found.system.product.unwrap();
    assert_eq!(product.product_name.as_deref(), Some("Venus series"));
    assert_eq!((found.system.is_virtual, found.system.baseboards.len()), (Some(false), 1));
    let memory = &found.memory;
    assert_eq!((memory.installed_bytes, memory.maximum_capacity_bytes), (Some(64 << 30), Some(64 << 30)));
    assert_eq!((memory.populated_sockets, memory.empty_sockets, memory.ecc), (Some(2), Some(0), Some(false)));
    assert_eq!((memory.mismatches.len(), memory.below_rated_speed.len()), (0, 0));
    assert_eq!(memory.devices[1].bank_locator.as_deref(), Some("P0 CHANNEL B"));
    assert_eq!((found.processors.sockets.len(), found.slots.len(), found.onboard_devices.len()), (1, 5, 2));
    assert!(found.slots.iter().all(|slot| slot.functions.is_empty()));

    // This firmware names the port above a slot. With a disk in it:
    let port = "sys/devices/pci0000:00/0000:00:02.4";
    let disk = format!("{port}/0000:03:00.0");
    tree.add(&format!("{port}/modalias"), "pci:v00001022d000014EEsv00001022sd00001453bc06sc04i00\n");
    tree.add(&format!("{disk}/modalias"), "pci:v0000144Dd0000A80Csv0000144Dsd0000A801bc01sc08i02\n");
    for (dir, speed, width) in [(port, "16.0 GT/s PCIe", "4"), (&disk, "16.0 GT/s PCIe", "4")] {
        tree.add(&format!("{dir}/max_link_speed"), speed);
        tree.add(&format!("{dir}/max_link_width"), width);
        tree.add(&format!("{dir}/current_link_speed"), "16.0 GT/s PCIe");
        tree.add(&format!("{dir}/current_link_width"), "2");
        tree.link(&format!("sys/bus/pci/devices/{}", &dir[dir.len() - 12..]), &format!("/{dir}"));
    }
    let found = report(tree.path());
    assert_eq!(found.slots[3].functions, ["0000:03:00.0"]);
    let link = found.pci[1].link.as_ref().unwrap();
    assert_eq!((link.degraded, link.width_lanes), (Some(true), Some(2)));
}
