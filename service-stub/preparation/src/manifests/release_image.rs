//! Clusters that carry their release with them: with an InternalReleaseImage named `cluster`, each node of the control plane is a
//! registry, and all mirrors are looked for there too.

use super::{ManifestError, tree};
use crate::{Files, Job, Manifest};
use ignition::data_url;
use serde_json::{Value, json};

const PORT: u16 = 22625;
/// On a manifest that has its mirrors already.
const PATCHED: &str = "internalreleaseimage.openshift.io/patched";
const REGISTRIES: &str = "/etc/containers/registries.conf";
const BOOTSTRAP: &str = "bootstrap.ign";
const LOCALHOST: &str = "localhost";

/// The registry of a cluster.
pub(crate) struct ReleaseImage {
    /// The name by which nodes reach the control plane.
    host: String,
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

    /// The bootstrap host's own mirrors.
    pub(crate) fn patch_bootstrap(&self, files: &mut Files) -> Result<(), ManifestError> {
        let failed = |reason: &str| ManifestError::Registries { reason: reason.to_owned() };
        let bootstrap = files.get(BOOTSTRAP).map(Vec::as_slice).unwrap_or_default();
        let mut config: Value = serde_json::from_slice(bootstrap).map_err(|_| failed("it is not JSON"))?;
        let all = config.pointer_mut("/storage/files").and_then(Value::as_array_mut);
        let file = all.into_iter().flatten().find(|file| at(file, "/path") == REGISTRIES);
        let source =
            file.and_then(|file| file.pointer_mut("/contents/source")).ok_or_else(|| failed("it is missing"))?;
        let text = data_url::decode(source.as_str().unwrap_or_default()).map_err(|error| failed(&error.to_string()))?;
        let text = String::from_utf8_lossy(&text.data);
        *source = data_url::base64(self.registries(&text).map_err(failed)?.as_bytes()).into();
        files.insert(BOOTSTRAP.to_owned(), config.to_string().into_bytes());
        Ok(())
    }

    /// That file with a mirror more for each that is in it, and another on the host itself.
    fn registries(&self, text: &str) -> Result<String, &'static str> {
        let mut table: toml::Table = text.parse().map_err(|_| "it is not TOML")?;
        let registries = table.get_mut("registry").and_then(toml::Value::as_array_mut).ok_or("it has no registry")?;
        for registry in registries {
            let Some(mirrors) = registry.get_mut("mirror").and_then(toml::Value::as_array_mut) else { continue };
            let location =
                |mirror: &toml::Value| mirror.get("location").and_then(toml::Value::as_str).map(str::to_owned);
            let given: Option<Vec<String>> = mirrors.iter().map(location).collect();
            for mirror in given.ok_or("a mirror has no location")? {
                for host in [self.host.as_str(), LOCALHOST] {
                    let mut added = toml::Table::new();
                    added.insert("location".to_owned(), on(host, &mirror).into());
                    added.insert("insecure".to_owned(), false.into());
                    mirrors.push(added.into());
                }
            }
        }
        Ok(table.to_string())
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

    #[test]
    fn the_bootstrap_host_gets_them_too() {
        let text = "[[registry]]\nlocation = \"quay.io/a\"\n[[registry.mirror]]\nlocation = \"r/a\"\n[[registry]]\nlocation = \"b\"\n";
        let file = json!({"path": REGISTRIES, "contents": {"source": data_url::percent(text.as_bytes())}});
        let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}});
        let mut files: Files = [(BOOTSTRAP.to_owned(), config.to_string().into_bytes())].into();
        registry().patch_bootstrap(&mut files).unwrap();
        let config: Value = serde_json::from_slice(&files[BOOTSTRAP]).unwrap();
        let found = data_url::decode(config["storage"]["files"][0]["contents"]["source"].as_str().unwrap()).unwrap();
        let found: toml::Table = String::from_utf8_lossy(&found.data).parse().unwrap();
        let mirrors = found["registry"][0]["mirror"].as_array().unwrap();
        let locations: Vec<_> = mirrors.iter().map(|mirror| mirror["location"].as_str().unwrap()).collect();
        assert_eq!(locations, ["r/a", "api-int.lab.example.com:22625/a", "localhost:22625/a"]);
        assert_eq!(mirrors[1]["insecure"].as_bool(), Some(false));
        for config in [json!({}), json!({"storage": {"files": [{"path": REGISTRIES}]}})] {
            let mut files: Files = [(BOOTSTRAP.to_owned(), config.to_string().into_bytes())].into();
            let refused = registry().patch_bootstrap(&mut files).unwrap_err().to_string();
            assert_eq!(refused, "can't add mirrors to /etc/containers/registries.conf of bootstrap.ign: it is missing");
        }
    }
}
