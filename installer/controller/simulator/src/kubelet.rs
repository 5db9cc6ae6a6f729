//! The kubelet of all nodes: the API server asks it for the logs of pods.

use crate::{authority::Authority, lock};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use testkit::http::{Request, Server, reply};

type Logs = Mutex<HashMap<(String, String), Result<String, u16>>>;

/// An HTTPS server that gives the logs that tests set, cut by `tailLines` and `limitBytes`. Lines have no times here, so `sinceSeconds`
/// changes nothing; see [`Kubelet::requests`].
pub struct Kubelet {
    server: Server,
    logs: Arc<Logs>,
}

impl Kubelet {
    pub(crate) fn start(authority: &Authority) -> Self {
        let logs = Arc::<Logs>::default();
        let known = logs.clone();
        let server = Server::with_tls(authority.server_config(), move |request| answer(&known, request));
        Self { server, logs }
    }

    /// The port that nodes name as their kubelet's, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// The log of a pod, whatever its container is called.
    pub fn set_log(&self, namespace: &str, pod: &str, text: impl Into<String>) {
        self.set(namespace, pod, Ok(text.into()));
    }

    /// Adds to the log of a pod.
    pub fn append_log(&self, namespace: &str, pod: &str, text: &str) {
        let mut logs = lock(&self.logs);
        let log = logs.entry((namespace.to_owned(), pod.to_owned())).or_insert_with(|| Ok(String::new()));
        let before = log.clone().unwrap_or_default();
        *log = Ok(before + text);
    }

    /// Has requests for the log of a pod fail with this status.
    pub fn fail_log(&self, namespace: &str, pod: &str, status: u16) {
        self.set(namespace, pod, Err(status));
    }

    /// Forgets all logs.
    pub fn clear(&self) {
        lock(&self.logs).clear();
    }

    /// What the API server asked for so far: paths with their queries.
    pub fn requests(&self) -> Vec<String> {
        self.server.requests().iter().map(|request| request.target().to_owned()).collect()
    }

    fn set(&self, namespace: &str, pod: &str, log: Result<String, u16>) {
        lock(&self.logs).insert((namespace.to_owned(), pod.to_owned()), log);
    }
}

/// `/containerLogs/NAMESPACE/POD/CONTAINER`
fn answer(logs: &Logs, request: &Request) -> Vec<u8> {
    let mut parts = request.path().split('/').skip(1);
    let (Some("containerLogs"), Some(namespace), Some(pod)) = (parts.next(), parts.next(), parts.next()) else {
        return reply("404 Not Found", "", "this kubelet has logs alone");
    };
    let Some(log) = lock(logs).get(&(namespace.to_owned(), pod.to_owned())).cloned() else {
        return reply("404 Not Found", "", "no log was set for this pod");
    };
    match log {
        Ok(text) => reply("200 OK", "Content-Type: text/plain\r\n", cut(&text, request.target())),
        Err(status) => reply(&format!("{status} Failed"), "", "the log is not available"),
    }
}

fn cut<'a>(mut text: &'a str, target: &str) -> &'a [u8] {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let number = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<usize>().ok())
    };
    if let Some(lines) = number("tailLines") {
        let end = text.trim_end_matches('\n');
        let start = end.rmatch_indices('\n').nth(lines.max(1) - 1).map_or(0, |(at, _)| at + 1);
        text = if lines == 0 { "" } else { &text[start..] };
    }
    let limit = number("limitBytes").unwrap_or(text.len());
    &text.as_bytes()[..limit.min(text.len())]
}
