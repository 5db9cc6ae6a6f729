//! Media types: what the description declares, with the real service's refusals.

use super::common::{API, Files, Running, pull_secret, recorded, swagger};
use api::media::Media;
use axum::http::Method;
use serde_json::{Value, json};
use service_stub::endpoints::{self, ENDPOINTS};
use service_stub::http::negotiate::Exchange;

const ID: &str = "69396def-4192-dbc7-5c01-819e7f27b01b";

fn served() -> impl Iterator<Item = (&'static Method, &'static str, Exchange)> {
    ENDPOINTS.iter().map(|endpoint| (&endpoint.method, endpoint.path, endpoint.exchange))
}

fn filled(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { ID } else { part }).collect();
    format!("{API}{}", parts.join("/"))
}

fn refusal(message: &str) -> (u16, Value) {
    (400, json!({"code": 400, "message": message}))
}

#[test]
fn every_route_has_the_media_types_of_its_description() {
    let Some(description) = swagger::description() else { return };
    for (method, path, exchange) in served() {
        let operation = &description["paths"][path][method.as_str().to_lowercase()];
        assert!(operation.is_object(), "{method} {path}");
        let declared = |name: &str| operation.get(name).unwrap_or(&description[name]).clone();
        assert_eq!(json!([exchange.produces.as_str()]), declared("produces"), "{method} {path}");
        assert_eq!(json!([exchange.consumes.as_str()]), declared("consumes"), "{method} {path}");
    }
    for endpoint in api::endpoint::ALL {
        let exchange = endpoints::find(&endpoint.method, endpoint.path).unwrap().exchange;
        assert_eq!(exchange.produces, endpoint.produces.media(), "{}", endpoint.operation);
        assert!(endpoint.consumes.is_none_or(|consumes| consumes == exchange.consumes), "{}", endpoint.operation);
    }
}

#[test]
fn what_is_not_accepted_is_refused_on_every_route() {
    let running = Running::start(Files::default());
    let mut count = 0;
    for (method, path, exchange) in served() {
        let ask = |accept: &[(&str, &str)]| running.request(method.as_str(), &filled(path), accept, b"");
        let other = match exchange.produces {
            Media::OctetStream => "application/json",
            Media::Json | Media::Multipart => "application/octet-stream",
        };
        let expected = refusal(&exchange.produces.not_accepted());
        for accept in [other, "text/html", "application/json;q=0, application/octet-stream;q=0"] {
            let answer = ask(&[("accept", accept)]);
            assert_eq!((answer.status, answer.document()), expected, "{method} {path} {accept}");
        }
        for accept in [&[][..], &[("accept", "*/*")], &[("accept", exchange.produces.as_str())]] {
            let answer = String::from_utf8_lossy(&ask(accept).body).into_owned();
            assert!(!answer.contains("unsupported media type requested"), "{method} {path} {accept:?}: {answer}");
        }
        count += 1;
    }
    println!("{count} routes");
}

#[test]
fn a_body_of_another_type_is_refused_on_every_route() {
    let running = Running::start(Files::default());
    for (method, path, exchange) in served().filter(|(method, ..)| method.as_str().starts_with('P')) {
        let allowed = exchange.consumes.as_str();
        for (content_type, named) in [
            ("text/plain", "text/plain"),
            ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded"),
            ("Application/XML; charset=utf-8", "application/xml"),
            ("", "application/octet-stream"),
        ] {
            let headers = [("content-type", content_type)];
            let answer = running.request(method.as_str(), &filled(path), &headers, b"{}");
            let message = format!("unsupported media type {named:?}, only [{allowed}] are allowed");
            assert_eq!((answer.status, answer.document()), refusal(&message), "{method} {path}");
        }
    }
}

#[test]
fn the_recorded_refusal_of_a_download_is_ours() {
    let Some(folder) = recorded("ours-at-the-real-service/sno-download-refused") else { return };
    let refused = super::exchanges(&folder).into_iter().find(|exchange| exchange.status == 400).unwrap();
    assert!(refused.target.contains("/downloads/files"), "{}", refused.target);
    let running = Running::start(Files::default());
    let answer = super::replay(&running, &refused);
    assert_eq!((answer.status, answer.document()), (refused.status, refused.answer));
}

#[test]
fn logs_are_files_and_all_of_them_unless_some_are_named() {
    let running = Running::start(Files::default());
    let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret()});
    let cluster = running.json("POST", "/v2/clusters", &body).document()["id"].as_str().unwrap().to_owned();
    let path = format!("{API}/v2/clusters/{cluster}/logs");
    let form = b"--X\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"a\"\r\n\r\nlogs\r\n--X--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=X")];
    assert_eq!(running.request("POST", &format!("{path}?logs_type=controller"), &headers, form).status, 204);
    let (named, all) = (running.get(&format!("{path}?logs_type=all")), running.get(&path));
    assert_eq!((all.status, all.header("content-type")), (200, Some("application/octet-stream")));
    assert_eq!(all.body, named.body);
    assert!(running.get(&format!("{path}?logs_type=none")).status == 400);
}
