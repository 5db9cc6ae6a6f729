//! What is recognized on a disk, against what libblkid says of the same bytes: kind, name, identifier, and every place that
//! `wipefs` would erase.
#![allow(clippy::unwrap_used)]

use diskwrite::probe::{Kind, Signature, probe};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::disk::run;

const MIB: usize = 1 << 20;
const ID: [u8; 16] = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x47, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 1];

struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn new(len: usize) -> Self {
        let disk = Self { dir: tempfile::tempdir().unwrap() };
        File::create(disk.path()).unwrap().set_len(u64::try_from(len).unwrap()).unwrap();
        disk
    }

    fn with_content(bytes: &[u8]) -> Self {
        let disk = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(disk.path(), bytes).unwrap();
        disk
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn text(&self) -> String {
        self.path().display().to_string()
    }

    fn signatures(&self) -> Vec<Signature> {
        let file = File::open(self.path()).unwrap();
        let len = file.metadata().unwrap().len();
        probe(&file, len, 512).signatures
    }

    /// `blkid -p`'s answer for this key.
    fn blkid(&self, key: &str) -> Option<String> {
        let output = Command::new("blkid").args(["-p", "-o", "value", "-s", key]).arg(self.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        Some(text.trim_end_matches('\n').to_owned()).filter(|text| !text.is_empty())
    }

    /// Types and offsets of `wipefs -n`.
    fn wipefs(&self) -> Vec<(String, u64)> {
        let json: serde_json::Value =
            serde_json::from_str(&run("wipefs", &["--no-act", "--json", &self.text()])).unwrap();
        let list = json["signatures"].as_array().unwrap();
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        list.iter()
            .map(|sig| (sig["type"].as_str().unwrap().to_owned(), number(sig["offset"].as_str().unwrap())))
            .collect()
    }

    /// The one signature, which libblkid sees as well, in the same way, and to be erased at no other places.
    fn agrees(&self, kind: Kind) -> Signature {
        let found = self.signatures();
        let [signature] = found.as_slice() else { panic!("{kind}: {found:?}") };
        assert_eq!(signature.kind, kind);
        assert_eq!(self.blkid("TYPE").as_deref(), Some(kind.name()));
        assert_eq!(self.blkid("LABEL"), signature.label, "{kind}");
        self.erases(signature);
        signature.clone()
    }

    fn agrees_on_id(&self, kind: Kind) -> Signature {
        let signature = self.agrees(kind);
        assert_eq!(self.blkid("UUID"), signature.uuid, "{kind}");
        signature
    }

    /// wipefs' places are among ours, and after erasing ours libblkid knows nothing any more.
    fn erases(&self, signature: &Signature) {
        for (name, offset) in self.wipefs() {
            let inside = |magic: &diskwrite::probe::Span| (magic.offset..magic.end()).contains(&offset);
            assert!(signature.magics.iter().any(inside), "{name} at {offset}: {:?}", signature.magics);
        }
        let copy = Self::with_content(&fs::read(self.path()).unwrap());
        let file = fs::OpenOptions::new().write(true).open(copy.path()).unwrap();
        for magic in &signature.magics {
            file.write_all_at(&vec![0; usize::try_from(magic.len).unwrap()], magic.offset).unwrap();
        }
        assert_eq!(copy.blkid("TYPE"), None, "{}", signature.kind);
        assert_eq!(copy.blkid("PTTYPE"), None, "{}", signature.kind);
        assert_eq!(copy.signatures(), [], "{}", signature.kind);
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn lacks(tool: &str) -> bool {
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(tool).exists());
    !testkit::skip::unless(tool, found)
}

#[test]
fn file_systems_as_their_own_tools_make_them() {
    for (kind, name) in [(Kind::Ext2, "ext2"), (Kind::Ext3, "ext3"), (Kind::Ext4, "ext4")] {
        let disk = Disk::new(16 * MIB);
        run("mke2fs", &["-q", "-F", "-t", name, "-L", "boot", &disk.text()]);
        assert_eq!(disk.agrees_on_id(kind).label.as_deref(), Some("boot"));
    }
    let disk = Disk::new(16 * MIB);
    run("mke2fs", &["-q", "-F", "-O", "journal_dev", &disk.text()]);
    disk.agrees(Kind::Journal);
    let disk = Disk::new(16 * MIB);
    run("mkswap", &["-q", "-L", "swapped", &disk.text()]);
    assert_eq!(disk.agrees_on_id(Kind::Swap).label.as_deref(), Some("swapped"));
    // A hibernated system.
    let mut bytes = fs::read(disk.path()).unwrap();
    put(&mut bytes, 4086, b"S1SUSPEND\0");
    Disk::with_content(&bytes).agrees(Kind::Hibernation);
    for (width, bytes) in [("12", 4 * MIB), ("16", 32 * MIB), ("32", 80 * MIB)] {
        let disk = Disk::new(bytes);
        run("mkfs.vfat", &["-F", width, "-n", "EFI-SYSTEM", &disk.text()]);
        let found = disk.agrees_on_id(Kind::Vfat);
        assert_eq!(found.label.as_deref(), Some("EFI-SYSTEM"));
        assert_eq!(found.detail, Some(format!("FAT{width}")));
    }
}

#[test]
fn images_as_their_own_tools_make_them() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("file"), "content").unwrap();
    let tree = tree.path().display().to_string();
    let disk = Disk::new(0);
    run("mksquashfs", &[&tree, &disk.text(), "-quiet", "-no-progress", "-noappend"]);
    disk.agrees(Kind::Squashfs);
    let disk = Disk::new(0);
    fs::remove_file(disk.path()).unwrap();
    run("xorriso", &["-outdev", &disk.text(), "-volid", "rhcos-9.6", "-map", &tree, "/"]);
    assert_eq!(disk.agrees_on_id(Kind::Iso9660).label.as_deref(), Some("rhcos-9.6"));
    let contents = probe(&File::open(disk.path()).unwrap(), fs::metadata(disk.path()).unwrap().len(), 512);
    assert_eq!(contents.systems, ["installation medium"]);
}

#[test]
fn larger_file_systems() {
    let disk = Disk::new(320 * MIB);
    if !lacks("mkfs.xfs") {
        run("mkfs.xfs", &["-q", "-L", "root", &disk.text()]);
        disk.agrees_on_id(Kind::Xfs);
    }
    let disk = Disk::new(160 * MIB);
    if !lacks("mkfs.btrfs") {
        run("mkfs.btrfs", &["-q", "-L", "data", &disk.text()]);
        assert_eq!(disk.agrees_on_id(Kind::Btrfs).magics.len(), 2);
    }
}

/// The checksum of LVM's labels: CRC-32 with a start of its own and no last complement.
fn lvm_crc(bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xF597_A6CF);
    hasher.update(bytes);
    (!hasher.finalize()).to_le_bytes()
}

fn lvm2(sector: usize) -> Vec<u8> {
    let mut bytes = vec![0; 8 * MIB];
    let label = &mut bytes[sector * 512..][..512];
    put(label, 0, b"LABELONE");
    put(label, 8, &u64::try_from(sector).unwrap().to_le_bytes());
    put(label, 20, &32u32.to_le_bytes());
    put(label, 24, b"LVM2 001");
    put(label, 32, b"abcdefGHIJKLMNOPQRSTUVWXYZ012345");
    put(label, 64, &(8u64 << 20).to_le_bytes());
    put(label, 72, &(1u64 << 20).to_le_bytes());
    put(label, 104, &4096u64.to_le_bytes());
    put(label, 112, &(1_044_480u64).to_le_bytes());
    let crc = lvm_crc(&label[20..]);
    put(label, 16, &crc);
    put(&mut bytes, 4100, b" LVM2 x[5A%r0N*>\x01\0\0\0");
    put(&mut bytes, 4096 + 40, &0x1000u64.to_le_bytes());
    put(&mut bytes, 4096 + 48, &100u64.to_le_bytes());
    put(&mut bytes, 8192, b"vg_root-1 {\nid = \"x\"\n");
    bytes
}

#[test]
fn lvm() {
    for sector in 0..4 {
        let disk = Disk::with_content(&lvm2(sector));
        let found = disk.signatures();
        assert_eq!(found[0].label.as_deref(), Some("vg_root-1"));
        assert_eq!(disk.blkid("TYPE").as_deref(), Some(found[0].kind.name()));
        assert_eq!(disk.blkid("UUID"), found[0].uuid);
        disk.erases(&found[0]);
    }
    let mut bytes = lvm2(1);
    bytes[4096 + 48] = 0;
    let found = Disk::with_content(&bytes).signatures();
    assert_eq!((found[0].label.as_deref(), found[0].detail.as_deref()), (None, Some("in no volume group")));
}

#[test]
fn md_raid_of_every_version() {
    for (minor, at) in [(0u32, 8 * MIB - 8192), (1, 0), (2, 4096)] {
        let mut bytes = vec![0; 8 * MIB];
        let block = &mut bytes[at..][..512];
        put(block, 0, &0xA92B_4EFCu32.to_le_bytes());
        put(block, 4, &1u32.to_le_bytes());
        put(block, 16, &ID);
        put(block, 32, b"host:boot");
        put(block, 72, &1u32.to_le_bytes());
        put(block, 92, &2u32.to_le_bytes());
        put(block, 144, &u64::try_from(at / 512).unwrap().to_le_bytes());
        let found = Disk::with_content(&bytes).agrees_on_id(Kind::MdRaid);
        assert_eq!(found.detail, Some(format!("version 1.{minor}, RAID level 1 of 2 devices")));
        assert_eq!(found.label.as_deref(), Some("host:boot"));
    }
    for big in [false, true] {
        let mut bytes = vec![0; 8 * MIB];
        let mut words = [0u32; 128];
        for (index, value) in [(0, 0xA92B_4EFC), (2, 90), (5, 0x1122_3344), (7, 5), (10, 3), (13, 5), (14, 6), (15, 7)]
        {
            words[index] = value;
        }
        words[8] = 4096;
        for (index, word) in words.into_iter().enumerate() {
            let word = if big { word.to_be_bytes() } else { word.to_le_bytes() };
            put(&mut bytes, 8 * MIB - 65536 + index * 4, &word);
        }
        let disk = Disk::with_content(&bytes);
        let found = disk.agrees(Kind::MdRaid);
        assert_eq!(found.detail.as_deref(), Some("version 0.90, RAID level 5 of 3 devices"));
        if !big {
            assert_eq!(disk.blkid("UUID"), found.uuid);
        }
    }
}

#[test]
fn encryption() {
    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 0, b"LUKS\xba\xbe\0\x01");
    put(&mut bytes, 168, b"11223344-5566-4788-99aa-bbccddeeff01");
    Disk::with_content(&bytes).agrees_on_id(Kind::Luks);
    put(&mut bytes, 0, b"LUKS\xba\xbe\0\x02");
    put(&mut bytes, 8, &0x4000u64.to_be_bytes());
    put(&mut bytes, 24, b"luks-root");
    let second = bytes[..512].to_vec();
    put(&mut bytes, 0x4000, &second);
    put(&mut bytes, 0x4000, b"SKUL");
    put(&mut bytes, 0x4000 + 256, &0x4000u64.to_be_bytes());
    let found = Disk::with_content(&bytes).agrees_on_id(Kind::Luks);
    assert_eq!((found.label.as_deref(), found.magics.len()), (Some("luks-root"), 2));
    // The second header alone still opens it.
    bytes[..4096].fill(0);
    let found = Disk::with_content(&bytes).agrees_on_id(Kind::Luks);
    assert_eq!(found.detail.as_deref(), Some("version 2, first header damaged"));
    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 0, b"\xeb\x58\x90-FVE-FS-");
    put(&mut bytes, 160, b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01");
    let disk = Disk::with_content(&bytes);
    assert_eq!(disk.signatures()[0].kind, Kind::BitLocker);
}

fn xdr_pair(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    let padded = |bytes: &[u8]| {
        let mut out = bytes.to_vec();
        out.resize(bytes.len().next_multiple_of(4), 0);
        out
    };
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_be_bytes();
    let mut body = len(name.as_bytes()).to_vec();
    body.extend(padded(name.as_bytes()));
    body.extend(kind.to_be_bytes());
    body.extend(1u32.to_be_bytes());
    if kind == 9 {
        body.extend(len(value));
    }
    body.extend(padded(value));
    let size = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
    [&size[..], &size, &body].concat()
}

#[test]
fn zfs_with_all_its_labels() {
    let len = 64 * MIB;
    let mut bytes = vec![0; len];
    let mut list = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    list.extend(xdr_pair("version", 8, &5000u64.to_be_bytes()));
    list.extend(xdr_pair("name", 9, b"tank"));
    list.extend(xdr_pair("pool_guid", 8, &1_234_567_890_123u64.to_be_bytes()));
    list.extend([0; 8]);
    let label = 256 << 10;
    for start in [0, label, len - 2 * label, len - label] {
        put(&mut bytes, start + (16 << 10), &list);
        for index in 0..8 {
            put(&mut bytes, start + (128 << 10) + index * 4096, &0x00BA_B10Cu64.to_le_bytes());
        }
    }
    let found = Disk::with_content(&bytes).agrees_on_id(Kind::Zfs);
    assert_eq!((found.label.as_deref(), found.uuid.as_deref()), (Some("tank"), Some("1234567890123")));
    assert_eq!(found.magics.len(), 4 * 9);
    assert_eq!(found.detail.as_deref(), Some("4 of 4 labels"));
    // An installation that overwrote the start leaves the labels at the end.
    bytes[..MIB].fill(0);
    let found = Disk::with_content(&bytes).agrees(Kind::Zfs);
    assert_eq!((found.label.as_deref(), found.detail.as_deref()), (Some("tank"), Some("2 of 4 labels")));
}

#[test]
fn ceph_bcache_drbd_and_firmware_raid() {
    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 0, b"bluestore block device\n11223344-5566-4788-99aa-bbccddeeff01\n");
    let found = Disk::with_content(&bytes).agrees(Kind::Bluestore);
    assert_eq!(found.uuid.as_deref(), Some("11223344-5566-4788-99aa-bbccddeeff01"));

    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 8 * MIB - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00");
    Disk::with_content(&bytes).agrees(Kind::IntelRaid);
    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 8 * MIB - 512, b"\xDE\x11\xDE\x11");
    let disk = Disk::with_content(&bytes);
    assert_eq!(disk.signatures()[0].kind, Kind::DdfRaid);

    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 4096 + 8, &8u64.to_le_bytes());
    put(&mut bytes, 4096 + 16, &1u64.to_le_bytes());
    put(&mut bytes, 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81");
    put(&mut bytes, 4096 + 40, &ID);
    let found = Disk::with_content(&bytes).signatures();
    assert_eq!((found[0].kind, found[0].detail.as_deref()), (Kind::Bcache, Some("backing device")));

    let mut bytes = vec![0; 8 * MIB];
    put(&mut bytes, 8 * MIB - 4096 + 40, &0x1234_5678_9ABC_DEF0u64.to_be_bytes());
    put(&mut bytes, 8 * MIB - 4096 + 60, &0x8374_026Bu32.to_be_bytes());
    let disk = Disk::with_content(&bytes);
    assert_eq!(disk.agrees(Kind::Drbd).uuid.as_deref(), Some("123456789abcdef0"));
}

#[test]
fn partition_tables_as_sgdisk_and_sfdisk_make_them() {
    let disk = Disk::new(64 * MIB);
    run("sgdisk", &["--new=1:2048:+1M", "--typecode=1:ef00", "--change-name=1:EFI", "--new=2:0:0", &disk.text()]);
    let contents = probe(&File::open(disk.path()).unwrap(), 64 << 20, 512);
    assert_eq!(contents.signatures[0].uuid, disk.blkid("PTUUID"));
    assert_eq!(contents.signatures[0].detail, None);
    assert_eq!(contents.partitions[0].type_name.as_deref(), Some("EFI system"));
    assert_eq!(contents.partitions[1].type_name.as_deref(), Some("Linux file system"));
    disk.erases(&contents.signatures[0]);
}
