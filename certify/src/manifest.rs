//! What is in an archive: `manifest.json`, which is signed.

use crate::{archive::size, result::ATTESTATION};
use kernel::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Raised when a field changes its name or meaning.
pub const SCHEMA_VERSION: u32 = 1;
pub const RESULT: &str = "certification.json";
pub const NAME: &str = "manifest.json";
pub const SIGNATURE: &str = "manifest.json.minisig";

/// All files of an archive but itself and its signature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub schema_version: u32,
    /// The public key that signs, as minisign writes it.
    pub key: String,
    /// The files, by path.
    pub files: Vec<Entry>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub path: String,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

impl Entry {
    pub fn new(path: impl Into<String>, content: &[u8]) -> Self {
        Self { path: path.into(), bytes: size(content), sha256: hex::lower(Sha256::digest(content)) }
    }
}

/// What the TPM of a host signs: the SHA-256 of lines as `sha256sum` prints them (hash, two spaces, path), one for each file of the
/// host's folder but `attestation.json`, by path.
pub fn nonce<'a>(files: impl IntoIterator<Item = &'a Entry>, folder: &str) -> [u8; 32] {
    let is_covered = |entry: &&Entry| {
        let name = entry.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| name != ATTESTATION)
    };
    let mut lines: Vec<_> = files.into_iter().filter(is_covered).map(|entry| (&entry.path, &entry.sha256)).collect();
    kernel::order::sort(&mut lines);
    let mut hash = Sha256::new();
    for (path, sha256) in lines {
        hash.update(format!("{sha256}  {path}\n"));
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_the_sum_of_the_lines_of_sha256sum() {
        let files = ["hosts/2/b", "hosts/1/b", "hosts/1/attestation.json", "hosts/1/a", "hosts/1x/a"];
        let files = files.map(|path| Entry::new(path, path.as_bytes()));
        // printf %s hosts/1/a > hosts/1/a, and so on; sha256sum hosts/1/a hosts/1/b | sha256sum
        let lines = format!("{}  hosts/1/a\n{}  hosts/1/b\n", files[3].sha256, files[1].sha256);
        assert_eq!(nonce(&files, "hosts/1"), <[u8; 32]>::from(Sha256::digest(lines)));
        assert_ne!(nonce(&files, "hosts/1"), nonce(&files, "hosts/2"));
    }
}
