//! Carries out the plan: creates records, configures hosts, starts the installation.

use super::{ExistingCluster, Rendezvous, add};
use crate::auth::keys::SigningKey;
use crate::find::find_infra_env;
use crate::handlers::{clusters, infra_envs, install_config, lifecycle, manifests, new_cluster, plans};
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord};
use crate::planned::{self, PlannedHost};
use crate::service::Service;
use api::{
    HostRole, HostStage, Timestamp,
    rendezvous::{Answer as RendezvousAnswer, Proof, is_nonce, signed_text},
};
use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Maximum length of the reason for waiting, in characters.
const MAX_TEXT_CHARS: usize = 2000;

/// GET /landfall/rendezvous: what an agent that knows only our address needs. With a nonce the answer is signed.
pub(crate) fn tell(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let rendezvous = service.settings.rendezvous.as_deref();
    let rendezvous = rendezvous.ok_or_else(|| {
        Refusal::not_found("this service is not a rendezvous: it was started without --rendezvous".to_owned())
    })?;
    let proof = match (call.query("nonce"), &rendezvous.key) {
        (Some(nonce), _) if !is_nonce(nonce) => {
            return Err(Refusal::bad_request("nonce in query must be 22 to 128 characters of base64url"));
        }
        (Some(nonce), Some(key)) => Some(proof(service, rendezvous, key, nonce)?),
        _ => None,
    };
    let answer = RendezvousAnswer { cluster_id: Some(rendezvous.cluster), infra_env_id: rendezvous.infra_env, proof };
    Ok(Answer::json(StatusCode::OK, &answer))
}

/// Its URL is the one we were started with, not the request's: a relay has another URL.
fn proof(service: &Service, rendezvous: &Rendezvous, key: &SigningKey, nonce: &str) -> Result<Proof, Refusal> {
    let (name, url, ca_pem) = (rendezvous.label(), &service.settings.url, &service.settings.ca_pem);
    let text = signed_text(&name, url, ca_pem.as_deref(), rendezvous.infra_env, nonce);
    let no_random =
        || Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, "the system has no random numbers".to_owned());
    let signature = key.sign(text.as_bytes()).ok_or_else(no_random)?;
    Ok(Proof { name, url: url.clone(), ca_pem: ca_pem.clone(), signature: STANDARD.encode(signature) })
}

/// Creates the cluster and its infra-env, unless an earlier start did.
pub fn begin(service: &Service, rendezvous: &Rendezvous) -> Result<(), Refusal> {
    let model = service.store.model();
    let rack = &rendezvous.rack;
    if let Some(existing) = &rack.existing {
        add::import(service, rendezvous.cluster, existing, call)?;
    } else if !model.clusters.contains_key(&rendezvous.cluster) {
        new_cluster::create_as(service, &call(&[], json!(rack.cluster)), rendezvous.cluster)?;
        add_to_cluster(service, rendezvous)?;
    }
    if !model.infra_envs.contains_key(&rendezvous.infra_env) {
        let mut params = rack.infra_env.clone();
        params.cluster_id = Some(rendezvous.cluster);
        infra_envs::create_as(service, &call(&[], json!(params)), rendezvous.infra_env)?;
    }
    service.change("", |change| {
        let mut record = InfraEnvRecord::clone(find_infra_env(change.model(), rendezvous.infra_env)?.as_ref());
        if record.plan != rack.hosts {
            record.plan.clone_from(&rack.hosts);
            change.put_infra_env(record);
        }
        Ok(())
    })
}

/// What a new cluster has beside its parameters.
fn add_to_cluster(service: &Service, rendezvous: &Rendezvous) -> Result<(), Refusal> {
    let (rack, path) = (&rendezvous.rack, [("cluster_id", rendezvous.cluster.to_string())]);
    if !rack.overrides.is_empty() {
        install_config::update(service, &call(&path, json!(rack.overrides)))?;
    }
    for manifest in &rack.manifests {
        manifests::create(service, &call(&path, manifest.body()))?;
    }
    Ok(())
}

fn call(path: &[(&str, String)], body: Value) -> Call {
    Call::internal(path, &body)
}

/// Applies the plan to the hosts that have registered, and starts the installation when nothing blocks it. Logs what does.
pub(crate) fn advance(service: &Service) -> Result<(), Refusal> {
    let Some(rendezvous) = service.settings.rendezvous.as_deref() else { return Ok(()) };
    let model = service.store.model();
    // It may have been deleted.
    let Some(cluster) = model.clusters.get(&rendezvous.cluster) else { return Ok(()) };
    let here = model.hosts_of_cluster(rendezvous.cluster);
    if let Some(existing) = &rendezvous.rack.existing {
        add_nodes(service, rendezvous, existing, &here);
        return Ok(());
    }
    if !cluster.state.accepts_hosts() {
        leave(rendezvous, &here);
        return Ok(());
    }
    let mut blocked = Vec::new();
    for record in &here {
        if let Err(refusal) = plans::apply(service, record) {
            blocked.push(format!("{}: {}", host_name(record), refusal.message()));
        }
    }
    blocked.extend(missing(rendezvous, &here));
    if blocked.is_empty() {
        // Its state may just have changed.
        let model = service.store.model();
        let Some(cluster) = model.clusters.get(&rendezvous.cluster) else { return Ok(()) };
        match cluster.state {
            crate::state::ClusterState::Ready if !cluster.cluster.install_started_at.is_zero() => {
                blocked.push("it was started before, and is not restarted automatically".to_owned());
            }
            crate::state::ClusterState::Ready if rendezvous.rack.hold => {
                blocked.push("holdInstallation is set: start it by hand".to_owned());
            }
            crate::state::ClusterState::Ready => return start(service, rendezvous),
            _ => blocked.extend(unready(cluster, &model.hosts_of_cluster(rendezvous.cluster))),
        }
    }
    let text = joined(&blocked);
    if rendezvous.is_news(&text) {
        let (hosts, total) = (here.len(), rendezvous.rack.total);
        tracing::info!(cluster = rendezvous.rack.cluster.name, hosts, total, "waiting with the installation: {text}");
    }
    Ok(())
}

fn joined(reasons: &[String]) -> String {
    reasons.join("; ").chars().take(MAX_TEXT_CHARS).collect()
}

/// Applies the plan to the hosts that have registered, and installs those whose checks pass. Logs what the others wait for.
fn add_nodes(service: &Service, rendezvous: &Rendezvous, existing: &ExistingCluster, here: &[Arc<HostRecord>]) {
    let mut waiting = Vec::new();
    for record in here {
        let key = record.key();
        let path = [("infra_env_id", key.infra_env.to_string()), ("host_id", key.host.to_string())];
        let applied = plans::apply(service, record);
        // Its state may just have changed.
        let model = service.store.model();
        let Some(record) = model.hosts.get(&key) else { continue };
        let install = || lifecycle::install(service, &call(&path, Value::Null)).map(drop);
        let reason = match applied {
            Err(refusal) => Some(refusal.message().to_owned()),
            Ok(()) => add::advance(existing, plan_of(rendezvous, record), record, Timestamp::now(), install),
        };
        match reason {
            Some(reason) => waiting.push(format!("{}: {reason}", host_name(record))),
            None => waiting.push(format!("{}: it is being installed", host_name(record))),
        }
        if record.state.settings_open() {
            waiting.extend(failing(&record.host.validations_info));
        }
    }
    if waiting.is_empty() {
        // The agent's token expires with the ISO.
        let expired = add::expired(existing, Timestamp::now());
        waiting.push(expired.unwrap_or_else(|| "this machine has not registered yet".to_owned()));
    }
    let text = joined(&waiting);
    if rendezvous.is_news(&text) {
        tracing::info!(cluster = existing.api_name, "adding a node: {text}");
    }
}

fn start(service: &Service, rendezvous: &Rendezvous) -> Result<(), Refusal> {
    if service.settings.has_control_plane() {
        bootstrap_here(service, rendezvous)?;
    }
    clusters::install(service, &call(&[("cluster_id", rendezvous.cluster.to_string())], Value::Null))?;
    if rendezvous.is_news("started") {
        let (cluster, hosts) = (&rendezvous.rack.cluster.name, rendezvous.rack.total);
        tracing::info!(cluster, hosts, "all hosts are present: starting the installation");
    }
    Ok(())
}

/// Makes the machine we run on the bootstrap host, which is installed last. A service that runs on another machine leaves the choice to
/// the election.
fn bootstrap_here(service: &Service, rendezvous: &Rendezvous) -> Result<(), Refusal> {
    service.change("", |change| {
        let hosts = change.model().hosts_of_cluster(rendezvous.cluster);
        if !hosts.iter().any(|record| Some(record.host.id) == rendezvous.serving_host) {
            return Ok(());
        }
        for record in hosts {
            let ours = Some(record.host.id) == rendezvous.serving_host && record.effective_role() == HostRole::Master;
            if record.host.bootstrap != ours {
                let mut record = HostRecord::clone(&record);
                record.host.bootstrap = ours;
                change.put_host(record);
            }
        }
        Ok(())
    })
}

/// Logs how it ended, before this machine reboots.
fn leave(rendezvous: &Rendezvous, hosts: &[Arc<HostRecord>]) {
    let own = hosts.iter().find(|record| Some(record.host.id) == rendezvous.serving_host);
    if own.and_then(|record| record.stage()) != Some(HostStage::Rebooting) {
        return;
    }
    let states: Vec<String> = hosts.iter().map(|record| format!("{} {}", host_name(record), record.state)).collect();
    let text = states.join(", ");
    if rendezvous.is_news(&text) {
        tracing::info!(
            cluster = rendezvous.rack.cluster.name,
            records = super::HANDOVER_PATH,
            "this machine becomes a node now, which ends the service: {text}"
        );
    }
}

fn host_name(record: &HostRecord) -> String {
    record.name_or_id()
}

/// The plan of a host, once its inventory identifies it.
fn plan_of<'a>(rendezvous: &'a Rendezvous, record: &HostRecord) -> Option<&'a PlannedHost> {
    planned::of_host(&rendezvous.rack.hosts, record.facts().inventory.as_ref())
}

/// What is missing compared with the plan.
fn missing(rendezvous: &Rendezvous, here: &[Arc<HostRecord>]) -> Option<String> {
    let rack = &rendezvous.rack;
    let known: Vec<&PlannedHost> = here.iter().filter_map(|record| plan_of(rendezvous, record)).collect();
    let missing: Vec<String> = rack.hosts.iter().filter(|host| !known.contains(host)).map(PlannedHost::label).collect();
    let silent = here.iter().filter(|record| record.facts().inventory.is_none()).count();
    match here.len() {
        0 => Some(format!("none of {} hosts has registered", rack.total)),
        _ if silent > 0 => Some(format!("{silent} of {} hosts have not reported their hardware yet", here.len())),
        count if !missing.is_empty() => {
            Some(format!("{count} of {} hosts are present; missing: {}", rack.total, missing.join(", ")))
        }
        count if count < rack.total => Some(format!("{count} of {} hosts are present", rack.total)),
        count if count > rack.total => Some(format!(
            "{count} hosts are present, but {} are planned: delete those that don't belong to the rack",
            rack.total
        )),
        _ => None,
    }
}

/// The messages of failed checks.
fn unready(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Vec<String> {
    let mut found = vec![format!("cluster {}: {}", cluster.state, cluster.cluster.status_info)];
    found.extend(failing(&cluster.cluster.validations_info));
    for record in hosts {
        found.extend(
            failing(&record.host.validations_info).into_iter().map(|text| format!("{}: {text}", host_name(record))),
        );
    }
    found
}

/// Validations with a status other than success, by category in the stored document.
fn failing(validations: &str) -> Vec<String> {
    let parsed: Map<String, Value> = serde_json::from_str(validations).unwrap_or_default();
    let all = parsed.values().filter_map(Value::as_array).flatten();
    all.filter(|one| !matches!(one["status"].as_str(), Some("success" | "disabled")))
        .map(|one| {
            format!("{} ({})", one["id"].as_str().unwrap_or_default(), one["message"].as_str().unwrap_or_default())
        })
        .collect()
}
