//! A host's way into a cluster, out of it, and back to the start: bind, unbind, reset, install, lost media, reclaim.

use super::hosts;
use crate::certify;
use crate::events::{self, Kind, kinds};
use crate::find::{find_host, find_infra_env};
use crate::http::body::{BodyShape, shape, uuid};
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::pass;
use crate::payload;
use crate::rules;
use crate::service::Service;
use crate::state::{ClusterState, host::Trigger};
use crate::steps;
use crate::store::Change;
use api::ClusterId;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

fn host_cluster(change: &Change, record: &HostRecord) -> Option<Arc<ClusterRecord>> {
    record.host.cluster_id.and_then(|id| change.model().clusters.get(&id).cloned())
}

/// Fires a trigger, stores the host, and updates its old and its new cluster. False if no row of the table matches.
fn pull(
    service: &Service,
    change: &mut Change,
    key: HostKey,
    cluster: Option<&ClusterRecord>,
    on: Trigger,
) -> Result<bool, Refusal> {
    let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
    let before = record.host.cluster_id;
    if pass::trigger(&service.rules(), change, &mut record, cluster, on, "").is_err() {
        return Ok(false);
    }
    let after = record.host.cluster_id;
    change.put_host(record);
    pass::settle_soon(&service.rules(), change, before);
    if after != before {
        pass::settle_soon(&service.rules(), change, after);
    }
    Ok(true)
}

/// Applies the outcome of a step to its host; too late, it changes nothing. Status texts are fixed: an event has the reason.
pub(crate) fn apply_outcome(
    service: &Service,
    call: &Call,
    key: HostKey,
    on: Trigger,
    reason: &str,
) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        let cluster = host_cluster(change, record.as_ref());
        if pull(service, change, key, cluster.as_deref(), on)? && !reason.is_empty() {
            events::host(change, &record, kinds::HOST_STEP_FAILED, json!({"reason": reason}));
        }
        Ok(())
    })
}

/// A step completed: the discovery media are readable again.
pub(crate) fn media_back(service: &Service, call: &Call, key: HostKey) -> Result<(), Refusal> {
    if find_host(&service.store.model(), key)?.media_connected() {
        return Ok(());
    }
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        record.host.media_status = "connected".to_owned();
        let cluster = record.host.cluster_id;
        change.put_host(record);
        pass::settle_soon(&service.rules(), change, cluster);
        Ok(())
    })
}

pub(crate) const BIND: BodyShape = shape("bindHostParams", "BindHostParams", &[uuid("cluster_id").required()]);

#[derive(Deserialize)]
struct BindParams {
    cluster_id: ClusterId,
}

/// POST …/actions/bind.
pub(crate) fn bind(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let BindParams { cluster_id } = call.json(&BIND)?;
    let bound = service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        if let Some(id) = record.host.cluster_id {
            return Err(Refusal::conflict(format!("Host {} is already bound to cluster {id}", key.host)));
        }
        let missing = || Refusal::invalid(format!("Failed to find cluster {cluster_id}"));
        let cluster = change.model().clusters.get(&cluster_id).cloned().ok_or_else(missing)?;
        let wanted = cluster.cluster.cpu_architecture.as_str();
        let has = find_infra_env(change.model(), key.infra_env)?;
        let has = has.infra_env.cpu_architecture.as_str();
        if !matches!(wanted, "" | "multi") && !has.is_empty() && wanted != has {
            return Err(Refusal::invalid(format!(
                "InfraEnv's CPU architecture ({has}) doesn't match the cluster ({wanted})"
            )));
        }
        if record.fencing.is_some() && !cluster.day2() {
            rules::fencing::check(&cluster.cluster)
                .map_err(|why| Refusal::invalid(format!("Host {} has fencing credentials: {why}", key.host)))?;
        }
        if cluster.state == ClusterState::Installed {
            return Err(Refusal::conflict(
                "Cannot add hosts to an existing cluster using the original Discovery ISO.",
            ));
        }
        if !cluster.state.accepts_hosts() {
            return Err(Refusal::conflict(
                "Host can register only in one of the following states: [insufficient ready pending-for-input adding-hosts]",
            ));
        }
        if !pull(service, change, key, Some(&cluster), Trigger::Bind)? {
            let state = record.state;
            return Err(Refusal::conflict(format!(
                "host {} can't be bound in status {state}: it must be known-unbound",
                key.host
            )));
        }
        Ok(())
    });
    report_failure(service, call, key, kinds::HOST_BIND_FAILED, Some(cluster_id), bound)?;
    hosts::answer(service, key, StatusCode::OK)
}

/// POST …/actions/unbind.
pub(crate) fn unbind(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let reclaim = call.query_flag("reclaim");
    let unbound = service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        let Some(cluster) = host_cluster(change, &record) else {
            return Err(Refusal::conflict(format!("Host {} is already unbound", key.host)));
        };
        let infra_env = change.model().infra_envs.get(&key.infra_env);
        if let Some(bound) = infra_env.and_then(|infra_env| infra_env.infra_env.cluster_id) {
            return Err(Refusal::conflict(format!(
                "Cannot unbind Host {}. InfraEnv {} is bound to Cluster {bound}",
                key.host, key.infra_env
            )));
        }
        let on = if reclaim { Trigger::Reclaim } else { Trigger::Unbind };
        if !pull(service, change, key, Some(&cluster), on)? {
            let state = record.state;
            return Err(Refusal::conflict(format!("host {} can't be unbound in status {state}", key.host)));
        }
        Ok(())
    });
    report_failure(service, call, key, kinds::HOST_UNBIND_FAILED, None, unbound)?;
    hosts::answer(service, key, StatusCode::OK)
}

/// Passes an outcome on, with an event if a request was refused.
fn report_failure(
    service: &Service,
    call: &Call,
    key: HostKey,
    kind: Kind,
    cluster: Option<ClusterId>,
    outcome: Result<(), Refusal>,
) -> Result<(), Refusal> {
    let Err(Refusal::Application(status, reason)) = &outcome else { return outcome };
    if *status == StatusCode::NOT_FOUND {
        return outcome;
    }
    service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        let cluster = cluster.or(record.host.cluster_id);
        events::host(change, &record, kind, json!({"cluster_id": cluster, "message": reason}));
        Ok(())
    })?;
    outcome
}

/// POST …/actions/reset: for a host that is added to a cluster.
pub(crate) fn reset(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let reset = act_on_added(service, call, Trigger::Reset, "reset");
    if let Err(Refusal::Application(StatusCode::CONFLICT, reason)) = &reset {
        service.change(call.request_id(), |change| {
            let record = find_host(change.model(), call.host_key()?)?;
            events::host(change, &record, kinds::HOST_INSTALLATION_RESET_FAILED, json!({"error": reason}));
            Ok(())
        })?;
    }
    reset?;
    hosts::answer(service, call.host_key()?, StatusCode::OK)
}

/// POST …/actions/install: for a host that is added to a cluster.
pub(crate) fn install(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_host(&model, call.host_key()?)?;
    certify::check_host(service, record.key(), &record.name_or_id())?;
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let of_release = cluster.is_some_and(|cluster| payload::of_cluster(service, cluster).coreos.is_some());
    if steps::lacks_system(&record) && !of_release {
        return Err(Refusal::not_found(format!(
            "no release image found for host: {} runs from its own disk, and the config that it fetched names no system (spec.osImageURL)",
            record.host.id
        )));
    }
    act_on_added(service, call, Trigger::Install, "install")?;
    hosts::answer(service, call.host_key()?, StatusCode::ACCEPTED)
}

fn act_on_added(service: &Service, call: &Call, on: Trigger, what: &str) -> Result<(), Refusal> {
    let key = call.host_key()?;
    service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        if !record.day2() {
            return Err(Refusal::conflict("method only allowed when adding hosts to an existing cluster"));
        }
        let cluster = host_cluster(change, &record);
        if pull(service, change, key, cluster.as_deref(), on)? {
            return Ok(());
        }
        Err(Refusal::conflict(format!("cannot {what} host in state {}", record.state)))
    })
}
