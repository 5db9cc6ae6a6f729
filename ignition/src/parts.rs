//! Parts both configs have: files, keys, certificates, the binary.

use crate::config::{Config, File, ProxySettings, Resource, Unit, User, Verification};
use crate::{BuildError, data_url, redact::redact_url};
use api::Proxy;

/// Where the CA certificates of the service lie on a host.
pub(crate) const CA_PATH: &str = "/etc/landfall/ca.pem";
/// Where a delivered binary lies: writable on image-based systems too.
pub(crate) const BINARY_PATH: &str = "/usr/local/bin/landfall";

/// The `landfall` binary, for a host that doesn't have it: fetched by Ignition, and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentBinary {
    /// http or https URL of the binary.
    pub url: String,
    /// Its SHA-512, 128 hexadecimal digits.
    pub sha512_hex: String,
}

impl AgentBinary {
    /// The file on the host.
    pub(crate) fn file(&self) -> Result<File, BuildError> {
        check_url("the landfall binary", &self.url)?;
        let digest = self.sha512_hex.to_ascii_lowercase();
        if digest.len() != 128 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BuildError::Digest { url: redact_url(&self.url), found: self.sha512_hex.chars().count() });
        }
        let verification = Verification { hash: Some(format!("sha512-{digest}")), ..Verification::default() };
        let contents = Resource { verification, ..Resource::of(&self.url) };
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

/// A file that replaces what is there, still without contents.
fn file(path: &str, mode: u32) -> File {
    File { path: path.to_owned(), overwrite: Some(true), mode: Some(mode), ..File::default() }
}

/// A file with `text` in it, percent-encoded.
pub(crate) fn text_file(path: &str, mode: u32, text: &str) -> File {
    File { contents: Resource::of(data_url::percent(text.as_bytes())), ..file(path, mode) }
}

/// A file with `bytes` in it, in base64.
pub(crate) fn bytes_file(path: &str, mode: u32, bytes: &[u8]) -> File {
    File { contents: Resource::of(data_url::base64(bytes)), ..file(path, mode) }
}

/// An enabled unit.
pub(crate) fn unit(name: &str, contents: &str) -> Unit {
    Unit { name: name.to_owned(), enabled: Some(true), contents: Some(contents.to_owned()), ..Unit::default() }
}

/// Adds user `core` with the keys of `ssh_keys`, one a line; nothing when there is none.
pub(crate) fn add_core_user(config: &mut Config, ssh_keys: &str) {
    let mut keys: Vec<String> = Vec::new();
    for key in ssh_keys.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        // The specification refuses a key listed twice.
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    if !keys.is_empty() {
        config.passwd.users.push(User { name: "core".to_owned(), ssh_authorized_keys: keys, ..User::default() });
    }
}

/// Makes Ignition itself trust `ca_pem` for what it fetches.
pub(crate) fn trust(config: &mut Config, ca_pem: &str) {
    config.ignition.security.tls.certificate_authorities.push(Resource::of(data_url::base64(ca_pem.as_bytes())));
}

/// Ignition's own proxy settings.
pub(crate) fn proxy_settings(proxy: &Proxy) -> ProxySettings {
    let some = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let mut no_proxy: Vec<String> = Vec::new();
    for entry in proxy.no_proxy.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|e| !e.is_empty()) {
        if !no_proxy.iter().any(|known| known == entry) {
            no_proxy.push(entry.to_owned());
        }
    }
    ProxySettings {
        http_proxy: some(&proxy.http_proxy),
        https_proxy: some(&proxy.https_proxy),
        no_proxy,
        ..ProxySettings::default()
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
        let mut config = Config::new("3.1.0");
        add_core_user(&mut config, "\n  \n# none\n");
        assert!(config.passwd.users.is_empty());
        add_core_user(&mut config, "ssh-ed25519 AAAA a\r\n\nssh-ed25519 BBBB b\nssh-ed25519 AAAA a\n");
        assert_eq!(config.passwd.users[0].ssh_authorized_keys, ["ssh-ed25519 AAAA a", "ssh-ed25519 BBBB b"]);
    }
}
