//! The pools of machines that manifests define.

use crate::job::Manifest;
use ignition::yaml;
use serde_json::Value;

/// A larger manifest can't be stored.
const MAX_BYTES: usize = 1 << 20;

/// Whether one of the manifests is the pool of this name. Of several documents in a file the first counts.
pub fn pool_exists(manifests: &[Manifest], name: &str) -> bool {
    manifests.iter().filter_map(document).any(|document| {
        document.get("kind").is_some_and(|kind| kind == "MachineConfigPool")
            && document.pointer("/metadata/name").is_some_and(|own| own == name)
    })
}

fn document(manifest: &Manifest) -> Option<Value> {
    match manifest.file.rsplit_once('.')?.1 {
        "yaml" | "yml" => yaml::documents(&manifest.content, MAX_BYTES).ok()?.into_iter().next(),
        "json" => serde_json::from_slice(&manifest.content).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Folder, Source};

    #[test]
    fn a_pool_is_a_manifest_of_that_kind_and_name() {
        const POOL: &str = "kind: MachineConfigPool\nmetadata:\n  name: gpu\n";
        for (file, content, expected) in [
            ("pool.yaml", POOL, true),
            ("pool.yml", POOL, true),
            ("pool.yml.patch_1", POOL, false),
            ("pool", POOL, false),
            ("pool.json", r#"{"kind": "MachineConfigPool", "metadata": {"name": "gpu"}}"#, true),
            ("pool.json", POOL, false),
            ("a.yaml", "kind: MachineConfigPool\nmetadata:\n  name: gpus\n", false),
            ("a.yaml", "kind: MachineConfig\nmetadata:\n  name: gpu\n", false),
            ("a.yaml", "kind: MachineConfigPool\nmetadata: gpu\n", false),
            ("a.yaml", "kind: MachineConfigPool\nmetadata:\n  name: [gpu]\n", false),
            ("a.yaml", &format!("kind: ConfigMap\n---\n{POOL}"), false),
            ("a.yaml", &format!("---\n{POOL}---\nkind: ConfigMap\n"), true),
            ("a.yaml", "kind: {", false),
            ("a.yaml", &"[".repeat(100_000), false),
            ("a.yaml", "", false),
        ] {
            let (file, content) = (file.to_owned(), content.as_bytes().to_vec());
            let manifests = [Manifest { folder: Folder::Openshift, file, content, source: Source::User }];
            let label = format!("{}: {:?}", manifests[0].file, String::from_utf8_lossy(&manifests[0].content));
            assert_eq!(pool_exists(&manifests, "gpu"), expected, "{label:.100}");
        }
        assert!(!pool_exists(&[], "gpu"));
    }
}
