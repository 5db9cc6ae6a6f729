//! What is read of a disk's logs and of an enclosure's pages, against what `sg_logs` and `sg_ses` read in the same bytes.

use crate::{
    scsi::{self, ScsiLog},
    ses,
};
use std::{collections::BTreeMap, fmt::Write, process::Command};

/// What a program of sg3-utils prints of pages in a file; `None` without it.
fn printed(program: &str, pages: &[Vec<u8>], arguments: &[&str]) -> Option<String> {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !testkit::skip::unless("sg3-utils", is_there) {
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut text = String::new();
    for page in pages {
        page.iter().for_each(|byte| write!(text, "{byte:02x} ").unwrap());
        text.push('\n');
    }
    std::fs::write(file.path(), text).unwrap();
    let option = if program == "sg_ses" { "--inhex" } else { "--in" };
    let done = Command::new(program).arg(format!("{option}={}", file.path().display())).args(arguments).output();
    let done = done.unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{program}: {}{text}", String::from_utf8_lossy(&done.stderr));
    Some(text)
}

/// What follows each of these words on its line, up to the next blank or comma.
fn after<'a>(text: &'a str, words: &str) -> Vec<&'a str> {
    let value = |line: &'a str| {
        let value = line.split_once(words)?.1.trim_start_matches([' ', '=', ':']);
        value.split([' ', ',']).next()
    };
    text.lines().filter_map(value).collect()
}

/// The first such number.
fn number(text: &str, words: &str) -> Option<u64> {
    after(text, words).first().map(|value| value.parse().unwrap_or_else(|_| panic!("{words}: {text}")))
}

#[test]
fn a_disks_logs_are_those_of_sg_logs() {
    for page in scsi::tests::pages() {
        let Some(text) = printed("sg_logs", std::slice::from_ref(&page), &[]) else { return };
        let mut log = ScsiLog::default();
        log.read(&page);
        let same = |ours: Option<u64>, words: &str| assert_eq!(ours, number(&text, words), "{words}: {text}");
        let errors = |ours: [Option<u64>; 3]| {
            let words = ["Total errors corrected", "Total uncorrected errors", "Total bytes processed"];
            ours.into_iter().zip(words).for_each(|(ours, words)| same(ours, words));
        };
        match page[0] {
            0x02 => errors([log.write_corrected_errors, log.write_uncorrected_errors, log.written_bytes]),
            0x03 => errors([log.read_corrected_errors, log.read_uncorrected_errors, log.read_bytes]),
            0x05 => errors([log.verify_corrected_errors, log.verify_uncorrected_errors, None]),
            0x06 => same(log.non_medium_errors, "Non-medium error count"),
            0x0d => {
                same(log.temperature_celsius.map(u64::from), "Current temperature");
                same(log.reference_temperature_celsius.map(u64::from), "Reference temperature");
            }
            0x0e => {
                let date = log.manufactured.as_deref().unwrap().replace("-W", ", week: ");
                assert!(text.contains(&format!("Date of manufacture, year: {date}")), "{text}");
                same(log.specified_start_stop_cycles, "Specified cycle count over device lifetime");
                same(log.start_stop_cycles, "Accumulated start-stop cycles");
                same(log.specified_load_cycles, "Specified load-unload count over device lifetime");
                same(log.load_cycles, "Accumulated load-unload cycles");
            }
            0x10 => {
                let results = after(&text, "self-test result:");
                assert_eq!((log.last_self_test.as_deref(), log.failed_self_tests), (Some("passed"), Some(1)));
                assert_eq!(results.len(), 2, "{text}");
            }
            0x11 => same(log.used_percent.map(u64::from), "Percentage used endurance indicator"),
            0x15 => {
                same(log.power_on_hours.map(|hours| hours * 60), "Accumulated power on minutes");
                let found = u64::try_from(text.matches("Medium scan parameter #").count()).unwrap();
                assert_eq!(log.background_scan_errors, Some(found), "{text}");
            }
            0x18 => links(&log, &text),
            0x2f => {
                let code = [after(&text, "IE asc = 0x"), after(&text, "ascq = 0x")].concat().join("");
                assert_eq!(log.warning_code, Some(code), "{text}");
                assert_eq!(log.is_failing, Some(text.contains("impending failure")), "{text}");
                same(log.temperature_celsius.map(u64::from), "Current temperature");
            }
            code => panic!("{code:02x}: what of it is compared"),
        }
    }
}

fn links(log: &ScsiLog, text: &str) {
    let numbers = |words: &str| -> Vec<u32> {
        after(text, words).iter().map(|value| value.parse().unwrap_or_else(|_| panic!("{text}"))).collect()
    };
    let ours = |fact: fn(&scsi::ScsiPhy) -> u32| log.phys.iter().map(fact).collect::<Vec<_>>();
    assert_eq!(ours(|phy| phy.port.into()), numbers("relative target port id"));
    assert_eq!(ours(|phy| phy.id.into()).as_slice(), numbers("  phy identifier").as_slice());
    assert_eq!(ours(|phy| phy.invalid_dwords), numbers("Invalid DWORD count"));
    assert_eq!(ours(|phy| phy.disparity_errors), numbers("Running disparity error count"));
    assert_eq!(ours(|phy| phy.sync_losses), numbers("Loss of DWORD synchronization count"));
    assert_eq!(ours(|phy| phy.reset_problems), numbers("Phy reset problem count"));
    let rates: Vec<_> =
        after(text, "negotiated logical link rate:").into_iter().map(|rate| rate.parse().ok()).collect();
    assert_eq!(log.phys.iter().map(|phy| phy.speed_mbps.map(|rate| rate / 1000)).collect::<Vec<_>>(), rates);
}

/// The elements of an enclosure by their name, as `sg_ses` prints each.
fn elements(text: &str) -> BTreeMap<String, String> {
    let mut elements: BTreeMap<String, String> = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        // Such as "Fan A [1,0]  Element type: Cooling".
        if let Some((title, _)) = line.split_once("  Element type:") {
            name = title.rsplit_once(" [").map(|(name, _)| name.to_owned());
        } else if let Some(name) = &name {
            let element = elements.entry(name.clone()).or_default();
            element.push_str(line);
            element.push('\n');
        }
    }
    elements
}

#[test]
fn an_enclosure_is_that_of_sg_ses() {
    let pages = ses::tests::all_kinds();
    let Some(text) = printed("sg_ses", &pages, &["--status", "--join"]) else { return };
    let [a, b, c, d] = &pages;
    let found = ses::content([a, b, c, d]).unwrap();
    let printed = elements(&text);
    let wwn = after(&text, "Primary enclosure logical identifier (hex)");
    assert_eq!(found.wwn, Some(format!("0x{}", wwn[0])));
    let state = |element: &str| {
        after(element, "status:").first().map(|_| {
            element
                .lines()
                .find_map(|line| line.split_once("status: "))
                .unwrap()
                .1
                .to_lowercase()
                .replace("non-critical", "noncritical")
        })
    };
    let is_set = |element: &str, flag: &str| element.split([',', '\n']).any(|one| one.trim() == format!("{flag}=1"));
    for bay in &found.bays {
        let element = &printed[bay.name.as_deref().unwrap()];
        assert_eq!(bay.state, state(element), "{element}");
        let faults = ["Fault sensed", "Fault reqstd"];
        assert_eq!(bay.is_faulty, faults.iter().any(|flag| is_set(element, flag)), "{element}");
        assert_eq!(bay.is_lit, Some(is_set(element, "Ident")), "{element}");
        assert_eq!(Some(u64::from(bay.number)), number(element, "device slot number:"), "{element}");
        let address = element.lines().find_map(|line| line.trim().strip_prefix("SAS address: "));
        assert_eq!(bay.wwn.as_deref(), address, "{element}");
    }
    for part in &found.parts {
        let element = &printed[part.name.as_deref().unwrap()];
        assert_eq!(part.state, state(element), "{element}");
        assert_eq!(part.is_failing, is_set(element, "Predicted failure"), "{element}");
        assert_eq!(part.speed_rpm.map(u64::from), number(element, "Actual speed="), "{element}");
        let celsius = after(element, "Temperature=").first().map(|celsius| celsius.parse().unwrap());
        assert_eq!(part.temperature_celsius, celsius, "{element}");
        let thousandth = |words: &str| {
            let value = after(element, words).first().map(|value| value.parse::<f64>().unwrap());
            value.map(|value| format!("{:.0}", value * 1000.0))
        };
        assert_eq!(part.voltage_millivolts.map(|one| one.to_string()), thousandth("Voltage:"), "{element}");
        assert_eq!(part.current_milliamperes.map(|one| one.to_string()), thousandth("Current:"), "{element}");
        let all = ses::PROBLEMS.iter().filter(|(kind, ..)| *kind == part.kind);
        let set: Vec<_> =
            all.map(|(.., name)| *name).filter(|name| is_set(element, theirs(&part.kind, name))).collect();
        assert_eq!(part.problems, set, "{element}");
    }
    assert_eq!((found.bays.len(), found.parts.len()), (2, 9));
}

/// What `sg_ses` calls a problem of a part of that kind.
fn theirs(kind: &str, problem: &str) -> &'static str {
    match (problem, kind == "temperature") {
        ("failed", _) => "Fail",
        ("no input", _) => "AC fail",
        ("input too low", _) => "AC low",
        ("input too high", _) => "AC high",
        ("no output", _) => "DC fail",
        ("too hot", _) => "Overtmp fail",
        ("warm", _) => "Temperature warn",
        ("voltage too high", _) => "DC overvoltage",
        ("voltage too low", _) => "DC undervoltage",
        ("current too high", _) => "DC overcurrent",
        ("critically high", true) => "OT failure",
        ("high", true) => "OT warning",
        ("critically low", true) => "UT failure",
        ("low", true) => "UT warning",
        ("critically high", false) => "Crit Over",
        ("high", false) => "Warn Over",
        ("critically low", false) => "Crit Under",
        ("low", false) => "Warn Under",
        _ => panic!("{problem}: its name in sg_ses"),
    }
}
