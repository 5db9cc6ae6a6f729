//! Clusters: made, shown, installed, cancelled, reset, deleted.

use super::cluster_settings::{check_load_balancer, checked_platform};
use super::infra_env_settings::check_proxy;
use super::{find_cluster, shapes};
use crate::check::{
    cluster::{DEFAULT_HOST_PREFIX_V4, DEFAULT_HOST_PREFIX_V6},
    host::valid_hostname,
};
use crate::events::{self, Kind, kinds};
use crate::http::{Answer, Call, Refusal};
use crate::ignition_endpoint;
use crate::logs;
use crate::manifest_files;
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::pass;
use crate::roles;
use crate::service::Service;
use crate::state::{
    ClusterState,
    cluster::{self as machine, Trigger},
    host::Trigger as HostTrigger,
};
use crate::store::Change;
use crate::view;
use api::{
    Cluster, ClusterCreateParams, ClusterId, ClusterNetwork, HostRole, MachineNetwork, Platform, Proxy, Timestamp,
    is_zero,
};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// POST /v2/clusters.
pub fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    create_as(service, call, ClusterId::random())
}

/// As [`create`], under an id of our own.
pub fn create_as(service: &Service, call: &Call, id: ClusterId) -> Result<Answer, Refusal> {
    let params: ClusterCreateParams = call.json(&shapes::NEW_CLUSTER)?;
    let record = plan(params, id)?;
    let id = record.cluster.id;
    service.change(call.request_id(), |change| {
        let mut record = record;
        record.cluster.created_at = change.now;
        record.cluster.status_updated_at = change.now;
        record.course.soft_timeouts = service.settings.soft_timeouts;
        let details = json!({"cluster_kind": record.cluster.kind});
        events::cluster(change, &record, kinds::CLUSTER_REGISTRATION_SUCCEEDED, details);
        change.put_cluster(record);
        pass::settle_cluster(service, change, id);
        Ok(())
    })?;
    shown(service, id, StatusCode::CREATED)
}

pub(super) fn shown(service: &Service, id: ClusterId, status: StatusCode) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, id)?;
    Ok(Answer::json(status, &view::cluster_document(service, &model, &record, true)))
}

/// The record that parameters ask for, or why not.
fn plan(params: ClusterCreateParams, id: ClusterId) -> Result<ClusterRecord, Refusal> {
    if !valid_hostname(&params.name) {
        return Err(Refusal::invalid(format!("cluster name '{}' is not a DNS name", params.name)));
    }
    check_pull_secret(params.pull_secret.expose())?;
    check_proxy(&Proxy {
        http_proxy: params.http_proxy.clone(),
        https_proxy: params.https_proxy.clone(),
        no_proxy: None,
    })?;
    params.load_balancer.as_ref().map(check_load_balancer).transpose()?;
    let endpoint = params.ignition_endpoint.as_ref().map(ignition_endpoint::checked).transpose();
    let endpoint = endpoint.map_err(Refusal::invalid)?.flatten();
    check_encryption(params.disk_encryption.as_ref())?;
    check_vips(params.api_vips.as_deref().unwrap_or_default(), params.ingress_vips.as_deref().unwrap_or_default())?;
    if params.schedulable_masters == Some(true) {
        return Err(Refusal::not_implemented("field schedulable_masters"));
    }
    let single = params.high_availability_mode.as_deref() == Some("None");
    let masters = params.control_plane_count.unwrap_or(if single { 1 } else { 3 });
    if !(1..=5).contains(&masters) || single && masters != 1 {
        return Err(Refusal::invalid(format!(
            "control_plane_count {masters} does not fit: it is 1 with high_availability_mode None, else 1 to 5"
        )));
    }
    let user_managed = params.user_managed_networking.unwrap_or(masters == 1);
    let by_dhcp = params.vip_dhcp_allocation == Some(true);
    let given = params.api_vips.iter().chain(&params.ingress_vips).any(|vips| !vips.is_empty());
    check_dhcp(by_dhcp, user_managed, given)?;
    let platform = params.platform.clone().map(checked_platform).transpose()?;
    let platform = platform.unwrap_or_else(|| Platform {
        external: json!({}),
        kind: if user_managed { "none" } else { "baremetal" }.to_owned(),
    });
    let cluster_cidr = params.cluster_network_cidr.clone().unwrap_or_else(|| "10.128.0.0/14".into());
    let host_prefix = params.cluster_network_host_prefix.unwrap_or_default();
    let service_cidr = params.service_network_cidr.clone().unwrap_or_else(|| "172.30.0.0/16".into());
    let cluster_networks = params
        .cluster_networks
        .clone()
        .unwrap_or_else(|| vec![ClusterNetwork { cidr: cluster_cidr, cluster_id: None, host_prefix }]);
    let service_networks = params
        .service_networks
        .clone()
        .unwrap_or_else(|| vec![MachineNetwork { cidr: service_cidr, cluster_id: None }]);
    let owned = |networks: Vec<MachineNetwork>| -> Vec<MachineNetwork> {
        networks.into_iter().map(|network| MachineNetwork { cluster_id: Some(id), ..network }).collect()
    };
    let machine_networks = params.machine_networks.clone().unwrap_or_default();
    let cluster_networks = with_prefixes(cluster_networks);
    let balanced = params.load_balancer.as_ref().is_some_and(|balancer| balancer["type"] == "user-managed");
    check_networks(&cluster_networks, &service_networks, &machine_networks, least_machines(masters == 1, balanced))?;
    let cluster = Cluster {
        api_vips: params.api_vips.clone().unwrap_or_default(),
        base_dns_domain: params.base_dns_domain.clone().unwrap_or_default(),
        cluster_networks: cluster_networks
            .into_iter()
            .map(|network| ClusterNetwork { cluster_id: Some(id), ..network })
            .collect(),
        control_plane_count: masters,
        cpu_architecture: params.cpu_architecture.clone().unwrap_or_else(|| "x86_64".into()),
        high_availability_mode: if masters == 1 { "None" } else { "Full" }.into(),
        href: format!("{}/v2/clusters/{id}", api::API_PATH),
        hyperthreading: params.hyperthreading.clone().unwrap_or_else(|| "all".into()),
        id,
        image_info: json!({"created_at": Timestamp::ZERO, "expires_at": Timestamp::ZERO}),
        ingress_vips: params.ingress_vips.clone().unwrap_or_default(),
        kind: "Cluster".into(),
        machine_networks: owned(machine_networks),
        name: params.name.clone(),
        network_type: params.network_type.clone().unwrap_or_else(|| "OVNKubernetes".into()),
        openshift_version: params.openshift_version.clone(),
        platform: Some(platform),
        pull_secret_set: !params.pull_secret.is_empty(),
        service_networks: owned(service_networks),
        ssh_public_key: params.ssh_public_key.clone().unwrap_or_default(),
        status_info: machine::info::INSUFFICIENT.into(),
        user_managed_networking: user_managed,
        user_name: "admin".into(),
        vip_dhcp_allocation: by_dhcp,
        ..Cluster::default()
    };
    let mut kept = kept(&params);
    kept.extend(endpoint.map(|endpoint| ("ignition_endpoint".to_owned(), endpoint)));
    Ok(ClusterRecord { kept, ..ClusterRecord::new(ClusterState::Insufficient, cluster, params.pull_secret) })
}

/// Networks without a host prefix get the default of their family (§5.4).
pub(super) fn with_prefixes(mut networks: Vec<ClusterNetwork>) -> Vec<ClusterNetwork> {
    for network in networks.iter_mut().filter(|network| network.host_prefix == 0) {
        let v6 = network.cidr.contains(':');
        network.host_prefix = if v6 { DEFAULT_HOST_PREFIX_V6 } else { DEFAULT_HOST_PREFIX_V4 };
    }
    networks
}

/// Bits of addresses that the machines' network has at least.
pub(super) fn least_machines(single_node: bool, balanced: bool) -> u8 {
    match (single_node, balanced) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 4,
    }
}

/// Networks, not addresses in them, and large enough (§5.4).
pub(super) fn check_networks(
    pods: &[ClusterNetwork],
    services: &[MachineNetwork],
    machines: &[MachineNetwork],
    machine_bits: u8,
) -> Result<(), Refusal> {
    const BITS: u8 = 7;
    let pods = pods.iter().map(|network| ("cluster", &network.cidr, network.host_prefix, BITS));
    let services = services.iter().map(|network| ("service", &network.cidr, 1, BITS));
    let machines = machines.iter().map(|network| ("machine", &network.cidr, 1, machine_bits));
    for (kind, cidr, host_prefix, bits) in pods.chain(services).chain(machines) {
        let parsed: Cidr = cidr.parse().map_err(Refusal::invalid)?;
        if parsed.network() != parsed {
            return Err(Refusal::invalid(format!("{cidr} has host bits: did you mean {}?", parsed.network())));
        }
        if parsed.address.is_unspecified() {
            return Err(Refusal::invalid(format!("{kind} network {cidr} begins at the unspecified address")));
        }
        let own_bits = if parsed.address.is_ipv4() { 32 } else { 128 } - parsed.prefix;
        if own_bits < bits {
            let least = 1_u64 << bits;
            return Err(Refusal::invalid(format!("{kind} network {cidr} is too small: it needs {least} addresses")));
        }
        if !(1..=128).contains(&host_prefix) {
            return Err(Refusal::bad_request(format!("host_prefix in body should be 1 to 128: {host_prefix}")));
        }
    }
    Ok(())
}

/// Settings that are shown again but change nothing here.
fn kept(params: &ClusterCreateParams) -> BTreeMap<String, Value> {
    let text = |text: &Option<String>| text.clone().filter(|text| !is_zero(text)).map(Value::from);
    let all = [
        ("additional_ntp_source", text(&params.additional_ntp_source)),
        ("http_proxy", text(&params.http_proxy)),
        ("https_proxy", text(&params.https_proxy)),
        ("no_proxy", text(&params.no_proxy)),
        ("ntp_sources", text(&params.ntp_sources)),
        ("ocp_release_image", text(&params.ocp_release_image)),
        ("tags", text(&params.tags)),
        ("load_balancer", params.load_balancer.clone()),
        ("schedulable_masters", params.schedulable_masters.map(Value::from)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// It must be JSON with `auths`; its text goes into no message.
pub fn check_pull_secret(text: &str) -> Result<(), Refusal> {
    let parsed: Result<Value, _> = serde_json::from_str(text);
    match parsed.ok().and_then(|value| value.get("auths").map(Value::is_object)) {
        Some(true) => Ok(()),
        _ => Err(Refusal::invalid("pull secret validation failed: it must be JSON with an object 'auths'")),
    }
}

/// Virtual addresses come from a DHCP server, from the user, or are the user's own matter.
pub(super) fn check_dhcp(by_dhcp: bool, user_managed: bool, given: bool) -> Result<(), Refusal> {
    match (by_dhcp, user_managed, given) {
        (true, true, _) => Err(Refusal::invalid("VIP DHCP Allocation cannot be enabled with User Managed Networking")),
        (true, _, true) => Err(Refusal::invalid(
            "Setting API or Ingress VIPs is forbidden when cluster is in vip-dhcp-allocation mode",
        )),
        _ => Ok(()),
    }
}

/// None can be set up.
pub(super) fn check_encryption(setting: Option<&Value>) -> Result<(), Refusal> {
    let on = setting.and_then(|setting| setting.get("enable_on")).and_then(Value::as_str);
    // Kept and not done, it would leave a disk in clear that somebody believes encrypted.
    match on {
        None | Some("none" | "") => Ok(()),
        Some(_) => Err(Refusal::not_implemented("disk_encryption")),
    }
}

/// One address of each kind, or one per address family.
pub(super) fn check_vips(api: &[Value], ingress: &[Value]) -> Result<(), Refusal> {
    if api.len() > 2 || api.len() != ingress.len() {
        return Err(Refusal::invalid(format!(
            "there are {} api_vips and {} ingress_vips: give as many of one as of the other, at most 2",
            api.len(),
            ingress.len()
        )));
    }
    for (name, vip) in api.iter().map(|vip| ("api_vips", vip)).chain(ingress.iter().map(|vip| ("ingress_vips", vip))) {
        let ip = vip.get("ip").and_then(Value::as_str);
        if ip.and_then(|ip| ip.parse::<IpAddr>().ok()).is_none() {
            let ip = ip.unwrap_or_default();
            return Err(Refusal::invalid(format!("{name} needs objects with an IP address as 'ip': '{ip}' is none")));
        }
    }
    Ok(())
}

/// GET /v2/clusters.
pub fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let with_hosts = call.query_flag("with_hosts")?;
    let owner = call.query("owner");
    // Identifiers of installed clusters and of subscriptions: none is known here, so none matches.
    let known = ["openshift_cluster_id", "ams_subscription_ids"].iter().all(|name| call.query(name).is_none());
    call.query_uuid("openshift_cluster_id")?;
    let model = service.store.model();
    let wanted = model.clusters.values().filter(|record| {
        known
            && owner.is_none_or(|owner| record.cluster.user_name == owner)
            && call.caller.sees_cluster(&model, record.cluster.id)
    });
    let all: Vec<Value> = wanted.map(|record| view::cluster_document(service, &model, record, with_hosts)).collect();
    Ok(Answer::json(StatusCode::OK, &all))
}

/// GET /v2/clusters/{id}.
pub fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let exclude = call.query_flag("exclude-hosts")?;
    let model = service.store.model();
    let record = find_cluster(&model, id)?;
    Ok(Answer::json(StatusCode::OK, &view::cluster_document(service, &model, &record, !exclude)))
}

/// GET /v2/clusters/{id}/hosts.
pub fn hosts(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let (inventory, connectivity) = (call.query_flag("with-inventory")?, call.query_flag("with-connectivity")?);
    let model = service.store.model();
    find_cluster(&model, id)?;
    let wanted = |record: &&Arc<HostRecord>| {
        call.query("role").is_none_or(|role| record.host.role.as_str() == role)
            && call.query("status").is_none_or(|status| record.state.as_str() == status)
    };
    let hosts = model.hosts_of_cluster(id);
    let documents = hosts.iter().filter(wanted).map(|record| {
        let mut document = view::host_document(service, record);
        if let Value::Object(fields) = &mut document {
            let hidden = [("inventory", !inventory), ("connectivity", !connectivity), ("free_addresses", true)];
            for (name, _) in hidden.iter().filter(|(_, hide)| *hide) {
                fields.remove(*name);
            }
        }
        document
    });
    Ok(Answer::json(StatusCode::OK, &documents.collect::<Vec<_>>()))
}

/// DELETE /v2/clusters/{id}: its hosts go with it, and all logs.
pub fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    service.change(call.request_id(), |change| {
        let record = find_cluster(change.model(), id)?;
        if record.state == ClusterState::Installing {
            return Err(Refusal::conflict(format!("cluster {id} is being installed: cancel the installation first")));
        }
        events::cluster(change, &record, kinds::CLUSTER_DEREGISTERED, Value::Null);
        remove(service, change, &record);
        Ok::<_, Refusal>(())
    })?;
    forget(service, id);
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// Takes a cluster out, with the hosts of its infra-envs; its files are for [`forget`].
pub fn remove(service: &Service, change: &mut Change, record: &ClusterRecord) {
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
pub fn forget(service: &Service, id: ClusterId) {
    logs::forget(service.store.directory(), id, None);
    manifest_files::forget(service.store.directory(), id);
}

/// A host whose infra-env is the cluster's goes with it; another one goes back to the pool.
fn release(service: &Service, change: &mut Change, cluster: &ClusterRecord, host: &HostRecord) {
    let infra_env = change.model().infra_envs.get(&host.host.infra_env_id);
    let own = infra_env.is_none_or(|record| record.infra_env.cluster_id == Some(cluster.cluster.id));
    let mut record = host.clone();
    if own || pass::trigger(service, change, &mut record, Some(cluster), HostTrigger::Unbind, "").is_err() {
        return change.remove_host(host.key());
    }
    change.put_host(record);
}

/// POST /v2/clusters/{id}/actions/install.
pub fn install(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    service.change(call.request_id(), |change| {
        find_cluster(change.model(), id)?;
        pass::settle_cluster(service, change, id);
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if record.state != ClusterState::Ready {
            let (info, validations) = (&record.cluster.status_info, &record.cluster.validations_info);
            return Err(Refusal::conflict(format!("Cluster is not ready for installation, {info}: {validations}")));
        }
        fix_roles(change, id);
        if service.settings.cluster_files.is_some() {
            roles::elect_bootstrap(change, id);
        }
        act_on(service, change, &mut record, Trigger::Install)?;
        change.put_cluster(record);
        pass::settle_cluster(service, change, id);
        Ok(())
    })?;
    // Those of an earlier attempt.
    logs::forget(service.store.directory(), id, None);
    shown(service, id, StatusCode::ACCEPTED)
}

/// From now on suggested roles are the hosts' own.
fn fix_roles(change: &mut Change, id: ClusterId) {
    for host in change.model().hosts_of_cluster(id) {
        if host.host.role == HostRole::AutoAssign {
            let mut record = HostRecord::clone(&host);
            record.host.role = record.host.suggested_role;
            change.put_host(record);
        }
    }
}

/// POST /v2/clusters/{id}/actions/cancel.
pub fn cancel(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    act(service, call, Trigger::Cancel, kinds::CANCEL_INSTALLATION_FAILED)
}

/// POST /v2/clusters/{id}/actions/reset.
pub fn reset(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    act(service, call, Trigger::Reset, kinds::RESET_INSTALLATION_FAILED)
}

fn act(service: &Service, call: &Call, on: Trigger, failure: Kind) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    find_cluster(&service.store.model(), id)?;
    let done = service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        act_on(service, change, &mut record, on)?;
        change.put_cluster(record);
        pass::settle_cluster(service, change, id);
        Ok(())
    });
    if let Err(Refusal::Application(_, reason)) = &done {
        service.change(call.request_id(), |change| {
            let record = find_cluster(change.model(), id)?;
            events::cluster(change, &record, failure, json!({"error": reason}));
            Ok(())
        })?;
    }
    done?;
    shown(service, id, StatusCode::ACCEPTED)
}

fn act_on(service: &Service, change: &mut Change, record: &mut ClusterRecord, on: Trigger) -> Result<(), Refusal> {
    let id = record.cluster.id;
    let what = match on {
        Trigger::Install => "installed",
        Trigger::Cancel => "cancelled",
        Trigger::Reset => "reset",
        Trigger::AllowAddHosts | Trigger::Refresh => "changed",
    };
    pass::trigger_cluster(service, change, record, on)
        .map_err(|why| Refusal::conflict(format!("cluster {id} can't be {what}: {why}")))
}

#[derive(Deserialize)]
struct LogsProgress {
    logs_state: String,
}

/// PUT /v2/clusters/{id}/logs-progress.
pub fn logs_progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let LogsProgress { logs_state } = call.json(&shapes::LOGS_PROGRESS)?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if logs_state == "requested" {
            record.cluster.controller_logs_started_at = change.now;
        }
        record.kept.insert("logs_info".into(), Value::from(logs_state));
        change.put_cluster(record);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}
