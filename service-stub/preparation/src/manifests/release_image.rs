//! Clusters that carry their release with them: with an InternalReleaseImage named `cluster`, each node of the control plane is a
//! registry, and all mirrors are looked for there too.

use super::{ManifestError, tree};
use crate::{Job, Manifest};
use serde_json::{Value, json};

const PORT: u16 = 22625;
/// On a manifest that has its mirrors already.
const PATCHED: &str = "internalreleaseimage.openshift.io/patched";
const LOCALHOST: &str = "localhost";

/// The registry of a cluster.
pub(crate) struct ReleaseImage {
    /// The name by which nodes reach the control plane.
    pub(crate) host: String,
}

impl ReleaseImage {
    /// None unless a manifest asks for it.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        let is_asked = job.manifests.iter().any(|manifest| {
            let documents = tree::documents(&manifest.content).unwrap_or_default();
            let asks = |document: &Value| kind(document) == "InternalReleaseImage" && name(document) == "cluster";
            documents.first().is_some_and(asks)
        });
        // Only then: it is large.
        let config: Value = is_asked.then(|| serde_json::from_str(job.install_config.expose()).unwrap_or_default())?;
        Some(Self { host: format!("api-int.{}.{}", name(&config), at(&config, "/baseDomain")) })
    }

    /// The manifests with its mirrors.
    pub(super) fn patch(&self, manifests: &[Manifest]) -> Result<Vec<Manifest>, ManifestError> {
        let mut all = manifests.to_vec();
        for manifest in &mut all {
            let Ok(mut documents) = tree::documents(&manifest.content) else { continue };
            let mut is_changed = false;
            for document in &mut documents {
                is_changed |= self.patch_object(document)?;
            }
            if is_changed {
                manifest.content = tree::text(&documents).into_bytes();
            }
        }
        Ok(all)
    }

    fn patch_object(&self, object: &mut Value) -> Result<bool, ManifestError> {
        if !object["metadata"]["annotations"][PATCHED].is_null() {
            return Ok(false);
        }
        let (kind, name) = (kind(object).to_owned(), name(object).to_owned());
        let image = match kind.as_str() {
            "ImageDigestMirrorSet" => return Ok(self.add_mirrors(object, "/spec/imageDigestMirrors")),
            "ImageTagMirrorSet" => return Ok(self.add_mirrors(object, "/spec/imageTagMirrors")),
            "ClusterCatalog" => "/spec/source/image/ref",
            "CatalogSource" => "/spec/image",
            _ => return Ok(false),
        };
        let Some(Value::String(reference)) = object.pointer_mut(image) else {
            return Err(ManifestError::Catalog { kind, name, image });
        };
        *reference = on(&self.host, reference);
        mark(object);
        Ok(true)
    }

    fn add_mirrors(&self, object: &mut Value, list: &str) -> bool {
        for group in object.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(mirrors) = group.get_mut("mirrors").and_then(Value::as_array_mut) else { continue };
            let given: Vec<String> = mirrors.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let has_localhost = given.iter().any(|mirror| is_localhost(mirror));
            for mirror in &given {
                mirrors.push(on(&self.host, mirror).into());
                if !has_localhost {
                    mirrors.push(on(LOCALHOST, mirror).into());
                }
            }
        }
        mark(object);
        true
    }
}

fn at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn kind(object: &Value) -> &str {
    at(object, "/kind")
}

fn name(object: &Value) -> &str {
    at(object, "/metadata/name")
}

/// An image or a repository on this host's registry.
fn on(host: &str, reference: &str) -> String {
    match reference.find('/').unwrap_or(reference.len()) {
        0 => reference.to_owned(),
        end => format!("{host}:{PORT}{}", reference.get(end..).unwrap_or_default()),
    }
}

fn is_localhost(mirror: &str) -> bool {
    let host = mirror.split('/').next().unwrap_or_default();
    host == LOCALHOST || host.starts_with("localhost:")
}

fn mark(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[PATCHED] = "".into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Folder, Source};

    fn registry() -> ReleaseImage {
        ReleaseImage { host: "api-int.lab.example.com".to_owned() }
    }

    fn patched(object: Value) -> Result<Value, String> {
        let content = object.to_string().into_bytes();
        let manifest = Manifest { folder: Folder::Openshift, file: "x.yaml".to_owned(), content, source: Source::User };
        let all = registry().patch(&[manifest]).map_err(|error| error.to_string())?;
        Ok(tree::documents(&all[0].content).unwrap().remove(0))
    }

    #[test]
    fn objects_get_the_clusters_mirrors() {
        let own = |path: &str| format!("api-int.lab.example.com:22625/{path}");
        let here = |path: &str| format!("localhost:22625/{path}");
        let metadata = json!({"name": "m", "annotations": {"a": "b"}});
        let marked = json!({"name": "m", "annotations": {"a": "b", (PATCHED): ""}});
        for (kind, spec, expected) in [
            (
                "ImageDigestMirrorSet",
                json!({"imageDigestMirrors": [{"mirrors": ["r:1/a", "s/b"]}, {"mirrors": ["localhost:5000/c"]}, {}]}),
                json!({"imageDigestMirrors": [
                    {"mirrors": ["r:1/a", "s/b", own("a"), here("a"), own("b"), here("b")]},
                    {"mirrors": ["localhost:5000/c", own("c")]},
                    {},
                ]}),
            ),
            (
                "ImageTagMirrorSet",
                json!({"imageTagMirrors": [{"mirrors": ["r"]}]}),
                json!({"imageTagMirrors": [{"mirrors": ["r", "api-int.lab.example.com:22625", "localhost:22625"]}]}),
            ),
            (
                "ClusterCatalog",
                json!({"source": {"image": {"ref": "r/c@sha256:1"}}}),
                json!({"source": {"image": {"ref": own("c@sha256:1")}}}),
            ),
            ("CatalogSource", json!({"image": "r/c:1"}), json!({"image": own("c:1")})),
        ] {
            let found = patched(json!({"kind": kind, "metadata": metadata, "spec": spec}));
            assert_eq!(found, Ok(json!({"kind": kind, "metadata": marked, "spec": expected})));
            // Once.
            assert_eq!(patched(found.clone().unwrap()), found);
        }
        let other = json!({"kind": "ConfigMap", "metadata": {"name": "m"}});
        assert_eq!(patched(other.clone()), Ok(other));
        let refused = patched(json!({"kind": "CatalogSource", "metadata": {"name": "m"}}));
        assert_eq!(refused, Err("CatalogSource m has no text at /spec/image".to_owned()));
    }
}
