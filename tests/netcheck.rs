//! Checks as the agent runs them: the whole program, a request on standard input, and exactly what the service gets from it.
//! Servers are on loopback, where no proxy is ever asked.
#![allow(clippy::unwrap_used)]

use std::{
    io::Write,
    process::{Command, Stdio},
};
use testkit::http::Server;

/// Exit status, standard output and standard error.
fn check(subcommand: &str, request: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_landfall"))
        .args(["netcheck", subcommand, "--request", "-", "--json"])
        .env("LANDFALL_STEP", "x-1")
        .env_remove("LANDFALL_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Answers one request.
fn serve(status: &str, body: &str) -> Server {
    Server::in_order([testkit::http::reply(status, "", body)])
}

fn tang(servers: &str) -> (Option<i32>, String, String) {
    check("tang", &format!(r#"{{"tang_servers":"[{}]"}}"#, servers.replace('"', r#"\""#)))
}

const NO_TANG: &str = "{\"tang_server_response\":null}\n";

#[test]
fn a_tang_server_that_answers_leaves_no_report() {
    let server = serve("200 OK", r#"{"payload":"eyJ9","signatures":[{"protected":"a","signature":"b"}]}"#);
    let url = server.url("");
    let expected = format!(
        r#"{{"is_success":true,"tang_server_response":[{{"payload":"eyJ9","signatures":[{{"protected":"a","signature":"b"}}],"tang_url":"{url}/adv/x"}}]}}"#
    );
    let seen = tang(&format!(r#"{{"url":"{url}","thumbprint":"x"}}"#));
    assert_eq!(seen, (Some(0), expected + "\n", String::new()));
}

#[test]
fn what_is_wrong_with_tang_servers_is_all_that_is_on_stderr() {
    let server = serve("404 Not Found", "");
    let url = server.url("");
    let seen = tang(&format!(r#"{{"url":"{url}","thumbprint":"x"}},{{"url":"http://user:secret@t"}}"#));
    let report = "2 errors occurred:\n\t* HTTP GET failure. Status Code: 404\n\
                  \t* Tang thumbprint isn't set for server: http://t\n\n";
    assert_eq!(seen, (Some(1), NO_TANG.into(), report.into()));

    let seen = check("tang", "{}");
    let report = "1 error occurred:\n\t* the Tang request is not a JSON object with tang_servers, a text: \
                  missing field `tang_servers` at line 1 column 2\n\n";
    assert_eq!(seen, (Some(1), NO_TANG.into(), report.into()));
}

#[test]
fn a_day_2_config_comes_as_the_service_reads_it() {
    let config = r#"{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/passwd"}]},"systemd":{"units":[{"name":"a.service"}]}}"#;
    let server = serve("200 OK", config);
    let url = server.url("");
    let ignition = r#"{\"ignition\":{\"version\":\"3.2.0\"}}"#;
    let expected = format!(r#"{{"ignition":"{ignition}","is_success":true,"url":"{url}"}}"#);
    let seen = check("endpoint", &format!(r#"{{"url":"{url}"}}"#));
    assert_eq!(seen, (Some(0), expected + "\n", String::new()));
}

#[test]
fn a_day_2_config_that_does_not_come_is_a_success_with_an_error() {
    for (status, body, error) in [
        ("404 Not Found", "none", "ignition file download failed: bad status code: 404. server response: none"),
        (
            "200 OK",
            r#"{}"#,
            "response is not a valid ignition file:\\n{}\\nparse error is: ignition.version is missing; \
             3.0.0, 3.1.0 and 3.2.0 are understood",
        ),
    ] {
        let server = serve(status, body);
        let url = server.url("");
        let seen = check("endpoint", &format!(r#"{{"url":"{url}"}}"#));
        let expected = format!("{{\"download_error\":\"{error}\",\"url\":\"{url}\"}}\n");
        assert_eq!(seen, (Some(0), expected, "ignition download error\n".to_owned()));
    }
}

#[test]
fn a_request_without_url_fails() {
    let reply = "{\"url\":\"<unknown URL due to internal error>\"}\n".to_owned();
    let error = "validation failure list:\nurl in body is required\n".to_owned();
    assert_eq!(check("endpoint", r#"{"url":""}"#), (Some(1), reply, error));
}
