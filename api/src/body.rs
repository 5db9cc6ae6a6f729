//! Reads bodies of HTTP responses, with a limit.

use std::{fmt, io, io::Read};
use ureq::{Body, http::Response};

/// An incomplete body.
#[derive(Debug)]
pub struct BodyError {
    /// Bytes received.
    pub read: usize,
    /// Bytes announced, if the server did.
    pub announced: Option<u64>,
    /// Why it is incomplete.
    pub cause: BodyFault,
}

/// Why a body is incomplete.
#[derive(Debug)]
pub enum BodyFault {
    /// It has more bytes than this.
    TooLong { limit_bytes: u64 },
    /// The connection failed, or the time limit expired.
    Broken(io::Error),
}

/// The published text (docs/compatibility.md#api-vip-connectivity-check), except for its cause.
impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error while reading response body, read {}", self.read)?;
        if let Some(announced) = self.announced {
            write!(f, " out of {announced}")?;
        }
        match &self.cause {
            BodyFault::TooLong { limit_bytes } => write!(f, " bytes: it is longer than {} KiB", limit_bytes >> 10),
            BodyFault::Broken(error) => write!(f, " bytes: {error}"),
        }
    }
}

impl std::error::Error for BodyError {}

impl BodyError {
    /// As an error of the HTTP client.
    pub fn into_ureq(self) -> ureq::Error {
        match self.cause {
            BodyFault::TooLong { limit_bytes } => ureq::Error::BodyExceedsLimit(limit_bytes),
            BodyFault::Broken(error) => error.into(),
        }
    }
}

/// Reads a body of at most `max_len` bytes without decompression, since no request asks for a compressed one.
pub fn read_body(response: &mut Response<Body>, max_len: u64) -> Result<Vec<u8>, BodyError> {
    let announced = response.body().content_length();
    let mut bytes = Vec::new();
    let body = response.body_mut().with_config().limit(u64::MAX).reader();
    let result = body.take(max_len.saturating_add(1)).read_to_end(&mut bytes);
    let cause = match result {
        Err(error) => BodyFault::Broken(error),
        Ok(len) if u64::try_from(len).is_ok_and(|len| len > max_len) => BodyFault::TooLong { limit_bytes: max_len },
        Ok(_) => return Ok(bytes),
    };
    Err(BodyError { read: bytes.len(), announced, cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::http::Server;

    fn read(headers: &str, body: &[u8]) -> Result<Vec<u8>, BodyError> {
        let server = Server::in_order([testkit::http::reply("200 OK", headers, body)]);
        let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
        let mut response = agent.get(server.url("/")).call().unwrap();
        read_body(&mut response, 1 << 20)
    }

    #[test]
    fn the_last_byte_too_many_is_one() {
        assert_eq!(read("", &vec![b' '; 1 << 20]).unwrap().len(), 1 << 20);
        let error = read("", &vec![b' '; (1 << 20) + 1]).unwrap_err();
        assert!(error.to_string().ends_with(" bytes: it is longer than 1024 KiB"), "{error}");
        assert!(matches!(error.into_ureq(), ureq::Error::BodyExceedsLimit(1_048_576)));
    }

    #[test]
    fn a_packed_file_stays_packed_whatever_the_server_calls_it() {
        let packed = b"\x1f\x8b\x08 and so on";
        assert_eq!(read("Content-Encoding: gzip\r\n", packed).unwrap(), packed);
    }
}
