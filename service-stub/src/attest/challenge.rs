//! What hosts are asked, and what their replies prove. Each nonce is random, serves once, and expires.
//!
//! Nothing here is stored: after a restart hosts that have not proven their boot are asked anew.

use super::record::Identity;
use crate::model::HostKey;
use api::attest::{AttestReply, AttestRequest, Bytes, Credential, Digest, Evidence};
use attestation::{
    Facts, Public,
    boot::Boot,
    credential,
    endorsement::{self, Roots},
};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Longer than the step may take, with a poll before it.
const EXPIRES: Duration = Duration::from_secs(900);
/// Values of others, of all hosts.
const MAX_DEMANDS: usize = 4096;

/// A question to a host.
struct Challenge {
    nonce: Digest,
    /// The secret that only a TPM with both keys can read.
    secret: Option<(Digest, Identity, Credential)>,
    since: Instant,
}

/// A value of the asker's own to be quoted.
struct Demand {
    since: Instant,
    evidence: Option<Result<Evidence, String>>,
}

#[derive(Default)]
struct Open {
    challenges: BTreeMap<HostKey, Challenge>,
    demands: BTreeMap<(HostKey, Digest), Demand>,
    /// What each host was asked last, where that was a demand.
    asked: BTreeMap<HostKey, Digest>,
}

/// Open questions.
#[derive(Default)]
pub struct Challenges(Mutex<Open>);

impl std::fmt::Debug for Challenges {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Challenges")
    }
}

/// What is proven.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) identity: Identity,
    pub(crate) boot: Boot,
}

/// Why nothing is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

fn random() -> Result<Digest, Refused> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Refused("the service has no random numbers".to_owned()))?;
    Ok(Digest(bytes))
}

impl Challenges {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next question to a host: others' values first, then ours if the service `wants` one.
    pub(super) fn request(&self, key: HostKey, wants: bool, now: Instant) -> Option<AttestRequest> {
        let mut open = self.lock();
        let is_current = |since: Instant| now.saturating_duration_since(since) < EXPIRES;
        open.challenges.retain(|_, challenge| is_current(challenge.since));
        open.demands.retain(|_, demand| is_current(demand.since));
        open.asked.remove(&key);
        let demanded = open.demands.iter().find(|((host, _), demand)| *host == key && demand.evidence.is_none());
        if let Some(value) = demanded.map(|((_, value), _)| *value) {
            open.asked.insert(key, value);
            return Some(AttestRequest { nonce: value, credential: None });
        }
        if !wants {
            return None;
        }
        let challenge = match open.challenges.entry(key) {
            Entry::Occupied(challenge) => challenge.into_mut(),
            Entry::Vacant(place) => {
                let nonce = random().inspect_err(|Refused(why)| tracing::error!(why, "no host is asked for its boot"));
                place.insert(Challenge { nonce: nonce.ok()?, secret: None, since: now })
            }
        };
        let credential = challenge.secret.as_ref().map(|(_, _, credential)| credential.clone());
        Some(AttestRequest { nonce: challenge.nonce, credential })
    }

    pub(super) fn demand(&self, key: HostKey, value: Digest, now: Instant) {
        let mut open = self.lock();
        if open.demands.len() < MAX_DEMANDS {
            open.demands.entry((key, value)).or_insert(Demand { since: now, evidence: None });
        }
    }

    pub(super) fn evidence(&self, key: HostKey, value: Digest) -> Option<Result<Evidence, String>> {
        self.lock().demands.get(&(key, value))?.evidence.clone()
    }

    /// What a reply proves; none if it is a part of the way, or answers what was not asked.
    pub(super) fn replied(
        &self,
        key: HostKey,
        reply: Result<Box<AttestReply>, String>,
        known: Option<Identity>,
        roots: Option<(&Roots, u64)>,
        now: Instant,
    ) -> Option<Result<Proof, Refused>> {
        let mut open = self.lock();
        if let Some(value) = open.asked.remove(&key) {
            if let Some(demand) = open.demands.get_mut(&(key, value)) {
                let checked = reply.and_then(|reply| match reply.evidence.check(&value.0) {
                    Ok(_) => Ok(reply.evidence),
                    Err(fault) => Err(fault.to_string()),
                });
                demand.evidence = Some(checked);
            }
            return None;
        }
        // Once, whatever becomes of it.
        let challenge = open.challenges.remove(&key)?;
        if now.saturating_duration_since(challenge.since) >= EXPIRES {
            return None;
        }
        match reply.map_err(Refused).and_then(|reply| judge(&challenge, &reply, known, roots, now)) {
            Ok(Judged::Ask(next)) => {
                open.challenges.insert(key, next);
                None
            }
            Ok(Judged::Proven(proof)) => Some(Ok(proof)),
            Err(refused) => Some(Err(refused)),
        }
    }
}

enum Judged {
    /// The keys must be shown to be in one TPM.
    Ask(Challenge),
    Proven(Proof),
}

fn judge(
    challenge: &Challenge,
    reply: &AttestReply,
    known: Option<Identity>,
    roots: Option<(&Roots, u64)>,
    now: Instant,
) -> Result<Judged, Refused> {
    let refused = |why: &dyn std::fmt::Display| Refused(why.to_string());
    let evidence = &reply.evidence;
    let facts: Facts = evidence.check(&challenge.nonce.0).map_err(|fault| refused(&fault))?;
    let public = |bytes: &Bytes| Public::parse(&bytes.0).map_err(|fault| refused(&fault));
    let (endorsement, signer) = (public(&evidence.ek_public)?, public(&evidence.ak_public)?);
    let mut area = [0; 32];
    area.copy_from_slice(digest(&SHA256, &evidence.ak_public.0).as_ref());
    let identity = Identity { endorsement: facts.ek, signer: Digest(area) };
    if let Some(known) = known.filter(|known| known.endorsement != identity.endorsement) {
        return Err(Refused(format!(
            "the TPM is another than when this host enrolled: its endorsement key is {} and was {}. Another machine has this host's id, or the \
             TPM was replaced or cleared; if that is meant, delete the host, so that it enrols anew",
            identity.endorsement, known.endorsement
        )));
    }
    let roots = roots.map(|(roots, seconds)| (roots, Duration::from_secs(seconds)));
    match &evidence.ek_certificate {
        Some(certificate) => {
            endorsement::check(&certificate.0, &endorsement, roots).map_err(|fault| refused(&fault))?
        }
        None if roots.is_some() => return Err(refused(&endorsement::Fault::Missing)),
        None => {}
    }
    let boot = Boot::from(&facts);
    if known == Some(identity) {
        return Ok(Judged::Proven(Proof { identity, boot }));
    }
    let Some((secret, of, _)) = &challenge.secret else {
        let (nonce, secret) = (random()?, random()?);
        let made = credential::make(&endorsement, &signer.name(), &secret.0).map_err(|fault| refused(&fault))?;
        let credential = Credential { blob: Bytes(made.blob), secret: Bytes(made.secret) };
        return Ok(Judged::Ask(Challenge { nonce, secret: Some((secret, identity, credential)), since: now }));
    };
    let read = reply.secret.as_ref().map(|secret| secret.0.as_slice()).unwrap_or_default();
    // It serves once: how long the comparison takes says nothing of use.
    if *of != identity || read != secret.0 {
        return Err(Refused(
            "the attestation key is not in the TPM of this endorsement key: that TPM did not decrypt the secret for both"
                .to_owned(),
        ));
    }
    Ok(Judged::Proven(Proof { identity, boot }))
}
