//! Requests as they come over a connection.

use crate::check::endpoint_at;
use api::{API_PATH, endpoint::Endpoint};
use serde_json::Value;
use std::io::{self, BufRead};

#[derive(Clone, Debug)]
pub struct Request {
    /// As sent.
    pub method: String,
    /// Below the API's path, if it is; without the query.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Names as sent.
    pub headers: Vec<(String, String)>,
    /// A text if it is not JSON.
    pub body: Value,
    /// The body as sent, without the marks of chunks.
    pub bytes: Vec<u8>,
    /// What it is for; none where no endpoint takes it.
    pub endpoint: Option<&'static Endpoint>,
    /// Whether it is below the API's path.
    pub is_of_api: bool,
}

impl Request {
    /// The next request on a connection; none at its end.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(sent) = testkit::http::Request::read(reader)? else { return Ok(None) };
        let (method, bytes) = (sent.method().to_owned(), &sent.body);
        let headers = sent.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (path, query) = sent.target().split_once('?').unwrap_or((sent.target(), ""));
        let below = path.strip_prefix(API_PATH);
        let body = match serde_json::from_slice(bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() => Value::Null,
            Err(_) => String::from_utf8_lossy(bytes).into(),
        };
        Ok(Some(Self {
            endpoint: below.and_then(|path| endpoint_at(&method, path)),
            is_of_api: below.is_some(),
            path: below.unwrap_or(path).to_owned(),
            query: query.to_owned(),
            method,
            headers,
            body,
            bytes: sent.body,
        }))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether it has this method, and a path with this end.
    pub fn ends_with(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path.ends_with(path)
    }

    /// Path and query.
    pub fn target(&self) -> String {
        let question = if self.query.is_empty() { "" } else { "?" };
        format!("{}{question}{}", self.path, self.query)
    }
}
