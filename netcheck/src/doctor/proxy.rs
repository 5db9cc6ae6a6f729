//! Station 7: the proxy that the environment names for the service's URL, as every client of ours chooses it.
//!
//! For https:// it is asked to CONNECT. For http:// it gets the request itself, so that its answer and the service's are one: what
//! only proxies say, or gateways, is taken for the proxy's.

use super::{
    report::{Code, Finding, Station},
    target::Target,
    wire::{Answer, ConnectFailure},
};
use crate::codec::text::printable;
use api::proxy::{Choice, ProxyServer, ProxyVariables};

/// What became of the attempt to get through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// It connects us to the service, or hands our request on.
    Open,
    /// No connection to the proxy itself.
    NoConnection(ConnectFailure),
    /// No TLS with the proxy itself: what rustls says.
    NoTls(String),
    /// It answers with this status.
    Refused(u16),
    /// It says this instead of HTTP.
    NotHttp(String),
    /// It takes the connection and says nothing, or ends it.
    Silent,
}

impl From<&Answer> for Tunnel {
    /// What the answer to a request in absolute form says of the proxy.
    fn from(answer: &Answer) -> Self {
        match answer {
            // The service wants a token with 401, and has its own gateways; those can't be distinguished from the proxy.
            Answer::Response(response) if matches!(response.status, 403 | 407 | 502..=504) => {
                Self::Refused(response.status)
            }
            Answer::Response(_) => Self::Open,
            Answer::NotHttp(text) => Self::NotHttp(text.clone()),
            Answer::Silent => Self::Silent,
        }
    }
}

/// Does the proxy let us through? `direct` tells whether the service takes connections without it.
pub(super) fn judge(
    variables: &ProxyVariables,
    choice: &Choice,
    tunnel: Option<&Tunnel>,
    direct: Option<bool>,
    target: &Target,
) -> Finding {
    let station = Station::Proxy;
    let server = match choice {
        Choice::Direct => return Finding::not_needed(station, "not needed: none is set"),
        Choice::Local { variable } => {
            let seen =
                format!("not needed: {} is this host itself, so {variable} does not apply", target.endpoint.host);
            return Finding::not_needed(station, seen);
        }
        Choice::Excepted { variable, exceptions } => {
            let seen = format!("not needed: {exceptions} excludes {} from {variable}", target.endpoint.host);
            return Finding::not_needed(station, seen);
        }
        Choice::Overlooked { variable } => {
            let seen = format!("the value of {variable} is not the URL of a proxy; it is ignored");
            return Finding::warn(station, Code::ProxyUrl, seen, "set it to http://HOST:PORT, or unset it");
        }
        Choice::Impossible { variable, url } => {
            let seen = format!("{variable} names {url}, which is not an HTTP proxy");
            let next = "use one that speaks HTTP (http:// or https://); SOCKS is not supported";
            return Finding::broken(station, Code::ProxyUrl, seen, next);
        }
        Choice::Through(server) => server,
    };
    let ProxyServer { variable, endpoint, is_https, authorization, .. } = server;
    let scheme = if *is_https { "https" } else { "http" };
    let proxy = format!("{scheme}://{endpoint} ({variable})");
    let host = &target.endpoint.host;
    let without = match direct {
        Some(true) => format!("; {} accepts connections without it: add {host} to NO_PROXY", target.endpoint),
        Some(false) => format!("; {} cannot be reached without it either", target.endpoint),
        None => String::new(),
    };
    let broken = |code, seen: String, next: String| Finding::broken(station, code, seen, format!("{next}{without}"));
    match tunnel {
        None => Finding::skipped(station, Station::Dns),
        Some(Tunnel::Open) => {
            let seen = format!("{proxy} connects to {}", target.endpoint);
            match variables.malformed_exceptions() {
                None => Finding::ok(station, seen),
                Some((exceptions, entries)) => {
                    let entries: String = printable(entries.join(", ").as_bytes()).chars().take(120).collect();
                    let seen = format!("{seen}; {exceptions} has entries that never match: {entries}");
                    Finding::warn(station, Code::ProxyExceptions, seen, format!("correct {exceptions}"))
                }
            }
        }
        Some(Tunnel::NoConnection(failure)) => broken(
            Code::ProxyUnreachable,
            format!("{proxy}: {failure}"),
            format!("correct host and port in {variable}, or start the proxy"),
        ),
        Some(Tunnel::NoTls(reason)) => broken(
            Code::ProxyCertificate,
            format!("{proxy}: no TLS with the proxy itself: {reason}"),
            format!(
                "if the proxy speaks plain HTTP, as most do, use http:// in {variable}; else check its certificate"
            ),
        ),
        Some(Tunnel::Refused(407)) => {
            let (seen, next) = match authorization {
                None => ("requires a user and a password (407), and none are set", "set them"),
                Some(_) => ("rejects the user and password (407)", "correct them"),
            };
            broken(
                Code::ProxyWantsPassword,
                format!("{proxy} {seen}"),
                format!("{next} in {variable}: http://USER:PASSWORD@{endpoint}, special characters as %XX"),
            )
        }
        Some(Tunnel::Refused(status @ (502..=504))) => broken(
            Code::ProxyCannotReach,
            format!("{proxy} works, but cannot reach {} itself ({status})", target.endpoint),
            format!("check on the proxy: can it resolve {host} and connect to port {}?", target.endpoint.port),
        ),
        Some(Tunnel::Refused(status)) => broken(
            Code::ProxyRefuses,
            format!("{proxy} refuses to connect to {} ({status})", target.endpoint),
            format!(
                "make the proxy allow {} {}; if it is a web server and not a proxy, correct {variable}",
                if target.is_https { "CONNECT to" } else { "requests to" },
                target.endpoint
            ),
        ),
        Some(Tunnel::NotHttp(text)) => broken(
            Code::NotAProxy,
            format!("{proxy} is not an HTTP proxy: it answers '{text}'"),
            format!("correct host and port in {variable}"),
        ),
        Some(Tunnel::Silent) => broken(
            Code::NotAProxy,
            format!("{proxy} accepts connections but does not answer"),
            format!("correct host and port in {variable}, or check that the proxy works"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        let target = Target::parse("https://api.example.com:8443").unwrap();
        for value in ["http://user:secret@one:3128", "socks5://user:secret@one", "http://user:secret@ one"] {
            let variables = ProxyVariables::from_pairs(&[("HTTPS_PROXY", value)]);
            let choice = variables.choose(&target.uri);
            for tunnel in [Tunnel::Refused(407), Tunnel::Open, Tunnel::Silent] {
                let finding = judge(&variables, &choice, Some(&tunnel), Some(true), &target);
                assert!(!format!("{finding:?}{choice:?}").contains("secret"), "{finding:?}");
            }
        }
    }

    #[test]
    fn senseless_exceptions_are_reported() {
        let target = Target::parse("https://api.example.com").unwrap();
        let pairs = [("HTTPS_PROXY", "http://one:3128"), ("NO_PROXY", "10.0.0.0/24, 10.0.1.0/33")];
        let variables = ProxyVariables::from_pairs(&pairs);
        let finding = judge(&variables, &variables.choose(&target.uri), Some(&Tunnel::Open), None, &target);
        let seen = "http://one:3128 (HTTPS_PROXY) connects to api.example.com:443; NO_PROXY has entries that never match: \
                    10.0.1.0/33";
        assert_eq!(finding, Finding::warn(Station::Proxy, Code::ProxyExceptions, seen, "correct NO_PROXY"));
    }
}
