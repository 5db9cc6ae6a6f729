//! The wire: types of the assisted-installer REST API (`/api/assisted-install/v2`), and a client for it.
//!
//! Field names, which fields are omitted if zero, and JSON inside strings are the service's; see the published API description.
//! Types here are plain data: decisions are in the crate that makes them.

pub mod attest;
mod body;
pub mod certify;
mod cidr;
mod client;
mod clock;
mod cluster;
mod connectivity;
pub mod der;
mod dial;
mod documents;
pub mod download;
pub mod endpoint;
mod error;
mod host;
pub mod http;
mod id;
pub mod image;
mod infra_env;
mod inventory;
pub mod json;
pub mod media;
mod mirror_registry;
pub mod proxy;
pub mod rendezvous;
mod retry;
mod rules;
mod secret;
mod stage;
mod step;
mod step_kinds;
mod through;
mod timestamp;
pub mod trust;
mod url;

pub use body::{BodyError, BodyFault, read_body};
pub use cidr::{Cidr, ParseCidrError};
pub use client::documents::{DownloadError, copy};
pub use client::error::{ClientError, refusal_text};
pub use client::{ANSWER_TIMEOUT, API_PATH, Client, ClientConfig};
pub use clock::CertificateTime;
pub use cluster::*;
pub use connectivity::*;
pub use dial::lookup_error;
pub use documents::*;
pub use error::{ApiError, InfraError};
pub use host::*;
pub use id::{ClusterId, HostId, InfraEnvId, Mac, ParseMacError};
pub use infra_env::*;
pub use inventory::*;
pub use mirror_registry::MirrorRegistry;
pub use retry::{RetryPolicy, Transience, backoff};
pub use rules::{FORBIDDEN_HOSTNAMES, INSTALLER_FLAGS, is_installer_value_char};
pub use secret::Secret;
pub use stage::{HostRole, HostStage, StageList};
pub use step::*;
pub use step_kinds::*;
pub use timestamp::Timestamp;

/// `skip_serializing_if` helper: true for a value equal to its type's zero, which Go's `omitempty` leaves out.
pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
