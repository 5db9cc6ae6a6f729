//! Pods of the machine that has the cluster's address, and their logs.

use super::{
    KUBELET_PORT, Settings, api,
    https::{self, Answer, Request},
};
use anyhow::Result;
use serde_json::{Value, json};
use simulator::Client;
use std::fs;

/// Where a node has the logs of its containers; here one of each pod.
const LOGS: &str = "/var/log/containers";

pub(super) fn log(pod: &str) -> String {
    format!("{LOGS}/{pod}.log")
}

/// A pod's object, from now on a running one. One of an earlier start of this program is the same.
pub(super) fn run(api: &Client, namespace: &str, pod: &Value) -> Result<()> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    match api.create(&pods, pod) {
        Err(error) if error.status() == Some(409) => {}
        created => drop(created?),
    }
    set_phase(api, namespace, pod["metadata"]["name"].as_str().unwrap_or_default(), "Running")
}

pub(super) fn set_phase(api: &Client, namespace: &str, pod: &str, phase: &str) -> Result<()> {
    api.patch_status(&format!("/api/v1/namespaces/{namespace}/pods/{pod}"), &json!({"phase": phase}))?;
    Ok(())
}

/// The kubelet's server, which the API server asks.
pub(super) fn serve_logs(settings: &Settings) -> Result<()> {
    fs::create_dir_all(LOGS)?;
    https::serve(api::listen(KUBELET_PORT)?, https::server(settings)?, answer);
    Ok(())
}

/// `/containerLogs/NAMESPACE/POD/CONTAINER`
fn answer(request: &Request) -> Answer {
    let pod = request.path.strip_prefix("/containerLogs/").and_then(|path| path.split('/').nth(1));
    match pod.map(|pod| fs::read(log(pod))) {
        Some(Ok(text)) => (200, "text/plain", text),
        _ => (404, "text/plain", b"no such log".to_vec()),
    }
}
