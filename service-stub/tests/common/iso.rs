//! A small ISO 9660 image with room for an Ignition config, as CoreOS live ISOs have it.

use std::path::Path;

const SECTOR: usize = 2048;
/// Room for the config, bytes.
pub(crate) const AREA: usize = 256 * 1024;

/// First sector behind the area: noise, with some more files in it.
pub(crate) const BEHIND: usize = 20 + AREA / SECTOR;
/// `IMAGES/PXEBOOT`: name, first sector, length in bytes.
pub(crate) const BOOT_FILES: [(&str, usize, usize); 3] =
    [("VMLINUZ.;1", BEHIND + 20, 5000), ("INITRD.IMG;1", BEHIND + 30, 3001), ("ROOTFS.IMG;1", BEHIND + 40, 10_000)];
/// A boot loader's configuration, with room for 100 bytes of kernel arguments at byte 10 of it.
pub(crate) const GRUB_SECTOR: usize = BEHIND + 60;

/// Writes an image with `IMAGES/IGNITION.IMG`, all zeros, and some noise around it.
pub(crate) fn write(path: &Path) {
    let area_sectors = AREA / SECTOR;
    let mut image = vec![0; (20 + area_sectors + 300) * SECTOR];
    for (index, byte) in image[(20 + area_sectors) * SECTOR..].iter_mut().enumerate() {
        *byte = u8::try_from(index * 7 % 251).unwrap();
    }
    let mut descriptor = vec![0; SECTOR];
    descriptor[..7].copy_from_slice(b"\x01CD001\x01");
    descriptor[40..72].copy_from_slice(format!("{:<32}", "LANDFALL-TEST").as_bytes());
    let sectors = u32::try_from(image.len() / SECTOR).unwrap();
    descriptor[80..84].copy_from_slice(&sectors.to_le_bytes());
    descriptor[156..190].copy_from_slice(&record(b"\0", 18, SECTOR, true));
    let mut terminator = vec![0; SECTOR];
    terminator[..7].copy_from_slice(b"\xffCD001\x01");
    let directory = |own, parent| [record(b"\0", own, SECTOR, true), record(b"\x01", parent, SECTOR, true)].concat();
    let number = |sector: usize| u32::try_from(sector).unwrap();
    let root = [
        directory(18, 18),
        record(b"COREOS", number(BEHIND), SECTOR, true),
        record(b"GRUB.CFG;1", number(GRUB_SECTOR), 200, false),
        record(b"IMAGES", 19, SECTOR, true),
    ]
    .concat();
    let images = [
        directory(19, 18),
        record(b"IGNITION.IMG;1", 20, AREA, false),
        record(b"PXEBOOT", number(BEHIND + 1), SECTOR, true),
    ]
    .concat();
    let mut boot = directory(number(BEHIND + 1), 19);
    for (name, sector, len) in BOOT_FILES {
        boot.extend(record(name.as_bytes(), number(sector), len, false));
    }
    let info =
        br##"{"default":"a=1","files":[{"path":"grub.cfg","offset":10,"pad":"#","end":"\n"}],"size":100}"##.to_vec();
    let coreos =
        [directory(number(BEHIND), 18), record(b"KARGS.JSO;1", number(BEHIND + 2), info.len(), false)].concat();
    let mut grub = b"linux /v  ".to_vec();
    grub.extend(b"a=1\n");
    grub.resize(110, b'#');
    grub.resize(200, b' ');
    let last = [(BEHIND, coreos), (BEHIND + 1, boot), (BEHIND + 2, info), (GRUB_SECTOR, grub)];
    for (sector, bytes) in last {
        image[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
        image[sector * SECTOR..sector * SECTOR + bytes.len()].copy_from_slice(&bytes);
    }
    for (sector, bytes) in [(16, descriptor), (17, terminator), (18, root), (19, images)] {
        image[sector * SECTOR..sector * SECTOR + bytes.len()].copy_from_slice(&bytes);
    }
    std::fs::write(path, image).unwrap();
}

pub(crate) fn record(name: &[u8], sector: u32, len: usize, directory: bool) -> Vec<u8> {
    let mut record = vec![0; (33 + name.len()).next_multiple_of(2)];
    record[0] = u8::try_from(record.len()).unwrap();
    record[2..6].copy_from_slice(&sector.to_le_bytes());
    record[6..10].copy_from_slice(&sector.to_be_bytes());
    let len = u32::try_from(len).unwrap();
    record[10..14].copy_from_slice(&len.to_le_bytes());
    record[14..18].copy_from_slice(&len.to_be_bytes());
    record[25] = if directory { 2 } else { 0 };
    record[32] = u8::try_from(name.len()).unwrap();
    record[33..33 + name.len()].copy_from_slice(name);
    record
}
