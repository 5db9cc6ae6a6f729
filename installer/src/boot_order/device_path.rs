//! Device paths (UEFI 2.10, section 10.3): the way from the firmware to a loader, node by node.

use std::fmt;
use uuid::Uuid;

/// Types and sub-types of nodes (tables 10.2 and following).
const MEDIA: u8 = 4;
const HARD_DRIVE: u8 = 1;
const FILE: u8 = 4;
const END: u8 = 0x7f;
const END_ENTIRE: u8 = 0xff;
/// Type, sub-type and length.
const HEADER_BYTES: usize = 4;
/// A hard drive's node without its header.
const HARD_DRIVE_BYTES: usize = 38;
/// Partition table and signature of a disk with GPT.
const GPT: u8 = 2;

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A node is longer than what is left, or shorter than its own header.
    #[error("the node at byte {offset} of the device path has length {len}, but {remaining} bytes are left")]
    Node {
        offset: usize,
        len: usize,
        /// What there is, header included.
        remaining: usize,
    },
    /// It lacks its end node.
    #[error("the device path is not terminated")]
    Endless,
}

/// A partition of a disk (section 10.3.5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardDrive {
    /// From 1.
    pub number: u32,
    pub start_lba: u64,
    /// How many sectors, of the disk's logical size.
    pub sectors: u64,
    /// GUID of the partition as it stands in the table, or the MBR's signature.
    pub signature: [u8; 16],
    /// 1 MBR, 2 GPT.
    pub table: u8,
    /// 0 none, 1 MBR, 2 GUID.
    pub signature_kind: u8,
}

impl HardDrive {
    /// A partition of a GPT.
    pub fn gpt(number: u32, start_lba: u64, sectors: u64, guid: [u8; 16]) -> Self {
        Self { number, start_lba, sectors, signature: guid, table: GPT, signature_kind: GPT }
    }

    /// The partition's GUID, as it stands in the table; None with an MBR.
    pub fn guid(&self) -> Option<[u8; 16]> {
        (self.signature_kind == GPT).then_some(self.signature)
    }

    fn parse(data: &[u8]) -> Option<Self> {
        let data: &[u8; HARD_DRIVE_BYTES] = data.try_into().ok()?;
        let (number, rest) = data.split_first_chunk()?;
        let (start_lba, rest) = rest.split_first_chunk()?;
        let (sectors, rest) = rest.split_first_chunk()?;
        let (signature, rest) = rest.split_first_chunk()?;
        let [table, signature_kind] = *rest else { return None };
        Some(Self {
            number: u32::from_le_bytes(*number),
            start_lba: u64::from_le_bytes(*start_lba),
            sectors: u64::from_le_bytes(*sectors),
            signature: *signature,
            table,
            signature_kind,
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend(self.start_lba.to_le_bytes());
        bytes.extend(self.sectors.to_le_bytes());
        bytes.extend(self.signature);
        bytes.extend([self.table, self.signature_kind]);
        bytes
    }
}

impl fmt::Display for HardDrive {
    /// As the specification writes it (section 10.6.1.6).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, start_lba, sectors, signature, signature_kind, .. } = self;
        match self.guid() {
            Some(guid) => write!(f, "HD({number},GPT,{},", Uuid::from_bytes_le(guid))?,
            None => {
                let [a, b, c, d, ..] = *signature;
                write!(f, "HD({number},MBR/{signature_kind},0x{:08x},", u32::from_le_bytes([a, b, c, d]))?;
            }
        }
        write!(f, "0x{start_lba:x},0x{sectors:x})")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    HardDrive(HardDrive),
    /// A file's path, with `\` between its parts.
    File(String),
    /// Any other, as it stands.
    Other {
        kind: u8,
        /// Sub-type.
        sub: u8,
        /// Without the header.
        data: Vec<u8>,
    },
}

impl Node {
    fn parse(kind: u8, sub: u8, data: &[u8]) -> Self {
        let known = match (kind, sub) {
            (MEDIA, HARD_DRIVE) => HardDrive::parse(data).map(Self::HardDrive),
            (MEDIA, FILE) => file(data).map(Self::File),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Other { kind, sub, data: data.to_vec() })
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let (kind, sub, data) = match self {
            Self::HardDrive(drive) => (MEDIA, HARD_DRIVE, drive.to_bytes()),
            Self::File(path) => (MEDIA, FILE, utf16(path)),
            Self::Other { kind, sub, data } => (*kind, *sub, data.clone()),
        };
        // A node comes from 64 KiB, or is one of ours, which are short.
        let len = u16::try_from(data.len().saturating_add(HEADER_BYTES)).unwrap_or(u16::MAX);
        bytes.extend([kind, sub]);
        bytes.extend(len.to_le_bytes());
        bytes.extend(data);
    }
}

/// The text, if writing it again gives the same bytes.
fn file(data: &[u8]) -> Option<String> {
    let (units, rest) = data.as_chunks();
    let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    let (end, text) = units.split_last()?;
    let text = String::from_utf16(text).ok()?;
    (rest.is_empty() && *end == 0 && !text.contains('\0')).then_some(text)
}

/// With its final NUL.
pub(super) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HardDrive(drive) => drive.fmt(f),
            Self::File(path) => path.chars().try_for_each(|c| write!(f, "{}", super::printable(c))),
            Self::Other { kind, sub, data } => other(*kind, *sub, data, f),
        }
    }
}

/// The common nodes; the others by their numbers.
fn other(kind: u8, sub: u8, data: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (kind, sub, data) {
        (1, 1, [function, device]) => write!(f, "Pci(0x{device:x},0x{function:x})"),
        (2, 1, [0xd0, 0x41, 0x03, 0x0a, unit, 0, 0, 0]) => write!(f, "PciRoot(0x{unit:x})"),
        (3, 2, [target_low, target_high, lun_low, lun_high]) => {
            let [target, lun] = [[*target_low, *target_high], [*lun_low, *lun_high]].map(u16::from_le_bytes);
            write!(f, "Scsi(0x{target:x},0x{lun:x})")
        }
        (3, 5, [port, interface]) => write!(f, "USB(0x{port:x},0x{interface:x})"),
        (3, 11, [a, b, c, d, e, g, ..]) => write!(f, "MAC({a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{g:02x})"),
        (3, 12, _) => f.write_str("IPv4()"),
        (3, 13, _) => f.write_str("IPv6()"),
        (3, 18, [port_low, port_high, ..]) => {
            write!(f, "Sata(0x{:x})", u16::from_le_bytes([*port_low, *port_high]))
        }
        (3, 23, [a, b, c, d, ..]) => write!(f, "NVMe(0x{:x})", u32::from_le_bytes([*a, *b, *c, *d])),
        (3, 24, uri) => {
            // Up to the query, which may hold secrets.
            let uri = String::from_utf8_lossy(uri);
            let uri = uri.split(['?', '#']).next().unwrap_or_default();
            write!(f, "Uri({})", uri.chars().map(super::printable).collect::<String>())
        }
        (4, 2, _) => f.write_str("CDROM()"),
        (4, 6 | 7, data) => {
            let guid = <[u8; 16]>::try_from(data).map(Uuid::from_bytes_le).unwrap_or_default();
            write!(f, "{}({guid})", if sub == 6 { "FvFile" } else { "Fv" })
        }
        _ => write!(f, "Path({kind},{sub},{} bytes)", data.len()),
    }
}

/// The first path in `bytes`, and what follows it. Work and memory are bound by the length of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<(Vec<Node>, &[u8]), PathError> {
    let mut nodes = Vec::new();
    let mut rest = bytes;
    while let Some((&[kind, sub, low, high], _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let len = usize::from(u16::from_le_bytes([low, high]));
        let split = rest.split_at_checked(len).filter(|_| len >= HEADER_BYTES);
        let offset = bytes.len().saturating_sub(rest.len());
        let (node, after) = split.ok_or(PathError::Node { offset, len, remaining: rest.len() })?;
        rest = after;
        if (kind, sub) == (END, END_ENTIRE) {
            return Ok((nodes, rest));
        }
        nodes.push(Node::parse(kind, sub, node.get(HEADER_BYTES..).unwrap_or_default()));
    }
    Err(PathError::Endless)
}

/// The bytes of a path, its end included.
pub(super) fn write(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = Vec::new();
    nodes.iter().for_each(|node| node.write(&mut bytes));
    bytes.extend([END, END_ENTIRE, 4, 0]);
    bytes
}

/// Node after node, with `/` between.
pub(super) fn text(nodes: &[Node]) -> String {
    nodes.iter().map(Node::to_string).collect::<Vec<_>>().join("/")
}
