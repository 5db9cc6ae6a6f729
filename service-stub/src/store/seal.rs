//! Encryption of records at rest: a copy of the store's file is unreadable without the key.
//!
//! An encrypted record is a byte that no JSON document starts with, a nonce, and the document encrypted with AES-256-GCM. Its
//! kind and name are authenticated: no record can replace another. Records of earlier versions are plain documents, which are
//! encrypted at the next start.

use crate::auth::keys::write_new;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    rand::{SecureRandom, SystemRandom},
};
use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Name of the stored key in the state directory.
pub(crate) const FILE: &str = "secrets-key";
/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// A sealed record starts with it.
const SEALED: u8 = 1;

/// A record or key that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key's file can't be read or written.
    #[error("cannot use the key file {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is not a key for the store: it must be exactly {KEY_BYTES} bytes (head -c {KEY_BYTES} /dev/urandom makes one)", path.display())]
    Key { path: PathBuf },
    /// The records are encrypted with another key.
    #[error(
        "the store is encrypted with another key: give it with --secrets-key, or restore it as {FILE} in the state directory"
    )]
    Foreign,
    #[error("the system has no random numbers")]
    Random,
}

/// Encrypts and decrypts records.
pub(crate) struct Seal {
    key: LessSafeKey,
    fingerprint: u64,
    random: SystemRandom,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(*****)")
    }
}

impl Seal {
    /// With these bytes as its key; `None` if there are too many or too few.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let unbound = UnboundKey::new(&AES_256_GCM, key).ok()?;
        let digest = digest::digest(&digest::SHA256, &[b"key of a store: ", key].concat());
        let fingerprint = digest.as_ref().first_chunk().map_or(0, |start| u64::from_le_bytes(*start));
        Some(Self { key: LessSafeKey::new(unbound), fingerprint, random: SystemRandom::new() })
    }

    /// With the key in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, SealError> {
        let at = |source| SealError::File { path: path.into(), source };
        let mut key = Vec::new();
        // One byte more than a key has, to detect a longer file.
        let limit = u64::try_from(KEY_BYTES).unwrap_or(0).saturating_add(1);
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut key)).map_err(at)?;
        Self::new(&key).ok_or_else(|| SealError::Key { path: path.into() })
    }

    /// With the key in the state directory, created if missing (mode 0600).
    pub(crate) fn load_or_create(directory: &Path) -> Result<Self, SealError> {
        let path = directory.join(FILE);
        match Self::read(&path) {
            Err(SealError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).map_err(|_| SealError::Random)?;
        write_new(&path, &key).map_err(|source| SealError::File { path: path.clone(), source })?;
        Self::new(&key).ok_or(SealError::Key { path })
    }

    /// Encrypts a record's document.
    pub(crate) fn seal(&self, kind: &str, key: &str, mut document: Vec<u8>) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| SealError::Random)?;
        let name = format!("{kind} {key}");
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name.as_bytes()), &mut document)
            .map_err(|_| SealError::Random)?;
        let mut sealed = Vec::with_capacity(1 + NONCE_LEN + document.len());
        sealed.push(SEALED);
        sealed.extend_from_slice(&nonce);
        sealed.append(&mut document);
        Ok(sealed)
    }

    /// Decrypts a record's document; returns a plain one as it is.
    pub(crate) fn open(&self, kind: &str, key: &str, record: &[u8]) -> Result<Vec<u8>, SealError> {
        let Some(sealed) = record.strip_prefix(&[SEALED]) else { return Ok(record.to_vec()) };
        let (nonce, document) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(SealError::Foreign)?;
        let mut document = document.to_vec();
        let name = format!("{kind} {key}");
        let opened = self
            .key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(name.as_bytes()), &mut document)
            .map_err(|_| SealError::Foreign)?
            .len();
        document.truncate(opened);
        Ok(document)
    }

    /// Identifies the key.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(crate) fn is_sealed(record: &[u8]) -> bool {
        record.first() == Some(&SEALED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_sealed_is_opened_with_its_key_in_its_place_only() {
        let directory = tempfile::tempdir().unwrap();
        let seal = Seal::load_or_create(directory.path()).unwrap();
        let mode = directory.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let sealed = seal.seal("cluster", "a", b"{\"pull_secret\":\"hunter2\"}".to_vec()).unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        let again = Seal::load_or_create(directory.path()).unwrap();
        assert_eq!(again.open("cluster", "a", &sealed).unwrap(), b"{\"pull_secret\":\"hunter2\"}");
        assert_eq!(again.open("cluster", "a", b"{}").unwrap(), b"{}", "from before");
        for (kind, key) in [("cluster", "b"), ("host", "a")] {
            assert!(matches!(seal.open(kind, key, &sealed), Err(SealError::Foreign)), "{kind} {key}");
        }
        let other = Seal::load_or_create(tempfile::tempdir().unwrap().path()).unwrap();
        assert!(other.open("cluster", "a", &sealed).is_err());
        for at in 1..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(seal.open("cluster", "a", &changed).is_err(), "byte {at}");
            assert!(seal.open("cluster", "a", &sealed[..at]).is_err(), "{at} bytes");
        }
        for bytes in [0, 31, 33] {
            std::fs::write(directory.path().join(FILE), vec![7; bytes]).unwrap();
            assert!(matches!(Seal::load_or_create(directory.path()), Err(SealError::Key { .. })), "{bytes} bytes");
        }
    }
}
