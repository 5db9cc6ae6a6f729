//! Names of images: `registry[:port]/path[:tag][@digest]`, as in the grammar of distribution's `reference` package.

use crate::codec::text::printable;
use sha2::{Digest as _, Sha256};
use std::{fmt, net::Ipv6Addr, str::FromStr};

/// The registry that short names of old are of.
const DOCKER_HUB: &str = "docker.io";
/// Longer than any name that a registry takes: 255 of path, 128 of tag, 71 of digest, and a host.
const MAX_BYTES: usize = 1024;
const MAX_PATH_BYTES: usize = 255;
const MAX_TAG_BYTES: usize = 128;

/// A SHA-256 digest, `sha256:` and 64 lower-case hexadecimal digits: the only algorithm that registries use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// That of `bytes`.
    pub fn compute(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// That of what `hasher` has seen.
    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(format!("sha256:{}", kernel::hex::lower(hasher.finalize())))
    }
}

impl FromStr for Digest {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match text.split_once(':') {
            Some(("sha256", hex)) if is_hex(hex) => Ok(Self(text.to_owned())),
            _ => Err(ReferenceError::Digest { digest: shorten(text) }),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `latest` when none is given.
    pub tag: Option<String>,
    /// Decides where both are given.
    pub digest: Option<Digest>,
}

impl Version {
    /// What the registry is asked for: the digest, else the tag.
    pub fn selector(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => &digest.0,
            (None, Some(tag)) => tag,
            (None, None) => "latest",
        }
    }
}

/// What follows the path in a name.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// The full name of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `host[:port]`, as written, so that it can be compared with configuration files.
    pub registry: String,
    /// Path below the registry.
    pub repository: String,
    /// Which of the repository's images.
    pub version: Version,
}

impl Reference {
    /// Docker Hub's repositories without a namespace are in `library/`.
    pub(super) fn new(registry: &str, path: &str, version: Version) -> Self {
        let registry = if registry == "index.docker.io" { DOCKER_HUB } else { registry };
        let in_library = registry == DOCKER_HUB && !path.contains('/');
        let repository = if in_library { format!("library/{path}") } else { path.to_owned() };
        Self { registry: registry.to_owned(), repository, version }
    }

    /// Where the registry answers: Docker Hub has a separate name for that.
    pub fn authority(&self) -> &str {
        if self.registry == DOCKER_HUB { "registry-1.docker.io" } else { &self.registry }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.registry, self.repository, self.version)
    }
}

/// A name as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// With its registry.
    Full(Reference),
    /// Without: aliases and search registries decide (containers-registries.conf(5)).
    Short {
        /// Path of the repository.
        path: String,
        /// Which of its images.
        version: Version,
    },
}

/// Why a text is not the name of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("this is not an image name: it has {bytes} bytes")]
    TooLong { bytes: usize },
    /// The part before the first slash.
    #[error("'{registry}' is not a registry: expected host or host:port")]
    Registry {
        /// What was found, shortened.
        registry: String,
    },
    #[error(
        "'{path}' is not a repository path: expected lower-case letters and digits, separated by '/', '.', '_' or '-'"
    )]
    Path {
        /// What was found, shortened.
        path: String,
    },
    #[error("'{tag}' is not a tag: expected up to 128 letters, digits, '_', '.' and '-'")]
    Tag {
        /// What was found, shortened.
        tag: String,
    },
    #[error("'{digest}' is not a digest: expected sha256: and 64 lower-case hexadecimal digits")]
    Digest {
        /// What was found, shortened.
        digest: String,
    },
}

impl FromStr for Name {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.len() > MAX_BYTES {
            return Err(ReferenceError::TooLong { bytes: text.len() });
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a port.
        let (rest, tag) = match rest.rsplit_once(':') {
            Some((rest, tag)) if !tag.contains(['/', ']']) => (rest, Some(check_tag(tag)?)),
            _ => (rest, None),
        };
        let version = Version { tag, digest };
        // distribution's rule: a first part without dot or port, that is not localhost either, is part of the path.
        let is_registry = |part: &str| {
            part.contains(['.', ':', '[']) || part == "localhost" || part.contains(|c: char| c.is_ascii_uppercase())
        };
        match rest.split_once('/') {
            Some((registry, path)) if is_registry(registry) => {
                check_registry(registry)?;
                check_path(path)?;
                Ok(Self::Full(Reference::new(registry, path, version)))
            }
            _ => {
                check_path(rest)?;
                Ok(Self::Short { path: rest.to_owned(), version })
            }
        }
    }
}

fn check_tag(tag: &str) -> Result<String, ReferenceError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if tag.is_empty() || tag.len() > MAX_TAG_BYTES || tag.starts_with(['.', '-']) || !tag.bytes().all(allowed) {
        return Err(ReferenceError::Tag { tag: shorten(tag) });
    }
    Ok(tag.to_owned())
}

/// Whether `text` is `host` or `host:port`.
pub(super) fn check_registry(text: &str) -> Result<(), ReferenceError> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(allowed)
    };
    let host_is_good = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.split('.').all(is_label),
    };
    let port_is_good = port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok());
    if host_is_good && port_is_good { Ok(()) } else { Err(ReferenceError::Registry { registry: shorten(text) }) }
}

fn check_path(path: &str) -> Result<(), ReferenceError> {
    let is_component = |component: &str| {
        let separator = |c: char| ['.', '_', '-'].contains(&c);
        let words_are_good = component.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
        let separators_are_good = component
            .split(|c| !separator(c))
            .all(|run| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|b| b == b'-'));
        !component.is_empty()
            && words_are_good
            && separators_are_good
            && !component.starts_with(separator)
            && !component.ends_with(separator)
    };
    if path.len() <= MAX_PATH_BYTES && path.split('/').all(is_component) {
        Ok(())
    } else {
        Err(ReferenceError::Path { path: shorten(path) })
    }
}

/// What a message quotes: short, and nothing that moves a terminal's cursor.
pub(super) fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    let mut short = printable(text.chars().take(MAX_CHARS).collect::<String>().as_bytes());
    if text.chars().nth(MAX_CHARS).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEX: &str = "35855191065d777e85d53f903628d99ec5c829ee07c075d884a8b7d23c5790fd";

    fn full(text: &str) -> Reference {
        match text.parse() {
            Ok(Name::Full(reference)) => reference,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_parts_of_a_name() {
        let reference = full(&format!("[fd00::1]:5000/a/b-c__d.e:V1.0@sha256:{HEX}"));
        assert_eq!(reference.registry, "[fd00::1]:5000");
        assert_eq!(reference.repository, "a/b-c__d.e");
        assert_eq!(reference.version.tag.as_deref(), Some("V1.0"));
        assert_eq!(reference.version.selector(), format!("sha256:{HEX}"), "a digest decides");
        assert_eq!(full("quay.io/a/b:4.22.9-x86_64").version.selector(), "4.22.9-x86_64");
        assert_eq!(full("localhost/b").version.selector(), "latest");
    }

    #[test]
    fn docker_hub_is_special() {
        let reference = full("index.docker.io/alpine");
        assert_eq!(reference.to_string(), "docker.io/library/alpine");
        assert_eq!(reference.authority(), "registry-1.docker.io");
        assert_eq!(full("docker.io/a/b:1").to_string(), "docker.io/a/b:1");
    }

    #[test]
    fn names_without_a_registry() {
        let version = |tag: Option<&str>| Version { tag: tag.map(str::to_owned), digest: None };
        assert_eq!("alpine".parse(), Ok(Name::Short { path: "alpine".into(), version: version(None) }));
        assert_eq!("a/b:5000".parse(), Ok(Name::Short { path: "a/b".into(), version: version(Some("5000")) }));
    }

    #[test]
    fn what_is_no_name() {
        let error = |text: &str| text.parse::<Name>().unwrap_err();
        assert!(matches!(error(""), ReferenceError::Path { .. }));
        for path in
            ["quay.io/a//b", "quay.io/", "quay.io/a.-b", "quay.io/a___b", "quay.io/-a", "quay.io/A", "--all", "a b"]
        {
            assert!(matches!(error(path), ReferenceError::Path { .. }), "{path}");
        }
        for registry in ["quay.io:x/a", "quay.io:70000/a", "-a.b/c", "a..b/c", "[::g]/a", "u:p.w/a"] {
            assert!(matches!(error(registry), ReferenceError::Registry { .. }), "{registry}");
        }
        assert!(matches!(error("quay.io/a:.b"), ReferenceError::Tag { .. }));
        assert!(matches!(error("quay.io/a@sha256:12"), ReferenceError::Digest { .. }));
        assert!(matches!(error(&"a".repeat(1025)), ReferenceError::TooLong { bytes: 1025 }));
        assert_eq!(error("quay.io/\u{1b}[2J").to_string().find('\u{1b}'), None);
    }

    #[test]
    fn digests_are_sha256() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::compute(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::compute(b"")));
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_names_come_back(text in any::<String>(), like in "[a-z0-9./:@_-]{0,40}") {
            for text in [text, like] {
                if let Ok(Name::Full(reference)) = text.parse() {
                    prop_assert_eq!(full(&reference.to_string()), reference);
                }
            }
        }
    }
}
