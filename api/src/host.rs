//! Hosts as the service shows them.

use crate::json::{null_is_default, only_known, unknown_is_default, unknown_is_none};
use crate::{ClusterId, HostId, HostRole, HostStage, InfraEnvId, Secret, Timestamp, is_zero};
use serde::{Deserialize, Serialize};

/// `host-create-params`: body of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCreateParams {
    /// Image reference of the running agent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub discovery_agent_version: String,
    pub host_id: HostId,
}

/// `host_registration_response`: the host plus the command that runs its next steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostRegistration {
    #[serde(flatten)]
    pub host: Host,
    /// What runs the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step_runner_command: Option<NextStepCommand>,
}

/// `next_step_runner_command`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStepCommand {
    /// One JSON `next_step_cmd_request`, as text.
    #[serde(default, deserialize_with = "null_is_default")]
    pub args: Vec<String>,
    /// Left out by the real service.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub command: String,
    /// Left out by the real service.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub retry_seconds: u64,
}

/// `host`. Documents inside text fields (inventory, connectivity, …) are JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Carries the temporary control plane.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub bootstrap: bool,
    /// Last poll.
    #[serde(default)]
    pub checked_in_at: Timestamp,
    /// Its cluster; unbound when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    /// It has been silent for too long, and may still return.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub connection_timed_out: bool,
    /// `connectivity-report`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub connectivity: String,
    /// Row creation.
    #[serde(default)]
    pub created_at: Timestamp,
    /// Always null here.
    #[serde(default)]
    pub deleted_at: Option<Timestamp>,
    /// Image reference of its agent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub discovery_agent_version: String,
    /// Path of this resource.
    #[serde(default, deserialize_with = "null_is_default")]
    pub href: String,
    pub id: HostId,
    /// Ignition override, JSON.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ignition_config_overrides: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub infra_env_id: InfraEnvId,
    /// Stable link of the chosen disk.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub installation_disk_id: String,
    /// `/dev/…` of the chosen disk.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub installation_disk_path: String,
    /// JSON list of installer arguments.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub installer_args: String,
    /// Installer image, once the install step was sent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub installer_version: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub inventory: String,
    /// `Host` or `AddToExistingClusterHost`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub kind: String,
    /// Last log upload.
    #[serde(default)]
    pub logs_collected_at: Timestamp,
    /// `requested`, `collecting`, `completed`, `timeout` or empty.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub logs_info: String,
    /// First log request.
    #[serde(default)]
    pub logs_started_at: Timestamp,
    /// `connected` or `disconnected`: whether it can read its discovery media; empty until it first could not.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub media_status: String,
    /// Progress of an installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<HostProgressInfo>,
    /// Stages this host will pass, as far as they are known here; null for an unknown role.
    #[serde(default, deserialize_with = "only_known")]
    pub progress_stages: Option<Vec<HostStage>>,
    /// Last registration.
    #[serde(default)]
    pub registered_at: Timestamp,
    /// Requested hostname.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub requested_hostname: String,
    /// Role; an unknown one counts as none.
    #[serde(default, deserialize_with = "unknown_is_default")]
    pub role: HostRole,
    /// Copy of the progress' field.
    #[serde(default)]
    pub stage_started_at: Timestamp,
    /// Copy of the progress' field.
    #[serde(default)]
    pub stage_updated_at: Timestamp,
    /// State; null in the answer to a further registration.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: String,
    /// State, for people.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status_info: String,
    /// Last change of the state.
    #[serde(default)]
    pub status_updated_at: Timestamp,
    /// Role suggested by the service.
    #[serde(default, deserialize_with = "unknown_is_default")]
    pub suggested_role: HostRole,
    /// Clock of the host at its last poll, Unix seconds.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub timestamp: i64,
    /// Last change of the row.
    #[serde(default)]
    pub updated_at: Timestamp,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub user_name: String,
    /// Validations by category.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub validations_info: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProgressInfo {
    /// Stage, if it is known here.
    #[serde(default, deserialize_with = "unknown_is_none", skip_serializing_if = "Option::is_none")]
    pub current_stage: Option<HostStage>,
    /// Stages done, percent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub installation_percentage: u64,
    /// Detail of the stage.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub progress_info: String,
    /// When the stage began.
    #[serde(default)]
    pub stage_started_at: Timestamp,
    /// It took longer than it should.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub stage_timed_out: bool,
    /// When it last moved.
    #[serde(default)]
    pub stage_updated_at: Timestamp,
}

/// `host-update-params`, the part this version acts on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostUpdateParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_role: Option<HostRole>,
    /// The disk to install to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks_selected_config: Option<Vec<DiskConfigParams>>,
    /// Disks that stay as they are, or no longer do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks_skip_formatting: Option<Vec<DiskSkipFormattingParams>>,
    /// Machine config pool to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_name: Option<String>,
    /// How the other of two control-plane nodes powers it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_credentials: Option<FencingCredentials>,
    /// Bearer token for the ignition endpoint; empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint_token: Option<Secret>,
    /// Headers for the ignition endpoint, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint_http_headers: Option<Vec<HttpHeader>>,
    /// Labels of its node, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_labels: Option<Vec<NodeLabel>>,
}

/// `fencing-credentials-params`: how a host's BMC is reached. Its fields are in the order in which services store them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FencingCredentials {
    /// URL of the BMC.
    pub address: String,
    /// `Enabled` or `Disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_verification: Option<String>,
    /// Identifies the host, instead of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    pub password: Secret,
    pub username: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSkipFormattingParams {
    /// Identifier of the disk as in the inventory.
    pub disk_id: String,
    /// Whether it goes onto the list, or off it.
    pub skip_formatting: bool,
}

/// `ignition-endpoint-http-headers-params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpHeader {
    pub key: String,
    /// Its value, which may be secret.
    pub value: Secret,
}

/// `node-label-params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLabel {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfigParams {
    /// Identifier of the disk as in the inventory.
    pub id: String,
    /// `install` or `none`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub role: String,
}
