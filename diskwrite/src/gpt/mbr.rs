//! The protective MBR, which keeps programs that know no GPT away (UEFI 2.10, section 5.2.3).

use super::put;

/// What a BIOS runs, before the MBR's partition table.
pub(crate) const BOOT_CODE_BYTES: usize = 446;
const SIGNATURE: [u8; 2] = [0x55, 0xAA];

/// Whether a disk that starts so has an MBR, protective or not.
pub(crate) fn has_mbr(head: &[u8]) -> bool {
    head.get(510..512) == Some(&SIGNATURE)
}

/// Puts a partition over a disk of `sectors` into the MBR at the start of `head`, and no other. Boot code is left alone. The
/// cylinders are those gptman writes, and so coreos-installer.
pub(crate) fn put_protective(head: &mut [u8], sectors: u64) {
    let mut table = [0; 66];
    put(&mut table, 0, &[0, 0, 2, 0, 0xEE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0]);
    let protected = u32::try_from(sectors.saturating_sub(1)).unwrap_or(u32::MAX);
    put(&mut table, 12, &protected.to_le_bytes());
    put(&mut table, 64, &SIGNATURE);
    put(head, BOOT_CODE_BYTES, &table);
}
