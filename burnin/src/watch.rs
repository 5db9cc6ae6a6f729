//! What the machine says of itself meanwhile: sensors, power, and the kernel's counters of errors.

mod log;

use crate::{
    facts,
    result::{Fault, Gauge, MAX_FAULTS, Sensor, number},
};
use inventory::{
    Root,
    report::watch::{Quantity, counted_errors, readings},
};
use log::Log;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Between two looks at the counters: a large machine has thousands.
const COUNTING: Duration = Duration::from_secs(10);
const CPUS: &str = "/sys/devices/system/cpu";
const POWER: &str = "/sys/class/powercap";
const NET: &str = "/sys/class/net";
const INTERRUPTS: &str = "/proc/interrupts";
/// A line of a machine with thousands of CPUs has a number for each.
const MAX_INTERRUPTS_BYTES: usize = 32 << 20;
/// Interrupts that only errors cause: machine checks, thresholds of corrected errors, deferred errors (x86).
const ERROR_INTERRUPTS: [(&str, &str); 3] =
    [("MCE:", "machine checks"), ("THR:", "corrected error thresholds"), ("DFR:", "deferred errors")];
/// Of a network card: errors of the link, not packets that the host was too slow for.
const LINK_ERRORS: [&str; 3] = ["rx_errors", "rx_crc_errors", "tx_errors"];

/// Watches from its making on.
pub(crate) struct Watch {
    root: Arc<Root>,
    begin: Option<Instant>,
    before: BTreeMap<String, u64>,
    /// The counters when they were last read, and when that was.
    counted: BTreeMap<String, u64>,
    counted_at: Option<Instant>,
    /// When each counter was first seen to have increased, seconds after the begin.
    increased: BTreeMap<String, f64>,
    gauges: BTreeMap<(String, &'static str), Gauge>,
    /// The energy counters, and when they were read.
    energy: Option<(Instant, BTreeMap<String, Energy>)>,
    /// Sensors that had an alarm from the start, or whose alarm is known.
    alarms: Option<BTreeSet<String>>,
    /// Alarms and lines of the kernel's log.
    faults: Vec<Fault>,
    log: Option<Log>,
}

/// An energy counter of the processor.
#[derive(Clone, Copy, Debug)]
struct Energy {
    microjoules: u64,
    /// It starts again from 0 beyond this.
    range: u64,
}

impl Watch {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let before = counters(&root);
        Self {
            begin: None,
            counted: before.clone(),
            before,
            counted_at: None,
            increased: BTreeMap::new(),
            log: root.is_live().then(Log::open).flatten(),
            gauges: BTreeMap::new(),
            energy: None,
            alarms: None,
            faults: Vec::new(),
            root,
        }
    }

    /// Memory that can still be had, bytes.
    pub(crate) fn available_bytes(&self) -> u64 {
        facts::available_bytes(&self.root)
    }

    /// Reads all sensors and the kernel's log, and now and then the counters.
    pub(crate) fn sample(&mut self, now: Instant) {
        let after = self.seconds_after_begin(now);
        let mut alarming = BTreeSet::new();
        for reading in readings(&self.root) {
            let unit = match reading.quantity {
                Quantity::Celsius => "celsius",
                Quantity::Rpm => "rpm",
                Quantity::Volts => "volts",
                Quantity::Watts => "watts",
            };
            if reading.has_alarm {
                alarming.insert(reading.name.clone());
            }
            self.gauges.entry((reading.name, unit)).or_default().add(reading.value);
        }
        // An alarm of a sensor that nothing is connected to lasts for ever.
        let known = self.alarms.get_or_insert_with(|| alarming.clone());
        let new: Vec<_> = alarming.into_iter().filter(|name| known.insert(name.clone())).collect();
        for name in new {
            self.add_fault(counter_fault(&name, "the sensor reports an alarm".to_owned(), after));
        }
        for line in self.log.as_mut().map(Log::signs).unwrap_or_default() {
            self.add_fault(counter_fault("kernel log", line, after));
        }
        self.sample_power(now);
        if self.counted_at.is_none_or(|since| now.duration_since(since) >= COUNTING) {
            self.count(now);
        }
    }

    /// Reads all counters.
    pub(crate) fn count(&mut self, now: Instant) {
        let after = self.seconds_after_begin(now);
        (self.counted, self.counted_at) = (counters(&self.root), Some(now));
        for name in self.increases().into_keys() {
            self.increased.entry(name).or_insert(after);
        }
    }

    fn seconds_after_begin(&mut self, now: Instant) -> f64 {
        now.duration_since(*self.begin.get_or_insert(now)).as_secs_f64()
    }

    fn add_fault(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The counters that have increased, with by how much. One that came later, such as a driver's, counted from 0.
    fn increases(&self) -> BTreeMap<String, u64> {
        let more = |(name, count): (&String, &u64)| {
            let more = count.saturating_sub(self.before.get(name).copied().unwrap_or(0));
            (more > 0).then(|| (name.clone(), more))
        };
        self.counted.iter().filter_map(more).collect()
    }

    fn sample_power(&mut self, now: Instant) {
        let counters = energy(&self.root);
        if let Some((since, before)) = &self.energy {
            let seconds = now.duration_since(*since).as_secs_f64();
            for (name, counter) in counters.iter().filter(|_| seconds > 0.0) {
                let Some(before) = before.get(name) else { continue };
                let used = counter.microjoules.checked_sub(before.microjoules);
                let used = used.unwrap_or_else(|| {
                    counter.range.saturating_sub(before.microjoules).saturating_add(counter.microjoules)
                });
                self.gauges.entry((name.clone(), "watts")).or_default().add(number(used) / 1e6 / seconds);
            }
        }
        self.energy = Some((now, counters));
    }

    /// The sensors, the counters that increased, and how many were watched.
    pub(crate) fn findings(&self) -> (Vec<Sensor>, BTreeMap<String, u64>, u64) {
        let sensor = |((name, unit), gauge): (&(String, &'static str), &Gauge)| Sensor {
            name: name.clone(),
            unit: (*unit).to_owned(),
            minimum: gauge.minimum,
            average: gauge.average(),
            maximum: gauge.maximum,
            samples: gauge.samples,
        };
        let sensors = self.gauges.iter().map(sensor).collect();
        (sensors, self.increases(), crate::result::wide(self.counted.len()))
    }

    /// Faults that the counters, the sensors and the kernel's log have shown so far.
    pub(crate) fn fault_count(&self) -> usize {
        self.increased.len() + self.faults.len()
    }

    /// These faults.
    pub(crate) fn take_faults(&mut self) -> Vec<Fault> {
        let counted = self.increases().into_iter().map(|(name, count)| {
            let after = self.increased.get(&name).copied().unwrap_or_default();
            counter_fault(&name, format!("counted {count} more"), after)
        });
        let counted = counted.take(MAX_FAULTS).collect::<Vec<_>>();
        std::mem::take(&mut self.faults).into_iter().chain(counted).collect()
    }
}

fn counter_fault(part: &str, message: String, found_after_seconds: f64) -> Fault {
    Fault { kind: "counter".to_owned(), part: part.to_owned(), message, found_after_seconds, ..Fault::default() }
}

/// All counters that should not move, by name.
fn counters(root: &Root) -> BTreeMap<String, u64> {
    let mut found = counted_errors(root);
    for cpu in root.list(CPUS).iter().filter(|name| is_numbered(name, "cpu")) {
        let dir = format!("{CPUS}/{cpu}");
        let count = |file: &str| root.number::<u64>(format!("{dir}/thermal_throttle/{file}_throttle_count"));
        if let Some(count) = count("core") {
            found.insert(format!("throttling {cpu}"), count);
        }
        // All CPUs of a package have its counter.
        let package: Option<u64> = root.number(format!("{dir}/topology/physical_package_id"));
        if let (Some(package), Some(count)) = (package, count("package")) {
            let known = found.entry(format!("throttling package {package}")).or_default();
            *known = count.max(*known);
        }
    }
    let interrupts = root.text(INTERRUPTS, MAX_INTERRUPTS_BYTES).unwrap_or_default();
    for line in interrupts.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some((_, name)) = ERROR_INTERRUPTS.iter().find(|(sign, _)| *sign == first) {
            let counts = words.map_while(|word| word.parse::<u64>().ok());
            found.insert((*name).to_owned(), counts.fold(0, u64::saturating_add));
        }
    }
    for interface in root.list(NET).iter().filter(|name| root.exists(format!("{NET}/{name}/device"))) {
        for file in LINK_ERRORS {
            if let Some(count) = root.number(format!("{NET}/{interface}/statistics/{file}")) {
                found.insert(format!("link {interface} {file}"), count);
            }
        }
    }
    found
}

/// The processors' own counters (Documentation/power/powercap/powercap.rst).
fn energy(root: &Root) -> BTreeMap<String, Energy> {
    let zone = |zone: String| {
        let dir = format!("{POWER}/{zone}");
        let name = root.attribute(format!("{dir}/name"))?;
        let microjoules = root.number(format!("{dir}/energy_uj"))?;
        let range = root.number(format!("{dir}/max_energy_range_uj")).unwrap_or(u64::MAX);
        Some((format!("{zone} {name}"), Energy { microjoules, range }))
    };
    root.list(POWER).into_iter().filter(|name| name.starts_with("intel-rapl:")).filter_map(zone).collect()
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use testkit::tree::Tree;

    fn machine() -> Tree {
        Tree::new(&[
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "5\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "7\n"),
            ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "7\n"),
            ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
            ("sys/devices/system/cpu/cpufreq/x", "\n"),
            ("sys/devices/system/edac/mc/mc0/ce_count", "1\n"),
            ("proc/interrupts", "  CPU0 CPU1\n  0: 5 5 timer\nMCE: 1 2 Machine check exceptions\nMCP: 9 9 polls\n"),
            ("sys/class/net/eth1/device/x", ""),
            ("sys/class/net/eth1/statistics/rx_crc_errors", "0\n"),
            ("sys/class/net/veth0/statistics/rx_errors", "0\n"),
        ])
    }

    fn watch(tree: &Tree) -> Watch {
        Watch::new(Arc::new(Root::open(tree.path()).unwrap()))
    }

    #[test]
    fn counters_that_increase_are_faults() {
        let tree = machine();
        let mut watch = watch(&tree);
        let start = Instant::now();
        watch.sample(start);
        let (_, increased, watched) = watch.findings();
        assert_eq!((increased.len(), watched), (0, 5), "{:?}", watch.before);
        tree.add("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "9\n");
        watch.sample(start + Duration::from_secs(10));
        tree.add("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "8\n");
        tree.add("sys/devices/system/edac/mc/mc0/ce_count", "3\n");
        tree.add("proc/interrupts", "MCE: 1 3 Machine check exceptions\n");
        tree.add("sys/class/net/eth1/statistics/rx_crc_errors", "2\n");
        tree.add("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "10\n");
        watch.sample(start + Duration::from_secs(12));
        assert_eq!(watch.fault_count(), 1, "counters are not read at every sample");
        watch.sample(start + Duration::from_secs(20));
        let (_, increased, _) = watch.findings();
        let expected = [
            ("link eth1 rx_crc_errors", 2),
            ("machine checks", 1),
            ("memory mc0 corrected", 2),
            ("throttling cpu0", 5),
            ("throttling package 0", 1),
        ];
        assert_eq!(increased, expected.map(|(name, count)| (name.to_owned(), count)).into());
        let faults = watch.take_faults();
        let times: Vec<_> = faults.iter().map(|fault| fault.found_after_seconds).collect();
        assert_eq!(times, [20.0, 20.0, 20.0, 10.0, 20.0]);
        assert_eq!((faults[3].part.as_str(), faults[3].message.as_str()), ("throttling cpu0", "counted 5 more"));
    }

    #[test]
    fn sensors_have_their_lowest_mean_and_highest() {
        let tree = Tree::new(&[
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", "40000\n"),
            ("sys/class/hwmon/hwmon0/temp1_crit_alarm", "0\n"),
            ("sys/class/hwmon/hwmon0/in0_input", "1000\n"),
            ("sys/class/hwmon/hwmon0/in0_alarm", "1\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "900000000\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000000000\n"),
        ]);
        let mut watch = watch(&tree);
        let start = Instant::now();
        watch.sample(start);
        tree.add("sys/class/hwmon/hwmon0/temp1_input", "60000\n");
        tree.add("sys/class/hwmon/hwmon0/temp1_crit_alarm", "1\n");
        // It went past its range.
        tree.add("sys/class/powercap/intel-rapl:0/energy_uj", "100000000\n");
        watch.sample(start + Duration::from_secs(2));
        let (sensors, _, _) = watch.findings();
        let shown: Vec<_> =
            sensors.iter().map(|s| (s.name.as_str(), s.unit.as_str(), s.minimum, s.average, s.maximum)).collect();
        let expected = [
            ("coretemp in0", "volts", 1.0, 1.0, 1.0),
            ("coretemp temp1", "celsius", 40.0, 50.0, 60.0),
            ("intel-rapl:0 package-0", "watts", 100.0, 100.0, 100.0),
        ];
        assert_eq!(shown, expected);
        // Only the alarm that came meanwhile.
        let faults = watch.take_faults();
        let shown: Vec<_> = faults.iter().map(|fault| (fault.part.as_str(), fault.found_after_seconds)).collect();
        assert_eq!(shown, [("coretemp temp1", 2.0)]);
    }
}
