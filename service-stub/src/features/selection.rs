//! Which features a cluster and an infra-env use.

use super::{Feature, all};
use crate::rules::networks::{Family, Networks};
use crate::rules::platform::EXTERNAL;

/// A platform by kind and, where it is external, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Platforms<'a> {
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: Option<&'a str>,
}

/// What decides which features are in use: a cluster as it would be after a request.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// There is a cluster.
    pub of_cluster: bool,
    /// Its control-plane hosts.
    pub control_plane_count: i64,
    /// One of its hosts is an arbiter.
    pub has_arbiter: bool,
    /// Its virtual addresses come by DHCP.
    pub by_dhcp: bool,
    /// The user looks after its network.
    pub user_managed: bool,
    /// A load balancer of the user's own stands before it.
    pub user_balanced: bool,
    /// Its virtual addresses of the API.
    pub api_vips: usize,
    /// Its networks.
    pub networks: Networks<'a>,
    /// The family that comes first.
    pub primary: Option<Family>,
    /// Its network plug-in.
    pub network_type: &'a str,
    /// Its platform.
    pub platform: Platforms<'a>,
    /// Operators that were asked for.
    pub operators: &'a [String],
    /// Kind of the infra-env's image.
    pub image_type: Option<&'a str>,
}

impl Selection<'_> {
    /// Neither a cluster nor an infra-env.
    pub const NOTHING: Selection<'static> = Selection {
        of_cluster: false,
        control_plane_count: 0,
        has_arbiter: false,
        by_dhcp: false,
        user_managed: false,
        user_balanced: false,
        api_vips: 0,
        networks: Networks { machine: &[], service: &[], cluster: &[] },
        primary: None,
        network_type: "",
        platform: Platforms { kind: "", name: None },
        operators: &[],
        image_type: None,
    };

    /// In the table's order.
    pub fn active(&self) -> Vec<&'static Feature> {
        all().iter().filter(|feature| self.uses(feature)).collect()
    }

    fn uses(&self, feature: &Feature) -> bool {
        if let Some(operator) = feature.operator {
            let asked = |name: &str| self.operators.iter().any(|own| own == name);
            return match operator {
                "odf" => asked("odf") || asked("ocs"),
                "mtv" => asked("mtv") && asked("cnv"),
                operator => asked(operator),
            };
        }
        match feature.id {
            "MINIMAL_ISO" => self.image_type == Some("minimal-iso"),
            "FULL_ISO" => self.image_type == Some("full-iso"),
            _ => self.of_cluster && self.cluster_uses(feature.id),
        }
    }

    fn cluster_uses(&self, id: &str) -> bool {
        let external = self.platform.kind == EXTERNAL;
        match id {
            "SNO" => self.control_plane_count == 1,
            "TNA" => self.has_arbiter,
            "NON_STANDARD_HA_CONTROL_PLANE" => self.control_plane_count > 3,
            "VIP_AUTO_ALLOC" => self.by_dhcp,
            "CLUSTER_MANAGED_NETWORKING" => !self.user_managed,
            "USER_MANAGED_NETWORKING" => self.user_managed,
            "USER_MANAGED_LOAD_BALANCER" => self.user_balanced,
            "DUAL_STACK_VIPS" => self.api_vips > 1,
            "DUAL_STACK" => self.networks.are_dual_stack(),
            "DUAL_STACK_PRIMARY_IPV6" => self.networks.are_dual_stack() && self.primary == Some(Family::V6),
            "PLATFORM_MANAGED_NETWORKING" => external || self.platform.kind == "none",
            "OVN_NETWORK_TYPE" => self.network_type == "OVNKubernetes",
            "SDN_NETWORK_TYPE" => self.network_type == "OpenShiftSDN",
            "CILIUM_NETWORK_TYPE" => self.network_type == "Cilium",
            "CALICO_NETWORK_TYPE" => self.network_type == "Calico",
            "CISCO_ACI_NETWORK_TYPE" => self.network_type == "CiscoACI",
            "NONE_NETWORK_TYPE" => self.network_type == "None",
            "BAREMETAL_PLATFORM" => self.platform.kind == "baremetal",
            "NONE_PLATFORM" => self.platform.kind == "none",
            "NUTANIX_INTEGRATION" => self.platform.kind == "nutanix",
            "VSPHERE_INTEGRATION" => self.platform.kind == "vsphere",
            "EXTERNAL_PLATFORM" => external,
            "EXTERNAL_PLATFORM_OCI" => external && self.platform.name == Some("oci"),
            // Manifests and added hosts exclude nothing; fencing is not served.
            _ => false,
        }
    }
}
