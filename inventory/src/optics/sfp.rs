//! SFP: SFF-8472 rev 12.4. Pure; the bytes are hostile.

use super::{
    codes,
    image::{Half, Image, LEVELS, Places, Quantity, half, identity, reaches, steps},
    module::{Module, Signal},
};
use kernel::ethnl::ModulePage;

/// Identification.
pub(super) const A0: ModulePage = ModulePage { device: 0x50, bank: 0, page: 0, upper: false };
/// Diagnostics.
const A2: ModulePage = ModulePage { device: 0x51, bank: 0, page: 0, upper: false };
pub(super) const PLACES: Places = Places { vendor: 20, oui: 37, part: 40, revision: (56, 4), serial: 68, date: 84 };
/// Bits of byte 8: the cable is active, or passive.
const ACTIVE: u8 = 3;
const PASSIVE: u8 = 2;
/// Type of diagnostic monitoring, and its bits: there is some; values must be calibrated; the address must be switched.
const MONITORING: usize = 92;
const HAS_MONITORING: u8 = 6;
const IS_EXTERNAL: u8 = 4;
const NEEDS_SWITCH: u8 = 2;

/// Pages to read besides the first.
pub(super) fn further(image: &Image) -> Vec<ModulePage> {
    let first = half(image, A0);
    if first.bit(MONITORING, HAS_MONITORING) && !first.bit(MONITORING, NEEDS_SWITCH) { vec![A2] } else { Vec::new() }
}

pub(super) fn parse(image: &Image) -> Module {
    let (a0, a2) = (half(image, A0), half(image, A2));
    let is_cable = a0.bit(8, PASSIVE) || a0.bit(8, ACTIVE);
    let bit_rate = match a0.byte(12) {
        // Beyond what it can say, the rate is in steps of 250.
        Some(0xff) => a0.byte(66).map(|rate| u32::from(rate) * 250),
        rate => rate.map(|rate| u32::from(rate) * 100),
    };
    let tenth_kilometers = steps(a0, 15, 100.0);
    let by_cable = steps(a0, 18, if is_cable { 1.0 } else { 10.0 });
    let (cable, om4) = if is_cable { (by_cable, 0.0) } else { (0.0, by_cable) };
    let reaches = reaches([
        ("single_mode", if tenth_kilometers > 0.0 { tenth_kilometers } else { steps(a0, 14, 1000.0) }),
        ("om1", steps(a0, 17, 10.0)),
        ("om2", steps(a0, 16, 10.0)),
        ("om3", steps(a0, 19, 10.0)),
        ("om4", om4),
        ("cable", cable),
    ]);
    let calibrated = |what: Quantity, raw: f64| {
        let raw = if a0.bit(MONITORING, IS_EXTERNAL) { calibrated(a2, what, raw).unwrap_or(raw) } else { raw };
        what.scaled(raw)
    };
    let measured = |what: Quantity, at: usize| a2.raw(what, at).map(|raw| calibrated(what, raw));
    let limits = [
        (Quantity::Temperature, 0),
        (Quantity::Voltage, 8),
        (Quantity::Bias, 16),
        (Quantity::TxPower, 24),
        (Quantity::RxPower, 32),
    ];
    let signal = Signal {
        number: 1,
        rx_power_dbm: measured(Quantity::RxPower, 104),
        tx_power_dbm: measured(Quantity::TxPower, 102),
        bias_milliamperes: measured(Quantity::Bias, 100),
    };
    Module {
        specification: "SFF-8472".to_owned(),
        connector: a0.byte(2).and_then(codes::connector),
        media: media(a0),
        bit_rate_mbps: bit_rate.filter(|rate| *rate > 0),
        reach_meters: reaches,
        wavelength_nanometers: a0.word(60).filter(|length| *length > 0 && !is_cable).map(f64::from),
        // Power levels 1 to 3.
        max_power_watts: a0.byte(64).map(|options| match (options >> 5 & 1, options >> 1 & 1) {
            (0, 0) => 1.0,
            (0, _) => 1.5,
            _ => 2.0,
        }),
        temperature_celsius: measured(Quantity::Temperature, 96),
        voltage_millivolts: measured(Quantity::Voltage, 98),
        signals: a2.byte(105).map(|_| signal).into_iter().collect(),
        limits: limits.into_iter().filter_map(|(what, at)| a2.limits(what, at, |raw| calibrated(what, raw))).collect(),
        raised_flags: flags(a2),
        ..identity(a0, &PLACES)
    }
}

fn media(a0: Half<'_>) -> Vec<String> {
    let byte = |at| a0.byte(at).unwrap_or(0);
    let mut media: Vec<String> = codes::extended(byte(36)).into_iter().collect();
    media.extend(codes::bits(byte(3), ["10GBASE-ER", "10GBASE-LRM", "10GBASE-LR", "10GBASE-SR", "", "", "", ""]));
    let slow =
        ["BASE-PX", "BASE-BX10", "100BASE-FX", "100BASE-LX", "1000BASE-T", "1000BASE-CX", "1000BASE-LX", "1000BASE-SX"];
    media.extend(codes::bits(byte(6), slow));
    media.extend(codes::bits(byte(8), ["", "", "", "", "active cable", "passive copper cable", "", ""]));
    media
}

/// A value that the host must calibrate (SFF-8472, 9.3), before it is scaled.
fn calibrated(a2: Half<'_>, what: Quantity, raw: f64) -> Option<f64> {
    let line = |slope: usize| {
        let offset = f64::from(a2.word(slope + 2)?.cast_signed());
        Some(raw * f64::from(a2.word(slope)?) / 256.0 + offset)
    };
    match what {
        Quantity::Bias => line(76),
        Quantity::TxPower => line(80),
        Quantity::Temperature => line(84),
        Quantity::Voltage => line(88),
        // A polynomial, the highest of its five coefficients first.
        Quantity::RxPower => [56, 60, 64, 68, 72].into_iter().try_fold(0.0, |sum: f64, at| {
            let coefficient = f64::from(f32::from_be_bytes(a2.array(at)?));
            Some(sum * raw + coefficient).filter(|sum| sum.is_finite())
        }),
    }
}

fn flags(a2: Half<'_>) -> Vec<String> {
    let order = [Quantity::Temperature, Quantity::Voltage, Quantity::Bias, Quantity::TxPower, Quantity::RxPower];
    let mut raised = Vec::new();
    if a2.bit(110, 2) {
        raised.push("tx fault, lane 1".to_owned());
    }
    if a2.bit(110, 1) {
        raised.push("rx loss of signal, lane 1".to_owned());
    }
    // Two bits of each, the highest first, from byte 112 on for alarms and 116 for warnings.
    for (start, levels) in [(112, &LEVELS[..2]), (116, &LEVELS[2..])] {
        let word = a2.word(start).unwrap_or(0);
        for (what, place) in order.iter().zip((0..16).step_by(2)) {
            let lane = if matches!(what, Quantity::Temperature | Quantity::Voltage) { "" } else { ", lane 1" };
            for (level, bit) in levels.iter().zip([place, place + 1]) {
                if word << bit & 0x8000 != 0 {
                    raised.push(format!("{} {level}{lane}", what.name()));
                }
            }
        }
    }
    raised
}
