//! The bodies endpoints take: names, required fields and rules of the published API.

use crate::course::OperatorStatus;
use crate::http::body::{BodyShape, Field, Rule, any, not_here, required};
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

const HYPERTHREADING: &[&str] = &[
    "none",
    "masters",
    "arbiters",
    "workers",
    "masters,arbiters",
    "masters,workers",
    "arbiters,workers",
    "masters,arbiters,workers",
    "all",
];
const NETWORK_TYPES: &[&str] = &["OpenShiftSDN", "OVNKubernetes", "CiscoACI", "Cilium", "Calico", "None"];
const CLUSTER_ARCHITECTURES: &[&str] = &["x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"];
const ARCHITECTURES: &[&str] = &["x86_64", "aarch64", "arm64", "ppc64le", "s390x"];

/// `host-create-params`.
pub const NEW_HOST: BodyShape = BodyShape {
    name: "newHostParams",
    model: "HostCreateParams",
    fields: &[Field { name: "host_id", required: true, rule: Rule::Uuid }, any("discovery_agent_version")],
};

/// `step-reply`.
pub const REPLY: BodyShape = BodyShape {
    name: "reply",
    model: "StepReply",
    fields: &[any("step_type"), any("step_id"), any("exit_code"), any("output"), any("error")],
};

/// `host-progress`.
pub const PROGRESS: BodyShape = BodyShape {
    name: "hostProgress",
    model: "HostProgress",
    fields: &[Field { name: "current_stage", required: true, rule: Rule::OneOf(STAGES) }, any("progress_info")],
};

/// `logs-progress-params`.
pub const LOGS_PROGRESS: BodyShape = BodyShape {
    name: "logsProgressParams",
    model: "LogsProgressParams",
    fields: &[Field {
        name: "logs_state",
        required: true,
        rule: Rule::OneOf(&["requested", "collecting", "completed", "timeout", ""]),
    }],
};

/// `cluster-create-params`.
pub const NEW_CLUSTER: BodyShape = BodyShape {
    name: "newClusterParams",
    model: "ClusterCreateParams",
    fields: &[
        Field { name: "name", required: true, rule: Rule::Length(1, 54) },
        required("openshift_version"),
        required("pull_secret"),
        Field { name: "high_availability_mode", required: false, rule: Rule::OneOf(&["Full", "None"]) },
        any("additional_ntp_source"),
        any("api_vips"),
        any("base_dns_domain"),
        any("cluster_network_cidr"),
        any("cluster_network_host_prefix"),
        any("cluster_networks"),
        any("control_plane_count"),
        Field { name: "cpu_architecture", required: false, rule: Rule::OneOf(CLUSTER_ARCHITECTURES) },
        any("disk_encryption"),
        any("http_proxy"),
        any("https_proxy"),
        Field { name: "hyperthreading", required: false, rule: Rule::OneOf(HYPERTHREADING) },
        any("ignition_endpoint"),
        any("ingress_vips"),
        any("load_balancer"),
        any("machine_networks"),
        Field { name: "network_type", required: false, rule: Rule::OneOf(NETWORK_TYPES) },
        any("no_proxy"),
        any("ntp_sources"),
        any("ocp_release_image"),
        not_here("olm_operators"),
        not_here("operator_bundles"),
        any("platform"),
        any("schedulable_masters"),
        any("service_network_cidr"),
        any("service_networks"),
        any("ssh_public_key"),
        any("tags"),
        any("user_managed_networking"),
        any("vip_dhcp_allocation"),
    ],
};

/// `v2-cluster-update-params`.
pub const UPDATE_CLUSTER: BodyShape = BodyShape {
    name: "clusterUpdateParams",
    model: "V2ClusterUpdateParams",
    fields: &[
        Field { name: "name", required: false, rule: Rule::Length(1, 54) },
        Field { name: "hyperthreading", required: false, rule: Rule::OneOf(HYPERTHREADING) },
        Field { name: "network_type", required: false, rule: Rule::OneOf(NETWORK_TYPES) },
        any("additional_ntp_source"),
        any("api_vip_dns_name"),
        any("api_vips"),
        any("base_dns_domain"),
        any("cluster_network_cidr"),
        any("cluster_network_host_prefix"),
        any("cluster_networks"),
        any("control_plane_count"),
        any("disk_encryption"),
        any("http_proxy"),
        any("https_proxy"),
        any("ignition_endpoint"),
        any("ingress_vips"),
        any("load_balancer"),
        any("machine_network_cidr"),
        any("machine_networks"),
        any("no_proxy"),
        any("ntp_sources"),
        not_here("olm_operators"),
        not_here("operator_bundles"),
        any("platform"),
        any("pull_secret"),
        any("schedulable_masters"),
        any("service_network_cidr"),
        any("service_networks"),
        any("ssh_public_key"),
        any("tags"),
        any("user_managed_networking"),
        any("vip_dhcp_allocation"),
    ],
};

/// `create-manifest-params`.
pub const NEW_MANIFEST: BodyShape = BodyShape {
    name: "createManifestParams",
    model: "CreateManifestParams",
    fields: &[
        Field { name: "folder", required: false, rule: Rule::OneOf(&["manifests", "openshift"]) },
        required("file_name"),
        required("content"),
    ],
};

/// `update-manifest-params`.
pub const UPDATE_MANIFEST: BodyShape = BodyShape {
    name: "updateManifestParams",
    model: "UpdateManifestParams",
    fields: &[
        Field { name: "folder", required: true, rule: Rule::OneOf(&["manifests", "openshift"]) },
        required("file_name"),
        any("updated_content"),
        any("updated_file_name"),
        Field { name: "updated_folder", required: false, rule: Rule::OneOf(&["manifests", "openshift"]) },
    ],
};

/// `infra-env-create-params`.
pub const NEW_INFRA_ENV: BodyShape = BodyShape {
    name: "infraenvCreateParams",
    model: "InfraEnvCreateParams",
    fields: &[
        required("name"),
        required("pull_secret"),
        Field { name: "cluster_id", required: false, rule: Rule::Uuid },
        Field {
            name: "image_type",
            required: false,
            rule: Rule::OneOf(&["full-iso", "minimal-iso", "disconnected-iso"]),
        },
        Field { name: "cpu_architecture", required: false, rule: Rule::OneOf(ARCHITECTURES) },
        any("additional_ntp_sources"),
        any("additional_trust_bundle"),
        any("ignition_config_override"),
        any("kernel_arguments"),
        any("network_discovery_delay_seconds"),
        any("ntp_sources"),
        any("openshift_version"),
        any("proxy"),
        any("rendezvous_ip"),
        any("ssh_authorized_key"),
        any("static_network_config"),
    ],
};

/// `infra-env-update-params`.
pub const UPDATE_INFRA_ENV: BodyShape = BodyShape {
    name: "infraEnvUpdateParams",
    model: "InfraEnvUpdateParams",
    fields: &[
        Field {
            name: "image_type",
            required: false,
            rule: Rule::OneOf(&["full-iso", "minimal-iso", "disconnected-iso"]),
        },
        any("additional_ntp_sources"),
        any("additional_trust_bundle"),
        any("ignition_config_override"),
        any("kernel_arguments"),
        any("network_discovery_delay_seconds"),
        any("ntp_sources"),
        any("openshift_version"),
        any("proxy"),
        any("pull_secret"),
        any("rendezvous_ip"),
        any("ssh_authorized_key"),
        any("static_network_config"),
    ],
};

/// `host-update-params`.
pub const UPDATE_HOST: BodyShape = BodyShape {
    name: "hostUpdateParams",
    model: "HostUpdateParams",
    fields: &[
        Field {
            name: "host_role",
            required: false,
            rule: Rule::OneOf(&["auto-assign", "master", "arbiter", "worker"]),
        },
        any("host_name"),
        any("disks_selected_config"),
        any("disks_skip_formatting"),
        any("machine_config_pool_name"),
        any("ignition_endpoint_token"),
        any("ignition_endpoint_http_headers"),
        any("node_labels"),
        not_here("fencing_credentials"),
    ],
};

/// `ignored-validations`.
pub const IGNORED_VALIDATIONS: BodyShape = BodyShape {
    name: "ignoredValidations",
    model: "IgnoredValidations",
    fields: &[any("cluster-validation-ids"), any("host-validation-ids")],
};

/// `installer-args-params`.
pub const INSTALLER_ARGS: BodyShape =
    BodyShape { name: "installerArgsParams", model: "InstallerArgsParams", fields: &[any("args")] };

/// `host-ignition-params`.
pub const HOST_IGNITION: BodyShape =
    BodyShape { name: "hostIgnitionParams", model: "HostIgnitionParams", fields: &[any("config")] };

/// `bind-host-params`.
pub const BIND: BodyShape = BodyShape {
    name: "bindHostParams",
    model: "BindHostParams",
    fields: &[Field { name: "cluster_id", required: true, rule: Rule::Uuid }],
};

/// `import-cluster-params`.
pub const IMPORT: BodyShape = BodyShape {
    name: "newImportClusterParams",
    model: "ImportClusterParams",
    fields: &[
        Field { name: "name", required: true, rule: Rule::Length(1, 54) },
        Field { name: "api_vip_dnsname", required: true, rule: Rule::Length(1, 253) },
        Field { name: "openshift_cluster_id", required: true, rule: Rule::Uuid },
        any("openshift_version"),
    ],
};

/// `cluster-finalizing-progress`.
pub const FINALIZING: BodyShape = BodyShape {
    name: "finalizingProgress",
    model: "ClusterFinalizingProgress",
    fields: &[Field { name: "finalizing_stage", required: false, rule: Rule::OneOf(&FinalizingStage::NAMES) }],
};

/// `operator-monitor-report`.
pub const OPERATOR: BodyShape = BodyShape {
    name: "reportParams",
    model: "OperatorMonitorReport",
    fields: &[
        any("name"),
        Field { name: "status", required: false, rule: Rule::OneOf(&OperatorStatus::NAMES) },
        any("status_info"),
        any("version"),
    ],
};

/// `completion-params`.
pub const COMPLETION: BodyShape = BodyShape {
    name: "completionParams",
    model: "CompletionParams",
    fields: &[required("is_success"), any("error_info"), any("data")],
};

/// `event`.
pub const EVENT: BodyShape = BodyShape {
    name: "triggerEventParams",
    model: "Event",
    fields: &[
        any("name"),
        Field { name: "cluster_id", required: false, rule: Rule::Uuid },
        Field { name: "host_id", required: false, rule: Rule::Uuid },
        Field { name: "infra_env_id", required: false, rule: Rule::Uuid },
        Field { name: "severity", required: true, rule: Rule::OneOf(&crate::events::Severity::NAMES) },
        Field { name: "category", required: false, rule: Rule::OneOf(&["user", "metrics"]) },
        required("message"),
        required("event_time"),
        any("request_id"),
        any("props"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use api::HostStage;

    #[test]
    fn stage_texts_are_the_types_own() {
        assert_eq!(STAGES, HostStage::ALL.map(|stage| stage.as_str()));
    }
}
