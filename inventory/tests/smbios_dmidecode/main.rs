//! Every field that is decoded of an SMBIOS table is what dmidecode reads there, over recorded and made-up tables of several
//! versions of the format.

#![allow(clippy::unwrap_used)]

mod compare;
mod dump;
mod words;

use compare::Compare;
use dump::Dump;
use inventory::Root;
use std::{fs, path::Path};

/// Compares all structures of a dump, and tells how many there were; `None` when dmidecode is missing.
fn agrees(dump: &[u8]) -> Option<usize> {
    let blocks = dump::dmidecode(dump)?;
    let smbios = dump::read(dump);
    let facts = smbios.facts();
    let mut compared = 0;
    macro_rules! each {
        ($kind:literal, $facts:expr, $compare:ident) => {
            let mut handles: Vec<u16> = Vec::new();
            for fact in $facts {
                Compare { handle: fact.handle, block: &blocks[&($kind, fact.handle)] }.$compare(fact);
                handles.push(fact.handle);
                compared += 1;
            }
            let printed = blocks.keys().filter(|(kind, _)| *kind == $kind).map(|(_, handle)| *handle);
            // Of these a machine has one, and the first counts.
            let printed: Vec<_> =
                if matches!($kind, 0 | 1 | 32) { printed.take(1).collect() } else { printed.collect() };
            assert_eq!(handles, printed);
        };
    }
    each!(0, facts.bios.iter(), bios);
    each!(1, facts.system.iter(), system);
    each!(2, &facts.baseboards, baseboard);
    each!(3, &facts.chassis, chassis);
    each!(4, &facts.processors, processor);
    each!(7, &facts.caches, cache);
    each!(9, &facts.slots, slot);
    each!(16, &facts.memory_arrays, memory_array);
    each!(17, &facts.memory_devices, memory_device);
    each!(32, facts.boot_status.iter(), boot_status);
    each!(38, &facts.ipmi_devices, ipmi_device);
    each!(39, &facts.supplies, supply);
    each!(41, &facts.onboard_devices, onboard_device);
    each!(42, &facts.host_interfaces, host_interface);
    each!(43, &facts.tpms, tpm);
    each!(45, &facts.firmware_components, firmware_component);
    let strings = blocks.iter().filter(|((kind, _), _)| *kind == 11).flat_map(|(_, block)| {
        (1..).map_while(|n| Some(block.values.get(&format!("String {n}"))?.first().cloned().unwrap_or_default()))
    });
    let strings: Vec<_> = strings.filter(|text| !text.is_empty() && text != "<BAD INDEX>").collect();
    assert_eq!(facts.oem_strings.iter().map(|text| words::printable(text)).collect::<Vec<_>>(), strings);
    Some(compared)
}

#[test]
fn a_recorded_table() {
    let Some(path) = testkit::recordings::path("data/smbios/minisforum-um790pro.dmi") else { return };
    if let Some(compared) = agrees(&fs::read(path).unwrap()) {
        assert!(compared >= 20, "{compared}");
    }
}

#[test]
fn the_table_of_this_machine() {
    let tables = Path::new("/sys/firmware/dmi/tables");
    if !tables.exists() {
        assert!(inventory::smbios::Smbios::read(&Root::open("/").unwrap()).version().is_none());
        return;
    }
    let (Ok(head), Ok(table)) = (fs::read(tables.join("smbios_entry_point")), fs::read(tables.join("DMI"))) else {
        return testkit::skip::because("the SMBIOS table cannot be read");
    };
    agrees(&joined(head, &table));
}

#[test]
fn tables_of_captured_machines() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    for machine in fs::read_dir(machines).unwrap() {
        let machine = machine.unwrap().path();
        let root = Root::open(machine.join("capture.tar.gz")).unwrap();
        let part = |name: &str| root.read(format!("/sys/firmware/dmi/tables/{name}"), MAX_TABLE_BYTES).unwrap();
        if let Some(compared) = agrees(&joined(part("smbios_entry_point"), &part("DMI"))) {
            // BIOS, system, chassis, a processor, memory and its array, and the boot's status are in all that QEMU makes.
            assert!(compared >= 7, "{}: {compared}", machine.display());
        }
    }
}

/// A dump of an entry point and a table as the kernel shows them.
fn joined(head: Vec<u8>, table: &[u8]) -> Vec<u8> {
    let mut dump = head;
    dump.resize(dump::HEAD_BYTES, 0);
    // The address of the table in the file, and the checksums that go with it.
    let is_64_bit = dump.starts_with(b"_SM3_");
    let (at, width) = if is_64_bit { (16, 8) } else { (0x18, 4) };
    dump[at..at + width].fill(0);
    dump[at] = 32;
    dump::seal(&mut dump);
    dump.extend(table);
    dump
}

/// What is read of a table at most.
const MAX_TABLE_BYTES: usize = 1 << 20;

/// Kinds, and how long their structures are in one version of the format or another.
const LENGTHS: [(u8, &[usize]); 15] = [
    (0, &[0x12, 0x13, 0x14, 0x18, 0x1a]),
    (1, &[0x08, 0x19, 0x1b]),
    (2, &[0x08, 0x09, 0x0f]),
    (3, &[0x09, 0x0d, 0x11, 0x15, 0x16, 0x19, 0x1c]),
    (4, &[0x1a, 0x20, 0x23, 0x28, 0x2a, 0x30, 0x32]),
    (7, &[0x0f, 0x13, 0x1b]),
    (9, &[0x0d, 0x11, 0x13, 0x18]),
    (16, &[0x0f, 0x17]),
    (17, &[0x15, 0x1b, 0x1c, 0x22, 0x28, 0x54, 0x5c]),
    (32, &[0x0b, 0x14]),
    (38, &[0x10, 0x12]),
    (39, &[0x10, 0x16]),
    (41, &[0x0b]),
    (43, &[0x1f]),
    (45, &[0x18]),
];
/// Of these only the first of a table counts.
const ONLY_ONE: [u8; 3] = [0, 1, 32];
const STRINGS: [&[u8]; 7] =
    [b"Default string", b"  padded  ", b"   ", "\u{b5}-board".as_bytes(), b"bell\x07", b"a: b", b"Unknown"];

#[test]
fn every_value_of_every_byte() {
    let lengths = || LENGTHS.iter().flat_map(|(kind, lengths)| lengths.iter().map(|length| (*kind, *length)));
    let mut dump = Dump::new((3, 5));
    for (kind, length) in lengths().filter(|(kind, _)| !ONLY_ONE.contains(kind)) {
        for value in 0..=255 {
            dump.add(kind, &vec![value; length - 4], &STRINGS);
        }
    }
    agrees(&dump.finish());
    for (kind, length) in lengths().filter(|(kind, _)| ONLY_ONE.contains(kind)) {
        for value in [0, 1, 2, 3, 8, 9, 16, 0x7f, 128, 191, 192, 255] {
            agrees(&Dump::new((3, 5)).add(kind, &vec![value; length - 4], &STRINGS).finish());
        }
    }
}

/// Numbers that look random and are the same each time (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Fields that mean something are more often small, zero or all ones than not.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let [kind, value, run, ..] = self.next().to_le_bytes();
            let value = match kind % 8 {
                0..=2 => value % 10,
                3 => 0xff,
                4 => 0,
                5 => 0x80 | (value % 8),
                _ => value,
            };
            bytes.extend(vec![value; usize::from(run % 3) + 1]);
        }
        bytes.truncate(len);
        bytes
    }
}

#[test]
fn noise_in_well_formed_structures() {
    for (seed, version) in [(2, 1), (2, 5), (2, 8), (3, 0), (3, 5), (3, 5), (3, 7)].into_iter().enumerate() {
        let mut noise = Noise(u64::try_from(seed + 1).unwrap() << 32 | 0x9e37_79b9);
        let mut dump = Dump::new(version);
        for _ in 0..if version.0 < 3 { 4 } else { 40 } {
            for (kind, lengths) in LENGTHS {
                for length in lengths {
                    dump.add(kind, &noise.bytes(length - 4), &STRINGS[..usize::from(noise.bytes(1)[0] % 8)]);
                }
            }
            dump.add(11, &[noise.bytes(1)[0] % 9], &STRINGS);
        }
        agrees(&dump.finish());
    }
}

#[test]
fn a_server_with_large_parts() {
    let mut dump = Dump::new((3, 5));
    let uuid: Vec<u8> = (0..16).collect();
    dump.fields(0, 0x1a, &[(0x09, &[0xff]), (0x14, &[2, 10, 1, 69]), (0x18, &[64, 0])], &[(4, "HPE"), (5, "U46")]);
    dump.fields(1, 0x1b, &[(0x08, &uuid), (0x18, &[6])], &[(4, "HPE"), (7, "CZ1"), (0x19, "P123-B21")]);
    dump.fields(3, 0x19, &[(5, &[0x97]), (0x11, &[2, 2, 1, 3])], &[(7, "CZ1"), (0x18, "P123-B21")]);
    let cores = [0xff, 0xff, 0xff, 0xfc, 0, 0x01, 1, 0x00, 1, 0x80, 1, 0x00, 2, 0x40, 1];
    let (id, clocks) = ([0x10, 0x0f, 0xa1, 0, 0xff, 0xfb, 0x8b, 0x17], [0x8b, 100, 0, 0xe4, 0x0c, 0xc4, 0x09, 0x41]);
    let fields: [(usize, &[u8]); 4] = [(5, &[3, 0xfe]), (8, &id), (0x11, &clocks), (0x23, &cores)];
    dump.fields(4, 0x32, &fields, &[(4, "Proc 1"), (0x10, "A processor"), (0x20, "S1")]);
    let sizes = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 6, 5, 8, 0, 0x40, 0, 0x80, 0, 0x40, 0, 0x80];
    dump.fields(7, 0x1b, &[(5, &[0x82, 1]), (7, &sizes)], &[(4, "L3")]);
    dump.fields(9, 0x18, &[(5, &[0xc3, 13, 4, 4, 7]), (0x0d, &[1, 0, 0x81, 0x0a])], &[(4, "PCIe 7")]);
    dump.fields(16, 0x17, &[(4, &[3, 3, 6, 0, 0, 0, 0x80]), (0x0d, &[32, 0]), (0x13, &[0, 8])], &[]);
    let widths = [0x50, 0, 0x40, 0, 0xff, 0x7f, 9];
    let (speeds, voltages) = ([0x80, 0x3c], [0x4c, 4, 0x4c, 4, 0x4c, 4, 3]);
    let fields: [(usize, &[u8]); 8] = [
        (0x08, &widths),
        (0x12, &[0x22, 0x80, 0x20, 0xff, 0xff]),
        (0x1b, &[0x28, 0, 0, 4]),
        (0x20, &[0xc0, 0x12]),
        (0x22, &voltages),
        (0x34, &[0; 8]),
        (0x3c, &[0, 0, 0, 0, 64]),
        (0x54, &speeds),
    ];
    dump.fields(17, 0x5c, &fields, &[(0x10, "PROC 1 DIMM 1"), (0x17, "Hynix"), (0x18, "80AD"), (0x1a, "HMCG94")]);
    dump.fields(38, 0x12, &[(4, &[1, 0x20, 0x20, 0xff, 0xa3, 0x0c]), (0x10, &[0x40, 5])], &[]);
    dump.fields(38, 0x12, &[(4, &[4, 0x20, 0x20, 0xff, 0x42])], &[]);
    let supply: [(usize, &[u8]); 2] = [(4, &[1]), (0x0c, &[0x40, 6, 0xa3, 0x11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])];
    dump.fields(39, 0x16, &supply, &[(5, "Bay 1"), (6, "PS 1"), (7, "Acme"), (8, "PSU-SER"), (0x0a, "PN-1600")]);
    // A USB network, and Redfish at 169.254.0.1, port 443.
    let mut redfish = [&uuid[..], &[3, 1, 169, 254, 0, 2], &[0; 12], &[255, 255, 0, 0], &[0; 12]].concat();
    redfish
        .extend([&[1, 1, 169, 254, 0, 1][..], &[0; 12], &[255, 255, 0, 0], &[0; 12], &[0xbb, 1, 7, 0, 0, 0]].concat());
    redfish.extend(b"\x03bmc");
    let network = [&[0x40, 5, 2, 0x6b, 4, 0xb0, 0xff, 1, 4, 94][..], &redfish].concat();
    dump.fields(42, 4 + network.len(), &[(4, &network)], &[]);
    dump.fields(45, 0x18, &[(0x0c, &[0, 0, 0x10]), (0x14, &[1, 0, 4])], &[(4, "BMC"), (5, "1.2"), (0x0a, "Acme")]);
    dump.fields(41, 0x0b, &[(5, &[0x85, 1, 0, 0, 0x04, 1])], &[(4, "Embedded NIC 1")]);
    dump.fields(43, 0x1f, &[(4, b"IFX\0"), (8, &[2, 0, 0x55, 0, 7, 0])], &[(0x12, "TPM 2.0")]);
    let dump = dump.finish();
    agrees(&dump);

    let smbios = dump::read(&dump);
    let facts = smbios.facts();
    assert_eq!(smbios.version().unwrap().to_string(), "3.5");
    let system = facts.system.unwrap();
    assert_eq!(system.uuid.as_deref(), Some("03020100-0504-0706-0809-0a0b0c0d0e0f"));
    assert_eq!(facts.bios.unwrap().rom_bytes, Some(64 << 20));
    let chassis = &facts.chassis[0];
    assert_eq!((chassis.chassis_type.as_deref(), chassis.height_u), (Some("Rack Mount Chassis"), Some(2)));
    assert_eq!(chassis.sku_number.as_deref(), Some("P123-B21"));
    let processor = &facts.processors[0];
    assert_eq!((processor.family, processor.voltage_mv), (Some(0x101), Some(1100)));
    let counts = [processor.core_count, processor.core_enabled, processor.thread_count, processor.thread_enabled];
    assert_eq!(counts, [256, 384, 512, 320].map(Some));
    assert_eq!((facts.caches[0].level, facts.caches[0].installed_bytes), (Some(3), Some(1 << 30)));
    let slot = &facts.slots[0];
    assert_eq!((slot.slot_type.as_deref(), slot.width.as_deref()), (Some("PCI Express 5 x16"), Some("x16")));
    assert_eq!(slot.bus_address.as_deref(), Some("0001:81:01.2"));
    let device = &facts.memory_devices[0];
    assert_eq!((device.size_bytes, device.memory_type.as_deref()), (Some(256 << 30), Some("DDR5")));
    assert_eq!((device.total_width_bits, device.data_width_bits), (Some(80), Some(64)));
    assert_eq!((device.speed_mts, device.configured_speed_mts), (Some(0x3c80), Some(4800)));
    assert_eq!((device.volatile_bytes, device.non_volatile_bytes), (Some(256 << 30), Some(0)));
    let bases: Vec<_> = facts.ipmi_devices.iter().map(|ipmi| (ipmi.base_address, ipmi.i2c_address)).collect();
    assert_eq!(bases, [(Some(0xca2), Some(0x10)), (Some(0x21), Some(0x10))]);
    let supply = &facts.supplies[0];
    assert_eq!((supply.capacity_watts, supply.status.as_deref()), (Some(1600), Some("OK")));
    let host = &facts.host_interfaces[0];
    assert_eq!((host.service_address.as_deref(), host.service_port), (Some("169.254.0.1"), Some(443)));
    assert_eq!((host.device_id.as_deref(), host.service_hostname.as_deref()), (Some("046b:ffb0"), Some("bmc")));
    assert_eq!(facts.firmware_components[0].image_bytes, Some(1 << 20));
    assert_eq!(facts.onboard_devices[0].bus_address.as_deref(), Some("0000:04:00.1"));
    assert_eq!(facts.tpms[0].firmware_version.as_deref(), Some("7.85"));
}
