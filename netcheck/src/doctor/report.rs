//! What the doctor says: one finding a station, and what follows from them.

use crate::codec::text::printable;
use serde::Serialize;
use std::fmt::{self, Write};

/// Raised when a field changes its name or meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A station on the way to the service, in the order they are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Station {
    /// A network interface with carrier.
    Link,
    /// An address on it that is not link-local.
    Address,
    /// The way to the other side, and the next hop on it.
    Gateway,
    /// No other station holds our addresses.
    Duplicate,
    /// The name of the other side.
    Dns,
    Time,
    /// The proxy that the environment names.
    Proxy,
    /// The encrypted connection and the certificate.
    Tls,
    /// The service's own answer.
    Service,
}

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Address => "address",
            Self::Gateway => "gateway",
            Self::Duplicate => "duplicate",
            Self::Dns => "dns",
            Self::Time => "time",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Service => "service",
        })
    }
}

/// How a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be, or not needed.
    Ok,
    /// Not as it should be, but not what blocks the service.
    Warn,
    /// Blocks the service, at least at times.
    Broken,
    /// Could not be looked at.
    NotLookedAt,
}

/// What was found, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    Ok,
    NotNeeded,
    NotLookedAt,
    // link
    NoInterface,
    SwitchedOff,
    NoCarrier,
    Waiting,
    // address
    NoAddress,
    LinkLocalOnly,
    DuplicateDetected,
    Tentative,
    // gateway
    NoRoute,
    GatewaySilent,
    NotProbed,
    // duplicate
    DuplicateAddress,
    // dns
    NoNameServer,
    ServerSilent,
    ServerFailure,
    NoSuchName,
    NoAddressForName,
    // time
    NoReference,
    ServersSilent,
    ClockBehind,
    ClockAhead,
    // proxy
    ProxyUnreachable,
    ProxyRefuses,
    ProxyWantsPassword,
    ProxyCannotReach,
    NotAProxy,
    ProxyUrl,
    ProxyCertificate,
    ProxyExceptions,
    // tls
    NotTls,
    HandshakeFailed,
    CertificateNotYetValid,
    CertificateExpired,
    UnknownIssuer,
    WrongName,
    CertificateRefused,
    NotVerified,
    // service
    ConnectionRefused,
    TimedOut,
    Unreachable,
    NotHttp,
    WantsHttps,
    NotTheService,
    Unavailable,
    ServiceError,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub station: Station,
    pub verdict: Verdict,
    /// What was found, for programs.
    pub code: Code,
    /// What was seen, in words.
    pub seen: String,
    /// What to do next, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The station that keeps this one from being looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because_of: Option<Station>,
}

impl Finding {
    pub(super) fn ok(station: Station, seen: impl Into<String>) -> Self {
        Self { station, verdict: Verdict::Ok, code: Code::Ok, seen: seen.into(), next: None, because_of: None }
    }

    pub(super) fn not_needed(station: Station, seen: impl Into<String>) -> Self {
        Self { code: Code::NotNeeded, ..Self::ok(station, seen) }
    }

    pub(super) fn warn(station: Station, code: Code, seen: impl Into<String>, next: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, code, next: Some(next.into()), ..Self::ok(station, seen) }
    }

    pub(super) fn broken(station: Station, code: Code, seen: impl Into<String>, next: impl Into<String>) -> Self {
        Self { verdict: Verdict::Broken, ..Self::warn(station, code, seen, next) }
    }

    pub(super) fn skipped(station: Station, because_of: Station) -> Self {
        let seen = format!("not checked, because of {because_of}");
        Self {
            verdict: Verdict::NotLookedAt,
            code: Code::NotLookedAt,
            because_of: Some(because_of),
            ..Self::ok(station, seen)
        }
    }

    /// As broken only where the service was not reached.
    pub(super) fn unless(mut self, reached: bool) -> Self {
        if reached && self.verdict == Verdict::Broken {
            self.verdict = Verdict::Warn;
        }
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Asked for, without what may be secret in it.
    pub url: String,
    /// Whether the service answered as one.
    pub reachable: bool,
    /// The first break, if the service was not reached.
    pub cause: Option<Station>,
    /// All nine, in order.
    pub stations: Vec<Finding>,
}

impl Report {
    pub(super) fn new(url: String, reachable: bool, stations: Vec<Finding>) -> Self {
        let first = stations.iter().find(|finding| finding.verdict == Verdict::Broken).map(|finding| finding.station);
        Self { schema_version: SCHEMA_VERSION, url, reachable, cause: first.filter(|_| !reachable), stations }
    }

    pub fn station(&self, station: Station) -> Option<&Finding> {
        self.stations.iter().find(|finding| finding.station == station)
    }

    /// One line a station, what to do below it, and a conclusion.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Finding { station, verdict, seen, next, .. } in &self.stations {
            let verdict = match verdict {
                Verdict::Ok => "OK",
                Verdict::Warn => "WARN",
                Verdict::Broken => "BROKEN",
                Verdict::NotLookedAt => "-",
            };
            let station = station.to_string();
            // Some of it others have said.
            let _ = writeln!(text, "{station:<9}  {verdict:<6}  {}", printable(seen.as_bytes()));
            if let Some(next) = next {
                let _ = writeln!(text, "{:<9}  {:<6}  -> {}", "", "", printable(next.as_bytes()));
            }
        }
        let url = &self.url;
        let unsound = self.stations.iter().any(|finding| matches!(finding.verdict, Verdict::Warn | Verdict::Broken));
        let _ = match (self.reachable, self.cause) {
            (true, _) if unsound => {
                writeln!(text, "\nThe service at {url} can be reached, but with warnings: see above.")
            }
            (true, _) => writeln!(text, "\nThe service at {url} can be reached."),
            (false, Some(cause)) => {
                writeln!(text, "\nThe service at {url} cannot be reached. First failure: {cause}.")
            }
            (false, None) => writeln!(text, "\nThe service at {url} cannot be reached."),
        };
        text
    }
}
