//! The result for people. Pure.

use crate::{
    result::{Document, Part, State, Verdict},
    words::{clock, faults, measured},
};
use inventory::report::printable;
use kernel::{columns, wrapped};
use std::time::Duration;

/// The page, for so many columns.
pub(crate) fn page(document: &Document, width: usize) -> String {
    let ran = clock(Duration::from_secs_f64(document.elapsed_seconds.max(0.0)));
    let planned = clock(Duration::from_secs_f64(document.planned_seconds.max(0.0)));
    let ended = if document.stopped { ", stopped by a signal" } else { "" };
    let verdict = match document.verdict {
        Verdict::Pass => "PASS: no faults".to_owned(),
        Verdict::Faults => format!("FAULTS: {}", faults(fault_count(document))),
        Verdict::Incomplete => "INCOMPLETE: no faults, but not everything was tested".to_owned(),
    };
    let mut text = format!("{verdict}\nRan {ran} of {planned}{ended}\n\nLoads\n");
    for total in &document.totals {
        let head = format!("  {:<7} {:<16} ", total.kind, printable(&total.name));
        text += &wrapped(&head, &measured(total), 27, width);
    }
    for part in document.parts.iter().filter(|part| part.state != State::Done) {
        text += &wrapped("  ", &printable(&unfinished(part)), 4, width);
    }
    for line in &document.not_tested {
        text += &wrapped("  not tested: ", &printable(line), 4, width);
    }
    if !document.sensors.is_empty() {
        let head = ["  ", "minimum", "average", "maximum", ""].map(str::to_owned);
        let row = |sensor: &crate::result::Sensor| {
            let value = |value: f64| format!("{value:.1}");
            let name = format!("  {}", printable(&sensor.name));
            [name, value(sensor.minimum), value(sensor.average), value(sensor.maximum), sensor.unit.clone()]
        };
        let rows: Vec<_> = std::iter::once(head).chain(document.sensors.iter().map(row)).collect();
        text += &format!("\nSensors\n{}", columns(&rows, &[1, 2, 3], "  "));
    }
    text +=
        &format!("\nError counters: {} watched, {} increased\n", document.watched_counters, document.counters.len());
    if !document.faults.is_empty() {
        text += "\nFaults\n";
    }
    for fault in &document.faults {
        let mut line = format!("{}: {}", fault.part, fault.message);
        line += &fault.lba.map(|lba| format!(", LBA {lba}")).unwrap_or_default();
        line += &fault.physical_address.as_ref().map(|at| format!(", physical address {at}")).unwrap_or_default();
        line += &format!(", found after {}", clock(Duration::from_secs_f64(fault.found_after_seconds.max(0.0))));
        text += &wrapped("  ", &printable(&line), 4, width);
    }
    let undescribed = fault_count(document).saturating_sub(crate::result::wide(document.faults.len()));
    if undescribed > 0 {
        text += &format!("  and {undescribed} more\n");
    }
    text
}

/// Of the loads, and of what watched.
fn fault_count(document: &Document) -> u64 {
    let counters = document.faults.iter().filter(|fault| fault.kind == "counter").count();
    document.parts.iter().map(|part| part.fault_count).sum::<u64>() + crate::result::wide(counters)
}

fn unfinished(part: &Part) -> String {
    let why = part.error.as_deref().unwrap_or(match part.state {
        State::Waiting => "did not begin",
        State::Hung => "did not answer at the end",
        State::Running | State::Failed | State::Done => "did not end",
    });
    format!("{} {}: {why}", part.kind, part.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        result::{Sensor, Total},
        totals::totals,
    };

    #[test]
    fn the_page_begins_with_the_verdict_and_ends_with_the_faults() {
        let mut memory = Part::new("memory", "node 0 share 1");
        memory.state = State::Done;
        memory.set("read_bytes_per_second", 12.5e9);
        memory.fault_count = 40;
        let disk =
            Part { state: State::Failed, error: Some("no \u{1b}[2J medium".to_owned()), ..Part::new("disk", "sda") };
        let mut described = memory.clone();
        let fault = described.fault("walking bits: 1 bits differ, 0x0000000000000004").unwrap();
        fault.physical_address = Some("0x12345678".to_owned());
        fault.found_after_seconds = 61.5;
        let parts = vec![memory, disk];
        let document = Document {
            verdict: Verdict::Faults,
            elapsed_seconds: 75.0,
            planned_seconds: 600.0,
            stopped: true,
            totals: totals(&parts),
            parts,
            sensors: vec![Sensor {
                name: "cpu temp1".to_owned(),
                unit: "celsius".to_owned(),
                minimum: 40.0,
                average: 50.0,
                maximum: 60.5,
                samples: 3,
            }],
            watched_counters: 7,
            faults: described.faults,
            not_tested: vec!["net: no --peer".to_owned()],
            ..Document::default()
        };
        let expected = "\
FAULTS: 40 faults
Ran 1:15 of 10:00, stopped by a signal

Loads
  memory  node 0           read 12.50 GB/s
  disk    sda
  disk sda: no \u{fffd}[2J medium
  not tested: net: no --peer

Sensors
             minimum  average  maximum
  cpu temp1     40.0     50.0     60.5  celsius

Error counters: 7 watched, 0 increased

Faults
  node 0 share 1: walking bits: 1 bits differ, 0x0000000000000004, physical
    address 0x12345678, found after 1:01
  and 39 more
";
        assert_eq!(page(&document, 78), expected);
        let passed =
            page(&Document { verdict: Verdict::Pass, totals: vec![Total::default()], ..Document::default() }, 80);
        assert!(passed.starts_with("PASS: no faults\nRan 0:00 of 0:00\n") && !passed.contains("Faults"), "{passed}");
    }
}
