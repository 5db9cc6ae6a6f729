//! Serial numbers and the like out of a capture, whatever file, link or table they stand in. Pure.
//!
//! What has to go is read from the files known to hold it. Each value gets a stand-in of the same length and kind of
//! characters, which is then put wherever the value occurs in the capture: as text, as the bytes a WWN or MAC address has
//! in a kernel table, or with ATA's swapped bytes.

use crate::{record::Kind, smbios::Smbios};
use md5::{Digest, Md5};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// Shorter values are replaced only where they are all of a file: anywhere else they may be part of anything.
const MIN_LEN: usize = 6;
/// Values that tell nothing, in lower case.
const TELLTALES_OF_NOTHING: [&str; 8] =
    ["", "none", "unknown", "not specified", "default string", "to be filled by o.e.m.", "n/a", "0123456789"];
/// Leading hexadecimal digits that name the maker: NAA and OUI of a WWN, OUI of a MAC address or EUI.
const MAKER_DIGITS: usize = 7;

/// Files of sysfs that hold nothing but such a value, by their last component.
const VALUE_FILES: [&str; 17] = [
    "board_serial",
    "board_asset_tag",
    "chassis_serial",
    "chassis_asset_tag",
    "product_serial",
    "product_uuid",
    "serial",
    "serial_number",
    "wwid",
    "wwn",
    "nguid",
    "uuid",
    "eui",
    "address",
    "perm_hwaddr",
    "port_name",
    "node_name",
];
/// udev's properties that hold one.
const VALUE_PROPERTIES: [&str; 18] = [
    "ID_SERIAL",
    "ID_SERIAL_SHORT",
    "SCSI_IDENT_SERIAL",
    "ID_SCSI_SERIAL",
    "ID_WWN",
    "ID_WWN_WITH_EXTENSION",
    "DM_WWN",
    "DM_SERIAL",
    "ID_FS_UUID",
    "ID_FS_UUID_ENC",
    "ID_FS_UUID_SUB",
    "ID_PART_ENTRY_UUID",
    "ID_PART_TABLE_UUID",
    "ID_UUID",
    "SCSI_IDENT_LUN_NAA_REG",
    "SCSI_IDENT_LUN_NAA_REGEXT",
    "SCSI_IDENT_LUN_T10",
    "SCSI_IDENT_PORT_NAA_REG",
];

/// The capture with stand-ins, which depend on `key`.
pub(super) fn scrub(entries: BTreeMap<PathBuf, Kind>, key: &[u8]) -> BTreeMap<PathBuf, Kind> {
    let values = values(&entries);
    let stand_ins = StandIns::new(&values, key);
    let scrub_entry = |(path, kind): (PathBuf, Kind)| {
        let kind = match kind {
            Kind::File(bytes) => Kind::File(scrub_file(&path, &bytes, &stand_ins, key)),
            Kind::Link(target) => Kind::Link(path_of(stand_ins.apply(target.as_os_str().as_bytes()))),
            other => other,
        };
        (path_of(stand_ins.apply(path.as_os_str().as_bytes())), kind)
    };
    entries.into_iter().map(scrub_entry).collect()
}

fn scrub_file(path: &Path, bytes: &[u8], stand_ins: &StandIns, key: &[u8]) -> Vec<u8> {
    // A short value that is all of its file.
    if is_value_file(path)
        && let Ok(text) = std::str::from_utf8(bytes)
        && text.trim().len() < MIN_LEN
        && tells(text.trim())
    {
        return text.replace(text.trim(), &stand_in(text.trim(), key)).into_bytes();
    }
    stand_ins.apply(bytes)
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

fn is_value_file(path: &Path) -> bool {
    path.starts_with("/sys") && path.file_name().is_some_and(|name| VALUE_FILES.iter().any(|known| name == *known))
}

fn tells(value: &str) -> bool {
    let is_blank = value.bytes().all(|byte| matches!(byte, b'0' | b'f' | b'F' | b'.' | b':' | b'-' | b' ' | b'x'));
    !is_blank && !TELLTALES_OF_NOTHING.contains(&value.to_lowercase().as_str())
}

/// All values that have to go.
fn values(entries: &BTreeMap<PathBuf, Kind>) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    for (path, kind) in entries {
        let Kind::File(bytes) = kind else { continue };
        let text = || String::from_utf8_lossy(bytes);
        if is_value_file(path) {
            values.insert(core(text().trim_matches(|c: char| c.is_whitespace() || c == '\0')).to_owned());
        } else if path.starts_with("/run/udev/data") {
            let property = |line: &str| {
                let (name, value) = line.strip_prefix("E:")?.split_once('=')?;
                VALUE_PROPERTIES.contains(&name).then(|| core(value.trim()).to_owned())
            };
            values.extend(text().lines().filter_map(property));
        } else if path.ends_with("firmware/dmi/tables/DMI") {
            values.extend(Smbios::parse(bytes.clone()).serials());
        } else if path.ends_with("nvme-identify-controller") {
            values.extend(bytes.get(4..24).map(|serial| String::from_utf8_lossy(serial).trim().to_owned()));
        } else if path.ends_with("ata-identify") {
            let words = bytes.get(20..40).unwrap_or_default().chunks_exact(2);
            let serial: Vec<u8> = words.flat_map(|word| [word[1], word[0]]).collect();
            values.insert(String::from_utf8_lossy(&serial).trim().to_owned());
        } else if path.ends_with("vpd_pg80") || path.ends_with("scsi-page-80") {
            values.insert(String::from_utf8_lossy(bytes.get(4..).unwrap_or_default()).trim().to_owned());
        }
    }
    values.retain(|value| value.len() >= MIN_LEN && tells(value));
    values
}

/// The value without the word that tells its kind.
fn core(value: &str) -> &str {
    let prefixes = ["0x", "naa.", "eui.", "uuid.", "t10.", "nvme."];
    prefixes.iter().find_map(|prefix| value.strip_prefix(prefix)).unwrap_or(value)
}

/// A value of the same length: other digits for digits and other letters for letters, all else as it is.
fn stand_in(value: &str, key: &[u8]) -> String {
    // The same value may be written in either case.
    let lower = value.to_lowercase();
    let is_hex = lower.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'-'));
    let digits = lower.bytes().filter(u8::is_ascii_hexdigit).count();
    // A world-wide name or a MAC address: whose it is may stay known. A UUID has no such part.
    let is_named =
        is_hex && (digits == 16 || (digits == 12 && lower.contains(':')) || digits == 32 && !lower.contains('-'));
    let mut kept = match (is_named, digits) {
        (true, 12) => MAKER_DIGITS - 1,
        (true, _) => MAKER_DIGITS,
        (false, _) => 0,
    };
    let normal: String = if is_hex { lower.chars().filter(char::is_ascii_hexdigit).collect() } else { lower };
    let mut noise = Noise::new(key, &normal);
    let other = |c: char| {
        if !c.is_ascii_alphanumeric() {
            return c;
        }
        if kept > 0 {
            kept -= 1;
            return c;
        }
        let pick = |from: &[u8], n: u8| char::from(from[usize::from(n) % from.len()]);
        match c {
            _ if is_hex && c.is_ascii_uppercase() => pick(b"0123456789ABCDEF", noise.next()),
            _ if is_hex && digits > 8 => {
                let digit = pick(b"0123456789abcdef", noise.next());
                // In an upper-case value the digits of both cases have to agree.
                if value.bytes().any(|byte| byte.is_ascii_uppercase()) { digit.to_ascii_uppercase() } else { digit }
            }
            '0'..='9' => pick(b"0123456789", noise.next()),
            'A'..='Z' => pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", noise.next()),
            _ => pick(b"abcdefghijklmnopqrstuvwxyz", noise.next()),
        }
    };
    value.chars().map(other).collect()
}

/// Bytes that nobody without the key can tell from chance.
struct Noise {
    block: [u8; 16],
    used: usize,
}

impl Noise {
    fn new(key: &[u8], value: &str) -> Self {
        let mut sum = Md5::new();
        sum.update(key);
        sum.update(value);
        Self { block: sum.finalize().into(), used: 0 }
    }

    fn next(&mut self) -> u8 {
        if self.used == self.block.len() {
            *self = Self { block: Md5::digest(self.block).into(), used: 0 };
        }
        self.used += 1;
        self.block[self.used - 1]
    }
}

/// What is searched for, by its first bytes.
struct StandIns {
    by_start: HashMap<[u8; MIN_LEN], Vec<StandIn>>,
}

/// A value in one of its forms, and what is put there.
struct StandIn {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl StandIns {
    fn new(values: &BTreeSet<String>, key: &[u8]) -> Self {
        let mut pairs = BTreeMap::new();
        for value in values {
            for (from, to) in forms(value).into_iter().zip(forms(&stand_in(value, key))) {
                pairs.entry(from).or_insert(to);
            }
        }
        let mut by_start: HashMap<_, Vec<StandIn>> = HashMap::new();
        for (from, to) in pairs {
            if let Some(start) = from.first_chunk().copied() {
                by_start.entry(start).or_default().push(StandIn { from, to });
            }
        }
        for pairs in by_start.values_mut() {
            pairs.sort_by_key(|pair| std::cmp::Reverse(pair.from.len()));
        }
        Self { by_start }
    }

    /// The bytes with every value replaced, the longest first where several begin at one place.
    fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            let candidates = rest.first_chunk().and_then(|start: &[u8; MIN_LEN]| self.by_start.get(start));
            let hit = candidates.into_iter().flatten().find(|pair| rest.starts_with(&pair.from));
            if let Some(StandIn { from, to }) = hit {
                out.extend(to);
                rest = &rest[from.len()..];
            } else {
                out.push(first);
                rest = after;
            }
        }
        out
    }
}

/// The ways a value is written; those of its stand-in come in the same order and lengths.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let mut forms: Vec<Vec<u8>> = vec![
        value.into(),
        value.to_lowercase().into(),
        value.to_uppercase().into(),
        // udev's and the kernel's ways with blanks.
        value.replace(' ', "_").into(),
        value.replace(' ', "\\x20").into(),
        swapped(value.as_bytes()),
    ];
    let digits: String = value.chars().filter(char::is_ascii_hexdigit).collect();
    let separators = value.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'-'));
    if separators && digits.len() >= 12 && digits.len().is_multiple_of(2) {
        let bytes: Vec<u8> =
            (0..digits.len()).step_by(2).filter_map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect();
        if let [a, b, c, d, e, f, g, h, rest @ ..] = bytes.as_slice()
            && rest.len() == 8
        {
            // A UUID as SMBIOS and EFI keep it: its first three fields little endian.
            forms.push([&[*d, *c, *b, *a, *f, *e, *h, *g], rest].concat());
            let text = digits.to_lowercase();
            forms.push(
                format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]).into(),
            );
        }
        forms.push(bytes);
        forms.push(digits.to_lowercase().into());
        forms.push(digits.to_uppercase().into());
    }
    forms
}

/// As an ATA string: the bytes of each word the other way round, filled up with a blank.
fn swapped(text: &[u8]) -> Vec<u8> {
    text.chunks(2).flat_map(|word| [word.get(1).copied().unwrap_or(b' '), word[0]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
