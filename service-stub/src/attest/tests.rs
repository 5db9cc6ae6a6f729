//! An emulated TPM enrols and is attacked; and what boots are judged to be.

use super::record::{Attestation, Identity};
use super::verdict::{Verdict, verdict};
use super::{Challenges, Proof, Refused};
use crate::model::{HostKey, HostRecord};
use api::attest::{AttestReply, AttestRequest, Digest};
use api::{HostId, InfraEnvId, Timestamp};
use attestation::{Pcr, boot::Boot, endorsement::Roots};
use std::time::{Duration, Instant};
use testkit::tpm::{Tpm, has};

const TOOLS: [&str; 4] = ["swtpm", "swtpm_setup", "swtpm_localca", "tpm2_pcrextend"];
/// 2096: certificates of the emulator are valid for ever.
const NOW: u64 = 4_000_000_000;

fn key() -> HostKey {
    HostKey { infra_env: InfraEnvId::random(), host: HostId::random() }
}

fn reply(tpm: &Tpm, request: &AttestRequest) -> Result<Box<AttestReply>, String> {
    let mut device = tpm.connect();
    let reply =
        inventory::attest::prove(&mut |command| kernel::tpm::exchange(&mut device, command), request, Vec::new());
    reply.map(Box::new).map_err(|error| error.to_string())
}

/// A host that is asked until something is proven, or not.
struct Host {
    key: HostKey,
    known: Option<Identity>,
    challenges: Challenges,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        Self { key: key(), known: None, challenges: Challenges::default(), now: Instant::now() }
    }

    fn request(&self) -> AttestRequest {
        self.challenges.request(self.key, true, self.now).unwrap()
    }

    fn replied(&self, reply: Result<Box<AttestReply>, String>) -> Option<Result<Proof, Refused>> {
        self.challenges.replied(self.key, reply, self.known, None, self.now)
    }

    fn enrol(&mut self, tpm: &Tpm) -> Proof {
        let first = self.request();
        assert_eq!((first.credential.is_none(), self.request() == first), (true, true), "the same until it replies");
        assert_eq!(self.replied(reply(tpm, &first)), None);
        let second = self.request();
        assert!(second.credential.is_some() && second.nonce != first.nonce);
        let proof = self.replied(reply(tpm, &second)).unwrap().unwrap();
        self.known = Some(proof.identity);
        proof
    }
}

#[test]
fn a_host_enrols_once_and_is_attacked_in_vain() {
    if !has(&TOOLS) {
        return;
    }
    let (tpm, foreign) = (Tpm::bare(), Tpm::bare());
    let mut host = Host::new();
    let proof = host.enrol(&tpm);
    assert_eq!(proof.boot.pcrs.len(), 15);

    // Its next registration takes one quote.
    let request = host.request();
    assert!(request.credential.is_none());
    let sound = reply(&tpm, &request).unwrap();
    let again = host.replied(Ok(sound.clone())).unwrap().unwrap();
    assert_eq!(again, proof);
    assert_eq!(host.replied(Ok(sound.clone())), None, "a nonce serves once");

    // A replayed quote.
    host.request();
    let Refused(why) = host.replied(Ok(sound)).unwrap().unwrap_err();
    assert_eq!(why, "the quote has another nonce: it was made for another request, or is replayed");
    // Another machine with the host's id.
    let Refused(why) = host.replied(reply(&foreign, &host.request())).unwrap().unwrap_err();
    assert!(why.starts_with("the TPM is another than when this host enrolled: its endorsement key is "), "{why}");
    // A nonce that expired.
    let late = reply(&tpm, &host.request());
    host.now += Duration::from_secs(901);
    assert_eq!(host.replied(late), None);

    // Another TPM's endorsement key beside its quote: its TPM alone reads the secret.
    let stranger = Host::new();
    let mut claimed = reply(&tpm, &stranger.request()).unwrap();
    let victim = reply(&foreign, &AttestRequest { nonce: Digest([0; 32]), credential: None }).unwrap();
    claimed.evidence.ek_public = victim.evidence.ek_public;
    assert_eq!(stranger.replied(Ok(claimed.clone())), None);
    let request = stranger.request();
    let error = reply(&tpm, &request).unwrap_err();
    assert!(error.starts_with("the TPM refuses to read the credential: code "), "{error}");
    let mut guessed = reply(&tpm, &AttestRequest { credential: None, ..request }).unwrap();
    guessed.evidence.ek_public = claimed.evidence.ek_public;
    let Refused(why) = stranger.replied(Ok(guessed)).unwrap().unwrap_err();
    assert!(why.starts_with("the attestation key is not in the TPM of this endorsement key"), "{why}");
}

#[test]
fn authorities_are_asked_for_where_they_are_named() {
    if !has(&TOOLS) {
        return;
    }
    let (tpm, other) = (Tpm::with_certificates(), Tpm::with_certificates());
    let outcome = |tpm: &Tpm, roots: &Roots| {
        let host = Host::new();
        let reply = reply(tpm, &host.request());
        host.challenges.replied(host.key, reply, None, Some((roots, NOW)), host.now)
    };
    let roots = Roots::parse(&tpm.authority()).unwrap();
    assert_eq!(outcome(&tpm, &roots), None, "a credential follows");
    let Refused(why) = outcome(&other, &roots).unwrap().unwrap_err();
    assert!(why.starts_with("the endorsement certificate is not signed by an authority of --attest-roots"), "{why}");
    let Refused(why) = outcome(&Tpm::bare(), &roots).unwrap().unwrap_err();
    assert_eq!(why, "the TPM has no endorsement certificate, which --attest-roots requires");
}

#[test]
fn values_of_others_are_quoted_before_ours() {
    if !has(&TOOLS) {
        return;
    }
    let (tpm, host) = (Tpm::bare(), Host::new());
    let value = Digest([9; 32]);
    host.challenges.demand(host.key, value, host.now);
    let request = host.challenges.request(host.key, false, host.now).unwrap();
    assert_eq!((request.nonce, host.challenges.evidence(host.key, value)), (value, None));
    assert_eq!(host.replied(reply(&tpm, &request)), None);
    host.challenges.evidence(host.key, value).unwrap().unwrap().check(&value.0).unwrap();
    assert_eq!(host.challenges.request(host.key, false, host.now), None);
    // A failure is an answer, too.
    let value = Digest([8; 32]);
    host.challenges.demand(host.key, value, host.now);
    host.request();
    host.replied(Err("there is no TPM".to_owned()));
    assert_eq!(host.challenges.evidence(host.key, value), Some(Err("there is no TPM".to_owned())));
}

#[test]
fn boots_are_judged() {
    let mut record = HostRecord::new(key(), None, Timestamp::ZERO);
    let boot = |value: u8| Boot {
        pcrs: (0..16).map(|index| Pcr { index, sha256: Digest([value; 32]) }).collect(),
        events: Vec::new(),
    };
    let good = [boot(1)];
    assert!(matches!(verdict(&record, &good), Verdict::Pending(_)));
    let who = Identity { endorsement: Digest([0xab; 32]), signer: Digest([1; 32]) };
    let identity = Some(who);
    record.attestation = Some(Attestation { identity, boot: Some(boot(1)), ..Attestation::default() });
    assert_eq!(
        verdict(&record, &good),
        Verdict::Good("The TPM with endorsement key abababababab proves a recorded boot".to_owned())
    );
    let Verdict::Bad(why) = verdict(&record, &[]) else { panic!() };
    let (id, command) = (record.host.id, "run `landfall host attest");
    assert_eq!(
        why,
        format!("The boot is proven, but no good boot is recorded: if it is good, {command} {id} --record`")
    );
    let Verdict::Bad(why) = verdict(&record, &[boot(2)]) else { panic!() };
    assert!(why.starts_with("The boot differs from the recorded one: register 0 (firmware): another value"), "{why}");
    assert!(why.chars().count() <= 2001);
    record.attestation =
        Some(Attestation { identity, fault: Some("there is no TPM".to_owned()), ..Attestation::default() });
    assert_eq!(verdict(&record, &good), Verdict::Bad("The boot is not proven: there is no TPM".to_owned()));
    // A first boot that is taken for good, until others are recorded.
    let mut attestation = Attestation::default();
    assert!(!attestation.prove(who, boot(3), false) && attestation.first_boot.is_none());
    assert!(attestation.prove(who, boot(4), true) && !attestation.prove(who, boot(5), true));
    record.attestation = Some(attestation.clone());
    let Verdict::Bad(why) = verdict(&record, &[]) else { panic!() };
    assert!(why.starts_with("The boot differs from this host's first one: register 0"), "{why}");
    attestation.prove(who, boot(4), true);
    record.attestation = Some(attestation);
    assert!(matches!(verdict(&record, &[]), Verdict::Good(_)));
    let Verdict::Bad(why) = verdict(&record, &good) else { panic!() };
    assert!(why.starts_with("The boot differs from the recorded one"), "{why}");
    let fault = Some("there is no TPM".to_owned());
    let mut attestation = Attestation { identity, fault, ..Attestation::default() };
    attestation.forget_boot();
    assert_eq!(attestation, Attestation { identity, ..Attestation::default() }, "who it is stays known");
}
