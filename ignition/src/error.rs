//! Why a config can't be built.

use crate::overrides::OverrideError;
use crate::report::Report;

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
    #[error("'{url}' is not a valid source of {what}: it must start with http:// or https:// and name a host")]
    Url {
        /// What was to be fetched.
        what: &'static str,
        /// As given, without user and query.
        url: String,
    },
    /// Not a SHA-512 digest.
    #[error("the SHA-512 digest of {url} must be 128 hexadecimal digits and nothing else; it has {found} characters")]
    Digest {
        /// What it is the digest of, without user and query.
        url: String,
        /// Characters given.
        found: usize,
    },
    /// A value that no word of a unit's command line can hold.
    #[error("{what} must be one word, without blanks, quotes, ';' and '\\': see byte {at}")]
    Argument {
        what: &'static str,
        /// Byte offset in the value.
        at: usize,
    },
    #[error("a time source must be a host's name or address; one of {source_chars} characters is neither")]
    NtpSource { source_chars: usize },
    /// A file that is not a config.
    #[error("{name} is not an Ignition config: it has no ignition.version (a Butane config must be translated first)")]
    NoConfig { name: String },
    /// A name for which there is no unit.
    #[error("'{name}' can't be part of a unit's name; use letters, digits and -_.:")]
    Name {
        /// As given, shortened.
        name: String,
    },
    /// Two would be the same unit.
    #[error("two programs of the same moment are named '{name}'; rename one")]
    SameName { name: String },
    /// The role's config can't be read.
    #[error("the role's config can't be used: {}", .0.summary())]
    Role(Report),
    /// Its version is unknown.
    #[error("the role's config is of the unknown version {found}")]
    RoleVersion {
        /// As found, shortened, or `missing`.
        found: String,
    },
    /// Nothing that a pool's config could replace.
    #[error("no config is fetched from .../config/worker, which pool '{pool}' would replace")]
    Pool {
        /// The pool's name, shortened.
        pool: String,
    },
    /// Ignition would reject what was built.
    #[error("the config would not be valid: {}", .0.summary())]
    Invalid(Report),
    /// The user's part doesn't merge.
    #[error("the Ignition override can't be used")]
    Override(#[source] OverrideError),
}
