//! QSFP, QSFP+ and QSFP28: SFF-8636 rev 2.11. Pure; the bytes are hostile.

use super::{
    codes,
    image::{Half, Image, LEVELS, Places, Quantity, half, identity, reaches, rounded, signals, steps},
    module::Module,
};
use kernel::ethnl::ModulePage;

/// Measurements and flags.
const LOWER: ModulePage = ModulePage { device: 0x50, bank: 0, page: 0, upper: false };
/// Identification.
const UPPER: ModulePage = ModulePage { upper: true, ..LOWER };
/// Limits.
const LIMITS: ModulePage = ModulePage { page: 3, ..UPPER };
pub(super) const PLACES: Places =
    Places { vendor: 148, oui: 165, part: 168, revision: (184, 2), serial: 196, date: 212 };
const LANES: u8 = 4;
/// Transmitter technologies from this one on are copper's.
const COPPER: u8 = 10;

/// Pages to read besides the first.
pub(super) fn further(image: &Image) -> Vec<ModulePage> {
    // The bit says that there is only one upper page.
    if half(image, LOWER).bit(2, 2) { vec![UPPER] } else { vec![UPPER, LIMITS] }
}

pub(super) fn parse(image: &Image) -> Module {
    let [lower, upper, limits] = [LOWER, UPPER, LIMITS].map(|page| half(image, page));
    let byte = |at| upper.byte(at).unwrap_or(0);
    let is_copper = byte(147) >> 4 >= COPPER;
    let is_cable = is_copper || byte(130) == 0x23;
    let bit_rate = match byte(140) {
        0xff => u32::from(byte(222)) * 250,
        rate => u32::from(rate) * 100,
    };
    let by_cable = steps(upper, 146, if is_cable { 1.0 } else { 2.0 });
    let (cable, om4) = if is_cable { (by_cable, 0.0) } else { (0.0, by_cable) };
    let mut media: Vec<String> = codes::extended(byte(192)).into_iter().collect();
    let old = ["", "10GBASE-LRM", "10GBASE-LR", "10GBASE-SR", "40GBASE-CR4", "40GBASE-SR4", "40GBASE-LR4", "40G AOC"];
    media.extend(codes::bits(byte(131), old));
    let has_tx_power = upper.bit(220, 2);
    // A copper cable measures nothing.
    let lanes = if is_copper { 0 } else { LANES };
    let ranges = [
        (Quantity::Temperature, 128),
        (Quantity::Voltage, 144),
        (Quantity::Bias, 184),
        (Quantity::TxPower, 192),
        (Quantity::RxPower, 176),
    ];
    Module {
        specification: "SFF-8636".to_owned(),
        connector: codes::connector(byte(130)),
        technology: upper.byte(147).and_then(|code| codes::technology(code >> 4)),
        media,
        bit_rate_mbps: (bit_rate > 0).then_some(bit_rate),
        reach_meters: reaches([
            ("single_mode", steps(upper, 142, 1000.0)),
            ("om1", steps(upper, 145, 1.0)),
            ("om2", steps(upper, 144, 1.0)),
            ("om3", steps(upper, 143, 2.0)),
            ("om4", om4),
            ("cable", cable),
        ]),
        wavelength_nanometers: upper
            .word(186)
            .filter(|length| *length > 0 && !is_copper)
            .map(|length| rounded(f64::from(length) / 20.0)),
        max_power_watts: upper.byte(129).map(|class| power(class, lower.byte(107))),
        temperature_celsius: lower.measured(Quantity::Temperature, 22).filter(|_| !is_copper),
        voltage_millivolts: lower.measured(Quantity::Voltage, 26).filter(|_| !is_copper),
        signals: signals(lower, lanes, [Some(34), Some(42), has_tx_power.then_some(50)]),
        limits: ranges.into_iter().filter_map(|(what, at)| limits.limits(what, at, |raw| what.scaled(raw))).collect(),
        raised_flags: flags(lower),
        ..identity(upper, &PLACES)
    }
}

/// Watts of a power class (byte 129); class 8 says how many (byte 107, tenths).
fn power(class: u8, tenths: Option<u8>) -> f64 {
    match (class >> 5 & 1, class & 3, class >> 6, tenths) {
        (1, _, _, Some(tenths @ 1..)) => rounded(f64::from(tenths) / 10.0),
        (_, 1, ..) => 4.0,
        (_, 2, ..) => 4.5,
        (_, 3, ..) => 5.0,
        (_, _, 0, _) => 1.5,
        (_, _, 1, _) => 2.0,
        (_, _, 2, _) => 2.5,
        _ => 3.5,
    }
}

fn flags(lower: Half<'_>) -> Vec<String> {
    let mut raised = Vec::new();
    let lane_flags = [
        ("rx loss of signal", 3, 0),
        ("tx loss of signal", 3, 4),
        ("tx fault", 4, 0),
        ("rx loss of lock", 5, 0),
        ("tx loss of lock", 5, 4),
    ];
    for (name, at, first) in lane_flags {
        raised.extend(
            (0..LANES).filter(|lane| lower.bit(at, first + lane)).map(|lane| format!("{name}, lane {}", lane + 1)),
        );
    }
    // Four bits of each, the highest first: of the module in the upper half of a byte, of two lanes in both halves.
    for (what, at) in [(Quantity::Temperature, 6), (Quantity::Voltage, 7)] {
        let levels = LEVELS.iter().zip((4..8).rev()).filter(|(_, bit)| lower.bit(at, *bit));
        raised.extend(levels.map(|(level, _)| format!("{} {level}", what.name())));
    }
    for (what, start) in [(Quantity::RxPower, 9), (Quantity::Bias, 11), (Quantity::TxPower, 13)] {
        for lane in 0..LANES {
            let (at, highest) = (start + usize::from(lane / 2), if lane % 2 == 0 { 7 } else { 3 });
            let levels = LEVELS.iter().zip(0..).filter(|(_, place)| lower.bit(at, highest - place));
            raised.extend(levels.map(|(level, _)| format!("{} {level}, lane {}", what.name(), lane + 1)));
        }
    }
    raised
}
