//! The resources that a hub's users write: a cluster, its infra-env, and what they refer to.

use super::{
    PlanError,
    draft::{Draft, Pool, put, put_host, put_overrides},
    listed,
    machine::{COPY_NETWORK, interfaces, network},
    metadata::Metadata,
    names::{
        AGENT_CLUSTER_INSTALL, CLUSTER_DEPLOYMENT, CLUSTER_IMAGE_SET, CONFIG_MAP, INFRA_ENV, NMSTATE_CONFIG, SECRET,
    },
    read::Fields,
    references::{Key, Reference, Selector, declare, texts},
};
use crate::planned::PlannedHost;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

const OVERRIDES: &str = "agent-install.openshift.io/install-config-overrides";
/// The label that becomes the tags of a cluster.
const CONSUMER: &str = "agentclusterinstalls.agent-install.openshift.io/consumer";

/// What a field refers to, if anything. Without a namespace of its own it is in that of the document.
fn reference(
    fields: &mut Fields,
    field: &str,
    kind: &'static str,
    namespace: &str,
) -> Result<Option<Reference>, PlanError> {
    let mut reference = fields.object(field)?;
    let name = reference.text("name")?;
    let own = reference.text("namespace")?;
    drop(reference);
    let place = fields.full_place(&format!("{field}.name"));
    let namespace = own.unwrap_or_else(|| namespace.to_owned());
    Ok(name.map(|name| Reference { kind, key: Key { namespace, name }, place }))
}

pub(crate) fn cluster_deployment(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    let Key { namespace, name: own_name } = metadata.key.clone();
    declare(&mut draft.deployments, CLUSTER_DEPLOYMENT, metadata.key.clone(), fields.file, ())?;
    metadata.finish(&fields, &[])?;
    let mut spec = fields.object("spec")?;
    let name = spec.text("clusterName")?.or(Some(own_name).filter(|name| !name.is_empty()));
    put(&mut draft.cluster, "name", name, &spec, "clusterName")?;
    put(&mut draft.cluster, "base_dns_domain", spec.text("baseDomain")?, &spec, "baseDomain")?;
    draft.pull_secret = reference(&mut spec, "pullSecretRef", SECRET, &namespace)?;
    let mut install = spec.object("clusterInstallRef")?;
    let [group, kind, version, name] =
        [install.text("group")?, install.text("kind")?, install.text("version")?, install.text("name")?];
    for (field, found, known) in [
        ("group", group, "extensions.hive.openshift.io"),
        ("kind", kind, AGENT_CLUSTER_INSTALL),
        ("version", version, "v1beta1"),
    ] {
        if let Some(found) = found.filter(|found| found != known) {
            return Err(install.error(field, format!("'{}' is not {known}", found.escape_default())));
        }
    }
    let place = install.full_place("name");
    let refer = |name| Reference { kind: AGENT_CLUSTER_INSTALL, key: Key { namespace, name }, place };
    draft.references.extend(name.map(refer));
    drop(install);
    let mut platform = spec.object("platform")?;
    platform.idle(listed::of(listed::IDLE, "ClusterDeployment.spec.platform"));
    platform.refuse(listed::of(listed::REFUSED, "ClusterDeployment.spec.platform"))?;
    drop(platform);
    let mut control_plane = spec.object("controlPlaneConfig")?;
    control_plane.refuse(listed::of(listed::REFUSED, "ClusterDeployment.spec.controlPlaneConfig"))?;
    drop(control_plane);
    spec.idle(listed::of(listed::IDLE, "ClusterDeployment.spec"));
    spec.refuse(listed::of(listed::REFUSED, "ClusterDeployment.spec"))
}

pub(crate) fn agent_cluster_install(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let mut metadata = Metadata::take(&mut fields)?;
    let namespace = metadata.key.namespace.clone();
    declare(&mut draft.installs, AGENT_CLUSTER_INSTALL, metadata.key.clone(), fields.file, ())?;
    put(&mut draft.cluster, "tags", metadata.labels.remove(CONSUMER), &fields, "metadata.labels")?;
    if let Some(text) = metadata.annotation(OVERRIDES) {
        let field = format!("metadata.annotations.{OVERRIDES}");
        let overrides = serde_json::from_str(&text).map_err(|_| fields.error(&field, "is not JSON"))?;
        put_overrides(draft, overrides, &fields, &field)?;
    }
    metadata.finish(&fields, &[OVERRIDES])?;
    let mut spec = fields.object("spec")?;
    let deployment = reference(&mut spec, "clusterDeploymentRef", CLUSTER_DEPLOYMENT, &namespace)?;
    draft.references.extend(deployment);
    draft.image_set = reference(&mut spec, "imageSetRef", CLUSTER_IMAGE_SET, "")?;
    draft.cluster_mirrors = reference(&mut spec, "mirrorRegistryRef", CONFIG_MAP, &namespace)?;
    draft.manifests.extend(reference(&mut spec, "manifestsConfigMapRef", CONFIG_MAP, &namespace)?);
    for mut one in spec.objects("manifestsConfigMapRefs")? {
        let Some(name) = one.text("name")? else { return Err(one.error("name", "is missing")) };
        let key = Key { namespace: namespace.clone(), name };
        draft.manifests.push(Reference { kind: CONFIG_MAP, key, place: one.full_place("name") });
    }
    put(&mut draft.cluster, "ssh_public_key", spec.text("sshPublicKey")?, &spec, "sshPublicKey")?;
    put(&mut draft.other, "hold", spec.flag("holdInstallation")?, &spec, "holdInstallation")?;
    put(&mut draft.cluster, "schedulable_masters", spec.flag("mastersSchedulable")?, &spec, "mastersSchedulable")?;
    let sources = spec.texts("ntpSources")?;
    put(&mut draft.cluster, "ntp_sources", joined(sources), &spec, "ntpSources")?;
    platform(&mut spec, draft)?;
    encryption(spec.object("diskEncryption")?, draft)?;
    endpoint(spec.object("ignitionEndpoint")?, draft, &namespace)?;
    let mut balancer = spec.object("loadBalancer")?;
    let kind = balancer.text("type")?;
    let kind = kind.map(|kind| match kind.as_str() {
        "ClusterManaged" => "cluster-managed".to_owned(),
        "UserManaged" => "user-managed".to_owned(),
        _ => kind,
    });
    put(&mut draft.cluster, "load_balancer", kind.map(|kind| json!({"type": kind})), &balancer, "type")?;
    drop(balancer);
    vips(&mut spec, draft, ["apiVIPs", "apiVIP"], ["ingressVIPs", "ingressVIP"])?;
    proxy(&mut spec, draft)?;
    let mut networking = spec.object("networking")?;
    let managed = networking.flag("userManagedNetworking")?;
    put(&mut draft.cluster, "user_managed_networking", managed, &networking, "userManagedNetworking")?;
    networks(networking, draft)?;
    for (field, pool) in [("controlPlane", Pool::Masters), ("arbiter", Pool::Arbiters)] {
        if spec.has(field) {
            self::pool(spec.object(field)?, pool, draft)?;
        }
    }
    for compute in spec.objects("compute")? {
        pool(compute, Pool::Workers, draft)?;
    }
    let mut counts = spec.object("provisionRequirements")?;
    for (field, name) in
        [("controlPlaneAgents", "control_plane"), ("workerAgents", "workers"), ("arbiterAgents", "arbiters")]
    {
        let count = counts.number(field)?.filter(|count| *count > 0 || name != "arbiters");
        put(&mut draft.other, name, count, &counts, field)?;
    }
    drop(counts);
    spec.idle(listed::of(listed::IDLE, "AgentClusterInstall.spec"));
    Ok(())
}

/// The type of the platform, with its settings where it is an external one.
fn platform(spec: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let kind = spec.text("platformType")?.map(|kind| kind.to_lowercase());
    let mut external = spec.object("external")?;
    let [name, manager] = [external.text("platformName")?, external.text("cloudControllerManager")?];
    if name.is_none() && manager.is_none() {
        drop(external);
        return put_platform(draft, kind, spec, "platformType");
    }
    drop(external);
    if kind.as_deref().is_some_and(|kind| kind != "external") {
        return Err(spec.error("external", "goes with platformType External alone"));
    }
    put_external(draft, name, manager, spec, "external")
}

/// An external platform.
pub(crate) fn put_external(
    draft: &mut Draft,
    name: Option<String>,
    manager: Option<String>,
    from: &Fields,
    field: &str,
) -> Result<(), PlanError> {
    let external = json!({"platform_name": name, "cloud_controller_manager": manager.unwrap_or_default()});
    put(&mut draft.cluster, "platform", Some(json!({"type": "external", "external": external})), from, field)
}

fn encryption(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let [on, mode, servers] = [fields.text("enableOn")?, fields.text("mode")?, fields.text("tangServers")?];
    if on.is_none() && (mode.is_some() || servers.is_some()) {
        return Err(fields.error("enableOn", "is missing: which roles' disks?"));
    }
    let encryption = on.map(|on| {
        let mut encryption = json!({"enable_on": on});
        for (name, value) in [("mode", mode), ("tang_servers", servers)] {
            if let Some(value) = value {
                encryption[name] = value.into();
            }
        }
        encryption
    });
    put(&mut draft.cluster, "disk_encryption", encryption, &fields, "enableOn")
}

/// Where hosts that join later get their configs.
fn endpoint(mut fields: Fields, draft: &mut Draft, namespace: &str) -> Result<(), PlanError> {
    let url = fields.text("url")?;
    let authority = reference(&mut fields, "caCertificateReference", SECRET, namespace)?;
    if url.is_none() && authority.is_some() {
        return Err(fields.error("url", "is missing"));
    }
    draft.endpoint_authority = authority;
    put(&mut draft.other, "endpoint_url", url, &fields, "url")
}

/// Hyperthreading of a role's machines.
pub(crate) fn pool(mut fields: Fields, pool: Pool, draft: &mut Draft) -> Result<(), PlanError> {
    if let Some(name) = fields.text("name")?.filter(|name| name != pool.name()) {
        return Err(fields.error("name", format!("'{}' is not {}", name.escape_default(), pool.name())));
    }
    hyperthreading(&mut fields, pool, draft)
}

pub(crate) fn hyperthreading(fields: &mut Fields, pool: Pool, draft: &mut Draft) -> Result<(), PlanError> {
    const FIELD: &str = "hyperthreading";
    let is_on = match fields.text(FIELD)?.as_deref() {
        None => return Ok(()),
        Some("Enabled") => true,
        Some("Disabled") => false,
        Some(other) => {
            return Err(fields.error(FIELD, format!("'{}' is neither Enabled nor Disabled", other.escape_default())));
        }
    };
    put(&mut draft.hyperthreading, pool.roles(), Some(is_on), fields, FIELD)
}

/// With platform `none` the operator manages the network.
pub(crate) fn put_platform(
    draft: &mut Draft,
    kind: Option<String>,
    from: &Fields,
    field: &str,
) -> Result<(), PlanError> {
    if kind.as_deref() == Some("none") {
        put(&mut draft.cluster, "user_managed_networking", Some(true), from, field)?;
    }
    let platform = kind.map(|kind| json!({"type": kind}));
    put(&mut draft.cluster, "platform", platform, from, field)
}

pub(crate) fn vips(
    fields: &mut Fields,
    draft: &mut Draft,
    api: [&str; 2],
    ingress: [&str; 2],
) -> Result<(), PlanError> {
    for (name, [many, one]) in [("api_vips", api), ("ingress_vips", ingress)] {
        let mut list = fields.texts(many)?;
        if let Some(single) = fields.text(one)?.filter(|single| !list.contains(single)) {
            if !list.is_empty() {
                return Err(fields.error(one, format!("'{}' is not among {many}", single.escape_default())));
            }
            list.push(single);
        }
        let list: Vec<Value> = list.into_iter().map(|ip| json!({"ip": ip})).collect();
        put(&mut draft.cluster, name, (!list.is_empty()).then_some(list), fields, many)?;
    }
    Ok(())
}

/// For the cluster, and for the live hosts.
pub(crate) fn proxy(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let mut proxy = fields.object("proxy")?;
    for (field, name) in [("httpProxy", "http_proxy"), ("httpsProxy", "https_proxy"), ("noProxy", "no_proxy")] {
        put(&mut draft.cluster, name, proxy.text(field)?, &proxy, field)?;
    }
    Ok(())
}

pub(crate) fn networks(mut networking: Fields, draft: &mut Draft) -> Result<(), PlanError> {
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

pub(crate) fn infra_env(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    let namespace = metadata.key.namespace.clone();
    declare(&mut draft.infra_envs, INFRA_ENV, metadata.key.clone(), fields.file, ())?;
    metadata.finish(&fields, &[])?;
    let mut spec = fields.object("spec")?;
    let cluster = reference(&mut spec, "clusterRef", CLUSTER_DEPLOYMENT, &namespace)?;
    draft.references.extend(cluster);
    let selector = Selector::take(spec.object("nmStateConfigLabelSelector")?)?;
    draft.selector = Some((selector, spec.full_place("nmStateConfigLabelSelector")));
    draft.infra_env_pull_secret = reference(&mut spec, "pullSecretRef", SECRET, &namespace)?;
    draft.infra_env_mirrors = reference(&mut spec, "mirrorRegistryRef", CONFIG_MAP, &namespace)?;
    if spec.is_empty_text("sshAuthorizedKey") {
        // No key, not even the cluster's.
        put(&mut draft.infra_env, "ssh_authorized_key", Some(""), &spec, "sshAuthorizedKey")?;
    }
    for (field, name) in [
        ("sshAuthorizedKey", "ssh_authorized_key"),
        ("additionalTrustBundle", "additional_trust_bundle"),
        ("ignitionConfigOverride", "ignition_config_override"),
        ("imageType", "image_type"),
        ("osImageVersion", "openshift_version"),
    ] {
        put(&mut draft.infra_env, name, spec.text(field)?, &spec, field)?;
    }
    let delay = spec.number("networkDiscoveryDelaySeconds")?;
    put(&mut draft.infra_env, "network_discovery_delay_seconds", delay, &spec, "networkDiscoveryDelaySeconds")?;
    let architecture = spec.text("cpuArchitecture")?;
    put(&mut draft.cluster, "cpu_architecture", architecture, &spec, "cpuArchitecture")?;
    time_sources(&mut spec, draft)?;
    let only = joined(spec.texts("ntpSources")?);
    put(&mut draft.infra_env, "ntp_sources", only, &spec, "ntpSources")?;
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
    let mut approval = spec.object("agentApproval")?;
    if approval.flag("autoApprove")? == Some(false) {
        let reason = "hosts are taken as they register: holdInstallation waits for you";
        return Err(approval.error("autoApprove", reason));
    }
    drop(approval);
    spec.idle(listed::of(listed::IDLE, "InfraEnv.spec"));
    Ok(())
}

/// As the REST API takes a list.
pub(crate) fn joined(list: Vec<String>) -> Option<String> {
    (!list.is_empty()).then(|| list.join(","))
}

pub(crate) fn time_sources(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let list = joined(fields.texts("additionalNTPSources")?);
    put(&mut draft.infra_env, "additional_ntp_sources", list, fields, "additionalNTPSources")
}

pub(crate) fn cluster_image_set(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    // It is of no namespace, whatever it says.
    let key = Key { namespace: String::new(), name: metadata.key.name.clone() };
    metadata.finish(&fields, &[])?;
    let mut spec = fields.object("spec")?;
    let Some(image) = spec.text("releaseImage")? else {
        return Err(spec.error("releaseImage", "is missing"));
    };
    declare(&mut draft.image_sets, CLUSTER_IMAGE_SET, key, fields.file, image)
}

/// Its texts; of them only those that something refers to are looked at.
pub(crate) fn secret(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    let key = metadata.key.clone();
    metadata.finish(&fields, &[])?;
    fields.idle(listed::of(listed::IDLE, "Secret"));
    // Its keys say what it is.
    fields.text("type")?;
    let (data, plain) = (fields.object("data")?, fields.object("stringData")?);
    let mut all = plain_texts(data, |encoded| {
        let compact: String = encoded.split_whitespace().collect();
        BASE64_STANDARD.decode(compact).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    })?;
    all.extend(texts(plain)?);
    declare(&mut draft.secrets, SECRET, key, fields.file, all)
}

fn plain_texts(
    mut data: Fields,
    decode: impl Fn(&str) -> Option<String>,
) -> Result<std::collections::BTreeMap<String, String>, PlanError> {
    let mut all = std::collections::BTreeMap::new();
    for name in data.names() {
        let encoded = data.text(&name)?.unwrap_or_default();
        let text = decode(&encoded).ok_or_else(|| data.error(&name, "is not base64-encoded text"))?;
        all.insert(name, text);
    }
    Ok(all)
}

pub(crate) fn config_map(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    let key = metadata.key.clone();
    metadata.finish(&fields, &[])?;
    fields.idle(listed::of(listed::IDLE, "ConfigMap"));
    let data = texts(fields.object("data")?)?;
    declare(&mut draft.config_maps, CONFIG_MAP, key, fields.file, data)
}

pub(crate) fn nmstate_config(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    declare(&mut draft.network_configs, NMSTATE_CONFIG, metadata.key.clone(), fields.file, metadata.labels.clone())?;
    metadata.finish(&fields, &[])?;
    let mut spec = fields.object("spec")?;
    let interfaces = interfaces(&mut spec)?;
    let Some(config) = spec.value("config") else { return Err(spec.error("config", "is missing")) };
    network(&spec, "config", &config, &interfaces, draft)?;
    let place = spec.full_place("interfaces");
    let macs = interfaces.into_iter().map(|(mac, _)| mac).collect();
    put_host(
        draft,
        PlannedHost {
            macs,
            place,
            origins: [NMSTATE_CONFIG].into(),
            installer_args: vec![COPY_NETWORK.to_owned()],
            ..PlannedHost::default()
        },
    )
}
