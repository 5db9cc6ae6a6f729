//! The events that this service records: name, severity, and the text, in which `{names}` stand for details.

use super::Severity;

/// One kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// How serious it is.
    pub(crate) severity: Severity,
    pub(crate) message: &'static str,
}

macro_rules! kinds {
    ($($constant:ident: $severity:ident $name:literal $message:literal;)*) => {
        $(
            #[doc = $message]
            pub(crate) const $constant: Kind = Kind { name: $name, severity: Severity::$severity, message: $message };
        )*
        #[cfg(test)]
        pub(crate) const ALL: &[Kind] = &[$($constant),*];
    };
}

kinds! {
    AFTER_INACTIVITY_CLUSTER_DEREGISTERED: Info "after_inactivity_cluster_deregistered"
        "Cluster is deregistered due to inactivity";
    API_INGRESS_VIP_TIMED_OUT: Warning "api_ingress_vip_timed_out"
        "API and Ingress VIPs lease allocation has been timed out";
    API_INGRESS_VIP_UPDATED: Info "api_ingress_vip_updated"
        "Cluster was updated with api-vip {api_vip}, ingress-vip {ingress_vip}";
    CANCEL_INSTALLATION_FAILED: Error "cancel_installation_failed" "Failed to cancel installation: {error}";
    CLUSTER_DEGRADED_OLM_OPERATORS_FAILED: Warning "cluster_degraded_OLM_operators_failed"
        "Cluster is installed but degraded due to failed OLM operators {failed_operators}";
    CLUSTER_DEREGISTERED: Info "cluster_deregistered" "Deregistered cluster";
    CLUSTER_FINALIZING_STAGE_UPDATED: Info "cluster_finalizing_stage_updated"
        "Updated finalizing stage of the cluster to '{finalizing_stage}'";
    CLUSTER_INSTALLATION_CANCELED: Info "cluster_installation_canceled" "Canceled cluster installation";
    CLUSTER_INSTALLATION_COMPLETED: Info "cluster_installation_completed" "Successfully completed installing cluster";
    CLUSTER_INSTALLATION_FAILED: Critical "cluster_installation_failed"
        "Failed installing cluster. Reason: {failure_reason}";
    CLUSTER_INSTALLATION_RESET: Info "cluster_installation_reset" "Reset cluster installation";
    CLUSTER_LOGS_UPLOADED: Info "cluster_logs_uploaded" "Uploaded logs for the cluster";
    CLUSTER_OPERATOR_REPORT: Info "cluster_operator_report" "The following operators are experiencing issues: {report}";
    CLUSTER_OPERATOR_STATUS: Info "cluster_operator_status"
        "Operator {operator_name} status: {status} message: {status_info}";
    CLUSTER_PREPARE_INSTALLATION_STARTED: Info "cluster_prepare_installation_started"
        "Cluster starting to prepare for installation";
    CLUSTER_REGISTRATION_SUCCEEDED: Info "cluster_registration_succeeded" "Successfully registered cluster";
    CLUSTER_STATUS_UPDATED: Info "cluster_status_updated" "Updated status of the cluster to {cluster_status}";
    CLUSTER_VALIDATION_FAILED: Warning "cluster_validation_failed"
        "Cluster validation '{validation_id}' {failure_message}";
    CLUSTER_VALIDATION_FIXED: Info "cluster_validation_fixed" "Cluster validation '{validation_id}' is now fixed";
    DISK_SPEED_SLOWER_THAN_SUPPORTED: Warning "disk_speed_slower_than_supported"
        "Host's disk {host_disk} is slower than the supported speed, and may cause degraded cluster \
         performance (fdatasync duration: {fdatasync_duration} ms)";
    FINALIZING_STAGE_TIMED_OUT: Warning "finalizing_stage_timed_out"
        "Cluster {cluster_id}: finalizing stage {stage} has been active more than the expected completion \
         time ({minutes} minutes)";
    HOST_ATTESTATION_FAILED: Warning "host_attestation_failed" "Host {host_name}: {message}";
    HOST_ATTESTED: Info "host_attested" "Host {host_name}: {message}";
    HOST_BIND_FAILED: Error "host_bind_failed" "Failed to bind host {host_id} to cluster {cluster_id}: {message}";
    HOST_BIND_SUCCEEDED: Info "host_bind_succeeded" "Host {host_name}: Successfully bound to cluster {cluster_id}";
    HOST_BOOTSTRAP_SET: Info "host_bootstrap_set" "Host {host_name}: set as bootstrap";
    HOST_CERTIFICATION_BLOCKED: Error "host_certification_blocked"
        "Host {host_name} must not be installed: {reason}";
    HOST_DEREGISTERED: Info "host_deregistered" "Host {host_name} deregistered";
    HOST_DISCOVERY_IGNITION_CONFIG_APPLIED: Info "host_discovery_ignition_config_applied"
        "Host {host_name}: custom discovery ignition config was applied";
    HOST_INSTALL_PROGRESS_UPDATED: Info "host_install_progress_updated" "Host: {host_name}, {event}";
    HOST_INSTALLATION_CANCELLED: Info "host_installation_cancelled" "Installation cancelled for host {host_name}";
    HOST_INSTALLATION_RESET: Info "host_installation_reset" "Installation reset for host {host_name}";
    HOST_INSTALLATION_RESET_FAILED: Error "host_installation_reset_failed"
        "Failed to reset installation of host {host_name}. Error: {error}";
    HOST_INSTALLATION_STARTED: Info "host_installation_started"
        "Host {host_name} starting installation as a worker node";
    HOST_INSTALLER_ARGS_APPLIED: Info "host_installer_args_applied"
        "Host {host_name}: custom installer arguments were applied";
    HOST_LOGS_UPLOADED: Info "host_logs_uploaded" "Uploaded logs for host {host_name} cluster {cluster_id}";
    HOST_MEDIA_DISCONNECTED: Error "host_media_disconnected"
        "Unable to read from the discovery media. It was either disconnected or poor network conditions \
         prevented it from being read. Try using the minimal ISO option and be sure to keep the media \
         connected until the installation is completed";
    HOST_REGISTRATION_FAILED: Error "host_registration_failed" "{message}";
    HOST_REGISTRATION_SUCCEEDED: Info "host_registration_succeeded" "Host {host_name}: Successfully registered";
    HOST_ROLE_UPDATED: Info "host_role_updated" "Host {host_name}: calculated role is {suggested_role}";
    HOST_STAGE_TIMED_OUT: Warning "host_stage_timed_out"
        "Host {host_name}: host stage {stage} has been active more than the expected completion time \
         ({minutes} minutes)";
    HOST_STATUS_UPDATED: Info "host_status_updated"
        "Host {host_name}: updated status from {src_status} to {new_status} {info}";
    HOST_UNBIND_FAILED: Error "host_unbind_failed" "Failed to unbind host {host_id} to cluster: {message}";
    HOST_UNBIND_SUCCEEDED: Info "host_unbind_succeeded" "Host {host_name}: Successfully unbound from cluster";
    HOST_VALIDATION_FAILED: Warning "host_validation_failed"
        "Host {host_name}: validation '{validation_id}' {failure_message}";
    HOST_VALIDATION_FIXED: Info "host_validation_fixed" "Host {host_name}: validation '{validation_id}' is now fixed";
    IMAGE_INFO_UPDATED: Info "image_info_updated" "Updated image information ({details})";
    IMAGE_STATUS_UPDATED: Info "image_status_updated"
        "Host {host_name}: New image status {image_status}. result: {result}. {info}";
    INFRA_ENV_DEREGISTER_FAILED: Error "infra_env_deregister_failed" "Failed to deregister infra env. Error: {error}";
    INFRA_ENV_DEREGISTERED: Info "infra_env_deregistered" "Deregistered infra env";
    INFRA_ENV_REGISTERED: Info "infra_env_registered" "Registered infra env";
    INSTALL_CONFIG_APPLIED: Info "install_config_applied" "Custom install config was applied to the cluster";
    INSTALLATION_PREPARING_TIMED_OUT: Warning "installation_preparing_timed_out"
        "Preparing for installation was timed out for the cluster, reason {reason}";
    PREPARE_INSTALLATION_FAILED: Warning "prepare_installation_failed"
        "Failed to prepare the installation due to an unexpected error: {error}. Please retry later";
    PROXY_SETTINGS_CHANGED: Info "proxy_settings_changed" "Proxy settings changed";
    QUICK_DISK_FORMAT_PERFORMED: Info "quick_disk_format_performed"
        "{host_name}: Performing quick format of disk {disk_name}({disk_id})";
    QUICK_DISK_FORMAT_SKIPPED: Info "quick_disk_format_skipped"
        "{host_name}: Skipping quick format of disk {disk_name}({disk_id}) due to user request. This could \
         lead to boot order issues during installation";
    RESET_INSTALLATION_FAILED: Error "reset_installation_failed" "Failed to reset installation. Error: {error}";
    UPGRADE_AGENT_FAILED: Error "upgrade_agent_failed"
        "Host {host_name}: Agent failed to download image '{agent_image}', will try again";
    UPGRADE_AGENT_FINISHED: Info "upgrade_agent_finished"
        "Host {host_name}: Agent has downloaded image '{agent_image}' and will now restart";
    UPGRADE_AGENT_STARTED: Info "upgrade_agent_started"
        "Host {host_name}: Agent has been instructed to download image '{agent_image}' and restart";
    VALIDATIONS_IGNORED: Info "validations_ignored"
        "Cluster {cluster_id}: ignored some or all validations at the discretion of the user";
    CLUSTER_SETTING_WITHOUT_EFFECT: Warning "cluster_setting_without_effect"
        "{what} is stored but has no effect: {reason}";
    INFRA_ENV_SETTING_WITHOUT_EFFECT: Warning "infra_env_setting_without_effect"
        "{what} is stored but has no effect: {reason}";
    HOST_CHOSEN_DISK_UNAVAILABLE: Warning "host_chosen_disk_unavailable" "Host {host_name}: {reason}";
    HOST_IDENTITY_SHARED: Warning "host_identity_shared"
        "Host {host_name} has the network cards {now}, and had {before}: if both machines run, they share a system UUID: give one another landfall.host_id";
    HOST_STEP_FAILED: Error "host_step_failed" "Host {host_name}: {reason}";
    RELEASE_IMAGE_UNREADABLE: Warning "release_image_unreadable" "Release image {image} cannot be read: {error}";
}

/// Those of which a host has one an hour.
pub(crate) const HOURLY: &[Kind] = &[UPGRADE_AGENT_FAILED, UPGRADE_AGENT_FINISHED, UPGRADE_AGENT_STARTED];

/// Names of those that are not among the published ones.
#[cfg(test)]
pub(crate) const OURS: &[&str] = &[
    CLUSTER_SETTING_WITHOUT_EFFECT.name,
    INFRA_ENV_SETTING_WITHOUT_EFFECT.name,
    HOST_ATTESTATION_FAILED.name,
    HOST_ATTESTED.name,
    HOST_CERTIFICATION_BLOCKED.name,
    HOST_CHOSEN_DISK_UNAVAILABLE.name,
    HOST_IDENTITY_SHARED.name,
    HOST_STEP_FAILED.name,
    RELEASE_IMAGE_UNREADABLE.name,
];
