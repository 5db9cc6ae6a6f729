//! The names by which requests may address this service (RFC 9110 §7.2).
//!
//! Another site may point its own name at our address (DNS rebinding): a browser then treats its page and us as one site, and lets
//! the page read and send everything. But such requests carry the site's name. IP addresses can't be abused so, and are accepted.

use super::Refusal;
use axum::http::{HeaderMap, StatusCode, Uri, header, uri::Authority};
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
};

/// The names, besides addresses and those of the loopback interface.
#[derive(Clone, Debug, Default)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// The host of our base URL, and the names that the operator allows.
    pub fn new(url: &str, allowed: &[String]) -> Self {
        let own = url.parse::<Uri>().ok();
        let own = own.as_ref().and_then(|url| url.authority()).map(|authority| plain(authority.host()));
        Self(own.into_iter().chain(allowed.iter().map(|name| plain(name))).collect())
    }

    /// Refuses a request for another name. A request without a name is not from a browser.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Some(authority) = uri.authority() {
            self.check_one(authority.as_str())?;
        }
        for value in headers.get_all(header::HOST) {
            match value.to_str() {
                Ok("") => {}
                Ok(text) => self.check_one(text)?,
                Err(_) => return Err(refusal("?")),
            }
        }
        Ok(())
    }

    fn check_one(&self, text: &str) -> Result<(), Refusal> {
        let host = text.parse::<Authority>().ok().filter(|_| !text.contains('@'));
        let host = host.map(|authority| plain(authority.host())).ok_or_else(|| refusal(text))?;
        let is_loopback = host == "localhost" || host.ends_with(".localhost");
        if is_loopback || is_address(&host) || self.0.contains(&host) { Ok(()) } else { Err(refusal(&host)) }
    }
}

fn is_address(host: &str) -> bool {
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match v6 {
        Some(v6) => v6.split('%').next().is_some_and(|v6| v6.parse::<Ipv6Addr>().is_ok()),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Normalises a name.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn refusal(host: &str) -> Refusal {
    let host: String = host.chars().take(255).collect();
    let message = format!(
        "unknown host name {host:?}: use an IP address, localhost, the host of --url, or a name given with --allow-host"
    );
    Refusal::Request(StatusCode::MISDIRECTED_REQUEST, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_loopback_and_our_own_names_are_ours() {
        let hosts = Hosts::new("https://Rack.example.com:8090/x", &["bmc.lan".to_owned(), "Alias.".to_owned()]);
        let takes = |host: &str| hosts.check_one(host).is_ok();
        for ours in [
            "rack.example.com",
            "RACK.example.com.:8090",
            "bmc.lan:1",
            "alias",
            "localhost",
            "localhost:8090",
            "x.localhost",
            "10.0.2.2:8090",
            "127.0.0.1",
            "[::1]:8090",
            "[fe80::1%25ens3]",
        ] {
            assert!(takes(ours), "{ours}");
        }
        for other in [
            "evil.example.com",
            "evil.example.com:8090",
            "example.com",
            "rack.example.com.evil.org",
            "10.0.2.2.evil.org",
            "localhost.evil.org",
            "xlocalhost",
            "rack.example.com@evil.org",
            "evil.org@rack.example.com",
            "[evil]",
            "[::1",
            "1.2.3",
            "a b",
            "",
        ] {
            assert!(!takes(other), "{other}");
        }
    }

    #[test]
    fn each_name_of_a_request_is_looked_at() {
        let hosts = Hosts::new("http://10.0.0.5:8090", &[]);
        let check = |uri: &str, names: &[&str]| {
            let headers = names.iter().map(|name| (header::HOST, name.parse().unwrap())).collect();
            hosts.check(&uri.parse().unwrap(), &headers).is_ok()
        };
        assert!(check("/", &["10.0.0.5:8090"]) && check("/", &[]) && check("/", &[""]));
        assert!(!check("/", &["evil.org"]));
        assert!(!check("/", &["10.0.0.5", "evil.org"]));
        assert!(!check("http://evil.org/", &["10.0.0.5"]));
        assert!(!check("http://10.0.0.5/", &["evil.org"]));
    }
}
