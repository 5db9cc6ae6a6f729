//! POST /v2/clusters: what a new cluster is, or why there can be none of that kind.

use super::cluster_settings::{Lists, ips, owned_vips};
use super::{clusters::answer, models, operators, support_levels};
use crate::check::cluster::{DEFAULT_HOST_PREFIX_V4, DEFAULT_HOST_PREFIX_V6, NETWORK_TYPES};
use crate::events::{self, kinds};
use crate::http::body::{BodyShape, flag, form, integer, length, list, object, one_of, shape, text};
use crate::http::{Answer, Call, Refusal};
use crate::ignition_endpoint;
use crate::mirrors::Mirrors;
use crate::model::ClusterRecord;
use crate::releases::{Catalogue, DEFAULT_ARCHITECTURE, MULTI, normal_architecture, version};
use crate::rules::{self, networks::Networks, platform, vips::Vips};
use crate::service::Service;
use crate::state::{ClusterState, cluster::info};
use api::{
    Cluster, ClusterCreateParams, ClusterId, ClusterNetwork, ClusterProgressInfo, Platform, ServiceNetwork, Timestamp,
    is_zero,
};
use axum::http::StatusCode;
use kernel::order::Gather;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A single node is possible since.
const SINGLE_NODE: &str = "4.8";
/// Platform `nutanix` is possible since.
const NUTANIX: &str = "4.11";
/// Virtual addresses of two families are possible since.
const TWO_FAMILIES_OF_VIPS: &str = "4.12";
/// The default network plug-in since.
const OVN_BY_DEFAULT: &str = "4.12";
/// More than three control-plane hosts are possible since.
const LARGE_CONTROL_PLANE: &str = "4.18";
/// Two control-plane hosts, with an arbiter, are possible since.
const ARBITERS: &str = "4.19";

pub(crate) const BODY: BodyShape = shape(
    "newClusterParams",
    "ClusterCreateParams",
    &[
        text("additional_ntp_source").nullable(),
        list("api_vips", &models::API_VIP),
        text("base_dns_domain"),
        form("cluster_network_cidr", &models::NETWORK),
        integer("cluster_network_host_prefix", 1, 128).or_zero(),
        list("cluster_networks", &models::CLUSTER_NETWORK).nullable(),
        integer("control_plane_count", i64::MIN, i64::MAX).nullable(),
        one_of("cpu_architecture", &support_levels::ARCHITECTURES).or_zero(),
        object("disk_encryption", &models::DISK_ENCRYPTION),
        one_of("high_availability_mode", &["Full", "None"]),
        text("http_proxy").nullable(),
        text("https_proxy").nullable(),
        one_of("hyperthreading", models::ROLES),
        object("ignition_endpoint", &models::IGNITION_ENDPOINT).undescribed(),
        list("ingress_vips", &models::INGRESS_VIP),
        object("load_balancer", &models::LOAD_BALANCER),
        list("machine_networks", &models::MACHINE_NETWORK).nullable(),
        object("mirror_registry_configuration", &models::MIRROR_REGISTRY),
        length("name", 1, 54).required(),
        one_of("network_type", &NETWORK_TYPES).nullable(),
        text("no_proxy").nullable(),
        text("ntp_sources").nullable(),
        text("ocp_release_image"),
        list("olm_operators", &models::OPERATOR).undescribed(),
        text("openshift_version").required(),
        list("operator_bundles", &models::BUNDLE).undescribed(),
        text("os_stream").nullable(),
        object("platform", &models::PLATFORM).nullable(),
        text("pull_secret").required(),
        flag("schedulable_masters").undescribed(),
        form("service_network_cidr", &models::NETWORK),
        list("service_networks", &models::SERVICE_NETWORK).nullable(),
        text("ssh_public_key"),
        text("tags").nullable(),
        flag("user_managed_networking").nullable(),
        flag("vip_dhcp_allocation").undescribed(),
    ],
);

/// POST /v2/clusters.
pub(crate) fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    create_as(service, call, ClusterId::random())
}

/// As [`create`], under an id of our own.
pub(crate) fn create_as(service: &Service, call: &Call, id: ClusterId) -> Result<Answer, Refusal> {
    let params: ClusterCreateParams = call.json(&BODY)?;
    let record = plan(service.catalogue().as_deref(), params, id)?;
    service.change(call.request_id(), |change| {
        let mut record = record;
        record.cluster.created_at = change.now;
        record.cluster.updated_at = change.now;
        record.cluster.status_updated_at = change.now;
        record.course.soft_timeouts = service.settings.soft_timeouts;
        record.course.finalizing_limits = service.settings.finalizing.clone();
        let details = json!({"cluster_kind": record.cluster.kind});
        events::cluster(change, &record, kinds::CLUSTER_REGISTRATION_SUCCEEDED, details);
        if !service.rules().with_control_plane {
            events::settings_without_effect(change, None, &record);
        }
        change.put_cluster(record);
        Ok::<_, Refusal>(())
    })?;
    let answer = answer(service, id, StatusCode::CREATED);
    // It is judged after the answer: clients see it as it was made.
    service.unsettled.note(Some(id));
    answer
}

/// The record that parameters ask for, or why not, in the order clients know.
pub(crate) fn plan(
    catalogue: Option<&Catalogue>,
    mut params: ClusterCreateParams,
    id: ClusterId,
) -> Result<ClusterRecord, Refusal> {
    let (mode, masters) = control_plane(params.high_availability_mode.as_deref(), params.control_plane_count);
    let asked_version = params.openshift_version.clone();
    check_given(&params, mode, masters).map_err(Refusal::invalid)?;
    set_default_networks(&mut params);

    // Infra-envs and releases have the same name for it.
    let asked_architecture = normal_architecture(params.cpu_architecture.as_deref().unwrap_or_default()).to_owned();
    let (platform, user_managed) =
        platform::for_new_cluster(params.platform.take(), params.user_managed_networking, masters, &asked_architecture)
            .map_err(Refusal::invalid)?;
    let endpoint = check_settings(&params, &platform, user_managed, masters)?;
    let mirrors = params.mirror_registry_configuration.take().unwrap_or_default();
    Mirrors::own(&mirrors).map_err(|error| Refusal::invalid(error.to_string()))?;
    let release = release(catalogue, &params, &asked_architecture).map_err(Refusal::invalid)?;
    check_sizes(&params)?;
    rules::text::pull_secret(params.pull_secret.expose())
        .map_err(|why| Refusal::invalid(format!("pull secret for new cluster is invalid: {why}")))?;
    rules::text::cluster_name(&params.name, &platform.kind).map_err(Refusal::invalid)?;
    let base = params.base_dns_domain.clone().unwrap_or_default();
    if !params.name.is_empty() && !base.is_empty() {
        rules::text::cluster_domain(&params.name, &base).map_err(Refusal::invalid)?;
    }
    let ssh_public_key = params.ssh_public_key.clone().unwrap_or_default().trim().to_owned();
    if !ssh_public_key.is_empty() {
        rules::ssh_key::check(&ssh_public_key).map_err(Refusal::invalid)?;
    }

    let default_network = || match version::older(&asked_version, OVN_BY_DEFAULT) && masters != 1 {
        true => "OpenShiftSDN",
        false => "OVNKubernetes",
    };
    let cluster = Cluster {
        api_vips: owned_vips(params.api_vips.as_deref(), id),
        base_dns_domain: base,
        cluster_networks: rules::networks::owned_cluster_networks(params.cluster_networks.take(), id),
        control_plane_count: u32::try_from(masters).unwrap_or_default(),
        cpu_architecture: release.architecture,
        high_availability_mode: mode.to_owned(),
        href: format!("{}/v2/clusters/{id}", api::API_PATH),
        hyperthreading: params.hyperthreading.clone().unwrap_or_else(|| "all".into()),
        id,
        image_info: json!({"created_at": Timestamp::ZERO, "expires_at": Timestamp::ZERO}),
        ingress_vips: owned_vips(params.ingress_vips.as_deref(), id),
        kind: "Cluster".into(),
        machine_networks: rules::networks::owned(params.machine_networks.take(), id),
        mirror_registry_configuration: mirrors,
        name: params.name.clone(),
        network_type: params.network_type.clone().unwrap_or_else(|| default_network().into()),
        openshift_version: release.version,
        platform: Some(platform),
        progress: Some(ClusterProgressInfo::default()),
        pull_secret_set: !params.pull_secret.is_empty(),
        service_networks: rules::networks::owned(params.service_networks.take(), id),
        ssh_public_key,
        status_info: info::INSUFFICIENT.into(),
        user_managed_networking: user_managed.unwrap_or(masters == 1),
        user_name: "admin".into(),
        vip_dhcp_allocation: params.vip_dhcp_allocation == Some(true),
        ..Cluster::default()
    };
    let mut settings = settings(&params);
    settings.extend(release.image.map(|image| ("ocp_release_image".to_owned(), Value::from(image))));
    settings.extend(endpoint.map(|endpoint| ("ignition_endpoint".to_owned(), endpoint)));
    settings.extend(params.load_balancer.take().map(|balancer| ("load_balancer".to_owned(), balancer)));
    let keeps_networks = !cluster.machine_networks.is_empty();
    let mut record = ClusterRecord {
        settings,
        keeps_networks,
        ..ClusterRecord::new(ClusterState::Insufficient, cluster, params.pull_secret)
    };
    record.primary = primary(&record).map_err(Refusal::invalid)?;
    operators::choose(&mut record, &asked_architecture, params.olm_operators, params.operator_bundles)?;
    support_levels::check_new_cluster(&record, &asked_architecture)?;
    Ok(record)
}

/// The family that comes first in a cluster with both.
pub(super) fn primary(record: &ClusterRecord) -> Result<Option<rules::networks::Family>, String> {
    let own = &record.cluster;
    let networks = Networks::from_cluster(own);
    if !networks.are_dual_stack() {
        return Ok(None);
    }
    let (api, ingress) = (ips(Some(&own.api_vips)), ips(Some(&own.ingress_vips)));
    rules::networks::primary_family(&Lists { networks, api: &api, ingress: &ingress }.firsts())
}

/// Mode and number, of which either says the other.
fn control_plane(mode: Option<&str>, count: Option<i64>) -> (&'static str, i64) {
    match (mode, count) {
        (Some("None"), count) => ("None", count.unwrap_or(1)),
        (Some(_), count) => ("Full", count.unwrap_or(3)),
        (None, Some(1)) => ("None", 1),
        (None, count) => ("Full", count.unwrap_or(3)),
    }
}

/// Whether a release has a control plane of so many hosts.
pub(super) fn check_control_plane(mode: &str, count: i64, openshift_version: &str) -> Result<(), String> {
    if mode == "None" {
        return match count {
            1 => Ok(()),
            _ => Err("single-node clusters must have a single control plane node".to_owned()),
        };
    }
    if count != 3 && version::older(openshift_version, LARGE_CONTROL_PLANE) {
        return Err(format!(
            "there should be exactly 3 dedicated control plane nodes for high availability mode {mode} in openshift version older than {LARGE_CONTROL_PLANE}"
        ));
    }
    let (least, since) =
        if version::older(openshift_version, ARBITERS) { (3, LARGE_CONTROL_PLANE) } else { (2, ARBITERS) };
    if !(least..=5).contains(&count) {
        return Err(format!(
            "there should be {least}-5 dedicated control plane nodes for high availability mode {mode} in openshift version {since} or newer"
        ));
    }
    Ok(())
}

/// Two addresses of a kind need a release that knows them.
pub(super) fn check_vip_families(vips: [usize; 2], openshift_version: &str) -> Result<(), String> {
    if vips.iter().any(|count| *count > 1) && version::older(openshift_version, TWO_FAMILIES_OF_VIPS) {
        return Err(format!("dual-stack VIPs are not supported in OpenShift {openshift_version}"));
    }
    Ok(())
}

/// What is given, before anything is added to it.
fn check_given(params: &ClusterCreateParams, mode: &str, masters: i64) -> Result<(), String> {
    let (api, ingress) = (ips(params.api_vips.as_deref()), ips(params.ingress_vips.as_deref()));
    let networks = Networks {
        machine: params.machine_networks.as_deref().unwrap_or_default(),
        service: params.service_networks.as_deref().unwrap_or_default(),
        cluster: params.cluster_networks.as_deref().unwrap_or_default(),
    };
    if networks.are_dual_stack() {
        rules::networks::primary_family(&Lists { networks, api: &api, ingress: &ingress }.firsts())?;
    }
    check_control_plane(mode, masters, &params.openshift_version)?;
    check_vip_families([api.len(), ingress.len()], &params.openshift_version)?;
    let vips = Vips {
        api: &api,
        ingress: &ingress,
        networks,
        user_managed: params.user_managed_networking == Some(true),
        by_dhcp: params.vip_dhcp_allocation == Some(true),
        user_balanced: is_user_balanced(params.load_balancer.as_ref()),
        openshift_version: &params.openshift_version,
    };
    vips.check()?;
    networks.check_cidrs()
}

pub(super) fn is_user_balanced(balancer: Option<&Value>) -> bool {
    balancer.is_some_and(|balancer| balancer["type"] == "user-managed")
}

fn set_default_networks(params: &mut ClusterCreateParams) {
    let cidr = params.cluster_network_cidr.take().unwrap_or_else(|| "10.128.0.0/14".into());
    let host_prefix = params.cluster_network_host_prefix.take().unwrap_or(DEFAULT_HOST_PREFIX_V4);
    let pods = params.cluster_networks.take();
    let pods = pods.unwrap_or_else(|| vec![ClusterNetwork { cidr, cluster_id: None, host_prefix }]);
    params.cluster_networks = Some(with_prefixes(pods));
    let cidr = params.service_network_cidr.take().unwrap_or_else(|| "172.30.0.0/16".into());
    params.service_networks.get_or_insert_with(|| vec![ServiceNetwork { cidr, cluster_id: None }]);
}

/// Networks without a host prefix get the default of their family.
pub(super) fn with_prefixes(mut networks: Vec<ClusterNetwork>) -> Vec<ClusterNetwork> {
    for network in networks.iter_mut().filter(|network| network.host_prefix == 0) {
        let v6 = network.cidr.contains(':');
        network.host_prefix = if v6 { DEFAULT_HOST_PREFIX_V6 } else { DEFAULT_HOST_PREFIX_V4 };
    }
    networks
}

/// Networks are networks; their sizes are for the checks of the cluster.
fn check_sizes(params: &ClusterCreateParams) -> Result<(), Refusal> {
    let pods = params.cluster_networks.iter().flatten().map(|network| &network.cidr);
    let others = params.service_networks.iter().chain(&params.machine_networks).flatten().map(|network| &network.cidr);
    for cidr in pods.chain(others) {
        if let Ok(parsed) = cidr.parse::<crate::net::Cidr>()
            && parsed.network() != parsed
        {
            return Err(Refusal::invalid(format!("{cidr} is not a valid network CIDR")));
        }
    }
    Ok(())
}

/// Everything else, once the platform is known. Gives the Ignition endpoint.
fn check_settings(
    params: &ClusterCreateParams,
    platform: &Platform,
    user_managed: Option<bool>,
    masters: i64,
) -> Result<Option<Value>, Refusal> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let own_version = &params.openshift_version;
    rules::proxy::check(
        params.http_proxy.as_deref(),
        params.https_proxy.as_deref(),
        params.no_proxy.as_deref(),
        Some(own_version),
    )
    .map_err(Refusal::invalid)?;
    params.disk_encryption.as_ref().map_or(Ok(()), rules::encryption::check).map_err(Refusal::invalid)?;
    if masters == 1 {
        check_single_node(params, user_managed).map_err(Refusal::invalid)?;
    }
    if platform.kind == "nutanix" && version::older(own_version, NUTANIX) {
        return Err(Refusal::invalid(format!(
            "Invalid OCP version ({own_version}) for Nutanix, Nutanix integration is supported for version 4.11 and above"
        )));
    }
    let endpoint = params.ignition_endpoint.as_ref().map_or(Ok(None), ignition_endpoint::checked);
    let endpoint = endpoint.map_err(Refusal::invalid)?;
    let (additional, only) = (text(&params.additional_ntp_source), text(&params.ntp_sources));
    if !additional.is_empty() {
        rules::text::ntp_sources(&additional).map_err(Refusal::invalid)?;
    }
    if !only.is_empty() {
        if !additional.is_empty() {
            return Err(Refusal::invalid("ntp_sources and additional_ntp_source are mutually exclusive"));
        }
        rules::text::ntp_sources(&only).map_err(Refusal::invalid)?;
    }
    rules::text::tags(&text(&params.tags)).map_err(Refusal::invalid)?;
    platform::check_single_node(masters, platform).map_err(Refusal::invalid)?;
    Ok(endpoint)
}

fn check_single_node(params: &ClusterCreateParams, user_managed: Option<bool>) -> Result<(), String> {
    let own_version = &params.openshift_version;
    if version::older(own_version, SINGLE_NODE) {
        return Err(format!(
            "Invalid OCP version ({own_version}) for Single node, Single node OpenShift is supported for version 4.8 and above"
        ));
    }
    if user_managed == Some(false) {
        return Err("User Managed Networking must be enabled on single node OpenShift".to_owned());
    }
    if params.vip_dhcp_allocation == Some(true) {
        return Err("VIP DHCP Allocation cannot be enabled on single node OpenShift".to_owned());
    }
    if params.network_type.as_deref() == Some("OpenShiftSDN") {
        return Err("OpenShiftSDN network type is not allowed in single node mode".to_owned());
    }
    Ok(())
}

/// What a cluster is made of.
struct ChosenRelease {
    version: String,
    architecture: String,
    image: Option<String>,
}

/// The release that is asked for. Without a catalogue it is taken as it is written.
fn release(
    catalogue: Option<&Catalogue>,
    params: &ClusterCreateParams,
    architecture: &str,
) -> Result<ChosenRelease, String> {
    let asked = &params.openshift_version;
    let image = params.ocp_release_image.clone().filter(|image| !image.is_empty());
    let Some(catalogue) = catalogue else {
        if version::Version::parse(asked).is_none() {
            return Err(format!(
                "Openshift version {asked} for CPU architecture {architecture} is not supported: it is not a version such as 4.22 \
                 or 4.22.3"
            ));
        }
        return Ok(ChosenRelease { version: asked.clone(), architecture: architecture.to_owned(), image });
    };
    if !matches!(architecture, MULTI | DEFAULT_ARCHITECTURE)
        && catalogue.lists_os_images()
        && !catalogue.os_architectures(asked).contains(&architecture)
    {
        return Err(format!("Requested CPU architecture {architecture} is not available"));
    }
    if !catalogue.lists_releases() {
        return Ok(ChosenRelease { version: asked.clone(), architecture: architecture.to_owned(), image });
    }
    let release = match image {
        Some(image) => catalogue.release_at(&image, architecture).map_err(|why| why.to_string())?,
        None => catalogue.release(asked, architecture).map_err(|why| {
            format!("Openshift version {asked} for CPU architecture {architecture} is not supported: {why}")
        })?,
    };
    if let [only] = release.cpu_architectures.as_slice()
        && catalogue.lists_os_images()
        && catalogue.os_image(&release.openshift_version, only, "").is_err()
    {
        return Err(format!(
            "No OS images are available for version {} and architecture {only}",
            release.openshift_version
        ));
    }
    let architecture = if release.is_multi() { MULTI } else { architecture };
    Ok(ChosenRelease {
        version: release.version.clone(),
        architecture: architecture.to_owned(),
        image: Some(release.url.clone()),
    })
}

/// What is set of encryption over what was: by default, that nothing is encrypted, and if it is, by the TPM.
pub(super) fn merged_encryption(before: Option<&Value>, given: &Value) -> Value {
    let own = |name: &str| before.and_then(|before| before[name].as_str());
    let text = |name: &str, default: &str| {
        let given = given[name].as_str().map(|text| if text.is_empty() { default } else { text });
        given.or_else(|| own(name)).unwrap_or(default).to_owned()
    };
    let mut merged = json!({"enable_on": text("enable_on", "none"), "mode": text("mode", "tpmv2")});
    let given_servers = given["tang_servers"].as_str().filter(|servers| !servers.is_empty());
    if let Some(servers) = given_servers.or_else(|| own("tang_servers")) {
        merged["tang_servers"] = servers.into();
    }
    merged
}

/// Settings that are shown again but change nothing here.
fn settings(params: &ClusterCreateParams) -> BTreeMap<String, Value> {
    let text = |text: &Option<String>| text.clone().filter(|text| !is_zero(text)).map(Value::from);
    let all = [
        ("additional_ntp_source", text(&params.additional_ntp_source)),
        ("http_proxy", text(&params.http_proxy)),
        ("https_proxy", text(&params.https_proxy)),
        ("no_proxy", text(&params.no_proxy)),
        ("ntp_sources", text(&params.ntp_sources)),
        ("os_stream", text(&params.os_stream)),
        ("tags", text(&params.tags)),
        ("disk_encryption", params.disk_encryption.as_ref().map(|given| merged_encryption(None, given))),
        ("schedulable_masters", params.schedulable_masters.filter(|on| *on).map(Value::from)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).gather()
}
