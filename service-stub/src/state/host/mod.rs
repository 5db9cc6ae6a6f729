//! Transitions of a host (docs/compatibility.md#host-states): what they depend on, and the table of them.

mod rows;
#[cfg(test)]
mod tests;

pub(crate) use rows::ROWS;

use super::{
    ClusterState, HostChecks, HostState, Outcome, limits,
    table::{self, Machine},
};
use api::HostStage;

/// Status texts that never vary (docs/compatibility.md#host-states).
pub(crate) mod info {
    pub(crate) const DISCOVERING: &str = "Waiting for host to send hardware details";
    pub(crate) const KNOWN: &str = "Host is ready to be installed";
    pub(crate) const KNOWN_UNBOUND: &str = "Host is ready to be bound to a cluster";
    pub(crate) const PREPARED: &str = "Host finished successfully to prepare for installation";
    pub(crate) const INSTALLING: &str = "Installation is in progress";
    pub(crate) const DISCONNECTED: &str = "Host has stopped communicating with the installation service";
    pub(crate) const CLUSTER_ERROR: &str = "Host is part of a cluster that failed to install";
    pub(crate) const RESTARTED: &str = "The host unexpectedly restarted during the installation";
    pub(crate) const RESETTING: &str =
        "Host requires booting into the discovery image to complete resetting the installation";
    pub(crate) const START_TIMEOUT: &str = "Host failed to install due to timeout while starting installation";
    pub(crate) const LOST: &str =
        "Host failed to install due to timeout while connecting to host during the installation phase.";
    pub(crate) const LOST_PREPARING: &str =
        "Host failed to install due to timeout while connecting to host during the preparation phase.";
    pub(crate) const USER_ACTION_TIMEOUT: &str =
        "Host failed to boot from the installation disk within the expected time.";
    pub(crate) const BINDING: &str = "Host is waiting to be bound to the cluster";
    pub(crate) const UNBINDING: &str = "Host is waiting to be unbound from the cluster";
    pub(crate) const RECLAIM_REBOOTING: &str = "Host is rebooting into the discovery image";
    pub(crate) const CANCELLED: &str = "Installation was cancelled by user";
    pub(crate) const ADDED: &str = "Host has rebooted and no further updates will be posted. Please check console for progress and to possibly approve pending CSRs";
    pub(crate) const MEDIA: &str = "Unable to read from the discovery media. It was either disconnected or poor network conditions \
        prevented it from being read. Try using the minimal ISO option and be sure to keep the media connected until the \
        installation is completed";
    pub(crate) const RECONNECTED: &str =
        "Host recovered from failure to perform periodic health check during the installation phase.";
    pub(crate) const CONNECTION_TIMED_OUT: &str =
        "Host is failing to perform periodic health check during the installation phase.";
    pub(crate) const INSTALLED_ALREADY: &str = "Host is trying to register after the cluster has already been installed. That \
        most probably means that the host is booting from the installation ISO, and therefore not effectively joining \
        the cluster. The request will be ignored. Fix the boot order and reboot the host.";
    pub(crate) const STEP_FAILED: &str = "installation command failed";
}

/// The machine of hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hosts {}

impl Machine for Hosts {
    type State = HostState;
    type Trigger = Trigger;
    type Facts = Facts;
    type Effect = Effect;
}

/// A trigger of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Register,
    /// Its progress was stored.
    Progress,
    /// It reported the stage `Failed`.
    Failed,
    /// Its install step failed.
    InstallationFailed,
    /// The user cancels the installation of its cluster.
    Cancel,
    /// The user installs this host of a cluster that is there already.
    Install,
    /// The user resets its cluster, or a host that was to be added.
    Reset,
    /// The user takes it out of its cluster.
    Unbind,
    /// The user takes it out of its cluster, and it boots the discovery image by itself.
    Reclaim,
    /// It has what it needs for that.
    RebootForReclaim,
    /// It could not get it.
    ReclaimFailed,
    /// The user puts it into a cluster.
    Bind,
    /// It can't read its discovery media.
    MediaDisconnect,
    /// Every few seconds, and after most writes.
    Refresh,
}

/// What a transition does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Forget everything learnt from an earlier boot; kind and role follow the cluster.
    FullReset,
    /// The cluster's preparation has to start again.
    RestartPreparation,
    /// Forget which images there are.
    ClearImages,
    /// No logs of an earlier attempt.
    ClearLogs,
    /// Forget all that has to do with the cluster.
    LeaveCluster,
    /// Forget an earlier cluster; kind and role follow the new one.
    JoinCluster,
    /// Note that the discovery media can't be read.
    MediaLost,
    /// Note that the connection timed out.
    ConnectionTimedOut,
    /// Note that it is connected again.
    Reconnected,
    /// Note that the stage took too long.
    StageTimedOut,
    /// Start the stage's clock anew, at most once a minute.
    ExtendStage,
    /// Wait for logs no longer.
    LogsTimedOut,
    /// Event `host_installation_cancelled`.
    TellCancelled,
    /// Event `host_installation_reset`.
    TellReset,
    /// Event `host_installation_started`.
    TellStarted,
    /// Event `host_bind_succeeded`.
    TellBound,
    /// Event `host_unbind_succeeded`.
    TellUnbound,
}

/// What a host's transitions depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) stage: Option<HostStage>,
    /// It is added to a cluster that is there already.
    pub(crate) day2: bool,
    pub(crate) cluster: Option<ClusterState>,
    /// Time limits flag instead of failing.
    pub(crate) soft_timeouts: bool,
    /// Its role is decided.
    pub(crate) role_set: bool,
    /// The monitor looks at it, not a write.
    pub(crate) monitored: bool,
    /// Seconds in the current state.
    pub(crate) in_state: i64,
    /// Seconds since the stage last moved.
    pub(crate) in_stage: i64,
    /// The only node of its cluster.
    pub(crate) single_node: bool,
    /// The cluster has enough installed hosts without this one.
    pub(crate) dispensable: bool,
    /// Logs were asked for too long ago.
    pub(crate) logs_overdue: bool,
    /// The stage is flagged as timed out.
    pub(crate) stage_flagged: bool,
    /// The connection is flagged as timed out.
    pub(crate) connection_flagged: bool,
    /// The findings of its checks.
    pub(crate) checks: HostChecks,
    /// Its installation disk.
    pub(crate) disk: DiskNames,
    /// Reason given by the caller, or the stage's text.
    pub(crate) reason: String,
    /// The text of its status.
    pub(crate) info: String,
}

/// What a disk is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskNames {
    /// What settings and instructions know it by.
    pub(crate) id: String,
    /// Kernel's name and identifier, in parentheses.
    pub(crate) place: String,
    /// Model and serial number, as far as they are known.
    pub(crate) maker: String,
}

impl Facts {
    fn connected(&self) -> bool {
        self.checks.connected && self.checks.media_connected
    }

    fn preparation(&self, outcome: Outcome) -> bool {
        self.checks.disk_speed == outcome || self.checks.images == outcome
    }

    fn stage_overdue(&self) -> bool {
        self.stage.is_some_and(|stage| self.in_stage > limits::stage(stage, self.single_node))
    }

    fn stage_limit(&self) -> String {
        limits::go_duration(self.stage.map_or(0, |stage| limits::stage(stage, self.single_node)))
    }

    fn fits(&self) -> bool {
        let checks = &self.checks;
        checks.vsphere_disk_uuid.is_empty() && checks.machine_cidr.is_empty() && checks.sufficient.is_empty()
    }
}

pub(crate) type Step = table::Step<HostState, Effect>;

/// The step a trigger leads to.
pub(crate) fn step(on: Trigger, state: Option<HostState>, facts: &Facts) -> Result<Step, table::Refused> {
    table::step(ROWS, on, state, facts)
}

/// Messages, sorted and joined; cut so that a status text stays a text.
pub(crate) fn message_list(messages: &[String]) -> String {
    const MAX_CHARS: usize = 2040;
    let mut sorted: Vec<&str> = messages.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.join(" ; ").chars().take(MAX_CHARS).collect()
}
