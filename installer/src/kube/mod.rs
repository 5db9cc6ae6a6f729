//! A small client of the Kubernetes API: the few objects that show a control plane's progress, and no watching.
//! The controller has `kube`; here, in the host's program, that would take more room than all of the installer does.

mod config;
mod types;

pub use config::{ConfigError, Kubeconfig};
pub use types::{Address, Condition, ConfigMap, Event, MachineConfig, Metadata, Node, Pod, Taint};

use api::{http::public_url, proxy::ProxyVariables, read_body};
use kernel::Cancel;
use serde::de::DeserializeOwned;
use std::{
    fmt,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};
use types::List;
use ureq::http::{Method, Request};

/// An answer may take this long as a whole.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// A larger answer is refused: a page of nodes with all their images is a few megabytes.
const MAX_BYTES: u64 = 64 << 20;
/// Of a log so much is read.
const MAX_LOG_BYTES: u64 = 32 << 20;
/// Objects on one page of a list.
const PAGE: u32 = 500;
/// Only a faulty server has a list of more pages.
const MAX_PAGES: u32 = 200;
/// How often a request that is under way looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The part of a server's refusal that is shown.
const MAX_MESSAGE_CHARS: usize = 200;

/// Why the API did not answer as it should.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// How to reach it is not known.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It answered with another status.
    #[error("{method} {path}: the Kubernetes API answered {status}: {message}")]
    Status {
        method: Method,
        /// Request path, without query.
        path: String,
        status: u16,
        /// Its reason, cut to a line.
        message: String,
    },
    #[error("{method} {path}: no reply from the Kubernetes API at {server}")]
    Transport {
        method: Method,
        /// Request path, without query.
        path: String,
        /// Where it should be.
        server: String,
        source: Box<ureq::Error>,
    },
    /// An answer of another form. What is in it may be secret.
    #[error(
        "{method} {path}: the reply ({len} bytes) does not match the Kubernetes API, at line {line}, column {column}"
    )]
    Decode {
        /// Request method.
        method: Method,
        /// Request path, without query.
        path: String,
        /// Size in bytes.
        len: usize,
        /// Where it can't be read.
        line: usize,
        /// Where it can't be read.
        column: usize,
    },
    /// A list without an end.
    #[error("GET {path}: the list has more than {MAX_PAGES} pages")]
    Endless {
        /// Request path, without query.
        path: String,
    },
    #[error("cancelled during a request to the Kubernetes API")]
    Cancelled,
    /// No thread for the request.
    #[error("cannot start the thread for requests to the Kubernetes API")]
    Thread { source: std::io::Error },
}

impl KubeError {
    /// The HTTP status, when there is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// A client of one API server. Each request ends at once when the installation is cancelled.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    server: String,
    authorization: Option<api::Secret>,
    cancel: Cancel,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &public_url(&self.server)).finish_non_exhaustive()
    }
}

impl Client {
    /// Of the cluster that the kubeconfig at `path` names. Connects nothing yet.
    pub fn open(path: &Path, cancel: &Cancel) -> Result<Self, KubeError> {
        Ok(Self::new(&Kubeconfig::read(path)?, TIMEOUT, cancel)?)
    }

    /// As [`open`](Self::open), with `timeout` for each answer as a whole. Proxies are those of the environment.
    pub fn new(config: &Kubeconfig, timeout: Duration, cancel: &Cancel) -> Result<Self, ConfigError> {
        // A redirect would send the token to another server.
        let http = config.http()?.timeout_global(Some(timeout)).max_redirects(0).max_redirects_will_error(false);
        Ok(Self {
            agent: api::http::build(http, ProxyVariables::from_env()),
            server: config.server().to_owned(),
            authorization: config.token().map(|token| api::Secret::new(format!("Bearer {}", token.expose()))),
            cancel: cancel.clone(),
        })
    }

    /// All nodes that have this label.
    pub fn nodes(&self, label: &str) -> Result<Vec<Node>, KubeError> {
        self.list("/api/v1/nodes", &[("labelSelector", label)])
    }

    /// Gives a node other taints, unless it has changed since it was read (409).
    pub fn set_taints(&self, node: &Node, taints: &[Taint]) -> Result<(), KubeError> {
        let path = format!("/api/v1/nodes/{}", encode(&node.metadata.name));
        let patch = serde_json::json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        });
        self.request(Method::PATCH, &path, &[], Some(patch.to_string().into_bytes()), MAX_BYTES).map(drop)
    }

    pub fn config_map(&self, namespace: &str, name: &str) -> Result<ConfigMap, KubeError> {
        self.get(&format!("/api/v1/namespaces/{}/configmaps/{}", encode(namespace), encode(name)))
    }

    pub fn events(&self, namespace: &str, name: &str) -> Result<Vec<Event>, KubeError> {
        let path = format!("/api/v1/namespaces/{}/events", encode(namespace));
        let mut events: Vec<Event> = self.list(&path, &[("fieldSelector", &format!("metadata.name={name}"))])?;
        events.retain(|event| event.metadata.name == name);
        Ok(events)
    }

    pub fn pods(&self, namespace: &str) -> Result<Vec<Pod>, KubeError> {
        self.list(&format!("/api/v1/namespaces/{}/pods", encode(namespace)), &[])
    }

    /// What a pod wrote in these last seconds; the beginning of it, if that is much.
    pub fn pod_log(&self, namespace: &str, pod: &str, since: Duration) -> Result<Vec<u8>, KubeError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/log", encode(namespace), encode(pod));
        let (since, limit) = (since.as_secs().to_string(), MAX_LOG_BYTES.to_string());
        let query = [("sinceSeconds", since.as_str()), ("limitBytes", &limit)];
        // A server that ignores the limit is faulty.
        self.request(Method::GET, &path, &query, None, MAX_LOG_BYTES.saturating_mul(2))
    }

    /// A MachineConfig.
    pub fn machine_config(&self, name: &str) -> Result<MachineConfig, KubeError> {
        self.get(&format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs/{}", encode(name)))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, KubeError> {
        decode(path, &self.request(Method::GET, path, &[], None, MAX_BYTES)?)
    }

    /// All pages of a list. One whose place in it the server has forgotten (410) begins anew, once.
    fn list<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<T>, KubeError> {
        let limit = PAGE.to_string();
        let (mut items, mut at, mut expired) = (Vec::new(), String::new(), false);
        for _ in 0..MAX_PAGES {
            let mut query = [query, &[("limit", limit.as_str())]].concat();
            if !at.is_empty() {
                query.push(("continue", &at));
            }
            let page = match self.request(Method::GET, path, &query, None, MAX_BYTES) {
                Err(error) if error.status() == Some(410) && !at.is_empty() && !expired => {
                    (items, at, expired) = (Vec::new(), String::new(), true);
                    continue;
                }
                page => page?,
            };
            let page: List<T> = decode(path, &page)?;
            items.extend(page.items.unwrap_or_default());
            at = page.metadata.more;
            if at.is_empty() {
                return Ok(items);
            }
        }
        Err(KubeError::Endless { path: path.to_owned() })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
        max_bytes: u64,
    ) -> Result<Vec<u8>, KubeError> {
        if self.cancel.is_cancelled() {
            return Err(KubeError::Cancelled);
        }
        let (client, path) = (self.clone(), path.to_owned());
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let (sender, answer) = mpsc::channel();
        let ask = move || {
            let result = client.ask(method, path, &query.join("&"), body, max_bytes);
            // Once cancelled there is no receiver.
            let _ = sender.send(result);
        };
        // Not joined where it hangs: it ends by its own timeout, and holds nothing of value.
        let thread = thread::Builder::new().name("kubernetes".into()).spawn(ask);
        let thread = thread.map_err(|source| KubeError::Thread { source })?;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(result) => {
                    let _ = thread.join();
                    return result;
                }
                Err(RecvTimeoutError::Timeout) if !self.cancel.is_cancelled() => {}
                Err(_) => return Err(KubeError::Cancelled),
            }
        }
    }

    fn ask(
        &self,
        method: Method,
        path: String,
        query: &str,
        body: Option<Vec<u8>>,
        max_bytes: u64,
    ) -> Result<Vec<u8>, KubeError> {
        let transport = |source: ureq::Error| KubeError::Transport {
            method: method.clone(),
            path: path.clone(),
            server: public_url(&self.server),
            source: Box::new(source),
        };
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}{query}", self.server))
            .header("Accept", if path.ends_with("/log") { "*/*" } else { "application/json" });
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization.expose());
        }
        let result = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/merge-patch+json").body(body);
                self.agent.run(request.map_err(|error| transport(error.into()))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| transport(error.into()))?),
        };
        let mut response = result.map_err(transport)?;
        let answer = read_body(&mut response, max_bytes).map_err(|error| transport(error.into_ureq()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(KubeError::Status { method, path, status: status.as_u16(), message: message(&answer) })
    }
}

fn decode<T: DeserializeOwned>(path: &str, answer: &[u8]) -> Result<T, KubeError> {
    serde_json::from_slice(answer).map_err(|error| KubeError::Decode {
        method: Method::GET,
        path: path.to_owned(),
        len: answer.len(),
        line: error.line(),
        column: error.column(),
    })
}

/// The text in a `Status` object, or the start of what came in its place.
fn message(answer: &[u8]) -> String {
    let status = serde_json::from_slice::<serde_json::Value>(answer).ok();
    let message = status.as_ref().and_then(|status| status.get("message")?.as_str());
    let start = answer.get(..answer.len().min(4 * MAX_MESSAGE_CHARS)).unwrap_or_default();
    let text = message.map_or_else(|| String::from_utf8_lossy(start).into_owned(), str::to_owned);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE_CHARS).collect()
}

/// Percent-encoded, for a path's part or a query's value (RFC 3986, 2.3).
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
#[path = "kube_tests.rs"]
mod tests;
