//! A client of the service, for agent, installer and command line.

mod of_cluster;
pub mod of_user;

use crate::clock::Offset;
use crate::http::{HttpConfig, HttpConfigError, agent, public_url};
use crate::{
    ApiError, Cluster, ClusterCreateParams, ClusterId, Host, HostCreateParams, HostId, HostProgress, HostRegistration,
    HostRole, HostUpdateParams, InfraEnv, InfraEnvCreateParams, InfraEnvId, InfraError, LogsState, RetryPolicy, Secret,
    StepReply, Steps, Timestamp, Transience, backoff, read_body,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use ureq::http::{Method, Request, Response};

/// Where the API starts below the service's base URL.
pub const API_PATH: &str = "/api/assisted-install";

/// An answer may take this long as a whole; the real agent has no limit and hangs for ever on a hung server.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that asks for a longer pause (Retry-After) gets this one: who calls knows better than it what can wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// A larger answer to an agent is refused: the addresses of a thousand hosts, to be probed, are a megabyte.
const MAX_AGENT_BYTES: u64 = 8 << 20;
/// An upload of which nothing is taken for so long has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the service to put an upload away and say so.
const STORE_TIMEOUT: Duration = Duration::from_secs(180);
/// How often a pause looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// A larger JSON answer is refused: a cluster with 1000 full inventories is below this.
const MAX_JSON_BYTES: u64 = 256 << 20;
/// A larger file is refused: bootstrap configs of large clusters are tens of megabytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// How to reach the service.
#[derive(Clone, Default)]
pub struct ClientConfig {
    /// Base URL with scheme, optional port and path.
    pub url: String,
    /// Sent as `X-Secret-Key`.
    pub token: Secret,
    /// TLS.
    pub http: HttpConfig,
    /// Sent as `discovery_agent_version` when not empty.
    pub agent_version: String,
    /// How long an answer may take as a whole; [`ANSWER_TIMEOUT`] when `None`.
    pub answer_timeout: Option<Duration>,
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("url", &public_url(&self.url))
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// What a call came to.
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
        /// Request method.
        method: Method,
        /// Request path.
        path: String,
        /// HTTP status.
        status: u16,
        /// Its reason, cut to a line.
        message: String,
        /// The pause that it asks for before another attempt.
        retry_after: Option<Duration>,
    },
    /// No answer.
    #[error("{method} {path}: no answer from {url}")]
    Transport {
        /// Request method.
        method: Method,
        /// Request path.
        path: String,
        /// Base URL.
        url: String,
        /// Cause.
        source: Box<ureq::Error>,
    },
    /// An answer that is not what the API promises.
    #[error("{method} {path}: the answer can't be read as {what} ({len} bytes, starting '{start}')")]
    Decode {
        /// Request method.
        method: Method,
        /// Request path.
        path: String,
        /// Expected type.
        what: &'static str,
        /// Size of the answer.
        len: usize,
        /// Its start.
        start: String,
        /// Cause.
        source: serde_json::Error,
    },
}

impl ClientError {
    /// The HTTP status, when the service gave one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The pause that the service asks for.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    fn transience(&self) -> Transience {
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

/// How a client passes the time between two attempts; may return early.
pub type Pause = Arc<dyn Fn(Duration) + Send + Sync>;

/// A client of one service. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    token: Secret,
    user: bool,
    agent_version: String,
    request_id: String,
    retry: RetryPolicy,
    answer_timeout: Duration,
    stop: Option<Arc<AtomicBool>>,
    pause: Option<Pause>,
    offset: Offset,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &public_url(&self.base)).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects nothing yet.
    pub fn new(config: &ClientConfig, retry: RetryPolicy) -> Result<Self, ClientError> {
        let base = config.url.trim_end_matches('/');
        let host = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://"));
        if !host.is_some_and(|host| !host.is_empty() && !host.starts_with('/') && !host.contains(char::is_whitespace)) {
            return Err(ClientError::Url { url: public_url(&config.url) });
        }
        Ok(Self {
            agent: agent(&config.http)?,
            base: base.to_owned(),
            token: config.token.clone(),
            user: false,
            agent_version: config.agent_version.clone(),
            request_id: uuid::Uuid::new_v4().to_string(),
            retry,
            answer_timeout: config.answer_timeout.unwrap_or(ANSWER_TIMEOUT),
            stop: None,
            pause: None,
            offset: Offset::default(),
        })
    }

    /// The same client, giving up its retries as soon as `stop` is set.
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The same client, with pauses of the caller's making.
    pub fn pausing_with(self, pause: Pause) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// The same client with a new `X-Request-Id`: one per registration attempt, poll or logical operation.
    pub fn session(&self) -> Self {
        Self { request_id: uuid::Uuid::new_v4().to_string(), ..self.clone() }
    }

    /// The current `X-Request-Id`.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Seconds that the service's clock is ahead of ours, by the `Date` of its last answer, whatever its status; the way it
    /// took is in it.
    pub fn clock_offset_s(&self) -> Option<i64> {
        self.offset.seconds()
    }

    /// `v2RegisterHost`.
    pub fn register_host(
        &self,
        infra_env: InfraEnvId,
        params: &HostCreateParams,
    ) -> Result<HostRegistration, ClientError> {
        self.call_json(Method::POST, &format!("/v2/infra-envs/{infra_env}/hosts"), Some(params))
    }

    /// `v2GetNextSteps`, with our clock for the service's skew check.
    pub fn next_steps(&self, infra_env: InfraEnvId, host: HostId) -> Result<Steps, ClientError> {
        let now = Timestamp::now().unix_seconds();
        let path = format!("/v2/infra-envs/{infra_env}/hosts/{host}/instructions?timestamp={now}");
        self.call_json(Method::GET, &path, None::<&()>)
    }

    /// `v2PostStepReply`.
    pub fn post_reply(&self, infra_env: InfraEnvId, host: HostId, reply: &StepReply) -> Result<(), ClientError> {
        self.call(Method::POST, &format!("/v2/infra-envs/{infra_env}/hosts/{host}/instructions"), Some(reply)).map(drop)
    }

    /// `v2UpdateHostInstallProgress`.
    pub fn put_progress(
        &self,
        infra_env: InfraEnvId,
        host: HostId,
        progress: &HostProgress,
    ) -> Result<(), ClientError> {
        self.call(Method::PUT, &format!("/v2/infra-envs/{infra_env}/hosts/{host}/progress"), Some(progress)).map(drop)
    }

    /// `v2UpdateHostLogsProgress`.
    pub fn put_logs_progress(&self, infra_env: InfraEnvId, host: HostId, state: LogsState) -> Result<(), ClientError> {
        let body = serde_json::json!({ "logs_state": state });
        self.call(Method::PUT, &format!("/v2/infra-envs/{infra_env}/hosts/{host}/logs-progress"), Some(&body)).map(drop)
    }

    /// `v2UploadLogs` of a host. The archive is read from what `open` gives, once for each attempt, and never held whole: its
    /// length need not be known. A reader that fails ends the attempt, and the service keeps nothing of it.
    pub fn upload_host_logs<R: Read + 'static>(
        &self,
        cluster: ClusterId,
        infra_env: Option<InfraEnvId>,
        host: HostId,
        open: impl FnMut() -> io::Result<R>,
    ) -> Result<(), ClientError> {
        let infra_env = infra_env.map(|id| format!("&infra_env_id={id}")).unwrap_or_default();
        let path = format!("/v2/clusters/{cluster}/logs?host_id={host}{infra_env}&logs_type=host");
        self.upload(&path, "logs.tar.gz", open)
    }

    fn upload<R: Read + 'static>(
        &self,
        path: &str,
        file_name: &str,
        mut open: impl FnMut() -> io::Result<R>,
    ) -> Result<(), ClientError> {
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"{file_name}\"\r\n\
             Content-Type: application/x-gzip\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        self.retrying(|| {
            let transport = |source: ureq::Error| self.no_answer(&Method::POST, path, source);
            let archive = open().map_err(|error| transport(error.into()))?;
            let body = io::Cursor::new(head.clone()).chain(archive).chain(io::Cursor::new(tail.clone()));
            let request = self.request(&Method::POST, path).header("Content-Type", &content_type);
            let request = request.body(ureq::SendBody::from_owned_reader(body));
            let request = request.map_err(|error| transport(error.into()))?;
            let request = self.agent.configure_request(request).max_redirects(0).max_redirects_will_error(false);
            // No limit of the whole: a slow network is no failure, one that takes nothing is.
            let request = request.timeout_per_write(Some(STALL_TIMEOUT)).timeout_recv_response(Some(STORE_TIMEOUT));
            let mut response = self.agent.run(request.build()).map_err(transport)?;
            self.answer(Method::POST, path, &mut response).map(drop)
        })
    }

    /// `v2DownloadHostIgnition`; note the singular `infra-env` of the path.
    pub fn host_ignition(&self, infra_env: InfraEnvId, host: HostId) -> Result<Vec<u8>, ClientError> {
        self.call(Method::GET, &format!("/v2/infra-env/{infra_env}/hosts/{host}/downloads/ignition"), None::<&()>)
    }

    /// `discovery.ign` of an infra-env.
    pub fn discovery_ignition(&self, infra_env: InfraEnvId) -> Result<Vec<u8>, ClientError> {
        let path = format!("/v2/infra-envs/{infra_env}/downloads/files?file_name=discovery.ign");
        self.call(Method::GET, &path, None::<&()>)
    }

    /// `v2RegisterCluster`.
    pub fn create_cluster(&self, params: &ClusterCreateParams) -> Result<Cluster, ClientError> {
        self.call_json(Method::POST, "/v2/clusters", Some(params))
    }

    /// `v2GetCluster`, hosts included.
    pub fn cluster(&self, id: ClusterId) -> Result<Cluster, ClientError> {
        self.call_json(Method::GET, &format!("/v2/clusters/{id}"), None::<&()>)
    }

    /// `v2GetCluster` with an empty list of hosts, for who only wants to know what the cluster is about.
    pub fn cluster_without_hosts(&self, id: ClusterId) -> Result<Cluster, ClientError> {
        self.call_json(Method::GET, &format!("/v2/clusters/{id}?exclude-hosts=true"), None::<&()>)
    }

    /// `v2ListClusterHosts` of one role, without their inventories.
    pub fn cluster_hosts(&self, id: ClusterId, role: HostRole) -> Result<Vec<Host>, ClientError> {
        self.call_json(Method::GET, &format!("/v2/clusters/{id}/hosts?role={role}"), None::<&()>)
    }

    /// `v2InstallCluster`.
    pub fn install_cluster(&self, id: ClusterId) -> Result<Cluster, ClientError> {
        self.call_json(Method::POST, &format!("/v2/clusters/{id}/actions/install"), None::<&()>)
    }

    /// `RegisterInfraEnv`.
    pub fn create_infra_env(&self, params: &InfraEnvCreateParams) -> Result<InfraEnv, ClientError> {
        self.call_json(Method::POST, "/v2/infra-envs", Some(params))
    }

    /// `v2ListHosts`.
    pub fn hosts(&self, infra_env: InfraEnvId) -> Result<Vec<Host>, ClientError> {
        self.call_json(Method::GET, &format!("/v2/infra-envs/{infra_env}/hosts"), None::<&()>)
    }

    /// `v2UpdateHost`.
    pub fn update_host(
        &self,
        infra_env: InfraEnvId,
        host: HostId,
        params: &HostUpdateParams,
    ) -> Result<Host, ClientError> {
        self.call_json(Method::PATCH, &format!("/v2/infra-envs/{infra_env}/hosts/{host}"), Some(params))
    }

    /// `v2UpdateHostIgnition`: Ignition merged over the host's own, JSON text; empty text removes it.
    pub fn update_host_ignition(&self, infra_env: InfraEnvId, host: HostId, config: &str) -> Result<(), ClientError> {
        let params = serde_json::json!({ "config": config });
        self.call(Method::PATCH, &format!("/v2/infra-envs/{infra_env}/hosts/{host}/ignition"), Some(&params)).map(drop)
    }

    fn call_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let answer = self.call(method.clone(), path, body)?;
        self.decode(method, path, &answer)
    }

    fn decode<T: DeserializeOwned>(&self, method: Method, path: &str, answer: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(answer).map_err(|source| ClientError::Decode {
            method,
            path: path.to_owned(),
            what: std::any::type_name::<T>().rsplit("::").next().unwrap_or("JSON"),
            len: answer.len(),
            start: one_line(answer, 80),
            source,
        })
    }

    fn call(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<Vec<u8>, ClientError> {
        // A value of ours that does not serialize is a bug; `null` would be refused by the service and so be seen.
        let body = body.map(|body| serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec()));
        self.retrying(|| self.try_call(method.clone(), path, body.as_deref()))
    }

    fn retrying<T>(&self, mut call: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
        let mut attempt = 0;
        loop {
            let error = match call() {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if attempt >= self.retry.retries(error.transience()) || self.is_stopped() {
                return Err(error);
            }
            let asked = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
            let delay = backoff(attempt).max(asked);
            let cause = &error as &dyn std::error::Error;
            tracing::warn!(error = cause, attempt, delay_ms = delay.as_millis(), "request failed, trying again");
            self.pause(delay);
            attempt += 1;
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Sleeps, with an eye on the flag.
    fn pause(&self, delay: Duration) {
        if let Some(pause) = &self.pause {
            return pause(delay);
        }
        let until = Instant::now() + delay;
        while !self.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn try_call(&self, method: Method, path: &str, body: Option<&[u8]>) -> Result<Vec<u8>, ClientError> {
        let transport = |source: ureq::Error| self.no_answer(&method, path, source);
        let request = self.request(&method, path);
        let mut response = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json").body(body);
                self.run(request.map_err(|error| transport(error.into()))?)
            }
            None => self.run(request.body(()).map_err(|error| transport(error.into()))?),
        }
        .map_err(transport)?;
        self.answer(method, path, &mut response)
    }

    fn no_answer(&self, method: &Method, path: &str, source: ureq::Error) -> ClientError {
        ClientError::Transport {
            method: method.clone(),
            path: path.to_owned(),
            url: public_url(&self.base),
            source: Box::new(source),
        }
    }

    /// What every request has.
    fn request(&self, method: &Method, path: &str) -> ureq::http::request::Builder {
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{API_PATH}{path}", self.base))
            .header("Accept", "application/json")
            .header("X-Request-Id", &self.request_id);
        let request = match self.user {
            true if self.token.is_empty() => request,
            true => request.header("Authorization", format!("Bearer {}", self.token.expose())),
            false => request.header("X-Secret-Key", self.token.expose()),
        };
        match self.agent_version.as_str() {
            "" => request,
            version => request.header("Discovery_agent_version", version),
        }
    }

    fn answer(&self, method: Method, path: &str, response: &mut Response<ureq::Body>) -> Result<Vec<u8>, ClientError> {
        if let Some(date) = response.headers().get("Date").and_then(|date| date.to_str().ok()) {
            self.offset.told(date);
        }
        let limit = if path.contains("/downloads/") {
            MAX_FILE_BYTES
        } else if self.retry == RetryPolicy::Agent {
            MAX_AGENT_BYTES
        } else {
            MAX_JSON_BYTES
        };
        let answer = read_body(response, limit).map_err(|error| self.no_answer(&method, path, error.into_ureq()))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(answer);
        }
        let retry_after = response.headers().get("Retry-After").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let retry_after = retry_after.map(Duration::from_secs);
        Err(ClientError::Status { method, path: path.to_owned(), status, message: refusal_text(&answer), retry_after })
    }

    fn run<B: ureq::AsSendBody>(&self, request: Request<B>) -> Result<Response<ureq::Body>, ureq::Error> {
        // The API has no redirects. Following one would hand the token to whoever sends it, and take a login page's answer for
        // the service's.
        let request = self.agent.configure_request(request).max_redirects(0).max_redirects_will_error(false);
        let request = request.timeout_global(Some(self.answer_timeout)).build();
        self.agent.run(request)
    }
}

/// The reason inside either error body, or the start of whatever came instead (a proxy's HTML page, say).
pub fn refusal_text(body: &[u8]) -> String {
    if let Ok(error) = serde_json::from_slice::<ApiError>(body) {
        return error.reason;
    }
    if let Ok(error) = serde_json::from_slice::<InfraError>(body) {
        return error.message;
    }
    one_line(body, 200)
}

fn one_line(bytes: &[u8], max_chars: usize) -> String {
    let mut start = Vec::new();
    // A char is at most four bytes; a cut one at the end becomes a replacement character.
    let max_bytes = u64::try_from(max_chars.saturating_mul(4)).unwrap_or(u64::MAX);
    let _ = bytes.take(max_bytes).read_to_end(&mut start);
    String::from_utf8_lossy(&start).chars().map(|c| if c.is_control() { ' ' } else { c }).take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_without_scheme_or_host_are_refused() {
        for url in ["", "10.0.0.1:8090", "ftp://x", "http://", "https:///path", "http://a b"] {
            let config = ClientConfig { url: url.into(), ..Default::default() };
            assert!(matches!(Client::new(&config, RetryPolicy::Never), Err(ClientError::Url { .. })), "{url}");
        }
    }

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
