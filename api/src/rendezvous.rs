//! How agents ask the service on one of their rack's hosts for its identifiers, and how it proves its identity.
//!
//! Anyone can answer multicast DNS, and it carries no nonce. So the agent challenges the announced URL before it sends anything
//! else there: `GET /landfall/rendezvous?nonce=…`. The service signs the nonce with its own base URL, which the agent compares
//! with the URL it asked. A replayed answer has another nonce; a relayed one has another URL.

use crate::{ClusterId, InfraEnvId};
use serde::{Deserialize, Serialize};

/// Service type (RFC 6763 §4.1.2) by which the service on one of a rack's own hosts is found.
pub const SERVICE_TYPE: &str = "_landfall._tcp.local.";
/// Key of its TXT record with the service's base URL.
pub const URL_KEY: &str = "url";
/// Path of the request, below the base URL.
pub const PATH: &str = "/landfall/rendezvous";
/// Prefix of signed text, which no token or other text signed with the same key has.
const CONTEXT: &str = "landfall rendezvous 1";

/// The answer of a rendezvous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The rack's cluster.
    pub cluster_id: Option<ClusterId>,
    /// The infra-env of its hosts.
    pub infra_env_id: InfraEnvId,
    /// Present if a nonce was sent and the service has a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// Binds an answer to a service, its URL, and the nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Its name in multicast DNS.
    pub name: String,
    pub url: String,
    /// CA certificates that verify its own, PEM; absent without TLS, and with a certificate of a public CA.
    pub ca_pem: Option<String>,
    /// ECDSA on curve P-256 with SHA-256, 64 bytes in base64, of [`signed_text`].
    pub signature: String,
}

/// The signed text: JSON, so that different answers never have the same.
pub fn signed_text(name: &str, url: &str, ca_pem: Option<&str>, infra_env_id: InfraEnvId, nonce: &str) -> String {
    serde_json::json!([CONTEXT, name, url, ca_pem, infra_env_id, nonce]).to_string()
}

/// Whether `text` is a nonce: 128 bits or more in base64url.
pub fn is_nonce(text: &str) -> bool {
    (22..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
