//! IP networks in CIDR notation.

use std::{fmt, net::IpAddr, str::FromStr};

/// An address with a prefix length; the address may have host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    /// The address as written.
    pub address: IpAddr,
    /// Prefix length, bits.
    pub prefix: u8,
}

impl Cidr {
    /// The same network without host bits.
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) & mask32(self.prefix)).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) & mask128(self.prefix)).into()),
        };
        Self { address, ..self }
    }

    /// Whether `address` lies in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, prefix: self.prefix }.network().address == self.network().address
    }
}

fn mask32(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32u32.saturating_sub(prefix.into())).unwrap_or(0)
}

fn mask128(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128u32.saturating_sub(prefix.into())).unwrap_or(0)
}

/// Text that is not a network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a network in CIDR notation (e.g. 192.168.1.0/24)")]
pub struct ParseCidrError(String);

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let bad = || ParseCidrError(text.chars().take(64).collect());
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if prefix > if address.is_ipv4() { 32 } else { 128 } {
            return Err(bad());
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses_only() {
        let cidr: Cidr = "192.168.131.10/24".parse().unwrap();
        assert_eq!(cidr.network().to_string(), "192.168.131.0/24");
        assert!(cidr.contains("192.168.131.255".parse().unwrap()));
        assert!(!cidr.contains("192.168.132.0".parse().unwrap()));
        assert!(!cidr.contains("::1".parse().unwrap()));
        assert!("0.0.0.0/0".parse::<Cidr>().unwrap().contains("8.8.8.8".parse().unwrap()));
        assert!("::/0".parse::<Cidr>().unwrap().contains("fd00::1".parse().unwrap()));
        let six: Cidr = "fd00::1/64".parse().unwrap();
        assert_eq!(six.network().to_string(), "fd00::/64");
        for bad in ["", "10.0.0.1", "10.0.0.1/33", "::/129", "10.0.0.1/-1", "x/8"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }
}
