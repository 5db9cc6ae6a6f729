//! The documents of a `verify-vips` step.

use super::Claim;
use api::{VerifiedVip, VerifyVip, VipVerification};
use std::net::{AddrParseError, IpAddr, Ipv4Addr};

/// The service asks for two or four; this is a bound for hands.
const MAX_ADDRESSES: usize = 1000;

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the request is not a JSON array of objects with vip and vip_type (api or ingress)")]
    Shape {
        /// Cause, with line and column.
        source: serde_json::Error,
    },
    /// Text that is not an address.
    #[error("failed to verify vip {text}: not an IP address")]
    Address {
        /// What was found, shortened.
        text: String,
        source: AddrParseError,
    },
    /// An address that no station can have.
    #[error("failed to verify vip {address}: no station has an unspecified, multicast or broadcast address")]
    NotUnicast { address: IpAddr },
    #[error("{count} addresses to verify; at most {MAX_ADDRESSES} are checked at once")]
    TooMany { count: usize },
}

/// Reads the JSON form of a request.
pub(crate) fn from_json(json: &[u8]) -> Result<Vec<VerifyVip>, RequestError> {
    serde_json::from_slice(json).map_err(|source| RequestError::Shape { source })
}

/// The addresses of a request, in its order.
pub(crate) fn addresses(request: &[VerifyVip]) -> Result<Vec<IpAddr>, RequestError> {
    let parse = |vip: &VerifyVip| {
        vip.vip.parse().map_err(|source| RequestError::Address { text: vip.vip.chars().take(64).collect(), source })
    };
    request.iter().map(parse).collect()
}

/// Refuses what can't be asked for.
pub(crate) fn check(addresses: &[IpAddr]) -> Result<(), RequestError> {
    if addresses.len() > MAX_ADDRESSES {
        return Err(RequestError::TooMany { count: addresses.len() });
    }
    let invalid = |address: &&IpAddr| {
        address.is_unspecified() || address.is_multicast() || **address == IpAddr::V4(Ipv4Addr::BROADCAST)
    };
    addresses.iter().find(invalid).map_or(Ok(()), |&address| Err(RequestError::NotUnicast { address }))
}

/// The reply: an address in use, also by this host, can't be the cluster's. One that could not be asked for is
/// free, as it is to nmap, which ends well where there is no route and no link. Texts are echoed as they came, for the
/// service compares them.
pub(crate) fn reply(request: &[VerifyVip], claims: &[Claim]) -> Vec<VerifiedVip> {
    let verified = |(vip, claim): (&VerifyVip, &Claim)| VerifiedVip {
        verification: if claim.holders.is_empty() { VipVerification::Succeeded } else { VipVerification::Failed },
        vip: vip.vip.clone(),
        vip_type: vip.vip_type,
    };
    request.iter().zip(claims).map(verified).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Holder;

    #[test]
    fn the_reply_echoes_texts_in_the_order_asked() {
        let json = br#"[{"vip":"fd00:0::00A","vip_type":"ingress"},{"vip":"10.0.0.9","vip_type":"api"}]"#;
        let request = from_json(json).unwrap();
        let addresses = addresses(&request).unwrap();
        assert_eq!(addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fd00::a", "10.0.0.9"]);
        let claims: Vec<_> = addresses
            .iter()
            .zip([vec![Holder::Remote], vec![]])
            .map(|(&address, holders)| Claim { address, holders, links: vec![], obstacle: None })
            .collect();
        let expected = r#"[{"verification":"failed","vip":"fd00:0::00A","vip_type":"ingress"},{"verification":"succeeded","vip":"10.0.0.9","vip_type":"api"}]"#;
        assert_eq!(serde_json::to_string(&reply(&request, &claims)).unwrap(), expected);
    }

    #[test]
    fn bad_requests_are_reported_in_the_services_words() {
        let read = |vip: &str| {
            let json = serde_json::json!([{"vip": vip, "vip_type": "api"}]).to_string();
            from_json(json.as_bytes()).and_then(|request| addresses(&request)).and_then(|a| check(&a))
        };
        for (vip, expected) in [
            ("10.0.0.256", "failed to verify vip 10.0.0.256: not an IP address"),
            ("10.0.0.1/24", "failed to verify vip 10.0.0.1/24: not an IP address"),
            ("", "failed to verify vip : not an IP address"),
            ("ff02::1", "failed to verify vip ff02::1: no station has an unspecified, multicast or broadcast address"),
        ] {
            assert_eq!(read(vip).unwrap_err().to_string(), expected);
        }
        let error = from_json(br#"[{"vip":"10.0.0.1","vip_type":"dns"}]"#).unwrap_err();
        assert!(error.to_string().starts_with("the request is not a JSON array"), "{error}");
        let many = vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)); 1001];
        assert_eq!(check(&many).unwrap_err().to_string(), "1001 addresses to verify; at most 1000 are checked at once");
    }
}
