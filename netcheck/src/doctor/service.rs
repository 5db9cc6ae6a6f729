//! Station 9: does the service answer as one?

use super::{
    report::{Code, Finding, Station},
    target::Target,
    wire::{Answer, ConnectError, ConnectFailure},
};
use crate::codec::{http::Response, text::printable};
use serde_json::Value;

/// Behind `/api/assisted-install`: cheap, and the same in every version (docs/compatibility.md#rest-api). It wants a user's token where
/// the service has authentication; that it is refused says as much.
pub(super) const PATH: &str = "/v2/component-versions";

/// What a response shows of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sender {
    /// The service, which has reported its release.
    Versions(Option<String>),
    /// The service, which wants a token.
    Guarded,
    /// The service, which says something else in its own form.
    Service(String),
    /// A stranger.
    Other,
}

fn sender(response: &Response) -> Sender {
    let Ok(body) = serde_json::from_slice::<Value>(&response.body) else { return Sender::Other };
    let message = || {
        let text = body.get("reason").or_else(|| body.get("message")).and_then(Value::as_str)?;
        body.get("code").is_some().then(|| shorten(text))
    };
    match response.status {
        200 if body.get("versions").is_some_and(Value::is_object) => {
            Sender::Versions(body.get("release_tag").and_then(Value::as_str).filter(|tag| !tag.is_empty()).map(shorten))
        }
        401 | 403 if message().is_some() => Sender::Guarded,
        _ => message().map_or(Sender::Other, Sender::Service),
    }
}

fn shorten(text: &str) -> String {
    printable(text.as_bytes()).chars().take(120).collect()
}

/// Whether the service itself has answered, and is well.
pub(super) fn is_reached(answer: Option<&Answer>) -> bool {
    let Some(Answer::Response(response)) = answer else { return false };
    match sender(response) {
        Sender::Versions(_) | Sender::Guarded => true,
        Sender::Service(_) => response.status < 500 || response.status == 501,
        Sender::Other => false,
    }
}

pub(super) fn judge(target: &Target, connection: Option<&ConnectFailure>, answer: Option<&Answer>) -> Finding {
    let station = Station::Service;
    let endpoint = &target.endpoint;
    if let Some(failure) = connection {
        return unconnected(failure);
    }
    let response = match answer {
        Some(Answer::Response(response)) => response,
        Some(Answer::NotHttp(text)) => {
            let seen = format!("{endpoint} does not speak HTTP: it says '{text}'");
            return Finding::broken(station, Code::NotHttp, seen, wrong_place(target));
        }
        Some(Answer::Silent) | None => {
            let seen = format!("{endpoint} accepts the connection but does not answer");
            return Finding::broken(station, Code::TimedOut, seen, "check whether the service hangs, and see its log");
        }
    };
    let status = response.status;
    let sender = sender(response);
    match &sender {
        Sender::Versions(Some(tag)) => {
            return Finding::ok(station, format!("the service answers; its release is {tag}"));
        }
        Sender::Versions(None) => return Finding::ok(station, "the service answers"),
        Sender::Guarded => {
            let seen = format!("the service answers and requires a token ({status}); this check sends none");
            return Finding::ok(station, seen);
        }
        Sender::Service(message) if is_reached(answer) => {
            return Finding::ok(station, format!("the service answers ({status}: {message})"));
        }
        Sender::Service(_) | Sender::Other => {}
    }
    let body = String::from_utf8_lossy(&response.body);
    let is_html = response.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    let broken = |code, seen: String, next: String| Finding::broken(station, code, seen, next);
    let wants_https = ["HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port"];
    if status == 400 && wants_https.iter().any(|text| body.contains(text)) {
        return broken(
            Code::WantsHttps,
            format!("{endpoint} expects TLS, but was asked in plain HTTP"),
            format!("use https://{endpoint} as the URL"),
        );
    }
    match (status, sender) {
        (502..=504, _) => broken(
            Code::Unavailable,
            format!("a load balancer answers {status} for {}: none of its servers responds", target.url),
            "check that the service runs behind it".to_owned(),
        ),
        (_, Sender::Service(message)) => broken(
            Code::ServiceError,
            format!("the service answers {status}: {message}"),
            "see the service's log".to_owned(),
        ),
        (300..=399, _) => {
            let location = response.header("location").map(shorten).unwrap_or_default();
            broken(
                Code::NotTheService,
                format!("{endpoint} redirects ({status}, to '{location}'): a login page or a captive portal"),
                wrong_place(target),
            )
        }
        (401 | 403, _) => broken(
            Code::NotTheService,
            format!("{endpoint} refuses ({status}), but not as the service does: something in front of it answers"),
            "find the gateway or login in front of the service, and let this host through".to_owned(),
        ),
        (500.., _) => {
            broken(Code::ServiceError, format!("{endpoint} answers {status}"), "see the service's log".to_owned())
        }
        _ => {
            let kind = if is_html { "a web page" } else { "something else" };
            broken(
                Code::NotTheService,
                format!("{endpoint} answers {status} with {kind}, not the service's reply"),
                wrong_place(target),
            )
        }
    }
}

fn wrong_place(target: &Target) -> String {
    format!("correct the URL: host, port and path of {}", target.url)
}

fn unconnected(failure: &ConnectFailure) -> Finding {
    let address = failure.address;
    let (code, next) = match failure.kind {
        ConnectError::Refused => (
            Code::ConnectionRefused,
            format!(
                "check that the service runs there and listens on port {}, and that no firewall rejects us",
                address.port()
            ),
        ),
        ConnectError::TimedOut(_) => (
            Code::TimedOut,
            format!(
                "check that {} is up, and that no firewall on the way drops packets to port {}",
                address.ip(),
                address.port()
            ),
        ),
        ConnectError::Other(_) => (Code::Unreachable, format!("check the route to {} and that it is up", address.ip())),
    };
    Finding::broken(Station::Service, code, failure.to_string(), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, kind: &str, body: &str) -> Finding {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        let response = Response { status, headers, body: body.into(), is_complete: true };
        let answer = Answer::Response(response);
        let finding = judge(&Target::parse("http://api.example.com:8090").unwrap(), None, Some(&answer));
        assert_eq!(is_reached(Some(&answer)), finding.code == Code::Ok, "{finding:?}");
        finding
    }

    #[test]
    fn the_service_is_distinguished_from_others() {
        for (status, kind, body, code, seen) in [
            (
                200,
                "application/json",
                r#"{"versions":{},"release_tag":"v2.40"}"#,
                Code::Ok,
                "the service answers; its release is v2.40",
            ),
            (200, "application/json", r#"{"versions":{}}"#, Code::Ok, "the service answers"),
            (
                401,
                "application/json",
                r#"{"code":"401","kind":"Error","reason":"unauthenticated for invalid credentials"}"#,
                Code::Ok,
                "the service answers and requires a token (401); this check sends none",
            ),
            (
                501,
                "application/json",
                r#"{"code":"501","reason":"not here"}"#,
                Code::Ok,
                "the service answers (501: not here)",
            ),
            (
                500,
                "application/json",
                r#"{"code":"500","reason":"no database"}"#,
                Code::ServiceError,
                "the service answers 500: no database",
            ),
            (
                503,
                "text/html",
                "<html>",
                Code::Unavailable,
                "a load balancer answers 503 for http://api.example.com:8090: none of its servers responds",
            ),
            (
                200,
                "text/html",
                "<html>login",
                Code::NotTheService,
                "api.example.com:8090 answers 200 with a web page, not the service's reply",
            ),
            (
                404,
                "text/plain",
                "404 page not found",
                Code::NotTheService,
                "api.example.com:8090 answers 404 with something else, not the service's reply",
            ),
            (
                400,
                "text/plain",
                "Client sent an HTTP request to an HTTPS server.",
                Code::WantsHttps,
                "api.example.com:8090 expects TLS, but was asked in plain HTTP",
            ),
            (
                401,
                "text/html",
                "<html>",
                Code::NotTheService,
                "api.example.com:8090 refuses (401), but not as the service does: something in front of it answers",
            ),
        ] {
            let finding = judged(status, kind, body);
            assert_eq!((finding.code, finding.seen.as_str()), (code, seen));
        }
    }
}
