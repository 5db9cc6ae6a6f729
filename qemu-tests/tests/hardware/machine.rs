//! The machine with everything that QEMU emulates. Each value it is given is written down once, here, next to what an
//! inventory must make of it.

use api::Mac;
use qemu_tests::{
    bmc::{Bmc, BmcConfig, Contents},
    media, paths,
    vm::{DirectKernel, Firmware, Vm, VmBuilder, with_path},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const MEMORY_MIB: u32 = 768;
/// Of each of the two nodes, which have a processor each.
pub(crate) const NODES_MIB: [u32; 2] = [512, 256];
/// Between the two; 10 is a node to itself.
pub(crate) const NODE_DISTANCE: u32 = 27;
/// The port the NVMe disk hangs on: its address, the slot it is, and its link as QEMU's options say it.
pub(crate) const PORT: &str = "0000:00:1c.0";
pub(crate) const PORT_SLOT: &str = "7";
pub(crate) const PORT_SPEED_GTS: &str = "16";
pub(crate) const PORT_LANES: &str = "8";
pub(crate) const SYSTEM_UUID: &str = "11223344-5566-7788-99aa-bbccddeeff00";
pub(crate) const PROCESSOR: &str = "Landfall Test Processor 9000";
/// A flag that `max` has and this machine's processors haven't.
pub(crate) const FLAG_OFF: &str = "avx2";
pub(crate) const BOOT_MAC: &str = "01-52-54-00-aa-bb-01";
/// The SATA disk has one partition, from 1 MiB on.
pub(crate) const PARTITIONED_SERIAL: &str = "SATA-SER-6";
/// One disk behind two ports of the adapter.
pub(crate) const TWO_PATHS_SERIAL: &str = "MPATH7";

/// What `-smbios` is given: types and their fields.
pub(crate) const SMBIOS: [(u8, &[(&str, &str)]); 10] = [
    (0, &[("vendor", "AcmeBIOS"), ("version", "1.2.3"), ("date", "01/02/2026"), ("release", "4.5")]),
    (
        1,
        &[
            ("manufacturer", "Acme"),
            ("product", "R740"),
            ("version", "v7"),
            ("serial", "ABC123"),
            ("sku", "SKU9"),
            ("family", "PowerX"),
        ],
    ),
    (
        2,
        &[
            ("manufacturer", "Board Acme"),
            ("product", "BRD1"),
            ("version", "b2"),
            ("serial", "BRD-SER"),
            ("asset", "BRD-ASSET"),
            ("location", "slot3"),
        ],
    ),
    (
        3,
        &[
            ("manufacturer", "Case Acme"),
            ("version", "c3"),
            ("serial", "CHS-SER"),
            ("asset", "CHS-ASSET"),
            ("sku", "CHS-SKU"),
        ],
    ),
    (
        4,
        &[
            ("sock_pfx", "CPU"),
            ("manufacturer", "Chip Acme"),
            ("version", "Xeon-Gold"),
            ("serial", "CPU-SER"),
            ("asset", "CPU-ASSET"),
            ("part", "CPU-PART"),
            ("max-speed", "3900"),
            ("current-speed", "2600"),
        ],
    ),
    (
        8,
        &[("internal_reference", "J1A1"), ("external_reference", "COM A"), ("connector_type", "8"), ("port_type", "9")],
    ),
    (
        9,
        &[
            ("slot_designation", "PCIE-1"),
            ("slot_type", "0xa5"),
            ("slot_data_bus_width", "0xd"),
            ("current_usage", "4"),
            ("slot_length", "3"),
            ("slot_id", "1"),
            ("slot_characteristics1", "4"),
            ("slot_characteristics2", "1"),
        ],
    ),
    (11, &[("value", "io.kube-example:token=abc")]),
    (
        17,
        &[
            ("loc_pfx", "DIMM_A"),
            ("bank", "B0"),
            ("manufacturer", "Hynix"),
            ("serial", "DIMM-SER"),
            ("asset", "DIMM-AS"),
            ("part", "HMA82"),
            ("speed", "3200"),
        ],
    ),
    (41, &[("designation", "Onboard LAN"), ("instance", "1"), ("kind", "ethernet"), ("pcidev", "nic3")]),
];

/// The field `key` of the SMBIOS structure of type `kind`.
pub(crate) fn smbios(kind: u8, key: &str) -> &'static str {
    let fields = SMBIOS.iter().find(|(of, _)| *of == kind).unwrap().1;
    fields.iter().find(|(name, _)| *name == key).unwrap().1
}

pub(crate) struct Interface {
    pub mac: &'static str,
    /// QEMU's model with its options.
    pub device: &'static str,
    pub pci: &'static str,
    pub pci_driver: &'static str,
    /// As below `/sys/class/net/NAME/device`: of virtio's own bus, where it is one.
    pub vendor: &'static str,
    pub product: &'static str,
    pub speed_mbps: i64,
    pub net_driver: &'static str,
    /// As its driver reports it: the version in the image of the EEPROM that QEMU gives it.
    pub firmware: Option<&'static str>,
}

/// Interface 0 is the one that gets addresses, 1 gets a VLAN, 2 and 3 become a bond, 4 goes to a bridge.
pub(crate) const INTERFACES: [Interface; 5] = [
    Interface {
        mac: "52:54:00:aa:bb:01",
        device: "virtio-net-pci,speed=25000,duplex=full",
        pci: "05",
        pci_driver: "virtio-pci",
        vendor: "0x1af4",
        product: "0x0001",
        speed_mbps: 25000,
        net_driver: "virtio_net",
        firmware: None,
    },
    Interface {
        mac: "52:54:00:aa:bb:02",
        device: "e1000",
        pci: "06",
        pci_driver: "e1000",
        vendor: "0x8086",
        product: "0x100e",
        speed_mbps: 1000,
        net_driver: "e1000",
        firmware: None,
    },
    Interface {
        mac: "52:54:00:aa:bb:03",
        device: "e1000e",
        pci: "07",
        pci_driver: "e1000e",
        vendor: "0x8086",
        product: "0x10d3",
        speed_mbps: 1000,
        net_driver: "e1000e",
        firmware: Some("2.1-0"),
    },
    Interface {
        mac: "52:54:00:aa:bb:04",
        device: "igb",
        pci: "08",
        pci_driver: "igb",
        vendor: "0x8086",
        product: "0x10c9",
        speed_mbps: 1000,
        net_driver: "igb",
        firmware: Some("2.1.0"),
    },
    // Without its own speed virtio reports -1.
    Interface {
        mac: "52:54:00:aa:bb:05",
        device: "virtio-net-pci",
        pci: "09",
        pci_driver: "virtio-pci",
        vendor: "0x1af4",
        product: "0x0001",
        speed_mbps: -1,
        net_driver: "virtio_net",
        firmware: None,
    },
];

pub(crate) struct Disk {
    pub serial: &'static str,
    pub mib: u64,
    /// QEMU's device with its options.
    pub device: &'static str,
    /// What the inventory says of it besides name, path, id, serial number, size and eligibility.
    pub inventory: Value,
}

pub(crate) fn disks() -> Vec<Disk> {
    let disk = |serial, mib, device, inventory| Disk { serial, mib, device, inventory };
    let path = |path: &str| format!("/dev/disk/by-path/pci-0000:00:{path}");
    let wwn = |wwn: &str| format!("/dev/disk/by-id/wwn-{wwn}");
    vec![
        disk(
            "VBLK-SER-1",
            64,
            "virtio-blk-pci,addr=0x10",
            json!({"drive_type": "HDD", "vendor": "0x1af4", "by_path": path("10.0")}),
        ),
        disk(
            "NVME-SER-2",
            65,
            "nvme,bus=riser",
            json!({
                "drive_type": "SSD", "model": "QEMU NVMe Ctrl", "by_path": "/dev/disk/by-path/pci-0000:01:00.0-nvme-1", "has_uuid": true,
                // The kernel makes it of the vendor, the serial number and the model, in hexadecimal, and the namespace.
                "wwn": "nvme.1b36-4e564d452d5345522d32-51454d55204e564d65204374726c-00000001",
            }),
        ),
        disk(
            "SCSI-SER-3",
            66,
            "scsi-hd,bus=hba.0,scsi-id=0,wwn=0x5000c500a1b2c3d4,vendor=ACME,product=DISK3,ver=F1.2,rotation_rate=7200",
            json!({
                "drive_type": "HDD", "vendor": "ACME", "model": "DISK3", "has_uuid": true,
                "wwn": "0x5000c500a1b2c3d4", "by_id": wwn("0x5000c500a1b2c3d4"),
                "by_path": path("03.0-scsi-0:0:0:0"), "hctl": "0:0:0",
            }),
        ),
        disk(
            "4KN-SER-4",
            68,
            "virtio-blk-pci,addr=0x12,logical_block_size=4096,physical_block_size=4096",
            json!({"drive_type": "HDD", "vendor": "0x1af4", "by_path": path("12.0")}),
        ),
        disk(
            "USB-SER-5",
            69,
            "usb-storage,bus=usb.0,removable=on",
            json!({
                "drive_type": "HDD", "vendor": "QEMU", "model": "QEMU_HARDDISK", "removable": true, "has_uuid": true,
                "by_path": path("04.0-usb-0:1:1.0-scsi-0:0:0:0"), "hctl": "0:0:0",
            }),
        ),
        disk(
            PARTITIONED_SERIAL,
            70,
            "ide-hd,bus=ide.0,wwn=0x5000c500deadbeef,model=SAMSUNG-X,rotation_rate=1,ver=FW-6",
            json!({
                "drive_type": "SSD", "vendor": "ATA", "model": "SAMSUNG-X", "has_uuid": true, "bootable": true,
                "wwn": "0x5000c500deadbeef", "by_id": wwn("0x5000c500deadbeef"),
                "by_path": path("1f.2-ata-1.0"), "hctl": "0:0:0",
            }),
        ),
        disk(
            TWO_PATHS_SERIAL,
            71,
            "scsi-hd,bus=hba.0,scsi-id=5,wwn=0x5000c5000000cafe,share-rw=on,port_index=1,port_wwn=0x5000c5000000c001",
            json!({
                "drive_type": "HDD", "vendor": "QEMU", "model": "QEMU_HARDDISK", "has_uuid": true,
                "wwn": "0x5000c5000000cafe", "by_path": path("03.0-scsi-0:0:5:0"), "hctl": "0:5:0",
            }),
        ),
        disk(
            TWO_PATHS_SERIAL,
            71,
            "scsi-hd,bus=hba.0,scsi-id=6,wwn=0x5000c5000000cafe,share-rw=on,port_index=2,port_wwn=0x5000c5000000c002",
            json!({
                "drive_type": "HDD", "vendor": "QEMU", "model": "QEMU_HARDDISK", "has_uuid": true,
                "wwn": "0x5000c5000000cafe", "by_path": path("03.0-scsi-0:0:6:0"), "hctl": "0:6:0",
            }),
        ),
        disk(
            "CD-SER-8",
            4,
            "ide-cd,bus=ide.1",
            json!({
                "drive_type": "ODD", "vendor": "QEMU", "model": "QEMU_DVD-ROM", "removable": true, "has_uuid": true,
                "is_installation_media": true, "by_path": path("1f.2-ata-2.0"), "hctl": "0:0:0",
            }),
        ),
    ]
}

/// Its first three parts are sent with the lowest byte first.
pub(crate) const BMC_GUID: &str = "9abcdef0-5678-1234-0102-030405060708";

pub(crate) fn bmc() -> BmcConfig {
    BmcConfig {
        channel: 3,
        firmware: (2, 0x15),
        manufacturer: 674,
        product: 0x0100,
        guid: [0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 1, 2, 3, 4, 5, 6, 7, 8],
        mac: Mac([0x52, 0x54, 0, 0xbb, 0xcc, 1]),
        ipv4: (Ipv4Addr::new(192, 0, 2, 77), 24),
        ipv6_static: Some(("2001:db8:1::77".parse().unwrap(), 64)),
        ipv6_dynamic: Some(("2001:db8:2::77".parse().unwrap(), 64)),
        contents: Contents::default(),
    }
}

/// What the machine needs for as long as it runs.
pub(crate) struct Parts {
    pub kernel: DirectKernel,
    _bmc: Bmc,
    _disks: tempfile::TempDir,
}

/// QEMU's version, such as 10.0.2, as its NVMe disk reports it too.
pub(crate) fn qemu_version() -> String {
    let output = Command::new("qemu-system-x86_64").arg("--version").output().unwrap().stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    let version = text.split("version ").nth(1).and_then(|rest| rest.split_whitespace().next());
    version.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Whether this QEMU is new enough (9.0) for slots in SMBIOS and for igb.
pub(crate) fn is_complete() -> bool {
    let is_complete =
        qemu_version().split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= 9);
    testkit::skip::unless("QEMU 9.0 or newer, for the igb interface and SMBIOS slots", is_complete)
}

/// Interfaces that this QEMU has.
pub(crate) fn interfaces() -> impl Iterator<Item = (usize, &'static Interface)> {
    let is_complete = is_complete();
    INTERFACES.iter().enumerate().filter(move |(_, interface)| is_complete || interface.device != "igb")
}

/// Switches the machine on.
pub(crate) fn start(name: &str) -> (Parts, Vm) {
    let mut kernel = media::hardware_system().unwrap();
    kernel.arguments += &format!(" BOOTIF={BOOT_MAC}");
    let (controller, dir) = (Bmc::start(bmc()).unwrap(), paths::scratch_dir().unwrap());
    let mut vm = Vm::builder("hardware", name)
        .machine("q35")
        .processors("2,sockets=2")
        .memory_mib(MEMORY_MIB)
        .firmware(Firmware::Bios)
        .kernel(kernel.clone())
        .tpm()
        .shell()
        .with("-cpu", format!("max,-{FLAG_OFF},model-id={PROCESSOR}"))
        .with("-uuid", SYSTEM_UUID);
    for (kind, fields) in SMBIOS.iter().filter(|(kind, _)| *kind != 9 || is_complete()) {
        let fields: String = fields.iter().map(|(name, value)| format!(",{name}={value}")).collect();
        vm = vm.with("-smbios", format!("type={kind}{fields}"));
    }
    for (node, mib) in NODES_MIB.iter().enumerate() {
        vm = vm
            .with("-object", format!("memory-backend-ram,id=memory{node},size={mib}M"))
            .with("-numa", format!("node,nodeid={node},cpus={node},memdev=memory{node}"));
    }
    vm = vm
        .with("-numa", format!("dist,src=0,dst=1,val={NODE_DISTANCE}"))
        .with("-chardev", with_path("socket,id=bmc,server=on,wait=off,path=", &controller.socket(), ""))
        .with("-device", "ipmi-bmc-extern,id=bmc0,chardev=bmc")
        .with("-device", "isa-ipmi-kcs,bmc=bmc0,ioport=0xca2")
        .with("-device", "i6300esb,addr=0x1d")
        // Else ACPI numbers the slots differently.
        .with("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
        .with("-device", "virtio-scsi-pci,id=hba,addr=0x03")
        .with(
            "-device",
            format!(
                "pcie-root-port,id=riser,chassis=1,slot={PORT_SLOT},addr=0x1c,x-speed={PORT_SPEED_GTS},x-width={PORT_LANES}"
            ),
        )
        .with("-device", "qemu-xhci,id=usb,addr=0x04");
    for (index, Interface { device, mac, pci, .. }) in interfaces() {
        vm = vm.with("-netdev", format!("user,id=net{index},ipv6=off,restrict=on"));
        vm = vm.with("-device", format!("{device},id=nic{index},netdev=net{index},mac={mac},addr=0x{pci},romfile="));
    }
    for (index, disk) in disks().iter().enumerate() {
        vm = plug_in(vm, &format!("drive{index}"), disk, &dir.path().join(disk.serial));
    }
    (Parts { kernel, _bmc: controller, _disks: dir }, vm.start().unwrap())
}

/// Both paths of the one disk open the same file.
fn plug_in(vm: VmBuilder, drive: &str, disk: &Disk, path: &Path) -> VmBuilder {
    if !path.exists() {
        let file = File::create(path).unwrap();
        file.set_len(disk.mib * MIB).unwrap();
        if disk.serial == PARTITIONED_SERIAL {
            file.write_all_at(&partition_table(disk.mib), 0).unwrap();
        }
    }
    let read_only = if disk.device.starts_with("ide-cd") { ",media=cdrom,readonly=on" } else { "" };
    let options = format!("if=none,id={drive},format=raw,cache=unsafe,file.locking=off{read_only},file=");
    vm.with("-drive", with_path(&options, &fs::canonicalize(path).unwrap(), ""))
        .with("-device", format!("{},drive={drive},serial={}", disk.device, disk.serial))
}

/// An MBR with one Linux partition from 1 MiB to the end.
fn partition_table(mib: u64) -> [u8; 512] {
    let mut mbr = [0; 512];
    let sectors = u32::try_from((mib - 1) * MIB / 512).unwrap();
    mbr[446..454].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0]);
    mbr[454..458].copy_from_slice(&2048_u32.to_le_bytes());
    mbr[458..462].copy_from_slice(&sectors.to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    mbr
}
