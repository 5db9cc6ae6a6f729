//! Manifests that the installer and its payload have left, as bootkube creates them.

use anyhow::{Context, Result};
use serde_json::Value;
use simulator::{Client, RESOURCES};
use std::{fs, thread::sleep, time::Duration};

const DIRECTORIES: [&str; 2] = ["/opt/openshift/manifests", "/opt/openshift/openshift"];
const RETRY: Duration = Duration::from_secs(1);

/// Creates them all. What fails is tried again: the namespace of an object, or the server itself, may come later.
pub(super) fn create(api: &Client) -> Result<()> {
    let mut manifests = read()?;
    loop {
        manifests.retain(|manifest| {
            let result = api.create(&collection(manifest), manifest);
            let failed = result.err().filter(|error| error.status() != Some(409));
            failed.inspect(|error| eprintln!("not created yet: {error}")).is_some()
        });
        if manifests.is_empty() {
            return Ok(());
        }
        sleep(RETRY);
    }
}

fn read() -> Result<Vec<Value>> {
    let mut manifests = Vec::new();
    for dir in DIRECTORIES {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "yaml") {
                let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                manifests.push(serde_norway::from_str(&text).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(manifests)
}

/// Where the API has objects of the kind, by the rules of English. Objects of the whole cluster may name a namespace, which means nothing.
fn collection(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&manifest["apiVersion"]), text(&manifest["kind"]).to_lowercase());
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let plural = kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
    let is_of_cluster = RESOURCES.iter().any(|row| manifest["kind"] == row.kind && !row.is_namespaced);
    match manifest["metadata"]["namespace"].as_str().filter(|_| !is_of_cluster) {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{version}/{plural}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kinds_have_their_places() {
        let at = |version: &str, kind: &str, namespace: Option<&str>| {
            let mut manifest = json!({"apiVersion": version, "kind": kind, "metadata": {}});
            if let Some(namespace) = namespace {
                manifest["metadata"]["namespace"] = namespace.into();
            }
            collection(&manifest)
        };
        assert_eq!(at("v1", "Namespace", None), "/api/v1/namespaces");
        assert_eq!(at("batch/v1", "Job", Some("x")), "/apis/batch/v1/namespaces/x/jobs");
        assert_eq!(
            at("networking.k8s.io/v1", "NetworkPolicy", Some("x")),
            "/apis/networking.k8s.io/v1/namespaces/x/networkpolicies"
        );
        let versions = "/apis/config.openshift.io/v1/clusterversions";
        assert_eq!(at("config.openshift.io/v1", "ClusterVersion", Some("x")), versions);
    }
}
