//! Networks, virtual addresses and network plug-ins.

use crate::features::Architecture::{Arm64, Ppc64le, S390x};
use crate::features::Feature as F;
use crate::features::row::{
    ALWAYS, Ground,
    Level::{DevPreview, Supported, TechPreview, Unavailable, Unsupported},
    Platform::{self, External, Nutanix, Vsphere},
    Reason, Row,
};

pub(crate) const VIP_AUTO_ALLOC: Row = Row::new("VIP Automatic Allocation", &[("", DevPreview), ("4.15", Unavailable)])
    .unless(&[Ground::On(&[External])])
    .excludes(&[F::Sno, F::ExternalPlatformOci, F::NonePlatform, F::ExternalPlatform, F::UserManagedLoadBalancer]);

pub(crate) const CLUSTER_MANAGED_NETWORKING: Row = Row::new("Cluster Managed Networking", ALWAYS)
    .not_on(&[S390x, Ppc64le])
    .not_on_before("4.11", &[Arm64])
    .unless(&[Ground::On(&[External])])
    .excludes(&[F::Sno, F::UserManagedNetworking, F::ExternalPlatformOci, F::NonePlatform, F::ExternalPlatform]);

pub(crate) const USER_MANAGED_NETWORKING: Row = Row::new("User Managed Networking", ALWAYS)
    .unless(&[Ground::On(&[Nutanix])])
    .excludes(&[F::ClusterManagedNetworking, F::NutanixIntegration, F::BaremetalPlatform, F::UserManagedLoadBalancer]);

pub(crate) const PLATFORM_MANAGED_NETWORKING: Row = Row::new("Platform managed networking", ALWAYS)
    .unless(&[Ground::NotOn(&[External, Platform::None])])
    .refused_as(Unsupported, Reason::Platform)
    .excludes(&[F::BaremetalPlatform, F::VsphereIntegration, F::NutanixIntegration]);

pub(crate) const USER_MANAGED_LOAD_BALANCER: Row = Row::new("User Managed Load Balancer", &[("4.16", Supported)])
    .excludes(&[
        F::ExternalPlatform,
        F::ExternalPlatformOci,
        F::NonePlatform,
        F::NutanixIntegration,
        F::UserManagedNetworking,
        F::VipAutoAlloc,
        F::DualStack,
        F::DualStackVips,
        F::Sno,
        F::DualStackPrimaryIpv6,
    ]);

pub(crate) const DUAL_STACK: Row = Row::new("Dual-Stack", ALWAYS)
    .excludes(&[F::UserManagedLoadBalancer])
    .excludes_before("4.13", &[F::VsphereIntegration]);

pub(crate) const DUAL_STACK_VIPS: Row = Row::new("Dual-Stack VIPs", &[("4.12", Supported)])
    .unless(&[Ground::OnOci])
    .version_first()
    .excludes(&[F::ExternalPlatformOci, F::UserManagedLoadBalancer]);

pub(crate) const DUAL_STACK_PRIMARY_IPV6: Row = Row::new("Dual-Stack Primary IPv6", &[("4.12", TechPreview)])
    .unless(&[Ground::On(&[Nutanix, Vsphere, External])])
    .excludes(&[
        F::UserManagedLoadBalancer,
        F::ExternalPlatform,
        F::ExternalPlatformOci,
        F::NutanixIntegration,
        F::VsphereIntegration,
    ])
    .excludes_before("4.19", &[F::Sno]);

pub(crate) const SDN: Row = Row::new("Openshift SDN", &[("", Supported), ("4.15", Unavailable)]).excludes(&[
    F::OvnNetworkType,
    F::CiliumNetworkType,
    F::CalicoNetworkType,
    F::CiscoAciNetworkType,
    F::NoneNetworkType,
]);

pub(crate) const OVN: Row = Row::new("Openshift OVN", ALWAYS).excludes(&[
    F::SdnNetworkType,
    F::CiliumNetworkType,
    F::CalicoNetworkType,
    F::CiscoAciNetworkType,
    F::NoneNetworkType,
]);

pub(crate) const CILIUM: Row = Row::new("Cilium CNI", ALWAYS).excludes(&[
    F::OvnNetworkType,
    F::SdnNetworkType,
    F::CalicoNetworkType,
    F::CiscoAciNetworkType,
    F::NoneNetworkType,
]);

pub(crate) const CALICO: Row = Row::new("Calico CNI", ALWAYS).excludes(&[
    F::OvnNetworkType,
    F::SdnNetworkType,
    F::CiliumNetworkType,
    F::CiscoAciNetworkType,
    F::NoneNetworkType,
]);

pub(crate) const CISCO_ACI: Row = Row::new("Cisco ACI CNI", ALWAYS).excludes(&[
    F::OvnNetworkType,
    F::SdnNetworkType,
    F::CiliumNetworkType,
    F::CalicoNetworkType,
    F::NoneNetworkType,
]);

/// The user brings a network plug-in.
pub(crate) const NO_PLUGIN: Row = Row::new("None CNI", ALWAYS).excludes(&[
    F::OvnNetworkType,
    F::SdnNetworkType,
    F::CiliumNetworkType,
    F::CalicoNetworkType,
    F::CiscoAciNetworkType,
]);
