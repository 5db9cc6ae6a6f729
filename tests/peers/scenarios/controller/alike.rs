//! Both controllers live the same cluster, with an API server each, and write the same.

use super::*;
use crate::{
    scenarios::three_hosts::NAMES,
    wire::{Relay, compare::compare_requests},
};
use installer::controller_manifests::READY_EVENT;
use simulator::{CertificateRequest, NodeState, Recorded};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};
use testkit::http::{Request, Server, reply};

const INFRA_ENV: &str = "7a3c6f0e-1b1f-4f6f-8a51-8d7a5a3b6a01";
/// Of both clusters: what the controllers send must be the same.
const INGRESS_CA: &str = "-----BEGIN CERTIFICATE-----\nSW5ncmVzcw==\n-----END CERTIFICATE-----\n";
const LABELS: &str = r#"{"node.example.com/rack":"r1"}"#;
/// Hosts: two masters, and a worker with labels and a pool.
const COUNT: usize = 3;

/// The real one has more rights than ours needs.
fn allow_everything(cluster: &Cluster) {
    let binding = json!({
        "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": CONTROLLER}],
    });
    cluster.client().put("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
}

/// The service: as lenient as the real one, which takes all that the real controller sends.
struct State {
    cluster: Value,
    operators: Vec<Value>,
    kubeconfig: String,
}

fn host_id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn name(number: usize) -> String {
    format!("node{number}")
}

fn address(number: usize) -> String {
    format!("192.168.126.{}", 10 + number)
}

impl State {
    fn new(kubeconfig: String) -> Self {
        let host = |number: usize| {
            let is_worker = number == COUNT - 1;
            let inventory = json!({"interfaces": [{"name": "eth0", "ipv4_addresses": [format!("{}/24", address(number))], "ipv6_addresses": []}]});
            json!({
                "id": host_id(number), "infra_env_id": INFRA_ENV, "cluster_id": CLUSTER, "kind": "Host", "href": "",
                "requested_hostname": name(number), "status": "installing", "status_info": "",
                "role": if is_worker { "worker" } else { "master" },
                "node_labels": if is_worker { LABELS } else { "" },
                "machine_config_pool_name": if is_worker { "infra" } else { "" },
                "progress": {"current_stage": "Rebooting", "stage_started_at": "2026-01-01T00:00:00Z", "stage_updated_at": "2026-01-01T00:00:00Z"},
                "inventory": inventory.to_string(),
            })
        };
        let operator = |name: &str, kind: &str, namespace: &str, subscription: &str| {
            json!({
                "cluster_id": CLUSTER, "name": name, "operator_type": kind, "status": "", "status_info": "", "version": "",
                "namespace": namespace, "subscription_name": subscription, "timeout_seconds": 4200,
            })
        };
        Self {
            cluster: json!({
                "id": CLUSTER, "kind": "Cluster", "href": "", "name": "test", "base_dns_domain": "example.com",
                "status": "installing", "status_info": "", "image_info": {}, "platform": {"type": "none"},
                "progress": {}, "hosts": (0..COUNT).map(host).collect::<Vec<_>>(),
            }),
            operators: vec![
                operator("console", "builtin", "", ""),
                operator("cvo", "builtin", "", ""),
                operator(OPERATOR, "olm", OPERATOR_NAMESPACE, SUBSCRIPTION),
            ],
            kubeconfig,
        }
    }

    fn answer(&mut self, request: &Request) -> Vec<u8> {
        let json = |status: &str, body: Value| reply(status, "Content-Type: application/json\r\n", body.to_string());
        let file = |text: &str| reply("200 OK", "Content-Type: application/octet-stream\r\n", text);
        let done = |status: &str| reply(status, "", "");
        let path = request.path().trim_start_matches("/api/assisted-install/v2");
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let of_cluster = path.strip_prefix(&format!("/clusters/{CLUSTER}"));
        match (request.method(), of_cluster) {
            ("GET", Some("")) => {
                let mut cluster = self.cluster.clone();
                if request.target().contains("exclude-hosts=true") {
                    cluster["hosts"] = json!([]);
                }
                json("200 OK", cluster)
            }
            ("PUT", Some("/progress")) => {
                self.cluster["progress"]["finalizing_stage"] = body["finalizing_stage"].clone();
                done("200 OK")
            }
            ("GET", Some("/monitored-operators")) => json("200 OK", self.operators.clone().into()),
            ("PUT", Some("/monitored-operators")) => {
                let mut all = self.operators.iter_mut();
                let known = all.find(|operator| operator["name"] == body["name"]).expect("an operator of this cluster");
                for member in ["status", "status_info", "version"] {
                    if let Some(value) = body.get(member) {
                        known[member] = value.clone();
                    }
                }
                done("200 OK")
            }
            ("POST", Some("/uploads/ingress-cert")) => done("201 Created"),
            ("POST", Some("/actions/complete-installation")) => json("202 Accepted", self.cluster.clone()),
            ("GET", Some("/downloads/files")) => file("[]"),
            ("GET", Some("/downloads/credentials")) => file(&self.kubeconfig),
            ("POST", Some("/logs")) | ("PUT", Some("/logs-progress")) => done("204 No Content"),
            ("PUT", None) if path.starts_with("/infra-envs/") && path.ends_with("/progress") => {
                let mut hosts = self.cluster["hosts"].as_array_mut().unwrap().iter_mut();
                let host = hosts.find(|host| path.contains(host["id"].as_str().unwrap())).unwrap();
                host["progress"]["current_stage"] = body["current_stage"].clone();
                if body["current_stage"] == "Done" {
                    host["status"] = "installed".into();
                }
                done("200 OK")
            }
            _ => json("404 Not Found", json!({"code": 404, "message": "no such path"})),
        }
    }
}

/// What a controller did while its cluster lived.
struct Seen {
    took: Duration,
    service: Vec<Exchange>,
    kubernetes: Vec<Recorded>,
    /// What is left in the cluster of its work.
    made: Value,
}

/// A cluster lives, at the pace of real ones at the end of their installation: every step comes at its time, or when the controller has done
/// what it waits for.
fn live(namespace: &Namespace, who: &str, program: &[String], has_all_rights: bool) -> Seen {
    begin("q");
    let server = ApiServer::start().expect("kube-apiserver is built");
    let (cluster, proxy) = (server.cluster(), server.proxy());
    prepare(&cluster);
    if has_all_rights {
        allow_everything(&cluster);
    }
    cluster.pool("worker", false);
    // The bootstrap host's control plane has a node before the others come.
    let node = |name: &str, address: &str, is_ready: bool| {
        cluster.node_joins(&NodeState { name, internal_ips: &[address], is_ready, ..NodeState::default() });
    };
    node("other", "192.168.126.99", true);
    let state = Arc::new(Mutex::new(State::new(server.admin_kubeconfig())));
    let answers = state.clone();
    let service = Server::start(move |request| lock(&answers).answer(request));
    let relay = Relay::start(namespace, "127.0.0.1:0".parse().unwrap(), service.address);
    proxy.clear();
    let begun = Instant::now();
    let mut pod = start(
        namespace,
        &format!("{who}-controller"),
        program,
        &format!("http://{}", relay.address),
        &server,
        &proxy,
        CLUSTER,
    );
    let not_before = |seconds: u64| {
        println!("peers: controller: {who}: {} s, next step at {seconds} s", begun.elapsed().as_secs());
        thread::sleep(Duration::from_secs(seconds).saturating_sub(begun.elapsed()));
    };
    let stage = |number: usize| {
        lock(&state).cluster["hosts"][number]["progress"]["current_stage"].as_str().unwrap_or_default().to_owned()
    };
    let finalizing = || lock(&state).cluster["progress"]["finalizing_stage"].as_str().unwrap_or_default().to_owned();
    let operator = |name: &str| {
        let state = lock(&state);
        let known = state.operators.iter().find(|operator| operator["name"] == name).unwrap();
        known["status"].as_str().unwrap_or_default().to_owned()
    };

    let event = format!("/api/v1/namespaces/{NAMESPACE}/events/{READY_EVENT}");
    until(&mut pod, "the event", || cluster.client().find(&event).unwrap().is_some());
    not_before(10);
    let log = format!("Pool master requested by address:\"{}:47018\" User-Agent:\"Ignition/2.14.0\"\n", address(1));
    cluster.mcs_pod("other", &log);
    until(&mut pod, "Configuring", || stage(1) == "Configuring");
    not_before(20);
    let mut requests: Vec<String> =
        (0..COUNT).map(|number| cluster.certificate_request(&CertificateRequest::client(&name(number)))).collect();
    until(&mut pod, "approvals of clients", || requests.iter().all(|request| cluster.is_approved(request)));
    not_before(45);
    (0..COUNT).for_each(|number| node(&name(number), &address(number), false));
    for number in 0..COUNT {
        requests.push(cluster.certificate_request(&CertificateRequest::serving(&name(number), &[&address(number)])));
    }
    until(&mut pod, "approvals of servers", || requests.iter().all(|request| cluster.is_approved(request)));
    until(&mut pod, "Joined", || (0..COUNT).all(|number| stage(number) == "Joined"));
    not_before(100);
    (0..COUNT).for_each(|number| cluster.set_ready(&name(number), true));
    until(&mut pod, "Done", || (0..COUNT).all(|number| stage(number) == "Done"));
    let is_labelled =
        || cluster.read_node(&name(COUNT - 1)).unwrap()["metadata"]["labels"]["node.example.com/rack"] == "r1";
    until(&mut pod, "labels", is_labelled);
    not_before(140);
    console(&cluster, "Progressing", "on its way");
    lock(&state).cluster["status"] = "finalizing".into();
    until(&mut pod, "what is on its way", || operator("console") == "progressing" && operator("cvo") == "progressing");
    not_before(180);
    console(&cluster, "Available", "all is well");
    until(&mut pod, "the router's stage", || finalizing() == "Adding router ca");
    not_before(230);
    cluster.ingress_ca(INGRESS_CA);
    cluster.subscription(OPERATOR_NAMESPACE, SUBSCRIPTION, CSV);
    cluster.csv(OPERATOR_NAMESPACE, CSV, "Installing", "installing", "4.22.0");
    until(&mut pod, "an operator on its way", || operator(OPERATOR) == "progressing");
    not_before(270);
    cluster.csv(OPERATOR_NAMESPACE, CSV, "Succeeded", "all is well", "4.22.0");
    until(&mut pod, "completion", || {
        service.requests().iter().any(|request| request.target().ends_with("/actions/complete-installation"))
    });
    not_before(310);
    lock(&state).cluster["status"] = "installed".into();
    await_end(&mut pod);
    let took = begun.elapsed();

    let pairs = relay.pairs().unwrap();
    let exchanges = pairs.iter().enumerate().map(|(number, pair)| Exchange::seen(number, pair)).collect();
    let event = cluster.client().get(&event).unwrap();
    let event: BTreeMap<&str, &Value> =
        ["reason", "message", "type", "count"].map(|member| (member, &event[member])).into_iter().collect();
    let conditions = |request: &String| {
        let request = cluster.read_certificate_request(request);
        let conditions = request["status"]["conditions"].as_array().unwrap();
        let conditions =
            conditions.iter().map(|one| ["type", "status", "reason", "message"].map(|member| one[member].clone()));
        json!(conditions.collect::<Vec<_>>())
    };
    let labels = |number: usize| cluster.read_node(&name(number)).unwrap()["metadata"]["labels"].clone();
    let made = json!({
        "event": event,
        "requests": requests.iter().map(conditions).collect::<Vec<_>>(),
        "labels": (0..COUNT).map(labels).collect::<Vec<_>>(),
        "pool": cluster.read("machineconfigpools", None, "worker").unwrap()["spec"],
    });
    Seen { took, service: exchanges, kubernetes: proxy.requests(), made }
}

/// What is written to the service, by what it is about, in order.
fn writes(seen: &[Exchange]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for exchange in seen.iter().filter(|exchange| exchange.method != "GET") {
        let mut body = exchange.request.body.clone();
        for part in body.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
            part["bytes"] = Value::Null;
        }
        // Operators are reported at one path.
        let name = body["name"].as_str().map(|name| format!(" {name}")).unwrap_or_default();
        all.entry(format!("{} {}{name}", exchange.method, exchange.path)).or_default().push(body.to_string());
    }
    all
}

/// What is reported of the cluster as a whole, in order. Logs are sent by the clock, too.
fn of_cluster(seen: &[Exchange]) -> Vec<String> {
    let about = seen.iter().filter(|one| one.method != "GET" && one.path.starts_with("/v2/clusters/"));
    let about = about.filter(|one| !one.is("POST", "/logs"));
    about
        .map(|one| {
            format!(
                "{}{}",
                one.kind(),
                one.request.body["name"].as_str().map(|name| format!(" {name}")).unwrap_or_default()
            )
        })
        .collect()
}

/// What is written to the API server. Names of certificate requests are made by it.
fn kubernetes_writes(seen: &[Recorded]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in seen.iter().filter(|request| request.method != "GET") {
        let path = request.target.split('?').next().unwrap();
        let path: Vec<&str> =
            path.split('/').map(|part| if part.starts_with("csr-") { "NAME" } else { part }).collect();
        let body = match request.method.as_str() {
            "PATCH" => serde_json::from_slice::<Value>(&request.body).unwrap().to_string(),
            // What is left of these in the cluster is compared.
            _ => String::new(),
        };
        all.entry(format!("{} {}", request.method, path.join("/"))).or_default().push(body);
    }
    all
}

/// What is not written the same.
fn other_writes(ours: &BTreeMap<String, Vec<String>>, real: &BTreeMap<String, Vec<String>>) -> String {
    let all: BTreeSet<&String> = ours.keys().chain(real.keys()).collect();
    let mut wrong = String::new();
    for key in all.into_iter().filter(|key| ours.get(*key) != real.get(*key)) {
        writeln!(wrong, "{key}:\n  ours {:#?}\n  real {:#?}", ours.get(key), real.get(key)).unwrap();
    }
    wrong
}

/// Reads and writes.
fn counts<'a>(methods: impl Iterator<Item = &'a str>) -> [usize; 2] {
    methods.fold([0, 0], |[reads, writes], method| match method {
        "GET" => [reads + 1, writes],
        _ => [reads, writes + 1],
    })
}

impl Seen {
    fn counts(&self) -> [[usize; 2]; 2] {
        [
            counts(self.kubernetes.iter().map(|request| request.method.as_str())),
            counts(self.service.iter().map(|exchange| exchange.method.as_str())),
        ]
    }

    fn table(&self, who: &str) {
        let minutes = self.took.as_secs_f64() / 60.0;
        for ([reads, writes], side) in self.counts().into_iter().zip(["API server", "service"]) {
            let rate = |count: usize| f64::from(u32::try_from(count).unwrap()) / minutes;
            println!(
                "peers: controller: {who:<5} {side:<10} {reads:>5} reads {:>6.1}/min {writes:>4} writes {:>5.1}/min in {minutes:.1} min",
                rate(reads),
                rate(writes)
            );
        }
    }

    /// How often what was read, for who looks for what is read too often.
    fn reads(&self, who: &str) {
        let mut reads: BTreeMap<String, usize> = BTreeMap::new();
        for request in self.kubernetes.iter().filter(|request| request.method == "GET") {
            let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
            let watch = if query.contains("watch=") { " watch" } else { "" };
            *reads.entry(format!("{path}{watch}")).or_default() += 1;
        }
        for exchange in self.service.iter().filter(|exchange| exchange.method == "GET") {
            *reads.entry(format!("service: {}", exchange.kind())).or_default() += 1;
        }
        for (what, count) in reads {
            println!("peers: controller: {who:<5} {count:>4} x {what}");
        }
    }
}

#[test]
fn ours_writes_what_the_real_one_writes() {
    scenario("q: both controllers, the same cluster", &["assisted-installer-controller"], NAMES, |peers, site| {
        let real = vec![peers.program("assisted-installer-controller").display().to_string()];
        let namespace = &site.server.namespace;
        // Both at once, with an API server each: their pauses are real.
        let (ours, real) = thread::scope(|scope| {
            let ours = scope.spawn(|| namespace.enter(|| live(namespace, "ours", &ours(), false)));
            let real = namespace.enter(|| live(namespace, "real", &real, true));
            (ours.join(), real)
        });
        let ours = ours.unwrap_or_else(|panic| resume_unwind(panic));
        for (seen, who) in [(&ours, "ours"), (&real, "real")] {
            seen.reads(who);
        }
        for (seen, who) in [(&ours, "ours"), (&real, "real")] {
            seen.table(who);
        }
        assert_eq!(ours.made, real.made);
        assert_eq!(of_cluster(&ours.service), of_cluster(&real.service));
        let to_service = other_writes(&writes(&ours.service), &writes(&real.service));
        let to_cluster = other_writes(&kubernetes_writes(&ours.kubernetes), &kubernetes_writes(&real.kubernetes));
        let ids = Row("*", "request header x-request-id", "the real one sends none with some requests");
        let comparison = compare_requests(&ours.service, &real.service, &[ids]);
        let unnamed = comparison.first_unnamed();
        assert!(
            to_service.is_empty() && to_cluster.is_empty() && unnamed.is_empty(),
            "ours differs from the real one\nin what it writes to the service:\n{to_service}\nto the cluster:\n{to_cluster}\nin requests:\n  {}",
            unnamed.join("\n  ")
        );
        for (ours, real) in ours.counts().into_iter().zip(real.counts()) {
            assert!(ours[0] < real[0] && ours[1] <= real[1], "ours {ours:?}, the real one {real:?}");
        }
        comparison.summary()
    });
}
