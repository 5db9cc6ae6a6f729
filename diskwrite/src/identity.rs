//! Which disk: all the names it goes by, how a name given by hand finds it, and whether it is still the same one.

use kernel::order::Gather;
use kernel::units::{beside, binary};
use kernel::{DevNumber, Root, udev::Udev};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

/// Properties to read from udev's database.
const WANTED: [&str; 8] = [
    "DM_WWN",
    "ID_MODEL",
    "ID_SCSI_SERIAL",
    "ID_SERIAL_SHORT",
    "ID_VENDOR",
    "ID_WWN",
    "ID_WWN_WITH_EXTENSION",
    "SCSI_IDENT_SERIAL",
];
const CLASS: &str = "/sys/class/block";
const BLOCK: &str = "/sys/block";
/// Attributes and udev's entries are shorter.
const MAX_FILE_BYTES: usize = 64 << 10;

/// A disk by all its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskIdentity {
    /// Kernel name, such as `sda`.
    pub name: String,
    /// Major and minor number, such as `8:0`.
    pub number: String,
    /// Size in bytes; 0 without a medium.
    pub size_bytes: u64,
    /// Logical sector size in bytes; 0 if the kernel does not tell.
    pub sector_bytes: u32,
    /// Physical sector size in bytes; larger than the logical one for 512e disks.
    pub physical_sector_bytes: u32,
    pub model: Option<String>,
    /// Maker, as SCSI has it.
    pub vendor: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name, as the kernel or udev writes it: `0x5000…`, `naa.5000…`, `eui.…`, `nvme.…`.
    pub wwn: Option<String>,
    /// Links in `/dev/disk/by-id`, sorted.
    pub by_id: Vec<String>,
    /// Links in `/dev/disk/by-path`, sorted.
    pub by_path: Vec<String>,
    /// How it is attached, such as `nvme`, `usb`, `virtio`, `sata` or `iscsi`.
    pub transport: Option<String>,
    /// Whether it has a motor.
    pub rotational: Option<bool>,
    /// Whether its medium can be taken out.
    pub removable: bool,
    /// The kernel's count of disks that came and went: another disk at the same number has another one.
    pub diskseq: Option<u64>,
}

impl DiskIdentity {
    /// Reads what is known of a disk by its kernel name; None if there is none of that name. A captured tree needs
    /// `/sys`, `/dev` and `/run`.
    pub fn read(root: &Root, name: &str) -> Option<Self> {
        let dir = root.resolve(Path::new(CLASS).join(name)).or_else(|| root.resolve(Path::new(BLOCK).join(name)))?;
        Self::read_dir(root, &dir)
    }

    /// As before, by its directory in sysfs.
    pub(crate) fn read_dir(root: &Root, dir: &Path) -> Option<Self> {
        let name = dir.file_name()?.to_str()?.to_owned();
        let attribute = |file: &str| text(root, &dir.join(file));
        let number = attribute("dev")?;
        let udev = DevNumber::parse(&number).map(|number| Udev::read(root, number, &WANTED)).unwrap_or_default();
        let known = |keys: &[&str]| udev.first(keys).map(str::to_owned);
        let size = |file: &str| attribute(file).and_then(|text| text.parse::<u32>().ok()).unwrap_or_default();
        let wwid = || attribute("wwid").or_else(|| attribute("device/wwid"));
        let is_flag = |file: &str| attribute(file).map(|text| text == "1");
        let page = || unit_serial(&root.read(dir.join("device/vpd_pg80"), MAX_FILE_BYTES).ok()?);
        Some(Self {
            size_bytes: attribute("size")
                .and_then(|text| text.parse::<u64>().ok()?.checked_mul(512))
                .unwrap_or_default(),
            sector_bytes: size("queue/logical_block_size"),
            physical_sector_bytes: size("queue/physical_block_size"),
            model: attribute("device/model").or_else(|| known(&["ID_MODEL"])),
            vendor: attribute("device/vendor").filter(|text| !text.starts_with("0x")).or_else(|| known(&["ID_VENDOR"])),
            serial: known(&["SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL", "ID_SERIAL_SHORT"])
                .or_else(|| attribute("serial"))
                .or_else(|| attribute("device/serial"))
                .or_else(page),
            wwn: known(&["ID_WWN_WITH_EXTENSION", "ID_WWN", "DM_WWN"]).or_else(wwid),
            by_id: links(root, "by-id", &name, &udev),
            by_path: links(root, "by-path", &name, &udev),
            transport: transport(dir),
            rotational: is_flag("queue/rotational"),
            removable: is_flag("removable").unwrap_or_default(),
            diskseq: attribute("diskseq").and_then(|text| text.parse().ok()),
            name,
            number,
        })
    }

    /// Its node, where the kernel and udev make it.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(self.name.replace('!', "/"))
    }

    /// Whether this name, which is not a path, matches it.
    fn answers_to(&self, name: &str) -> bool {
        let same_wwn = |wwn: &String| bare_wwn(wwn) == bare_wwn(name);
        self.name == name
            || self.serial.as_deref() == Some(name)
            || self.wwn.as_ref().is_some_and(same_wwn)
            || self.by_id.iter().chain(&self.by_path).any(|link| link == name)
    }

    /// Other disks of the same WWN, beside which it is not held by a multipath device: perhaps the same disk by another way.
    pub(crate) fn twins(&self, root: &Root) -> Vec<String> {
        let Some(wwn) = &self.wwn else { return Vec::new() };
        let same = |disk: &Self| disk.wwn.as_ref().is_some_and(|other| bare_wwn(other) == bare_wwn(wwn));
        let is_twin = |disk: &Self| disk.name != self.name && same(disk) && multipath_of(root, &disk.name).is_none();
        disks(root).into_iter().filter(is_twin).map(|disk| disk.name).collect()
    }

    /// What differs in `now`, which should be the same disk: each thing with what it was and is.
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let seq = |seq: Option<u64>| seq.map_or_else(|| "none".to_owned(), |seq| seq.to_string());
        let all = [
            ("device number", self.number.clone(), now.number.clone()),
            ("size", beside(self.size_bytes, now.size_bytes), beside(now.size_bytes, self.size_bytes)),
            ("sector size", self.sector_bytes.to_string(), now.sector_bytes.to_string()),
            ("serial number", or_none(&self.serial), or_none(&now.serial)),
            ("WWN", or_none(&self.wwn), or_none(&now.wwn)),
            ("disk sequence number", seq(self.diskseq), seq(now.diskseq)),
        ];
        let changed = all.into_iter().filter(|(_, was, is)| was != is);
        changed.map(|(what, was, is)| Change { what: what.to_owned(), was, is }).collect()
    }
}

impl fmt::Display for DiskIdentity {
    /// One line for a list of disks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, binary(self.size_bytes))?;
        let named = [("", &self.vendor), ("", &self.model), ("serial ", &self.serial), ("WWN ", &self.wwn)];
        named.into_iter().try_for_each(|(kind, text)| text.iter().try_for_each(|text| write!(f, ", {kind}{text}")))
    }
}

/// A sign that a disk is not the one it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which property.
    pub what: String,
    /// When the disk was chosen.
    pub was: String,
    /// Now.
    pub is: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its {} was {} and is now {}", self.what, self.was, self.is)
    }
}

/// Why a name does not match one disk.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("no disk has the path, name, link, WWN or serial number '{name}'; found: {}", list(disks))]
    Unknown { name: String, disks: Vec<DiskIdentity> },
    /// More than one goes by it.
    #[error("'{name}' matches more than one disk: {}; use a path in /dev/disk/by-path", list(disks))]
    Ambiguous {
        name: String,
        /// Those that go by it.
        disks: Vec<DiskIdentity>,
    },
}

fn list(disks: &[DiskIdentity]) -> String {
    if disks.is_empty() {
        "none".to_owned()
    } else {
        disks.iter().map(DiskIdentity::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// All disks of a machine by kernel name: no partitions, no NVMe legs that the kernel hides, nothing without a size.
pub fn disks(root: &Root) -> Vec<DiskIdentity> {
    let seen = |name: &String| text(root, &Path::new(BLOCK).join(name).join("hidden")).as_deref() != Some("1");
    let all = root.list(BLOCK).into_iter().filter(seen).filter_map(|name| DiskIdentity::read(root, &name));
    all.filter(|disk| disk.size_bytes > 0).collect()
}

/// The path of the disk that `name` matches: a path as it is, else a kernel name, a link's name in `/dev/disk/by-id` or
/// `by-path`, a WWN in any of its forms, or a serial number.
///
/// Where a device mapper multipath lies over several disks of one WWN, the WWN means that device.
pub fn resolve(root: &Root, name: &Path) -> Result<PathBuf, ResolveError> {
    let Some(text) = name.to_str().filter(|text| !text.is_empty() && !text.contains('/')) else {
        return Ok(name.to_owned());
    };
    let all = disks(root);
    let mut found: Vec<_> = all.iter().filter(|disk| disk.answers_to(text)).cloned().collect();
    // A kernel name is unique, whatever serial numbers other disks have.
    if let Some(exact) = found.iter().find(|disk| disk.name == text) {
        return Ok(exact.node());
    }
    // Both the legs of a multipath device and the device itself go by the WWN.
    if found.len() > 1 && found.iter().any(|disk| multipath_of(root, &disk.name).is_some()) {
        found.retain(|disk| multipath_of(root, &disk.name).is_none());
    }
    match found.as_slice() {
        [one] => Ok(one.node()),
        // Candidates are what one could install to: no memory disks and such like.
        [] => {
            Err(ResolveError::Unknown { name: text.to_owned(), disks: all.into_iter().filter(is_candidate).collect() })
        }
        _ => Err(ResolveError::Ambiguous { name: text.to_owned(), disks: found }),
    }
}

fn is_candidate(disk: &DiskIdentity) -> bool {
    !["loop", "ram", "zram", "sr", "fd", "nbd"].iter().any(|prefix| disk.name.starts_with(prefix))
}

/// The multipath device over this disk or a partition of it: kernel name and device mapper name.
pub(crate) fn multipath_of(root: &Root, name: &str) -> Option<(String, String)> {
    let dir = Path::new(CLASS).join(name).join("holders");
    let dir = if root.is_dir(&dir) { dir } else { Path::new(BLOCK).join(name).join("holders") };
    root.list(&dir).into_iter().find_map(|holder| {
        let is_multipath = text(root, &dir.join(&holder).join("dm/uuid"))?.starts_with("mpath-");
        is_multipath.then(|| (holder.clone(), text(root, &dir.join(&holder).join("dm/name")).unwrap_or_default()))
    })
}

/// A WWN without its prefix, in lower case.
pub(crate) fn bare_wwn(wwn: &str) -> String {
    let wwn = wwn.trim().to_ascii_lowercase();
    let bare = ["wwn-", "naa.", "eui.", "uuid.", "0x"]
        .iter()
        .fold(wwn.as_str(), |wwn, kind| wwn.strip_prefix(kind).unwrap_or(wwn));
    bare.to_owned()
}

fn links(root: &Root, kind: &str, name: &str, udev: &Udev) -> Vec<String> {
    let directory = format!("disk/{kind}");
    let dir = Path::new("/dev").join(&directory);
    let leads_here =
        |link: &String| root.link_target(dir.join(link)).is_some_and(|to| to.file_name().is_some_and(|to| to == name));
    let made = root.list(&dir).into_iter().filter(leads_here);
    let known = udev.links(&directory).map(str::to_owned);
    made.chain(known).gather::<BTreeSet<_>>().into_iter().collect()
}

/// By the devices above it in sysfs, the nearest first.
fn transport(dir: &Path) -> Option<String> {
    let parts: Vec<_> = dir.iter().filter_map(|part| part.to_str()).collect();
    let numbered = |part: &str, kind: &str| {
        part.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let kinds = [
        ("nvme", "nvme"),
        ("session", "iscsi"),
        ("rport-", "fc"),
        ("usb", "usb"),
        ("virtio", "virtio"),
        ("ata", "sata"),
        ("mmc", "mmc"),
        ("end_device-", "sas"),
        ("host", "scsi"),
    ];
    let known = kinds.iter().find(|(kind, _)| parts.iter().any(|part| numbered(part, kind)));
    known.map(|(_, transport)| (*transport).to_owned())
}

/// The unit serial number page of SCSI (SPC-5, 7.7.20).
fn unit_serial(page: &[u8]) -> Option<String> {
    let [_, 0x80, high, low, rest @ ..] = page else { return None };
    let serial = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
    let serial = String::from_utf8_lossy(serial).trim_matches([' ', '\0']).to_owned();
    (!serial.is_empty()).then_some(serial)
}

/// A file's text without blanks around it; None if that is empty.
fn text(root: &Root, path: &Path) -> Option<String> {
    let text = root.text(path, MAX_FILE_BYTES)?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
