//! Reads a connectivity request: whom to probe. Every element is checked before a packet is sent.

use api::{ConnectivityCheckHost, HostId};
use kernel::order;
use std::{collections::BTreeSet, net::IpAddr};

/// A remote host to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteHost {
    pub id: HostId,
    /// Hardware addresses, lower case, as the service knows them. Compared as text, so that one of another technology
    /// (InfiniBand's 20 bytes) matches nothing but does no harm.
    pub macs: BTreeSet<String>,
    /// Each address once, sorted by its text as the report is.
    pub addresses: Vec<IpAddr>,
    /// What can't be probed, each once, sorted.
    pub odd: Vec<OddAddress>,
}

/// What stands for an address and is not the address of one host: unspecified, loopback, multicast, broadcast or none at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OddAddress {
    /// As it came, without its prefix.
    pub text: String,
    pub is_address: bool,
}

/// What is wrong with a request, and where.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
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
        source: serde_json::Error,
    },
}

/// Reads the JSON form of a request.
pub(crate) fn from_json(json: &[u8]) -> Result<Vec<ConnectivityCheckHost>, RequestError> {
    let elements: Vec<serde_json::Value> =
        serde_json::from_slice(json).map_err(|source| RequestError::NotAnArray { source })?;
    let host = |(index, element)| api::json::from_value(element).map_err(|source| RequestError::Host { index, source });
    elements.into_iter().enumerate().map(host).collect()
}

/// Turns a request into hosts whose addresses can be probed. Those that can't are listed apart, with a warning: one odd
/// address in one host's inventory must not hide all others from the service.
pub(crate) fn parse(hosts: &[ConnectivityCheckHost]) -> Vec<RemoteHost> {
    hosts.iter().map(parse_host).collect()
}

fn parse_host(host: &ConnectivityCheckHost) -> RemoteHost {
    let mut macs = BTreeSet::new();
    let mut addresses = Vec::new();
    let mut odd = BTreeSet::new();
    for nic in &host.nics {
        if !nic.mac.is_empty() {
            macs.insert(nic.mac.to_ascii_lowercase());
        }
        for text in &nic.ip_addresses {
            let plain = text.split_once('/').map_or(text.as_str(), |(address, _)| address);
            let address = plain.parse().ok();
            if let Some(address) = address.filter(is_unicast) {
                addresses.push(address);
                continue;
            }
            let (nic, text) = (shorten(&nic.name), shorten(text));
            tracing::warn!(host = %host.host_id, ?nic, address = ?text, "not a unicast address: not probed, reported as lost");
            odd.insert(OddAddress { text: plain.to_owned(), is_address: address.is_some() });
        }
    }
    order::sort_by_key(&mut addresses, IpAddr::to_string);
    addresses.dedup();
    RemoteHost { id: host.host_id, macs, addresses, odd: odd.into_iter().collect() }
}

/// Probing such an address would ask every station, or ourselves, and pass the answer off as the host's.
fn is_unicast(address: &IpAddr) -> bool {
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

    #[test]
    fn prefixes_are_cut_duplicates_dropped_and_order_is_textual() {
        let hosts = parse(&request("52:54:00:AA:BB:01", &["fd00::9/64", "10.0.0.9", "10.0.0.10/24", "10.0.0.9/8"]));
        let addresses: Vec<_> = hosts[0].addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["10.0.0.10", "10.0.0.9", "fd00::9"]);
        assert!(hosts[0].macs.contains("52:54:00:aa:bb:01"));
    }

    #[test]
    fn odd_addresses_are_listed_apart_and_the_others_are_probed() {
        let bad = ["::1", "0.0.0.0", "127.0.0.1/8", "224.0.0.5", "255.255.255.255", "::", "ff02::1"];
        let none = ["10.0.0.256/24", "", "fe80::1%ens3", "10.0.0.256"];
        let hosts = parse(&request("", &[&bad[..], &["10.0.0.1"], &none].concat()));
        assert_eq!(hosts[0].addresses, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let odd: Vec<_> = hosts[0].odd.iter().map(|odd| (&*odd.text, odd.is_address)).collect();
        let expected = [
            ("", false),
            ("0.0.0.0", true),
            ("10.0.0.256", false),
            ("127.0.0.1", true),
            ("224.0.0.5", true),
            ("255.255.255.255", true),
            ("::", true),
            ("::1", true),
            ("fe80::1%ens3", false),
            ("ff02::1", true),
        ];
        assert_eq!(odd, expected);
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
