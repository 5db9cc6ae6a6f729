//! What the edits depend on.

use api::{Cidr, HostRole, Inventory, Mac};
use std::net::IpAddr;

/// What the edits depend on.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Full version, as `4.22.9`.
    pub openshift_version: String,
    /// The control plane is one node, which bootstraps in place.
    pub single_node: bool,
    pub has_arbiter: bool,
    /// Every host has an IPv6 address.
    pub has_ipv6: bool,
    /// The cluster has both address families, and one of them is the first.
    pub dual_stack: bool,
    /// The networks of the nodes.
    pub machine_networks: Vec<Cidr>,
    /// The authority of the service's certificate, PEM.
    pub service_ca_pem: Option<String>,
    /// Virtual addresses that come by DHCP.
    pub dhcp: Option<Vips>,
    /// The name of the API within the cluster, where nodes are to find a registry that the cluster itself runs.
    pub internal_registry: Option<String>,
    /// The hosts of the cluster.
    pub nodes: Vec<Node>,
}

/// A host of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its role; what is neither master nor arbiter is a worker.
    pub role: HostRole,
    /// The name it has, or its id without one.
    pub name: String,
    /// The name that the user gave it; may be empty.
    pub requested_hostname: String,
    /// The pool of machines that a worker joins in place of `worker`.
    pub pool: Option<String>,
    pub inventory: Inventory,
}

/// The two virtual addresses of a cluster.
#[derive(Clone, Debug)]
pub struct Vips {
    pub api: Vip,
    pub ingress: Vip,
}

/// An address that a DHCP server gave.
#[derive(Clone, Debug)]
pub struct Vip {
    pub mac: Mac,
    /// `None` as long as no server gave one.
    pub address: Option<IpAddr>,
    /// As dhclient writes it; may be empty.
    pub lease: String,
}

/// From this version on the bare-metal operator runs, and takes hosts as provisioned by another.
const METAL: Release = Release([4, 7, 0], true);
/// From this version on NetworkManager must not be told where connections are.
const OWN_KEYFILE_PATH: Release = Release([4, 10, 0], false);

impl NodeSettings {
    /// Whether the bare-metal operator runs.
    pub(super) fn has_metal(&self) -> bool {
        self.is_since(METAL)
    }

    /// Whether NetworkManager finds the connections by itself.
    pub(super) fn has_keyfile_path(&self) -> bool {
        self.is_since(OWN_KEYFILE_PATH)
    }

    /// What is not a version counts as a newer one.
    fn is_since(&self, release: Release) -> bool {
        Release::parse(&self.openshift_version).is_none_or(|own| own >= release)
    }
}

/// A version's numbers, and whether it is not a pre-release; in order, but for pre-releases of the same version.
#[derive(PartialEq, PartialOrd)]
struct Release([u32; 3], bool);

impl Release {
    fn parse(text: &str) -> Option<Self> {
        let (text, _) = text.split_once('+').unwrap_or((text, ""));
        let (numbers, is_final) = text.split_once('-').map_or((text, true), |(numbers, _)| (numbers, false));
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        let mut next = || parts.next().unwrap_or(Some(0));
        let numbers = [next()?, next()?, next()?];
        parts.next().is_none().then_some(Self(numbers, is_final))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_edges() {
        for (version, has_metal, has_keyfile_path) in [
            ("4.6.60", false, false),
            ("4.7.0-rc.1", false, false),
            ("4.7", true, false),
            ("4.7.0", true, false),
            ("4.9.59", true, false),
            ("4.10.0-0.alpha", true, true),
            ("4.10.0-ec.3", true, true),
            ("4.10.0+x", true, true),
            ("4.22.9-multi", true, true),
            ("5.0.0", true, true),
            ("", true, true),
            ("4.x", true, true),
            ("4.6.0.0", true, true),
        ] {
            let settings = NodeSettings { openshift_version: version.into(), ..NodeSettings::default() };
            assert_eq!((settings.has_metal(), settings.has_keyfile_path()), (has_metal, has_keyfile_path), "{version}");
        }
    }
}
