//! A page of another site that has given its own name our address: its browser sends whatever it wants, under that name.

use super::common::{API, Files, Running, pull_secret};
use super::{infra_env, raw};
use serde_json::json;

fn ask(running: &Running, method: &str, path: &str, host: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    // As a page that is of our site sends it.
    let site = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n";
    raw(running, format!("{head}Origin: http://{host}\r\n{site}\r\n{body}").as_bytes())
}

#[test]
fn a_name_that_is_not_ours_reads_and_changes_nothing() {
    let running = Running::start(Files::default());
    let id = infra_env(&running);
    let new = json!({"name": "evil", "pull_secret": pull_secret()}).to_string();
    let port = running.url.rsplit(':').next().unwrap();
    let all = format!("{API}/v2/infra-envs");
    let one = format!("{all}/{id}");
    for host in ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil.example.com", "landfall.local"] {
        let host = format!("{host}:{port}");
        for (method, path, body) in [
            ("GET", all.as_str(), ""),
            ("GET", &one, ""),
            ("POST", &all, &new),
            ("DELETE", &one, ""),
            ("GET", &format!("/images/{id}"), ""),
            ("GET", "/", ""),
            ("GET", "/metrics", ""),
            ("GET", "/landfall/rendezvous", ""),
            ("GET", "/nowhere", ""),
        ] {
            let answer = ask(&running, method, path, &host, body);
            assert!(answer.starts_with("HTTP/1.1 421 "), "{method} {path} as {host}: {answer}");
            assert!(!answer.contains("\"id\""), "{answer}");
        }
    }
    let list = running.json("GET", "/v2/infra-envs", &json!(null)).document();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    let answer = ask(&running, "GET", &all, &format!("evil.example.com:{port}"), "");
    println!("| as evil.example.com | {} |", answer.lines().last().unwrap_or_default());
    for host in ["localhost", "127.0.0.1", "[::1]", "10.0.2.2"] {
        assert!(ask(&running, "GET", &all, &format!("{host}:{port}"), "").starts_with("HTTP/1.1 200 "), "{host}");
    }
}

#[test]
fn no_answer_is_guessed_at() {
    let running = Running::start(Files::default());
    let id = infra_env(&running);
    for (path, status) in [
        (format!("{API}/v2/infra-envs"), 200),
        (format!("{API}/v2/infra-envs/{id}"), 200),
        (format!("{API}/v2/infra-envs/x"), 400),
        (format!("{API}/v2/clusters/{id}"), 404),
        (format!("{API}/v2/openapi"), 200),
        ("/metrics".to_owned(), 200),
        ("/nowhere".to_owned(), 404),
        ("/landfall/rendezvous".to_owned(), 404),
    ] {
        let answer = running.get(&path);
        assert_eq!((answer.status, answer.header("x-content-type-options")), (status, Some("nosniff")), "{path}");
    }
}
