//! Virtual addresses of a cluster's API and of its ingress.

use super::networks::{Networks, Stacks, both_families};
use crate::net::Cidr;
use std::net::{IpAddr, Ipv4Addr};

/// A cluster's virtual addresses, and what they depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vips<'a> {
    pub(crate) api: &'a [String],
    pub(crate) ingress: &'a [String],
    /// The cluster's networks.
    pub(crate) networks: Networks<'a>,
    /// The user looks after the network.
    pub(crate) user_managed: bool,
    /// The addresses come by DHCP.
    pub(crate) by_dhcp: bool,
    /// A load balancer of the user's own holds them.
    pub(crate) user_balanced: bool,
    /// The cluster's version.
    pub(crate) openshift_version: &'a str,
}

impl Vips<'_> {
    /// In the order clients know.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_input()?;
        no_duplicates(self.api, self.ingress, self.user_balanced)?;
        for (kind, list) in [("apiVIPs", self.api), ("ingressVips", self.ingress)] {
            if list.len() == 2 {
                let list: Vec<&str> = list.iter().map(String::as_str).collect();
                both_families(&list, kind, "address", self.openshift_version)?;
            }
        }
        let stacks =
            Stacks { was_dual: false, user_balanced: self.user_balanced, openshift_version: self.openshift_version };
        self.networks.check_stacks(&stacks)?;
        if self.user_managed {
            none_with_user_managed(self.api, self.ingress, self.by_dhcp)?;
        }
        match (self.by_dhcp, self.user_balanced) {
            (true, _) => none_by_dhcp(self.api, self.ingress),
            (false, false) => self.check_balanced_by_cluster(),
            (false, true) => self.check_balanced_by_user(),
        }
    }

    fn check_input(&self) -> Result<(), String> {
        let mut reasons = Vec::new();
        for (list, kind, name) in [(self.api, "API", "apiVIPs"), (self.ingress, "Ingress", "ingressVips")] {
            if list.len() > 2 {
                reasons.push(format!("{name} supports 2 vips. got: {}", list.len()));
            } else {
                reasons.extend(unreadable(list, kind));
            }
        }
        if self.api.len() != self.ingress.len() {
            reasons.push(format!(
                "configuration must include the same number of apiVIPs (got {}) and ingressVIPs (got {})",
                self.api.len(),
                self.ingress.len()
            ));
        }
        super::several(&reasons)
    }

    fn check_balanced_by_cluster(&self) -> Result<(), String> {
        if self.networks.machine.is_empty() {
            return match self.networks.are_dual_stack() {
                true => Err("Dual-stack cluster cannot be created with empty Machine Networks".to_owned()),
                false => Ok(()),
            };
        }
        let mut reasons = Vec::new();
        for (index, (api, ingress)) in self.api.iter().zip(self.ingress).enumerate() {
            // Without a network of its own an address of the second family is in none.
            let network = self.networks.machine.get(index).map_or("", |network| network.cidr.as_str());
            reasons.extend(check_pair(network, api, ingress, None).err());
        }
        super::several(&reasons)
    }

    fn check_balanced_by_user(&self) -> Result<(), String> {
        let (Some(api), Some(ingress)) = (self.api.first(), self.ingress.first()) else { return Ok(()) };
        if self.networks.machine.is_empty() {
            return Ok(());
        }
        check_in_some_network(self.networks, api, "api-vip")?;
        check_in_some_network(self.networks, ingress, "ingress-vip")
    }
}

/// In one of the machines' networks.
pub(crate) fn check_in_some_network(networks: Networks, vip: &str, name: &str) -> Result<(), String> {
    if networks.machine.is_empty() {
        return Err(format!("no machine networks to verify VIP: {vip} with"));
    }
    let mut reasons = Vec::new();
    for network in networks.machine {
        match check_one(&network.cidr, vip, name, None) {
            Ok(()) => return Ok(()),
            Err(why) => reasons.push(format!("machine network CIDR <{}> verification failed: {why}", network.cidr)),
        }
    }
    let reasons = reasons.join("; ");
    Err(format!(
        "{name} '{vip}' failed verification: none of the machine networks is satisfying the requirements, description: {reasons}"
    ))
}

fn unreadable(list: &[String], kind: &str) -> Vec<String> {
    let reason = |(index, ip): (usize, &String)| match ip.as_str() {
        "" => Some(format!("{kind} VIP IP at index {index} cannot be empty")),
        ip if ip.parse::<IpAddr>().is_err() => Some(format!("Could not parse VIP ip {ip}")),
        _ => None,
    };
    list.iter().enumerate().filter_map(reason).collect()
}

/// None is there twice; a load balancer of the user's own may have one for both.
pub(crate) fn no_duplicates(api: &[String], ingress: &[String], common: bool) -> Result<(), String> {
    let mut reasons = Vec::new();
    for (list, name) in [(api, "apiVIPs"), (ingress, "ingressVIPs")] {
        for (index, ip) in list.iter().enumerate().filter(|(_, ip)| !ip.is_empty()) {
            if list[..index].contains(ip) {
                reasons.push(format!("The IP address \"{ip}\" appears multiple times in {name}"));
            }
            if name == "ingressVIPs" && !common && api.contains(ip) {
                reasons.push(format!("The IP address \"{ip}\" appears both in apiVIPs and ingressVIPs"));
            }
        }
    }
    super::several(&reasons)
}

/// Where the user looks after the network, so he does after addresses.
pub(crate) fn none_with_user_managed(api: &[String], ingress: &[String], by_dhcp: bool) -> Result<(), String> {
    let what = match (by_dhcp, api.is_empty(), ingress.is_empty()) {
        (true, ..) => "VIP DHCP Allocation",
        (_, false, _) => "API VIPs",
        (_, _, false) => "Ingress VIPs",
        _ => return Ok(()),
    };
    Err(format!("{what} cannot be set with User Managed Networking"))
}

/// Where addresses come by DHCP, none are given.
pub(crate) fn none_by_dhcp(api: &[String], ingress: &[String]) -> Result<(), String> {
    let what = match (api.is_empty(), ingress.is_empty()) {
        (false, _) => "API",
        (true, false) => "Ingress",
        (true, true) => return Ok(()),
    };
    Err(format!("Setting {what} VIPs is forbidden when cluster is in vip-dhcp-allocation mode"))
}

/// Whether an address of a network is free, by the hosts' findings; `None` while no host has reported.
pub(crate) type Free<'a> = &'a dyn Fn(Cidr, IpAddr) -> Option<bool>;

/// The API's and ingress' address of one family: both in the network, and not the same.
pub(crate) fn check_pair(network: &str, api: &str, ingress: &str, free: Option<Free>) -> Result<(), String> {
    check_one(network, api, "api-vip", free)?;
    check_one(network, ingress, "ingress-vip", free)?;
    no_duplicates(&[api.to_owned()], &[ingress.to_owned()], false)
}

fn check_one(network: &str, vip: &str, name: &str, free: Option<Free>) -> Result<(), String> {
    // Not known yet is no failure.
    let Ok(cidr) = network.parse::<Cidr>() else { return Ok(()) };
    let Ok(address) = vip.parse::<IpAddr>() else {
        return Err(format!("{name} <{vip}> does not belong to machine-network-cidr <{network}>"));
    };
    if !cidr.contains(address) {
        return Err(format!("{name} <{vip}> does not belong to machine-network-cidr <{network}>"));
    }
    if is_broadcast(cidr, address) {
        return Err(format!("{name} <{vip}> is the broadcast address of machine-network-cidr <{network}>"));
    }
    match free.and_then(|free| free(cidr, address)) {
        Some(false) => Err(format!("{name} <{vip}> is already in use in cidr {network}")),
        _ => Ok(()),
    }
}

/// The last address of an IPv4 network.
fn is_broadcast(cidr: Cidr, address: IpAddr) -> bool {
    let (IpAddr::V4(network), IpAddr::V4(address)) = (cidr.network().address, address) else { return false };
    let hosts = u32::MAX.checked_shr(cidr.prefix.into()).unwrap_or(0);
    Ipv4Addr::from(u32::from(network) | hosts) == address
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::MachineNetwork;

    fn check(api: &[&str], ingress: &[&str], machine: &[&str], set: impl FnOnce(&mut Vips)) -> String {
        let texts = |list: &[&str]| -> Vec<String> { list.iter().map(|text| (*text).to_owned()).collect() };
        let (api, ingress) = (texts(api), texts(ingress));
        let machine: Vec<MachineNetwork> =
            machine.iter().map(|cidr| MachineNetwork { cidr: (*cidr).to_owned(), cluster_id: None }).collect();
        let networks = Networks { machine: &machine, service: &[], cluster: &[] };
        let mut vips = Vips {
            api: &api,
            ingress: &ingress,
            networks,
            user_managed: false,
            by_dhcp: false,
            user_balanced: false,
            openshift_version: "4.22.9",
        };
        set(&mut vips);
        vips.check().err().unwrap_or_default()
    }

    #[test]
    fn addresses_alone() {
        for (api, ingress, why) in [
            (vec!["192.0.2.4"], vec!["192.0.2.5"], ""),
            (vec!["192.0.2.4", "fd00::4"], vec!["192.0.2.5", "fd00::5"], ""),
            (
                vec!["192.0.2.4"],
                vec!["192.0.2.4"],
                "1 error occurred:\n\t* The IP address \"192.0.2.4\" appears both in apiVIPs and ingressVIPs\n\n",
            ),
            (
                vec!["192.0.2.4", "192.0.2.6"],
                vec!["192.0.2.5", "192.0.2.7"],
                "dual-stack apiVIPs must include exactly one IPv6 address",
            ),
            (
                vec!["fd00::4", "fd00::6"],
                vec!["192.0.2.5", "192.0.2.7"],
                "dual-stack apiVIPs must include exactly one IPv4 address",
            ),
            (
                vec!["192.0.2.4", "fd00::4"],
                vec!["192.0.2.5", "192.0.2.7"],
                "dual-stack ingressVips must include exactly one IPv6 address",
            ),
            (
                vec!["192.0.2.4"],
                vec![],
                "1 error occurred:\n\t* configuration must include the same number of apiVIPs (got 1) and ingressVIPs (got 0)\n\n",
            ),
            (
                vec!["192.0.2.999"],
                vec![""],
                "2 errors occurred:\n\t* Could not parse VIP ip 192.0.2.999\n\t* Ingress VIP IP at index 0 cannot be empty\n\n",
            ),
            (
                vec!["192.0.2.4", "192.0.2.4", "192.0.2.6"],
                vec!["192.0.2.5"],
                "2 errors occurred:\n\t* apiVIPs supports 2 vips. got: 3\n\t* configuration must include the same number of apiVIPs (got 3) and ingressVIPs (got 1)\n\n",
            ),
        ] {
            assert_eq!(check(&api, &ingress, &[], |_| ()), why, "{api:?} {ingress:?}");
        }
    }

    #[test]
    fn addresses_in_their_network() {
        let one = |api: &str, ingress: &str| check(&[api], &[ingress], &["192.0.2.0/24"], |_| ());
        assert_eq!(one("192.0.2.4", "192.0.2.5"), "");
        assert_eq!(
            one("198.51.100.4", "192.0.2.5"),
            "1 error occurred:\n\t* api-vip <198.51.100.4> does not belong to machine-network-cidr <192.0.2.0/24>\n\n"
        );
        assert!(one("192.0.2.4", "192.0.2.255").contains("ingress-vip <192.0.2.255> is the broadcast address"));
        let balanced =
            |api: &str| check(&[api], &[api], &["192.0.2.0/24", "198.51.100.0/24"], |vips| vips.user_balanced = true);
        assert_eq!(balanced("198.51.100.4"), "");
        assert!(
            balanced("203.0.113.4")
                .starts_with("api-vip '203.0.113.4' failed verification: none of the machine networks")
        );
        let occupied: Free = &|_, address| Some(address.to_string() != "192.0.2.4");
        let why = check_pair("192.0.2.0/24", "192.0.2.4", "192.0.2.5", Some(occupied)).unwrap_err();
        assert_eq!(why, "api-vip <192.0.2.4> is already in use in cidr 192.0.2.0/24");
    }

    #[test]
    fn addresses_that_are_not_the_users_to_set() {
        let user_managed = |api: &[&str], by_dhcp| {
            check(api, api, &[], |vips| (vips.user_managed, vips.by_dhcp, vips.user_balanced) = (true, by_dhcp, true))
        };
        assert_eq!(user_managed(&["192.0.2.4"], false), "API VIPs cannot be set with User Managed Networking");
        assert_eq!(user_managed(&[], true), "VIP DHCP Allocation cannot be set with User Managed Networking");
        let by_dhcp = check(&["192.0.2.4"], &["192.0.2.5"], &[], |vips| vips.by_dhcp = true);
        assert_eq!(by_dhcp, "Setting API VIPs is forbidden when cluster is in vip-dhcp-allocation mode");
    }
}
