//! In place of nodes and operators: what makes the objects that they would make.

pub mod certificates;
pub(crate) mod nodes;
pub(crate) mod operators;

use crate::{Client, ClientError, Kubelet, crds::Resource};
use serde_json::{Value, json};
use std::sync::Arc;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Makes and changes objects as an administrator. What exists already keeps the members that a call doesn't give. Cheap to clone, for
/// threads. Its methods panic where the API server refuses.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    kubelet: Arc<Kubelet>,
}

impl Cluster {
    pub(crate) fn new(client: Client, kubelet: Arc<Kubelet>) -> Self {
        Self { client, kubelet }
    }

    /// A client of an administrator.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The kubelet of all nodes.
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// A namespace, if it is missing.
    pub fn namespace(&self, name: &str) {
        let made = self.client.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
        assert!(made.as_ref().err().is_none_or(|error| error.status() == Some(409)), "{made:?}");
    }

    /// An object of Kubernetes itself in a namespace, which is made if missing. `group` is a path such as `/api/v1`.
    pub fn put(&self, group: &str, namespace: &str, plural: &str, object: &Value) -> Value {
        let collection = format!("{group}/namespaces/{namespace}/{plural}");
        let stored = match self.client.put(&collection, object) {
            // Only that of its namespace can be missing.
            Err(ClientError::Refused { status: 404, .. }) => {
                self.namespace(namespace);
                self.client.put(&collection, object)
            }
            stored => stored,
        };
        stored.unwrap()
    }

    /// An object of [`crate::RESOURCES`]; `members` are those beside its identity.
    pub fn resource(&self, plural: &str, namespace: Option<&str>, name: &str, members: Value) -> Value {
        let row = Resource::named(plural);
        assert_eq!(row.is_namespaced, namespace.is_some(), "{plural}");
        let object = row.object(namespace, name, members);
        match namespace {
            Some(namespace) => self.put(&format!("/apis/{}/{}", row.group, row.version), namespace, plural, &object),
            None => self.client.put(&row.collection(None), &object).unwrap(),
        }
    }

    /// The object of [`crate::RESOURCES`] as it is now.
    pub fn read(&self, plural: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.client.find(&format!("{}/{name}", Resource::named(plural).collection(namespace))).unwrap()
    }

    /// A ConfigMap.
    pub fn config_map(&self, namespace: &str, name: &str, data: &Value) {
        self.put("/api/v1", namespace, "configmaps", &json!({ "metadata": { "name": name }, "data": data }));
    }
}

/// The time as objects have it.
pub(crate) fn now() -> String {
    OffsetDateTime::now_utc().replace_nanosecond(0).unwrap().format(&Rfc3339).unwrap()
}
