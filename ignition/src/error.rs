//! Why a config can't be built.

use crate::overrides::OverrideError;

/// Why a config can't be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A value has a character that no line of an environment file can hold.
    #[error("{name} has a control character at byte {at}; it must be one line of text")]
    ControlCharacter {
        /// Variable it was meant for.
        name: &'static str,
        /// Byte offset in the value.
        at: usize,
    },
    /// Not a URL Ignition fetches a binary from.
    #[error("'{url}' can't be the source of {what}: it must start with http:// or https:// and name a host")]
    Url {
        /// What was to be fetched.
        what: &'static str,
        /// As given, without user and query.
        url: String,
    },
    /// Not a SHA-512 digest.
    #[error(
        "the SHA-512 digest of {url} must be 128 hexadecimal digits, and has {found} characters or others among them"
    )]
    Digest {
        /// What it is the digest of, without user and query.
        url: String,
        /// Characters given.
        found: usize,
    },
    /// The user's part doesn't merge.
    #[error("the Ignition override can't be used")]
    Override(#[source] OverrideError),
}
