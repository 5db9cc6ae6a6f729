//! Requests as they come over a connection.

use crate::check::endpoint_at;
use api::{API_PATH, endpoint::Endpoint};
use serde_json::Value;
use std::io::{self, BufRead, Read};

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
    /// Text where it is no JSON.
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
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (method, target) = (word(), word());
        let mut headers: Vec<(String, String)> = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let header = |wanted: &str| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let length = header("content-length").map_or(Ok(0), |(_, value)| value.parse());
        let mut bytes = vec![0; length.map_err(|_| io::Error::other("a length that is none"))?];
        reader.read_exact(&mut bytes)?;
        if header("transfer-encoding").is_some() {
            bytes = read_chunks(reader)?;
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let below = path.strip_prefix(API_PATH);
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() => Value::Null,
            Err(_) => String::from_utf8_lossy(&bytes).into(),
        };
        Ok(Some(Self {
            endpoint: below.and_then(|path| endpoint_at(&method, path)),
            is_of_api: below.is_some(),
            path: below.unwrap_or(path).to_owned(),
            query: query.to_owned(),
            method,
            headers,
            body,
            bytes,
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

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(|_| io::Error::other("a chunk of no size"))?;
        if u64::try_from(reader.by_ref().take(length).read_to_end(&mut body)?).is_ok_and(|read| read < length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // And the end of its line.
        reader.read_exact(&mut [0; 2])?;
        if length == 0 {
            return Ok(body);
        }
    }
}
