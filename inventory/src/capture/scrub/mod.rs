//! Serial numbers and the like out of a capture, whatever file, link or table they stand in. Pure.
//!
//! What must be removed is read from the files known to contain it. Each value gets a stand-in of the same length and kind of
//! characters, which is then put wherever the value occurs in the capture: as text, as the bytes a WWN or MAC address has
//! in a kernel table, or with ATA's swapped bytes.

mod forms;
mod values;

use crate::{bmc, pci};
use forms::{StandIns, stand_in};
use kernel::order::Gather;
use kernel::record::Kind;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};
use values::Values;

/// Shorter values are replaced only where they are known to stand: anywhere else they may be part of anything.
const MIN_LEN: usize = 6;

/// The capture with stand-ins, which depend on `key`.
pub(super) fn scrub(entries: BTreeMap<PathBuf, Kind>, key: &[u8]) -> BTreeMap<PathBuf, Kind> {
    let values = Values::collect(&entries);
    let stand_ins = StandIns::new(values.known(), key);
    let scrub_entry = |(path, kind): (PathBuf, Kind)| {
        let kind = match kind {
            Kind::File(bytes) => {
                let scrubbed = scrub_file(&path, &bytes, &values, &stand_ins, key);
                // What had a right checksum still has one.
                let is_part = path.parent() == Some(Path::new("/landfall/ipmi"));
                Kind::File(if is_part { bmc::with_part_sums(&bytes, scrubbed) } else { scrubbed })
            }
            Kind::Link(target) => Kind::Link(path_of(stand_ins.apply(target.as_os_str().as_bytes()))),
            other => other,
        };
        (path_of(stand_ins.apply(path.as_os_str().as_bytes())), kind)
    };
    // The firmware's log has identifiers of disks and ports in many forms, and cannot be changed: its digests would say so.
    entries.into_iter().filter(|(path, _)| !path.ends_with("binary_bios_measurements")).map(scrub_entry).gather()
}

/// Short values first, each where it stands.
fn scrub_file(path: &Path, bytes: &[u8], values: &Values, stand_ins: &StandIns, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for range in values.short(path, bytes) {
        let Ok(value) = std::str::from_utf8(&bytes[range.clone()]) else { continue };
        out.extend(stand_ins.apply(&bytes[from..range.start]));
        out.extend(stand_in(value, key).into_bytes());
        from = range.end;
    }
    out.extend(stand_ins.apply(&bytes[from..]));
    if path.starts_with("/sys") && path.ends_with("vpd") && out != bytes {
        pci::vpd::correct(&mut out);
    }
    out
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests;
