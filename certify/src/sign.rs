//! Keys and signatures as minisign has them (<https://jedisct1.github.io/minisign/>): Ed25519 over the BLAKE2b of a file.

use base64::{Engine, prelude::BASE64_STANDARD};
use blake2::{Blake2b, Blake2b512, Digest, digest::consts::U32};
use ring::{
    rand::{SecureRandom, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use std::{fmt, io, str::FromStr};

/// Longest file of a key or a signature.
pub(crate) const MAX_TEXT: u64 = 4096;
/// What stands before a comment.
const UNTRUSTED: &str = "untrusted comment: ";
const TRUSTED: &str = "trusted comment: ";
/// The comment of a signature, which it does not cover: so there is only this one.
const COMMENT: &str = "signature of a Landfall certification";
/// Ed25519; of a signature: of the file itself, and of its BLAKE2b.
const ALGORITHM: &[u8] = b"Ed";
const PREHASHED: &[u8] = b"ED";
const SCRYPT: &[u8] = b"Sc";
const UNENCRYPTED: &[u8] = &[0, 0];
const BLAKE2: &[u8] = b"B2";
/// 128 MiB and half a second.
const OPERATIONS: u64 = 1 << 22;
const MEMORY: u64 = 1 << 27;
/// A key that asks for more than 1 GiB is not opened; minisign asks for that.
const MAX_LOG_N: u8 = 20;
const MAX_PARALLEL: u64 = 4;

/// A key or signature that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("not a public key as minisign writes it (56 characters that begin with RW)")]
    PublicKey,
    #[error("not a secret key as `landfall certify key` or minisign write it")]
    SecretKey,
    #[error("the password is wrong, or the key was altered")]
    Password,
    #[error("cannot ask for the password of the key: {0}")]
    Ask(io::Error),
    #[error("checking the key's password would take too much memory or time")]
    Work,
    #[error("no randomness from the kernel")]
    Random,
    #[error("not a signature as `landfall certify` writes it")]
    Form,
    #[error("made by another key, {0}")]
    OtherKey(KeyId),
    #[error("the signature does not match")]
    Mismatch,
}

/// What keys are known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u8; 8]);

/// What signatures are verified with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: KeyId,
    key: [u8; 32],
}

/// What signs. It is not shown, nor does it end in a log.
pub struct SecretKey {
    id: KeyId,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

/// A signature and the comment that it covers.
#[derive(Debug)]
pub struct Signature {
    id: KeyId,
    signature: [u8; 64],
    pub comment: String,
    comment_signature: [u8; 64],
}

impl PublicKey {
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// As a file.
    pub fn to_text(&self) -> String {
        format!("{UNTRUSTED}minisign public key {}\n{self}\n", self.id)
    }

    /// Whether a signature is of this key and these bytes, and whether its comment is as it was.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), SignError> {
        if signature.id != self.id {
            return Err(SignError::OtherKey(signature.id));
        }
        let key = UnparsedPublicKey::new(&ED25519, &self.key);
        let covered = [signature.signature.as_slice(), signature.comment.as_bytes()].concat();
        key.verify(&Blake2b512::digest(message), &signature.signature)
            .and_then(|()| key.verify(&covered, &signature.comment_signature))
            .map_err(|_| SignError::Mismatch)
    }
}

impl FromStr for PublicKey {
    type Err = SignError;

    /// The key alone, or a file with its comment.
    fn from_str(text: &str) -> Result<Self, SignError> {
        let text = text.trim();
        let line = match text.strip_prefix(UNTRUSTED) {
            Some(commented) => commented.split_once('\n').map_or("", |(_, line)| line),
            None => text,
        };
        let bytes: [u8; 42] = decode(line.trim()).ok_or(SignError::PublicKey)?;
        let mut fields = Fields(&bytes);
        if fields.bytes(2) != ALGORITHM {
            return Err(SignError::PublicKey);
        }
        Ok(Self { id: KeyId(fields.array()), key: fields.array() })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_STANDARD.encode([ALGORITHM, &self.id.0, &self.key].concat()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

impl SecretKey {
    /// A new key.
    pub fn generate() -> Result<Self, SignError> {
        Self::new(KeyId(random()?), random()?)
    }

    fn new(id: KeyId, seed: [u8; 32]) -> Result<Self, SignError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| SignError::SecretKey)?;
        Ok(Self { id, seed, pair })
    }

    /// A key from its file. `password` is asked only if it is encrypted.
    pub fn parse(text: &str, password: &mut dyn FnMut() -> io::Result<String>) -> Result<Self, SignError> {
        let mut lines = text.lines();
        let comment = lines.next().filter(|line| line.starts_with(UNTRUSTED));
        let bytes: [u8; 158] =
            comment.and_then(|_| lines.next()).and_then(|line| decode(line.trim())).ok_or(SignError::SecretKey)?;
        let mut fields = Fields(&bytes);
        let (algorithm, derivation, checksum) = (fields.bytes(2), fields.bytes(2), fields.bytes(2));
        let salt: [u8; 32] = fields.array();
        let (operations, memory) = (u64::from_le_bytes(fields.array()), u64::from_le_bytes(fields.array()));
        let mut secret: [u8; 104] = fields.array();
        if algorithm != ALGORITHM || checksum != BLAKE2 || ![SCRYPT, UNENCRYPTED].contains(&derivation) {
            return Err(SignError::SecretKey);
        }
        if derivation == SCRYPT {
            let password = password().map_err(SignError::Ask)?;
            mask(&mut secret, &password, &salt, operations, memory)?;
        }
        let mut fields = Fields(&secret);
        let (id, seed, public) = (fields.array(), fields.array(), fields.array::<32>());
        // minisign does not write the sum of a key without a password.
        if derivation == SCRYPT && fields.bytes(32) != sum(&secret) {
            return Err(SignError::Password);
        }
        let key = Self::new(KeyId(id), seed)?;
        if key.pair.public_key().as_ref() != public { Err(SignError::SecretKey) } else { Ok(key) }
    }

    /// As a file, encrypted if there is a password.
    pub fn to_text(&self, password: Option<&str>) -> Result<String, SignError> {
        let mut secret = [0; 104];
        let plain = [self.id.0.as_slice(), &self.seed, self.pair.public_key().as_ref()].concat();
        secret[..72].copy_from_slice(&plain);
        let sum = sum(&secret);
        secret[72..].copy_from_slice(&sum);
        let salt = random::<32>()?;
        let (derivation, kind) = match password {
            Some(password) => {
                mask(&mut secret, password, &salt, OPERATIONS, MEMORY)?;
                (SCRYPT, "encrypted secret key")
            }
            None => (UNENCRYPTED, "secret key"),
        };
        let numbers = [OPERATIONS.to_le_bytes(), MEMORY.to_le_bytes()].concat();
        let bytes = [ALGORITHM, derivation, BLAKE2, &salt, &numbers, &secret].concat();
        Ok(format!("{UNTRUSTED}minisign {kind}\n{}\n", BASE64_STANDARD.encode(bytes)))
    }

    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey { id: self.id, key }
    }

    /// Signs the bytes and a comment of one line: the text of a `.minisig` file.
    pub fn sign(&self, message: &[u8], comment: &str) -> Result<String, SignError> {
        let sign = |bytes: &[u8]| -> Result<[u8; 64], SignError> {
            self.pair.sign(bytes).as_ref().try_into().map_err(|_| SignError::SecretKey)
        };
        let signature = sign(&Blake2b512::digest(message))?;
        let comment_signature = sign(&[signature.as_slice(), comment.as_bytes()].concat())?;
        Ok(Signature { id: self.id, signature, comment: comment.to_owned(), comment_signature }.to_string())
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = BASE64_STANDARD.encode([PREHASHED, &self.id.0, &self.signature].concat());
        let comment_signature = BASE64_STANDARD.encode(self.comment_signature);
        write!(f, "{UNTRUSTED}{COMMENT}\n{signature}\n{TRUSTED}{}\n{comment_signature}\n", self.comment)
    }
}

impl FromStr for Signature {
    type Err = SignError;

    /// Only what [`SecretKey::sign`] writes. minisign writes another comment, which nothing protects.
    fn from_str(text: &str) -> Result<Self, SignError> {
        Self::from_minisign(text).filter(|signature| signature.to_string() == text).ok_or(SignError::Form)
    }
}

impl Signature {
    /// A signature of a file's BLAKE2b with any untrusted comment.
    pub(crate) fn from_minisign(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        lines.next()?.strip_prefix(UNTRUSTED)?;
        let bytes: [u8; 74] = decode(lines.next()?)?;
        let comment = lines.next()?.strip_prefix(TRUSTED)?.to_owned();
        let comment_signature = decode(lines.next()?)?;
        let mut fields = Fields(&bytes);
        let is_prehashed = fields.bytes(2) == PREHASHED;
        let (id, signature) = (KeyId(fields.array()), fields.array());
        is_prehashed.then_some(Self { id, signature, comment, comment_signature })
    }
}

/// A part of a key after the other. None is asked for more than it has.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (field, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        field
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let field = self.bytes(N);
        array[..field.len()].copy_from_slice(field);
        array
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() > N.div_ceil(3) * 4 {
        return None;
    }
    BASE64_STANDARD.decode(text).ok()?.try_into().ok()
}

fn random<const N: usize>() -> Result<[u8; N], SignError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map(|()| bytes).map_err(|_| SignError::Random)
}

/// Of the algorithm, the key's id and both keys.
fn sum(secret: &[u8; 104]) -> [u8; 32] {
    Blake2b::<U32>::new().chain_update(ALGORITHM).chain_update(&secret[..72]).finalize().into()
}

/// Encrypts and decrypts.
fn mask(secret: &mut [u8; 104], password: &str, salt: &[u8], operations: u64, memory: u64) -> Result<(), SignError> {
    let (log_n, parallel) = work(operations, memory).ok_or(SignError::Work)?;
    let params = scrypt::Params::new(log_n, 8, parallel, 32).map_err(|_| SignError::Work)?;
    let mut stream = [0; 104];
    scrypt::scrypt(password.as_bytes(), salt, &params, &mut stream).map_err(|_| SignError::Work)?;
    secret.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
    Ok(())
}

/// scrypt's parameters by libsodium's limits (`crypto_pwhash_scryptsalsa208sha256`), with r = 8: log N, and p.
fn work(operations: u64, memory: u64) -> Option<(u8, u32)> {
    let operations = operations.max(32768);
    let by_operations = operations < memory / 32;
    let max_n = if by_operations { operations / 32 } else { memory / 1024 };
    let log_n = (1..=MAX_LOG_N).find(|log_n| 1u64 << log_n > max_n / 2)?;
    let parallel = if by_operations { 1 } else { (operations / 4 / (1u64 << log_n)).min(0x3fff_ffff) / 8 };
    let parallel = Some(parallel).filter(|parallel| (1..=MAX_PARALLEL).contains(parallel))?;
    Some((log_n, u32::try_from(parallel).ok()?))
}

#[cfg(test)]
mod tests;
