//! Merges documents into one plan: the cluster and its hosts.

use super::{
    PlanError, Rack,
    draft::{Draft, Given, PlannedManifest, Pool},
    existing::ExistingCluster,
    kinds,
    names::{
        AGENT_CLUSTER_INSTALL, CLUSTER_DEPLOYMENT, CLUSTER_IMAGE_SET, CONFIG_MAP, DOCKER_CONFIG, INFRA_ENV,
        NMSTATE_CONFIG, SECRET,
    },
    read::{self, Document, Fields},
    references::{Named, Reference},
};
use crate::{mirrors::Mirrors, planned::PlannedHost};
use api::{ClusterCreateParams, HostRole, InfraEnvCreateParams, MirrorRegistry};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

/// The plan of a directory. `version` is the default version to install.
pub fn directory(path: &Path, version: Option<&str>) -> Result<Rack, PlanError> {
    plan(&read::documents(path)?, version)
}

/// What becomes of fields that no reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refused,
    /// But for those that could cost somebody a disk.
    Ignored,
}

/// The plan of a rack that may not exist yet.
///
/// # Errors
/// Something in the documents is unknown, missing, contradictory or not supported.
pub fn plan(documents: &[Document], version: Option<&str>) -> Result<Rack, PlanError> {
    plan_with(documents, version, Unknown::Refused)
}

/// The same, and what becomes of fields that no reader knows.
pub(crate) fn plan_with(documents: &[Document], version: Option<&str>, unknown: Unknown) -> Result<Rack, PlanError> {
    merge(documents, version, Purpose::Create, unknown)
}

/// The plan of a rack that exists, and has what its documents leave out: pull secret, version, domain, addresses.
pub(crate) fn changes(documents: &[Document], version: Option<&str>, unknown: Unknown) -> Result<Rack, PlanError> {
    merge(documents, version, Purpose::Change, unknown)
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

fn merge(documents: &[Document], version: Option<&str>, purpose: Purpose, unknown: Unknown) -> Result<Rack, PlanError> {
    let (rest, mut draft) = (RefCell::default(), Draft::default());
    for document in documents {
        kinds::take(Fields::from_document(document, &rest)?, &mut draft)?;
    }
    let rest = rest.into_inner();
    let warnings = rest.warnings(unknown == Unknown::Ignored)?;
    let mut idle = rest.idle;
    check_references(&draft)?;
    idle.extend(unused(&draft));
    let mut rack = match draft.existing.take() {
        Some((existing, _)) => added(draft, existing, purpose)?,
        None if draft.adds_nodes => {
            let hint = "`landfall node-iso` reads it, and puts it beside nodes-config.yaml".to_owned();
            return Err(PlanError::Missing { what: "cluster to add nodes to", hint });
        }
        None => finish(draft, version, purpose)?,
    };
    rack.warnings = warnings;
    rack.idle = idle;
    Ok(rack)
}

/// What refers to another document names one that is there, and there is one cluster.
fn check_references(draft: &Draft) -> Result<(), PlanError> {
    for reference in &draft.references {
        match reference.kind {
            CLUSTER_DEPLOYMENT => reference.find(&draft.deployments).map(drop)?,
            AGENT_CLUSTER_INSTALL => reference.find(&draft.installs).map(drop)?,
            _ => reference.find(&draft.infra_envs).map(drop)?,
        }
    }
    for (kind, all) in [
        (CLUSTER_DEPLOYMENT, &draft.deployments),
        (AGENT_CLUSTER_INSTALL, &draft.installs),
        (INFRA_ENV, &draft.infra_envs),
    ] {
        if let [one, other, ..] = all.as_slice() {
            let reason = format!(
                "{} has the {kind} '{}' and {} the {kind} '{}': a plan is of one cluster",
                one.file, one.key.name, other.file, other.key.name
            );
            return Err(PlanError::Refused(reason));
        }
    }
    let Some((selector, place)) = draft.selector.as_ref().filter(|(selector, _)| !selector.is_empty()) else {
        return Ok(());
    };
    match draft.network_configs.iter().find(|config| !selector.fits(&config.value)) {
        Some(config) => Err(PlanError::Reference {
            place: place.clone(),
            reason: format!("does not select the {} '{}' of {}", NMSTATE_CONFIG, config.key.name, config.file),
        }),
        None if draft.network_configs.is_empty() => Err(PlanError::Reference {
            place: place.clone(),
            reason: format!("selects nothing: the documents have no {}", NMSTATE_CONFIG),
        }),
        None => Ok(()),
    }
}

/// Documents that nothing refers to.
fn unused(draft: &Draft) -> Vec<String> {
    let referred = |key: &super::references::Key| {
        let all = [
            &draft.pull_secret,
            &draft.infra_env_pull_secret,
            &draft.cluster_mirrors,
            &draft.infra_env_mirrors,
            &draft.endpoint_authority,
        ];
        all.into_iter().flatten().chain(&draft.manifests).any(|reference| reference.key.is_for(key))
    };
    let mut unused = Vec::new();
    for (kind, all) in [(SECRET, &draft.secrets), (CONFIG_MAP, &draft.config_maps)] {
        // The only credentials need no reference.
        let is_used = |one: &Named<_>| referred(&one.key) || (kind == SECRET && has_credentials(one));
        unused.extend(
            all.iter().filter(|one| !is_used(one)).map(|one| {
                format!("{}: the {kind} '{}' does nothing here: no document names it", one.file, one.key.name)
            }),
        );
    }
    if draft.image_set.is_none() && draft.image_sets.len() > 1 {
        unused.extend(draft.image_sets.iter().map(|one| {
            format!(
                "{}: the {} '{}' does nothing here: no document names it",
                one.file, CLUSTER_IMAGE_SET, one.key.name
            )
        }));
    }
    unused
}

fn has_credentials(secret: &Named<BTreeMap<String, String>>) -> bool {
    secret.value.contains_key(DOCKER_CONFIG)
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
        ..Rack::default()
    })
}

fn finish(mut draft: Draft, version: Option<&str>, purpose: Purpose) -> Result<Rack, PlanError> {
    let missing = |what, hint: &str| PlanError::Missing { what, hint: hint.to_owned() };
    match purpose {
        // It has its own.
        Purpose::Change => draft.defaults.clear(),
        Purpose::Create if draft.is_small && !draft.cluster.contains_key("api_vips") => {
            for (field, value) in [("platform", json!({"type": "none"})), ("user_managed_networking", json!(true))] {
                draft.cluster.entry(field).or_insert_with(|| (value, String::new()));
            }
        }
        Purpose::Create => {}
    }
    let name = draft.cluster.get("name").and_then(|(name, _)| name.as_str()).unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(missing(
            "cluster name",
            "give ClusterDeployment spec.clusterName, or metadata.name of an install-config",
        ));
    }
    if let Some(domain) = draft.defaults.get("base_dns_domain") {
        draft.cluster.entry("base_dns_domain").or_insert_with(|| ((*domain).into(), String::new()));
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
    resolve_endpoint(&mut draft)?;
    let manifests = manifests(&draft)?;
    resolve_hyperthreading(&mut draft);
    let overrides = std::mem::take(&mut draft.overrides);
    let overrides = if overrides.is_empty() { String::new() } else { Value::Object(overrides).to_string() };
    let count = |name: &str| draft.other.get(name).and_then(|(count, _)| count.as_u64());
    let masters = count("control_plane").ok_or_else(|| {
        missing(
            "number of control-plane hosts",
            "give AgentClusterInstall spec.provisionRequirements.controlPlaneAgents, or controlPlane.replicas of an install-config",
        )
    })?;
    let (workers, arbiters) = (count("workers").unwrap_or(0), count("arbiters").unwrap_or(0));
    let place = |name: &str| draft.other.get(name).map(|(_, place)| place.clone()).unwrap_or_default();
    check_counts(&draft.hosts, [masters, arbiters, workers], &place)?;
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
                reason: format!("'{}' is not an IP address", text.escape_default()),
                line: None,
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
    let total = masters.saturating_add(workers).saturating_add(arbiters);
    Ok(Rack {
        cluster: api::json::from_value(Value::Object(cluster)).map_err(refused)?,
        infra_env: api::json::from_value(Value::Object(infra_env)).map_err(refused)?,
        hosts: draft.hosts,
        masters: usize::try_from(masters).unwrap_or(usize::MAX),
        total: usize::try_from(total).unwrap_or(usize::MAX),
        address,
        hold,
        overrides,
        manifests,
        ..Rack::default()
    })
}

fn values(place: BTreeMap<&'static str, Given<Value>>) -> Map<String, Value> {
    place.into_iter().map(|(name, (value, _))| (name.to_owned(), value)).collect()
}

/// Of the referenced set, else of the only one, else the documents' own, else the operator's choice. Two of them must not differ.
fn resolve_version(draft: &mut Draft, given: Option<&str>) -> Result<(), PlanError> {
    let set = match (&draft.image_set, draft.image_sets.as_slice()) {
        (Some(reference), sets) => Some(reference.find(sets)?),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let image = set.map(|set| (set.value.clone(), set.file.clone()));
    let named =
        draft.other.get("version").and_then(|(version, place)| Some((version.as_str()?.to_owned(), place.clone())));
    let of_image = image.as_ref().and_then(|(image, file)| Some((image_version(image)?, file.clone())));
    let option = given.map(|version| (version.to_owned(), "--openshift-version".to_owned()));
    let mut found: Option<Given<String>> = None;
    for (version, place) in [of_image, named, option].into_iter().flatten() {
        match &found {
            Some((known, one)) if *known != version && !is_part(&version, known) => {
                let what = format!("the version to install, {known} and {version}");
                return Err(PlanError::Contradiction { one: one.clone(), other: place, what });
            }
            Some(_) => {}
            None => found = Some((version, place)),
        }
    }
    let default = draft.defaults.get("openshift_version").map(|version| ((*version).to_owned(), String::new()));
    let Some((version, _)) = found.or(default) else {
        let hint = "give a ClusterImageSet whose releaseImage has its version as tag, or --openshift-version";
        return Err(PlanError::Missing { what: "version to install", hint: hint.to_owned() });
    };
    if let Some((image, _)) = image {
        draft.cluster.insert("ocp_release_image", (json!(image), String::new()));
    }
    draft.cluster.insert("openshift_version", (json!(version), String::new()));
    Ok(())
}

/// Whether a version names another one less exactly: 4.20 is 4.20.3.
fn is_part(short: &str, version: &str) -> bool {
    version.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'))
}

/// Of `quay.io/openshift-release-dev/ocp-release:4.19.3-x86_64`: `4.19.3`.
fn image_version(image: &str) -> Option<String> {
    let name = image.rsplit('/').next()?.split('@').next()?;
    let tag = name.split_once(':')?.1;
    let bare = ["-x86_64", "-aarch64", "-ppc64le", "-s390x", "-multi"].iter().find_map(|end| tag.strip_suffix(end));
    let tag = bare.unwrap_or(tag);
    tag.starts_with(|c: char| c.is_ascii_digit()).then(|| tag.to_owned())
}

/// That of the cluster, and that of the infra-env if it names another.
fn resolve_pull_secret(draft: &mut Draft) -> Result<(), PlanError> {
    let credentials = |reference: &Reference| {
        let secret = reference.find(&draft.secrets)?;
        secret.value.get(DOCKER_CONFIG).cloned().ok_or_else(|| PlanError::Reference {
            place: reference.place.clone(),
            reason: format!("'{}' names a Secret of {} without {}", reference.key.name, secret.file, DOCKER_CONFIG),
        })
    };
    let of_infra_env = draft.infra_env_pull_secret.as_ref().map(credentials).transpose()?;
    let of_cluster = draft.pull_secret.as_ref().map(credentials).transpose()?;
    let known = draft.cluster.get("pull_secret").zip(of_cluster.as_ref());
    if let Some(((_, one), _)) = known.filter(|((known, _), text)| *known != json!(text)) {
        let other = draft.pull_secret.as_ref().map(|reference| reference.place.clone()).unwrap_or_default();
        return Err(PlanError::Contradiction { one: one.clone(), other, what: "the pull secret".to_owned() });
    }
    let has_one = draft.cluster.contains_key("pull_secret");
    let mut all = draft.secrets.iter().filter(|secret| has_credentials(secret));
    let only = match (all.next(), all.next()) {
        (Some(only), None) => only.value.get(DOCKER_CONFIG).cloned(),
        _ => None,
    };
    let default = draft.defaults.get("pull_secret").map(|secret| (*secret).to_owned());
    let text = of_cluster.or_else(|| of_infra_env.clone()).or(only).or(default);
    if let Some(text) = of_infra_env {
        draft.infra_env.insert("pull_secret", (json!(text), String::new()));
    }
    match text {
        _ if has_one => Ok(()),
        Some(text) => {
            draft.cluster.insert("pull_secret", (json!(text), String::new()));
            Ok(())
        }
        None => {
            let hint = "give a Secret with .dockerconfigjson, or pullSecret of an install-config".to_owned();
            Err(PlanError::Missing { what: "pull secret", hint })
        }
    }
}

/// The ConfigMaps that the cluster and the infra-env refer to.
fn resolve_mirrors(draft: &mut Draft) -> Result<(), PlanError> {
    const CONF: &str = "registries.conf";
    for (reference, to) in
        [(&draft.cluster_mirrors, &mut draft.cluster), (&draft.infra_env_mirrors, &mut draft.infra_env)]
    {
        let Some(reference) = reference else { continue };
        let map = reference.find(&draft.config_maps)?;
        let text = |name: &str| map.value.get(name).cloned().unwrap_or_default();
        let mirrors = MirrorRegistry { registries_conf: text(CONF), ca_bundle: text("ca-bundle.crt") };
        if mirrors.registries_conf.is_empty() {
            let reason = format!("'{}' names a ConfigMap of {} without {CONF}", reference.key.name, map.file);
            return Err(PlanError::Reference { place: reference.place.clone(), reason });
        }
        Mirrors::own(&mirrors).map_err(|error| PlanError::Field {
            file: map.file.clone(),
            field: format!("data.{CONF}"),
            reason: error.to_string(),
            line: None,
        })?;
        let mirrors = json!(mirrors);
        let given = to.insert("mirror_registry_configuration", (mirrors.clone(), reference.place.clone()));
        if let Some((_, one)) = given.filter(|(known, _)| *known != mirrors) {
            let what = "the mirrors of registries".to_owned();
            return Err(PlanError::Contradiction { one, other: reference.place.clone(), what });
        }
    }
    Ok(())
}

/// Where hosts get their configs, with the authority of that server.
fn resolve_endpoint(draft: &mut Draft) -> Result<(), PlanError> {
    const AUTHORITY: &str = "tls.crt";
    let Some((url, place)) = draft.other.remove("endpoint_url") else { return Ok(()) };
    let mut endpoint = json!({"url": url});
    if let Some(reference) = &draft.endpoint_authority {
        let secret = reference.find(&draft.secrets)?;
        let authority = secret.value.get(AUTHORITY).ok_or_else(|| PlanError::Reference {
            place: reference.place.clone(),
            reason: format!("'{}' names a Secret of {} without {AUTHORITY}", reference.key.name, secret.file),
        })?;
        endpoint["ca_certificate"] = BASE64_STANDARD.encode(authority).into();
    }
    draft.cluster.insert("ignition_endpoint", (endpoint, place));
    Ok(())
}

/// The files of the ConfigMaps that the cluster names.
fn manifests(draft: &Draft) -> Result<Vec<PlannedManifest>, PlanError> {
    let mut files: BTreeMap<String, (String, String)> = BTreeMap::new();
    for reference in &draft.manifests {
        let map = reference.find(&draft.config_maps)?;
        for (file, content) in &map.value {
            let given = files.insert(file.clone(), (content.clone(), map.file.clone()));
            if let Some((_, one)) = given.filter(|(known, _)| known != content) {
                let what = format!("the manifest {}", file.escape_default());
                return Err(PlanError::Contradiction { one, other: map.file.clone(), what });
            }
        }
    }
    Ok(files.into_iter().map(|(file, (content, _))| PlannedManifest { file, content }).collect())
}

/// Roles that the documents say nothing of keep it.
fn resolve_hyperthreading(draft: &mut Draft) {
    if draft.hyperthreading.is_empty() {
        return;
    }
    let is_on = |pool: &Pool| draft.hyperthreading.get(pool.roles()).is_none_or(|(is_on, _)| *is_on == json!(true));
    let has_machines = |pool: &Pool| {
        draft.other.get(pool.count()).and_then(|(count, _)| count.as_u64()).is_some_and(|count| count > 0)
    };
    let on: Vec<&str> =
        Pool::ALL.iter().filter(|pool| has_machines(pool) && is_on(pool)).map(|pool| pool.roles()).collect();
    let text = match on.len() {
        0 => "none".to_owned(),
        _ if Pool::ALL.iter().all(is_on) => "all".to_owned(),
        _ => on.join(","),
    };
    draft.cluster.insert("hyperthreading", (text.into(), String::new()));
}

fn check_counts(hosts: &[PlannedHost], counts: [u64; 3], place: &impl Fn(&str) -> String) -> Result<(), PlanError> {
    let total = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let over = |count: usize, most: u64| u64::try_from(count).unwrap_or(u64::MAX) > most;
    let say = |what: &str, count: usize, most: u64, field: &str| {
        let field = if place(field).is_empty() { "control_plane" } else { field };
        PlanError::Refused(format!("{count} {what} are listed, but {} asks for {most}", place(field)))
    };
    let roles = [HostRole::Master, HostRole::Arbiter, HostRole::Worker];
    let names = ["control-plane hosts", "arbiters", "workers"];
    for (((role, name), count), pool) in roles.into_iter().zip(names).zip(counts).zip(Pool::ALL) {
        let listed = hosts.iter().filter(|host| host.role == role).count();
        if over(listed, count) {
            return Err(say(name, listed, count, pool.count()));
        }
    }
    if over(hosts.len(), total) {
        return Err(say("hosts", hosts.len(), total, "control_plane"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
