//! Reads each kind of document.

use super::{
    PlanError, agent,
    existing::{self, ExistingCluster, Mirror},
    hosts::PlannedHost,
    plan::{Draft, hints, put, put_host},
    read::Fields,
};
use crate::mirrors::Mirrors;
use api::{HostRole, Mac, MirrorRegistry};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// The file of a small plan, whose document needs no kind.
pub(crate) const RACK_FILE: &str = "rack.toml";
/// The name, without its ending, of the file with new nodes, whose document needs no kind.
const NODES: &str = "nodes-config";
/// The domain of a small plan that names none.
const DOMAIN: &str = "example.com";
/// The version of a small plan that names none. Without a control plane it is only recorded.
const VERSION: &str = "4.20";
/// A pull secret for hosts that pull nothing.
const NO_PULL_SECRET: &str = r#"{"auths":{"registry.example.com":{"auth":"bm9uZTpub25l"}}}"#;

/// Fields of every Kubernetes object.
pub(crate) const COMMON: [&str; 3] = ["apiVersion", "metadata", "status"];
const BMAC: &str = "bmac.agent-install.openshift.io/";

/// Reads a document; returns its kind if unknown.
pub(crate) fn take(mut fields: Fields, draft: &mut Draft) -> Result<Option<String>, PlanError> {
    let kind = match fields.text("kind")? {
        Some(kind) => kind,
        None if fields.file == RACK_FILE => "Rack".to_owned(),
        // Its hosts are those of an AgentConfig, which it is not.
        None if fields.file.split('.').next() == Some(NODES) => "NodesConfig".to_owned(),
        // The two files of openshift-install: the first may omit its kind, the second has none.
        None if fields.has("rendezvousIP") || fields.has("hosts") => "AgentConfig".to_owned(),
        None if fields.has("baseDomain") || fields.has("controlPlane") => "InstallConfig".to_owned(),
        None => {
            return Err(fields.error("kind", "is missing, and this is neither an install-config nor an AgentConfig"));
        }
    };
    match kind.as_str() {
        "ClusterDeployment" => cluster_deployment(fields, draft)?,
        "AgentClusterInstall" => agent_cluster_install(fields, draft)?,
        "InfraEnv" => infra_env(fields, draft)?,
        "NMStateConfig" => nmstate_config(fields, draft)?,
        "ClusterImageSet" => cluster_image_set(fields, draft)?,
        "Secret" => secret(fields, draft)?,
        "ConfigMap" => {
            if !config_map(fields, draft)? {
                return Ok(Some(kind));
            }
        }
        "BareMetalHost" => bare_metal_host(fields, draft)?,
        "AgentConfig" => agent::agent_config(fields, draft)?,
        "NodesConfig" => agent::nodes_config(fields, draft)?,
        existing::KIND => {
            let place = fields.file.to_owned();
            let cluster = ExistingCluster::take(fields)?;
            if let Some((_, one)) = draft.existing.replace((cluster, place.clone())) {
                let what = "the cluster that exists".to_owned();
                return Err(PlanError::Contradiction { one, other: place, what });
            }
        }
        "InstallConfig" => install_config(fields, draft)?,
        "Rack" => rack(fields, draft)?,
        _ => {
            fields.all();
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

fn metadata_name(fields: &mut Fields) -> Result<String, PlanError> {
    let mut metadata = fields.object("metadata")?;
    let name = metadata.text("name")?.unwrap_or_default();
    metadata.all();
    Ok(name)
}

/// The name in a reference.
fn reference(fields: &mut Fields, field: &str) -> Result<Option<String>, PlanError> {
    let mut reference = fields.object(field)?;
    let name = reference.text("name")?;
    reference.all();
    Ok(name)
}

fn cluster_deployment(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let own_name = metadata_name(&mut fields)?;
    fields.ignore(&COMMON);
    let mut spec = fields.object("spec")?;
    let name = spec.text("clusterName")?.or(Some(own_name).filter(|name| !name.is_empty()));
    put(&mut draft.cluster, "name", name, &spec, "clusterName")?;
    put(&mut draft.cluster, "base_dns_domain", spec.text("baseDomain")?, &spec, "baseDomain")?;
    let secret = reference(&mut spec, "pullSecretRef")?;
    put(&mut draft.other, "pull_secret_ref", secret, &spec, "pullSecretRef")?;
    spec.ignore(&["clusterInstallRef", "platform", "controlPlaneConfig", "installed"]);
    Ok(())
}

fn agent_cluster_install(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    fields.ignore(&COMMON);
    let mut spec = fields.object("spec")?;
    spec.ignore(&["clusterDeploymentRef"]);
    let image_set = reference(&mut spec, "imageSetRef")?;
    put(&mut draft.other, "image_set", image_set, &spec, "imageSetRef")?;
    let mirrors = reference(&mut spec, "mirrorRegistryRef")?;
    put(&mut draft.other, "cluster_mirrors", mirrors, &spec, "mirrorRegistryRef")?;
    put(&mut draft.cluster, "ssh_public_key", spec.text("sshPublicKey")?, &spec, "sshPublicKey")?;
    put(&mut draft.other, "hold", spec.flag("holdInstallation")?, &spec, "holdInstallation")?;
    put(&mut draft.cluster, "schedulable_masters", spec.flag("mastersSchedulable")?, &spec, "mastersSchedulable")?;
    let platform = spec.text("platformType")?.map(|kind| kind.to_lowercase());
    put_platform(draft, platform, &spec, "platformType")?;
    vips(&mut spec, draft, ["apiVIPs", "apiVIP"], ["ingressVIPs", "ingressVIP"])?;
    proxy(&mut spec, draft)?;
    let mut networking = spec.object("networking")?;
    let managed = networking.flag("userManagedNetworking")?;
    put(&mut draft.cluster, "user_managed_networking", managed, &networking, "userManagedNetworking")?;
    networks(networking, draft)?;
    let mut counts = spec.object("provisionRequirements")?;
    put(&mut draft.other, "control_plane", counts.number("controlPlaneAgents")?, &counts, "controlPlaneAgents")?;
    put(&mut draft.other, "workers", counts.number("workerAgents")?, &counts, "workerAgents")?;
    if counts.number("arbiterAgents")?.unwrap_or(0) > 0 {
        return Err(counts.error("arbiterAgents", "arbiters are not supported here"));
    }
    Ok(())
}

/// With platform `none` the operator manages the network.
fn put_platform(draft: &mut Draft, kind: Option<String>, from: &Fields, field: &str) -> Result<(), PlanError> {
    if kind.as_deref() == Some("none") {
        put(&mut draft.cluster, "user_managed_networking", Some(true), from, field)?;
    }
    let platform = kind.map(|kind| json!({"type": kind}));
    put(&mut draft.cluster, "platform", platform, from, field)
}

fn vips(fields: &mut Fields, draft: &mut Draft, api: [&str; 2], ingress: [&str; 2]) -> Result<(), PlanError> {
    for (name, [many, one]) in [("api_vips", api), ("ingress_vips", ingress)] {
        let mut list = fields.texts(many)?;
        if let Some(single) = fields.text(one)?.filter(|single| !list.contains(single)) {
            if !list.is_empty() {
                return Err(fields.error(one, format!("'{single}' is not among {many}")));
            }
            list.push(single);
        }
        let list: Vec<Value> = list.into_iter().map(|ip| json!({"ip": ip})).collect();
        put(&mut draft.cluster, name, (!list.is_empty()).then_some(list), fields, many)?;
    }
    Ok(())
}

/// For the cluster, and for the live hosts.
fn proxy(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    if !fields.has("proxy") {
        return Ok(());
    }
    let mut proxy = fields.object("proxy")?;
    let [http, https, no] = [proxy.text("httpProxy")?, proxy.text("httpsProxy")?, proxy.text("noProxy")?];
    put(&mut draft.cluster, "http_proxy", http, &proxy, "httpProxy")?;
    put(&mut draft.cluster, "https_proxy", https, &proxy, "httpsProxy")?;
    put(&mut draft.cluster, "no_proxy", no, &proxy, "noProxy")
}

fn networks(mut networking: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    put(&mut draft.cluster, "network_type", networking.text("networkType")?, &networking, "networkType")?;
    let mut pods = Vec::new();
    for mut entry in networking.objects("clusterNetwork")? {
        let cidr = entry.text("cidr")?.unwrap_or_default();
        let prefix = entry.number("hostPrefix")?.unwrap_or(23);
        pods.push(json!({"cidr": cidr, "host_prefix": prefix}));
    }
    put(&mut draft.cluster, "cluster_networks", (!pods.is_empty()).then_some(pods), &networking, "clusterNetwork")?;
    let services: Vec<Value> =
        networking.texts("serviceNetwork")?.into_iter().map(|cidr| json!({"cidr": cidr})).collect();
    let services = (!services.is_empty()).then_some(services);
    put(&mut draft.cluster, "service_networks", services, &networking, "serviceNetwork")?;
    let mut machines = Vec::new();
    for mut entry in networking.objects("machineNetwork")? {
        machines.push(json!({"cidr": entry.text("cidr")?.unwrap_or_default()}));
    }
    let machines = (!machines.is_empty()).then_some(machines);
    put(&mut draft.cluster, "machine_networks", machines, &networking, "machineNetwork")
}

fn infra_env(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    fields.ignore(&COMMON);
    let mut spec = fields.object("spec")?;
    // There is only one infra-env, for all hosts and networks.
    spec.ignore(&["clusterRef", "nmStateConfigLabelSelector", "agentLabels", "imageType", "ipxeScriptType"]);
    let secret = reference(&mut spec, "pullSecretRef")?;
    put(&mut draft.other, "pull_secret_ref", secret, &spec, "pullSecretRef")?;
    let mirrors = reference(&mut spec, "mirrorRegistryRef")?;
    put(&mut draft.other, "infra_env_mirrors", mirrors, &spec, "mirrorRegistryRef")?;
    if spec.is_empty_text("sshAuthorizedKey") {
        // No key, not even the cluster's.
        put(&mut draft.infra_env, "ssh_authorized_key", Some(""), &spec, "sshAuthorizedKey")?;
    }
    for (field, name) in [
        ("sshAuthorizedKey", "ssh_authorized_key"),
        ("additionalTrustBundle", "additional_trust_bundle"),
        ("ignitionConfigOverride", "ignition_config_override"),
    ] {
        put(&mut draft.infra_env, name, spec.text(field)?, &spec, field)?;
    }
    let architecture = spec.text("cpuArchitecture")?;
    put(&mut draft.cluster, "cpu_architecture", architecture, &spec, "cpuArchitecture")?;
    time_sources(&mut spec, draft)?;
    let mut arguments = Vec::new();
    for mut argument in spec.objects("kernelArguments")? {
        let (operation, value) = (argument.text("operation")?, argument.text("value")?);
        arguments.push(json!({"operation": operation, "value": value}));
    }
    let arguments = (!arguments.is_empty()).then_some(arguments);
    put(&mut draft.infra_env, "kernel_arguments", arguments, &spec, "kernelArguments")?;
    if spec.has("proxy") {
        let mut proxy = spec.object("proxy")?;
        let [http, https, no] = [proxy.text("httpProxy")?, proxy.text("httpsProxy")?, proxy.text("noProxy")?];
        let proxy = json!({"http_proxy": http, "https_proxy": https, "no_proxy": no});
        put(&mut draft.infra_env, "proxy", Some(proxy), &spec, "proxy")?;
    }
    Ok(())
}

pub(crate) fn time_sources(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let list = fields.texts("additionalNTPSources")?;
    let list = (!list.is_empty()).then(|| list.join(","));
    put(&mut draft.infra_env, "additional_ntp_sources", list, fields, "additionalNTPSources")
}

fn cluster_image_set(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let name = metadata_name(&mut fields)?;
    fields.ignore(&COMMON);
    let mut spec = fields.object("spec")?;
    let Some(image) = spec.text("releaseImage")? else {
        return Err(spec.error("releaseImage", "is missing"));
    };
    draft.image_sets.insert(name, image);
    Ok(())
}

/// Secrets other than registry credentials are ignored.
fn secret(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    const FIELD: &str = ".dockerconfigjson";
    let name = metadata_name(&mut fields)?;
    fields.ignore(&COMMON);
    fields.ignore(&["type", "immutable"]);
    let (mut data, mut plain) = (fields.object("data")?, fields.object("stringData")?);
    let text = match (data.text(FIELD)?, plain.text(FIELD)?) {
        (_, Some(text)) => Some(text),
        (Some(encoded), None) => {
            let compact: String = encoded.split_whitespace().collect();
            let decoded = BASE64_STANDARD.decode(compact).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            Some(decoded.ok_or_else(|| data.error(FIELD, "is not base64-encoded text"))?)
        }
        (None, None) => None,
    };
    data.all();
    plain.all();
    draft.pull_secrets.extend(text.map(|text| (name, text)));
    Ok(())
}

/// One that names mirrors of registries. Others are not taken, and it gives false.
fn config_map(mut fields: Fields, draft: &mut Draft) -> Result<bool, PlanError> {
    const CONF: &str = "registries.conf";
    let name = metadata_name(&mut fields)?;
    let mut data = fields.object("data")?;
    let (registries_conf, ca_bundle) = (data.text(CONF)?, data.text("ca-bundle.crt")?);
    let Some(registries_conf) = registries_conf else {
        data.all();
        fields.all();
        return Ok(false);
    };
    fields.ignore(&COMMON);
    fields.ignore(&["immutable"]);
    let mirrors = MirrorRegistry { registries_conf, ca_bundle: ca_bundle.unwrap_or_default() };
    Mirrors::own(&mirrors).map_err(|error| data.error(CONF, error))?;
    draft.mirrors.insert(name, mirrors);
    Ok(true)
}

fn nmstate_config(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    fields.ignore(&COMMON);
    let mut spec = fields.object("spec")?;
    let interfaces = interfaces(&mut spec)?;
    if interfaces.is_empty() {
        return Err(spec.error("interfaces", "is empty: give the MAC addresses that identify the machine"));
    }
    let Some(config) = spec.value("config") else { return Err(spec.error("config", "is missing")) };
    network(&spec, "config", &config, &interfaces, draft)?;
    let place = format!("{}: {}", spec.file, spec.place("interfaces"));
    let macs = interfaces.into_iter().map(|(mac, _)| mac).collect();
    put_host(
        draft,
        PlannedHost { macs, place, installer_args: vec![COPY_NETWORK.to_owned()], ..PlannedHost::default() },
    )
}

/// The installed host uses the live host's network.
pub(crate) const COPY_NETWORK: &str = "--copy-network";

pub(crate) fn network(
    fields: &Fields,
    field: &str,
    config: &Value,
    interfaces: &[(Mac, String)],
    draft: &mut Draft,
) -> Result<(), PlanError> {
    let text = match config {
        Value::String(text) => text.clone(),
        config => serde_norway::to_string(config).map_err(|error| fields.error(field, error))?,
    };
    let map: Vec<Value> = interfaces
        .iter()
        .map(|(mac, name)| json!({"mac_address": mac.to_string(), "logical_nic_name": name}))
        .collect();
    draft.networks.push(json!({"network_yaml": text, "mac_interface_map": map}));
    Ok(())
}

pub(crate) fn interfaces(fields: &mut Fields) -> Result<Vec<(Mac, String)>, PlanError> {
    let mut found = Vec::new();
    for mut interface in fields.objects("interfaces")? {
        let (mac, name) = (mac(&mut interface, "macAddress")?, interface.text("name")?);
        let Some(mac) = mac else { return Err(interface.error("macAddress", "is missing")) };
        found.push((mac, name.unwrap_or_default()));
    }
    Ok(found)
}

fn mac(fields: &mut Fields, name: &str) -> Result<Option<Mac>, PlanError> {
    let text = fields.text(name)?;
    text.map(|text| text.parse().map_err(|error| fields.error(name, error))).transpose()
}

pub(crate) fn role(fields: &Fields, field: &str, text: Option<String>) -> Result<HostRole, PlanError> {
    match text.as_deref().unwrap_or_default() {
        "" | "auto-assign" => Ok(HostRole::AutoAssign),
        "master" => Ok(HostRole::Master),
        "worker" => Ok(HostRole::Worker),
        other => Err(fields.error(field, format!("'{other}' is neither master nor worker"))),
    }
}

fn bare_metal_host(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let mut metadata = fields.object("metadata")?;
    let mut annotations = metadata.object("annotations")?;
    let mut note = |name: &str| annotations.text(&format!("{BMAC}{name}"));
    let [name, role_text, args, ignition] =
        [note("hostname")?, note("role")?, note("installer-args")?, note("ignition-config-overrides")?];
    let args: Option<Vec<String>> = args
        .map(|args| serde_json::from_str(&args))
        .transpose()
        .map_err(|_| annotations.error(&format!("{BMAC}installer-args"), "is not a JSON list of texts"))?;
    let role = role(&annotations, &format!("{BMAC}role"), role_text)?;
    annotations.all();
    metadata.all();
    fields.ignore(&COMMON);
    let mut spec = fields.object("spec")?;
    let Some(mac) = mac(&mut spec, "bootMACAddress")? else {
        return Err(spec.error("bootMACAddress", "is missing: it identifies the machine"));
    };
    // This service does not control power.
    spec.ignore(&["online", "bmc", "automatedCleaningMode", "bootMode", "externallyProvisioned"]);
    let host = PlannedHost {
        name: name.unwrap_or_default(),
        role,
        macs: [mac].into(),
        hints: hints(&mut spec, "rootDeviceHints")?,
        installer_args: args.unwrap_or_default(),
        ignition_override: ignition.unwrap_or_default(),
        place: format!("{}: {}", spec.file, spec.place("bootMACAddress")),
    };
    put_host(draft, host)
}

fn install_config(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let name = Some(metadata_name(&mut fields)?).filter(|name| !name.is_empty());
    put(&mut draft.cluster, "name", name, &fields, "metadata.name")?;
    fields.ignore(&COMMON);
    put(&mut draft.cluster, "base_dns_domain", fields.text("baseDomain")?, &fields, "baseDomain")?;
    put(&mut draft.cluster, "pull_secret", fields.text("pullSecret")?, &fields, "pullSecret")?;
    put(&mut draft.cluster, "ssh_public_key", fields.text("sshKey")?, &fields, "sshKey")?;
    let bundle = fields.text("additionalTrustBundle")?;
    put(&mut draft.infra_env, "additional_trust_bundle", bundle, &fields, "additionalTrustBundle")?;
    mirrors(&mut fields, draft)?;
    proxy(&mut fields, draft)?;
    let mut masters = fields.object("controlPlane")?;
    pool(&mut masters, draft)?;
    // The default of openshift-install.
    put(&mut draft.other, "control_plane", Some(masters.number("replicas")?.unwrap_or(3)), &masters, "replicas")?;
    let mut workers: Option<u64> = None;
    for mut compute in fields.objects("compute")? {
        pool(&mut compute, draft)?;
        workers = Some(workers.unwrap_or(0).saturating_add(compute.number("replicas")?.unwrap_or(3)));
    }
    put(&mut draft.other, "workers", Some(workers.unwrap_or(3)), &fields, "compute")?;
    let networking = fields.object("networking")?;
    networks(networking, draft)?;
    let mut platforms = fields.object("platform")?;
    if platforms.has("none") {
        platforms.ignore(&["none"]);
        put_platform(draft, Some("none".to_owned()), &platforms, "none")?;
    }
    if platforms.has("baremetal") {
        let mut platform = platforms.object("baremetal")?;
        vips(&mut platform, draft, ["apiVIPs", "apiVIP"], ["ingressVIPs", "ingressVIP"])?;
        put_platform(draft, Some("baremetal".to_owned()), &platform, "baremetal")?;
    }
    Ok(())
}

/// The mirrors of registries, for the cluster and for the live systems of its hosts.
fn mirrors(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    // Before 4.14 it had another name.
    for name in ["imageDigestSources", "imageContentSources"] {
        let mirrors: Vec<_> =
            Mirror::read(fields, name)?.into_iter().filter(|mirror| !mirror.mirrors.is_empty()).collect();
        if mirrors.is_empty() {
            continue;
        }
        let registries_conf = Mirror::registries_conf(&mirrors);
        // No ConfigMap can have this name.
        draft.mirrors.insert(name.to_owned(), MirrorRegistry { registries_conf, ca_bundle: String::new() });
        for record in ["cluster_mirrors", "infra_env_mirrors"] {
            put(&mut draft.other, record, Some(name), fields, name)?;
        }
    }
    Ok(())
}

fn pool(pool: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    pool.ignore(&["name", "platform"]);
    let architecture = pool.text("architecture")?.map(|name| if name == "amd64" { "x86_64".to_owned() } else { name });
    put(&mut draft.cluster, "cpu_architecture", architecture, pool, "architecture")?;
    pool.ignore(&["hyperthreading"]);
    Ok(())
}

/// The small plan: each field has a default but the number of machines.
fn rack(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let name = fields.text("name")?.unwrap_or_else(|| "rack".to_owned());
    put(&mut draft.cluster, "name", Some(name), &fields, "name")?;
    let domain = fields.text("domain")?.unwrap_or_else(|| DOMAIN.to_owned());
    put(&mut draft.cluster, "base_dns_domain", Some(domain), &fields, "domain")?;
    let version = fields.text("version")?.unwrap_or_else(|| VERSION.to_owned());
    put(&mut draft.other, "version", Some(version), &fields, "version")?;
    let secret = fields.text("pull_secret")?.unwrap_or_else(|| NO_PULL_SECRET.to_owned());
    put(&mut draft.cluster, "pull_secret", Some(secret), &fields, "pull_secret")?;
    put(&mut draft.cluster, "ssh_public_key", fields.text("ssh_key")?, &fields, "ssh_key")?;
    put(&mut draft.cluster, "cpu_architecture", fields.text("architecture")?, &fields, "architecture")?;
    let sources = fields.texts("time_servers")?;
    let sources = (!sources.is_empty()).then(|| sources.join(","));
    put(&mut draft.infra_env, "additional_ntp_sources", sources, &fields, "time_servers")?;
    let Some(hosts) = fields.number("hosts")? else {
        return Err(fields.error("hosts", "is missing: how many machines?"));
    };
    let masters = match (fields.number("control_plane")?, hosts) {
        (_, 0 | 2) => {
            return Err(fields.error("hosts", format!("{hosts} machines are not a cluster: give 1, or 3 and more")));
        }
        (Some(1), 2..) => {
            return Err(fields.error("control_plane", "a cluster of one control-plane host has no other hosts"));
        }
        (Some(count), _) if (1..=hosts).contains(&count) => count,
        (Some(count), _) => {
            return Err(fields.error("control_plane", format!("{count} of {hosts} machines: give 1 to {hosts}")));
        }
        (None, 1) => 1,
        (None, _) => 3,
    };
    put(&mut draft.other, "control_plane", Some(masters), &fields, "control_plane")?;
    put(&mut draft.other, "workers", Some(hosts - masters), &fields, "hosts")?;
    vips(&mut fields, draft, ["api_addresses", "api_address"], ["ingress_addresses", "ingress_address"])?;
    if !draft.cluster.contains_key("api_vips") {
        put_platform(draft, Some("none".to_owned()), &fields, "api_address")?;
    }
    for mut machine in fields.objects("machine")? {
        let Some(mac) = mac(&mut machine, "mac")? else {
            return Err(machine.error("mac", "is missing: a machine is known by it"));
        };
        let role_text = machine.text("role")?;
        let planned = PlannedHost {
            name: machine.text("name")?.unwrap_or_default(),
            role: role(&machine, "role", role_text)?,
            macs: [mac].into(),
            hints: hints(&mut machine, "disk")?,
            place: format!("{}: {}", machine.file, machine.place("mac")),
            ..PlannedHost::default()
        };
        put_host(draft, planned)?;
    }
    Ok(())
}
