//! Values of options: read from text, on the command line and in config files, and written as the same text.

use diskwrite::{NetworkPlace, Retries};
use serde::{Deserialize, Serialize};
use std::{fmt, num::ParseIntError, str::FromStr, time::Duration};

/// Why a text is not a value.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    #[error(transparent)]
    Number(#[from] ParseIntError),
    #[error("a timeout must be at least one second")]
    NoTime,
    #[error("a SHA-256 has 64 hexadecimal digits")]
    NotSha256,
    #[error("a URL starts with http:// or https://")]
    NotUrl,
    /// Another scheme than the two.
    #[error("unknown protocol '{0}': a URL starts with http:// or https://")]
    Scheme(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FetchRetries {
    /// This many.
    Count(u32),
    /// Until it answers.
    Infinite,
}

impl Default for FetchRetries {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl From<FetchRetries> for Retries {
    fn from(retries: FetchRetries) -> Self {
        match retries {
            FetchRetries::Count(count) => Self::Count(count),
            FetchRetries::Infinite => Self::Forever,
        }
    }
}

impl FromStr for FetchRetries {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == "infinite" { Ok(Self::Infinite) } else { Ok(Self::Count(text.parse()?)) }
    }
}

impl fmt::Display for FetchRetries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Infinite => f.write_str("infinite"),
        }
    }
}

/// Where the first boot finds network profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CopyNetworkTo {
    /// Where the image looks for them, if its initramfs shows that; otherwise in the initramfs
    #[default]
    Auto,
    /// On the boot file system, for images that look for them only there
    Boot,
    /// In the initramfs
    Initramfs,
}

impl From<CopyNetworkTo> for NetworkPlace {
    fn from(to: CopyNetworkTo) -> Self {
        match to {
            CopyNetworkTo::Auto => Self::Auto,
            CopyNetworkTo::Boot => Self::Boot,
            CopyNetworkTo::Initramfs => Self::Initramfs,
        }
    }
}

/// `--stall-timeout`, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StallTimeout(pub Duration);

impl FromStr for StallTimeout {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.parse()? {
            0 => Err(ValueError::NoTime),
            seconds => Ok(Self(Duration::from_secs(seconds))),
        }
    }
}

impl fmt::Display for StallTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs().fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(pub [u8; 32]);

impl FromStr for Sha256 {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        diskwrite::parse_sha256(text).map(Self).ok_or(ValueError::NotSha256)
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&kernel::hex::lower(self.0))
    }
}

/// serde's way through text for each of them.
macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = ValueError;

            fn try_from(text: String) -> Result<Self, ValueError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_text!(FetchRetries, StallTimeout, Sha256);

/// A URL that can be fetched.
pub(crate) fn url(text: &str) -> Result<String, ValueError> {
    let scheme = scheme(text)?;
    if scheme == "http" || scheme == "https" { Ok(text.to_owned()) } else { Err(ValueError::Scheme(scheme)) }
}

/// A URL whose scheme is looked at later, with what else allows it.
pub(crate) fn any_url(text: &str) -> Result<String, ValueError> {
    scheme(text).map(|_| text.to_owned())
}

fn scheme(text: &str) -> Result<String, ValueError> {
    match text.split_once("://") {
        Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() => Ok(scheme.to_ascii_lowercase()),
        _ => Err(ValueError::NotUrl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_number_or_the_word() {
        for (text, expected) in [
            ("0", FetchRetries::Count(0)),
            ("4294967295", FetchRetries::Count(u32::MAX)),
            ("infinite", FetchRetries::Infinite),
        ] {
            let retries: FetchRetries = text.parse().unwrap();
            assert_eq!((retries, retries.to_string().as_str()), (expected, text));
        }
        for bad in ["", "-1", "4294967296", "Infinite", "1.5", "forever"] {
            assert!(bad.parse::<FetchRetries>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sum_is_64_digits() {
        let text = "00ff".repeat(16);
        let sum: Sha256 = text.to_uppercase().parse().unwrap();
        assert_eq!(sum.0[..4], [0, 0xff, 0, 0xff]);
        assert_eq!(sum.to_string(), text);
        assert!(matches!("00".parse::<Sha256>(), Err(ValueError::NotSha256)));
    }

    #[test]
    fn a_timeout_is_some_seconds() {
        assert_eq!("90".parse::<StallTimeout>().unwrap(), StallTimeout(Duration::from_secs(90)));
        assert!(matches!("0".parse::<StallTimeout>(), Err(ValueError::NoTime)));
        assert!("1m".parse::<StallTimeout>().is_err());
    }

    #[test]
    fn urls_have_a_scheme_and_a_host() {
        assert!(url("https://h/i").is_ok() && url("HTTP://h").is_ok() && any_url("ftp://h/c").is_ok());
        for bad in ["", "h/i", "https://", "://h", "/dev/sda"] {
            assert!(matches!(url(bad), Err(ValueError::NotUrl)), "{bad}");
        }
        assert!(matches!(url("ftp://h/i"), Err(ValueError::Scheme(scheme)) if scheme == "ftp"));
    }
}
