//! What must vouch for an image: taps that see its bytes, packed as they come, on their way to the decoder.

mod find;
mod keyring;
mod minisign;
mod openpgp;
mod packet;
mod public_key;
mod sha256;
mod signature;

use crate::options::{InstallOptions, Source};
use crate::trust::SignatureAt;
#[cfg(any(test, fuzzing))]
use keyring::parse as parse_keys;
use sha256::Sum;
use std::{error::Error, io, path::PathBuf};

/// The cause that a library gives.
type Cause = Box<dyn Error + Send + Sync>;

/// What does not vouch for the image.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The image is not the expected one.
    #[error("the SHA-256 of the image is {found}, not {expected} as expected")]
    Sha256 {
        /// In hexadecimal.
        expected: String,
        /// In hexadecimal.
        found: String,
    },
    #[error("cannot read the SHA-256 sums {}", path.display())]
    ReadSums { path: PathBuf, source: io::Error },
    #[error("{} has no SHA-256 for {name}, or more than one", path.display())]
    NoSum { path: PathBuf, name: String },
    /// Nothing vouches for the image. The first words are coreos-installer's.
    #[error("--insecure not specified and signature not found ({looked})")]
    Missing {
        /// Where it would have been.
        looked: String,
    },
    #[error("cannot read the signature {}", path.display())]
    ReadSignature { path: PathBuf, source: io::Error },
    #[error("{at} is not a signature: it has more than {limit_bytes} bytes")]
    TooLong { at: String, limit_bytes: u64 },
    #[error("{at} contains no detached signature")]
    NoSignature {
        at: String,
        /// What is wrong, where the parser knows.
        source: Option<Cause>,
    },
    #[error("cannot read the key file {}", path.display())]
    ReadKey { path: PathBuf, source: io::Error },
    /// A key file without keys.
    #[error("{} contains no public key{}", path.display(), because(reason))]
    NoKey {
        path: PathBuf,
        /// What is wrong, if it is known.
        reason: Option<String>,
    },
    /// No trusted key made it.
    #[error(
        "{at} was made by key {made_by}, which is not trusted; trusted keys: {trusted}. To trust that key, give its \
         public key with --keyring"
    )]
    UnknownKey {
        /// Path or URL of the signature.
        at: String,
        /// Fingerprints or key ids.
        made_by: String,
        trusted: String,
    },
    /// The right key, but not, or no longer, good for it.
    #[error("{at} was made by key {key} ({user}), which cannot vouch for it: {reason}")]
    UnusableKey {
        /// Path or URL of the signature.
        at: String,
        key: String,
        user: String,
        /// Such as expired, with the date.
        reason: String,
    },
    /// The signature says less than it should.
    #[error("{at}, made by key {key}, is not accepted: {reason}")]
    Unacceptable {
        /// Path or URL of the signature.
        at: String,
        key: String,
        reason: String,
    },
    /// The image is not what was signed.
    #[error(
        "BAD signature: the image is not what key {key} ({user}) signed in {at}; download both again, from a server you trust"
    )]
    Bad {
        /// Path or URL of the signature.
        at: String,
        /// Fingerprint.
        key: String,
        /// Its user id.
        user: String,
    },
    #[error("{at} does not match the image or the key {}: {reason}", key.display())]
    Minisign {
        /// Path or URL of the signature.
        at: String,
        /// The public key's file.
        key: PathBuf,
        reason: String,
    },
}

fn because(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// Sees every byte of the source exactly once and in order, whatever a server made of it, and then has its say. Runs on a
/// thread of its own.
pub(crate) trait Tap: Send {
    /// The next bytes of the source.
    fn update(&mut self, bytes: &[u8]);
    /// After the source's last byte: whether the image is good.
    fn finish(self: Box<Self>) -> Result<(), VerifyError>;
}

/// Where the image's signature is looked for; None where that can't be.
pub(crate) fn signature_at(options: &InstallOptions) -> Option<SignatureAt> {
    let suffix = if options.trust.minisign_key.is_some() { ".minisig" } else { ".sig" };
    find::place(options, suffix)
}

/// What is to vouch for the image of this installation; called before the source is opened.
pub(crate) fn taps(options: &InstallOptions) -> Result<Vec<Box<dyn Tap>>, VerifyError> {
    let trust = &options.trust;
    let mut taps: Vec<Box<dyn Tap>> = Vec::new();
    let from_file = trust.sha256_sums.as_ref().map(|path| sha256::from_sums(path, &options.source)).transpose()?;
    let sums = [trust.sha256, trust.published_sha256, from_file];
    taps.extend(sums.into_iter().flatten().map(|sum| Box::new(Sum::new(sum)) as Box<dyn Tap>));
    let at = signature_at(options);
    let signature = at.as_ref().map(|at| find::read(options, at)).transpose()?.flatten();
    match (at, signature) {
        (Some(at), Some(signature)) => {
            let at = at.to_string();
            match &trust.minisign_key {
                Some(key) => taps.push(Box::new(minisign::Minisign::new(&at, &signature, key)?)),
                None => taps.extend(openpgp(options, at, &signature)?),
            }
        }
        // It lies in the running system, and its own sum is checked.
        _ if matches!(options.source, Source::Osmet(_)) => {}
        _ if trust.has_sum() => {}
        (at, _) if trust.required => {
            let looked = at.map_or_else(|| "standard input has none; give one".into(), |at| format!("looked for {at}"));
            return Err(VerifyError::Missing { looked });
        }
        (at, _) => {
            let looked = at.map_or_else(|| "nowhere to look".into(), |at| format!("looked for {at}"));
            tracing::warn!(
                "Signature not found; skipping verification as requested ({looked}): nothing vouches for the image"
            );
        }
    }
    Ok(taps)
}

/// The signature at its place; why there is none otherwise.
pub(crate) fn signature_from(options: &InstallOptions, at: &SignatureAt) -> Result<Vec<u8>, String> {
    match at {
        SignatureAt::Url(url) => find::fetch(options, url),
        SignatureAt::File(_) => match find::read(options, at) {
            Ok(bytes) => bytes.ok_or_else(|| format!("{at} does not exist")),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// As [`taps`], with a signature that was found before, or without any.
pub(crate) fn signed(
    options: &InstallOptions,
    signature: Option<(&SignatureAt, &[u8])>,
) -> Result<Vec<Box<dyn Tap>>, VerifyError> {
    let mut taps: Vec<Box<dyn Tap>> = Vec::new();
    let sums = [options.trust.sha256, options.trust.published_sha256];
    taps.extend(sums.into_iter().flatten().map(|sum| Box::new(Sum::new(sum)) as Box<dyn Tap>));
    if let Some((at, bytes)) = signature {
        taps.extend(openpgp(options, at.to_string(), bytes)?);
    }
    Ok(taps)
}

/// An attacker who changed the image could have removed its signature as well, so where none is required one that can't
/// be checked is no worse than none. Where the operator names keys it must be made by a trusted one.
fn openpgp(options: &InstallOptions, at: String, signature: &[u8]) -> Result<Option<Box<dyn Tap>>, VerifyError> {
    let trust = &options.trust;
    let keys = keyring::trusted(trust)?;
    match openpgp::OpenPgp::new(at, signature, &keys, api::Timestamp::now().unix_seconds()) {
        Err(error @ VerifyError::UnknownKey { .. })
            if trust.keyrings.is_empty() && (!trust.required || trust.has_sum()) =>
        {
            tracing::warn!("Signature not checked, as none is required: {error}");
            Ok(None)
        }
        tap => Ok(Some(Box::new(tap?))),
    }
}

/// Reads the bytes as keys and as signatures of them.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    let (keys, signature) = match bytes.iter().position(|byte| *byte == 0xFF) {
        Some(at) => bytes.split_at(at),
        None => (bytes, bytes),
    };
    let keys = parse_keys(keys).keys;
    for signature in [signature, bytes] {
        if let Ok(mut tap) = openpgp::OpenPgp::new("fuzz".into(), signature, &keys, 1_700_000_000) {
            tap.update(b"data");
            let _ = Box::new(tap).finish();
        }
        minisign::fuzz(signature);
        sha256::find(&String::from_utf8_lossy(signature), "name");
    }
}

#[cfg(test)]
#[path = "gpg_tests.rs"]
mod gpg_tests;
