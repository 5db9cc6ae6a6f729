//! Options of `landfall serve` for the cache of `openshift-install`.

use std::{fmt, str::FromStr};

/// Units of decimal and binary powers, as in the published settings.
const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// A number of bytes, as `2GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Why a text is not a size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size, like 2GiB or 500 MB (units: B, KB, MB, GB, KiB, MiB, GiB)")]
pub struct SizeError(String);

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError(text.to_owned());
        // Zero is the same in all units.
        if text == "0" {
            return Ok(Self(0));
        }
        let with_unit = |(name, factor): &(&str, u64)| Some((text.strip_suffix(name)?, *factor));
        let (number, factor) = UNITS.iter().find_map(with_unit).ok_or_else(error)?;
        let number = number.strip_suffix(' ').unwrap_or(number);
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The unit that needs the fewest digits.
        let exact = UNITS.iter().filter(|(_, factor)| self.0.is_multiple_of(*factor));
        match exact.max_by_key(|(_, factor)| *factor) {
            Some((unit, factor)) if self.0 > 0 => write!(f, "{}{unit}", self.0 / factor),
            _ => f.write_str("0"),
        }
    }
}

/// How large the cache may become.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Files of clusters")]
pub struct InstallerCacheArgs {
    /// Space for cached copies of openshift-install, as 20GiB. When it is full, the copies that were not used for the longest time are
    /// removed; a new release waits while all are in use. 0: no limit
    #[arg(
        long = "installer-cache-capacity",
        value_name = "SIZE",
        env = "INSTALLER_CACHE_CAPACITY",
        hide_env_values = true,
        default_value = "0"
    )]
    pub capacity: Size,

    /// Space reserved for a release's openshift-install before it is extracted, as far as the capacity is limited
    #[arg(
        long = "installer-cache-max-release-size",
        value_name = "SIZE",
        env = "INSTALLER_CACHE_MAX_RELEASE_SIZE",
        hide_env_values = true,
        default_value = "2GiB"
    )]
    pub max_release_size: Size,
}

impl Default for InstallerCacheArgs {
    fn default() -> Self {
        Self { capacity: Size(0), max_release_size: Size(2 << 30) }
    }
}

/// Why no release fits into the cache.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    #[error(
        "--installer-cache-max-release-size must be larger than 0, since --installer-cache-capacity limits the cache"
    )]
    NoRelease,
    #[error("--installer-cache-max-release-size {release} is larger than --installer-cache-capacity {capacity}")]
    TooSmall { release: Size, capacity: Size },
}

/// The limit of a cache, and what is reserved of it for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub bytes: u64,
    pub release_bytes: u64,
}

impl InstallerCacheArgs {
    /// None: no limit.
    pub(super) fn limit(&self) -> Result<Option<Capacity>, CapacityError> {
        let (capacity, release) = (self.capacity, self.max_release_size);
        match (capacity.0, release.0) {
            (0, _) => Ok(None),
            (_, 0) => Err(CapacityError::NoRelease),
            (bytes, release_bytes) if release_bytes <= bytes => Ok(Some(Capacity { bytes, release_bytes })),
            _ => Err(CapacityError::TooSmall { release, capacity }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_a_number_and_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("1B", 1),
            ("12 KB", 12_000),
            ("3MB", 3_000_000),
            ("4GB", 4_000_000_000),
            ("5KiB", 5 << 10),
            ("6 MiB", 6 << 20),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in
            ["", "1", "GiB", "-1GiB", "+1GiB", "1.5GiB", "1 gib", "1  GiB", " 1GiB", "1GiB ", "1TiB", "99999999999GiB"]
        {
            assert_eq!(bad.parse::<Size>(), Err(SizeError(bad.into())), "{bad}");
        }
        for text in ["0", "2GiB", "20GB", "1001B", "3KB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_limited_cache_has_room_for_a_release() {
        let limit = |capacity: u64, release: u64| {
            InstallerCacheArgs { capacity: Size(capacity), max_release_size: Size(release) }.limit()
        };
        assert_eq!(limit(0, 0), Ok(None));
        assert_eq!(limit(2, 2), Ok(Some(Capacity { bytes: 2, release_bytes: 2 })));
        assert_eq!(limit(2, 0), Err(CapacityError::NoRelease));
        assert!(matches!(limit(2, 3), Err(CapacityError::TooSmall { .. })));
    }
}
