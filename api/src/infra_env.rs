//! Infra-envs as the service shows them.

use crate::{ClusterId, InfraEnvId, MirrorRegistry, Proxy, Secret, Timestamp, is_zero, json::null_is_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfraEnvCreateParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_ntp_sources: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_trust_bundle: Option<String>,
    /// Bind hosts to this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_architecture: Option<String>,
    /// Ignition merged into the discovery config, JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_config_override: Option<String>,
    /// `full-iso` or `minimal-iso`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_arguments: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror_registry_configuration: Option<MirrorRegistry>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_discovery_delay_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntp_sources: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openshift_version: Option<String>,
    /// Release stream of the system that hosts boot, as `rhel-10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Registry credentials.
    pub pull_secret: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous_ip: Option<String>,
    /// Key of user `core` on the live host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_authorized_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_network_config: Option<Vec<Value>>,
}

/// `infra-env-update-params`; what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfraEnvUpdateParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_ntp_sources: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_trust_bundle: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_config_override: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_arguments: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror_registry_configuration: Option<MirrorRegistry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_discovery_delay_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntp_sources: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openshift_version: Option<String>,
    /// Release stream of the system that hosts boot, as `rhel-10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous_ip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_authorized_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_network_config: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InfraEnv {
    /// Time sources beside the base ISO's, a comma list.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub additional_ntp_sources: String,
    /// Certificates that hosts trust beside their own, PEM.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub additional_trust_bundle: String,
    /// Cluster its hosts are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub cpu_architecture: String,
    /// The domain of its owner's address; a fixed word without owners.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub email_domain: String,
    #[serde(default)]
    pub created_at: Timestamp,
    /// Where its ISO is.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub download_url: String,
    #[serde(default)]
    pub expires_at: Timestamp,
    #[serde(default, deserialize_with = "null_is_default")]
    pub href: String,
    pub id: InfraEnvId,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ignition_config_override: String,
    /// JSON: operations on the live host's kernel arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_arguments: Option<String>,
    /// Always `InfraEnv`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub kind: String,
    /// Registries that replace others; without any, the service's count.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub mirror_registry_configuration: MirrorRegistry,
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// Time to wait for slow hardware before networks are set, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_discovery_delay_seconds: Option<u64>,
    /// Time sources instead of the base ISO's, a comma list.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ntp_sources: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub openshift_version: String,
    /// Release stream of the system that hosts boot; empty for the default of the version.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub os_stream: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub proxy: Proxy,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub pull_secret_set: bool,
    /// Address of the host that runs the service, if it is one of its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous_ip: Option<String>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ssh_authorized_key: String,
    /// JSON: networks of hosts, as they were given.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub static_network_config: String,
    /// `full-iso` or `minimal-iso`.
    #[serde(default, deserialize_with = "null_is_default", rename = "type")]
    pub kind_of_image: String,
    #[serde(default)]
    pub updated_at: Timestamp,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub user_name: String,
}
