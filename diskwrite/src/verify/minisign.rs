//! minisign's signatures: Ed25519 over the BLAKE2b of the file (<https://jedisct1.github.io/minisign/>).

use super::{Tap, VerifyError, keyring::printable};
use minisign_verify::{PublicKey, Signature, StreamVerifier};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// A key file has two short lines.
const KEY_BYTES: u64 = 4 << 10;

pub(super) struct Minisign {
    at: String,
    key: PathBuf,
    comment: String,
    verifier: StreamVerifier<'static>,
}

impl Minisign {
    pub(super) fn new(at: &str, signature: &[u8], key_path: &Path) -> Result<Self, VerifyError> {
        let error = |source| VerifyError::ReadKey { path: key_path.into(), source };
        let mut text = String::new();
        File::open(key_path).map_err(error)?.take(KEY_BYTES).read_to_string(&mut text).map_err(error)?;
        let key = PublicKey::decode(&text).or_else(|_| PublicKey::from_base64(text.trim()));
        let key = key.map_err(|cause| VerifyError::NoKey { path: key_path.into(), reason: Some(cause.to_string()) })?;
        let none = |cause: String| VerifyError::NoSignature { at: at.into(), source: Some(cause.into()) };
        let signature = std::str::from_utf8(signature).map_err(|cause| none(cause.to_string()))?;
        let signature = Signature::decode(signature).map_err(|cause| none(cause.to_string()))?;
        let comment = printable(signature.trusted_comment());
        // The verifier borrows both. They are less than a KiB, once an installation, and live as long as the process.
        let (key, signature): (&'static _, &'static _) = (Box::leak(Box::new(key)), Box::leak(Box::new(signature)));
        let verifier = key.verify_stream(signature).map_err(|cause| VerifyError::Minisign {
            at: at.into(),
            key: key_path.into(),
            reason: match cause {
                minisign_verify::Error::UnsupportedLegacyMode => {
                    "it is not prehashed, so the whole image would have to be in memory; sign again with `minisign -S -H`".into()
                }
                cause => format!("{cause} (it says: {})", printable(signature.untrusted_comment())),
            },
        })?;
        Ok(Self { at: at.into(), key: key_path.into(), comment, verifier })
    }
}

impl Tap for Minisign {
    fn update(&mut self, bytes: &[u8]) {
        self.verifier.update(bytes);
    }

    fn finish(mut self: Box<Self>) -> Result<(), VerifyError> {
        match self.verifier.finalize() {
            Ok(()) => {
                tracing::info!("Good signature by {}; trusted comment: {}", self.key.display(), self.comment);
                Ok(())
            }
            Err(cause) => Err(VerifyError::Minisign { at: self.at, key: self.key, reason: cause.to_string() }),
        }
    }
}

#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (PublicKey::decode(text), PublicKey::from_base64(text));
        let _ = Signature::decode(text).map(|signature| printable(signature.trusted_comment()));
    }
}
