//! A host whose only name server refuses the question for IPv6 addresses, as dnsmasq does that has no upstream: it registers, runs
//! a step, checks an API address and fetches an image, all by name.
#![allow(clippy::unwrap_used)]

use fake_service::{Answer, FakeService, Request};
use resolve::Names;
use serde_json::{Value, json};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output, Stdio},
    time::Instant,
};
use testkit::{
    net::{
        Host, Segment, cover_resolv_conf,
        programs::{Server, command, listens, packages},
    },
    process::Running,
};

const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
const SERVER: &str = "10.9.6.1";
const URL: &str = "http://service.lab:8090";

/// A service that ends from inside its namespace: its address leads nowhere from elsewhere.
struct Inside<'a> {
    host: &'a Host,
    service: Option<FakeService>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let service = self.service.take();
        self.host.namespace.enter(|| drop(service));
    }
}

fn name_server(packages: &Path, server: &Host, client: &Host, directory: &Path) -> Server {
    let mut dnsmasq = command(packages, &server.namespace, "usr/sbin/dnsmasq");
    dnsmasq.args(["-k", "-C", "/dev/null", "--user=root", "--pid-file=", "--no-resolv", "--no-hosts", "--log-queries"]);
    dnsmasq.args([
        "--log-facility=-",
        "--bind-interfaces",
        "--listen-address=10.9.6.1",
        "--address=/service.lab/10.9.6.1",
    ]);
    let mut running = Server::start(dnsmasq, &directory.join("dnsmasq.log"));
    running.await_ready(|| listens(&client.namespace, SocketAddr::new(SERVER.parse().unwrap(), 53)));
    running
}

fn serve(listener: TcpListener) -> FakeService {
    // Less than a MiB is no image.
    let image: &'static str = "image...".repeat(256 << 10).leak();
    let request = json!({"domains": [{"domain_name": "service.lab"}]}).to_string();
    let step = json!({"step_type": "domain-resolution", "step_id": "domain-resolution-1", "args": [request]});
    FakeService::on(listener, move |request| match (request.method.as_str(), request.path.as_str()) {
        ("POST", path) if path.ends_with("/hosts") => {
            let args = json!({"agent_version": "r.io/a:1", "host_id": HOST, "infra_env_id": INFRA_ENV}).to_string();
            Answer::Json(201, json!({"id": HOST, "next_step_runner_command": {"args": [args]}}))
        }
        ("GET", path) if path.ends_with("/instructions") => Answer::Json(
            200,
            json!({"instructions": [step], "next_instruction_seconds": 600, "post_step_action": "continue"}),
        ),
        ("POST", path) if path.ends_with("/instructions") => Answer::Status(204),
        ("GET", "/config/worker") => Answer::Json(200, json!({"ignition": {"version": "3.1.0"}})),
        ("GET", "/image.raw") => Answer::Text(200, image),
        _ => Answer::Status(404),
    })
}

fn landfall(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "LANDFALL_LOG"] {
        command.env_remove(name);
    }
    command.env("PULL_SECRET_TOKEN", "token").args(words).stdin(Stdio::null());
    command
}

fn succeeded(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_host_behind_a_name_server_that_refuses_aaaa_gets_to_everything_by_name() {
    let (Some(packages), Some(segment)) = (packages(), Segment::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("server", "52:54:00:aa:cc:01", &["10.9.6.1/24"]);
    let client = segment.host("client", "52:54:00:aa:cc:0a", &["10.9.6.10/24", "2001:db8:6::10/64"]);
    let dns = name_server(&packages, &server, &client, directory.path());
    let resolv_conf = directory.path().join("resolv.conf");
    fs::write(&resolv_conf, format!("nameserver {SERVER}\n")).unwrap();
    let service = server.namespace.enter(|| serve(TcpListener::bind((SERVER, 8090)).unwrap()));
    let inside_server = Inside { host: &server, service: Some(service) };
    let service = inside_server.service.as_ref().unwrap();
    let inside = |work: &mut (dyn FnMut() + Send)| {
        client.namespace.enter(|| {
            cover_resolv_conf(&resolv_conf);
            work();
        });
    };

    // As the program's connections ask. How long it takes is told, not judged.
    inside(&mut || {
        let started = Instant::now();
        let found = Names::default().addresses("service.lab", 8090, testkit::wait::LIMIT).unwrap();
        println!("first resolution of service.lab: {:.1} ms", started.elapsed().as_secs_f64() * 1000.0);
        assert_eq!(found, [SocketAddr::new(SERVER.parse().unwrap(), 8090)]);
    });

    // The agent registers and answers a step.
    let started = Instant::now();
    let mut agent = None;
    inside(&mut || {
        let words = ["agent", "--url", URL, "--infra-env-id", INFRA_ENV, "--host-id", HOST];
        agent = Some(Running(landfall(&words).spawn().unwrap()));
    });
    let registers = |request: &&Request| request.ends_with("POST", "/hosts");
    service.wait_for("the registration", |requests| requests.iter().any(|request| registers(&request)));
    println!("registered {} ms after the agent's start", started.elapsed().as_millis());
    let replies = |request: &&Request| request.ends_with("POST", "/instructions");
    let requests = service.wait_for("the step's reply", |requests| requests.iter().any(|request| replies(&request)));
    let reply = requests.iter().find(replies).unwrap();
    let resolved: Value = serde_json::from_str(reply.body["output"].as_str().unwrap()).unwrap();
    assert_eq!(resolved["resolutions"][0]["ipv4_addresses"], json!([SERVER]), "{resolved}");
    assert_eq!(reply.header("host"), Some("service.lab:8090"));
    drop(agent);

    // A day-2 host finds its cluster.
    let mut found = String::new();
    inside(&mut || {
        let url = format!("{URL}/config/worker");
        found = succeeded(landfall(&["netcheck", "endpoint", "--json", &url]).output().unwrap());
    });
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["is_success"], &found["download_error"]), (&json!(true), &Value::Null), "{found}");

    // What an installation fetches comes, too.
    inside(&mut || {
        let url = format!("{URL}/image.raw");
        let words = ["download", "--insecure", "-u", &url, "-C", directory.path().to_str().unwrap()];
        succeeded(landfall(&words).output().unwrap());
    });
    assert_eq!(fs::metadata(directory.path().join("image.raw")).unwrap().len(), 2 << 20);

    let log = dns.output();
    assert!(log.contains("query[AAAA] service.lab") && log.contains("query[A] service.lab"), "{log}");
    assert!(log.contains("REFUSED"), "this is what the test is about: {log}");
}
