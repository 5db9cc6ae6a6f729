//! A machine whose management controller has sensors, FRU data and an event log: the report has what `ipmitool` prints of them.

use crate::hardware::{
    facts::{self, Facts},
    machine,
};
use qemu_tests::{
    bmc::{Bmc, BmcConfig, Contents},
    media,
    vm::{Firmware, Vm, with_path},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Number, kind, unit, factor and exponent, thresholds from the lowest bit of a mask on, name.
type SensorRecord = (u8, u8, u8, (u8, i8), [u8; 6], &'static str);
const SENSORS: [SensorRecord; 3] = [
    (1, 1, 1, (1, 0), [5, 3, 0, 85, 95, 110], "CPU Temp"),
    (2, 4, 18, (60, 0), [10, 5, 2, 0, 0, 0], "FAN1"),
    (3, 2, 4, (54, -3), [0, 200, 0, 0, 240, 0], "12V"),
];
/// More events than are reported, with numbers in steps: the last two are a temperature that is too high, and a lost input.
const EVENTS: u16 = 80;
const STEP: u16 = 20;

fn contents() -> Contents {
    let event = |number: u16| {
        let mut event = [0; 16];
        event[..3].copy_from_slice(&[number.to_le_bytes()[0], number.to_le_bytes()[1], 2]);
        event[3..7].copy_from_slice(&(1_767_323_045 + u32::from(number)).to_le_bytes());
        let what = match number / STEP {
            EVENTS => [0x20, 0, 4, 8, 0x51, 0x6f, 0xa3, 1, 2],
            _ => [0x20, 0, 4, 1, 1, 0x01, 0x59, 0x60, 0x5f],
        };
        event[7..].copy_from_slice(&what);
        event
    };
    // The second fan's and the voltage's thresholds in force are only some of the record's.
    let masks = [0x3f, 0x07, 0x12];
    let thresholds = SENSORS.iter().zip(masks).map(|(sensor, mask)| (sensor.0, [&[mask][..], &sensor.4].concat()));
    Contents {
        records: records(),
        readings: BTreeMap::from([
            (1, vec![97, 0xc0, 0x18, 0]),
            (2, vec![70, 0xc0, 0xc0, 0]),
            (3, vec![221, 0xc0, 0xc0, 0]),
        ]),
        thresholds: thresholds.collect(),
        parts: BTreeMap::from([(0, part("BMC")), (1, part("PSU"))]),
        events: (1..=EVENTS).map(|at| event(at * STEP)).collect(),
    }
}

fn named(mut record: Vec<u8>, id: u8, name: &str) -> Vec<u8> {
    record.push(0xc0 | u8::try_from(name.len()).unwrap());
    record.extend(name.bytes());
    (record[0], record[2]) = (id, 0x51);
    record[4] = u8::try_from(record.len() - 5).unwrap();
    record
}

/// The repository: full records of the sensors, and the locator of a power supply's data (IPMI 2.0, 43.1 and 43.8).
fn records() -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for (number, kind, unit, (m, exponent), thresholds, name) in SENSORS {
        let mut record = vec![0; 47];
        record[3..14].copy_from_slice(&[1, 0, 0x20, 0, number, 3, 1, 0x7f, 0x68, kind, 1]);
        (record[18], record[19], record[21], record[24]) = (0x3f, 0x3f, unit, m);
        record[29] = exponent.cast_unsigned() << 4;
        record[36..42].copy_from_slice(&thresholds);
        record[36..42].reverse();
        records.push(named(record, number, name));
    }
    records.push(named(vec![0, 0, 0, 0x11, 0, 0x20, 1, 0x80, 0, 0, 0x10, 0, 10, 1, 0], 9, "PSU1"));
    records
}

fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    bytes.push(sum.wrapping_neg());
    bytes
}

/// The data of a part: a board and a product, whose serial numbers begin so.
fn part(begin: &str) -> Vec<u8> {
    let area = |texts: &[&str], first: &[u8]| {
        let mut area = [&[1, 0, 25], first].concat();
        for text in texts {
            area.push(0xc0 | u8::try_from(text.len()).unwrap());
            area.extend(text.bytes());
        }
        area.push(0xc1);
        area.resize((area.len() + 1).next_multiple_of(8) - 1, 0);
        area[1] = u8::try_from((area.len() + 1) / 8).unwrap();
        with_sum(area)
    };
    let board = area(&["Acme", "Main board", &format!("{begin}-BRD"), "PN-1", ""], &[0xc0, 0x9c, 0xc0]);
    let product = area(&["Acme", "Thing", "PN-2", "A01", &format!("{begin}-SER"), "TAG-1", ""], &[]);
    let at = u8::try_from(1 + board.len() / 8).unwrap();
    let mut part = [with_sum(vec![1, 0, 0, 1, at, 0, 0]), board, product].concat();
    part.resize(1024, 0);
    part
}

/// The columns of `ipmitool sensor`, by the sensor's name.
fn sensors(facts: &mut Facts) -> BTreeMap<String, Vec<String>> {
    let line = |line: &str| -> Option<(String, Vec<String>)> {
        let mut columns = line.split('|').map(|column| column.trim().to_owned());
        Some((columns.next()?, columns.collect()))
    };
    facts.text("ipmitool sensor").lines().filter_map(line).collect()
}

#[test]
fn sensors_parts_and_events_are_those_of_ipmitool() {
    let bmc = Bmc::start(BmcConfig { contents: contents(), ..machine::bmc() }).unwrap();
    let mut vm = Vm::builder("hardware", "ipmi")
        .machine("q35")
        .firmware(Firmware::Bios)
        .kernel(media::hardware_system().unwrap())
        .shell()
        .with("-chardev", with_path("socket,id=bmc,server=on,wait=off,path=", &bmc.socket(), ""))
        .with("-device", "ipmi-bmc-extern,id=bmc0,chardev=bmc")
        .with("-device", "isa-ipmi-kcs,bmc=bmc0,ioport=0xca2")
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.run("for n in 1 2 3 4 5; do [ -e /dev/ipmi0 ] || sleep 1; done");
    let report = facts.report();
    let controller = &report["management_controller"];

    let printed = sensors(&mut facts);
    let found = controller["sensor_readings"].as_array().unwrap();
    assert_eq!(found.len(), SENSORS.len(), "{found:#?}");
    for sensor in found {
        let columns = &printed[sensor["name"].as_str().unwrap()];
        // Reading, unit, state, then thresholds from the lowest on.
        let number = |value: &Value| value.as_f64().map_or("na".to_owned(), |number| format!("{number:.3}"));
        assert_eq!(number(&sensor["reading"]), columns[0], "{sensor} {columns:?}");
        let thresholds = [
            "lower_non_recoverable",
            "lower_critical",
            "lower_non_critical",
            "upper_non_critical",
            "upper_critical",
            "upper_non_recoverable",
        ];
        for (name, column) in thresholds.iter().zip(&columns[3..]) {
            assert_eq!(&number(&sensor[*name]), column, "{name}: {sensor} {columns:?}");
        }
    }
    let states: Vec<_> = found.iter().map(|sensor| sensor["sensor_state"].as_str().unwrap()).collect();
    assert_eq!(states, ["upper non-critical, upper critical", "ok", "ok"]);
    assert_eq!(SENSORS.map(|sensor| printed[sensor.5][2].clone()), ["cr", "ok", "ok"]);

    let frus = controller["frus"].as_array().unwrap();
    for (device, fru) in frus.iter().enumerate() {
        let printed = facts.text(&format!("ipmitool fru print {device}"));
        let has = |name: &str, value: &Value| {
            let value = value.as_str().unwrap();
            let line = |line: &str| line.split_once(':').is_some_and(|(n, v)| n.trim() == name && v.trim() == value);
            assert!(printed.lines().any(line), "{name} {value}: {printed}");
        };
        has("Board Mfg", &fru["board"]["manufacturer"]);
        has("Board Serial", &fru["board"]["serial_number"]);
        has("Board Part Number", &fru["board"]["part_number"]);
        has("Product Name", &fru["product"]["product"]);
        has("Product Serial", &fru["product"]["serial_number"]);
        has("Product Asset Tag", &fru["product"]["asset_tag"]);
        assert!(fru.get("wrong_checksums").is_none(), "{fru}");
    }
    assert_eq!(frus.len(), 2, "{frus:#?}");

    let log = &controller["event_log"];
    assert_eq!(log["entries"], EVENTS);
    let events = log["last_events"].as_array().unwrap();
    let printed = facts.text("ipmitool sel list last 64");
    let printed: Vec<Vec<&str>> = printed.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    assert_eq!((events.len(), printed.len()), (64, 64));
    for (event, columns) in events.iter().zip(&printed) {
        assert_eq!(format!("{:x}", event["number"].as_u64().unwrap()), columns[0]);
        let (date, time) = event["time"].as_str().unwrap().split_once('T').unwrap();
        let [year, month, day] = date.split('-').collect::<Vec<_>>()[..] else { panic!("{date}") };
        assert_eq!(format!("{month}/{day}/{}", &year[2..]), columns[1]);
        assert_eq!(format!("{} UTC", time.trim_end_matches('Z')), columns[2]);
    }
    let last = |back: usize| (events[64 - back]["event"].as_str().unwrap(), printed[64 - back][4]);
    assert_eq!(last(1).0, "input lost");
    assert!(last(1).1.contains("AC lost"), "{}", last(1).1);
    assert_eq!(last(2).0, "upper critical going high");
    assert!(last(2).1.contains("Upper Critical going high"), "{}", last(2).1);
    let info = facts.text("ipmitool mc info");
    let version = controller["firmware_version"].as_str().unwrap();
    assert!(info.lines().any(|line| line.starts_with("Firmware Revision") && line.ends_with(version)), "{info}");
    facts.replays("hardware-ipmi", &["report --json"]);
    facts.all_as_expected();
}

/// QEMU's own controller turns no machine off and on, but resets it.
#[test]
fn a_power_cut_starts_the_machine_anew() {
    let mut vm = Vm::builder("hardware", "power-cut")
        .machine("q35")
        .firmware(Firmware::Bios)
        .kernel(media::hardware_system().unwrap())
        .shell()
        .with("-device", "ipmi-bmc-sim,id=bmc0")
        .with("-device", "isa-ipmi-kcs,bmc=bmc0,ioport=0xca2")
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.run("for n in 1 2 3 4 5; do [ -e /dev/ipmi0 ] || sleep 1; done");
    let step = "LANDFALL_STEP=x-1 LANDFALL_STEP_TYPE=certify LANDFALL_STEP_ACTION=power-cut";
    let said = facts.text(&format!("{step} landfall agent restart --power-cut --after 2"));
    assert_eq!(said.trim(), r#"{"power_cut_in_seconds":2}"#);
    drop(facts);
    // Once for the first start.
    let (first, _) = vm.wait_for_after(0, "shell", facts::LIMIT).unwrap();
    vm.wait_for_after(first + 1, "shell", facts::LIMIT).unwrap();
}
