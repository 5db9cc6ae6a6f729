//! Transitions of a cluster (docs/compatibility.md#cluster-states): what they depend on, and the table of them.

mod rows;
#[cfg(test)]
mod tests;

pub(crate) use rows::ROWS;

use super::{
    ClusterChecks, ClusterState, HostState, host, limits,
    table::{self, Machine},
};
use api::HostRole;
use serde::{Deserialize, Serialize};

pub(crate) mod info {
    pub(crate) const INSUFFICIENT: &str = "Cluster is not ready for install";
    pub(crate) const PENDING: &str = "User input required";
    pub(crate) const READY: &str = "Cluster ready to be installed";
    pub(crate) const PREPARING: &str = "Preparing cluster for installation";
    pub(crate) const PREPARING_TIMEOUT: &str = "Preparing cluster for installation timeout";
    pub(crate) const PREPARING_FAILED: &str = "Cluster failed to prepare for installation";
    pub(crate) const INSTALLING: &str = "Installation in progress";
    pub(crate) const USER_ACTION: &str = "Cluster has hosts pending user action";
    pub(crate) const FINALIZING: &str = "Finalizing cluster installation";
    pub(crate) const INSTALLED: &str = "Cluster is installed";
    pub(crate) const DEGRADED: &str = "Cluster is installed but degraded";
    pub(crate) const WITHOUT_WORKERS: &str = "Cluster is installed but some workers did not join";
    pub(crate) const HOSTS_IN_ERROR: &str = "cluster has hosts in error";
    pub(crate) const STOPPED_PREPARING: &str = "At least one host has stopped preparing for installation";
    pub(crate) const CANCELLED: &str = "Cluster installation was cancelled";
    pub(crate) const RESET: &str = "cluster was reset by user";
    pub(crate) const USER_ACTION_TIMEOUT: &str =
        "cluster installation timed out while pending user action (a manual booting from installation disk)";
    pub(crate) const FINALIZING_TIMEOUT: &str = "Cluster installation timeout while finalizing";
    pub(crate) const ADDING: &str = "cluster is adding hosts to existing OCP cluster";
}

/// The machine of clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clusters {}

impl Machine for Clusters {
    type State = ClusterState;
    type Trigger = Trigger;
    type Facts = Facts;
    type Effect = Effect;
}

/// A trigger of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The user starts the installation.
    Install,
    /// The user cancels it.
    Cancel,
    /// The user resets it.
    Reset,
    /// The user wants to add hosts to it.
    AllowAddHosts,
    /// Every few seconds, and after most writes.
    Refresh,
}

/// What a transition does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Stamp the start of the installation; nothing is prepared yet.
    Start,
    /// Stamp its end.
    Complete,
    /// The same trigger for each host. A host that refuses a reset makes the cluster's refused; others stay as they are.
    EachHost(host::Trigger),
    /// Forget progress, logs and preparation; a single node loses its virtual addresses.
    Clear,
    /// Become a cluster that hosts are added to.
    AddHosts,
    /// The preparation ended.
    Prepared,
    PreparationFailed,
    /// A single node's own address is that of the API and of ingress.
    SingleNodeVips,
    /// Note that the finalizing stage took too long.
    StageTimedOut,
    /// Wait for logs no longer.
    LogsTimedOut,
    /// Event `cluster_prepare_installation_started`.
    TellStarted,
    /// Event `cluster_installation_canceled`.
    TellCancelled,
    /// Event `cluster_installation_reset`.
    TellReset,
    /// Event `installation_preparing_timed_out`.
    TellPreparingTimedOut,
    /// Event `cluster_installation_failed`.
    TellFailed,
    /// Event `cluster_installation_completed`.
    TellCompleted,
    /// Event `cluster_degraded_OLM_operators_failed`.
    TellDegraded,
}

/// The state of an installation's preparation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Preparation {
    /// Nothing was prepared yet.
    #[default]
    NotStarted,
    /// Everything is there.
    Success,
    /// Something could not be made.
    Failed,
}

/// What a controller does to finish an installation, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FinalizingStage {
    #[serde(rename = "Waiting for cluster operators")]
    ClusterOperators,
    #[serde(rename = "Adding router ca")]
    RouterCa,
    #[serde(rename = "Applying olm manifests")]
    OlmManifests,
    #[serde(rename = "Waiting for olm operators csv initialization")]
    OlmCsvInitialization,
    #[serde(rename = "Waiting for olm operators csv")]
    OlmCsv,
    #[serde(rename = "Waiting for OLM operator setup jobs")]
    OlmSetupJobs,
    Done,
}

impl FinalizingStage {
    /// The wire's texts, in order.
    pub const NAMES: [&'static str; 7] = [
        "Waiting for cluster operators",
        "Adding router ca",
        "Applying olm manifests",
        "Waiting for olm operators csv initialization",
        "Waiting for olm operators csv",
        "Waiting for OLM operator setup jobs",
        "Done",
    ];

    pub(crate) const ALL: [Self; 7] = [
        Self::ClusterOperators,
        Self::RouterCa,
        Self::OlmManifests,
        Self::OlmCsvInitialization,
        Self::OlmCsv,
        Self::OlmSetupJobs,
        Self::Done,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterOperators => Self::NAMES[0],
            Self::RouterCa => Self::NAMES[1],
            Self::OlmManifests => Self::NAMES[2],
            Self::OlmCsvInitialization => Self::NAMES[3],
            Self::OlmCsv => Self::NAMES[4],
            Self::OlmSetupJobs => Self::NAMES[5],
            Self::Done => Self::NAMES[6],
        }
    }

    /// Its operators may fail without the cluster failing.
    pub(crate) fn waits_for_olm(self) -> bool {
        matches!(self, Self::OlmManifests | Self::OlmCsvInitialization | Self::OlmCsv)
    }
}

/// What a cluster's transitions depend on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Seconds in the current state.
    pub(crate) in_state: i64,
    /// Seconds since the installation began.
    pub(crate) in_install: i64,
    /// What its checks say.
    pub(crate) checks: ClusterChecks,
    /// Its virtual addresses come by DHCP.
    pub(crate) dhcp_vips: bool,
    /// It is one that is made here, not one that hosts are added to.
    pub day1: bool,
    /// Time limits flag instead of failing.
    pub soft_timeouts: bool,
    /// Its hosts: state and effective role.
    pub hosts: Vec<(HostState, HostRole)>,
    /// Control-plane hosts wanted.
    pub control_plane_count: usize,
    /// How its preparation stands.
    pub(crate) preparation: Preparation,
    /// Files are being made that its hosts are installed with.
    pub(crate) awaits_files: bool,
    /// What its controller does.
    pub(crate) finalizing_stage: Option<FinalizingStage>,
    /// Seconds in that stage.
    pub(crate) in_finalizing_stage: i64,
    /// The longest time an OLM operator may take, seconds.
    pub(crate) olm_timeout: i64,
    /// The operator's own limits.
    pub(crate) finalizing: limits::FinalizingLimits,
    /// The finalizing stage is flagged as timed out.
    pub(crate) stage_flagged: bool,
    /// No controller finalizes, or it has finished: configuration and operators are complete.
    pub(crate) finalized: bool,
    /// OLM operators that failed.
    pub(crate) failed_operators: Vec<String>,
    /// Logs were asked for too long ago.
    pub(crate) logs_overdue: bool,
}

impl Facts {
    fn all(&self, states: &[HostState]) -> bool {
        !self.hosts.is_empty() && self.hosts.iter().all(|(state, _)| states.contains(state))
    }

    fn any(&self, state: HostState) -> bool {
        self.hosts.iter().any(|(own, _)| *own == state)
    }

    fn finalizing(&self) -> bool {
        enough(&self.hosts, self.control_plane_count, |state| state == HostState::Installed)
    }

    fn installing(&self) -> bool {
        enough(&self.hosts, self.control_plane_count, |state| {
            matches!(
                state,
                HostState::Installing
                    | HostState::InstallingInProgress
                    | HostState::Installed
                    | HostState::InstallingPendingUserAction
                    | HostState::PreparingSuccessful
            )
        })
    }

    fn stage_overdue(&self) -> bool {
        let limit = |stage| self.finalizing.stage(stage, self.soft_timeouts, self.olm_timeout);
        self.finalizing_stage.is_some_and(|stage| self.in_finalizing_stage > limit(stage))
    }
}

pub type Step = table::Step<ClusterState, Effect>;

/// The step a trigger leads to.
pub fn step(on: Trigger, state: ClusterState, facts: &Facts) -> Result<Step, table::Refused> {
    table::step(ROWS, on, Some(state), facts)
}

/// Whether the hosts whose state counts carry the cluster: all wanted control-plane hosts, and two workers where two or
/// more were to be installed. An arbiter counts for neither.
pub(crate) fn enough(
    hosts: &[(HostState, HostRole)],
    control_plane_count: usize,
    counts: impl Fn(HostState) -> bool,
) -> bool {
    let having = |worker: bool, all: bool| {
        let of_kind = |role: HostRole| role != HostRole::Arbiter && (role == HostRole::Worker) == worker;
        hosts.iter().filter(|(state, role)| of_kind(*role) && (all || counts(*state))).count()
    };
    let workers_needed = if having(true, true) >= 2 { 2 } else { 0 };
    having(false, false) >= control_plane_count.max(1) && having(true, false) >= workers_needed
}
