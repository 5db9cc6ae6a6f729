//! Operators that are added to a cluster.

use crate::features::Architecture::{self, Arm64, Ppc64le, S390x};
use crate::features::Feature as F;
use crate::features::row::{
    ALWAYS, Ground,
    Level::{DevPreview, Supported, TechPreview},
    Levels,
    Platform::{External, Nutanix, Vsphere},
    Row,
};

const PREVIEW: Levels = &[("", DevPreview)];
const ONLY_X86: &[Architecture] = &[Arm64, S390x, Ppc64le];
const NOT_IN_THESE_CLOUDS: &[Ground] = &[Ground::On(&[Nutanix, Vsphere])];
const THESE_CLOUDS: &[F] = &[F::NutanixIntegration, F::VsphereIntegration];

pub(crate) const LVM: Row = Row::new("Logical Volume Management", &[("4.11", DevPreview), ("4.12", Supported)])
    .not_on(&[S390x, Ppc64le])
    .unless(NOT_IN_THESE_CLOUDS)
    .version_first()
    .excludes(&[F::NutanixIntegration, F::VsphereIntegration, F::Odf])
    .excludes_before("4.15", &[F::VipAutoAlloc, F::ClusterManagedNetworking]);

pub(crate) const ODF: Row = Row::new("OpenShift Data Foundation", ALWAYS)
    .not_on(&[Arm64])
    .unless(&[Ground::OnOci])
    .excludes(&[F::Sno, F::Lvm, F::ExternalPlatformOci]);

pub(crate) const LSO: Row = Row::new("Local Storage Operator", ALWAYS).not_on(&[Arm64]);

pub(crate) const CNV: Row = Row::new("OpenShift Virtualization", ALWAYS)
    .levels_on(&[Arm64], PREVIEW)
    .not_on(&[S390x, Ppc64le])
    .not_on_before("4.14", &[Arm64])
    .unless(NOT_IN_THESE_CLOUDS)
    .excludes(THESE_CLOUDS);

pub(crate) const MCE: Row = Row::new("multicluster engine", &[("4.10", Supported)])
    .unless(&[Ground::On(&[Nutanix])])
    .version_first()
    .excludes(&[F::NutanixIntegration]);

pub(crate) const MTV: Row = Row::new("OpenShift Migration Toolkit for Virtualization", &[("4.14", Supported)])
    .not_on(ONLY_X86)
    .unless(NOT_IN_THESE_CLOUDS)
    .excludes(THESE_CLOUDS);

pub(crate) const OSC: Row = Row::new("OpenShift sandboxed containers", &[("4.10", Supported)])
    .not_on(ONLY_X86)
    .unless(NOT_IN_THESE_CLOUDS)
    .excludes(THESE_CLOUDS);

pub(crate) const NODE_FEATURE_DISCOVERY: Row =
    Row::new("Node Feature Discovery", &[("4.6", DevPreview)]).not_on(&[S390x, Ppc64le]);

pub(crate) const NVIDIA_GPU: Row = Row::new("NVIDIA GPU", PREVIEW).not_on(ONLY_X86);

pub(crate) const AMD_GPU: Row = Row::new("AMD GPU", PREVIEW).not_on(ONLY_X86);

pub(crate) const KMM: Row = Row::new("Kernel Module Management", PREVIEW);

pub(crate) const PIPELINES: Row = Row::new("Pipelines", PREVIEW);

pub(crate) const SERVICE_MESH: Row = Row::new("ServiceMesh", PREVIEW);

pub(crate) const SERVERLESS: Row = Row::new("ServerLess", PREVIEW);

pub(crate) const OPENSHIFT_AI: Row = Row::new("OpenShift AI", &[("4.12", DevPreview)])
    .not_on(ONLY_X86)
    .unless(&[Ground::OnOci])
    .version_first()
    .excludes(&[F::ExternalPlatformOci]);

pub(crate) const AUTHORINO: Row = Row::new("Authorino", PREVIEW).not_on(&[Arm64]);

pub(crate) const NMSTATE: Row = Row::new("Nmstate node network configuration", &[("4.12", Supported)])
    .not_on(ONLY_X86)
    .unless(&[Ground::On(&[Nutanix, External])])
    .excludes(&[F::NutanixIntegration, F::ExternalPlatform, F::ExternalPlatformOci]);

pub(crate) const NODE_HEALTHCHECK: Row = Row::new("Node Healthcheck", ALWAYS).excludes(&[F::Sno]);

pub(crate) const SELF_NODE_REMEDIATION: Row =
    Row::new("Self Node Remediation", &[("", TechPreview)]).excludes(&[F::Sno]);

pub(crate) const FENCE_AGENTS_REMEDIATION: Row = Row::new("Fence Agents Remediation", ALWAYS).excludes(&[F::Sno]);

pub(crate) const NODE_MAINTENANCE: Row = Row::new("Node Maintenance Operator", ALWAYS).excludes(&[F::Sno]);

pub(crate) const KUBE_DESCHEDULER: Row = Row::new("Kube Descheduler", ALWAYS).excludes(&[F::Sno]);

pub(crate) const CLUSTER_OBSERVABILITY: Row = Row::new("Cluster Observability", ALWAYS);

pub(crate) const NUMA_RESOURCES: Row = Row::new("NUMA Resources", ALWAYS);

pub(crate) const OADP: Row = Row::new("OADP Operator", ALWAYS);

pub(crate) const METALLB: Row = Row::new("MetalLB", &[("4.11", Supported)]);

pub(crate) const LOKI: Row = Row::new("Loki Operator", &[("4.17", Supported)]);

pub(crate) const OPENSHIFT_LOGGING: Row = Row::new("Red Hat OpenShift Logging Operator", &[("4.17", Supported)]);
