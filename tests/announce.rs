//! An agent that knows neither the address nor the identifiers of its service, on a network with nothing else: multicast DNS tells
//! where it is, its certificate and the token are what the image carries.
#![allow(clippy::unwrap_used)]

#[path = "../netcheck/tests/common/mod.rs"]
mod net;

use net::{Host, Segment};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(60);

fn landfall() -> Command {
    Command::new(std::env::var("LANDFALL_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_landfall").to_owned()))
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(host: &Host, mut command: Command, log: &Path) -> Self {
        command.env_remove("LANDFALL_LOG").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(log).unwrap());
        Self(host.namespace.enter(|| command.spawn().unwrap()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn await_some<T>(what: &str, log: &Path, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "no {what}: {}", fs::read_to_string(log).unwrap_or_default());
        thread::sleep(Duration::from_millis(100));
    }
}

fn plan(directory: &Path) {
    let documents = [
        json!({"kind": "ClusterDeployment", "metadata": {"name": "rack"},
            "spec": {"clusterName": "rack", "baseDomain": "example.com", "pullSecretRef": {"name": "registry"}}}),
        json!({"kind": "AgentClusterInstall", "metadata": {"name": "rack"},
            "spec": {"imageSetRef": {"name": "release"}, "platformType": "None",
                "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
                "provisionRequirements": {"controlPlaneAgents": 3}}}),
        json!({"kind": "ClusterImageSet", "metadata": {"name": "release"},
            "spec": {"releaseImage": "quay.io/openshift-release-dev/ocp-release:4.22.0-x86_64"}}),
        json!({"kind": "Secret", "metadata": {"name": "registry"},
            "stringData": {".dockerconfigjson": r#"{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}"#}}),
    ];
    fs::create_dir(directory).unwrap();
    let text: String = documents.iter().map(|document| format!("---\n{document}\n")).collect();
    fs::write(directory.join("rack.yaml"), text).unwrap();
}

#[test]
fn an_agent_finds_a_service_that_tells_where_it_is_and_trusts_it() {
    let Some(segment) = Segment::new() else { return };
    let serving = segment.host("serving", "52:54:00:00:02:01", &["192.0.2.1/24"]);
    let other = segment.host("other", "52:54:00:00:02:02", &["192.0.2.2/24"]);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    plan(&at("rack"));
    said(Command::new("openssl").args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"]).arg(at("key")));
    let shown = said(landfall().args(["serve", "--check", "--json", "--rendezvous"]).arg(at("rack")));
    let planned: Value = serde_json::from_str(&shown).unwrap();
    let infra_env = planned["infra_env_id"].as_str().unwrap();
    let token = |kind: &[&str]| {
        said(landfall().args(["serve", "token", "--auth-key"]).arg(at("key")).args(kind)).trim().to_owned()
    };

    let mut serve = landfall();
    serve.args(["serve", "--announce", "--tls", "self-signed", "--auth", "local", "--listen", "0.0.0.0:8090"]);
    serve.args(["--url", "https://192.0.2.1:8090", "--poll-interval", "1", "--rendezvous"]).arg(at("rack"));
    serve.arg("--auth-key").arg(at("key")).arg("--state-dir").arg(at("state"));
    let _service = Running::start(&serving, serve, &at("service.log"));
    let authority = await_some("certificate", &at("service.log"), || fs::read_to_string(at("state/tls-ca.pem")).ok());

    let agent_token = token(&["--kind", "agent", "--infra-env", infra_env, "--expires", "never"]);
    let config = format!("rendezvous = 'mdns'\ntoken = '{agent_token}'\ncacert = '''\n{authority}'''\n");
    fs::write(at("agent.toml"), config).unwrap();
    let mut agent = landfall();
    agent.args(["agent", "--no-reboot", "--config"]).arg(at("agent.toml")).arg("--state-dir").arg(at("agent"));
    agent.args(["--host-id", "4c616e64-6661-6c6c-8000-000000000001"]);
    let _agent = Running::start(&other, agent, &at("agent.log"));

    fs::write(at("user.token"), token(&["--kind", "user"])).unwrap();
    let host = await_some("host with an inventory", &at("agent.log"), || {
        let mut list = landfall();
        list.args(["host", "list", "--json", "--url", "https://192.0.2.1:8090", "--infra-env", infra_env, "--cacert"]);
        list.arg(at("state/tls-ca.pem")).arg("--token-file").arg(at("user.token"));
        let output = other.namespace.enter(|| list.output().unwrap());
        let hosts: Value = serde_json::from_slice(&output.stdout).ok()?;
        hosts.as_array()?.iter().find(|host| host["inventory"].as_str().is_some_and(|text| text.len() > 2)).cloned()
    });
    assert_eq!(host["id"], "4c616e64-6661-6c6c-8000-000000000001");
    let log = fs::read_to_string(at("agent.log")).unwrap();
    assert!(log.contains("https://192.0.2.1:8090"), "{log}");
}
