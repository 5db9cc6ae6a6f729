//! Sizes of clusters, and images.

use crate::features::Architecture::{Arm64, Multi, Ppc64le, S390x};
use crate::features::Feature as F;
use crate::features::row::{
    ALWAYS, Ground,
    Level::{DevPreview, Supported, TechPreview, Unavailable},
    Levels,
    Platform::{self, Baremetal, External, Nutanix, Vsphere},
    Reason, Row,
};

const SINGLE_NODE_ELSEWHERE: Levels = &[("4.13", DevPreview), ("4.14", Supported)];
const NOT_SINGLE: &[Ground] = &[Ground::On(&[Nutanix, Vsphere])];

pub(crate) const SNO: Row = Row::new("Single Node OpenShift", ALWAYS)
    .levels_on(&[S390x, Ppc64le], SINGLE_NODE_ELSEWHERE)
    .not_on_before("4.13", &[S390x, Ppc64le])
    .unless(NOT_SINGLE)
    .excludes(&[
        F::Odf,
        F::NutanixIntegration,
        F::VsphereIntegration,
        F::ClusterManagedNetworking,
        F::VipAutoAlloc,
        F::UserManagedLoadBalancer,
        F::NodeHealthcheck,
        F::SelfNodeRemediation,
        F::FenceAgentsRemediation,
        F::NodeMaintenance,
        F::KubeDescheduler,
    ])
    .excludes_before("4.19", &[F::DualStackPrimaryIpv6]);

pub(crate) const SINGLE_NODE_EXPANSION: Row = Row::new("Single Node Expansion", &[("4.11", Supported)])
    .levels_on(&[S390x, Ppc64le], SINGLE_NODE_ELSEWHERE)
    .not_on_before("4.13", &[S390x, Ppc64le])
    .unless(NOT_SINGLE)
    .version_first();

/// Two control-plane nodes and an arbiter.
pub(crate) const TNA: Row = Row::new("TNA Clusters", &[("4.19", TechPreview), ("4.20", Supported)])
    .unless(&[Ground::NotOn(&[Baremetal, Platform::None]), Ground::Before(Platform::None, "4.22")])
    .excludes(&[F::NutanixIntegration, F::VsphereIntegration, F::ExternalPlatform, F::ExternalPlatformOci])
    .excludes_before("4.22", &[F::NonePlatform]);

/// Two control-plane nodes that can power each other off.
pub(crate) const TNF: Row = Row::new("TNF Clusters", &[("4.20", TechPreview), ("4.22", Supported)])
    .unless(&[Ground::NotOn(&[Baremetal, Platform::None])])
    .excludes(&[F::NutanixIntegration, F::VsphereIntegration, F::ExternalPlatform, F::ExternalPlatformOci]);

pub(crate) const CUSTOM_MANIFEST: Row = Row::new("Custom Manifest", ALWAYS);

pub(crate) const MINIMAL_ISO: Row = Row::new("Minimal ISO", ALWAYS).not_on(&[S390x]);

pub(crate) const FULL_ISO: Row = Row::new("Full ISO", ALWAYS)
    .unless(&[Ground::OnOci])
    .refused_as(Unavailable, Reason::OciExternalIntegrationDisabled)
    .excludes(&[F::ExternalPlatformOci]);

/// More than three control-plane nodes.
pub(crate) const NON_STANDARD_HA_CONTROL_PLANE: Row =
    Row::new("Non-standard HA OCP Control Plane", &[("4.18", Supported)])
        .not_on(&[Arm64, S390x, Ppc64le, Multi])
        .unless(&[Ground::NotOn(&[Baremetal, Platform::None, External])])
        .version_first()
        .excludes(&[F::NutanixIntegration, F::VsphereIntegration]);
