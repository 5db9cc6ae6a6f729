//! The bodies endpoints take: names, required fields and rules of the published API.

use super::models;
use crate::course::OperatorStatus;
use crate::http::body::{
    BodyShape, any, flag, form, integer, length, list, not_here, object, one_of, shape, text, texts, uuid,
};
use crate::state::cluster::FinalizingStage;

const STAGES: &[&str] = &[
    "Starting installation",
    "Waiting for control plane",
    "Waiting for bootkube",
    "Waiting for controller",
    "Installing",
    "Writing image to disk",
    "Copying registry data to disk",
    "Rebooting",
    "Waiting for ignition",
    "Configuring",
    "Joined",
    "Done",
    "Failed",
];

const NETWORK_TYPES: &[&str] = &["OpenShiftSDN", "OVNKubernetes", "CiscoACI", "Cilium", "Calico", "None"];
const CLUSTER_ARCHITECTURES: &[&str] = &["x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"];
const ARCHITECTURES: &[&str] = &["x86_64", "aarch64", "arm64", "ppc64le", "s390x"];
const IMAGE_TYPES: &[&str] = &["full-iso", "minimal-iso", "disconnected-iso"];
const FOLDERS: &[&str] = &["manifests", "openshift"];

pub const NEW_HOST: BodyShape =
    shape("newHostParams", "HostCreateParams", &[uuid("host_id").required(), text("discovery_agent_version")]);

pub const REPLY: BodyShape = shape(
    "reply",
    "StepReply",
    &[
        any("step_type").described("@step-type").described_as_required(),
        any("step_id").described("string"),
        any("exit_code").described("int"),
        any("output").described("string"),
        any("error").described("string"),
    ],
);

pub const PROGRESS: BodyShape = shape(
    "hostProgress",
    "HostProgress",
    &[one_of("current_stage", STAGES).required().described("@host-stage"), any("progress_info").described("string")],
);

pub const LOGS_PROGRESS: BodyShape = shape(
    "logsProgressParams",
    "LogsProgressParams",
    &[one_of("logs_state", &["requested", "collecting", "completed", "timeout", ""])
        .required()
        .described("@logs_state")],
);

pub const NEW_CLUSTER: BodyShape = shape(
    "newClusterParams",
    "ClusterCreateParams",
    &[
        text("additional_ntp_source").nullable(),
        list("api_vips", &models::API_VIP),
        text("base_dns_domain"),
        form("cluster_network_cidr", &models::NETWORK),
        integer("cluster_network_host_prefix", 1, 128).or_zero(),
        list("cluster_networks", &models::CLUSTER_NETWORK).nullable(),
        integer("control_plane_count", i64::MIN, i64::MAX).nullable(),
        one_of("cpu_architecture", CLUSTER_ARCHITECTURES).or_zero(),
        object("disk_encryption", &models::DISK_ENCRYPTION),
        one_of("high_availability_mode", &["Full", "None"]),
        text("http_proxy").nullable(),
        text("https_proxy").nullable(),
        one_of("hyperthreading", models::ROLES),
        object("ignition_endpoint", &models::IGNITION_ENDPOINT).undescribed(),
        list("ingress_vips", &models::INGRESS_VIP),
        object("load_balancer", &models::LOAD_BALANCER),
        list("machine_networks", &models::MACHINE_NETWORK).nullable(),
        length("name", 1, 54).required(),
        one_of("network_type", NETWORK_TYPES).nullable(),
        text("no_proxy").nullable(),
        text("ntp_sources").nullable(),
        text("ocp_release_image"),
        list("olm_operators", &models::OPERATOR).undescribed(),
        text("openshift_version").required(),
        list("operator_bundles", &models::BUNDLE).undescribed(),
        object("platform", &models::PLATFORM).nullable(),
        text("pull_secret").required(),
        flag("schedulable_masters").undescribed(),
        form("service_network_cidr", &models::NETWORK),
        list("service_networks", &models::SERVICE_NETWORK).nullable(),
        text("ssh_public_key"),
        text("tags").nullable(),
        flag("user_managed_networking").nullable(),
        flag("vip_dhcp_allocation").undescribed(),
    ],
);

pub const UPDATE_CLUSTER: BodyShape = shape(
    "clusterUpdateParams",
    "V2ClusterUpdateParams",
    &[
        text("additional_ntp_source").nullable(),
        text("api_vip_dns_name").nullable(),
        list("api_vips", &models::API_VIP).nullable(),
        text("base_dns_domain").nullable(),
        form("cluster_network_cidr", &models::NETWORK).nullable(),
        integer("cluster_network_host_prefix", 1, 128).nullable(),
        list("cluster_networks", &models::CLUSTER_NETWORK).nullable(),
        integer("control_plane_count", i64::MIN, i64::MAX).nullable(),
        object("disk_encryption", &models::DISK_ENCRYPTION),
        text("http_proxy").nullable(),
        text("https_proxy").nullable(),
        one_of("hyperthreading", models::ROLES).nullable(),
        object("ignition_endpoint", &models::IGNITION_ENDPOINT).undescribed(),
        list("ingress_vips", &models::INGRESS_VIP).nullable(),
        object("load_balancer", &models::LOAD_BALANCER),
        form("machine_network_cidr", &models::NETWORK).nullable(),
        list("machine_networks", &models::MACHINE_NETWORK).nullable(),
        length("name", 1, 54).nullable(),
        one_of("network_type", NETWORK_TYPES).nullable(),
        text("no_proxy").nullable(),
        text("ntp_sources").nullable(),
        list("olm_operators", &models::OPERATOR).undescribed(),
        list("operator_bundles", &models::BUNDLE).undescribed(),
        object("platform", &models::PLATFORM),
        text("pull_secret").nullable(),
        flag("schedulable_masters").undescribed(),
        form("service_network_cidr", &models::NETWORK).nullable(),
        list("service_networks", &models::SERVICE_NETWORK).nullable(),
        text("ssh_public_key").nullable(),
        text("tags").nullable(),
        flag("user_managed_networking").nullable(),
        flag("vip_dhcp_allocation").undescribed(),
    ],
);

pub const NEW_MANIFEST: BodyShape = shape(
    "createManifestParams",
    "CreateManifestParams",
    &[text("content").required(), form("file_name", &models::MANIFEST_FILE).required(), one_of("folder", FOLDERS)],
);

pub const UPDATE_MANIFEST: BodyShape = shape(
    "updateManifestParams",
    "UpdateManifestParams",
    &[
        form("file_name", &models::MANIFEST_FILE).required().or_zero(),
        one_of("folder", FOLDERS).required().or_zero(),
        text("updated_content").nullable(),
        form("updated_file_name", &models::MANIFEST_FILE).nullable(),
        one_of("updated_folder", FOLDERS).nullable(),
    ],
);

pub const NEW_INFRA_ENV: BodyShape = shape(
    "infraenvCreateParams",
    "InfraEnvCreateParams",
    &[
        text("additional_ntp_sources").nullable(),
        length("additional_trust_bundle", 0, 65_535),
        uuid("cluster_id").nullable(),
        one_of("cpu_architecture", ARCHITECTURES).or_zero(),
        text("ignition_config_override"),
        one_of("image_type", IMAGE_TYPES).or_zero().described("=full-iso"),
        list("kernel_arguments", &models::KERNEL_ARGUMENTS),
        text("name").required(),
        integer("network_discovery_delay_seconds", 0, i64::MAX).nullable(),
        text("ntp_sources").nullable(),
        text("openshift_version"),
        object("proxy", &models::PROXY),
        text("pull_secret").required(),
        form("rendezvous_ip", &models::RENDEZVOUS_IP).nullable(),
        text("ssh_authorized_key").nullable(),
        list("static_network_config", &models::HOST_NETWORK),
    ],
);

pub const UPDATE_INFRA_ENV: BodyShape = shape(
    "infraEnvUpdateParams",
    "InfraEnvUpdateParams",
    &[
        text("additional_ntp_sources").nullable(),
        length("additional_trust_bundle", 0, 65_535).nullable(),
        text("ignition_config_override"),
        one_of("image_type", IMAGE_TYPES).or_zero().described("=full-iso"),
        list("kernel_arguments", &models::KERNEL_ARGUMENTS),
        integer("network_discovery_delay_seconds", 0, i64::MAX).nullable(),
        text("ntp_sources").nullable(),
        text("openshift_version").nullable(),
        object("proxy", &models::PROXY),
        text("pull_secret"),
        form("rendezvous_ip", &models::RENDEZVOUS_IP).nullable(),
        text("ssh_authorized_key").nullable(),
        list("static_network_config", &models::HOST_NETWORK),
    ],
);

pub const UPDATE_HOST: BodyShape = shape(
    "hostUpdateParams",
    "HostUpdateParams",
    &[
        list("disks_selected_config", &models::DISK_CONFIG).nullable(),
        list("disks_skip_formatting", &models::DISK_SKIP_FORMATTING).nullable(),
        not_here("fencing_credentials").described("@fencing-credentials-params").nullable(),
        text("host_name").nullable(),
        one_of("host_role", &["auto-assign", "master", "arbiter", "worker"]).nullable(),
        list("ignition_endpoint_http_headers", &models::HTTP_HEADER).nullable(),
        text("ignition_endpoint_token").nullable(),
        text("machine_config_pool_name").nullable(),
        list("node_labels", &models::NODE_LABEL).nullable(),
    ],
);

pub const IGNORED_VALIDATIONS: BodyShape =
    shape("ignoredValidations", "IgnoredValidations", &[text("cluster-validation-ids"), text("host-validation-ids")]);

pub const INSTALLER_ARGS: BodyShape = shape("installerArgsParams", "InstallerArgsParams", &[texts("args")]);

pub const HOST_IGNITION: BodyShape = shape("hostIgnitionParams", "HostIgnitionParams", &[text("config")]);

pub const BIND: BodyShape = shape("bindHostParams", "BindHostParams", &[uuid("cluster_id").required()]);

pub const IMPORT: BodyShape = shape(
    "newImportClusterParams",
    "ImportClusterParams",
    &[
        text("api_vip_dnsname").required(),
        text("name").required(),
        uuid("openshift_cluster_id").required(),
        text("openshift_version"),
    ],
);

pub const NEW_DISCONNECTED_CLUSTER: BodyShape = shape(
    "newClusterParams",
    "DisconnectedClusterCreateParams",
    &[length("name", 1, 54).required(), text("openshift_version").required()],
);

pub const FINALIZING: BodyShape = shape(
    "finalizingProgress",
    "ClusterFinalizingProgress",
    &[one_of("finalizing_stage", &FinalizingStage::NAMES).or_zero().described("@finalizing-stage")],
);

pub const OPERATOR: BodyShape = shape(
    "reportParams",
    "OperatorMonitorReport",
    &[
        text("name"),
        one_of("status", &OperatorStatus::NAMES).or_zero().described("@operator-status"),
        text("status_info"),
        text("version"),
    ],
);

pub const COMPLETION: BodyShape =
    shape("completionParams", "CompletionParams", &[any("data"), text("error_info"), flag("is_success").required()]);

pub const EVENT: BodyShape = shape(
    "triggerEventParams",
    "Event",
    &[
        one_of("category", &["user", "metrics"]).or_zero(),
        uuid("cluster_id").nullable(),
        any("event_time").required().described("time"),
        uuid("host_id").nullable(),
        uuid("infra_env_id").nullable(),
        text("message").required(),
        any("name").described("string"),
        any("props").described("string"),
        any("request_id").described("string"),
        one_of("severity", &crate::events::Severity::NAMES).required(),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use api::HostStage;

    #[test]
    fn stage_texts_are_the_types_own() {
        assert_eq!(STAGES, HostStage::ALL.map(|stage| stage.as_str()));
    }
}
