//! Settings of a machine's stand-ins.

use super::objects::Objects;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{fs, net::Ipv4Addr};

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
    /// Of all certificates, PEM.
    pub authority: String,
    /// Of the servers, PEM, with its key.
    pub server: [String; 2],
    /// Of who may ask the API, PEM, with its key.
    pub client: [String; 2],
    /// The initial objects of a control plane without a predecessor: on a single node.
    pub objects: Option<Objects>,
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
}
