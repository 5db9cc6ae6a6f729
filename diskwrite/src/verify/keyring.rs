//! OpenPGP public keys: where they come from, and which of their parts may sign data (RFC 9580, sections 5.2.3 and 10.1).

use super::VerifyError;
use super::packet::{PacketError, blocks, packets, tag};
use super::public_key::PublicKey;
use super::signature::{Signature, kind};
use crate::trust::Trust;
use api::Timestamp;
use kernel::order;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// All of Fedora's keys together have less than 200 KiB.
const RING_BYTES: u64 = 4 << 20;
const RING_KEYS: usize = 1000;
/// Where Fedora, RHEL and their CoreOS live images have keys, of which those below are taken, and Fedora's of later releases; the
/// second is the first as the image was built.
const SYSTEM_DIRS: [&str; 4] = [
    "/etc/pki/rpm-gpg",
    "/usr/etc/pki/rpm-gpg",
    "/usr/share/distribution-gpg-keys/fedora",
    "/usr/share/distribution-gpg-keys/redhat",
];
const DIR_FILES: usize = 1000;

/// Public keys that CoreOS images are signed with, as published; `coreos.tsv` beside them says which.
const COREOS_KEYS: &[u8] = include_bytes!("../../keys/coreos.asc");

/// A key that signatures name, with what its owner says about it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub public: PublicKey,
    /// The primary key's fingerprint, in capitals.
    pub primary: String,
    /// Its own fingerprint, in capitals.
    pub fingerprint: String,
    /// The primary user id, fit to be printed.
    pub user: String,
    /// Seconds since 1970.
    pub created: i64,
    /// Seconds since 1970.
    pub expires: Option<i64>,
    /// Why it may never vouch for anything.
    pub flaw: Option<&'static str>,
}

/// What a key file holds.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub keys: Vec<Key>,
    pub error: Option<String>,
}

impl Key {
    /// What speaks against a signature of `made`, looked at `now`.
    pub(crate) fn objection(&self, made: i64, now: i64) -> Option<String> {
        let date = Timestamp::from_unix_seconds;
        if let Some(flaw) = self.flaw {
            return Some(flaw.into());
        }
        if self.created > now {
            let (created, now) = (date(self.created), date(now));
            return Some(format!("it was created at {created}, in the future: check the clock, which says {now}"));
        }
        if made < self.created {
            return Some(format!("it was created at {}, after the signature of {}", date(self.created), date(made)));
        }
        let expires = self.expires.filter(|expires| *expires <= now)?;
        Some(format!("it expired at {}; a current key file may have a later date", date(expires)))
    }
}

/// Text from outside, on one line and without control characters.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(200).map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// The keys that may have signed an image: those of CoreOS and those of the key rings, or the latter alone.
pub(super) fn trusted(trust: &Trust) -> Result<Vec<Key>, VerifyError> {
    let named = read_all(&trust.keyrings)?;
    if trust.keyrings_only {
        return Ok(named);
    }
    let mut keys = of_coreos();
    named.into_iter().for_each(|key| add(&mut keys, key));
    Ok(keys)
}

/// All keys of these files, each of which must have one.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Key>, VerifyError> {
    let mut all = Vec::new();
    for path in paths {
        let Keys { keys, error } =
            parse(&read(path).map_err(|source| VerifyError::ReadKey { path: path.clone(), source })?);
        match (keys.is_empty(), error) {
            (true, reason) => return Err(VerifyError::NoKey { path: path.clone(), reason }),
            (false, Some(error)) => tracing::warn!("a part of {} is not a public key: {error}", path.display()),
            (false, None) => {}
        }
        all.extend(keys);
    }
    Ok(all)
}

/// The keys CoreOS signs with: those built in, and what the running system has of them and of Fedora's later ones.
pub(super) fn of_coreos() -> Vec<Key> {
    with_dirs(&SYSTEM_DIRS.map(Path::new), parse(COREOS_KEYS).keys)
}

/// `RPM-GPG-KEY-fedora-47-primary`: only root can have put it among the system's keys.
fn is_fedoras(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let release = name.strip_prefix("RPM-GPG-KEY-fedora-").and_then(|rest| rest.strip_suffix("-primary"));
    release.is_some_and(|release| !release.is_empty() && release.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `known`, and what lies in these directories of the same primary keys (a subkey, or a later date) and of Fedora's own. What
/// can't be read counts as missing.
pub(super) fn with_dirs(dirs: &[&Path], known: Vec<Key>) -> Vec<Key> {
    let primaries: Vec<_> = known.iter().map(|key| key.primary.clone()).collect();
    let mut found = known;
    for dir in dirs {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        let mut paths: Vec<_> = entries.take(DIR_FILES).filter_map(|entry| Some(entry.ok()?.path())).collect();
        order::sort(&mut paths);
        for path in paths.iter().filter(|path| path.is_file()) {
            let keys = read(path).map(|bytes| parse(&bytes).keys).unwrap_or_default();
            for key in keys.into_iter().filter(|key| is_fedoras(path) || primaries.contains(&key.primary)) {
                // The same key lies there under several names.
                add(&mut found, key);
            }
        }
    }
    found
}

/// A key that is known already may have got a later date, or been revoked.
fn add(known: &mut Vec<Key>, key: Key) {
    match known.iter_mut().find(|known| known.fingerprint == key.fingerprint) {
        Some(known) if known.flaw.is_none() && is_later(key.expires, known.expires) => *known = key,
        Some(known) if key.flaw.is_some() => *known = key,
        Some(_) => {}
        None => known.push(key),
    }
}

/// None is never.
fn is_later(expires: Option<i64>, than: Option<i64>) -> bool {
    than.is_some_and(|than| expires.is_none_or(|expires| expires > than))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(RING_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A primary key with what its owner, and others, say about it.
struct Certificate {
    primary: PublicKey,
    /// Of the primary key alone.
    signatures: Vec<Signature>,
    users: Vec<(Vec<u8>, Vec<Signature>)>,
    subkeys: Vec<(PublicKey, Vec<Signature>)>,
}

/// All keys of a key file's bytes.
pub(crate) fn parse(bytes: &[u8]) -> Keys {
    let mut all = Keys::default();
    for block in blocks(bytes) {
        let (certificates, error) = match block {
            Ok(block) => certificates(&block),
            Err(error) => (Vec::new(), Some(error)),
        };
        all.error = error.map(|error| error.to_string()).or(all.error);
        all.keys.extend(certificates.iter().flat_map(signers));
    }
    all
}

/// The keys of binary data, and what is wrong in it: a key that can't be read is left out with all that belongs to it.
fn certificates(bytes: &[u8]) -> (Vec<Certificate>, Option<PacketError>) {
    /// What the signatures that come are of.
    enum Signed {
        Primary,
        User,
        Subkey,
        Nothing,
    }
    let mut all: Vec<Certificate> = Vec::new();
    let mut error = None;
    let mut signed = Signed::Nothing;
    let mut in_key = false;
    for packet in packets(bytes) {
        let packet = match packet {
            Ok(packet) => packet,
            Err(cause) => {
                error = Some(cause);
                break;
            }
        };
        if packet.tag == tag::PUBLIC_KEY {
            (in_key, signed) = (all.len() < RING_KEYS, Signed::Nothing);
            if !in_key {
                break;
            }
            match PublicKey::parse(packet.body) {
                Ok(primary) => {
                    all.push(Certificate { primary, signatures: Vec::new(), users: Vec::new(), subkeys: Vec::new() });
                    signed = Signed::Primary;
                }
                Err(cause) => {
                    error = Some(cause);
                    in_key = false;
                }
            }
            continue;
        }
        let Some(certificate) = all.last_mut().filter(|_| in_key) else {
            error = error.or(Some(PacketError::Type(packet.tag)));
            continue;
        };
        match packet.tag {
            tag::USER_ID => {
                certificate.users.push((packet.body.to_vec(), Vec::new()));
                signed = Signed::User;
            }
            tag::PUBLIC_SUBKEY => match PublicKey::parse(packet.body) {
                Ok(subkey) => {
                    certificate.subkeys.push((subkey, Vec::new()));
                    signed = Signed::Subkey;
                }
                Err(cause) => (error, signed) = (Some(cause), Signed::Nothing),
            },
            tag::SIGNATURE => {
                let signatures = match signed {
                    Signed::Primary => Some(&mut certificate.signatures),
                    Signed::User => certificate.users.last_mut().map(|(_, signatures)| signatures),
                    Signed::Subkey => certificate.subkeys.last_mut().map(|(_, signatures)| signatures),
                    Signed::Nothing => None,
                };
                // Those of others, and of versions that are long gone, need not be understood.
                if let (Some(signatures), Ok(signature)) = (signatures, Signature::parse(packet.body)) {
                    signatures.push(signature);
                }
            }
            tag::TRUST => {}
            // A picture, say: its signatures are of it.
            _ => signed = Signed::Nothing,
        }
    }
    (all, error)
}

/// The primary key and its subkeys, each with what speaks against it.
fn signers(certificate: &Certificate) -> Vec<Key> {
    let primary = primary(certificate);
    let mut all: Vec<_> =
        certificate.subkeys.iter().map(|(key, signatures)| subkey(certificate, key, signatures, &primary)).collect();
    all.insert(0, primary);
    all
}

/// A fingerprint or key id in hexadecimal.
pub(super) fn capitals(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn expiry(signature: &Signature, key: &PublicKey) -> Option<i64> {
    signature.key_expires_after.map(|after| i64::from(key.created).saturating_add(after))
}

/// The latest of the key's signatures of itself decides. That one of them is by SHA-1, as with keys of 2009, does no harm: the
/// key itself is trusted for its file or fingerprint, and made them with its own hand.
fn primary(certificate: &Certificate) -> Key {
    let key = &certificate.primary;
    let of_key = |kind| {
        let valid = move |signature: &&Signature| signature.kind == kind && signature.certifies(key, &[&key.framed]);
        certificate.signatures.iter().filter(valid)
    };
    let revoked = of_key(kind::KEY_REVOCATION).next().is_some();
    let mut signatures: Vec<_> = of_key(kind::DIRECT_KEY).collect();
    let mut users = Vec::new();
    for (user, about) in &certificate.users {
        let prefix = [&[0xB4][..], &u32::try_from(user.len()).unwrap_or(u32::MAX).to_be_bytes()].concat();
        let valid = |signature: &&Signature| {
            (kind::CERTIFICATIONS.contains(&signature.kind) || signature.kind == kind::CERTIFICATION_REVOCATION)
                && signature.certifies(key, &[&key.framed, &prefix, user])
        };
        // A later revocation takes a user id out, whatever was said before.
        let latest = about.iter().filter(valid).max_by_key(|signature| signature.created);
        if let Some(latest) = latest.filter(|signature| signature.kind != kind::CERTIFICATION_REVOCATION) {
            users.push((latest.is_primary_user, latest.created, String::from_utf8_lossy(user).into_owned()));
            signatures.push(latest);
        }
    }
    let latest = signatures.into_iter().max_by_key(|signature| signature.created);
    let flaw = match latest {
        _ if key.flaw().is_some() => key.flaw(),
        _ if revoked => Some("its owner has revoked it"),
        None => Some("it has no valid self-signature"),
        Some(signature) if signature.may_sign == Some(false) => Some("its owner says that it is not for signing data"),
        Some(_) => None,
    };
    let user = users.into_iter().max_by_key(|(primary, created, _)| (*primary, *created));
    Key {
        public: key.clone(),
        primary: capitals(&key.fingerprint),
        fingerprint: capitals(&key.fingerprint),
        user: user.map_or_else(|| "no user id".into(), |(_, _, id)| printable(&id)),
        created: key.created.into(),
        expires: latest.and_then(|signature| expiry(signature, key)),
        flaw,
    }
}

/// A subkey signs for its primary key only where both say so: the primary key's binding, and in it the subkey's own.
fn subkey(certificate: &Certificate, subkey: &PublicKey, signatures: &[Signature], primary: &Key) -> Key {
    let owner = &certificate.primary;
    let both = [&owner.framed[..], &subkey.framed];
    // To stop something, the weakest digest will do.
    let mut revocations = signatures.iter().filter(|signature| signature.kind == kind::SUBKEY_REVOCATION);
    let revoked = revocations.any(|signature| signature.certifies(owner, &both));
    let valid = |signature: &&Signature| {
        signature.kind == kind::SUBKEY_BINDING && signature.is_strong() && signature.certifies(owner, &both)
    };
    let binding = signatures.iter().filter(valid).max_by_key(|signature| signature.created);
    let signed_back = |binding: &Signature| {
        binding
            .embedded()
            .any(|back| back.kind == kind::PRIMARY_KEY_BINDING && back.is_strong() && back.certifies(subkey, &both))
    };
    let of_owner = match primary.flaw {
        Some(flaw) if flaw.contains("not for signing") => None,
        flaw => flaw,
    };
    let flaw = match binding {
        _ if of_owner.is_some() => of_owner,
        _ if revoked => Some("its owner has revoked this subkey"),
        None => Some("its primary key has no valid signature of this subkey (binding)"),
        Some(binding) if binding.may_sign != Some(true) => {
            Some("its owner says that this subkey is not for signing data")
        }
        Some(_) if subkey.flaw().is_some() => subkey.flaw(),
        Some(binding) if !signed_back(binding) => Some("this subkey has not signed its primary key (back-signature)"),
        Some(_) => None,
    };
    let expires = binding.and_then(|signature| expiry(signature, subkey));
    Key {
        public: subkey.clone(),
        primary: primary.primary.clone(),
        fingerprint: capitals(&subkey.fingerprint),
        user: primary.user.clone(),
        created: subkey.created.into(),
        expires: expires.into_iter().chain(primary.expires).min(),
        flaw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../keys/coreos.tsv");

    #[test]
    fn the_built_in_keys_are_those_of_the_table() {
        let date = |seconds: i64| Timestamp::from_unix_seconds(seconds).to_string()[..10].to_owned();
        let line = |key: &Key| {
            let expires = key.expires.map_or_else(|| "never".to_owned(), date);
            [&key.fingerprint, &key.user, &date(key.created), &expires].map(String::as_str).join("\t")
        };
        let Keys { keys, error } = parse(COREOS_KEYS);
        assert_eq!(error, None);
        let lines: Vec<_> = keys.iter().map(line).collect();
        let table: Vec<_> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, table);
        assert!(keys.iter().all(|key| key.flaw.is_none()), "{keys:?}");
    }

    #[test]
    fn fedoras_keys_are_known_by_their_files() {
        for (name, expected) in [
            ("RPM-GPG-KEY-fedora-47-primary", true),
            ("RPM-GPG-KEY-fedora-primary", false),
            ("RPM-GPG-KEY-fedora--primary", false),
            ("RPM-GPG-KEY-fedora-47-secondary", false),
            ("RPM-GPG-KEY-EPEL-9", false),
            ("x-RPM-GPG-KEY-fedora-47-primary", false),
        ] {
            assert_eq!(is_fedoras(&Path::new("/etc/pki/rpm-gpg").join(name)), expected, "{name}");
        }
    }
}
