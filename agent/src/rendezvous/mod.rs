//! The service of an isolated rack: one of the rack's own hosts, found by its address or by multicast DNS.

mod trust;

pub use trust::{Found, ParseKeyError, PublicKey, Trust, Unproven, read_key};

use crate::{notify::Notifier, pace::jittered};
use api::{
    http::{self, HttpConfig},
    proxy::ProxyVariables,
    rendezvous::{Answer, PATH, SERVICE_TYPE, URL_KEY},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use kernel::Cancel;
use kernel::order;
use mdns_sd::{Receiver, ServiceDaemon, ServiceEvent};
use ring::rand::{SecureRandom, SystemRandom};
use std::{collections::VecDeque, fmt, net::IpAddr, str::FromStr, time::Duration};

/// The service's default port.
const PORT: u16 = 8090;
/// Between two attempts: the host may still be booting.
const PAUSE: Duration = Duration::from_secs(3);
/// Of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// An answer is two identifiers, and what proves them: a signature and certificates.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// As many as a hash of SHA-256 has.
const NONCE_BYTES: usize = 32;
/// Services that are asked in one attempt, announcements that are stored, and news of them taken at once.
const MAX_CANDIDATES: usize = 16;
const MAX_HEARD: usize = 1000;
const MAX_EVENTS: usize = 1000;
/// Attempts between two log lines that say the same.
const QUIET_ATTEMPTS: u32 = 20;

/// A place as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Base URL of the service.
    At(String),
    /// Wherever multicast DNS says (RFC 6762, RFC 6763).
    Announced,
}

/// Not the name of a place.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT, one of these after https://, or mdns")]
pub struct ParsePlaceError(String);

impl FromStr for Place {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<Self, ParsePlaceError> {
        if text == "mdns" {
            return Ok(Self::Announced);
        }
        let (scheme, rest) = text.strip_prefix("https://").map_or(("http", text), |rest| ("https", rest));
        let bare: Result<IpAddr, _> = rest.trim_matches(['[', ']']).parse();
        Ok(Self::At(match bare {
            Ok(IpAddr::V4(address)) => format!("{scheme}://{address}:{PORT}"),
            Ok(IpAddr::V6(address)) => format!("{scheme}://[{address}]:{PORT}"),
            Err(_) => {
                let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
                let port: u16 = match port {
                    "" if host == rest => PORT,
                    port => port.parse().map_err(|_| ParsePlaceError(text.to_owned()))?,
                };
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
                if host.is_empty() || !host.chars().all(plain) || (host.contains(':') && !host.starts_with('[')) {
                    return Err(ParsePlaceError(text.to_owned()));
                }
                format!("{scheme}://{host}:{port}")
            }
        }))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(url) => f.write_str(url),
            Self::Announced => f.write_str("any address from multicast DNS"),
        }
    }
}

enum Candidates {
    Known(String),
    /// Those that were heard of until now.
    Heard {
        heard: Heard,
        events: Receiver<ServiceEvent>,
        daemon: ServiceDaemon,
    },
}

impl Candidates {
    fn browse(place: &Place) -> Result<Self, mdns_sd::Error> {
        Ok(match place {
            Place::At(url) => Self::Known(url.clone()),
            Place::Announced => {
                let daemon = ServiceDaemon::new()?;
                let events = daemon.browse(SERVICE_TYPE)?;
                Self::Heard { heard: Heard::default(), events, daemon }
            }
        })
    }

    /// Whom to ask now.
    fn urls(&mut self) -> Vec<String> {
        match self {
            Self::Known(url) => vec![url.clone()],
            Self::Heard { heard, events, .. } => {
                for event in events.try_iter().take(MAX_EVENTS) {
                    let ServiceEvent::ServiceResolved(found) = event else { continue };
                    if let Some(url) = found.get_property_val_str(URL_KEY) {
                        heard.add(url);
                    }
                }
                heard.turn()
            }
        }
    }
}

/// URLs that were announced. Any host may announce any number: they are asked in turn, so that an attacker's don't crowd
/// out the service's own.
#[derive(Debug, Default)]
struct Heard(VecDeque<String>);

impl Heard {
    /// Stores one, if it is a URL.
    fn add(&mut self, url: &str) {
        if !is_base_url(url) || self.0.iter().any(|known| known == url) {
            return;
        }
        // The last was asked not long ago, and was not the service.
        if self.0.len() == MAX_HEARD {
            self.0.pop_back();
        }
        self.0.push_front(url.to_owned());
    }

    fn turn(&mut self) -> Vec<String> {
        let turn: Vec<_> = self.0.iter().take(MAX_CANDIDATES).cloned().collect();
        self.0.rotate_left(turn.len());
        turn
    }
}

impl Drop for Candidates {
    fn drop(&mut self) {
        if let Self::Heard { daemon, .. } = self {
            let _ = daemon.shutdown();
        }
    }
}

/// Whether a text that a stranger sent is a URL without user, path or anything else.
fn is_base_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    !rest.is_empty() && rest.len() <= 255 && rest.chars().all(plain)
}

/// Why no host can be asked.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(transparent)]
    Http(#[from] http::HttpConfigError),
    #[error("cannot listen to multicast DNS")]
    Multicast(#[from] mdns_sd::Error),
}

/// Why an answer is refused.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("https is required, as a token or a CA certificate is configured")]
    Plain,
    #[error(transparent)]
    Unproven(#[from] Unproven),
    #[error("{0}")]
    Request(#[from] ureq::Error),
    #[error("its answer has no infra-env: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the system has no random numbers")]
    Random,
}

/// Asks until there is an answer that is proven, however long that takes: the machine that serves may be the last to boot. `None`
/// when stopped.
pub fn find(place: &Place, trust: Trust, config: &HttpConfig, stop: &Cancel) -> Result<Option<Found>, FindError> {
    if *place == Place::Announced && trust == Trust::default() {
        tracing::warn!(
            "rendezvous_unsigned is set: the first host to answer on this network is trusted as the service"
        );
    }
    let asker = Asker::new(trust, config)?;
    let mut candidates = Candidates::browse(place)?;
    let notifier = Notifier::from_env();
    notifier.ready();
    let mut last = String::new();
    for attempt in 0_u32.. {
        let mut refused = Vec::new();
        for url in candidates.urls() {
            notifier.alive();
            match asker.ask(&url) {
                Ok(found) => {
                    tracing::info!(url, infra_env_id = %found.infra_env_id, "the rendezvous answers");
                    return Ok(Some(found));
                }
                Err(error) => refused.push(format!("{url}: {error}")),
            }
        }
        order::sort(&mut refused);
        let why = if refused.is_empty() { "none announced yet".to_owned() } else { refused.join("; ") };
        let line = format!("waiting for the rendezvous at {place}: {why}");
        if line != last || attempt % QUIET_ATTEMPTS == 0 {
            tracing::warn!("{line}");
        }
        notifier.status(&line);
        notifier.alive();
        last = line;
        if stop.sleep(jittered(PAUSE, 20)) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Asks, with the checks of its [`Trust`].
struct Asker {
    trust: Trust,
    http: ureq::Agent,
    /// Checks no certificate, where the one to check is learned with the answer: nothing but a nonce is sent by it.
    blind: Option<ureq::Agent>,
}

impl Asker {
    fn new(trust: Trust, config: &HttpConfig) -> Result<Self, http::HttpConfigError> {
        let http = match config.ca_cert.as_deref().filter(|_| trust.authority_only) {
            Some(path) => {
                let no_certificate = || http::HttpConfigError::NoCertificate { path: path.to_owned() };
                let read = |source| http::HttpConfigError::Read { path: path.to_owned(), source };
                let pem = std::fs::read(path).map_err(read)?;
                let trusting = http::configuration_as(None, Some(&pem), false).ok_or_else(no_certificate)?;
                http::build(trusting, ProxyVariables::from_env())
            }
            None => http::agent(config)?,
        };
        let learns = trust.key.is_some() && config.ca_cert.is_none() && !config.insecure;
        let blind = learns.then(|| http::agent(&HttpConfig { insecure: true, ..config.clone() })).transpose()?;
        Ok(Self { trust, http, blind })
    }

    fn ask(&self, url: &str) -> Result<Found, AskError> {
        let is_secure = url.starts_with("https://");
        if self.trust.https_only && !is_secure {
            return Err(AskError::Plain);
        }
        let Some(key) = &self.trust.key else {
            let answer = request(&self.http, url, "")?;
            return Ok(Found { url: url.to_owned(), infra_env_id: answer.infra_env_id, ca_pem: None });
        };
        let Some(blind) = self.blind.as_ref().filter(|_| is_secure) else {
            return Ok(Found { ca_pem: None, ..challenge(&self.http, url, key)? });
        };
        let learned = challenge(blind, url, key)?;
        // What answered may have been passed on: the connection itself is the service's only if its certificate fits.
        let checked = learned.ca_pem.as_ref().map(|pem| http::configuration_trusting([pem.as_bytes()]));
        let checked = checked.map(|trusting| http::build(trusting, ProxyVariables::from_env()));
        let again = challenge(checked.as_ref().unwrap_or(&self.http), url, key)?;
        Ok(Found { ca_pem: learned.ca_pem, ..again })
    }
}

/// Asks with a new nonce, and believes what is signed for it.
fn challenge(http: &ureq::Agent, url: &str, key: &PublicKey) -> Result<Found, AskError> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| AskError::Random)?;
    let nonce = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let answer = request(http, url, &format!("?nonce={nonce}"))?;
    Ok(key.prove(url, &nonce, answer)?)
}

fn request(http: &ureq::Agent, url: &str, query: &str) -> Result<Answer, AskError> {
    let request =
        http.get(format!("{url}{PATH}{query}")).config().timeout_global(Some(TIMEOUT)).max_redirects(0).build();
    let mut response = request.call()?;
    let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
    Ok(serde_json::from_slice(&body)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use testkit::http::{Server, ok, reply};

    #[test]
    fn places_become_urls() {
        let url = |text: &str| text.parse::<Place>().map(|place| place.to_string()).map_err(|error| error.to_string());
        assert_eq!(url("192.0.2.1").unwrap(), "http://192.0.2.1:8090");
        assert_eq!(url("192.0.2.1:80").unwrap(), "http://192.0.2.1:80");
        assert_eq!(url("2001:db8::1").unwrap(), "http://[2001:db8::1]:8090");
        assert_eq!(url("[2001:db8::1]:81").unwrap(), "http://[2001:db8::1]:81");
        assert_eq!(url("node-0.rack").unwrap(), "http://node-0.rack:8090");
        assert_eq!(url("https://192.0.2.1").unwrap(), "https://192.0.2.1:8090");
        assert_eq!("mdns".parse::<Place>().unwrap(), Place::Announced);
        for bad in ["", ":80", "a b", "a:port", "http://x", "x/y", "::1:99999999"] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_strangers_announce_is_a_plain_url_or_nothing() {
        for good in ["http://192.0.2.1:8090", "https://[2001:db8::1]:1", "http://rack.local"] {
            assert!(is_base_url(good), "{good}");
        }
        for bad in ["", "http://", "ftp://x", "http://u:p@x", "http://x/../y", "http://x\r\nHost: y", "192.0.2.1:80"] {
            assert!(!is_base_url(bad), "{bad}");
        }
        assert!(!is_base_url(&format!("http://{}", "a".repeat(300))));
    }

    fn place(server: &Server) -> Place {
        server.address.to_string().parse().unwrap()
    }

    #[test]
    fn an_answer_is_waited_for() {
        let id = "bbbbbbbb-0000-0000-0000-000000000001";
        let good = format!("{{\"cluster_id\": null, \"infra_env_id\": \"{id}\"}}");
        let server = Server::in_order([reply("503 no", "", "{}"), ok(good)]);
        let (url, place) = (server.url(""), place(&server));
        let found = find(&place, Trust::default(), &HttpConfig::default(), &Cancel::default()).unwrap().unwrap();
        assert_eq!((found.url, found.infra_env_id.to_string().as_str(), found.ca_pem), (url, id, None));
        assert_eq!(server.finish()[1].path(), "/landfall/rendezvous");
    }

    #[test]
    fn a_place_with_a_key_is_challenged_until_its_answer_is_signed_for_it() {
        let signer = trust::tests::Signer::new();
        let key = Some(signer.public_text().parse().unwrap());
        let (count, location) = (AtomicUsize::new(0), "Location: http://192.0.2.1/landfall/rendezvous\r\n");
        let server = Server::start(move |request| {
            let url = match count.fetch_add(1, Ordering::Relaxed) {
                0 => return reply("302 Found", location, ""),
                1 => "http://192.0.2.1:8090".to_owned(),
                _ => format!("http://{}", request.header("host").unwrap()),
            };
            let nonce = request.target().split_once("nonce=").unwrap().1;
            ok(serde_json::to_string(&signer.answer(&url, None, nonce)).unwrap())
        });
        let trust = Trust { key, ..Trust::default() };
        let found = find(&place(&server), trust, &HttpConfig::default(), &Cancel::default()).unwrap().unwrap();
        assert_eq!((found.url, server.requests().len()), (server.url(""), 3));
    }

    #[test]
    fn many_announcements_do_not_keep_one_from_being_asked() {
        let mut heard = Heard::default();
        for index in 0..200 {
            heard.add(&format!("http://192.0.2.66:{index}"));
        }
        heard.add("http://192.0.2.66:1");
        heard.add("http://u:p@x");
        heard.turn();
        heard.add("http://192.0.2.1:8090");
        assert!(heard.turn().contains(&"http://192.0.2.1:8090".to_owned()), "the newest is among the next");
        let asked: std::collections::BTreeSet<_> = (0..13).flat_map(|_| heard.turn()).collect();
        assert_eq!((heard.0.len(), asked.len()), (201, 201));
        for index in 0..2 * MAX_HEARD {
            heard.add(&format!("http://192.0.2.67:{index}"));
        }
        heard.add("http://192.0.2.2:8090");
        assert!(heard.0.len() == MAX_HEARD && heard.turn().contains(&"http://192.0.2.2:8090".to_owned()));
    }

    #[test]
    fn with_a_token_nothing_is_asked_without_tls() {
        let trust = Trust { https_only: true, ..Trust::default() };
        let asker = Asker::new(trust, &HttpConfig::default()).unwrap();
        assert!(matches!(asker.ask("http://192.0.2.1:8090"), Err(AskError::Plain)));
    }
}
