//! `connectivity-check`: the hosts to probe, and the results (docs/compatibility.md#connectivity-check).

use crate::{HostId, is_zero, json::null_is_default};
use serde::{Deserialize, Serialize};

/// `connectivity-check-host`: a remote host to probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectivityCheckHost {
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_id: HostId,
    #[serde(default, deserialize_with = "null_is_default")]
    pub nics: Vec<ConnectivityCheckNic>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectivityCheckNic {
    /// Plain addresses, version 4 or 6; a `/prefix` must be removed.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ip_addresses: Vec<String>,
    /// Hardware address as text; compared without case.
    #[serde(default, deserialize_with = "null_is_default")]
    pub mac: String,
    /// Interface name on the remote host.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectivityReport {
    /// One entry a remote host, sorted by its id.
    #[serde(default, deserialize_with = "null_is_default")]
    pub remote_hosts: Vec<ConnectivityRemoteHost>,
}

/// `connectivity-remote-host`. The lists may be `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectivityRemoteHost {
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_id: HostId,
    /// ARP and NDP results, sorted by address and MAC.
    #[serde(default)]
    pub l2_connectivity: Option<Vec<L2Connectivity>>,
    /// Echo results, sorted by address.
    #[serde(default)]
    pub l3_connectivity: Option<Vec<L3Connectivity>>,
    /// Path MTU results, sorted by address.
    #[serde(default)]
    pub mtu_report: Option<Vec<MtuReport>>,
}

/// `l2-connectivity`: one responder to one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct L2Connectivity {
    /// Our address the request was sent from; IPv4 only.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub outgoing_ip_address: String,
    /// Our interface.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub outgoing_nic: String,
    /// The address probed.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub remote_ip_address: String,
    /// The MAC address that answered.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub remote_mac: String,
    /// Whether that MAC belongs to the remote host.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub successful: bool,
}

/// `l3-connectivity`: echo statistics of one address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct L3Connectivity {
    /// Mean round trip, milliseconds.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub average_rtt_ms: f64,
    /// Never set by the real agent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub outgoing_nic: String,
    /// Lost echoes, percent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub packet_loss_percentage: f64,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub remote_ip_address: String,
    /// Whether any echo came back.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub successful: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuReport {
    /// Whether a packet of our interface's full MTU passed unfragmented.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub mtu_successful: bool,
    /// Our interface.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub outgoing_nic: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub remote_ip_address: String,
}
