//! Requests to one registry: connection, credentials, tokens, retries. Distribution's HTTP API, version 2.

use super::{
    ImageOptions,
    auth::Login,
    challenge::{self, Challenge},
    error::{FetchError, Subject},
    reference::{Digest, shorten},
    registries::Endpoint,
};
use api::{Secret, proxy::ProxyVariables, read_body};
use base64::{Engine, prelude::BASE64_STANDARD};
use kernel::order;
use serde::Deserialize;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use ureq::{
    Agent, Body, ResponseExt,
    config::RedirectAuthHeaders,
    http::{HeaderMap, Response, Uri, header},
};

/// Tokens have a few KiB, errors less.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
const ATTEMPTS: u32 = 3;

/// One repository of a registry.
pub(super) struct Client<'a> {
    agent: Agent,
    options: &'a ImageOptions,
    scheme: &'static str,
    /// `host[:port]`.
    authority: String,
    repository: &'a str,
    login: Option<(&'a Login, &'a Path)>,
    /// Value of the header, once the registry has asked for it. Each thread may renew it.
    authorization: Mutex<Option<Secret>>,
    deadline: Instant,
}

/// A registry's answer to a failed request.
#[derive(Deserialize)]
struct Errors {
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// A token server's answer; either name is in use.
#[derive(Deserialize)]
struct Token {
    token: Option<Secret>,
    access_token: Option<Secret>,
}

impl<'a> Client<'a> {
    /// Prepares for requests; asks nothing yet, except an insecure registry whether it speaks TLS.
    pub(super) fn new(
        endpoint: &'a Endpoint,
        options: &'a ImageOptions,
        deadline: Instant,
    ) -> Result<Self, FetchError> {
        let reference = &endpoint.reference;
        let authority = reference.authority().to_owned();
        let mut client = Self {
            agent: agent(options, &reference.registry, endpoint.insecure, !endpoint.insecure)?,
            options,
            scheme: "https",
            authority,
            repository: &reference.repository,
            login: options.credentials.find(&reference.registry, &reference.repository),
            authorization: Mutex::new(None),
            deadline,
        };
        if endpoint.insecure
            && let Err(error) = client.send(&client.agent, &client.url(""), None, None, Subject::Api)
            && error.is_below_http()
        {
            client.scheme = "http";
        }
        Ok(client)
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{}/v2/{path}", self.scheme, self.authority)
    }

    /// Gets a manifest; the answer is one of success.
    pub(super) fn manifest(&self, selector: &str, accept: &str) -> Result<Response<Body>, FetchError> {
        let path = format!("{}/manifests/{selector}", self.repository);
        self.get(&self.url(&path), Some(accept), Subject::Manifest(selector.to_owned()))
    }

    /// Gets a layer or a configuration, which registries like to send for to another host; the answer is one of success.
    pub(super) fn blob(&self, digest: &Digest) -> Result<Response<Body>, FetchError> {
        let path = format!("{}/blobs/{digest}", self.repository);
        self.get(&self.url(&path), None, Subject::Blob(digest.clone()))
    }

    /// What `error`, which came while a body was read, means.
    pub(super) fn broken(&self, subject: Subject, error: std::io::Error) -> FetchError {
        FetchError::transport(&self.authority, subject, self.options.stall_timeout, error.into())
    }

    /// Tries up to three times, as long as that may help and time is left.
    pub(super) fn persist<T>(&self, mut work: impl FnMut() -> Result<T, FetchError>) -> Result<T, FetchError> {
        let mut attempt = 0;
        loop {
            match work() {
                Err(error) if error.is_transient() && attempt + 1 < ATTEMPTS => {
                    let pause = api::backoff(attempt);
                    if self.deadline.saturating_duration_since(Instant::now()) <= pause {
                        return Err(error);
                    }
                    sleep(pause);
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn get(&self, url: &str, accept: Option<&str>, subject: Subject) -> Result<Response<Body>, FetchError> {
        let mut may_authorize = true;
        loop {
            let authorization = self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let response = self.send(&self.agent, url, accept, authorization.as_ref(), subject.clone())?;
            let status = response.status().as_u16();
            // What another host wants, to which a redirect led, is its own matter.
            let is_ours = response.get_uri().authority().is_some_and(|authority| authority.as_str() == self.authority);
            match status {
                200..=299 => return Ok(response),
                401 if is_ours && may_authorize => {
                    let renewed = self.authorize(response, authorization.as_ref())?;
                    *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(renewed);
                    may_authorize = false;
                }
                401 | 403 if is_ours => return Err(self.refused(status, failure_text(response))),
                _ => return Err(FetchError::Status { subject, status, said_text: failure_text(response) }),
            }
        }
    }

    fn send(
        &self,
        agent: &Agent,
        url: &str,
        accept: Option<&str>,
        authorization: Option<&Secret>,
        subject: Subject,
    ) -> Result<Response<Body>, FetchError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FetchError::Deadline { subject });
        }
        let mut request = agent.get(url).config().timeout_global(Some(left)).build();
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization.expose());
        }
        let host = || url.split('/').nth(2).unwrap_or_default();
        request.call().map_err(|error| FetchError::transport(host(), subject, self.options.stall_timeout, error))
    }

    /// The value for `Authorization` that meets the registry's challenge.
    fn authorize(&self, response: Response<Body>, used: Option<&Secret>) -> Result<Secret, FetchError> {
        let challenges = challenges(response.headers());
        for wanted in &challenges {
            if let Challenge::Bearer { realm, service, scope } = wanted {
                let pull = format!("repository:{}:pull", self.repository);
                return self.token(realm, service.as_deref(), scope.as_deref().unwrap_or(&pull));
            }
        }
        match (challenges.contains(&Challenge::Basic), self.login, used) {
            (true, Some((login, _)), None) => Ok(basic(login)),
            (true, ..) => Err(self.refused(401, failure_text(response))),
            (false, ..) => Err(FetchError::Challenge { authority: self.authority.clone() }),
        }
    }

    /// Asks the token server, which is to know the user by the registry's credentials.
    fn token(&self, realm: &str, service: Option<&str>, scope: &str) -> Result<Secret, FetchError> {
        let insecure_realm = || FetchError::Realm { realm: shorten(realm) };
        let uri: Uri = realm.parse().map_err(|_| insecure_realm())?;
        let authority = uri.authority().ok_or_else(insecure_realm)?;
        let own_host = self.authority.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
        let agent = match (uri.scheme_str(), authority.as_str() == self.authority) {
            // No user name in the URL, please: it is sent on as a credential.
            _ if authority.as_str().contains('@') => return Err(insecure_realm()),
            (Some("https"), true) => self.agent.clone(),
            // That the registry need not be trusted does not make another host trustworthy.
            (Some("https"), false) => agent(self.options, authority.as_str(), false, true)?,
            // The credentials go to the registry itself in the clear already.
            (Some("http"), _) if self.scheme == "http" && uri.host() == own_host.as_deref() => self.agent.clone(),
            _ => return Err(insecure_realm()),
        };
        let public = api::http::public_url(realm);
        let subject = Subject::Token(shorten(&public));
        let url = challenge::token_url(realm, service, scope);
        let authorization = self.login.map(|(login, _)| basic(login));
        let mut response = self.send(&agent, &url, None, authorization.as_ref(), subject.clone())?;
        match response.status().as_u16() {
            200..=299 => {}
            status @ (401 | 403) => return Err(self.refused(status, failure_text(response))),
            status => return Err(FetchError::Status { subject, status, said_text: failure_text(response) }),
        }
        let nothing = || FetchError::Token { realm: shorten(&public) };
        let body = read_body(&mut response, MAX_ANSWER_BYTES).map_err(|_| nothing())?;
        // serde's error would quote what it found.
        let answer: Token = serde_json::from_slice(&body).map_err(|_| nothing())?;
        let token = [answer.token, answer.access_token].into_iter().flatten().find(|token| !token.is_empty());
        let token =
            token.filter(|token| token.expose().bytes().all(|byte| byte.is_ascii_graphic())).ok_or_else(nothing)?;
        Ok(Secret::new(format!("Bearer {}", token.expose())))
    }

    fn refused(&self, status: u16, said_text: String) -> FetchError {
        let authority = self.authority.clone();
        match self.login {
            None => {
                let files = self.options.credentials.paths().map(Path::to_owned).collect();
                FetchError::NoCredentials { authority, files, said_text }
            }
            Some((login, file)) => {
                FetchError::Refused { authority, user: shorten(&login.user), file: file.to_owned(), status, said_text }
            }
        }
    }
}

fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(challenge::parse).collect()
}

fn basic(login: &Login) -> Secret {
    let plain = format!("{}:{}", login.user, login.password.expose());
    Secret::new(format!("Basic {}", BASE64_STANDARD.encode(plain)))
}

/// What a registry says of a failure, made fit for a terminal; empty where it says nothing that we understand.
fn failure_text(mut response: Response<Body>) -> String {
    let Ok(body) = read_body(&mut response, MAX_ANSWER_BYTES) else { return String::new() };
    let errors: Vec<ErrorEntry> = serde_json::from_slice(&body).map(|answer: Errors| answer.errors).unwrap_or_default();
    errors.first().map(|error| shorten(format!("{} {}", error.code, error.message).trim())).unwrap_or_default()
}

/// A client for `registry` that trusts what containers-certs.d(5) says, and answers with the bytes that are on the wire.
fn agent(options: &ImageOptions, registry: &str, insecure: bool, https_only: bool) -> Result<Agent, FetchError> {
    let mut bundles = options.ca_certs.clone();
    bundles.extend(certificates(&options.certs_directories, registry));
    let configuration = api::http::configuration(&bundles, insecure).map_err(|source| FetchError::Trust { source })?;
    let configuration = configuration
        .https_only(https_only)
        .accept_encoding("identity")
        // A registry that sends us on to its own host wants to know there, too, who asks. As with podman, any port will do.
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .timeout_connect(Some(options.connect_timeout))
        .timeout_per_read(Some(options.stall_timeout));
    Ok(api::http::build(configuration, ProxyVariables::from_env()))
}

/// The CA bundles `DIRECTORY/REGISTRY/*.crt` of the first directory that has any for it.
fn certificates(directories: &[PathBuf], registry: &str) -> Vec<PathBuf> {
    let entries = directories.iter().find_map(|directory| fs::read_dir(directory.join(registry)).ok());
    let mut found: Vec<_> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension() == Some(OsStr::new("crt")));
    order::sort(&mut found);
    found
}

/// Limits that a person hardly wants to change.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// As [`CONNECT_TIMEOUT`].
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(30);
