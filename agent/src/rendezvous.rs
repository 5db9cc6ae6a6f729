//! The service of a rack with nothing else around: one of the rack's own hosts, known by its address or by asking around.

use crate::{
    notify::Notifier,
    stop::{Stop, jittered},
};
use api::{
    InfraEnvId,
    http::{self, HttpConfig},
};
use serde::Deserialize;
use std::{net::IpAddr, str::FromStr, time::Duration};

/// Where the service listens unless told otherwise.
const PORT: u16 = 8090;
/// Between two attempts: the host may still be booting.
const PAUSE: Duration = Duration::from_secs(3);
/// Of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// An answer is two identifiers.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Attempts between two log lines that say the same.
const QUIET_ATTEMPTS: u32 = 20;

/// A place as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(String);

/// What no place is called.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is neither ADDRESS, ADDRESS:PORT nor [ADDRESS]:PORT")]
pub struct ParsePlaceError(String);

impl FromStr for Place {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<Self, ParsePlaceError> {
        let bare: Result<IpAddr, _> = text.trim_matches(['[', ']']).parse();
        let url = match bare {
            Ok(IpAddr::V4(address)) => format!("http://{address}:{PORT}"),
            Ok(IpAddr::V6(address)) => format!("http://[{address}]:{PORT}"),
            Err(_) => {
                let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
                let port: u16 = match port {
                    "" if host == text => PORT,
                    port => port.parse().map_err(|_| ParsePlaceError(text.to_owned()))?,
                };
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
                if host.is_empty() || !host.chars().all(plain) || (host.contains(':') && !host.starts_with('[')) {
                    return Err(ParsePlaceError(text.to_owned()));
                }
                format!("http://{host}:{port}")
            }
        };
        Ok(Self(url))
    }
}

/// What a rendezvous tells.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Answer {
    infra_env_id: InfraEnvId,
}

/// Asks until there is an answer, however long that takes: the machine that serves may be the last to boot. `None` when stopped.
pub fn find(
    place: &Place,
    config: &HttpConfig,
    stop: &Stop,
) -> Result<Option<(String, InfraEnvId)>, http::HttpConfigError> {
    let client = http::agent(config)?;
    let notifier = Notifier::from_env();
    notifier.ready();
    let mut last = String::new();
    for attempt in 0_u32.. {
        let why = match ask(&client, place) {
            Ok(answer) => {
                tracing::info!(url = place.0, infra_env_id = %answer.infra_env_id, "the rendezvous answers");
                return Ok(Some((place.0.clone(), answer.infra_env_id)));
            }
            Err(why) => why,
        };
        let line = format!("waiting for the rendezvous at {}: {why}", place.0);
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

fn ask(client: &ureq::Agent, place: &Place) -> Result<Answer, String> {
    let request = client.get(format!("{}/landfall/rendezvous", place.0));
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
        let url = |text: &str| text.parse::<Place>().map(|place| place.0).map_err(|error| error.to_string());
        assert_eq!(url("192.0.2.1").unwrap(), "http://192.0.2.1:8090");
        assert_eq!(url("192.0.2.1:80").unwrap(), "http://192.0.2.1:80");
        assert_eq!(url("2001:db8::1").unwrap(), "http://[2001:db8::1]:8090");
        assert_eq!(url("[2001:db8::1]:81").unwrap(), "http://[2001:db8::1]:81");
        assert_eq!(url("node-0.rack").unwrap(), "http://node-0.rack:8090");
        for bad in ["", ":80", "a b", "a:port", "http://x", "x/y", "::1:99999999"] {
            assert!(url(bad).is_err(), "{bad}");
        }
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
        assert_eq!((url, found.to_string().as_str()), (place.0, id));
        server.join().unwrap();
    }
}
