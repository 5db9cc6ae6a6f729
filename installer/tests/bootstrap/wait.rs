//! Waiting until the control plane is one of other hosts.

use super::*;
use api::HostStage;
use installer::bootstrap::{BootstrapError, wait_for_control_plane};

const MASTER_LABEL: &str = "labelSelector=node-role.kubernetes.io%2Fmaster";
const ARBITER_LABEL: &str = "labelSelector=node-role.kubernetes.io%2Farbiter";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// A control plane as far as it is.
#[derive(Clone, Default)]
struct Plane {
    install_config: String,
    masters: Vec<Value>,
    arbiters: Vec<Value>,
    has_event: bool,
    invoker: Option<&'static str>,
    pods: Vec<Value>,
    machine_configs: Vec<&'static str>,
    /// Each request is first answered so once.
    fails: bool,
}

fn plane(state: &Shared<Plane>) -> FakeService {
    let state = state.clone();
    let failed = Mutex::new(Vec::new());
    FakeService::start(move |request| {
        let plane = state.get();
        let first = {
            let mut failed = failed.lock().unwrap();
            let is_new = !failed.contains(&request.path);
            failed.push(request.path.clone());
            is_new
        };
        if plane.fails && first {
            return Answer::Json(503, json!({"kind": "Status", "message": "etcd is not ready"}));
        }
        let list = |items: &[Value]| Answer::Json(200, json!({"items": items}));
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/api/v1/namespaces/kube-system/configmaps/cluster-config-v1") => {
                match plane.install_config.as_str() {
                    "" => not_found(request),
                    text => Answer::Json(200, json!({"data": {"install-config": text}})),
                }
            }
            ("GET", "/api/v1/nodes") if request.query.contains(MASTER_LABEL) => list(&plane.masters),
            ("GET", "/api/v1/nodes") if request.query.contains(ARBITER_LABEL) => list(&plane.arbiters),
            ("PATCH", path) if path.starts_with("/api/v1/nodes/") => Answer::Json(200, json!({})),
            ("GET", "/api/v1/namespaces/assisted-installer/events") => {
                let name = if plane.has_event { "AssistedControllerIsReady" } else { "Other" };
                list(&[json!({"metadata": {"name": name}})])
            }
            ("GET", "/api/v1/namespaces/assisted-installer/pods") => list(&plane.pods),
            ("GET", "/api/v1/namespaces/assisted-installer/pods/assisted-installer-controller-x7/log") => {
                Answer::Text(200, "what it did\n")
            }
            ("GET", "/api/v1/namespaces/openshift-config/configmaps/openshift-install-manifests") => {
                match plane.invoker {
                    Some(invoker) => Answer::Json(200, json!({"data": {"invoker": invoker}})),
                    None => not_found(request),
                }
            }
            ("GET", path) => {
                let name = path.strip_prefix("/apis/machineconfiguration.openshift.io/v1/machineconfigs/");
                match name.and_then(|name| plane.machine_configs.iter().find(|known| **known == name)) {
                    Some(name) => Answer::Json(200, json!({"metadata": {"name": name}})),
                    None => not_found(request),
                }
            }
            _ => not_found(request),
        }
    })
}

fn node(name: &str, address: &str, ready: bool) -> Value {
    json!({
        "metadata": {"name": name, "resourceVersion": "7", "annotations": {
            "machineconfiguration.openshift.io/currentConfig": "rendered-1",
            "machineconfiguration.openshift.io/desiredConfig": "rendered-1"}},
        "spec": {"taints": null},
        "status": {"conditions": [{"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]},
    })
}

fn config(masters: u32) -> String {
    format!("apiVersion: v1\ncontrolPlane:\n  name: master\n  replicas: {masters}\npullSecret: ''\n")
}

/// The service, with what it knows of the cluster.
fn service(cluster: &Shared<Value>) -> FakeService {
    let cluster = cluster.clone();
    FakeService::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", path) if path == format!("/v2/clusters/{CLUSTER}") => Answer::Json(200, cluster.get()),
        ("GET", path) if path == format!("/v2/clusters/{CLUSTER}/hosts") => {
            Answer::Json(200, cluster.get()["workers"].clone())
        }
        ("PUT" | "POST", _) => Answer::Done,
        _ => not_found(request),
    })
}

fn cluster() -> Value {
    json!({"id": CLUSTER, "kind": "Cluster", "platform": {"type": "baremetal"}, "workers": [],
        "hosts": [member(1, "master"), member(2, "master"), member(3, "master"), member(4, "worker")]})
}

fn host_of(plane: &FakeService) -> FakeHost<'static> {
    let host = host();
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": plane.url, "insecure-skip-tls-verify": true}}], "current-context": "admin",
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "k8s-t0ken"}}],
    });
    put(&host, "/opt/openshift/auth/kubeconfig", &kubeconfig.to_string());
    host
}

/// A host whose services are done, and a control plane that needs no more waiting.
fn all_done() -> (Shared<Plane>, FakeService, FakeHost<'static>) {
    let state = Shared::new(Plane {
        install_config: config(3),
        masters: vec![node("node-2", "10.0.0.2", true), node("node-3", "10.0.0.3", true)],
        has_event: true,
        machine_configs: vec!["rendered-1"],
        ..Plane::default()
    });
    let plane = plane(&state);
    let host = host_of(&plane);
    put(&host, "/opt/openshift/.bootkube.done", "");
    host.says("systemctl show -P ActiveState progress.service", "inactive");
    (state, plane, host)
}

fn wait(host: &FakeHost<'_>, setup: &Setup, cancel: &Cancel) -> (Result<(), BootstrapError>, Vec<String>) {
    let mut stages = Vec::new();
    let mut report = |stage: HostStage, info: &str| stages.push(format!("{stage}: {info}"));
    let result = wait_for_control_plane(host, &setup.context(), &mut report, cancel);
    (result, stages)
}

fn joined(service: &FakeService) -> Vec<String> {
    let requests = service.requests();
    let joined = requests.iter().filter(|r| r.ends_with("PUT", "/progress") && r.body["current_stage"] == "Joined");
    joined.map(|r| r.path.split('/').nth(5).unwrap().chars().last().unwrap().to_string()).collect()
}

const STAGES: [&str; 4] = [
    "Waiting for control plane: Waiting for masters to join bootstrap control plane",
    "Waiting for bootkube: ",
    "Waiting for bootkube: waiting for ETCD bootstrap to be complete",
    "Waiting for controller: waiting for controller pod ready event",
];

#[test]
fn each_wait_ends_by_what_it_waits_for_and_in_order() {
    let state = Shared::new(Plane { fails: true, ..Plane::default() });
    let (plane, known) = (plane(&state), Shared::new(cluster()));
    let service = Arc::new(service(&known));
    let host = Arc::new(host_of(&plane));
    host.says("systemctl show -P ActiveState progress.service", "active");
    let setup = Setup::new(&service, |_| {});
    let stages = Shared::new(Vec::<String>::new());
    let (seen, machine, world, requests_to) = (stages.clone(), host.clone(), state.clone(), service.clone());
    // Makes each thing happen some time after it is waited for.
    let director = thread::spawn(move || {
        let later = || thread::sleep(Duration::from_millis(15));
        let until = |count: usize| {
            assert!(testkit::wait::comes(|| seen.get().len() >= count));
        };
        until(1);
        later();
        world.change(|plane| plane.install_config = config(3));
        later();
        world.change(|plane| plane.masters = vec![node("node-2", "10.0.0.2", true), node("other", "10.0.0.3", false)]);
        later();
        assert_eq!(seen.get().len(), 1, "one of two is ready");
        world.change(|plane| plane.masters[1] = node("other", "10.0.0.3", true));
        until(2);
        later();
        assert_eq!(seen.get().len(), 2);
        put(&machine, "/opt/openshift/.bootkube.done", "");
        until(3);
        later();
        machine.says("systemctl show -P ActiveState progress.service", "failed");
        later();
        assert_eq!(seen.get().len(), 3, "it may be started again");
        machine.says("systemctl show -P ActiveState progress.service", "inactive");
        until(4);
        world.change(|plane| {
            plane.pods = vec![
                json!({"metadata": {"name": "assisted-installer-controller-old"}, "status": {"phase": "Failed"}}),
                json!({"metadata": {"name": "assisted-installer-controller-x7"}, "status": {"phase": "Running"}}),
            ]
        });
        requests_to.wait_for("the controller's logs", |requests| requests.iter().any(|r| r.method == "POST"));
        world.change(|plane| plane.has_event = true);
        later();
        world.change(|plane| plane.machine_configs = vec!["rendered-1"]);
    });
    let mut report = |stage: HostStage, info: &str| stages.change(|stages| stages.push(format!("{stage}: {info}")));
    wait_for_control_plane(&*host, &setup.context(), &mut report, &Cancel::default()).unwrap();
    director.join().unwrap();
    assert_eq!(stages.get(), STAGES);
    assert_eq!(joined(&service), ["2", "3"]);

    let requests = service.requests();
    let uploads: Vec<_> = requests.iter().filter(|r| r.method == "POST").collect();
    assert!(uploads.len() >= 2, "every while, and at the end");
    assert_eq!(uploads[0].path, format!("/v2/clusters/{CLUSTER}/logs"));
    assert_eq!(uploads[0].query, "logs_type=controller");
    assert!(uploads[0].body.as_str().unwrap().contains(r#"name="upfile"; filename="controller_logs.tar.gz""#));
    let asked = requests.iter().position(|r| r.ends_with("PUT", "/logs-progress")).unwrap();
    assert_eq!(requests[asked].path, format!("/v2/clusters/{CLUSTER}/logs-progress"));
    assert_eq!(requests[asked].body, json!({"logs_state": "requested"}));
    assert_eq!(requests.iter().rposition(|r| r.method == "POST"), Some(asked + 1), "once more when it is ready");
    let log = plane.requests().into_iter().find(|r| r.path.ends_with("/log")).unwrap();
    assert!(log.query.contains("sinceSeconds=3600"), "{}", log.query);
    assert_eq!(log.header("authorization"), Some("Bearer k8s-t0ken"));
}

#[test]
fn joined_hosts_are_reported_once_and_only_if_that_is_news() {
    let (_, _plane, host) = all_done();
    let mut hosts = cluster();
    hosts["hosts"][1]["status"] = "installed".into();
    // The service has trouble with the third for a while.
    let refused = Shared::new(0);
    let count = refused.clone();
    let service = FakeService::start(move |request| match request.method.as_str() {
        "GET" if request.path.ends_with("/hosts") => Answer::Json(200, json!([])),
        "GET" => Answer::Json(200, hosts.clone()),
        "PUT" if request.path.contains("000000000003/") => {
            count.change(|count| *count += 1);
            if count.get() == 1 { Answer::Status(409) } else { Answer::Done }
        }
        _ => Answer::Done,
    });
    let (result, stages) = wait(&host, &Setup::new(&service, |_| {}), &Cancel::default());
    result.unwrap();
    assert_eq!(stages, STAGES);
    assert_eq!((joined(&service), refused.get()), (vec!["3".to_owned()], 1), "what is refused is not said again");
}

#[test]
fn an_unknown_node_counts_after_the_service_was_asked_again() {
    let (state, _plane, host) = all_done();
    state.change(|plane| plane.masters[0] = node("stranger", "10.9.9.9", true));
    let known = Shared::new(cluster());
    let service = service(&known);
    let (result, _) = wait(&host, &Setup::new(&service, |_| {}), &Cancel::default());
    result.unwrap();
    let asked =
        service.requests().iter().filter(|r| r.path == format!("/v2/clusters/{CLUSTER}") && r.query.is_empty()).count();
    assert_eq!((asked, joined(&service)), (2, vec!["3".to_owned()]));
}

#[test]
fn arbiters_are_awaited_where_there_are_to_be_any() {
    let (state, plane, host) = all_done();
    state.change(|plane| {
        plane.install_config = "controlPlane: {replicas: 2}\narbiter: {replicas: 1}\n".into();
        plane.masters.truncate(1);
        plane.arbiters = vec![node("node-3", "10.0.0.3", false)];
    });
    let known = Shared::new(cluster());
    let service = service(&known);
    let world = state.clone();
    let later = thread::spawn(move || {
        plane.wait_for("the arbiters' question", |requests| {
            requests.iter().filter(|r| r.query.contains(ARBITER_LABEL)).count() > 2
        });
        world.change(|plane| plane.arbiters = vec![node("node-3", "10.0.0.3", true)]);
        plane
    });
    let (result, stages) = wait(&host, &Setup::new(&service, |_| {}), &Cancel::default());
    result.unwrap();
    later.join().unwrap();
    assert_eq!((joined(&service), stages.len()), (vec!["2".to_owned(), "3".to_owned()], 4));
}

#[test]
fn a_taint_that_would_stay_is_removed() {
    for (platform, expected) in [("nutanix", 1), ("vsphere", 1), ("baremetal", 0)] {
        let (state, plane, host) = all_done();
        let mut tainted = node("node-1", "10.0.0.1", false);
        tainted["spec"]["taints"] = json!([{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
            {"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]);
        let mut ready = node("node-2", "10.0.0.2", true);
        ready["spec"]["taints"] = tainted["spec"]["taints"].clone();
        state.change(|plane| plane.masters = vec![tainted, ready, plane.masters[1].clone()]);
        let mut hosts = cluster();
        hosts["platform"]["type"] = platform.into();
        let service = service(&Shared::new(hosts));
        wait(&host, &Setup::new(&service, |_| {}), &Cancel::default()).0.unwrap();
        let patches: Vec<_> = plane.requests().into_iter().filter(|r| r.method == "PATCH").collect();
        assert_eq!(patches.len(), expected, "{platform}");
        for patch in patches {
            assert_eq!(patch.path, "/api/v1/nodes/node-1");
            assert_eq!(patch.header("content-type"), Some("application/merge-patch+json"));
            let taints = json!([{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]);
            assert_eq!(patch.body, json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}}));
        }
    }
}

#[test]
fn workers_are_awaited_only_where_the_service_is_on_this_host() {
    for (invoker, waits) in [(Some("agent-installer"), true), (Some("assisted-service"), false), (None, false)] {
        let (state, _plane, host) = all_done();
        state.change(|plane| plane.invoker = invoker);
        let mut hosts = cluster();
        let mut worker = member(4, "worker");
        worker["progress"]["current_stage"] = "Waiting for control plane".into();
        hosts["workers"] = json!([worker]);
        let known = Shared::new(hosts);
        let service = Arc::new(service(&known));
        let asked = |requests: &[Request]| requests.iter().filter(|r| r.ends_with("GET", "/hosts")).count();
        let watched = service.clone();
        let later = waits.then(|| {
            thread::spawn(move || {
                let requests = watched.wait_for("the workers", |requests| asked(requests) > 2);
                assert!(requests.iter().any(|r| r.query == "role=worker"));
                known.change(|hosts| hosts["workers"][0]["progress"]["current_stage"] = "Rebooting".into());
            })
        });
        wait(&host, &Setup::new(&service, |_| {}), &Cancel::default()).0.unwrap();
        assert_eq!(asked(&service.requests()) > 0, waits, "{invoker:?}");
        if let Some(later) = later {
            later.join().unwrap();
        }
    }
}

#[test]
fn every_wait_ends_soon_when_cancelled() {
    type Unfinish = fn(&Shared<Plane>, &FakeHost<'static>);
    let unfinished: [(usize, Unfinish); 6] = [
        (1, |state, _| state.change(|plane| plane.install_config.clear())),
        (1, |state, _| state.change(|plane| plane.masters.truncate(1))),
        (2, |_, host| fs::remove_file(path(host, "/opt/openshift/.bootkube.done")).unwrap()),
        (3, |_, host| host.says("systemctl show -P ActiveState progress.service", "active")),
        (4, |state, _| state.change(|plane| plane.has_event = false)),
        (4, |state, _| state.change(|plane| plane.machine_configs.clear())),
    ];
    let service = service(&Shared::new(cluster()));
    let setup = Setup { pace: SLOW, ..Setup::new(&service, |_| {}) };
    thread::scope(|scope| {
        for (number, (reached, unfinish)) in unfinished.into_iter().enumerate() {
            let setup = &setup;
            scope.spawn(move || {
                let (state, _plane, host) = all_done();
                unfinish(&state, &host);
                let stages = Shared::new(Vec::<String>::new());
                let seen = stages.clone();
                let there = move || seen.get().len() == reached;
                ends_when_cancelled(there, |cancel| {
                    let mut report =
                        |stage: HostStage, info: &str| stages.change(|stages| stages.push(format!("{stage}: {info}")));
                    let result = wait_for_control_plane(&host, &setup.context(), &mut report, cancel);
                    matches!(result, Err(BootstrapError::Cancelled(_)))
                });
                assert_eq!(stages.get(), STAGES[..reached], "{number}");
            });
        }
    });
}

#[test]
fn a_kubeconfig_of_no_use_ends_it() {
    let service = service(&Shared::new(cluster()));
    let (result, stages) = wait(&host(), &Setup::new(&service, |_| {}), &Cancel::default());
    assert!(matches!(result, Err(BootstrapError::Kube(_))), "{result:?}");
    assert!(stages.is_empty());
}
