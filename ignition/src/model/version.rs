//! Versions of the specification.

use std::fmt;

/// A version, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
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

/// Why a version is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Missing, or not three numbers.
    #[error("invalid config version (couldn't parse)")]
    Invalid,
    /// None that is known.
    #[error("unsupported config version")]
    Unsupported,
}

impl Version {
    /// From the oldest on.
    pub const ALL: [Self; 8] =
        [Self::V3_0, Self::V3_1, Self::V3_2, Self::V3_3, Self::V3_4, Self::V3_5, Self::V3_6, Self::V3_7];
    /// What new configs are best written in.
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
        let (plain, build) = text.split_once('+').map_or((text, None), |(plain, build)| (plain, Some(build)));
        let numbers = plain.split_once('-').map_or(plain, |(numbers, _)| numbers);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<_> = numbers.split('.').collect();
        if parts.len() != 3 || !parts.iter().all(|part| is_number(part)) {
            return Err(VersionError::Invalid);
        }
        let known = Self::ALL.into_iter().find(|version| version.name() == plain && build.is_none());
        known.ok_or(VersionError::Unsupported)
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
        for text in ["", "3", "3.0", "x", "3.0.0.0", "3.a.0", "-", "3..0"] {
            assert_eq!(Version::parse(text), Err(VersionError::Invalid), "{text}");
        }
        for text in ["2.2.0", "3.6.0-experimental", "3.7.0", "3.9.0", "3.3.0+x", "4.0.0"] {
            assert_eq!(Version::parse(text), Err(VersionError::Unsupported), "{text}");
        }
    }
}
