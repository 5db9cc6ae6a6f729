//! Virtual addresses from a DHCP server (docs/compatibility.md#dhcp-lease-allocate): hosts request them with hardware addresses
//! derived from the cluster's id, so that all get the same leases, which the nodes take over later.

use crate::course::DhcpVips;
use crate::events::{self, kinds};
use crate::machine_networks;
use crate::model::ClusterRecord;
use crate::net::Cidr;
use crate::store::Change;
use api::{ClusterId, DhcpAllocationResponse, Mac, Timestamp};
use preparation::{Vip, Vips};
use serde_json::{Value, json};
use std::net::IpAddr;

/// Time after which missing leases are reported, seconds.
const EXPECTED_S: i64 = 120;
/// First half of every such hardware address.
const PREFIX: [u8; 3] = [0x00, 0x1a, 0x4a];
/// A longer lease is none.
const MAX_LEASE_BYTES: usize = 16 << 10;

/// The mixing table of RFC 3074 §6.
#[rustfmt::skip]
const MIX: [u8; 256] = [
    251, 175, 119, 215, 81, 14, 79, 191, 103, 49, 181, 143, 186, 157, 0, 232, 31, 32, 55, 60, 152, 58, 17, 237, 174, 70, 160, 144,
    220, 90, 57, 223, 59, 3, 18, 140, 111, 166, 203, 196, 134, 243, 124, 95, 222, 179, 197, 65, 180, 48, 36, 15, 107, 46, 233, 130,
    165, 30, 123, 161, 209, 23, 97, 16, 40, 91, 219, 61, 100, 10, 210, 109, 250, 127, 22, 138, 29, 108, 244, 67, 207, 9, 178, 204,
    74, 98, 126, 249, 167, 116, 34, 77, 193, 200, 121, 5, 20, 113, 71, 35, 128, 13, 182, 94, 25, 226, 227, 199, 75, 27, 41, 245,
    230, 224, 43, 225, 177, 26, 155, 150, 212, 142, 218, 115, 241, 73, 88, 105, 39, 114, 62, 255, 192, 201, 145, 214, 168, 158,
    221, 148, 154, 122, 12, 84, 82, 163, 44, 139, 228, 236, 205, 242, 217, 11, 187, 146, 159, 64, 86, 239, 195, 42, 106, 198, 118,
    112, 184, 172, 87, 2, 173, 117, 176, 229, 247, 253, 137, 185, 99, 164, 102, 147, 45, 66, 231, 52, 141, 211, 194, 206, 246, 238,
    56, 110, 78, 248, 63, 240, 189, 93, 92, 51, 53, 183, 19, 171, 72, 50, 33, 104, 101, 69, 8, 252, 83, 120, 76, 135, 85, 54, 202,
    125, 188, 213, 96, 235, 136, 208, 162, 129, 190, 132, 156, 38, 47, 1, 7, 254, 24, 4, 216, 131, 89, 21, 28, 133, 37, 153, 149,
    80, 170, 68, 6, 169, 234, 151,
];

/// The hardware address that a cluster's virtual address is asked for with; `what` is `api` or `ingress`.
pub(crate) fn mac(cluster: ClusterId, what: &str) -> Mac {
    let [a, b, c] = PREFIX;
    let key = format!("{cluster}-{what}");
    let [d, e, f] = [0, 1, 2].map(|index| pearson(key.as_bytes(), index));
    Mac([a, b, c, d, e, f])
}

/// One byte of a Pearson hash.
fn pearson(key: &[u8], index: u8) -> u8 {
    let mixed = |byte: u8| MIX.get(usize::from(byte)).copied().unwrap_or_default();
    let first = key.first().copied().unwrap_or_default();
    key.iter().fold(mixed(first.wrapping_add(index)), |hash, byte| mixed(hash ^ byte))
}

/// Takes leases that a host got; the caller stores the record. Leases that can't be the cluster's are refused with a reason. Once
/// the installation has started the addresses are fixed.
pub(crate) fn take(
    change: &mut Change,
    record: &mut ClusterRecord,
    networks: &[Cidr],
    answer: DhcpAllocationResponse,
) -> Result<(), String> {
    let id = record.cluster.id;
    if !record.cluster.vip_dhcp_allocation {
        return Err(format!("cluster {id} takes no virtual addresses by DHCP"));
    }
    let mut found = Vec::new();
    for text in [&answer.api_vip_address, &answer.ingress_vip_address] {
        let address: IpAddr = text.parse().map_err(|_| format!("'{text}' is not an address"))?;
        if !networks.iter().any(|network| network.contains(address)) {
            return Err(format!("{address} is in no machine network of cluster {id}"));
        }
        found.push(address);
    }
    if let Some(bad) = [&answer.api_vip_lease, &answer.ingress_vip_lease].into_iter().find(|lease| !is_lease(lease)) {
        return Err(format!("'{}' is not a lease", bad.chars().take(80).collect::<String>()));
    }
    let has = |list: &[Value], address: &IpAddr| {
        list.len() == 1 && list.iter().any(|vip| vip["ip"].as_str().is_some_and(|ip| ip.parse() == Ok(*address)))
    };
    let (api, ingress) = (found.first(), found.get(1));
    let same = api.is_some_and(|address| has(&record.cluster.api_vips, address))
        && ingress.is_some_and(|address| has(&record.cluster.ingress_vips, address));
    if !same && !record.state.accepts_hosts() {
        return Err(format!("cluster {id} is in status {}: its virtual addresses can't change", record.state));
    }
    if !same {
        record.cluster.api_vips = api.map(|ip| json!({"cluster_id": id, "ip": ip})).into_iter().collect();
        record.cluster.ingress_vips = ingress.map(|ip| json!({"cluster_id": id, "ip": ip})).into_iter().collect();
        let (api, ingress) = (&answer.api_vip_address, &answer.ingress_vip_address);
        let details = json!({"api_vip": api, "ingress_vip": ingress});
        events::cluster(change, record, kinds::API_INGRESS_VIP_UPDATED, details);
    }
    record.dhcp =
        DhcpVips { api_lease: answer.api_vip_lease, ingress_lease: answer.ingress_vip_lease, ..DhcpVips::default() };
    Ok(())
}

/// Whether a text is empty, or one lease as dhclient writes it: `lease {`, statements, `}`.
fn is_lease(text: &str) -> bool {
    let trimmed = text.trim();
    let inside = trimmed.strip_prefix("lease").map(str::trim_start).and_then(|rest| rest.strip_prefix('{'));
    let Some(inside) = inside.and_then(|rest| rest.strip_suffix('}')) else { return trimmed.is_empty() };
    let mut statements: Vec<&str> = inside.split(';').collect();
    let end = statements.pop().unwrap_or_default();
    let is_statement = |statement: &&str| {
        let keyword = statement.trim_start().split(' ').next().unwrap_or_default();
        statement.starts_with(char::is_whitespace)
            && statement.trim_start().contains(' ')
            && !keyword.is_empty()
            && keyword.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
            && !statement.contains('}')
    };
    text.len() <= MAX_LEASE_BYTES && !end.is_empty() && end.trim().is_empty() && statements.iter().all(is_statement)
}

/// Reports leases that take too long, once.
pub(crate) fn check_lease_timeout(
    change: &mut Change,
    record: &mut ClusterRecord,
    networks: &[Cidr],
    started: Timestamp,
) {
    let there = !record.cluster.api_vips.is_empty() && !record.cluster.ingress_vips.is_empty();
    if !record.cluster.vip_dhcp_allocation || there || networks.is_empty() {
        record.dhcp.expected_since = Timestamp::ZERO;
        record.dhcp.timed_out = false;
    } else if record.dhcp.expected_since.is_zero() {
        record.dhcp.expected_since = change.now;
    } else if !record.dhcp.timed_out && change.now.seconds_since(record.dhcp.expected_since.max(started)) > EXPECTED_S {
        record.dhcp.timed_out = true;
        let details = json!({"timeout_interval": EXPECTED_S / 60});
        events::cluster(change, record, kinds::API_INGRESS_VIP_TIMED_OUT, details);
    }
}

/// Both addresses with their leases; `None` where they do not come by DHCP.
pub(crate) fn both(record: &ClusterRecord) -> Option<Vips> {
    let (cluster, leases) = (&record.cluster, &record.dhcp);
    if !cluster.vip_dhcp_allocation || cluster.user_managed_networking {
        return None;
    }
    let vip = |name, list: &[Value], lease: &str| Vip {
        mac: mac(cluster.id, name),
        address: machine_networks::addresses(list).next(),
        lease: lease.to_owned(),
    };
    Some(Vips {
        api: vip("api", &cluster.api_vips, &leases.api_lease),
        ingress: vip("ingress", &cluster.ingress_vips, &leases.ingress_lease),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ClusterState;
    use crate::store::{Store, StoreError};
    use api::{Cluster, Secret};

    const LEASE: &str = "lease {\n  interface \"api\";\n  fixed-address 192.0.2.9;\n  option dhcp-lease-time 3600;\n  renew 1 2026/11/23 01:02:03;\n  expire 1 2026/11/23 02:02:03;\n}";

    fn cluster() -> ClusterRecord {
        let cluster = Cluster { id: ClusterId::random(), vip_dhcp_allocation: true, ..Cluster::default() };
        ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default())
    }

    fn changing(work: impl FnOnce(&mut Change)) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        store
            .change("", |change| {
                work(change);
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }

    #[test]
    fn hardware_addresses_follow_from_the_cluster() {
        let mut sorted = MIX;
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(index, byte)| usize::from(*byte) == index), "each byte once");
        let id: ClusterId = "0a59ef14-c313-44bb-9966-0663282aeadf".parse().unwrap();
        let macs = ["api", "ingress"].map(|what| mac(id, what).to_string());
        assert_eq!(macs, ["00:1a:4a:9e:c4:a1", "00:1a:4a:c7:dd:65"], "as reckoned apart from this");
    }

    #[test]
    fn leases_are_recognised() {
        for good in ["", "  \n", LEASE, "lease {\n}", "lease{\n  key ;\n}\n"] {
            assert!(is_lease(good), "{good}");
        }
        let long = format!("lease {{\n  key {};\n}}", "x".repeat(MAX_LEASE_BYTES));
        for bad in
            ["lease", "lease {", "lease {}", "lease {\n Key x;\n}", "lease {\n key;\n}", "lease {\n a b;\n} x", &long]
        {
            assert!(!is_lease(bad), "{}", &bad[..bad.len().min(40)]);
        }
    }

    #[test]
    fn only_leases_of_the_clusters_own_network_become_its_addresses() {
        let networks = ["192.0.2.0/24".parse::<Cidr>().unwrap()];
        let answer = |api: &str, ingress: &str, lease: &str| DhcpAllocationResponse {
            api_vip_address: api.into(),
            ingress_vip_address: ingress.into(),
            api_vip_lease: lease.into(),
            ingress_vip_lease: LEASE.into(),
        };
        changing(|change| {
            let mut record = cluster();
            for (bad, why) in [
                (answer("", "192.0.2.10", LEASE), "is not an address"),
                (answer("198.51.100.9", "192.0.2.10", LEASE), "is in no machine network"),
                (answer("192.0.2.9", "192.0.2.10", "lease"), "is not a lease"),
            ] {
                let error = take(change, &mut record, &networks, bad).unwrap_err();
                assert!(error.contains(why), "{error}");
            }
            take(change, &mut record, &networks, answer("192.0.2.9", "192.0.2.10", LEASE)).unwrap();
            assert_eq!(
                (&record.cluster.api_vips[0]["ip"], &record.dhcp.api_lease),
                (&json!("192.0.2.9"), &LEASE.to_owned())
            );
            record.cluster.api_vips[0]["verification"] = "succeeded".into();
            record.state = ClusterState::Installing;
            take(change, &mut record, &networks, answer("192.0.2.9", "192.0.2.10", "")).unwrap();
            assert_eq!(record.cluster.api_vips[0]["verification"], "succeeded", "the same address");
            let error = take(change, &mut record, &networks, answer("192.0.2.11", "192.0.2.10", LEASE)).unwrap_err();
            assert!(error.contains("can't change"), "{error}");
            record.cluster.vip_dhcp_allocation = false;
            assert!(take(change, &mut record, &networks, answer("192.0.2.9", "192.0.2.10", LEASE)).is_err());
        });
    }

    #[test]
    fn leases_are_awaited_and_then_reported() {
        let networks = ["192.0.2.0/24".parse::<Cidr>().unwrap()];
        changing(|change| {
            let now = change.now.unix_seconds();
            let mut record = cluster();
            check_lease_timeout(change, &mut record, &[], Timestamp::ZERO);
            assert!(record.dhcp.expected_since.is_zero(), "there is no network yet");
            check_lease_timeout(change, &mut record, &networks, Timestamp::ZERO);
            assert_eq!(record.dhcp.expected_since, change.now);
            for (age, up, timed_out) in [(120, 9999, false), (121, 100, false), (121, 9999, true)] {
                record.dhcp.expected_since = Timestamp::from_unix_seconds(now - age);
                check_lease_timeout(change, &mut record, &networks, Timestamp::from_unix_seconds(now - up));
                assert_eq!(record.dhcp.timed_out, timed_out, "after {age} s, of a service that is up for {up} s");
            }
            record.cluster.api_vips = vec![json!({"ip": "192.0.2.9"})];
            record.cluster.ingress_vips = vec![json!({"ip": "192.0.2.10"})];
            check_lease_timeout(change, &mut record, &networks, Timestamp::ZERO);
            assert!(!record.dhcp.timed_out && record.dhcp.expected_since.is_zero());
        });
    }

    #[test]
    fn both_are_known_where_they_come_by_dhcp() {
        let mut record = cluster();
        record.cluster.api_vips = vec![json!({"ip": "192.0.2.9"})];
        record.dhcp.ingress_lease = LEASE.into();
        let vips = both(&record).unwrap();
        let [api, ingress] = ["api", "ingress"].map(|name| mac(record.cluster.id, name));
        assert_eq!((vips.api.mac, vips.api.address, &*vips.api.lease), (api, Some([192, 0, 2, 9].into()), ""));
        assert_eq!((vips.ingress.mac, vips.ingress.address, &*vips.ingress.lease), (ingress, None, LEASE));
        record.cluster.user_managed_networking = true;
        assert!(both(&record).is_none());
        record.cluster = Cluster::default();
        assert!(both(&record).is_none());
    }
}
