//! An agent that knows neither the address nor the identifiers of its service, on a network with nothing else: multicast DNS tells
//! where it is, and what the image carries proves it. An attacker on the same network has told so before.
#![allow(clippy::unwrap_used)]

#[path = "announce/attacker.rs"]
mod attacker;

use attacker::{Attacker, Play};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
use testkit::{
    net::{Host, Segment},
    process::{Running, kill_with_worker},
    wait,
};

fn landfall() -> Command {
    Command::new(std::env::var("LANDFALL_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_landfall").to_owned()))
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn start(host: &Host, mut command: Command, log: &Path) -> Running {
    command.env_remove("LANDFALL_LOG").stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(log).unwrap());
    Running(host.namespace.enter(|| command.spawn().unwrap()))
}

fn await_some<T>(what: &str, log: &Path, look: impl Fn() -> Option<T>) -> T {
    let missing = || panic!("no {what}: {}", fs::read_to_string(log).unwrap_or_default());
    wait::found(look).unwrap_or_else(missing)
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

/// One host that serves, one that looks for it, and one that is in nobody's plan.
struct World {
    _segment: Segment,
    serving: Host,
    other: Host,
    attacking: Host,
    directory: tempfile::TempDir,
    genuine: String,
    infra_env: String,
}

const GENUINE: &str = "192.0.2.1:8090";
const ATTACKER: &str = "192.0.2.66";
const HOST_ID: &str = "4c616e64-6661-6c6c-8000-000000000001";

impl World {
    fn new() -> Option<Self> {
        Self::with("192.0.2.1", ATTACKER)
    }

    /// With these addresses of the service and the attacker.
    fn with(serving: &str, attacking: &str) -> Option<Self> {
        let segment = Segment::new()?;
        let genuine = format!("{serving}:8090");
        let serving = segment.host("serving", "52:54:00:00:02:01", &[&format!("{serving}/24")]);
        let other = segment.host("other", "52:54:00:00:02:02", &["192.0.2.2/24"]);
        let attacking = segment.host("attacking", "52:54:00:00:02:42", &[&format!("{attacking}/24")]);
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        plan(&directory.path().join("rack"));
        output(Command::new("openssl").args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"]).arg(key));
        let infra_env = String::new();
        let mut world = Self { _segment: segment, serving, other, attacking, directory, genuine, infra_env };
        world.infra_env = world.planned()["infra_env_id"].as_str().unwrap().to_owned();
        Some(world)
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// What the service says of the plan before it is carried out.
    fn planned(&self) -> Value {
        let mut check = landfall();
        check.args(["serve", "--check", "--json", "--rendezvous"]).arg(self.at("rack"));
        check.arg("--rendezvous-key").arg(self.at("key"));
        serde_json::from_str(&output(&mut check)).unwrap()
    }

    fn serve(&self, options: &[&str]) -> Running {
        let mut serve = landfall();
        serve.args(["serve", "--listen", "0.0.0.0:8090", "--poll-interval", "1", "--rendezvous"]).arg(self.at("rack"));
        serve.arg("--state-dir").arg(self.at("state")).args(options);
        let running = start(&self.serving, serve, &self.at("service.log"));
        await_some("service", &self.at("service.log"), || {
            self.attacking.namespace.enter(|| std::net::TcpStream::connect(&self.genuine)).ok()
        });
        running
    }

    fn agent(&self, config: &str) -> Running {
        fs::write(self.at("agent.toml"), config).unwrap();
        let mut agent = landfall();
        agent.args(["agent", "--no-reboot", "--config"]).arg(self.at("agent.toml"));
        agent.arg("--state-dir").arg(self.at("agent")).args(["--host-id", HOST_ID]);
        start(&self.other, agent, &self.at("agent.log"))
    }

    /// Waits until the service lists the agent's host with an inventory.
    fn await_host(&self, options: &[&str]) {
        let host = await_some("host with an inventory", &self.at("agent.log"), || {
            let mut list = landfall();
            list.args(["host", "list", "--json", "--infra-env", &self.infra_env]).args(options);
            let output = self.other.namespace.enter(|| list.output().unwrap());
            let hosts: Value = serde_json::from_slice(&output.stdout).ok()?;
            let told = |host: &&Value| host["inventory"].as_str().is_some_and(|text| text.len() > 2);
            hosts.as_array()?.iter().find(told).cloned()
        });
        assert_eq!(host["id"], HOST_ID);
    }

    fn token(&self, kind: &[&str]) -> String {
        output(landfall().args(["serve", "token", "--auth-key"]).arg(self.at("key")).args(kind)).trim().to_owned()
    }

    fn agent_log(&self) -> String {
        fs::read_to_string(self.at("agent.log")).unwrap_or_default()
    }
}

/// Plain HTTP and no token: the signature alone tells the service from others.
fn only_what_is_signed_is_believed(play: &Play) {
    let Some(world) = World::new() else { return };
    let play = match play {
        Play::Lie(_) => &Play::Lie(world.infra_env.clone()),
        other => other,
    };
    let key = world.at("key");
    let signed = ["--url", "http://192.0.2.1:8090", "--rendezvous-key", key.to_str().unwrap()];
    let mut silent = world.serve(&signed);
    let attacker = Attacker::begin(&world.attacking, ATTACKER, play);
    let public = world.planned()["rendezvous_key"].as_str().unwrap().to_owned();
    let _agent = world.agent(&format!("rendezvous = 'mdns'\nrendezvous_key = '{public}'\n"));
    await_some("second question", &world.at("agent.log"), || (attacker.requests().len() > 1).then_some(()));
    attacker.assert_got_nothing();
    // Only now the service says where it is; the attacker goes on.
    kill_with_worker(&mut silent.0);
    let _service = world.serve(&[&signed[..], &["--announce"]].concat());
    world.await_host(&["--url", "http://192.0.2.1:8090"]);
    attacker.assert_got_nothing();
    let log = world.agent_log();
    assert!(log.contains("http://192.0.2.66:8090: "), "{log}");
    println!("{play:?}: the attacker got {} questions and nothing else", attacker.requests().len());
}

#[test]
fn an_attacker_who_answers_first_gets_nothing() {
    only_what_is_signed_is_believed(&Play::Lie(String::new()));
}

#[test]
fn an_attacker_who_replays_an_answer_gets_nothing() {
    only_what_is_signed_is_believed(&Play::Replay(GENUINE.to_owned()));
}

#[test]
fn an_attacker_who_relays_the_question_gets_nothing() {
    only_what_is_signed_is_believed(&Play::Relay(GENUINE.to_owned()));
}

/// HTTPS and a token. `proof` makes what the agent's configuration has beside it.
fn a_token_goes_to_the_service_alone(proof: impl FnOnce(&World) -> String) {
    let Some(world) = World::new() else { return };
    let key = world.at("key");
    let secured = ["--tls", "self-signed", "--auth", "local", "--auth-key", key.to_str().unwrap()];
    let secured = [&secured[..], &["--url", "https://192.0.2.1:8090"]].concat();
    let mut silent = world.serve(&secured);
    let attacker = Attacker::begin(&world.attacking, ATTACKER, &Play::Lie(world.infra_env.clone()));
    let token = world.token(&["--kind", "agent", "--infra-env", &world.infra_env, "--expires", "never"]);
    let _agent = world.agent(&format!("rendezvous = 'mdns'\ntoken = '{token}'\n{}", proof(&world)));
    await_some("word of the attacker", &world.at("agent.log"), || {
        (world.agent_log().contains("http://192.0.2.66:8090") || !attacker.requests().is_empty()).then_some(())
    });
    attacker.assert_got_nothing();
    kill_with_worker(&mut silent.0);
    let _service = world.serve(&[&secured[..], &["--announce"]].concat());
    fs::write(world.at("user.token"), world.token(&["--kind", "user"])).unwrap();
    let (authority, user) = (world.at("state/tls-ca.pem"), world.at("user.token"));
    let [authority, user] = [&authority, &user].map(|path| path.to_str().unwrap());
    world.await_host(&["--url", "https://192.0.2.1:8090", "--cacert", authority, "--token-file", user]);
    assert_eq!(attacker.requests(), Vec::<String>::new(), "it is not even asked: its address is not https");
    assert!(world.agent_log().contains("https://192.0.2.1:8090"), "{}", world.agent_log());
}

#[test]
fn an_agent_finds_a_service_that_tells_where_it_is_and_trusts_its_certificate() {
    a_token_goes_to_the_service_alone(|world| {
        // It takes connections before it has made its authority.
        let authority =
            await_some("authority", &world.at("service.log"), || fs::read_to_string(world.at("state/tls-ca.pem")).ok());
        format!("cacert = '''\n{authority}'''\n")
    });
}

#[test]
fn an_agent_learns_the_authority_of_a_service_by_its_signature() {
    a_token_goes_to_the_service_alone(|world| {
        format!("rendezvous_key = '{}'\n", world.planned()["rendezvous_key"].as_str().unwrap())
    });
}

#[test]
fn an_attacker_who_has_the_services_address_gets_no_token() {
    let Some(world) = World::with("192.0.2.9", "192.0.2.1") else { return };
    let key = world.at("key");
    let secured = ["--tls", "self-signed", "--auth", "local", "--auth-key", key.to_str().unwrap(), "--announce"];
    let _service = world.serve(&[&secured[..], &["--url", "https://192.0.2.1:8090"]].concat());
    let requests = attacker::intercept(&world.attacking, "192.0.2.1", &world.genuine, world.directory.path());
    let token = world.token(&["--kind", "agent", "--infra-env", &world.infra_env, "--expires", "never"]);
    let public = world.planned()["rendezvous_key"].as_str().unwrap().to_owned();
    let _agent = world.agent(&format!("rendezvous = 'mdns'\ntoken = '{token}'\nrendezvous_key = '{public}'\n"));
    // What is signed is right, and passed on as it is; the certificate is not the one that is signed.
    await_some("refusal", &world.at("agent.log"), || {
        let asked_twice = requests.lock().unwrap().len() > 1;
        (asked_twice || world.agent_log().contains("UnknownIssuer")).then_some(())
    });
    attacker::assert_got_nothing(&requests.lock().unwrap());
    let log = world.agent_log();
    assert!(log.contains("https://192.0.2.1:8090: ") && log.contains("UnknownIssuer"), "{log}");
    assert!(!log.contains("the rendezvous answers"), "{log}");
}
