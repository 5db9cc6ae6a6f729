//! Controllers of many kinds, good and bad.

use super::{lan::Addresses, *};
use crate::testing::Tree;
use proptest::prelude::*;
use std::{cell::Cell, collections::BTreeMap};

/// Answers what it was given, and refuses everything else.
#[derive(Default)]
struct Fake {
    replies: BTreeMap<(u8, u8, Vec<u8>), Vec<u8>>,
    records: Option<Vec<u8>>,
    parts: BTreeMap<u8, Vec<u8>>,
    events: Option<Vec<u8>>,
    asked: Cell<usize>,
}

impl Controller for Fake {
    fn request(&mut self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
        self.asked.set(self.asked.get() + 1);
        self.replies.get(&(netfn, command, data.to_vec())).cloned()
    }

    fn sensor_records(&mut self) -> Option<Vec<u8>> {
        self.records.clone()
    }

    fn part(&mut self, device: u8) -> Option<Vec<u8>> {
        self.parts.get(&device).cloned()
    }

    fn events(&mut self, _: u8) -> Option<Vec<u8>> {
        self.events.clone()
    }
}

impl Fake {
    fn channel(mut self, channel: u8, medium: u8) -> Self {
        let info = vec![channel, medium, 1, 0x80, 0xf2, 0x1b, 0, 0, 0];
        self.replies.insert((NETFN_APP, 0x42, vec![channel]), info);
        self
    }

    fn parameter(mut self, channel: u8, parameter: u8, set: u8, data: &[u8]) -> Self {
        // The revision goes first.
        let reply = [&[0x11], data].concat();
        self.replies.insert((NETFN_TRANSPORT, 2, vec![channel, parameter, set, 0]), reply);
        self
    }

    /// An entry of the static (56) or dynamic (59) table.
    fn ipv6(self, channel: u8, table: u8, set: u8, source: u8, address: &str, status: u8) -> Self {
        let address: std::net::Ipv6Addr = address.parse().unwrap();
        self.parameter(channel, table, set, &[&[set, source], &address.octets()[..], &[64, status]].concat())
    }

    fn found(mut self) -> (String, String) {
        let Addresses { ipv4, ipv6 } = addresses(&mut self);
        let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        (text(ipv4.map(|ip| ip.to_string())), text(ipv6.map(|ip| ip.to_string())))
    }
}

fn pair(ipv4: &str, ipv6: &str) -> (String, String) {
    (ipv4.to_owned(), ipv6.to_owned())
}

#[test]
fn ipv4_of_the_first_lan_channel_that_has_one() {
    let fake = Fake::default()
        .channel(1, 4)
        .parameter(1, 3, 0, &[0, 0, 0, 0])
        // A serial port with an address does not count.
        .channel(2, 5)
        .parameter(2, 3, 0, &[10, 0, 0, 2])
        .channel(8, 4)
        .parameter(8, 3, 0, &[10, 16, 218, 144])
        .channel(9, 4)
        .parameter(9, 3, 0, &[10, 0, 0, 9]);
    assert_eq!(fake.found(), pair("10.16.218.144", "-"));
    // Channels above 12 are not networks.
    assert_eq!(Fake::default().channel(13, 4).parameter(13, 3, 0, &[10, 0, 0, 1]).found(), pair("-", "-"));
    assert_eq!(Fake::default().channel(1, 4).parameter(1, 3, 0, &[10, 0, 0]).found(), pair("-", "-"));
}

#[test]
fn ipv6_from_the_network_goes_before_that_set_by_hand() {
    let fake = || {
        Fake::default()
            .channel(1, 4)
            .parameter(1, 51, 0, &[2])
            .parameter(1, 55, 0, &[1, 3, 3])
            .ipv6(1, 56, 0, 0x80, "fd00::56", 0)
            .ipv6(1, 59, 0, 2, "fd00::1", 2)
            .ipv6(1, 59, 1, 0, "fd00::2", 0)
    };
    assert_eq!(fake().ipv6(1, 59, 2, 1, "fe80::3", 0).found(), pair("-", "fe80::3"));
    assert_eq!(fake().ipv6(1, 59, 2, 2, "::", 0).found(), pair("-", "fd00::56"));
    // The controller has no more than three of them.
    assert_eq!(fake().ipv6(1, 59, 3, 1, "fd00::3", 0).found(), pair("-", "fd00::56"));
    assert_eq!(fake().ipv6(1, 56, 0, 0, "fd00::56", 0).found(), pair("-", "-"));
    assert_eq!(fake().ipv6(1, 56, 0, 0x80, "fd00::56", 1).found(), pair("-", "-"));
}

#[test]
fn ipv6_only_where_it_is_enabled() {
    let fake = |enables: &[u8]| {
        let fake = Fake::default().channel(1, 4).ipv6(1, 59, 0, 1, "fd00::1", 0);
        fake.parameter(1, 51, 0, enables).found().1
    };
    assert_eq!([fake(&[0]), fake(&[1]), fake(&[2]), fake(&[]), fake(&[3])], ["-", "fd00::1", "fd00::1", "-", "-"]);
}

#[test]
fn a_controller_without_lan_is_asked_for_its_channels_only() {
    let mut fake = Fake::default().channel(1, 5);
    assert_eq!(addresses(&mut fake), Addresses::default());
    assert_eq!(fake.asked.get(), 12);
}

#[test]
fn a_captured_controller() {
    let tree = Tree::new(&[("sys/class/ipmi/ipmi0/dev", "247:0\n")]);
    tree.add("landfall/ipmi/06-42-01", [0, 1, 4, 1, 0x80, 0xf2, 0x1b, 0, 0, 0]);
    tree.add("landfall/ipmi/0c-02-01-03-00-00", [0, 0x11, 192, 168, 0, 120]);
    // "Parameter not supported"
    tree.add("landfall/ipmi/0c-02-01-33-00-00", [0x80]);
    let root = tree.root();
    let found = addresses(&mut Machine::find(&root).unwrap());
    assert_eq!(found, Addresses { ipv4: Some([192, 168, 0, 120].into()), ipv6: None });
}

#[test]
fn a_machine_without_one() {
    let tree = Tree::new(&[("landfall/ipmi/06-42-01", "")]);
    assert!(Machine::find(&tree.root()).is_none());
}

/// A full record of a sensor: number, types of sensor and event, base unit, M and result exponent, thresholds from the
/// lowest bit of the mask on, name.
fn full(number: u8, kind: u8, unit: u8, (m, exponent): (u8, u8), thresholds: [u8; 6], name: &str) -> Vec<u8> {
    let mut record = vec![0; 48];
    record[2..14].copy_from_slice(&[0x51, 1, 0, 0x20, 0, number, 3, 1, 0x7f, 0x68, kind, 1]);
    record[18] = 0x3f;
    record[21] = unit;
    record[24] = m;
    record[29] = exponent << 4;
    record[36..42].copy_from_slice(&thresholds);
    record[36..42].reverse();
    record[47] = 0xc0 | u8::try_from(name.len()).unwrap();
    record.extend(name.bytes());
    record[4] = u8::try_from(record.len() - 5).unwrap();
    record
}

/// The locator of a part, logical, of the controller itself.
fn locator(device: u8, entity: u8, name: &str) -> Vec<u8> {
    let mut record = vec![9, 0, 0x51, 0x11, 0, 0x20, device, 0x80, 0, 0, 0x10, 0, entity, 1, 0];
    record.push(0xc0 | u8::try_from(name.len()).unwrap());
    record.extend(name.bytes());
    record[4] = u8::try_from(record.len() - 5).unwrap();
    record
}

#[test]
fn sensors_parts_and_the_log() {
    let mut satellite = vec![3, 0, 0x51, 0x12, 0, 0x2c, 0x06, 0, 0x29, 0, 0, 0, 0x2e, 1, 0, 0xc2];
    satellite.extend(b"ME");
    satellite[4] = 13;
    let records = [
        full(1, 1, 1, (1, 0), [5, 3, 0, 85, 95, 110], "CPU Temp"),
        full(2, 4, 18, (60, 0), [10, 5, 0, 0, 0, 0], "FAN1"),
        full(3, 2, 4, (54, 0xd), [0; 6], "12V"),
        locator(0, 7, "Builtin"),
        locator(4, 10, "PSU1"),
        satellite,
    ];
    let mut fake = Fake { records: Some(records.concat()), ..Fake::default() };
    let readings: [(u8, &[u8]); 3] = [(1, &[97, 0xc0, 0x18]), (2, &[70, 0xc0, 0xc0]), (3, &[0, 0xe0, 0])];
    for (number, reply) in readings {
        fake.replies.insert((4, 0x2d, vec![number]), reply.to_vec());
    }
    // The second fan's thresholds in force are others than those of the record.
    fake.replies.insert((4, 0x27, vec![2]), vec![0b10, 0, 20, 0, 0, 0, 0]);
    fake.parts.insert(4, part::tests::power_supply());
    let mut info = vec![0x51, 3, 0, 0, 2];
    info.extend([1_767_323_045_u32.to_le_bytes(), [0xff; 4]].concat());
    info.push(0x8f);
    fake.replies.insert((NETFN_STORAGE, 0x40, Vec::new()), info);
    let event = [1, 0, 2, 9, 0, 0, 0, 0x20, 0, 4, 1, 1, 1, 0x59, 0x60, 0x5f];
    fake.events = Some([&event[..], &[1, 2, 3]].concat());

    let found = contents(&mut fake);
    let [hot, fan, volts] = &found.sensors[..] else { panic!("{found:?}") };
    assert_eq!((hot.name.as_str(), hot.reading, hot.unit.as_deref()), ("CPU Temp", Some(97.0), Some("°C")));
    assert_eq!(hot.sensor_state.as_deref(), Some("upper non-critical, upper critical"));
    assert_eq!(
        (hot.upper_critical, hot.lower_non_critical, hot.entity.as_deref()),
        (Some(95.0), Some(5.0), Some("processor 1"))
    );
    assert_eq!((fan.reading, fan.sensor_state.as_deref()), (Some(4200.0), Some("ok")));
    assert_eq!((fan.lower_critical, fan.lower_non_critical), (Some(1200.0), None));
    assert_eq!((volts.reading, volts.sensor_state.as_deref()), (None, Some("unavailable")));
    assert_eq!((found.satellites[0].name.as_str(), found.satellites[0].channel), ("ME", 6));
    let [supply] = &found.parts[..] else { panic!("{found:?}") };
    assert_eq!((supply.name.as_str(), supply.entity.as_deref(), supply.device), ("PSU1", Some("power supply 1"), 4));
    let log = found.event_log.unwrap();
    assert_eq!((log.entries, log.free_bytes, log.has_overflowed), (3, 512, true));
    assert_eq!((log.last_added.as_deref(), log.last_cleared), (Some("2026-01-02T03:04:05Z"), None));
    let [event] = &log.last_events[..] else { panic!() };
    assert_eq!((event.sensor.as_deref(), event.event.as_str()), (Some("CPU Temp"), "upper critical going high"));
}

proptest! {
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        fuzz(&bytes);
    }
}
