//! Made-up systems: files in the place of devices, with the superblocks that matter.

use super::bind_boot::{bind, vendor};
use super::rootmap::arguments;
use super::system::System;
use super::unique_label::verify;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::tree::Tree;

const EXT4: &str = "11111111-2222-3333-4444-555555555555";
const ROOT: &str = "99999999-8888-7777-6666-555555555555";
const LUKS: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
const DEVICE_BYTES: usize = 1 << 20;

fn device(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; DEVICE_BYTES];
    for (at, part) in parts {
        bytes[*at..*at + part.len()].copy_from_slice(part);
    }
    bytes
}

fn uuid_bytes(uuid: &str) -> [u8; 16] {
    kernel::hex::parse(&uuid.replace('-', "")).unwrap()
}

/// A superblock of ext4, with extents.
fn ext4(label: &str, uuid: &str) -> Vec<u8> {
    let extents = 0x40u32.to_le_bytes();
    let journal = 4u32.to_le_bytes();
    device(&[
        (1024 + 56, &[0x53, 0xEF]),
        (1024 + 76, &1u32.to_le_bytes()),
        (1024 + 92, &journal),
        (1024 + 96, &extents),
        (1024 + 104, &uuid_bytes(uuid)),
        (1024 + 120, label.as_bytes()),
    ])
}

/// A member of an array of version 1.0, at whose start the array's contents are, or of 1.2.
fn raid(mut inside: Vec<u8>, minor: u32, name: &str) -> Vec<u8> {
    let at = if minor == 0 { DEVICE_BYTES - 8192 } else { 4096 };
    inside[at..at + 8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    inside[at + 16..at + 32].copy_from_slice(&uuid_bytes("01234567-89ab-cdef-0123-456789abcdef"));
    inside[at + 32..at + 32 + name.len()].copy_from_slice(name.as_bytes());
    inside[at + 72] = 1;
    inside[at + 92] = 2;
    inside[at + 144..at + 152].copy_from_slice(&u64::try_from(at / 512).unwrap().to_le_bytes());
    inside
}

fn luks() -> Vec<u8> {
    device(&[(0, b"LUKS\xba\xbe\0\x02"), (168, LUKS.as_bytes())])
}

/// A machine that is made of devices.
struct Machine(Tree);

impl Machine {
    fn new() -> Self {
        let tree = Tree::new(&[("proc/self/mountinfo", "")]);
        tree.dir("sys/block").dir("sys/class/block").dir("sys/dev/block").dir("run");
        Self(tree)
    }

    /// `path` is below /sys/devices: `sda` or `sda/sda1`.
    fn add(&self, path: &str, number: &str, contents: &[u8], attributes: &[(&str, &str)]) -> &Self {
        let name = path.rsplit('/').next().unwrap();
        let dir = format!("sys/devices/{path}");
        self.0.add(&format!("{dir}/dev"), format!("{number}\n")).add(&format!("{dir}/size"), "2048\n");
        for (attribute, value) in attributes {
            self.0.add(&format!("{dir}/{attribute}"), format!("{value}\n"));
        }
        if let Some((_, rest)) = path.split_once('/') {
            self.0.add(&format!("{dir}/partition"), rest.trim_start_matches(|c: char| !c.is_ascii_digit()));
        } else {
            self.0.link(&format!("sys/block/{name}"), &format!("../devices/{path}"));
        }
        self.0.link(&format!("sys/class/block/{name}"), &format!("../../devices/{path}"));
        self.0.link(&format!("sys/dev/block/{number}"), &format!("../../devices/{path}"));
        self.0.add(&format!("dev/{name}"), contents);
        self
    }

    /// Stacks one device on another.
    fn stack(&self, lower: &str, upper: &str) -> &Self {
        let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        let up = |path: &str| "../".repeat(path.matches('/').count() + 2);
        self.0.link(&format!("sys/devices/{upper}/slaves/{}", name(lower)), &format!("{}{lower}", up(upper)));
        self.0.link(&format!("sys/devices/{lower}/holders/{}", name(upper)), &format!("{}{upper}", up(lower)));
        self
    }

    fn mounted(&self, mounts: &[(&str, &str)]) -> System {
        let line = |(number, at): &(&str, &str)| format!("1 1 {number} / {at} rw - ext4 /dev/x rw\n");
        self.0.add("proc/self/mountinfo", mounts.iter().map(line).collect::<String>());
        System::open(self.0.path()).unwrap()
    }

    /// The arguments for the root on this device.
    fn root_on(&self, number: &str, flags: &str) -> Result<String, String> {
        let system = self.mounted(&[("0:5", "/sysroot"), (number, "/sysroot/sysroot")]);
        let arguments = arguments(&system, Path::new("/sysroot"), |_| Ok(flags.to_owned()));
        arguments.map(|words| words.join(" ")).map_err(|error| format!("{error:#}"))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap()
    }
}

const NAMED: (&str, &str) = ("dm/name", "luks-root");
const OPENED: (&str, &str) = ("dm/uuid", "CRYPT-LUKS2-aaaaaaaabbbbccccddddeeeeeeeeeeee-luks-root");

#[test]
fn a_plain_root_needs_its_uuid_only() {
    let machine = Machine::new();
    machine.add("sda", "8:0", &[0; 4096], &[]).add("sda/sda4", "8:4", &ext4("root", ROOT), &[]);
    assert_eq!(machine.root_on("8:4", "").unwrap(), format!("root=UUID={ROOT} rw"));
    assert_eq!(machine.root_on("8:4", "prjquota").unwrap(), format!("root=UUID={ROOT} rw rootflags=prjquota"));
    assert_eq!(machine.root_on("0:9", "").unwrap_err(), "/dev/x is not a block device");
    assert_eq!(machine.root_on("8:0", "").unwrap_err(), "filesystem /dev/x has no UUID");
    let nothing = machine.mounted(&[("8:4", "/sysroot/sysroot")]);
    let error = arguments(&nothing, Path::new("/sysroot"), |_| unreachable!()).unwrap_err();
    assert_eq!(error.to_string(), "mountpoint /sysroot not found");
}

#[test]
fn the_lowest_device_comes_first() {
    let machine = Machine::new();
    for (disk, number) in [("sda", "8:"), ("sdb", "8:1")] {
        let member = raid(luks(), 2, "any:md-root");
        machine.add(disk, &format!("{number}0"), &[], &[]);
        machine.add(&format!("{disk}/{disk}4"), &format!("{number}4"), &member, &[]);
        machine.stack(&format!("{disk}/{disk}4"), "md127");
    }
    machine.add("md127", "9:127", &luks(), &[("md/level", "raid1")]);
    machine.add("dm-0", "253:0", &ext4("root", ROOT), &[NAMED, OPENED]).stack("md127", "dm-0");
    let expected = |more: &str| {
        format!(
            "rd.md.uuid=01234567:89abcdef:01234567:89abcdef rd.luks.name={LUKS}=luks-root {more}root=UUID={ROOT} rw"
        )
    };
    assert!(machine.root_on("253:0", "").unwrap_err().starts_with("opening /sysroot/etc/crypttab: "));
    for (crypttab, more) in [
        ("# x\n\nluks-other /dev/x - _netdev\nluks-root UUID=x /key luks,discard\n", Ok("")),
        ("luks-root UUID=x\n", Ok("")),
        ("luks-root UUID=x - luks,_netdev\n", Ok("rd.neednet=1 rd.luks.options=_netdev ")),
        ("luks-root UUID=x - x_netdev\n", Ok("")),
        ("luks-root2 UUID=x - _netdev\n", Err("couldn't find luks-root in /sysroot/etc/crypttab")),
        ("luks-root\n", Err("crypttab line missing name or device: luks-root")),
    ] {
        machine.0.add("sysroot/etc/crypttab", crypttab);
        let expected = more.map(expected).map_err(str::to_owned);
        assert_eq!(machine.root_on("253:0", ""), expected, "{crypttab}");
    }
}

#[test]
fn a_firmwares_array_has_the_uuid_that_udev_knows() {
    let machine = Machine::new();
    machine.add("sda", "8:0", &[0; 4096], &[]).stack("sda", "md126");
    machine.add("md126", "9:126", &ext4("root", ROOT), &[("md/level", "raid1")]);
    assert_eq!(machine.root_on("9:126", "").unwrap_err(), "missing MD_UUID for /dev/md126");
    machine.0.add("run/udev/data/b9:126", "E:MD_UUID=1:2:3:4\n");
    assert_eq!(machine.root_on("9:126", "").unwrap(), format!("rd.md.uuid=1:2:3:4 root=UUID={ROOT} rw"));
}

#[test]
fn integrity_below_luks_is_passed_over() {
    let machine = Machine::new();
    machine.0.add("sysroot/etc/crypttab", "luks-root UUID=x - -\n");
    machine.add("sda", "8:0", &[], &[]).add("sda/sda4", "8:4", &luks(), &[]).stack("sda/sda4", "dm-0");
    machine.add("dm-0", "253:0", &[0; 4096], &[("dm/name", "x"), ("dm/uuid", "CRYPT-SUBDEV-1-x")]);
    machine.stack("dm-0", "dm-1").add("dm-1", "253:1", &ext4("root", ROOT), &[NAMED, OPENED]);
    assert_eq!(machine.root_on("253:1", "").unwrap(), format!("rd.luks.name={LUKS}=luks-root root=UUID={ROOT} rw"));
}

#[test]
fn on_multipath_the_root_has_a_name_that_only_the_map_gets() {
    let machine = Machine::new();
    machine.add("sda", "8:0", &[], &[]).add("sdb", "8:16", &[], &[]).stack("sda", "dm-0").stack("sdb", "dm-0");
    machine.add("dm-0", "253:0", &[], &[("dm/uuid", "mpath-3600a-b")]).stack("dm-0", "dm-4");
    machine.add("dm-4", "253:4", &ext4("root", ROOT), &[("dm/uuid", "part4-mpath-3600a-b")]);
    let expected = format!("mpath.wwid=3600a-b root=/dev/disk/by-uuid/dm-mpath-{ROOT} rw");
    assert_eq!(machine.root_on("253:4", "").unwrap(), expected);
}

#[test]
fn what_the_initramfs_cannot_assemble_is_refused() {
    for (name, attribute, kind) in [
        ("dm-0", ("dm/uuid", "LVM-abc"), "lvm"),
        ("dm-0", ("dm/uuid", "x"), "dm"),
        ("md0", ("md/level", "container"), "container"),
        ("loop0", ("loop/offset", "0"), "loop"),
    ] {
        let machine = Machine::new();
        machine.add(name, "253:0", &ext4("root", ROOT), &[attribute]);
        assert_eq!(machine.root_on("253:0", "").unwrap_err(), format!("unknown block device type {kind}"));
    }
}

/// GPT with an EFI system partition as the second.
fn gpt() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    let args = ["-n", "1:2048:+1M", "-n", "2:0:+1M", "-t", "2:ef00"];
    let output = std::process::Command::new("sgdisk").args(args).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::read(file.path()).unwrap()
}

const ENTRY: &str = "boot/loader/entries/ostree-1.conf";

fn with_boot(disks: &[&str]) -> Machine {
    let machine = Machine::new();
    machine.0.add(ENTRY, "title x\noptions rw quiet\n").dir("boot/grub2");
    for (index, disk) in disks.iter().enumerate() {
        let number = |partition: usize| format!("8:{}", index * 16 + partition);
        machine.add(disk, &number(0), &gpt(), &[]);
        for (partition, contents) in [(2, vec![]), (3, ext4("boot", EXT4)), (4, ext4("root", ROOT))] {
            machine.add(&format!("{disk}/{disk}{partition}"), &number(partition), &contents, &[]);
        }
    }
    machine
}

#[test]
fn boot_is_bound_once() {
    let machine = with_boot(&["sda"]);
    let system = machine.mounted(&[("8:3", "/boot"), ("8:4", "/sysroot/sysroot")]);
    let bind = || bind(&system, Path::new("/sysroot"), Path::new("/boot"));
    for _ in 0..2 {
        assert_eq!(bind().unwrap(), (EXT4.to_owned(), vec![PathBuf::from("/dev/sda2")]));
        assert_eq!(machine.text(ENTRY), format!("title x\noptions rw quiet boot=UUID={EXT4}\n"));
        assert_eq!(machine.text("boot/grub2/bootuuid.cfg"), format!("set BOOT_UUID=\"{EXT4}\"\n"));
        assert_eq!(machine.text("run/coreos/bootfs_uuid"), format!("{EXT4}\n"));
        assert_eq!(machine.text("boot/.root_uuid"), format!("{ROOT}\n"));
    }
    machine.0.add("boot/.root_uuid", "another\n");
    let error = bind().unwrap_err().to_string();
    assert_eq!(error, "boot filesystem already bound to a root filesystem (UUID: another)");
}

#[test]
fn an_argument_that_exists_stays() {
    let machine = with_boot(&["sda"]);
    machine.0.add(ENTRY, "options boot=LABEL=boot rw\n");
    let system = machine.mounted(&[("8:3", "/boot"), ("8:4", "/sysroot/sysroot")]);
    bind(&system, Path::new("/sysroot"), Path::new("/boot")).unwrap();
    assert_eq!(machine.text(ENTRY), "options boot=LABEL=boot rw\n");
    assert!(!machine.0.path().join("run/coreos").exists());
}

#[test]
fn every_disk_below_a_mirror_has_an_efi_partition() {
    let machine = with_boot(&["sda", "sdb"]);
    machine.stack("sda/sda3", "md0").stack("sdb/sdb3", "md0");
    machine.add("md0", "9:0", &ext4("boot", EXT4), &[("md/level", "raid1")]);
    let system = machine.mounted(&[("9:0", "/boot"), ("8:4", "/sysroot/sysroot")]);
    let (_, partitions) = bind(&system, Path::new("/sysroot"), Path::new("/boot")).unwrap();
    assert_eq!(partitions, ["/dev/sda2", "/dev/sdb2"].map(PathBuf::from));
}

#[test]
fn partitions_of_multipath_are_those_of_the_map() {
    let machine = with_boot(&["sda"]);
    machine.stack("sda", "dm-0").add("dm-0", "253:0", &gpt(), &[("dm/uuid", "mpath-w")]);
    for (name, partition) in [("dm-2", 2), ("dm-3", 3)] {
        let uuid = format!("part{partition}-mpath-w");
        let number = format!("253:{partition}");
        machine.add(name, &number, &ext4("boot", EXT4), &[("dm/uuid", &uuid)]).stack("dm-0", name);
    }
    let system = machine.mounted(&[("253:3", "/boot"), ("8:4", "/sysroot/sysroot")]);
    let (_, partitions) = bind(&system, Path::new("/sysroot"), Path::new("/boot")).unwrap();
    assert_eq!(partitions, [PathBuf::from("/dev/dm-2")]);
}

#[test]
fn the_vendor_is_the_one_with_a_configuration() {
    let tree = Tree::new(&[("EFI/BOOT/x.efi", ""), ("EFI/fedora/grub.cfg", ""), ("EFI/grub.cfg", "")]);
    let device = Path::new("/dev/sda2");
    assert_eq!(vendor(tree.path(), device).unwrap(), tree.path().join("EFI/fedora"));
    tree.add("EFI/redhat/grub.cfg", "");
    let error = vendor(tree.path(), device).unwrap_err().to_string();
    assert!(error.starts_with("Expected one vendor dir on /dev/sda2, got 2 ("), "{error}");
}

/// What is said of a label.
fn verified(machine: &Machine, label: &str) -> String {
    let system = System::open(machine.0.path()).unwrap();
    verify(&system, label).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_label_is_on_one_file_system() {
    let machine = Machine::new();
    machine.add("sda", "8:0", &ext4("boot", "00000000-0000-0000-0000-000000000001"), &[]);
    machine.add("sda/sda3", "8:3", &ext4("boot", EXT4), &[]).add("sdc", "8:32", &[0; 4096], &[("size", "0")]);
    assert_eq!(verified(&machine, "boot"), "", "a disk with partitions is not looked at");
    assert_eq!(verified(&machine, "boo"), "System has 0 devices with a filesystem labeled 'boo': []");
    // Another path to the same disk.
    machine.add("sdb", "8:16", &[], &[]).add("sdb/sdb3", "8:19", &ext4("boot", EXT4), &[]);
    assert_eq!(verified(&machine, "boot"), "");
    machine.add("sdd", "8:48", &ext4("boot", ROOT), &[]);
    let both = r#"System has 2 devices with a filesystem labeled 'boot': ["/dev/sda3", "/dev/sdd"]"#;
    assert_eq!(verified(&machine, "boot"), both);
}

#[test]
fn a_mirror_is_one_file_system_and_its_members_are_none() {
    let machine = Machine::new();
    for (disk, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        machine.add(disk, number, &raid(ext4("boot", EXT4), 0, "any:md-boot"), &[]);
    }
    let missing = r#"No assembled filesystem labeled 'boot', but found RAID member devices ["/dev/sda", "/dev/sdb"]. Is the RAID array degraded or failed to assemble?"#;
    assert_eq!(verified(&machine, "boot"), missing);
    assert!(verified(&machine, "md-boot").starts_with("No assembled filesystem labeled 'md-boot'"));
    machine.stack("sda", "md0").stack("sdb", "md0");
    assert_eq!(verified(&machine, "boot"), "System has 0 devices with a filesystem labeled 'boot': []");
    machine.add("md0", "9:0", &ext4("boot", EXT4), &[("md/level", "raid1")]);
    assert_eq!(verified(&machine, "boot"), "");
}
