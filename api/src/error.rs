//! The service's two error bodies.

use serde::{Deserialize, Serialize};

/// `error`: raised by the application; `code` is the status as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// The HTTP status, as text.
    pub code: String,
    /// Always empty.
    pub href: String,
    /// The HTTP status.
    pub id: u16,
    /// Always `Error`.
    pub kind: String,
    /// What went wrong.
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
    pub code: u16,
    /// What went wrong.
    pub message: String,
}
