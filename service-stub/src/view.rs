//! Records as they are published.

use crate::course::Course;
use crate::features;
use crate::generated_manifests;
use crate::machine_networks;
use crate::manifest_files;
use crate::model::{ClusterRecord, HostRecord, Model};
use crate::net::Cidr;
use crate::operators;
use crate::pass;
use crate::service::Service;
use crate::state::{HostState, cluster::Preparation};
use api::{FencingCredentials, Host, HostId, MachineNetwork, Secret, Timestamp};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// A host with everything that depends on the moment of asking.
pub(crate) fn host(service: &Service, record: &HostRecord) -> Host {
    let presence = service.store.presences().get(record.key());
    let mut host = record.host.clone();
    host.status = record.state.to_string();
    host.checked_in_at = presence.checked_in_at;
    host.timestamp = presence.clock;
    // The times are in its progress; of these fields the published ones are always zero.
    host.stage_started_at = Timestamp::ZERO;
    host.stage_updated_at = Timestamp::ZERO;
    host.requested_hostname = record.name_or_id();
    let model = service.store.model();
    let cluster = host.cluster_id.and_then(|id| model.clusters.get(&id));
    // Null for a role without stages, as the real service has it.
    host.progress_stages =
        Some(pass::stages(record, cluster.map(AsRef::as_ref)).to_vec()).filter(|stages| !stages.is_empty());
    host
}

/// A host as the answer to its registration: what it registers as, before anything is made of that. Of a host that is known
/// already, nothing of what is known is in it.
pub(crate) fn registration(
    service: &Service,
    record: &HostRecord,
    cluster: Option<&ClusterRecord>,
    is_known: bool,
) -> Value {
    let mut host = HostRecord::new(record.key(), record.host.cluster_id, Timestamp::ZERO);
    if let Some(cluster) = cluster {
        host.join(cluster);
    }
    host.host.bootstrap = cluster.is_some_and(ClusterRecord::single_node) && service.settings.has_control_plane();
    let now = record.host.registered_at;
    let mut published = Host {
        checked_in_at: now,
        discovery_agent_version: record.host.discovery_agent_version.clone(),
        progress_stages: Some(pass::stages(&host, cluster).to_vec()),
        registered_at: now,
        requested_hostname: record.host.id.to_string(),
        ..host.host
    };
    if !is_known {
        published.status = record.state.to_string();
        published.status_info.clone_from(&record.host.status_info);
        published.status_updated_at = record.host.status_updated_at;
    }
    let mut document = api::json::to_value(published).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.extend(host.texts.published().map(|(name, text)| (name.to_owned(), Value::from(text))));
        if is_known {
            fields.extend(["status", "status_info"].map(|name| (name.to_owned(), Value::Null)));
        }
    }
    document
}

/// The same as a document, with the text fields that are only kept. Free addresses are the service's own matter.
pub(crate) fn host_document(service: &Service, record: &HostRecord) -> Value {
    let mut host = host(service, record);
    host.progress.get_or_insert_default();
    let mut document = api::json::to_value(host).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        let texts = record.texts.published().filter(|(name, _)| *name != "free_addresses");
        fields.extend(texts.map(|(name, text)| (name.to_owned(), Value::from(text))));
        if !record.ignition_endpoint_token.is_empty() {
            fields.insert("ignition_endpoint_token_set".into(), Value::from(true));
        }
        if let Some(text) = record.fencing.as_ref().and_then(fencing_text) {
            fields.insert("fencing_credentials".into(), Value::from(text));
        }
    }
    document
}

/// Without the password: agents and watchers see hosts too, and so do archives of logs.
fn fencing_text(fencing: &FencingCredentials) -> Option<String> {
    serde_json::to_string(&FencingCredentials { password: Secret::default(), ..fencing.clone() }).ok()
}

/// The domain of owners, who have no addresses here.
pub(crate) const NO_DOMAIN: &str = "Unknown";

/// A cluster, with or without its hosts.
pub(crate) fn cluster_document(service: &Service, model: &Model, record: &ClusterRecord, with_hosts: bool) -> Value {
    let hosts = model.hosts_of_cluster(record.cluster.id);
    let mut cluster = record.cluster.clone();
    cluster.status = record.state.to_string();
    if cluster.machine_networks.is_empty() {
        let own = |network: &Cidr| MachineNetwork { cidr: network.to_string(), cluster_id: Some(cluster.id) };
        cluster.machine_networks = machine_networks::find(record, &hosts).iter().map(own).collect();
    }
    let mut document = api::json::to_value(cluster).unwrap_or_default();
    let Value::Object(fields) = &mut document else { return document };
    let list = if with_hosts { hosts.iter().map(|host| host_document(service, host)).collect() } else { Vec::new() };
    fields.insert("hosts".into(), Value::Array(list));
    let manifests = manifest_files::list(service.store.directory(), record.cluster.id);
    let has_manifests = manifests.is_ok_and(|names| !names.is_empty());
    // Published fields that this service has only one answer to.
    let fixed = json!({
        "disk_encryption": {"enable_on": "none", "mode": "tpmv2"},
        "email_domain": NO_DOMAIN,
        "ignition_endpoint": {},
        "load_balancer": {"type": "cluster-managed"},
        "operator_bundles": operators::chosen_bundles(record.course.olm_operators()),
        "schedulable_masters": false,
        "feature_usage": features::usage::text(record, &hosts, model.infra_envs_of_cluster(record.cluster.id), has_manifests),
    });
    if let Value::Object(fixed) = fixed {
        fields.extend(fixed);
    }
    fields.extend(record.settings.iter().map(|(name, value)| (name.clone(), value.clone())));
    let forced = generated_manifests::are_masters_forced_schedulable(&hosts);
    fields.insert("schedulable_masters_forced_true".into(), Value::from(forced));
    fields.insert("host_networks".into(), host_networks(&hosts));
    fields.insert("last-installation-preparation".into(), preparation(&record.course, hosts.is_empty()));
    add_course(fields, record);
    add_counts(fields, &hosts);
    document
}

fn add_counts(fields: &mut Map<String, Value>, hosts: &[Arc<HostRecord>]) {
    let ready = hosts.iter().filter(|host| {
        matches!(host.state, HostState::Known | HostState::PreparingForInstallation | HostState::PreparingSuccessful)
    });
    for (name, count) in
        [("ready_host_count", ready.count()), ("enabled_host_count", hosts.len()), ("total_host_count", hosts.len())]
    {
        if count > 0 {
            fields.insert(name.into(), Value::from(count));
        }
    }
}

fn preparation(course: &Course, without_hosts: bool) -> Value {
    let reason = match course.preparation {
        _ if without_hosts => return json!({}),
        Preparation::NotStarted => "Installation preparation not performed",
        Preparation::Success => "Installation preparation successful",
        Preparation::Failed => &course.preparation_reason,
    };
    json!({"status": course.preparation, "reason": reason})
}

fn add_course(fields: &mut Map<String, Value>, record: &ClusterRecord) {
    let course = &record.course;
    let operators: Vec<Value> = course.operators.iter().map(|operator| operator.document(record.cluster.id)).collect();
    fields.insert("monitored_operators".into(), Value::Array(operators));
    fields.insert("org_soft_timeouts_enabled".into(), Value::from(course.soft_timeouts));
    if let Some(id) = course.openshift_cluster_id {
        fields.insert("openshift_cluster_id".into(), Value::from(id.to_string()));
    }
    if !course.api_vip_dns_name.is_empty() {
        fields.insert("api_vip_dns_name".into(), Value::from(course.api_vip_dns_name.as_str()));
    }
    if course.imported {
        fields.insert("imported".into(), Value::from(true));
    }
}

fn host_networks(hosts: &[Arc<HostRecord>]) -> Value {
    let mut networks: BTreeMap<Cidr, Vec<HostId>> = BTreeMap::new();
    for record in hosts {
        let interfaces = record.facts().inventory.iter().flat_map(|inventory| &inventory.interfaces);
        let texts = interfaces.flat_map(|nic| nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses));
        for cidr in texts.filter_map(|text| text.parse::<Cidr>().ok()).filter(|cidr| !cidr.address.is_loopback()) {
            let ids = networks.entry(cidr.network()).or_default();
            if ids.last() != Some(&record.host.id) {
                ids.push(record.host.id);
            }
        }
    }
    let list = networks.iter().map(|(cidr, host_ids)| json!({"cidr": cidr.to_string(), "host_ids": host_ids}));
    Value::Array(list.collect())
}
