//! The documents that the agent passes to its child processes on standard input: the service's request, and what the child needs
//! for it. Arguments or environment would expose the token.

use crate::{ClientConfig, InstallRequest, LogsGatherRequest, Secret, http::HttpConfig, proxy::ProxyVariables};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

/// Longer documents are refused, in bytes: real ones have a few kilobytes.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;
/// Time between an installation's last report and the reboot, seconds, for the agent to post its reply.
pub const REBOOT_DELAY_SECONDS: u64 = 10;

/// Why a document can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Can't be read.
    #[error("cannot read the {what} from {from}")]
    Read { what: &'static str, from: String, source: io::Error },
    /// Too large.
    #[error("the {what} from {from} is larger than {MAX_DOCUMENT_BYTES} bytes")]
    TooLarge { what: &'static str, from: String },
    /// Another document. serde's texts name fields and positions, never accepted values.
    #[error("the {what} from {from} is not JSON with {parts}")]
    Decode { what: &'static str, from: String, parts: &'static str, source: serde_json::Error },
}

/// A document that a command reads with `--request`.
pub trait Document: DeserializeOwned {
    /// Its name in errors.
    const WHAT: &'static str;
    /// Its required parts.
    const PARTS: &'static str;

    /// Reads it from `path`, or from standard input when that is `-`.
    fn read(path: &Path) -> Result<Self, DocumentError> {
        if path == Path::new("-") {
            return Self::from_reader(io::stdin().lock(), "standard input");
        }
        let from = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(file, &from),
            Err(source) => Err(DocumentError::Read { what: Self::WHAT, from, source }),
        }
    }

    /// Reads it; errors name its source `from`.
    fn from_reader(reader: impl Read, from: &str) -> Result<Self, DocumentError> {
        let (what, from) = (Self::WHAT, from.to_owned());
        let mut text = Vec::new();
        match reader.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut text) {
            Ok(len) if u64::try_from(len).is_ok_and(|len| len > MAX_DOCUMENT_BYTES) => {
                return Err(DocumentError::TooLarge { what, from });
            }
            Ok(_) => {}
            Err(source) => return Err(DocumentError::Read { what, from, source }),
        }
        serde_json::from_slice(&text).map_err(|source| DocumentError::Decode { what, from, parts: Self::PARTS, source })
    }
}

impl Document for InstallDocument {
    const WHAT: &'static str = "install request";
    const PARTS: &'static str = "'request' and 'service'";
}

impl Document for LogsDocument {
    const WHAT: &'static str = "request for logs";
    const PARTS: &'static str = "'request' and 'service'";
}

impl<R: DeserializeOwned> Document for ReclaimDocument<R> {
    const WHAT: &'static str = "reclaim request";
    const PARTS: &'static str = "'request'";
}

/// How to reach the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceDocument {
    /// Base URL.
    pub url: String,
    /// Sent as `X-Secret-Key`.
    #[serde(default)]
    pub token: Secret,
    /// PEM bundle trusted in addition to the system's roots, also for images.
    #[serde(default)]
    pub ca_cert: Option<PathBuf>,
    /// Skip certificate verification.
    #[serde(default)]
    pub insecure: bool,
    /// Image reference of the agent. The real installer does not send it on.
    #[serde(default)]
    pub agent_version: String,
}

impl ServiceDocument {
    /// TLS settings.
    pub fn http(&self) -> HttpConfig {
        HttpConfig { ca_cert: self.ca_cert.clone(), insecure: self.insecure, proxies: None }
    }

    /// Settings of a client that sends no agent version.
    pub fn client_config(&self) -> ClientConfig {
        ClientConfig {
            url: self.url.clone(),
            token: self.token.clone(),
            http: self.http(),
            agent_version: String::new(),
            answer_timeout: None,
        }
    }
}

/// What `landfall install --request` reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallDocument {
    /// As the service sent it.
    pub request: InstallRequest,
    /// How to reach the service.
    pub service: ServiceDocument,
    /// Whether the machine may be rebooted at the end; otherwise the reboot is only announced.
    #[serde(default)]
    pub reboot: bool,
    /// Seconds between the last report and the reboot.
    #[serde(default = "default_delay")]
    pub reboot_delay_seconds: u64,
    /// A file with the current stage, for users on this host.
    #[serde(default)]
    pub stage_file: Option<PathBuf>,
}

impl InstallDocument {
    /// How the image is fetched: like requests to the service, but through the request's proxies if it has any.
    pub fn image_http(&self) -> HttpConfig {
        let named = self.proxies();
        HttpConfig { proxies: (!named.is_empty()).then(|| ProxyVariables::from_pairs(&named)), ..self.service.http() }
    }

    /// The request's proxies as environment variables for other programs; lower-case names for those that follow curl.
    pub fn environment(&self) -> Vec<(String, String)> {
        let both = self
            .proxies()
            .into_iter()
            .flat_map(|(name, value)| [(name.to_owned(), value), (name.to_lowercase(), value)]);
        both.map(|(name, value)| (name, value.to_owned())).collect()
    }

    /// Their variables.
    fn proxies(&self) -> Vec<(&'static str, &str)> {
        let Some(proxy) = &self.request.proxy else { return Vec::new() };
        let set = |text: &'_ Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        // Exceptions alone would disable the environment's proxies.
        if !set(&proxy.http_proxy) && !set(&proxy.https_proxy) {
            return Vec::new();
        }
        let named =
            [("HTTP_PROXY", &proxy.http_proxy), ("HTTPS_PROXY", &proxy.https_proxy), ("NO_PROXY", &proxy.no_proxy)];
        let named = named.into_iter().filter(|(_, text)| set(text));
        named.filter_map(|(name, text)| Some((name, text.as_deref()?))).collect()
    }

    /// Delay before the reboot; a day at most.
    pub fn reboot_delay(&self) -> Duration {
        Duration::from_secs(self.reboot_delay_seconds.min(86_400))
    }
}

fn default_delay() -> u64 {
    REBOOT_DELAY_SECONDS
}

/// What `landfall logs send --request` reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogsDocument {
    /// As the service sent it.
    pub request: LogsGatherRequest,
    /// How to reach the service.
    pub service: ServiceDocument,
}

/// What `landfall reclaim --request` reads, with a request of type `R`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReclaimDocument<R> {
    /// As the service sent it.
    pub request: R,
    /// PEM bundle trusted in addition to the system's roots.
    #[serde(default)]
    pub ca_cert: Option<PathBuf>,
    /// Skip certificate verification.
    #[serde(default)]
    pub insecure: bool,
    /// Whether the machine may be rebooted.
    #[serde(default)]
    pub reboot: bool,
}

impl<R> ReclaimDocument<R> {
    /// TLS settings.
    pub fn http(&self) -> HttpConfig {
        HttpConfig { ca_cert: self.ca_cert.clone(), insecure: self.insecure, proxies: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"boot_device":"/dev/x","cluster_id":"11111111-2222-3333-4444-555555555555",
        "controller_image":"r.io/c:1","host_id":"aaaaaaaa-0000-0000-0000-000000000001",
        "infra_env_id":"bbbbbbbb-0000-0000-0000-000000000001","installer_image":"r.io/i:1","role":"master"}"#;

    fn read(text: &str) -> Result<InstallDocument, DocumentError> {
        InstallDocument::from_reader(text.as_bytes(), "standard input")
    }

    #[test]
    fn rebooting_must_be_asked_for() {
        let document =
            read(&format!(r#"{{"request":{REQUEST},"service":{{"url":"http://s","token":"t0ken"}}}}"#)).unwrap();
        assert!(!document.reboot);
        assert_eq!(document.reboot_delay(), Duration::from_secs(10));
        assert!(!format!("{document:?}").contains("t0ken"));
        let huge = format!(
            r#"{{"request":{REQUEST},"service":{{"url":"u"}},"reboot":true,"reboot_delay_seconds":{}}}"#,
            u64::MAX
        );
        let document = read(&huge).unwrap();
        assert!(document.reboot);
        assert_eq!(document.reboot_delay(), Duration::from_secs(86_400));
    }

    #[test]
    fn the_image_goes_through_the_requests_proxies() {
        let with = |proxy: &str| {
            let request = REQUEST.replacen('{', &format!("{{\"proxy\":{proxy},"), 1);
            read(&format!(r#"{{"request":{request},"service":{{"url":"http://s"}}}}"#)).unwrap()
        };
        for none in ["null", "{}", r#"{"http_proxy":""}"#, r#"{"no_proxy":"a"}"#] {
            assert_eq!(with(none).image_http().proxies, None, "{none}");
            assert!(with(none).environment().is_empty());
        }
        let document = with(r#"{"http_proxy":"http://u:pa55@p:3128","no_proxy":"a,b"}"#);
        let pairs = [("HTTP_PROXY", "http://u:pa55@p:3128"), ("NO_PROXY", "a,b")];
        assert_eq!(document.image_http().proxies, Some(ProxyVariables::from_pairs(&pairs)));
        let names: Vec<_> = document.environment().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]);
        assert!(!format!("{document:?}").contains("pa55"));
    }

    #[test]
    fn noise_is_refused() {
        for text in ["", "{}", "[]", r#"{"request":{},"service":{"url":"u"}}"#] {
            assert!(matches!(read(text), Err(DocumentError::Decode { .. })), "{text}");
        }
        let large = " ".repeat(usize::try_from(MAX_DOCUMENT_BYTES).unwrap() + 1);
        assert!(matches!(read(&large), Err(DocumentError::TooLarge { .. })));
    }
}
