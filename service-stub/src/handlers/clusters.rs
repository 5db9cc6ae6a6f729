//! Clusters: shown, installed, cancelled, reset, deleted.

use super::agent::{LOGS_PROGRESS, LogsProgress};
use super::lists;
use crate::auth::Caller;
use crate::certify;
use crate::cluster_files::{ClusterFiles, prepared};
use crate::events::{self, Kind, kinds};
use crate::find::find_cluster;
use crate::generated_manifests;
use crate::http::{Answer, Call, Refusal};
use crate::logs;
use crate::manifest_files;
use crate::model::{ClusterRecord, HostRecord};
use crate::pass::{self, ClusterRefused};
use crate::preparing;
use crate::roles;
use crate::service::Service;
use crate::state::{ClusterState, cluster::Trigger, host::Trigger as HostTrigger};
use crate::store::Change;
use crate::view;
use api::{ClusterId, HostRole};
use axum::http::{HeaderName, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

pub(super) fn answer(service: &Service, id: ClusterId, status: StatusCode) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, id)?;
    Ok(Answer::json(status, &view::cluster_document(service, &model, &record, true)))
}

/// Whether deleted clusters are requested as well, which agents may not see.
fn with_unregistered(call: &Call) -> Result<bool, Refusal> {
    let wanted = call.header(&HeaderName::from_static("get_unregistered_clusters")).eq_ignore_ascii_case("true");
    if wanted && call.caller != Caller::Everyone {
        let message = "only admin users are allowed to get unregistered clusters";
        return Err(Refusal::Application(StatusCode::FORBIDDEN, message.to_owned()));
    }
    Ok(wanted)
}

/// GET /v2/clusters.
pub(crate) fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let with_hosts = call.query_flag("with_hosts");
    let owner = call.query("owner");
    let openshift_id = call.query_uuid("openshift_cluster_id")?;
    // Subscriptions: none is known here, so none matches.
    let known = call.query("ams_subscription_ids").is_none();
    let model = service.store.model();
    let wanted = model.clusters.values().filter(|record| {
        known
            && owner.is_none_or(|owner| record.cluster.user_name == owner)
            && (openshift_id.is_none() || record.course.openshift_cluster_id == openshift_id)
            && call.caller.sees_cluster(&model, record.cluster.id)
    });
    let mut unregistered = Vec::new();
    if with_unregistered(call)? && known {
        let fits = |document: &Value| {
            owner.is_none_or(|owner| document["user_name"] == owner)
                && openshift_id.is_none_or(|id| document["openshift_cluster_id"] == json!(id))
        };
        unregistered.extend(service.unregistered.list(with_hosts).into_iter().filter(fits));
    }
    Ok(lists::clusters(service, &model, wanted.cloned().collect(), with_hosts, unregistered))
}

/// GET /v2/clusters/{id}.
pub(crate) fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let exclude = call.query_flag("exclude-hosts");
    let model = service.store.model();
    let unregistered = if with_unregistered(call)? { service.unregistered.find(id) } else { None };
    let Some(mut document) = unregistered else {
        return Ok(lists::cluster(service, &model, &find_cluster(&model, id)?, !exclude));
    };
    if exclude {
        document["hosts"] = Value::Null;
    }
    Ok(Answer::json(StatusCode::OK, &document))
}

/// GET /v2/clusters/{id}/hosts.
pub(crate) fn hosts(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let (inventory, connectivity) = (call.query_flag("with-inventory"), call.query_flag("with-connectivity"));
    let model = service.store.model();
    find_cluster(&model, id)?;
    let wanted = |record: &Arc<HostRecord>| {
        call.query("role").is_none_or(|role| record.host.role.as_str() == role)
            && call.query("status").is_none_or(|status| record.state.as_str() == status)
    };
    let mut hosts = model.hosts_of_cluster(id);
    hosts.retain(|record| wanted(record));
    let hidden = [("inventory", !inventory), ("connectivity", !connectivity), ("free_addresses", true)];
    let hidden = hidden.into_iter().filter(|(_, hide)| *hide).map(|(name, _)| name);
    Ok(lists::hosts(service, hosts, hidden.collect()))
}

/// DELETE /v2/clusters/{id}: its hosts go with it, and all logs.
pub(crate) fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let (document, now) = service.change(call.request_id(), |change| {
        let record = find_cluster(change.model(), id)?;
        if record.state == ClusterState::Installing {
            return Err(Refusal::conflict(format!(
                "cluster {id} can not be removed while being installed, wait for the installation to timeout or reset the installation"
            )));
        }
        events::cluster(change, &record, kinds::CLUSTER_DEREGISTERED, Value::Null);
        let document = view::cluster_document(service, change.model(), &record, true);
        remove(service, change, &record);
        Ok::<_, Refusal>((document, change.now))
    })?;
    service.unregistered.push(document, now);
    forget(service, id);
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// Takes a cluster out, with the hosts of its infra-envs; its files are for [`forget`].
pub(crate) fn remove(service: &Service, change: &mut Change, record: &ClusterRecord) {
    let id = record.cluster.id;
    for host in change.model().hosts_of_cluster(id) {
        release(service, change, record, &host);
    }
    let bound: Vec<_> = change.model().infra_envs.values().cloned().collect();
    for infra_env in bound.iter().filter(|record| record.infra_env.cluster_id == Some(id)) {
        let mut record = infra_env.as_ref().clone();
        record.infra_env.cluster_id = None;
        change.put_infra_env(record);
    }
    change.remove_cluster(id);
}

/// Deletes logs and manifests of a cluster that is gone.
pub(crate) fn forget(service: &Service, id: ClusterId) {
    logs::forget(service.store.directory(), id, None);
    manifest_files::forget(service.store.directory(), id);
    prepared::forget(service.store.directory(), id);
}

/// A host whose infra-env is the cluster's goes with it; another one goes back to the pool.
fn release(service: &Service, change: &mut Change, cluster: &ClusterRecord, host: &HostRecord) {
    let infra_env = change.model().infra_envs.get(&host.host.infra_env_id);
    let own = infra_env.is_none_or(|record| record.infra_env.cluster_id == Some(cluster.cluster.id));
    let mut record = host.clone();
    if own || pass::trigger(&service.rules(), change, &mut record, Some(cluster), HostTrigger::Unbind, "").is_err() {
        events::host(change, host, kinds::HOST_DEREGISTERED, Value::Null);
        return change.remove_host(host.key());
    }
    change.put_host(record);
}

/// POST /v2/clusters/{id}/actions/install.
pub(crate) fn install(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    certify::check_cluster(service, &service.store.model(), id)?;
    service.change(call.request_id(), |change| {
        find_cluster(change.model(), id)?;
        pass::settle_cluster(&service.rules(), change, id);
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if record.state != ClusterState::Ready {
            let (info, validations) = (&record.cluster.status_info, &record.cluster.validations_info);
            return Err(Refusal::conflict(format!(
                "Cluster is not ready for installation, {info} validation_info={validations}"
            )));
        }
        record.course.roles_assigned = fix_roles(change, id);
        if service.settings.has_control_plane() {
            roles::elect_bootstrap(change, id);
        }
        pass::trigger_cluster(&service.rules(), change, &mut record, Trigger::Install)
            .map_err(|why| refusal(id, Trigger::Install, why))?;
        generated_manifests::store(service, change.model(), &record).map_err(|error| Refusal::internal(&error))?;
        preparing::start(service, change, &mut record);
        if service.settings.cluster_files.is_some() {
            record.course.openshift_cluster_id = given_identity(service, &record)?;
        }
        change.put_cluster(record);
        Ok(())
    })?;
    // Those of an earlier attempt.
    logs::forget(service.store.directory(), id, None);
    preparing::begin(service);
    let answer = answer(service, id, StatusCode::ACCEPTED);
    // What follows is judged after the answer: clients see it begin.
    service.unsettled.note(Some(id));
    answer
}

/// The identity of the cluster that an operator's files make.
fn given_identity(service: &Service, record: &ClusterRecord) -> Result<Option<Uuid>, Refusal> {
    let files = ClusterFiles::of_cluster(service, record).ok_or_else(|| {
        let (id, name, domain) = (record.cluster.id, &record.cluster.name, &record.cluster.base_dns_domain);
        Refusal::conflict(format!(
            "there are no install-time files for cluster {id}: --cluster-files has neither a directory {id} or {name}.{domain}, nor files \
             for all clusters"
        ))
    })?;
    files.cluster_id().map_err(|error| Refusal::internal(&error))
}

/// From now on suggested roles are the hosts' own. Whether there was a choice: three hosts are a control plane.
fn fix_roles(change: &mut Change, id: ClusterId) -> bool {
    let hosts = change.model().hosts_of_cluster(id);
    let automatic = |host: &&Arc<HostRecord>| host.host.role == HostRole::AutoAssign;
    for host in hosts.iter().filter(automatic) {
        let mut record = HostRecord::clone(host);
        record.host.role = record.host.suggested_role;
        change.put_host(record);
    }
    hosts.len() > 3 && hosts.iter().any(|host| automatic(&host))
}

/// POST /v2/clusters/{id}/actions/cancel.
pub(crate) fn cancel(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    act(service, call, Trigger::Cancel, kinds::CANCEL_INSTALLATION_FAILED)
}

/// POST /v2/clusters/{id}/actions/reset.
pub(crate) fn reset(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    act(service, call, Trigger::Reset, kinds::RESET_INSTALLATION_FAILED)
}

fn act(service: &Service, call: &Call, on: Trigger, failure: Kind) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    find_cluster(&service.store.model(), id)?;
    let mut unfit = None;
    let done = service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        pass::trigger_cluster(&service.rules(), change, &mut record, on).map_err(|why| {
            unfit = why.host().filter(|_| on == Trigger::Reset);
            refusal(id, on, why)
        })?;
        change.put_cluster(record);
        pass::settle_cluster(&service.rules(), change, id);
        Ok(())
    });
    if let Err(Refusal::Application(_, reason)) = &done {
        service.change(call.request_id(), |change| {
            let record = find_cluster(change.model(), id)?;
            events::cluster(change, &record, failure, json!({"error": reason}));
            let hosts = change.model().hosts_of_cluster(id);
            if let Some(host) = hosts.iter().find(|host| Some(host.host.id) == unfit) {
                events::host(change, host, kinds::HOST_INSTALLATION_RESET_FAILED, json!({"error": reason}));
            }
            Ok(())
        })?;
    }
    done?;
    answer(service, id, StatusCode::ACCEPTED)
}

fn refusal(id: ClusterId, on: Trigger, why: ClusterRefused) -> Refusal {
    let what = match on {
        Trigger::Install => "installed",
        Trigger::Cancel => "cancelled",
        Trigger::Reset => "reset",
        Trigger::AllowAddHosts | Trigger::Refresh => "changed",
    };
    Refusal::conflict(format!("cluster {id} can't be {what}: {why}"))
}

/// PUT /v2/clusters/{id}/logs-progress.
pub(crate) fn logs_progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let LogsProgress { logs_state } = call.json(&LOGS_PROGRESS)?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if logs_state == "requested" {
            record.cluster.controller_logs_started_at = change.now;
        }
        record.settings.insert("logs_info".into(), Value::from(logs_state));
        change.put_cluster(record);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}
