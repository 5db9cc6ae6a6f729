//! The fake itself: what it refuses, that a refusal fails a test, and the forms of its answers.
#![allow(clippy::unwrap_used)]

use api::{Client, ClientConfig, HostCreateParams, HostId, InfraEnvId, RetryPolicy, Secret};
use fake_service::{Answer, Reply, Request, Service};
use serde_json::{Value, json};
use std::io::BufReader;

const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const PATH: &str = "/api/assisted-install/v2/infra-envs/aaaaaaaa-0000-0000-0000-000000000001/hosts";

/// Method, path, changed headers, body; status and a part of the message.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

/// A request as a client of ours sends it, but for what `change` makes of its lines.
fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let mut lines = vec![
        ("Host".to_owned(), "x".to_owned()),
        ("Accept".into(), "application/json".into()),
        ("X-Secret-Key".into(), "token".into()),
        ("X-Request-Id".into(), HOST.into()),
    ];
    if !body.is_empty() {
        lines.push(("Content-Type".into(), "application/json".into()));
        lines.push(("Content-Length".into(), body.len().to_string()));
    }
    for (name, value) in headers {
        lines.retain(|(own, _)| own != name);
        lines.extend((!value.is_empty()).then(|| ((*name).to_owned(), (*value).to_owned())));
    }
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let text = format!("{method} {path} HTTP/1.1\r\n{lines}\r\n{body}");
    Request::read(&mut BufReader::new(text.as_bytes())).unwrap().unwrap()
}

fn status_and_message(reply: &Reply) -> (u16, String) {
    let (Reply::Whole(bytes) | Reply::Last(bytes)) = reply;
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (status, body["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn what_the_real_service_refuses_is_refused_and_noted() {
    let service = Service::new(|_| Answer::Json(201, json!({"id": HOST})));
    let register = format!("{{\"host_id\":\"{HOST}\"}}");
    let unknown = register.replace('}', ",\"x\":1}");
    let instructions = format!("{PATH}/{HOST}/instructions");
    let (bad_time, no_name) = (format!("{instructions}?timestamp=now"), format!("{instructions}?time=1"));
    let file = "/api/assisted-install/v2/clusters/aaaaaaaa-0000-0000-0000-000000000001/downloads/files";
    let plural = format!("{PATH}/{HOST}/downloads/ignition");
    let rows: Vec<Row> = vec![
        ("POST", PATH, &[("Accept", "text/html")], &register, 400, "only [application/json] are available"),
        ("POST", PATH, &[("Accept", "")], &register, 400, "says what it accepts"),
        ("GET", file, &[], "", 400, "only [application/octet-stream] are available"),
        ("POST", PATH, &[("Content-Type", "text/plain")], &register, 400, "only [application/json] are allowed"),
        ("POST", PATH, &[("X-Secret-Key", "")], &register, 401, "invalid credentials"),
        ("POST", PATH, &[("X-Request-Id", "1")], &register, 400, "X-Request-Id"),
        ("POST", PATH, &[], "", 400, "required"),
        ("POST", PATH, &[], "{}", 400, "host_id in body is required"),
        ("POST", PATH, &[], "{\"host_id\":\"x\"}", 400, "host_id in body must be of type uuid"),
        ("POST", PATH, &[], &unknown, 400, "json: unknown field \"x\""),
        ("PUT", PATH, &[], &register, 405, "method PUT is not allowed, but [GET,POST] are"),
        ("GET", "/api/assisted-install/v2/nothing", &[], "", 404, "was not found"),
        ("GET", &instructions, &[], "{}", 400, "a body where there is none"),
        ("GET", &bad_time, &[], "", 400, "timestamp in query"),
        ("GET", &no_name, &[], "", 400, "time in query is unknown"),
        ("GET", file, &[("Accept", "application/octet-stream")], "", 400, "file_name in query is required"),
        ("POST", &instructions, &[], "{\"step_type\":\"x\"}", 400, "step_type in body"),
        ("POST", &instructions, &[], "{\"command\":\"x\"}", 400, "json: unknown field \"command\""),
        ("GET", &plural, &[("Accept", "application/octet-stream")], "", 404, "downloads/ignition was not found"),
    ];
    for (method, path, headers, body, status, message) in &rows {
        let (given, text) = status_and_message(&service.respond(request(method, path, headers, body)));
        assert!((given, text.contains(message)) == (*status, true), "{method} {path} {body}: {given} {text}");
    }
    assert_eq!(service.take_violations().len(), rows.len());
    let taken = service.respond(request("POST", PATH, &[], &register));
    assert_eq!(status_and_message(&taken).0, 201);
    assert_eq!(service.take_violations(), Vec::<String>::new());
}

#[test]
fn percentages_that_advance_too_little_are_noted() {
    let service = Service::new(|_| Answer::Done);
    let path = format!("{PATH}/{HOST}/progress");
    let report = |stage: &str, info: &str| {
        let body = json!({"current_stage": stage, "progress_info": info}).to_string();
        service.respond(request("PUT", &path, &[], &body));
        service.take_violations().len()
    };
    for (info, noted) in [("7%", 0), ("7%", 0), ("11%", 1), ("16%", 0), ("98%", 0), ("100%", 0)] {
        assert_eq!(report("Writing image to disk", info), noted, "{info}");
    }
    assert_eq!(report("Rebooting", ""), 0);
    assert_eq!(report("Writing image to disk", "5%"), 0, "another installation");
}

#[test]
fn a_refused_request_fails_the_test_at_its_end() {
    let service = Service::new(|_| Answer::Status(404));
    service.respond(request("PUT", PATH, &[], "{}"));
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(service)));
    let text = *verdict.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("method PUT is not allowed"), "{text}");
}

#[test]
fn a_test_can_t_answer_what_the_service_never_does() {
    for (answer, fault) in [
        (200, "answers 200 where the service answers 201"),
        (204, "answers 204 where the service answers 201"),
        (201, "without the body"),
    ] {
        let service = Service::new(move |_| Answer::Status(answer));
        service.respond(request("POST", PATH, &[], &format!("{{\"host_id\":\"{HOST}\"}}")));
        let violations = service.take_violations();
        assert!(violations[0].contains(fault), "{violations:?}");
    }
}

#[test]
fn an_answer_takes_each_form_in_turn_and_says_the_same() {
    let service = fake_service::FakeService::start(|_| {
        let command = json!({"args": ["{}"]});
        Answer::Json(201, json!({"id": HOST, "status": "known", "next_step_runner_command": command}))
    });
    let config = ClientConfig { url: service.url.clone(), token: Secret::new("t"), ..ClientConfig::default() };
    let client = Client::new(&config, RetryPolicy::Never).unwrap();
    let params = HostCreateParams { host_id: HostId::random(), discovery_agent_version: String::new() };
    let register = || client.register_host(InfraEnvId::random(), &params).unwrap();
    for _ in 0..6 {
        let registration = register();
        let host = &registration.host;
        assert_eq!((host.id.to_string().as_str(), host.status.as_str(), host.bootstrap), (HOST, "known", false));
        assert_eq!(registration.next_step_runner_command.unwrap().args, ["{}"]);
    }
    let direct = Service::new(|_| Answer::Json(201, json!({"id": HOST, "bootstrap": false})));
    let forms: Vec<Value> = (0..3)
        .map(|_| {
            let reply = direct.respond(request("POST", PATH, &[], &format!("{{\"host_id\":\"{HOST}\"}}")));
            let (Reply::Whole(bytes) | Reply::Last(bytes)) = reply;
            let body = String::from_utf8(bytes).unwrap();
            serde_json::from_str(body.split_once("\r\n\r\n").unwrap().1).unwrap()
        })
        .collect();
    assert_eq!((&forms[0]["user_name"], forms[0].get("user_name").is_some()), (&Value::Null, true));
    assert_eq!((&forms[0]["bootstrap"], forms[0].get("bootstrap").is_some()), (&Value::Null, true));
    assert_eq!(forms[1], json!({"id": HOST}));
    assert_eq!((&forms[2]["user_name"], &forms[2]["bootstrap"]), (&json!(""), &json!(false)));
    assert!(forms[2]["a_field_of_next_year"].is_object());
}
