//! What is changed in the Ignition files that `openshift-install` makes.

use crate::Files;
use api::Mac;
use std::net::IpAddr;

/// What the edits depend on.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Full version, as `4.22.9`.
    pub openshift_version: String,
    /// The control plane is one node, which bootstraps in place.
    pub single_node: bool,
    pub has_arbiter: bool,
    /// Some host has an IPv6 address.
    pub has_ipv6: bool,
    /// The authority of the service's certificate, PEM.
    pub service_ca_pem: Option<String>,
    /// Virtual addresses that come by DHCP.
    pub dhcp: Option<Vips>,
}

/// The two virtual addresses of a cluster.
#[derive(Clone, Debug)]
pub struct Vips {
    pub api: Vip,
    pub ingress: Vip,
}

/// An address that a DHCP server gave.
#[derive(Clone, Debug)]
pub struct Vip {
    pub mac: Mac,
    /// `None` as long as no server gave one.
    pub address: Option<IpAddr>,
    /// As dhclient writes it; may be empty.
    pub lease: String,
}

/// Why a file can't be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("{file} is not an Ignition config: {reason}")]
    Config { file: String, reason: String },
}

/// Edits `bootstrap.ign`, `master.ign`, `worker.ign` and `arbiter.ign`.
pub fn apply(files: &mut Files, settings: &NodeSettings) -> Result<(), EditError> {
    let _ = (files, settings);
    Ok(())
}
