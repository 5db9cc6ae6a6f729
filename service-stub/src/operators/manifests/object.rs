//! Objects of a cluster, as YAML.

use serde_json::{Map, Value, json};

/// A file for the first node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestFile {
    pub(crate) file: String,
    /// YAML.
    pub(crate) content: String,
}

/// An object that is applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object(Map<String, Value>);

impl Object {
    pub(super) fn new(api_version: &str, kind: &str, name: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
        fields.insert("metadata".to_owned(), json!({"name": name}));
        Self(fields)
    }

    /// Sets its namespace.
    pub(super) fn within(self, namespace: &str) -> Self {
        self.about("namespace", namespace.into())
    }

    pub(super) fn labelled(self, label: &str, value: &str) -> Self {
        self.about("labels", json!({label: value}))
    }

    pub(super) fn about(mut self, name: &str, value: Value) -> Self {
        if let Some(Value::Object(metadata)) = self.0.get_mut("metadata") {
            metadata.insert(name.to_owned(), value);
        }
        self
    }

    pub(super) fn spec(self, spec: Value) -> Self {
        self.with("spec", spec)
    }

    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    fn name(&self) -> &Value {
        self.0.get("metadata").map_or(&Value::Null, |metadata| &metadata["name"])
    }

    fn namespace(&self) -> &str {
        self.0.get("metadata").and_then(|metadata| metadata["namespace"].as_str()).unwrap_or_default()
    }

    pub(super) fn yaml(&self) -> String {
        yaml(&self.0)
    }

    pub(super) fn file(&self, file: String) -> ManifestFile {
        ManifestFile { file, content: self.yaml() }
    }
}

/// Text of what is made of text, numbers and lists; that cannot fail.
pub(super) fn yaml(value: &impl serde::Serialize) -> String {
    serde_norway::to_string(value).unwrap_or_default()
}

pub(super) fn namespace(name: &str, monitored: bool) -> Object {
    let namespace = Object::new("v1", "Namespace", name);
    if monitored { namespace.labelled("openshift.io/cluster-monitoring", "true") } else { namespace }
}

/// Lets Prometheus find what it measures in a namespace.
pub(super) fn prometheus_role(namespace: &str) -> Object {
    let rule =
        json!({"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": ["get", "list", "watch"]});
    let name = format!("{namespace}-prometheus-k8s");
    Object::new("rbac.authorization.k8s.io/v1", "Role", &name).within(namespace).with("rules", json!([rule]))
}

/// Gives a role to the cluster's Prometheus.
pub(super) fn binding(role: &Object) -> Object {
    let (name, namespace) = (role.name(), role.namespace());
    let subject = json!({"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "openshift-monitoring"});
    Object::new("rbac.authorization.k8s.io/v1", "RoleBinding", name.as_str().unwrap_or_default())
        .within(namespace)
        .with("roleRef", json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}))
        .with("subjects", json!([subject]))
}

/// A config of the nodes of a role.
pub(super) fn machine_config(name: &str, role: &str, spec: Value) -> Object {
    Object::new("machineconfiguration.openshift.io/v1", "MachineConfig", name)
        .labelled("machineconfiguration.openshift.io/role", role)
        .spec(spec)
}
