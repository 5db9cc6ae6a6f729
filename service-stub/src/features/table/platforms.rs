//! Platforms.

use crate::features::Architecture::{Arm64, Ppc64le, S390x};
use crate::features::Feature as F;
use crate::features::row::{
    ALWAYS,
    Level::{DevPreview, Supported},
    Row,
};

pub(crate) const BAREMETAL: Row = Row::new("Baremetal Platform Integration", ALWAYS)
    .excludes(&[F::PlatformManagedNetworking, F::UserManagedNetworking]);

pub(crate) const NO_PLATFORM: Row = Row::new("None Platform Integration", ALWAYS)
    .excludes(&[F::VipAutoAlloc, F::ClusterManagedNetworking, F::UserManagedLoadBalancer])
    .excludes_before("4.22", &[F::Tna]);

pub(crate) const NUTANIX: Row = Row::new("Nutanix Platform Integration", &[("4.11", DevPreview), ("4.12", Supported)])
    .not_on(&[S390x, Ppc64le, Arm64])
    .excludes(&[
        F::Sno,
        F::Tna,
        F::Tnf,
        F::UserManagedNetworking,
        F::Lvm,
        F::Mce,
        F::Cnv,
        F::PlatformManagedNetworking,
        F::Mtv,
        F::NonStandardHaControlPlane,
        F::UserManagedLoadBalancer,
        F::Osc,
        F::Nmstate,
        F::DualStackPrimaryIpv6,
    ]);

pub(crate) const VSPHERE: Row = Row::new("vSphere Platform Integration", ALWAYS)
    .not_on(&[S390x, Ppc64le])
    .excludes(&[
        F::Sno,
        F::Tna,
        F::Tnf,
        F::Lvm,
        F::PlatformManagedNetworking,
        F::Cnv,
        F::Mtv,
        F::NonStandardHaControlPlane,
        F::Osc,
        F::DualStackPrimaryIpv6,
    ])
    .excludes_before("4.13", &[F::DualStack]);

pub(crate) const EXTERNAL: Row = Row::new("External Platform Integration", &[("4.14", Supported)]).excludes(&[
    F::Tna,
    F::Tnf,
    F::ClusterManagedNetworking,
    F::VipAutoAlloc,
    F::UserManagedLoadBalancer,
    F::Nmstate,
    F::DualStackPrimaryIpv6,
]);

pub(crate) const ORACLE: Row = Row::new("Oracle Cloud Infrastructure external platform", &[("4.14", Supported)])
    .not_on(&[S390x, Ppc64le])
    .excludes(&[
        F::Tna,
        F::Tnf,
        F::ClusterManagedNetworking,
        F::VipAutoAlloc,
        F::DualStackVips,
        F::FullIso,
        F::UserManagedLoadBalancer,
        F::Nmstate,
        F::Odf,
        F::OpenshiftAi,
        F::DualStackPrimaryIpv6,
    ]);
