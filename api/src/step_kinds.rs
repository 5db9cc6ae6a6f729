//! The types of steps, and the requests and replies of checks (docs/compatibility.md#steps). A request is the only or first argument
//! of the instruction; a reply is the text in `output`.

use crate::{
    ConnectivityCheckHost, ConnectivityReport, HostId, InstallRequest, LogsGatherRequest, Mac,
    attest::{AttestReply, AttestRequest},
    certify::{CertifyReply, CertifyRequest},
    is_zero,
    json::null_is_default,
};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// A type of step.
pub trait StepKind {
    /// Its name on the wire.
    const TYPE: StepType;
    /// Its argument, or its first one.
    type Request;
    /// What it prints. `()` for plain text, or nothing.
    type Reply;
}

/// Name, text on the wire, request and reply: the published types, then Landfall's extensions. Types without the last two are not
/// instructions for agents.
macro_rules! step_types {
    (
        published { $($name:ident $text:literal $(: $request:ty => $reply:ty)?;)* }
        extensions { $($extension:ident $extension_text:literal: $extension_request:ty => $extension_reply:ty;)* }
    ) => {
        /// `step-type`. An unknown one is stored as text, since replies must echo it.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum StepType {
            $(
                #[serde(rename = $text)]
                $name,
            )*
            $(
                #[serde(rename = $extension_text)]
                $extension,
            )*
            /// A type this version doesn't know.
            #[serde(untagged)]
            Other(String),
        }

        impl StepType {
            /// Every published type's wire text, in the order of the published enum (error texts list them so).
            pub const NAMES: [&'static str; [$($text),*].len()] = [$($text),*];
            /// Landfall's extensions: only for agents that announce them ([`StepType::announced_in`]), and in no list of known types.
            pub const EXTENSIONS: [&'static str; [$($extension_text),*].len()] = [$($extension_text),*];

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    $(Self::$extension => $extension_text,)*
                    Self::Other(text) => text,
                }
            }

            /// Whether it is one of [`StepType::EXTENSIONS`].
            pub fn is_extension(&self) -> bool {
                matches!(self, $(Self::$extension)|*)
            }
        }

        /// A type for each.
        pub mod kinds {
            use super::*;

            $($(
                #[doc = concat!("[`StepType::", stringify!($name), "`].")]
                #[derive(Clone, Copy, Debug)]
                pub struct $name;

                impl StepKind for $name {
                    const TYPE: StepType = StepType::$name;
                    type Request = $request;
                    type Reply = $reply;
                }
            )?)*
            $(
                #[doc = concat!("[`StepType::", stringify!($extension), "`].")]
                #[derive(Clone, Copy, Debug)]
                pub struct $extension;

                impl StepKind for $extension {
                    const TYPE: StepType = StepType::$extension;
                    type Request = $extension_request;
                    type Reply = $extension_reply;
                }
            )*
        }
    };
}

step_types! {
    published {
        ConnectivityCheck "connectivity-check": Vec<ConnectivityCheckHost> => ConnectivityReport;
        Execute "execute";
        Inventory "inventory": HostId => crate::Inventory;
        Install "install": InstallRequest => ();
        FreeNetworkAddresses "free-network-addresses": Vec<String> => Vec<crate::FreeNetworkAddresses>;
        DhcpLeaseAllocate "dhcp-lease-allocate": DhcpAllocationRequest => DhcpAllocationResponse;
        ApiVipConnectivityCheck "api-vip-connectivity-check": ApiVipConnectivityRequest => ApiVipConnectivityResponse;
        TangConnectivityCheck "tang-connectivity-check": TangConnectivityRequest => TangConnectivityResponse;
        NtpSynchronizer "ntp-synchronizer": NtpSynchronizationRequest => NtpSynchronizationResponse;
        InstallationDiskSpeedCheck "installation-disk-speed-check": DiskSpeedCheckRequest => DiskSpeedCheckResponse;
        ContainerImageAvailability "container-image-availability": ContainerImageAvailabilityRequest => ContainerImageAvailabilityResponse;
        DomainResolution "domain-resolution": DomainResolutionRequest => DomainResolutionResponse;
        StopInstallation "stop-installation": () => ();
        LogsGather "logs-gather": LogsGatherRequest => ();
        NextStepRunner "next-step-runner";
        UpgradeAgent "upgrade-agent": UpgradeAgentRequest => UpgradeAgentResponse;
        DownloadBootArtifacts "download-boot-artifacts": BootArtifactsRequest => ();
        RebootForReclaim "reboot-for-reclaim": RebootForReclaimRequest => ();
        VerifyVips "verify-vips": Vec<VerifyVip> => Vec<VerifiedVip>;
    }
    extensions {
        Certify "certify": CertifyRequest => CertifyReply;
        Attest "attest": AttestRequest => AttestReply;
    }
}

/// The header of an agent's poll that names the extensions it carries out. Services that don't know it overlook it, and no other
/// agent sends it, whatever version it says it has.
pub const EXTENSIONS_HEADER: &str = "Landfall-Steps";

impl StepType {
    /// What an agent of this version sends as [`EXTENSIONS_HEADER`].
    pub fn announcement() -> String {
        Self::EXTENSIONS.join(",")
    }

    /// The extensions that an agent says it carries out. Those this version doesn't know are left out.
    pub fn announced_in(header: &str) -> Vec<Self> {
        const MAX: usize = 64;
        let names = header.split(',').take(MAX).map(str::trim).filter(|name| Self::EXTENSIONS.contains(name));
        names.filter_map(|name| crate::json::from_value(name.into()).ok()).collect()
    }
}

/// No type at all.
impl Default for StepType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl fmt::Display for StepType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `free_network_addresses`: one network of a `free-network-addresses` reply. The request is an array of networks as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeNetworkAddresses {
    /// IPv4 addresses that no machine answers for, ascending; includes network and broadcast address.
    #[serde(default, deserialize_with = "null_is_default")]
    pub free_addresses: Vec<String>,
    pub network: String,
}

/// `verify_vip`: one element of a `verify-vips` request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyVip {
    /// The address, echoed unchanged.
    #[serde(default, deserialize_with = "null_is_default")]
    pub vip: String,
    /// What it is for.
    pub vip_type: VipType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VipType {
    Api,
    Ingress,
}

/// `verified_vip`: one element of a `verify-vips` reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedVip {
    /// Whether it can be used.
    pub verification: VipVerification,
    /// Echo.
    pub vip: String,
    /// Echo.
    pub vip_type: VipType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VipVerification {
    /// Not looked at; never sent.
    Unverified,
    /// Another machine has it already.
    Failed,
    /// No machine answers for it.
    Succeeded,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NtpSynchronizationRequest {
    /// Names and addresses, comma-separated; may be empty.
    pub ntp_source: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NtpSynchronizationResponse {
    /// The host's sources of time.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ntp_sources: Vec<NtpSource>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NtpSource {
    /// Its name, or its address where it has none.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub source_name: String,
    /// The clock's assessment of it.
    pub source_state: SourceState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// The clock follows it.
    Synced,
    /// The clock follows it among others.
    Combined,
    /// Good, but not followed.
    NotCombined,
    /// A falseticker, or an unknown state.
    Error,
    /// Too unsteady.
    Variable,
    /// Unreachable.
    Unreachable,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainResolutionRequest {
    /// What to look up.
    pub domains: Vec<DomainResolutionRequestDomain>,
}

/// One name of a [`DomainResolutionRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainResolutionRequestDomain {
    /// With a trailing dot absolute, without it subject to the search list. Required, but the service's model lets it be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainResolutionResponse {
    /// One a name, in the order of the request.
    pub resolutions: Vec<DomainResolution>,
}

/// One name of a [`DomainResolutionResponse`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainResolution {
    /// Canonical names with a trailing dot; `null` for a name that does not exist.
    #[serde(default)]
    pub cnames: Option<Vec<String>>,
    /// Echo, trailing dot included.
    pub domain_name: String,
    /// A records.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ipv4_addresses: Vec<String>,
    /// AAAA records.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ipv6_addresses: Vec<String>,
}

/// `download_boot_artifacts_request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootArtifactsRequest {
    /// Kernel of the discovery system.
    pub kernel_url: String,
    /// Its initramfs.
    pub initrd_url: String,
    /// Its root file system, fetched by the initramfs.
    pub rootfs_url: String,
    /// Where the root of the node is mounted.
    pub host_fs_mount_dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootForReclaimRequest {
    /// Where the root of the node is mounted.
    pub host_fs_mount_dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpAllocationRequest {
    /// An earlier lease, to renew.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub api_vip_lease: String,
    /// Hardware address for requesting the API's address.
    pub api_vip_mac: Mac,
    /// As `api_vip_lease`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ingress_vip_lease: String,
    /// Hardware address for requesting the ingress's address.
    pub ingress_vip_mac: Mac,
    pub interface: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpAllocationResponse {
    /// IPv4.
    pub api_vip_address: String,
    /// In the dialect of dhclient's lease file.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub api_vip_lease: String,
    /// IPv4.
    pub ingress_vip_address: String,
    /// As `api_vip_lease`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ingress_vip_lease: String,
}

#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiVipConnectivityRequest {
    /// Base64 of a PEM bundle; nothing else is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
    /// Bearer token, of older services. A secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint_token: Option<String>,
    /// Override the others. Their values may be secret.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub request_headers: Vec<RequestHeader>,
    pub url: String,
}

/// `api_vip_connectivity_additional_request_header`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeader {
    #[serde(default, deserialize_with = "null_is_default")]
    pub key: String,
    /// Its value; may be secret.
    #[serde(default, deserialize_with = "null_is_default")]
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiVipConnectivityResponse {
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub download_error: String,
    /// The config as JSON text, without most of its files and all of its units.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ignition: String,
    /// Whether the config was fetched and is valid.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub is_success: bool,
    /// Echo.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TangConnectivityRequest {
    /// JSON text: an array of [`TangServer`].
    pub tang_servers: String,
}

/// One server of a [`TangConnectivityRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TangServer {
    /// Base URL. Users give the list, and Go takes names in any case.
    #[serde(default, alias = "URL", alias = "Url", deserialize_with = "null_is_default")]
    pub url: String,
    /// Of its signing key.
    #[serde(default, alias = "Thumbprint", deserialize_with = "null_is_default")]
    pub thumbprint: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TangConnectivityResponse {
    /// Whether all of them answered.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub is_success: bool,
    /// `null` when one of them did not.
    #[serde(default)]
    pub tang_server_response: Option<Vec<TangServerResponse>>,
}

/// What one server advertises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TangServerResponse {
    /// Base64url of its keys.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub payload: String,
    /// Over the payload.
    #[serde(default, deserialize_with = "null_is_default")]
    pub signatures: Vec<TangServerSignature>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub tang_url: String,
}

/// A signature of an advertisement (RFC 7515 §7.2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TangServerSignature {
    /// Protected header.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub protected: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub signature: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSpeedCheckRequest {
    /// A disk, echoed unchanged.
    pub path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSpeedCheckResponse {
    /// 99th percentile of the times fdatasync took, milliseconds.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub io_sync_duration: u64,
    /// Echo.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub path: String,
}

/// `upgrade_agent_request`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeAgentRequest {
    /// The image to continue as.
    pub agent_image: String,
}

/// `upgrade_agent_response`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeAgentResponse {
    /// Echo.
    #[serde(default, deserialize_with = "null_is_default")]
    pub agent_image: String,
    /// `success` or `failure`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub result: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerImageAvailabilityRequest {
    /// References, echoed unchanged.
    pub images: Vec<String>,
    /// Seconds for all of them together; the service's default is 960.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerImageAvailabilityResponse {
    /// In the order of the request.
    pub images: Vec<ContainerImageAvailability>,
}

/// `container_image_availability`. The numbers are left out where nothing was fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerImageAvailability {
    /// Millions of bytes a second.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub download_rate: f64,
    /// Echo.
    pub name: String,
    /// Whether it can be pulled.
    pub result: ContainerImageAvailabilityResult,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
    /// Seconds.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub time: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerImageAvailabilityResult {
    /// It can.
    Success,
    /// It can't.
    Failure,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_known_by_its_name_and_in_no_published_list() {
        assert_eq!(StepType::announcement(), StepType::EXTENSIONS.join(","));
        let announced = StepType::announced_in(&StepType::announcement());
        assert_eq!(announced.iter().map(StepType::as_str).collect::<Vec<_>>(), StepType::EXTENSIONS);
        assert!(announced.iter().all(StepType::is_extension));
        assert_eq!(StepType::announced_in(" certify , inventory,dance,,"), [StepType::Certify]);
        for header in ["", "inventory", "r.io/landfall:1", "Certify", "certify;attest"] {
            assert!(StepType::announced_in(header).is_empty(), "{header}");
        }
        let published = |name: &&str| StepType::NAMES.contains(name);
        assert!(!StepType::EXTENSIONS.iter().any(published));
        assert!(!StepType::Inventory.is_extension() && !StepType::Other("certify2".into()).is_extension());
    }

    #[test]
    fn step_types_match_their_names() {
        for name in StepType::NAMES.into_iter().chain(StepType::EXTENSIONS) {
            let parsed: StepType = serde_json::from_value(name.into()).unwrap();
            assert!(!matches!(parsed, StepType::Other(_)), "{name}");
            assert_eq!(parsed.as_str(), name);
            assert_eq!(serde_json::to_value(&parsed).unwrap(), name);
        }
        let other: StepType = serde_json::from_str("\"Step-not-exists\"").unwrap();
        assert_eq!(serde_json::to_string(&other).unwrap(), "\"Step-not-exists\"");
    }
}
