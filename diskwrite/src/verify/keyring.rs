//! OpenPGP public keys: where they come from, and which of their parts may sign data (RFC 9580, sections 5.2.3 and 10.1).

use super::VerifyError;
use crate::trust::Trust;
use api::Timestamp;
use kernel::order;
use pgp::{
    composed::{Deserializable, SignedPublicKey, SignedPublicSubKey},
    crypto::hash::HashAlgorithm,
    errors::Error as PgpError,
    packet::{PublicKey, PublicSubkey, Signature, SignatureType, SubpacketData},
    types::{Fingerprint, KeyDetails, KeyId, KeyVersion, SignatureBytes, Tag, VerifyingKey},
};
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

/// A primary key or subkey.
#[derive(Clone, Debug)]
enum Part {
    Primary(PublicKey),
    Sub(PublicSubkey),
}

/// A key that signatures name, with what its owner says about it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    part: Part,
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
    pub(crate) fn is(&self, fingerprint: &Fingerprint) -> bool {
        self.details().fingerprint() == *fingerprint
    }

    pub(crate) fn has_id(&self, id: &KeyId) -> bool {
        self.details().legacy_key_id() == *id
    }

    pub(crate) fn version(&self) -> KeyVersion {
        self.details().version()
    }

    pub(crate) fn algorithm(&self) -> String {
        format!("{:?}", self.details().algorithm())
    }

    /// Whether the key made this signature of a digest.
    pub(crate) fn verify(
        &self,
        hash: HashAlgorithm,
        digest: &[u8],
        signature: &SignatureBytes,
    ) -> Result<(), PgpError> {
        match &self.part {
            Part::Primary(key) => key.verify(hash, digest, signature),
            Part::Sub(key) => key.verify(hash, digest, signature),
        }
    }

    /// What speaks against a signature of `made`, looked at `now`.
    pub(crate) fn objection(&self, made: i64, now: i64) -> Option<String> {
        let date = Timestamp::from_unix_seconds;
        if let Some(flaw) = self.flaw {
            return Some(flaw.into());
        }
        if self.created > now {
            let (created, now) = (date(self.created), date(now));
            return Some(format!(
                "it is made at {created}, which is yet to come: is the clock right, which says {now}?"
            ));
        }
        if made < self.created {
            return Some(format!("it is younger, of {}, than the signature, of {}", date(self.created), date(made)));
        }
        let expires = self.expires.filter(|expires| *expires <= now)?;
        Some(format!("it expired at {}; a key file of today may have a later date", date(expires)))
    }

    fn details(&self) -> &dyn KeyDetails {
        match &self.part {
            Part::Primary(key) => key,
            Part::Sub(key) => key,
        }
    }
}

/// What others wrote, on one line and without control characters.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(200).map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// Digests nobody can make another text for.
pub(super) fn is_strong(hash: HashAlgorithm) -> bool {
    use HashAlgorithm::*;
    matches!(hash, Sha256 | Sha384 | Sha512 | Sha3_256 | Sha3_512)
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
/// can't be read is as if it were not there.
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

/// The pieces to parse: a binary file is one, an armored one has one for each of its whole blocks. What is between them, as
/// `gpg --list-keys` writes it there, does not matter.
pub(super) fn blocks(bytes: &[u8]) -> Vec<(bool, &[u8])> {
    const BEGIN: &[u8] = b"-----BEGIN PGP ";
    const END: &[u8] = b"-----END PGP ";
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        return vec![(false, bytes)];
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, *at, line))
    });
    let mut blocks = Vec::new();
    let mut start = None;
    for (from, to, line) in lines {
        if line.starts_with(BEGIN) {
            start = Some(from);
        } else if line.starts_with(END)
            && let Some(start) = start.take()
        {
            blocks.extend(bytes.get(start..to).map(|block| (true, block)));
        }
    }
    blocks.truncate(RING_KEYS);
    blocks
}

/// All keys of a key file's bytes.
pub(crate) fn parse(bytes: &[u8]) -> Keys {
    let mut all = Keys::default();
    for (armored, block) in blocks(bytes) {
        let parsed = if armored {
            SignedPublicKey::from_armor_many_buf(block).map(|(keys, _)| keys)
        } else {
            SignedPublicKey::from_bytes_many(block)
        };
        match parsed {
            Ok(keys) => {
                for key in keys.take(RING_KEYS) {
                    match key {
                        Ok(key) => all.keys.extend(signers(&key)),
                        Err(error) => all.error = Some(printable(&error.to_string())),
                    }
                }
            }
            Err(error) => all.error = Some(printable(&error.to_string())),
        }
    }
    all
}

/// The primary key and its subkeys, each with what speaks against it.
fn signers(key: &SignedPublicKey) -> Vec<Key> {
    let primary = primary(key);
    let mut all: Vec<_> = key.public_subkeys.iter().map(|sub| subkey(key, sub, &primary)).collect();
    all.insert(0, primary);
    all
}

fn capitals(key: &impl KeyDetails) -> String {
    format!("{:X}", key.fingerprint())
}

fn created(signature: &Signature) -> i64 {
    signature.created().map_or(0, |time| i64::from(time.as_secs()))
}

/// Zero and none both mean never.
fn expiry(signature: &Signature, key: &impl KeyDetails) -> Option<i64> {
    let after = signature.key_expiration_time().map(|after| i64::from(after.as_secs())).filter(|after| *after > 0)?;
    Some(i64::from(key.created_at().as_secs()).saturating_add(after))
}

/// None where nothing is said.
fn may_sign(signature: &Signature) -> Option<bool> {
    let mut flags = signature.config()?.hashed_subpackets().filter_map(|packet| match &packet.data {
        SubpacketData::KeyFlags(flags) => Some(flags.sign()),
        _ => None,
    });
    flags.next()
}

/// The latest of the key's signatures of itself decides. That one of them is by SHA-1, as with keys of 2009, does no harm: the
/// key itself is trusted for its file or fingerprint, and made them with its own hand.
fn primary(key: &SignedPublicKey) -> Key {
    let primary_key = &key.primary_key;
    let of_key = |kind, signatures: &[Signature]| -> Vec<Signature> {
        let valid = |signature: &&Signature| signature.typ() == Some(kind) && signature.verify_key(primary_key).is_ok();
        signatures.iter().filter(valid).cloned().collect()
    };
    let revoked = !of_key(SignatureType::KeyRevocation, &key.details.revocation_signatures).is_empty();
    let mut signatures = of_key(SignatureType::Key, &key.details.direct_signatures);
    let mut users = Vec::new();
    for user in &key.details.users {
        let valid = |signature: &&Signature| signature.verify_certification(primary_key, Tag::UserId, &user.id).is_ok();
        // A later revocation takes a user id out, whatever was said before.
        let latest = user.signatures.iter().filter(valid).max_by_key(|signature| created(signature));
        if let Some(latest) = latest.filter(|signature| signature.typ() != Some(SignatureType::CertRevocation)) {
            users.push((latest.is_primary(), created(latest), String::from_utf8_lossy(user.id.id()).into_owned()));
            signatures.push(latest.clone());
        }
    }
    let latest = signatures.iter().max_by_key(|signature| created(signature));
    let flaw = match latest {
        _ if revoked => Some("its owner has revoked it"),
        None => Some("it has no valid signature of its own (self-signature)"),
        Some(_) if !matches!(primary_key.version(), KeyVersion::V4 | KeyVersion::V6) => {
            Some("it is of an outdated version")
        }
        Some(signature) if may_sign(signature) == Some(false) => Some("its owner says that it is not for signing data"),
        Some(_) => None,
    };
    let user = users.into_iter().max_by_key(|(primary, created, _)| (*primary, *created));
    Key {
        part: Part::Primary(primary_key.clone()),
        primary: capitals(primary_key),
        fingerprint: capitals(primary_key),
        user: user.map_or_else(|| "no user id".into(), |(_, _, id)| printable(&id)),
        created: i64::from(primary_key.created_at().as_secs()),
        expires: latest.and_then(|signature| expiry(signature, primary_key)),
        flaw,
    }
}

/// A subkey signs for its primary key only where both say so: the primary key's binding, and in it the subkey's own.
fn subkey(key: &SignedPublicKey, sub: &SignedPublicSubKey, primary: &Key) -> Key {
    let (subkey, owner) = (&sub.key, &key.primary_key);
    let valid = |signature: &&Signature| {
        signature.hash_alg().is_some_and(is_strong) && signature.verify_subkey_binding(owner, subkey).is_ok()
    };
    let is_revocation = |signature: &&Signature| signature.typ() == Some(SignatureType::SubkeyRevocation);
    // To stop something, the weakest digest will do.
    let mut revocations = sub.signatures.iter().filter(is_revocation);
    let revoked = revocations.any(|signature| signature.verify_subkey_binding(owner, subkey).is_ok());
    let bindings = sub.signatures.iter().filter(|signature| !is_revocation(signature)).filter(valid);
    let binding = bindings.max_by_key(|signature| created(signature));
    let signed_back = |signature: &Signature| {
        let back = signature.embedded_signature();
        back.is_some_and(|back| {
            back.hash_alg().is_some_and(is_strong) && back.verify_primary_key_binding(subkey, owner).is_ok()
        })
    };
    let of_owner = match primary.flaw {
        Some(flaw) if flaw.contains("not for signing") => None,
        flaw => flaw,
    };
    let flaw = match binding {
        _ if of_owner.is_some() => of_owner,
        _ if revoked => Some("its owner has revoked this subkey"),
        None => Some("its primary key has no valid signature of this subkey (binding)"),
        Some(binding) if may_sign(binding) != Some(true) => {
            Some("its owner says that this subkey is not for signing data")
        }
        Some(binding) if !signed_back(binding) => Some("this subkey has not signed its primary key (back-signature)"),
        Some(_) => None,
    };
    let expires = binding.and_then(|signature| expiry(signature, subkey));
    Key {
        part: Part::Sub(subkey.clone()),
        primary: primary.primary.clone(),
        fingerprint: capitals(subkey),
        user: primary.user.clone(),
        created: i64::from(subkey.created_at().as_secs()),
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
