//! Versions of the specification.

use std::fmt;

/// A version, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    V3_0,
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    V3_5,
    V3_6,
    /// Not stable yet.
    V3_7,
}

/// Why a version is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Missing, or not three numbers.
    #[error("invalid config version (couldn't parse)")]
    Invalid,
    #[error("unsupported config version")]
    Unsupported,
}

impl Version {
    /// From the oldest on.
    pub const ALL: [Self; 8] =
        [Self::V3_0, Self::V3_1, Self::V3_2, Self::V3_3, Self::V3_4, Self::V3_5, Self::V3_6, Self::V3_7];
    /// The version for new configs.
    pub const NEWEST_STABLE: Self = Self::V3_6;

    /// As it stands in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::V3_0 => "3.0.0",
            Self::V3_1 => "3.1.0",
            Self::V3_2 => "3.2.0",
            Self::V3_3 => "3.3.0",
            Self::V3_4 => "3.4.0",
            Self::V3_5 => "3.5.0",
            Self::V3_6 => "3.6.0",
            Self::V3_7 => "3.7.0-experimental",
        }
    }

    /// Reads what stands in a config: a semantic version, and a known one.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let asked = Semantic::parse(text).ok_or(VersionError::Invalid)?;
        let known = Self::ALL.into_iter().find(|version| Semantic::parse(version.name()) == Some(asked));
        known.ok_or(VersionError::Unsupported)
    }
}

/// A semantic version as go-semver reads it: zeros may lead a number, and what follows `-` or `+` may be empty.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Semantic<'a> {
    numbers: [i64; 3],
    pre_release: &'a str,
    metadata: &'a str,
}

impl<'a> Semantic<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
        let (text, pre_release) = text.split_once('-').unwrap_or((text, ""));
        let is_identifier =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_suffix = |suffix: &str| suffix.is_empty() || suffix.split('.').all(is_identifier);
        let mut parts = text.split('.');
        let numbers = [(); 3].map(|()| parts.next()?.parse().ok());
        let [Some(major), Some(minor), Some(patch)] = numbers else { return None };
        let is_whole = parts.next().is_none() && is_suffix(pre_release) && is_suffix(metadata);
        is_whole.then_some(Self { numbers: [major, minor, patch], pre_release, metadata })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_versions_are_told_from_others() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.name()), Ok(version));
        }
        for text in ["03.3.0", "3.03.0", "3.3.00", "3.3.0-", "3.3.0+", "3.3.0-+"] {
            assert_eq!(Version::parse(text), Ok(Version::V3_3), "{text}");
        }
        assert_eq!(Version::parse("3.07.0-experimental"), Ok(Version::V3_7));
        for text in
            ["", "3", "3.0", "x", "3.0.0.0", "3.a.0", "-", "3..0", "3.3.0-a_b", "3.3.0+a..b", "9223372036854775808.0.0"]
        {
            assert_eq!(Version::parse(text), Err(VersionError::Invalid), "{text}");
        }
        for text in ["3.7.0-Experimental", "2.2.0", "3.6.0-experimental", "3.7.0", "3.9.0", "3.3.0+x", "4.0.0"] {
            assert_eq!(Version::parse(text), Err(VersionError::Unsupported), "{text}");
        }
    }
}
