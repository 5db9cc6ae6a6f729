//! What checks over HTTP have in common: bounded bodies, and how they fail.

use std::{fmt, io::Read};
use ureq::{Body, http::Response};

/// A body that did not arrive whole.
#[derive(Debug)]
pub(crate) struct BodyError {
    read: usize,
    announced: Option<u64>,
    cause: String,
}

/// The contract's text (agent contract §6.9), but for its cause.
impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error while reading response body, read {}", self.read)?;
        if let Some(announced) = self.announced {
            write!(f, " out of {announced}")?;
        }
        write!(f, " bytes: {}", self.cause)
    }
}

impl std::error::Error for BodyError {}

/// Reads a body of at most `max_len` bytes.
pub(crate) fn read_body(response: &mut Response<Body>, max_len: u64) -> Result<Vec<u8>, BodyError> {
    let announced = response.body().content_length();
    let mut bytes = Vec::new();
    let body = response.body_mut().with_config().limit(u64::MAX).reader();
    let result = body.take(max_len.saturating_add(1)).read_to_end(&mut bytes);
    let fail = |cause: String| Err(BodyError { read: bytes.len(), announced, cause });
    match result {
        Err(error) => fail(error.to_string()),
        Ok(len) if u64::try_from(len).is_ok_and(|len| len > max_len) => {
            fail(format!("it is longer than {} KiB", max_len >> 10))
        }
        Ok(_) => Ok(bytes),
    }
}

/// Why a request got no response, in the words of whoever would be asked about it.
pub(crate) fn explain(error: &ureq::Error, max_redirects: u32) -> String {
    match error {
        ureq::Error::TooManyRedirects => format!("stopped after {max_redirects} redirects"),
        other => other.to_string(),
    }
}
