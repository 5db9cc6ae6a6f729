//! Events of the category `metrics`: on what an installation ran and how long it took. They have no name, and users do not
//! see them unless they ask for the category.

use crate::check::disks;
use crate::model::{ClusterRecord, Event, HostRecord};
use crate::state::ClusterState;
use crate::store::Change;
use api::{HostStage, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

/// No host is listed with more disks, nor with more interfaces.
const MAX_PARTS: usize = 64;
const UNKNOWN: &str = "Unknown";

fn event(change: &Change, message: &str, props: &Value) -> Event {
    Event {
        name: String::new(),
        cluster_id: None,
        host_id: None,
        infra_env_id: None,
        severity: "info".to_owned(),
        category: "metrics".to_owned(),
        message: message.to_owned(),
        event_time: change.now,
        request_id: String::new(),
        props: props.to_string(),
    }
}

fn host(change: &mut Change, record: &HostRecord, message: &str, props: &Value) {
    let (cluster_id, host_id) = (record.host.cluster_id, Some(record.host.id));
    let event = Event { cluster_id, host_id, ..event(change, message, props) };
    change.event(event);
}

/// A preparation had the program of its release, for a time. `extracted` is how long it took to take it out of its image, if it was.
pub(crate) fn program_used(
    change: &mut Change,
    record: &ClusterRecord,
    image: &str,
    since: Timestamp,
    extracted: Option<Duration>,
) {
    let props = json!({
        "release_id": image,
        "start_time": since,
        "end_time": change.now,
        "cached": extracted.is_none(),
        "extract_duration": extracted.unwrap_or_default().as_secs_f64(),
    });
    let event =
        Event { cluster_id: Some(record.cluster.id), ..event(change, "installercache.release.metrics", &props) };
    change.event(event);
}

/// A host left a stage for another one: how long it stayed, and at the end on what hardware.
pub(crate) fn stage_left(change: &mut Change, before: &HostRecord, reached: HostStage) {
    let left = before.stage();
    if left == Some(reached) {
        return;
    }
    let role = if before.host.bootstrap { "bootstrap" } else { before.host.role.as_str() };
    if matches!(reached, HostStage::Done | HostStage::Failed) {
        hardware(change, before, role, reached);
    }
    let Some((left, progress)) = left.zip(before.host.progress.as_ref()) else { return };
    let inventory = before.facts().inventory.as_ref();
    let vendor = inventory.and_then(|inventory| inventory.system_vendor.as_ref());
    let chosen = &before.host.installation_disk_path;
    let disk = inventory.and_then(|inventory| inventory.disks.iter().find(|disk| disks::node(disk) == *chosen));
    let props = json!({
        "result": if reached == HostStage::Failed { HostStage::Failed } else { HostStage::Done },
        "duration": change.now.seconds_since(progress.stage_started_at),
        "host_stage": left,
        "vendor": vendor.map_or(UNKNOWN, |vendor| &vendor.manufacturer),
        "product": vendor.map_or(UNKNOWN, |vendor| &vendor.product_name),
        "disk_type": disk.map_or(UNKNOWN, |disk| &disk.drive_type),
        "host_role": role,
    });
    host(change, before, "host.stage.duration", &props);
}

fn hardware(change: &mut Change, record: &HostRecord, role: &str, result: HostStage) {
    let Some(inventory) = record.facts().inventory.as_ref() else { return };
    let props = json!({
        "host_result": result,
        "host_role": role,
        // Under this name it is GiB all the same.
        "mem_bytes": inventory.memory.as_ref().map_or(0, |memory| memory.physical_bytes >> 30),
        "core_count": inventory.cpu.as_ref().map_or(0, |cpu| cpu.count),
    });
    host(change, record, "host.mem.cpu", &props);
    for disk in inventory.disks.iter().take(MAX_PARTS) {
        let size = disk.size_bytes >> 30;
        let props = json!({"host_result": result, "host_role": role, "disk_type": disk.drive_type, "disk_size": size});
        host(change, record, "disk.size.type", &props);
    }
    for nic in inventory.interfaces.iter().take(MAX_PARTS) {
        let props = json!({"host_result": result, "host_role": role, "nic_speed": nic.speed_mbps});
        host(change, record, "nic.speed", &props);
    }
}

/// An installation ended, from state `from`.
pub(crate) fn installation_ended(change: &mut Change, record: &ClusterRecord, from: ClusterState) {
    let props = json!({
        "duration": change.now.seconds_since(record.cluster.install_started_at),
        "result": record.state,
        "lastState": from,
    });
    let event = Event { cluster_id: Some(record.cluster.id), ..event(change, "cluster.installation.results", &props) };
    change.event(event);
}
