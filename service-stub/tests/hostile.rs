//! Requests nobody should send: refused, in the published shapes, and the service goes on.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;
use crate::iso;

#[path = "hostile/bounds.rs"]
mod bounds;
#[path = "hostile/messages.rs"]
mod messages;
#[path = "hostile/rebinding.rs"]
mod rebinding;
#[path = "hostile/secrets.rs"]
mod secrets;
#[path = "hostile/secured.rs"]
mod secured;
#[path = "hostile/tokens.rs"]
mod tokens;
#[path = "hostile/unread.rs"]
mod unread;

use common::{API, Files, Running, pull_secret};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

fn infra_env(running: &Running) -> String {
    let body = json!({"name": "lab", "pull_secret": pull_secret()});
    let answer = running.json("POST", "/v2/infra-envs", &body);
    assert_eq!(answer.status, 201);
    answer.document()["id"].as_str().unwrap().to_owned()
}

/// Sends bytes as they are and reads what comes until the other side is done.
fn raw(running: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(running.url.strip_prefix("http://").unwrap()).unwrap();
    // The other side may stop listening before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_body_larger_than_the_bound_is_refused_before_it_is_read() {
    let running = Running::start(Files::default());
    let head = format!(
        "POST {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n"
    );
    let answer = raw(&running, head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("\"code\":413"), "{answer}");
    // Without a length it is read up to the bound.
    let mut chunked = format!(
        "POST {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    let chunk = vec![b' '; 8 << 20];
    for _ in 0..9 {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(&chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    let answer = raw(&running, &chunked);
    // The answer may be lost when the connection is closed under what is still being sent; the service must live on.
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(running.get("/health").status, 200);
}

#[test]
fn only_replies_may_be_large() {
    let running = Running::start(Files::default());
    let id = infra_env(&running);
    let head = |method: &str, path: &str, length: usize| {
        let head = format!(
            "{method} {API}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        raw(&running, head.as_bytes())
    };
    let host = format!("/v2/infra-envs/{id}/hosts/69396def-4192-dbc7-5c01-819e7f27b01b");
    for (method, path, limit) in [
        ("POST", "/v2/clusters".to_owned(), 1 << 20),
        ("PUT", format!("{host}/progress"), 1 << 20),
        ("POST", "/v2/infra-envs".to_owned(), 2 << 20),
        ("PATCH", format!("{host}/ignition"), 2 << 20),
        ("POST", format!("{host}/instructions"), 32 << 20),
    ] {
        let answer = head(method, &path, limit + 1);
        assert!(answer.contains(&format!("larger than {limit} bytes")), "{method} {path}: {answer}");
    }
    let output = "x".repeat(3 << 20);
    for (kind, status) in [("inventory", 404), ("connectivity-check", 404), ("verify-vips", 413)] {
        let reply = json!({"step_type": kind, "step_id": "x", "output": output});
        assert_eq!(running.json("POST", &format!("{host}/instructions"), &reply).status, status, "{kind}, for no host");
    }
}

#[test]
fn nonsense_is_distinguished() {
    let running = Running::start(Files::default());
    let id = infra_env(&running);
    let host = "69396def-4192-dbc7-5c01-819e7f27b01b";
    let message = |method: &str, path: &str, body: &[u8]| {
        let answer = running.request(method, &format!("{API}{path}"), &[("content-type", "application/json")], body);
        let document: Value = answer.document();
        let text = document.get("message").or(document.get("reason")).and_then(Value::as_str).unwrap().to_owned();
        (answer.status, text)
    };
    let clusters = |body: &Value| message("POST", "/v2/clusters", body.to_string().as_bytes());
    assert_eq!(clusters(&json!({})), (400, "name in body is required".into()));
    let cluster = |field: &str, value: Value| {
        let mut body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret()});
        body[field] = value;
        clusters(&body)
    };
    assert_eq!(cluster("name", json!("a".repeat(55))).1, "name in body should be at most 54 chars long");
    assert_eq!(cluster("name", json!("Not A Name")).0, 400);
    assert_eq!(cluster("name", json!(5)).0, 400);
    assert_eq!(
        cluster("surprise", json!(1)).1,
        "parsing newClusterParams body from \"\" failed, because json: unknown field \"surprise\""
    );
    assert_eq!(cluster("machine_networks", json!([{"cidr": "10.0.0.1/24"}])).0, 400, "host bits");
    assert_eq!(cluster("machine_networks", json!([{"cidr": "10.0.0.0/99"}])).0, 400);
    assert_eq!(cluster("control_plane_count", json!(0)).0, 400);
    let vips = |api: Value, ingress: Value| {
        let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret(),
            "vip_dhcp_allocation": false, "schedulable_masters": false, "api_vips": api, "ingress_vips": ingress});
        running.json("POST", "/v2/clusters", &body).status
    };
    let [one, two, three, four] = ["10.0.0.5", "fd00::5", "10.0.0.6", "fd00::6"].map(|ip| json!({"ip": ip}));
    assert_eq!(vips(json!([one]), json!([three])), 201);
    assert_eq!(vips(json!([one, two]), json!([three, four])), 201);
    assert_eq!(vips(json!([one]), json!([one])), 400, "one address for both");
    assert_eq!(vips(json!([one, two]), json!([three])), 400, "counts differ");
    assert_eq!(vips(json!([one, two, three]), json!([one, two, three])), 400, "more than two");
    for bad in [json!({"ip": "10.0.0.256"}), json!({"ip": 5}), json!({}), json!("10.0.0.5"), json!(null)] {
        assert_eq!(vips(json!([bad]), json!([one])), 400, "{bad}");
    }
    let (status, text) = cluster("pull_secret", json!("hunter2"));
    assert!(status == 400 && !text.contains("hunter2"), "{text}");

    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(message("POST", "/v2/clusters", deep.as_bytes()).0, 400);
    assert_eq!(message("POST", "/v2/clusters", b"\xff\xfe\x00").0, 400);
    let hosts = format!("/v2/infra-envs/{id}/hosts");
    assert_eq!(running.json("POST", &hosts, &json!({"host_id": host})).status, 201);
    let reply = |kind: &str, output: &str| {
        let body = json!({"step_type": kind, "step_id": "x", "output": output}).to_string();
        running.request("POST", &format!("{API}{hosts}/{host}/instructions"), &[], body.as_bytes()).status
    };
    assert_eq!(reply("inventory", &deep), 400);
    assert_eq!(reply("inventory", "{\"cpu\": {\"count\": -1}}"), 400);
    assert_eq!(reply("connectivity-check", "{\"remote_hosts\": 5}"), 400);
    assert_eq!(reply("connectivity-check", "{\"remote_hosts\": [{\"host_id\": \"x\"}]}"), 204, "it is about no host");
    assert_eq!(reply("inventory", "{}"), 204);
    assert_eq!(reply("verify-vips", "whatever"), 400);
    assert_eq!(reply("tang-connectivity-check", "whatever"), 400);
    assert_eq!(reply("execute", "whatever"), 204, "nothing is decided on it");
    assert_eq!(message("GET", &format!("{hosts}/{host}/instructions?timestamp=99999999999999999999"), b"").0, 400);
    assert_eq!(message("GET", "/v2/events?limit=x", b"").0, 400);
    assert_eq!(message("GET", "/v2/nothing", b""), (404, format!("path {API}/v2/nothing was not found")));
    assert_eq!(message("DELETE", "/v2/clusters", b"").0, 405);
    assert_eq!(message("POST", "/v2/clusters/disconnected", b"").0, 400);
    assert_eq!(message("DELETE", &format!("/v2/infra-envs/{id}"), b"").0, 400, "hosts are still in it");
    assert_eq!(running.request("DELETE", &format!("{API}{hosts}/{host}"), &[], b"").status, 204);
    assert_eq!(running.request("DELETE", &format!("{API}/v2/infra-envs/{id}"), &[], b"").status, 204);
    assert_eq!(running.get("/nothing").status, 404);
    assert_eq!(running.get("/landfall/config/bootstrap").status, 404);
    assert!(raw(&running, b"GARBAGE\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn uploads_are_whole_or_not_there() {
    let running = Running::start(Files::default());
    let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret(), "high_availability_mode": "None"});
    let cluster = running.json("POST", "/v2/clusters", &body).document()["id"].as_str().unwrap().to_owned();
    let upload = |query: &str, content_type: &str, body: &[u8]| {
        let path = format!("{API}/v2/clusters/{cluster}/logs?{query}");
        running.request("POST", &path, &[("content-type", content_type)], body).status
    };
    let form = "multipart/form-data; boundary=XX";
    let whole =
        b"--XX\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"../../evil\"\r\n\r\nlogs\r\n--XX--\r\n";
    assert_eq!(upload("logs_type=controller", form, &whole[..whole.len() - 8]), 400, "cut off");
    assert_eq!(upload("logs_type=controller", "application/json", b"{}"), 400);
    assert_eq!(upload("logs_type=all", form, whole), 400);
    assert_eq!(upload("logs_type=host", form, whole), 400, "whose?");
    let stranger = "host_id=69396def-4192-dbc7-5c01-819e7f27b01b&infra_env_id=69396def-4192-dbc7-5c01-819e7f27b01b";
    assert_eq!(upload(&format!("logs_type=host&{stranger}"), form, whole), 404);
    let directory = running.state.path().join("logs").join(&cluster).join("controller");
    let files = || -> Vec<_> {
        let entries =
            std::fs::read_dir(&directory).map(|entries| entries.map(|entry| entry.unwrap().file_name()).collect());
        entries.unwrap_or_default()
    };
    assert_eq!(files(), Vec::<std::ffi::OsString>::new(), "nothing of the failed ones is left");
    assert_eq!(running.get(&format!("{API}/v2/clusters/{cluster}/logs?logs_type=controller")).status, 409);
    assert_eq!(upload("logs_type=controller", form, whole), 204);
    assert_eq!(files(), ["logs.tar.gz"]);
    assert_eq!(running.get(&format!("{API}/v2/clusters/{cluster}/logs?logs_type=controller")).body, b"logs");

    let body = json!({"name": "c", "pull_secret": pull_secret(), "cluster_id": cluster});
    let infra_env = running.json("POST", "/v2/infra-envs", &body).document()["id"].as_str().unwrap().to_owned();
    let host = "69396def-4192-dbc7-5c01-819e7f27b01b";
    let hosts = format!("/v2/infra-envs/{infra_env}/hosts");
    assert_eq!(running.json("POST", &hosts, &json!({"host_id": host})).status, 201);
    assert_eq!(upload(&format!("logs_type=host&host_id={host}&infra_env_id={infra_env}"), form, whole), 204);
    let of_cluster = running.state.path().join("logs").join(&cluster);
    assert!(of_cluster.join(host).join("logs.tar.gz").exists());
    assert_eq!(running.request("DELETE", &format!("{API}{hosts}/{host}"), &[], b"").status, 204);
    assert!(!of_cluster.join(host).exists() && of_cluster.join("controller").exists(), "the host's go, no others");
    assert_eq!(running.request("DELETE", &format!("{API}/v2/clusters/{cluster}"), &[], b"").status, 204);
    assert!(!of_cluster.exists());
}

#[test]
fn events_are_filtered_and_counted() {
    let running = Running::start(Files::default());
    let event = |message: &str, severity: &str, category: &str| {
        let body = json!({"name": "n", "severity": severity, "category": category, "message": message,
            "event_time": "2026-11-21T03:15:46.000Z"});
        running.json("POST", "/v2/events", &body).status
    };
    assert_eq!(event("Disk one", "info", "user"), 201);
    assert_eq!(event("disk two", "error", "user"), 201);
    assert_eq!(event("numbers", "info", "metrics"), 201);
    assert_eq!(event("x", "loud", "user"), 400);
    assert_eq!(event("x", "info", "gossip"), 400);
    let list = |query: &str| {
        let answer = running.get(&format!("{API}/v2/events?{query}"));
        let messages: Vec<String> = answer
            .document()
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["message"].as_str().unwrap().to_owned())
            .collect();
        (messages, answer.header("event-count").unwrap().to_owned())
    };
    assert_eq!(list(""), (vec!["Disk one".into(), "disk two".into()], "2".into()));
    assert_eq!(list("order=descending&limit=1"), (vec!["disk two".into()], "2".into()));
    assert_eq!(list("message=DISK&severities=error").0, ["disk two"]);
    assert_eq!(list("categories=metrics").0, ["numbers"]);
    assert_eq!(list("limit=0").0, Vec::<String>::new());
    assert_eq!(list("limit=-1&offset=1").0, ["disk two"]);
}
