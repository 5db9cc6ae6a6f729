//! Station 7: the proxy that the environment names.
//!
//! Which one that is, is ureq's to say, because the agent's requests go through it: the first of `ALL_PROXY`, `HTTPS_PROXY` and
//! `HTTP_PROXY` that is a URL, whatever the service's scheme, unless `NO_PROXY` has the host. It is always asked to CONNECT.

use super::{
    report::{Code, Finding, Station},
    target::{Endpoint, Target},
    wire::ConnectFailure,
};
use api::{Secret, http::public_url};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::env;
use ureq::{Proxy, ProxyProtocol, http::Uri};

const VARIABLES: [&str; 6] = ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The variables of the environment that say which proxy to use. Passwords may be among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyVariables(Vec<(String, Secret)>);

impl ProxyVariables {
    /// This process's.
    pub fn from_env() -> Self {
        let names = VARIABLES.into_iter().chain(EXCEPTIONS);
        Self(names.filter_map(|name| Some((name.to_owned(), Secret::new(env::var(name).ok()?)))).collect())
    }

    /// These, as `(name, value)`.
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.expose())
    }
}

/// A proxy to be used.
#[derive(Clone, Debug)]
pub(super) struct ProxyServer {
    pub variable: &'static str,
    pub endpoint: Endpoint,
    /// Spoken to over TLS.
    pub is_https: bool,
    /// Value of the `Proxy-Authorization` header.
    pub authorization: Option<Secret>,
}

/// What the environment says.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// None is named.
    Direct,
    /// One is named, but not for this host.
    Excepted { variable: &'static str, exceptions: &'static str },
    /// This one.
    Through(ProxyServer),
    /// One that the client can't speak to.
    Impossible { variable: &'static str, url: String },
    /// The only values are no URLs; the client overlooks them.
    Overlooked { variable: &'static str },
}

impl Choice {
    pub fn server(&self) -> Option<&ProxyServer> {
        match self {
            Self::Through(server) => Some(server),
            _ => None,
        }
    }
}

/// Chooses as the client does.
pub(super) fn choose(variables: &ProxyVariables, target: &Target) -> Choice {
    let mut overlooked = None;
    for variable in VARIABLES {
        let Some(value) = variables.get(variable) else { continue };
        let Ok(proxy) = Proxy::new(value) else {
            if !value.is_empty() {
                overlooked = overlooked.or(Some(variable));
            }
            continue;
        };
        if let Some(exceptions) = excepted_by(variables, target) {
            return Choice::Excepted { variable, exceptions };
        }
        let is_https = match proxy.protocol() {
            ProxyProtocol::Http => false,
            ProxyProtocol::Https => true,
            _ => return Choice::Impossible { variable, url: public_url(value) },
        };
        let host = proxy.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let user = proxy.username().is_some() || proxy.password().is_some();
        let authorization = user.then(|| {
            let pair = format!("{}:{}", proxy.username().unwrap_or_default(), proxy.password().unwrap_or_default());
            Secret::new(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        });
        let endpoint = Endpoint { host, port: proxy.port() };
        return Choice::Through(ProxyServer { variable, endpoint, is_https, authorization });
    }
    overlooked.map_or(Choice::Direct, |variable| Choice::Overlooked { variable })
}

fn excepted_by(variables: &ProxyVariables, target: &Target) -> Option<&'static str> {
    let name = EXCEPTIONS.into_iter().find(|name| variables.get(name).is_some())?;
    let uri: Uri = format!("http://{}/", target.endpoint).parse().ok()?;
    let builder = Proxy::builder(ProxyProtocol::Http).host("proxy.invalid");
    let builder = variables.get(name)?.split(',').fold(builder, ureq::ProxyBuilder::no_proxy);
    builder.build().ok()?.is_no_proxy(&uri).then_some(name)
}

/// What became of the attempt to get through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// It connects us to the service.
    Open,
    /// No connection to the proxy itself.
    NoConnection(ConnectFailure),
    /// No TLS with the proxy itself: what rustls says.
    NoTls(String),
    /// It answers CONNECT with this status.
    Refused(u16),
    /// It says this instead of HTTP.
    NotHttp(String),
    /// It takes the connection and says nothing, or ends it.
    Silent,
}

/// Does the proxy let us through? `direct` tells whether the service takes connections without it.
pub(super) fn judge(choice: &Choice, tunnel: Option<&Tunnel>, direct: Option<bool>, target: &Target) -> Finding {
    let station = Station::Proxy;
    let server = match choice {
        Choice::Direct => return Finding::not_needed(station, "not needed: none is set"),
        Choice::Excepted { variable, exceptions } => {
            let seen = format!("not needed: {exceptions} excepts {} from {variable}", target.endpoint.host);
            return Finding::not_needed(station, seen);
        }
        Choice::Overlooked { variable } => {
            let seen = format!("the value of {variable} is no URL of a proxy; it is overlooked");
            return Finding::warn(station, Code::ProxyUrl, seen, "set it to http://HOST:PORT, or unset it");
        }
        Choice::Impossible { variable, url } => {
            let seen = format!("{variable} names {url}, which is no HTTP proxy");
            let next = "use one that speaks HTTP (http:// or https://); SOCKS is not supported";
            return Finding::broken(station, Code::ProxyUrl, seen, next);
        }
        Choice::Through(server) => server,
    };
    let ProxyServer { variable, endpoint, is_https, authorization } = server;
    let scheme = if *is_https { "https" } else { "http" };
    let proxy = format!("{scheme}://{endpoint} ({variable})");
    let host = &target.endpoint.host;
    let without = match direct {
        Some(true) => format!("; without it {} takes connections: add {host} to NO_PROXY", target.endpoint),
        Some(false) => format!("; without it {} is not reached either", target.endpoint),
        None => String::new(),
    };
    let broken = |code, seen: String, next: String| Finding::broken(station, code, seen, format!("{next}{without}"));
    match tunnel {
        None => Finding::skipped(station, Station::Dns),
        Some(Tunnel::Open) => Finding::ok(station, format!("{proxy} connects us to {}", target.endpoint)),
        Some(Tunnel::NoConnection(failure)) => broken(
            Code::ProxyUnreachable,
            format!("{proxy}: {failure}"),
            format!("correct host and port in {variable}, or start the proxy"),
        ),
        Some(Tunnel::NoTls(reason)) => broken(
            Code::ProxyCertificate,
            format!("{proxy}: no TLS with the proxy itself: {reason}"),
            format!("if the proxy speaks plain HTTP, as most do, say http:// in {variable}; else see its certificate"),
        ),
        Some(Tunnel::Refused(407)) => {
            let (seen, next) = match authorization {
                None => ("wants a user and a password (407), and we have none", "put them"),
                Some(_) => ("does not accept our user and password (407)", "correct them"),
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
            format!(
                "look from the proxy's side: can it resolve {host}, may it connect to port {}?",
                target.endpoint.port
            ),
        ),
        Some(Tunnel::Refused(status)) => broken(
            Code::ProxyRefuses,
            format!("{proxy} refuses to connect us to {} ({status})", target.endpoint),
            format!(
                "have the proxy allow CONNECT to {}; if it is no proxy but a web server, correct {variable}",
                target.endpoint
            ),
        ),
        Some(Tunnel::NotHttp(said)) => broken(
            Code::NotAProxy,
            format!("{proxy} is no HTTP proxy: it answers '{said}'"),
            format!("correct host and port in {variable}"),
        ),
        Some(Tunnel::Silent) => broken(
            Code::NotAProxy,
            format!("{proxy} takes connections, but does not answer CONNECT"),
            format!("correct host and port in {variable}; is it a proxy, and does it work?"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::parse("https://api.example.com:8443").unwrap()
    }

    fn chosen(pairs: &[(&str, &str)]) -> Choice {
        choose(&ProxyVariables::from_pairs(pairs), &target())
    }

    #[test]
    fn the_choice_is_the_clients() {
        assert!(matches!(chosen(&[]), Choice::Direct));
        let choice = chosen(&[("HTTP_PROXY", "http://one:3128"), ("HTTPS_PROXY", "two:8080")]);
        let server = choice.server().unwrap();
        assert_eq!((server.endpoint.to_string().as_str(), server.variable), ("two:8080", "HTTPS_PROXY"));
        let choice = chosen(&[("HTTPS_PROXY", ""), ("http_proxy", "http://user:pa%40ss@one:3128")]);
        let server = choice.server().unwrap();
        assert_eq!(server.variable, "http_proxy");
        assert_eq!(server.authorization.as_ref().unwrap().expose(), "Basic dXNlcjpwYUBzcw==");
        assert!(matches!(chosen(&[("HTTPS_PROXY", "socks5://one")]), Choice::Impossible { .. }));
        assert!(matches!(chosen(&[("HTTPS_PROXY", "http://a b")]), Choice::Overlooked { .. }));
        for (exceptions, excepted) in
            [(".example.com", true), ("*", true), ("other,API.example.com", true), ("example.com", false), ("x", false)]
        {
            let choice = chosen(&[("HTTPS_PROXY", "http://one"), ("NO_PROXY", exceptions)]);
            assert_eq!(matches!(choice, Choice::Excepted { .. }), excepted, "{exceptions}");
        }
    }

    #[test]
    fn passwords_are_never_told() {
        for value in ["http://user:secret@one:3128", "socks5://user:secret@one", "http://user:secret@ one"] {
            let choice = chosen(&[("HTTPS_PROXY", value)]);
            for tunnel in [Tunnel::Refused(407), Tunnel::Open, Tunnel::Silent] {
                let finding = judge(&choice, Some(&tunnel), Some(true), &target());
                assert!(!format!("{finding:?}{choice:?}").contains("secret"), "{finding:?}");
            }
        }
    }
}
