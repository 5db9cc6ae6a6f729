//! Parts both configs have: files, keys, certificates, the binary.

use crate::model::{self, Document, File, PasswdUser, Reference, Resource, Text, Unit, Verification, Version};
use crate::translate::check_merged;
use crate::{BuildError, ParseError, data_url, merge_override, redact::redact_url};
use api::Proxy;
use std::{collections::HashSet, fmt};

/// Where the CA certificates of the service are on a host.
pub(crate) const CA_PATH: &str = "/etc/landfall/ca.pem";
/// Where a delivered binary is: writable on image-based systems too.
pub(crate) const BINARY_PATH: &str = "/usr/local/bin/landfall";

/// The `landfall` binary, for a host that doesn't have it: fetched by Ignition, and verified.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentBinary {
    /// http or https URL of the binary.
    pub url: String,
    /// Its SHA-512, 128 hexadecimal digits.
    pub sha512_hex: String,
}

impl fmt::Debug for AgentBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentBinary({})", redact_url(&self.url))
    }
}

impl AgentBinary {
    /// The file on the host.
    pub(crate) fn file(&self) -> Result<File<'_>, BuildError> {
        check_url("the landfall binary", &self.url)?;
        let digest = self.sha512_hex.to_ascii_lowercase();
        if digest.len() != 128 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BuildError::Digest { url: redact_url(&self.url), found: self.sha512_hex.chars().count() });
        }
        let verification = Verification { hash: Some(format!("sha512-{digest}").into()) };
        let contents = Resource { verification, ..resource(&*self.url) };
        Ok(File { contents, ..file(BINARY_PATH, 0o755) })
    }
}

/// Whether Ignition fetches `url` with HTTP.
pub(crate) fn check_url(what: &'static str, url: &str) -> Result<(), BuildError> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host_len = rest.map_or(0, |rest| rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if host_len == 0 || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(BuildError::Url { what, url: redact_url(url).chars().take(200).collect() });
    }
    Ok(())
}

/// A config of `version` with nothing in it.
pub(crate) fn empty<'a>(version: Version) -> Document<'a> {
    let mut config = Document::default();
    config.ignition.version = version.name().into();
    config
}

/// What `source` names, unverified.
pub(crate) fn resource<'a>(source: impl Into<Text<'a>>) -> Resource<'a> {
    Resource { source: Some(source.into()), ..Resource::default() }
}

/// The same of a config or a certificate.
pub(crate) fn reference<'a>(source: impl Into<Text<'a>>) -> Reference<'a> {
    Reference { source: Some(source.into()), ..Reference::default() }
}

/// `config` with the JSON text of an override merged over it, if it has any; valid in any case.
pub(crate) fn finish<'a>(config: Document<'a>, ignition_override: &'a str) -> Result<Document<'a>, BuildError> {
    if !ignition_override.trim().is_empty() {
        return merge_override(config, ignition_override).map_err(BuildError::Override);
    }
    match check_merged(&config.to_json()) {
        Err(ParseError::Invalid(report)) => Err(BuildError::Invalid(report)),
        // It is not empty and its version is known.
        Ok(_) | Err(ParseError::Empty | ParseError::Version(_)) => Ok(config),
    }
}

/// A file that replaces an existing one, still without contents.
pub(crate) fn file<'a>(path: impl Into<Text<'a>>, mode: u32) -> File<'a> {
    File { path: path.into(), overwrite: Some(true), mode: Some(i64::from(mode)), ..File::default() }
}

/// A file with `text` in it, as it is where that can be read.
pub(crate) fn text_file<'a>(path: impl Into<Text<'a>>, mode: u32, text: &str) -> File<'a> {
    File { contents: resource(data_url::plain(text)), ..file(path, mode) }
}

/// A file with `bytes` in it, in base64.
pub(crate) fn bytes_file<'a>(path: impl Into<Text<'a>>, mode: u32, bytes: &[u8]) -> File<'a> {
    File { contents: resource(data_url::base64(bytes)), ..file(path, mode) }
}

/// An enabled unit.
pub(crate) fn unit<'a>(name: impl Into<Text<'a>>, contents: impl Into<Text<'a>>) -> Unit<'a> {
    Unit { name: name.into(), enabled: Some(true), contents: Some(contents.into()), ..Unit::default() }
}

/// User `core` with the keys of `ssh_keys`, one per line; none without keys.
pub(crate) fn core_user(ssh_keys: &str) -> Option<PasswdUser<'_>> {
    let lines = ssh_keys.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let ssh_authorized_keys = distinct(lines);
    let has_keys = !ssh_authorized_keys.is_empty();
    has_keys.then(|| PasswdUser { name: "core".into(), ssh_authorized_keys, ..PasswdUser::default() })
}

/// Each of `texts` once: the specification refuses an entry listed twice.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Text<'a>> {
    let mut seen = HashSet::new();
    texts.filter(|text| seen.insert(*text)).map(Text::from).collect()
}

/// Makes Ignition itself trust `ca_pem` for what it fetches.
pub(crate) fn trust(config: &mut Document<'_>, ca_pem: &str) {
    let authority = reference(data_url::base64_of("text/plain", ca_pem.as_bytes()));
    config.ignition.security.tls.certificate_authorities.push(authority);
}

/// Ignition's own proxy settings.
pub(crate) fn proxy_settings(proxy: &Proxy) -> model::Proxy<'_> {
    fn some(value: &Option<String>) -> Option<Text<'_>> {
        value.as_deref().filter(|value| !value.is_empty()).map(Text::from)
    }
    let direct = proxy.no_proxy.as_deref().unwrap_or_default().split(',').map(str::trim);
    model::Proxy {
        http_proxy: some(&proxy.http_proxy),
        https_proxy: some(&proxy.https_proxy),
        no_proxy: distinct(direct.filter(|entry| !entry.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_needs_a_url_and_a_whole_digest() {
        let good = AgentBinary { url: "http://10.0.2.2:8090/landfall".into(), sha512_hex: "AB".repeat(64) };
        let file = good.file().ok().unwrap();
        assert_eq!(file.contents.verification.hash.unwrap(), format!("sha512-{}", "ab".repeat(64)));
        assert_eq!(file.mode, Some(0o755));
        for url in ["", "ftp://h/x", "http://", "https:///x", "http://h/ x"] {
            assert!(AgentBinary { url: url.into(), ..good.clone() }.file().is_err(), "{url}");
        }
        for digest in ["", "ab", &"zz".repeat(64)] {
            let bad = AgentBinary { url: "http://u:hunter2@h/x?k=hunter2".into(), sha512_hex: digest.into() };
            let text = bad.file().err().unwrap().to_string();
            assert!(text.contains("http://h/x must be 128") && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn keys_are_one_a_line_and_listed_once() {
        assert!(core_user("\n  \n# none\n").is_none());
        let user = core_user("ssh-ed25519 AAAA a\r\n\nssh-ed25519 BBBB b\nssh-ed25519 AAAA a\n").unwrap();
        assert_eq!(user.ssh_authorized_keys, ["ssh-ed25519 AAAA a", "ssh-ed25519 BBBB b"]);
    }
}
