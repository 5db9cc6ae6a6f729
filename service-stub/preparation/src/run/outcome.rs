//! What the program made, read back. It is not trusted.

use super::PreparationError;
use crate::{Files, Job, directory::Directory};
use serde_json::json;

/// By the names that the program gives them, and those of clients.
const FILES: [(&str, &str); 3] = [
    ("metadata.json", "metadata.json"),
    ("auth/kubeadmin-password", "kubeadmin-password"),
    // Later there is another, with the address of ingress.
    ("auth/kubeconfig", "kubeconfig-noingress"),
];
const SINGLE_NODE: &str = "bootstrap-in-place-for-live-iso.ign";

/// The files of a cluster as the program made them.
pub(super) fn read(directory: &Directory, job: &Job) -> Result<Files, PreparationError> {
    let mut files = Files::new();
    if job.nodes.single_node {
        let bootstrap = directory.read(SINGLE_NODE)?;
        let version = ignition_version(SINGLE_NODE, &bootstrap)?;
        files.insert("bootstrap.ign".to_owned(), bootstrap);
        // The node's own config is part of the bootstrap's.
        let empty = json!({"ignition": {"version": version}}).to_string();
        for role in ["master.ign", "worker.ign"] {
            files.insert(role.to_owned(), empty.clone().into());
        }
    } else {
        let arbiter = job.nodes.has_arbiter.then_some("arbiter.ign");
        for name in ["bootstrap.ign", "master.ign", "worker.ign"].into_iter().chain(arbiter) {
            let config = directory.read(name)?;
            ignition_version(name, &config)?;
            files.insert(name.to_owned(), config);
        }
    }
    for (own, name) in FILES {
        files.insert(name.to_owned(), directory.read(own)?);
    }
    let metadata = files.get("metadata.json").map(Vec::as_slice).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(metadata) {
        return Err(PreparationError::Made { file: "metadata.json", reason: error.to_string() });
    }
    // The program removed its own.
    files.insert("install-config.yaml".to_owned(), job.install_config.expose().into());
    Ok(files)
}

/// Refuses what Ignition would refuse.
fn ignition_version(file: &'static str, config: &[u8]) -> Result<String, PreparationError> {
    let reason = match ignition::parse(config) {
        Ok((_, _, report)) if report.is_fatal() => report.summary(),
        Ok((_, version, _)) => return Ok(version.to_string()),
        Err(error) => error.to_string(),
    };
    Err(PreparationError::Made { file, reason })
}
