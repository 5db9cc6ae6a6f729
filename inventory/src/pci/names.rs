//! Names of PCI vendors, devices and classes, from the `pci.ids` file the machine has. Without one there are no names.

use crate::Root;
use flate2::bufread::GzDecoder;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
};

/// Where distributions keep the file. `$PCIDB_PATH` comes before them.
const FILES: [&str; 4] = [
    "/usr/share/hwdata/pci.ids",
    "/usr/share/hwdata/pci.ids.gz",
    "/usr/share/misc/pci.ids",
    "/usr/share/misc/pci.ids.gz",
];
/// The file has 1.5 MiB and grows by some 30 KiB a year.
const MAX_FILE_BYTES: usize = 16 << 20;
/// Names of classes for machines without the file, for what matters when a machine is looked at: base class and subclass
/// (PCI Code and ID Assignment Specification 1.15, 1).
const CLASSES: [(u8, u8, &str); 34] = [
    (0x00, 0xff, "Unclassified device"),
    (0x01, 0x00, "SCSI storage controller"),
    (0x01, 0x01, "IDE interface"),
    (0x01, 0x04, "RAID bus controller"),
    (0x01, 0x06, "SATA controller"),
    (0x01, 0x07, "Serial Attached SCSI controller"),
    (0x01, 0x08, "Non-Volatile memory controller"),
    (0x01, 0x80, "Mass storage controller"),
    (0x02, 0x00, "Ethernet controller"),
    (0x02, 0x07, "Infiniband controller"),
    (0x02, 0x80, "Network controller"),
    (0x03, 0x00, "VGA compatible controller"),
    (0x03, 0x02, "3D controller"),
    (0x03, 0x80, "Display controller"),
    (0x04, 0x03, "Audio device"),
    (0x05, 0x00, "RAM memory"),
    (0x05, 0x02, "CXL"),
    (0x06, 0x00, "Host bridge"),
    (0x06, 0x01, "ISA bridge"),
    (0x06, 0x04, "PCI bridge"),
    (0x06, 0x80, "Bridge"),
    (0x07, 0x00, "Serial controller"),
    (0x07, 0x80, "Communication controller"),
    (0x08, 0x00, "PIC"),
    (0x08, 0x06, "IOMMU"),
    (0x08, 0x80, "System peripheral"),
    (0x0b, 0x40, "Co-processor"),
    (0x0c, 0x03, "USB controller"),
    (0x0c, 0x05, "SMBus"),
    (0x0c, 0x07, "IPMI Interface"),
    (0x10, 0x80, "Encryption controller"),
    (0x11, 0x80, "Signal processing controller"),
    (0x12, 0x00, "Processing accelerators"),
    (0x13, 0x00, "Non-Essential Instrumentation"),
];
/// Longest name that is stored.
const MAX_NAME_CHARS: usize = 200;

/// The numbers a function is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ids {
    /// Maker of the chip.
    pub vendor: u16,
    pub device: u16,
    /// Maker of the card and the card.
    pub subsystem: Option<(u16, u16)>,
    /// Base class, subclass, programming interface.
    pub class: [u8; 3],
}

/// The names of some functions; those not listed are not there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    vendors: BTreeMap<u16, String>,
    devices: BTreeMap<(u16, u16), String>,
    /// By vendor, device, subsystem vendor, subsystem device.
    subsystems: BTreeMap<[u16; 4], String>,
    /// By base class, subclass, programming interface.
    classes: BTreeMap<(u8, Option<u8>, Option<u8>), String>,
}

impl Names {
    /// The names of these functions. The file is not read when none are wanted.
    pub(crate) fn read(root: &Root, wanted: &[Ids]) -> Self {
        if wanted.is_empty() {
            return Self::default();
        }
        let own = std::env::var("PCIDB_PATH").ok().filter(|path| !path.is_empty());
        for path in own.iter().map(String::as_str).chain(FILES) {
            match root.read(path, MAX_FILE_BYTES) {
                Ok(bytes) => return Self::parse(&inflated(bytes), wanted),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => tracing::debug!(path, %error, "cannot be read"),
            }
        }
        tracing::debug!("no pci.ids: PCI devices have numbers, not names");
        Self::default()
    }

    /// Takes the file apart in one pass. Lines that can't be understood are skipped with what is indented below them.
    pub(crate) fn parse(text: &[u8], wanted: &[Ids]) -> Self {
        let mut vendors = BTreeSet::new();
        let mut devices = BTreeSet::new();
        let mut subsystems = BTreeSet::new();
        let mut classes = BTreeSet::new();
        for ids in wanted {
            vendors.insert(ids.vendor);
            devices.insert((ids.vendor, ids.device));
            if let Some((vendor, device)) = ids.subsystem {
                vendors.insert(vendor);
                subsystems.insert([ids.vendor, ids.device, vendor, device]);
            }
            let [base, sub, interface] = ids.class;
            classes.extend([(base, None, None), (base, Some(sub), None), (base, Some(sub), Some(interface))]);
        }
        let mut names = Self::default();
        let mut at = At::Nothing;
        for line in text.split(|byte| *byte == b'\n') {
            match line {
                [] | [b'#', ..] => {}
                [b'\t', b'\t', rest @ ..] => match at {
                    At::Device(vendor, device) => {
                        if let Some((own_vendor, rest)) = number(rest, 4)
                            && let Some((own_device, rest)) = rest.strip_prefix(b" ").and_then(|rest| number(rest, 4))
                        {
                            let key = [vendor, device, own_vendor, own_device];
                            keep(&mut names.subsystems, &subsystems, key, rest);
                        }
                    }
                    At::Subclass(base, sub) => {
                        if let Some((interface, rest)) = byte(rest) {
                            keep(&mut names.classes, &classes, (base, Some(sub), Some(interface)), rest);
                        }
                    }
                    At::Nothing | At::Vendor(_) | At::Class(_) => {}
                },
                [b'\t', rest @ ..] => {
                    at = match at {
                        At::Vendor(vendor) | At::Device(vendor, _) => match number(rest, 4) {
                            Some((device, rest)) => {
                                keep(&mut names.devices, &devices, (vendor, device), rest);
                                At::Device(vendor, device)
                            }
                            None => At::Vendor(vendor),
                        },
                        At::Class(base) | At::Subclass(base, _) => match byte(rest) {
                            Some((sub, rest)) => {
                                keep(&mut names.classes, &classes, (base, Some(sub), None), rest);
                                At::Subclass(base, sub)
                            }
                            None => At::Class(base),
                        },
                        At::Nothing => At::Nothing,
                    };
                }
                [b'C', b' ', rest @ ..] => {
                    at = At::Nothing;
                    if let Some((base, rest)) = byte(rest) {
                        keep(&mut names.classes, &classes, (base, None, None), rest);
                        at = At::Class(base);
                    }
                }
                _ => {
                    at = At::Nothing;
                    if let Some((vendor, rest)) = number(line, 4) {
                        keep(&mut names.vendors, &vendors, vendor, rest);
                        if vendors.contains(&vendor) {
                            at = At::Vendor(vendor);
                        }
                    }
                }
            }
        }
        names
    }

    /// The maker's name.
    pub(crate) fn vendor(&self, vendor: u16) -> Option<&str> {
        self.vendors.get(&vendor).map(String::as_str)
    }

    /// The chip's name.
    pub(crate) fn device(&self, vendor: u16, device: u16) -> Option<&str> {
        self.devices.get(&(vendor, device)).map(String::as_str)
    }

    /// The card's name.
    pub(crate) fn subsystem(&self, ids: &Ids) -> Option<&str> {
        let (vendor, device) = ids.subsystem?;
        self.subsystems.get(&[ids.vendor, ids.device, vendor, device]).map(String::as_str)
    }

    /// The name of the subclass, or of its class. The common ones have names without the file too.
    pub(crate) fn class(&self, ids: &Ids) -> Option<&str> {
        let [base, sub, _] = ids.class;
        let listed = || self.classes.get(&(base, Some(sub), None)).or_else(|| self.classes.get(&(base, None, None)));
        let known = || CLASSES.iter().find(|(b, s, _)| (*b, *s) == (base, sub)).map(|(_, _, name)| *name);
        listed().map(String::as_str).or_else(known)
    }

    /// The name of the programming interface, such as `NVM Express` or `AHCI 1.0`.
    pub(crate) fn interface(&self, ids: &Ids) -> Option<&str> {
        let [base, sub, interface] = ids.class;
        self.classes.get(&(base, Some(sub), Some(interface))).map(String::as_str)
    }
}

/// What an indented line belongs to.
enum At {
    Nothing,
    Vendor(u16),
    Device(u16, u16),
    Class(u8),
    Subclass(u8, u8),
}

fn keep<K: Ord>(names: &mut BTreeMap<K, String>, wanted: &BTreeSet<K>, key: K, rest: &[u8]) {
    if wanted.contains(&key) {
        let name: String = String::from_utf8_lossy(rest).trim().chars().take(MAX_NAME_CHARS).collect();
        if !name.is_empty() {
            names.entry(key).or_insert(name);
        }
    }
}

/// Hex digits and what is behind them.
fn number(text: &[u8], digits: usize) -> Option<(u16, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let ends = rest.first().is_none_or(|byte| *byte == b' ');
    let number = std::str::from_utf8(number).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    ends.then_some((u16::from_str_radix(number, 16).ok()?, rest))
}

fn byte(text: &[u8]) -> Option<(u8, &[u8])> {
    let (number, rest) = number(text, 2)?;
    Some((u8::try_from(number).ok()?, rest))
}

/// The text of a file that may be compressed, up to the limit or to where it is broken.
fn inflated(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    let mut text = Vec::new();
    if let Err(error) = GzDecoder::new(bytes.as_slice()).take(limit).read_to_end(&mut text) {
        tracing::debug!(%error, "pci.ids is damaged from here on");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    const FILE: &str = "# comment\n0001  SafeNet\n\n10de  Some Maker\n\t15f8  Accelerator [Big]\n\t\t10de 118f  Card 16GB\n\
                        \tgarbage\n\t\t10de 0000  of nothing\n\t15f9  Other\n1af4  Virtio\n\t1050  Virtual GPU\n\
                        ffff  Illegal\nC 03  Display controller\n\t00  VGA compatible controller\n\t\t00  VGA controller\n\
                        \t02  3D controller\nC 12  Processing accelerators\n";

    fn accelerator() -> Ids {
        Ids { vendor: 0x10de, device: 0x15f8, subsystem: Some((0x10de, 0x118f)), class: [3, 2, 0] }
    }

    #[test]
    fn only_what_is_wanted() {
        let ids = accelerator();
        let names = Names::parse(FILE.as_bytes(), &[ids]);
        assert_eq!(names.vendor(0x10de), Some("Some Maker"));
        assert_eq!(names.device(0x10de, 0x15f8), Some("Accelerator [Big]"));
        assert_eq!(names.subsystem(&ids), Some("Card 16GB"));
        assert_eq!((names.class(&ids), names.interface(&ids)), (Some("3D controller"), None));
        assert_eq!((names.vendors.len(), names.devices.len(), names.classes.len()), (1, 1, 2));
        assert_eq!(names.vendor(0x1af4), None);
        let vga = Ids { vendor: 0x1af4, device: 0x1050, subsystem: None, class: [3, 0, 0] };
        let names = Names::parse(FILE.as_bytes(), &[vga]);
        assert_eq!((names.interface(&vga), names.subsystem(&vga)), (Some("VGA controller"), None));
        let unlisted = Ids { class: [0x12, 9, 0], ..vga };
        assert_eq!(Names::parse(FILE.as_bytes(), &[unlisted]).class(&unlisted), Some("Processing accelerators"));
    }

    #[test]
    fn the_first_file_counts_and_may_be_compressed() {
        let tree = Tree::new(&[("usr/share/misc/pci.ids", "10de  Last\n")]);
        let vendor = |tree: &Tree| Names::read(&tree.root(), &[accelerator()]).vendor(0x10de).map(str::to_owned);
        assert_eq!(vendor(&tree).as_deref(), Some("Last"));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(FILE.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        tree.add("usr/share/hwdata/pci.ids.gz", &gzip);
        assert_eq!(vendor(&tree).as_deref(), Some("Some Maker"));
        tree.add("usr/share/hwdata/pci.ids.gz", &gzip[..20]);
        assert_eq!(vendor(&tree), None);
        assert_eq!(vendor(&Tree::new(&[])), None);
        assert_eq!(Names::default().class(&accelerator()), Some("3D controller"));
    }

    proptest! {
        #[test]
        fn noise_never_panics(text in "[0-9a-fC\t \n]{0,300}", bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            Names::parse(text.as_bytes(), &[accelerator()]);
            Names::parse(&bytes, &[Ids::default()]);
            inflated([&[0x1f, 0x8b][..], &bytes].concat());
        }
    }
}
