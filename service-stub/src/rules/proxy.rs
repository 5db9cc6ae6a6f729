//! Addresses of proxies, and what goes past them.

use crate::net::Cidr;
use crate::releases::version;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SCHEMES: [&str; 7] = ["ftp", "tcp", "udp", "ws", "wss", "http", "https"];
const MAX_URL_CHARS: usize = 2083;

/// All three settings; an empty one is none. Without a version, as for infra-envs, all of the host goes past the proxy with `*`.
pub(crate) fn check(
    http_proxy: Option<&str>,
    https_proxy: Option<&str>,
    no_proxy: Option<&str>,
    openshift_version: Option<&str>,
) -> Result<(), String> {
    let given = |text: Option<&'_ str>| text.map(str::to_owned).filter(|text| !text.is_empty());
    if let Some(url) = given(http_proxy) {
        proxy(&url, &["http"]).map_err(|why| format!("Failed to validate HTTP Proxy: {why}"))?;
    }
    if let Some(url) = given(https_proxy) {
        proxy(&url, &["http", "https"]).map_err(|why| format!("Failed to validate HTTPS Proxy: {why}"))?;
    }
    given(no_proxy).map_or(Ok(()), |list| past(&list, openshift_version))
}

fn proxy(url: &str, schemes: &[&str]) -> Result<(), String> {
    if !is_url(url) {
        return Err(format!("Proxy URL format is not valid: '{}'", masked(url)));
    }
    if schemes.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://"))) {
        return Ok(());
    }
    Err(format!("The URL scheme must be {} and specified in the URL: '{}'", schemes.join(" or "), masked(url)))
}

/// A password in a URL goes into no message.
fn masked(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else { return url.to_owned() };
    let (scheme, user) = before.split_once("://").map_or(("", before), |(scheme, user)| (scheme, user));
    let user = user.split_once(':').map_or(user.to_owned(), |(user, _)| format!("{user}:***"));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{user}@{host}")
}

/// With or without a scheme: a host, and perhaps a user, a port and a path.
fn is_url(url: &str) -> bool {
    if url.len() <= 3 || url.chars().count() >= MAX_URL_CHARS || url.starts_with('.') {
        return false;
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if SCHEMES.contains(&scheme) => rest,
        Some(_) => return false,
        None => url,
    };
    if rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return false;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let bracketed = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    let (host_fits, port) = match bracketed {
        Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
        None => {
            let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
            // A single word without scheme and port names no host.
            let bare = !url.contains("://") && port.is_empty() && !name.contains('.');
            (!bare && is_host(name), port)
        }
    };
    let port_fits = match port.strip_prefix(':') {
        Some(digits) => (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    host_fits && port_fits
}

fn is_host(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(inner)
            && label.starts_with(char::is_alphanumeric)
            && label.ends_with(char::is_alphanumeric)
    };
    let numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && name.contains('.');
    if numeric { name.parse::<Ipv4Addr>().is_ok() } else { name.split('.').all(label) }
}

/// A comma list of domains, addresses and networks; `*` is everything.
fn past(list: &str, openshift_version: Option<&str>) -> Result<(), String> {
    if list.contains('*') {
        return match openshift_version {
            Some(own) if version::older(own, "4.8") => {
                Err(format!("Sorry, no-proxy value '*' is not supported in release: {own}"))
            }
            _ => Ok(()),
        };
    }
    let entries: Vec<&str> = list.split(',').collect();
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].contains(entry) {
            return Err(format!("duplicate no_proxy entry defined: {entry}"));
        }
        if !is_entry(entry.strip_prefix('.').unwrap_or(entry)) {
            return Err(format!(
                "NO Proxy is a comma-separated list of destination domain names, domains, IP addresses or other network CIDRs. A domain can be prefaced with '.' to include all subdomains of that domain. Use '*' to bypass proxy for all destinations with OpenShift 4.8 or later.: {entry} is not a valid no_proxy entry"
            ));
        }
    }
    Ok(())
}

fn is_entry(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<Cidr>().is_ok() || is_dns_name(text)
}

/// Labels of letters, digits, hyphens and underscores; a dot or an underscore may end it.
fn is_dns_name(text: &str) -> bool {
    let name = text.strip_suffix(['.', '_']).unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.len() <= 255 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies() {
        let no_url = "Proxy URL format is not valid";
        let scheme = "The URL scheme must be http and specified in the URL";
        for (url, why) in [
            ("http://squid", ""),
            ("http://squid.lab.example.:8080", ""),
            ("http://alice@squid.lab.example", ""),
            ("http://alice:s3cr3t@198.51.100.20:65535", ""),
            ("http://[2001:db8::20]", ""),
            ("http://[2001:db8:0:0:0:0:0:20]:3129", ""),
            ("https://squid.lab.example:443", scheme),
            ("socks5://squid.lab.example:1080", no_url),
            ("squid.lab.example:8080", scheme),
            ("squid", no_url),
            ("http:", no_url),
            ("http://", no_url),
            ("http://squid lab", no_url),
            ("http://-squid", no_url),
            ("http://198.51.100.256", no_url),
            ("http://[2001:db8::g]", no_url),
            ("http://squid:port", no_url),
            ("http://squid:123456", no_url),
        ] {
            let why = if why.is_empty() { String::new() } else { format!("{why}: '{url}'") };
            assert_eq!(proxy(url, &["http"]).err().unwrap_or_default(), why, "{url}");
        }
        // A password is not repeated.
        let why = proxy("https://alice:s3cr3t@squid.lab.example", &["http"]).unwrap_err();
        assert_eq!(why, format!("{scheme}: 'https://alice:***@squid.lab.example'"));
        assert_eq!(check(None, Some("https://squid.lab.example"), None, None), Ok(()));
        let why = check(None, Some("ftp://squid.lab.example"), None, None).unwrap_err();
        assert_eq!(
            why,
            "Failed to validate HTTPS Proxy: The URL scheme must be http or https and specified in the URL: \
             'ftp://squid.lab.example'"
        );
        assert_eq!(check(Some(""), Some(""), Some(""), None), Ok(()));
    }

    #[test]
    fn what_goes_past_a_proxy() {
        for (list, good) in [
            ("", true),
            ("*", true),
            ("*,lab.example", true),
            ("localhost", true),
            (".lab.example,intra_net.example,198.51.100.0/24,198.51.100.20,2001:db8::/32,2001:db8::20", true),
            ("lab.example,198.51.100.20,lab.example", false),
            ("lab.example, intra.example", false),
            ("lab.example,,intra.example", false),
            ("..lab.example", false),
            ("-lab.example", false),
        ] {
            assert_eq!(check(None, None, Some(list), Some("4.22.9")).is_ok(), good, "{list}");
        }
        assert!(check(None, None, Some("*"), Some("4.7.0")).is_err());
    }
}
