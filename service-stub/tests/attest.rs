//! A service that refuses what its hosts' TPMs do not prove, and a host with an emulated TPM.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::{
    ClusterCreateParams, HostCreateParams, HostId, InfraEnvCreateParams, InfraEnvId, Secret, StepReply, StepType,
    attest::AttestRequest,
};
use common::{API, Files, Running, inventory, pull_secret};
use serde_json::{Value, json};
use service_stub::attest::{self, Attest, FirstBoot, Policy};
use testkit::tpm::{Tpm, has};

struct World {
    running: Running,
    infra_env: InfraEnvId,
    host: HostId,
    cluster: String,
}

impl World {
    fn new(policy: Policy) -> Self {
        Self::with(policy, FirstBoot::Hold)
    }

    fn with(policy: Policy, first_boot: FirstBoot) -> Self {
        let running = Running::start(Files { attest: Attest { policy, first_boot, roots: None }, ..Files::default() });
        let client = running.client();
        let cluster = client.create_cluster(&ClusterCreateParams {
            name: "single".into(),
            openshift_version: "4.22".into(),
            base_dns_domain: Some("example.com".into()),
            control_plane_count: Some(1),
            user_managed_networking: Some(true),
            pull_secret: Secret::new(pull_secret()),
            ..ClusterCreateParams::default()
        });
        let cluster = cluster.unwrap().id;
        let infra_env = client.create_infra_env(&InfraEnvCreateParams {
            name: "single".into(),
            cluster_id: Some(cluster),
            pull_secret: Secret::new(pull_secret()),
            ..InfraEnvCreateParams::default()
        });
        Self { infra_env: infra_env.unwrap().id, running, host: HostId::random(), cluster: cluster.to_string() }
    }

    /// The host boots, with this TPM or none, and replies until it is asked nothing new.
    fn boot(&self, tpm: Option<&Tpm>) {
        let params = HostCreateParams { host_id: self.host, discovery_agent_version: "localhost/agent:1".into() };
        self.running.client().register_host(self.infra_env, &params).unwrap();
        for _ in 0..4 {
            self.poll(tpm);
        }
    }

    fn poll(&self, tpm: Option<&Tpm>) {
        let steps = self.running.client().next_steps(self.infra_env, self.host).unwrap();
        for step in steps.instructions.unwrap_or_default() {
            let answer = match (&step.step_type, tpm) {
                (StepType::Inventory, _) => Ok(inventory("node-0", "10.0.0.1", "52:54:00:00:00:01").to_string()),
                (StepType::Attest, Some(tpm)) => {
                    let request: AttestRequest = serde_json::from_str(&step.args[0]).unwrap();
                    let mut device = tpm.connect();
                    let mut exchange = |command: &[u8]| kernel::tpm::exchange(&mut device, command);
                    let reply = inventory::attest::prove(&mut exchange, &request, Vec::new()).unwrap();
                    Ok(serde_json::to_string(&reply).unwrap())
                }
                (StepType::Attest, None) => Err("there is no TPM: /sys/class/tpm has none"),
                _ => Err("not here"),
            };
            let (exit_code, output, error) = match answer {
                Ok(output) => (0, output, String::new()),
                Err(error) => (1, String::new(), error.to_owned()),
            };
            let reply = StepReply { error, exit_code, output, step_id: step.step_id, step_type: step.step_type };
            let path = format!("{}/instructions", self.path());
            assert_eq!(self.running.json("POST", &path, &serde_json::to_value(reply).unwrap()).status, 204);
        }
    }

    fn path(&self) -> String {
        format!("/v2/infra-envs/{}/hosts/{}", self.infra_env, self.host)
    }

    fn status(&self) -> String {
        let host = self.running.get(&format!("{API}{}", self.path())).document();
        host["status"].as_str().unwrap().to_owned()
    }

    /// Status and message of the check; none if it is not made.
    fn check(&self) -> Option<(String, String)> {
        let host = self.running.get(&format!("{API}{}", self.path())).document();
        let validations: Value = serde_json::from_str(host["validations_info"].as_str().unwrap()).unwrap();
        let found = validations["hardware"].as_array().unwrap().iter().find(|found| found["id"] == "boot-attested")?;
        let text = |name: &str| found[name].as_str().unwrap().to_owned();
        Some((text("status"), text("message")))
    }

    fn good_boot(&self, method: &str) -> u16 {
        let path = format!("/landfall/hosts/{}/{}/good-boot", self.infra_env, self.host);
        self.running.request(method, &path, &[], if method == "POST" { b"{}" } else { b"" }).status
    }

    fn install(&self) -> u16 {
        self.running.json("POST", &format!("/v2/clusters/{}/actions/install", self.cluster), &json!({})).status
    }

    /// Messages of events of a kind, oldest first.
    fn events(&self, name: &str) -> Vec<String> {
        let events = self.running.get(&format!("{API}/v2/events?host_id={}", self.host)).document();
        let mut events: Vec<Value> = events.as_array().unwrap().clone();
        events.retain(|event| event["name"] == name);
        events.into_iter().map(|event| event["message"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_host_that_booted_something_else_is_not_installed() {
    if !has(&["swtpm", "tpm2_pcrextend", "tpm2_flushcontext"]) {
        return;
    }
    let (world, tpm) = (World::new(Policy::Refuse), Tpm::bare());
    assert_eq!(world.good_boot("POST"), 404, "there is no host yet");
    world.boot(Some(&tpm));
    let (status, message) = world.check().unwrap();
    assert_eq!(status, "failure");
    assert!(message.ends_with("if it is good, run `landfall host attest node-0 --record`"), "{message}");
    assert_eq!((world.status().as_str(), world.install()), ("insufficient", 409));

    assert_eq!((world.good_boot("POST"), world.good_boot("POST")), (200, 200));
    let (status, message) = world.check().unwrap();
    assert_eq!(status, "success", "{message}");
    assert_eq!(world.status(), "known");

    // The same machine with another kernel.
    tpm.ask("tpm2_pcrextend", &[&format!("4:sha256={}", "ab".repeat(32))]);
    world.boot(Some(&tpm));
    let (status, message) = world.check().unwrap();
    assert_eq!(status, "failure");
    assert!(
        message
            .starts_with("The boot differs from the recorded one: register 4 (boot loader and kernel): another value"),
        "{message}"
    );
    assert_eq!((world.status().as_str(), world.install()), ("insufficient", 409));
    let failed = world.events("host_attestation_failed");
    assert!(failed.len() == 2 && failed[1].contains("register 4 (boot loader and kernel)"), "{failed:?}");

    // Another machine under its id, and one without a TPM.
    world.boot(Some(&Tpm::bare()));
    let (_, message) = world.check().unwrap();
    assert!(
        message.starts_with("The boot is not proven: the TPM is another than when this host enrolled"),
        "{message}"
    );
    world.boot(None);
    let (_, message) = world.check().unwrap();
    assert_eq!(message, "The boot is not proven: there is no TPM: /sys/class/tpm has none");
    assert_eq!(world.good_boot("POST"), 409, "what is not proven is not recorded");
    assert_eq!(world.good_boot("DELETE"), 204);
}

#[test]
fn a_first_boot_is_trusted_where_that_is_asked_for() {
    if !has(&["swtpm", "tpm2_pcrextend", "tpm2_flushcontext"]) {
        return;
    }
    let (mut world, tpm) = (World::with(Policy::Refuse, FirstBoot::Record), Tpm::bare());
    world.boot(None);
    assert_eq!(world.check().unwrap().0, "failure", "what is not proven is not taken for good");
    world.boot(Some(&tpm));
    let (status, message) = world.check().unwrap();
    assert_eq!(status, "success", "{message}");
    assert!(message.ends_with("proves the same boot as this host's first, which is not recorded"), "{message}");
    let events = world.events("host_attested");
    assert!(events.iter().any(|event| event.contains("is taken for good, for this host alone")), "{events:?}");

    // Another machine's first boot is its own affair, and another TPM under this id is refused.
    let (first, other) = (world.host, Tpm::bare());
    other.ask("tpm2_pcrextend", &[&format!("4:sha256={}", "cd".repeat(32))]);
    world.boot(Some(&other));
    let (status, message) = world.check().unwrap();
    assert!(status == "failure" && message.contains("the TPM is another than when this host enrolled"), "{message}");
    world.host = HostId::random();
    world.boot(Some(&other));
    assert_eq!(world.check().unwrap().0, "success");
    world.host = first;

    // The first host with another kernel.
    tpm.ask("tpm2_pcrextend", &[&format!("4:sha256={}", "ab".repeat(32))]);
    world.boot(Some(&tpm));
    let (status, message) = world.check().unwrap();
    assert_eq!(status, "failure");
    assert!(message.starts_with("The boot differs from this host's first one: register 4"), "{message}");
    // What the operator records counts instead; without it, nothing is good until the next registration.
    assert_eq!((world.good_boot("POST"), world.check().unwrap().0.as_str()), (200, "success"));
    assert_eq!((world.good_boot("DELETE"), world.check().unwrap().0.as_str()), (204, "failure"));
    world.boot(Some(&tpm));
    assert_eq!(world.check().unwrap().0, "success");
}

#[test]
fn policies_that_refuse_nothing() {
    if !has(&["swtpm"]) {
        return;
    }
    let tpm = Tpm::bare();
    for (policy, wanted) in [(Policy::Off, None), (Policy::Note, Some("success")), (Policy::Warn, Some("failure"))] {
        let world = World::new(policy);
        world.boot(Some(&tpm));
        let found = world.check();
        assert_eq!(found.as_ref().map(|(status, _)| status.as_str()), wanted, "{found:?}");
        assert_eq!(world.status(), "known", "{policy:?}");
    }
}

#[test]
fn a_value_is_quoted_for_whoever_asks() {
    if !has(&["swtpm"]) {
        return;
    }
    let (world, tpm) = (World::new(Policy::Off), Tpm::bare());
    world.boot(Some(&tpm));
    let service = &world.running.service;
    let key = service_stub::model::HostKey { infra_env: world.infra_env, host: world.host };
    let value = [0x77; 32];
    attest::demand(service, key, value);
    assert!(attest::evidence(service, key, value).is_none());
    world.poll(Some(&tpm));
    let evidence = attest::evidence(service, key, value).unwrap().unwrap();
    evidence.check(&value).unwrap();
}
