//! Whether the Tang servers that disks will be bound to answer (docs/compatibility.md#tang-connectivity-check).

use crate::{
    codec::text::printable,
    http::{MAX_TIMEOUT, explain},
    privileges::{self, PrivilegeError},
};
use api::{TangConnectivityResponse, TangServer, TangServerResponse, http, read_body};
use serde::Deserialize;
use std::{
    fmt::Write,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};
use ureq::Agent;

/// Of one request; all are asked at the same time.
const MAX_SERVERS: usize = 100;
const MAX_REDIRECTS: u32 = 10;
/// Of an advertisement; a server's is a few KiB.
const MAX_BODY_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TangOptions {
    /// For connecting, TLS not included.
    pub connect_timeout: Duration,
    /// For all answers, and so for the check; an hour at most. The real agent waits forever.
    pub timeout: Duration,
}

impl Default for TangOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(10), timeout: Duration::from_secs(30) }
    }
}

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the Tang request is not a JSON object with tang_servers, a text")]
    Json {
        /// Cause, with line and column.
        source: serde_json::Error,
    },
    /// The text inside is not a list of servers.
    #[error("tang_servers is not a JSON array of servers (url and thumbprint)")]
    Servers {
        /// Cause, with line and column inside the text.
        source: serde_json::Error,
    },
    /// No disk is bound to so many.
    #[error("{count} Tang servers to ask; the limit is {MAX_SERVERS}")]
    TooMany { count: usize },
}

/// Why a server's answer is not usable. The texts go into the service's report; the first three are the real agent's.
#[derive(Debug, thiserror::Error)]
pub enum TangError {
    /// Not a URL that can be asked.
    #[error("parse \"{}\": invalid URI for request", http::public_url(url).escape_debug())]
    Url {
        /// As given; not all of it is shown.
        url: String,
    },
    /// No key to ask for.
    #[error("Tang thumbprint isn't set for server: {}", http::public_url(url))]
    NoThumbprint {
        /// Of the server; not all of it is shown.
        url: String,
    },
    /// The server has no such key, or is not a Tang server.
    #[error("HTTP GET failure. Status Code: {status}")]
    Status { status: u16 },
    #[error("Get \"{url}\": {cause}")]
    Request {
        url: String,
        /// What the HTTP client says.
        cause: String,
    },
    /// The response ended early, came too slowly or is too long.
    #[error("Get \"{url}\": {cause}")]
    Body {
        url: String,
        /// How much came, and why no more.
        cause: String,
    },
    /// A 200 with nothing in it.
    #[error("Get \"{url}\": the response is empty")]
    Empty { url: String },
    /// A 200 that is not an advertisement.
    #[error("Get \"{url}\": the response is not an advertisement of a Tang server (line {}, column {})", cause.line(), cause.column())]
    NotAnAdvertisement {
        url: String,
        /// Why not. Only the position is shown: serde's text quotes as much as the server likes.
        cause: serde_json::Error,
    },
}

/// What one server said.
#[derive(Debug)]
pub struct Finding {
    /// The server and the key asked for.
    pub server: TangServer,
    /// How long it took.
    pub elapsed: Duration,
    pub result: Result<TangServerResponse, TangError>,
}

/// A signed advertisement (RFC 7515 §7.2): one signature, or several. Others of its fields don't matter.
#[derive(Deserialize)]
struct Advertisement {
    #[serde(default)]
    payload: String,
    #[serde(default)]
    signatures: Vec<api::TangServerSignature>,
}

/// The servers of a step's request.
pub fn from_json(json: &[u8]) -> Result<Vec<TangServer>, RequestError> {
    let request: api::TangConnectivityRequest =
        serde_json::from_slice(json).map_err(|source| RequestError::Json { source })?;
    let servers: Vec<TangServer> =
        serde_json::from_slice(request.tang_servers.as_bytes()).map_err(|source| RequestError::Servers { source })?;
    if servers.len() > MAX_SERVERS {
        return Err(RequestError::TooMany { count: servers.len() });
    }
    Ok(servers)
}

/// Asks every server for its advertisement, all at the same time, each on a thread; findings are in the order of `servers`.
///
/// This thread loses all capabilities for good.
pub fn check(servers: &[TangServer], options: &TangOptions) -> Result<Vec<Finding>, CheckError> {
    privileges::drop_all()?;
    let agent = http::agent(&http::HttpConfig::default())?;
    Ok(thread::scope(|scope| {
        let ask = |server| {
            let agent = &agent;
            scope.spawn(move || ask(agent, server, options))
        };
        let asked: Vec<_> = servers.iter().map(ask).collect();
        let join = |thread: thread::ScopedJoinHandle<_>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        asked.into_iter().map(join).collect()
    }))
}

/// Why no server was asked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Http(#[from] http::HttpConfigError),
}

fn ask(agent: &Agent, server: &TangServer, options: &TangOptions) -> Finding {
    let started = Instant::now();
    let result = advertisement(agent, server, options);
    Finding { server: server.clone(), elapsed: started.elapsed(), result }
}

fn advertisement(agent: &Agent, server: &TangServer, options: &TangOptions) -> Result<TangServerResponse, TangError> {
    let base = &server.url;
    let parsed: Option<ureq::http::Uri> = base.parse().ok();
    if !parsed.is_some_and(|uri| uri.scheme().is_some() && uri.host().is_some()) {
        return Err(TangError::Url { url: base.clone() });
    }
    if server.thumbprint.is_empty() {
        return Err(TangError::NoThumbprint { url: base.clone() });
    }
    let tang_url = format!("{base}/adv/{}", server.thumbprint);
    let request = agent.get(&tang_url).config().max_redirects(MAX_REDIRECTS);
    let request = request
        .timeout_connect(Some(options.connect_timeout.min(MAX_TIMEOUT)))
        .timeout_global(Some(options.timeout.min(MAX_TIMEOUT)))
        .build();
    let url = || http::public_url(&tang_url);
    let mut response =
        request.call().map_err(|error| TangError::Request { url: url(), cause: explain(&error, MAX_REDIRECTS) })?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(TangError::Status { status });
    }
    let body = read_body(&mut response, MAX_BODY_BYTES)
        .map_err(|error| TangError::Body { url: url(), cause: error.to_string() })?;
    if body.is_empty() {
        return Err(TangError::Empty { url: url() });
    }
    let not_one = |cause| TangError::NotAnAdvertisement { url: url(), cause };
    parse_advertisement(&body, tang_url.clone()).map_err(not_one)
}

/// Reads a server's answer to a GET of `tang_url`: JSON (RFC 7515 §7.2).
pub fn parse_advertisement(body: &[u8], tang_url: String) -> Result<TangServerResponse, serde_json::Error> {
    let Advertisement { payload, signatures } = serde_json::from_slice(body)?;
    Ok(TangServerResponse { payload, signatures, tang_url })
}

/// The step's reply: all advertisements, or nothing but that one is missing.
pub fn response(findings: &[Finding]) -> TangConnectivityResponse {
    let all: Result<Vec<_>, _> = findings.iter().map(|finding| finding.result.as_ref()).collect();
    match all {
        Ok(advertisements) => TangConnectivityResponse {
            is_success: true,
            tang_server_response: Some(advertisements.into_iter().cloned().collect()),
        },
        Err(_) => TangConnectivityResponse::default(),
    }
}

/// What the service stores as the report when a server failed, in the step's shape; `None` when none did.
pub fn report(findings: &[Finding]) -> Option<String> {
    let errors: Vec<String> =
        findings.iter().filter_map(|finding| Some(finding.result.as_ref().err()?.to_string())).collect();
    (!errors.is_empty()).then(|| list(&errors))
}

/// The shape in which Go's multierror lists errors.
pub(crate) fn list(errors: &[String]) -> String {
    let mut text = match errors.len() {
        1 => "1 error occurred:\n".to_owned(),
        count => format!("{count} errors occurred:\n"),
    };
    for error in errors {
        let _ = writeln!(text, "\t* {error}");
    }
    text + "\n"
}

/// For a reader at a terminal.
pub(crate) fn table(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let result = match &finding.result {
            Ok(advertisement) => format!("answers, {} signatures", advertisement.signatures.len()),
            Err(error) => format!("FAILED: {}", printable(error.to_string().as_bytes())),
        };
        let url = printable(http::public_url(&finding.server.url).as_bytes());
        let _ = writeln!(text, "{url}  {result} ({} ms)", finding.elapsed.as_millis());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_a_list_inside_a_text() {
        let servers =
            from_json(br#"{"tang_servers":"[{\"url\":\"http://a\",\"thumbprint\":\"x\",\"new\":1},{}]","y":0}"#);
        let first = TangServer { url: "http://a".into(), thumbprint: "x".into() };
        assert_eq!(servers.unwrap(), [first, TangServer::default()]);
        let error = |json: &str| from_json(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("{}"), "the Tang request is not a JSON object with tang_servers, a text");
        let inside = "tang_servers is not a JSON array of servers (url and thumbprint)";
        assert_eq!(error(r#"{"tang_servers":""}"#), inside);
        let many = |count: usize| format!(r#"{{"tang_servers":"[{{}}{}]"}}"#, ",{}".repeat(count - 1));
        assert_eq!(from_json(many(100).as_bytes()).unwrap().len(), 100);
        assert_eq!(error(&many(101)), "101 Tang servers to ask; the limit is 100");
    }

    #[test]
    fn servers_that_can_t_be_asked_are_not() {
        let server = |url: &str, thumbprint: &str| TangServer { url: url.into(), thumbprint: thumbprint.into() };
        let agent = http::agent(&http::HttpConfig::default()).unwrap();
        let ask = |server| ask(&agent, &server, &TangOptions::default());
        let findings = [ask(server("tang.example.com", "x")), ask(server("http://t", ""))];
        let expected = "2 errors occurred:\n\t* parse \"tang.example.com\": invalid URI for request\n\
                        \t* Tang thumbprint isn't set for server: http://t\n\n";
        assert_eq!(report(&findings).unwrap(), expected);
        assert_eq!(serde_json::to_string(&response(&findings)).unwrap(), r#"{"tang_server_response":null}"#);
        assert_eq!(report(&[]), None);

        let findings = [ask(server("http://user:secret@t", "")), ask(server("http://user:secret@a b", "x"))];
        let expected = "2 errors occurred:\n\t* Tang thumbprint isn't set for server: http://t\n\
                        \t* parse \"http://a b\": invalid URI for request\n\n";
        assert_eq!(report(&findings).unwrap(), expected, "the service stores and shows it");

        // An address of this host where nothing listens.
        let longest = TangOptions { connect_timeout: Duration::MAX, timeout: Duration::MAX };
        let finding = super::ask(&agent, &server("http://127.0.0.1:1", "x"), &longest);
        assert!(matches!(finding.result, Err(TangError::Request { .. })), "{finding:?}");
    }
}
