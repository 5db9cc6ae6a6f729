//! Options of `landfall serve` about clusters.

use crate::events::limits::EventLimits;
use crate::generated_manifests::options::ManifestOptions;
use crate::retention::Retention;
use crate::state::limits::FinalizingLimit;
use std::path::PathBuf;

/// How clusters are installed and retained.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Clusters")]
pub(crate) struct ClusterArgs {
    /// Directory with the install-time files of clusters with a control plane: bootstrap.ign, master.ign and worker.ign;
    /// optional: arbiter.ign, custom_manifests.json, custom_manifests.yaml, metadata.json, install-config.yaml,
    /// kubeconfig, kubeconfig-noingress and kubeadmin-password. One control-plane host is elected to bootstrap, and the
    /// cluster's controller reports when a host is done. A directory ID or NAME.DOMAIN in it has the files of one cluster. Without
    /// this option and --generate there is no control plane, and each host reports for itself
    #[arg(long, visible_alias = "install-config-dir", value_name = "DIR", group = "control_plane")]
    pub(super) cluster_files: Option<PathBuf>,

    /// Hold a cluster in `finalizing` until its controller has reported that the operators work and uploaded the ingress
    /// certificate. Without this option a cluster whose controller reports nothing is installed when its hosts are
    #[arg(long, requires = "control_plane")]
    pub(super) await_controller: bool,

    #[command(flatten)]
    pub(super) manifests: ManifestOptions,

    /// Flag stages and connections that take too long instead of failing the installation. Applies to clusters created from
    /// now on
    #[arg(long)]
    pub(super) soft_timeouts: bool,

    /// Time limit of a finalizing stage, as in "Waiting for cluster operators=12h". May be repeated. Overrides
    /// FINALIZING_STAGE_…_TIMEOUT in the environment. Applies to clusters created from now on
    #[arg(long = "finalizing-timeout", value_name = "STAGE=TIME")]
    pub(super) finalizing_timeouts: Vec<FinalizingLimit>,

    /// Least time between two events of a name, cluster, host and infra-env, a JSON object:
    /// {"upgrade_agent_failed":"2h"}. Events that come sooner are not recorded. Default: 1h for upgrade_agent_started,
    /// upgrade_agent_finished and upgrade_agent_failed
    #[arg(long, value_name = "JSON", env = "EVENT_RATE_LIMITS")]
    pub(super) event_rate_limits: Option<EventLimits>,

    /// Seconds between runs of the monitor, which detects silent hosts and expired time limits, and starts the installation of
    /// clusters whose hosts are prepared
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(super) monitor_interval: u64,

    /// Remove clusters and infra-envs, with their hosts and logs, untouched for this long (h, d, or never). Nothing is removed
    /// before the service has run for this long
    #[arg(long, value_name = "TIME", default_value = "480h")]
    pub(super) remove_inactive_after: Retention,
}
