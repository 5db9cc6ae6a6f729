//! The request of a `free-network-addresses` step: networks as text.

use std::{fmt, net::Ipv4Addr, str::FromStr};

/// No larger network is swept at once.
const MIN_PREFIX_BITS: u32 = 16;
/// All networks of a request together.
const MAX_ADDRESSES: usize = 4 << 16;

/// An IPv4 network, in canonical form: no host bits set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: Ipv4Addr,
    prefix_bits: u32,
}

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the request is not a JSON array of networks as text")]
    Shape {
        /// Cause, with line and column.
        source: serde_json::Error,
    },
    /// Nothing asked for; the service fails on the empty reply.
    #[error("the request names no network")]
    Empty,
    #[error("Network {text} is not a valid CIDR: it must be an IPv4 address, a slash and 0 to 32")]
    Invalid {
        /// What was found, shortened.
        text: String,
    },
    /// Host bits are set, or it is written in an unusual way. In the words of the original agent.
    #[error("Requested CIDR {canonical} is not equal to provided network {text}")]
    NotCanonical {
        /// As it would have to be.
        canonical: Network,
        text: String,
    },
    /// Too much for one sweep.
    #[error("network {network} is larger than a /16; sweep parts of it")]
    TooLarge { network: Network },
    /// Too much for one sweep.
    #[error("the networks have {addresses} addresses together; at most {MAX_ADDRESSES} are swept at once")]
    TooMany { addresses: usize },
}

impl Network {
    pub(crate) fn containing(address: Ipv4Addr, prefix_bits: u32) -> Self {
        let mask = u32::MAX.checked_shl(32 - prefix_bits.min(32)).unwrap_or(0);
        Self { base: Ipv4Addr::from_bits(address.to_bits() & mask), prefix_bits: prefix_bits.min(32) }
    }

    /// Its lowest address.
    pub fn base(&self) -> Ipv4Addr {
        self.base
    }

    /// Length of its prefix.
    pub fn prefix_bits(&self) -> u32 {
        self.prefix_bits
    }

    /// All its addresses, ascending, network and broadcast address included.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let first = self.base.to_bits();
        let host_mask = u32::MAX.checked_shr(self.prefix_bits).unwrap_or(0);
        (first..=first | host_mask).map(Ipv4Addr::from_bits)
    }

    /// Whether it is no larger than a /16.
    pub(crate) fn is_sweepable(&self) -> bool {
        self.prefix_bits >= MIN_PREFIX_BITS
    }

    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        Self::containing(address, self.prefix_bits) == *self
    }

    /// Where `address` stands in the network, from 0.
    pub(crate) fn offset(&self, address: Ipv4Addr) -> Option<usize> {
        let offset = address.to_bits().checked_sub(self.base.to_bits())?;
        usize::try_from(offset).ok().filter(|_| self.contains(address))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix_bits)
    }
}

impl FromStr for Network {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let invalid = || RequestError::Invalid { text: text.chars().take(64).collect() };
        let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
        let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u32 = bits.parse().ok().filter(|bits| digits && *bits <= 32).ok_or_else(invalid)?;
        let canonical = Self::containing(address.parse().map_err(|_| invalid())?, bits);
        if canonical.to_string() != text {
            return Err(RequestError::NotCanonical { canonical, text: text.chars().take(64).collect() });
        }
        Ok(canonical)
    }
}

/// Reads the JSON form of a request.
pub(crate) fn from_json(json: &[u8]) -> Result<Vec<Network>, RequestError> {
    let texts: Vec<String> = serde_json::from_slice(json).map_err(|source| RequestError::Shape { source })?;
    texts.iter().map(|text| text.parse()).collect()
}

/// Refuses what can't be swept in one go.
pub(crate) fn check(networks: &[Network]) -> Result<(), RequestError> {
    if networks.is_empty() {
        return Err(RequestError::Empty);
    }
    if let Some(&network) = networks.iter().find(|network| !network.is_sweepable()) {
        return Err(RequestError::TooLarge { network });
    }
    let addresses = networks.iter().map(|network| network.addresses().size_hint().0).sum();
    if addresses > MAX_ADDRESSES { Err(RequestError::TooMany { addresses }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_networks_are_taken() {
        let error = |text: &str| text.parse::<Network>().unwrap_err().to_string();
        let equal = "is not equal to provided network";
        assert_eq!(error("10.0.0.1/24"), format!("Requested CIDR 10.0.0.0/24 {equal} 10.0.0.1/24"));
        assert_eq!(error("10.0.0.0/024"), format!("Requested CIDR 10.0.0.0/24 {equal} 10.0.0.0/024"));
        for text in ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0/24", "fd00::/64", "a/24"] {
            let why = "is not a valid CIDR: it must be an IPv4 address, a slash and 0 to 32";
            assert_eq!(error(text), format!("Network {text} {why}"));
        }
        for text in ["10.0.0.0/24", "0.0.0.0/0", "255.255.255.255/32", "192.0.2.128/25"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn networks_know_their_addresses() {
        let all = |text: &str| text.parse::<Network>().unwrap().addresses().collect::<Vec<_>>();
        let four = [252, 253, 254, 255].map(|last| Ipv4Addr::new(255, 255, 255, last));
        assert_eq!(all("255.255.255.252/30"), four);
        assert_eq!(all("10.0.0.7/32"), [Ipv4Addr::new(10, 0, 0, 7)]);
        let network: Network = "10.0.4.0/22".parse().unwrap();
        let offset = |text: &str| network.offset(text.parse().unwrap());
        assert_eq!((offset("10.0.4.0"), offset("10.0.7.255")), (Some(0), Some(1023)));
        assert_eq!((offset("10.0.3.255"), offset("10.0.8.0")), (None, None));
    }

    #[test]
    fn requests_that_cannot_be_swept_are_refused() {
        let read = |json: &str| from_json(json.as_bytes()).and_then(|networks| check(&networks));
        let error = |json: &str| read(json).unwrap_err().to_string();
        assert!(read(r#"["10.0.0.0/16","10.0.0.0/24"]"#).is_ok());
        assert_eq!(error("[]"), "the request names no network");
        assert_eq!(error("[7]"), "the request is not a JSON array of networks as text");
        assert_eq!(error(r#"["10.0.0.0/15"]"#), "network 10.0.0.0/15 is larger than a /16; sweep parts of it");
        assert_eq!(error(r#"["0.0.0.0/0"]"#), "network 0.0.0.0/0 is larger than a /16; sweep parts of it");
        let five = (0..5).map(|n| format!("\"10.{n}.0.0/16\"")).collect::<Vec<_>>().join(",");
        let expected = "the networks have 327680 addresses together; at most 262144 are swept at once";
        assert_eq!(error(&format!("[{five}]")), expected);
    }
}
