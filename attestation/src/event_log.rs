//! The firmware's log of what it measured (TCG PC Client Platform Firmware Profile, 10): its crypto-agile form, the bank of SHA-256.

use crate::{Digest, events, public::sha256};
use kernel::bytes::Reader;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A larger event log was never seen.
pub const MAX_LOG_BYTES: usize = 1 << 20;
/// Of the first event, which says what follows.
const SIGNATURE: &[u8] = b"Spec ID Event03\0";
const SHA256: u16 = 0x0b;
/// Events of this kind are not measured.
pub(crate) const NO_ACTION: u32 = 3;
/// Its contents say which locality started the TPM: register 0 begins with that number (10.4.5.3).
const STARTUP_LOCALITY: &[u8] = b"StartupLocality\0";
/// A service stores them with each host. Machines have hundreds.
const MAX_EVENTS: usize = 2 << 10;
const MAX_BANKS: usize = 16;
/// Registers of a PC.
const REGISTERS: u8 = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is larger than {MAX_LOG_BYTES} bytes, or has more than {MAX_EVENTS} events")]
    TooLarge,
    #[error(
        "it has only SHA-1 digests: its first event is not 'Spec ID Event03'. Enable SHA-256 for the TPM in the firmware's settings"
    )]
    OldForm,
    #[error("it has no digests of SHA-256. Enable SHA-256 for the TPM in the firmware's settings")]
    NoBank,
    #[error("event {0} is cut off or malformed")]
    Unsound(usize),
}

/// Something that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The register it went into.
    pub pcr: u8,
    /// Name of its type in the specification: `EV_IPL`.
    pub kind: String,
    /// What was measured.
    pub sha256: Digest,
    /// What that is, for people.
    pub description: String,
    #[serde(skip)]
    locality: Option<u8>,
}

impl Event {
    /// Whether a register was extended by it: the TPM's start is in the log, too.
    pub(crate) fn is_measured(&self) -> bool {
        self.locality.is_none()
    }
}

/// The events, without those that are not measured but for the TPM's start. No bytes: no log.
pub(crate) fn parse(log: &[u8]) -> Result<Vec<Event>, Fault> {
    if log.is_empty() {
        return Ok(Vec::new());
    }
    if log.len() > MAX_LOG_BYTES {
        return Err(Fault::TooLarge);
    }
    let mut reader = Reader(log);
    let banks = banks(&mut reader)?;
    if !banks.contains(&(SHA256, 32)) {
        return Err(Fault::NoBank);
    }
    let mut events = Vec::new();
    for index in 1.. {
        if reader.0.is_empty() {
            break;
        }
        if index > MAX_EVENTS {
            return Err(Fault::TooLarge);
        }
        events.extend(event(&mut reader, &banks).ok_or(Fault::Unsound(index))?);
    }
    Ok(events)
}

/// Hashes and the lengths of their digests, from the first event.
fn banks(reader: &mut Reader<'_>) -> Result<Vec<(u16, usize)>, Fault> {
    // Register, type, digest of SHA-1.
    reader.bytes(4 + 4 + 20).ok_or(Fault::OldForm)?;
    let contents = long_sized(reader).ok_or(Fault::OldForm)?;
    let mut header = Reader(contents);
    if header.bytes(SIGNATURE.len()) != Some(SIGNATURE) {
        return Err(Fault::OldForm);
    }
    // Class of the platform, version, size of numbers.
    header.bytes(8).ok_or(Fault::Unsound(0))?;
    let count = number(&mut header).filter(|count| *count <= MAX_BANKS).ok_or(Fault::Unsound(0))?;
    let bank = |header: &mut Reader<'_>| {
        let id = u16::from_le_bytes(header.array()?);
        Some((id, usize::from(u16::from_le_bytes(header.array()?))))
    };
    (0..count).map(|_| bank(&mut header)).collect::<Option<_>>().ok_or(Fault::Unsound(0))
}

fn number(reader: &mut Reader<'_>) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(reader.array()?)).ok()
}

fn long_sized<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = number(reader)?;
    reader.bytes(len)
}

/// `Some(None)` for one that is not measured and says nothing of the TPM's start.
fn event(reader: &mut Reader<'_>, banks: &[(u16, usize)]) -> Option<Option<Event>> {
    let pcr = u32::from_le_bytes(reader.array()?);
    let kind = u32::from_le_bytes(reader.array()?);
    let count = number(reader).filter(|count| *count <= MAX_BANKS)?;
    let mut found = None;
    for _ in 0..count {
        let id = u16::from_le_bytes(reader.array()?);
        let (_, len) = banks.iter().find(|(known, _)| *known == id)?;
        let digest = reader.bytes(*len)?;
        if id == SHA256 {
            // Twice the same bank means that two readers may see two logs.
            if found.replace(Digest(digest.try_into().ok()?)).is_some() {
                return None;
            }
        }
    }
    let data = long_sized(reader)?;
    if kind == NO_ACTION {
        let locality = data.strip_prefix(STARTUP_LOCALITY).and_then(|rest| rest.first().copied());
        let event = |locality| Event {
            pcr: 0,
            kind: events::kind(kind),
            sha256: Digest([0; 32]),
            description: format!("the TPM was started from locality {locality}"),
            locality: Some(locality),
        };
        return Some(locality.map(event));
    }
    let sha256 = found?;
    let pcr = u8::try_from(pcr).ok().filter(|pcr| *pcr < REGISTERS)?;
    let description = events::describe(kind, data, &sha256);
    Some(Some(Event { pcr, kind: events::kind(kind), sha256, description, locality: None }))
}

/// The values that the events lead to, of every register.
pub(crate) fn replay(events: &[Event]) -> BTreeMap<u8, Digest> {
    let mut registers: BTreeMap<u8, Digest> = (0..REGISTERS).map(|pcr| (pcr, Digest([0; 32]))).collect();
    for event in events {
        let Some(value) = registers.get_mut(&event.pcr) else { continue };
        match event.locality {
            Some(locality) if value.0 == [0; 32] => value.0[31] = locality,
            Some(_) => {}
            None => *value = sha256(&[value.0, event.sha256.0].concat()),
        }
    }
    registers
}
