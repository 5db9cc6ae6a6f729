//! The addresses and names of the service, and what clients may do there.

use crate::auth::Auth;
use anyhow::{Context, bail};
use kernel::order;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The default address to listen on.
const PORT: u16 = 8090;

/// Where to listen without --listen: without tokens, on the loopback interface only.
pub(crate) fn default_listen(auth: &Auth) -> SocketAddr {
    let address = match auth {
        Auth::None => Ipv4Addr::LOCALHOST,
        Auth::Local(_) => Ipv4Addr::UNSPECIFIED,
    };
    (address, PORT).into()
}

/// What clients may do, in one line.
pub(crate) fn who_may(auth: &Auth, address: SocketAddr) -> String {
    const EVERYTHING: &str = "everything: read kubeconfigs and configs of hosts, install and erase hosts";
    match auth {
        Auth::None if address.ip().is_loopback() => format!(
            "without --auth, any user or program on this machine may do {EVERYTHING}. Other machines cannot reach {address}: \
             --listen ADDR:PORT lets them in, --auth local requires tokens"
        ),
        Auth::None => format!(
            "without --auth, any client that reaches {address} may do {EVERYTHING}. --auth local requires tokens; \
             --listen 127.0.0.1:{} restricts access to this machine",
            address.port()
        ),
        Auth::Local(_) => format!(
            "with --auth local, users may do at {address} what their token allows (`landfall serve token`), watchers may only read, and \
             agents report for their infra-env. Boot artifacts, /health and the API's description need no token"
        ),
    }
}

/// The base URL for hosts: no slash at the end, and a real port.
pub(crate) fn base_url(given: Option<&str>, address: SocketAddr, secure: bool) -> anyhow::Result<String> {
    let Some(given) = given else {
        let ip = if address.ip().is_unspecified() { own_address()? } else { address.ip() };
        let scheme = if secure { "https" } else { "http" };
        return Ok(format!("{scheme}://{}", SocketAddr::new(ip, address.port())));
    };
    let url = given.trim_end_matches('/');
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || url.contains(char::is_whitespace)) {
        bail!(
            "--url '{given}' is not a URL that hosts can reach: it must start with http:// or https:// and name a host"
        );
    }
    if secure && url.starts_with("http://") {
        bail!("--url '{given}' must start with https://, because TLS is on");
    }
    Ok(match url.strip_suffix(":0") {
        Some(host) => format!("{host}:{}", address.port()),
        None => url.to_owned(),
    })
}

/// The host of a URL as written: an IPv6 address keeps its brackets.
pub(crate) fn host_part(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    match authority.find(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or(authority),
    }
}

/// Whether the host of a URL is a loopback address.
pub(crate) fn is_loopback(url: &str) -> bool {
    let host = host_part(url);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Host names and addresses for the certificate: the one hosts use, the one listened on, and the loopback's.
pub(crate) fn names(url: &str, address: SocketAddr) -> Vec<String> {
    let host = host_part(url);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let mut names = vec![bare.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    order::sort(&mut names);
    names.dedup();
    names
}

/// The address this machine would reach others from, by its routing table. Nothing is sent.
fn own_address() -> anyhow::Result<IpAddr> {
    const OTHERS: [IpAddr; 2] =
        [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
    let found = OTHERS.into_iter().find_map(|other| resolve::source_towards((other, 9).into()));
    let found = found
        .context("cannot determine this machine's address: it has no default route. Give --url http://ADDRESS:PORT")?;
    tracing::info!(address = %found, "hosts get the address of the default route; --url sets another");
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::keys::SigningKey;
    use std::sync::Arc;

    #[test]
    fn without_tokens_other_machines_are_let_in_only_when_asked_for() {
        let local = Auth::Local(Arc::new(SigningKey::generate().unwrap().0));
        assert_eq!(default_listen(&Auth::None), "127.0.0.1:8090".parse().unwrap());
        assert_eq!(default_listen(&local), "0.0.0.0:8090".parse().unwrap());
        let line = |auth: &Auth, address: &str| who_may(auth, address.parse().unwrap());
        let open = line(&Auth::None, "0.0.0.0:8090");
        assert!(open.starts_with("without --auth, any client that reaches 0.0.0.0:8090 may do everything: "), "{open}");
        let closed = line(&Auth::None, "[::1]:8090");
        assert!(closed.contains("any user or program on this machine") && closed.contains("Other machines cannot"));
        let asked = line(&local, "0.0.0.0:8090");
        assert!(asked.contains("what their token allows") && !asked.contains("everything"), "{asked}");
        assert!([open, closed, asked].iter().all(|line| !line.contains('\n')));
    }

    #[test]
    fn names_of_the_certificate() {
        let of = |url: &str, address: &str| names(url, address.parse().unwrap()).join(" ");
        assert_eq!(of("https://rack.example.com:8090/x", "0.0.0.0:1"), "127.0.0.1 ::1 localhost rack.example.com");
        assert_eq!(of("https://[fd00::5]:8090", "[fd00::5]:1"), "127.0.0.1 ::1 fd00::5 localhost");
        assert_eq!(of("https://10.0.0.5", "127.0.0.1:1"), "10.0.0.5 127.0.0.1 ::1 localhost");
        assert!(base_url(Some("http://10.0.0.5"), "127.0.0.1:1".parse().unwrap(), true).is_err());
    }

    #[test]
    fn base_urls() {
        let address: SocketAddr = "127.0.0.1:4711".parse().unwrap();
        let url = |given: Option<&str>| base_url(given, address, false).map_err(drop);
        assert_eq!(url(None), Ok("http://127.0.0.1:4711".into()));
        assert_eq!(url(Some("http://10.0.2.2:0/")), Ok("http://10.0.2.2:4711".into()));
        assert_eq!(url(Some("https://landfall.example.com/x/")), Ok("https://landfall.example.com/x".into()));
        for bad in ["", "10.0.2.2:80", "ftp://x", "http://", "http:///x", "http://a b"] {
            assert!(url(Some(bad)).is_err(), "{bad}");
        }
    }
}
