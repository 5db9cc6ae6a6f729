//! The types of steps: what each is asked with and what it answers, on standard output.

use crate::{
    ApiVipConnectivityRequest, ApiVipConnectivityResponse, BootArtifactsRequest, ConnectivityCheckHost,
    ConnectivityReport, ContainerImageAvailabilityRequest, ContainerImageAvailabilityResponse, DhcpAllocationRequest,
    DhcpAllocationResponse, DiskSpeedCheckRequest, DiskSpeedCheckResponse, DomainResolutionRequest,
    DomainResolutionResponse, HostId, InstallRequest, LogsGatherRequest, NtpSynchronizationRequest,
    NtpSynchronizationResponse, RebootForReclaimRequest, StepType, TangConnectivityRequest, TangConnectivityResponse,
    UpgradeAgentRequest, UpgradeAgentResponse, VerifiedVip, VerifyVip,
};

/// A type of step.
pub trait StepKind {
    /// Its name on the wire.
    const TYPE: StepType;
    /// Its argument, or its first one.
    type Request;
    /// What it prints. `()` where that is for people, or nothing.
    type Reply;
}

macro_rules! kinds {
    ($($name:ident: $request:ty => $reply:ty;)*) => {
        $(
            #[doc = concat!("[`StepType::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl StepKind for $name {
                const TYPE: StepType = StepType::$name;
                type Request = $request;
                type Reply = $reply;
            }
        )*
    };
}

/// A type for each.
pub mod kinds {
    use super::*;

    kinds! {
        ApiVipConnectivityCheck: ApiVipConnectivityRequest => ApiVipConnectivityResponse;
        ConnectivityCheck: Vec<ConnectivityCheckHost> => ConnectivityReport;
        ContainerImageAvailability: ContainerImageAvailabilityRequest => ContainerImageAvailabilityResponse;
        DhcpLeaseAllocate: DhcpAllocationRequest => DhcpAllocationResponse;
        DomainResolution: DomainResolutionRequest => DomainResolutionResponse;
        DownloadBootArtifacts: BootArtifactsRequest => ();
        FreeNetworkAddresses: Vec<String> => Vec<crate::FreeNetworkAddresses>;
        Install: InstallRequest => ();
        InstallationDiskSpeedCheck: DiskSpeedCheckRequest => DiskSpeedCheckResponse;
        Inventory: HostId => crate::Inventory;
        LogsGather: LogsGatherRequest => ();
        NtpSynchronizer: NtpSynchronizationRequest => NtpSynchronizationResponse;
        RebootForReclaim: RebootForReclaimRequest => ();
        StopInstallation: () => ();
        TangConnectivityCheck: TangConnectivityRequest => TangConnectivityResponse;
        UpgradeAgent: UpgradeAgentRequest => UpgradeAgentResponse;
        VerifyVips: Vec<VerifyVip> => Vec<VerifiedVip>;
    }
}
