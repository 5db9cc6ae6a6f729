//! Which features a cluster uses.

use super::row::{OCI, Platform};
use super::{Feature, feature::Feature as F};
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::operators;
use crate::rules::networks::Family;
use api::HostRole;
use std::{net::IpAddr, sync::Arc};

/// What decides about the features of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterFacts<'a> {
    /// Version, in full.
    pub(crate) version: &'a str,
    pub(crate) control_plane_count: u32,
    /// Some host is to be an arbiter.
    pub(crate) has_arbiter: bool,
    /// Its two control-plane hosts can power each other off.
    pub(crate) is_fenced_pair: bool,
    pub(crate) platform: Option<Platform>,
    /// Name of an external platform.
    pub(crate) external_name: Option<&'a str>,
    /// The user provides load balancing and names.
    pub(crate) user_managed_networking: bool,
    /// The user's own load balancer holds the virtual addresses.
    pub(crate) user_managed_load_balancer: bool,
    /// Virtual addresses come by DHCP.
    pub(crate) vip_dhcp_allocation: bool,
    /// Number of virtual addresses of the API.
    pub(crate) api_vips: usize,
    /// Both families of addresses.
    pub(crate) dual_stack: bool,
    /// IPv6 comes first.
    pub(crate) ipv6_first: bool,
    /// Network plug-in.
    pub(crate) network_type: &'a str,
    /// Operators that are added.
    pub(crate) operators: Vec<&'a str>,
    /// Kind of an infra-env's ISO, where one is looked at.
    pub(crate) image_type: Option<&'a str>,
}

impl<'a> ClusterFacts<'a> {
    /// Those of a cluster with its hosts.
    pub(crate) fn new(record: &'a ClusterRecord, hosts: &[Arc<HostRecord>]) -> Self {
        let cluster = &record.cluster;
        let platform = cluster.platform.as_ref();
        let networks = [&cluster.machine_networks, &cluster.service_networks]
            .map(|list| list.iter().map(|network| network.cidr.as_str()).collect::<Vec<_>>());
        let pods: Vec<&str> = cluster.cluster_networks.iter().map(|network| network.cidr.as_str()).collect();
        let dual_stack = networks.iter().chain([&pods]).any(|list| has_both_families(list));
        Self {
            version: &cluster.openshift_version,
            control_plane_count: cluster.control_plane_count,
            has_arbiter: hosts.iter().any(|host| host.host.role == HostRole::Arbiter),
            is_fenced_pair: record.is_fenced_pair(hosts),
            platform: platform.and_then(|platform| Platform::parse(&platform.kind)),
            external_name: platform.and_then(|platform| platform.external["platform_name"].as_str()),
            user_managed_networking: cluster.user_managed_networking,
            user_managed_load_balancer: record.user_balanced(),
            vip_dhcp_allocation: cluster.vip_dhcp_allocation,
            api_vips: cluster.api_vips.len(),
            dual_stack,
            ipv6_first: record.primary == Some(Family::V6),
            network_type: &cluster.network_type,
            operators: record.course.olm_operators().map(|operator| operator.name.as_str()).collect(),
            image_type: None,
        }
    }

    /// Whether a feature is used.
    pub(crate) fn uses(&self, feature: Feature) -> bool {
        let platform = |platform| self.platform == Some(platform);
        match feature {
            F::CustomManifest | F::SingleNodeExpansion => false,
            F::Tnf => self.is_fenced_pair,
            F::Sno => self.control_plane_count == 1,
            F::Tna => self.has_arbiter,
            F::NonStandardHaControlPlane => self.control_plane_count > 3,
            F::MinimalIso => self.image_type == Some("minimal-iso"),
            F::FullIso => self.image_type == Some("full-iso"),
            F::VipAutoAlloc => self.vip_dhcp_allocation,
            F::ClusterManagedNetworking => !self.user_managed_networking,
            F::UserManagedNetworking => self.user_managed_networking,
            F::PlatformManagedNetworking => platform(Platform::External) || platform(Platform::None),
            F::UserManagedLoadBalancer => self.user_managed_load_balancer,
            F::DualStack => self.dual_stack,
            F::DualStackVips => self.api_vips > 1,
            F::DualStackPrimaryIpv6 => self.dual_stack && self.ipv6_first,
            F::SdnNetworkType => self.network_type == "OpenShiftSDN",
            F::OvnNetworkType => self.network_type == "OVNKubernetes",
            F::CiliumNetworkType => self.network_type == "Cilium",
            F::CalicoNetworkType => self.network_type == "Calico",
            F::CiscoAciNetworkType => self.network_type == "CiscoACI",
            F::NoneNetworkType => self.network_type == "None",
            F::BaremetalPlatform => platform(Platform::Baremetal),
            F::NonePlatform => platform(Platform::None),
            F::NutanixIntegration => platform(Platform::Nutanix),
            F::VsphereIntegration => platform(Platform::Vsphere),
            F::ExternalPlatform => platform(Platform::External),
            F::ExternalPlatformOci => platform(Platform::External) && self.external_name == Some(OCI),
            // Virtual machines are moved to where they can run.
            F::Mtv => self.operators.contains(&"mtv") && self.operators.contains(&"cnv"),
            operator => operators::installs(operator).is_some_and(|operator| self.operators.contains(&operator.name)),
        }
    }
}

fn has_both_families(networks: &[&str]) -> bool {
    let addresses = || networks.iter().filter_map(|text| text.parse::<Cidr>().ok()).map(|cidr| cidr.address);
    addresses().any(|address: IpAddr| address.is_ipv4()) && addresses().any(|address: IpAddr| address.is_ipv6())
}
