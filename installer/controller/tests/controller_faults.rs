//! Whatever fails for a while, and whenever: the installation continues, nothing is lost, and nothing that was acknowledged is reported twice.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use base64::{Engine, prelude::BASE64_STANDARD};
use controller::{Surroundings, cli::Controller, config::Config};
use rig::{CLUSTER, DEADLINE, NAMESPACE, Rig, operator};
use serde_json::{Value, json};
use simulator::{Fault, FaultProxy, Recorded, await_some};
use std::{
    collections::HashSet,
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

const OPERATOR: &str = "lvm";
const VERSION: &str = "lvm-operator.v4.20.1";
/// Longer than the pauses of the tasks, and than a few tries of a watch.
const A_WHILE: Duration = Duration::from_millis(400);

/// Where things fail.
struct Place<'a> {
    rig: &'a Rig,
    /// Between controller and service.
    service: &'a FaultProxy,
}

/// What fails at each stage, and for how long.
struct Trouble {
    name: &'static str,
    begin: fn(&Place<'_>),
    lasts: Duration,
    end: fn(&Place<'_>),
    /// Nothing can happen in the cluster meanwhile.
    is_down: bool,
    /// What was done is not known: it is done again.
    repeats: bool,
}

impl Trouble {
    fn new(name: &'static str, begin: fn(&Place<'_>), lasts: Duration) -> Self {
        let end = |place: &Place<'_>| {
            place.rig.proxy.pass();
            place.service.pass();
        };
        Self { name, begin, lasts, end, is_down: false, repeats: false }
    }
}

/// What happens next in the cluster, and how it is known that the controller has seen it.
struct Stage {
    name: &'static str,
    cause: fn(&Rig),
    is_over: fn(&Rig) -> bool,
}

fn all_reported(rig: &Rig, stage: &str) -> bool {
    (0..3).all(|number| rig.stages(number).last().is_some_and(|last| last == stage))
}

fn is_finalizing(rig: &Rig, stage: &str) -> bool {
    rig.finalizing().last().is_some_and(|last| last == stage)
}

const STAGES: [Stage; 9] = [
    Stage {
        name: "before it is ready",
        cause: |rig| rig.state().failures.clear(),
        is_over: |rig| event(rig).is_some(),
    },
    Stage {
        name: "hosts are configured",
        cause: |rig| {
            let line = |number| format!("requested by 192.168.126.{number}:32780 User-Agent:\"Ignition/2.14.0\"\n");
            rig.cluster.mcs_pod("other", &[10, 11, 12].map(line).concat());
        },
        is_over: |rig| all_reported(rig, "Configuring"),
    },
    Stage { name: "nodes join", cause: |rig| rig.join(3, false), is_over: |rig| all_reported(rig, "Joined") },
    Stage { name: "nodes get ready", cause: |rig| rig.join(3, true), is_over: |rig| all_reported(rig, "Done") },
    Stage {
        name: "operators come up",
        cause: |rig| {
            rig.cluster.cluster_version(&[("Available", "True", "")], "4.20.1", &["Console"], &["Console"]);
            rig.cluster.cluster_operator("console", &[("Available", "True", "All is well")], "4.20.1");
            rig.set_status("finalizing");
        },
        is_over: |rig| is_finalizing(rig, "Adding router ca"),
    },
    Stage {
        name: "the router gets its certificate",
        cause: |rig| rig.cluster.ingress_ca("CA"),
        is_over: |rig| is_finalizing(rig, "Waiting for olm operators csv initialization"),
    },
    Stage {
        name: "a chosen operator is there",
        cause: |rig| {
            rig.cluster.csv("openshift-test", VERSION, "Installing", "soon", "4.20.1");
            rig.cluster.subscription("openshift-test", "lvm-operator", VERSION);
        },
        is_over: |rig| is_finalizing(rig, "Applying olm manifests"),
    },
    Stage {
        name: "its manifests are applied",
        cause: |rig| rig.state().files = files(rig),
        is_over: |rig| is_finalizing(rig, "Waiting for olm operators csv"),
    },
    Stage {
        name: "it comes up",
        cause: |rig| rig.cluster.csv("openshift-test", VERSION, "Succeeded", "up", "4.20.1"),
        is_over: |rig| !rig.sent("POST", "/complete-installation").is_empty(),
    },
];

fn event(rig: &Rig) -> Option<Value> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/events/AssistedControllerIsReady");
    // The server may be down.
    rig.cluster.client().find(&path).ok().flatten()
}

fn files(rig: &Rig) -> Vec<(&'static str, &'static str)> {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: lvm, namespace: default}\ndata: {a: b}\n";
    let list = json!([{"Name": OPERATOR, "Content": BASE64_STANDARD.encode(manifest)}]).to_string();
    let kubeconfig = rig.proxy.kubeconfig("simulator-admin");
    // A test's files live as long as its process.
    vec![("custom_manifests.json", list.leak()), ("kubeconfig-noingress", kubeconfig.leak())]
}

/// Each call takes longer than its deadline, the first time.
fn slow(proxy: &FaultProxy) {
    let seen = Mutex::new(HashSet::new());
    proxy.set_faults(move |method, path, _| match seen.lock().unwrap().insert(format!("{method} {path}")) {
        true => Fault::Delay(DEADLINE * 3 / 2),
        false => Fault::Pass,
    });
}

/// They may have been cut a moment ago.
fn cut_watches(place: &Place<'_>) {
    place.rig.until("a watch to cut", |rig| rig.proxy.cut_watches() > 0);
}

/// One installation, with this trouble at each of its stages.
fn install_with(trouble: &Trouble) {
    println!("trouble: {}", trouble.name);
    let Some(rig) = Rig::new() else { return };
    rig.node("other", true);
    rig.state().operators = vec![operator("console", "builtin", ""), operator(OPERATOR, "olm", "")];
    rig.state().failures = vec![("GET", CLUSTER, u32::MAX, 503)];
    let service = FaultProxy::http(&rig.service.url);
    let place = Place { rig: &rig, service: &service };
    // Limits of the work are minutes: they must not pass while a server starts.
    let speed = if trouble.is_down { 60 } else { rig::SPEED };
    let config = Config { url: service.url(), ..rig.config() };
    let controller = rig.start_in(config, Surroundings { speed, deadline: DEADLINE, ..rig.surroundings() });
    rig.until("the first look", |_| service.requests().iter().any(|request| request.target.contains(CLUSTER)));
    let mut requests = Vec::new();
    for stage in &STAGES {
        (trouble.begin)(&place);
        if !trouble.is_down {
            (stage.cause)(&rig);
        }
        thread::sleep(trouble.lasts);
        (trouble.end)(&place);
        if trouble.is_down {
            (stage.cause)(&rig);
        }
        rig.until(&format!("{}: {}", trouble.name, stage.name), stage.is_over);
        assert!(!controller.has_ended(), "{}: {}", trouble.name, stage.name);
        requests.extend(rig.proxy.requests());
        rig.proxy.clear();
    }
    rig.set_status("installed");
    controller.finish().unwrap();
    check(&rig, trouble, &requests);
}

/// All was reported, in order, and once where the reply came.
fn check(rig: &Rig, trouble: &Trouble, requests: &[Recorded]) {
    let once = |mut sent: Vec<Value>| {
        if trouble.repeats {
            sent.dedup();
        }
        sent
    };
    let texts = |sent: Vec<String>| once(sent.into_iter().map(Value::from).collect());
    for number in 0..3 {
        assert_eq!(texts(rig.stages(number)), ["Configuring", "Joined", "Done"], "{}: host {number}", trouble.name);
    }
    let finalizing = [
        "Waiting for cluster operators",
        "Adding router ca",
        "Waiting for olm operators csv initialization",
        "Applying olm manifests",
        "Waiting for olm operators csv",
        "Done",
    ];
    assert_eq!(texts(rig.finalizing()), finalizing, "{}", trouble.name);
    assert_eq!(once(rig.sent("POST", "/complete-installation")), [json!({"is_success": true})], "{}", trouble.name);
    assert_eq!(once(rig.sent("POST", "/ingress-cert")), [json!("CA")], "{}", trouble.name);
    let operators = rig.state().operators.clone();
    assert!(operators.iter().all(|operator| operator["status"] == "available"), "{}: {operators:?}", trouble.name);
    let map = rig.cluster.client().get("/api/v1/namespaces/default/configmaps/lvm").unwrap();
    assert_eq!(map["data"], json!({"a": "b"}), "{}", trouble.name);
    assert_eq!(event(rig).unwrap()["count"], 1, "{}", trouble.name);
    let made = requests.iter().filter(|request| {
        request.method == "POST" && request.target.contains("/events") && request.status == Some(201)
    });
    assert!(made.count() <= 1, "{}", trouble.name);
}

#[test]
fn an_installation_survives_its_api_server() {
    let trouble = Trouble::new;
    let all = [
        Trouble {
            end: |place| place.rig.server.restart(),
            is_down: true,
            ..trouble("API server killed", |place| place.rig.server.stop(), A_WHILE)
        },
        trouble("slow", |place| slow(&place.rig.proxy), Duration::ZERO),
        trouble("500", |place| place.rig.proxy.set_faults(|_, _, _| Fault::Status(500)), A_WHILE),
        trouble("401", |place| place.rig.proxy.set_faults(|_, _, _| Fault::Status(401)), A_WHILE),
        trouble("connections dropped", |place| place.rig.proxy.set_faults(|_, _, _| Fault::Drop), A_WHILE),
        trouble(
            "replies lost",
            |place| {
                let lost = Mutex::new(HashSet::new());
                place.rig.proxy.set_faults(move |method, path, _| {
                    let is_first = method != "GET" && lost.lock().unwrap().insert(path.to_owned());
                    if is_first { Fault::LoseReply } else { Fault::Pass }
                });
            },
            Duration::ZERO,
        ),
        Trouble { end: cut_watches, ..trouble("watches cut", cut_watches, A_WHILE / 2) },
        trouble(
            "no answers",
            |place| {
                place.rig.proxy.set_faults(|_, _, _| Fault::Hang);
                place.rig.proxy.cut_watches();
            },
            DEADLINE * 3 / 2,
        ),
        Trouble {
            end: |place| place.rig.proxy.blackhole(false),
            ..trouble("network lost", |place| place.rig.proxy.blackhole(true), DEADLINE * 3 / 2)
        },
    ];
    all.iter().for_each(install_with);
}

#[test]
fn an_installation_survives_its_service() {
    let trouble = Trouble::new;
    let all = [
        trouble("service: 500", |place| place.service.set_faults(|_, _, _| Fault::Status(500)), A_WHILE),
        trouble("service: connections dropped", |place| place.service.set_faults(|_, _, _| Fault::Drop), A_WHILE),
        Trouble {
            repeats: true,
            ..trouble("service: replies lost", |place| place.service.set_faults(|_, _, _| Fault::LoseReply), A_WHILE)
        },
        Trouble {
            end: |place| place.service.blackhole(false),
            ..trouble("service: network lost", |place| place.service.blackhole(true), A_WHILE * 2)
        },
    ];
    all.iter().for_each(install_with);
}

/// Upstream's rules let an account list some kinds and not watch them.
#[test]
fn what_may_not_be_watched_is_listed_now_and_then() {
    let Some(rig) = Rig::new() else { return };
    rig.proxy.set_faults(|_, path, query| match path.ends_with("/nodes") && query.contains("watch=true") {
        true => Fault::Status(403),
        false => Fault::Pass,
    });
    let controller = rig.start_in(rig.config(), Surroundings { deadline: DEADLINE, ..rig.surroundings() });
    rig.join(3, true);
    rig.until("Done", |rig| all_reported(rig, "Done"));
    rig.proxy.clear();
    let slept = Instant::now();
    thread::sleep(DEADLINE * 4);
    let requests = rig.proxy.requests();
    let watches = requests.iter().filter(|request| request.target.contains("/nodes?") && request.status == Some(403));
    // Ten in the time that it slept by design; a busy machine lets it sleep longer.
    let watches = watches.count();
    let slept = slept.elapsed().as_secs_f64() / (DEADLINE * 4).as_secs_f64();
    assert!(watches >= 1 && watches as f64 <= 10.0 * slept, "{watches}");
    controller.end();
}

#[derive(clap::Parser)]
struct Program {
    #[command(flatten)]
    controller: Controller,
}

const KUBECONFIG: &str = "CONTROLLER_TEST_KUBECONFIG";

/// The program itself, in a process of the next test.
#[test]
fn the_program() {
    let Ok(kubeconfig) = std::env::var(KUBECONFIG) else { return };
    let program: Program = clap::Parser::parse_from(["controller", "--kubeconfig", &kubeconfig]);
    let code = program.controller.run().unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::from(143)));
    println!("ended by SIGTERM");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The call to the service would take minutes more.
#[test]
fn sigterm_ends_the_program_in_the_middle_of_a_call() {
    let Some(rig) = Rig::new() else { return };
    let service = FaultProxy::http(&rig.service.url);
    service.set_faults(|_, _, _| Fault::Hang);
    let kubeconfig = rig.kubeconfig();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &testkit::process::own_test(module_path!(), "the_program"), "--nocapture"])
        .env(KUBECONFIG, &kubeconfig)
        .envs([("CLUSTER_ID", CLUSTER), ("OPENSHIFT_VERSION", "4.20.1"), ("PULL_SECRET_TOKEN", "token")])
        .env("INVENTORY_URL", service.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    rig.until("a call to the service", |_| !service.requests().is_empty());
    let status = Command::new("kill").arg(child.0.id().to_string()).status().unwrap();
    assert!(status.success());
    let status = await_some("the end of the program", || child.0.try_wait().unwrap());
    let mut output = String::new();
    std::io::Read::read_to_string(&mut child.0.stdout.take().unwrap(), &mut output).unwrap();
    assert!(status.success() && output.contains("ended by SIGTERM"), "{output}");
}
