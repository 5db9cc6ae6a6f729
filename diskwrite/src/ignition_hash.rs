//! The sum that vouches for an Ignition config, in Ignition's own notation (`verification.hash` of its specification).

use sha2::{Digest, Sha256, Sha512};
use std::{fmt, str::FromStr};

/// Why a sum can't be read, or a config does not have it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnitionHashError {
    /// No `-` between type and digest.
    #[error("failed to detect hash-type and digest in '{text}': give sha256-HEX or sha512-HEX")]
    Form { text: String },
    #[error("unknown hash type '{kind}': give sha256-HEX or sha512-HEX")]
    Kind {
        /// What stands before the `-`.
        kind: String,
    },
    /// Not hexadecimal digits in pairs.
    #[error("cannot decode the hex digest '{digest}'")]
    Hex {
        /// What stands after the `-`.
        digest: String,
    },
    /// Too few or too many digits.
    #[error("wrong digest length ({bits}) for {kind}")]
    Length {
        /// `sha256` or `sha512`.
        kind: &'static str,
        /// Of the digest given, in bits.
        bits: usize,
    },
    #[error("hash mismatch of the Ignition config, computed '{found}' but expected '{expected}'")]
    Mismatch {
        /// Hexadecimal digest of the config.
        found: String,
        /// The digest asked for.
        expected: String,
    },
}

/// `sha256-HEX` or `sha512-HEX`, over the config's bytes as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnitionHash {
    /// SHA-256.
    Sha256([u8; 32]),
    /// SHA-512.
    Sha512([u8; 64]),
}

impl IgnitionHash {
    /// Whether this is the config the sum was made of.
    pub fn check(&self, config: &[u8]) -> Result<(), IgnitionHashError> {
        let found = match self {
            Self::Sha256(_) => hex(&Sha256::digest(config)),
            Self::Sha512(_) => hex(&Sha512::digest(config)),
        };
        let expected = hex(self.digest());
        if found == expected { Ok(()) } else { Err(IgnitionHashError::Mismatch { found, expected }) }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Sha512(_) => "sha512",
        }
    }

    fn digest(&self) -> &[u8] {
        match self {
            Self::Sha256(digest) => digest,
            Self::Sha512(digest) => digest,
        }
    }
}

impl FromStr for IgnitionHash {
    type Err = IgnitionHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, digest) = text.split_once('-').ok_or_else(|| IgnitionHashError::Form { text: text.to_owned() })?;
        match kind {
            "sha256" => Ok(Self::Sha256(decode("sha256", digest)?)),
            "sha512" => Ok(Self::Sha512(decode("sha512", digest)?)),
            _ => Err(IgnitionHashError::Kind { kind: kind.to_owned() }),
        }
    }
}

impl fmt::Display for IgnitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind(), hex(self.digest()))
    }
}

fn decode<const N: usize>(kind: &'static str, digest: &str) -> Result<[u8; N], IgnitionHashError> {
    let bad = || IgnitionHashError::Hex { digest: digest.to_owned() };
    let digits: Option<Vec<u8>> =
        digest.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(bad)?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit)).collect();
    let bits = bytes.len().saturating_mul(8);
    bytes.try_into().map_err(|_| IgnitionHashError::Length { kind, bits })
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &[u8] = br#"{"ignition":{"version":"3.4.0"}}"#;
    const IN_256: &str = "sha256-720a49720f0ddd4a599259e0007b0083e8998e31619c69c96681255a79f77a33";
    const IN_512: &str = "sha512-055abd5bb9c442105c91942439631df766692a93dfd8a661c05938754d55bf54\
                          c6aa5bd616360975c84ea12220d8aecaaae0e35dd97d1ea8f64c77cb3969a852";

    #[test]
    fn knows_the_config_it_was_made_of() {
        for text in [IN_256, IN_512] {
            let hash: IgnitionHash = text.parse().unwrap();
            assert_eq!(hash.to_string(), text);
            hash.check(CONFIG).unwrap();
            let error = hash.check(&[CONFIG, b"\n"].concat()).unwrap_err().to_string();
            assert!(error.contains("hash mismatch") && error.ends_with(&format!("'{}'", &text[7..])), "{error}");
            let upper = format!("{}{}", &text[..7], text[7..].to_uppercase());
            assert_eq!(upper.parse(), Ok(hash));
        }
    }

    #[test]
    fn refuses_what_is_no_sum() {
        let error = |text: &str| text.parse::<IgnitionHash>().unwrap_err();
        let table = [
            ("", "failed to detect hash-type and digest in ''"),
            ("sha256", "failed to detect hash-type and digest in 'sha256'"),
            (&IN_256.replace('-', ":"), "failed to detect hash-type and digest in 'sha256:720a"),
            ("md5-d41d8cd98f00b204e9800998ecf8427e", "unknown hash type 'md5'"),
            ("-720a", "unknown hash type ''"),
            ("Sha512-055a", "unknown hash type 'Sha512'"),
            ("sha256-", "wrong digest length (0) for sha256"),
            ("sha256-720a49", "wrong digest length (24) for sha256"),
            (&IN_256.replace("256", "512"), "wrong digest length (256) for sha512"),
            (&IN_512.replace("512", "256"), "wrong digest length (512) for sha256"),
            ("sha512-055", "cannot decode the hex digest '055'"),
            ("sha512-05 5", "cannot decode the hex digest '05 5'"),
            ("sha512-0\u{e9}", "cannot decode the hex digest"),
            ("sha512-+1", "cannot decode the hex digest '+1'"),
            ("sha512-05-5a", "cannot decode the hex digest '05-5a'"),
        ];
        for (text, expected) in table {
            assert!(error(text).to_string().starts_with(expected), "{text}: {}", error(text));
        }
    }
}
