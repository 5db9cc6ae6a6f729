//! A small client of Kubernetes for tests. Paths are those of the API, such as `/api/v1/nodes/NAME`, with their query.

use crate::PATIENCE;
use serde_json::{Value, json};
use ureq::{Agent, http};

/// No object is larger; a log may be.
const MAX_REPLY_BYTES: u64 = 256 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There was no reply.
    #[error("{method} {path}")]
    Transport { method: String, path: String, source: Box<ureq::Error> },
    /// The server refused. `reason` is Kubernetes' word for it, such as `AlreadyExists`.
    #[error("{method} {path}: {status} {reason}: {message}")]
    Refused { method: String, path: String, status: u16, reason: String, message: String },
}

impl ClientError {
    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Transport { .. } => None,
        }
    }
}

/// A blocking client, logged in by a token. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    url: String,
    /// With the login, and the user that it acts as.
    headers: Vec<(&'static str, String)>,
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Client {
    /// A client of the server at `url`, which the authority in `ca_pem` vouches for.
    pub fn new(url: &str, ca_pem: &str, token: &str) -> Self {
        let agent = api::http::agent_trusting_only(ca_pem.as_bytes()).unwrap();
        Self { agent, url: url.to_owned(), headers: vec![("Authorization", format!("Bearer {token}"))] }
    }

    /// The same client acting as another user, of these groups.
    #[must_use]
    pub fn acting_as(&self, user: &str, groups: &[&str]) -> Self {
        let mut client = self.clone();
        client.headers.push(("Impersonate-User", user.to_owned()));
        client.headers.extend(groups.iter().map(|group| ("Impersonate-Group", (*group).to_owned())));
        client
    }

    /// An object.
    pub fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.json("GET", path, None)
    }

    /// The same, where it exists.
    pub fn find(&self, path: &str) -> Result<Option<Value>, ClientError> {
        match self.get(path) {
            Err(ClientError::Refused { status: 404, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// A reply that is not JSON, such as a log.
    pub fn text(&self, path: &str) -> Result<String, ClientError> {
        Ok(String::from_utf8_lossy(&self.send("GET", path, None)?).into_owned())
    }

    /// The items of a collection.
    pub fn list(&self, path: &str) -> Result<Vec<Value>, ClientError> {
        match self.get(path)?["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes an object in a collection.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value, ClientError> {
        self.json("POST", collection, Some((JSON, object)))
    }

    /// Puts an object in place of what is there.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, ClientError> {
        self.json("PUT", path, Some((JSON, object)))
    }

    /// Makes an object, or gives an existing one these members and leaves it all others; `status` goes where it is accepted.
    pub fn put(&self, collection: &str, object: &Value) -> Result<Value, ClientError> {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let stored = match self.create(collection, object) {
            Err(ClientError::Refused { status: 409, .. }) => self.patch(&path, object)?,
            created => created?,
        };
        let mut status = object["status"].as_object().into_iter().flatten();
        // A node, for one, is made with its status.
        if status.all(|(name, value)| stored["status"][name] == *value) {
            return Ok(stored);
        }
        self.patch_status(&path, &object["status"])
    }

    /// Server-side apply, by force.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value, ClientError> {
        self.json("PATCH", &format!("{path}?fieldManager=simulator&force=true"), Some((APPLY, object)))
    }

    /// A merge patch.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value, ClientError> {
        self.json("PATCH", path, Some((MERGE_PATCH, patch)))
    }

    /// A JSON patch: a list of operations.
    pub fn json_patch(&self, path: &str, operations: &Value) -> Result<Value, ClientError> {
        self.json("PATCH", path, Some((JSON_PATCH, operations)))
    }

    /// A merge patch of the status, through its subresource.
    pub fn patch_status(&self, path: &str, status: &Value) -> Result<Value, ClientError> {
        self.json("PATCH", &format!("{path}/status"), Some((MERGE_PATCH, &json!({ "status": status }))))
    }

    /// Deletes an object at once.
    pub fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.send("DELETE", path, Some((JSON, &at_once()))).map(drop)
    }

    /// Deletes what a collection has, at once.
    pub fn delete_collection(&self, collection: &str) -> Result<(), ClientError> {
        self.delete(collection)
    }

    fn json(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value, ClientError> {
        let reply = self.send(method, path, body)?;
        Ok(serde_json::from_slice(&reply).unwrap_or_else(|error| panic!("{method} {path}: not JSON: {error}")))
    }

    fn send(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Vec<u8>, ClientError> {
        let mut request = http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let reply = match body {
            Some((content_type, body)) => {
                let request = request.header("Content-Type", content_type).body(body.to_string()).unwrap();
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(PATIENCE)).build())
            }
            None => {
                let request = request.body(()).unwrap();
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(PATIENCE)).build())
            }
        };
        let failed = |source| ClientError::Transport {
            method: method.to_owned(),
            path: path.to_owned(),
            source: Box::new(source),
        };
        let mut reply = reply.map_err(failed)?;
        let bytes = reply.body_mut().with_config().limit(MAX_REPLY_BYTES).read_to_vec().map_err(failed)?;
        if reply.status().is_success() {
            return Ok(bytes);
        }
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        let message = if status.is_null() { String::from_utf8_lossy(&bytes).into_owned() } else { text("message") };
        Err(ClientError::Refused {
            method: method.to_owned(),
            path: path.to_owned(),
            status: reply.status().as_u16(),
            reason: text("reason"),
            message,
        })
    }
}

fn at_once() -> Value {
    json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background" })
}

/// A kubeconfig of one cluster and one user.
pub(crate) fn kubeconfig(url: &str, ca_pem: &str, token: &str) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca_pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "simulator", "cluster": { "server": url, "certificate-authority-data": encoded } }],
        "users": [{ "name": "simulator", "user": { "token": token } }],
        "contexts": [{ "name": "simulator", "context": { "cluster": "simulator", "user": "simulator" } }],
        "current-context": "simulator",
    });
    serde_norway::to_string(&config).unwrap()
}
