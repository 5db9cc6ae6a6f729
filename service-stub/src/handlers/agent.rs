//! Requests of agents, installers and installed nodes: registration, polls, replies, progress.

use super::models;
use crate::attest;
use crate::auth::Auth;
use crate::boot_media;
use crate::certify;
use crate::check::disks;
use crate::events::{self, kinds};
use crate::find::{find_cluster, find_host};
use crate::http::body::{BodyShape, any, one_of, shape, text, uuid};
use crate::http::{Answer, Call, Refusal};
use crate::infra_env::DISCONNECTED_ISO;
use crate::instructions::{self, Situation};
use crate::machine_networks;
use crate::model::{HostKey, HostRecord, Presence};
use crate::pass;
use crate::payload;
use crate::service::Service;
use crate::state::{host::Trigger, progress as stages, table::Refused};
use crate::steps;
use crate::store::Change;
use crate::view;
use api::{HostCreateParams, HostProgress, HostStage, NextStepCommand, NextStepRequest, StepType, Timestamp};
use axum::http::{HeaderName, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Instant;

/// What else than the published steps an agent carries out.
const EXTENSIONS: HeaderName = HeaderName::from_static("landfall-steps");
const AGENT_VERSION: HeaderName = HeaderName::from_static("discovery_agent_version");
/// Prefix of our own agent's user agent.
const OUR_AGENT: &str = "landfall/";
/// Maximum length of an image reference.
const MAX_VERSION_CHARS: usize = 512;
/// Its size in the real service's database.
const MAX_PROGRESS_INFO_CHARS: usize = 2048;

pub(crate) const NEW_HOST: BodyShape =
    shape("newHostParams", "HostCreateParams", &[uuid("host_id").required(), text("discovery_agent_version")]);

/// POST /v2/infra-envs/{id}/hosts.
pub(crate) fn register(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let infra_env = call.infra_env_id()?;
    let params: HostCreateParams = call.json(&NEW_HOST)?;
    let key = HostKey { infra_env, host: params.host_id };
    let version: String = params.discovery_agent_version.chars().take(MAX_VERSION_CHARS).collect();
    let found = service.store.model().infra_envs.contains_key(&infra_env);
    if !found {
        return Err(Refusal::not_found("record not found"));
    }
    let is_new = !service.store.model().hosts.contains_key(&key);
    if let Some(peer) = call.peer.filter(|_| is_new && matches!(service.settings.auth, Auth::None)) {
        let limits = &service.settings.limits;
        if !service.registrations.take(peer, limits.registrations, limits.registrations_per_minute, Instant::now()) {
            let message = "too many new hosts from this address: try again in a minute".to_owned();
            return Err(Refusal::Request(StatusCode::TOO_MANY_REQUESTS, message));
        }
    }
    // Its new agent does not run the old one's steps.
    service.outstanding.forget(key);
    // Before the change, so that its pass sees the host as connected. Its clock is unknown yet.
    service.store.presences().note(key, Presence { checked_in_at: Timestamp::now(), clock: 0 });
    let registered = service.change(call.request_id(), |change| {
        let infra_env = change.model().infra_envs.get(&infra_env).cloned();
        let infra_env = infra_env.ok_or_else(|| Refusal::not_found("record not found"))?;
        if infra_env.infra_env.kind_of_image == DISCONNECTED_ISO {
            let message = format!("Cannot register a host to an InfraEnv with {DISCONNECTED_ISO} type");
            return Err(Refusal::invalid(message));
        }
        let cluster = infra_env.infra_env.cluster_id;
        let known = change.model().hosts.get(&key).cloned();
        let is_known = known.is_some();
        let mut record = match known {
            None => add_host(service, change, key, cluster)?,
            Some(known) => register_again(service, change, HostRecord::clone(&known))?,
        };
        record.host.registered_at = change.now;
        if let Some(attestation) = &mut record.attestation {
            attestation.forget_boot();
        }
        record.host.discovery_agent_version = version.clone();
        let id = record.host.cluster_id;
        let cluster = id.and_then(|id| change.model().clusters.get(&id).cloned());
        let document = view::registration(service, &record, cluster.as_deref(), is_known);
        change.put_host(record);
        pass::settle_soon(&service.rules(), change, id);
        Ok(document)
    });
    if let Err(Refusal::Application(_, reason)) = &registered {
        tell_failure(service, call, key, reason)?;
    }
    let mut registered = registered?;
    // An outdated agent continues as the new image, any other as its own.
    let ours = version.is_empty() || service.settings.steps.upgrade_agents;
    let agent_version = if ours { service.settings.agent_image.clone() } else { version };
    let request = NextStepRequest { agent_version, host_id: key.host, infra_env_id: key.infra_env };
    let args = vec![serde_json::to_string(&request).unwrap_or_default()];
    registered["next_step_runner_command"] = json!(NextStepCommand { args, ..NextStepCommand::default() });
    Ok(Answer::json(StatusCode::CREATED, &registered))
}

/// Records that a host could not register.
fn tell_failure(service: &Service, call: &Call, key: HostKey, reason: &str) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let infra_env = change.model().infra_envs.get(&key.infra_env);
        let cluster = infra_env.and_then(|record| record.infra_env.cluster_id);
        let known = change.model().hosts.get(&key).cloned();
        let record = known.unwrap_or_else(|| HostRecord::new(key, cluster, change.now).into());
        events::host(change, &record, kinds::HOST_REGISTRATION_FAILED, json!({"message": reason}));
        Ok(())
    })
}

fn add_host(
    service: &Service,
    change: &mut Change,
    key: HostKey,
    cluster: Option<api::ClusterId>,
) -> Result<HostRecord, Refusal> {
    let (most, there) = (service.settings.limits.hosts, change.model().hosts_of_infra_env(key.infra_env).len());
    if there >= most {
        return Err(Refusal::conflict(format!(
            "infra_env {} has {there} hosts, the maximum: delete some, or raise --max-hosts",
            key.infra_env
        )));
    }
    let cluster = cluster.map(|id| find_cluster(change.model(), id)).transpose()?;
    if let Some(cluster) = cluster.as_deref().filter(|cluster| !cluster.state.accepts_hosts()) {
        return Err(Refusal::conflict(format!(
            "Host can register only in one of [insufficient ready pending-for-input adding-hosts] states, cluster {} is in {} state",
            cluster.cluster.id, cluster.state
        )));
    }
    let record = pass::new_host(&service.rules(), change, key, cluster.as_deref()).map_err(refused)?;
    events::host(change, &record, kinds::HOST_REGISTRATION_SUCCEEDED, Value::Null);
    Ok(record)
}

fn register_again(service: &Service, change: &mut Change, mut record: HostRecord) -> Result<HostRecord, Refusal> {
    let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id).cloned());
    match pass::trigger(&service.rules(), change, &mut record, cluster.as_deref(), Trigger::Register, "") {
        Ok(()) => Ok(record),
        Err(Refused::NoRow) => Err(Refusal::invalid(format!(
            "a host in status {} can't register: reset the cluster, or delete the host",
            record.state
        ))),
        Err(refused) => Err(self::refused(refused)),
    }
}

fn refused(refused: Refused) -> Refusal {
    match refused {
        Refused::Row(_, 409, why) => Refusal::conflict(why),
        Refused::Row(_, _, why) => Refusal::invalid(why),
        Refused::NoRow => Refusal::invalid("the host can't register"),
    }
}

/// GET …/instructions.
pub(crate) fn instructions(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let clock = call.query_number("timestamp")?.filter(|clock| *clock != 0);
    let mut record = find_host(&service.store.model(), key)?;
    // Without a time in the request, the last reported one stays.
    let clock = clock.unwrap_or_else(|| service.store.presences().get(key).clock);
    service.store.presences().note(key, Presence { checked_in_at: Timestamp::now(), clock });
    let version = call.header(&AGENT_VERSION);
    if !version.is_empty() && version.len() <= MAX_VERSION_CHARS && version != record.host.discovery_agent_version {
        service.change(call.request_id(), |change| {
            let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
            record.host.discovery_agent_version = version.to_owned();
            change.put_host(record);
            Ok(())
        })?;
    }
    certify::polled(service, key)?;
    let model = service.store.model();
    record = find_host(&model, key)?;
    let announced = StepType::announced_in(call.header(&EXTENSIONS));
    let is_asked = announced.contains(&StepType::Certify) && !steps::upgrades(&service.settings, &record);
    let certify = if is_asked { certify::request(service, key)? } else { None };
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let peers = cluster.map(|cluster| model.hosts_of_cluster(cluster.cluster.id)).unwrap_or_default();
    let machine_networks = cluster.map(|cluster| machine_networks::find(cluster, &peers)).unwrap_or_default();
    let hurries = call.header(&header::USER_AGENT).starts_with(OUR_AGENT);
    let can_attest = announced.contains(&StepType::Attest);
    let mut steps = instructions::next(&Situation {
        record: &record,
        infra_env: model.infra_envs.get(&key.infra_env).map(AsRef::as_ref),
        cluster: cluster.map(AsRef::as_ref),
        peers: &peers,
        machine_networks: &machine_networks,
        static_network: model
            .infra_envs
            .get(&key.infra_env)
            .is_some_and(|record| !record.infra_env.static_network_config.is_empty()),
        settings: &service.settings,
        payload: cluster.map(|cluster| payload::of_cluster(service, cluster)).unwrap_or_default(),
        image: boot_media::disk_image(
            service,
            model.infra_envs.get(&key.infra_env).map(AsRef::as_ref),
            cluster.map(AsRef::as_ref),
        ),
        now: Timestamp::now(),
        attest: can_attest.then(|| attest::request(service, &record)).flatten(),
        certify,
        hurries,
    });
    if is_asked && certify::is_in_run(service, key) {
        steps.next_instruction_seconds = steps.next_instruction_seconds.min(certify::POLL_S);
    }
    let due = service.outstanding.start(key, steps.instructions.unwrap_or_default(), hurries, Instant::now());
    steps.instructions = (!due.is_empty()).then_some(due);
    let gives = |kind: StepType| steps.instructions.iter().flatten().any(|step| step.step_type == kind);
    if gives(StepType::Install) && record.host.installer_version != service.settings.installer_image {
        service.change(call.request_id(), |change| {
            let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
            record_formatting(change, &record);
            record.host.installer_version = service.settings.installer_image.clone();
            change.put_host(record);
            Ok(())
        })?;
    }
    if gives(StepType::UpgradeAgent) {
        let details = json!({"agent_image": service.settings.agent_image});
        super::events::record(service, call, key, kinds::UPGRADE_AGENT_STARTED, &details)?;
    }
    Ok(Answer::json(StatusCode::OK, &steps))
}

/// Records which disks other than the installation disk lose their boot sectors, and which don't.
fn record_formatting(change: &mut Change, record: &HostRecord) {
    let (cleared, skipped) = steps::disks_to_format(record);
    let cleared = cleared.into_iter().map(|disk| (disk, kinds::QUICK_DISK_FORMAT_PERFORMED));
    let skipped = skipped.into_iter().map(|disk| (disk, kinds::QUICK_DISK_FORMAT_SKIPPED));
    for (disk, kind) in cleared.chain(skipped) {
        let details = json!({"disk_name": disk.name, "disk_id": disks::identifier(disk)});
        events::host(change, record, kind, details);
    }
}

pub(crate) const PROGRESS: BodyShape = shape(
    "hostProgress",
    "HostProgress",
    &[
        one_of("current_stage", &HostStage::NAMES).required().described("@host-stage"),
        any("progress_info").described("string"),
    ],
);

/// PUT …/progress.
pub(crate) fn progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let HostProgress { current_stage, progress_info } = call.json(&PROGRESS)?;
    service.change(call.request_id(), |change| report(service, change, key, current_stage, &progress_info))?;
    Ok(Answer::empty(StatusCode::OK))
}

/// Processes a progress report from any source.
pub(crate) fn report(
    service: &Service,
    change: &mut Change,
    key: HostKey,
    stage: HostStage,
    detail: &str,
) -> Result<(), Refusal> {
    let detail = detail.char_indices().nth(MAX_PROGRESS_INFO_CHARS).map_or(detail, |(end, _)| &detail[..end]);
    let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
    let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id).cloned());
    let list = pass::stages(&record, cluster.as_deref());
    let decided = stages::report(record.state, record.host.progress.as_ref(), list, stage, detail, change.now);
    let (progress, on, text) = match decided.map_err(Refusal::conflict)? {
        stages::Report::Same => return Ok(()),
        stages::Report::Detail(progress) | stages::Report::Stage(progress) => {
            let stage = progress.current_stage.unwrap_or(stage).to_string();
            (Some(progress), Trigger::Progress, stage)
        }
        stages::Report::Failed(info) => (None, Trigger::Failed, info),
    };
    let reached = progress.as_ref().and_then(|progress| progress.current_stage).unwrap_or(HostStage::Failed);
    events::measured::stage_left(change, &record, reached);
    let before = (record.state, record.stage());
    if let Some(progress) = progress {
        record.host.stage_started_at = progress.stage_started_at;
        record.host.stage_updated_at = progress.stage_updated_at;
        record.host.progress = Some(progress);
        let event = match detail {
            "" => format!("reached installation stage {stage}"),
            detail => format!("reached installation stage {stage}: {detail}"),
        };
        events::host(change, &record, kinds::HOST_INSTALL_PROGRESS_UPDATED, json!({"event": event}));
    }
    // A detail is stored in any state; in a final state it has no effect.
    let _ = pass::trigger(&service.rules(), change, &mut record, cluster.as_deref(), on, &text);
    let (moved, cluster) = (before != (record.state, record.stage()), record.host.cluster_id);
    change.put_host(record);
    if moved {
        pass::settle_soon(&service.rules(), change, cluster);
    }
    Ok(())
}

pub(crate) const LOGS_PROGRESS: BodyShape = shape(
    "logsProgressParams",
    "LogsProgressParams",
    &[one_of("logs_state", models::LOGS_STATES).required().described("@logs_state")],
);

#[derive(Deserialize)]
pub(super) struct LogsProgress {
    pub(super) logs_state: String,
}

/// PUT …/logs-progress.
pub(crate) fn logs_progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let LogsProgress { logs_state } = call.json(&LOGS_PROGRESS)?;
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        if logs_state == "requested" {
            record.host.logs_started_at = change.now;
        }
        record.host.logs_info = logs_state;
        change.put_host(record);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}
