//! A kind of step, and the facts that decide on its request and its reply.

use crate::events;
use crate::find::find_host;
use crate::http::Refusal;
use crate::model::{ClusterRecord, HostKey, HostRecord, InfraEnvRecord, Model};
use crate::net::Cidr;
use crate::payload::Payload;
use crate::settings::Settings;
use crate::state::{HostState, host::Trigger};
use crate::store::Change;
use api::attest::{AttestReply, AttestRequest};
use api::certify::{CertifyReply, CertifyRequest};
use api::{Step, StepKind, StepReply, StepType, Timestamp};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// The longest output that is accepted and the longest text that is stored, bytes.
pub(crate) const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// The longest inventory, bytes: that of 15000 disks has 10 MB.
pub(crate) const MAX_LONG_OUTPUT_BYTES: usize = 16 << 20;

/// A kind of step.
pub(crate) struct Kind {
    pub step_type: StepType,
    /// Whether a host in this state is given it; the flag says that the host is added to an installed cluster.
    pub(crate) asked_in: fn(HostState, bool) -> bool,
    /// Its arguments; none if there is nothing to ask.
    pub ask: fn(&Situation) -> Option<Vec<String>>,
    /// How long it may take, seconds; none for one that ends within a poll.
    pub(crate) limit_s: Option<u64>,
    /// The longest output that is accepted.
    pub(crate) max_output_bytes: usize,
    /// What its output changes.
    pub(crate) succeeded: fn(&Replied) -> Result<Outcome, Refusal>,
    /// What its failure changes.
    pub failed: fn(&Replied) -> Result<Outcome, Refusal>,
}

impl Kind {
    /// A short step whose reply changes nothing.
    pub(crate) fn new<K: StepKind>(
        asked_in: fn(HostState, bool) -> bool,
        ask: fn(&Situation) -> Option<Vec<String>>,
    ) -> Self {
        Self {
            step_type: K::TYPE,
            asked_in,
            ask,
            limit_s: None,
            max_output_bytes: MAX_OUTPUT_BYTES,
            succeeded: nothing,
            failed: nothing,
        }
    }

    /// The step with its arguments; none if there is nothing to ask.
    pub(crate) fn step(&self, situation: &Situation) -> Option<Step> {
        let args = (self.ask)(situation)?;
        let step_id = format!("{}-{:08x}", self.step_type, fastrand::u32(..));
        Some(Step { args, step_id, step_type: self.step_type.clone() })
    }
}

fn nothing(_: &Replied) -> Result<Outcome, Refusal> {
    Ok(Outcome::Nothing)
}

/// The facts that decide on a host's instructions.
pub struct Situation<'a> {
    pub record: &'a HostRecord,
    pub infra_env: Option<&'a InfraEnvRecord>,
    pub cluster: Option<&'a ClusterRecord>,
    /// All hosts of its cluster.
    pub peers: &'a [Arc<HostRecord>],
    /// Networks of the cluster's machines.
    pub machine_networks: &'a [Cidr],
    /// Its infra-env configures its network.
    pub static_network: bool,
    pub settings: &'a Settings,
    /// Images of the release.
    pub payload: Payload,
    /// File name of the image to install.
    pub image: Option<&'a str>,
    /// When it polls.
    pub now: Timestamp,
    /// What its TPM is to prove; nothing of an agent that does not announce this step.
    pub attest: Option<AttestRequest>,
    /// What a certification asks it for; nothing of an agent that does not announce this step.
    pub certify: Option<CertifyRequest>,
    /// Its agent starts no step while one of the same type runs, so it may poll often while its host is on its way to `known`.
    pub hurries: bool,
}

/// A reply to a step, with the facts to judge it.
pub(crate) struct Replied<'a> {
    pub reply: &'a StepReply,
    pub key: HostKey,
    pub model: &'a Model,
    pub settings: &'a Settings,
}

/// Changes a host's record.
pub(crate) type ChangeHost = Box<dyn FnOnce(&mut Change, &mut HostRecord) -> Result<(), Refusal>>;
/// Changes a cluster's record.
pub(crate) type ChangeCluster = Box<dyn FnOnce(&mut Change, &mut ClusterRecord) -> Result<(), Refusal>>;

/// What a reply changes.
pub(crate) enum Outcome {
    Nothing,
    Host(ChangeHost),
    Cluster(ChangeCluster),
    /// A trigger of the host is pulled, for a reason.
    Trigger(Trigger, String),
    /// An event is recorded, at most hourly.
    Event(events::Kind, Value),
    /// What the TPM says, or why it says nothing.
    Attestation(Result<Box<AttestReply>, String>),
    /// A run of a certification continues. Without a document, what was asked for could not be done, for a reason.
    Certification(Result<Box<CertifyReply>, String>),
}

impl Replied<'_> {
    pub(crate) fn host(&self) -> Result<Arc<HostRecord>, Refusal> {
        find_host(self.model, self.key)
    }
}

impl Outcome {
    /// A change of the host that cannot be refused.
    pub(crate) fn set(change: impl FnOnce(&mut HostRecord) + 'static) -> Self {
        Self::Host(Box::new(move |_, record| {
            change(record);
            Ok(())
        }))
    }
}

/// A request as the only argument.
pub(super) fn json<K: StepKind>(request: &K::Request) -> Option<Vec<String>>
where
    K::Request: Serialize,
{
    Some(vec![serde_json::to_string(request).ok()?])
}

/// A reply as the text that is stored.
pub(super) fn document(answer: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(answer).map_err(|error| Refusal::internal(&error))
}

/// The error of a failed step, shortened.
pub(crate) fn detail(reply: &StepReply) -> String {
    let detail = if reply.error.is_empty() { &reply.output } else { &reply.error };
    detail.trim().chars().take(1000).collect()
}
