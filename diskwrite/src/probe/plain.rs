//! What a magic number alone identifies.

use super::{Area, Kind, Signature};

/// Kind, offset from the start, magic.
const AT_START: [(Kind, u64, &[u8]); 10] = [
    (Kind::Vdo, 0, b"dmvdo001"),
    (Kind::Integrity, 0, b"integrt\0"),
    (Kind::Verity, 0, b"verity\0\0"),
    (Kind::Stratis, 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    (Kind::Stratis, 4612, b"!Stra0tis\x86\xff\x02^\x41rh"),
    (Kind::VmfsVolume, 0x10_0000, b"\x0d\xd0\x01\xc0"),
    (Kind::Refs, 0, b"\0\0\0ReFS\0"),
    (Kind::Hfs, 1024, b"BD"),
    (Kind::HfsPlus, 1024, b"H+"),
    (Kind::HfsPlus, 1024, b"HX"),
];
/// Kind, offset back from the end, magic.
const AT_END: [(Kind, u64, &[u8]); 6] = [
    (Kind::IntelRaid, 1024, b"Intel Raid ISM Cfg Sig. "),
    (Kind::IntelRaid, 8192, b"Intel Raid ISM Cfg Sig. "),
    (Kind::NvidiaRaid, 1024, b"NVIDIA  "),
    (Kind::LsiRaid, 512, b"$XIDE$"),
    // The anchor header: in the last sector, or where a controller keeps the last ones for itself.
    (Kind::DdfRaid, 512, b"\xDE\x11\xDE\x11"),
    (Kind::DdfRaid, 257 * 512, b"\xDE\x11\xDE\x11"),
];

pub(super) fn find(area: &Area<'_>) -> Vec<Signature> {
    let back = |(kind, back, magic): (Kind, u64, &'static [u8])| {
        // Firmware RAID counts whole sectors of 512 bytes.
        Some((kind, (area.len() & !511).checked_sub(back)?, magic))
    };
    let places = AT_START.into_iter().chain(AT_END.into_iter().filter_map(back));
    let mut found: Vec<Signature> = Vec::new();
    for (kind, offset, magic) in places.filter(|(_, offset, magic)| area.has(*offset, magic)) {
        let span = area.on_disk(offset, u64::try_from(magic.len()).unwrap_or(0));
        match found.iter_mut().find(|signature| signature.kind == kind) {
            Some(signature) => signature.magics.push(span),
            None => found.push(Signature::new(kind, vec![span])),
        }
    }
    found
}
