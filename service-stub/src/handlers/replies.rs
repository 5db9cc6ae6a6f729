//! Replies to steps: what each changes.

use super::find::{find_cluster, find_host};
use super::{lifecycle, measured, outputs, shapes};
use crate::check::disks;
use crate::http::{Answer, Call, Refusal};
use crate::instructions;
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::pass;
use crate::service::Service;
use crate::state::{HostState, host::Trigger};
use crate::store::Change;
use api::{ApiVipConnectivityResponse, Inventory, StepReply, StepType, VerifiedVip, VipType};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Outputs are kept, and no text that is kept is longer, bytes.
pub(super) const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// The same of those that grow with the machine and its peers: an inventory of 15000 disks is 10 MB, a connectivity report of 1000
/// peers less.
pub(super) const MAX_LONG_OUTPUT_BYTES: usize = 16 << 20;

/// What a runner that can't read its own files any more exits with.
const MEDIA_LOST: i64 = 256;

/// `step-reply` as it is taken: any field may be absent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    step_type: String,
    step_id: String,
    exit_code: i64,
    output: String,
    error: String,
}

/// A reply to no known step is refused, one that names none is taken and changes nothing.
fn parse(call: &Call) -> Result<StepReply, Refusal> {
    let Body { step_type, step_id, exit_code, output, error } = call.json(&shapes::REPLY)?;
    if !step_type.is_empty() && !StepType::NAMES.contains(&step_type.as_str()) {
        let names = StepType::NAMES.join(" ");
        return Err(Refusal::bad_request(format!("step_type in body should be one of [{names}]")));
    }
    let step_type: StepType = serde_json::from_value(step_type.into()).map_err(Refusal::invalid)?;
    let most = match step_type {
        StepType::Inventory | StepType::ConnectivityCheck => MAX_LONG_OUTPUT_BYTES,
        _ => MAX_OUTPUT_BYTES,
    };
    let longest = output.len().max(error.len());
    if longest > most {
        let message = format!("{step_type} told {longest} bytes, of which {most} are taken at most");
        return Err(Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(StepReply { error, exit_code, output, step_id, step_type })
}

/// A part of a record as the text that is kept.
pub(super) fn document(answer: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(answer).map_err(|error| Refusal::internal(&error))
}

/// POST …/instructions: the reply to a step.
pub fn reply(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let reply = parse(call)?;
    find_host(&service.store.model(), key)?;
    service.outstanding.end(key, &reply.step_type);
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
            store_inventory(service, call, key, outputs::object(&reply.output, "Inventory")?)?;
        }
        StepType::ConnectivityCheck => {
            let text = document(&outputs::connectivity(&reply.output)?)?;
            store(&|record| record.set_connectivity(text.clone()))?;
        }
        StepType::NtpSynchronizer => {
            let answer: NtpSources = outputs::object(&reply.output, "NtpSynchronizationResponse")?;
            let text = answer.ntp_sources.unwrap_or(Value::Array(Vec::new())).to_string();
            store(&|record| record.keep("ntp_sources", text.clone()))?;
        }
        StepType::DomainResolution => {
            let answer: Map<String, Value> = outputs::object(&reply.output, "DomainResolutionResponse")?;
            let text = Value::Object(answer).to_string();
            store(&|record| record.keep("domain_name_resolutions", text.clone()))?;
        }
        StepType::FreeNetworkAddresses => {
            let answer = outputs::list(&reply.output, "FreeNetworksAddresses")?;
            if answer.is_empty() {
                let reason = format!("Free addresses for host {} is empty", key.host);
                return Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason));
            }
            let text = Value::Array(answer).to_string();
            store(&|record| record.keep("free_addresses", text.clone()))?;
        }
        StepType::ApiVipConnectivityCheck => {
            let answer: ApiVipConnectivityResponse = outputs::object(&reply.output, "APIVipConnectivityResponse")?;
            let text = document(&answer)?;
            store(&|record| record.keep("api_vip_connectivity", text.clone()))?;
        }
        StepType::VerifyVips => store_vips(service, call, key, &outputs::vips(&reply.output)?)?,
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
            pass::settle_soon(&service.rules(), change, Some(id));
        }
        Ok(())
    })
}

#[derive(Deserialize)]
struct NtpSources {
    ntp_sources: Option<Value>,
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
            leave_room(service, change, &before, &record)?;
            let cluster = record.host.cluster_id;
            change.put_host(record);
            pass::settle_soon(&service.rules(), change, cluster);
        }
        Ok(())
    })
}

/// Refuses a host that says more than before where its infra-env's hosts said too much together: each of them could say as much.
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
    tracing::error!(infra_env = %id, all, most, "a host's reply is refused: the hosts of its infra-env said too much");
    let message = format!("the hosts of infra_env {id} told {all} bytes together, of which {most} are kept at most");
    Err(Refusal::Request(StatusCode::INSUFFICIENT_STORAGE, message))
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
        record.host.installation_disk_id = chosen.map_or(String::new(), disks::identifier);
        record.host.installation_disk_path = chosen.map_or(String::new(), disks::node);
    }
    record.set_inventory(text.to_owned());
    let disks: Vec<String> = instructions::disks_to_format(record).0.into_iter().map(disks::identifier).collect();
    match disks.join(",") {
        none if none.is_empty() => drop(record.kept.remove("disks_to_be_formatted")),
        disks => drop(record.kept.insert("disks_to_be_formatted".to_owned(), disks)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{HostId, InfraEnvId, Timestamp};

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
