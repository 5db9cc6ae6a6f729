//! Errors of calls.

use crate::{ApiError, InfraError, Transience, http::HttpConfigError};
use std::{io::Read, time::Duration};
use ureq::http::Method;

/// The result of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The client can't be set up.
    #[error(transparent)]
    Config(#[from] HttpConfigError),
    /// The base URL is unusable.
    #[error("'{url}' is not a service URL: it must start with http:// or https:// and name a host")]
    Url {
        /// As given, without credentials.
        url: String,
    },
    /// The service answered with another status.
    #[error("{method} {path}: the service answered {status}: {message}")]
    Status {
        method: Method,
        path: String,
        status: u16,
        /// Its reason, cut to a line.
        message: String,
        /// The requested pause before another attempt.
        retry_after: Option<Duration>,
    },
    #[error("{method} {path}: no answer from {url}")]
    Transport { method: Method, path: String, url: String, source: Box<ureq::Error> },
    /// An answer that does not follow the API.
    #[error("{method} {path}: cannot parse the answer as {what} ({len} bytes, starting '{start}')")]
    Decode {
        method: Method,
        path: String,
        what: &'static str,
        /// Size of the answer.
        len: usize,
        start: String,
        source: serde_json::Error,
    },
}

impl ClientError {
    /// The HTTP status, if the service answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The pause that the service requests.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(super) fn transience(&self) -> Transience {
        match self {
            Self::Status { status, .. } => Transience::Status(*status),
            Self::Transport { source, .. } => match **source {
                ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => Transience::Transport,
                _ => Transience::Permanent,
            },
            _ => Transience::Permanent,
        }
    }
}

/// The reason in either error body, or the start of any other content (such as a proxy's HTML page).
pub fn refusal_text(body: &[u8]) -> String {
    if let Ok(error) = serde_json::from_slice::<ApiError>(body) {
        return error.reason;
    }
    if let Ok(error) = serde_json::from_slice::<InfraError>(body) {
        return error.message;
    }
    one_line(body, 200)
}

pub(super) fn one_line(bytes: &[u8], max_chars: usize) -> String {
    let mut start = Vec::new();
    // A char has at most four bytes; one cut at the end becomes a replacement character.
    let max_bytes = u64::try_from(max_chars.saturating_mul(4)).unwrap_or(u64::MAX);
    let _ = bytes.take(max_bytes).read_to_end(&mut start);
    String::from_utf8_lossy(&start).chars().map(|c| if c.is_control() { ' ' } else { c }).take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_error_shapes_and_html_give_a_line() {
        assert_eq!(
            refusal_text(br#"{"code":"404","href":"","id":404,"kind":"Error","reason":"record not found"}"#),
            "record not found"
        );
        assert_eq!(
            refusal_text(br#"{"code":400,"message":"host_id in body is required"}"#),
            "host_id in body is required"
        );
        assert_eq!(refusal_text(b"<html>\n<body>bad gateway"), "<html> <body>bad gateway");
    }
}
