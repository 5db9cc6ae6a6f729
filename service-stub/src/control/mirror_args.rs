//! Mirrors of registries that `landfall cluster` and `landfall infra-env` set.

use super::read_small;
use api::MirrorRegistry;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A larger file is not one of these.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Mirrors of registries")]
pub(crate) struct MirrorArgs {
    /// Mirrors of registries, as containers-registries.conf(5). They replace those of the service
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,
    /// CA certificates of these mirrors, PEM
    #[arg(long, value_name = "FILE", requires = "registries_conf")]
    registry_ca: Option<PathBuf>,
}

impl MirrorArgs {
    /// Adds the setting, if the options are given.
    pub(crate) fn add(&self, document: &mut Map<String, Value>) -> anyhow::Result<()> {
        let read = |path: &PathBuf| read_small(path, MAX_FILE_BYTES);
        let Some(registries_conf) = self.registries_conf.as_ref().map(read).transpose()? else { return Ok(()) };
        let ca_bundle = self.registry_ca.as_ref().map(read).transpose()?.unwrap_or_default();
        let mirrors = json!(MirrorRegistry { registries_conf, ca_bundle });
        document.insert("mirror_registry_configuration".to_owned(), mirrors);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_become_the_setting() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, name).unwrap();
            Some(path)
        };
        let document = |args: MirrorArgs| {
            let mut document = Map::new();
            args.add(&mut document).map(|()| Value::Object(document)).ok()
        };
        assert_eq!(document(MirrorArgs::default()), Some(json!({})));
        let (conf, ca) = (write("conf"), write("ca"));
        let only = MirrorArgs { registries_conf: conf.clone(), registry_ca: None };
        assert_eq!(document(only), Some(json!({"mirror_registry_configuration": {"registries_conf": "conf"}})));
        let both = MirrorArgs { registries_conf: conf, registry_ca: ca };
        let setting = json!({"registries_conf": "conf", "ca_bundle": "ca"});
        assert_eq!(document(both), Some(json!({"mirror_registry_configuration": setting})));
        let gone = MirrorArgs { registries_conf: Some("/nonexistent".into()), registry_ca: None };
        assert_eq!(document(gone), None);
    }
}
