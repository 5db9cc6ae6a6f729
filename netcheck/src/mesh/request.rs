//! Reads a connectivity request: whom to probe. Every element is checked before a packet is sent.

use api::{ConnectivityCheckHost, HostId};
use std::{
    collections::BTreeSet,
    net::{AddrParseError, IpAddr},
};

/// A remote host to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteHost {
    pub id: HostId,
    /// Hardware addresses, lower case, as the service knows them. Compared as text, so that one of another technology
    /// (InfiniBand's 20 bytes) matches nothing but does no harm.
    pub macs: BTreeSet<String>,
    /// Each address once, sorted by its text as the report is.
    pub addresses: Vec<IpAddr>,
}

/// What is wrong with a request, and where.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Not a JSON array.
    #[error("the connectivity request is not a JSON array of hosts")]
    NotAnArray {
        /// Cause, with line and column.
        source: serde_json::Error,
    },
    /// An element of another shape.
    #[error("element {index} of the connectivity request is not a host (host_id and nics)")]
    Host {
        /// Position in the array, from 0.
        index: usize,
        /// Cause.
        source: serde_json::Error,
    },
    /// Text that is no address.
    #[error("{place}: '{text}' is not an IP address")]
    Address {
        /// Host, interface and position.
        place: Place,
        /// What was found, shortened.
        text: String,
        /// Cause.
        source: AddrParseError,
    },
    /// An address no single host can have.
    #[error("{place}: {address} is not the address of one host (unspecified, loopback, multicast or broadcast)")]
    NotUnicast {
        /// Host, interface and position.
        place: Place,
        /// The address.
        address: IpAddr,
    },
}

/// Where in a request an address stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The remote host.
    pub host_id: HostId,
    /// Its interface's name, shortened.
    pub nic: String,
    /// Position in `ip_addresses`, from 0.
    pub index: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "host {}, interface '{}', address {}", self.host_id, self.nic, self.index)
    }
}

/// Reads the JSON form of a request.
pub(crate) fn from_json(json: &[u8]) -> Result<Vec<ConnectivityCheckHost>, RequestError> {
    let elements: Vec<serde_json::Value> =
        serde_json::from_slice(json).map_err(|source| RequestError::NotAnArray { source })?;
    let host =
        |(index, element)| serde_json::from_value(element).map_err(|source| RequestError::Host { index, source });
    elements.into_iter().enumerate().map(host).collect()
}

/// Turns a request into hosts whose addresses are addresses.
pub(crate) fn parse(hosts: &[ConnectivityCheckHost]) -> Result<Vec<RemoteHost>, RequestError> {
    hosts.iter().map(parse_host).collect()
}

fn parse_host(host: &ConnectivityCheckHost) -> Result<RemoteHost, RequestError> {
    let mut macs = BTreeSet::new();
    let mut addresses = Vec::new();
    for nic in &host.nics {
        if !nic.mac.is_empty() {
            macs.insert(nic.mac.to_ascii_lowercase());
        }
        for (index, text) in nic.ip_addresses.iter().enumerate() {
            let place = || Place { host_id: host.host_id, nic: shorten(&nic.name), index };
            let plain = text.split_once('/').map_or(text.as_str(), |(address, _)| address);
            let address = plain.parse().map_err(|source| RequestError::Address {
                place: place(),
                text: shorten(text),
                source,
            })?;
            if !is_unicast(address) {
                return Err(RequestError::NotUnicast { place: place(), address });
            }
            addresses.push(address);
        }
    }
    addresses.sort_by_cached_key(IpAddr::to_string);
    addresses.dedup();
    Ok(RemoteHost { id: host.host_id, macs, addresses })
}

/// Probing such an address would ask everybody, or ourselves, and pass the answer off as the host's.
fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || broadcast)
}

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(mac: &str, addresses: &[&str]) -> Vec<ConnectivityCheckHost> {
        let json = serde_json::json!([{
            "host_id": "9a869904-4b40-4aae-a997-9879bd08dde6",
            "nics": [{"name": "ens3", "mac": mac, "ip_addresses": addresses}],
        }]);
        from_json(json.to_string().as_bytes()).unwrap()
    }

    fn error(addresses: &[&str]) -> String {
        parse(&request("", addresses)).unwrap_err().to_string()
    }

    #[test]
    fn prefixes_are_cut_duplicates_dropped_and_order_is_textual() {
        let hosts =
            parse(&request("52:54:00:AA:BB:01", &["fd00::9/64", "10.0.0.9", "10.0.0.10/24", "10.0.0.9/8"])).unwrap();
        let addresses: Vec<_> = hosts[0].addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["10.0.0.10", "10.0.0.9", "fd00::9"]);
        assert!(hosts[0].macs.contains("52:54:00:aa:bb:01"));
    }

    #[test]
    fn errors_name_the_element() {
        let place = "host 9a869904-4b40-4aae-a997-9879bd08dde6, interface 'ens3', address 1";
        assert_eq!(error(&["10.0.0.1", "10.0.0.256"]), format!("{place}: '10.0.0.256' is not an IP address"));
        for bad in ["0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255", "::", "::1", "ff02::1"] {
            let text = error(&["10.0.0.1", bad]);
            assert!(text.starts_with(&format!("{place}: {bad} is not the address of one host")), "{text}");
        }
    }

    #[test]
    fn json_errors_name_the_element() {
        let text = from_json(br#"{"host_id":1}"#).unwrap_err().to_string();
        assert_eq!(text, "the connectivity request is not a JSON array of hosts");
        let json = br#"[{"host_id":"9a869904-4b40-4aae-a997-9879bd08dde6","nics":null},{"host_id":"x"}]"#;
        let text = from_json(json).unwrap_err().to_string();
        assert_eq!(text, "element 1 of the connectivity request is not a host (host_id and nics)");
    }
}
