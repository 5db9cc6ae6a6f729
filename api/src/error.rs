//! The service's two error bodies.

use crate::json::null_is_default;
use serde::{Deserialize, Serialize};

/// `error`: raised by the application; `code` is the status as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// The HTTP status, as text.
    #[serde(default, deserialize_with = "null_is_default")]
    pub code: String,
    /// Always empty.
    #[serde(default, deserialize_with = "null_is_default")]
    pub href: String,
    /// The HTTP status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub id: u16,
    /// Always `Error`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub kind: String,
    pub reason: String,
}

impl ApiError {
    /// The body for `status` with `reason`.
    pub fn new(status: u16, reason: impl Into<String>) -> Self {
        Self { code: status.to_string(), href: String::new(), id: status, kind: "Error".into(), reason: reason.into() }
    }
}

/// `infra_error`: raised before the application sees the request (authentication, request validation, unknown path).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfraError {
    /// The HTTP status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub code: u16,
    pub message: String,
}
