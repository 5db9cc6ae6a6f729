//! Instructions to a host and its replies.

use crate::json::{null_is_default, unknown_is_default};
use crate::{ClusterId, HostId, HostRole, HostStage, InfraEnvId, StepType, is_zero, url::public_url};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PostStepAction {
    /// Poll on.
    #[default]
    Continue,
    /// Leave the loop and register again.
    Exit,
}

/// `steps`: the answer to a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// What to do; the real service sends `null` for nothing.
    #[serde(default)]
    pub instructions: Option<Vec<Step>>,
    /// Delay before the next poll, seconds; absent means at once.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub next_instruction_seconds: u64,
    /// What to do afterwards.
    #[serde(default, deserialize_with = "unknown_is_default")]
    pub post_step_action: PostStepAction,
}

/// `step`: one instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Arguments; JSON ones are text here.
    #[serde(default, deserialize_with = "null_is_default")]
    pub args: Vec<String>,
    /// Opaque, echoed in the reply.
    #[serde(default, deserialize_with = "null_is_default")]
    pub step_id: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub step_type: StepType,
}

/// `step-reply`. Zero fields are left out, so a success carries no `exit_code`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepReply {
    /// Standard error of the step; may be set on success.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub error: String,
    /// 0 for success.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub exit_code: i64,
    /// Standard output of the step, often JSON as text.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub output: String,
    /// Echo.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub step_id: String,
    /// Echo.
    pub step_type: StepType,
}

/// `host-progress`: body of PUT …/progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProgress {
    /// The stage reached.
    pub current_stage: HostStage,
    /// Detail: the role, a percentage, or the error text.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub progress_info: String,
}

/// `next_step_cmd_request`: the JSON inside the registration's single argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStepRequest {
    /// The agent image the service wants to run.
    pub agent_version: String,
    pub host_id: HostId,
    pub infra_env_id: InfraEnvId,
}

/// `logs_gather_cmd_request`: the JSON inside the logs-gather step's argument (docs/compatibility.md#logs-gather).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsGatherRequest {
    /// The cluster they are stored with.
    pub cluster_id: ClusterId,
    pub host_id: HostId,
    pub infra_env_id: InfraEnvId,
    /// Whether it carries the temporary control plane.
    pub bootstrap: bool,
    /// Whether to gather everything: kernel log, crashes, the whole journal, and on a bootstrap host the cluster's bundle.
    pub installer_gather: bool,
    /// Control plane hosts from which a bootstrap host gathers logs.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub master_ips: Vec<std::net::IpAddr>,
}

/// `logs_state`: the state of an upload of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogsState {
    /// Requested, or being gathered.
    Requested,
    Collecting,
    Completed,
}

/// `install_cmd_request`: the JSON inside the install step's argument (docs/compatibility.md#install-step).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallRequest {
    /// The disk, preferably by a stable link.
    pub boot_device: String,
    /// Whether to wait for the cluster version operator.
    #[serde(default, deserialize_with = "null_is_default")]
    pub check_cvo: bool,
    pub cluster_id: ClusterId,
    /// 1 for a single node; absent in day 2.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub control_plane_count: u32,
    /// Image of the in-cluster controller.
    pub controller_image: String,
    /// Install into the running root from this image instead of writing a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coreos_image: Option<String>,
    /// Further disks whose boot sector is cleared.
    #[serde(default, deserialize_with = "null_is_default")]
    pub disks_to_format: Vec<String>,
    /// Pull the target OS into the new disk before the reboot.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub enable_skip_mco_reboot: bool,
    pub host_id: HostId,
    pub infra_env_id: InfraEnvId,
    /// A JSON array of coreos-installer arguments, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installer_args: Option<String>,
    pub installer_image: String,
    /// Image of the machine-config operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mco_image: Option<String>,
    /// Image, or a JSON map of images as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_gather_image: Option<String>,
    /// Count reboots in events.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub notify_num_reboots: bool,
    /// Version of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openshift_version: Option<String>,
    /// Proxies for what the installer fetches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    pub role: HostRole,
    /// Addresses of the service for the controller.
    #[serde(default)]
    pub service_ips: Option<Vec<String>>,
    /// Leave the disk's old contents to the image writer.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub skip_installation_disk_cleanup: bool,
}

impl InstallRequest {
    /// Whether the running system itself changes: it carries the temporary control plane, or another system is deployed beside it.
    /// Otherwise only disks change.
    pub fn changes_live_system(&self) -> bool {
        let carries_control_plane = match (self.role, self.control_plane_count) {
            (HostRole::Bootstrap, _) => true,
            // A single-node cluster may have a worker.
            (HostRole::Worker | HostRole::AutoAssign, _) => false,
            (_, count) => count == 1,
        };
        carries_control_plane || self.coreos_image.as_ref().is_some_and(|image| !image.is_empty())
    }
}

/// `proxy`. Its URLs may carry credentials, which `Debug` leaves out.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// For http URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    /// For https URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    /// Comma list of direct destinations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |url: &Option<String>| url.as_deref().map(public_url);
        f.debug_struct("Proxy")
            .field("http_proxy", &shown(&self.http_proxy))
            .field("https_proxy", &shown(&self.https_proxy))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_leaves_out_zero_fields() {
        let reply = StepReply {
            error: String::new(),
            exit_code: 0,
            output: "{}".into(),
            step_id: "inventory-1".into(),
            step_type: StepType::Inventory,
        };
        assert_eq!(
            serde_json::to_string(&reply).unwrap(),
            r#"{"output":"{}","step_id":"inventory-1","step_type":"inventory"}"#
        );
    }

    #[test]
    fn poll_answers_of_the_real_service_parse() {
        let idle = r#"{"instructions":null,"next_instruction_seconds":60,"post_step_action":"continue"}"#;
        let steps: Steps = serde_json::from_str(idle).unwrap();
        assert_eq!(steps.next_instruction_seconds, 60);
        assert_eq!(serde_json::to_string(&steps).unwrap(), idle);
        let exit: Steps = serde_json::from_str(r#"{"instructions":null,"post_step_action":"exit"}"#).unwrap();
        assert_eq!(exit.post_step_action, PostStepAction::Exit);
    }
}
