//! Attestation (docs/service.md#attestation): each host that registers proves by its TPM who it is and what it booted, and is compared
//! with good boots that its infra-env has recorded.

mod challenge;
pub(crate) mod handlers;
pub(crate) mod record;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;

pub use challenge::Challenges;
pub(crate) use challenge::{Proof, Refused};
pub use record::{Attest, FirstBoot, Policy};

use crate::events::{self, kinds};
use crate::find::find_host;
use crate::http::{Call, Refusal};
use crate::model::{HostKey, HostRecord};
use crate::pass;
use crate::service::Service;
use api::Timestamp;
use api::attest::{AttestReply, AttestRequest, Digest, Evidence};
use record::Attestation;
use serde_json::json;
use std::time::Instant;
use verdict::{Verdict, verdict};

/// What the host is to be asked now, if its agent can answer.
pub(crate) fn request(service: &Service, record: &HostRecord) -> Option<AttestRequest> {
    let is_open = record.attestation.as_ref().is_none_or(Attestation::is_open);
    let wants = service.settings.attest.policy != Policy::Off && is_open;
    service.challenges.request(record.key(), wants, Instant::now())
}

/// Has a host quote its registers over a value that is the asker's own. [`evidence`] has the reply, if the host's agent can answer.
pub fn demand(service: &Service, key: HostKey, value: [u8; 32]) {
    service.challenges.demand(key, Digest(value), Instant::now());
}

/// The reply to [`demand`] for the same value: checked evidence, or why there is none. None while the host has not replied.
pub fn evidence(service: &Service, key: HostKey, value: [u8; 32]) -> Option<Result<Evidence, String>> {
    service.challenges.evidence(key, Digest(value))
}

/// A host replied, or its step failed for a reason.
pub(crate) fn replied(
    service: &Service,
    call: &Call,
    key: HostKey,
    reply: Result<Box<AttestReply>, String>,
) -> Result<(), Refusal> {
    let known = find_host(&service.store.model(), key)?;
    let identity = known.attestation.as_ref().and_then(|attestation| attestation.identity);
    let roots = service.settings.attest.roots.as_deref();
    let now = u64::try_from(Timestamp::now().unix_seconds()).unwrap_or_default();
    let Some(proof) = service.challenges.replied(key, reply, identity, roots.map(|roots| (roots, now)), Instant::now())
    else {
        return Ok(());
    };
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        let infra_env = change.model().infra_envs.get(&key.infra_env).cloned();
        let good = infra_env.as_ref().map(|record| record.good_boots.as_slice()).unwrap_or_default();
        let attestation = record.attestation.get_or_insert_default();
        attestation.forget_boot();
        match proof {
            Ok(Proof { identity, boot }) => {
                let takes_first = service.settings.attest.first_boot == FirstBoot::Record && good.is_empty();
                if attestation.prove(identity, boot, takes_first) {
                    let message = "The first boot that its TPM proves is taken for good, for this host alone";
                    events::host(change, &record, kinds::HOST_ATTESTED, json!({"message": message}));
                }
            }
            Err(Refused(fault)) => attestation.fault = Some(fault),
        }
        let (kind, message) = match verdict(&record, good) {
            Verdict::Pending(message) | Verdict::Bad(message) => (kinds::HOST_ATTESTATION_FAILED, message),
            Verdict::Good(message) => (kinds::HOST_ATTESTED, message),
        };
        events::host(change, &record, kind, json!({"message": message}));
        let cluster = record.host.cluster_id;
        change.put_host(record);
        pass::settle_soon(&service.rules(), change, cluster);
        Ok(())
    })
}
