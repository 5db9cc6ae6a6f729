//! Messages that are not quite HTTP, and names that are not quite names. `--nocapture` shows what each is answered.

use super::common::{API, Files, Running, pull_secret};
use super::{infra_env, iso, raw};
use serde_json::json;

/// Status and start of the body, or that there was nothing.
fn summary(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or("closed");
    let more = answer.matches("HTTP/1.1 ").count().saturating_sub(1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let closes = if head.to_lowercase().contains("connection: close") { ", closes" } else { "" };
    format!("{status}{closes}{more} {}", body.chars().take(110).collect::<String>()).trim_end().to_owned()
}

#[test]
fn what_is_not_quite_http_is_refused() {
    let running = Running::start(Files::default());
    let headers = |count: usize| (0..count).map(|n| format!("X-{n}: x\r\n")).collect::<String>();
    let get = |target: &str, headers: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let post = |headers: &str, body: &str| {
        format!("POST {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\r\n{body}")
            .into_bytes()
    };
    let second = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let smuggled = format!("0\r\n\r\n{second}");
    let length = smuggled.len();
    let long = "x".repeat(40_000);
    let bytes = |text: String| text.into_bytes();
    let lines: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "Content-Length before chunked, a request behind",
            post(&format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"), &smuggled),
            "400, closes {\"code\":400,\"message\":\"newClusterParams in body is required\"",
        ),
        (
            "Content-Length after chunked, a request behind",
            post(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &smuggled),
            "400, closes {\"code\":400,\"message\":\"newClusterParams in body is required\"",
        ),
        (
            "chunked, a request behind",
            post("Transfer-Encoding: chunked\r\n", &smuggled),
            "400, closes {\"code\":400,\"message\":\"newClusterParams in body is required\"",
        ),
        ("two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "{}"), "400"),
        ("length +2", post("Content-Length: +2\r\n", "{}"), "400"),
        ("length of 20 digits", post("Content-Length: 99999999999999999999\r\n", "{}"), "400"),
        ("length of 99999999999", post("Content-Length: 99999999999\r\nConnection: close\r\n", ""), "413"),
        ("a chunk of no size", post("Transfer-Encoding: chunked\r\n", "xyz\r\n"), "400"),
        ("a chunk of 2^64 bytes", post("Transfer-Encoding: chunked\r\n", "10000000000000000\r\n"), "400"),
        ("Transfer-Encoding: xchunked", post("Transfer-Encoding: xchunked\r\n", &smuggled), "400"),
        (
            "chunked in HTTP/1.0",
            bytes(format!("POST {API}/v2/clusters HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}")),
            "400",
        ),
        (
            "Content-Encoding: gzip",
            post("Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: 2\r\n", "{}"),
            "415",
        ),
        ("a header of 40,000 bytes", bytes(get("/health", &format!("X: {long}\r\n"))), "431"),
        ("101 headers", bytes(get("/health", &headers(100))), "431"),
        ("a path of 9,000 bytes", bytes(get(&format!("/{}", &long[..9000]), "Connection: close\r\n")), "414"),
        ("a query of 9,000 bytes", bytes(get(&format!("/health?{}", &long[..9000]), "Connection: close\r\n")), "414"),
        ("a path of 40,000 bytes", bytes(get(&format!("/{long}"), "")), "431"),
        ("a folded header", bytes(get("/health", "X: a\r\n b\r\n")), "400"),
        ("a blank before the colon", bytes(get("/health", "Content-Length : 5\r\n")), "400"),
        ("a NUL in a header", bytes(get("/health", "X: a\0b\r\n")), "400"),
        ("a NUL in the path", bytes(get("/health\0", "")), "400"),
        (
            "TRACE",
            bytes(format!("TRACE {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")),
            "405",
        ),
        ("CONNECT", b"CONNECT 10.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), "404"),
        (
            "a proxy's GET http://10.0.0.1/",
            b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(),
            "",
        ),
        ("HTTP/2 without asking", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), "closed"),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), "400"),
    ];
    for (what, input, expected) in lines {
        let answer = summary(&raw(&running, &input));
        println!("| {what} | {answer} |");
        assert!(answer.starts_with(expected), "{what}: {answer}");
        assert!(!answer.contains(" more"), "{what}: what came behind was taken for a request: {answer}");
    }
    assert_eq!(running.get("/health").status, 200);
}

#[test]
fn no_name_leads_out() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    for name in ["os.raw", "secret", "bootstrap.ign", "master.ign", "worker.ign"] {
        std::fs::write(path(name), "{\"ignition\":{\"version\":\"3.2.0\"}}").unwrap();
    }
    iso::write(&path("live.iso"));
    let running = Running::start(Files {
        iso: Some(path("live.iso")),
        images: vec![path("os.raw")],
        cluster: Some(scratch.path().to_owned()),
        ..Files::default()
    });
    let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret()});
    let cluster = running.json("POST", "/v2/clusters", &body).document()["id"].as_str().unwrap().to_owned();
    let id = infra_env(&running);
    let host = format!("{API}/v2/infra-env/{id}/hosts");
    // {} is where the name goes.
    let places = [
        "/boot-artifacts/os/{}".to_owned(),
        "/boot-artifacts/{}".to_owned(),
        "/images/{}".to_owned(),
        format!("/images/{id}/{{}}"),
        format!("/images/{id}?type={{}}"),
        "/byid/{}/4.22/x86_64/full.iso".to_owned(),
        "/landfall/config/{}".to_owned(),
        format!("{API}/v2/infra-envs/{id}/downloads/files?file_name={{}}"),
        format!("{API}/v2/clusters/{cluster}/downloads/files?file_name={{}}"),
        format!("{API}/v2/clusters/{cluster}/downloads/credentials?file_name={{}}"),
        format!("{API}/v2/clusters/{cluster}/logs?logs_type={{}}"),
        format!("{API}/v2/clusters/{cluster}/logs?logs_type=host&host_id={{}}"),
        format!("{host}/{{}}/downloads/ignition"),
    ];
    let names = [
        "../secret",
        "..%2fsecret",
        "%2e%2e/secret",
        "%2e%2e%2fsecret",
        "..%252fsecret",
        "..%5csecret",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "%2fdev%2fzero",
        "%2fproc%2fself%2fenviron",
        "os.raw%00.ign",
        "%00",
        "%ff%fe",
        "..",
        ".",
        "CON",
        "os.raw/",
        "os.raw%20",
        "state.redb",
    ];
    for place in places {
        let mut seen = std::collections::BTreeMap::<String, Vec<&str>>::new();
        for name in names {
            let target = place.replace("{}", name);
            let answer = raw(
                &running,
                format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
            );
            let status = answer.split(' ').nth(1).unwrap_or("closed").to_owned();
            assert!(matches!(status.as_str(), "400" | "404" | "405" | "409" | "501"), "{target}: {answer}");
            assert!(!answer.contains("root:") && !answer.contains("3.2.0\"}}"), "{target}: {answer}");
            seen.entry(status).or_default().push(name);
        }
        let place = place.replace(&id, "ID").replace(&cluster, "ID");
        println!(
            "| {place} | {} |",
            seen.iter()
                .map(|(status, names)| format!("{status} to {}", names.join(" ")))
                .collect::<Vec<_>>()
                .join("; ")
        );
    }
    // What is uploaded is stored under no name of the client's.
    let form = "multipart/form-data; boundary=XX";
    for name in ["../../../../tmp/evil", "/etc/cron.d/evil", "a\0b", "CON"] {
        let upload = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"{name}\"\r\n\r\nlogs\r\n--XX--\r\n"
        );
        let target = format!("{API}/v2/clusters/{cluster}/logs?logs_type=controller");
        let status = running.request("POST", &target, &[("content-type", form)], upload.as_bytes()).status;
        println!("| upload with filename {name:?} | {status} |");
        assert_eq!(status, 204);
    }
    let directory = running.state.path().join("logs").join(&cluster).join("controller");
    let files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["logs.tar.gz"]);
}

#[test]
fn markup_in_names_stays_text() {
    let running = Running::start(Files::default());
    let id = infra_env(&running);
    let host = "69396def-4192-dbc7-5c01-819e7f27b01b";
    let hosts = format!("/v2/infra-envs/{id}/hosts");
    assert_eq!(running.json("POST", &hosts, &json!({"host_id": host})).status, 201);
    for name in [
        "<script>alert(1)</script>",
        "x'; DROP TABLE hosts; --",
        "\"><img src=x onerror=alert(1)>",
        "a\u{202e}b",
        "a\nb",
        "-",
    ] {
        let patched = running.json("PATCH", &format!("{hosts}/{host}"), &json!({"host_name": name}));
        println!("| PATCH host_name {name:?} | {} |", patched.status);
        assert_eq!(patched.status, 400, "{name}");
        let mut inventory = super::common::inventory("x", "10.0.0.9", "52:54:00:00:00:09");
        inventory["hostname"] = json!(name);
        let reply = json!({"step_type": "inventory", "step_id": "i", "exit_code": 0, "output": inventory.to_string()});
        assert_eq!(running.json("POST", &format!("{hosts}/{host}/instructions"), &reply).status, 204);
        let shown = running.get(&format!("{API}{hosts}/{host}"));
        assert_eq!(shown.header("content-type"), Some("application/json"));
        let document = shown.document();
        let kept: serde_json::Value = serde_json::from_str(document["inventory"].as_str().unwrap()).unwrap();
        assert_eq!(kept["hostname"], name, "as a JSON string, as it was");
        println!("| inventory with hostname {name:?} | 204, shown as a JSON string, status {} |", document["status"]);
    }
}
