//! Sensors of a management controller and its parts: sensor data records (IPMI 2.0, 43), and what the sensors read (35.14, 36).
//! Pure but for the asking; the bytes are hostile.

use super::{
    Controller,
    text::{self, Kind},
    words::{self, THRESHOLD, THRESHOLDS},
};
use serde::{Deserialize, Serialize};

const SENSOR_EVENT: u8 = 0x04;
const GET_FACTORS: u8 = 0x23;
const GET_THRESHOLDS: u8 = 0x27;
const GET_READING: u8 = 0x2d;

/// Types of records.
const FULL: u8 = 0x01;
const COMPACT: u8 = 0x02;
const EVENT_ONLY: u8 = 0x03;
const PART: u8 = 0x11;
const CONTROLLER: u8 = 0x12;
/// Id, version, type and length.
const HEADER_BYTES: usize = 5;
/// The controller itself, among owners of sensors.
const ITSELF: u8 = 0x20;
/// The linearization of sensors whose factors must be asked for with each raw value.
const BY_VALUE: u8 = 0x70;
/// A machine of eight sockets has some hundreds.
const MAX_SENSORS: usize = 1024;
const MAX_PARTS: usize = 64;

/// A sensor of the management controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sensor {
    /// The maker's name of it.
    pub name: String,
    /// Its number, of its owner.
    pub number: u8,
    /// What it measures or watches: temperature, fan, power supply.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it belongs to: `processor 1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// Measured now, in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<f64>,
    /// Unit of the reading and the thresholds: °C, rpm, V, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Thresholds that are passed, or states that are set, with commas; `ok` for none, `unavailable` if it does not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor_state: Option<String>,
    /// Lower non-recoverable threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_non_recoverable: Option<f64>,
    /// Lower critical threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_critical: Option<f64>,
    /// Lower non-critical threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_non_critical: Option<f64>,
    /// Upper non-critical threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_non_critical: Option<f64>,
    /// Upper critical threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_critical: Option<f64>,
    /// Upper non-recoverable threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_non_recoverable: Option<f64>,
}

/// Another management controller that this one knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Satellite {
    /// The maker's name of it.
    pub name: String,
    /// Its channel.
    pub channel: u8,
    /// Its address on that channel's bus, with the lowest bit as on the wire.
    pub slave_address: u8,
    /// What it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
}

/// A part whose data the controller stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartLocator {
    pub(super) device: u8,
    pub(super) name: Option<String>,
    pub(super) entity: Option<String>,
}

/// What the records say.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) sensors: Vec<Described>,
    pub(super) satellites: Vec<Satellite>,
    pub(super) parts: Vec<PartLocator>,
}

/// A sensor as its record describes it.
#[derive(Clone, Debug)]
pub(super) struct Described {
    owner: u8,
    /// Channel and logical unit.
    way: u8,
    event_type: u8,
    kind: u8,
    /// Whether it has a state that can be asked for; else it only raises events.
    reads: bool,
    /// Thresholds that can be read, from the lowest bit on.
    readable: u8,
    /// The raw values that the record has for them.
    thresholds: [u8; 6],
    formula: Option<Formula>,
    sensor: Sensor,
}

/// How a raw value becomes one with a unit (36.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Formula {
    /// 0 unsigned, 1 one's complement, 2 two's complement.
    format: u8,
    linearization: u8,
    m: i16,
    b: i16,
    b_exponent: i32,
    result_exponent: i32,
}

impl Records {
    /// Takes the records apart, up to one that is cut.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let (mut found, mut rest) = (Self::default(), bytes);
        while let Some(record) = rest.get(4).and_then(|len| rest.get(..HEADER_BYTES + usize::from(*len)))
            && found.sensors.len() < MAX_SENSORS
            && found.parts.len() < MAX_PARTS
            && found.satellites.len() < MAX_PARTS
        {
            rest = rest.get(record.len()..).unwrap_or_default();
            // One that is too short says nothing.
            let _ = found.add(record);
        }
        found
    }

    fn add(&mut self, record: &[u8]) -> Option<()> {
        let byte = |at: usize| record.get(at).copied();
        let name = |at: usize| {
            let kind = byte(at)?;
            let end = (at + 1 + usize::from(kind & 0x1f)).min(record.len());
            text::text(kind, record.get(at + 1..end)?, Kind::Record)
        };
        match byte(3)? {
            FULL => self.sensors.push(described(record, (12, 13), name(47))?),
            COMPACT => self.add_shared(&described(record, (12, 13), name(31))?, byte(23)?, byte(24)?),
            EVENT_ONLY => {
                let one = Described { reads: false, ..described(record, (10, 11), name(16))? };
                self.add_shared(&one, byte(12)?, byte(13)?);
            }
            // Logical ones alone are read by the storage commands, and here only those of the controller itself.
            PART if byte(7)? & 0x98 == 0x80 && byte(5)? == ITSELF => self.parts.push(PartLocator {
                device: byte(6)?,
                name: name(15),
                entity: words::entity(byte(12)?, byte(13)?),
            }),
            CONTROLLER => self.satellites.push(Satellite {
                name: name(15).unwrap_or_default(),
                channel: byte(6)? & 0xf,
                slave_address: byte(5)?,
                entity: words::entity(byte(12)?, byte(13)?),
            }),
            _ => {}
        }
        Some(())
    }

    /// One record may stand for up to 15 sensors, whose numbers follow each other (43.2).
    fn add_shared(&mut self, first: &Described, sharing: u8, modifier: u8) {
        let count = (sharing & 0xf).max(1);
        for at in 0..count {
            let mut one = first.clone();
            one.sensor.number = first.sensor.number.saturating_add(at);
            if count > 1 {
                let suffix = (modifier & 0x7f).saturating_add(at);
                let letter = char::from(b'A'.saturating_add(suffix.min(25)));
                let suffix = if sharing >> 4 & 3 == 1 { letter.to_string() } else { suffix.to_string() };
                one.sensor.name.push_str(&suffix);
            }
            self.sensors.push(one);
        }
    }

    /// Name of a sensor, for the event log.
    pub(super) fn name_of(&self, owner: u8, number: u8) -> Option<&str> {
        let is_it = |one: &&Described| one.owner == owner && one.sensor.number == number;
        self.sensors.iter().find(is_it).map(|one| one.sensor.name.as_str())
    }

    /// All sensors that read, with what they read now.
    pub(super) fn read(&self, controller: &mut impl Controller) -> Vec<Sensor> {
        self.sensors.iter().filter(|one| one.reads).map(|one| one.read(controller)).collect()
    }
}

/// What records of sensors have alike; `types` is where the types of sensor and event stand.
fn described(record: &[u8], types: (usize, usize), name: Option<String>) -> Option<Described> {
    let byte = |at: usize| record.get(at).copied();
    let (kind, event_type, number) = (byte(types.0)?, byte(types.1)?, byte(7)?);
    let is_full = byte(3)? == FULL;
    let flags = byte(20).unwrap_or_default();
    // 1 and 2 are those of the mask; 3 are fixed and can't be read.
    let has_thresholds = event_type == THRESHOLD && matches!(byte(11)? >> 2 & 3, 1 | 2);
    let mut thresholds: [u8; 6] = kernel::bytes::array(record, 36).filter(|_| is_full).unwrap_or_default();
    // The record has the highest first.
    thresholds.reverse();
    Some(Described {
        owner: byte(5)?,
        way: byte(6)?,
        event_type,
        kind,
        reads: true,
        readable: if has_thresholds { byte(18)? & 0x3f } else { 0 },
        thresholds,
        formula: kernel::bytes::array(record, 24)
            .filter(|_| is_full && event_type == THRESHOLD)
            .and_then(|factors| Formula::parse(flags >> 6, byte(23)?, factors)),
        sensor: Sensor {
            name: name.unwrap_or_else(|| format!("sensor {number:#04x}")),
            number,
            kind: words::sensor_type(kind),
            entity: words::entity(byte(8)?, byte(9)?),
            unit: words::unit(flags, byte(21).unwrap_or(0), byte(22).unwrap_or(0)).filter(|_| event_type == THRESHOLD),
            ..Sensor::default()
        },
    })
}

impl Described {
    fn read(&self, controller: &mut impl Controller) -> Sensor {
        let mut sensor = self.sensor.clone();
        // Those of other controllers would have to be asked over this one.
        let is_own = self.owner == ITSELF && self.way == 0;
        let number = sensor.number;
        let mut ask = |command, data: &[u8]| is_own.then(|| controller.request(SENSOR_EVENT, command, data)).flatten();
        if let Some([raw, flags, states @ ..]) = ask(GET_READING, &[number]).as_deref() {
            // The sensor is scanned, and its value is there.
            let reads = flags & 0x60 == 0x40;
            let formula = match self.formula {
                Some(formula) if formula.is_by_value() && reads => {
                    let factors = ask(GET_FACTORS, &[number, *raw]);
                    factors.and_then(|reply| formula.with(kernel::bytes::array(&reply, 1)?))
                }
                formula => formula,
            };
            sensor.reading = formula.filter(|_| reads).and_then(|formula| formula.value(*raw));
            sensor.sensor_state = Some(if reads { self.state(states) } else { "unavailable".to_owned() });
        }
        if let Some(formula) = self.formula.filter(|_| self.readable != 0) {
            let in_force = ask(GET_THRESHOLDS, &[number]);
            let in_force = in_force.and_then(|reply| Some((*reply.first()?, kernel::bytes::array(&reply, 1)?)));
            let (readable, raw) = in_force.unwrap_or((self.readable, self.thresholds));
            let value = |bit: usize| {
                let raw = raw.get(bit).filter(|_| readable >> bit & 1 == 1)?;
                formula.value(*raw)
            };
            // In the order of a comparison status.
            [
                &mut sensor.lower_non_critical,
                &mut sensor.lower_critical,
                &mut sensor.lower_non_recoverable,
                &mut sensor.upper_non_critical,
                &mut sensor.upper_critical,
                &mut sensor.upper_non_recoverable,
            ]
            .into_iter()
            .enumerate()
            .for_each(|(bit, threshold)| *threshold = value(bit));
        }
        sensor
    }

    fn state(&self, states: &[u8]) -> String {
        let byte = |at: usize| u16::from(states.get(at).copied().unwrap_or_default());
        let set = |bits: u16| (0..15_u8).filter(move |bit| bits >> bit & 1 == 1);
        let names: Vec<String> = match self.event_type {
            THRESHOLD => {
                let passed = set(byte(0) & u16::from(self.readable));
                passed.filter_map(|bit| THRESHOLDS.get(usize::from(bit))).map(|name| (*name).to_owned()).collect()
            }
            kind => set(byte(0) | (byte(1) & 0x7f) << 8).map(|bit| words::state(kind, self.kind, bit)).collect(),
        };
        if names.is_empty() { "ok".to_owned() } else { names.join(", ") }
    }
}

impl Formula {
    /// The factors are M, B, accuracy and exponents, as a record and Get Sensor Reading Factors have them.
    fn parse(format: u8, linearization: u8, factors: [u8; 6]) -> Option<Self> {
        // 3 has no numeric value.
        let is_numeric = format < 3;
        let [m, m_high, b, b_high, _, exponents] = factors;
        let ten_bits = |low: u8, high: u8| (i16::from(low) | i16::from(high >> 6) << 8) << 6 >> 6;
        let four_bits = |bits: u8| i32::from(bits & 0xf) << 28 >> 28;
        is_numeric.then(|| Self {
            format,
            linearization: linearization & 0x7f,
            m: ten_bits(m, m_high),
            b: ten_bits(b, b_high),
            b_exponent: four_bits(exponents),
            result_exponent: four_bits(exponents >> 4),
        })
    }

    /// Whether the factors are those of one raw value only.
    fn is_by_value(self) -> bool {
        self.linearization == BY_VALUE
    }

    fn with(self, factors: [u8; 6]) -> Option<Self> {
        Self::parse(self.format, 0, factors)
    }

    /// To a thousandth. `None` if the formula is the maker's own, or the result not a number.
    fn value(self, raw: u8) -> Option<f64> {
        let x = match self.format {
            0 => f64::from(raw),
            // One's complement has two zeros.
            1 if raw & 0x80 != 0 => f64::from(raw.cast_signed()) + 1.0,
            _ => f64::from(raw.cast_signed()),
        };
        let linear = (f64::from(self.m) * x + f64::from(self.b) * 10_f64.powi(self.b_exponent))
            * 10_f64.powi(self.result_exponent);
        let value = match self.linearization {
            0 => linear,
            1 => linear.ln(),
            2 => linear.log10(),
            3 => linear.log2(),
            4 => linear.exp(),
            5 => 10_f64.powf(linear),
            6 => linear.exp2(),
            7 => 1.0 / linear,
            8 => linear * linear,
            9 => linear * linear * linear,
            10 => linear.sqrt(),
            11 => linear.cbrt(),
            _ => return None,
        };
        let rounded = (value * 1000.0).round() / 1000.0;
        // Minus zero is zero.
        rounded.is_finite().then_some(rounded + 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(format: u8, linearization: u8, m: i16, b: i16, exponents: [i8; 2]) -> Formula {
        let ([m0, m1], [b0, b1]) = (m.to_le_bytes(), b.to_le_bytes());
        let [b_exponent, result] = exponents.map(|exponent| exponent.cast_unsigned() & 0xf);
        Formula::parse(format, linearization, [m0, m1 << 6, b0, b1 << 6, 0, result << 4 | b_exponent]).unwrap()
    }

    #[test]
    fn raw_values() {
        // A fan of 60 rpm a step, a voltage of 16 mV a step from 1 V on, a temperature below zero.
        assert_eq!(formula(0, 0, 60, 0, [0, 0]).value(70), Some(4200.0));
        assert_eq!(formula(0, 0, 16, 100, [1, -3]).value(10), Some(1.16));
        assert_eq!(formula(2, 0, 1, 0, [0, 0]).value(0xf6), Some(-10.0));
        assert_eq!(formula(1, 0, 1, 0, [0, 0]).value(0xf6), Some(-9.0));
        assert_eq!(formula(1, 0, 1, 0, [0, 0]).value(0xff), Some(0.0));
        assert_eq!(formula(0, 0, -512, 511, [7, -8]).value(2), Some(51.1));
        assert_eq!(formula(0, 7, 1, 0, [0, 0]).value(4), Some(0.25));
        assert_eq!(formula(0, 7, 1, 0, [0, 0]).value(0), None);
        assert_eq!(formula(0, 10, 1, 0, [0, 0]).value(144), Some(12.0));
        assert_eq!(formula(0, 6, 1, 0, [0, 0]).value(10), Some(1024.0));
        assert_eq!((formula(0, 0x71, 1, 0, [0, 0]).value(1), Formula::parse(3, 0, [1; 6])), (None, None));
    }

    #[test]
    fn a_shared_record_is_several_sensors() {
        // Compact, of 3 fans from number 30h on: presence, named FAN and a number from 1 on.
        let mut record = vec![1, 0, 0x51, 2, 0, 0x20, 0, 0x30, 29, 1, 0, 0, 4, 8, 0, 0, 0, 0, 3, 0, 0xc0, 0, 0];
        record.extend([0x03, 0x01, 0, 0, 0, 0, 0, 0, 0xc3]);
        record.extend(b"FAN");
        record[4] = u8::try_from(record.len() - 5).unwrap();
        let found = Records::parse(&record);
        let names: Vec<_> = found.sensors.iter().map(|one| (one.sensor.name.as_str(), one.sensor.number)).collect();
        assert_eq!(names, [("FAN1", 0x30), ("FAN2", 0x31), ("FAN3", 0x32)]);
        assert_eq!(found.name_of(0x20, 0x31), Some("FAN2"));
        assert_eq!(found.sensors[0].state(&[2, 0x80]), "present");
        assert_eq!(Records::parse(&record[..record.len() - 1]).sensors.len(), 0);
    }
}
