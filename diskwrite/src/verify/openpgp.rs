//! Detached OpenPGP signatures of the source (RFC 9580, section 10.4).

use super::keyring::{Key, blocks, is_strong};
use super::{Tap, VerifyError};
use api::Timestamp;
use pgp::{
    composed::{Deserializable, DetachedSignature},
    packet::{Signature, SignatureType, SignatureVersion, SignatureVersionSpecific, SubpacketData},
    types::KeyVersion,
};
use sha2::digest::DynDigest;

/// Each trusted one costs a hash over the whole image.
const SIGNATURES: usize = 8;
/// A clock may be a day behind the signer's.
const CLOCK_SLACK: i64 = 24 * 3600;

/// A signature by a key that is trusted, and the hash of what it signs.
struct Candidate {
    signature: Signature,
    /// Several only where it names its key by id, which is short enough for others to share.
    keys: Vec<Key>,
    hasher: Box<dyn DynDigest + Send>,
}

/// All signatures of one file.
pub(super) struct OpenPgp {
    at: String,
    candidates: Vec<Candidate>,
}

impl OpenPgp {
    /// Takes those signatures that a key of `keys` is said to have made. Fails if none of them can vouch for anything, whatever
    /// the image; `now` is in seconds since 1970.
    pub(super) fn new(at: String, bytes: &[u8], keys: &[Key], now: i64) -> Result<Self, VerifyError> {
        let signatures = parse(&at, bytes)?;
        let mut candidates = Vec::new();
        let mut objection = None;
        let mut unknown = Vec::new();
        for signature in signatures {
            let made_by = keys_of(&signature, keys);
            let Some(key) = made_by.first() else {
                unknown.push(issuer(&signature));
                continue;
            };
            let key = key.fingerprint.clone();
            match usable(&at, &signature, made_by, now) {
                Ok(keys) => match hasher(&signature) {
                    Ok(hasher) => candidates.push(Candidate { signature, keys, hasher }),
                    Err(reason) => objection = Some(VerifyError::Unacceptable { at: at.clone(), key, reason }),
                },
                Err(error) => objection = Some(error),
            }
        }
        if !candidates.is_empty() {
            if let Some(error) = objection {
                tracing::warn!("one of several signatures is passed over: {error}");
            }
            return Ok(Self { at, candidates });
        }
        let known = || match keys.iter().map(|key| key.primary.clone()).collect::<std::collections::BTreeSet<_>>() {
            known if known.is_empty() => "none".into(),
            known => known.into_iter().collect::<Vec<_>>().join(", "),
        };
        Err(objection.unwrap_or_else(|| VerifyError::UnknownKey { at, made_by: unknown.join(", "), trusted: known() }))
    }
}

impl Tap for OpenPgp {
    fn update(&mut self, bytes: &[u8]) {
        self.candidates.iter_mut().for_each(|candidate| candidate.hasher.update(bytes));
    }

    /// One good signature is enough, but a trusted key's bad one means that something is wrong.
    fn finish(self: Box<Self>) -> Result<(), VerifyError> {
        for Candidate { signature, keys, hasher } in self.candidates {
            let made = Timestamp::from_unix_seconds(made(&signature));
            let Some(key) = check(&signature, &keys, hasher) else {
                let key = keys.first();
                let text = |of: fn(&Key) -> &String| key.map(of).cloned().unwrap_or_default();
                return Err(VerifyError::Bad {
                    at: self.at,
                    key: text(|key| &key.fingerprint),
                    user: text(|key| &key.user),
                });
            };
            tracing::info!("Signature made {made} using {} key {}", key.algorithm(), key.fingerprint);
            tracing::info!("Good signature from \"{}\", primary key {}", key.user, key.primary);
        }
        Ok(())
    }
}

fn parse(at: &str, bytes: &[u8]) -> Result<Vec<Signature>, VerifyError> {
    let mut signatures = Vec::new();
    let mut cause = None;
    for (armored, block) in blocks(bytes) {
        let parsed = if armored {
            DetachedSignature::from_armor_many_buf(block).map(|(signatures, _)| signatures)
        } else {
            DetachedSignature::from_bytes_many(block)
        };
        match parsed {
            Ok(parsed) => {
                for signature in parsed.take(SIGNATURES) {
                    match signature {
                        Ok(signature) => signatures.push(signature.signature),
                        Err(error) => {
                            // Something else begins here: the signatures of a key, say, are none of a file.
                            cause = Some(error);
                            break;
                        }
                    }
                }
            }
            Err(error) => cause = Some(error),
        }
    }
    signatures.truncate(SIGNATURES);
    if signatures.is_empty() {
        return Err(VerifyError::NoSignature { at: at.into(), source: cause.map(Into::into) });
    }
    Ok(signatures)
}

/// The keys that the signature says it is by.
fn keys_of(signature: &Signature, keys: &[Key]) -> Vec<Key> {
    let fingerprints = signature.issuer_fingerprint();
    let is_named = |key: &&Key| match &fingerprints[..] {
        [] => signature.issuer_key_id().iter().any(|id| key.has_id(id)),
        named => named.iter().any(|fingerprint| key.is(fingerprint)),
    };
    keys.iter().filter(is_named).cloned().collect()
}

fn issuer(signature: &Signature) -> String {
    let named = match (signature.issuer_fingerprint().first(), signature.issuer_key_id().first()) {
        (Some(fingerprint), _) => format!("{fingerprint:X}"),
        (None, Some(id)) => id.as_ref().iter().map(|byte| format!("{byte:02X}")).collect(),
        (None, None) => "of no name".into(),
    };
    named.chars().take(64).collect()
}

fn made(signature: &Signature) -> i64 {
    signature.created().map_or(0, |time| i64::from(time.as_secs()))
}

/// Those of the keys that may have made this signature, if it is one that says enough.
fn usable(at: &str, signature: &Signature, keys: Vec<Key>, now: i64) -> Result<Vec<Key>, VerifyError> {
    let (made, date) = (made(signature), Timestamp::from_unix_seconds);
    let mut objection = None;
    let mut good = Vec::new();
    for key in keys {
        match key.objection(made, now) {
            None => good.push(key),
            Some(reason) => {
                let (key, user) = (key.fingerprint, key.user);
                objection = Some(VerifyError::UnusableKey { at: at.into(), key, user, reason });
            }
        }
    }
    if let (true, Some(error)) = (good.is_empty(), objection) {
        return Err(error);
    }
    let key = good.first().map(|key| key.fingerprint.clone()).unwrap_or_default();
    let refuse = |reason: String| Err(VerifyError::Unacceptable { at: at.into(), key: key.clone(), reason });
    let is_six = signature.version() == SignatureVersion::V6;
    if !(is_six || signature.version() == SignatureVersion::V4) {
        return refuse("it is of an outdated version; the image must be signed anew".into());
    }
    if good.iter().any(|key| (key.version() == KeyVersion::V6) != is_six) {
        return refuse("its version is not its key's".into());
    }
    if signature.typ() != Some(SignatureType::Binary) {
        return refuse("it is not a signature of a file's very bytes".into());
    }
    match signature.hash_alg() {
        Some(hash) if is_strong(hash) => {}
        hash => {
            let hash = hash.map_or_else(|| "an unknown one".into(), |hash| hash.to_string());
            return refuse(format!("its digest is {hash}, which is too weak; SHA-256 or better is needed"));
        }
    }
    let critical_notation = signature.config().is_some_and(|config| {
        config.hashed_subpackets().any(|packet| packet.is_critical && matches!(packet.data, SubpacketData::Notation(_)))
    });
    if critical_notation {
        return refuse("it has a critical notation, and none is known here".into());
    }
    if made > now.saturating_add(CLOCK_SLACK) {
        return refuse(format!(
            "it is made at {}, which is yet to come: is the clock right, which says {}?",
            date(made),
            date(now)
        ));
    }
    let lasts =
        signature.signature_expiration_time().map(|lasts| i64::from(lasts.as_secs())).filter(|lasts| *lasts > 0);
    match lasts.map(|lasts| made.saturating_add(lasts)).filter(|expires| *expires <= now) {
        Some(expires) => refuse(format!("it expired at {}", date(expires))),
        None => Ok(good),
    }
}

/// A hash ready for the signed data.
fn hasher(signature: &Signature) -> Result<Box<dyn DynDigest + Send>, String> {
    let config = signature.config().ok_or("it is of an unknown version")?;
    let mut hasher = config.hash_alg.new_hasher().map_err(|error| error.to_string())?;
    if let SignatureVersionSpecific::V6 { salt } = &config.version_specific {
        // RFC 9580, section 5.2.4: the salt comes first, and its length is the digest's.
        if config.hash_alg.salt_len() != Some(salt.len()) {
            return Err("its salt has not the length that goes with its digest".into());
        }
        hasher.update(salt);
    }
    Ok(hasher)
}

/// The key that made the signature.
fn check<'a>(signature: &Signature, keys: &'a [Key], mut hasher: Box<dyn DynDigest + Send>) -> Option<&'a Key> {
    let config = signature.config()?;
    let len = config.hash_signature_data(&mut hasher).ok()?;
    hasher.update(&config.trailer(len).ok()?);
    let digest = hasher.finalize();
    if digest.get(..2) != signature.signed_hash_value().as_ref().map(|value| &value[..]) {
        return None;
    }
    let bytes = signature.signature()?;
    keys.iter().find(|key| key.verify(config.hash_alg, &digest, bytes).is_ok())
}
