//! The config of a single node's disk: what the bootstrap control plane made for a master, with the service's config of this host
//! (docs/compatibility.md#single-node-disk-config).

use super::{
    BootstrapError, Context,
    files::{self, below},
    payload,
};
use crate::host::Host;
use ignition::{TranslateError, merge_all, model::References};
use kernel::Cancel;
use std::{io, path::Path};

const MERGED: &str = "/opt/openshift/master.ign";
/// Bootkube's original file: a second run merges into this, not into the first run's result.
const MADE: &str = "/opt/install-dir/master-bootkube.ign";
const HOST: &str = "this host's Ignition config";

/// Merges the config of this host into `/opt/openshift/master.ign`, once bootkube is done, and returns it. Of the host's config
/// `ignition.config` is left out: it points to a machine-config server, which a single node does not have.
pub fn single_node_ignition(host: &dyn Host, ctx: &Context<'_>, cancel: &Cancel) -> Result<Vec<u8>, BootstrapError> {
    let (merged, made) = (below(host.root(), MERGED), below(host.root(), MADE));
    let base = match files::read(&made)? {
        Some(base) => base,
        None => {
            let missing =
                || BootstrapError::NoMasterIgnition { path: merged.clone(), source: io::ErrorKind::NotFound.into() };
            let base = files::read(&merged)?.ok_or_else(missing)?;
            files::write(&made, &base, 0o600)?;
            base
        }
    };
    let (infra_env, id) = (ctx.request.infra_env_id, ctx.request.host_id);
    let host = payload::fetch(ctx, HOST, |client| client.host_ignition(infra_env, id), cancel)?;
    let config = merge(&base, &host)?;
    files::write(&merged, &config, 0o600)?;
    Ok(config)
}

/// Removes what an earlier control plane made.
pub(super) fn clear(root: &Path) -> Result<(), BootstrapError> {
    files::remove(&below(root, MADE))?;
    files::remove(&below(root, MERGED))
}

/// Versions may differ; the result is of the newer, and valid.
fn merge(base: &[u8], host: &[u8]) -> Result<Vec<u8>, BootstrapError> {
    let invalid = |source: TranslateError| BootstrapError::Merge { what: HOST, source };
    let (mut config, _, report) =
        ignition::parse(host).map_err(|source| BootstrapError::NotIgnition { what: HOST, len: host.len(), source })?;
    if report.is_fatal() {
        return Err(invalid(TranslateError::Invalid(report)));
    }
    config.ignition.config = References::default();
    merge_all(&[base, &config.to_json()]).map_err(|(place, source)| {
        let what = match place {
            Some(0) => MERGED,
            Some(_) => HOST,
            None => "/opt/openshift/master.ign with this host's Ignition config merged into it",
        };
        BootstrapError::Merge { what, source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn merged(base: Value, host: Value) -> Value {
        serde_json::from_slice(&merge(base.to_string().as_bytes(), host.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn the_host_has_the_last_word_but_names_no_other_configs() {
        let file = |path, text| json!({"path": path, "contents": {"source": format!("data:,{text}")}});
        let base = json!({"ignition": {"version": "3.1.0", "config": {"merge": [{"source": "http://keep/"}]}},
            "storage": {"files": [file("/a", "base"), file("/b", "base")]}});
        let host = json!({"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "http://drop/"}],
            "replace": {"source": null}}}, "storage": {"files": [file("/b", "own")]}});
        let config = merged(base, host);
        assert_eq!(config["ignition"]["version"], "3.4.0", "the newer");
        assert_eq!(config["ignition"]["config"], json!({"merge": [{"source": "http://keep/"}]}));
        let files = &config["storage"]["files"];
        assert_eq!(
            (&files[0]["contents"]["source"], &files[1]["contents"]["source"]),
            (&"data:,base".into(), &"data:,own".into())
        );
    }

    #[test]
    fn a_bad_config_is_named() {
        let good = br#"{"ignition":{"version":"3.2.0"}}"#;
        let name = |base: &[u8], host: &[u8]| merge(base, host).unwrap_err().to_string();
        assert!(name(good, b"data").contains(HOST));
        assert!(name(b"data", good).contains(MERGED));
        let invalid = br#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"a"}]}}"#;
        assert!(name(good, invalid).contains(HOST));
    }
}
