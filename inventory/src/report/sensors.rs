//! Sensors: temperatures, fans, voltages, power, as the drivers measure them (Documentation/hwmon/sysfs-interface.rst).

use crate::Root;
use kernel::order::{self, Gather};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    str::FromStr,
    time::{Duration, Instant},
};

const CHIPS: &str = "/sys/class/hwmon";
const ZONES: &str = "/sys/class/thermal";
/// A processor of 128 cores has about as many.
const MAX_SENSORS: usize = 512;
/// Trip points of a thermal zone; the kernel's own limit was 12.
const MAX_TRIPS: u32 = 32;
/// Sensors on slow buses, or behind the management controller, take milliseconds each: what is not read by then is left out.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is read of a sensor.
const WANTED: [&str; 13] = [
    "alarm",
    "average",
    "cap",
    "crit",
    "crit_alarm",
    "emergency_alarm",
    "fault",
    "input",
    "label",
    "lcrit_alarm",
    "max",
    "max_alarm",
    "min_alarm",
];
/// Disks are asked by themselves, with a limit for each: reading a sensor of one that hangs would take minutes.
const DISKS: [&str; 2] = ["drivetemp", "nvme"];

/// A chip with sensors (/sys/class/hwmon).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SensorChip {
    /// The driver's name of it: `coretemp`, `k10temp`.
    pub name: String,
    /// The device it belongs to, by the kernel's name on its bus: `0000:00:18.3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Temperatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<Temperature>,
    /// Fans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fans: Vec<Fan>,
    /// Voltages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voltages: Vec<Voltage>,
    /// Electric power.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub powers: Vec<Power>,
}

/// A temperature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Temperature {
    /// The driver's label, else the number of the sensor: `Package id 0`, `temp1`.
    pub name: String,
    /// Measured now, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<f64>,
    /// Where it is too high for permanent use, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_celsius: Option<f64>,
    /// Where the hardware protects itself, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_celsius: Option<f64>,
    /// Whether the chip says that a limit is passed, or the sensor is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<bool>,
}

/// A fan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fan {
    /// The driver's label, else the number of the sensor.
    pub name: String,
    /// Revolutions per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_rpm: Option<u32>,
    /// Whether the chip says that it is too slow or broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<bool>,
}

/// A voltage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Voltage {
    /// The driver's label, else the number of the sensor.
    pub name: String,
    /// Measured now, mV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voltage_millivolts: Option<i64>,
    /// Whether the chip says that a limit is passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<bool>,
}

/// Electric power.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Power {
    /// The driver's label, else the number of the sensor.
    pub name: String,
    /// Measured now or over the last interval, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    /// What it may not exceed, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_watts: Option<f64>,
}

/// A thermal zone (/sys/class/thermal).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThermalZone {
    /// The kernel's name of it: `thermal_zone0`.
    pub name: String,
    /// What it is of: `acpitz`, `x86_pkg_temp`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Measured now, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<f64>,
    /// Where the machine turns itself off, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_celsius: Option<f64>,
}

/// The chips by name and device: their numbers are those of the order the drivers came in.
pub(super) fn chips(root: &Root) -> Vec<SensorChip> {
    let since = Instant::now();
    let mut chips: Vec<SensorChip> = Vec::new();
    for number in root.list(CHIPS) {
        let dir = format!("{CHIPS}/{number}");
        let Some(name) = root.attribute(format!("{dir}/name")).filter(|name| !DISKS.contains(&name.as_str())) else {
            continue;
        };
        if since.elapsed() >= PATIENCE {
            tracing::warn!(
                limit_s = PATIENCE.as_secs(),
                chip = name,
                "sensors are slow: this one and the rest are left out"
            );
            break;
        }
        chips.push(chip(root, &dir, name));
    }
    chips.retain(|chip| {
        !(chip.temperatures.is_empty() && chip.fans.is_empty() && chip.voltages.is_empty() && chip.powers.is_empty())
    });
    order::sort_by(&mut chips, |a, b| (&a.name, &a.device).cmp(&(&b.name, &b.device)));
    chips
}

fn chip(root: &Root, dir: &str, name: String) -> SensorChip {
    let device = root.resolve(format!("{dir}/device"));
    let mut found = SensorChip {
        name,
        device: device.and_then(|path| path.file_name()?.to_str().map(str::to_owned)),
        ..SensorChip::default()
    };
    let mut sensors: Vec<(&str, u32)> = Vec::new();
    let files = root.list(dir);
    for file in &files {
        let Some((sensor, "input" | "average")) = file.split_once('_') else { continue };
        let Some(at) = sensor.find(|c: char| c.is_ascii_digit()) else { continue };
        if let Ok(number) = sensor[at..].parse() {
            sensors.push((&sensor[..at], number));
        }
    }
    order::sort(&mut sensors);
    sensors.dedup();
    sensors.truncate(MAX_SENSORS);
    let is_wanted = |file: &&String| {
        let (sensor, what) = file.split_once('_').unwrap_or((file, ""));
        WANTED.contains(&what) && sensors.iter().any(|(kind, number)| sensor == format!("{kind}{number}"))
    };
    let wanted: Vec<String> = files.iter().filter(is_wanted).cloned().collect();
    let texts: BTreeMap<&str, String> = wanted
        .iter()
        .zip(root.measurements(dir, &wanted))
        .filter_map(|(file, text)| Some((file.as_str(), text.filter(|text| !text.is_empty())?)))
        .gather();
    for (kind, number) in sensors {
        let text = |what: &str| texts.get(format!("{kind}{number}_{what}").as_str()).cloned();
        let label = text("label").unwrap_or_else(|| format!("{kind}{number}"));
        let alarm = |names: &[&str]| names.iter().filter_map(|name| Some(text(name)? != "0")).reduce(|a, b| a || b);
        match kind {
            "temp" => found.temperatures.push(Temperature {
                name: label,
                temperature_celsius: text("input").as_deref().and_then(thousandths),
                max_celsius: text("max").as_deref().and_then(thousandths),
                critical_celsius: text("crit").as_deref().and_then(thousandths),
                alarm: alarm(&["alarm", "max_alarm", "crit_alarm", "emergency_alarm", "fault"]),
            }),
            "fan" => found.fans.push(Fan {
                name: label,
                speed_rpm: number_of(text("input")),
                alarm: alarm(&["alarm", "min_alarm", "max_alarm", "fault"]),
            }),
            "in" => found.voltages.push(Voltage {
                name: label,
                voltage_millivolts: number_of(text("input")),
                alarm: alarm(&["alarm", "min_alarm", "max_alarm", "lcrit_alarm", "crit_alarm"]),
            }),
            "power" => found.powers.push(Power {
                name: label,
                power_watts: text("input").or_else(|| text("average")).as_deref().and_then(millionths),
                cap_watts: text("cap").as_deref().and_then(millionths),
            }),
            _ => {}
        }
    }
    found
}

fn number_of<T: FromStr>(text: Option<String>) -> Option<T> {
    text?.parse().ok()
}

/// m°C to °C.
fn thousandths(text: &str) -> Option<f64> {
    Some(f64::from(text.parse::<i32>().ok()?) / 1000.0)
}

/// µW to W, to a hundredth.
fn millionths(text: &str) -> Option<f64> {
    let hundredths = text.parse::<i64>().ok()? / 10_000;
    Some(f64::from(i32::try_from(hundredths).ok()?) / 100.0)
}

/// The thermal zones, by name.
pub(super) fn zones(root: &Root) -> Vec<ThermalZone> {
    let zone = |name: String| {
        let text = |file: &str| root.attribute(format!("{ZONES}/{name}/{file}"));
        let temperature = root.measurements(&format!("{ZONES}/{name}"), &["temp".to_owned()]).pop().flatten();
        let mut trips = (0..MAX_TRIPS).map_while(|trip| Some((trip, text(&format!("trip_point_{trip}_type"))?)));
        let critical = trips.find(|(_, kind)| kind == "critical");
        ThermalZone {
            kind: text("type"),
            temperature_celsius: temperature.as_deref().and_then(thousandths),
            critical_celsius: critical.and_then(|(trip, _)| thousandths(&text(&format!("trip_point_{trip}_temp"))?)),
            name,
        }
    };
    root.list(ZONES).into_iter().filter(|name| name.starts_with("thermal_zone")).map(zone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn chips_and_their_sensors() {
        let tree = Tree::new(&[]);
        for (file, text) in [
            ("hwmon0/name", "nvme\n"),
            ("hwmon0/temp1_input", "30000\n"),
            ("hwmon1/name", "empty\n"),
            ("hwmon2/name", "coretemp\n"),
            ("hwmon2/temp1_input", "45500\n"),
            ("hwmon2/temp1_label", "Package id 0\n"),
            ("hwmon2/temp1_crit", "100000\n"),
            ("hwmon2/temp1_crit_alarm", "0\n"),
            ("hwmon2/temp10_input", "-1000\n"),
            ("hwmon2/temp2_input", "broken\n"),
            ("hwmon2/temp2_fault", "1\n"),
            ("hwmon3/name", "board\n"),
            ("hwmon3/fan1_input", "4200\n"),
            ("hwmon3/fan1_alarm", "1\n"),
            ("hwmon3/in0_input", "1104\n"),
            ("hwmon3/power1_average", "123456789\n"),
            ("hwmon3/power1_cap", "800000000\n"),
            ("hwmon3/pwm1", "255\n"),
            ("hwmon3/temp_input", "1\n"),
            ("hwmon3/€1_input", "1\n"),
        ] {
            tree.add(&format!("sys/class/hwmon/{file}"), text);
        }
        tree.dir("sys/devices/platform/coretemp.0")
            .link("sys/class/hwmon/hwmon2/device", "../../../devices/platform/coretemp.0");
        let found = chips(&tree.root());
        assert_eq!(found.iter().map(|chip| chip.name.as_str()).collect::<Vec<_>>(), ["board", "coretemp"]);
        let (board, core) = (&found[0], &found[1]);
        assert_eq!(core.device.as_deref(), Some("coretemp.0"));
        let temperatures: Vec<_> =
            core.temperatures.iter().map(|t| (t.name.as_str(), t.temperature_celsius, t.alarm)).collect();
        let expected =
            [("Package id 0", Some(45.5), Some(false)), ("temp2", None, Some(true)), ("temp10", Some(-1.0), None)];
        assert_eq!(temperatures, expected);
        assert_eq!((core.temperatures[0].critical_celsius, core.temperatures[0].max_celsius), (Some(100.0), None));
        assert_eq!((board.fans[0].speed_rpm, board.fans[0].alarm), (Some(4200), Some(true)));
        assert_eq!(board.voltages[0].voltage_millivolts, Some(1104));
        assert_eq!((board.powers[0].power_watts, board.powers[0].cap_watts), (Some(123.45), Some(800.0)));
    }

    #[test]
    fn zones_with_their_critical_point() {
        let tree = Tree::new(&[
            ("sys/class/thermal/thermal_zone0/type", "acpitz\n"),
            ("sys/class/thermal/thermal_zone0/temp", "27800\n"),
            ("sys/class/thermal/thermal_zone0/trip_point_0_type", "passive\n"),
            ("sys/class/thermal/thermal_zone0/trip_point_1_type", "critical\n"),
            ("sys/class/thermal/thermal_zone0/trip_point_1_temp", "105000\n"),
            ("sys/class/thermal/cooling_device0/type", "Processor\n"),
        ]);
        let found = zones(&tree.root());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind.as_deref(), found[0].temperature_celsius), (Some("acpitz"), Some(27.8)));
        assert_eq!(found[0].critical_celsius, Some(105.0));
    }
}
