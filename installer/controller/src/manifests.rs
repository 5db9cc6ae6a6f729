//! Manifests of operators, applied as `kubectl apply --server-side` does.

use crate::cluster::{CallError, Cluster, objects};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::core::{DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::Value;

/// Manifests of one operator are far smaller.
const MAX_BYTES: usize = 16 << 20;

/// Manifests made for one operator.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CustomManifest {
    /// The operator that must be there first, as the service names it.
    #[serde(rename = "Name")]
    pub(crate) name: String,
    /// YAML documents, in Base64. Nothing for an operator without any.
    #[serde(rename = "Content", default)]
    pub(crate) content: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("the manifests of {name} are not Base64")]
    Base64 { name: String, source: base64::DecodeError },
    #[error("the manifests of {name} have {len} bytes: at most {MAX_BYTES}")]
    TooLarge { name: String, len: usize },
    #[error("document {number} of the manifests of {name} is not YAML")]
    Yaml { name: String, number: usize, source: serde_norway::Error },
    #[error("document {number} of the manifests of {name} is not an object with apiVersion, kind and a name")]
    Object { name: String, number: usize },
    #[error(transparent)]
    Call(#[from] CallError),
}

impl CustomManifest {
    /// Its objects, in order. Documents with nothing in them are none.
    pub(crate) fn objects(&self) -> Result<Vec<(GroupVersionKind, DynamicObject)>, ManifestError> {
        let name = || self.name.clone();
        let text = BASE64_STANDARD.decode(self.content.trim());
        let text = text.map_err(|source| ManifestError::Base64 { name: name(), source })?;
        if text.len() > MAX_BYTES {
            return Err(ManifestError::TooLarge { name: name(), len: text.len() });
        }
        let mut objects = Vec::new();
        for (index, document) in serde_norway::Deserializer::from_slice(&text).enumerate() {
            let number = index + 1;
            let failed = |source| ManifestError::Yaml { name: name(), number, source };
            let document = Value::deserialize(document).map_err(failed)?;
            let items = match document {
                Value::Null => continue,
                Value::Object(mut list) if list.contains_key("items") => match list.remove("items") {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                },
                object => vec![object],
            };
            for item in items {
                let object = serde_json::from_value(item).ok().and_then(with_kind);
                objects.push(object.ok_or_else(|| ManifestError::Object { name: name(), number })?);
            }
        }
        Ok(objects)
    }
}

/// None for what can't be applied by name.
fn with_kind(object: DynamicObject) -> Option<(GroupVersionKind, DynamicObject)> {
    let kind = GroupVersionKind::try_from(object.types.as_ref()?).ok()?;
    (!objects::name(&object.metadata).is_empty()).then_some((kind, object))
}

/// Applies all objects of a manifest; one that fails keeps no other. The error is the first.
pub(crate) async fn apply(cluster: &Cluster, manifest: &CustomManifest) -> Result<(), ManifestError> {
    let mut all = Ok(());
    for (kind, object) in manifest.objects()? {
        let applied = cluster.apply(&kind, &object).await;
        if applied.is_ok() {
            let name = objects::name(&object.metadata);
            tracing::info!(operator = manifest.name, kind = kind.kind, name, "applied");
        }
        all = all.and(applied.map_err(ManifestError::Call));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    fn manifest(text: &str) -> CustomManifest {
        CustomManifest { name: "lso".to_owned(), content: BASE64_STANDARD.encode(text) }
    }

    #[test]
    fn documents_become_objects_and_empty_ones_none() {
        let text = "---\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems:\n\
            - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n";
        let objects = manifest(text).objects().unwrap();
        let names: Vec<_> = objects.iter().map(|(_, object)| objects::name(&object.metadata)).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(manifest("").objects().unwrap().is_empty() && manifest("\n---\n").objects().unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let broken = CustomManifest { name: "cnv".to_owned(), content: "%".to_owned() };
        assert!(broken.objects().unwrap_err().to_string().contains("cnv"));
        let error = manifest("a: b\n---\na: [").objects().unwrap_err().to_string();
        assert!(error.contains("document 1"), "{error}");
        let error =
            manifest("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\nx: {").objects().unwrap_err().to_string();
        assert!(error.contains("document 2") && error.contains("lso"), "{error}");
    }
}
