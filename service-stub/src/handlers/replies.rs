//! Replies to steps, processed by each step's kind and stored.

use super::lifecycle;
use crate::attest;
use crate::certify;
use crate::find::{find_cluster, find_host};
use crate::http::body::{BodyShape, any, shape};
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::pass;
use crate::service::Service;
use crate::state::host::Trigger;
use crate::steps::{self, ChangeCluster, ChangeHost, MAX_OUTPUT_BYTES, Outcome, Replied};
use crate::store::Change;
use api::{StepReply, StepType};
use axum::http::StatusCode;
use serde::Deserialize;

/// Exit code of a runner that can't read its own files any more.
const MEDIA_LOST: i64 = 256;

pub(crate) const BODY: BodyShape = shape(
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

/// `step-reply` as accepted: any field may be absent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    step_type: String,
    step_id: String,
    exit_code: i64,
    output: String,
    error: String,
}

/// A reply to an unknown step is refused; one without a step is accepted and changes nothing.
fn parse(call: &Call) -> Result<StepReply, Refusal> {
    let Body { step_type, step_id, exit_code, output, error } = call.json(&BODY)?;
    let is_known = |names: &[&str]| names.contains(&step_type.as_str());
    if !step_type.is_empty() && !is_known(&StepType::NAMES) && !is_known(&StepType::EXTENSIONS) {
        let names = StepType::NAMES.join(" ");
        return Err(Refusal::bad_request(format!("step_type in body should be one of [{names}]")));
    }
    let step_type: StepType = api::json::from_value(step_type.into()).map_err(Refusal::invalid)?;
    let most = steps::find(&step_type).map_or(MAX_OUTPUT_BYTES, |kind| kind.max_output_bytes);
    let longest = output.len().max(error.len());
    if longest > most {
        let message = format!("the reply to {step_type} has {longest} bytes; the limit is {most}");
        return Err(Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(StepReply { error, exit_code, output, step_id, step_type })
}

/// POST …/instructions: the reply to a step.
pub(crate) fn reply(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let reply = parse(call)?;
    find_host(&service.store.model(), key)?;
    service.outstanding.end(key, &reply.step_type);
    let failed = reply.exit_code != 0;
    if failed {
        tracing::info!(host = %key.host, step = %reply.step_type, exit_code = reply.exit_code, "a step failed on a host");
    } else {
        lifecycle::media_back(service, call, key)?;
    }
    let outcome = match steps::find(&reply.step_type) {
        _ if reply.exit_code == MEDIA_LOST => Outcome::Trigger(Trigger::MediaDisconnect, String::new()),
        // Other replies are accepted so that an agent that does more than asked can continue.
        None => Outcome::Nothing,
        Some(kind) => {
            let model = service.store.model();
            let replied = Replied { reply: &reply, key, model: &model, settings: &service.settings };
            if failed { (kind.failed)(&replied)? } else { (kind.succeeded)(&replied)? }
        }
    };
    match outcome {
        Outcome::Nothing => {}
        Outcome::Host(change) => change_host(service, call, key, change)?,
        Outcome::Cluster(change) => change_cluster(service, call, key, change)?,
        Outcome::Trigger(on, reason) => lifecycle::apply_outcome(service, call, key, on, &reason)?,
        Outcome::Attestation(reply) => attest::replied(service, call, key, reply)?,
        Outcome::Certification(Ok(reply)) => certify::replied(service, key, &reply)?,
        Outcome::Certification(Err(reason)) => certify::not_done(service, key, reason)?,
        Outcome::Event(kind, details) => super::events::record(service, call, key, kind, &details)?,
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// Applies a reply to the cluster's record, and updates the cluster's state.
fn change_cluster(service: &Service, call: &Call, key: HostKey, work: ChangeCluster) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let host = find_host(change.model(), key)?;
        let Some(id) = host.host.cluster_id else { return Ok(()) };
        let before = find_cluster(change.model(), id)?;
        let mut record = ClusterRecord::clone(&before);
        work(change, &mut record)?;
        if record != *before {
            change.put_cluster(record);
            pass::settle_soon(&service.rules(), change, Some(id));
        }
        Ok(())
    })
}

/// Applies a reply to the host's record, and updates its cluster's state.
fn change_host(service: &Service, call: &Call, key: HostKey, work: ChangeHost) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let before = find_host(change.model(), key)?;
        let mut record = HostRecord::clone(&before);
        work(change, &mut record)?;
        // Hosts repeat the same reply: without a change there is nothing to write or check.
        if !record.is_same_as(&before) {
            leave_room(service, change, &before, &record)?;
            let cluster = record.host.cluster_id;
            change.put_host(record);
            pass::settle_soon(&service.rules(), change, cluster);
        }
        Ok(())
    })
}

/// Refuses a larger reply of a host if its infra-env's hosts exceed their common limit.
fn leave_room(service: &Service, change: &Change, before: &HostRecord, now: &HostRecord) -> Result<(), Refusal> {
    let most = service.settings.limits.host_texts_bytes;
    let (said, says) = (before.texts_bytes(), now.texts_bytes());
    if says <= said {
        return Ok(());
    }
    let id = now.host.infra_env_id;
    let others: usize = change.model().hosts_of_infra_env(id).iter().map(|host| host.texts_bytes()).sum();
    let all = others.saturating_sub(said).saturating_add(says);
    if all <= most {
        return Ok(());
    }
    tracing::error!(infra_env = %id, all, most, "refusing a host's reply: the hosts of its infra-env exceed their limit");
    let message = format!("the hosts of infra_env {id} reported {all} bytes together; the limit is {most}");
    Err(Refusal::Request(StatusCode::INSUFFICIENT_STORAGE, message))
}
