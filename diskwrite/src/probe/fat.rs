//! FAT of every width (Microsoft's FAT specification): what the boot sector says of its own kind decides nothing.

use super::bytes::{Bytes, serial, text};
use super::{Area, Kind, Signature, Span};

/// The most of a directory that is looked at, at once and in all.
const MAX_CLUSTERS: u32 = 100;
const MAX_ENTRIES_BYTES: u64 = 128 << 10;
const ENTRY_BYTES: usize = 32;

/// Texts, with their places.
const TEXTS: [(usize, &[u8]); 6] = [
    (0x52, b"MSWIN"),
    (0x52, b"FAT32   "),
    (0x36, b"MSDOS"),
    (0x36, b"FAT16   "),
    (0x36, b"FAT12   "),
    (0x36, b"FAT     "),
];

pub(super) fn find(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 512)?);
    let is_jump = [0xEB, 0xE9].contains(&block.byte(0));
    let ends_as_boot_sector = block.part(510, 2) == [0x55, 0xAA];
    let magic = TEXTS.into_iter().find(|(at, magic)| block.part(*at, magic.len()) == *magic);
    let is_of_another = matches!(block.part(0x36, 8), b"JFS     " | b"HPFS    ");
    if magic.is_none() && (!ends_as_boot_sector || is_of_another) {
        return None;
    }
    let layout = Layout::read(&block)?;
    if block.part(0, 11) == b"\xeb\x58\x90MSWIN4.1" && is_bitlocker(area, &block) {
        return None;
    }
    let (width, (id, boot_label)) = match layout {
        Layout { is_wide: true, .. } => ("FAT32", (0x43, 0x47)),
        Layout { clusters, .. } => (if clusters < 0xFF4 { "FAT12" } else { "FAT16" }, (0x27, 0x2B)),
    };
    if layout.is_wide && !has_info(area, &block, layout.sector_bytes)? {
        return None;
    }
    let mark = block.byte(id - 1);
    let has_serial = layout.is_wide || [0x28, 0x29].contains(&mark);
    let uuid = serial(block.part(id, 4)).filter(|_| has_serial);
    let label = match layout.label(area, &block) {
        Some(label) => text(&label),
        None if mark == 0x29 && block.part(boot_label, 11) != b"NO NAME    " => block.text(boot_label, 11),
        None => None,
    };
    let mut magics: Vec<Span> = Vec::new();
    magics.extend(is_jump.then(|| area.on_disk(0, 1)));
    magics.extend(
        magic.and_then(|(at, magic)| Some(area.on_disk(u64::try_from(at).ok()?, u64::try_from(magic.len()).ok()?))),
    );
    magics.extend(ends_as_boot_sector.then(|| area.on_disk(510, 2)));
    Some(Signature { label, uuid, detail: Some(width.to_owned()), ..Signature::new(Kind::Vfat, magics) })
}

/// BitLocker To Go looks like FAT.
fn is_bitlocker(area: &Area<'_>, block: &Bytes) -> bool {
    let at = block.le64(440);
    at != 0 && area.has(at, b"-FVE-FS-")
}

/// FAT32's information sector is as it should be, or was never written.
fn has_info(area: &Area<'_>, block: &Bytes, sector_bytes: u64) -> Option<bool> {
    let sector = u64::from(block.le16(0x30));
    if sector == 0 {
        return Some(true);
    }
    let info = Bytes(area.get(sector * sector_bytes, 512)?);
    let first = matches!(info.part(0, 4), b"RRaA" | b"RRdA" | [0, 0, 0, 0]);
    Some(first && matches!(info.part(484, 4), b"rrAa" | [0, 0, 0, 0]))
}

/// Where things are.
struct Layout {
    sector_bytes: u64,
    cluster_bytes: u64,
    /// Of the first FAT.
    fat_at: u64,
    /// Behind all FATs.
    root_at: u64,
    root_bytes: u64,
    clusters: u32,
    is_wide: bool,
}

impl Layout {
    /// None if it can't be a file system.
    fn read(block: &Bytes) -> Option<Self> {
        let (sector, cluster, reserved, fats) = (block.le16(11), block.byte(13), block.le16(14), block.byte(16));
        let media = block.byte(21);
        let is_right = sector.is_power_of_two()
            && (512..=4096).contains(&sector)
            && cluster.is_power_of_two()
            && reserved != 0
            && fats != 0
            && (media == 0xF0 || media >= 0xF8);
        let (narrow, wide) = (u32::from(block.le16(22)), block.le32(36));
        let is_wide = narrow == 0 && wide != 0;
        let sectors = Some(u32::from(block.le16(19))).filter(|count| *count != 0).unwrap_or(block.le32(32));
        let fat_sectors = if narrow == 0 { wide } else { narrow }.wrapping_mul(fats.into());
        let root_bytes = u32::from(block.le16(17)) * 32;
        // Counted as libblkid does, which lets the sum overflow.
        let before =
            u32::from(reserved).wrapping_add(fat_sectors).wrapping_add(root_bytes.div_ceil(sector.max(1).into()));
        let clusters = sectors.wrapping_sub(before).checked_div(cluster.into())?;
        let most = match clusters {
            _ if is_wide => 0x0FFF_FFF6,
            0..=0xFF4 => 0xFF4,
            _ => 0xFFF4,
        };
        let sector_bytes = u64::from(sector);
        (is_right && clusters <= most).then(|| Self {
            sector_bytes,
            cluster_bytes: u64::from(cluster) * sector_bytes,
            fat_at: u64::from(reserved) * sector_bytes,
            root_at: (u64::from(reserved) + u64::from(fat_sectors)) * sector_bytes,
            root_bytes: root_bytes.into(),
            clusters,
            is_wide,
        })
    }

    /// The volume entry of the root directory; None without one.
    fn label(&self, area: &Area<'_>, block: &Bytes) -> Option<Vec<u8>> {
        if !self.is_wide {
            return volume_entry(&area.get(self.root_at, self.root_bytes.min(MAX_ENTRIES_BYTES))?)?;
        }
        let entries = u64::from(block.le32(36)).saturating_mul(self.sector_bytes) / 4;
        let mut cluster = block.le32(0x2C);
        for _ in 0..MAX_CLUSTERS {
            if cluster < 2 || u64::from(cluster) >= entries {
                return None;
            }
            let at = self.root_at.checked_add(u64::from(cluster - 2).checked_mul(self.cluster_bytes)?)?;
            if let Some(end) = volume_entry(&area.get(at, self.cluster_bytes.min(MAX_ENTRIES_BYTES))?) {
                return end;
            }
            let next = area.get(self.fat_at.checked_add(u64::from(cluster) * 4)?, 4)?;
            cluster = Bytes(next).le32(0) & 0x0FFF_FFFF;
        }
        None
    }
}

/// The volume's name, or that there is none; None if the directory goes on.
fn volume_entry(directory: &[u8]) -> Option<Option<Vec<u8>>> {
    const LONG_NAME: u8 = 0x0F;
    const VOLUME: u8 = 8;
    const DIRECTORY: u8 = 0x10;
    for entry in directory.chunks_exact(ENTRY_BYTES) {
        let entry = Bytes(entry.to_vec());
        let attributes = entry.byte(11);
        match entry.byte(0) {
            0 => return Some(None),
            0xE5 => continue,
            _ if entry.le16(20) != 0 || entry.le16(26) != 0 || attributes & 0x3F == LONG_NAME => continue,
            first if attributes & (VOLUME | DIRECTORY) == VOLUME => {
                let mut name = entry.part(0, 11).to_vec();
                if let (5, Some(byte)) = (first, name.first_mut()) {
                    *byte = 0xE5;
                }
                return Some(Some(name));
            }
            _ => {}
        }
    }
    None
}
