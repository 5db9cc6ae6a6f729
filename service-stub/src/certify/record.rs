//! A run of a certification as it is stored.

use crate::model::HostKey;
use api::attest::Digest;
use api::{ClusterId, HostId, InfraEnvId, Timestamp};
use certify::result::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// No run has more hosts.
pub(crate) const MAX_HOSTS: usize = 256;
/// Findings of a step; further ones are only counted.
pub(super) const MAX_FINDINGS: usize = 64;
/// Measurements of a step.
pub(super) const MAX_MEASUREMENTS: usize = 256;
/// A finding is cut here, characters.
const MAX_FINDING_CHARS: usize = 500;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    /// For its hosts.
    #[default]
    Waiting,
    Running,
    Done,
    Cancelled,
}

/// Whether a step is still to end.
pub(crate) fn is_open(state: State) -> bool {
    matches!(state, State::Waiting | State::Running)
}

/// A step of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StepRun {
    /// What is done, as the plan writes it.
    #[serde(rename = "do")]
    pub name: String,
    pub state: State,
    /// Which of its actions is next.
    pub phase: u32,
    /// How often the host was asked for an action of it: a reply must name the last one.
    pub attempts: u32,
    /// The same of this phase alone.
    pub tries: u32,
    /// When the host was asked; zero if it is to be asked.
    pub asked_at: Timestamp,
    /// Since when it waits to be asked.
    pub waits_since: Timestamp,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// The worst of its phases so far.
    pub worst: Option<State>,
    /// Hosts that take part in its rounds, by index.
    pub parts: Vec<usize>,
    pub findings: Vec<String>,
    pub measurements: BTreeMap<String, f64>,
    /// Names of its documents.
    pub files: Vec<String>,
    /// SHA-256 of all documents, which a TPM is asked to sign.
    pub nonce: Option<Digest>,
}

impl StepRun {
    fn new(step: &certify::Step) -> Self {
        Self { name: step.name().to_owned(), ..Self::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        is_open(self.state)
    }

    pub(super) fn end(&mut self, state: State, now: Timestamp) {
        self.state = state;
        self.ended_at = now;
        self.asked_at = Timestamp::ZERO;
    }

    /// Notes how a phase ended.
    pub(super) fn note(&mut self, state: State) {
        if state == State::Failed || self.worst != Some(State::Failed) && state == State::Error {
            self.worst = Some(state);
        }
    }

    pub(super) fn find(&mut self, finding: &str) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(crate::text::plain(finding).chars().take(MAX_FINDING_CHARS).collect());
        }
    }
}

/// A host of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostRun {
    pub infra_env_id: InfraEnvId,
    pub host_id: HostId,
    pub name: String,
    /// Of the SMBIOS tables; the host's id if they have none.
    pub serial: String,
    pub manufacturer: String,
    pub product: String,
    /// What it is certified as.
    pub sku: Option<String>,
    /// Where it differs from that.
    pub differences: Vec<String>,
    /// Why it must not be installed; empty if it may.
    pub blocked: String,
    /// The cluster that it is installed as, once there is one.
    pub cluster_id: Option<ClusterId>,
    /// What it waits for.
    pub waits_for: String,
    pub steps: Vec<StepRun>,
}

impl HostRun {
    pub(crate) fn key(&self) -> HostKey {
        HostKey { infra_env: self.infra_env_id, host: self.host_id }
    }

    /// The step that it is at.
    pub(crate) fn current(&self) -> Option<usize> {
        self.steps.iter().position(StepRun::is_open)
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub id: Uuid,
    pub plan: certify::Plan,
    pub state: RunState,
    /// Only hosts of it; else those of all.
    pub infra_env_id: Option<InfraEnvId>,
    pub created_at: Timestamp,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub hosts: Vec<HostRun>,
}

impl Run {
    pub(crate) fn new(id: Uuid, plan: certify::Plan, infra_env_id: Option<InfraEnvId>, now: Timestamp) -> Self {
        Self {
            id,
            plan,
            state: RunState::Waiting,
            infra_env_id,
            created_at: now,
            started_at: Timestamp::ZERO,
            ended_at: Timestamp::ZERO,
            hosts: Vec::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, RunState::Waiting | RunState::Running)
    }

    /// Its place for a host.
    pub(crate) fn index(&self, key: HostKey) -> Option<usize> {
        self.hosts.iter().position(|host| host.key() == key)
    }

    /// The steps of a host that has begun none.
    pub(super) fn steps(&self) -> Vec<StepRun> {
        self.plan.steps.iter().map(StepRun::new).collect()
    }
}
