//! A client of the service, for agent, installer and command line.

mod clusters;
pub(crate) mod documents;
pub(crate) mod error;
mod hosts;
mod infra_envs;
mod upload;

use crate::clock::Offset;
use crate::endpoint::{AnswerSize, GET_NEXT_STEPS, Target, base};
use crate::media::Media;
use crate::{EXTENSIONS_HEADER, RetryPolicy, Secret, StepType, backoff, read_body};
use crate::{
    http::{HttpConfig, agent},
    url::public_url,
};
use error::{ClientError, one_line, refusal_text};
use kernel::Cancel;
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, time::Duration};
use ureq::http::{Method, Request, Response};

/// Path of the API below the service's base URL.
pub const API_PATH: &str = "/api/assisted-install";

/// Time for a complete answer; the real agent has no limit and hangs for ever on a hung server.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest pause a server may request (Retry-After): the caller knows better what can wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

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
    /// Time for a complete answer; [`ANSWER_TIMEOUT`] if `None`.
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
    cancel: Cancel,
    offset: Offset,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &public_url(&self.base)).finish_non_exhaustive()
    }
}

impl Client {
    /// Does not connect yet.
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
            cancel: Cancel::default(),
            offset: Offset::default(),
        })
    }

    /// The same client, which stops retries and pauses as soon as `cancel` is set.
    pub fn stopped_by(self, cancel: &Cancel) -> Self {
        Self { cancel: cancel.clone(), ..self }
    }

    /// The same client with a new `X-Request-Id`: one per registration attempt, poll or logical operation.
    pub fn session(&self) -> Self {
        Self { request_id: uuid::Uuid::new_v4().to_string(), ..self.clone() }
    }

    /// The current `X-Request-Id`.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Seconds by which the service's clock is ahead of ours, by the `Date` of its last answer with any status; includes the
    /// network delay.
    pub fn clock_offset_s(&self) -> Option<i64> {
        self.offset.seconds()
    }

    /// Requests a document.
    fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<T, ClientError> {
        self.decode(target, &self.call(target, None::<&()>)?)
    }

    /// Sends a document, and gets one.
    fn exchange<T: DeserializeOwned>(&self, target: &Target, body: &impl Serialize) -> Result<T, ClientError> {
        self.decode(target, &self.call(target, Some(body))?)
    }

    /// Sends a document.
    fn put(&self, target: &Target, body: &impl Serialize) -> Result<(), ClientError> {
        self.call(target, Some(body)).map(drop)
    }

    fn decode<T: DeserializeOwned>(&self, target: &Target, answer: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(answer).map_err(|source| ClientError::Decode {
            method: target.endpoint().method.clone(),
            path: target.path().to_owned(),
            what: std::any::type_name::<T>().rsplit("::").next().unwrap_or("JSON"),
            len: answer.len(),
            start: one_line(answer, 80),
            source,
        })
    }

    /// Reads the complete answer.
    fn call(&self, target: &Target, body: Option<&impl Serialize>) -> Result<Vec<u8>, ClientError> {
        // A value that does not serialize is our bug; the service would refuse the `null`, which shows it.
        let body = body.map(|body| serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec()));
        self.retrying(|| self.try_call(target, body.as_deref()))
    }

    fn retrying<T>(&self, mut call: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
        let mut attempt = 0;
        loop {
            let error = match call() {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if attempt >= self.retry.retries(error.transience()) || self.cancel.is_cancelled() {
                return Err(error);
            }
            let asked = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
            let delay = backoff(attempt).max(asked);
            let cause = &error as &dyn std::error::Error;
            tracing::warn!(error = cause, attempt, delay_ms = delay.as_millis(), "request failed; retrying");
            self.cancel.sleep(delay);
            attempt += 1;
        }
    }

    fn try_call(&self, target: &Target, body: Option<&[u8]>) -> Result<Vec<u8>, ClientError> {
        let failed = |source: ureq::Error| self.no_answer(target, source);
        let request = self.request(target);
        let mut response = match body {
            Some(body) => {
                let request = request.header("Content-Type", Media::Json.as_str()).body(body);
                self.run(request.map_err(|error| failed(error.into()))?)
            }
            None if matches!(target.endpoint().method, Method::GET | Method::DELETE) => {
                self.run(request.body(()).map_err(|error| failed(error.into()))?)
            }
            // For methods with a body ureq would send an empty one in chunks, which needs a type like any body.
            None => self.run(request.body(&[][..]).map_err(|error| failed(error.into()))?),
        }
        .map_err(failed)?;
        self.answer(target, &mut response)
    }

    fn no_answer(&self, target: &Target, source: ureq::Error) -> ClientError {
        ClientError::Transport {
            method: target.endpoint().method.clone(),
            path: target.path().to_owned(),
            url: public_url(&self.base),
            source: Box::new(source),
        }
    }

    /// The headers of every request to `target`.
    fn request(&self, target: &Target) -> ureq::http::request::Builder {
        let endpoint = target.endpoint();
        let request = Request::builder()
            .method(endpoint.method.clone())
            .uri(format!("{}{}{}", self.base, base(endpoint), target.path()))
            .header("Accept", endpoint.produces.media().as_str())
            .header("X-Request-Id", &self.request_id);
        let request = match self.user {
            true if self.token.is_empty() => request,
            true => request.header("Authorization", format!("Bearer {}", self.token.expose())),
            false => request.header("X-Secret-Key", self.token.expose()),
        };
        let request = match self.agent_version.as_str() {
            "" => request,
            version => request.header("Discovery_agent_version", version),
        };
        // A poll alone: its answer has the steps.
        match endpoint.operation == GET_NEXT_STEPS.operation {
            true => request.header(EXTENSIONS_HEADER, StepType::announcement()),
            false => request,
        }
    }

    fn answer(&self, target: &Target, response: &mut Response<ureq::Body>) -> Result<Vec<u8>, ClientError> {
        if let Some(date) = response.headers().get("Date").and_then(|date| date.to_str().ok()) {
            self.offset.note_date(date);
        }
        let is_success = response.status().is_success();
        let size = if is_success { target.endpoint().size } else { AnswerSize::Message };
        let answer =
            read_body(response, size.max_bytes()).map_err(|error| self.no_answer(target, error.into_ureq()))?;
        if is_success {
            return Ok(answer);
        }
        let retry_after = response.headers().get("Retry-After").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        Err(ClientError::Status {
            method: target.endpoint().method.clone(),
            path: target.path().to_owned(),
            status: response.status().as_u16(),
            message: refusal_text(&answer),
            retry_after: retry_after.map(Duration::from_secs),
        })
    }

    fn run<B: ureq::AsSendBody>(&self, request: Request<B>) -> Result<Response<ureq::Body>, ureq::Error> {
        // The API has no redirects. Following one would send the token elsewhere, and could take a login page for the service's
        // answer.
        let request = self.agent.configure_request(request).max_redirects(0).max_redirects_will_error(false);
        let request = request.timeout_global(Some(self.answer_timeout)).build();
        self.agent.run(request)
    }
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
}
