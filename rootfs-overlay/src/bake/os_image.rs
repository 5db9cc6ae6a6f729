//! An OS image on the medium beside the live system: another file at the image's end, with a record in `images`. Live systems mount
//! the medium at `/run/media/iso`.

use super::BakeError;
use crate::iso9660::{Directory, Extent, Iso, IsoError, SECTOR_BYTES, Tree};
use crate::patched::Patch;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

/// Where the live system sees it.
pub const LIVE_PATH: &str = "/run/media/iso/images/landfall.img";
const DIRECTORY: &str = "images";
const NAME: &str = "landfall.img";

/// The file to add.
#[derive(Debug)]
pub struct OsImage {
    pub(super) file: File,
    pub(super) len: u32,
}

impl OsImage {
    /// The file at `path`.
    pub fn open(path: &Path) -> Result<Self, BakeError> {
        let failed = |source| BakeError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let len = u32::try_from(bytes).map_err(|_| BakeError::Base {
            path: path.to_owned(),
            what: format!("it has {bytes} bytes; the limit for a file on an ISO is {}: compress it", u32::MAX),
        })?;
        Ok(Self { file, len })
    }
}

/// A place for the record of a new file: a directory sector with room.
#[derive(Debug)]
pub(super) struct Slot {
    offset: u64,
    /// The sector with the record in it.
    sector: Vec<u8>,
    /// Of the record in the sector.
    at: usize,
}

impl Slot {
    /// Finds one in the directory `images` of a tree. The record copies that of another file at `template`, except for name and
    /// place. The error says why there is none.
    pub(super) fn find<R: Read + Seek>(
        iso: &mut Iso<R>,
        tree: &Tree,
        template: u64,
    ) -> Result<Result<Self, String>, IsoError> {
        let name = |name: &str| match tree.is_joliet {
            true => name.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            false => name.to_ascii_uppercase().into_bytes(),
        };
        let Some(directory) = directory(iso, &tree.root, &name(DIRECTORY))? else {
            return Ok(Err(format!("it has no directory {DIRECTORY}")));
        };
        let template = bytes(iso, template)?;
        let record = record(&template, &name(&format!("{NAME};1")));
        if record.len() > usize::from(u8::MAX) {
            return Ok(Err("the attributes of its initrd are damaged".to_owned()));
        }
        let wanted = identifier(&record).to_vec();
        // Sorted by name; `.` and `..` come first.
        let mut after = None;
        for (offset, _) in iso.records(&directory)? {
            let other = bytes(iso, offset)?;
            if identifier(&other) == wanted {
                return Ok(Err(format!("it already has a {DIRECTORY}/{NAME}")));
            }
            let is_dot = matches!(identifier(&other), [0 | 1]);
            if is_dot || identifier(&other) < &wanted[..] {
                after = Some(offset + u64::try_from(other.len()).unwrap_or_default());
            }
        }
        let Some(after) = after else { return Ok(Err(format!("its directory {DIRECTORY} is damaged"))) };
        // A record that fills its sector ends at the next sector's start, without room.
        let offset = (after - 1) / SECTOR_BYTES * SECTOR_BYTES;
        let sector = iso.read(Extent { offset, len: SECTOR_BYTES })?;
        let used = used(&sector);
        let at = usize::try_from(after - offset).unwrap_or(usize::MAX);
        if at > used || used + record.len() > sector.len() {
            let room = sector.len() - used;
            return Ok(Err(format!("its directory {DIRECTORY} has room for {room} bytes, but needs {}", record.len())));
        }
        let mut changed = sector[..at].to_vec();
        changed.extend_from_slice(&record);
        changed.extend_from_slice(&sector[at..sector.len() - record.len()]);
        Ok(Ok(Self { offset, sector: changed, at }))
    }

    /// The change, with the file at `address` (sector) and of `length` bytes.
    pub(super) fn patch(&self, address: [u8; 8], length: [u8; 8]) -> Patch {
        let mut bytes = self.sector.clone();
        for (at, value) in [(self.at + 2, address), (self.at + 10, length)] {
            if let Some(place) = bytes.get_mut(at..at + value.len()) {
                place.copy_from_slice(&value);
            }
        }
        Patch { offset: self.offset, bytes }
    }
}

/// The directory of this name in a root.
fn directory<R: Read + Seek>(iso: &mut Iso<R>, root: &Directory, name: &[u8]) -> Result<Option<Directory>, IsoError> {
    for (offset, found) in iso.records(root)? {
        let record = bytes(iso, offset)?;
        if found.is_directory && identifier(&record) == name {
            return Ok(Some(Directory { name: DIRECTORY.to_owned(), address: found.address, length: found.length }));
        }
    }
    Ok(None)
}

/// A record, whole.
fn bytes<R: Read + Seek>(iso: &mut Iso<R>, offset: u64) -> Result<Vec<u8>, IsoError> {
    let length = iso.read(Extent { offset, len: 1 })?;
    iso.read(Extent { offset, len: length.first().copied().map_or(0, u64::from) })
}

/// Bytes used by records in a sector.
fn used(sector: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = sector.get(at).map(|length| usize::from(*length)).filter(|length| *length > 0) {
        at += length;
    }
    at.min(sector.len())
}

/// The name in a record.
fn identifier(record: &[u8]) -> &[u8] {
    let len = record.get(32).map_or(0, |len| usize::from(*len));
    record.get(33..33 + len).unwrap_or_default()
}

/// A record with another name, and the Rock Ridge attributes of `template` (SUSP 1.12 §4), if any.
fn record(template: &[u8], name: &[u8]) -> Vec<u8> {
    let mut record = template.get(..32).unwrap_or_default().to_vec();
    record.resize(32, 0);
    record.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    record.extend_from_slice(name);
    record.resize(record.len().next_multiple_of(2), 0);
    let mut rest = template.get((33 + identifier(template).len()).next_multiple_of(2)..).unwrap_or_default();
    while let [a, b, length, ..] = *rest {
        let entry = rest.get(..usize::from(length)).filter(|entry| entry.len() >= 4);
        let Some(entry) = entry else { break };
        match &[a, b] {
            b"NM" => {
                let length = u8::try_from(5 + NAME.len()).unwrap_or(u8::MAX);
                record.extend_from_slice(&[b'N', b'M', length, 1, 0]);
                record.extend_from_slice(NAME.as_bytes());
            }
            // Attributes and times; not what continues elsewhere.
            b"PX" | b"TF" => record.extend_from_slice(entry),
            _ => {}
        }
        rest = rest.get(usize::from(length)..).unwrap_or_default();
    }
    record.resize(record.len().next_multiple_of(2), 0);
    let length = u8::try_from(record.len()).unwrap_or(u8::MAX);
    if let Some(first) = record.first_mut() {
        *first = length;
    }
    record
}
