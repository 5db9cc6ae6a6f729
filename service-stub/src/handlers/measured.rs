//! Replies to the steps that measure and try something (service contract §1.2.1): what of each is kept, and what is told.

use super::find::{find_cluster, find_host};
use super::outputs;
use super::replies::{detail, document, store_reply};
use crate::dhcp_vips;
use crate::events::{self, Kind, kinds};
use crate::http::{Call, Refusal};
use crate::machine_networks;
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::pass;
use crate::service::Service;
use crate::store::Change;
use api::{
    ContainerImageAvailability, DhcpAllocationResponse, DiskSpeedCheckResponse, StepReply, StepType,
    TangConnectivityResponse,
};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A disk whose writes take longer to get through is told of (§5.2: the threshold of every role), milliseconds.
const SLOW_DISK_MS: u64 = 10;
/// No host is asked about more disks or images.
const MAX_ENTRIES: usize = 64;

#[derive(Deserialize)]
struct Upgraded {
    #[serde(default)]
    agent_image: String,
    #[serde(default)]
    result: String,
}

/// What a step that failed has to say all the same.
pub fn failed(service: &Service, call: &Call, key: HostKey, reply: &StepReply) -> Result<(), Refusal> {
    match reply.step_type {
        StepType::InstallationDiskSpeedCheck => {
            let answer = outputs::disk_speed(&reply.output).unwrap_or_default();
            store_speed(service, call, key, reply.exit_code, answer)
        }
        StepType::ContainerImageAvailability => match outputs::images(&reply.output) {
            Ok(images) => store_images(service, call, key, &images),
            Err(_) => Ok(()),
        },
        StepType::TangConnectivityCheck => keep(service, call, key, "tang_connectivity", &detail(reply)),
        StepType::UpgradeAgent => tell_upgrade(service, call, key, false, &service.settings.agent_image),
        _ => Ok(()),
    }
}

/// What a step that succeeded found.
pub fn succeeded(service: &Service, call: &Call, key: HostKey, reply: &StepReply) -> Result<(), Refusal> {
    match reply.step_type {
        StepType::InstallationDiskSpeedCheck | StepType::ContainerImageAvailability if reply.output.is_empty() => {}
        StepType::InstallationDiskSpeedCheck => {
            store_speed(service, call, key, 0, outputs::disk_speed(&reply.output)?)?;
        }
        StepType::ContainerImageAvailability => {
            store_images(service, call, key, &outputs::images(&reply.output)?)?;
        }
        StepType::TangConnectivityCheck => {
            let answer: TangConnectivityResponse = outputs::object(&reply.output, "TangConnectivityResponse")?;
            keep(service, call, key, "tang_connectivity", &document(&answer)?)?;
        }
        StepType::DhcpLeaseAllocate => store_leases(service, call, key, outputs::leases(&reply.output)?)?,
        StepType::UpgradeAgent => {
            let answer: Upgraded = outputs::object(&reply.output, "UpgradeAgentResponse")?;
            // Of one that is still on its way nothing is said.
            if !answer.result.is_empty() {
                tell_upgrade(service, call, key, answer.result == "success", &answer.agent_image)?;
            }
        }
        // Nothing is decided on the others: they are taken so that an agent that does more than asked goes on.
        _ => {}
    }
    Ok(())
}

fn keep(service: &Service, call: &Call, key: HostKey, name: &str, text: &str) -> Result<(), Refusal> {
    store_reply(service, call, key, &|_, record| {
        record.keep(name, text.to_owned());
        Ok(())
    })
}

/// The documents kept under a name, by what they are about.
fn kept(record: &HostRecord, name: &str) -> Map<String, Value> {
    record.kept.get(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn store_speed(
    service: &Service,
    call: &Call,
    key: HostKey,
    exit_code: i64,
    answer: DiskSpeedCheckResponse,
) -> Result<(), Refusal> {
    store_reply(service, call, key, &|change, record| {
        let own = [&answer.path, &record.host.installation_disk_id, &record.host.installation_disk_path];
        let Some(path) = own.into_iter().find(|path| !path.is_empty()).cloned() else { return Ok(()) };
        let took = answer.io_sync_duration;
        let mut infos = kept(record, "disks_info");
        if infos.len() < MAX_ENTRIES || infos.contains_key(&path) {
            let mut speed = json!({"tested": true, "exit_code": exit_code, "speed_ms": took});
            if let Value::Object(fields) = &mut speed {
                fields.retain(|_, value| *value != 0);
            }
            infos.insert(path.clone(), json!({"path": path, "disk_speed": speed}));
        }
        record.keep("disks_info", Value::Object(infos).to_string());
        if exit_code == 0 && took > SLOW_DISK_MS {
            let details = json!({"host_disk": path, "fdatasync_duration": took});
            events::host(change, record, kinds::DISK_SPEED_SLOWER_THAN_SUPPORTED, details);
        }
        Ok(())
    })
}

fn store_images(
    service: &Service,
    call: &Call,
    key: HostKey,
    images: &[ContainerImageAvailability],
) -> Result<(), Refusal> {
    store_reply(service, call, key, &|change, record| {
        let mut statuses = kept(record, "images_status");
        for image in images {
            let status = serde_json::to_value(image).map_err(|error| Refusal::internal(&error))?;
            // What was measured first stays: a later attempt finds the image on the host.
            if let Some(known) = statuses.get_mut(&image.name) {
                known["result"] = status["result"].clone();
            } else if statuses.len() < MAX_ENTRIES {
                let details =
                    json!({"image_status": image.name, "result": status["result"], "info": image_info(image)});
                events::host(change, record, kinds::IMAGE_STATUS_UPDATED, details);
                statuses.insert(image.name.clone(), status);
            }
        }
        record.keep("images_status", Value::Object(statuses).to_string());
        Ok(())
    })
}

/// How it was fetched; nothing where that is not known.
// A size for people; beyond 2^53 bytes it rounds.
#[allow(clippy::cast_precision_loss)]
fn image_info(image: &ContainerImageAvailability) -> String {
    if image.size_bytes == 0 {
        return String::new();
    }
    let (time, size_mib, rate) = (image.time, image.size_bytes as f64 / (1 << 20) as f64, image.download_rate);
    format!("time: {time:.2} seconds; size: {size_mib:.2} Megabytes; download rate: {rate:.2} MBps")
}

fn store_leases(service: &Service, call: &Call, key: HostKey, answer: DhcpAllocationResponse) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let host = find_host(change.model(), key)?;
        let Some(id) = host.host.cluster_id else { return Ok(()) };
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        let before = record.clone();
        let networks = machine_networks::of(&record, &change.model().hosts_of_cluster(id));
        dhcp_vips::take(change, &mut record, &networks, answer)
            .map_err(|why| Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, why))?;
        if record != before {
            change.put_cluster(record);
            pass::settle_soon(&service.rules(), change, Some(id));
        }
        Ok(())
    })
}

fn tell_upgrade(service: &Service, call: &Call, key: HostKey, done: bool, image: &str) -> Result<(), Refusal> {
    let kind = if done { kinds::UPGRADE_AGENT_FINISHED } else { kinds::UPGRADE_AGENT_FAILED };
    tell_hourly(service, call, key, kind, &json!({"agent_image": image}))
}

/// Records an event of a host, unless one of the same kind was recorded within the hour.
pub fn tell_hourly(service: &Service, call: &Call, key: HostKey, kind: Kind, details: &Value) -> Result<(), Refusal> {
    let due = |change: &Change, record: &HostRecord| {
        record.told.get(kind.name).is_none_or(|then| change.now.seconds_since(*then) >= 3600)
    };
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        if due(change, &record) {
            events::host(change, &record, kind, details.clone());
            record.told.insert(kind.name.to_owned(), change.now);
            change.put_host(record);
        }
        Ok(())
    })
}
