//! A module's memory, as far as it was read, and what numbers in it mean. Pure; the bytes are hostile.

use super::module::{Module, ModuleLimits, Signal};
use kernel::{
    bytes::{array, be16},
    ethnl::ModulePage,
    hex,
};
use std::collections::BTreeMap;

/// The pages that were read.
pub(crate) type Image = BTreeMap<ModulePage, Vec<u8>>;

/// Half a page. Bytes are counted as in the specification, so that the upper half begins at 128; what was not read is
/// missing.
#[derive(Clone, Copy)]
pub(super) struct Half<'a> {
    bytes: &'a [u8],
    first: usize,
}

/// A half of an image.
pub(super) fn half(image: &Image, page: ModulePage) -> Half<'_> {
    let bytes = image.get(&page).map(Vec::as_slice).unwrap_or_default();
    Half { bytes, first: if page.upper { 128 } else { 0 } }
}

impl Half<'_> {
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.bytes.get(at.checked_sub(self.first)?).copied()
    }

    pub(super) fn bit(self, at: usize, bit: u8) -> bool {
        self.byte(at).is_some_and(|byte| byte >> bit & 1 == 1)
    }

    pub(super) fn word(self, at: usize) -> Option<u16> {
        be16(self.bytes, at.checked_sub(self.first)?)
    }

    pub(super) fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        array(self.bytes, at.checked_sub(self.first)?)
    }

    pub(super) fn text(self, at: usize, len: usize) -> Option<String> {
        let at = at.checked_sub(self.first)?;
        let text = kernel::bytes::text(self.bytes.get(at..at.checked_add(len)?)?);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A measurement before it is scaled.
    pub(super) fn raw(self, what: Quantity, at: usize) -> Option<f64> {
        let word = self.word(at)?;
        Some(if what == Quantity::Temperature { word.cast_signed().into() } else { word.into() })
    }

    pub(super) fn measured(self, what: Quantity, at: usize) -> Option<f64> {
        self.raw(what, at).map(|raw| what.scaled(raw))
    }

    /// Limits from `at` on: high alarm, low alarm, high warning, low warning; `None` if the module sets none.
    pub(super) fn limits(self, what: Quantity, at: usize, scaled: impl Fn(f64) -> f64) -> Option<ModuleLimits> {
        let [high_alarm, low_alarm, high_warning, low_warning] = [0, 2, 4, 6].map(|more| self.raw(what, at + more));
        let raw = [low_alarm?, low_warning?, high_warning?, high_alarm?];
        let is_set = raw.iter().any(|limit| *limit != 0.0);
        let [low_alarm, low_warning, high_warning, high_alarm] = raw.map(scaled);
        is_set.then(|| ModuleLimits { name: what.field().to_owned(), low_alarm, low_warning, high_warning, high_alarm })
    }
}

/// What a module measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Temperature,
    Voltage,
    Bias,
    TxPower,
    RxPower,
}

/// Flags of each quantity, in the order that all specifications have.
pub(super) const LEVELS: [&str; 4] = ["high alarm", "low alarm", "high warning", "low warning"];

impl Quantity {
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Temperature => "temperature_celsius",
            Self::Voltage => "voltage_millivolts",
            Self::Bias => "bias_milliamperes",
            Self::TxPower => "tx_power_dbm",
            Self::RxPower => "rx_power_dbm",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Voltage => "voltage",
            Self::Bias => "bias",
            Self::TxPower => "tx power",
            Self::RxPower => "rx power",
        }
    }

    /// Steps of 1/256 °C, 0.1 mV, 2 µA and 0.1 µW, in all specifications.
    pub(super) fn scaled(self, raw: f64) -> f64 {
        rounded(match self {
            Self::Temperature => raw / 256.0,
            Self::Voltage => raw / 10.0,
            Self::Bias => raw / 500.0,
            Self::TxPower | Self::RxPower => dbm(raw),
        })
    }
}

/// Light of so many tenths of a microwatt. None is the least that a module can measure.
fn dbm(tenths: f64) -> f64 {
    if tenths < 1.0 { -40.0 } else { 10.0 * (tenths / 10_000.0).log10() }
}

/// To two places.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Where the fields lie that all specifications have, each in its own place.
pub(super) struct Places {
    pub vendor: usize,
    pub oui: usize,
    pub part: usize,
    pub revision: (usize, usize),
    pub serial: usize,
    pub date: usize,
}

/// A module with what they say.
pub(super) fn identity(half: Half<'_>, places: &Places) -> Module {
    Module {
        vendor: half.text(places.vendor, 16),
        vendor_oui: half.array::<3>(places.oui).filter(|oui| *oui != [0; 3]).map(hex::colons),
        part_number: half.text(places.part, 16),
        revision: half.text(places.revision.0, places.revision.1),
        serial_number: half.text(places.serial, 16),
        manufacturing_date: half.text(places.date, 8).map(date),
        ..Module::default()
    }
}

/// `YYMMDD` and a lot of two characters.
fn date(code: String) -> String {
    let is_date = code.len() >= 6 && code.is_char_boundary(6) && code.bytes().take(6).all(|byte| byte.is_ascii_digit());
    if !is_date {
        return code;
    }
    let (year, rest) = code.split_at(2);
    let (month, rest) = rest.split_at(2);
    let (day, lot) = rest.split_at(2);
    format!("20{year}-{month}-{day} {lot}").trim_end().to_owned()
}

/// So many lanes, of which the first ones' measurements begin at these places.
pub(super) fn signals(half: Half<'_>, count: u8, [rx, bias, tx]: [Option<usize>; 3]) -> Vec<Signal> {
    let lane = |number: u8| {
        let offset = 2 * usize::from(number);
        let measured = |what, at: Option<usize>| half.measured(what, at? + offset);
        Signal {
            number: u32::from(number) + 1,
            rx_power_dbm: measured(Quantity::RxPower, rx),
            tx_power_dbm: measured(Quantity::TxPower, tx),
            bias_milliamperes: measured(Quantity::Bias, bias),
        }
    };
    let is_known = |signal: &Signal| {
        signal.rx_power_dbm.is_some() || signal.tx_power_dbm.is_some() || signal.bias_milliamperes.is_some()
    };
    (0..count).map(lane).filter(is_known).collect()
}

/// Reaches that are not zero, metres.
pub(super) fn reaches<const N: usize>(reaches: [(&str, f64); N]) -> BTreeMap<String, f64> {
    let far = reaches.into_iter().filter(|(_, meters)| *meters > 0.0);
    far.map(|(name, meters)| (name.to_owned(), rounded(meters))).collect()
}

/// Steps of `meters`; 0 if the byte is missing.
pub(super) fn steps(half: Half<'_>, at: usize, meters: f64) -> f64 {
    half.byte(at).map_or(0.0, |count| f64::from(count) * meters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_in_decibels() {
        let dbm = |raw| Quantity::RxPower.scaled(raw);
        assert_eq!((dbm(10_000.0), dbm(5_012.0), dbm(1.0), dbm(0.0)), (0.0, -3.0, -40.0, -40.0));
    }

    #[test]
    fn dates() {
        assert_eq!(date("240331A1".to_owned()), "2024-03-31 A1");
        assert_eq!(date("240331".to_owned()), "2024-03-31");
        assert_eq!((date("2403é1".to_owned()), date("2024/3".to_owned())), ("2403é1".to_owned(), "2024/3".to_owned()));
    }
}
