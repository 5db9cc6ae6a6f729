//! What was booted, by the log in which the firmware and boot loaders note what they measure into the TPM.

use crate::Root;
use attestation::{Digest, Event, MAX_LOG_BYTES, Pcr, appraisal::Appraisal};
use kernel::hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The bank that a log is compared with.
const BANK: &str = "sha256";

/// What was booted, as the firmware's log says, and whether the TPM's registers agree. Nothing is signed: root can write both into a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredBoot {
    /// The same in a few words.
    pub outcome: String,
    /// Events in the log that were measured.
    pub events: u32,
    /// Whether the log leads to the values of registers 0 to 9 and 14; absent if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads_to_registers: Option<bool>,
    /// Registers to whose values it does not lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing_registers: Vec<u8>,
    /// Whether UEFI booted only what is signed, as it measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// What UEFI started, in this order: boot loaders, and a kernel that UEFI starts itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Measurement>,
    /// Arguments of kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Measurement>,
}

/// Something that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measurement {
    /// The register it went into.
    pub register: u8,
    /// What it is; what only the log says is marked so.
    pub what: String,
    /// Its digest; of a program, as signatures of UEFI's programs have it (Authenticode).
    pub sha256: String,
}

impl From<Event> for Measurement {
    fn from(event: Event) -> Self {
        Self { register: event.pcr, what: event.description, sha256: event.sha256.to_string() }
    }
}

/// By the log of the TPM of that name: `tpm0`. `None` if there is no log.
pub(crate) fn measured_boot<'a>(
    root: &Root,
    name: &str,
    registers: impl Fn(&str) -> Option<&'a BTreeMap<String, String>>,
) -> Option<MeasuredBoot> {
    let log = root.read(format!("/sys/kernel/security/{name}/binary_bios_measurements"), MAX_LOG_BYTES);
    let log = log.inspect_err(|error| tracing::debug!(name, %error, "no log of what the firmware measured")).ok()?;
    if log.is_empty() {
        return None;
    }
    let register = |(index, value): (&String, &String)| {
        Some(Pcr { index: index.parse().ok()?, sha256: Digest(hex::parse(value)?) })
    };
    let registers: Vec<Pcr> = registers(BANK).into_iter().flatten().filter_map(register).collect();
    Some(match Appraisal::read(&log, &registers) {
        Ok(found) => from_appraisal(found),
        Err(fault) => MeasuredBoot { outcome: format!("cannot be read: {fault}"), ..MeasuredBoot::default() },
    })
}

fn from_appraisal(found: Appraisal) -> MeasuredBoot {
    let leads = found.differing.as_ref().map(Vec::is_empty);
    let outcome = match leads {
        Some(true) => "leads to the registers",
        Some(false) => "does not lead to the registers",
        None => "not compared: no register of SHA-256 is known",
    };
    MeasuredBoot {
        outcome: outcome.to_owned(),
        events: u32::try_from(found.events).unwrap_or(u32::MAX),
        leads_to_registers: leads,
        differing_registers: found.differing.unwrap_or_default(),
        secure_boot: found.secure_boot,
        programs: found.programs.into_iter().map(Measurement::from).collect(),
        arguments: found.arguments.into_iter().map(Measurement::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn logs_and_registers() {
        // One event, of which the register is SHA-256(0…, digest).
        let header = [&b"Spec ID Event03\0"[..], &[0; 8], &[1, 0, 0, 0, 0x0b, 0, 32, 0, 0]].concat();
        let start = [&[0, 0, 0, 0, 3, 0, 0, 0][..], &[0; 20], &[u8::try_from(header.len()).unwrap(), 0, 0, 0]].concat();
        let event = [&[4, 0, 0, 0, 3, 0, 0, 0x80, 1, 0, 0, 0, 0x0b, 0][..], &[7; 32], &[0; 4]].concat();
        let log = [start, header, event].concat();
        let tree = Tree::new(&[]);
        tree.add("sys/kernel/security/tpm0/binary_bios_measurements", &log);
        let read = |value: Option<&str>| {
            let registers: BTreeMap<String, String> =
                value.map(|value| ("4".to_owned(), value.to_owned())).into_iter().collect();
            measured_boot(&tree.root(), "tpm0", |bank| (bank == "sha256").then_some(&registers))
        };
        let right = "daf6d3e6ad66990aba2fae6e6c61f18b2d48f0ca6c29d2cfa19ab41f5a865231";
        let found = read(Some(right)).unwrap();
        assert_eq!((found.leads_to_registers, found.differing_registers.len()), (Some(true), 0));
        let found = read(Some(&right.replace('d', "e"))).unwrap();
        assert_eq!((found.leads_to_registers, found.differing_registers), (Some(false), vec![4]));
        let found = read(None).unwrap();
        assert_eq!((found.events, found.leads_to_registers), (1, None));
        assert_eq!(found.programs[0].sha256, "07".repeat(32));
        tree.add("sys/kernel/security/tpm0/binary_bios_measurements", &log[..log.len() - 1]);
        assert_eq!(read(None).unwrap().outcome, "cannot be read: event 1 is cut off or malformed");
        assert_eq!(measured_boot(&tree.root(), "tpm1", |_| None), None);
    }
}
