//! QSFP-DD, OSFP and others: CMIS (OIF-CMIS-05.2). Pure; the bytes are hostile.

use super::{
    codes,
    image::{Half, Image, LEVELS, Places, Quantity, half, identity, reaches, rounded, signals, steps},
    module::{Module, Signal},
};
use kernel::ethnl::ModulePage;

const LOWER: ModulePage = ModulePage { device: 0x50, bank: 0, page: 0, upper: false };
/// Identification.
const UPPER: ModulePage = ModulePage { upper: true, ..LOWER };
/// What it can do.
const ADVERTISED: ModulePage = ModulePage { page: 1, ..UPPER };
const LIMITS: ModulePage = ModulePage { page: 2, ..UPPER };
/// Flags and measurements of the first eight lanes.
const LANES: ModulePage = ModulePage { page: 0x11, ..UPPER };
pub(super) const PLACES: Places =
    Places { vendor: 129, oui: 145, part: 148, revision: (164, 2), serial: 166, date: 182 };
/// Lanes of a bank.
const MAX_LANES: u8 = 8;
/// Descriptors of applications: each has the host's interface, the media's, lanes, and where the host's may begin.
const APPLICATIONS: [usize; 8] = [86, 90, 94, 98, 102, 106, 110, 114];
const STATES: [&str; 6] = ["", "low power", "powering up", "ready", "powering down", "fault"];

/// Pages to read besides the first.
pub(super) fn further(image: &Image) -> Vec<ModulePage> {
    // The bit says that there is only one upper page.
    if half(image, LOWER).bit(2, 7) {
        return vec![UPPER];
    }
    let banks = (0..banks(half(image, ADVERTISED))).map(|bank| ModulePage { bank, ..LANES });
    [UPPER, ADVERTISED, LIMITS].into_iter().chain(banks).collect()
}

/// Banks of eight lanes (page 01h, byte 142).
fn banks(advertised: Half<'_>) -> u8 {
    match advertised.byte(142).unwrap_or(0) & 3 {
        1 => 2,
        2 => 4,
        _ => 1,
    }
}

pub(super) fn parse(image: &Image) -> Module {
    let [lower, upper, advertised, limits] = [LOWER, UPPER, ADVERTISED, LIMITS].map(|page| half(image, page));
    let kind = lower.byte(85).unwrap_or(0);
    let applications: Vec<[u8; 4]> = APPLICATIONS
        .into_iter()
        .map_while(|at| lower.array::<4>(at).filter(|[host, ..]| !matches!(host, 0 | 0xff)))
        .collect();
    let mut media = Vec::new();
    for media_interface in applications.iter().filter_map(|[_, code, ..]| codes::media(kind, *code)) {
        if !media.contains(&media_interface) {
            media.push(media_interface);
        }
    }
    let lane_count =
        |[_, _, lanes, places]: &[u8; 4]| (lanes & 0xf).saturating_mul(u8::try_from(places.count_ones()).unwrap_or(0));
    let count = applications.iter().map(lane_count).max().unwrap_or(0).min(MAX_LANES);
    let revision = lower.byte(1).unwrap_or(0);
    let firmware = lower.array::<2>(39).filter(|version| *version != [0; 2]);
    // What it measures (page 01h, bytes 159 and 160).
    let has = |at, bit| advertised.bit(at, bit);
    let bias_factor = match advertised.byte(160).unwrap_or(0) >> 3 & 3 {
        1 => 2.0,
        2 => 4.0,
        _ => 1.0,
    };
    let places = [has(160, 2).then_some(186), has(160, 0).then_some(170), has(160, 1).then_some(154)];
    let (mut all_signals, mut raised_flags) = (Vec::new(), flags(lower));
    // What can be done by the first eight lanes, the others can too.
    for bank in 0..banks(advertised) {
        let (lanes, before) = (half(image, ModulePage { bank, ..LANES }), u32::from(bank) * u32::from(MAX_LANES));
        all_signals.extend(signals(lanes, count, places).into_iter().map(|signal| Signal {
            number: signal.number + before,
            bias_milliamperes: signal.bias_milliamperes.map(|bias| rounded(bias * bias_factor)),
            ..signal
        }));
        raised_flags.extend(lane_flags(lanes, count, before));
    }
    let ranges = [
        (Quantity::Temperature, 128, 1.0, has(159, 0)),
        (Quantity::Voltage, 136, 1.0, has(159, 1)),
        (Quantity::Bias, 184, bias_factor, has(160, 0)),
        (Quantity::TxPower, 176, 1.0, has(160, 1)),
        (Quantity::RxPower, 192, 1.0, has(160, 2)),
    ];
    let ranges = ranges.into_iter().filter(|(.., is_measured)| *is_measured);
    let single_mode = advertised
        .byte(132)
        .map_or(0.0, |length| f64::from(length & 0x3f) * if length >> 6 == 0 { 100.0 } else { 1000.0 });
    let cable = upper.byte(202).map_or(0.0, |length| {
        f64::from(length & 0x3f)
            * match length >> 6 {
                0 => 0.1,
                1 => 1.0,
                2 => 10.0,
                _ => 100.0,
            }
    });
    Module {
        specification: format!("CMIS {}.{}", revision >> 4, revision & 0xf),
        firmware_version: firmware.map(|[major, minor]| format!("{major}.{minor}")),
        connector: upper.byte(203).and_then(codes::connector),
        technology: upper.byte(212).and_then(codes::technology),
        media,
        reach_meters: reaches([
            ("single_mode", single_mode),
            ("om2", steps(advertised, 136, 1.0)),
            ("om3", steps(advertised, 135, 2.0)),
            ("om4", steps(advertised, 134, 2.0)),
            ("om5", steps(advertised, 133, 2.0)),
            ("cable", cable),
        ]),
        wavelength_nanometers: advertised
            .word(138)
            .filter(|length| *length > 0)
            .map(|length| rounded(f64::from(length) / 20.0)),
        max_power_watts: upper.byte(201).filter(|power| *power > 0).map(|power| f64::from(power) / 4.0),
        state: lower
            .byte(3)
            .and_then(|state| STATES.get(usize::from(state >> 1 & 7)))
            .filter(|state| !state.is_empty())
            .map(|state| (*state).to_owned()),
        temperature_celsius: lower.measured(Quantity::Temperature, 14).filter(|_| has(159, 0)),
        voltage_millivolts: lower.measured(Quantity::Voltage, 16).filter(|_| has(159, 1)),
        signals: all_signals,
        limits: ranges
            .filter_map(|(what, at, factor, _)| limits.limits(what, at, |raw| what.scaled(raw * factor)))
            .collect(),
        raised_flags,
        ..identity(upper, &PLACES)
    }
}

fn flags(lower: Half<'_>) -> Vec<String> {
    let mut raised = Vec::new();
    if lower.bit(8, 1) {
        raised.push("module firmware error".to_owned());
    }
    if lower.bit(8, 2) {
        raised.push("data path firmware error".to_owned());
    }
    for (what, first) in [(Quantity::Temperature, 0), (Quantity::Voltage, 4)] {
        let levels = LEVELS.iter().zip(first..).filter(|(_, bit)| lower.bit(9, *bit));
        raised.extend(levels.map(|(level, _)| format!("{} {level}", what.name())));
    }
    raised
}

/// Those of the lanes of a bank.
fn lane_flags(lanes: Half<'_>, count: u8, before: u32) -> Vec<String> {
    let mut raised = Vec::new();
    let mut add = |name: &str, at: usize| {
        let set = (0..count).filter(|lane| lanes.bit(at, *lane));
        raised.extend(set.map(|lane| format!("{name}, lane {}", u32::from(lane) + before + 1)));
    };
    for (name, at) in [
        ("tx fault", 135),
        ("tx loss of signal", 136),
        ("tx loss of lock", 137),
        ("rx loss of signal", 147),
        ("rx loss of lock", 148),
    ] {
        add(name, at);
    }
    for (what, start) in [(Quantity::TxPower, 139), (Quantity::Bias, 143), (Quantity::RxPower, 149)] {
        for (level, at) in LEVELS.iter().zip(start..) {
            add(&format!("{} {level}", what.name()), at);
        }
    }
    raised
}
