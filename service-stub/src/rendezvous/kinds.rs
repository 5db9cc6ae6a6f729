//! Which kind a document is of, and the reader of that kind.

use super::{
    PlanError, agent,
    draft::Draft,
    existing::{self, ExistingCluster},
    hub, install_config, machine,
    names::{
        AGENT_CLUSTER_INSTALL, AGENT_CONFIG, BARE_METAL_HOST, CLUSTER_DEPLOYMENT, CLUSTER_IMAGE_SET, CONFIG_MAP,
        INFRA_ENV, INSTALL_CONFIG, NMSTATE_CONFIG, NODES_CONFIG, RACK, RACK_FILE, SECRET,
    },
    rack_file,
    read::Fields,
};
use kernel::spelling;

/// The name, without its ending, of the file with new nodes, whose document needs no kind.
const NODES: &str = "nodes-config";

/// The kinds that are read, with the `apiVersion`s of each.
const KINDS: [(&str, &[&str]); 13] = [
    (CLUSTER_DEPLOYMENT, &["hive.openshift.io/v1"]),
    (AGENT_CLUSTER_INSTALL, &["extensions.hive.openshift.io/v1beta1"]),
    (INFRA_ENV, &["agent-install.openshift.io/v1beta1"]),
    (NMSTATE_CONFIG, &["agent-install.openshift.io/v1beta1"]),
    (CLUSTER_IMAGE_SET, &["hive.openshift.io/v1"]),
    (SECRET, &["v1"]),
    (CONFIG_MAP, &["v1"]),
    (BARE_METAL_HOST, &["metal3.io/v1alpha1"]),
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
        CLUSTER_DEPLOYMENT => hub::cluster_deployment(fields, draft),
        AGENT_CLUSTER_INSTALL => hub::agent_cluster_install(fields, draft),
        INFRA_ENV => hub::infra_env(fields, draft),
        NMSTATE_CONFIG => hub::nmstate_config(fields, draft),
        CLUSTER_IMAGE_SET => hub::cluster_image_set(fields, draft),
        SECRET => hub::secret(fields, draft),
        CONFIG_MAP => hub::config_map(fields, draft),
        BARE_METAL_HOST => machine::bare_metal_host(fields, draft),
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
