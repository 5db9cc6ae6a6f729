//! Certification over HTTP: agents that poll and reply as Landfall's does, others that don't, and replies that no run waits for.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::attest::AttestRequest;
use api::certify::{CertifyAction, CertifyReply, CertifyRequest};
use api::{EXTENSIONS_HEADER, HostCreateParams, HostId, InfraEnvCreateParams, InfraEnvId, Secret, StepReply, StepType};
use certify::Plan;
use common::{API, Answer, Files, Running, inventory, pull_secret};
use serde_json::{Value, json};
use service_stub::control::{Console, certify::Certify};
use testkit::tpm::{Tpm, has};

const RUNS: &str = "/landfall/certify/runs";

struct World {
    running: Running,
    infra_env: InfraEnvId,
    hosts: Vec<HostId>,
}

fn plan(text: &str) -> Plan {
    let text = format!("name = \"Model X\"\n{text}");
    Plan::parse("plan.toml", &text, &|name| panic!("{name} is not opened")).unwrap()
}

impl World {
    fn new(hosts: usize) -> Self {
        let running = Running::start(Files::default());
        let params = InfraEnvCreateParams {
            name: "pool".into(),
            pull_secret: Secret::new(pull_secret()),
            ..InfraEnvCreateParams::default()
        };
        let infra_env = running.client().create_infra_env(&params).unwrap().id;
        let world = Self { running, infra_env, hosts: (0..hosts).map(|_| HostId::random()).collect() };
        for host in 0..hosts {
            world.register(host);
            world.inventory(host);
        }
        world
    }

    fn register(&self, host: usize) {
        let params = HostCreateParams { host_id: self.hosts[host], discovery_agent_version: "landfall/0".into() };
        self.running.client().register_host(self.infra_env, &params).unwrap();
    }

    fn inventory(&self, host: usize) {
        let mut document =
            inventory(&format!("node-{host}"), &format!("10.0.0.{}", host + 1), &format!("52:54:00:00:00:{host:02x}"));
        document["system_vendor"] =
            json!({"manufacturer": "Maker", "product_name": "X", "serial_number": format!("S{host}")});
        assert_eq!(self.reply(host, StepType::Inventory, 0, &document.to_string()), 204);
    }

    fn path(&self, host: usize) -> String {
        format!("{API}/v2/infra-envs/{}/hosts/{}/instructions", self.infra_env, self.hosts[host])
    }

    /// What a host is asked for, if it announces that it knows certifications.
    fn poll(&self, host: usize) -> Option<CertifyRequest> {
        let steps = self.running.client().next_steps(self.infra_env, self.hosts[host]).unwrap();
        let asked =
            steps.instructions.unwrap_or_default().into_iter().find(|step| step.step_type == StepType::Certify)?;
        assert!(steps.next_instruction_seconds <= 2, "hosts of a run poll often");
        assert_eq!(asked.args.len(), 1);
        Some(serde_json::from_str(&asked.args[0]).unwrap())
    }

    fn reply(&self, host: usize, step_type: StepType, exit_code: i64, output: &str) -> u16 {
        let reply =
            StepReply { error: "why".into(), exit_code, output: output.into(), step_id: "x-1".into(), step_type };
        self.running.request("POST", &self.path(host), &[], &serde_json::to_vec(&reply).unwrap()).status
    }

    fn answer(&self, host: usize, request: &CertifyRequest, exit_code: i32, document: Value) -> u16 {
        let CertifyRequest { run, step, attempt, .. } = request.clone();
        let reply = CertifyReply { run, step, attempt, exit_code, document, error: String::new() };
        self.reply(host, StepType::Certify, exit_code.into(), &serde_json::to_string(&reply).unwrap())
    }

    fn begin(&self, text: &str) -> String {
        let answer = self.send(text);
        assert_eq!(answer.status, 201, "{}", answer.document());
        answer.document()["id"].as_str().unwrap().to_owned()
    }

    fn send(&self, text: &str) -> Answer {
        self.running.request("POST", RUNS, &[], &plan(text).to_json())
    }

    fn run(&self, id: &str) -> Value {
        self.running.get(&format!("{RUNS}/{id}")).document()
    }

    /// State and findings of a step.
    fn step(&self, id: &str, host: usize, step: usize) -> (String, String) {
        let run = self.run(id);
        let step = &run["result"]["hosts"][host]["steps"][step];
        let findings = step["findings"].as_array().unwrap().iter().map(|finding| finding.as_str().unwrap());
        (step["state"].as_str().unwrap().to_owned(), findings.collect::<Vec<_>>().join("; "))
    }

    /// Lets the agents work until none is asked any more.
    fn work(&self, document: impl Fn(usize, &CertifyAction) -> Option<Value>) {
        let mut idle = 0;
        while idle < 2 {
            idle += 1;
            for host in 0..self.hosts.len() {
                let Some(request) = self.poll(host) else { continue };
                let Some(document) = document(host, &request.action) else { continue };
                idle = 0;
                assert_eq!(self.answer(host, &request, 0, document), 204);
            }
        }
    }

    fn client(&self, arguments: &[&str]) -> (bool, String) {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            certify: Certify,
        }
        let arguments = ["certify", "--url", &self.running.url].iter().chain(arguments).copied().collect::<Vec<_>>();
        let program = <Program as clap::Parser>::try_parse_from(arguments).unwrap();
        let mut out = Vec::new();
        let done = program.certify.run_on(&mut Console { out: &mut out, width: Some(80) });
        let text = String::from_utf8(out).unwrap()
            + &done.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        (done.is_ok(), text)
    }
}

fn good(_: usize, action: &CertifyAction) -> Option<Value> {
    Some(match action {
        CertifyAction::Report => json!({"memory": {"installed_bytes": 8}, "kernel": {"release": "6.1"}}),
        CertifyAction::Capture => json!({"tar_gz": "YQ=="}),
        CertifyAction::DiskSpeed { .. } => json!({"path": "/dev/vda", "io_sync_duration_ms": 4}),
        CertifyAction::Burnin { .. } => {
            json!({"verdict": "pass", "totals": [{"kind": "cpu", "name": "all", "measurements": {"hashes_per_second": 5.0}}]})
        }
        CertifyAction::Doctor => json!({"findings": []}),
        action => panic!("{action:?}"),
    })
}

#[test]
fn two_hosts_go_through_a_plan_and_its_result_is_found_again() {
    let world = World::new(2);
    let text = "[policy]\nhosts = 2\n[[sku]]\nname = \"X-8\"\nexpect = { memory.installed_bytes = 8 }\n\
        [[step]]\ndo = \"disk-speed\"\nmax_ms = 10\n[[step]]\ndo = \"burnin\"\nfor = \"1s\"\n[[step]]\ndo = \"boot\"\n";
    let id = world.begin(text);
    let second = world.send(text);
    assert_eq!(second.status, 409);
    assert!(
        second.document()["reason"].as_str().unwrap_or_default().contains("has not ended"),
        "{}",
        second.document()
    );
    world.work(|host, action| if *action == CertifyAction::Reboot { Some(Value::Null) } else { good(host, action) });
    assert_eq!((world.run(&id)["state"].as_str(), world.step(&id, 0, 3).0.as_str()), (Some("running"), "running"));
    for host in 0..2 {
        world.register(host);
        world.inventory(host);
        world.poll(host);
    }
    let run = world.run(&id);
    assert_eq!((&run["state"], &run["verdict"]), (&json!("done"), &json!("pass")), "{run:#}");
    let result: certify::result::Run = serde_json::from_value(run["result"].clone()).unwrap();
    assert_eq!(result.fault(), None);
    assert_eq!(result.hosts[1].sku.as_deref(), Some("X-8"));
    assert_eq!(result.hosts[0].steps[1].measurements["flush_p99_ms"], 4.0);
    let file = |name: &str| world.running.get(&format!("{RUNS}/{id}/files/S0/{name}"));
    assert_eq!(file("capture.tar.gz").body, b"a");
    assert_eq!(file("burnin.json").document()["verdict"], "pass");
    for missing in ["..%2Frun.json", "..%2F..%2F..%2Fstate.redb", "boot.json", "%00"] {
        assert_eq!(file(missing).status, 404, "{missing}");
    }
    assert_eq!(world.running.get(&format!("{RUNS}/x")).status, 404);
    assert_eq!(world.running.get("/landfall/certify/serials/S9").document(), json!([]));

    // Once more, with other memory.
    let again = world.begin("[[step]]\ndo = \"burnin\"\nfor = \"1s\"\n");
    world.work(|host, action| match action {
        CertifyAction::Report => Some(json!({"memory": {"installed_bytes": 16}, "kernel": {"release": "6.1"}})),
        action => good(host, action),
    });
    let history = world.running.get("/landfall/certify/serials/S1").document();
    let ids: Vec<&str> = history.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&again, &id]);

    let (_, listed) = world.client(&["list"]);
    assert!(listed.contains(&id[..8]) && listed.contains("PASS") && listed.lines().count() == 3, "{listed}");
    let (_, shown) = world.client(&["show", &id[..8]]);
    assert!(shown.starts_with("Model X: 2 machines, PASS\n") && shown.contains("node-1 (Maker X S1)"), "{shown}");
    let (_, compared) = world.client(&["compare", &id, &again]);
    assert!(
        compared.contains("~ memory.installed_bytes: 8 -> 16") || compared.contains("memory.installed_bytes"),
        "{compared}"
    );
    let (_, history) = world.client(&["history", "S1"]);
    assert!(history.contains("X-8"), "{history}");
    for text in [listed, shown, history] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let (found, why) = world.client(&["show", "zz"]);
    assert!(!found && why.contains("no certification begins with 'zz'"), "{why}");
    let (ended, why) = world.client(&["cancel", &id]);
    assert!(!ended && why.contains("has ended already"), "{why}");
    // What was begun in another place is followed to its end.
    let (followed, shown) = world.client(&["--attach", &id]);
    assert!(followed && shown.contains("Model X: 2 machines, PASS"), "{shown}");
}

#[test]
fn a_host_that_is_not_its_sku_is_not_installed_by_any_way() {
    let world = World::new(1);
    let id =
        world.begin("[[sku]]\nname = \"X-16\"\nexpect = { memory.installed_bytes = 16 }\n[[step]]\ndo = \"install\"\n");
    world.work(good);
    let (state, why) = world.step(&id, 0, 1);
    assert_eq!(state, "skipped");
    assert!(why.starts_with("the host differs from SKU X-16 in 1 place: memory.installed_bytes: "), "{why}");
    assert_eq!(world.run(&id)["verdict"], "fail");
    let events = world.running.get(&format!("{API}/v2/events?infra_env_id={}", world.infra_env)).document();
    let blocked: Vec<&Value> =
        events.as_array().unwrap().iter().filter(|event| event["name"] == "host_certification_blocked").collect();
    assert_eq!((blocked.len(), &blocked[0]["severity"]), (1, &json!("error")));
    assert!(blocked[0]["message"].as_str().unwrap().contains("node-0 must not be installed"), "{}", blocked[0]);

    let cluster = single_node(&world);
    let install = format!("/v2/clusters/{cluster}/actions/install");
    let refused = world.running.json("POST", &install, &json!({}));
    assert_eq!(refused.status, 409);
    assert!(refused.document()["reason"].as_str().unwrap().contains("node-0 must not be installed: certification"));
    // Certified again as what it is.
    world.begin("[policy]\nmismatch = \"note\"\n[[sku]]\nname = \"X-16\"\nexpect = { memory.installed_bytes = 16 }\n");
    world.work(good);
    let allowed = world.running.json("POST", &install, &json!({}));
    let text = allowed.document().to_string();
    assert!(!text.contains("must not be installed"), "{text}");
}

/// A cluster of the first host, which is bound to it.
fn single_node(world: &World) -> String {
    let body = json!({"name": "edge", "base_dns_domain": "example.com", "openshift_version": "4.22", "pull_secret": pull_secret(),
        "control_plane_count": 1, "high_availability_mode": "None", "platform": {"type": "none"}, "user_managed_networking": true});
    let cluster = world.running.json("POST", "/v2/clusters", &body);
    assert_eq!(cluster.status, 201, "{}", cluster.document());
    let id = cluster.document()["id"].as_str().unwrap().to_owned();
    let bind = format!("/v2/infra-envs/{}/hosts/{}/actions/bind", world.infra_env, world.hosts[0]);
    let bound = world.running.json("POST", &bind, &json!({"cluster_id": id}));
    assert_eq!(bound.status, 200, "{}", bound.document());
    world.register(0);
    world.inventory(0);
    id
}

#[test]
fn a_host_becomes_a_single_node_twice() {
    let world = World::new(1);
    let id = world.begin("[[step]]\ndo = \"install\"\n[[step]]\ndo = \"boot\"\n[[step]]\ndo = \"install\"\n");
    world.work(good);
    let client = world.running.client();
    let host =
        || world.running.get(&format!("{API}/v2/infra-envs/{}/hosts/{}", world.infra_env, world.hosts[0])).document();
    for (install, boots) in [(1, true), (3, false)] {
        assert_eq!(host()["status"], "binding", "{:#}", world.run(&id));
        let cluster = world.run(&id)["hosts"][0]["cluster_id"].as_str().unwrap().to_owned();
        world.register(0);
        world.inventory(0);
        world.poll(0);
        world.running.monitor();
        let document = world.running.get(&format!("{API}/v2/clusters/{cluster}")).document();
        assert_eq!(
            (&document["control_plane_count"], &document["status"]),
            (&json!(1), &json!("preparing-for-installation")),
            "{:#}",
            host()["validations_info"]
        );
        world.running.monitor();
        world.running.monitor();
        let steps = client.next_steps(world.infra_env, world.hosts[0]).unwrap();
        assert!(steps.instructions.unwrap().iter().any(|step| step.step_type == StepType::Install));
        assert_eq!(world.step(&id, 0, install).0, "running");
        for stage in ["Starting installation", "Installing", "Writing image to disk", "Rebooting"] {
            progress(&world, stage);
        }
        world.running.monitor();
        assert_eq!(world.step(&id, 0, install).0, "passed", "{:#}", world.run(&id));
        if boots {
            assert_eq!(world.step(&id, 0, 2).0, "running");
            for stage in ["Configuring", "Joined", "Done"] {
                progress(&world, stage);
            }
            for _ in 0..4 {
                world.running.monitor();
            }
            assert_eq!(world.step(&id, 0, 2).0, "passed");
            assert_eq!(host()["status"], "unbinding-pending-user-action", "{:#}", world.run(&id));
            let waits = world.run(&id)["hosts"][0]["waits_for"].as_str().unwrap().to_owned();
            assert!(waits.contains("attach its medium"), "{waits}");
            // An operator does.
            world.register(0);
            world.inventory(0);
            world.poll(0);
        }
    }
    assert_eq!((&world.run(&id)["state"], &world.run(&id)["verdict"]), (&json!("done"), &json!("pass")));
}

fn progress(world: &World, stage: &str) {
    let path = format!("/v2/infra-envs/{}/hosts/{}/progress", world.infra_env, world.hosts[0]);
    let answer = world.running.json("PUT", &path, &json!({"current_stage": stage}));
    assert_eq!(answer.status, 200, "{stage}: {}", String::from_utf8_lossy(&answer.body));
}

#[test]
fn replies_that_no_run_waits_for_change_nothing() {
    let world = World::new(2);
    assert_eq!(
        world.reply(0, StepType::Certify, 0, r#"{"run":"x","step":0,"attempt":1,"exit_code":0}"#),
        204,
        "there is no run"
    );
    let id = world.begin("[policy]\nhosts = 2\n");
    let (own, theirs) = (world.poll(0).unwrap(), world.poll(1).unwrap());
    let before = world.run(&id);
    for wrong in [
        CertifyRequest { run: "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d".into(), ..own.clone() },
        CertifyRequest { step: 7, ..own.clone() },
        CertifyRequest { attempt: 9, ..own.clone() },
    ] {
        assert_eq!(world.answer(0, &wrong, 0, json!({})), 204);
    }
    for (output, status) in [("", 400), ("[]", 400), ("{", 400), ("{\"run\":1}", 400)] {
        assert_eq!(world.reply(0, StepType::Certify, 0, output), status, "{output}");
    }
    let huge = json!({"x": "y".repeat(17 << 20)});
    assert_eq!(world.answer(0, &own, 0, huge), 413);
    assert_eq!(world.reply(0, StepType::Certify, 0, &"[".repeat(100_000)), 400);
    assert_eq!(world.run(&id)["result"], before["result"], "nothing of that counts");
    assert_eq!(world.answer(1, &theirs, 0, json!({"a": 1})), 204);
    assert_eq!(world.answer(1, &theirs, 0, json!({"a": 2})), 204, "a replay");
    assert_eq!(
        world.run(&id)["result"]["hosts"][0],
        before["result"]["hosts"][0],
        "another host's counts for that one"
    );
    assert_eq!(world.running.get(&format!("{RUNS}/{id}/files/S1/report.json")).document(), json!({"a": 1}));
    // Only the agent itself says what it could not do.
    assert_eq!(world.reply(0, StepType::Certify, 1, "no such step"), 204);
    assert_eq!(world.step(&id, 0, 0), ("running".to_owned(), "why".to_owned()));
}

#[test]
fn an_agent_that_does_not_announce_the_step_is_never_given_it() {
    let world = World::new(1);
    world.begin("");
    let versions = [("user-agent", "landfall/9.9"), ("discovery_agent_version", "landfall/9.9")];
    for headers in
        [vec![], versions.to_vec(), vec![(EXTENSIONS_HEADER, "Certify;inventory")], vec![(EXTENSIONS_HEADER, "")]]
    {
        let steps = world.running.request("GET", &world.path(0), &headers, b"").document();
        let kinds: Vec<&str> = steps["instructions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|step| step["step_type"].as_str().unwrap())
            .collect();
        assert!(!kinds.contains(&"certify"), "{headers:?}: {kinds:?}");
        assert_eq!(steps["next_instruction_seconds"], 60);
    }
    assert!(matches!(world.poll(0).unwrap().action, CertifyAction::Report));
    let unknown = world.running.request("POST", &world.path(0), &[], br#"{"step_type": "brew", "step_id": "1"}"#);
    assert!(!unknown.document().to_string().contains("certify"), "it is in no list of published types");
}

#[test]
fn plans_from_outside_are_checked() {
    let world = World::new(0);
    for (body, part) in [
        (&b"{}"[..], "the plan is not as"),
        (br#"{"name":"x","policy":{"mismatch":"block"},"skus":[],"steps":[{"do":"brew"}]}"#, "brew"),
        (
            br#"{"name":"x","policy":{"mismatch":"block","hosts":4000},"skus":[],"steps":[{"do":"report"}]}"#,
            "256 hosts",
        ),
    ] {
        let answer = world.running.request("POST", RUNS, &[], body);
        assert_eq!(answer.status, 400);
        assert!(answer.document().to_string().contains(part), "{}", answer.document());
    }
    let large = vec![b' '; certify::plan::MAX_BYTES + 1];
    assert_eq!(world.running.request("POST", RUNS, &[], &large).status, 413);
    let nowhere = format!("{RUNS}?infra_env_id={}", InfraEnvId::random());
    assert_eq!(world.running.request("POST", &nowhere, &[], &plan("").to_json()).status, 404);
    let id = world.begin("");
    assert_eq!(world.run(&id)["state"], "waiting", "there is no host");
    assert_eq!(world.running.request("POST", &format!("{RUNS}/{id}/actions/cancel"), &[], b"").status, 200);
    assert_eq!(world.run(&id)["state"], "cancelled");
}

#[test]
fn a_tpm_vouches_for_what_its_host_sent() {
    if !has(&["swtpm"]) {
        return;
    }
    let (world, tpm) = (World::new(1), Tpm::bare());
    let id = world.begin("[[step]]\ndo = \"burnin\"\nfor = \"1s\"\n[[step]]\ndo = \"attest\"\n");
    let mut is_signed = false;
    for _ in 0..20 {
        let steps = world.running.client().next_steps(world.infra_env, world.hosts[0]).unwrap();
        for step in steps.instructions.unwrap_or_default() {
            if step.step_type == StepType::Certify {
                let request: CertifyRequest = serde_json::from_str(&step.args[0]).unwrap();
                assert_eq!(world.answer(0, &request, 0, good(0, &request.action).unwrap()), 204);
            } else if step.step_type == StepType::Attest {
                let request: AttestRequest = serde_json::from_str(&step.args[0]).unwrap();
                let mut device = tpm.connect();
                let mut exchange = |command: &[u8]| kernel::tpm::exchange(&mut device, command);
                let reply = inventory::attest::prove(&mut exchange, &request, Vec::new()).unwrap();
                let reply = serde_json::to_string(&reply).unwrap();
                assert_eq!(world.reply(0, StepType::Attest, 0, &reply), 204);
                is_signed = true;
            }
        }
    }
    assert!(is_signed, "{:#}", world.run(&id));
    world.poll(0);
    assert_eq!(world.step(&id, 0, 2), ("passed".to_owned(), String::new()));
    assert_eq!(world.run(&id)["verdict"], "pass");

    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name).display().to_string();
    std::fs::write(at("password"), "secret\n").unwrap();
    let (secret, public, archive, password) = (at("lab.key"), at("lab.key.pub"), at("run.tar"), at("password"));
    let made = world.client(&["key", "--generate", &secret, "--password-file", &password]);
    assert!(made.0, "{}", made.1);
    let attached = ["--attach", &id, "--output", &archive, "--key", &secret, "--password-file", &password];
    let attached = world.client(&attached);
    assert!(attached.0, "{}", attached.1);
    let checks = certify::verify(&mut std::fs::File::open(&archive).unwrap(), None).checks;
    let tpm = checks.into_iter().find(|check| check.name == "TPM").unwrap();
    assert_eq!(format!("{:?}", tpm.state), "Good", "{}", tpm.detail);
    assert!(tpm.detail.contains("S0"), "{}", tpm.detail);
    let verified = world.client(&["verify", &archive, "--key-file", &public]);
    assert!(verified.0, "{}", verified.1);
}
