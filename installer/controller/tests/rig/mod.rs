//! A controller between a real API server and a service that is as strict as the real one. Time is fast: half a minute of pause is a tenth of
//! a second.
#![allow(dead_code)] // not every test uses all of it

pub(crate) mod finalizing;

use controller::{
    Surroundings,
    clock::{End, Reason},
    cluster::Login,
    config::{Config, MustGatherImages},
};
use fake_service::{Answer, FakeService, Request};
use node_certificates::Approval;
use serde_json::{Value, json};
use simulator::{ApiServer, Cluster, Fault, FaultProxy, NodeState, PATIENCE, Shared, await_some};
use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

pub(crate) const SPEED: u32 = 300;
/// Of a call to the cluster: the pauses of watches that fail are parts of it.
const CALL: Duration = Duration::from_secs(5);
/// The same where a test has calls hang.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);
pub(crate) const CLUSTER: &str = "1d0f3b5e-8f0c-4d35-9a3e-0a6a1f0e9d11";
pub(crate) const INFRA_ENV: &str = "7a3c6f0e-1b1f-4f6f-8a51-8d7a5a3b6a01";
pub(crate) const NAMESPACE: &str = "assisted-installer";
const CONTROLLER: &str = "assisted-installer-controller";
pub(crate) const IP: &str = "192.168.39.248";
/// Of a node that its cloud provider has not initialised yet.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

#[test]
#[ignore = "the process that keeps the API server of the other tests"]
fn keeper() {
    simulator::keeper::keep();
}

/// What the service knows.
pub(crate) struct State {
    pub(crate) cluster: Value,
    pub(crate) operators: Vec<Value>,
    /// What `downloads/files` and `downloads/credentials` give, by file name.
    pub(crate) files: Vec<(&'static str, &'static str)>,
    /// How often so many requests fail, by method and end of the path, with this status.
    pub(crate) failures: Vec<(&'static str, &'static str, u32, u16)>,
}

impl State {
    /// Hosts `node0`, `node1`, … in this status and stage.
    pub(crate) fn hosts(status: &str, stage: &str, count: usize) -> Vec<Value> {
        (0..count)
            .map(|number| {
                json!({
                    "id": host_id(number), "infra_env_id": INFRA_ENV, "cluster_id": CLUSTER, "kind": "Host", "href": "",
                    "requested_hostname": format!("node{number}"), "status": status, "status_info": "", "role": "master",
                    "progress": {"current_stage": stage, "stage_started_at": "2026-01-01T00:00:00Z", "stage_updated_at": "2026-01-01T00:00:00Z"},
                    "inventory": inventory(&[format!("192.168.126.{}", 10 + number)]),
                })
            })
            .collect()
    }

    pub(crate) fn host(&mut self, number: usize) -> &mut Value {
        &mut self.cluster["hosts"][number]
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let fails =
            self.failures.iter_mut().find(|(method, end, count, _)| *count > 0 && request.ends_with(method, end));
        if let Some((_, _, count, status)) = fails {
            *count -= 1;
            return Answer::Refusal(*status, "the test says no");
        }
        let file = |prefix: &str| {
            let name = request.query.strip_prefix(prefix).unwrap_or_default();
            self.files.iter().find(|(known, _)| *known == name).map(|(_, text)| Answer::Text(200, text))
        };
        let path = request.path.strip_prefix("/v2").unwrap_or(&request.path).to_owned();
        let of_cluster = path.strip_prefix(&format!("/clusters/{CLUSTER}")).map(str::to_owned);
        match (request.method.as_str(), of_cluster.as_deref()) {
            ("GET", Some("")) => {
                let mut cluster = self.cluster.clone();
                if request.query.contains("exclude-hosts=true") {
                    cluster["hosts"] = json!([]);
                }
                Answer::Json(200, cluster)
            }
            ("PUT", Some("/progress")) => {
                // A stage that is reported again keeps its time.
                if self.cluster["progress"]["finalizing_stage"] != request.body["finalizing_stage"] {
                    self.cluster["progress"] = json!({"finalizing_stage": request.body["finalizing_stage"]});
                }
                Answer::Done
            }
            ("GET", Some("/monitored-operators")) => Answer::Json(200, self.operators.clone().into()),
            ("PUT", Some("/monitored-operators")) => {
                let known = self.operators.iter_mut().find(|operator| operator["name"] == request.body["name"]);
                let Some(known) = known else { return Answer::Refusal(404, "no such operator") };
                for member in ["status", "status_info", "version"] {
                    if let Some(value) = request.body.get(member) {
                        known[member] = value.clone();
                    }
                }
                Answer::Done
            }
            ("POST", Some("/uploads/ingress-cert")) => Answer::Done,
            ("POST", Some("/actions/complete-installation")) => Answer::Json(202, self.cluster.clone()),
            ("GET", Some("/downloads/files" | "/downloads/credentials")) => {
                file("file_name=").unwrap_or(Answer::Refusal(404, "no such file"))
            }
            ("POST", Some("/logs")) | ("PUT", Some("/logs-progress")) => Answer::Done,
            ("POST", None) if path == "/events" => Answer::Done,
            ("PUT", None) if path.ends_with("/progress") => {
                let host = self.cluster["hosts"].as_array_mut().unwrap().iter_mut();
                let host = host.into_iter().find(|host| path.contains(host["id"].as_str().unwrap())).unwrap();
                host["progress"]["current_stage"] = request.body["current_stage"].clone();
                if request.body["current_stage"] == "Done" {
                    host["status"] = "installed".into();
                }
                Answer::Done
            }
            (method, _) => panic!("the service has no answer for {method} {path}"),
        }
    }
}

pub(crate) fn host_id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

pub(crate) fn inventory(addresses: &[String]) -> String {
    let addresses: Vec<_> = addresses.iter().map(|address| format!("{address}/24")).collect();
    json!({"interfaces": [{"name": "eth0", "ipv4_addresses": addresses, "ipv6_addresses": []}]}).to_string()
}

pub(crate) fn operator(name: &str, kind: &str, status: &str) -> Value {
    json!({
        "cluster_id": CLUSTER, "name": name, "operator_type": kind, "status": status, "status_info": "", "version": "",
        "namespace": "openshift-test", "subscription_name": format!("{name}-operator"), "timeout_seconds": 4200,
    })
}

pub(crate) fn taint(key: &str) -> Value {
    json!({"key": key, "value": "true", "effect": "NoSchedule"})
}

/// An API server, a service, and in between what may fail.
pub(crate) struct Rig {
    pub(crate) server: Shared,
    pub(crate) cluster: Cluster,
    pub(crate) proxy: FaultProxy,
    pub(crate) service: FakeService,
    state: Arc<Mutex<State>>,
    directory: tempfile::TempDir,
}

/// A controller that runs.
pub(crate) struct Running {
    pub(crate) end: End,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Running {
    /// Waits until it ends by itself.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let thread = self.thread.take().unwrap();
        await_some("the end of the controller", || thread.is_finished().then_some(()));
        thread.join().unwrap()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Ends it as the end of the cluster does.
    pub(crate) fn end(self) {
        self.end.set(Reason::Finished);
        self.finish().unwrap();
    }

    /// Ends it as SIGTERM does.
    pub(crate) fn stop(self) {
        self.end.set(Reason::Stopped);
        self.finish().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.set(Reason::Stopped);
    }
}

impl Rig {
    /// A cluster of three hosts that are being installed; none where the API server is not built.
    pub(crate) fn new() -> Option<Self> {
        // Shown where a test fails.
        let _ = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
            .with_test_writer()
            .try_init();
        let server = ApiServer::shared(&testkit::process::own_test(module_path!(), "keeper"))?;
        let cluster = server.cluster();
        cluster.namespace(NAMESPACE);
        install(&cluster);
        cluster.proxy("", "", "");
        cluster.invoker("assisted-service");
        let proxy = server.proxy();
        let state = Arc::new(Mutex::new(State {
            cluster: json!({
                "id": CLUSTER, "kind": "Cluster", "href": "", "name": "test", "base_dns_domain": "example.com",
                "status": "installing", "status_info": "", "image_info": {}, "platform": {"type": "none"},
                "progress": {}, "hosts": State::hosts("installing", "Rebooting", 3),
            }),
            operators: Vec::new(),
            files: Vec::new(),
            failures: Vec::new(),
        }));
        let answers = state.clone();
        let service = FakeService::start(move |request| lock(&answers).answer(request));
        let directory = tempfile::tempdir().unwrap();
        Some(Self { server, cluster, proxy, service, state, directory })
    }

    /// A rig whose service has hosts in this status and stage.
    pub(crate) fn with_hosts(status: &str, stage: &str, count: usize) -> Option<Self> {
        let rig = Self::new()?;
        rig.state().cluster["hosts"] = State::hosts(status, stage, count).into();
        Some(rig)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn set_status(&self, status: &str) {
        self.state().cluster["status"] = status.into();
    }

    pub(crate) fn config(&self) -> Config {
        Config { url: self.service.url.clone(), ..config() }
    }

    /// The controller's own, through the proxy.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        let kubeconfig = self.directory.path().join("kubeconfig");
        let token = self.server.service_account_token(NAMESPACE, CONTROLLER);
        fs::write(&kubeconfig, self.proxy.kubeconfig(&token)).unwrap();
        kubeconfig
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            login: Login::Kubeconfig(self.kubeconfig()),
            speed: SPEED,
            deadline: CALL,
            retry: api::RetryPolicy::Never,
            own_log: self.directory.path().join("controller.log"),
            bootstrap_kubeconfig: self.directory.path().join("bootstrap"),
        }
    }

    /// Starts a controller with the usual settings.
    pub(crate) fn start(&self) -> Running {
        self.start_with(self.config())
    }

    pub(crate) fn start_with(&self, config: Config) -> Running {
        self.start_in(config, self.surroundings())
    }

    pub(crate) fn start_in(&self, config: Config, surroundings: Surroundings) -> Running {
        let end = End::default();
        let ended = end.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let result = runtime.block_on(controller::run(config, surroundings, ended));
            runtime.shutdown_background();
            result
        });
        Running { end, thread: Some(thread) }
    }

    /// Nodes `node0`, `node1`, …
    pub(crate) fn join(&self, count: usize, is_ready: bool) {
        for number in 0..count {
            self.node(&format!("node{number}"), is_ready);
        }
    }

    pub(crate) fn node(&self, name: &str, is_ready: bool) {
        self.cluster.node_joins(&NodeState { name, internal_ips: &[IP], is_ready, ..NodeState::default() });
    }

    /// A node with these taints.
    pub(crate) fn tainted(&self, name: &str, keys: &[&str], is_ready: bool) {
        let taints = keys.iter().map(|key| taint(key)).collect();
        self.cluster.node_joins(&NodeState { name, internal_ips: &[IP], is_ready, taints, ..NodeState::default() });
    }

    /// Keys of the taints that a node has.
    pub(crate) fn taints(&self, node: &str) -> Vec<String> {
        let node = self.cluster.read_node(node).unwrap();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
    }

    /// Stages reported of a host, in order.
    pub(crate) fn stages(&self, number: usize) -> Vec<String> {
        let requests = self.service.requests();
        let of_host = requests.iter().filter(|request| {
            request.method == "PUT" && request.path.contains(&host_id(number)) && request.path.ends_with("/progress")
        });
        of_host.map(|request| request.body["current_stage"].as_str().unwrap().to_owned()).collect()
    }

    /// Bodies of requests by method and end of the path, in order.
    pub(crate) fn sent(&self, method: &str, end: &str) -> Vec<Value> {
        let requests = self.service.requests();
        requests.iter().filter(|request| request.ends_with(method, end)).map(|request| request.body.clone()).collect()
    }

    /// Finalizing stages, in order.
    pub(crate) fn finalizing(&self) -> Vec<String> {
        let sent = self.sent("PUT", &format!("/clusters/{CLUSTER}/progress"));
        sent.iter().map(|body| body["finalizing_stage"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        await_some(what, || holds(self).then_some(()));
    }

    /// So many rounds of half a minute.
    pub(crate) fn rounds(&self, count: u32) {
        thread::sleep(Duration::from_secs(30) * count / SPEED);
    }

    pub(crate) fn fail_all(&self, method: &'static str, part: &'static str, status: u16) {
        self.proxy.set_faults(
            move |m, path, _| if m == method && path.contains(part) { Fault::Status(status) } else { Fault::Pass },
        );
    }

    /// The first `count` calls of the API of this method, with `part` in their path, fail.
    pub(crate) fn fail_some(&self, count: u32, method: &'static str, part: &'static str, status: u16) {
        let left = AtomicU32::new(count);
        self.proxy.set_faults(move |m, path, _| {
            let fails = m == method
                && path.contains(part)
                && left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            if fails { Fault::Status(status) } else { Fault::Pass }
        });
    }

    /// Paths and bodies that the controller sent to the API by this method, with `part` in the path, in order.
    pub(crate) fn calls(&self, method: &str, part: &str) -> Vec<(String, Value)> {
        let calls = self.proxy.requests().into_iter().filter(|call| call.method == method);
        calls
            .map(|call| (call.target.split('?').next().unwrap().to_owned(), call.body))
            .filter(|(path, _)| path.contains(part))
            .map(|(path, body)| (path, serde_json::from_slice(&body).unwrap_or_default()))
            .collect()
    }

    /// Whether the controller has said that it is ready.
    pub(crate) fn is_announced(&self) -> bool {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/events/AssistedControllerIsReady");
        self.cluster.client().find(&path).unwrap().is_some()
    }

    /// How often the controller has asked the service for the cluster.
    pub(crate) fn asked(&self) -> usize {
        self.sent("GET", &format!("/clusters/{CLUSTER}")).len()
    }

    /// Waits until it has asked so many more times: so long, at least, it had to do what it was going to.
    pub(crate) fn looks(&self, count: usize) {
        let before = self.asked();
        self.until("looks at the cluster", |rig| rig.asked() >= before + count);
    }

    /// Has the service give this file, in place of one of this name.
    pub(crate) fn file(&self, name: &'static str, text: String) {
        let mut state = self.state();
        state.files.retain(|(known, _)| *known != name);
        state.files.push((name, text.leak()));
    }

    /// A cluster whose hosts are nodes; what is left is to finish it. It has no console, and its ingress has an authority.
    pub(crate) fn finalizes(&self) {
        self.state().cluster["hosts"] = State::hosts("installed", "Done", 3).into();
        self.set_status("finalizing");
        self.cluster.cluster_version(&[], "4.20.1", &[], &["Console"]);
        self.cluster.ingress_ca("CA");
        self.file("kubeconfig-noingress", self.server.admin_kubeconfig());
        self.file("custom_manifests.json", "[]".to_owned());
    }

    /// Once this stage is reported, the service gives it no more time.
    pub(crate) fn time_out(&self, stage: &str) {
        self.until(stage, |rig| rig.finalizing().last().is_some_and(|last| last == stage));
        self.state().cluster["progress"]["finalizing_stage_timed_out"] = true.into();
    }

    /// Pods with names that begin so, of all namespaces.
    pub(crate) fn pods(&self, prefix: &str) -> Vec<Value> {
        let mut pods = self.cluster.client().list("/api/v1/pods").unwrap();
        pods.retain(|pod| pod["metadata"]["name"].as_str().unwrap().starts_with(prefix));
        pods
    }
}

/// What the installer puts into the cluster.
pub(crate) fn manifests() -> Vec<Value> {
    let token = api::Secret::new("token");
    let controller = installer::controller_manifests::Controller {
        cluster_id: CLUSTER.parse().unwrap(),
        url: "http://127.0.0.1",
        insecure: false,
        ca_cert: None,
        check_cluster_version: false,
        control_plane_count: 3,
        must_gather_image: "",
        image: "localhost/controller",
        openshift_version: "",
        notify_num_reboots: false,
        service_ips: &[],
        token: &token,
        approve_any: false,
    };
    installer::controller_manifests::manifests(&controller).into_iter().map(|(_, manifest, _)| manifest).collect()
}

/// The controller's account and its rights: with these, and no others, it works.
fn install(cluster: &Cluster) {
    for manifest in manifests() {
        let text = |member: &str| manifest[member].as_str().unwrap();
        let (group, plural) = match text("kind") {
            "ClusterRole" => ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
            "ClusterRoleBinding" => ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
            "Role" => ("/apis/rbac.authorization.k8s.io/v1", "roles"),
            "RoleBinding" => ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
            "ServiceAccount" => ("/api/v1", "serviceaccounts"),
            "Namespace" | "ConfigMap" | "Secret" | "Job" | "NetworkPolicy" => continue,
            other => panic!("{other} is new"),
        };
        match manifest["metadata"]["namespace"].as_str() {
            Some(namespace) => drop(cluster.put(group, namespace, plural, &manifest)),
            None => drop(cluster.client().put(&format!("{group}/{plural}"), &manifest).unwrap()),
        }
    }
}

/// The usual settings, without a service.
pub(crate) fn config() -> Config {
    Config {
        cluster_id: CLUSTER.parse().unwrap(),
        url: String::new(),
        token: api::Secret::new("token"),
        insecure: false,
        ca_cert: None,
        openshift_version: "4.20.1".to_owned(),
        namespace: NAMESPACE.to_owned(),
        control_plane_count: 3,
        check_cluster_version: false,
        must_gather: MustGatherImages::Release,
        notify_num_reboots: false,
        approval: Approval::Hosts,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wait of the tests has this limit, in real time.
pub(crate) const LIMIT: Duration = PATIENCE;
