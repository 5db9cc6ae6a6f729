//! The features by name.

use serde::{Serialize, Serializer};

/// Hands each feature to a macro: its variant, its published name, and where its rules are.
macro_rules! features {
    ($apply:ident) => {
        $apply! {
            Sno "SNO" generic::SNO,
            Tna "TNA" generic::TNA,
            Tnf "TNF" generic::TNF,
            CustomManifest "CUSTOM_MANIFEST" generic::CUSTOM_MANIFEST,
            SingleNodeExpansion "SINGLE_NODE_EXPANSION" generic::SINGLE_NODE_EXPANSION,
            MinimalIso "MINIMAL_ISO" generic::MINIMAL_ISO,
            FullIso "FULL_ISO" generic::FULL_ISO,
            NonStandardHaControlPlane "NON_STANDARD_HA_CONTROL_PLANE" generic::NON_STANDARD_HA_CONTROL_PLANE,

            VipAutoAlloc "VIP_AUTO_ALLOC" networks::VIP_AUTO_ALLOC,
            ClusterManagedNetworking "CLUSTER_MANAGED_NETWORKING" networks::CLUSTER_MANAGED_NETWORKING,
            UserManagedNetworking "USER_MANAGED_NETWORKING" networks::USER_MANAGED_NETWORKING,
            PlatformManagedNetworking "PLATFORM_MANAGED_NETWORKING" networks::PLATFORM_MANAGED_NETWORKING,
            UserManagedLoadBalancer "USER_MANAGED_LOAD_BALANCER" networks::USER_MANAGED_LOAD_BALANCER,
            DualStack "DUAL_STACK" networks::DUAL_STACK,
            DualStackVips "DUAL_STACK_VIPS" networks::DUAL_STACK_VIPS,
            DualStackPrimaryIpv6 "DUAL_STACK_PRIMARY_IPV6" networks::DUAL_STACK_PRIMARY_IPV6,
            SdnNetworkType "SDN_NETWORK_TYPE" networks::SDN,
            OvnNetworkType "OVN_NETWORK_TYPE" networks::OVN,
            CiliumNetworkType "CILIUM_NETWORK_TYPE" networks::CILIUM,
            CalicoNetworkType "CALICO_NETWORK_TYPE" networks::CALICO,
            CiscoAciNetworkType "CISCO_ACI_NETWORK_TYPE" networks::CISCO_ACI,
            NoneNetworkType "NONE_NETWORK_TYPE" networks::NO_PLUGIN,

            BaremetalPlatform "BAREMETAL_PLATFORM" platforms::BAREMETAL,
            NonePlatform "NONE_PLATFORM" platforms::NO_PLATFORM,
            NutanixIntegration "NUTANIX_INTEGRATION" platforms::NUTANIX,
            VsphereIntegration "VSPHERE_INTEGRATION" platforms::VSPHERE,
            ExternalPlatform "EXTERNAL_PLATFORM" platforms::EXTERNAL,
            ExternalPlatformOci "EXTERNAL_PLATFORM_OCI" platforms::ORACLE,

            Lvm "LVM" operators::LVM,
            Odf "ODF" operators::ODF,
            Lso "LSO" operators::LSO,
            Cnv "CNV" operators::CNV,
            Mce "MCE" operators::MCE,
            Mtv "MTV" operators::MTV,
            Osc "OSC" operators::OSC,
            NodeFeatureDiscovery "NODE_FEATURE_DISCOVERY" operators::NODE_FEATURE_DISCOVERY,
            NvidiaGpu "NVIDIA_GPU" operators::NVIDIA_GPU,
            AmdGpu "AMD_GPU" operators::AMD_GPU,
            Kmm "KMM" operators::KMM,
            Pipelines "PIPELINES" operators::PIPELINES,
            ServiceMesh "SERVICEMESH" operators::SERVICE_MESH,
            Serverless "SERVERLESS" operators::SERVERLESS,
            OpenshiftAi "OPENSHIFT_AI" operators::OPENSHIFT_AI,
            Authorino "AUTHORINO" operators::AUTHORINO,
            Nmstate "NMSTATE" operators::NMSTATE,
            NodeHealthcheck "NODE_HEALTHCHECK" operators::NODE_HEALTHCHECK,
            SelfNodeRemediation "SELF_NODE_REMEDIATION" operators::SELF_NODE_REMEDIATION,
            FenceAgentsRemediation "FENCE_AGENTS_REMEDIATION" operators::FENCE_AGENTS_REMEDIATION,
            NodeMaintenance "NODE_MAINTENANCE" operators::NODE_MAINTENANCE,
            KubeDescheduler "KUBE_DESCHEDULER" operators::KUBE_DESCHEDULER,
            ClusterObservability "CLUSTER_OBSERVABILITY" operators::CLUSTER_OBSERVABILITY,
            NumaResources "NUMA_RESOURCES" operators::NUMA_RESOURCES,
            Oadp "OADP" operators::OADP,
            Metallb "METALLB" operators::METALLB,
            Loki "LOKI" operators::LOKI,
            OpenshiftLogging "OPENSHIFT_LOGGING" operators::OPENSHIFT_LOGGING,
        }
    };
}
pub(super) use features;

macro_rules! names {
    ($($variant:ident $id:literal $row:path,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Feature {
            $($variant,)*
        }

        impl Feature {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its published name.
            pub(crate) fn id(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)*
                }
            }
        }
    };
}

features!(names);

impl Feature {
    /// It is a platform: where a platform is named, the list leaves it out.
    pub(crate) fn is_platform(self) -> bool {
        matches!(
            self,
            Self::BaremetalPlatform
                | Self::NonePlatform
                | Self::NutanixIntegration
                | Self::VsphereIntegration
                | Self::ExternalPlatform
                | Self::ExternalPlatformOci
        )
    }

    /// Whether a list with or without a platform has it.
    pub(crate) fn is_listed(self, with_platform: bool) -> bool {
        if with_platform { !self.is_platform() } else { self != Self::PlatformManagedNetworking }
    }
}

impl Serialize for Feature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
