//! Clusters as the service shows them.

use crate::{ClusterId, Host, MirrorRegistry, Secret, Timestamp, is_zero, json::null_is_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `cluster-create-params`. Fields without effect in this version are accepted and stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterCreateParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_ntp_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_vips: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_dns_domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_network_cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_network_host_prefix: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_networks: Option<Vec<ClusterNetwork>>,
    /// Number of masters; 1 for a single node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_count: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_architecture: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_encryption: Option<Value>,
    /// `Full` or `None` (single node).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_availability_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hyperthreading: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_vips: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_networks: Option<Vec<MachineNetwork>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror_registry_configuration: Option<MirrorRegistry>,
    /// Name, a DNS label of 1 to 54 characters.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntp_sources: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ocp_release_image: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olm_operators: Option<Vec<Value>>,
    /// Version to install.
    pub openshift_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_bundles: Option<Vec<Value>>,
    /// Release stream of the nodes' system, as `rhel-10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Registry credentials: JSON with `auths`.
    pub pull_secret: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedulable_masters: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_network_cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_networks: Option<Vec<ServiceNetwork>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_managed_networking: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip_dhcp_allocation: Option<bool>,
}

/// `v2-cluster-update-params`; what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterUpdateParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_ntp_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_vip_dns_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_vips: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_dns_domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_network_cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_network_host_prefix: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_networks: Option<Vec<ClusterNetwork>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_count: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_encryption: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hyperthreading: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_vips: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_network_cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_networks: Option<Vec<MachineNetwork>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror_registry_configuration: Option<MirrorRegistry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntp_sources: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olm_operators: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_bundles: Option<Vec<Value>>,
    /// Release stream of the nodes' system, as `rhel-10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedulable_masters: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_network_cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_networks: Option<Vec<ServiceNetwork>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_managed_networking: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip_dhcp_allocation: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNetwork {
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub cidr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub host_prefix: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineNetwork {
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub cidr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
}

/// `service_network` has the same shape.
pub type ServiceNetwork = MachineNetwork;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    /// Only for type `external`.
    #[serde(default)]
    pub external: Value,
    /// `baremetal`, `none`, …
    #[serde(default, deserialize_with = "null_is_default", rename = "type")]
    pub kind: String,
}

/// `cluster`, the part this version knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    #[serde(default, deserialize_with = "null_is_default")]
    pub api_vips: Vec<Value>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub base_dns_domain: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub cluster_networks: Vec<ClusterNetwork>,
    /// JSON: majority groups by network.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub connectivity_majority_groups: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub control_plane_count: u32,
    #[serde(default)]
    pub controller_logs_collected_at: Timestamp,
    #[serde(default)]
    pub controller_logs_started_at: Timestamp,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub cpu_architecture: String,
    #[serde(default)]
    pub created_at: Timestamp,
    #[serde(default)]
    pub deleted_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub high_availability_mode: String,
    /// Its hosts; none with `exclude-hosts`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub hosts: Vec<Host>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub href: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub hyperthreading: String,
    pub id: ClusterId,
    #[serde(default)]
    pub image_info: Value,
    #[serde(default, deserialize_with = "null_is_default")]
    pub ingress_vips: Vec<Value>,
    #[serde(default)]
    pub install_completed_at: Timestamp,
    #[serde(default)]
    pub install_started_at: Timestamp,
    /// JSON that users had merged into the cluster's install configuration; may contain passwords.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Secret::is_empty")]
    pub install_config_overrides: Secret,
    /// `Cluster`, `AddHostsCluster` or `DisconnectedCluster`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub machine_networks: Vec<MachineNetwork>,
    /// Registries that replace others; without any, the service's count.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub mirror_registry_configuration: MirrorRegistry,
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub network_type: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub openshift_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ClusterProgressInfo>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub pull_secret_set: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    pub service_networks: Vec<ServiceNetwork>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ssh_public_key: String,
    /// State.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: String,
    /// State, for people.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status_info: String,
    /// Last change of the state.
    #[serde(default)]
    pub status_updated_at: Timestamp,
    #[serde(default)]
    pub updated_at: Timestamp,
    #[serde(default, deserialize_with = "null_is_default")]
    pub user_managed_networking: bool,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub user_name: String,
    /// Validations by category, JSON.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub validations_info: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub vip_dhcp_allocation: bool,
}

/// `cluster-progress-info`, percentages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterProgressInfo {
    /// What its controller does.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub finalizing_stage: String,
    /// It took longer than it should.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub finalizing_stage_timed_out: bool,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub finalizing_stage_percentage: u64,
    #[serde(default)]
    pub finalizing_stage_started_at: Timestamp,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub installing_stage_percentage: u64,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub preparing_for_installation_stage_percentage: u64,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub total_percentage: u64,
}
