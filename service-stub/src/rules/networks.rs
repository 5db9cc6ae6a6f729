//! Networks of a cluster: of its machines, its services and its pods.

use crate::net::Cidr;
use crate::releases::version;
use api::{Cluster, ClusterId, ClusterNetwork, MachineNetwork};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Since when IPv6 may come first in a cluster with both families.
const IPV6_FIRST: &str = "4.12";
/// Bits of addresses that networks of pods and services have at least.
const LEAST_BITS: u8 = 7;

/// The networks a cluster has, or is to get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Networks<'a> {
    pub(crate) machine: &'a [MachineNetwork],
    pub(crate) service: &'a [MachineNetwork],
    /// Of its pods.
    pub(crate) cluster: &'a [ClusterNetwork],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Of an address or a network; none for other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let address = text.parse::<IpAddr>().ok().or_else(|| Some(text.parse::<Cidr>().ok()?.address))?;
        Some(if address.is_ipv4() { Self::V4 } else { Self::V6 })
    }

    fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }
}

fn has_both<'a>(cidrs: impl Iterator<Item = &'a str>) -> bool {
    let (mut v4, mut v6) = (false, false);
    for family in cidrs.filter_map(Family::parse) {
        v4 |= family == Family::V4;
        v6 |= family == Family::V6;
    }
    v4 && v6
}

impl<'a> Networks<'a> {
    /// Those a cluster has.
    pub(crate) fn from_cluster(cluster: &'a Cluster) -> Self {
        Self {
            machine: &cluster.machine_networks,
            service: &cluster.service_networks,
            cluster: &cluster.cluster_networks,
        }
    }

    fn machine_cidrs(self) -> impl Iterator<Item = &'a str> {
        self.machine.iter().map(|network| network.cidr.as_str())
    }

    fn service_cidrs(self) -> impl Iterator<Item = &'a str> {
        self.service.iter().map(|network| network.cidr.as_str())
    }

    fn cluster_cidrs(self) -> impl Iterator<Item = &'a str> {
        self.cluster.iter().map(|network| network.cidr.as_str())
    }

    /// One kind of them has both families.
    pub(crate) fn are_dual_stack(self) -> bool {
        has_both(self.machine_cidrs()) || has_both(self.service_cidrs()) || has_both(self.cluster_cidrs())
    }

    /// Each can be read.
    pub(crate) fn check_cidrs(self) -> Result<(), String> {
        let mut reasons = Vec::new();
        let kinds = [
            ("Machine", self.machine_cidrs().collect::<Vec<_>>()),
            ("Service", self.service_cidrs().collect()),
            ("Cluster", self.cluster_cidrs().collect()),
        ];
        for (kind, cidrs) in kinds {
            for (index, cidr) in cidrs.into_iter().enumerate() {
                if cidr.is_empty() {
                    reasons.push(format!("{kind} Network CIDR cannot be empty (index {index})"));
                } else if cidr.parse::<Cidr>().is_err() {
                    reasons.push(format!(
                        "Could not parse {kind} Network CIDR {cidr} (index {index}): invalid CIDR address: {cidr}"
                    ));
                }
            }
        }
        super::several(&reasons)
    }

    /// With both families there are two networks of each kind, one of each family; with one family there is one network of
    /// machines, unless a load balancer of the user's own stands before several.
    pub(crate) fn check_stacks(self, stacks: &Stacks) -> Result<(), String> {
        let mut dual = self.are_dual_stack();
        if self.service.is_empty() && self.cluster.is_empty() && !dual {
            dual = stacks.was_dual;
        }
        if !dual {
            if self.machine.len() > 1 && !stacks.user_balanced {
                return Err("Single-stack cluster cannot contain multiple Machine Networks".to_owned());
            }
            return Ok(());
        }
        let kinds = [
            ("machine networks", self.machine_cidrs().collect::<Vec<_>>()),
            ("service networks", self.service_cidrs().collect()),
            ("cluster networks", self.cluster_cidrs().collect()),
        ];
        for (kind, cidrs) in kinds.iter().filter(|(_, cidrs)| !cidrs.is_empty()) {
            both_families(cidrs, kind, "subnet", stacks.openshift_version)?;
        }
        Ok(())
    }
}

/// Networks of machines or services, with the cluster that has them.
pub(crate) fn owned(networks: Option<Vec<MachineNetwork>>, id: ClusterId) -> Vec<MachineNetwork> {
    let networks = networks.unwrap_or_default().into_iter();
    networks.map(|network| MachineNetwork { cluster_id: Some(id), cidr: canonical(&network.cidr) }).collect()
}

/// The same for networks of pods.
pub(crate) fn owned_cluster_networks(networks: Option<Vec<ClusterNetwork>>, id: ClusterId) -> Vec<ClusterNetwork> {
    let networks = networks.unwrap_or_default().into_iter();
    let owned = |network: ClusterNetwork| {
        let cidr = canonical(&network.cidr);
        ClusterNetwork { cluster_id: Some(id), cidr, ..network }
    };
    networks.map(owned).collect()
}

/// A network in the one way to write it (RFC 5952); a text that is not a network stays as it is.
fn canonical(text: &str) -> String {
    text.parse::<Cidr>().map_or_else(|_| text.to_owned(), |cidr| cidr.to_string())
}

/// What [`Networks::check_stacks`] depends on besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stacks<'a> {
    /// The cluster had both families before.
    pub(crate) was_dual: bool,
    /// A load balancer of the user's own.
    pub(crate) user_balanced: bool,
    /// Of the cluster.
    pub(crate) openshift_version: &'a str,
}

/// Two, one of each family; in older releases IPv4 comes first.
pub(crate) fn both_families(items: &[&str], kind: &str, unit: &str, openshift_version: &str) -> Result<(), String> {
    let &[first, second] = items else {
        return Err(format!("Expected 2 {kind}, found {}", items.len()));
    };
    let families = [Family::parse(first), Family::parse(second)];
    if version::older(openshift_version, IPV6_FIRST) {
        if families[0] != Some(Family::V4) {
            return Err(format!(
                "First {kind} has to be IPv4 {unit} (IPv6-primary dual-stack requires OpenShift 4.12+), got {first}"
            ));
        }
        if families[1] != Some(Family::V6) {
            return Err(format!("Second {kind} has to be IPv6 {unit}, got {second}"));
        }
        return Ok(());
    }
    for family in [Family::V4, Family::V6] {
        if !families.contains(&Some(family)) {
            return Err(format!("dual-stack {kind} must include exactly one IPv{} {unit}", family.number()));
        }
    }
    Ok(())
}

/// The first network or address of each kind that is given, with the kind's name.
pub(crate) type Firsts<'a> = [(&'static str, Option<&'a str>); 5];

/// The family that comes first in a cluster with both: the same in all kinds.
pub(crate) fn primary_family(firsts: &Firsts) -> Result<Option<Family>, String> {
    let mut primary: Option<(&str, &str, Family)> = None;
    for (kind, text) in firsts {
        let Some((text, family)) = text.and_then(|text| Some((text, Family::parse(text)?))) else { continue };
        match primary {
            None => primary = Some((kind, text, family)),
            Some((kind_before, text_before, before)) if before != family => {
                return Err(format!(
                    "Inconsistent IP family order: {kind_before} first IP is {text_before} but {kind} first IP is {text}. All networks must have the same IP family first"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(primary.map(|(_, _, family)| family))
}

/// The same for a change of some kinds only.
pub(crate) fn keeps_primary(firsts: &Firsts, primary: Family) -> Result<(), String> {
    for (kind, text) in firsts {
        let Some(text) = text else { continue };
        if Family::parse(text).is_some_and(|family| family != primary) {
            return Err(format!(
                "Inconsistent IP family order: {kind} first IP is {text} but existing primary IP stack is IPv{}. All networks must have the same IP family first",
                primary.number()
            ));
        }
    }
    Ok(())
}

/// A network, not an address in it, and large enough.
fn subnet(text: &str, bits: u8) -> Result<Cidr, String> {
    let cidr: Cidr =
        text.parse().map_err(|_| format!("Failed to parse CIDR '{text}': invalid CIDR address: {text}"))?;
    let most = if cidr.address.is_ipv4() { 32 - bits } else { 128 - bits };
    if cidr.prefix < 1 || cidr.prefix > most {
        return Err(format!(
            "Address mask size must be between 1 to {most} and must include at least {} addresses",
            1_u32 << bits
        ));
    }
    if cidr.network().address.is_unspecified() {
        return Err(format!(
            "The specified CIDR {text} is invalid because its resulting routing prefix matches the unspecified address"
        ));
    }
    if cidr.network() != cidr {
        return Err(format!("{cidr} is not a valid network CIDR"));
    }
    Ok(cidr)
}

/// Networks of pods: large enough for themselves, and for each of their hosts.
pub(crate) fn check_cluster_networks(networks: &[ClusterNetwork], hosts: usize) -> Result<(), String> {
    for ClusterNetwork { cidr, host_prefix, .. } in networks {
        let parsed = subnet(cidr, LEAST_BITS).map_err(|why| format!("Cluster network CIDR {cidr}: {why}"))?;
        if *host_prefix < 1 {
            return Err(format!(
                "Cluster network host prefix {host_prefix}: Host prefix, now {host_prefix}, must be a positive integer"
            ));
        }
        cluster_size(parsed, *host_prefix, hosts).map_err(|why| format!("Cluster CIDR size: {why}"))?;
    }
    Ok(())
}

fn cluster_size(cidr: Cidr, host_prefix: u32, hosts: usize) -> Result<(), String> {
    let bits: u32 = if cidr.address.is_ipv4() { 32 } else { 128 };
    let most = bits - u32::from(LEAST_BITS);
    if host_prefix > most {
        return Err(format!(
            "Host prefix, now {host_prefix}, must be less than or equal to {most} to allow at least 128 addresses"
        ));
    }
    let wanted = if hosts == 1 { 1 } else { hosts.max(4) };
    let possible = 1_u64 << host_prefix.saturating_sub(cidr.prefix.into()).min(63);
    if u64::try_from(wanted).unwrap_or(u64::MAX) > possible {
        return Err(format!(
            "Cluster network CIDR prefix {} does not contain enough addresses for {hosts} hosts each one with {host_prefix} prefix ({} addresses)",
            cidr.prefix,
            1_u64 << (bits - host_prefix).min(63)
        ));
    }
    Ok(())
}

pub(crate) fn check_service_networks(networks: &[MachineNetwork]) -> Result<(), String> {
    for MachineNetwork { cidr, .. } in networks {
        subnet(cidr, LEAST_BITS).map_err(|why| format!("Service network CIDR {cidr}: {why}"))?;
    }
    Ok(())
}

/// Networks of machines, with so many bits of addresses at least.
pub(crate) fn check_machine_networks(networks: &[MachineNetwork], bits: u8) -> Result<(), String> {
    for MachineNetwork { cidr, .. } in networks {
        subnet(cidr, bits).map_err(|why| format!("Machine network CIDR '{cidr}': {why}"))?;
    }
    Ok(())
}

/// Bits of addresses that a network of machines has at least.
pub(crate) fn machine_bits(single_node: bool, user_balanced: bool) -> u8 {
    match (single_node, user_balanced) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 4,
    }
}

/// Networks of the same place in their lists share no address; those of machines are asked for only where the user looks after
/// the network.
pub(crate) fn check_overlap(networks: Networks, with_machines: bool) -> Result<(), String> {
    for (index, pods) in networks.cluster_cidrs().enumerate() {
        let machines = networks.machine_cidrs().nth(index).unwrap_or_default();
        let services = networks.service_cidrs().nth(index).unwrap_or_default();
        if with_machines {
            apart(machines, services, "MachineNetworkCIDR and ServiceNetworkCIDR")?;
            apart(machines, pods, "MachineNetworkCIDR and ClusterNetworkCidr")?;
        }
        apart(services, pods, "ServiceNetworkCidr and ClusterNetworkCidr")?;
    }
    Ok(())
}

fn apart(first: &str, second: &str, kinds: &str) -> Result<(), String> {
    let (Ok(one), Ok(other)) = (first.parse::<Cidr>(), second.parse::<Cidr>()) else { return Ok(()) };
    if one.contains(other.network().address) || other.contains(one.network().address) {
        return Err(format!("{kinds}: CIDRS {first} and {second} overlap"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(cidrs: &[&str]) -> Vec<MachineNetwork> {
        cidrs.iter().map(|cidr| MachineNetwork { cidr: (*cidr).to_owned(), cluster_id: None }).collect()
    }

    fn pods(cidr: &str, host_prefix: u32) -> Vec<ClusterNetwork> {
        vec![ClusterNetwork { cidr: cidr.to_owned(), host_prefix, cluster_id: None }]
    }

    #[test]
    fn networks_are_stored_in_the_one_way_to_write_them() {
        for (given, stored) in [
            ("FCFF:0069:0001:0000::/64", "fcff:69:1::/64"),
            ("fd00:0:0:0:0:0:0:0/48", "fd00::/48"),
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7/24", "192.0.2.7/24"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(owned(Some(networks(&[given])), ClusterId::default())[0].cidr, stored);
            assert_eq!(owned_cluster_networks(Some(pods(given, 64)), ClusterId::default())[0].cidr, stored);
        }
    }

    #[test]
    fn two_families_need_two_of_each_kind() {
        let stacks = Stacks { openshift_version: "4.22.9", ..Stacks::default() };
        for (machine, service, why) in [
            (vec!["10.0.0.0/24"], vec!["172.30.0.0/16"], ""),
            (vec!["10.0.0.0/24", "fd00::/64"], vec!["172.30.0.0/16", "fd02::/112"], ""),
            (vec!["fd00::/64", "10.0.0.0/24"], vec![], ""),
            (
                vec!["10.0.0.0/24", "10.0.1.0/24"],
                vec![],
                "Single-stack cluster cannot contain multiple Machine Networks",
            ),
            (vec!["10.0.0.0/24", "fd00::/64"], vec!["172.30.0.0/16"], "Expected 2 service networks, found 1"),
            (
                vec!["10.0.0.0/24", "10.0.1.0/24"],
                vec!["172.30.0.0/16", "fd02::/112"],
                "dual-stack machine networks must include exactly one IPv6 subnet",
            ),
        ] {
            let (machine, service) = (networks(&machine), networks(&service));
            let networks = Networks { machine: &machine, service: &service, cluster: &[] };
            assert_eq!(networks.check_stacks(&stacks).err().unwrap_or_default(), why, "{machine:?} {service:?}");
        }
        let older = Stacks { openshift_version: "4.11.59", ..Stacks::default() };
        let machine = networks(&["fd00::/64", "10.0.0.0/24"]);
        let why = Networks { machine: &machine, service: &[], cluster: &[] }.check_stacks(&older).unwrap_err();
        assert!(why.starts_with("First machine networks has to be IPv4 subnet"), "{why}");
    }

    #[test]
    fn networks_that_cannot_be_read_are_listed() {
        let (machine, service) = (networks(&["", "10.0.0.0/33"]), networks(&["x"]));
        let why = Networks { machine: &machine, service: &service, cluster: &[] }.check_cidrs().unwrap_err();
        assert_eq!(
            why,
            "3 errors occurred:\n\t* Machine Network CIDR cannot be empty (index 0)\n\t* Could not parse Machine Network CIDR 10.0.0.0/33 (index 1): invalid CIDR address: 10.0.0.0/33\n\t* Could not parse Service Network CIDR x (index 0): invalid CIDR address: x\n\n"
        );
    }

    #[test]
    fn sizes() {
        for (cidr, prefix, hosts, why) in [
            ("10.64.0.0/16", 24, 200, ""),
            ("10.64.0.0/24", 24, 1, ""),
            ("fd40::/48", 64, 500, ""),
            (
                "10.64.0.0/26",
                25,
                0,
                "Cluster network CIDR 10.64.0.0/26: Address mask size must be between 1 to 25 and must include at least 128 addresses",
            ),
            ("10.64.9.0/16", 24, 0, "Cluster network CIDR 10.64.9.0/16: 10.64.9.0/16 is not a valid network CIDR"),
            (
                "0.0.0.0/9",
                24,
                0,
                "Cluster network CIDR 0.0.0.0/9: The specified CIDR 0.0.0.0/9 is invalid because its resulting routing prefix matches the unspecified address",
            ),
            ("10.64.0.0/16", 0, 0, "Cluster network host prefix 0: Host prefix, now 0, must be a positive integer"),
            (
                "10.64.0.0/16",
                29,
                0,
                "Cluster CIDR size: Host prefix, now 29, must be less than or equal to 25 to allow at least 128 addresses",
            ),
            ("10.64.0.0/22", 25, 8, ""),
            (
                "10.64.0.0/22",
                25,
                9,
                "Cluster CIDR size: Cluster network CIDR prefix 22 does not contain enough addresses for 9 hosts each one with 25 prefix (128 addresses)",
            ),
        ] {
            assert_eq!(
                check_cluster_networks(&pods(cidr, prefix), hosts).err().unwrap_or_default(),
                why,
                "{cidr} {prefix}"
            );
        }
        assert!(check_machine_networks(&networks(&["10.0.0.0/28"]), 4).is_ok());
        assert!(check_machine_networks(&networks(&["10.0.0.0/29"]), 4).is_err());
        let (machine, service) = (networks(&["10.128.1.0/24"]), networks(&["172.30.0.0/16"]));
        let networks = Networks { machine: &machine, service: &service, cluster: &pods("10.128.0.0/14", 23) };
        assert_eq!(check_overlap(networks, false), Ok(()));
        let why = check_overlap(networks, true).unwrap_err();
        assert_eq!(why, "MachineNetworkCIDR and ClusterNetworkCidr: CIDRS 10.128.1.0/24 and 10.128.0.0/14 overlap");
    }

    #[test]
    fn one_family_comes_first_everywhere() {
        let firsts: Firsts = [
            ("machine_networks", Some("10.0.0.0/24")),
            ("api_vips", None),
            ("ingress_vips", None),
            ("service_networks", Some("fd02::/112")),
            ("cluster_networks", None),
        ];
        let why = primary_family(&firsts).unwrap_err();
        assert!(why.starts_with("Inconsistent IP family order: machine_networks first IP is 10.0.0.0/24 but service_networks first IP is fd02::/112."), "{why}");
        assert!(keeps_primary(&firsts, Family::V6).unwrap_err().contains("existing primary IP stack is IPv6"));
        let firsts: Firsts = [
            ("machine_networks", Some("x")),
            ("api_vips", Some("fd00::1")),
            ("ingress_vips", None),
            ("service_networks", None),
            ("cluster_networks", None),
        ];
        assert_eq!(primary_family(&firsts), Ok(Some(Family::V6)));
    }
}
