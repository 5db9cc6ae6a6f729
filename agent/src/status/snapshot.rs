//! The status of an agent.

use api::{HostId, HostStage, InfraEnvId, StepType, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs};

/// Texts of others are cut to this.
const MAX_TEXT_CHARS: usize = 300;
/// Version of the file's form.
const SCHEMA_VERSION: u32 = 1;
/// Every change is recorded, so a poll that is later than this has failed: the longest one takes a few minutes.
const OVERDUE_S: i64 = 300;

/// The state of one agent, as `status.json` has it. Times are RFC 3339; there are no secrets in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Version of this form.
    pub schema_version: u32,
    /// Process of the agent.
    pub pid: u32,
    /// When that process started, in clock ticks since boot: a later process may have its number.
    pub pid_start_ticks: Option<u64>,
    /// When the agent started.
    pub started: Timestamp,
    pub written: Timestamp,
    pub host_id: Option<HostId>,
    /// Infra-env it belongs to.
    pub infra_env_id: Option<InfraEnvId>,
    /// Agent image the service wants.
    pub agent_version: String,
    /// Since when the host is registered; absent while it is not.
    pub registered: Option<Timestamp>,
    /// Addresses others can reach the host at.
    pub addresses: Vec<String>,
    pub service: Service,
    /// Seconds that the service's clock is ahead of the host's.
    pub clock_offset_s: Option<i64>,
    /// What is wrong with the host's clock.
    pub clock: Option<String>,
    /// Steps that run.
    pub running: Vec<Running>,
    /// How the last step of each type ended.
    pub last_results: BTreeMap<String, Last>,
    /// The step that ended last.
    pub last_step: Option<StepType>,
    /// Stage of the installation that runs, or ran last.
    pub stage: Option<InstallStage>,
    /// What the user must do before the installation can continue, in the service's words.
    pub user_action: Option<String>,
    /// Replies that the service does not have yet.
    pub replies_waiting: usize,
    pub last_error: Option<Failure>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Not asked yet.
    #[default]
    NotAsked,
    /// It answers.
    Reachable,
    /// No answer, or one that may be another next time.
    Unreachable,
    /// It doesn't accept this host.
    RefusesThisHost,
    /// It doesn't know this host any more.
    DoesntKnowThisHost,
}

impl ServiceState {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not asked yet",
            Self::Reachable => "reachable",
            Self::Unreachable => "unreachable",
            Self::RefusesThisHost => "refuses this host",
            Self::DoesntKnowThisHost => "doesn't know this host",
        }
    }
}

/// The service, as the agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Base URL, without credentials.
    pub url: String,
    pub state: ServiceState,
    /// Last request of the agent's own: a registration or a poll.
    pub last_poll: Option<Timestamp>,
    /// The last of them that was answered as it should.
    pub last_success: Option<Timestamp>,
    /// The next of them.
    pub next_poll: Option<Timestamp>,
}

impl Service {
    pub(super) fn reached(&mut self, at: Timestamp) {
        self.state = ServiceState::Reachable;
        (self.last_poll, self.last_success) = (Some(at), Some(at));
    }

    pub(super) fn failed(&mut self, state: ServiceState, at: Timestamp) {
        (self.state, self.last_poll) = (state, Some(at));
    }
}

/// A step that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub step_type: StepType,
    /// The service's name of it.
    pub step_id: String,
    pub since: Timestamp,
    /// Its process, where known.
    #[serde(default)]
    pub pid: Option<u32>,
    /// When it will be ended.
    #[serde(default)]
    pub deadline: Option<Timestamp>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// 0 is success.
    pub exit_code: i64,
    pub at: Timestamp,
}

/// Where an installation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallStage {
    /// The stage, as reported to the service.
    pub stage: HostStage,
    /// A percentage, say.
    #[serde(default)]
    pub info: String,
    #[serde(default)]
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub at: Timestamp,
    /// The step; without one it was a request to the service.
    #[serde(default)]
    pub step_type: Option<StepType>,
    pub text: String,
    /// The same has worked since.
    #[serde(default)]
    pub resolved: bool,
}

impl Failure {
    pub(super) fn new(step_type: Option<StepType>, text: &str, at: Timestamp) -> Self {
        Self { at, step_type, text: cut(text.trim()), resolved: false }
    }
}

impl Snapshot {
    pub(super) fn of_this_process(url: String, infra_env_id: InfraEnvId) -> Self {
        let pid = std::process::id();
        Self {
            schema_version: SCHEMA_VERSION,
            pid,
            pid_start_ticks: start_ticks(pid),
            started: Timestamp::now(),
            infra_env_id: Some(infra_env_id),
            service: Service { url, ..Service::default() },
            ..Self::default()
        }
    }

    /// What failed for `step_type`, or for the service, has worked now.
    pub(super) fn resolve(&mut self, step_type: Option<&StepType>) {
        if let Some(failure) = self.last_error.as_mut().filter(|failure| failure.step_type.as_ref() == step_type) {
            failure.resolved = true;
        }
    }

    /// Whether an installation runs.
    pub(super) fn installs(&self) -> bool {
        self.running.iter().any(|running| running.step_type == StepType::Install)
    }

    /// Whether the process that wrote this still is.
    pub fn is_alive(&self) -> bool {
        self.pid != 0 && self.pid_start_ticks.is_some() && start_ticks(self.pid) == self.pid_start_ticks
    }

    /// Whether the host is registered, the service answers, and the agent asks it.
    pub fn is_working(&self, now: Timestamp) -> bool {
        let late = self.service.next_poll.is_some_and(|next| now.seconds_since(next) > OVERDUE_S);
        self.registered.is_some() && self.service.state == ServiceState::Reachable && !late
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        let mut line = match (self.registered, self.service.state) {
            (Some(_), ServiceState::Reachable) => "registered".to_owned(),
            (_, state) => format!("service {}", state.as_str()),
        };
        if let (Some(stage), true) = (&self.stage, self.installs()) {
            line = format!("{line}; {} {}", stage.stage, stage.info).trim_end().to_owned();
        }
        if let Some(action) = &self.user_action {
            return format!("{line}; to do: {action}");
        }
        let error = self.last_error.as_ref().filter(|failure| !failure.resolved);
        match (error, &self.clock) {
            (Some(failure), _) => format!("{line}; {}", failure.text),
            (None, Some(clock)) => format!("{line}; clock: {clock}"),
            (None, None) => line,
        }
    }
}

/// When process `pid` started (proc_pid_stat(5), field 22); a name with blanks and brackets comes before.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// Without control characters, and not too long.
pub(super) fn cut(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT_CHARS).collect()
}
