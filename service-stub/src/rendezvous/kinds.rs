//! Which kind a document is of, and the reader of that kind.

use super::{
    PlanError, agent,
    existing::{self, ExistingCluster},
    hub, install_config, listed, machine,
    plan::Draft,
    rack_file,
    read::Fields,
    references::{Key, texts},
};
use kernel::spelling;
use std::collections::BTreeMap;

/// The file of a small plan, whose document needs no kind.
pub(crate) const RACK_FILE: &str = "rack.toml";
/// The name, without its ending, of the file with new nodes, whose document needs no kind.
const NODES: &str = "nodes-config";

const RACK: &str = "Rack";
pub(crate) const NODES_CONFIG: &str = "NodesConfig";
pub(crate) const AGENT_CONFIG: &str = "AgentConfig";
pub(crate) const INSTALL_CONFIG: &str = "InstallConfig";

/// The kinds that are read, with the `apiVersion`s of each.
const KINDS: [(&str, &[&str]); 13] = [
    (hub::CLUSTER_DEPLOYMENT, &["hive.openshift.io/v1"]),
    (hub::AGENT_CLUSTER_INSTALL, &["extensions.hive.openshift.io/v1beta1"]),
    (hub::INFRA_ENV, &["agent-install.openshift.io/v1beta1"]),
    (hub::NMSTATE_CONFIG, &["agent-install.openshift.io/v1beta1"]),
    (hub::CLUSTER_IMAGE_SET, &["hive.openshift.io/v1"]),
    (hub::SECRET, &["v1"]),
    (hub::CONFIG_MAP, &["v1"]),
    (machine::BARE_METAL_HOST, &["metal3.io/v1alpha1"]),
    (AGENT_CONFIG, &["v1alpha1", "v1beta1"]),
    (NODES_CONFIG, &["v1alpha1", "v1beta1", "v1"]),
    (INSTALL_CONFIG, &["v1"]),
    (existing::KIND, &[]),
    (RACK, &[]),
];
/// Letters that a kind of ours may differ in, and be meant all the same.
const MISSPELT: usize = 2;

/// Reads a document.
pub(crate) fn take(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let kind = match fields.text("kind")? {
        Some(kind) => kind,
        None if fields.file == RACK_FILE => RACK.to_owned(),
        // Its hosts are those of an AgentConfig, which it is not.
        None if fields.file.split('.').next() == Some(NODES) => NODES_CONFIG.to_owned(),
        // The two files of openshift-install: the first may omit its kind, the second has none.
        None if fields.has("rendezvousIP") || fields.has("hosts") => AGENT_CONFIG.to_owned(),
        None if fields.has("baseDomain") || fields.has("controlPlane") => INSTALL_CONFIG.to_owned(),
        None => {
            return Err(fields.error("kind", "is missing, and this is neither an install-config nor an AgentConfig"));
        }
    };
    let Some((kind, versions)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return foreign(fields, &kind);
    };
    let version = fields.text("apiVersion")?.filter(|version| !versions.contains(&version.as_str()));
    if let Some(version) = version {
        let expected = if versions.is_empty() { "none".to_owned() } else { versions.join(" or ") };
        return Err(
            fields.error("apiVersion", format!("'{}' is not that of a {kind}: {expected}", version.escape_default()))
        );
    }
    match *kind {
        hub::CLUSTER_DEPLOYMENT => hub::cluster_deployment(fields, draft),
        hub::AGENT_CLUSTER_INSTALL => hub::agent_cluster_install(fields, draft),
        hub::INFRA_ENV => hub::infra_env(fields, draft),
        hub::NMSTATE_CONFIG => hub::nmstate_config(fields, draft),
        hub::CLUSTER_IMAGE_SET => hub::cluster_image_set(fields, draft),
        hub::SECRET => hub::secret(fields, draft),
        hub::CONFIG_MAP => hub::config_map(fields, draft),
        machine::BARE_METAL_HOST => machine::bare_metal_host(fields, draft),
        AGENT_CONFIG => agent::agent_config(fields, draft),
        NODES_CONFIG => agent::nodes_config(fields, draft),
        INSTALL_CONFIG => install_config::take(fields, draft),
        existing::KIND => {
            let place = fields.file.to_owned();
            let cluster = ExistingCluster::take(fields)?;
            if let Some((_, one)) = draft.existing.replace((cluster, place.clone())) {
                let what = "the cluster that exists".to_owned();
                return Err(PlanError::Contradiction { one, other: place, what });
            }
            Ok(())
        }
        _ => rack_file::take(fields, draft),
    }
}

/// A document that is another program's is named. One whose kind is nearly one of ours was meant for us.
fn foreign(mut fields: Fields, kind: &str) -> Result<(), PlanError> {
    let meant = KINDS
        .iter()
        .map(|(known, _)| *known)
        .find(|known| spelling::distance(&known.to_lowercase(), &kind.to_lowercase()) <= MISSPELT);
    if let Some(meant) = meant {
        let reason = format!("'{}' is not a kind that is read here: did you mean '{meant}'?", kind.escape_default());
        return Err(fields.error("kind", reason));
    }
    fields.all();
    fields.note(format!("{} is not read here", kind.escape_default()));
    Ok(())
}

/// Who a document is, and what was written on it.
pub(crate) struct Metadata {
    pub(crate) key: Key,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Of a resource. What an API server adds to all of them is listed as idle.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, PlanError> {
        fields.idle(listed::of(listed::IDLE, "*"));
        let mut metadata = fields.object("metadata")?;
        metadata.idle(listed::of(listed::IDLE, "*.metadata"));
        let [name, namespace] = [metadata.text("name")?, metadata.text("namespace")?].map(Option::unwrap_or_default);
        let labels = texts(metadata.object("labels")?)?;
        let annotations = texts(metadata.object("annotations")?)?;
        Ok(Self { key: Key { namespace, name }, labels, annotations })
    }

    /// Takes an annotation; an empty one is none.
    pub(crate) fn annotation(&mut self, name: &str) -> Option<String> {
        self.annotations.remove(name).filter(|text| !text.trim().is_empty())
    }

    /// What is left of the annotations: those of ours are misspelt or not supported, others are another program's.
    pub(crate) fn finish(self, fields: &Fields, known: &[&str]) -> Result<(), PlanError> {
        for name in self.annotations.into_keys() {
            let field = format!("metadata.annotations.{}", name.escape_default());
            if name.contains("agent-install.openshift.io") {
                let meant = spelling::nearest(&name, known.iter().copied());
                let hint = meant.map_or_else(String::new, |name| format!(": did you mean '{name}'?"));
                return Err(fields.error(&field, format!("is not read here{hint}")));
            }
            fields.note(format!("{field}: does nothing here: it is another program's"));
        }
        Ok(())
    }
}
