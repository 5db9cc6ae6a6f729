//! What the doctor says: one finding a station, and what follows from them.

use crate::codec::text::printable;
use kernel::wrapped;
use serde::Serialize;
use std::fmt;

/// Width of the columns before what was seen.
const HANG: usize = 19;

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

    /// One line a station, what to do below it, and a conclusion; lines longer than `columns` are wrapped.
    pub fn to_text(&self, columns: usize) -> String {
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
            let head = format!("{station:<9}  {verdict:<6}  ");
            text.push_str(&wrapped(&head, &printable(seen.as_bytes()), HANG, columns));
            if let Some(next) = next {
                let head = format!("{:HANG$}-> ", "");
                text.push_str(&wrapped(&head, &printable(next.as_bytes()), HANG + "-> ".len(), columns));
            }
        }
        let url = &self.url;
        let unsound = self.stations.iter().any(|finding| matches!(finding.verdict, Verdict::Warn | Verdict::Broken));
        let conclusion = match (self.reachable, self.cause) {
            (true, _) if unsound => format!("The service at {url} can be reached, but with warnings: see above."),
            (true, _) => format!("The service at {url} can be reached."),
            (false, Some(cause)) => format!("The service at {url} cannot be reached. First failure: {cause}."),
            (false, None) => format!("The service at {url} cannot be reached."),
        };
        format!("{text}\n{}", wrapped("", &conclusion, 0, columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_hang_below_their_column() {
        let url = "https://assisted-service.apps.hub.example.com:8443";
        let station =
            Finding::broken(Station::Dns, Code::NoSuchName, "no server knows the name of the service", "ask for it");
        let text = Report::new(url.to_owned(), false, vec![station]).to_text(44);
        let expected = "\
dns        BROKEN  no server knows the name\n                   of the service
                   -> ask for it

The service at
https://assisted-service.apps.hub.example.com:8443
cannot be reached. First failure: dns.
";
        assert_eq!(text, expected);
    }
}
