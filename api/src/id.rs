//! Identifiers, parsed once where they enter.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A random (version 4) identifier.
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }
    };
}

uuid_newtype! {
    /// A host. Derived from its hardware, so not a valid RFC 4122 version; the bits are never "corrected".
    HostId
}
uuid_newtype! {
    ClusterId
}
uuid_newtype! {
    /// An infra-env: the environment hosts are discovered in.
    InfraEnvId
}

/// A 48-bit MAC address; text form is lower-case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The form used in kernel arguments and default hostnames: `52-54-00-aa-bb-01`.
    pub fn dashed(&self) -> String {
        self.to_string().replace(':', "-")
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not a MAC address.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a MAC address (six hexadecimal bytes, e.g. 52:54:00:aa:bb:01)")]
pub struct ParseMacError(String);

impl FromStr for Mac {
    type Err = ParseMacError;
    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let bad = || ParseMacError(text.chars().take(64).collect());
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part =
                parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit())).ok_or_else(bad)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Self(bytes)) }
    }
}

impl TryFrom<String> for Mac {
    type Error = ParseMacError;
    fn try_from(text: String) -> Result<Self, ParseMacError> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_round_trips_and_refuses_noise() {
        let mac: Mac = "52-54-00-AA-bb-01".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:aa:bb:01");
        assert_eq!(mac.dashed(), "52-54-00-aa-bb-01");
        for bad in ["", "52:54:00:aa:bb", "52:54:00:aa:bb:01:02", "52:54:00:aa:bb:0g", "+1:54:00:aa:bb:01"] {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
