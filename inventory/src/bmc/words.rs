//! Names of the numbers that management controllers speak in: kinds of sensors, units, entities and states (IPMI 2.0, 42 and 43).

/// Kinds of sensors from 1 on (table 42-3), each with its own states from offset 0 on.
const SENSORS: [(&str, &[&str]); 0x2c] = [
    ("temperature", &[]),
    ("voltage", &[]),
    ("current", &[]),
    ("fan", &[]),
    (
        "chassis intrusion",
        &[
            "general intrusion",
            "drive bay",
            "I/O card area",
            "processor area",
            "LAN cable lost",
            "unauthorized dock",
            "fan area",
        ],
    ),
    (
        "security violation attempt",
        &[
            "secure mode",
            "user password",
            "setup password",
            "network boot password",
            "other password",
            "out-of-band password",
        ],
    ),
    (
        "processor",
        &[
            "IERR",
            "thermal trip",
            "self-test failure",
            "hang in POST",
            "startup failure",
            "configuration error",
            "uncorrectable error",
            "present",
            "disabled",
            "terminator present",
            "throttled",
            "machine check",
            "correctable machine check",
        ],
    ),
    (
        "power supply",
        &[
            "present",
            "failure",
            "predictive failure",
            "input lost",
            "input lost or out of range",
            "input out of range",
            "configuration error",
            "inactive",
        ],
    ),
    (
        "power unit",
        &[
            "power off",
            "power cycle",
            "240 VA power down",
            "interlock power down",
            "AC lost",
            "soft power control failure",
            "failure",
            "predictive failure",
        ],
    ),
    ("cooling device", &[]),
    ("other units", &[]),
    (
        "memory",
        &[
            "correctable error",
            "uncorrectable error",
            "parity error",
            "scrub failed",
            "device disabled",
            "correctable error limit reached",
            "present",
            "configuration error",
            "spare",
            "throttled",
            "critical overtemperature",
        ],
    ),
    (
        "drive slot",
        &[
            "present",
            "fault",
            "predictive failure",
            "hot spare",
            "consistency check",
            "in critical array",
            "in failed array",
            "rebuild",
            "rebuild aborted",
        ],
    ),
    ("POST memory resize", &[]),
    ("system firmware", &["error", "hang", "progress"]),
    (
        "event logging",
        &[
            "correctable memory errors disabled",
            "event type disabled",
            "log cleared",
            "all events disabled",
            "log full",
            "log almost full",
            "correctable machine checks disabled",
        ],
    ),
    (
        "watchdog 1",
        &[
            "firmware reset",
            "OS reset",
            "OS shutdown",
            "OS power down",
            "OS power cycle",
            "OS NMI",
            "OS expired",
            "OS pre-timeout",
        ],
    ),
    (
        "system event",
        &["reconfigured", "OEM boot event", "undetermined failure", "entry in auxiliary log", "PEF action", "time set"],
    ),
    (
        "critical interrupt",
        &[
            "front panel NMI",
            "bus timeout",
            "I/O channel check",
            "software NMI",
            "PCI PERR",
            "PCI SERR",
            "EISA failsafe timeout",
            "correctable bus error",
            "uncorrectable bus error",
            "fatal NMI",
            "fatal bus error",
            "bus degraded",
        ],
    ),
    ("button", &["power", "sleep", "reset", "FRU latch open", "FRU service request"]),
    ("module", &[]),
    ("microcontroller", &[]),
    ("add-in card", &[]),
    ("chassis", &[]),
    ("chip set", &["soft power control failure", "thermal trip"]),
    ("other FRU", &[]),
    ("cable", &["connected", "configuration error"]),
    ("terminator", &[]),
    (
        "system boot",
        &[
            "power up",
            "hard reset",
            "warm reset",
            "network boot requested",
            "diagnostic boot",
            "hard reset by OS",
            "warm reset by OS",
            "restart",
        ],
    ),
    (
        "boot error",
        &["no bootable media", "drive is not bootable", "no PXE server", "invalid boot sector", "timeout at boot menu"],
    ),
    (
        "OS boot",
        &[
            "A: booted",
            "C: booted",
            "PXE booted",
            "diagnostic booted",
            "CD booted",
            "ROM booted",
            "booted",
            "installation started",
            "installation completed",
            "installation aborted",
            "installation failed",
        ],
    ),
    (
        "OS stop",
        &[
            "stop during load",
            "run-time stop",
            "graceful stop",
            "graceful shutdown",
            "soft shutdown by PEF",
            "agent does not answer",
        ],
    ),
    (
        "slot",
        &[
            "fault",
            "identify",
            "device installed",
            "ready for installation",
            "ready for removal",
            "power off",
            "removal request",
            "interlock",
            "disabled",
            "spare",
        ],
    ),
    (
        "ACPI power state",
        &[
            "S0/G0",
            "S1",
            "S2",
            "S3",
            "S4",
            "S5/G2",
            "S4/S5",
            "G3",
            "sleeping",
            "G1 sleeping",
            "S5 by override",
            "legacy on",
            "legacy off",
            "",
            "unknown",
        ],
    ),
    ("watchdog 2", &["expired", "hard reset", "power down", "power cycle", "", "", "", "", "interrupt"]),
    ("platform alert", &["page", "LAN alert", "event trap", "SNMP trap"]),
    ("entity presence", &["present", "absent", "disabled"]),
    ("monitor chip", &[]),
    ("LAN", &["heartbeat lost", "heartbeat"]),
    (
        "management subsystem",
        &[
            "sensor access degraded",
            "controller access degraded",
            "controller off line",
            "controller unavailable",
            "sensor failure",
            "FRU failure",
        ],
    ),
    ("battery", &["low", "failed", "present"]),
    ("session audit", &["activated", "deactivated", "invalid user or password", "user locked out"]),
    (
        "version change",
        &[
            "hardware changed",
            "firmware changed",
            "incompatible hardware",
            "incompatible firmware",
            "unsupported hardware",
            "unsupported firmware",
            "hardware change succeeded",
            "firmware change succeeded",
        ],
    ),
    (
        "FRU state",
        &[
            "not installed",
            "inactive",
            "activation requested",
            "activating",
            "active",
            "deactivation requested",
            "deactivating",
            "communication lost",
        ],
    ),
];
/// States that several kinds of sensors have, by event type from 2 on (table 42-2).
const GENERIC: [&[&str]; 11] = [
    &["idle", "active", "busy"],
    &["deasserted", "asserted"],
    &["nothing predicted", "predictive failure"],
    &["limit not exceeded", "limit exceeded"],
    &["performance met", "performance lags"],
    &[
        "ok",
        "non-critical from ok",
        "critical from less severe",
        "non-recoverable from less severe",
        "non-critical from more severe",
        "critical from non-recoverable",
        "non-recoverable",
        "monitor",
        "informational",
    ],
    &["absent", "present"],
    &["disabled", "enabled"],
    &[
        "running",
        "in test",
        "power off",
        "on line",
        "off line",
        "off duty",
        "degraded",
        "power save",
        "installation error",
    ],
    &[
        "fully redundant",
        "redundancy lost",
        "redundancy degraded",
        "non-redundant, sufficient, from redundant",
        "non-redundant, sufficient, from insufficient",
        "non-redundant, insufficient",
        "degraded from fully redundant",
        "degraded from non-redundant",
    ],
    &["D0", "D1", "D2", "D3"],
];
/// Thresholds, from bit 0 of a comparison status on (35.14).
pub(super) const THRESHOLDS: [&str; 6] = [
    "lower non-critical",
    "lower critical",
    "lower non-recoverable",
    "upper non-critical",
    "upper critical",
    "upper non-recoverable",
];
/// Units (table 43-15).
const UNITS: [&str; 93] = [
    "",
    "°C",
    "°F",
    "K",
    "V",
    "A",
    "W",
    "J",
    "C",
    "VA",
    "nit",
    "lm",
    "lx",
    "cd",
    "kPa",
    "psi",
    "N",
    "CFM",
    "rpm",
    "Hz",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    "d",
    "weeks",
    "mil",
    "in",
    "ft",
    "in³",
    "ft³",
    "mm",
    "cm",
    "m",
    "cm³",
    "m³",
    "l",
    "fl oz",
    "rad",
    "sr",
    "revolutions",
    "cycles",
    "g",
    "oz",
    "lb",
    "ft lb",
    "oz in",
    "G",
    "Gb",
    "H",
    "mH",
    "F",
    "µF",
    "Ω",
    "S",
    "mol",
    "Bq",
    "ppm",
    "",
    "dB",
    "dBA",
    "dBC",
    "Gy",
    "Sv",
    "K colour",
    "bit",
    "kbit",
    "Mbit",
    "Gbit",
    "B",
    "kB",
    "MB",
    "GB",
    "words",
    "dwords",
    "qwords",
    "lines",
    "hits",
    "misses",
    "retries",
    "resets",
    "overruns",
    "underruns",
    "collisions",
    "packets",
    "messages",
    "characters",
    "errors",
    "correctable errors",
    "uncorrectable errors",
    "fatal errors",
    "grams",
];
const RATES: [&str; 7] = ["", "/µs", "/ms", "/s", "/min", "/h", "/d"];
/// What a sensor or a part belongs to (table 43-13).
const ENTITIES: [&str; 0x36] = [
    "",
    "other",
    "unknown",
    "processor",
    "disk",
    "peripheral bay",
    "system management module",
    "system board",
    "memory module",
    "processor module",
    "power supply",
    "add-in card",
    "front panel board",
    "back panel board",
    "power system board",
    "drive backplane",
    "internal expansion board",
    "other system board",
    "processor board",
    "power unit",
    "power module",
    "power distribution board",
    "chassis back panel board",
    "system chassis",
    "sub-chassis",
    "other chassis board",
    "disk drive bay",
    "peripheral bay",
    "device bay",
    "fan",
    "cooling unit",
    "cable",
    "memory device",
    "system management software",
    "system firmware",
    "operating system",
    "system bus",
    "group",
    "remote management device",
    "external environment",
    "battery",
    "processing blade",
    "connectivity switch",
    "processor and memory module",
    "I/O module",
    "processor and I/O module",
    "management controller firmware",
    "IPMI channel",
    "PCI bus",
    "PCI Express bus",
    "SCSI bus",
    "SATA or SAS bus",
    "front-side bus",
    "real time clock",
];
const MORE_ENTITIES: [(u8, &str); 3] = [(0x40, "air inlet"), (0x41, "processor"), (0x42, "system board")];
/// The event types with a meaning: thresholds, and what the kind of sensor says.
pub(super) const THRESHOLD: u8 = 0x01;
const SPECIFIC: u8 = 0x6f;

/// What kind of sensor it is.
pub(super) fn sensor_type(number: u8) -> String {
    match number.checked_sub(1).and_then(|at| SENSORS.get(usize::from(at))) {
        Some((name, _)) => (*name).to_owned(),
        None if number >= 0xc0 => format!("OEM {number:#04x}"),
        None => format!("{number:#04x}"),
    }
}

/// What the state at `offset` of a sensor means.
pub(super) fn state(event_type: u8, sensor_type: u8, offset: u8) -> String {
    let at = |names: &&[&str]| names.get(usize::from(offset)).map(|name| (*name).to_owned());
    let names = match event_type {
        THRESHOLD => return crossing(offset),
        SPECIFIC => sensor_type.checked_sub(1).and_then(|at| SENSORS.get(usize::from(at))).map(|(_, states)| *states),
        number => number.checked_sub(2).and_then(|at| GENERIC.get(usize::from(at))).copied(),
    };
    names.as_ref().and_then(at).filter(|name| !name.is_empty()).unwrap_or_else(|| format!("state {offset}"))
}

/// Two for each threshold, in the order of thresholds: going low, going high.
fn crossing(offset: u8) -> String {
    let ways = ["going low", "going high"];
    let name = THRESHOLDS.get(usize::from(offset / 2));
    name.map_or_else(|| format!("state {offset}"), |name| format!("{name} {}", ways[usize::from(offset % 2)]))
}

/// The unit of a sensor's values, from its three bytes (43.1); none if it has none.
pub(super) fn unit(flags: u8, base: u8, modifier: u8) -> Option<String> {
    let name = |number: u8| UNITS.get(usize::from(number)).copied().unwrap_or_default();
    let mut unit = if flags & 1 == 1 { "%".to_owned() } else { String::new() };
    unit.push_str(name(base));
    match flags >> 1 & 3 {
        1 => unit = format!("{unit}/{}", name(modifier)),
        2 => unit = format!("{unit}·{}", name(modifier)),
        _ => {}
    }
    unit.push_str(RATES.get(usize::from(flags >> 3 & 7)).copied().unwrap_or_default());
    (!unit.is_empty()).then_some(unit)
}

/// What a sensor or part belongs to, with its number: `processor 2`.
pub(super) fn entity(id: u8, instance: u8) -> Option<String> {
    let more = || MORE_ENTITIES.iter().find(|(number, _)| *number == id).map(|(_, name)| *name);
    let name = ENTITIES.get(usize::from(id)).copied().or_else(more);
    let name = name.map_or_else(|| format!("entity {id:#04x}"), str::to_owned);
    // Numbers from 60h on count within the controller; bit 7 says that it is a group.
    let instance = instance & 0x7f;
    let instance = if instance >= 0x60 { instance - 0x60 } else { instance };
    (!name.is_empty()).then(|| format!("{name} {instance}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_specification() {
        assert_eq!(
            [1, 0x0c, 0x13, 0x1f, 0x22, 0x23, 0x29, 0x2c].map(sensor_type),
            [
                "temperature",
                "memory",
                "critical interrupt",
                "OS boot",
                "ACPI power state",
                "watchdog 2",
                "battery",
                "FRU state"
            ]
        );
        assert_eq!([0, 0x2d, 0xc1].map(sensor_type), ["0x00", "0x2d", "OEM 0xc1"]);
        assert_eq!(state(1, 1, 9), "upper critical going high");
        assert_eq!(state(1, 1, 2), "lower critical going low");
        assert_eq!([state(0x6f, 8, 3), state(0x6f, 0x23, 8)], ["input lost", "interrupt"]);
        assert_eq!([state(3, 0, 1), state(0x0b, 9, 1), state(0x0c, 0, 3)], ["asserted", "redundancy lost", "D3"]);
        assert_eq!([state(0x6f, 0x23, 5), state(0x70, 1, 2), state(1, 1, 99)], ["state 5", "state 2", "state 99"]);
    }

    #[test]
    fn units() {
        let units =
            [unit(0, 1, 0), unit(0, 18, 0), unit(1, 0, 0), unit(0b011_000, 70, 0), unit(0b10, 17, 21), unit(0, 0, 0)];
        assert_eq!(units.map(Option::unwrap_or_default), ["°C", "rpm", "%", "B/s", "CFM/ms", ""]);
        assert_eq!(UNITS.map(|unit| unit.contains(' ')).len(), 93);
        assert_eq!((UNITS[58], UNITS[65], UNITS[92]), ("ppm", "K colour", "grams"));
    }

    #[test]
    fn entities() {
        assert_eq!(entity(3, 1).as_deref(), Some("processor 1"));
        assert_eq!(entity(0x40, 0x61).as_deref(), Some("air inlet 1"));
        assert_eq!(
            [entity(0, 1), entity(0x35, 0x81), entity(0xd0, 2)].map(Option::unwrap_or_default),
            ["", "real time clock 1", "entity 0xd0 2"]
        );
    }
}
