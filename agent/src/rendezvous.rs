//! The service of a rack with nothing else around: one of the rack's own hosts, known by its address or by asking around.

use crate::{
    notify::Notifier,
    stop::{Stop, jittered},
};
use api::{
    InfraEnvId,
    http::{self, HttpConfig},
};
use mdns_sd::{Receiver, ServiceDaemon, ServiceEvent};
use serde::Deserialize;
use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr, time::Duration};

/// Where the service listens unless told otherwise.
const PORT: u16 = 8090;
/// Between two attempts: the host may still be booting.
const PAUSE: Duration = Duration::from_secs(3);
/// Of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// An answer is two identifiers.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Services that are believed to be there, and news of them taken at once.
const MAX_CANDIDATES: usize = 16;
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

/// What no place is called.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is none of ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT, one of these behind https://, and mdns")]
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
            Self::Announced => f.write_str("whatever address multicast DNS tells"),
        }
    }
}

/// Who is asked.
enum Candidates {
    /// This one.
    Known(String),
    /// Those that were heard of until now.
    Heard { urls: BTreeSet<String>, events: Receiver<ServiceEvent>, daemon: ServiceDaemon },
}

impl Candidates {
    fn of(place: &Place) -> Result<Self, mdns_sd::Error> {
        Ok(match place {
            Place::At(url) => Self::Known(url.clone()),
            Place::Announced => {
                let daemon = ServiceDaemon::new()?;
                let events = daemon.browse(api::RENDEZVOUS_SERVICE)?;
                Self::Heard { urls: BTreeSet::new(), events, daemon }
            }
        })
    }

    /// Whom to ask now.
    fn urls(&mut self) -> Vec<String> {
        match self {
            Self::Known(url) => vec![url.clone()],
            Self::Heard { urls, events, .. } => {
                for event in events.try_iter().take(MAX_EVENTS) {
                    let ServiceEvent::ServiceResolved(found) = event else { continue };
                    let url = found.get_property_val_str(api::RENDEZVOUS_URL_KEY).filter(|url| is_base_url(url));
                    // Anybody may say anything: neither is all of it kept, nor a text that is no URL.
                    if let Some(url) = url.filter(|_| urls.len() < MAX_CANDIDATES) {
                        urls.insert(url.to_owned());
                    }
                }
                urls.iter().cloned().collect()
            }
        }
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

/// What a rendezvous tells.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Answer {
    infra_env_id: InfraEnvId,
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// By HTTP.
    #[error(transparent)]
    Http(#[from] http::HttpConfigError),
    /// By multicast DNS.
    #[error("cannot listen to multicast DNS")]
    Multicast(#[from] mdns_sd::Error),
}

/// Asks until there is an answer, however long that takes: the machine that serves may be the last to boot. `None` when stopped.
pub fn find(place: &Place, config: &HttpConfig, stop: &Stop) -> Result<Option<(String, InfraEnvId)>, FindError> {
    let client = http::agent(config)?;
    let mut candidates = Candidates::of(place)?;
    let notifier = Notifier::from_env();
    notifier.ready();
    let mut last = String::new();
    for attempt in 0_u32.. {
        let mut why = "nobody has told one yet".to_owned();
        let urls = candidates.urls();
        if urls.len() > 1 {
            tracing::warn!(
                "more than one rendezvous is announced, the first that answers is taken: {}",
                urls.join(", ")
            );
        }
        for url in urls {
            match ask(&client, &url) {
                Ok(answer) => {
                    tracing::info!(url, infra_env_id = %answer.infra_env_id, "the rendezvous answers");
                    return Ok(Some((url, answer.infra_env_id)));
                }
                Err(error) => why = format!("{url}: {error}"),
            }
        }
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

fn ask(client: &ureq::Agent, url: &str) -> Result<Answer, String> {
    let request = client.get(format!("{url}/landfall/rendezvous"));
    let mut response =
        request.config().timeout_global(Some(TIMEOUT)).build().call().map_err(|error| error.to_string())?;
    let body =
        response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(|error| error.to_string())?;
    serde_json::from_slice(&body).map_err(|error| format!("its answer names no infra-env: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

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

    #[test]
    fn an_answer_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place: Place = listener.local_addr().unwrap().to_string().parse().unwrap();
        let id = "bbbbbbbb-0000-0000-0000-000000000001";
        let server = thread::spawn(move || {
            let good = format!("{{\"cluster_id\": null, \"infra_env_id\": \"{id}\"}}");
            for (status, body) in [("503 no", "{}"), ("200 OK", good.as_str())] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let count = stream.read(&mut request).unwrap();
                assert!(request[..count].starts_with(b"GET /landfall/rendezvous "));
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
                .unwrap();
            }
        });
        let (url, found) = find(&place, &HttpConfig::default(), &Stop::default()).unwrap().unwrap();
        assert_eq!((url, found.to_string().as_str()), (place.to_string(), id));
        server.join().unwrap();
    }
}
