//! What an event of the firmware's log is, for people (TCG PC Client Platform Firmware Profile, 10.4; UEFI 2.10, 10).

use crate::{Digest, public::sha256};
use kernel::bytes::{Reader, le64};

const SEPARATOR: u32 = 4;
const ACTION: u32 = 5;
const TAG: u32 = 6;
const CRTM_VERSION: u32 = 8;
const IPL: u32 = 0xd;
const VARIABLES: [u32; 4] = [0x8000_0001, 0x8000_0002, 0x8000_000c, 0x8000_00e0];
const IMAGES: [u32; 3] = [0x8000_0003, 0x8000_0004, 0x8000_0005];
const EFI_ACTION: u32 = 0x8000_0007;
/// Names of types.
const KINDS: [(u32, &str); 34] = [
    (0, "EV_PREBOOT_CERT"),
    (1, "EV_POST_CODE"),
    (2, "EV_UNUSED"),
    (3, "EV_NO_ACTION"),
    (SEPARATOR, "EV_SEPARATOR"),
    (ACTION, "EV_ACTION"),
    (TAG, "EV_EVENT_TAG"),
    (7, "EV_S_CRTM_CONTENTS"),
    (CRTM_VERSION, "EV_S_CRTM_VERSION"),
    (9, "EV_CPU_MICROCODE"),
    (0xa, "EV_PLATFORM_CONFIG_FLAGS"),
    (0xb, "EV_TABLE_OF_DEVICES"),
    (0xc, "EV_COMPACT_HASH"),
    (IPL, "EV_IPL"),
    (0xe, "EV_IPL_PARTITION_DATA"),
    (0xf, "EV_NONHOST_CODE"),
    (0x10, "EV_NONHOST_CONFIG"),
    (0x11, "EV_NONHOST_INFO"),
    (0x12, "EV_OMIT_BOOT_DEVICE_EVENTS"),
    (0x13, "EV_POST_CODE2"),
    (0x8000_0001, "EV_EFI_VARIABLE_DRIVER_CONFIG"),
    (0x8000_0002, "EV_EFI_VARIABLE_BOOT"),
    (0x8000_0003, "EV_EFI_BOOT_SERVICES_APPLICATION"),
    (0x8000_0004, "EV_EFI_BOOT_SERVICES_DRIVER"),
    (0x8000_0005, "EV_EFI_RUNTIME_SERVICES_DRIVER"),
    (0x8000_0006, "EV_EFI_GPT_EVENT"),
    (EFI_ACTION, "EV_EFI_ACTION"),
    (0x8000_0008, "EV_EFI_PLATFORM_FIRMWARE_BLOB"),
    (0x8000_0009, "EV_EFI_HANDOFF_TABLES"),
    (0x8000_000a, "EV_EFI_PLATFORM_FIRMWARE_BLOB2"),
    (0x8000_000b, "EV_EFI_HANDOFF_TABLES2"),
    (0x8000_000c, "EV_EFI_VARIABLE_BOOT2"),
    (0x8000_0010, "EV_EFI_HCRTM_EVENT"),
    (0x8000_00e0, "EV_EFI_VARIABLE_AUTHORITY"),
];
/// What GRUB puts before the text that it measures.
const GRUB: [&str; 3] = ["grub_cmd: ", "kernel_cmdline: ", "module_cmdline: "];
/// Characters of a description.
const MAX_CHARS: usize = 300;

/// The name of a type.
pub(crate) fn kind(number: u32) -> String {
    let known = KINDS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned())
}

/// What was measured. A log's text is a claim where the digest is not that of the text: then this says so.
pub(crate) fn describe(kind: u32, data: &[u8], digest: &Digest) -> String {
    let is_covered = sha256(data) == *digest;
    match kind {
        SEPARATOR => match data {
            [0, 0, 0, 0] | [0xff, 0xff, 0xff, 0xff] if is_covered => "end of the firmware's part".to_owned(),
            _ => "the firmware reports an error".to_owned(),
        },
        CRTM_VERSION => format!("firmware version {}", claimed(&text(data), is_covered)),
        ACTION | EFI_ACTION => claimed(&text(data), is_covered),
        IPL => {
            let text = text(data);
            let measured = GRUB.iter().find_map(|start| text.strip_prefix(start));
            let is_covered = is_covered
                || measured.is_some_and(|measured| sha256(measured.as_bytes()) == *digest)
                // With the zero behind it.
                || sha256(&[text.as_bytes(), &[0]].concat()) == *digest;
            claimed(&text, is_covered)
        }
        // Number and length, then what Linux calls it: the digest is that of the kernel's arguments, or of the initrd.
        TAG => claimed(&text(data.get(8..).unwrap_or_default()), false),
        kind if VARIABLES.contains(&kind) => match variable(data) {
            Some((name, len)) => format!("EFI variable {}", claimed(&format!("{name}, {len} bytes"), is_covered)),
            None => "an EFI variable".to_owned(),
        },
        kind if IMAGES.contains(&kind) => match image_path(data) {
            // The digest is that of the image.
            Some(path) => format!("program {}", claimed(&path, false)),
            None => "a program without a path".to_owned(),
        },
        _ => {
            let is_text = !data.is_empty() && data.iter().all(|byte| matches!(byte, b' '..=b'~' | 0));
            if is_text { claimed(&text(data), is_covered) } else { format!("{} bytes of data", data.len()) }
        }
    }
}

fn claimed(text: &str, is_covered: bool) -> String {
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("'{short}'{}", if is_covered { "" } else { " (says the log)" })
}

/// UTF-16 or ASCII up to its first zero, without control characters.
fn text(data: &[u8]) -> String {
    let (pairs, rest) = data.as_chunks::<2>();
    let is_wide = rest.is_empty() && pairs.len() > 1 && pairs.iter().take(2).all(|pair| pair[0] != 0 && pair[1] == 0);
    let found = if is_wide {
        let units: Vec<u16> =
            pairs.iter().map(|pair| u16::from_le_bytes(*pair)).take_while(|unit| *unit != 0).collect();
        String::from_utf16_lossy(&units)
    } else {
        kernel::bytes::text(data)
    };
    found.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Name and length of a variable (UEFI_VARIABLE_DATA).
fn variable(data: &[u8]) -> Option<(String, u64)> {
    let (units, len) = (le64(data, 16)?, le64(data, 24)?);
    let name = data.get(32..)?.get(..usize::try_from(units.checked_mul(2)?).ok()?)?;
    let (pairs, _) = name.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    Some((String::from_utf16_lossy(&units), len))
}

/// The file of an image (UEFI_IMAGE_LOAD_EVENT), from the nodes of its device path.
fn image_path(data: &[u8]) -> Option<String> {
    const FILE: [u8; 2] = [4, 4];
    const FIRMWARE_FILE: [u8; 2] = [4, 6];
    let len = usize::try_from(le64(data, 24)?).ok()?;
    let mut reader = Reader(data.get(32..)?.get(..len)?);
    let mut path = String::new();
    while let Some([kind, sub, low, high]) = reader.array() {
        let body = reader.bytes(usize::from(u16::from_le_bytes([low, high])).checked_sub(4)?)?;
        match [kind, sub] {
            FILE => path.push_str(&text(body)),
            FIRMWARE_FILE => path.push_str("part of the firmware"),
            _ => {}
        }
    }
    (!path.is_empty()).then_some(path)
}

pub(crate) fn fuzz(bytes: &[u8]) {
    for (kind, _) in KINDS {
        let _ = describe(kind, bytes, &Digest([0; 32]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn descriptions() {
        let of = |kind, data: &[u8]| describe(kind, data, &sha256(data));
        assert_eq!(of(SEPARATOR, &[0; 4]), "end of the firmware's part");
        assert_eq!(of(SEPARATOR, &[1, 0, 0, 0]), "the firmware reports an error");
        assert_eq!(of(CRTM_VERSION, &wide("2.4")), "firmware version '2.4'");
        assert_eq!(of(EFI_ACTION, b"Exit Boot Services"), "'Exit Boot Services'");
        let mut data = vec![7; 16];
        data.extend([10_u64, 1].map(u64::to_le_bytes).concat());
        data.extend(&wide("SecureBoot")[..20]);
        data.push(1);
        assert_eq!(of(VARIABLES[0], &data), "EFI variable 'SecureBoot, 1 bytes'");
        let path = [&[4, 4, 4 + 28, 0][..], &wide("\\EFI\\a.efi\0\0")[..22], &[0; 6], &[0x7f, 0xff, 4, 0]].concat();
        let image = [&[0; 24][..], &u64::try_from(path.len()).unwrap().to_le_bytes(), &path].concat();
        assert_eq!(of(IMAGES[0], &image), "program '\\EFI\\a.efi' (says the log)");
        let tag = [&[1, 0, 0, 0, 4, 0, 0, 0][..], b"Linux initrd\0"].concat();
        assert_eq!(of(TAG, &tag), "'Linux initrd' (says the log)");
        assert_eq!(kind(0x8000_0003), "EV_EFI_BOOT_SERVICES_APPLICATION");
        assert_eq!(kind(0x77), "0x77");
    }

    #[test]
    fn a_text_that_is_not_what_was_measured_is_a_claim() {
        let line = "kernel_cmdline: /vmlinuz quiet";
        assert_eq!(describe(IPL, line.as_bytes(), &sha256(b"/vmlinuz quiet")), "'kernel_cmdline: /vmlinuz quiet'");
        assert_eq!(
            describe(IPL, line.as_bytes(), &sha256(b"/vmlinuz quiet init=/bin/sh")),
            "'kernel_cmdline: /vmlinuz quiet' (says the log)"
        );
        assert!(describe(IPL, &[b'x'; 999], &Digest([0; 32])).ends_with("x…' (says the log)"));
        assert_eq!(describe(IPL, b"a\x1b[31m", &Digest([0; 32])), "'a\u{fffd}[31m' (says the log)");
    }
}
