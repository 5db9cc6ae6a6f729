//! Settings of a machine's stand-ins.

use super::API_PORT;
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::json;
use simulator::Client;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
};

/// Where they are on a machine.
pub const SETTINGS_PATH: &str = "/etc/stand-in.json";

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The live system that runs the temporary control plane.
    Bootstrap,
    /// An installed control-plane node.
    Master,
    Worker,
}

impl Role {
    /// In configs' and labels' names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Master => "master",
            Self::Worker => "worker",
        }
    }
}

/// Settings, with the test's own certificates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// What this machine is.
    pub role: Role,
    /// The cluster's address, which moves.
    pub address: Ipv4Addr,
    /// Control-plane nodes in all.
    pub replicas: usize,
    /// Below it are the files that configs name.
    pub files_url: String,
    /// The API server on the test's host, as machines reach it.
    pub api: SocketAddr,
    /// Of all certificates, PEM.
    pub authority: String,
    /// Of all servers, PEM, with its key.
    pub server: [String; 2],
    /// An administrator's.
    pub token: String,
    /// Where the API server reaches the kubelet of the machine that has the cluster's address: on its own loopback.
    pub kubelet_port: u16,
    /// Where the controller finds the service: a proxy that records what it says.
    pub service_url: String,
}

impl Settings {
    pub fn read() -> Result<Self> {
        let text = fs::read(SETTINGS_PATH).with_context(|| format!("reading {SETTINGS_PATH}"))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {SETTINGS_PATH}"))
    }

    /// The same for another role.
    pub fn with_role(&self, role: Role) -> Self {
        Self { role, ..self.clone() }
    }

    /// Whether the cluster is a single node.
    pub fn is_single_node(&self) -> bool {
        self.replicas == 1
    }

    /// An administrator of the API server, whoever has the cluster's address.
    pub(super) fn administrator(&self) -> Client {
        Client::new(&format!("https://{}", self.api), &self.authority, &self.token)
    }

    /// The same at the cluster's address.
    pub(super) fn client(&self) -> Client {
        Client::new(&self.url(), &self.authority, &self.token)
    }

    fn url(&self) -> String {
        format!("https://{}:{API_PORT}", self.address)
    }

    /// An administrator's kubeconfig: JSON, which is YAML too.
    pub(super) fn kubeconfig(&self) -> String {
        let cluster = json!({"server": self.url(), "certificate-authority-data": BASE64.encode(&self.authority)});
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rack", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "admin", "context": {"cluster": "rack", "user": "admin"}}],
            "current-context": "admin",
        })
        .to_string()
    }
}
