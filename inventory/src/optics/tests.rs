//! Modules made by the tests from the specifications.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LOWER: ModulePage = FIRST;

fn upper(page: u8) -> ModulePage {
    ModulePage { page, upper: true, ..FIRST }
}

/// Half a page with these bytes, whose addresses begin at 0 or 128.
fn page(of: ModulePage, fields: &[(usize, &[u8])]) -> (ModulePage, Vec<u8>) {
    let mut bytes = vec![0; 128];
    for (at, content) in fields {
        let at = at - if of.upper { 128 } else { 0 };
        bytes[at..at + content.len()].copy_from_slice(content);
    }
    (of, bytes)
}

fn words(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// As a host reads it: the first half, then those that it asks for and that exist.
pub(super) fn read(pages: &[(ModulePage, Vec<u8>)]) -> Option<Module> {
    let all: Image = pages.iter().cloned().collect();
    let mut image = Image::from([(FIRST, all[&FIRST].clone())]);
    loop {
        let wanted = further(&image);
        let before = image.len();
        image.extend(all.iter().filter(|(page, _)| wanted.contains(page)).map(|(page, bytes)| (*page, bytes.clone())));
        if image.len() == before {
            return parse(&image);
        }
    }
}

/// The halves to read besides this one.
fn after(first: Vec<u8>) -> Vec<ModulePage> {
    further(&Image::from([(FIRST, first)]))
}

pub(super) fn limits<'a>(module: &'a Module, name: &str) -> &'a ModuleLimits {
    module.limits.iter().find(|limits| limits.name == name).unwrap()
}

/// A 25GBASE-SR module; `monitoring` is its type of diagnostic monitoring.
pub(super) fn sfp(monitoring: u8) -> Vec<(ModulePage, Vec<u8>)> {
    let a0 = page(
        LOWER,
        &[
            (0, &[3, 4, 7, 0x10]),
            (12, &[255, 0, 0, 0, 0, 0, 10, 7]),
            (20, b"ACME CORP.      "),
            (36, &[2, 0x00, 0x1b, 0x21]),
            (40, b"AC-25G-SR       A   "),
            (60, &[3, 82]),
            (64, &[0x02, 0x1a, 103]),
            (68, b"ACS123456       "),
            (84, b"240331A1"),
            (92, &[monitoring, 0xf0, 8]),
        ],
    );
    let temperature = words(&[75 * 256, 0xfb00, 70 * 256, 0]);
    let a2 = page(
        ModulePage { device: 0x51, ..FIRST },
        &[
            (0, &temperature),
            (8, &words(&[36000, 30000, 35000, 31000])),
            (16, &words(&[6000, 500, 5000, 1000])),
            (24, &words(&[20000, 1000, 15000, 2000])),
            (32, &words(&[20000, 100, 15000, 200])),
            (96, &words(&[0x1f80, 33000, 3000, 10000, 50])),
            (110, &[0b110]),
            (112, &[0x80, 0x40]),
            (116, &[0, 0x40]),
        ],
    );
    vec![a0, a2]
}

#[test]
fn an_sfp_with_diagnostics() {
    let module = read(&sfp(0x68)).unwrap();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    assert_eq!((module.form.as_str(), module.specification.as_str()), ("SFP", "SFF-8472"));
    assert_eq!((text(&module.vendor), text(&module.vendor_oui)), ("ACME CORP.".into(), "00:1b:21".into()));
    assert_eq!((text(&module.part_number), text(&module.revision)), ("AC-25G-SR".into(), "A".into()));
    assert_eq!(
        (text(&module.serial_number), text(&module.manufacturing_date)),
        ("ACS123456".into(), "2024-03-31 A1".into())
    );
    assert_eq!((text(&module.connector), module.bit_rate_mbps), ("LC".into(), Some(25_750)));
    assert_eq!(module.media, ["100GBASE-SR4 or 25GBASE-SR", "10GBASE-SR"]);
    assert_eq!(module.reach_meters, BTreeMap::from([("om3".to_owned(), 70.0), ("om4".to_owned(), 100.0)]));
    assert_eq!((module.wavelength_nanometers, module.max_power_watts), (Some(850.0), Some(1.5)));
    assert_eq!((module.temperature_celsius, module.voltage_millivolts), (Some(31.5), Some(3300.0)));
    let expected =
        Signal { number: 1, rx_power_dbm: Some(-23.01), tx_power_dbm: Some(0.0), bias_milliamperes: Some(6.0) };
    assert_eq!(module.signals, [expected]);
    let rx = limits(&module, "rx_power_dbm");
    assert_eq!((rx.high_alarm, rx.low_alarm, rx.low_warning), (3.01, -20.0, -16.99));
    let temperature = limits(&module, "temperature_celsius");
    assert_eq!((temperature.low_alarm, temperature.high_warning), (-5.0, 70.0));
    let flags = [
        "tx fault, lane 1",
        "rx loss of signal, lane 1",
        "temperature high alarm",
        "rx power low alarm, lane 1",
        "rx power low warning, lane 1",
    ];
    assert_eq!(module.raised_flags, flags);
}

#[test]
fn an_sfp_whose_values_the_host_calibrates() {
    let mut pages = sfp(0x58);
    let a2 = &mut pages[1].1;
    // Light arrives by 2 times the value and 100; all other slopes are 1 but the bias', which is 1.5.
    a2[68..72].copy_from_slice(&2f32.to_be_bytes());
    a2[72..76].copy_from_slice(&100f32.to_be_bytes());
    a2[76..92].copy_from_slice(&words(&[0x180, 0, 0x100, 0, 0x100, 0xff00, 0x100, 10]));
    let module = read(&pages).unwrap();
    assert_eq!((module.temperature_celsius, module.voltage_millivolts), (Some(30.5), Some(3301.0)));
    assert_eq!(module.signals[0].bias_milliamperes, Some(9.0));
    assert_eq!(module.signals[0].rx_power_dbm, Some(-16.99));
    assert_eq!(limits(&module, "rx_power_dbm").low_alarm, -15.23);
}

#[test]
fn a_cable_measures_nothing() {
    let cable = page(LOWER, &[(0, &[3, 4, 0x23]), (8, &[4]), (12, &[103]), (18, &[3]), (36, &[0x0b]), (60, &[1])]);
    let module = read(&[cable]).unwrap();
    assert_eq!(module.reach_meters, BTreeMap::from([("cable".to_owned(), 3.0)]));
    assert_eq!(module.connector.as_deref(), Some("none"));
    assert_eq!(module.media[1], "passive copper cable");
    let is_measured = module.temperature_celsius.is_some() || !module.signals.is_empty() || !module.limits.is_empty();
    assert!(!is_measured && module.wavelength_nanometers.is_none());
    // One that needs the bus' address to be switched is not asked.
    assert_eq!(after(sfp(0x64)[0].1.clone()), []);
}

pub(super) fn qsfp() -> Vec<(ModulePage, Vec<u8>)> {
    let lower = page(
        LOWER,
        &[
            (0, &[0x11, 8, 0]),
            (3, &[0x24, 0x02, 0x80]),
            (6, &[0x10, 0x80, 0, 0x40, 0x02]),
            (22, &[0x28, 0x40]),
            (26, &words(&[32500])),
            (34, &words(&[10000, 5012, 0, 7943])),
            (42, &words(&[3000, 3500, 3250, 4000])),
            (50, &words(&[10000, 12589, 10000, 10000])),
        ],
    );
    let identification = page(
        upper(0),
        &[
            (128, &[0x11, 0xc0 | 0x02, 0x0c, 0x80]),
            (140, &[255, 0, 0, 35, 0, 0, 50, 0]),
            (148, b"ACME CORP.      "),
            (165, &[0x00, 0x1b, 0x21]),
            (168, b"AC-100G-SR4     1A"),
            (186, &words(&[17000])),
            (192, &[2]),
            (196, b"ACQ0001         240101  "),
            (220, &[0x0c]),
            (222, &[103]),
        ],
    );
    let thresholds =
        page(upper(3), &[(128, &words(&[75 * 256, 0, 70 * 256, 0])), (176, &words(&[20000, 1000, 15000, 2000]))]);
    vec![lower, identification, thresholds]
}

#[test]
fn a_qsfp28() {
    let pages = qsfp();
    let module = read(&pages).unwrap();
    assert_eq!((module.form.as_str(), module.specification.as_str()), ("QSFP28", "SFF-8636"));
    assert_eq!((module.part_number.as_deref(), module.revision.as_deref()), (Some("AC-100G-SR4"), Some("1A")));
    assert_eq!(
        (module.serial_number.as_deref(), module.manufacturing_date.as_deref()),
        (Some("ACQ0001"), Some("2024-01-01"))
    );
    assert_eq!(
        (module.connector.as_deref(), module.media.as_slice()),
        (Some("MPO 1x12"), &["100GBASE-SR4 or 25GBASE-SR".to_owned()][..])
    );
    assert_eq!(
        (module.bit_rate_mbps, module.wavelength_nanometers, module.max_power_watts),
        (Some(25_750), Some(850.0), Some(4.5))
    );
    assert_eq!(module.reach_meters, BTreeMap::from([("om3".to_owned(), 70.0), ("om4".to_owned(), 100.0)]));
    assert_eq!((module.temperature_celsius, module.voltage_millivolts), (Some(40.25), Some(3250.0)));
    let rx: Vec<_> = module.signals.iter().map(|signal| signal.rx_power_dbm.unwrap()).collect();
    assert_eq!(rx, [0.0, -3.0, -40.0, -1.0]);
    assert_eq!((module.signals[1].tx_power_dbm, module.signals[3].bias_milliamperes), (Some(1.0), Some(8.0)));
    assert_eq!((module.limits.len(), limits(&module, "rx_power_dbm").high_alarm), (2, 3.01));
    let flags = [
        "rx loss of signal, lane 3",
        "tx loss of signal, lane 2",
        "tx fault, lane 2",
        "tx loss of lock, lane 4",
        "temperature low warning",
        "voltage high alarm",
        "rx power low alarm, lane 1",
        "rx power high warning, lane 4",
    ];
    assert_eq!(module.raised_flags, flags);
    // Without the other pages it is still a module.
    assert_eq!(read(&pages[..1]).unwrap().signals.len(), 4);
    let (_, mut flat) = pages[0].clone();
    flat[2] = 4;
    assert_eq!(after(flat), [upper(0)]);
}

pub(super) fn osfp() -> Vec<(ModulePage, Vec<u8>)> {
    let lower = page(
        LOWER,
        &[
            (0, &[0x19, 0x52, 0, 3 << 1]),
            (8, &[0x02, 0x12]),
            (14, &words(&[0x2d80, 33010])),
            (39, &[2, 7]),
            // Two ports of 400GBASE-DR4, or eight of 100GBASE-DR.
            (85, &[2, 0x4f, 28, 0x44, 0x11, 0x4b, 20, 0x11, 0xff, 0xff]),
        ],
    );
    let identification = page(
        upper(0),
        &[
            (128, &[0x19]),
            (129, b"ACME CORP.      "),
            (145, &[0x00, 0x1b, 0x21]),
            (148, b"AC-2X400G-DR4   01"),
            (166, b"ACO77           250102B "),
            (200, &[0xe0, 68, 0, 0x0c]),
        ],
    );
    let advertised = page(upper(1), &[(132, &[5]), (138, &words(&[26220])), (159, &[3, 0x0f])]);
    let thresholds =
        page(upper(2), &[(128, &words(&[80 * 256, 0, 75 * 256, 0])), (184, &words(&[30000, 0, 25000, 0]))]);
    let lanes = page(
        upper(0x11),
        &[
            (135, &[0x80]),
            (147, &[1]),
            (152, &[0x02]),
            (154, &words(&[10000; 8])),
            (170, &words(&[15000; 8])),
            (186, &words(&[0, 10000, 10000, 10000, 10000, 10000, 10000, 5012])),
        ],
    );
    vec![lower, identification, advertised, thresholds, lanes]
}

#[test]
fn an_osfp_with_cmis() {
    let module = read(&osfp()).unwrap();
    assert_eq!((module.form.as_str(), module.specification.as_str()), ("OSFP", "CMIS 5.2"));
    assert_eq!(
        (module.serial_number.as_deref(), module.manufacturing_date.as_deref()),
        (Some("ACO77"), Some("2025-01-02 B"))
    );
    assert_eq!((module.state.as_deref(), module.firmware_version.as_deref()), (Some("ready"), Some("2.7")));
    assert_eq!((module.connector.as_deref(), module.max_power_watts), (Some("MPO 1x12"), Some(17.0)));
    assert_eq!(module.media, ["400GBASE-DR4", "100GBASE-DR"]);
    assert_eq!((&module.reach_meters["single_mode"], module.wavelength_nanometers), (&500.0, Some(1311.0)));
    assert_eq!((module.temperature_celsius, module.voltage_millivolts), (Some(45.5), Some(3301.0)));
    assert_eq!(module.signals.len(), 8);
    assert_eq!((module.signals[7].rx_power_dbm, module.signals[0].bias_milliamperes), (Some(-3.0), Some(60.0)));
    assert_eq!(limits(&module, "bias_milliamperes").high_alarm, 120.0);
    let flags = [
        "module firmware error",
        "temperature low alarm",
        "voltage high alarm",
        "tx fault, lane 8",
        "rx loss of signal, lane 1",
        "rx power low warning, lane 2",
    ];
    assert_eq!(module.raised_flags, flags);
}

#[test]
fn lanes_of_other_banks() {
    let mut pages = osfp();
    pages[2].1[142 - 128] = 1;
    assert_eq!(read(&pages).unwrap().signals.len(), 8);
    let lanes = [(135, &[1][..]), (154, &words(&[10000; 8])), (170, &words(&[5000; 8])), (186, &words(&[10000; 8]))];
    pages.push(page(ModulePage { bank: 1, ..upper(0x11) }, &lanes));
    let module = read(&pages).unwrap();
    let numbers: Vec<_> = module.signals.iter().map(|signal| signal.number).collect();
    assert_eq!(numbers, (1..=16).collect::<Vec<_>>());
    assert_eq!((module.signals[7].bias_milliamperes, module.signals[8].bias_milliamperes), (Some(60.0), Some(20.0)));
    assert!(module.raised_flags.contains(&"tx fault, lane 9".to_owned()), "{:?}", module.raised_flags);
}

#[test]
fn a_copper_cable_with_cmis() {
    let lower = page(LOWER, &[(0, &[0x18, 0x40, 0x80]), (85, &[3, 0x1d, 1, 0x88, 1, 0xff])]);
    let identification = page(upper(0), &[(128, &[0x18]), (202, &[0x05, 0x23]), (212, &[0x0a])]);
    let module = read(&[lower, identification]).unwrap();
    assert_eq!(module.technology.as_deref(), Some("unequalized copper"));
    assert_eq!((module.form.as_str(), module.specification.as_str()), ("QSFP-DD", "CMIS 4.0"));
    assert_eq!(
        (module.media.as_slice(), module.reach_meters["cable"]),
        (&["passive copper cable".to_owned()][..], 0.5)
    );
    assert!(
        module.signals.is_empty()
            && module.temperature_celsius.is_none()
            && module.connector.as_deref() == Some("none")
    );
}

#[test]
fn serial_numbers_are_found_where_they_stand() {
    let osfp = osfp();
    assert_eq!(serial(&osfp[1].1, true).as_deref(), Some("ACO77"));
    assert_eq!((serial(&osfp[0].1, false), serial(&osfp[2].1, true)), (None, None));
    assert_eq!(serial(&sfp(0)[0].1, false).as_deref(), Some("ACS123456"));
}

#[test]
fn what_is_not_a_module() {
    assert_eq!(parse(&Image::new()), None);
    for identifier in [0, 2, 6, 0xff] {
        assert_eq!(parse(&Image::from([page(FIRST, &[(0, &[identifier])])])), None);
    }
}

proptest! {
    #[test]
    fn noise_never_panics(
        identifier in prop::sample::select(vec![3u8, 0x0d, 0x11, 0x18, 0x19]),
        mut bytes in prop::collection::vec(any::<u8>(), 0..700),
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = identifier;
        }
        fuzz(&bytes);
    }
}
