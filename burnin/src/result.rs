//! What a burn-in found: the document.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Raised when a field changes its name or meaning; new fields leave it.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// Faults of one part that are described; all are counted.
pub(crate) const MAX_FAULTS: usize = 32;

/// The result of a burn-in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document {
    /// Version of this form.
    pub schema_version: u32,
    /// pass, faults, or incomplete: no fault, but not everything was tested for the whole time.
    pub verdict: Verdict,
    /// When it began, seconds since 1970.
    pub started_unix_seconds: u64,
    /// How long it ran.
    pub elapsed_seconds: f64,
    /// How long it was to run.
    pub planned_seconds: f64,
    /// Whether a signal ended it before.
    pub stopped: bool,
    /// The loads, each with what it measured.
    pub parts: Vec<Part>,
    /// Parts that belong together, added up: all CPUs, each NUMA node, each disk, each link.
    pub totals: Vec<Total>,
    /// Sensors while it ran.
    #[serde(default)]
    pub sensors: Vec<Sensor>,
    /// Error counters of the kernel that increased, with by how much.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// How many counters were watched.
    pub watched_counters: u64,
    /// All faults that are described.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What was not tested, and why.
    #[serde(default)]
    pub not_tested: Vec<String>,
}

/// The outcome of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Everything was tested for the whole time, without a fault.
    Pass,
    /// At least one fault was found.
    Faults,
    /// No fault was found, but a test failed to run, or a signal ended it.
    #[default]
    Incomplete,
}

/// One load on one part of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Part {
    /// cpu, memory, disk or net.
    pub kind: String,
    /// The part: `cpu 3`, `node 0 share 1`, `sda`.
    pub name: String,
    /// How far it came.
    pub state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it measured; units stand at the end of the names.
    pub measurements: BTreeMap<String, f64>,
    /// Faults found, described or not.
    pub fault_count: u64,
    /// What is described of them.
    #[serde(skip)]
    pub faults: Vec<Fault>,
}

/// Parts that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Total {
    /// cpu, memory, disk or net.
    pub kind: String,
    /// What they belong to: `all` CPUs, `node 0`, a disk, a link.
    pub name: String,
    /// How many they are.
    pub parts: u32,
    /// Those of them that run.
    #[serde(skip)]
    pub running: u32,
    /// Sums of the parts' measurements; of minima the lowest, of maxima the highest, of averages the mean.
    pub measurements: BTreeMap<String, f64>,
    /// Faults of all of them.
    pub fault_count: u64,
}

/// How far a load came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It was not begun.
    #[default]
    Waiting,
    /// It takes what it needs, or works.
    Running,
    /// It worked until the end.
    Done,
    /// It could not work.
    Failed,
    /// It did not answer at the end.
    Hung,
}

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fault {
    /// cpu, memory, disk, net, or counter: an error counter of the kernel.
    pub kind: String,
    /// The part, or the counter.
    pub part: String,
    /// What was seen, and what was expected.
    pub message: String,
    /// When it was noticed, seconds after the burn-in began. Counters are looked at every 10 seconds.
    #[serde(default)]
    pub found_after_seconds: f64,
    /// Of a disk: the first logical block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lba: Option<u64>,
    /// Of memory: the physical address, hexadecimal; needs root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_address: Option<String>,
    /// Of memory: the bits that differ, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<String>,
}

/// A sensor while it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Sensor {
    /// The chip and its sensor.
    pub name: String,
    /// celsius, rpm, volts or watts.
    pub unit: String,
    /// The lowest value.
    pub minimum: f64,
    /// The mean of all samples.
    pub average: f64,
    /// The highest value.
    pub maximum: f64,
    /// Samples.
    pub samples: u32,
}

impl Part {
    pub(crate) fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), name: name.into(), ..Self::default() }
    }

    /// Counts a fault, and describes it if it is among the first.
    pub(crate) fn fault(&mut self, message: impl Into<String>) -> Option<&mut Fault> {
        self.fault_count += 1;
        if self.faults.len() >= MAX_FAULTS {
            return None;
        }
        self.faults.push(Fault {
            kind: self.kind.clone(),
            part: self.name.clone(),
            message: message.into(),
            ..Fault::default()
        });
        self.faults.last_mut()
    }

    /// The same for a place on a disk. One that was described is only counted when it comes again, as in each pass.
    pub(crate) fn fault_at(&mut self, lba: u64, message: String) {
        if self.faults.iter().any(|fault| fault.lba == Some(lba) && fault.message == message) {
            self.fault_count += 1;
        } else if let Some(fault) = self.fault(message) {
            fault.lba = Some(lba);
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.measurements.insert(name.to_owned(), value);
    }

    pub(crate) fn add(&mut self, name: &str, value: f64) {
        *self.measurements.entry(name.to_owned()).or_default() += value;
    }

    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.measurements.get(name).copied()
    }

    /// Takes the lowest, the mean and the highest of what a gauge saw.
    pub(crate) fn set_gauge(&mut self, name: &str, unit: &str, gauge: &Gauge) {
        if gauge.samples > 0 {
            self.set(&format!("{name}_minimum_{unit}"), gauge.minimum);
            self.set(&format!("{name}_average_{unit}"), gauge.average());
            self.set(&format!("{name}_maximum_{unit}"), gauge.maximum);
        }
    }
}

/// A value over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Gauge {
    pub minimum: f64,
    pub maximum: f64,
    sum: f64,
    pub samples: u32,
}

impl Gauge {
    pub(crate) fn add(&mut self, value: f64) {
        let is_first = self.samples == 0;
        self.minimum = if is_first { value } else { self.minimum.min(value) };
        self.maximum = if is_first { value } else { self.maximum.max(value) };
        self.sum += value;
        self.samples = self.samples.saturating_add(1);
    }

    pub(crate) fn average(&self) -> f64 {
        self.sum / f64::from(self.samples.max(1))
    }
}

/// A count as a measurement. Exact up to 2^53.
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// Of a length or a place in memory.
pub(crate) fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_beyond_those_that_are_described() {
        let mut part = Part::new("memory", "node 0 share 1");
        for _ in 0..100 {
            part.fault("wrong");
        }
        assert_eq!((part.fault_count, part.faults.len()), (100, MAX_FAULTS));
    }

    #[test]
    fn a_bad_sector_is_described_once() {
        let mut part = Part::new("disk", "sda");
        for (lba, message) in [(5, "wrong"), (6, "wrong"), (5, "wrong"), (5, "unreadable")] {
            part.fault_at(lba, message.to_owned());
        }
        let shown: Vec<_> = part.faults.iter().map(|fault| (fault.lba, fault.message.as_str())).collect();
        assert_eq!(shown, [(Some(5), "wrong"), (Some(6), "wrong"), (Some(5), "unreadable")]);
        assert_eq!(part.fault_count, 4);
    }

    #[test]
    fn a_gauge_holds_the_extremes_and_the_mean() {
        let mut gauge = Gauge::default();
        [-4.0, 2.0, 8.0].into_iter().for_each(|value| gauge.add(value));
        assert_eq!((gauge.minimum, gauge.average(), gauge.maximum), (-4.0, 2.0, 8.0));
        assert_eq!(Gauge::default().average(), 0.0);
    }

    #[test]
    fn the_checked_in_schema_is_the_current_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/burnin.schema.json");
        let mut now = schemars::schema_for!(Document).to_value();
        now.sort_all_objects();
        let now = serde_json::to_string_pretty(&now).unwrap() + "\n";
        if std::env::var_os("LANDFALL_WRITE_SCHEMA").is_some() {
            std::fs::write(file, &now).unwrap();
        }
        let checked_in = std::fs::read_to_string(file).unwrap_or_default();
        let how = "LANDFALL_WRITE_SCHEMA=1 cargo test -p burnin the_checked_in_schema";
        assert!(checked_in == now, "{file} does not match the types; to regenerate it: {how}");
    }
}
