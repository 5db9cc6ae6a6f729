//! The event log of a management controller (SEL; IPMI 2.0, 31 and 32). Pure but for the asking; the bytes are hostile.

use super::{Controller, NETFN_STORAGE, sensor::Records, words};
use kernel::{
    bytes::{array, le16, le32},
    clock, hex,
};
use serde::{Deserialize, Serialize};

const GET_INFO: u8 = 0x40;
const ENTRY_BYTES: usize = 16;
/// Entries that are reported, the last ones.
pub(super) const LAST: u8 = 64;
const SYSTEM_EVENT: u8 = 0x02;
/// From here on the maker's own, with and without a time.
const OWN: u8 = 0xc0;
const OWN_WITHOUT_TIME: u8 = 0xe0;
/// Seconds from 1970 on; lower numbers are seconds since the controller started.
const FIRST_DATE: u32 = 0x2000_0000;
const NO_TIME: u32 = 0xffff_ffff;

/// The event log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventLog {
    /// Entries in it.
    pub entries: u16,
    /// What is free for more, bytes; 65535 is that or more.
    pub free_bytes: u16,
    /// Whether entries were lost because it was full.
    pub has_overflowed: bool,
    /// When the last entry was added, UTC by the controller's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_added: Option<String>,
    /// When it was cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cleared: Option<String>,
    /// The last entries, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_events: Vec<Event>,
}

/// An entry of the event log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Event {
    /// Its number in the log.
    pub number: u16,
    /// When, UTC by the controller's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Seconds after the controller started, where it did not know the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_start_seconds: Option<u32>,
    /// Name of the sensor, else its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor: Option<String>,
    /// Kind of the sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor_type: Option<String>,
    /// What happened.
    pub event: String,
    /// Whether it began; false is its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_asserted: Option<bool>,
    /// The bytes that say more, hexadecimal.
    pub data: String,
}

/// The log and its last entries.
pub(super) fn event_log(controller: &mut impl Controller, records: &Records) -> Option<EventLog> {
    let info = controller.request(NETFN_STORAGE, GET_INFO, &[])?;
    let date = |at: usize| le32(&info, at).filter(|time| (FIRST_DATE..NO_TIME).contains(time)).map(utc);
    let entries = le16(&info, 1)?;
    let last = if entries > 0 { controller.events(LAST).unwrap_or_default() } else { Vec::new() };
    Some(EventLog {
        entries,
        free_bytes: le16(&info, 3)?,
        has_overflowed: info.get(13).is_some_and(|support| support & 0x80 != 0),
        last_added: date(5),
        last_cleared: date(9),
        last_events: last
            .as_chunks::<ENTRY_BYTES>()
            .0
            .iter()
            .take(LAST.into())
            .map(|one| event(one, records))
            .collect(),
    })
}

fn event(entry: &[u8; ENTRY_BYTES], records: &Records) -> Event {
    let [n0, n1, kind, rest @ ..] = *entry;
    let time = array(&rest, 0).map_or(0, u32::from_le_bytes);
    let mut found = Event { number: u16::from_le_bytes([n0, n1]), ..Event::default() };
    if kind < OWN_WITHOUT_TIME {
        match time {
            NO_TIME => {}
            FIRST_DATE.. => found.time = Some(utc(time)),
            _ => found.after_start_seconds = Some(time),
        }
    }
    let [_, _, _, _, generator, _, _, sensor_type, number, direction, data @ ..] = rest;
    match kind {
        SYSTEM_EVENT => {
            let name = records.name_of(generator, number).map(str::to_owned);
            found.sensor = Some(name.unwrap_or_else(|| format!("sensor {number:#04x}")));
            found.sensor_type = Some(words::sensor_type(sensor_type));
            found.event = words::state(direction & 0x7f, sensor_type, data[0] & 0xf);
            found.is_asserted = Some(direction & 0x80 == 0);
            found.data = hex::lower(data);
        }
        OWN_WITHOUT_TIME.. => {
            found.event = format!("OEM {kind:#04x}");
            found.data = hex::lower(rest);
        }
        OWN.. => {
            let [_, _, _, _, m0, m1, m2, makers @ ..] = rest;
            found.event = format!("OEM {kind:#04x} of {}", u32::from_le_bytes([m0, m1, m2, 0]));
            found.data = hex::lower(makers);
        }
        _ => {
            found.event = format!("entry of type {kind:#04x}");
            found.data = hex::lower(rest);
        }
    }
    found
}

fn utc(seconds: u32) -> String {
    clock::utc_text(seconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u16, kind: u8, rest: [u8; 13]) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        entry[..2].copy_from_slice(&number.to_le_bytes());
        entry[2] = kind;
        entry[3..].copy_from_slice(&rest);
        entry
    }

    #[test]
    fn kinds_of_entries() {
        let event = |kind, rest| event(&entry(7, kind, rest), &Records::default());
        // 2026-01-02 03:04:05; power supply 0x51, input lost.
        let [a, b, c, d] = 1_767_323_045_u32.to_le_bytes();
        let lost = event(2, [a, b, c, d, 0x20, 0, 4, 8, 0x51, 0x6f, 0xa3, 1, 2]);
        assert_eq!((lost.number, lost.time.as_deref()), (7, Some("2026-01-02T03:04:05Z")));
        assert_eq!((lost.sensor.as_deref(), lost.sensor_type.as_deref()), (Some("sensor 0x51"), Some("power supply")));
        assert_eq!((lost.event.as_str(), lost.is_asserted, lost.data.as_str()), ("input lost", Some(true), "a30102"));
        let hot = event(2, [9, 0, 0, 0, 0x20, 0, 4, 1, 1, 0x81, 0x59, 0x60, 0x5f]);
        assert_eq!((hot.time, hot.after_start_seconds), (None, Some(9)));
        assert_eq!((hot.event.as_str(), hot.is_asserted), ("upper critical going high", Some(false)));
        let makers = event(0xc0, [a, b, c, d, 0xa2, 2, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((makers.event.as_str(), makers.data.as_str()), ("OEM 0xc0 of 674", "010203040506"));
        let bare = event(0xe1, [1; 13]);
        assert_eq!((bare.time, bare.data.len()), (None, 26));
        assert_eq!(event(2, [0xff; 13]).time, None);
    }
}
