//! The engine: every kind of step passes, fails, is refused, is asked for again; hosts reboot and services are killed in the middle.

use super::engine::{self, Hosts, MAX_TRIES, Order};
use super::facts::{HostFacts, Install};
use super::record::{Run, RunState};
use super::work::Work;
use crate::model::HostKey;
use api::certify::{CertifyAction, CertifyReply, CertifyRequest};
use api::{ClusterId, HostId, InfraEnvId, Timestamp};
use certify::{Plan, result::State};
use serde_json::{Value, json};
use uuid::Uuid;

/// A run, its hosts, and a clock.
struct World {
    run: Run,
    hosts: Hosts,
    keys: Vec<HostKey>,
    now: i64,
    orders: Vec<Order>,
}

fn plan(steps: &str) -> Plan {
    let text = format!("name = \"test\"\n{steps}");
    Plan::parse("plan.toml", &text, &|name| panic!("{name} is not opened")).unwrap()
}

fn step(name: &str, more: &str) -> String {
    format!("[[step]]\ndo = \"{name}\"\n{more}\n")
}

impl World {
    fn new(hosts: usize, steps: &str) -> Self {
        let infra_env = InfraEnvId::random();
        let keys: Vec<HostKey> = (0..hosts).map(|_| HostKey { infra_env, host: HostId::random() }).collect();
        let mut keys = keys;
        kernel::order::sort(&mut keys);
        let facts = |(index, key): (usize, &HostKey)| {
            let facts = HostFacts {
                key: *key,
                name: format!("node-{index}"),
                serial: format!("S{index}"),
                manufacturer: "Maker".into(),
                product: "X".into(),
                has_inventory: true,
                is_live: true,
                can_bind: true,
                registered_at: Timestamp::from_unix_seconds(1),
                address: Some(format!("192.0.2.{}", index + 1).parse().unwrap()),
                disk: "/dev/vda".into(),
                cluster: None,
                install: Install::None,
            };
            (*key, facts)
        };
        let hosts = keys.iter().enumerate().map(facts).collect();
        let run = Run::new(Uuid::new_v4(), plan(steps), None, Timestamp::from_unix_seconds(1000));
        Self { run, hosts, keys, now: 1000, orders: Vec::new() }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.now)
    }

    fn facts(&mut self, host: usize) -> &mut HostFacts {
        self.hosts.get_mut(&self.keys[host]).unwrap()
    }

    fn advance(&mut self) {
        let (now, work) = (self.at(), Work::all(&self.run.plan));
        self.orders = engine::advance(&mut self.run, &work, &self.hosts, now);
        // A killed service continues from what it stored.
        let stored = serde_json::to_vec(&self.run).unwrap();
        let read: Run = serde_json::from_slice(&stored).unwrap();
        assert_eq!(read, self.run);
        self.run = read;
    }

    fn poll(&mut self, host: usize) -> Option<CertifyRequest> {
        self.advance();
        let (now, work) = (self.at(), Work::all(&self.run.plan));
        engine::ask(&mut self.run, host, &work, &self.hosts, now)
    }

    fn reply(&mut self, host: usize, reply: &CertifyReply) -> bool {
        let (now, work) = (self.at(), Work::all(&self.run.plan));
        let taken = engine::reply(&mut self.run, host, &work, reply, now).is_some();
        self.advance();
        taken
    }

    /// Lets a host do what it is asked for.
    fn answers(&mut self, host: usize, exit_code: i32, document: Value) -> CertifyAction {
        let request =
            self.poll(host).unwrap_or_else(|| panic!("host {host} is not asked: {}", self.run.hosts[host].waits_for));
        assert!(self.reply(host, &answer(&request, exit_code, document)));
        request.action
    }

    /// Report and capture.
    fn reports(&mut self, host: usize, report: Value) {
        assert_eq!(self.answers(host, 0, report), CertifyAction::Report);
        if self.run.hosts[host].current() == Some(0) {
            assert_eq!(self.answers(host, 0, json!({"tar_gz": "YQ=="})), CertifyAction::Capture);
        }
    }

    fn state(&self, host: usize, step: usize) -> State {
        self.run.hosts[host].steps[step].state
    }

    fn findings(&self, host: usize, step: usize) -> String {
        self.run.hosts[host].steps[step].findings.join("; ")
    }
}

fn answer(request: &CertifyRequest, exit_code: i32, document: Value) -> CertifyReply {
    let CertifyRequest { run, step, attempt, .. } = request.clone();
    CertifyReply { run, step, attempt, exit_code, document, error: String::new() }
}

fn burnin(verdict: &str) -> Value {
    json!({"verdict": verdict, "faults": [], "totals": [{"kind": "cpu", "name": "all", "measurements": {"rounds": 3.0}}]})
}

#[test]
fn a_run_waits_for_its_hosts_and_ends_with_their_last_step() {
    let mut world = World::new(3, &format!("[policy]\nhosts = 3\n{}", step("burnin", "for = \"10s\"")));
    world.facts(2).has_inventory = false;
    world.advance();
    assert_eq!((world.run.state, world.run.hosts.len()), (RunState::Waiting, 0));
    world.facts(2).has_inventory = true;
    for host in 0..3 {
        world.reports(host, json!({}));
        world.now += 10;
        let action = world.answers(host, 0, burnin("pass"));
        assert!(matches!(action, CertifyAction::Burnin { seconds: 10, .. }), "{action:?}");
        assert_eq!(world.run.state, if host == 2 { RunState::Done } else { RunState::Running });
    }
    let done = &world.run.hosts[1].steps;
    assert_eq!(
        (done[0].files.join(" "), done[1].files.join(" ")),
        ("report.json capture.tar.gz".into(), "burnin.json".into())
    );
    assert_eq!(done[1].measurements["cpu all rounds"], 3.0);
    assert_eq!((done[0].attempts, done[1].attempts, done[1].started_at.unix_seconds()), (2, 1, 1020));
    let result = super::result::result(&world.run);
    assert_eq!((result.verdict, result.fault()), (certify::result::Verdict::Pass, None));
}

#[test]
fn what_a_step_found_decides_and_only_what_needs_a_sound_machine_is_left_out() {
    let steps =
        [step("disk-speed", "max_ms = 10"), step("burnin", "for = \"10s\""), step("install", ""), step("boot", "")]
            .concat();
    let mut world = World::new(1, &steps);
    world.reports(0, json!({}));
    let action = world.answers(0, 0, json!({"io_sync_duration_ms": 25}));
    assert!(matches!(action, CertifyAction::DiskSpeed { disk, .. } if disk == "/dev/vda"));
    assert_eq!(world.state(0, 1), State::Failed);
    world.answers(0, 3, burnin("faults"));
    assert_eq!(
        (world.state(0, 2), world.state(0, 3), world.state(0, 4)),
        (State::Failed, State::Skipped, State::Skipped)
    );
    assert_eq!(world.findings(0, 3), "skipped, because step disk-speed did not pass");
    assert_eq!((world.run.state, world.orders.len()), (RunState::Done, 0));
}

#[test]
fn a_host_that_is_not_its_sku_is_blocked_or_noted() {
    let sku = "[[sku]]\nname = \"X-100\"\nexpect = { memory.installed_bytes = 8 }\n";
    for (policy, blocks) in [("block", true), ("note", false)] {
        let steps = format!("[policy]\nmismatch = \"{policy}\"\n{sku}{}", step("install", ""));
        let mut world = World::new(1, &steps);
        world.reports(0, json!({"memory": {"installed_bytes": 4}}));
        let host = &world.run.hosts[0];
        assert_eq!((host.sku.as_deref(), host.differences.len()), (Some("X-100"), 1));
        assert_eq!(!host.blocked.is_empty(), blocks, "{}", host.blocked);
        assert_eq!(world.state(0, 1), if blocks { State::Skipped } else { State::Running });
        assert_eq!(world.orders, if blocks { vec![] } else { vec![Order::Bind(0)] });
        if blocks {
            assert!(host.blocked.starts_with("the host differs from SKU X-100 in 1 place: "), "{}", host.blocked);
            assert_eq!(world.run.state, RunState::Done);
        }
    }
}

#[test]
fn a_reply_that_never_comes_is_asked_for_again_and_then_given_up() {
    let mut world = World::new(1, "");
    for attempt in 1..=MAX_TRIES {
        let request = world.poll(0).unwrap();
        assert_eq!(request.attempt, attempt);
        // The instruction may have been lost, but not for long.
        world.now += 5;
        assert_eq!(world.poll(0), Some(request));
        world.now += 60;
        assert_eq!(world.poll(0), None);
        world.now += 300;
    }
    assert_eq!(world.poll(0), None);
    assert_eq!((world.state(0, 0), world.run.state), (State::Error, RunState::Done));
    assert_eq!(world.findings(0, 0), "given up after 3 attempts: no reply within 300 s");
}

#[test]
fn a_host_that_starts_anew_in_a_step_is_asked_again_at_once() {
    let mut world = World::new(1, &step("burnin", "for = \"1h\""));
    world.reports(0, json!({}));
    let first = world.poll(0).unwrap();
    world.now += 100;
    world.facts(0).registered_at = Timestamp::from_unix_seconds(world.now);
    let second = world.poll(0).unwrap();
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(!world.reply(0, &answer(&first, 0, burnin("pass"))), "that of its earlier life");
    assert!(world.reply(0, &answer(&second, 0, burnin("pass"))));
    assert_eq!(world.state(0, 1), State::Passed);
    assert!(!world.reply(0, &answer(&second, 3, burnin("faults"))), "a replayed reply");
    assert_eq!(world.state(0, 1), State::Passed);
}

#[test]
fn replies_that_are_not_waited_for_change_nothing() {
    let mut world = World::new(2, "");
    let (own, other) = (world.poll(0).unwrap(), world.poll(1).unwrap());
    let good = answer(&own, 0, json!({}));
    let before = world.run.clone();
    for wrong in [
        CertifyReply { run: Uuid::new_v4().to_string(), ..good.clone() },
        CertifyReply { run: "../../etc".into(), ..good.clone() },
        CertifyReply { step: 1, ..good.clone() },
        CertifyReply { step: u32::MAX, ..good.clone() },
        CertifyReply { attempt: 0, ..good.clone() },
        CertifyReply { attempt: 2, ..good.clone() },
    ] {
        assert!(!world.reply(0, &wrong), "{wrong:?}");
        assert_eq!(world.run, before);
    }
    // What another host says counts for that host alone.
    assert!(world.reply(1, &answer(&other, 0, json!({}))));
    assert_eq!((world.run.hosts[0].steps[0].phase, world.run.hosts[1].steps[0].phase), (0, 1));
    // Much, but bounded.
    let many: Vec<Value> = (0..5000).map(|_| json!({"part": "vda", "message": "x".repeat(5000)})).collect();
    let totals: Vec<Value> = (0..5000)
        .map(|at| json!({"kind": "cpu", "name": at.to_string(), "measurements": {"a": 1, "b": "x"}}))
        .collect();
    let mut world = World::new(1, &step("burnin", "for = \"1h\""));
    world.reports(0, json!({}));
    world.answers(0, 3, json!({"verdict": "faults", "faults": many, "totals": totals}));
    let step = &world.run.hosts[0].steps[1];
    assert_eq!((step.findings.len(), step.findings[0].len(), step.measurements.len()), (64, 500, 256));
}

#[test]
fn a_boot_of_the_live_system_ends_with_the_next_registration() {
    for (name, action) in [("boot", CertifyAction::Reboot), ("power-cut", CertifyAction::PowerCut { after_seconds: 5 })]
    {
        let steps = step(name, "");
        let mut world = World::new(1, &steps);
        world.reports(0, json!({}));
        assert_eq!(world.answers(0, 0, Value::Null), action);
        assert_eq!(world.state(0, 1), State::Running, "{name}: the reply comes before");
        world.now += 200;
        world.facts(0).registered_at = Timestamp::from_unix_seconds(world.now);
        world.advance();
        assert_eq!((world.state(0, 1), world.run.state), (State::Passed, RunState::Done));

        let mut world = World::new(1, &steps);
        world.reports(0, json!({}));
        world.answers(0, 1, Value::Null);
        assert_eq!(world.state(0, 1), State::Error, "{name} is refused");

        let mut world = World::new(1, &steps);
        world.reports(0, json!({}));
        // Its reply was lost with the machine.
        world.poll(0).unwrap();
        world.facts(0).is_live = false;
        world.now += 1801;
        world.advance();
        assert_eq!(
            (world.state(0, 1), world.findings(0, 1).as_str()),
            (State::Error, "the host did not come back within 30 minutes")
        );
    }
}

#[test]
fn an_installation_a_boot_and_a_second_installation() {
    let steps = [step("install", ""), step("boot", ""), step("install", "")].concat();
    let mut world = World::new(1, &steps);
    world.reports(0, json!({}));
    let cluster = ClusterId::random();
    let live = |world: &mut World| {
        let facts = world.facts(0);
        (facts.cluster, facts.install, facts.is_live, facts.can_bind) = (None, Install::None, true, true);
    };
    for at in [1, 3] {
        world.advance();
        assert_eq!(world.orders, [Order::Bind(0)]);
        world.run.hosts[0].cluster_id = Some(cluster);
        let facts = world.facts(0);
        (facts.cluster, facts.can_bind, facts.install) = (Some(cluster), false, Install::Unready("no name".into()));
        world.advance();
        assert_eq!((world.orders.len(), world.run.hosts[0].waits_for.as_str()), (0, "no name"));
        assert_eq!(world.poll(0), None, "nothing is asked of it meanwhile");
        world.facts(0).install = Install::Ready(String::new());
        world.advance();
        assert_eq!(world.orders, [Order::Install(0)]);
        world.facts(0).install = Install::Running("Writing image to disk".into());
        world.advance();
        assert_eq!(world.state(0, at), State::Running);
        world.facts(0).is_live = false;
        world.facts(0).install = Install::Written;
        world.advance();
        assert_eq!(world.state(0, at), State::Passed);
        if at == 3 {
            break;
        }
        assert_eq!(
            (world.state(0, 2), world.run.hosts[0].waits_for.as_str()),
            (State::Running, "starts the installed system")
        );
        world.facts(0).install = Install::Done;
        world.advance();
        assert_eq!((world.state(0, 2), world.orders.as_slice()), (State::Passed, [Order::Release(0)].as_slice()));
        world.run.hosts[0].cluster_id = None;
        (world.facts(0).cluster, world.facts(0).install) = (None, Install::None);
        world.advance();
        assert!(world.run.hosts[0].waits_for.contains("attach its medium"), "{}", world.run.hosts[0].waits_for);
        world.now += 3600;
        live(&mut world);
    }
    assert_eq!(world.run.state, RunState::Done);

    // It fails, is deleted, never becomes ready, or never comes back.
    for (install, bound, later, reason) in [
        (Install::Failed("the disk is full".into()), true, 0, "the installation failed: the disk is full"),
        (Install::Unready("no disk".into()), true, 901, "the host cannot be installed: no disk"),
        (Install::Running("Rebooting".into()), true, 10_801, "not done within 3 hours"),
    ] {
        let mut world = World::new(1, &step("install", ""));
        world.reports(0, json!({}));
        world.run.hosts[0].cluster_id = Some(cluster);
        world.advance();
        let facts = world.facts(0);
        (facts.cluster, facts.can_bind, facts.install) = (bound.then_some(cluster), false, install);
        world.now += later;
        world.advance();
        assert_eq!((world.state(0, 1), world.findings(0, 1).as_str()), (State::Failed, reason));
    }
    let mut world = World::new(1, &step("install", ""));
    world.reports(0, json!({}));
    (world.facts(0).cluster, world.facts(0).can_bind) = (Some(cluster), false);
    let mut world = World { run: Run { hosts: world.run.hosts.clone(), ..world.run.clone() }, ..world };
    world.run.hosts[0].steps[1] = super::record::StepRun { name: "install".into(), ..Default::default() };
    world.run.state = RunState::Running;
    world.advance();
    assert!(world.findings(0, 1).starts_with("the host belongs to another cluster"), "{}", world.findings(0, 1));
}

#[test]
fn a_host_that_never_comes_back_is_given_up_after_a_day() {
    let mut world = World::new(1, &step("burnin", "for = \"1h\""));
    world.reports(0, json!({}));
    world.facts(0).is_live = false;
    world.advance();
    world.now += 86_000;
    assert_eq!((world.poll(0), world.state(0, 1)), (None, State::Waiting));
    world.now += 1000;
    world.advance();
    assert_eq!((world.state(0, 1), world.run.state), (State::Error, RunState::Done));
}

#[test]
fn three_hosts_meet_in_rounds() {
    let mut world = World::new(3, &step("network", "for = \"10s\"\nmin_mbit = 900"));
    world.reports(0, json!({}));
    world.reports(1, json!({}));
    assert_eq!(world.poll(0), None);
    assert_eq!(world.run.hosts[0].waits_for, "waits for node-2, which is at an earlier step");
    world.reports(2, json!({}));
    let mut met = Vec::new();
    let mut running: Vec<Option<CertifyRequest>> = vec![None, None, None];
    for _ in 0..200 {
        if world.run.state != RunState::Running {
            break;
        }
        for host in 0..3 {
            // A server serves for its time, whatever its peer does.
            let serves = running[host]
                .as_ref()
                .is_some_and(|request| matches!(request.action, CertifyAction::NetworkServe { .. }));
            if serves && world.now - world.run.hosts[host].steps[1].asked_at.unix_seconds() < 40 {
                continue;
            }
            if let Some(request) = running[host].clone() {
                let tester = matches!(request.action, CertifyAction::NetworkTest { .. });
                let rate = json!({"verdict": "pass", "totals": [{"kind": "net", "name": "x", "measurements": {"tcp_sent_average_bits_per_second": 9.4e8}}]});
                world.reply(host, &answer(&request, 0, if tester { rate } else { Value::Null }));
                running[host] = None;
            } else if let Some(request) = world.poll(host) {
                if let CertifyAction::NetworkTest { peer, .. } = &request.action {
                    let peer = usize::from(peer.to_string().ends_with(".2"))
                        + 2 * usize::from(peer.to_string().ends_with(".3"));
                    assert!(matches!(
                        running[peer].as_ref().map(|request| &request.action),
                        Some(CertifyAction::NetworkServe { .. })
                    ));
                    met.push((host, peer));
                }
                running[host] = Some(request);
            }
        }
        world.now += 3;
    }
    kernel::order::sort(&mut met);
    assert_eq!((world.run.state, met), (RunState::Done, vec![(1, 0), (2, 0), (2, 1)]));
    assert!((0..3).all(|host| world.state(host, 1) == State::Passed));
    assert_eq!(world.run.hosts[2].steps[1].measurements.len(), 2);

    let mut alone = World::new(1, &step("network", "for = \"10s\""));
    alone.reports(0, json!({}));
    assert_eq!(alone.answers(0, 0, json!({"findings": []})), CertifyAction::Doctor);
    assert_eq!(alone.run.state, RunState::Done);
}

#[test]
fn a_peer_that_is_lost_ends_the_pair_and_not_the_run() {
    let mut world = World::new(2, &step("network", "for = \"10s\""));
    world.reports(0, json!({}));
    world.reports(1, json!({}));
    for _ in 0..MAX_TRIES {
        assert!(matches!(world.poll(0).unwrap().action, CertifyAction::NetworkServe { .. }));
        assert_eq!(world.poll(1), None, "it has just begun to serve");
        world.now += 1000;
        world.advance();
    }
    assert_eq!((world.state(0, 1), world.state(1, 1)), (State::Error, State::Error));
    assert_eq!(world.findings(1, 1), "node-0 stopped before it was tested");
    assert_eq!(world.run.state, RunState::Done);
}

#[test]
fn a_tpm_signs_in_the_live_system_or_not_at_all() {
    let plan = step("attest", "");
    let reached = |world: &mut World| {
        world.reports(0, json!({}));
        world.advance();
        assert_eq!((world.orders.as_slice(), world.state(0, 1)), ([Order::Attest(0)].as_slice(), State::Running));
        assert_eq!(world.poll(0), None, "it is another step's");
    };
    let mut world = World::new(1, &plan);
    reached(&mut world);
    let now = world.at();
    engine::attested(&mut world.run, 0, Ok(()), now);
    world.advance();
    assert_eq!((world.run.state, world.state(0, 1)), (RunState::Done, State::Passed));
    assert_eq!(world.run.hosts[0].steps[1].files, ["attestation.json"]);

    let mut world = World::new(1, &plan);
    reached(&mut world);
    let now = world.at();
    engine::attested(&mut world.run, 0, Err("there is no TPM".into()), now);
    assert_eq!((world.state(0, 1), world.findings(0, 1).as_str()), (State::Error, "there is no TPM"));
    engine::attested(&mut world.run, 0, Ok(()), now);
    assert_eq!(world.state(0, 1), State::Error, "it has ended");

    let mut world = World::new(1, &plan);
    reached(&mut world);
    world.facts(0).is_live = false;
    world.advance();
    assert!(world.orders.is_empty() && world.run.hosts[0].waits_for.starts_with("waits for the live system"));
    world.now += 601;
    world.advance();
    assert_eq!(world.findings(0, 1), "no signature of the TPM within 10 minutes");
}

#[test]
fn a_cancelled_run_asks_for_nothing_and_takes_nothing() {
    let mut world = World::new(1, &step("burnin", "for = \"1h\""));
    world.reports(0, json!({}));
    let request = world.poll(0).unwrap();
    let now = world.at();
    engine::cancel(&mut world.run, now);
    assert_eq!((world.run.state, world.state(0, 1)), (RunState::Cancelled, State::Skipped));
    assert!(!world.reply(0, &answer(&request, 0, burnin("pass"))));
    assert_eq!(world.poll(0), None);
    assert_eq!(super::result::result(&world.run).verdict, certify::result::Verdict::Incomplete);
}
