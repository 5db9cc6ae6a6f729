//! Detached OpenPGP signatures of the source (RFC 9580, section 10.4).

use super::keyring::{Key, capitals};
use super::packet::{PacketError, blocks, packets, tag};
use super::signature::{Signature, kind};
use super::{Tap, VerifyError};
use api::Timestamp;
use ring::digest::Context;

/// Each trusted one costs a hash over the whole image.
const SIGNATURES: usize = 8;
/// A clock may be a day behind the signer's.
const CLOCK_SLACK: i64 = 24 * 3600;

/// A signature by a key that is trusted, and the hash of what it signs.
struct Candidate {
    signature: Signature,
    /// Several only where it names its key by id, which is short enough for others to share.
    keys: Vec<Key>,
    digest: Context,
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
                Ok(keys) => match signature.context() {
                    Ok(digest) => candidates.push(Candidate { signature, keys, digest }),
                    Err(reason) => {
                        objection = Some(VerifyError::Unacceptable { at: at.clone(), key, reason: reason.into() });
                    }
                },
                Err(error) => objection = Some(error),
            }
        }
        if !candidates.is_empty() {
            if let Some(error) = objection {
                tracing::warn!("ignoring one of several signatures: {error}");
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
        self.candidates.iter_mut().for_each(|candidate| candidate.digest.update(bytes));
    }

    /// One good signature is enough, but a trusted key's bad one means that something is wrong.
    fn finish(self: Box<Self>) -> Result<(), VerifyError> {
        for Candidate { signature, keys, digest } in self.candidates {
            let made = Timestamp::from_unix_seconds(signature.created);
            let maker = signature.maker(keys.iter().map(|key| &key.public), digest);
            let Some(key) = maker.and_then(|maker| keys.iter().find(|key| std::ptr::eq(&key.public, maker))) else {
                let key = keys.first();
                let text = |of: fn(&Key) -> &String| key.map(of).cloned().unwrap_or_default();
                return Err(VerifyError::Bad {
                    at: self.at,
                    key: text(|key| &key.fingerprint),
                    user: text(|key| &key.user),
                });
            };
            tracing::info!("Signature made {made} using {} key {}", key.public.algorithm(), key.fingerprint);
            tracing::info!("Good signature from \"{}\", primary key {}", key.user, key.primary);
        }
        Ok(())
    }
}

fn parse(at: &str, bytes: &[u8]) -> Result<Vec<Signature>, VerifyError> {
    let mut signatures = Vec::new();
    let mut cause = None;
    for block in blocks(bytes) {
        let read = block.and_then(|block| {
            for packet in packets(&block) {
                let packet = packet?;
                // Something else begins here: signatures of a key, say, are not signatures of a file.
                if packet.tag != tag::SIGNATURE {
                    return Err(PacketError::Type(packet.tag));
                }
                signatures.push(Signature::parse(packet.body)?);
            }
            Ok(())
        });
        cause = read.err().or(cause);
    }
    signatures.truncate(SIGNATURES);
    if signatures.is_empty() {
        return Err(VerifyError::NoSignature { at: at.into(), source: cause.map(Into::into) });
    }
    Ok(signatures)
}

/// The keys that the signature says it is by.
fn keys_of(signature: &Signature, keys: &[Key]) -> Vec<Key> {
    keys.iter().filter(|key| signature.is_by(&key.public)).cloned().collect()
}

fn issuer(signature: &Signature) -> String {
    let named = signature.issuer_fingerprints.first().map(Vec::as_slice);
    let named = named.or(signature.issuer_ids.first().map(<[u8; 8]>::as_slice));
    named.map_or_else(|| "(unnamed)".into(), |named| capitals(named.get(..32).unwrap_or(named)))
}

/// Those of the keys that may have made this signature, if it is one that says enough.
fn usable(at: &str, signature: &Signature, keys: Vec<Key>, now: i64) -> Result<Vec<Key>, VerifyError> {
    let (made, date) = (signature.created, Timestamp::from_unix_seconds);
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
    if !matches!(signature.version, 4 | 6) {
        return refuse("its version is outdated; the image must be signed again".into());
    }
    if good.iter().any(|key| key.public.version != signature.version) {
        return refuse("its version differs from its key's".into());
    }
    if signature.kind != kind::BINARY {
        return refuse("it is not a signature of a binary file".into());
    }
    match signature.hash() {
        Ok(hash) if hash.is_strong() => {}
        Ok(_) => return refuse("its digest is SHA1, which is too weak; SHA-256 or better is needed".into()),
        Err(hash) => return refuse(format!("its digest is {hash}; SHA-256, SHA-384 or SHA-512 is needed")),
    }
    if let Some(reason) = signature.objection() {
        return refuse(reason);
    }
    if made > now.saturating_add(CLOCK_SLACK) {
        return refuse(format!(
            "it was made at {}, in the future: check the clock, which says {}",
            date(made),
            date(now)
        ));
    }
    match signature.expires_after.map(|after| made.saturating_add(after)).filter(|expires| *expires <= now) {
        Some(expires) => refuse(format!("it expired at {}", date(expires))),
        None => Ok(good),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::verify::keyring::parse as parse_keys;
    use ring::signature::Ed25519KeyPair;

    /// The certificate of RFC 9580, appendix A.3, and the seed of its key, of appendix A.4.
    const CERTIFICATE: &[u8] = b"-----BEGIN PGP PUBLIC KEY BLOCK-----

xioGY4d/4xsAAAAg+U2nu0jWCmHlZ3BqZYfQMxmZu52JGggkLq2EVD34laPCsQYf
GwoAAABCBYJjh3/jAwsJBwUVCg4IDAIWAAKbAwIeCSIhBssYbE8GCaaX5NUt+mxy
KwwfHifBilZwj2Ul7Ce62azJBScJAgcCAAAAAK0oIBA+LX0ifsDm185Ecds2v8lw
gyU2kCcUmKfvBXbAf6rhRYWzuQOwEn7E/aLwIwRaLsdry0+VcallHhSu4RN6HWaE
QsiPlR4zxP/TP7mhfVEe7XWPxtnMUMtf15OyA51YBM4qBmOHf+MZAAAAIIaTJINn
+eUBXbki+PSAld2nhJh/LVmFsS+60WyvXkQ1wpsGGBsKAAAALAWCY4d/4wKbDCIh
BssYbE8GCaaX5NUt+mxyKwwfHifBilZwj2Ul7Ce62azJAAAAAAQBIKbpGG2dWTX8
j+VjFM21J0hqWlEg+bdiojWnKfA5AQpWUWtnNwDEM0g12vYxoWM8Y81W+bHBw805
I8kWVkXU6vFOi+HWvv/ira7ofJu16NnoUkhclkUrk0mXubZvyl4GBg==
-----END PGP PUBLIC KEY BLOCK-----
";
    const SEED: [u8; 32] = *b"\x19\x72\x81\x7b\x12\xbe\x70\x7e\x8d\x5f\x58\x6c\xe6\x13\x61\x20\x1d\x34\x4e\xb2\x66\xa2\xc8\x2f\xde\x68\x35\x76\x2b\x65\xb0\xb7";
    const FINGERPRINT: &str = "CB186C4F0609A697E4D52DFA6C722B0C1F1E27C18A56708F6525EC27BAD9ACC9";
    const DATA: &[u8] = b"an image";
    const NOW: i64 = 1_700_000_000;

    /// A signature of version 6 by that key: Ed25519 of a SHA-256, with these subpackets after the time.
    fn sign(salt: &[u8], subpackets: &[u8]) -> Vec<u8> {
        let keys = parse_keys(CERTIFICATE).keys;
        let created = u32::try_from(NOW - 10).unwrap().to_be_bytes();
        let area = [&[5, 2][..], &created, &[34, 33, 6], &keys[0].public.fingerprint, subpackets].concat();
        let len = u32::try_from(area.len()).unwrap().to_be_bytes();
        let hashed = [&[6, kind::BINARY, 27, 8][..], &len, &area].concat();
        let trailer = [&[6, 0xFF][..], &u32::try_from(hashed.len()).unwrap().to_be_bytes()].concat();
        let digest = ring::digest::digest(&ring::digest::SHA256, &[salt, DATA, &hashed, &trailer].concat());
        let signature = Ed25519KeyPair::from_seed_unchecked(&SEED).unwrap().sign(digest.as_ref());
        let salt = [&[u8::try_from(salt.len()).unwrap()], salt].concat();
        let body = [&hashed[..], &[0; 4], &digest.as_ref()[..2], &salt, signature.as_ref()].concat();
        [&[0xC2, 255][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
    }

    fn check(signature: &[u8], data: &[u8]) -> Result<(), VerifyError> {
        let mut tap = Box::new(OpenPgp::new("a.sig".into(), signature, &parse_keys(CERTIFICATE).keys, NOW)?);
        tap.update(data);
        tap.finish()
    }

    #[test]
    fn the_certificate_of_the_standard_is_read() {
        let keys = parse_keys(CERTIFICATE);
        assert_eq!(keys.error, None);
        let [primary, subkey] = &keys.keys[..] else { panic!("{keys:?}") };
        assert_eq!((primary.fingerprint.as_str(), primary.flaw, primary.public.version), (FINGERPRINT, None, 6));
        assert!(subkey.flaw.unwrap().contains("not for signing"), "{subkey:?}");
        // With one bit of it changed it no longer vouches for itself.
        let mut bytes = blocks(CERTIFICATE).remove(0).unwrap();
        bytes[60] ^= 1;
        let keys = parse_keys(&bytes).keys;
        assert_eq!(keys[0].flaw, Some("it has no valid self-signature"));
    }

    #[test]
    fn signatures_of_version_6_are_good_or_bad() {
        check(&sign(&[7; 16], &[]), DATA).unwrap();
        assert!(matches!(check(&sign(&[7; 16], &[]), b"another image"), Err(VerifyError::Bad { .. })));
        let reason = |signature: &[u8]| match check(signature, DATA).unwrap_err() {
            VerifyError::Unacceptable { key, reason, .. } if key == FINGERPRINT => reason,
            error => panic!("{error}"),
        };
        assert_eq!(reason(&sign(&[7; 15], &[])), "its salt is not as long as its digest requires");
        assert!(reason(&sign(&[7; 16], &[1, 0x80 | 99])).contains("critical subpacket of type 99"));
        check(&sign(&[7; 16], &[1, 99]), DATA).unwrap();
        assert!(reason(&sign(&[7; 16], &[5, 3, 0, 0, 0, 5])).contains("it expired at"));
        let id = &parse_keys(CERTIFICATE).keys[0].public.fingerprint[..8];
        let of_version_3 = [&[0xC2, 19, 3, 5, 0, 0x65, 0, 0, 0][..], id, &[27, 8, 0, 0]].concat();
        assert_eq!(reason(&of_version_3), "its version is outdated; the image must be signed again");
    }
}
