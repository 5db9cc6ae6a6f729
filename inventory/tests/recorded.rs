//! Machines recorded by others: what is reported of them is what is known of them.

#![allow(clippy::unwrap_used)]

use inventory::{Root, collect};
use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

/// A recorded tree, unpacked until dropped, so that other programs can read it too.
struct Recorded {
    dir: tempfile::TempDir,
    inner: &'static str,
}

impl Recorded {
    fn unpack(archive: &str, inner: &'static str) -> Option<Self> {
        let archive = testkit::recordings::path(&format!("data/{archive}"))?;
        let dir = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(dir.path()).status().unwrap();
        assert!(unpacked.success());
        Some(Self { dir, inner })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(self.inner)
    }

    fn inventory(&self) -> api::Inventory {
        let root = Root::open(self.path()).unwrap();
        let inventory = collect(&root);
        let again = collect(&root);
        assert_eq!(serde_json::to_string(&inventory).unwrap(), serde_json::to_string(&again).unwrap());
        inventory
    }

    /// Fails unless the processors are those that `lscpu` finds in the same tree. It gives up without some files.
    fn agrees_with_lscpu(&self, cpu: &api::Cpu) -> bool {
        let Ok(done) = Command::new("lscpu").arg("-s").arg(self.path()).env("LC_ALL", "C").output() else {
            testkit::skip::because("no lscpu");
            return true;
        };
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let field =
            |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        if field("CPU(s)").is_none() {
            return false;
        }
        assert_eq!(field("CPU(s)"), Some(cpu.count.to_string().as_str()));
        assert_eq!(field("Model name"), Some(cpu.model_name.as_str()));
        assert_eq!(field("Flags").map(str::to_owned), cpu.flags.as_ref().map(|flags| flags.join(" ")));
        if let Some(mhz) = field("CPU max MHz") {
            assert!((cpu.frequency - mhz.parse::<f64>().unwrap()).abs() < 0.01, "{} and {mhz}", cpu.frequency);
        }
        true
    }
}

#[test]
fn a_ryzen_desktop() {
    let Some(machine) = Recorded::unpack("machines/amd-ryzen-1600.tar.gz", "") else { return };
    let found = machine.inventory();
    let cpu = found.cpu.unwrap();
    machine.agrees_with_lscpu(&cpu);
    assert_eq!((cpu.architecture.as_str(), cpu.count), ("x86_64", 12));
    assert_eq!(cpu.model_name, "AMD Ryzen 5 1600 Six-Core Processor");
    assert!(cpu.flags.unwrap().iter().any(|flag| flag == "svm"));
    let memory = found.memory.unwrap();
    assert_eq!((memory.physical_bytes, memory.physical_bytes_method.as_str()), (32 << 30, "ghw"));
    assert_eq!(memory.usable_bytes, 32_777_916 * 1024);
    let disks: Vec<_> =
        found.disks.iter().map(|d| (d.name.as_str(), d.drive_type.as_str(), d.size_bytes / 512)).collect();
    assert_eq!(disks, [("sda", "SSD", 500_118_192), ("sdb", "HDD", 1_953_525_168), ("sdc", "SSD", 976_773_168)]);
    assert_eq!(found.disks[1].hctl, "4:0:0:0");
    let gpus: Vec<_> =
        found.gpus.iter().map(|g| [&g.address, &g.vendor_id, &g.device_id].map(String::as_str)).collect();
    assert_eq!(gpus, [["0000:0a:00.0", "1002", "6758"]]);
    let interfaces: Vec<_> = found.interfaces.iter().map(|i| (i.name.as_str(), i.kind.as_str())).collect();
    let expected = ["enp3s0", "enp6s0f0", "enp6s0f1", "enp8s0"].map(|name| (name, "physical"));
    assert_eq!(interfaces, expected);
    assert!(!found.system_vendor.unwrap().r#virtual);
}

#[test]
fn a_machine_with_an_accelerator() {
    let Some(machine) = Recorded::unpack("machines/nvidia-accelerator.tar.gz", "") else { return };
    let found = machine.inventory();
    let gpus: Vec<_> =
        found.gpus.iter().map(|g| (g.vendor_id.as_str(), g.device_id.as_str(), g.name.as_str())).collect();
    assert_eq!(gpus, [("1af4", "1050", "unknown"), ("10de", "15f8", "unknown")]);
    machine.agrees_with_lscpu(found.cpu.as_ref().unwrap());
    assert!(found.system_vendor.unwrap().r#virtual);
    assert_eq!(found.memory.unwrap().physical_bytes, 239 * (128 << 20));
    assert_eq!(found.disks[0].size_bytes, 97_656_256 * 512);
}

#[test]
fn offline_processors_are_there() {
    let Some(machine) = Recorded::unpack("machines/offline-cpus.tar.gz", "") else { return };
    let found = machine.inventory();
    let cpu = found.cpu.unwrap();
    assert!(machine.agrees_with_lscpu(&cpu));
    assert_eq!((cpu.count, cpu.model_name.as_str()), (4, "Intel Xeon Processor (Skylake, IBRS)"));
    assert!(found.system_vendor.unwrap().r#virtual);
    let memory = found.memory.unwrap();
    assert_eq!((memory.physical_bytes, memory.physical_bytes_method.as_str()), (7_881_912 * 1024, "meminfo"));
}

/// What lsblk printed of a machine: kernel name to the words of its line.
fn lsblk(machine: &Recorded, columns: &str) -> BTreeMap<String, Vec<String>> {
    let name = format!("lsblk-{}-{columns}", machine.inner);
    let text = fs::read_to_string(machine.path().join(name)).unwrap();
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.trim_start_matches(['|', '`', '-']).to_owned());
        Some((words.next()?, words.collect()))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// The lsblk of the machine this runs on reads the recorded tree too, and tells more of it.
fn agrees_with_todays_lsblk(machine: &Recorded, disks: &[api::Disk]) {
    let columns = "NAME,SIZE,RO,RM,ROTA,HCTL,VENDOR,MODEL,SERIAL,MOUNTPOINTS";
    let done =
        Command::new("lsblk").arg("--sysroot").arg(machine.path()).args(["-J", "-b", "-d", "-o", columns]).output();
    let Ok(done) = done.as_ref().map(|done| String::from_utf8_lossy(&done.stdout)) else {
        testkit::skip::because("no lsblk");
        return;
    };
    let shown: serde_json::Value = serde_json::from_str(&done).unwrap();
    let mut compared = 0;
    for known in shown["blockdevices"].as_array().unwrap() {
        let text = |key: &str| known[key].as_str().unwrap_or_default().trim();
        let Some(disk) = disks.iter().find(|disk| disk.name == text("name")) else { continue };
        let name = &disk.name;
        assert_eq!(Some(disk.size_bytes), known["size"].as_u64(), "{name}");
        assert_eq!((Some(disk.removable), Some(false)), (known["rm"].as_bool(), known["ro"].as_bool()), "{name}");
        assert_eq!(Some(disk.drive_type == "HDD"), known["rota"].as_bool(), "{name}");
        assert_eq!((disk.hctl.as_str(), disk.vendor.as_str()), (text("hctl"), text("vendor")), "{name}");
        assert!(disk.model.replace('_', " ").starts_with(text("model")), "{name}: {}", disk.model);
        assert!(text("serial").is_empty() || disk.serial == text("serial"), "{name}: {}", disk.serial);
        compared += 1;
    }
    assert!(compared >= 3, "{shown}");
}

fn agrees_with_lsblk(machine: &Recorded) {
    let (basic, state, vendor) = (lsblk(machine, "basic"), lsblk(machine, "state"), lsblk(machine, "vendor"));
    let found = machine.inventory();
    agrees_with_todays_lsblk(machine, &found.disks);
    let of_type_disk = basic.iter().filter(|(_, words)| words[4] == "disk").map(|(name, _)| name.as_str());
    let reported = found.disks.iter().map(|disk| disk.name.as_str()).filter(|name| !name.starts_with("dm-"));
    assert_eq!(reported.collect::<Vec<_>>(), of_type_disk.collect::<Vec<_>>());
    for disk in found.disks.iter().filter(|disk| !disk.name.starts_with("dm-")) {
        let name = &disk.name;
        assert_eq!(disk.removable, basic[name][2] == "1", "{name}");
        let tenths = (disk.size_bytes * 10 + (1 << 29)) >> 30;
        assert_eq!(basic[name][3], format!("{}.{}G", tenths / 10, tenths % 10), "{name}");
        // NAME RO RM HOTPLUG RAND STATE ROTA TYPE SCHED, the kernel name of the parent being empty.
        assert_eq!((state[name][0].as_str(), state[name][1] == "1"), ("0", disk.removable), "{name}");
        assert_eq!(disk.drive_type, if state[name][5] == "1" { "HDD" } else { "SSD" }, "{name}");
        let printed = vendor[name].join(" ");
        assert!(printed.starts_with(&disk.model.replace('_', " ")), "{name}: {printed}");
        assert_eq!(printed.contains(" ATA "), disk.vendor == "ATA", "{name}: {printed}");
        let mounted: Vec<_> = basic
            .iter()
            .filter(|(part, words)| part.starts_with(name.as_str()) && words.len() == 6)
            .map(|(part, words)| format!("Disk has partition '{part}' mounted on '{}'", words[5]))
            .collect();
        assert!(!mounted.is_empty(), "{name}");
        assert_eq!(disk.installation_eligibility.not_eligible_reasons.as_ref(), Some(&mounted), "{name}");
        assert!(!disk.installation_eligibility.eligible);
    }
}

#[test]
fn a_laptop_with_nvme_agrees_with_lsblk() {
    let Some(machine) = Recorded::unpack("lsblk/simple-nvme.tar.xz", "simple-nvme") else { return };
    agrees_with_lsblk(&machine);
    let found = machine.inventory();
    assert_eq!(found.disks[0].serial, "50026B728203601D");
    // The serial number of the SATA disk stands in its pages only, and its name among several designators.
    assert_eq!(
        (found.disks[1].serial.as_str(), found.disks[1].wwn.as_str()),
        ("50026B724B09A1FF", "0x50026b724b09a1ff")
    );
    assert_eq!(found.disks[2].serial, "WD-WMAM9XE78956");
}

#[test]
fn a_laptop_with_lvm_agrees_with_lsblk() {
    let Some(machine) = Recorded::unpack("lsblk/simple-lvm.tar.xz", "simple-lvm") else { return };
    agrees_with_lsblk(&machine);
    let volume = &machine.inventory().disks[0];
    assert_eq!((volume.name.as_str(), volume.drive_type.as_str(), volume.size_bytes), ("dm-0", "LVM", 32 << 20));
    let reasons = volume.installation_eligibility.not_eligible_reasons.as_deref();
    assert_eq!(reasons, Some(&["Disk is an LVM logical volume".to_owned()][..]));
}

#[test]
fn memory_by_the_firmware() {
    let Some(table) = testkit::recordings::path("data/smbios/minisforum-um790pro.dmi") else { return };
    let dump = fs::read(table).unwrap();
    let tree = tempfile::tempdir().unwrap();
    let tables = tree.path().join("sys/firmware/dmi/tables");
    fs::create_dir_all(&tables).unwrap();
    // The dump begins with the entry point, which the kernel has in a separate file.
    fs::write(tables.join("DMI"), &dump[32..]).unwrap();
    let found = collect(&Root::open(tree.path()).unwrap());
    let memory = found.memory.unwrap();
    assert_eq!((memory.physical_bytes, memory.physical_bytes_method.as_str()), (64 << 30, "dmidecode"));
    assert_eq!(found.cpu.unwrap().model_name, "AMD Ryzen 9 7940HS w/ Radeon 780M Graphics");
    assert!(!found.system_vendor.unwrap().r#virtual);
}
