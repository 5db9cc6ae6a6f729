//! The agent as it is, in a network of its own, gets every step that looks at the network from a service, and its replies are held
//! against the service's own description. Run with `--nocapture` to read them.
#![allow(clippy::unwrap_used)]

use fake_service::{Answer, FakeService, Request};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};
use testkit::{
    net::{
        Host, Segment,
        programs::{Server, command, packages},
        time_server::TimeServer,
    },
    process::Running,
    wire::{assert_fits, recorded_argument},
};

const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
/// Has the first of the two virtual addresses already.
const TAKEN: &str = "192.168.126.100/24";

fn dhcp_server(packages: &Path, host: &Host, directory: &Path) -> Server {
    let mut command = command(packages, &host.namespace, "usr/sbin/dnsmasq");
    command.args(["-k", "-C", "/dev/null", "--port=0", "--bind-interfaces", "--interface=ens3", "--no-ping"]);
    command.args(["--user=root", "--pid-file=", "--log-dhcp", "--log-facility=-"]);
    command.arg("--dhcp-range=192.168.126.200,192.168.126.201,255.255.255.0,1h");
    command.arg(format!("--dhcp-leasefile={}", directory.join("leases").display()));
    let log = directory.join("dnsmasq.log");
    let mut server = Server::start(command, &log);
    server.await_ready(|| std::fs::read_to_string(&log).unwrap().contains("sockets bound"));
    server
}

/// What the service hands out: what the real one was seen to send where nothing in it is out of this network's reach.
fn steps(service: &str) -> Option<Vec<(&'static str, String)>> {
    let mut steps = Vec::new();
    for kind in ["connectivity-check", "free-network-addresses", "domain-resolution", "verify-vips"] {
        steps.push((kind, recorded_argument(kind)?));
    }
    let authority = service.trim_start_matches("http://");
    let dhcp = json!({"interface": "ens3", "api_vip_mac": "00:1a:4a:10:20:30", "ingress_vip_mac": "00:1a:4a:40:50:60"});
    let tang = json!([{"url": service, "thumbprint": "PLjNyRdGw03zlRoGjQYMahSZGu9"}]).to_string();
    steps.push(("ntp-synchronizer", json!({"ntp_source": "192.168.126.12"}).to_string()));
    steps.push(("dhcp-lease-allocate", dhcp.to_string()));
    steps.push(("api-vip-connectivity-check", json!({"url": format!("{service}/worker")}).to_string()));
    steps.push(("tang-connectivity-check", json!({"tang_servers": tang}).to_string()));
    let images = json!({"images": [format!("{authority}/ns/one:1")], "timeout": 300});
    steps.push(("container-image-availability", images.to_string()));
    Some(steps)
}

fn serve(listener: TcpListener, steps: &[(&'static str, String)]) -> FakeService {
    let instructions: Vec<Value> = steps
        .iter()
        .map(|(kind, argument)| json!({"step_type": kind, "step_id": format!("{kind}-00000001"), "args": [argument]}))
        .collect();
    FakeService::on(listener, move |request| match (request.method.as_str(), request.path.as_str()) {
        ("POST", path) if path.ends_with("/hosts") => {
            let args = json!({"agent_version": "r.io/a:1", "host_id": HOST, "infra_env_id": INFRA_ENV}).to_string();
            Answer::Json(201, json!({"id": HOST, "next_step_runner_command": {"args": [args]}}))
        }
        ("GET", path) if path.ends_with("/instructions") => Answer::Json(
            200,
            json!({"instructions": instructions, "next_instruction_seconds": 600, "post_step_action": "continue"}),
        ),
        ("POST", path) if path.ends_with("/instructions") => Answer::Done,
        ("GET", "/worker") => Answer::Json(200, json!({"ignition": {"version": "3.1.0"}})),
        ("GET", path) if path.starts_with("/adv/") => Answer::Json(
            200,
            json!({"payload": "eyJrZXlzIjpbXX0", "signatures": [{"protected": "e30", "signature": "AQ"}]}),
        ),
        _ => Answer::Status(404),
    })
}

#[test]
fn every_step_of_the_network_is_answered_as_the_service_defines_it() {
    let Some(hosts) = recorded_argument("connectivity-check") else { return };
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let agent = segment.host("agent", "52:54:00:aa:bb:0a", &["192.168.126.10/24"]);
    let hosts: Value = serde_json::from_str(&hosts).unwrap();
    let peers: Vec<Host> = (0..)
        .zip(hosts.as_array().unwrap())
        .map(|(n, host)| {
            let nic = &host["nics"][0];
            let address = format!("{}/24", nic["ip_addresses"][0].as_str().unwrap());
            let addresses = if n == 0 { vec![address.as_str(), TAKEN] } else { vec![address.as_str()] };
            segment.host(&format!("r{n}"), nic["mac"].as_str().unwrap(), &addresses)
        })
        .collect();
    let _time = TimeServer::ahead(&peers[1].namespace, "192.168.126.12", 0);
    let _dhcp = dhcp_server(&packages, &peers[2], directory.path());

    // All that talks to the service does so from inside: its address leads nowhere from here.
    let replies: BTreeMap<String, Value> = peers[3].namespace.enter(|| {
        let listener = TcpListener::bind("192.168.126.14:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let steps = steps(&url).unwrap();
        let service = serve(listener, &steps);
        let start = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
            command.args(["agent", "--url", &url, "--infra-env-id", INFRA_ENV, "--host-id", HOST]);
            command.env("PULL_SECRET_TOKEN", "dummy");
            for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "LANDFALL_LOG"] {
                command.env_remove(name);
            }
            Running(command.stdin(Stdio::null()).spawn().unwrap())
        };
        let _agent = agent.namespace.enter(start);
        let is_reply = |request: &&Request| request.ends_with("POST", "/instructions");
        let all = |requests: &[Request]| requests.iter().filter(is_reply).count() >= steps.len();
        let requests = service.wait_for("a reply to each step", all);
        let replies = requests.iter().filter(is_reply);
        replies.map(|reply| (reply.body["step_type"].as_str().unwrap().to_owned(), reply.body.clone())).collect()
    });

    let output = |kind: &str, definition: &str, exit_code: Option<i64>| {
        let reply = &replies[kind];
        println!("{reply}");
        assert_fits("step-reply", reply);
        assert_eq!(reply.get("exit_code").and_then(Value::as_i64), exit_code, "{reply}");
        let output: Value = serde_json::from_str(reply["output"].as_str().unwrap()).unwrap();
        assert_fits(definition, &output);
        output
    };
    let report = output("connectivity-check", "connectivity-report", None);
    let remotes = report["remote_hosts"].as_array().unwrap();
    assert_eq!(remotes.len(), peers.len());
    for remote in remotes {
        assert_eq!(remote["l2_connectivity"][0]["successful"], true, "{remote}");
        assert_eq!(remote["l3_connectivity"][0]["successful"], true, "{remote}");
    }
    let free = output("free-network-addresses", "free_networks_addresses", None);
    let taken = ["10", "11", "12", "13", "14", "100"].map(|last| format!("192.168.126.{last}"));
    let expected: Vec<String> =
        (0..=255).map(|last| format!("192.168.126.{last}")).filter(|address| !taken.contains(address)).collect();
    assert_eq!(free, json!([{"free_addresses": expected, "network": "192.168.126.0/24"}]));
    let verified = output("verify-vips", "verify_vips_response", None);
    let expected = json!([
        {"verification": "failed", "vip": "192.168.126.100", "vip_type": "api"},
        {"verification": "succeeded", "vip": "192.168.126.101", "vip_type": "ingress"},
    ]);
    assert_eq!(verified, expected);
    let sources = output("ntp-synchronizer", "ntp_synchronization_response", None);
    let source = json!({"source_name": "192.168.126.12", "source_state": "not_combined"});
    assert_eq!(sources, json!({"ntp_sources": [source]}), "no chronyd runs there, so nothing is followed");
    let resolved = output("domain-resolution", "domain_resolution_response", None);
    let names = |name: &Value| name["domain_name"].as_str().unwrap().to_owned();
    let resolved: Vec<String> = resolved["resolutions"].as_array().unwrap().iter().map(names).collect();
    let asked: Value = serde_json::from_str(&recorded_argument("domain-resolution").unwrap()).unwrap();
    let asked: Vec<String> = asked["domains"].as_array().unwrap().iter().map(names).collect();
    assert_eq!(resolved, asked);
    let leases = output("dhcp-lease-allocate", "dhcp_allocation_response", None);
    let mut addresses = [&leases["api_vip_address"], &leases["ingress_vip_address"]].map(|a| a.as_str().unwrap());
    addresses.sort_unstable();
    assert_eq!(addresses, ["192.168.126.200", "192.168.126.201"]);
    let config = output("api-vip-connectivity-check", "api_vip_connectivity_response", None);
    assert_eq!(config["is_success"], true, "{config}");
    assert!(config["ignition"].as_str().unwrap().contains("3.2.0"), "{config}");
    let tang = output("tang-connectivity-check", "tang_connectivity_response", None);
    assert_eq!(tang["is_success"], true, "{tang}");
    let images = output("container-image-availability", "container_image_availability_response", Some(2));
    assert_eq!(images["images"][0]["result"], "failure", "{images}");
}
