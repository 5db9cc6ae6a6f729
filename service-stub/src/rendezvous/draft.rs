//! What the documents gave so far. Readers of kinds write it, and the plan is made of it.

use super::{
    PlanError,
    existing::ExistingCluster,
    hosts,
    read::Fields,
    references::{Named, Reference, Selector},
};
use crate::{
    install_config,
    planned::{Hints, PlannedHost},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A value and where it was given.
pub(crate) type Given<T> = (T, String);

/// What the documents gave so far.
#[derive(Default)]
pub(crate) struct Draft {
    /// Fields of the cluster's parameters.
    pub(crate) cluster: BTreeMap<&'static str, Given<Value>>,
    /// Fields of the infra-env's parameters.
    pub(crate) infra_env: BTreeMap<&'static str, Given<Value>>,
    /// Everything else: counts, the address.
    pub(crate) other: BTreeMap<&'static str, Given<Value>>,
    /// It is a rack.toml: without virtual addresses the network of a new rack is its user's.
    pub(crate) is_small: bool,
    /// Settings of a new cluster that the documents leave out.
    pub(crate) defaults: BTreeMap<&'static str, &'static str>,
    /// Whether a role's processors have two threads a core.
    pub(crate) hyperthreading: BTreeMap<&'static str, Given<Value>>,
    /// What is decoded over the cluster's install configuration.
    pub(crate) overrides: Map<String, Value>,
    pub(crate) deployments: Vec<Named<()>>,
    pub(crate) installs: Vec<Named<()>>,
    pub(crate) infra_envs: Vec<Named<()>>,
    pub(crate) machines: Vec<Named<()>>,
    /// Release images.
    pub(crate) image_sets: Vec<Named<String>>,
    pub(crate) secrets: Vec<Named<BTreeMap<String, String>>>,
    pub(crate) config_maps: Vec<Named<BTreeMap<String, String>>>,
    /// The labels of documents with networks.
    pub(crate) network_configs: Vec<Named<BTreeMap<String, String>>>,
    /// Which of those are the infra-env's, and where it says so.
    pub(crate) selector: Option<(Selector, String)>,
    /// Those that name a document and say no more.
    pub(crate) references: Vec<Reference>,
    pub(crate) image_set: Option<Reference>,
    pub(crate) pull_secret: Option<Reference>,
    pub(crate) infra_env_pull_secret: Option<Reference>,
    pub(crate) cluster_mirrors: Option<Reference>,
    pub(crate) infra_env_mirrors: Option<Reference>,
    /// ConfigMaps whose files are the cluster's manifests.
    pub(crate) manifests: Vec<Reference>,
    /// The authority of the endpoint where hosts get their configs.
    pub(crate) endpoint_authority: Option<Reference>,
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

/// Machines of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    Masters,
    Arbiters,
    Workers,
}

impl Pool {
    pub(crate) const ALL: [Self; 3] = [Self::Masters, Self::Arbiters, Self::Workers];

    /// As openshift-install calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Masters => "master",
            Self::Arbiters => "arbiter",
            Self::Workers => "worker",
        }
    }

    /// As the settings of a cluster call it.
    pub(crate) fn roles(self) -> &'static str {
        match self {
            Self::Masters => "masters",
            Self::Arbiters => "arbiters",
            Self::Workers => "workers",
        }
    }

    /// The number of machines in it, among what the documents gave.
    pub(crate) fn count(self) -> &'static str {
        match self {
            Self::Masters => "control_plane",
            Self::Arbiters => "arbiters",
            Self::Workers => "workers",
        }
    }
}

/// A file that is added to a cluster's manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedManifest {
    pub(crate) file: String,
    pub(crate) content: String,
}

impl PlannedManifest {
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn content(&self) -> &str {
        &self.content
    }

    /// The body of the request that adds it.
    pub(crate) fn body(&self) -> Value {
        json!({"folder": MANIFESTS, "file_name": self.file, "content": BASE64_STANDARD.encode(&self.content)})
    }
}

/// Where a hub's controllers put them.
pub(crate) const MANIFESTS: &str = "manifests";

/// Adds to what is decoded over the cluster's install configuration.
pub(crate) fn put_overrides(draft: &mut Draft, value: Value, from: &Fields, field: &str) -> Result<(), PlanError> {
    let Value::Object(members) = value else { return Err(from.error(field, "is not a JSON object")) };
    for (name, value) in members {
        if let Some(unknown) = install_config::unknown_key(&name, &value) {
            let reason = format!("has no effect: an install configuration has no '{}'", unknown.escape_default());
            return Err(from.error(field, reason));
        }
        match draft.overrides.get(&name) {
            Some(known) if *known != value => {
                return Err(from.error(field, format!("'{}' was given before, otherwise", name.escape_default())));
            }
            _ => draft.overrides.insert(name, value),
        };
    }
    Ok(())
}

/// Adds a host, or merges it into a known one.
pub(crate) fn put_host(draft: &mut Draft, host: PlannedHost) -> Result<(), PlanError> {
    hosts::merge(&mut draft.hosts, host)
}

/// The hints in a field, if present.
pub(crate) fn hints(fields: &mut Fields, name: &str) -> Result<Hints, PlanError> {
    let mut fields = fields.object(name)?;
    Ok(Hints {
        device_name: fields.text("deviceName")?,
        hctl: fields.text("hctl")?,
        model: fields.text("model")?,
        vendor: fields.text("vendor")?,
        serial_number: fields.text("serialNumber")?,
        min_size_gigabytes: fields.number("minSizeGigabytes")?,
        wwn: fields.text("wwn")?,
        wwn_with_extension: fields.text("wwnWithExtension")?,
        wwn_vendor_extension: fields.text("wwnVendorExtension")?,
        rotational: fields.flag("rotational")?,
    })
}
