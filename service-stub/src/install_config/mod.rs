//! The install configuration of a cluster, as `openshift-install` takes it: its settings and its hosts, with the user's
//! overrides decoded over them. docs/compatibility.md#install-configuration

mod facts;
mod networking;
mod overrides;
mod platform;
mod pools;
mod schema;
mod trust;

use crate::mirrors::Mirrors;
use crate::model::{ClusterRecord, Model};
use crate::rules;
use facts::Facts;
use serde_json::{Map, Value, json};

/// An operator's file is a few KB.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Since when a cluster can do without its console.
const CONSOLE_OPTIONAL_SINCE: &str = "4.12";

/// What the service adds to the install configuration of every cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub(crate) mirrors: Option<Mirrors>,
    /// A further authority that every cluster trusts, PEM.
    pub(crate) root_ca: String,
}

/// Why a cluster has no install configuration, or not with an override.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InstallConfigError {
    // The real service's text, its spelling included.
    #[error("error while adding Platfom {kind} to install config, error is: {reason}")]
    Platform { kind: String, reason: String },
    #[error("{0}")]
    Override(String),
}

/// Compact JSON, which is YAML too, with the pull secret in it.
pub(crate) fn text(record: &ClusterRecord, model: &Model, site: &Site) -> Result<String, InstallConfigError> {
    let facts = Facts::new(record, model);
    let mut config = build(&facts, site)?;
    let over = record.cluster.install_config_overrides.expose();
    if !over.is_empty() {
        overrides::merge(&mut config, over).map_err(InstallConfigError::Override)?;
    }
    let overridden = config["additionalTrustBundle"].as_str().unwrap_or_default();
    let bundle = trust::bundle(&facts, overridden, &site.root_ca, site.mirrors.as_ref());
    if !bundle.is_empty() {
        config["additionalTrustBundle"] = bundle.into();
    }
    let mut text = String::new();
    schema::CONFIG.write(&mut text, &config);
    Ok(text)
}

/// A key of an override that an install configuration has nothing for: of this name and value, or in the value.
pub(crate) fn unknown_key(name: &str, value: &Value) -> Option<String> {
    unknown_in(schema::CONFIG, &json!({name: value}), "")
}

fn unknown_in(kind: schema::Kind, value: &Value, path: &str) -> Option<String> {
    match (kind, value) {
        (schema::Kind::Pointer(kind), value) => unknown_in(*kind, value, path),
        (schema::Kind::List(kind), Value::Array(items)) => items.iter().find_map(|item| unknown_in(*kind, item, path)),
        (schema::Kind::Object(object), Value::Object(members)) => members.iter().find_map(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            object.field(key).map_or(Some(path.clone()), |field| unknown_in(field.kind, value, &path))
        }),
        _ => None,
    }
}

/// Whether the cluster can have this override; an empty one removes what was overridden.
pub(crate) fn check_override(
    record: &ClusterRecord,
    model: &Model,
    site: &Site,
    over: &str,
) -> Result<(), InstallConfigError> {
    let mut config = build(&Facts::new(record, model), site)?;
    if !over.is_empty() {
        overrides::merge(&mut config, over).map_err(InstallConfigError::Override)?;
    }
    match config["additionalTrustBundle"].as_str() {
        None | Some("") => Ok(()),
        Some(bundle) => rules::text::certificates(bundle).map_err(InstallConfigError::Override),
    }
}

/// Whether the cluster gets a console: its override may list all parts that it gets.
pub(crate) fn has_console(record: &ClusterRecord) -> bool {
    let over = record.cluster.install_config_overrides.expose();
    let mut config = json!({});
    if crate::releases::version::older(&record.cluster.openshift_version, CONSOLE_OPTIONAL_SINCE)
        || overrides::merge(&mut config, over).is_err()
    {
        return true;
    }
    let capabilities = &config["capabilities"];
    let mut listed = capabilities["additionalEnabledCapabilities"].as_array().into_iter().flatten();
    capabilities["baselineCapabilitySet"] != "None" || listed.any(|name| name == "Console")
}

/// Whether a file holds the install configuration of this cluster and not of another.
pub(crate) fn describes(file: &[u8], record: &ClusterRecord) -> bool {
    let Ok(documents) = ignition::yaml::documents::<Value>(file, MAX_FILE_BYTES) else { return false };
    let [config] = documents.as_slice() else { return false };
    config["metadata"]["name"] == record.cluster.name.as_str()
        && config["baseDomain"] == record.cluster.base_dns_domain.as_str()
}

/// Without the overrides.
fn build(facts: &Facts, site: &Site) -> Result<Value, InstallConfigError> {
    let record = facts.record;
    let cluster = &record.cluster;
    let kind = cluster.platform.as_ref().map_or("none", |platform| platform.kind.as_str());
    let user_managed = platform::is_user_managed(facts, kind);
    let mut config = Map::new();
    networking::add(facts, user_managed, &mut config);
    trust::add_sources(facts, site.mirrors.as_ref(), &mut config);
    pools::add(facts, &mut config);
    let platform = platform::fields(facts, kind)
        .map_err(|reason| InstallConfigError::Platform { kind: kind.to_owned(), reason })?;
    if user_managed && matches!(kind, "none" | "external") {
        networking::add_single_node(facts, &mut config);
    }
    for (name, value) in [
        ("apiVersion", json!("v1")),
        ("baseDomain", json!(cluster.base_dns_domain)),
        ("metadata", json!({"name": cluster.name})),
        ("platform", json!({kind: platform})),
        ("pullSecret", json!(record.pull_secret.expose())),
        ("sshKey", json!(cluster.ssh_public_key)),
        ("osImageStream", json!(facts.setting("os_stream"))),
    ] {
        config.insert(name.to_owned(), value);
    }
    Ok(config.into())
}

#[cfg(test)]
mod tests;
