//! Vital product data of a card (PCI 3.0, appendix I). Pure but for [`read`]; the bytes are hostile.

use crate::{Root, ask::Question};
use kernel::bytes::le16;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tags of resources: large ones have 16 bits of length.
const LARGE: u8 = 0x80;
const IDENTIFIER: u8 = 0x82;
const READ_ONLY: u8 = 0x90;
const READ_WRITE: u8 = 0x91;
const END: u8 = 0x78;
/// Keyword of the checksum, and that of room for others.
const CHECKSUM: [u8; 2] = *b"RV";
const ROOM: [u8; 2] = *b"RW";

/// What a card's maker wrote into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Vpd {
    /// Name of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Part number (keyword PN).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Serial number (SN).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Engineering change level (EC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engineering_change: Option<String>,
    /// Maker (MN).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// All other keywords, of which those with V are the maker's own; hexadecimal digits where it is not text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keywords: BTreeMap<String, String>,
    /// Whether the checksum is right; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_checksum_valid: Option<bool>,
}

/// The data of functions, whose directories are given, in their order.
pub(super) fn read(root: &Root, functions: &[String]) -> Vec<Option<Vpd>> {
    let question = |dir: &String| Question::Measurement { path: format!("{dir}/vpd") };
    let answers = root.ask_all(&functions.iter().map(question).collect::<Vec<_>>());
    answers.into_iter().map(|answer| parse(&answer.ok()?)).collect()
}

/// `None` if the data does not begin with the name of the product.
pub(super) fn parse(data: &[u8]) -> Option<Vpd> {
    let mut vpd = Vpd::default();
    if data.first() != Some(&IDENTIFIER) {
        return None;
    }
    for (tag, at, content) in resources(data) {
        if tag == IDENTIFIER {
            vpd.product = text(content);
        }
        if !matches!(tag, READ_ONLY | READ_WRITE) {
            continue;
        }
        for (keyword, place, value) in keywords(content) {
            match &keyword {
                &CHECKSUM => vpd.is_checksum_valid = Some(sum(data, at + place) == Some(0)),
                &ROOM => {}
                b"PN" => vpd.part_number = text(value),
                b"SN" => vpd.serial_number = text(value),
                b"EC" => vpd.engineering_change = text(value),
                b"MN" => vpd.manufacturer = text(value),
                other => {
                    let name = String::from_utf8_lossy(other).into_owned();
                    vpd.keywords.extend(text(value).map(|value| (name, value)));
                }
            }
        }
    }
    Some(vpd)
}

/// Values that only one card has: serial number, asset tag, and the maker's own that are UUIDs.
pub(crate) fn secrets(data: &[u8]) -> Vec<String> {
    let Some(vpd) = parse(data) else { return Vec::new() };
    let is_uuid = |value: &str| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let own = vpd.keywords.into_iter().filter(|(name, value)| name == "YA" || is_uuid(value)).map(|(_, value)| value);
    vpd.serial_number.into_iter().chain(own).collect()
}

/// Corrects the checksum after a change.
pub(crate) fn correct(data: &mut [u8]) {
    let find = |(tag, at, content): (u8, usize, &[u8])| {
        let mut found = keywords(content).filter(|(keyword, ..)| tag == READ_ONLY && *keyword == CHECKSUM);
        found.next().map(|(_, place, _)| at + place)
    };
    let place = resources(data).find_map(find);
    if let Some((place, sum)) = place.and_then(|place| Some((place, sum(data, place)?)))
        && let Some(byte) = data.get_mut(place)
    {
        *byte = byte.wrapping_sub(sum);
    }
}

/// Sum of all bytes up to that one.
fn sum(data: &[u8], last: usize) -> Option<u8> {
    Some(data.get(..=last)?.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)))
}

/// Tag, place and content of each resource, up to the end or a broken one.
fn resources(data: &[u8]) -> impl Iterator<Item = (u8, usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let tag = *data.get(at)?;
        let (header, len) = if tag & LARGE != 0 {
            (3, usize::from(le16(data, at + 1)?))
        } else if tag == END || tag == 0 {
            return None;
        } else {
            (1, usize::from(tag & 7))
        };
        let start = at + header;
        let content = data.get(start..start + len)?;
        at = start + len;
        Some((tag, start, content))
    })
}

/// Keyword, place and value of each entry, up to a broken one.
fn keywords(content: &[u8]) -> impl Iterator<Item = ([u8; 2], usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let [first, second, len] = *content.get(at..)?.first_chunk()?;
        let start = at + 3;
        let value = content.get(start..start + usize::from(len))?;
        at = start + value.len();
        Some(([first, second], start, value))
    })
}

/// `None` for nothing but blanks.
fn text(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii();
    let end = value.iter().rposition(|byte| *byte != 0)?;
    let value = value.get(..=end)?;
    let is_text = value.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    Some(if is_text { String::from_utf8_lossy(value).trim().to_owned() } else { kernel::hex::lower(value) })
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::Tree;
    use proptest::prelude::*;

    fn resource(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag][..], &u16::try_from(content.len()).unwrap().to_le_bytes(), content].concat()
    }

    fn keyword(name: &str, value: &[u8]) -> Vec<u8> {
        [name.as_bytes(), &[u8::try_from(value.len()).unwrap()], value].concat()
    }

    /// The data of a card with this serial number.
    pub(crate) fn card(serial: &str) -> Vec<u8> {
        let read_only = [
            keyword("PN", b"AC-X6-DX  "),
            keyword("EC", b"A3"),
            keyword("SN", serial.as_bytes()),
            keyword("V0", b"PCIe Gen4 x16"),
            keyword("V3", b"0123456789abcdef0123456789abcdef"),
            keyword("V9", &[1, 0xff]),
            keyword("RV", &[0, 0]),
        ];
        let mut data = [
            resource(IDENTIFIER, b"ACME X6 Dx EN adapter "),
            resource(READ_ONLY, &read_only.concat()),
            resource(READ_WRITE, &[keyword("YA", b"asset-7"), keyword("RW", &[0; 20])].concat()),
            vec![END],
        ]
        .concat();
        correct(&mut data);
        data
    }

    #[test]
    fn what_a_card_says() {
        let vpd = parse(&card("AC2401X00017")).unwrap();
        assert_eq!(vpd.product.as_deref(), Some("ACME X6 Dx EN adapter"));
        assert_eq!((vpd.part_number.as_deref(), vpd.engineering_change.as_deref()), (Some("AC-X6-DX"), Some("A3")));
        assert_eq!((vpd.serial_number.as_deref(), vpd.is_checksum_valid), (Some("AC2401X00017"), Some(true)));
        let keywords =
            [("V0", "PCIe Gen4 x16"), ("V3", "0123456789abcdef0123456789abcdef"), ("V9", "01ff"), ("YA", "asset-7")];
        assert_eq!(vpd.keywords, keywords.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn a_broken_checksum_is_reported_and_corrected() {
        let mut data = card("AC2401X00017");
        data[5] ^= 1;
        assert_eq!(parse(&data).unwrap().is_checksum_valid, Some(false));
        correct(&mut data);
        assert_eq!(parse(&data).unwrap().is_checksum_valid, Some(true));
    }

    #[test]
    fn data_that_is_cut_or_missing() {
        let data = card("AC2401X00017");
        assert_eq!(parse(&data[..10]), Some(Vpd::default()));
        for bad in [&[][..], &[0; 64], &[0xff; 64], b"\x90\0\0"] {
            assert_eq!(parse(bad), None);
        }
        let tree = Tree::new(&[]);
        tree.add("sys/devices/a/vpd", &data);
        let dirs = ["/sys/devices/a", "/sys/devices/b"].map(str::to_owned);
        assert_eq!(read(&tree.root(), &dirs), [parse(&data), None]);
    }

    proptest! {
        #[test]
        fn noise_never_panics(mut data in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = data.first_mut() {
                *first = IDENTIFIER;
            }
            parse(&data);
            secrets(&data);
            correct(&mut data);
        }
    }
}
