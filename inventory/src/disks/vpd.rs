//! SCSI vital product data pages, as the kernel keeps them in sysfs (SPC-5 7.7, SAT-4 12.4.2). Pure; the bytes are hostile.

/// Peripheral type, page code, length.
const HEADER_BYTES: usize = 4;
/// Where page 89h keeps the ATA IDENTIFY data, and its length.
const IDENTIFY_OFFSET: usize = 60;
const IDENTIFY_BYTES: usize = 512;

/// Unit serial number (page 80h).
pub(crate) fn serial(page: &[u8]) -> Option<String> {
    text(body(page, 0x80)?)
}

/// The NAA name of the logical unit (page 83h), such as `0x5000c500a1b2c3d4`. The extended form, of 16 bytes, is
/// preferred: it distinguishes units that share the short one.
pub(crate) fn naa(page: &[u8]) -> Option<String> {
    let mut rest = body(page, 0x83)?;
    let mut names: Vec<&[u8]> = Vec::new();
    while let Some(([_, flags, _, len], after)) = rest.split_first_chunk() {
        let Some((designator, next)) = after.split_at_checked(usize::from(*len)) else { break };
        let (association, kind) = (flags >> 4 & 3, flags & 0xf);
        if association == 0 && kind == 3 && matches!(designator.len(), 8 | 16) {
            names.push(designator);
        }
        rest = next;
    }
    let name = names.iter().max_by_key(|name| name.len())?;
    Some(format!("0x{}", kernel::hex::lower(name)))
}

/// Whether this is a device identification page (83h) at all: some disks answer each page with their standard data.
pub(super) fn is_device_identification(page: &[u8]) -> bool {
    body(page, 0x83).is_some()
}

/// Model and serial number of an ATA disk (page 89h); SCSI's own fields cut the model short.
pub(super) fn ata_model_and_serial(page: &[u8]) -> Option<(String, String)> {
    let identify = ata_identify(page)?;
    Some((words(&identify[54..94])?, words(&identify[20..40])?))
}

/// IDENTIFY DEVICE data (page 89h).
pub(crate) fn ata_identify(page: &[u8]) -> Option<&[u8; IDENTIFY_BYTES]> {
    body(page, 0x89)?;
    page.get(IDENTIFY_OFFSET..)?.first_chunk()
}

fn body(page: &[u8], code: u8) -> Option<&[u8]> {
    let ([_, found, len @ ..], body) = page.split_first_chunk::<HEADER_BYTES>()?;
    let len = usize::from(u16::from_be_bytes(*len));
    (*found == code).then(|| body.get(..len).unwrap_or(body))
}

/// ATA strings have the two bytes of each word swapped.
fn words(bytes: &[u8]) -> Option<String> {
    let straight: Vec<u8> = bytes.chunks_exact(2).flat_map(|word| [word[1], word[0]]).collect();
    text(&straight)
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn serials() {
        assert_eq!(serial(b"\0\x80\0\x08  ABC12 ").as_deref(), Some("ABC12"));
        assert_eq!(serial(b"\0\x80\0\x02ABC12").as_deref(), Some("AB"));
        assert_eq!(serial(b"\0\x83\0\x02AB"), None);
        assert_eq!(serial(b"\0\x80\0\0"), None);
    }

    #[test]
    fn names() {
        let t10 = [&[2, 1, 0, 4][..], b"ACME"].concat();
        let short = [&[1, 3, 0, 8][..], &0x5000_c500_a1b2_c3d4_u64.to_be_bytes()].concat();
        let port = [&[1, 0x93, 0, 8][..], &[0x50; 8]].concat();
        let long = [&[1, 3, 0, 16][..], &[0x60; 16]].concat();
        let page = |parts: &[&[u8]]| {
            let body = parts.concat();
            [&[0, 0x83, 0, u8::try_from(body.len()).unwrap()][..], &body].concat()
        };
        assert_eq!(naa(&page(&[&t10, &port, &short])).as_deref(), Some("0x5000c500a1b2c3d4"));
        assert_eq!(naa(&page(&[&long, &short])).unwrap(), format!("0x{}", "60".repeat(16)));
        assert_eq!(naa(&page(&[&t10, &port])), None);
        assert!(is_device_identification(&page(&[&t10])) && is_device_identification(&page(&[])));
        assert!(!is_device_identification(&[0, 0, 5, 2, 31]) && !is_device_identification(&[0, 0x83, 0]));
    }

    #[test]
    fn ata() {
        let mut page = vec![0; 572];
        page[..4].copy_from_slice(&[0, 0x89, 2, 0x38]);
        page[IDENTIFY_OFFSET + 20..IDENTIFY_OFFSET + 24].copy_from_slice(b"BADC");
        page[IDENTIFY_OFFSET + 54..IDENTIFY_OFFSET + 58].copy_from_slice(b"OM D");
        assert_eq!(ata_model_and_serial(&page), Some(("MOD".to_owned(), "ABCD".to_owned())));
        assert_eq!(ata_model_and_serial(&page[..100]), None);
    }

    proptest! {
        #[test]
        fn noise_never_panics(
            mut page in prop::collection::vec(any::<u8>(), 0..700),
            code in prop::sample::select(vec![0x80u8, 0x83, 0x89]),
        ) {
            if let Some(byte) = page.get_mut(1) {
                *byte = code;
            }
            serial(&page);
            naa(&page);
            is_device_identification(&page);
            ata_model_and_serial(&page);
        }
    }
}
