//! What users set on a cluster after it is made (docs/compatibility.md#user-endpoints), and what a page of theirs keeps with it.

use super::new_cluster::{check_control_plane, check_vip_families, is_user_balanced, merged_encryption};
use super::{cluster_networks, clusters::answer, models, operators, support_levels};
use crate::check::cluster::NETWORK_TYPES;
use crate::events::{self, kinds};
use crate::find::find_cluster;
use crate::http::body::{BodyShape, flag, form, integer, length, list, object, one_of, shape, text};
use crate::http::{Answer, Call, Refusal};
use crate::ignition_endpoint;
use crate::mirrors::Mirrors;
use crate::model::{ClusterRecord, HostRecord};
use crate::pass;
use crate::rules::{self, networks::Networks, networks::Stacks, platform, vips::Vips};
use crate::service::Service;
use api::{Cluster, ClusterId, ClusterNetwork, ClusterUpdateParams, MachineNetwork, Platform, Proxy};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

/// Longest text a page keeps with a cluster, bytes.
const MAX_UI_SETTINGS_BYTES: usize = 64 << 10;

pub(crate) const BODY: BodyShape = shape(
    "clusterUpdateParams",
    "V2ClusterUpdateParams",
    &[
        text("additional_ntp_source").nullable(),
        text("api_vip_dns_name").nullable(),
        list("api_vips", &models::API_VIP).nullable(),
        text("base_dns_domain").nullable(),
        form("cluster_network_cidr", &models::NETWORK).nullable(),
        integer("cluster_network_host_prefix", 1, 128).nullable(),
        list("cluster_networks", &models::CLUSTER_NETWORK).nullable(),
        integer("control_plane_count", i64::MIN, i64::MAX).nullable(),
        object("disk_encryption", &models::DISK_ENCRYPTION),
        text("http_proxy").nullable(),
        text("https_proxy").nullable(),
        one_of("hyperthreading", models::ROLES).nullable(),
        object("ignition_endpoint", &models::IGNITION_ENDPOINT).undescribed(),
        list("ingress_vips", &models::INGRESS_VIP).nullable(),
        object("load_balancer", &models::LOAD_BALANCER),
        form("machine_network_cidr", &models::NETWORK).nullable(),
        list("machine_networks", &models::MACHINE_NETWORK).nullable(),
        object("mirror_registry_configuration", &models::MIRROR_REGISTRY),
        length("name", 1, 54).nullable(),
        one_of("network_type", &NETWORK_TYPES).nullable(),
        text("no_proxy").nullable(),
        text("ntp_sources").nullable(),
        list("olm_operators", &models::OPERATOR).undescribed(),
        list("operator_bundles", &models::BUNDLE).undescribed(),
        text("os_stream").nullable(),
        object("platform", &models::PLATFORM),
        text("pull_secret").nullable(),
        flag("schedulable_masters").undescribed(),
        form("service_network_cidr", &models::NETWORK).nullable(),
        list("service_networks", &models::SERVICE_NETWORK).nullable(),
        text("ssh_public_key").nullable(),
        text("tags").nullable(),
        flag("user_managed_networking").nullable(),
        flag("vip_dhcp_allocation").undescribed(),
    ],
);

/// PATCH /v2/clusters/{id}.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let params: ClusterUpdateParams = call.json(&BODY)?;
    service.change(call.request_id(), |change| {
        let before = find_cluster(change.model(), id)?;
        let mut record = ClusterRecord::clone(&before);
        let hosts = change.model().hosts_of_cluster(id);
        let proxy = proxy_settings(&record);
        apply(&mut record, &hosts, params)?;
        support_levels::check_cluster(change.model(), &record)?;
        record.cluster.updated_at = change.now;
        if proxy_settings(&record) != proxy {
            events::cluster(change, &record, kinds::PROXY_SETTINGS_CHANGED, Value::Null);
        }
        if !service.rules().with_control_plane {
            events::settings_without_effect(change, Some(&before), &record);
        }
        change.put_cluster(record);
        pass::settle_cluster(&service.rules(), change, id);
        Ok(())
    })?;
    answer(service, id, StatusCode::CREATED)
}

/// A text setting kept with the cluster; none for an empty one.
fn setting_text(record: &ClusterRecord, name: &str) -> Option<String> {
    record.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn proxy_settings(record: &ClusterRecord) -> Proxy {
    let text = |name| setting_text(record, name);
    Proxy { http_proxy: text("http_proxy"), https_proxy: text("https_proxy"), no_proxy: text("no_proxy") }
}

/// The addresses of virtual ones, as they are written.
pub(super) fn ips(vips: Option<&[Value]>) -> Vec<String> {
    let text = |vip: &Value| vip.get("ip").and_then(Value::as_str).unwrap_or_default().to_owned();
    vips.unwrap_or_default().iter().map(text).collect()
}

/// Virtual addresses as a cluster has them.
pub(super) fn owned_vips(vips: Option<&[Value]>, id: ClusterId) -> Vec<Value> {
    let owned = |ip: String| {
        let ip = ip.parse::<IpAddr>().map_or(ip, |address| address.to_string());
        json!({"cluster_id": id, "ip": ip})
    };
    ips(vips).into_iter().map(owned).collect()
}

/// Networks and virtual addresses of a cluster, or of a request; an empty list says nothing.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    pub(crate) networks: Networks<'a>,
    pub(crate) api: &'a [String],
    pub(crate) ingress: &'a [String],
}

impl<'a> Lists<'a> {
    /// The first of each kind.
    pub(crate) fn firsts(&self) -> rules::networks::Firsts<'a> {
        let first = |networks: &'a [MachineNetwork]| networks.first().map(|network| network.cidr.as_str());
        [
            ("machine_networks", first(self.networks.machine)),
            ("api_vips", self.api.first().map(String::as_str)),
            ("ingress_vips", self.ingress.first().map(String::as_str)),
            ("service_networks", first(self.networks.service)),
            ("cluster_networks", self.networks.cluster.first().map(|network| network.cidr.as_str())),
        ]
    }
}

/// Sets what is given, in the order clients know refusals in; what isn't stays.
pub(crate) fn apply(
    record: &mut ClusterRecord,
    hosts: &[Arc<HostRecord>],
    mut params: ClusterUpdateParams,
) -> Result<(), Refusal> {
    take_single_networks(record, &mut params);
    let primary = primary_after(record, &params).map_err(Refusal::invalid)?;
    check_given(record, &params).map_err(Refusal::invalid)?;
    rules::proxy::check(
        params.http_proxy.as_deref(),
        params.https_proxy.as_deref(),
        params.no_proxy.as_deref(),
        Some(&record.cluster.openshift_version),
    )
    .map_err(Refusal::invalid)?;
    if !record.state.accepts_hosts() {
        return Err(Refusal::conflict(format!(
            "Cluster {} is in {} state, cluster can be updated only in one of [insufficient ready pending-for-input adding-hosts]",
            record.cluster.id, record.state
        )));
    }
    set_platform(record, &mut params).map_err(Refusal::invalid)?;
    check_known_cluster(record, &params).map_err(Refusal::invalid)?;
    set_texts(record, &params);
    cluster_networks::set(record, hosts, &mut params)?;
    set_settings(record, &params)?;
    if let Some(pull_secret) = params.pull_secret {
        record.cluster.pull_secret_set = !pull_secret.is_empty();
        record.pull_secret = pull_secret;
    }
    if let Some(count) = params.control_plane_count {
        record.cluster.control_plane_count = u32::try_from(count).unwrap_or_default();
    }
    record.primary = primary;
    let architecture = record.cluster.cpu_architecture.clone();
    operators::choose(record, &architecture, params.olm_operators, params.operator_bundles)
}

/// Fields of a time when there was one network of each kind.
fn take_single_networks(record: &ClusterRecord, params: &mut ClusterUpdateParams) {
    let one = |cidr: String| vec![MachineNetwork { cidr, cluster_id: None }];
    if let Some(cidr) = params.machine_network_cidr.take() {
        params.machine_networks.get_or_insert_with(|| one(cidr));
    }
    if let Some(cidr) = params.service_network_cidr.take() {
        params.service_networks.get_or_insert_with(|| one(cidr));
    }
    let (cidr, host_prefix) = (params.cluster_network_cidr.take(), params.cluster_network_host_prefix.take());
    if params.cluster_networks.is_none() && (cidr.is_some() || host_prefix.is_some()) {
        let first = record.cluster.cluster_networks.first().cloned().unwrap_or_default();
        params.cluster_networks = Some(vec![ClusterNetwork {
            cidr: cidr.unwrap_or(first.cidr),
            host_prefix: host_prefix.unwrap_or(first.host_prefix),
            cluster_id: None,
        }]);
    }
}

/// The family that comes first afterwards.
fn primary_after(
    record: &ClusterRecord,
    params: &ClusterUpdateParams,
) -> Result<Option<rules::networks::Family>, String> {
    let given = [
        params.machine_networks.is_some(),
        params.service_networks.is_some(),
        params.cluster_networks.is_some(),
        params.api_vips.is_some(),
        params.ingress_vips.is_some(),
    ];
    if !given.contains(&true) {
        return Ok(record.primary);
    }
    let (api, ingress) = (ips(params.api_vips.as_deref()), ips(params.ingress_vips.as_deref()));
    let lists = Lists { networks: given_networks(params), api: &api, ingress: &ingress };
    match record.primary {
        Some(primary) if given.contains(&false) => {
            rules::networks::keeps_primary(&lists.firsts(), primary)?;
            Ok(Some(primary))
        }
        _ if lists.networks.are_dual_stack() => rules::networks::primary_family(&lists.firsts()),
        _ => Ok(None),
    }
}

fn given_networks(params: &ClusterUpdateParams) -> Networks<'_> {
    Networks {
        machine: params.machine_networks.as_deref().unwrap_or_default(),
        service: params.service_networks.as_deref().unwrap_or_default(),
        cluster: params.cluster_networks.as_deref().unwrap_or_default(),
    }
}

/// What the request says, by itself and with what the cluster has.
fn check_given(record: &ClusterRecord, params: &ClusterUpdateParams) -> Result<(), String> {
    let own = &record.cluster;
    if let Some(count) = params.control_plane_count.filter(|_| !record.day2()) {
        check_control_plane(&own.high_availability_mode, count, &own.openshift_version)?;
    }
    if let Some(pull_secret) = params.pull_secret.as_ref().filter(|secret| !secret.is_empty()) {
        rules::text::pull_secret(pull_secret.expose())?;
    }
    if let Some(name) = params.name.as_ref().filter(|name| !name.is_empty()) {
        let platform = params.platform.as_ref().or(own.platform.as_ref());
        rules::text::cluster_name(name, platform.map_or("", |platform| platform.kind.as_str()))?;
    }
    given_networks(params).check_cidrs()?;
    check_vips(record, params)?;
    if let Some(key) = params.ssh_public_key.as_deref().filter(|key| !key.is_empty()) {
        rules::ssh_key::check(key.trim())?;
    }
    params.ignition_endpoint.as_ref().map_or(Ok(None), ignition_endpoint::checked)?;
    let mirrors = params.mirror_registry_configuration.as_ref();
    mirrors.map_or(Ok(None), Mirrors::own).map_err(|error| error.to_string())?;
    given_networks(params).check_stacks(&Stacks {
        was_dual: Networks::from_cluster(own).are_dual_stack(),
        user_balanced: user_balanced_after(record, params),
        openshift_version: &own.openshift_version,
    })
}

fn user_balanced_after(record: &ClusterRecord, params: &ClusterUpdateParams) -> bool {
    params.load_balancer.as_ref().map_or_else(|| record.user_balanced(), |balancer| is_user_balanced(Some(balancer)))
}

/// The networks that are given, and the cluster's where none are.
pub(super) fn networks_after<'a>(cluster: &'a Cluster, params: &'a ClusterUpdateParams) -> Networks<'a> {
    Networks {
        machine: params.machine_networks.as_deref().unwrap_or(&cluster.machine_networks),
        service: params.service_networks.as_deref().unwrap_or(&cluster.service_networks),
        cluster: params.cluster_networks.as_deref().unwrap_or(&cluster.cluster_networks),
    }
}

fn check_vips(record: &ClusterRecord, params: &ClusterUpdateParams) -> Result<(), String> {
    let own = &record.cluster;
    let given = [&params.api_vips, &params.ingress_vips].map(|vips| vips.as_ref().map_or(0, Vec::len));
    check_vip_families(given, &own.openshift_version)?;
    let switches = params.vip_dhcp_allocation.is_some_and(|by_dhcp| by_dhcp != own.vip_dhcp_allocation);
    // Addresses of one way are no good for the other.
    let fresh = switches && params.api_vips.is_none() && params.ingress_vips.is_none();
    let after = |given: &Option<Vec<Value>>, own: &[Value]| match given {
        Some(given) => ips(Some(given)),
        None if fresh => Vec::new(),
        None => ips(Some(own)),
    };
    let (api, ingress) = (after(&params.api_vips, &own.api_vips), after(&params.ingress_vips, &own.ingress_vips));
    if params.user_managed_networking == Some(true) {
        check_user_managed(record, params)?;
    }
    let vips = Vips {
        api: &api,
        ingress: &ingress,
        networks: networks_after(own, params),
        user_managed: params.user_managed_networking == Some(true),
        by_dhcp: params.vip_dhcp_allocation == Some(true),
        user_balanced: user_balanced_after(record, params),
        openshift_version: &own.openshift_version,
    };
    vips.check()
}

/// Management by the user is what the request turns to: the reason names it first.
fn check_user_managed(record: &ClusterRecord, params: &ClusterUpdateParams) -> Result<(), String> {
    let own = &record.cluster;
    let by_dhcp = params.vip_dhcp_allocation.unwrap_or(own.vip_dhcp_allocation);
    let (api, ingress) = match own.vip_dhcp_allocation {
        true => (Vec::new(), Vec::new()),
        false => (
            ips(Some(params.api_vips.as_deref().unwrap_or(&own.api_vips))),
            ips(Some(params.ingress_vips.as_deref().unwrap_or(&own.ingress_vips))),
        ),
    };
    rules::vips::none_with_user_managed(&api, &ingress, by_dhcp).map_err(|why| {
        why.split_once(" cannot be set with ")
            .map_or(why.clone(), |(what, with)| format!("{with} cannot be set with {what}"))
    })
}

fn set_platform(record: &mut ClusterRecord, params: &mut ClusterUpdateParams) -> Result<(), String> {
    let own = &mut record.cluster;
    let current_platform = own.platform.clone().unwrap_or_else(|| platform::with_kind(platform::BAREMETAL));
    let current = platform::Current {
        platform: &current_platform,
        user_managed: own.user_managed_networking,
        control_plane_count: own.control_plane_count.into(),
        can_manage_networking: cluster_networks::can_manage_networking(own),
    };
    let (platform, user_managed) =
        platform::for_update(params.platform.take(), params.user_managed_networking, &current)?;
    (params.platform, params.user_managed_networking) = (platform, user_managed);
    Ok(())
}

/// Rules that depend on the cluster's present state.
fn check_known_cluster(record: &ClusterRecord, params: &ClusterUpdateParams) -> Result<(), String> {
    let own = &record.cluster;
    if own.control_plane_count == 1 {
        if params.user_managed_networking == Some(false) {
            return Err("disabling UserManagedNetworking is not allowed in single node mode".to_owned());
        }
        if params.network_type.as_deref() == Some("OpenShiftSDN") {
            return Err("OpenShiftSDN network type is not allowed in single node mode".to_owned());
        }
    }
    let given = |text: &Option<String>, own: &str| text.clone().filter(|text| !text.is_empty()).unwrap_or(own.into());
    let (name, base) = (given(&params.name, &own.name), given(&params.base_dns_domain, &own.base_dns_domain));
    if !base.is_empty() {
        rules::text::cluster_domain(&name, &base)?;
    }
    params.disk_encryption.as_ref().map_or(Ok(()), rules::encryption::check)?;
    if let Some(platform) = &params.platform {
        platform::check_single_node(own.control_plane_count.into(), platform)?;
    }
    if params.disk_encryption.is_some() && record.course.imported {
        return Err(format!(
            "cannot update cluster {}, it is not permitted to change disk encryption settings for an imported cluster",
            own.id
        ));
    }
    match &params.api_vip_dns_name {
        Some(name) if !record.day2() => Err(format!("Can't update api vip to {name} for day1 cluster {}", own.id)),
        _ => Ok(()),
    }
}

fn set_texts(record: &mut ClusterRecord, params: &ClusterUpdateParams) {
    let own = &mut record.cluster;
    let key = params.ssh_public_key.as_ref().map(|key| key.trim().to_owned());
    let texts = [
        (&mut own.name, params.name.clone()),
        (&mut own.base_dns_domain, params.base_dns_domain.clone()),
        (&mut own.ssh_public_key, key),
        (&mut own.hyperthreading, params.hyperthreading.clone()),
        (&mut own.network_type, params.network_type.clone()),
    ];
    for (own, given) in texts {
        if let Some(given) = given {
            *own = given;
        }
    }
    if let Some(platform) = &params.platform {
        own.platform = Some(Platform::clone(platform));
    }
    if let Some(mirrors) = &params.mirror_registry_configuration {
        own.mirror_registry_configuration = mirrors.clone();
    }
    if let Some(name) = &params.api_vip_dns_name {
        record.course.api_vip_dns_name = name.clone();
    }
}

/// Settings that are shown again but change nothing here; an empty text removes one.
fn set_settings(record: &mut ClusterRecord, params: &ClusterUpdateParams) -> Result<(), Refusal> {
    let after = |given: &Option<String>, name| given.clone().or_else(|| setting_text(record, name)).unwrap_or_default();
    let additional = after(&params.additional_ntp_source, "additional_ntp_source");
    let only = after(&params.ntp_sources, "ntp_sources");
    if !additional.is_empty() && !only.is_empty() {
        return Err(Refusal::invalid("ntp_sources and additional_ntp_source are mutually exclusive"));
    }
    for list in [&params.additional_ntp_source, &params.ntp_sources].into_iter().flatten() {
        if !list.is_empty() {
            rules::text::ntp_sources(list).map_err(Refusal::invalid)?;
        }
    }
    rules::text::tags(params.tags.as_deref().unwrap_or_default()).map_err(Refusal::invalid)?;
    let texts = [
        ("additional_ntp_source", &params.additional_ntp_source),
        ("http_proxy", &params.http_proxy),
        ("https_proxy", &params.https_proxy),
        ("no_proxy", &params.no_proxy),
        ("ntp_sources", &params.ntp_sources),
        ("os_stream", &params.os_stream),
        ("tags", &params.tags),
    ];
    for (name, text) in texts {
        match text.as_deref() {
            None => {}
            Some("") => drop(record.settings.remove(name)),
            Some(text) => drop(record.settings.insert(name.into(), text.into())),
        }
    }
    if let Some(given) = &params.disk_encryption {
        let merged = merged_encryption(record.settings.get("disk_encryption"), given);
        record.settings.insert("disk_encryption".into(), merged);
    }
    if let Some(on) = params.schedulable_masters {
        record.settings.insert("schedulable_masters".into(), on.into());
    }
    if let Some(endpoint) = &params.ignition_endpoint {
        let after = ignition_endpoint::merged(record.settings.get("ignition_endpoint"), endpoint);
        match ignition_endpoint::checked(&after).map_err(Refusal::invalid)? {
            Some(endpoint) => drop(record.settings.insert("ignition_endpoint".into(), endpoint)),
            None => drop(record.settings.remove("ignition_endpoint")),
        }
    }
    Ok(())
}

/// GET /v2/clusters/{id}/ui-settings: what a page keeps, as it was given.
pub(crate) fn ui_settings(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_cluster(&service.store.model(), call.cluster_id()?)?;
    Ok(Answer::json(StatusCode::OK, &record.ui_settings))
}

/// PUT /v2/clusters/{id}/ui-settings.
pub(crate) fn set_ui_settings(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let text: String = call.json_text("uiSettings")?;
    if text.len() > MAX_UI_SETTINGS_BYTES {
        return Err(Refusal::invalid(format!("ui-settings are longer than {MAX_UI_SETTINGS_BYTES} bytes")));
    }
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        record.ui_settings = text;
        let answer = Answer::json(StatusCode::OK, &record.ui_settings);
        change.put_cluster(record);
        Ok(answer)
    })
}
