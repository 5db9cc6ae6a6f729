//! Objects by their paths, and what a Kubernetes API does with them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const COLLECTIONS: [&str; 6] =
    ["nodes", "configmaps", "events", "pods", "machineconfigs", "certificatesigningrequests"];
pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const MACHINE_CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
pub(super) const MASTER_LABEL: &str = "node-role.kubernetes.io/master";

/// The objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Objects {
    by_path: BTreeMap<String, Value>,
    /// Texts that are not objects: logs of pods.
    texts: BTreeMap<String, String>,
    version: u64,
}

/// An answer: status and body.
pub(super) type Answer = (u16, Body);

#[derive(Debug, PartialEq)]
pub(super) enum Body {
    Json(Value),
    Text(String),
}

impl Objects {
    /// Counts changes.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.by_path.get(path)
    }

    /// Puts an object in the place of any other.
    pub(super) fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        // The numbers give the order of objects.
        if object.pointer("/metadata/uid").is_none() {
            object["metadata"]["uid"] = json!(format!("{:08}", self.version));
        }
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.by_path.insert(path.to_owned(), object);
    }

    pub(super) fn put_text(&mut self, path: &str, text: String) {
        self.texts.insert(path.to_owned(), text);
    }

    pub(super) fn config_map(&mut self, namespace: &str, name: &str, data: Value) {
        let metadata = json!({"namespace": namespace, "name": name});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.put(&config_map_path(namespace, name), map);
    }

    /// A manifest of a requested kind; others are not stored.
    pub(super) fn put_manifest(&mut self, manifest: Value) {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
        match text("/kind").as_str() {
            "ConfigMap" => self.put(&config_map_path(&namespace, &name), manifest),
            "MachineConfig" => self.put(&format!("{MACHINE_CONFIGS}/{name}"), manifest),
            _ => {}
        }
    }

    /// Objects right below a path.
    pub(super) fn list<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Value> {
        let inside = move |own: &str| own.strip_prefix(path)?.strip_prefix('/').map(|name| !name.contains('/'));
        self.by_path.iter().filter(move |(own, _)| inside(own) == Some(true)).map(|(_, object)| object)
    }

    /// Masters, the first to register first: names, and whether they are ready.
    pub(super) fn masters(&self) -> Vec<(String, bool)> {
        let mut masters: Vec<&Value> = self.list(NODES).filter(|node| selects(node, MASTER_LABEL)).collect();
        masters.sort_by_key(|node| node["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        masters.into_iter().map(|node| (name(node), is_ready(node))).collect()
    }

    /// What the API answers.
    pub(super) fn answer(&mut self, method: &str, path: &str, query: &[(String, String)], body: &[u8]) -> Answer {
        let document = || serde_json::from_slice::<Value>(body).ok();
        let is_collection = COLLECTIONS.contains(&path.rsplit('/').next().unwrap_or_default());
        match method {
            "GET" if is_collection => {
                let of = |name: &str| query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
                let named = of("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
                let items: Vec<&Value> = self
                    .list(path)
                    .filter(|object| of("labelSelector").is_none_or(|selector| selects(object, selector)))
                    .filter(|object| named.is_none_or(|name| object["metadata"]["name"] == name))
                    .collect();
                (200, Body::Json(json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})))
            }
            "GET" => match (self.by_path.get(path), self.texts.get(path)) {
                (Some(object), _) => (200, Body::Json(object.clone())),
                (None, Some(text)) => (200, Body::Text(text.clone())),
                (None, None) => status(404, &format!("{path} not found")),
            },
            "POST" if is_collection => {
                let Some(object) = document() else { return status(400, "the body is not JSON") };
                let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str) else {
                    return status(422, "metadata.name is required");
                };
                let path = format!("{path}/{name}");
                if self.by_path.contains_key(&path) {
                    return status(409, &format!("{path} already exists"));
                }
                self.put(&path, object);
                (201, Body::Json(self.by_path[&path].clone()))
            }
            "PATCH" => {
                let (Some(object), Some(patch)) = (self.by_path.get(path), document()) else {
                    return status(404, &format!("{path} not found"));
                };
                let version = "/metadata/resourceVersion";
                if patch.pointer(version).is_some_and(|wanted| object.pointer(version) != Some(wanted)) {
                    return status(409, &format!("{path} has been modified"));
                }
                let mut object = object.clone();
                merge(&mut object, patch);
                self.put(path, object);
                (200, Body::Json(self.by_path[path].clone()))
            }
            _ => status(405, &format!("{method} is not allowed on {path}")),
        }
    }
}

pub(super) fn config_map_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

pub(super) fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// A label that exists, or with `=` has a value.
fn selects(object: &Value, selector: &str) -> bool {
    let (key, value) = selector.split_once('=').map_or((selector, None), |(key, value)| (key, Some(value)));
    let label = object.get("metadata").and_then(|metadata| metadata.get("labels")?.get(key)?.as_str());
    label.is_some_and(|label| value.is_none_or(|value| label == value))
}

/// RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else { return *target = patch };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            if let Value::Object(target) = target {
                target.remove(&key);
            }
        } else {
            merge(&mut target[key], value);
        }
    }
}

fn status(code: u16, message: &str) -> Answer {
    (
        code,
        Body::Json(
            json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message, "code": code}),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, role: &str, ready: &str) -> Vec<u8> {
        let label = format!("node-role.kubernetes.io/{role}");
        json!({"metadata": {"name": name, "labels": {label: ""}}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn nodes_register_change_and_are_listed_by_role() {
        let mut objects = Objects::default();
        let code = |answer: Answer| answer.0;
        for (name, role) in [("node-2", "master"), ("node-1", "master"), ("node-0", "worker")] {
            assert_eq!(code(objects.answer("POST", NODES, &[], &node(name, role, "False"))), 201);
        }
        assert_eq!(code(objects.answer("POST", NODES, &[], &node("node-1", "master", "True"))), 409);
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
        assert_eq!(code(objects.answer("PATCH", "/api/v1/nodes/node-1", &[], ready.as_bytes())), 200);
        assert_eq!(objects.masters(), [("node-2".to_owned(), false), ("node-1".to_owned(), true)], "the first to come");
        let stale = json!({"metadata": {"resourceVersion": "1"}}).to_string();
        assert_eq!(code(objects.answer("PATCH", "/api/v1/nodes/node-1", &[], stale.as_bytes())), 409);
        let by_label = [("labelSelector".to_owned(), "node-role.kubernetes.io/worker".to_owned())];
        let (200, Body::Json(list)) = objects.answer("GET", NODES, &by_label, b"") else { panic!("no list") };
        assert_eq!(
            (list["items"].as_array().unwrap().len(), &list["items"][0]["metadata"]["name"]),
            (1, &json!("node-0"))
        );
        assert_eq!(code(objects.answer("GET", "/api/v1/nodes/node-9", &[], b"")), 404);
    }

    #[test]
    fn requested_manifests_are_stored() {
        let mut objects = Objects::default();
        let metadata = json!({"name": "x", "namespace": "y"});
        for kind in ["ConfigMap", "MachineConfig", "Secret"] {
            objects.put_manifest(json!({"kind": kind, "metadata": metadata, "data": {"a": "b"}}));
        }
        assert_eq!(objects.get("/api/v1/namespaces/y/configmaps/x").unwrap()["data"]["a"], "b");
        assert!(objects.get(&format!("{MACHINE_CONFIGS}/x")).is_some());
        assert_eq!(objects.by_path.len(), 2);
    }
}
