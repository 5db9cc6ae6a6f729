//! Captures with everything that must be removed.

use super::*;
use crate::{Root, capture::Captured, collect};

fn file(path: &str, content: impl AsRef<[u8]>) -> (PathBuf, Kind) {
    (path.into(), Kind::File(content.as_ref().to_vec()))
}

fn content<'a>(entries: &'a BTreeMap<PathBuf, Kind>, path: &str) -> &'a [u8] {
    match &entries[Path::new(path)] {
        Kind::File(bytes) => bytes,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_value_goes_everywhere_and_stays_the_same_value() {
    let page = [&[0, 0x83, 0, 12, 1, 3, 0, 8][..], &0x5000_c500_a1b2_c3d4_u64.to_be_bytes()].concat();
    let entries = BTreeMap::from([
        file("/sys/class/dmi/id/product_serial", "SER 4711X\n"),
        file("/sys/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n"),
        file("/sys/block/sda/device/vpd_pg83", page),
        file("/sys/block/sda/size", "5000500\n"),
        file("/sys/class/net/eth0/address", "52:54:00:aa:bb:01\n"),
        file("/landfall/netlink/links", [0x52, 0x54, 0, 0xaa, 0xbb, 1, 9]),
        file("/run/udev/data/b8:0", "E:ID_WWN=0x5000c500a1b2c3d4\nE:ID_MODEL=ACME\nE:ID_SERIAL=ACME_SER_4711X\n"),
        file("/sys/devices/x/serial", "77\n"),
        ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".into(), Kind::Link("../../sda".into())),
    ]);
    let scrubbed = scrub(entries.clone(), b"key");
    assert_eq!(scrubbed.len(), entries.len());
    let all: Vec<u8> = scrubbed
        .iter()
        .flat_map(|(path, kind)| {
            let content = if let Kind::File(bytes) = kind { bytes.clone() } else { Vec::new() };
            [path.as_os_str().as_bytes().to_vec(), content].concat()
        })
        .collect();
    let gone: [&[u8]; 5] = [b"4711", b"a1b2c3d4", &[0xa1, 0xb2, 0xc3, 0xd4], b"aa:bb:01", &[0xaa, 0xbb, 1]];
    for value in gone {
        assert!(!all.windows(value.len()).any(|window| window == value), "{value:?}");
    }
    let wwn = String::from_utf8(content(&scrubbed, "/sys/block/sda/device/wwid").to_vec()).unwrap();
    let wwn = wwn.trim().strip_prefix("naa.").unwrap();
    assert!(wwn.starts_with("5000c50") && wwn.len() == 16, "{wwn}");
    assert!(scrubbed.contains_key(Path::new(&format!("/dev/disk/by-id/wwn-0x{wwn}"))));
    let number = u64::from_str_radix(wwn, 16).unwrap();
    assert_eq!(content(&scrubbed, "/sys/block/sda/device/vpd_pg83")[8..], number.to_be_bytes());
    assert_eq!(content(&scrubbed, "/sys/block/sda/size"), b"5000500\n");
    assert_ne!(content(&scrubbed, "/sys/devices/x/serial"), b"77\n");
    let mac = content(&scrubbed, "/sys/class/net/eth0/address");
    assert!(mac.starts_with(b"52:54:00:"));
    let last = u8::from_str_radix(std::str::from_utf8(&mac[15..17]).unwrap(), 16).unwrap();
    assert_eq!(content(&scrubbed, "/landfall/netlink/links")[5..], [last, 9]);
    let serial = String::from_utf8(content(&scrubbed, "/sys/class/dmi/id/product_serial").to_vec()).unwrap();
    let udev = String::from_utf8(content(&scrubbed, "/run/udev/data/b8:0").to_vec()).unwrap();
    assert!(udev.contains("E:ID_MODEL=ACME\n"), "{udev}");
    assert_eq!(serial.len(), "SER 4711X\n".len());
    assert_ne!(scrub(entries.clone(), b"other"), scrubbed);
    assert_eq!(scrub(entries, b"key"), scrubbed);
}

#[test]
fn the_log_of_what_was_booted_goes() {
    let log = "/sys/kernel/security/tpm0/binary_bios_measurements";
    let entries = BTreeMap::from([file(log, [1, 2, 3]), file("/sys/kernel/security/lockdown", "[none]")]);
    let scrubbed = scrub(entries, b"key");
    assert_eq!(scrubbed.into_keys().collect::<Vec<_>>(), [Path::new("/sys/kernel/security/lockdown")]);
}

#[test]
fn uuids_in_all_their_forms() {
    let entries = BTreeMap::from([
        file("/sys/class/dmi/id/product_uuid", "00112233-4455-6677-8899-aabbccddeeff\n"),
        file(
            "/landfall/x",
            [0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff],
        ),
        file("/landfall/y", "00112233445566778899AABBCCDDEEFF"),
    ]);
    let scrubbed = scrub(entries, b"key");
    let text = String::from_utf8(content(&scrubbed, "/sys/class/dmi/id/product_uuid").to_vec()).unwrap();
    let uuid: uuid::Uuid = text.trim().parse().unwrap();
    assert_ne!(uuid, uuid::uuid!("00112233-4455-6677-8899-aabbccddeeff"));
    assert_eq!(content(&scrubbed, "/landfall/x"), uuid.to_bytes_le());
    assert_eq!(content(&scrubbed, "/landfall/y"), uuid.simple().to_string().to_uppercase().as_bytes());
}

#[test]
fn what_tells_nothing_stays() {
    let entries = BTreeMap::from([
        file("/sys/class/net/lo/address", "00:00:00:00:00:00\n"),
        file("/sys/class/dmi/id/board_serial", "To be filled by O.E.M.\n"),
        file("/proc/cpuinfo", "000000000000"),
    ]);
    assert_eq!(scrub(entries.clone(), b"key"), entries);
}

/// The bytes of an archive's whole content: paths, targets and files.
fn all(entries: &BTreeMap<PathBuf, Kind>) -> Vec<u8> {
    let bytes = |(path, kind): (&PathBuf, &Kind)| {
        let content = match kind {
            Kind::File(bytes) => bytes.clone(),
            Kind::Link(target) => target.as_os_str().as_bytes().to_vec(),
            _ => Vec::new(),
        };
        [path.as_os_str().as_bytes(), b"\n", &content, b"\n"].concat()
    };
    entries.iter().flat_map(bytes).collect()
}

fn assert_gone(entries: &BTreeMap<PathBuf, Kind>, values: &[&[u8]]) {
    let all = all(entries);
    for value in values {
        let found = all.windows(value.len()).any(|window| window.eq_ignore_ascii_case(value));
        assert!(!found, "{} {value:02x?}", String::from_utf8_lossy(value));
    }
}

fn text<'a>(entries: &'a BTreeMap<PathBuf, Kind>, path: &str) -> &'a str {
    std::str::from_utf8(content(entries, path)).unwrap().trim()
}

#[test]
fn multipath_and_lvm_were_no_longer_known() {
    let entries = BTreeMap::from([
        file("/sys/block/sda/device/wwid", "naa.600508b1001c4d5e6f708192a3b4c5d6\n"),
        file("/sys/block/dm-0/dm/uuid", "mpath-3600508b1001c4d5e6f708192a3b4c5d6\n"),
        file("/sys/block/dm-1/dm/uuid", "part1-mpath-3600508b1001c4d5e6f708192a3b4c5d6\n"),
        file("/sys/block/dm-2/dm/uuid", "LVM-h3kPq9ZbT2xW7cVfR5mNj8LsD4gY6aQe1uXoKiJhGfEdCbA0zWvUtSrQpOnMlKjI\n"),
        file("/sys/block/dm-3/dm/uuid", "CRYPT-LUKS2-0123456789abcdeffedcba98765432aa-agent-root\n"),
        file("/run/udev/data/b8:0", "E:ID_SERIAL=3600508b1001c4d5e6f708192a3b4c5d6\n"),
    ]);
    let scrubbed = scrub(entries, b"key");
    let wwid = text(&scrubbed, "/sys/block/sda/device/wwid").strip_prefix("naa.").unwrap().to_owned();
    assert_eq!(text(&scrubbed, "/sys/block/dm-0/dm/uuid"), format!("mpath-3{wwid}"));
    assert_eq!(text(&scrubbed, "/sys/block/dm-1/dm/uuid"), format!("part1-mpath-3{wwid}"));
    assert_eq!(text(&scrubbed, "/run/udev/data/b8:0"), format!("E:ID_SERIAL=3{wwid}"));
    assert!(text(&scrubbed, "/sys/block/dm-2/dm/uuid").starts_with("LVM-"));
    let crypt = text(&scrubbed, "/sys/block/dm-3/dm/uuid");
    assert!(crypt.starts_with("CRYPT-LUKS2-") && crypt.ends_with("-agent-root"), "{crypt}");
    assert_gone(&scrubbed, &[b"1c4d5e6f", b"h3kPq9", b"0zWvUt", b"fedcba98"]);
}

#[test]
fn names_of_platforms_were_rewritten() {
    let entries = BTreeMap::from([
        file("/sys/class/dmi/id/sys_vendor", "Acme Cloud\n"),
        file("/sys/class/dmi/id/chassis_asset_tag", "OracleCloud.com\n"),
        file("/sys/class/dmi/id/board_asset_tag", "Amazon EC2\n"),
        file("/sys/class/dmi/id/board_serial", "acme cloud\n"),
        file("/sys/class/dmi/id/chassis_serial", "Base Board Serial Number\n"),
        file("/sys/class/dmi/id/product_serial", "7783-7084-3265-9085-8269-3286-77\n"),
        file("/sys/devices/x/serial", "No Asset Tag\n"),
    ]);
    assert_eq!(scrub(entries.clone(), b"key"), entries);
}

#[test]
fn values_that_devices_alone_tell_stayed() {
    let wwn = [0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, 0xd5];
    let mut identify = vec![0; 512];
    identify[216..224].copy_from_slice(&[0, 0x50, 0, 0xc5, 0xb2, 0xa1, 0xd6, 0xc3]);
    identify[20..40].copy_from_slice(b"CZ1112314C51        ");
    let mut controller = vec![0; 4096];
    controller[4..24].copy_from_slice(b"NVSER99817          ");
    controller[768..812].copy_from_slice(b"nqn.2014-08.org.example:nvme:MODEL:SUBSYS771");
    let page = [
        &[0, 0x83, 0, 42][..],
        &[2, 1, 0, 18],
        b"ACME    UNIT443322",
        &[0x61, 0x93, 0, 8],
        &wwn,
        &[3, 8, 0, 4],
        b"nopq",
    ]
    .concat();
    let entries = BTreeMap::from([
        file("/landfall/ipmi/0c-02-01-05-00-00", [0, 0x11, 0x3c, 0xec, 0xef, 0xa7, 0xb8, 0xc9]),
        file("/landfall/ipmi/06-37", [0, 0xd1, 0xd2, 0xd3, 0xd4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        file("/sys/class/dmi/id/product_uuid", "d4d3d2d1-0605-0807-090a-0b0c0d0e0f10\n"),
        file("/landfall/disks/sda/ata-identify", &identify),
        file("/sys/block/sda/device/vpd_pg89", [vec![0; 60], identify.clone()].concat()),
        file("/landfall/disks/sdb/scsi-page-83", page),
        file("/landfall/disks/nvme0/nvme-identify-controller", controller),
        file(
            "/sys/class/nvme/nvme0/subsysnqn",
            "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427\n",
        ),
        file(
            "/run/udev/data/b8:16",
            "E:ID_PATH=pci-0000:5e:00.0-sas-exp0x500a0981a2b3c4d5-phy3-lun-0\nE:ID_SERIAL=Q7Z\n",
        ),
        file("/sys/class/infiniband/mlx5_0/node_guid", "248a:0703:00b3:d112\n"),
        file("/sys/class/infiniband/mlx5_0/sys_image_guid", "248a:0703:00b3:d112\n"),
        file("/sys/class/net/ib0/address", "80:00:02:08:fe:80:00:00:00:00:00:00:24:8a:07:03:00:b3:d1:12\n"),
        file("/proc/sysinfo", "Type: 3906\nSequence Code:        00000000000A1B2C\n"),
        file("/proc/cpuinfo", "processor 0: version = FF,  identification = 0A1B2D,  machine = 3906\n"),
        file("/sys/class/net/eth0/address", "52:54:00:aa:bb:01\n"),
        file("/landfall/netlink/addresses", [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0xaa, 0xbb, 1]),
        file("/proc/cmdline", "BOOTIF=01-52-54-00-aa-bb-01 ip=fe80::5054:ff:feaa:bb01\n"),
        file("/etc/hostname", "node-525400aabb01\n"),
        ("/sys/class/net/enx525400aabb01".into(), Kind::Link("../../devices/enx525400aabb01".into())),
    ]);
    let scrubbed = scrub(entries.clone(), b"key");
    assert_gone(
        &scrubbed,
        &[
            &[0xa7, 0xb8, 0xc9],
            &[0xd1, 0xd2, 0xd3, 0xd4],
            &[0xd4, 0xd3, 0xd2, 0xd1],
            b"d4d3d2d1",
            &[0xb2, 0xa1, 0xd6, 0xc3],
            &[0xa1, 0xb2, 0xc3, 0xd5],
            b"CZ1112",
            b"NVSER99817",
            b"SUBSYS771",
            b"UNIT443322",
            b"1b4e28ba",
            b"a2b3c4d5",
            b"Q7Z",
            b"00b3:d112",
            b"00:b3:d1:12",
            b"A1B2C",
            b"A1B2D",
            &[0xfe, 0xaa, 0xbb, 1],
            b"aa-bb-01",
            b"aa:bb:01",
            b"aabb01",
            b"feaa:bb01",
        ],
    );
    assert_eq!(text(&scrubbed, "/proc/sysinfo").len(), text(&entries, "/proc/sysinfo").len());
    assert!(all(&scrubbed).windows(8).any(|window| window == b"ACME    "));
    let guid = text(&scrubbed, "/sys/class/infiniband/mlx5_0/node_guid").replace(':', "");
    let address = text(&scrubbed, "/sys/class/net/ib0/address").replace(':', "");
    assert!(address.ends_with(&guid), "{address} {guid}");
    // A replay finds the BMC to be the same machine still.
    let uuid: uuid::Uuid = text(&scrubbed, "/sys/class/dmi/id/product_uuid").parse().unwrap();
    assert_eq!(content(&scrubbed, "/landfall/ipmi/06-37")[1..], uuid.to_bytes_le());
}

#[test]
fn parts_and_keys_of_a_machine() {
    // A board with a serial number, and its right checksum.
    let mut part = vec![1, 0, 0, 1, 0, 0, 0, 0xfe, 1, 4, 25, 0, 0, 0, 0xc4];
    part.extend(b"Acme\xc4Main\xcaBRD7700123\xc0\xc1\0");
    let sum = part[8..].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    part.resize(39, 0);
    part.push(sum.wrapping_neg());
    // An RSA key without policy, symmetric algorithm and scheme.
    let mut key = vec![0, 1, 0, 0xb, 0, 3, 0, 0xb2, 0, 0, 0, 0x10, 0, 0x10, 8, 0, 0, 0, 0, 0, 1, 0];
    key.extend([0x5a; 256]);
    let entries = BTreeMap::from([
        file("/landfall/ipmi/part-00", &part),
        file("/landfall/tpm/tpm0/public-81010001", &key),
        file("/landfall/tpm/tpm0/nv-01c00002", [&[0x30, 0x82][..], &[0x5a; 256]].concat()),
        file("/sys/class/dmi/id/board_serial", "BRD7700123\n"),
    ]);
    let scrubbed = scrub(entries, b"key");
    assert_gone(&scrubbed, &[b"BRD7700123", &[0x5a; 8]]);
    let part = content(&scrubbed, "/landfall/ipmi/part-00");
    assert_eq!(part[8..].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)), 0);
    let serial = text(&scrubbed, "/sys/class/dmi/id/board_serial");
    assert!(part.windows(10).any(|bytes| bytes == serial.trim().as_bytes()));
}

/// An inventory without what tells one machine of a make from the next.
fn of_make(root: &Root) -> serde_json::Value {
    const IDENTIFIERS: [&str; 8] =
        ["serial", "serial_number", "wwn", "id", "by_id", "by_path", "mac_address", "ipv6_addresses"];
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.retain(|name, _| !IDENTIFIERS.contains(&name.as_str()));
                fields.values_mut().for_each(strip);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(collect(root)).unwrap();
    strip(&mut value);
    value
}

#[test]
fn a_scrubbed_machine_is_of_the_same_make() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut count = 0;
    for machine in std::fs::read_dir(dir).unwrap() {
        let machine = machine.unwrap().path().join("capture.tar.gz");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        Captured::take(Root::open(&machine).unwrap()).scrub().write(file.as_file_mut()).unwrap();
        let (first, scrubbed) = (Root::open(&machine).unwrap(), Root::open(file.path()).unwrap());
        assert_eq!(of_make(&first), of_make(&scrubbed), "{}", machine.display());
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn serial_numbers_of_the_device_tree_go() {
    let entries = BTreeMap::from([
        file("/sys/firmware/devicetree/base/serial-number", "0123ABCD4711\0"),
        file("/sys/firmware/devicetree/base/model", "Board 0123ABCD4711\0"),
        file("/proc/device-tree/system-id", "78AB\0"),
    ]);
    let scrubbed = scrub(entries, b"key");
    for (path, secret) in [
        ("/sys/firmware/devicetree/base/serial-number", "0123ABCD4711"),
        ("/sys/firmware/devicetree/base/model", "0123ABCD4711"),
        ("/proc/device-tree/system-id", "78AB"),
    ] {
        let text = String::from_utf8_lossy(content(&scrubbed, path)).into_owned();
        assert!(!text.contains(secret) && text.ends_with('\0'), "{path}: {text:?}");
    }
}

#[test]
fn drives_behind_raid_controllers_stayed() {
    let address = 0x5000_c500_aabb_ccdd_u64;
    let mut drive = crate::megaraid::samples::drive(8, 3, 2, 0x18);
    drive[40..48].copy_from_slice(b"W1234567");
    drive[200..208].copy_from_slice(&address.to_le_bytes());
    let mut list = crate::megaraid::samples::drives(&[8]);
    list[16..24].copy_from_slice(&address.to_le_bytes());
    let entries = BTreeMap::from([
        file("/landfall/disks/megaraid0/megaraid-controller", crate::megaraid::samples::controller()),
        file("/landfall/disks/megaraid0/megaraid-drives", list),
        file("/landfall/disks/megaraid0/megaraid-drive-8", drive),
        file("/landfall/disks/megaraid0.8/scsi-page-80", b"\0\x80\0\x08W1234567"),
    ]);
    let scrubbed = scrub(entries, b"key");
    assert_gone(&scrubbed, &[b"23A01PK", b"W1234567", &address.to_le_bytes(), &0xa1b2_c3d4_u32.to_be_bytes()]);
    let drive = content(&scrubbed, "/landfall/disks/megaraid0/megaraid-drive-8");
    assert_eq!(crate::megaraid::drive(drive, 8).unwrap().model.as_deref(), Some("ST1000NX0453"));
    assert_eq!(drive[200..208], content(&scrubbed, "/landfall/disks/megaraid0/megaraid-drives")[16..24]);
}

#[test]
fn cards_modules_and_accelerators_keep_their_make_and_lose_their_serials() {
    let vpd = pci::vpd::tests::card("AC2401X00017");
    let mut module = vec![0; 128];
    module[0] = 3;
    module[20..30].copy_from_slice(b"ACME CORP.");
    module[68..77].copy_from_slice(b"ACS123456");
    let entries = BTreeMap::from([
        file("/sys/devices/pci0000:00/0000:01:00.0/vpd", &vpd),
        file("/landfall/interfaces/eno1/module-50-00-00-lower", &module),
        file("/landfall/interfaces/eno1/module-51-00-00-lower", [3; 128]),
        file("/sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0c42:a103:0012:3456\n"),
        file("/sys/devices/pci0000:00/0000:05:00.0/unique_id", "9a8b7c6d5e4f3a2b\n"),
        file(
            "/proc/driver/nvidia/gpus/0000:07:00.0/information",
            "GPU UUID: GPU-01234567-89ab-cdef-0123-456789abcde0\n",
        ),
    ]);
    let scrubbed = scrub(entries, b"key");
    let values: [&[u8]; 7] = [
        b"AC2401X00017",
        b"0123456789abcdef0123456789abcdef",
        b"asset-7",
        b"ACS123456",
        b"a103:0012:3456",
        b"6d5e4f3a2b",
        b"456789abcde0",
    ];
    assert_gone(&scrubbed, &values);
    let vpd = content(&scrubbed, "/sys/devices/pci0000:00/0000:01:00.0/vpd");
    let mut corrected = vpd.to_vec();
    pci::vpd::correct(&mut corrected);
    assert_eq!(vpd, corrected, "the checksum is right");
    assert!(vpd.windows(8).any(|window| window == b"AC-X6-DX"));
    assert!(content(&scrubbed, "/landfall/interfaces/eno1/module-50-00-00-lower").starts_with(&module[..40]));
}
