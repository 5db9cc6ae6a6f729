//! Replies to the steps that measure and try something (service contract §1.2.1): what of each is kept, and what is told.

use super::agent::{detail, output, store_reply};
use super::{find_cluster, find_host};
use crate::dhcp_vips;
use crate::events::{self, Severity};
use crate::http::{Call, Refusal};
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::pass;
use crate::service::Service;
use crate::store::Change;
use api::{
    ApiVipConnectivityResponse, ContainerImageAvailability, ContainerImageAvailabilityResponse, DhcpAllocationResponse,
    DiskSpeedCheckResponse, StepReply, StepType, TangConnectivityResponse,
};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
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
            let answer = serde_json::from_str(&reply.output).unwrap_or_default();
            store_speed(service, call, key, reply.exit_code, answer)
        }
        StepType::ContainerImageAvailability => match serde_json::from_str(&reply.output) {
            Ok(answer) => store_images(service, call, key, answer),
            Err(_) => Ok(()),
        },
        StepType::TangConnectivityCheck => keep(service, call, key, "tang_connectivity", &detail(reply)),
        StepType::UpgradeAgent => tell_upgrade(service, call, key, false, &detail(reply)),
        _ => Ok(()),
    }
}

/// What a step that succeeded found.
pub fn succeeded(service: &Service, call: &Call, key: HostKey, reply: &StepReply) -> Result<(), Refusal> {
    match reply.step_type {
        StepType::InstallationDiskSpeedCheck | StepType::ContainerImageAvailability if reply.output.is_empty() => {}
        StepType::InstallationDiskSpeedCheck => {
            let answer: DiskSpeedCheckResponse = output(&reply.output, "DiskSpeedCheckResponse", Value::is_object)?;
            store_speed(service, call, key, 0, answer)?;
        }
        StepType::ContainerImageAvailability => {
            let answer = output(&reply.output, "ContainerImageAvailabilityResponse", Value::is_object)?;
            store_images(service, call, key, answer)?;
        }
        StepType::TangConnectivityCheck => {
            let answer: TangConnectivityResponse = output(&reply.output, "TangConnectivityResponse", Value::is_object)?;
            keep(service, call, key, "tang_connectivity", &document(&answer)?)?;
        }
        StepType::ApiVipConnectivityCheck => {
            let answer: ApiVipConnectivityResponse =
                output(&reply.output, "APIVipConnectivityResponse", Value::is_object)?;
            keep(service, call, key, "api_vip_connectivity", &document(&answer)?)?;
        }
        StepType::DhcpLeaseAllocate => {
            let answer = output(&reply.output, "DhcpAllocationResponse", Value::is_object)?;
            store_leases(service, call, key, answer)?;
        }
        StepType::UpgradeAgent => {
            let answer: Upgraded = output(&reply.output, "UpgradeAgentResponse", Value::is_object)?;
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

fn document(answer: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(answer).map_err(|error| Refusal::internal(&error))
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
            let speed = json!({"tested": true, "exit_code": exit_code, "speed_ms": took});
            infos.insert(path.clone(), json!({"path": path, "disk_speed": speed}));
        }
        record.keep("disks_info", Value::Object(infos).to_string());
        if exit_code == 0 && took > SLOW_DISK_MS {
            let text = format!(
                "disk {path} is slower than the supported speed, and may degrade the cluster (fdatasync duration: {took} ms)"
            );
            let props = json!({"host_disk": path, "fdatasync_duration": took});
            events::host(change, record, "disk_speed_slower_than_supported", Severity::Warning, &text, props);
        }
        Ok(())
    })
}

fn store_images(
    service: &Service,
    call: &Call,
    key: HostKey,
    answer: ContainerImageAvailabilityResponse,
) -> Result<(), Refusal> {
    store_reply(service, call, key, &|change, record| {
        let mut statuses = kept(record, "images_status");
        for image in &answer.images {
            let status = serde_json::to_value(image).map_err(|error| Refusal::internal(&error))?;
            let room = statuses.len() < MAX_ENTRIES || statuses.contains_key(&image.name);
            if room && statuses.insert(image.name.clone(), status.clone()).as_ref() != Some(&status) {
                let result = status["result"].as_str().unwrap_or_default();
                let props = json!({"image_status": result, "result": image.name});
                events::host(change, record, "image_status_updated", Severity::Info, &image_text(image, result), props);
            }
        }
        record.keep("images_status", Value::Object(statuses).to_string());
        Ok(())
    })
}

fn image_text(image: &ContainerImageAvailability, result: &str) -> String {
    let fetched = (image.time > 0.0).then(|| {
        let (time, bytes, rate) = (image.time, image.size_bytes, image.download_rate);
        format!(". time: {time:.2} seconds; size: {bytes} bytes; download rate: {rate:.2} MBps")
    });
    format!("New image status {}. result: {result}{}", image.name, fetched.unwrap_or_default())
}

fn store_leases(service: &Service, call: &Call, key: HostKey, answer: DhcpAllocationResponse) -> Result<(), Refusal> {
    service.change(call.request_id(), |change| {
        let host = find_host(change.model(), key)?;
        let Some(id) = host.host.cluster_id else { return Ok(()) };
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        let before = record.clone();
        let networks = pass::machine_networks(&record, &change.model().hosts_of_cluster(id));
        dhcp_vips::take(change, &mut record, &networks, answer)
            .map_err(|why| Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, why))?;
        if record != before {
            change.put_cluster(record);
            pass::settle_soon(service, change, Some(id));
        }
        Ok(())
    })
}

fn tell_upgrade(service: &Service, call: &Call, key: HostKey, done: bool, what: &str) -> Result<(), Refusal> {
    let (name, severity, text) = match done {
        true => ("upgrade_agent_finished", Severity::Info, format!("finished upgrading its agent to {what}")),
        false => ("upgrade_agent_failed", Severity::Error, format!("failed to upgrade its agent: {what}")),
    };
    tell_hourly(service, call, key, name, severity, &text)
}

/// Records an event of a host, unless the same was recorded within the hour.
pub fn tell_hourly(
    service: &Service,
    call: &Call,
    key: HostKey,
    name: &str,
    severity: Severity,
    text: &str,
) -> Result<(), Refusal> {
    let due = |change: &Change, record: &HostRecord| {
        record.told.get(name).is_none_or(|then| change.now.seconds_since(*then) >= 3600)
    };
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        if due(change, &record) {
            events::host(change, &record, name, severity, text, Value::Null);
            record.told.insert(name.to_owned(), change.now);
            change.put_host(record);
        }
        Ok(())
    })
}
