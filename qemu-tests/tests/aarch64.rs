//! Machines of the processor aarch64: from a baked live ISO to an installed node, and what is reported of the machine;
//! the service and the tests themselves run on another. `make test-aarch64` builds the program for it.

#![allow(clippy::unwrap_used)]

use crate::common;

use crate::facts;

use common::{LIMIT, changes, check_efi_boot, finish_installation, ok, start_installation, turn};
use facts::Facts;
use qemu_tests::{
    arch::Arch,
    images::{Compression, Drivers, SectorSize, live_iso},
    media, paths,
    rack::{Rack, RackConfig},
    service,
    view::HostView,
    vm::{Bus, Disk, Firmware, Vm},
};
use rootfs_overlay::bake::program::Program;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    process::Command,
    rc::Rc,
    time::{Duration, Instant},
};

/// What these tests need, or why they prove nothing.
fn program() -> Option<PathBuf> {
    match service::binary_of(Arch::AARCH64) {
        Ok(program) => Some(program),
        Err(error) => {
            testkit::skip::because(error);
            None
        }
    }
}

/// The moments of an installation, by the machine's console and by the service's record of it.
#[derive(Clone, Default)]
struct Moments(Rc<RefCell<Vec<(Duration, String)>>>);

impl Moments {
    /// Looks at the one host.
    fn see(&self, at: Duration, host: &HostView) {
        let what = match host.stage {
            Some(stage) => format!("service: {}, {}", host.state, stage.as_str()),
            None => format!("service: {}", host.state),
        };
        let mut moments = self.0.borrow_mut();
        if moments.last().is_none_or(|(_, last)| *last != what) {
            moments.push((at, what));
        }
    }

    /// As a table, with the console's markers.
    fn table(&self, vm: &Vm) -> String {
        let mut moments = self.0.borrow().clone();
        let is_shown = |text: &str| !text.starts_with("node ") || text == "node ready";
        let markers = vm.markers().into_iter().filter(|marker| is_shown(&marker.text));
        moments.extend(markers.map(|marker| (marker.at, format!("console: {}", marker.text))));
        moments.sort();
        let mut last = Duration::ZERO;
        let line = |(at, what): &(Duration, String)| {
            let since = at.saturating_sub(std::mem::replace(&mut last, *at));
            format!("{:7.1} s  +{:5.1} s  {what}\n", at.as_secs_f64(), since.as_secs_f64())
        };
        moments.iter().map(line).collect()
    }
}

#[test]
fn a_node_is_installed_from_a_baked_iso() {
    let _turn = turn();
    let Some(program) = program() else { return };
    let directory = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let hardware = Drivers::Cloud.of(Arch::AARCH64);
    let iso = common::bake(&media::live_system(hardware), &program, directory.path());
    let image = ok(media::os_image(SectorSize::B512, Compression::Raw, hardware));
    let mut config = RackConfig::new("aarch64", 1, iso, image);
    config.arch = Arch::AARCH64;
    config.firmware = Firmware::Uefi;
    // The firmware would start from the CD again and again: only what the installation sets leads to the disk.
    config.iso_first = true;

    let moments = Moments::default();
    let power_on = Rc::new(RefCell::new(None::<Instant>));
    let (seen, since, mut print) = (moments.clone(), power_on.clone(), changes());
    let observer = move |hosts: &[HostView]| {
        if let (Some(host), Some(power_on)) = (hosts.first(), *since.borrow()) {
            seen.see(power_on.elapsed(), host);
        }
        print(hosts)
    };
    let mut rack = ok(Rack::start(config, Box::new(observer)));
    *power_on.borrow_mut() = Some(Instant::now());
    ok(rack.power_on());
    ok(rack.discover(LIMIT));
    let host = ok(rack.hosts()).remove(0);
    let inventory: Value = serde_json::from_str(&host.inventory).unwrap();
    assert_eq!(inventory["cpu"]["architecture"], "aarch64");
    start_installation(&mut rack);
    let facts = finish_installation(&mut rack).remove(0);
    assert!(facts.get("cmdline").unwrap().contains("console=ttyAMA0"), "{facts:?}");

    let table = moments.table(&rack.vms()[0]);
    let console = rack.vms()[0].log().to_owned();
    check_efi_boot(&console, "shimaa64.efi");
    fs::write(rack.logs().join("stages.txt"), &table).unwrap();
    println!("{table}the console is in {}", console.display());
}

const MEMORY_MIB: u32 = 1024;
const SYSTEM_UUID: &str = "11223344-5566-7788-99aa-bbccddeeff00";
/// What `-smbios` is given: types and their fields.
const SMBIOS: [&str; 6] = [
    "type=0,vendor=AcmeFirmware,version=1.2.3,date=01/02/2026,release=4.5",
    "type=1,manufacturer=Acme,product=A80,version=v7,serial=ARM123,sku=SKU9,family=Alpine",
    "type=2,manufacturer=Board Acme,product=BRD1,version=b2,serial=BRD-SER,asset=BRD-ASSET",
    "type=3,manufacturer=Case Acme,version=c3,serial=CHS-SER,asset=CHS-ASSET,sku=CHS-SKU",
    "type=4,sock_pfx=CPU,manufacturer=Chip Acme,version=A80-30,serial=CPU-SER,asset=CPU-ASSET,part=CPU-PART,max-speed=3000,current-speed=2800",
    "type=17,loc_pfx=DIMM_A,bank=B0,manufacturer=Hynix,serial=DIMM-SER,asset=DIMM-AS,part=HMA82,speed=3200",
];

/// What QEMU was given for the machine must be in the inventory and in the report, under the names that these have on
/// every processor.
#[test]
fn every_fact_given_to_qemu_is_found() {
    let _turn = turn();
    let Some(_) = program() else { return };
    let dir = paths::scratch_dir().unwrap();
    let disk = |serial: &str, mib: u64, sector_bytes, bus| Disk {
        path: dir.path().join(serial),
        size_bytes: mib << 20,
        serial: serial.to_owned(),
        sector_bytes,
        bus,
    };
    let mut builder = Vm::builder("aarch64", "hardware")
        .arch(Arch::AARCH64)
        .firmware(Firmware::Uefi)
        .kernel(media::shell_system(Drivers::Full.of(Arch::AARCH64)).unwrap())
        .shell()
        .processors("4,sockets=2,cores=2,threads=1")
        .memory_mib(MEMORY_MIB)
        .with("-cpu", "neoverse-n1")
        .with("-uuid", SYSTEM_UUID)
        .disk(disk("VBLK-SER-1", 64, 512, Bus::Virtio))
        .disk(disk("NVME-SER-2", 65, 512, Bus::Nvme))
        .disk(disk("SCSI-SER-3", 66, 512, Bus::Scsi))
        .disk(disk("4KN-SER-4", 68, 4096, Bus::Virtio))
        .disk(disk("SATA-SER-5", 70, 512, Bus::Sata));
    for fields in SMBIOS {
        builder = builder.with("-smbios", fields);
    }
    let interfaces = [
        ("virtio-net-pci", "virtio_net", "52:54:00:aa:bb:01"),
        ("e1000e", "e1000e", "52:54:00:aa:bb:02"),
        ("igb", "igb", "52:54:00:aa:bb:03"),
    ];
    for (index, (device, _, mac)) in interfaces.iter().enumerate() {
        builder = builder.with("-netdev", format!("user,id=user{index},ipv6=off,restrict=on"));
        builder = builder.with("-device", format!("{device},netdev=user{index},mac={mac},romfile="));
    }
    let mut vm = builder.start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    let inventory = facts.stable_inventory();
    let report = facts.report();

    let cpuinfo = facts.text("cat /proc/cpuinfo");
    let features = cpuinfo.lines().find_map(|line| line.strip_prefix("Features\t: ")).unwrap();
    facts.compare(
        "cpu",
        &inventory["cpu"],
        &json!({
            "architecture": "aarch64",
            "count": 4,
            "flags": features.split_whitespace().collect::<Vec<_>>(),
            // No Arm kernel reports it without a driver for the clock, and QEMU has no such clock.
            "frequency": inventory["cpu"]["frequency"],
            "model_name": "Neoverse-N1",
        }),
    );
    facts.contains(
        "inventory",
        &inventory,
        &json!({
            "boot": {"current_boot_mode": "uefi"},
            "memory": {"physical_bytes": u64::from(MEMORY_MIB) << 20, "physical_bytes_method": "dmidecode"},
            "system_vendor": {"manufacturer": "Acme", "product_name": "A80", "serial_number": "ARM123", "virtual": true},
        }),
    );
    for (serial, mib, bus) in [
        ("VBLK-SER-1", 64_u64, "HDD"),
        ("NVME-SER-2", 65, "SSD"),
        ("SCSI-SER-3", 66, "HDD"),
        ("4KN-SER-4", 68, "HDD"),
        ("SATA-SER-5", 70, "HDD"),
    ] {
        let expected = json!({"size_bytes": mib << 20, "drive_type": bus});
        let disks = inventory["disks"].as_array().unwrap();
        let found = disks.iter().find(|disk| disk["serial"] == serial).cloned().unwrap_or_default();
        facts.contains(serial, &found, &expected);
    }
    for (device, driver, mac) in interfaces {
        let name = facts.interface(mac);
        let all = inventory["interfaces"].as_array().unwrap();
        let found = all.iter().find(|interface| interface["name"] == *name).cloned().unwrap_or_default();
        facts.contains(device, &found, &json!({"mac_address": mac}));
        let driven = facts.text(&format!("basename $(readlink /sys/class/net/{name}/device/driver)"));
        assert_eq!(driven.trim(), driver);
    }
    let socket = |index: u8| {
        json!({
            "socket": format!("CPU {index}"), "manufacturer": "Chip Acme", "version": "A80-30", "serial_number": "CPU-SER",
            "asset_tag": "CPU-ASSET", "part_number": "CPU-PART", "max_speed_mhz": 3000, "current_speed_mhz": 2800,
            "core_count": 2, "thread_count": 2, "populated": true,
        })
    };
    facts.contains(
        "report",
        &report,
        &json!({
            "system": {
                "product": {
                    "manufacturer": "Acme", "product_name": "A80", "version": "v7", "serial_number": "ARM123", "sku_number": "SKU9",
                    "family": "Alpine", "uuid": SYSTEM_UUID,
                },
                "baseboards": [{
                    "manufacturer": "Board Acme", "product": "BRD1", "version": "b2", "serial_number": "BRD-SER",
                    "asset_tag": "BRD-ASSET",
                }],
                "chassis": [{
                    "manufacturer": "Case Acme", "version": "c3", "serial_number": "CHS-SER", "asset_tag": "CHS-ASSET",
                    "sku_number": "CHS-SKU",
                }],
                "virtual": true,
            },
            "kernel": {"architecture": "aarch64"},
            "processors": {"sockets": [socket(0), socket(1)]},
        }),
    );
    fs::write(paths::log_dir("aarch64").unwrap().join("inventory.json"), format!("{inventory:#}")).unwrap();
    fs::write(paths::log_dir("aarch64").unwrap().join("report.json"), format!("{report:#}")).unwrap();
    facts.replays("aarch64", &["inventory", "report --json"]);
    facts.all_as_expected();
}

/// Firmware decides by the names of files: it skips unknown ones, with a line on its console.
#[test]
fn a_machine_of_another_processor_passes_the_iso_over() {
    let _turn = turn();
    if let Err(error) = fs::metadata(paths::target_dir().join("vm").join("packages-arm64/root/.done")) {
        return testkit::skip::because(format_args!("the packages of aarch64 are missing: {error}"));
    }
    for (iso_of, machine_of) in [(Arch::AARCH64, Arch::X86_64), (Arch::X86_64, Arch::AARCH64)] {
        let iso = ok(live_iso(&media::live_system(Drivers::Cloud.of(iso_of))));
        let name = format!("{}-iso-on-{}", iso_of.name, machine_of.name);
        let vm = Vm::builder("aarch64", &name).arch(machine_of).firmware(Firmware::Uefi).iso(iso).start().unwrap();
        let deadline = Instant::now() + LIMIT;
        let refused = loop {
            let console = String::from_utf8_lossy(&fs::read(vm.log()).unwrap()).into_owned();
            let line = console.lines().find(|line| line.contains("BdsDxe: failed to load Boot")).map(str::to_owned);
            if line.is_some() || Instant::now() >= deadline {
                break line;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        let refused =
            refused.unwrap_or_else(|| panic!("{name}: the firmware refused nothing; see {}", vm.log().display()));
        assert!(refused.ends_with("Not Found") || refused.contains(": Not Found"), "{refused}");
        assert!(vm.markers().is_empty(), "{:?}", vm.markers());
        println!("{name}: {refused}");
    }
}

/// Neither way round is a program baked in where it would not start.
#[test]
fn a_program_of_another_processor_is_not_baked_in() {
    let _turn = turn();
    let Some(program) = program() else { return };
    let host = ok(service::binary());
    if let Err(error) = Program::read(Some(&host)) {
        return testkit::skip::because(error);
    }
    for (iso_of, program, of_program) in [(Arch::AARCH64, &host, "x86_64"), (Arch::X86_64, &program, "aarch64")] {
        let iso = ok(live_iso(&media::live_system(Drivers::Cloud.of(iso_of))));
        let out = paths::scratch_dir().unwrap();
        let mut command = Command::new(&host);
        command.args(["iso", "bake"]).arg(&iso).arg("--binary").arg(program);
        let output = command.arg("-o").arg(out.path().join("baked.iso")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(iso_of.name) && said.contains(of_program), "both processors are named: {said}");
        println!("{said}");
    }
}
