//! MAC addresses, as people write them.

use std::{fmt, str::FromStr};

/// The address of an Ethernet interface. Six octets; shown in upper case, as NMState does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

/// A text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a MAC address: expected six pairs of hexadecimal digits separated by colons or dashes")]
pub struct MacError {
    /// What was there, its beginning.
    pub found: String,
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let wrong = || MacError { found: text.chars().take(40).collect() };
        let separator = if text.contains(':') { ':' } else { '-' };
        let mut octets = [0; 6];
        let mut pairs = text.split(separator);
        for octet in &mut octets {
            let pair = pairs.next().filter(|pair| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
        }
        if pairs.next().is_some() { Err(wrong()) } else { Ok(Self(octets)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{g:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_pairs_and_nothing_else() {
        let mac: Mac = "52:54:00:aa:13:0F".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:AA:13:0F");
        assert_eq!("52-54-00-aa-13-0f".parse(), Ok(mac));
        for bad in
            ["", "52:54:00:aa:13", "52:54:00:aa:13:0f:00", "52:54:00:aa:13:g0", "5254:00:aa:13:0f", "+2:54:00:aa:13:0f"]
        {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
