//! What system the cluster wants its hosts to run: asked of its machine-config server, whose address and certificate authority the
//! host's Ignition config names (docs/compatibility.md#skipping-a-reboot).

use super::Pace;
use api::{
    http::{agent_trusting_only, build, public_url},
    proxy::ProxyVariables,
};
use flate2::read::GzDecoder;
use ignition::data_url::{self, DataUrlError};
use kernel::Cancel;
use serde::Deserialize;
use serde_json::Value;
use std::{
    error::Error,
    io::{self, Read},
    time::{Duration, Instant},
};

/// The server answers by it with a config of that version.
const ACCEPT: &str = "application/vnd.coreos.ignition+json; version=3.4.0";
/// Where a rendered config has the machine config that it was made of.
const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// A rendered config has some hundred KiB.
const MAX_CONFIG_BYTES: u64 = 64 << 20;
/// One request; there are many of them.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
pub enum MachineConfigError {
    /// Not JSON, or not of its form.
    #[error("{what} is invalid")]
    Json { what: &'static str, source: serde_json::Error },
    #[error("the host's Ignition config has no {0}")]
    Missing(&'static str),
    /// A `data:` URL.
    #[error("{what} is not a good data URL")]
    Data { what: &'static str, source: DataUrlError },
    /// Compressed badly, or too much.
    #[error("cannot unpack {what}")]
    Unpack { what: &'static str, source: io::Error },
    /// Neither `data:` nor `http(s):`.
    #[error("the host's Ignition config is merged with {0}, which can't be fetched")]
    Scheme(String),
    /// HTTPS without an authority.
    #[error("the host's Ignition config names no certificate authority for {0}")]
    NoAuthority(String),
    #[error("cannot fetch {url}")]
    Fetch {
        /// Without its query.
        url: String,
        source: Box<ureq::Error>,
    },
    /// A config without a machine config, or that without a system.
    #[error("the cluster's config for this host has no {0}")]
    Incomplete(&'static str),
    /// SIGINT or SIGTERM.
    #[error("cancelled by a signal while waiting for the machine-config server")]
    Cancelled,
}

/// The wanted system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineConfig {
    /// Container image of it.
    pub os_image_url: String,
    pub kernel_arguments: Vec<String>,
}

#[derive(Deserialize)]
struct Document {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, rename = "osImageURL")]
    os_image_url: String,
    #[serde(default)]
    kernel_arguments: Option<Vec<String>>,
}

/// Asks until there is an answer, or patience has run out.
pub(super) fn wait(ignition: &[u8], pace: &Pace, cancel: &Cancel) -> Result<MachineConfig, MachineConfigError> {
    let started = Instant::now();
    loop {
        let error = match fetch(ignition) {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        if started.elapsed() >= pace.patience {
            return Err(error);
        }
        tracing::info!(error = &error as &dyn Error, "the cluster's config for this host is not available yet");
        if cancel.sleep(pace.poll) {
            return Err(MachineConfigError::Cancelled);
        }
    }
}

pub(super) fn fetch(ignition: &[u8]) -> Result<MachineConfig, MachineConfigError> {
    let config = json("the host's Ignition config", ignition)?;
    let sources = config.pointer("/ignition/config/merge").and_then(Value::as_array);
    let source = sources.into_iter().flatten().filter_map(|merge| merge.get("source")?.as_str());
    let source = source.into_iter().find(|source| !source.is_empty());
    let source = source.ok_or(MachineConfigError::Missing("config to be merged"))?;
    let answer = if source.starts_with("data:") {
        let what = "the config to be merged";
        unpacked(what, &decoded(what, source)?)?
    } else {
        get(&config, source)?
    };
    machine_config(&answer)
}

fn get(config: &Value, url: &str) -> Result<Vec<u8>, MachineConfigError> {
    let public = || public_url(url);
    let agent = if url.starts_with("https://") {
        let authority = config.pointer("/ignition/security/tls/certificateAuthorities/0/source");
        let authority = authority.and_then(Value::as_str).unwrap_or_default();
        let pem = decoded("the certificate authority", authority)?;
        agent_trusting_only(&pem).ok_or_else(|| MachineConfigError::NoAuthority(public()))?
    } else if url.starts_with("http://") {
        build(ureq::Agent::config_builder().proxy(None), ProxyVariables::default())
    } else {
        return Err(MachineConfigError::Scheme(public()));
    };
    let failed = |source| MachineConfigError::Fetch { url: public(), source: Box::new(source) };
    let request = agent.get(url).config().http_status_as_error(false).timeout_global(Some(REQUEST_LIMIT)).build();
    let mut answer = request.header("Accept", ACCEPT).call().map_err(failed)?;
    // Whatever the status: a reply without a machine config is not an answer.
    answer.body_mut().with_config().limit(MAX_CONFIG_BYTES).read_to_vec().map_err(failed)
}

fn machine_config(config: &[u8]) -> Result<MachineConfig, MachineConfigError> {
    let config = json("the cluster's config for this host", config)?;
    let files = config.pointer("/storage/files").and_then(Value::as_array);
    let mut files = files.into_iter().flatten();
    let file = files.find(|file| file.get("path").and_then(Value::as_str) == Some(ENCAPSULATED));
    let contents = file.and_then(|file| file.get("contents"));
    let source = contents.and_then(|contents| contents.get("source")?.as_str());
    let source = source.ok_or(MachineConfigError::Incomplete("machine config"))?;
    let what = "the machine config";
    let mut text = decoded(what, source)?;
    if contents.and_then(|contents| contents.get("compression")?.as_str()) == Some("gzip") {
        text = unpacked(what, &text)?;
    }
    let document: Document =
        serde_json::from_slice(&text).map_err(|source| MachineConfigError::Json { what, source })?;
    let Spec { os_image_url, kernel_arguments } = document.spec;
    if os_image_url.is_empty() {
        return Err(MachineConfigError::Incomplete("system's image (spec.osImageURL)"));
    }
    Ok(MachineConfig { os_image_url, kernel_arguments: kernel_arguments.unwrap_or_default() })
}

fn json(what: &'static str, text: &[u8]) -> Result<Value, MachineConfigError> {
    serde_json::from_slice(text).map_err(|source| MachineConfigError::Json { what, source })
}

fn decoded(what: &'static str, url: &str) -> Result<Vec<u8>, MachineConfigError> {
    let data = data_url::decode(url).map_err(|source| MachineConfigError::Data { what, source })?;
    Ok(data.data.into_owned())
}

/// Gzip, or else as it is.
fn unpacked(what: &'static str, data: &[u8]) -> Result<Vec<u8>, MachineConfigError> {
    if !data.starts_with(&[0x1f, 0x8b]) {
        return Ok(data.to_vec());
    }
    let mut text = Vec::new();
    let read = GzDecoder::new(data).take(MAX_CONFIG_BYTES).read_to_end(&mut text);
    read.map_err(|source| MachineConfigError::Unpack { what, source })?;
    Ok(text)
}
