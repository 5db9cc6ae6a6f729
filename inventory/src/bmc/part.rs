//! Data of a part (FRU) that the management controller stores: who made the chassis, the board, the product, and what a power
//! supply can do (Platform management FRU information storage definition 1.0). Pure; the bytes are hostile.

use super::text::{self, Kind};
use kernel::{
    bytes::{array, le16},
    clock,
};
use serde::{Deserialize, Serialize};

/// Areas by their place in the common header, in units of eight bytes.
const CHASSIS: usize = 2;
const BOARD: usize = 3;
const PRODUCT: usize = 4;
const RECORDS: usize = 5;
const HEADER_BYTES: usize = 8;
/// Ends the texts of an area.
const END: u8 = 0xc1;
/// Texts and records of one part.
const MAX_TEXTS: usize = 32;
const MAX_RECORDS: usize = 64;
/// The record of a power supply.
const POWER_SUPPLY: u8 = 0x00;
/// Seconds from 1970 to 1996, where the minutes of a board's date begin.
const EPOCH_1996: i64 = 820_454_400;

/// A part whose data the management controller stores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Part {
    /// The controller's name of it; the controller's own board is the first.
    pub name: String,
    /// The controller's number of it.
    pub device: u8,
    /// What it is: `power supply 1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The chassis it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chassis: Option<PartChassis>,
    /// The board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<PartBoard>,
    /// The product it is sold as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<PartProduct>,
    /// What it can do, of a power supply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_supply: Option<SupplyRating>,
    /// Areas whose checksum is wrong: header, chassis, board, product, records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_checksums: Vec<String>,
}

/// Chassis of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartChassis {
    /// Number of its kind, as in SMBIOS.
    pub chassis_type_id: u8,
    /// Part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Texts of the maker's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
}

/// Board of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartBoard {
    /// When it was made, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Name of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Texts of the maker's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
}

/// Product that a part is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartProduct {
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Part number or model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Asset tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset_tag: Option<String>,
    /// Texts of the maker's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
}

/// What a power supply can do (18.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SupplyRating {
    /// What it gives for ever, W.
    pub capacity_watts: u16,
    /// What it gives for a short time, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_watts: Option<u16>,
    /// How long it gives that, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_seconds: Option<u16>,
    /// Lowest input voltage, V.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_input_volts: Option<f64>,
    /// Highest input voltage, V.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_volts: Option<f64>,
    /// Lowest frequency of the input, Hz; 0 for direct current.
    pub min_input_hertz: u8,
    /// Highest frequency of the input, Hz.
    pub max_input_hertz: u8,
    /// Whether it can be changed while the machine runs.
    pub is_hot_swappable: bool,
    /// Whether it corrects the power factor.
    pub has_power_factor_correction: bool,
}

/// The facts of a part's data; `None` if they do not begin with a common header.
pub(super) fn parse(data: &[u8]) -> Option<Part> {
    let header: [u8; HEADER_BYTES] = array(data, 0)?;
    if header[0] & 0xf != 1 {
        return None;
    }
    let mut part = Part::default();
    let mut check = |name: &str, bytes: Option<&[u8]>| {
        if bytes.is_none_or(|bytes| bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) != 0) {
            part.wrong_checksums.push(name.to_owned());
        }
    };
    check("header", Some(&header));
    let area = |place: usize| {
        let at = usize::from(*header.get(place).filter(|units| **units > 0)?) * 8;
        data.get(at..).filter(|area| area.len() > 1)
    };
    let mut whole = |place: usize, name: &str| {
        let area = area(place)?;
        let len = usize::from(*area.get(1)?) * 8;
        check(name, area.get(..len).filter(|area| !area.is_empty()));
        Some(area.get(..len).unwrap_or(area))
    };
    let (chassis, board, product) = (whole(CHASSIS, "chassis"), whole(BOARD, "board"), whole(PRODUCT, "product"));
    part.chassis = chassis.and_then(|area| {
        let mut texts = texts(area, 3);
        let mut next = || texts.next().flatten();
        let (part_number, serial_number) = (next(), next());
        Some(PartChassis {
            chassis_type_id: *area.get(2)?,
            part_number,
            serial_number,
            extra: texts.flatten().collect(),
        })
    });
    part.board = board.map(|area| {
        let mut texts = texts(area, 6);
        let mut next = || texts.next().flatten();
        let (manufacturer, product, serial_number, part_number) = (next(), next(), next(), next());
        // The version of the file that the data were made from.
        texts.next();
        PartBoard {
            made: made(area),
            manufacturer,
            product,
            serial_number,
            part_number,
            extra: texts.flatten().collect(),
        }
    });
    part.product = product.map(|area| {
        let mut texts = texts(area, 3);
        let mut next = || texts.next().flatten();
        let (manufacturer, product, part_number) = (next(), next(), next());
        let (version, serial_number, asset_tag) = (next(), next(), next());
        texts.next();
        PartProduct {
            manufacturer,
            product,
            part_number,
            version,
            serial_number,
            asset_tag,
            extra: texts.flatten().collect(),
        }
    });
    let (supply, is_sound) = area(RECORDS).map_or((None, true), records);
    part.power_supply = supply;
    if !is_sound {
        part.wrong_checksums.push("records".to_owned());
    }
    Some(part)
}

/// The texts of an area from `at` on; a blank one is `None`, and counts.
fn texts(area: &[u8], at: usize) -> impl Iterator<Item = Option<String>> {
    let mut rest = area.get(at..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (kind, after) = rest.split_first().filter(|(kind, _)| **kind != END)?;
        let (bytes, after) = after.split_at_checked(usize::from(kind & 0x3f))?;
        rest = after;
        Some(text::text(*kind, bytes, Kind::Part))
    })
    .take(MAX_TEXTS)
}

/// Minutes since 1996; none of them is "unspecified".
fn made(board: &[u8]) -> Option<String> {
    let [low, middle, high] = array(board, 3)?;
    let minutes = u32::from_le_bytes([low, middle, high, 0]);
    (minutes > 0).then(|| clock::utc_text(EPOCH_1996 + i64::from(minutes) * 60))
}

/// The power supply's record of a list of records, and whether the checksums are right.
fn records(list: &[u8]) -> (Option<SupplyRating>, bool) {
    let (mut rest, mut supply, mut is_sound) = (list, None, true);
    for _ in 0..MAX_RECORDS {
        let Some(([kind, flags, len, sum, header_sum], after)) = rest.split_first_chunk::<5>() else { break };
        let header = [*kind, *flags, *len, *sum, *header_sum];
        let Some((body, after)) = after.split_at_checked(usize::from(*len)) else { break };
        let total = |bytes: &[u8]| bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        is_sound &= total(&header) == 0 && total(body).wrapping_add(*sum) == 0;
        if *kind == POWER_SUPPLY && supply.is_none() {
            supply = rating(body);
        }
        rest = after;
        if flags & 0x80 != 0 {
            break;
        }
    }
    (supply, is_sound)
}

fn rating(body: &[u8]) -> Option<SupplyRating> {
    let byte = |at: usize| body.get(at).copied();
    let word = |at: usize| le16(body, at);
    let volts = |at: usize| word(at).filter(|units| *units > 0).map(|units| f64::from(units) / 100.0);
    let (peak, flags) = (word(18).unwrap_or_default(), byte(17)?);
    Some(SupplyRating {
        capacity_watts: word(0)? & 0xfff,
        peak_watts: Some(peak & 0xfff).filter(|watts| *watts > 0),
        peak_seconds: Some(peak >> 12).filter(|seconds| *seconds > 0),
        min_input_volts: volts(6),
        // The second range, where it has one, is the higher.
        max_input_volts: volts(12).or_else(|| volts(8)),
        min_input_hertz: byte(14)?,
        max_input_hertz: byte(15)?,
        is_hot_swappable: flags & 8 != 0,
        has_power_factor_correction: flags & 2 != 0,
    })
}

/// Serial numbers and asset tags.
pub(super) fn serials(data: &[u8]) -> Vec<String> {
    let Some(part) = parse(data) else { return Vec::new() };
    let (chassis, board, product) = (part.chassis, part.board, part.product.unwrap_or_default());
    let serials = [
        chassis.and_then(|chassis| chassis.serial_number),
        board.and_then(|board| board.serial_number),
        product.serial_number,
        product.asset_tag,
    ];
    serials.into_iter().flatten().collect()
}

/// The data with other texts in them, and right checksums in the areas whose old ones were right.
pub(super) fn with_sums(old: &[u8], mut new: Vec<u8>) -> Vec<u8> {
    let Some(header) = array::<HEADER_BYTES>(old, 0).filter(|header| header[0] & 0xf == 1) else { return new };
    for place in [CHASSIS, BOARD, PRODUCT] {
        let at = header.get(place).map_or(0, |units| usize::from(*units) * 8);
        let len = old.get(at + 1).map_or(0, |units| usize::from(*units) * 8);
        let sum = |area: &[u8]| area.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        let was_right = at > 0 && old.get(at..at + len).is_some_and(|area| sum(area) == 0);
        if let Some(area) = new.get_mut(at..at + len).filter(|_| was_right) {
            let wrong = sum(area);
            if let Some(last) = area.last_mut() {
                *last = last.wrapping_sub(wrong);
            }
        }
    }
    new
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        bytes.push(sum.wrapping_neg());
        bytes
    }

    /// An area that begins so and has these texts.
    fn area(begin: &[u8], texts: &[&str]) -> Vec<u8> {
        let mut area = vec![1, 0];
        area.extend(begin);
        for text in texts {
            area.push(0xc0 | u8::try_from(text.len()).unwrap());
            area.extend(text.bytes());
        }
        area.push(END);
        area.resize((area.len() + 1).next_multiple_of(8) - 1, 0);
        area[1] = u8::try_from((area.len() + 1) / 8).unwrap();
        with_sum(area)
    }

    /// A part with all areas: a power supply of 1600 W.
    pub(in super::super) fn power_supply() -> Vec<u8> {
        let chassis = area(&[0x17], &["CH-PN", "CH-SER-1", "own"]);
        // 2020-01-01 00:00, 12623040 minutes after 1996.
        let board = area(&[25, 0xc0, 0x9c, 0xc0], &["Acme", "PSU board", "BRD-SER-2", "BRD-PN", ""]);
        let product = area(&[25], &["Acme", "PSU 1600", "PN-1600", "A01", "PSU-SER-3", "ASSET-4", "", "x1", "x2"]);
        let mut body = vec![0; 24];
        body[..2].copy_from_slice(&1600_u16.to_le_bytes());
        body[6..14].copy_from_slice(&[9000_u16, 14000, 18000, 26400].map(u16::to_le_bytes).concat());
        body[14..18].copy_from_slice(&[47, 63, 20, 0b1010]);
        body[18..20].copy_from_slice(&(2_u16 << 12 | 1800).to_le_bytes());
        let sum = body.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg();
        let records = [with_sum(vec![POWER_SUPPLY, 0x82, 24, sum]), body].concat();
        let units = |len: usize| u8::try_from(len / 8).unwrap();
        let (at_board, at_product) = (1 + units(chassis.len()), 1 + units(chassis.len() + board.len()));
        let header = with_sum(vec![1, 0, 1, at_board, at_product, at_product + units(product.len()), 0]);
        [header, chassis, board, product, records].concat()
    }

    #[test]
    fn all_areas() {
        let data = power_supply();
        let found = parse(&data).unwrap();
        let text = |text: &str| Some(text.to_owned());
        let chassis = found.chassis.as_ref().unwrap();
        assert_eq!((chassis.chassis_type_id, &chassis.serial_number), (0x17, &text("CH-SER-1")));
        assert_eq!(chassis.extra, ["own"]);
        let board = found.board.as_ref().unwrap();
        assert_eq!((&board.made, &board.part_number), (&text("2020-01-01T00:00:00Z"), &text("BRD-PN")));
        let product = found.product.as_ref().unwrap();
        assert_eq!((&product.part_number, &product.version), (&text("PN-1600"), &text("A01")));
        assert_eq!((&product.serial_number, &product.asset_tag), (&text("PSU-SER-3"), &text("ASSET-4")));
        assert_eq!(product.extra, ["x1", "x2"]);
        let supply = found.power_supply.as_ref().unwrap();
        assert_eq!((supply.capacity_watts, supply.peak_watts, supply.peak_seconds), (1600, Some(1800), Some(2)));
        assert_eq!((supply.min_input_volts, supply.max_input_volts), (Some(90.0), Some(264.0)));
        assert!(supply.is_hot_swappable && supply.has_power_factor_correction);
        assert_eq!(found.wrong_checksums, [""; 0]);
        assert_eq!(serials(&data), ["CH-SER-1", "BRD-SER-2", "PSU-SER-3", "ASSET-4"]);
    }

    #[test]
    fn other_texts_have_right_checksums() {
        let old = power_supply();
        let at = old.windows(9).position(|bytes| bytes == b"PSU-SER-3").unwrap();
        let mut new = old.clone();
        new[at..at + 9].copy_from_slice(b"ABC-DEF-9");
        let found = parse(&with_sums(&old, new)).unwrap();
        assert_eq!(found.product.unwrap().serial_number.as_deref(), Some("ABC-DEF-9"));
        assert_eq!(found.wrong_checksums, [""; 0]);
        let _ = with_sums(&old, Vec::new());
    }

    #[test]
    fn wrong_checksums_are_named() {
        let mut data = power_supply();
        data[7] ^= 1;
        data[10] ^= 1;
        *data.last_mut().unwrap() ^= 1;
        assert_eq!(parse(&data).unwrap().wrong_checksums, ["header", "chassis", "records"]);
        for len in 0..data.len() {
            let _ = parse(&data[..len]);
        }
        assert_eq!((parse(&[]), parse(&[0xff; 64]), parse(&[0; 64])), (None, None, None));
    }
}
