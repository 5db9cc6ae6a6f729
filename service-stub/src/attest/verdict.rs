//! Whether what a host booted is good. Pure.

use crate::model::HostRecord;
use attestation::boot::{Boot, from_nearest};

/// Name of the validation.
pub(crate) const CHECK: &str = "boot-attested";
/// Characters of a message.
const MAX_CHARS: usize = 2000;

/// What stands for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pending(String),
    Good(String),
    Bad(String),
}

/// Compares with the boots that are recorded as good.
pub(crate) fn verdict(record: &HostRecord, good: &[Boot]) -> Verdict {
    let attestation = record.attestation.clone().unwrap_or_default();
    if let Some(fault) = attestation.fault {
        return Verdict::Bad(short(format!("The boot is not proven: {fault}")));
    }
    let (Some(boot), Some(identity)) = (attestation.boot, attestation.identity) else {
        return Verdict::Pending(
            "The host has not proven its boot yet; its agent must be Landfall's, and the machine must have a TPM 2.0"
                .to_owned(),
        );
    };
    match from_nearest(good, &boot) {
        None => Verdict::Bad(format!(
            "The boot is proven, but no good boot is recorded: if it is good, run `landfall host attest {} --record`",
            record.name_or_id()
        )),
        Some(differences) if !differences.is_empty() => {
            Verdict::Bad(short(format!("The boot differs from the recorded one: {}", differences.join("; "))))
        }
        Some(_) => {
            let key: String = identity.endorsement.to_string().chars().take(12).collect();
            Verdict::Good(format!("The TPM with endorsement key {key} proves a recorded boot"))
        }
    }
}

fn short(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
