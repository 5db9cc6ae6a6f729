//! What an installation trusts.

use api::http::public_url;
use std::{fmt, path::PathBuf};

/// Where a detached signature is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureAt {
    File(PathBuf),
    /// On a server.
    Url(String),
}

impl fmt::Display for SignatureAt {
    /// The path, or the URL without what may be secret in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(&public_url(url)),
        }
    }
}

/// What must vouch for an image before it may boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Whether a signature or a sum must: otherwise an image without one is accepted. A bad
    /// signature, or a sum that differs, is refused in any case.
    pub required: bool,
    /// The detached signature; None looks for it beside the image: its path, or its URL's, with `.sig` added.
    pub signature: Option<SignatureAt>,
    /// OpenPGP key rings, armored or binary, beside the keys CoreOS signs with.
    pub keyrings: Vec<PathBuf>,
    /// Whether the keys of [`Self::keyrings`] alone are trusted.
    pub keyrings_only: bool,
    /// A minisign public key file; then the signature is minisign's, beside the image `.minisig`.
    pub minisign_key: Option<PathBuf>,
    /// The SHA-256 of the source as it comes; vouches for it alone.
    pub sha256: Option<[u8; 32]>,
    /// The same as published where the image is: it must fit, and vouches for nothing.
    pub published_sha256: Option<[u8; 32]>,
    /// A file as `sha256sum` writes it, with a line for the image's name, or with one line.
    pub sha256_sums: Option<PathBuf>,
}

impl Trust {
    /// Whether a sum says that the image is good.
    pub(crate) fn has_sum(&self) -> bool {
        self.sha256.is_some() || self.sha256_sums.is_some()
    }

    /// Whether only an image that something other than its server vouches for is accepted.
    pub(crate) fn must_be_vouched_for(&self) -> bool {
        self.required || self.has_sum()
    }
}

/// 64 hexadecimal digits as a SHA-256.
pub fn parse_sha256(text: &str) -> Option<[u8; 32]> {
    kernel::hex::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_64_hexadecimal_digits() {
        assert_eq!(parse_sha256(&"0aF1".repeat(16)).unwrap()[..4], [0x0a, 0xf1, 0x0a, 0xf1]);
        for bad in ["", "00", &"0".repeat(63), &"0".repeat(65), &"+1".repeat(32), &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse_sha256(bad), None, "{bad}");
        }
    }
}
