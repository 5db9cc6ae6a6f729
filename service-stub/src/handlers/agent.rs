//! What agents, installers and installed nodes say: registration, polls, replies, progress.

use super::{find_cluster, find_host, lifecycle, measured, shapes};
use crate::check::disks;
use crate::events::{self, Severity};
use crate::http::{Answer, Call, Refusal, body::wrong_type};
use crate::instructions::{self, Situation};
use crate::model::{ClusterRecord, HostKey, HostRecord, Presence};
use crate::pass;
use crate::service::Service;
use crate::state::{HostState, host::Trigger, progress as stages, table::Refused};
use crate::store::Change;
use crate::view;
use api::{
    ApiVipConnectivityResponse, ConnectivityReport, HostCreateParams, HostProgress, HostRegistration, HostStage,
    Inventory, NextStepCommand, NextStepRequest, StepReply, StepType, Timestamp, VerifiedVip, VipType,
};
use axum::http::{HeaderName, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

const AGENT_VERSION: HeaderName = HeaderName::from_static("discovery_agent_version");
/// A longer image reference is nonsense.
const MAX_VERSION_CHARS: usize = 512;
/// What a runner that can't read its own files any more exits with.
const MEDIA_LOST: i64 = 256;
/// The real service's column for it.
const MAX_PROGRESS_INFO_CHARS: usize = 2048;

/// POST /v2/infra-envs/{id}/hosts.
pub fn register(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let infra_env = call.infra_env_id()?;
    let params: HostCreateParams = call.json(&shapes::NEW_HOST)?;
    let key = HostKey { infra_env, host: params.host_id };
    let version: String = params.discovery_agent_version.chars().take(MAX_VERSION_CHARS).collect();
    let found = service.store.model().infra_envs.contains_key(&infra_env);
    if !found {
        return Err(Refusal::not_found("record not found"));
    }
    // Before the change, so that its pass sees the host as connected. Its clock is not known yet.
    service.store.note_presence(key, Presence { checked_in_at: Timestamp::now(), clock: 0 });
    service.change(call.request_id(), |change| {
        let infra_env = change.model().infra_envs.get(&infra_env).cloned();
        let infra_env = infra_env.ok_or_else(|| Refusal::not_found("record not found"))?;
        let cluster = infra_env.infra_env.cluster_id;
        let mut record = match change.model().hosts.get(&key).cloned() {
            None => add_host(service, change, key, cluster)?,
            Some(known) => register_again(service, change, HostRecord::clone(&known))?,
        };
        let cluster = record.host.cluster_id;
        record.host.registered_at = change.now;
        record.host.discovery_agent_version = version.clone();
        change.put_host(record);
        pass::settle_soon(service, change, cluster);
        Ok(())
    })?;
    let record = find_host(&service.store.model(), key)?;
    // One that is to be brought up to date goes on as what it is to be, any other as what it is.
    let ours = version.is_empty() || service.settings.steps.upgrade_agents;
    let agent_version = if ours { service.settings.agent_image.clone() } else { version };
    let request = NextStepRequest { agent_version, host_id: key.host, infra_env_id: key.infra_env };
    let args = vec![serde_json::to_string(&request).unwrap_or_default()];
    let command = NextStepCommand { args, ..NextStepCommand::default() };
    let host = view::host(service, &record);
    Ok(Answer::json(StatusCode::CREATED, &HostRegistration { host, next_step_runner_command: Some(command) }))
}

fn add_host(
    service: &Service,
    change: &mut Change,
    key: HostKey,
    cluster: Option<api::ClusterId>,
) -> Result<HostRecord, Refusal> {
    let cluster = cluster.map(|id| find_cluster(change.model(), id)).transpose()?;
    if let Some(cluster) = cluster.as_deref().filter(|cluster| !cluster.state.accepts_hosts()) {
        return Err(Refusal::conflict(format!(
            "Host can register only in one of [insufficient ready pending-for-input adding-hosts] states, cluster {} is in {} state",
            cluster.cluster.id, cluster.state
        )));
    }
    let record = pass::new_host(service, change, key, cluster.as_deref()).map_err(refused)?;
    events::host(
        change,
        &record,
        "host_registration_succeeded",
        Severity::Info,
        "Successfully registered",
        Value::Null,
    );
    Ok(record)
}

fn register_again(service: &Service, change: &mut Change, mut record: HostRecord) -> Result<HostRecord, Refusal> {
    let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id).cloned());
    match pass::trigger(service, change, &mut record, cluster.as_deref(), Trigger::Register, "") {
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
pub fn instructions(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let clock = call.query_number("timestamp")?.unwrap_or(0);
    let model = service.store.model();
    let mut record = find_host(&model, key)?;
    service.store.note_presence(key, Presence { checked_in_at: Timestamp::now(), clock });
    let version = call.header(&AGENT_VERSION);
    if !version.is_empty() && version.len() <= MAX_VERSION_CHARS && version != record.host.discovery_agent_version {
        service.change(call.request_id(), |change| {
            let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
            record.host.discovery_agent_version = version.to_owned();
            change.put_host(record);
            Ok(())
        })?;
        record = find_host(&service.store.model(), key)?;
    }
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let peers = cluster.map(|cluster| model.hosts_of_cluster(cluster.cluster.id)).unwrap_or_default();
    let machine_networks = cluster.map(|cluster| pass::machine_networks(cluster, &peers)).unwrap_or_default();
    let steps = instructions::next(&Situation {
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
        image: service.media.first_image(),
        now: Timestamp::now(),
    });
    let gives = |kind: StepType| steps.instructions.iter().flatten().any(|step| step.step_type == kind);
    if gives(StepType::Install) && record.host.installer_version != service.settings.installer_image {
        service.change(call.request_id(), |change| {
            let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
            tell_formatting(change, &record);
            record.host.installer_version = service.settings.installer_image.clone();
            change.put_host(record);
            Ok(())
        })?;
    }
    if gives(StepType::UpgradeAgent) {
        let text = format!("starts upgrading its agent to {}", service.settings.agent_image);
        measured::tell_hourly(service, call, key, "upgrade_agent_started", Severity::Info, &text)?;
    }
    Ok(Answer::json(StatusCode::OK, &steps))
}

/// Says which disks beside the one that is installed to lose their boot sectors, and which keep them.
fn tell_formatting(change: &mut Change, record: &HostRecord) {
    let (cleared, kept) = instructions::disks_to_format(record);
    let cleared = cleared.into_iter().map(|disk| (disk, "quick_disk_format_performed", "performing quick format of"));
    let kept = kept.into_iter().map(|disk| (disk, "quick_disk_format_skipped", "skipping quick format of"));
    for (disk, name, doing) in cleared.chain(kept) {
        let text = format!("{doing} disk {} ({})", disk.name, disks::identifier(disk));
        let props = json!({"disk_name": disk.name, "disk_id": disks::identifier(disk)});
        events::host(change, record, name, Severity::Info, &text, props);
    }
}

/// POST …/instructions: the reply to a step.
pub fn reply(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let reply: StepReply = call.json(&shapes::REPLY)?;
    find_host(&service.store.model(), key)?;
    if reply.exit_code != 0 {
        tracing::info!(host = %key.host, step = %reply.step_type, exit_code = reply.exit_code, "a step failed on a host");
        if reply.exit_code == MEDIA_LOST {
            lifecycle::told(service, call, key, Trigger::MediaDisconnect, "")?;
        } else if reply.step_type == StepType::Install && !is_name_clash(&reply) {
            install_failed(service, call, key, &reply)?;
        } else if reply.step_type == StepType::DownloadBootArtifacts {
            let why =
                format!("Host could not fetch what it needs to boot into the discovery image: {}", detail(&reply));
            lifecycle::told(service, call, key, Trigger::ReclaimFailed, &why)?;
        } else {
            measured::failed(service, call, key, &reply)?;
        }
        return Ok(Answer::empty(StatusCode::NO_CONTENT));
    }
    lifecycle::media_back(service, call, key)?;
    let store = |work: &dyn Fn(&mut HostRecord)| {
        store_reply(service, call, key, &|_, record| {
            work(record);
            Ok(())
        })
    };
    match reply.step_type {
        StepType::Inventory => {
            let inventory: Inventory = output(&reply.output, "Inventory", Value::is_object)?;
            store_inventory(service, call, key, inventory)?;
        }
        StepType::ConnectivityCheck => {
            let report: ConnectivityReport = output(&reply.output, "ConnectivityReport", Value::is_object)?;
            let text = serde_json::to_string(&report).map_err(|error| Refusal::internal(&error))?;
            store(&|record| record.set_connectivity(text.clone()))?;
        }
        StepType::NtpSynchronizer => {
            let answer: NtpSources = output(&reply.output, "NtpSynchronizationResponse", Value::is_object)?;
            let text = answer.ntp_sources.unwrap_or(Value::Array(Vec::new())).to_string();
            store(&|record| record.keep("ntp_sources", text.clone()))?;
        }
        StepType::DomainResolution => {
            let answer: serde_json::Map<String, Value> =
                output(&reply.output, "DomainResolutionResponse", Value::is_object)?;
            let text = Value::Object(answer).to_string();
            store(&|record| record.keep("domain_name_resolutions", text.clone()))?;
        }
        StepType::FreeNetworkAddresses => {
            let answer: Vec<Value> = output(&reply.output, "FreeNetworksAddresses", Value::is_array)?;
            let text = Value::Array(answer).to_string();
            store(&|record| record.keep("free_addresses", text.clone()))?;
        }
        StepType::ApiVipConnectivityCheck => {
            let answer: ApiVipConnectivityResponse =
                output(&reply.output, "APIVipConnectivityResponse", Value::is_object)?;
            let text = serde_json::to_string(&answer).map_err(|error| Refusal::internal(&error))?;
            store(&|record| record.keep("api_vip_connectivity", text.clone()))?;
        }
        StepType::VerifyVips => {
            let answer: Vec<VerifiedVip> = output(&reply.output, "VerifyVipsResponse", Value::is_array)?;
            store_vips(service, call, key, &answer)?;
        }
        StepType::DownloadBootArtifacts => lifecycle::told(service, call, key, Trigger::RebootForReclaim, "")?,
        _ => measured::succeeded(service, call, key, &reply)?,
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// What a host found goes to the cluster's addresses; what it says of others is nobody's matter.
fn store_vips(service: &Service, call: &Call, key: HostKey, answer: &[VerifiedVip]) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let host = find_host(change.model(), key)?;
        let Some(id) = host.host.cluster_id else { return Ok(()) };
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        let before = record.clone();
        for verified in answer {
            let list = match verified.vip_type {
                VipType::Api => &mut record.cluster.api_vips,
                VipType::Ingress => &mut record.cluster.ingress_vips,
            };
            let named = list.iter_mut().filter(|vip| vip["ip"].as_str() == Some(&verified.vip));
            for vip in named.filter_map(Value::as_object_mut) {
                vip.insert("verification".to_owned(), json!(verified.verification));
            }
        }
        if record != before {
            change.put_cluster(record);
            pass::settle_soon(service, change, Some(id));
        }
        Ok(())
    })
}

#[derive(Deserialize)]
struct NtpSources {
    ntp_sources: Option<Value>,
}

/// The document inside a reply. Its kind is looked at first: a list would pass for a structure of as many fields.
pub(super) fn output<T: DeserializeOwned>(
    text: &str,
    model: &str,
    is_expected: fn(&Value) -> bool,
) -> Result<T, Refusal> {
    let value: Value = serde_json::from_str(text).map_err(Refusal::invalid)?;
    if !is_expected(&value) {
        return Err(Refusal::invalid(wrong_type(&value, model)));
    }
    serde_json::from_value(value).map_err(Refusal::invalid)
}

/// The real service hands the install step out until the first progress report and relies on this clash.
fn is_name_clash(reply: &StepReply) -> bool {
    reply.exit_code == 125 && reply.error.contains("is already in use")
}

fn install_failed(service: &Service, call: &Call, key: HostKey, reply: &StepReply) -> Result<(), Refusal> {
    lifecycle::told(service, call, key, Trigger::InstallationFailed, &detail(reply))
}

/// What a failed step said.
pub(super) fn detail(reply: &StepReply) -> String {
    let detail = if reply.error.is_empty() { &reply.output } else { &reply.error };
    detail.trim().chars().take(1000).collect()
}

/// Keeps what `work` makes of a reply, and brings the host's cluster to rest.
pub(super) fn store_reply(
    service: &Service,
    call: &Call,
    key: HostKey,
    work: &dyn Fn(&mut Change, &mut HostRecord) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let before = find_host(change.model(), key)?;
        let mut record = HostRecord::clone(&before);
        work(change, &mut record)?;
        // Hosts say the same again and again: that is no change to be written and judged.
        if !record.is_same_as(&before) {
            let cluster = record.host.cluster_id;
            change.put_host(record);
            pass::settle_soon(service, change, cluster);
        }
        Ok(())
    })
}

fn store_inventory(service: &Service, call: &Call, key: HostKey, mut inventory: Inventory) -> Result<(), Refusal> {
    let model = service.store.model();
    let record = find_host(&model, key)?;
    check_takes_inventory(record.state)?;
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    // Only these can carry a cluster's traffic.
    inventory.interfaces.retain(|nic| matches!(nic.kind.as_str(), "" | "physical" | "vlan" | "bond"));
    let wanted = disks::Wanted::of(&service.settings.requirements, &record, cluster.map(AsRef::as_ref), &inventory);
    disks::judge(&mut inventory, wanted);
    let text = serde_json::to_string(&inventory).map_err(|error| Refusal::internal(&error))?;
    store_reply(service, call, key, &|_, record| take_inventory(record, &inventory, &text))
}

fn check_takes_inventory(state: HostState) -> Result<(), Refusal> {
    if HostState::TAKES_INVENTORY.contains(&state) {
        return Ok(());
    }
    let states = HostState::TAKES_INVENTORY.map(HostState::as_str).join(" ");
    let reason = format!("Host is in {state} state, host can be updated only in one of [{states}] states");
    Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason))
}

/// Puts a judged inventory and its text into the record that is being changed. Its state is looked at here once more:
/// the install may have been ordered since the reply came in.
fn take_inventory(record: &mut HostRecord, inventory: &Inventory, text: &str) -> Result<(), Refusal> {
    check_takes_inventory(record.state)?;
    // Once the install is ordered the disk is what it is, whatever a late inventory says.
    if record.state.settings_open() {
        let chosen = disks::choose(inventory, &record.host.installation_disk_id);
        record.host.installation_disk_id = chosen.map_or(String::new(), |disk| disks::identifier(disk).to_owned());
        record.host.installation_disk_path = chosen.map_or(String::new(), |disk| disk.path.clone());
    }
    record.set_inventory(text.to_owned());
    let disks: Vec<&str> = instructions::disks_to_format(record).0.into_iter().map(disks::identifier).collect();
    match disks.join(",") {
        none if none.is_empty() => drop(record.kept.remove("disks_to_be_formatted")),
        disks => drop(record.kept.insert("disks_to_be_formatted".to_owned(), disks)),
    }
    Ok(())
}

/// PUT …/progress.
pub fn progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let HostProgress { current_stage, progress_info } = call.json(&shapes::PROGRESS)?;
    service.change(call.request_id(), |change| report(service, change, key, current_stage, &progress_info))?;
    Ok(Answer::empty(StatusCode::OK))
}

/// Takes a report of progress, whoever makes it.
pub fn report(
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
    let before = (record.state, record.stage());
    if let Some(progress) = progress {
        record.host.stage_started_at = progress.stage_started_at;
        record.host.stage_updated_at = progress.stage_updated_at;
        record.host.progress = Some(progress);
        let text = match detail {
            "" => format!("reached installation stage {stage}"),
            detail => format!("reached installation stage {stage}: {detail}"),
        };
        let props = json!({"stage": stage, "info": detail});
        events::host(change, &record, "host_install_progress_updated", Severity::Info, &text, props);
    }
    // A detail is kept in any state; in one that is over nothing follows from it.
    let _ = pass::trigger(service, change, &mut record, cluster.as_deref(), on, &text);
    let (moved, cluster) = (before != (record.state, record.stage()), record.host.cluster_id);
    change.put_host(record);
    if moved {
        pass::settle_soon(service, change, cluster);
    }
    Ok(())
}

#[derive(Deserialize)]
struct LogsProgress {
    logs_state: String,
}

/// PUT …/logs-progress.
pub fn logs_progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let LogsProgress { logs_state } = call.json(&shapes::LOGS_PROGRESS)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use api::{HostId, InfraEnvId};

    #[test]
    fn a_late_inventory_never_changes_the_disk() {
        let eligible = json!({"eligible": true});
        let disk = json!({"name": "sdb", "path": "/dev/sdb", "id": "/dev/sdb", "installation_eligibility": eligible});
        let inventory: Inventory = serde_json::from_value(json!({"disks": [disk]})).unwrap();
        for state in HostState::ALL {
            let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
            let mut record = HostRecord::new(key, None, Timestamp::ZERO);
            record.state = *state;
            record.host.installation_disk_id = "/dev/sda".into();
            record.host.installation_disk_path = "/dev/sda".into();
            let taken = take_inventory(&mut record, &inventory, "{}");
            assert_eq!(taken.is_ok(), HostState::TAKES_INVENTORY.contains(state), "{state}");
            let disk = if state.settings_open() { "/dev/sdb" } else { "/dev/sda" };
            assert_eq!(record.host.installation_disk_path, disk, "{state}");
            assert_eq!(record.host.installation_disk_id, disk, "{state}");
        }
        assert!(HostState::Known.settings_open() && HostState::DiscoveringUnbound.settings_open());
        for state in [HostState::PreparingForInstallation, HostState::PreparingSuccessful, HostState::Installing] {
            assert!(!state.settings_open(), "{state}");
        }
    }
}
