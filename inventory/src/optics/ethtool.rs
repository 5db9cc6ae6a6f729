//! What is read of a module's memory, against what `ethtool -m` reads in the same bytes.

use super::{
    Module,
    tests::{osfp, qsfp, read, sfp},
};
use kernel::ethnl::ModulePage;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

/// Kinds of memory, as linux/ethtool.h numbers them: SFF-8472, and SFF-8636 with CMIS.
const SFP: u8 = 2;
const QSFP: u8 = 3;
const PAGE_BYTES: usize = 128;

/// What `ethtool` shows, by name; `None` without it or a compiler.
fn shown(kind: u8, pages: &[(ModulePage, Vec<u8>)]) -> Option<BTreeMap<String, Vec<String>>> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !testkit::skip::unless("ethtool and gcc", has("ethtool") && has("gcc")) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let (preloaded, memory) = (dir.path().join("module.so"), dir.path().join("memory"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/peer/module.c");
    let compiled = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).args([&preloaded, &source]).status().unwrap();
    assert!(compiled.success());
    // The kernel shows the pages one behind the other, and what an SFP has at its second address behind that of its first.
    let mut bytes = vec![0; PAGE_BYTES * if kind == SFP { 4 } else { 5 }];
    for (page, content) in pages {
        let half = if kind == SFP {
            usize::from(page.device & 1) * 2
        } else {
            usize::from(page.page) + usize::from(page.upper)
        };
        if let Some(place) = bytes.get_mut(half * PAGE_BYTES..(half + 1) * PAGE_BYTES) {
            place.copy_from_slice(content);
        }
    }
    fs::write(&memory, bytes).unwrap();
    let mut ethtool = Command::new("ethtool");
    ethtool
        .args(["-m", "module"])
        .env("LD_PRELOAD", preloaded)
        .env("MODULE", memory)
        .env("MODULE_TYPE", kind.to_string());
    let done = ethtool.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut facts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8(done.stdout).unwrap().lines() {
        if let Some((name, value)) = line.split_once(" : ") {
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ").replace("(Chan ", "(Channel ");
            facts.entry(name.replace("power(", "power (")).or_default().push(value.trim().to_owned());
        }
    }
    Some(facts)
}

/// A module beside what `ethtool` shows of it.
struct Compare {
    module: Module,
    shown: BTreeMap<String, Vec<String>>,
}

impl Compare {
    fn first(&self, name: &str) -> Option<&str> {
        self.shown.get(name).and_then(|values| values.first()).map(String::as_str)
    }

    fn text(&self, name: &str, ours: Option<&str>) {
        assert_eq!(ours, self.first(name), "{name}: {:#?}", self.shown);
    }

    /// The number that the value begins with, or that stands before the unit; without light ours is the least there is.
    fn number(&self, name: &str, unit: &str, ours: Option<f64>) {
        let theirs = self.first(name).map(|value| {
            let number = value.split_once(unit).unwrap_or_else(|| panic!("{name}: {value}")).0;
            let number = number.rsplit([' ', '/']).find(|part| !part.is_empty()).unwrap();
            if number == "-inf" { -40.0 } else { number.parse::<f64>().unwrap() }
        });
        let is_close = match (ours, theirs) {
            (Some(ours), Some(theirs)) => (ours - theirs).abs() < 0.011,
            (ours, theirs) => ours == theirs,
        };
        assert!(is_close, "{name}: {ours:?} and {theirs:?}");
    }

    fn identity(&self) {
        let module = &self.module;
        self.text("Vendor name", module.vendor.as_deref());
        self.text("Vendor OUI", module.vendor_oui.as_deref());
        self.text("Vendor PN", module.part_number.as_deref());
        self.text("Vendor rev", module.revision.as_deref());
        self.text("Vendor SN", module.serial_number.as_deref());
        let date = module.manufacturing_date.as_deref().unwrap().trim_start_matches("20").replace(['-', ' '], "");
        self.text("Date code", Some(&date));
        self.number("Laser wavelength", "nm", module.wavelength_nanometers);
        self.number("Module temperature", " degrees C", module.temperature_celsius);
        self.number("Module voltage", " V", module.voltage_millivolts.map(|millivolts| millivolts / 1000.0));
        let connector = self.first("Connector").unwrap();
        let ours = module.connector.as_deref().unwrap();
        assert!(connector.contains(ours.split(' ').next().unwrap()), "{connector} and {ours}");
        let form = self.first("Identifier").unwrap();
        assert!(form.contains(&format!("({}", module.form)), "{form} and {}", module.form);
        if let (Some(technology), Some(theirs)) = (&module.technology, self.first("Transmitter technology")) {
            assert!(theirs.ends_with(&format!("({technology})")), "{theirs} and {technology}");
        }
    }

    fn limits(&self) {
        let names = [
            ("temperature_celsius", "Module temperature", " degrees C", 1.0),
            ("voltage_millivolts", "Module voltage", " V", 1000.0),
            ("bias_milliamperes", "Laser bias current", " mA", 1.0),
            ("tx_power_dbm", "Laser output power", " dBm", 1.0),
            ("rx_power_dbm", "Laser rx power", " dBm", 1.0),
        ];
        for limits in &self.module.limits {
            let (_, name, unit, factor) = names.iter().find(|(field, ..)| *field == limits.name).unwrap();
            for (level, ours) in [
                ("high alarm", limits.high_alarm),
                ("low alarm", limits.low_alarm),
                ("high warning", limits.high_warning),
                ("low warning", limits.low_warning),
            ] {
                self.number(&format!("{name} {level} threshold"), unit, Some(ours / factor));
            }
        }
    }

    /// Flags that are raised. Those of faults and lost signals are not shown.
    fn flags(&self, tx_power: &str) {
        let is_on = |values: &Vec<String>| values.iter().any(|value| value == "On");
        let levels = |name: &str| name.contains(" alarm") || name.contains(" warning");
        let theirs: BTreeSet<String> = self
            .shown
            .iter()
            .filter(|(name, values)| is_on(values) && levels(name))
            .map(|(name, _)| name.clone())
            .collect();
        let ours = self.module.raised_flags.iter().filter(|flag| levels(flag)).map(|flag| {
            let (name, lane) = flag.split_once(", lane ").unwrap_or((flag, ""));
            let (what, level) = match (name.split_once(" high"), name.split_once(" low")) {
                (Some((what, rest)), _) => (what, format!("high{rest}")),
                (_, Some((what, rest))) => (what, format!("low{rest}")),
                _ => panic!("{name}"),
            };
            let what = match what {
                "temperature" => "Module temperature",
                "voltage" => "Module voltage",
                "bias" => "Laser bias current",
                "tx power" => tx_power,
                "rx power" => "Laser rx power",
                other => panic!("{other}"),
            };
            let lane =
                if lane.is_empty() || self.module.form == "SFP" { String::new() } else { format!(" (Channel {lane})") };
            format!("{what} {level}{lane}")
        });
        assert_eq!(ours.collect::<BTreeSet<_>>(), theirs);
    }
}

fn compare(kind: u8, pages: &[(ModulePage, Vec<u8>)]) -> Option<Compare> {
    Some(Compare { shown: shown(kind, pages)?, module: read(pages).unwrap() })
}

#[test]
fn an_sfp() {
    let Some(compare) = compare(SFP, &sfp(0x68)) else { return };
    compare.identity();
    compare.limits();
    compare.flags("Laser output power");
    let [signal] = compare.module.signals.as_slice() else { panic!() };
    compare.number("Laser bias current", " mA", signal.bias_milliamperes);
    compare.number("Laser output power", " dBm", signal.tx_power_dbm);
    compare.number("Receiver signal average optical power", " dBm", signal.rx_power_dbm);
    compare.number("BR, Nominal", "MBd", compare.module.bit_rate_mbps.map(f64::from));
    compare.number("Length (OM3)", "m", compare.module.reach_meters.get("om3").copied());
    // It takes the reach over OM4, which is in tens of metres, for the length of a copper cable, which is in metres.
    compare.number("Length (Copper)", "m", compare.module.reach_meters.get("om4").map(|meters| meters / 10.0));
}

#[test]
fn a_qsfp() {
    let Some(compare) = compare(QSFP, &qsfp()) else { return };
    compare.identity();
    compare.limits();
    compare.flags("Laser tx power");
    for signal in &compare.module.signals {
        let name = |what: &str| format!("{what} (Channel {})", signal.number);
        compare.number(&name("Laser tx bias current"), " mA", signal.bias_milliamperes);
        compare.number(&name("Transmit avg optical power"), " dBm", signal.tx_power_dbm);
        compare.number(&name("Rcvr signal avg optical power"), " dBm", signal.rx_power_dbm);
    }
    compare.number("Length (OM3 50um)", "m", compare.module.reach_meters.get("om3").copied());
    // As above, in steps of two metres; and the rate's byte is at its end, so that another one has it.
    compare.number(
        "Length (Copper or Active cable)",
        "m",
        compare.module.reach_meters.get("om4").map(|meters| meters / 2.0),
    );
    assert_eq!((compare.module.bit_rate_mbps, compare.first("BR, Nominal")), (Some(25_750), Some("25500Mbps")));
}

#[test]
fn an_osfp() {
    let Some(compare) = compare(QSFP, &osfp()) else { return };
    compare.identity();
    compare.number("Max power", "W", compare.module.max_power_watts);
    compare.number("Length (SMF)", "km", compare.module.reach_meters.get("single_mode").map(|meters| meters / 1000.0));
    let revision = compare.module.specification.replace("CMIS", "Rev.");
    compare.text("Revision compliance", Some(&revision));
    compare.text("Module State", Some("0x03 (ModuleReady)"));
    assert_eq!(compare.module.state.as_deref(), Some("ready"));
    let theirs = |name: &str| compare.first(name) == Some("On");
    let ours = |flag: &str| compare.module.raised_flags.iter().any(|one| one == flag);
    for what in ["temperature", "voltage"] {
        for level in ["high alarm", "low alarm", "high warning", "low warning"] {
            assert_eq!(ours(&format!("{what} {level}")), theirs(&format!("Module {what} {level}")), "{what} {level}");
        }
    }
}
