//! Why files can't be edited.

/// Characters of a text from a file that a message shows.
const SHOWN_CHARS: usize = 200;

/// Why a file can't be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("{file} is not an Ignition config: {reason}")]
    Config { file: String, reason: String },
    #[error("{file} is missing")]
    Missing { file: String },
    #[error("{path} in bootstrap.ign is not a BareMetalHost: {reason}")]
    BareMetalHost { path: String, reason: String },
    #[error("Not enough registered hosts in role {role} to match with BareMetalHosts")]
    Hosts { role: &'static str },
    #[error("Could not create DHCP encoded file: Either API VIP <{api}> or Ingress VIP <{ingress}> are not set")]
    Vips { api: String, ingress: String },
    #[error("machine config pool {pool} was not found")]
    Pool { pool: String },
    #[error("cannot find {path} in bootstrap.ign")]
    NoRegistries { path: &'static str },
    #[error("{path} in bootstrap.ign can't be read: {reason}")]
    Registries { path: &'static str, reason: String },
}

/// A text of unknown origin, for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).flat_map(char::escape_default).collect()
}
