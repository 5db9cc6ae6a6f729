//! The endpoints of certifications, which are Landfall's own.

use super::record::{HostRun, MAX_HOSTS, Run, RunState};
use super::{advance_run, engine, failed, result::result};
use crate::find::find_infra_env;
use crate::http::{Answer, Call, Refusal};
use crate::service::Service;
use api::{InfraEnvId, Timestamp};
use axum::http::{StatusCode, header};
use certify::Plan;
use serde_json::{Value, json};
use uuid::Uuid;

fn no_run(id: impl std::fmt::Display) -> Refusal {
    Refusal::not_found(format!("certification {id} was not found: `landfall certify list` shows all"))
}

/// The run that the path names.
fn find(service: &Service, call: &Call) -> Result<std::sync::Arc<Run>, Refusal> {
    let text = call.path("run");
    let id: Uuid = text.parse().map_err(|_| no_run(crate::http::call::shortened(text)))?;
    service.certifications.get(id).ok_or_else(|| no_run(id))
}

/// A run with everything.
fn document(run: &Run) -> Value {
    let result = result(run);
    let mut hosts: Vec<&HostRun> = run.hosts.iter().collect();
    kernel::order::sort_by_key(&mut hosts, |host| host.serial.clone());
    let hosts: Vec<Value> = hosts
        .into_iter()
        .map(|host| {
            json!({
                "name": host.name,
                "serial": host.serial,
                "infra_env_id": host.infra_env_id,
                "cluster_id": host.cluster_id,
                "blocked": host.blocked,
                "waits_for": host.waits_for,
            })
        })
        .collect();
    let mut document = summary(run);
    document["hosts"] = json!(hosts);
    document["result"] = json!(result);
    document
}

/// A run in a list.
fn summary(run: &Run) -> Value {
    let result = result(run);
    json!({
        "id": run.id,
        "state": run.state,
        "infra_env_id": run.infra_env_id,
        "plan": run.plan.name,
        "tester": run.plan.tester,
        "verdict": result.verdict,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "serials": result.hosts.iter().map(|host| &host.serial).collect::<Vec<_>>(),
    })
}

/// GET /landfall/certify/runs
pub(crate) fn list(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    let runs: Vec<Value> = service.certifications.list().iter().map(|run| summary(run)).collect();
    Ok(Answer::json(StatusCode::OK, &runs))
}

/// GET /landfall/certify/runs/{run}
pub(crate) fn show(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let run = find(service, call)?;
    Ok(Answer::json(StatusCode::OK, &document(&run)))
}

/// GET /landfall/certify/serials/{serial}: what became of a machine, run by run.
pub(crate) fn history(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let serial = call.path("serial");
    let entries: Vec<Value> = service
        .certifications
        .history(serial)
        .iter()
        .map(|run| {
            let mut entry = summary(run);
            let host = result(run).hosts.into_iter().find(|host| host.serial == serial);
            entry["host"] = json!(host);
            entry
        })
        .collect();
    Ok(Answer::json(StatusCode::OK, &entries))
}

/// POST /landfall/certify/runs: begins a run of the plan in the body, with hosts of `infra_env_id` or of all.
pub(crate) fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let plan = Plan::from_json(&call.body).map_err(|error| Refusal::bad_request(error.to_string()))?;
    if plan.policy.hosts.is_some_and(|hosts| usize::try_from(hosts).is_ok_and(|hosts| hosts > MAX_HOSTS)) {
        return Err(Refusal::bad_request(format!("policy.hosts: one run leads {MAX_HOSTS} hosts at most")));
    }
    let infra_env = call.query_uuid("infra_env_id")?.map(InfraEnvId);
    if let Some(id) = infra_env {
        find_infra_env(&service.store.model(), id)?;
    }
    let run = Run::new(Uuid::new_v4(), plan, infra_env, Timestamp::now());
    let id = run.id;
    // A host does one thing at a time.
    let conflict = |other: &Run| {
        other.is_open() && (other.infra_env_id.is_none() || infra_env.is_none() || other.infra_env_id == infra_env)
    };
    let added = service.certifications.add(run, conflict).map_err(|error| failed(&error))?;
    if let Err(other) = added {
        // The start of an id is enough for both commands.
        let other = format!("{:.8}", other.to_string());
        return Err(Refusal::conflict(format!(
            "certification {other} has not ended: follow it with `landfall certify --attach {other}`, or end it with `landfall \
             certify cancel {other}`"
        )));
    }
    advance_run(service, id)?;
    let run = service.certifications.get(id).ok_or_else(|| no_run(id))?;
    Ok(Answer::json(StatusCode::CREATED, &document(&run)))
}

/// POST /landfall/certify/runs/{run}/actions/cancel: what runs on a host runs on; what it replies is not awaited any more.
pub(crate) fn cancel(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let run = find(service, call)?;
    if !run.is_open() {
        let how = if run.state == RunState::Cancelled { "was cancelled" } else { "has ended" };
        return Err(Refusal::conflict(format!("certification {} {how} already", run.id)));
    }
    let now = Timestamp::now();
    let cancelled = service.certifications.change(run.id, |run| {
        if run.is_open() {
            engine::cancel(run, now);
        }
    });
    cancelled.map_err(|error| failed(&error))?;
    let run = find(service, call)?;
    Ok(Answer::json(StatusCode::OK, &document(&run)))
}

/// GET /landfall/certify/runs/{run}/files/{serial}/{file}: what a host sent.
pub(crate) fn file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let run = find(service, call)?;
    let (serial, name) = (call.path("serial"), call.path("file"));
    let missing = || Refusal::not_found(format!("certification {} has no such file", run.id));
    let index = run.hosts.iter().position(|host| host.serial == serial).ok_or_else(missing)?;
    // Only names that the run itself gave.
    let is_named = |host: &HostRun| host.steps.iter().any(|step| step.files.iter().any(|file| file == name));
    if !run.hosts.get(index).is_some_and(is_named) {
        return Err(missing());
    }
    let bytes = service.certifications.document(run.id, index, name).map_err(|error| failed(&error))?;
    Ok(Answer::file(name, bytes).with(header::CACHE_CONTROL, "no-store"))
}
