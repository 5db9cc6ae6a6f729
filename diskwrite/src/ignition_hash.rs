//! The sum that vouches for an Ignition config, in Ignition's own notation (`verification.hash` of its specification).

use kernel::hex;
use sha2::{Digest, Sha256, Sha512};
use std::{fmt, str::FromStr};

/// Why a sum can't be read, or a config does not have it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnitionHashError {
    /// No `-` between type and digest.
    #[error("failed to detect hash-type and digest in '{text}': give sha256-HEX or sha512-HEX")]
    Form {
        /// As given.
        text: String,
    },
    /// Neither of the two.
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
    /// Another config.
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
            Self::Sha256(_) => hex::lower(&Sha256::digest(config)),
            Self::Sha512(_) => hex::lower(&Sha512::digest(config)),
        };
        let expected = hex::lower(self.digest());
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
        write!(f, "{}-{}", self.kind(), hex::lower(self.digest()))
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

#[cfg(test)]
mod tests {
    use super::*;

    const ABC_256: &str = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const ABC_512: &str = "sha512-ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                           2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    #[test]
    fn knows_the_config_it_was_made_of() {
        for text in [ABC_256, ABC_512] {
            let hash: IgnitionHash = text.parse().unwrap();
            assert_eq!(hash.to_string(), text);
            hash.check(b"abc").unwrap();
            let error = hash.check(b"abc\n").unwrap_err().to_string();
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
            ("sha512", "failed to detect hash-type and digest in 'sha512'"),
            ("foo-bar", "unknown hash type 'foo'"),
            ("-bar", "unknown hash type ''"),
            ("SHA256-00", "unknown hash type 'SHA256'"),
            ("sha512-", "wrong digest length (0) for sha512"),
            ("sha512-00", "wrong digest length (8) for sha512"),
            (&ABC_512.replace("512", "256"), "wrong digest length (512) for sha256"),
            ("sha256-0", "cannot decode the hex digest '0'"),
            ("sha256-0\u{e9}", "cannot decode the hex digest"),
            ("sha256-+1", "cannot decode the hex digest '+1'"),
        ];
        for (text, expected) in table {
            assert!(error(text).to_string().starts_with(expected), "{text}: {}", error(text));
        }
    }
}
