//! Merges documents into one plan: the cluster and its hosts.

use super::{
    PlanError, Rack,
    existing::ExistingCluster,
    hints::Hints,
    hosts::{self, PlannedHost},
    kinds,
    read::{self, Document, Fields},
};
use api::{ClusterCreateParams, InfraEnvCreateParams, MirrorRegistry};
use serde_json::{Map, Value, json};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

/// A value and where it was given.
type Given<T> = (T, String);

/// What the documents gave so far.
#[derive(Default)]
pub(crate) struct Draft {
    /// Fields of the cluster's parameters.
    pub(crate) cluster: BTreeMap<&'static str, Given<Value>>,
    /// Fields of the infra-env's parameters.
    pub(crate) infra_env: BTreeMap<&'static str, Given<Value>>,
    /// Everything else: counts, the address, references.
    pub(crate) other: BTreeMap<&'static str, Given<Value>>,
    /// Release images by the name of their set.
    pub(crate) image_sets: BTreeMap<String, String>,
    /// Registry credentials by the name of their secret.
    pub(crate) pull_secrets: BTreeMap<String, String>,
    /// Mirrors of registries by the name of their ConfigMap.
    pub(crate) mirrors: BTreeMap<String, MirrorRegistry>,
    pub(crate) hosts: Vec<PlannedHost>,
    /// Networks of hosts.
    pub(crate) networks: Vec<Value>,
    /// The hosts are new nodes of a cluster that exists.
    pub(crate) adds_nodes: bool,
    /// That cluster, and its file.
    pub(crate) existing: Option<(ExistingCluster, String)>,
}

/// Stores a value under a name; refused if a different one was given before.
pub(crate) fn put(
    to: &mut BTreeMap<&'static str, Given<Value>>,
    name: &'static str,
    value: Option<impl Into<Value>>,
    from: &Fields,
    field: &str,
) -> Result<(), PlanError> {
    let Some(value) = value.map(Into::into) else { return Ok(()) };
    let place = format!("{}: {}", from.file, from.place(field));
    match to.get(name) {
        Some((known, other)) if *known != value => {
            Err(PlanError::Contradiction { one: other.clone(), other: place, what: name.replace('_', " ") })
        }
        Some(_) => Ok(()),
        None => {
            to.insert(name, (value, place));
            Ok(())
        }
    }
}

/// The plan of a directory. `version` is the default version to install.
pub fn directory(path: &Path, version: Option<&str>) -> Result<Rack, PlanError> {
    plan(&read::documents(path)?, version)
}

/// The plan of a rack that may not exist yet.
pub fn plan(documents: &[Document], version: Option<&str>) -> Result<Rack, PlanError> {
    merge(documents, version, Purpose::Create)
}

/// The plan of a rack that exists, and has what its documents leave out: pull secret, version, domain, addresses.
pub(crate) fn changes(documents: &[Document], version: Option<&str>) -> Result<Rack, PlanError> {
    merge(documents, version, Purpose::Change)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Create,
    Change,
}

impl Purpose {
    fn requires(self, found: Result<(), PlanError>) -> Result<(), PlanError> {
        match found {
            Err(PlanError::Missing { .. }) if self == Self::Change => Ok(()),
            found => found,
        }
    }
}

fn merge(documents: &[Document], version: Option<&str>, purpose: Purpose) -> Result<Rack, PlanError> {
    let (unknown, mut warnings, mut draft) = (RefCell::default(), Vec::new(), Draft::default());
    for document in documents {
        let fields = Fields::from_document(document, &unknown)?;
        if let Some(kind) = kinds::take(fields, &mut draft)? {
            warnings.push(format!("{}: ignoring the unknown kind '{kind}'", document.file));
        }
    }
    for field in unknown.into_inner() {
        warnings.push(format!("{field}: ignoring an unknown field"));
    }
    let mut rack = match draft.existing.take() {
        Some((existing, _)) => added(draft, existing, purpose)?,
        None if draft.adds_nodes => {
            let hint = "`landfall node-iso` reads it, and puts it beside nodes-config.yaml".to_owned();
            return Err(PlanError::Missing { what: "cluster to add nodes to", hint });
        }
        None => finish(draft, version, purpose)?,
    };
    rack.warnings = warnings;
    Ok(rack)
}

/// Nodes that are added to a cluster: each of them serves itself.
fn added(draft: Draft, existing: ExistingCluster, purpose: Purpose) -> Result<Rack, PlanError> {
    if purpose == Purpose::Change {
        let reason = "nodes are added to a cluster by the ISO of `landfall node-iso`";
        return Err(PlanError::Refused(reason.to_owned()));
    }
    let only = ["cpu_architecture"];
    if let Some((name, (_, place))) = draft.cluster.iter().find(|(name, _)| !only.contains(*name)) {
        let reason = format!("{place} sets the {}, but the cluster exists", name.replace('_', " "));
        return Err(PlanError::Refused(reason));
    }
    if !draft.adds_nodes {
        let hint = "give a nodes-config.yaml with the new nodes".to_owned();
        return Err(PlanError::Missing { what: "nodes to add", hint });
    }
    let text = |name: &str, from: &BTreeMap<&'static str, Given<Value>>| {
        from.get(name).and_then(|(value, _)| value.as_str()).map(str::to_owned)
    };
    let (name, base) = existing.names();
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let proxy = Some(existing.proxy.clone()).filter(|proxy| *proxy != api::Proxy::default());
    let cluster = ClusterCreateParams {
        name: name.to_owned(),
        base_dns_domain: Some(base.to_owned()),
        openshift_version: existing.version.clone(),
        pull_secret: existing.pull_secret.clone(),
        ..ClusterCreateParams::default()
    };
    let infra_env = InfraEnvCreateParams {
        name: name.to_owned(),
        pull_secret: existing.pull_secret.clone(),
        cpu_architecture: text("cpu_architecture", &draft.cluster).or(some(&existing.architecture)),
        ssh_authorized_key: text("ssh_authorized_key", &draft.infra_env).or(some(&existing.ssh_key)),
        additional_ntp_sources: some(&existing.time_sources.join(",")),
        additional_trust_bundle: some(&existing.trust_bundle),
        proxy,
        static_network_config: Some(draft.networks).filter(|networks| !networks.is_empty()),
        ..InfraEnvCreateParams::default()
    };
    Ok(Rack {
        cluster,
        infra_env,
        total: draft.hosts.len(),
        hosts: draft.hosts,
        masters: 0,
        address: Some(Ipv4Addr::LOCALHOST.into()),
        hold: false,
        existing: Some(existing),
        warnings: Vec::new(),
    })
}

fn finish(mut draft: Draft, version: Option<&str>, purpose: Purpose) -> Result<Rack, PlanError> {
    let missing = |what, hint: &str| PlanError::Missing { what, hint: hint.to_owned() };
    let name = draft.cluster.get("name").and_then(|(name, _)| name.as_str()).unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(missing(
            "cluster name",
            "give ClusterDeployment spec.clusterName, or metadata.name of an install-config",
        ));
    }
    if purpose == Purpose::Create && !draft.cluster.contains_key("base_dns_domain") {
        return Err(missing(
            "base domain",
            "give ClusterDeployment spec.baseDomain, or baseDomain of an install-config",
        ));
    }
    purpose.requires(resolve_version(&mut draft, version))?;
    purpose.requires(resolve_pull_secret(&mut draft))?;
    resolve_mirrors(&mut draft)?;
    let count = |name: &str| draft.other.get(name).and_then(|(count, _)| count.as_u64());
    let masters = count("control_plane").ok_or_else(|| {
        missing(
            "number of control-plane hosts",
            "give AgentClusterInstall spec.provisionRequirements.controlPlaneAgents, or controlPlane.replicas of an install-config",
        )
    })?;
    let workers = count("workers").unwrap_or(0);
    let place = |name: &str| draft.other.get(name).map(|(_, place)| place.clone()).unwrap_or_default();
    check_counts(&draft.hosts, masters, workers, &place)?;
    let place = |name: &str| draft.cluster.get(name).map(|(_, place)| place.clone());
    let user_managed = draft.cluster.get("user_managed_networking").and_then(|(flag, _)| flag.as_bool());
    for (field, what) in [("api_vips", "API address"), ("ingress_vips", "ingress address")] {
        let needed = purpose == Purpose::Create && masters > 1 && user_managed != Some(true);
        if needed && place(field).is_none() {
            return Err(missing(
                what,
                "give apiVIPs and ingressVIPs, or platform none if you manage the network yourself",
            ));
        }
    }
    let address = match draft.other.remove("address") {
        None => None,
        Some((text, place)) => {
            let text = text.as_str().unwrap_or_default().to_owned();
            let parsed: Result<IpAddr, _> = text.parse();
            Some(parsed.map_err(|_| PlanError::Field {
                file: place,
                field: "rendezvousIP".to_owned(),
                reason: format!("'{text}' is not an IP address"),
            })?)
        }
    };
    let hold = draft.other.get("hold").is_some_and(|(hold, _)| *hold == json!(true));
    let mut cluster: Map<String, Value> = values(draft.cluster);
    cluster.insert("control_plane_count".into(), json!(masters));
    if masters == 1 {
        cluster.insert("high_availability_mode".into(), json!("None"));
    }
    // An existing rack has its own.
    for field in ["openshift_version", "pull_secret"] {
        cluster.entry(field).or_insert_with(|| "".into());
    }
    let mut infra_env: Map<String, Value> = values(draft.infra_env);
    infra_env.insert("name".into(), json!(name));
    for shared in ["pull_secret", "cpu_architecture", "openshift_version"] {
        cluster.get(shared).map(|value| infra_env.entry(shared).or_insert_with(|| value.clone()));
    }
    if let Some(key) = cluster.get("ssh_public_key") {
        infra_env.entry("ssh_authorized_key").or_insert_with(|| key.clone());
    }
    infra_env.retain(|field, value| field == "pull_secret" || *value != json!(""));
    if !draft.networks.is_empty() {
        infra_env.insert("static_network_config".into(), Value::Array(draft.networks));
    }
    let refused = |error: serde_json::Error| PlanError::Refused(error.to_string());
    let total = masters.saturating_add(workers);
    Ok(Rack {
        cluster: api::json::from_value(Value::Object(cluster)).map_err(refused)?,
        infra_env: api::json::from_value(Value::Object(infra_env)).map_err(refused)?,
        hosts: draft.hosts,
        masters: usize::try_from(masters).unwrap_or(usize::MAX),
        total: usize::try_from(total).unwrap_or(usize::MAX),
        address,
        hold,
        existing: None,
        warnings: Vec::new(),
    })
}

fn values(place: BTreeMap<&'static str, Given<Value>>) -> Map<String, Value> {
    place.into_iter().map(|(name, (value, _))| (name.to_owned(), value)).collect()
}

/// The referenced set, else the only one, else the operator's choice.
fn resolve_version(draft: &mut Draft, given: Option<&str>) -> Result<(), PlanError> {
    let referred = draft.other.get("image_set").and_then(|(name, place)| Some((name.as_str()?.to_owned(), place)));
    let image = match referred {
        Some((name, place)) => {
            let image = draft.image_sets.get(&name);
            let hint = || format!("{place} names '{name}', which is missing");
            Some(image.ok_or_else(|| PlanError::Missing { what: "ClusterImageSet", hint: hint() })?)
        }
        None if draft.image_sets.len() == 1 => draft.image_sets.values().next(),
        None => None,
    };
    let of_image = image.and_then(|image| image_version(image));
    let named = draft.other.get("version").and_then(|(version, _)| version.as_str());
    let Some(version) = of_image.or_else(|| given.or(named).map(str::to_owned)) else {
        let hint = "give a ClusterImageSet whose releaseImage has its version as tag, or --openshift-version";
        return Err(PlanError::Missing { what: "version to install", hint: hint.to_owned() });
    };
    if let Some(image) = image {
        draft.cluster.insert("ocp_release_image", (json!(image), String::new()));
    }
    draft.cluster.insert("openshift_version", (json!(version), String::new()));
    Ok(())
}

/// Of `quay.io/openshift-release-dev/ocp-release:4.19.3-x86_64`: `4.19.3`.
fn image_version(image: &str) -> Option<String> {
    let name = image.rsplit('/').next()?.split('@').next()?;
    let tag = name.split_once(':')?.1;
    let bare = ["-x86_64", "-aarch64", "-ppc64le", "-s390x", "-multi"].iter().find_map(|end| tag.strip_suffix(end));
    let tag = bare.unwrap_or(tag);
    tag.starts_with(|c: char| c.is_ascii_digit()).then(|| tag.to_owned())
}

fn resolve_pull_secret(draft: &mut Draft) -> Result<(), PlanError> {
    if draft.cluster.contains_key("pull_secret") {
        return Ok(());
    }
    let text = match draft.other.get("pull_secret_ref") {
        Some((name, place)) => {
            let name = name.as_str().unwrap_or_default();
            let hint = || format!("{place} names '{name}', which is missing or has no .dockerconfigjson");
            draft.pull_secrets.get(name).ok_or_else(|| PlanError::Missing { what: "pull secret", hint: hint() })?
        }
        None => {
            let hint = || "give a Secret with .dockerconfigjson, or pullSecret of an install-config".to_owned();
            let only = draft.pull_secrets.values().next().filter(|_| draft.pull_secrets.len() == 1);
            only.ok_or_else(|| PlanError::Missing { what: "pull secret", hint: hint() })?
        }
    };
    draft.cluster.insert("pull_secret", (json!(text), String::new()));
    Ok(())
}

/// The ConfigMaps that the cluster and the infra-env refer to.
fn resolve_mirrors(draft: &mut Draft) -> Result<(), PlanError> {
    for (reference, to) in [("cluster_mirrors", &mut draft.cluster), ("infra_env_mirrors", &mut draft.infra_env)] {
        let Some((name, place)) = draft.other.get(reference) else { continue };
        let name = name.as_str().unwrap_or_default();
        let hint = || format!("{place} names '{name}', which is missing or has no registries.conf");
        let mirrors = draft.mirrors.get(name);
        let mirrors = mirrors.ok_or_else(|| PlanError::Missing { what: "ConfigMap", hint: hint() })?;
        to.insert("mirror_registry_configuration", (json!(mirrors), String::new()));
    }
    Ok(())
}

fn check_counts(
    hosts: &[PlannedHost],
    masters: u64,
    workers: u64,
    place: &impl Fn(&str) -> String,
) -> Result<(), PlanError> {
    let total = masters.saturating_add(workers);
    let of = |role| hosts.iter().filter(|host| host.role == role).count();
    let over = |count: usize, most: u64| u64::try_from(count).unwrap_or(u64::MAX) > most;
    let say = |what: &str, count: usize, most: u64, field: &str| {
        PlanError::Refused(format!("{count} {what} are listed, but {} asks for {most}", place(field)))
    };
    match () {
        () if over(of(api::HostRole::Master), masters) => {
            Err(say("control-plane hosts", of(api::HostRole::Master), masters, "control_plane"))
        }
        () if over(of(api::HostRole::Worker), workers) => {
            let field = if place("workers").is_empty() { "control_plane" } else { "workers" };
            Err(say("workers", of(api::HostRole::Worker), workers, field))
        }
        () if over(hosts.len(), total) => Err(say("hosts", hosts.len(), total, "control_plane")),
        () => Ok(()),
    }
}

/// Adds a host, or merges it into a known one.
pub(crate) fn put_host(draft: &mut Draft, host: PlannedHost) -> Result<(), PlanError> {
    hosts::merge(&mut draft.hosts, host)
}

/// The hints in a field, if present.
pub(crate) fn hints(fields: &mut Fields, name: &str) -> Result<Hints, PlanError> {
    if fields.has(name) { Hints::take(fields.object(name)?) } else { Ok(Hints::default()) }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
