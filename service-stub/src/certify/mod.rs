//! Certification: hosts are led through the steps of a plan, and what they reply is stored (docs/certify.md).
//!
//! [`engine`] decides what comes next, from a run's record ([`record`]), what the service knows of its hosts ([`facts`]) and the time;
//! [`judge`] says what a reply means. Both are pure. This file applies what they decide: it stores runs ([`files`]) and carries out
//! orders ([`orders`]). A plan's steps become actions in [`work`], pairs of hosts in [`rounds`].

mod engine;
mod facts;
mod files;
pub(crate) mod handlers;
mod judge;
mod orders;
mod record;
mod result;
mod rounds;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use files::{Runs, documents, is_file, records};

use crate::events::{self, kinds};
use crate::http::Refusal;
use crate::model::{HostKey, Model};
use crate::service::Service;
use api::Timestamp;
use api::certify::{CertifyReply, CertifyRequest};
use engine::{Hosts, Order};
use facts::HostFacts;
use record::{Run, RunState};
use serde_json::{Value, json};
use std::{io, sync::Arc};
use uuid::Uuid;
use work::Work;

/// Hosts of a run poll this often, seconds.
pub(crate) const POLL_S: u64 = 2;

/// The facts of hosts that a run may have.
fn hosts(service: &Service, run: &Run, now: Timestamp) -> Hosts {
    let model = service.store.model();
    let presences = service.store.presences();
    let facts = |record: &Arc<crate::model::HostRecord>| HostFacts::new(&model, presences, record, now);
    match run.state {
        RunState::Running => {
            let records = run.hosts.iter().filter_map(|host| model.hosts.get(&host.key()));
            records.map(|record| (record.key(), facts(record))).collect()
        }
        _ => {
            let fits = |key: &HostKey| run.infra_env_id.is_none_or(|id| key.infra_env == id);
            let records = model.hosts.iter().filter(|(key, _)| fits(key));
            records.map(|(key, record)| (*key, facts(record))).collect()
        }
    }
}

fn failed(error: &io::Error) -> Refusal {
    tracing::error!(%error, "cannot write a run of a certification");
    Refusal::internal(error)
}

fn advance_run(service: &Service, id: Uuid) -> Result<(), Refusal> {
    let Some(run) = service.certifications.get(id).filter(|run| run.is_open()) else { return Ok(()) };
    let now = Timestamp::now();
    let (hosts, work) = (hosts(service, &run, now), Work::all(&run.plan));
    let runs = &service.certifications;
    let ordered = runs.change(id, |run| engine::advance(run, &work, &hosts, now)).map_err(|error| failed(&error))?;
    for order in ordered.unwrap_or_default() {
        carry_out(service, id, order)?;
    }
    Ok(())
}

fn carry_out(service: &Service, id: Uuid, order: Order) -> Result<(), Refusal> {
    let (Order::Bind(index) | Order::Install(index) | Order::Release(index) | Order::Attest(index)) = order;
    let done = match order {
        Order::Bind(_) => orders::bind(service, id, index),
        Order::Install(_) => orders::install(service, id, index),
        Order::Release(_) => orders::release(service, id, index),
        Order::Attest(_) => orders::attest(service, id, index),
    };
    let Err(refusal) = done else { return Ok(()) };
    let reason = refusal.message().to_owned();
    tracing::warn!(run = %id, ?order, reason, "the service refuses a step of a certification");
    let now = Timestamp::now();
    let failing = |run: &mut Run| engine::fail(run, index, &reason, now);
    service.certifications.change(id, failing).map_err(|error| failed(&error))?;
    Ok(())
}

/// The open run of a host.
fn run_of(service: &Service, key: HostKey) -> Option<(Uuid, usize)> {
    service.certifications.open_runs().into_iter().find_map(|run| Some((run.id, run.index(key)?)))
}

/// Whether a host is in a run that has not ended.
pub(crate) fn is_in_run(service: &Service, key: HostKey) -> bool {
    run_of(service, key).is_some()
}

/// Moves the runs that a poll of this host may move.
pub(crate) fn polled(service: &Service, key: HostKey) -> Result<(), Refusal> {
    for run in service.certifications.open_runs() {
        let waits_for_it = run.state == RunState::Waiting && run.infra_env_id.is_none_or(|id| id == key.infra_env);
        if waits_for_it || run.index(key).is_some() {
            advance_run(service, run.id)?;
        }
    }
    Ok(())
}

/// What a host that polls, and whose agent announces it, is asked for.
pub(crate) fn request(service: &Service, key: HostKey) -> Result<Option<CertifyRequest>, Refusal> {
    let Some((id, index)) = run_of(service, key) else { return Ok(None) };
    let Some(run) = service.certifications.get(id) else { return Ok(None) };
    let now = Timestamp::now();
    let (hosts, work) = (hosts(service, &run, now), Work::all(&run.plan));
    let asked = service.certifications.change(id, |run| engine::ask(run, index, &work, &hosts, now));
    Ok(asked.map_err(|error| failed(&error))?.flatten())
}

/// Takes a host's reply. One that is not waited for changes nothing.
pub(crate) fn replied(service: &Service, key: HostKey, reply: &CertifyReply) -> Result<(), Refusal> {
    let Some((id, index)) = run_of(service, key) else { return Ok(()) };
    let Some(run) = service.certifications.get(id) else { return Ok(()) };
    let (work, now) = (Work::all(&run.plan), Timestamp::now());
    // The document is on disk before the record that names it.
    let mut attempt = Run::clone(&run);
    let Some(accepted) = engine::reply(&mut attempt, index, &work, reply, now) else {
        tracing::info!(host = %key.host, run = reply.run, step = reply.step, "ignoring a reply that no run waits for");
        return Ok(());
    };
    if let Some((name, bytes)) = &accepted.document {
        service.certifications.put_document(id, index, name, bytes).map_err(|error| failed(&error))?;
    }
    let taken = service.certifications.change(id, |run| engine::reply(run, index, &work, reply, now));
    taken.map_err(|error| failed(&error))?;
    tell_block(service, key, &run, index, id)?;
    advance_run(service, id)
}

/// Takes that a host could not do what it was asked for.
pub(crate) fn not_done(service: &Service, key: HostKey, error: String) -> Result<(), Refusal> {
    let Some((id, index)) = run_of(service, key) else { return Ok(()) };
    let Some(run) = service.certifications.get(id) else { return Ok(()) };
    let Some(host) = run.hosts.get(index) else { return Ok(()) };
    let Some((at, step)) = host.current().and_then(|at| Some((at, host.steps.get(at)?))) else { return Ok(()) };
    let reply = CertifyReply {
        run: id.to_string(),
        step: u32::try_from(at).unwrap_or(u32::MAX),
        attempt: step.attempts,
        exit_code: -1,
        document: Value::Null,
        error,
    };
    replied(service, key, &reply)
}

/// Records an event if the reply keeps the host from being installed.
fn tell_block(service: &Service, key: HostKey, before: &Run, index: usize, id: Uuid) -> Result<(), Refusal> {
    let now = service.certifications.get(id);
    let blocked = |run: &Run| run.hosts.get(index).map(|host| host.blocked.clone()).unwrap_or_default();
    let reason = now.map(|run| blocked(&run)).unwrap_or_default();
    if reason.is_empty() || reason == blocked(before) {
        return Ok(());
    }
    service.change("", |change| {
        if let Some(record) = change.model().hosts.get(&key).cloned() {
            events::host(change, &record, kinds::HOST_CERTIFICATION_BLOCKED, json!({"reason": reason}));
        }
        Ok(())
    })
}

/// Why a host of a cluster must not be installed: its latest run found that it is not what was expected.
pub(crate) fn check_cluster(service: &Service, model: &Model, id: api::ClusterId) -> Result<(), Refusal> {
    model.hosts_of_cluster(id).iter().try_for_each(|record| check_host(service, record.key(), &record.name_or_id()))
}

/// The same of one host.
pub(crate) fn check_host(service: &Service, key: HostKey, name: &str) -> Result<(), Refusal> {
    let latest = service.certifications.list().into_iter().rev().find_map(|run| Some((run.index(key)?, run)));
    let Some((index, run)) = latest else { return Ok(()) };
    match run.hosts.get(index).map(|host| host.blocked.as_str()) {
        Some("") | None => Ok(()),
        Some(reason) => Err(Refusal::conflict(format!(
            "{name} must not be installed: certification {} found that {reason}. Mend it and certify it again, or certify it with \
             mismatch = \"note\"",
            run.id
        ))),
    }
}

impl Service {
    /// The monitor's part: moves all runs as far as they go.
    pub(crate) fn advance_certifications(&self) {
        for run in self.certifications.open_runs() {
            if let Err(refusal) = advance_run(self, run.id) {
                tracing::error!(run = %run.id, ?refusal, "cannot continue a certification");
            }
        }
    }
}
