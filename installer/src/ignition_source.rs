//! An Ignition config from a server, a file or standard input, whole in memory: it is small, and must be looked at before
//! a disk is touched. What is in it is never shown: it holds keys and pull secrets.

use api::{
    backoff,
    http::{HttpConfig, HttpConfigError, public_url},
};
use diskwrite::{IgnitionHash, IgnitionHashError, Retries};
use kernel::Cancel;
use serde::de::IgnoredAny;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use ureq::http::header;

/// Configs with whole machine configs inside are some MiB.
const MAX_BYTES: u64 = 64 << 20;
/// An answer or a part of it that takes longer has failed.
const SILENCE: Duration = Duration::from_secs(30);
/// With [`Retries::UntilStalled`], how long a server may go without giving the config.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why there is no config. URLs are shown without user, password, query and fragment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IgnitionSourceError {
    /// An attacker on the network could replace it.
    #[error("refusing to fetch Ignition config over HTTP without --ignition-hash or --insecure-ignition")]
    Insecure,
    #[error("unknown protocol for URL '{url}': an Ignition config is fetched by http or https")]
    Protocol { url: String },
    /// The sum is invalid, or another config's.
    #[error(transparent)]
    Hash(#[from] IgnitionHashError),
    /// HTTP can't be set up.
    #[error(transparent)]
    Config(#[from] HttpConfigError),
    #[error("cannot fetch the Ignition config from {url}: the server answered {status}")]
    Status { url: String, status: u16 },
    /// The server can't be reached, or breaks off.
    #[error("cannot fetch the Ignition config from {url}")]
    Transport { url: String, source: Box<ureq::Error> },
    /// The file can't be read.
    #[error("cannot read the Ignition config {}", path.display())]
    Read {
        /// The file; `-` is standard input.
        path: PathBuf,
        source: io::Error,
    },
    /// Not a config, from the size of it.
    #[error("the Ignition config from {name} has more than {}", kernel::units::binary(MAX_BYTES))]
    Size { name: String },
    #[error("specified file is not a valid Ignition JSON config or Butane YAML config")]
    Form,
    /// Ignition refuses it.
    #[error(
        "specified file is an Ignition JSON config that begins with a byte order mark, which Ignition does not read: store it as UTF-8 without one"
    )]
    Mark,
    #[error("cancelled while fetching the Ignition config from {url}")]
    Cancelled { url: String },
}

/// What a config is written in. The installed system's Ignition reads both, but Butane only since 2.27.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Ignition,
    Butane,
}

/// Looks no further than coreos-installer does: a config is for another system, of another version.
pub(crate) fn form(config: &[u8]) -> Result<Form, IgnitionSourceError> {
    if serde_json::from_slice::<IgnoredAny>(config).is_ok() {
        return Ok(Form::Ignition);
    }
    let has_mark = kernel::butane::has_mark(config);
    let config = &*kernel::butane::plain(config);
    if has_mark && serde_json::from_slice::<IgnoredAny>(config).is_ok() {
        return Err(IgnitionSourceError::Mark);
    }
    let max = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    let document = ignition::yaml::document::<serde_norway::Value>(config, max).ok();
    match document.is_some_and(|document| document.get("variant").is_some()) {
        true => Ok(Form::Butane),
        false => Err(IgnitionSourceError::Form),
    }
}

/// Reads a config from a file, or from standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, IgnitionSourceError> {
    let error = |source| IgnitionSourceError::Read { path: path.to_owned(), source };
    let mut config = Vec::new();
    let result = if path == Path::new("-") {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut config)
    } else {
        File::open(path).map_err(error)?.take(MAX_BYTES + 1).read_to_end(&mut config)
    };
    result.map_err(error)?;
    bounded(config, || path.display().to_string())
}

fn bounded(config: Vec<u8>, name: impl FnOnce() -> String) -> Result<Vec<u8>, IgnitionSourceError> {
    let fits = u64::try_from(config.len()).is_ok_and(|len| len <= MAX_BYTES);
    if fits { Ok(config) } else { Err(IgnitionSourceError::Size { name: name() }) }
}

/// Fetches a config, anew after each failure that may pass, and checks its `hash`. Plain http is refused unless there is a
/// hash or `insecure` says that nothing need vouch for the config. An https server can redirect to it only where there is a hash.
pub(crate) fn fetch(
    url: &str,
    hash: Option<&str>,
    insecure: bool,
    http: &HttpConfig,
    retries: Retries,
    cancel: &Cancel,
) -> Result<Vec<u8>, IgnitionSourceError> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let hash: Option<IgnitionHash> = hash.map(str::parse).transpose()?;
    let allows_http = insecure || hash.is_some();
    let public = public_url(url);
    match scheme.as_deref() {
        Some("https") => {}
        Some("http") if allows_http => {}
        Some("http") => return Err(IgnitionSourceError::Insecure),
        _ => return Err(IgnitionSourceError::Protocol { url: public }),
    }
    let agent = api::http::agent(http)?;
    let started = Instant::now();
    let mut failures = 0u32;
    let config = loop {
        if cancel.is_cancelled() {
            return Err(IgnitionSourceError::Cancelled { url: public });
        }
        let https_only = scheme.as_deref() == Some("https") && hash.is_none();
        let error = match attempt(&agent, url, &public, https_only) {
            Ok(config) => break config,
            Err(error) if may_pass(&error) => error,
            Err(error) => return Err(error),
        };
        let mut wait = backoff(failures);
        let again = match retries {
            Retries::Count(count) => failures < count,
            Retries::UntilStalled => {
                let remaining = PATIENCE.saturating_sub(started.elapsed());
                wait = wait.min(remaining);
                !remaining.is_zero()
            }
            Retries::Forever => true,
        };
        if !again {
            return Err(error);
        }
        failures = failures.saturating_add(1);
        let (error, wait_ms) = (kernel::in_full(&error), wait.as_millis());
        tracing::warn!(%error, wait_ms, "cannot fetch the Ignition config, trying again");
        if cancel.sleep(wait) {
            return Err(IgnitionSourceError::Cancelled { url: public });
        }
    };
    hash.map_or(Ok(()), |hash| hash.check(&config))?;
    Ok(config)
}

fn attempt(agent: &ureq::Agent, url: &str, public: &str, https_only: bool) -> Result<Vec<u8>, IgnitionSourceError> {
    let transport = |source| IgnitionSourceError::Transport { url: public.to_owned(), source: Box::new(source) };
    // As it is: the hash is over the bytes on the server.
    let request = agent.get(url).header(header::ACCEPT_ENCODING, "identity");
    let request = request.config().https_only(https_only).timeout_recv_response(Some(SILENCE));
    let response = request.timeout_per_read(Some(SILENCE)).build().call().map_err(transport)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(IgnitionSourceError::Status { url: public.to_owned(), status });
    }
    let mut config = Vec::new();
    let mut body = response.into_body().into_reader().take(MAX_BYTES + 1);
    body.read_to_end(&mut config).map_err(|error| transport(ureq::Error::from(error)))?;
    bounded(config, || public.to_owned())
}

/// Whether the next attempt may succeed. An unknown name and an untrusted certificate stay so.
fn may_pass(error: &IgnitionSourceError) -> bool {
    match error {
        IgnitionSourceError::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
        IgnitionSourceError::Transport { source, .. } => match &**source {
            ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => true,
            ureq::Error::Io(error) => error.kind() != io::ErrorKind::InvalidData,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
#[path = "ignition_source_tests.rs"]
mod tests;
