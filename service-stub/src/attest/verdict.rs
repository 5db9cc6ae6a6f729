//! Whether what a host booted is good. Pure.

use crate::model::HostRecord;
use attestation::boot::{Boot, from_nearest};

/// Name of the validation.
pub(crate) const CHECK: &str = crate::text::BOOT_CHECK;
/// Characters of a message.
const MAX_CHARS: usize = 2000;

/// What stands for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pending(String),
    Good(String),
    Bad(String),
}

/// Compares with the boots that are recorded as good; where none is, with the host's first one, if that was taken for good.
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
    let (good, is_first) = match (good, &attestation.first_boot) {
        ([], Some(first)) => (std::slice::from_ref(first), true),
        _ => (good, false),
    };
    match from_nearest(good, &boot) {
        None => Verdict::Bad(format!(
            "The boot is proven, but no good boot is recorded: if it is good, run `landfall host attest {} --record`",
            record.name_or_id()
        )),
        Some(differences) if !differences.is_empty() => {
            let which = if is_first { "this host's first one" } else { "the recorded one" };
            Verdict::Bad(short(format!("The boot differs from {which}: {}", differences.join("; "))))
        }
        Some(_) => {
            let key: String = identity.endorsement.to_string().chars().take(12).collect();
            let which =
                if is_first { "the same boot as this host's first, which is not recorded" } else { "a recorded boot" };
            Verdict::Good(format!("The TPM with endorsement key {key} proves {which}"))
        }
    }
}

fn short(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
