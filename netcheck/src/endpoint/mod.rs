//! Fetches the config that a running cluster gives its new workers (docs/compatibility.md#api-vip-connectivity-check): whether a host can
//! join on day 2.

mod judge;
pub(crate) mod table;

pub use judge::judge;

use crate::{
    http::{MAX_TIMEOUT, explain},
    privileges::{self, PrivilegeError},
};
use api::{ApiVipConnectivityRequest, ApiVipConnectivityResponse, http, read_body};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{
    error::Error,
    time::{Duration, Instant},
};
use ureq::{
    Agent, ResponseExt,
    config::RedirectAuthHeaders,
    http::{HeaderMap, HeaderName, HeaderValue, Request},
};

/// What a machine config server accepts as a request of a new machine.
const ACCEPT: &str = "application/vnd.coreos.ignition+json; version=3.2.0";
const MAX_REDIRECTS: u32 = 10;
/// The echo of a request that names none.
pub(crate) const NO_URL: &str = "<unknown URL due to internal error>";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointOptions {
    /// For connecting, TLS not included, to each host on the way.
    pub connect_timeout: Duration,
    /// For all of it: names, redirects, the body; an hour at most. The real agent waits forever.
    pub timeout: Duration,
    /// Of a config. A cluster's is some hundred KiB; its own store takes 1.5 MiB at most, and that comes twice, once escaped.
    pub max_body_bytes: u64,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(10), timeout: Duration::from_secs(60), max_body_bytes: 8 << 20 }
    }
}

/// Why nothing was fetched, or why it is not usable. The texts are the real agent's.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The request's CA can't be read.
    #[error("{PREFIX}ignition endpoint CA certificate is not valid base64: {0}")]
    NotBase64(base64::DecodeError),
    /// The request's CA is none.
    #[error("{PREFIX}unable to parse cert")]
    NotACertificate,
    /// The URL or a header can't be sent.
    #[error("{PREFIX}failed to create request: {0}")]
    Create(String),
    #[error("{PREFIX}request failed: {0}")]
    Request(String),
    /// The response ended early, came too slowly or is too long.
    #[error("{PREFIX}{0}")]
    Body(String),
    /// Not a 2xx.
    #[error("{PREFIX}bad status code: {status}. server response: {body}")]
    Status {
        status: u16,
        /// Its first 64 KiB.
        body: String,
    },
    /// A 2xx with nothing in it.
    #[error("{PREFIX}server responsed with status code {status} but the response was empty")]
    Empty { status: u16 },
    /// No JSON.
    #[error("{PREFIX}response is not valid json:\n{body}\nparse error is: {source}")]
    Json { body: String, source: serde_json::Error },
    /// No JSON, and much of it.
    #[error("{PREFIX}expected ignition but got non-valid json, first 512 bytes are:\n{start}")]
    LongJson { start: String },
    /// JSON, and no config that the service understands.
    #[error("response is not a valid ignition file:\n{body}\nparse error is: {source}")]
    Config { body: String, source: Box<dyn Error + Send + Sync> },
    /// JSON, no config that the service understands, and much of it.
    #[error("response JSON is not a valid ignition file, first 512 bytes are:{start}")]
    LongConfig { start: String },
}

/// In front of everything that went wrong before there was a JSON document.
const PREFIX: &str = "ignition file download failed: ";

/// What a fetch saw on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    pub url: String,
    /// Where it was found in the end, without user and query; `None` when no response came.
    pub found_at: Option<String>,
    /// HTTP status of the last response.
    pub status: Option<u16>,
    /// Of the last response's body, as far as it was read whole.
    pub body_len: usize,
    /// For all of it.
    pub elapsed: Duration,
}

impl Fetched {
    /// The step's reply, `config` being the one in the document, as the service wants it.
    pub fn response(&self, config: &Result<String, DownloadError>) -> ApiVipConnectivityResponse {
        let (ignition, download_error) = match config {
            Ok(config) => (config.clone(), String::new()),
            Err(error) => (String::new(), error.to_string()),
        };
        ApiVipConnectivityResponse { download_error, ignition, is_success: config.is_ok(), url: self.url.clone() }
    }
}

/// Fetches the JSON document that `request` names; [`judge`] says whether it is a config. That nothing came is a result,
/// not an error.
///
/// This thread loses all capabilities for good.
pub fn fetch(
    request: &ApiVipConnectivityRequest,
    options: &EndpointOptions,
) -> Result<(Fetched, Result<Vec<u8>, DownloadError>), PrivilegeError> {
    privileges::drop_all()?;
    let started = Instant::now();
    let mut fetched = Fetched { url: request.url.clone(), ..Fetched::default() };
    let document = download(request, options, &mut fetched).and_then(|(status, body)| {
        fetched.body_len = body.len();
        judge::check_json(status, &body).map(|()| body)
    });
    fetched.elapsed = started.elapsed();
    Ok((fetched, document))
}

/// Status and body of the last response.
fn download(
    request: &ApiVipConnectivityRequest,
    options: &EndpointOptions,
    fetched: &mut Fetched,
) -> Result<(u16, Vec<u8>), DownloadError> {
    let agent = agent(request)?;
    let mut message = Request::get(&request.url).body(()).map_err(|error| DownloadError::Create(error.to_string()))?;
    // A client with a pinned CA must not be redirected to where it does not apply.
    let has_ca = request.ca_certificate.as_deref().is_some_and(|ca| !ca.is_empty());
    let https_only = has_ca && message.uri().scheme_str() == Some("https");
    *message.headers_mut() = headers(request)?;
    let message = agent
        .configure_request(message)
        .https_only(https_only)
        .max_redirects(MAX_REDIRECTS)
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .timeout_connect(Some(options.connect_timeout.min(MAX_TIMEOUT)))
        .timeout_global(Some(options.timeout.min(MAX_TIMEOUT)))
        .build();
    let mut response = agent.run(message).map_err(|error| DownloadError::Request(explain(&error, MAX_REDIRECTS)))?;
    let status = response.status().as_u16();
    fetched.status = Some(status);
    fetched.found_at = Some(http::public_url(&response.get_uri().to_string()));
    let body = read_body(&mut response, options.max_body_bytes);
    Ok((status, body.map_err(|error| DownloadError::Body(error.to_string()))?))
}

/// With a CA of the cluster's own, that one alone is trusted and no proxy is between.
fn agent(request: &ApiVipConnectivityRequest) -> Result<Agent, DownloadError> {
    let Some(base64) = request.ca_certificate.as_deref().filter(|text| !text.is_empty()) else {
        return http::agent(&http::HttpConfig::default()).map_err(|error| DownloadError::Create(error.to_string()));
    };
    // Line breaks are not part of it.
    let base64: Vec<u8> = base64.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let pem = BASE64_STANDARD.decode(base64).map_err(DownloadError::NotBase64)?;
    http::agent_trusting_only(&pem).ok_or(DownloadError::NotACertificate)
}

/// Values are marked as sensitive, so that no log shows them.
fn headers(request: &ApiVipConnectivityRequest) -> Result<HeaderMap, DownloadError> {
    let mut headers = HeaderMap::new();
    headers.insert("accept", HeaderValue::from_static(ACCEPT));
    let token = request.ignition_endpoint_token.as_deref().filter(|token| !token.is_empty());
    let token = token.map(|token| ("Authorization", format!("Bearer {token}")));
    let token = token.iter().map(|(key, value)| (*key, value.as_str()));
    let others = request.request_headers.iter().map(|header| (header.key.as_str(), header.value.as_str()));
    for (key, value) in token.chain(others) {
        let no_header = |what: &str| {
            let key: String = key.chars().take(80).collect();
            DownloadError::Create(format!("the {what} of header '{}' can't be sent", key.escape_debug()))
        };
        let name = HeaderName::try_from(key).map_err(|_| no_header("name"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| no_header("value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::RequestHeader;

    fn header(key: &str, value: &str) -> RequestHeader {
        RequestHeader { key: key.into(), value: value.into() }
    }

    #[test]
    fn headers_of_the_request_override_ours_and_are_not_shown() {
        let request = ApiVipConnectivityRequest {
            ignition_endpoint_token: Some("token".into()),
            request_headers: vec![
                header("X-Key", "hidden"),
                header("AUTHORIZATION", "Basic eA=="),
                header("x-key", "b"),
            ],
            ..Default::default()
        };
        let headers = headers(&request).unwrap();
        let get = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(get("accept"), [ACCEPT]);
        assert_eq!(get("authorization"), ["Basic eA=="]);
        assert_eq!(get("x-key"), ["b"]);
        assert_eq!(headers.len(), 3);
        let text = format!("{headers:?}");
        assert!(!text.contains("eA==") && !text.contains("\"b\""), "{text}");
    }

    #[test]
    fn what_can_t_be_sent_is_named_without_its_value() {
        let error = |key, value| {
            let request = ApiVipConnectivityRequest { request_headers: vec![header(key, value)], ..Default::default() };
            headers(&request).unwrap_err().to_string()
        };
        let prefix = "ignition file download failed: failed to create request: ";
        assert_eq!(error("a b", "x"), format!("{prefix}the name of header 'a b' can't be sent"));
        assert_eq!(error("a", "sec\nret"), format!("{prefix}the value of header 'a' can't be sent"));
    }

    #[test]
    fn an_invalid_ca_is_reported() {
        let error = |ca: &str| {
            let request = ApiVipConnectivityRequest { ca_certificate: Some(ca.into()), ..Default::default() };
            agent(&request).map(drop).unwrap_err().to_string()
        };
        let prefix = "ignition file download failed: ";
        let text = error("a%");
        assert!(text.starts_with(&format!("{prefix}ignition endpoint CA certificate is not valid base64: ")), "{text}");
        assert_eq!(error("aGVsbG8="), format!("{prefix}unable to parse cert"));
    }
}
