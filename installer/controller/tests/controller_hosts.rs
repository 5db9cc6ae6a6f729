//! Nodes, their certificates and their taints, and the end of the work, situation by situation.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod rig;

use controller::{clock::Reason, config::Config};
use rig::{CLUSTER, IP, Rig, State, inventory};
use serde_json::{Value, json};
use simulator::{CertificateRequest, Fault, NodeState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const REQUESTS: &str = "/certificatesigningrequests/";
const CREDENTIALS: &str = "/downloads/credentials";

/// A rig whose service has these hosts.
fn rig_with(status: &str, stage: &str, count: usize) -> Option<Rig> {
    let rig = Rig::new()?;
    rig.state().cluster["hosts"] = State::hosts(status, stage, count).into();
    Some(rig)
}

fn taint(key: &str) -> Value {
    json!({"key": key, "value": "true", "effect": "NoSchedule"})
}

/// A node with these taints.
fn tainted(rig: &Rig, name: &str, keys: &[&str], is_ready: bool) {
    let taints = keys.iter().map(|key| taint(key)).collect();
    rig.cluster.node_joins(&NodeState { name, internal_ips: &[IP], is_ready, taints, ..NodeState::default() });
}

/// Keys of the taints that a node has.
fn taints(rig: &Rig, node: &str) -> Vec<String> {
    let node = rig.cluster.read_node(node).unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
}

fn all_have(rig: &Rig, count: usize, stages: &[&str]) -> bool {
    (0..count).all(|number| rig.stages(number) == stages)
}

/// What a machine-config server writes for a request.
fn asked_for_config(pool: &str, address: &str) -> String {
    format!(
        "I0101 00:00:00.000000 1 api.go:64] Pool {pool} requested by address:\"{address}\" User-Agent:\"Ignition/2.14.0\" Accept-Header: \"x\"\n"
    )
}

/// Certificates are no longer approved: the task of the nodes is over.
fn assert_that_no_certificate_is_approved(rig: &Rig) {
    let name = rig.cluster.certificate_request(&CertificateRequest::client("node0"));
    rig.rounds(3);
    assert!(!rig.cluster.is_approved(&name));
    assert!(rig.calls("PUT", REQUESTS).is_empty());
}

/// At the start the service fails once, then Kubernetes: the event is written as soon as both answer, and nothing has failed by that.
#[test]
fn the_event_is_written_once_service_and_cluster_answer() {
    let Some(rig) = Rig::new() else { return };
    rig.state().failures.push(("GET", CLUSTER, 1, 500));
    rig.fail_some(1, "POST", "/events", 500);
    let controller = rig.start();
    rig.until("the event", Rig::is_announced);
    let events = rig.calls("POST", "/namespaces/assisted-installer/events");
    assert_eq!(events.len(), 2, "one was refused");
    let event = &events[1].1;
    assert_eq!(event["metadata"]["name"], "AssistedControllerIsReady");
    assert_eq!(
        (&event["reason"], &event["type"], &event["count"]),
        (&event["metadata"]["name"], &json!("Normal"), &json!(1))
    );
    let about = json!({"namespace": "assisted-installer", "name": "assisted-installer-controller"});
    assert_eq!(event["involvedObject"], about);
    let message = "Assisted controller managed to connect to assisted service and kube-apiserver and is ready to start";
    assert_eq!(event["message"], message);
    controller.end();
    assert!(rig.sent("GET", CREDENTIALS).is_empty(), "nothing has failed: nothing is gathered");
}

/// The cluster was deleted before the controller came up: it ends well instead of waiting for more than an hour and being started again
/// by its Job a hundred times.
#[test]
fn a_cluster_that_was_deleted_before_the_start_ends_the_work() {
    let Some(rig) = Rig::new() else { return };
    rig.state().failures.push(("GET", CLUSTER, 99, 404));
    rig.start().finish().unwrap();
    assert!(!rig.is_announced());
    assert_eq!((rig.asked(), rig.sent("POST", "/logs").len()), (3, 0));
}

/// All three hosts have fetched their configs and their nodes are ready: each is reported as joined and as done, once, in this order, and
/// the boots of each are counted.
#[test]
fn configured_hosts_with_ready_nodes_have_joined_and_are_done() {
    let Some(rig) = rig_with("installing", "Configuring", 3) else { return };
    rig.join(3, true);
    let controller = rig.start_with(Config { notify_num_reboots: true, ..rig.config() });
    rig.until("Done", |rig| all_have(rig, 3, &["Joined", "Done"]));
    rig.looks(3);
    assert!(all_have(&rig, 3, &["Joined", "Done"]));
    assert_eq!(rig.sent("GET", CREDENTIALS).len(), 3, "the access to count boots, for each node");
    assert!(!controller.has_ended());
}

/// All hosts are installed when the controller starts: nothing is reported, and certificates are left to the cluster.
#[test]
fn installed_hosts_are_left_alone() {
    let Some(rig) = rig_with("installed", "Done", 3) else { return };
    rig.join(3, true);
    let controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    assert!(all_have(&rig, 3, &[]));
    assert_that_no_certificate_is_approved(&rig);
    assert!(!controller.has_ended(), "the cluster is not installed yet");
}

/// Where no provider initialises nodes, a node that is not ready loses that taint, and no other, after its host was reported as joined.
#[test]
fn a_node_that_is_not_ready_is_untainted() {
    let Some(rig) = rig_with("installing", "Rebooting", 3) else { return };
    rig.state().cluster["platform"]["type"] = "nutanix".into();
    tainted(&rig, "node0", &["first", UNINITIALIZED, "last"], false);
    let controller = rig.start();
    rig.until("untainted", |rig| taints(rig, "node0") == ["first", "last"]);
    assert_eq!(rig.stages(0), ["Joined"]);
    rig.looks(3);
    assert_eq!((rig.stages(0), rig.calls("PATCH", "/nodes/").len()), (vec!["Joined".to_owned()], 1));
    assert!(!controller.has_ended());
}

/// A taint is added between reading a node and changing it: the change is refused by the server and made anew, so that the other taint
/// stays. A patch by index would have removed the wrong one.
#[test]
fn a_taint_that_comes_meanwhile_stays() {
    let Some(rig) = rig_with("installing", "Rebooting", 1) else { return };
    rig.state().cluster["platform"]["type"] = "vsphere".into();
    tainted(&rig, "node0", &[UNINITIALIZED], false);
    let (cluster, is_first) = (rig.cluster.clone(), AtomicBool::new(true));
    rig.proxy.set_faults(move |method, path, _| {
        if method == "PATCH" && path.ends_with("/nodes/node0") && is_first.swap(false, Relaxed) {
            let taints = json!({"spec": {"taints": [taint("meanwhile"), taint(UNINITIALIZED)]}});
            cluster.client().patch("/api/v1/nodes/node0", &taints).unwrap();
        }
        Fault::Pass
    });
    let _controller = rig.start();
    rig.until("untainted", |rig| taints(rig, "node0") == ["meanwhile"]);
    assert_eq!(rig.calls("PATCH", "/nodes/node0").len(), 2);
}

/// Nodes that are not ready yet have joined, whether their hosts were configuring or rebooting; what has joined is not done.
#[test]
fn nodes_that_are_not_ready_have_only_joined() {
    let Some(rig) = rig_with("installing", "Configuring", 3) else { return };
    for number in [1, 2] {
        rig.state().host(number)["progress"]["current_stage"] = "Rebooting".into();
    }
    rig.join(3, false);
    let controller = rig.start();
    rig.until("Joined", |rig| all_have(rig, 3, &["Joined"]));
    rig.looks(3);
    assert!(all_have(&rig, 3, &["Joined"]));
    assert!(!controller.has_ended());
}

/// A single node joins: it is never reported as configuring, since the service knows no such stage of it.
#[test]
fn a_single_node_joins() {
    let Some(rig) = rig_with("installing", "Rebooting", 1) else { return };
    rig.node("other", true);
    rig.cluster.mcs_pod("other", &asked_for_config("master", "192.168.126.10:4711"));
    let controller = rig.start_with(Config { control_plane_count: 1, ..rig.config() });
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    assert!(rig.stages(0).is_empty());
    rig.join(1, false);
    rig.until("Joined", |rig| rig.stages(0) == ["Joined"]);
    rig.looks(2);
    assert_eq!(rig.stages(0), ["Joined"]);
    assert!(!controller.has_ended());
}

/// Hosts that have joined are done once their nodes are ready; those that are done already are not reported again.
#[test]
fn joined_hosts_are_done_and_those_that_are_done_are_not_reported() {
    let Some(rig) = rig_with("installing", "Joined", 4) else { return };
    rig.state().host(3)["progress"]["current_stage"] = "Done".into();
    rig.join(4, true);
    let controller = rig.start();
    rig.until("Done", |rig| all_have(rig, 3, &["Done"]));
    rig.looks(3);
    assert!(all_have(&rig, 3, &["Done"]));
    assert!(rig.stages(3).is_empty());
    assert!(!controller.has_ended());
}

/// For some time the service does not answer, and nodes can't be listed: all is reported once both work again.
#[test]
fn failed_reads_of_hosts_and_nodes_are_repeated() {
    let Some(rig) = rig_with("installing", "Joined", 3) else { return };
    rig.join(3, true);
    rig.fail_some(2, "GET", "/api/v1/nodes", 500);
    let controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.state().failures.push(("GET", CLUSTER, 2, 500));
    rig.until("Done", |rig| all_have(rig, 3, &["Done"]));
    rig.until("failures", |rig| rig.state().failures[0].2 == 0);
    rig.looks(2);
    assert!(all_have(&rig, 3, &["Done"]));
    rig.set_status("installed");
    controller.finish().unwrap();
}

/// All hosts that are left have failed: none is reported, and no certificate is approved any more.
#[test]
fn failed_hosts_are_left_alone() {
    let Some(rig) = rig_with("error", "Joined", 3) else { return };
    rig.state().host(2)["status"] = "installed".into();
    rig.join(3, true);
    let controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    assert!(all_have(&rig, 3, &[]));
    assert_that_no_certificate_is_approved(&rig);
    assert!(!controller.has_ended());
}

/// Nodes come one after another: each is reported when it comes, once, while certificates of the next are still approved. With the last
/// one, that ends.
#[test]
fn nodes_come_one_after_another() {
    let Some(rig) = rig_with("installing", "Joined", 3) else { return };
    let controller = rig.start();
    rig.until("the event", Rig::is_announced);
    for number in 0..3 {
        let node = format!("node{number}");
        let request = rig.cluster.certificate_request(&CertificateRequest::client(&node));
        rig.cluster.await_approval(&request);
        rig.node(&node, true);
        rig.until("Done", |rig| rig.stages(number) == ["Done"]);
        assert!(all_have(&rig, number + 1, &["Done"]));
    }
    rig.looks(2);
    assert!(all_have(&rig, 3, &["Done"]));
    let name = rig.cluster.certificate_request(&CertificateRequest::client("node0"));
    rig.rounds(3);
    assert!(!rig.cluster.is_approved(&name));
    assert!(!controller.has_ended());
}

/// The service takes no report at first: each is repeated, and boots are counted after the one that was taken.
#[test]
fn failed_reports_are_repeated() {
    let Some(rig) = rig_with("installing", "Joined", 3) else { return };
    rig.join(3, true);
    rig.state().failures.push(("PUT", "/progress", 3, 500));
    let controller = rig.start_with(Config { notify_num_reboots: true, ..rig.config() });
    rig.until("Done", |rig| all_have(rig, 3, &["Done", "Done"]));
    rig.looks(2);
    assert!(all_have(&rig, 3, &["Done", "Done"]));
    rig.set_status("installed");
    controller.finish().unwrap();
    assert_eq!(rig.sent("GET", CREDENTIALS).len(), 3, "the access to count boots, for each node once");
}

/// The service refuses each report of one host, as it does once the cluster is installed: other hosts are reported nonetheless, and the
/// work ends with the cluster.
#[test]
fn a_refused_report_blocks_nothing() {
    let Some(rig) = rig_with("installing", "Joined", 3) else { return };
    rig.join(3, true);
    rig.state().failures.push(("PUT", "00000000-0000-4000-8000-000000000000/progress", u32::MAX, 400));
    let controller = rig.start();
    rig.until("Done", |rig| rig.stages(1) == ["Done"] && rig.stages(2) == ["Done"] && rig.stages(0).len() > 2);
    rig.set_status("installed");
    controller.finish().unwrap();
    assert!(rig.stages(0).iter().all(|stage| stage == "Done"));
}

/// Hosts that are disabled are not reported, by name or by address, nor are they waited for.
#[test]
fn disabled_hosts_are_left_alone() {
    let Some(rig) = rig_with("installing", "Rebooting", 2) else { return };
    rig.state().host(0)["status"] = "disabled".into();
    rig.cluster.node_joins(&NodeState {
        name: "node0",
        internal_ips: &["192.168.126.10"],
        is_ready: true,
        ..NodeState::default()
    });
    rig.cluster.mcs_pod("node0", &asked_for_config("master", "192.168.126.10:4711"));
    rig.node("node1", true);
    let _controller = rig.start();
    rig.until("Done", |rig| rig.stages(1) == ["Joined", "Done"]);
    rig.looks(2);
    assert!(rig.stages(0).is_empty());
    assert_that_no_certificate_is_approved(&rig);
}

/// Nodes are hosts by their names, whatever the case, and else by an internal address. A node that is neither is none.
#[test]
fn nodes_are_found_by_name_and_by_address() {
    let Some(rig) = rig_with("installing", "Joined", 3) else { return };
    rig.state().host(0)["requested_hostname"] = "NODE0.Example.com".into();
    rig.state().host(1)["inventory"] = inventory(&["192.168.126.11".into(), "fd00::11".into()]).into();
    let node = |name: &str, internal_ips: &[&str]| {
        rig.cluster.node_joins(&NodeState { name, internal_ips, is_ready: true, ..NodeState::default() });
    };
    node("stranger", &["192.168.126.120"]);
    // The name counts more.
    node("node0.example.com", &["192.168.126.12"]);
    node("ip-fd00--11", &["10.0.0.1", "fd00:0::11"]);
    let _controller = rig.start();
    rig.until("Done", |rig| all_have(rig, 2, &["Done"]));
    rig.looks(2);
    assert!(rig.stages(2).is_empty());
}

/// Hosts without an inventory, with one that can't be read, and without addresses: they stop no other host, are found by their names, and
/// no line of the machine-config server's log is theirs.
#[test]
fn hosts_without_addresses_disturb_no_other() {
    let Some(rig) = rig_with("installing", "Waiting for ignition", 4) else { return };
    rig.state().host(0)["inventory"] = "".into();
    rig.state().host(1)["inventory"] = "no JSON".into();
    rig.state().host(2)["inventory"] = inventory(&[]).into();
    rig.node("other", true);
    let log = asked_for_config("master", "192.168.126.99:4711") + &asked_for_config("worker", "192.168.126.13:4711");
    rig.cluster.mcs_pod("other", &log);
    let _controller = rig.start();
    rig.until("Configuring", |rig| rig.stages(3) == ["Configuring"]);
    rig.looks(2);
    assert!(all_have(&rig, 3, &[]));
    rig.join(1, true);
    rig.until("Done", |rig| rig.stages(0) == ["Done"]);
}

/// The log of the machine-config server has addresses of both families, with a zone and with brackets, and one that begins as another
/// does: whole addresses count. What the service refuses is repeated.
#[test]
fn hosts_that_asked_the_machine_config_server_are_configuring() {
    let Some(rig) = rig_with("installing", "Rebooting", 4) else { return };
    rig.state().host(1)["inventory"] = inventory(&["fe80::5054:ff:fe9a:4738".into()]).into();
    rig.state().host(2)["inventory"] = inventory(&["2620:52:0:1302::83".into()]).into();
    rig.state().host(3)["role"] = "worker".into();
    rig.state().failures.push(("PUT", "00000000-0000-4000-8000-000000000001/progress", 1, 500));
    rig.node("other", true);
    let log = [
        asked_for_config("master", "192.168.126.100:4711"),
        asked_for_config("master", "[fe80::5054:ff:fe9a:4738%ens3]:40548"),
        asked_for_config("master", "[2620:52:0:1302::83]:47018"),
        asked_for_config("worker", "192.168.126.13:4711"),
    ];
    rig.cluster.mcs_pod("other", &log.concat());
    let _controller = rig.start();
    rig.until("Configuring", |rig| {
        let [first, second, third] = [1, 2, 3].map(|number| rig.stages(number));
        first == ["Configuring", "Configuring"] && second == ["Configuring"] && third == ["Configuring"]
    });
    rig.looks(3);
    assert!(rig.stages(0).is_empty());
    assert_eq!([1, 2, 3].map(|number| rig.stages(number).len()), [2, 1, 1]);
}

/// One machine-config server's log can't be read, as on a node that is down: what the others say counts, and the log itself once it can
/// be read. The original looked at none of them then.
#[test]
fn a_log_that_fails_hides_no_other() {
    let Some(rig) = rig_with("installing", "Rebooting", 2) else { return };
    for (number, node) in ["first", "second"].into_iter().enumerate() {
        rig.node(node, true);
        rig.cluster.mcs_pod(node, &asked_for_config("master", &format!("192.168.126.1{number}:4711")));
    }
    let namespace = "openshift-machine-config-operator";
    rig.cluster.kubelet().fail_log(namespace, "machine-config-server-first", 500);
    let _controller = rig.start();
    rig.until("Configuring", |rig| rig.stages(1) == ["Configuring"]);
    assert!(rig.stages(0).is_empty());
    let log = asked_for_config("master", "192.168.126.10:4711");
    rig.cluster.kubelet().set_log(namespace, "machine-config-server-first", log);
    rig.until("Configuring", |rig| rig.stages(0) == ["Configuring"]);
    assert_eq!(rig.stages(1), ["Configuring"]);
}

/// Certificate requests can't be listed for a while: they are approved once they can, until the work ends.
#[test]
fn certificate_requests_are_approved_until_the_end() {
    let Some(rig) = Rig::new() else { return };
    rig.fail_some(2, "GET", "/certificatesigningrequests", 500);
    let request = rig.cluster.certificate_request(&CertificateRequest::client("node0"));
    let controller = rig.start();
    rig.cluster.await_approval(&request);
    let approved = rig.cluster.read_certificate_request(&request);
    let condition = &approved["status"]["conditions"][0];
    assert_eq!(condition["reason"], "NodeCSRApprove");
    assert_eq!(condition["message"], "This CSR was approved by the assisted-installer-controller");
    controller.end();
    rig.proxy.clear();
    assert_that_no_certificate_is_approved(&rig);
    assert!(rig.calls("GET", "/certificatesigningrequests").is_empty(), "nothing is read after the end");
}

/// There are no certificate requests, and the work ends: nothing was approved.
#[test]
fn without_certificate_requests_nothing_is_approved() {
    let Some(rig) = Rig::new() else { return };
    let controller = rig.start();
    rig.until("a list", |rig| !rig.calls("GET", "/certificatesigningrequests").is_empty());
    rig.rounds(3);
    controller.end();
    assert!(rig.calls("PUT", REQUESTS).is_empty());
}

/// Among the requests are one that is approved, one that an administrator has denied, and one of another signer: only the one that waits
/// for approval is approved. The original tried to approve the denied one, and all others unseen.
#[test]
fn only_what_waits_for_approval_is_approved() {
    let Some(rig) = Rig::new() else { return };
    let request = |signer: Option<&str>| {
        let client = CertificateRequest::client("node0");
        let signer = signer.map_or(client.signer.clone(), str::to_owned);
        rig.cluster.certificate_request(&CertificateRequest { signer, ..client })
    };
    let [approved, denied, waits] = [(); 3].map(|()| request(None));
    let other = request(Some("kubernetes.io/kube-apiserver-client"));
    rig.cluster.judge_certificate_request(&approved, "Approved");
    rig.cluster.judge_certificate_request(&denied, "Denied");
    let _controller = rig.start();
    rig.cluster.await_approval(&waits);
    rig.looks(2);
    let approvals = rig.calls("PUT", REQUESTS);
    assert_eq!(approvals.len(), 1, "{approvals:?}");
    assert!(!rig.cluster.is_approved(&denied) && !rig.cluster.is_approved(&other));
}

/// The controller is stopped and another takes over: the event is there already, the reports continue where they were, and the logs are
/// left to the end.
#[test]
fn another_run_continues_where_the_first_was_stopped() {
    let Some(rig) = rig_with("installing", "Rebooting", 1) else { return };
    rig.join(1, false);
    let first = rig.start();
    rig.until("Joined", |rig| rig.stages(0) == ["Joined"]);
    first.end.set(Reason::Stopped);
    first.finish().unwrap();
    assert!(rig.sent("POST", "/logs").is_empty());
    let second = rig.start();
    rig.join(1, true);
    rig.until("Done", |rig| rig.stages(0) == ["Joined", "Done"]);
    assert_eq!(rig.calls("POST", "/namespaces/assisted-installer/events").len(), 2);
    rig.set_status("installed");
    second.finish().unwrap();
    assert_eq!(rig.stages(0), ["Joined", "Done"]);
}

/// With whom nodes are untainted.
struct Provider<'a> {
    platform: &'a str,
    invoker: &'a str,
    version: &'a str,
    /// The service's; none where it does not answer.
    overrides: Option<&'a str>,
    /// The server in the cluster's install configuration.
    server: &'a str,
}

const BY_SERVICE: Provider<'_> = Provider {
    platform: "vsphere",
    invoker: "assisted-service",
    version: "4.20.1",
    overrides: Some(""),
    server: "vcenter.example.com",
};
const AGENT_BASED: Provider<'_> = Provider { invoker: "agent-installer", ..BY_SERVICE };
const REAL: &str =
    r#"{"platform":{"vsphere":{"vcenters":[{"user":"u","password":"p","server":"vcenter.example.com"}]}}}"#;

/// Whether a node that is not ready loses its taint.
fn untaints(provider: &Provider<'_>) -> Option<bool> {
    let rig = rig_with("installing", "Rebooting", 3)?;
    rig.cluster.invoker(provider.invoker);
    let server = provider.server;
    let vcenters = format!("vcenters: [{{user: u, password: p, server: '{server}'}}]");
    rig.cluster.install_config(&format!("platform: {{ {}: {{ {vcenters} }} }}\n", provider.platform));
    match provider.overrides {
        Some(overrides) => {
            rig.state().cluster["platform"]["type"] = provider.platform.into();
            rig.state().cluster["install_config_overrides"] = overrides.into();
        }
        None => rig.state().failures.push(("GET", CLUSTER, u32::MAX, 500)),
    }
    tainted(&rig, "node0", &[UNINITIALIZED], false);
    let controller = rig.start_with(Config { openshift_version: provider.version.to_owned(), ..rig.config() });
    match provider.overrides {
        // Nodes are untainted before this is read.
        None => rig.until("a look at the ClusterVersion", |rig| !rig.calls("GET", "/clusterversions").is_empty()),
        Some(_) => {
            rig.until("Joined", |rig| rig.stages(0) == ["Joined"]);
            rig.looks(2);
        }
    }
    let untainted = taints(&rig, "node0").is_empty();
    assert_eq!(untainted, !rig.calls("PATCH", "/nodes/node0").is_empty());
    controller.end();
    Some(untainted)
}

/// Nodes are untainted on Nutanix and vSphere, for those no other program does it there; on other platforms the taint is somebody's sign.
#[test]
fn the_platform_decides_on_taints() {
    for (platform, wanted) in [("nutanix", true), ("vsphere", true), ("none", false), ("baremetal", false)] {
        let Some(untaints) = untaints(&Provider { platform, ..BY_SERVICE }) else { return };
        assert_eq!(untaints, wanted, "{platform}");
    }
}

/// The agent-based installer on vSphere: since 4.15 its nodes are initialised by their provider, if it has credentials.
#[test]
fn credentials_decide_on_taints_of_the_agent_based_installer() {
    let placeholder =
        REAL.replace(r#""user":"u""#, r#""user":"usernameplaceholder""#).replace("vcenter.example.com", "");
    let old = r#"{"platform":{"vsphere":{"username":"u","password":"p","vCenter":"vcenter.example.com"}}}"#;
    for (version, overrides, wanted) in [
        ("4.14.0-rc0", placeholder.as_str(), true),
        ("4.15.0", placeholder.as_str(), true),
        ("4.14.0", REAL, true),
        ("4.15", REAL, false),
        ("4.15.0", old, true),
        ("4.15.0", r#"{"platform":{"baremetal":{}}}"#, true),
    ] {
        let Some(untaints) = untaints(&Provider { version, overrides: Some(overrides), ..AGENT_BASED }) else { return };
        assert_eq!(untaints, wanted, "{version} {overrides}");
    }
}

/// The agent-based installer's service is gone: the install configuration in the cluster tells of its server, never of users.
#[test]
fn without_service_the_install_configuration_decides_on_taints() {
    for (server, wanted) in [("vcenter.example.com", false), ("vcenterplaceholder", true), ("", true)] {
        let Some(untaints) = untaints(&Provider { server, overrides: None, ..AGENT_BASED }) else { return };
        assert_eq!(untaints, wanted, "{server}");
    }
}

/// The service fails once, and then says that the cluster is installed, or cancelled: the work ends with its logs, without those that
/// show a fault.
#[test]
fn the_work_ends_with_the_cluster() {
    for (status, failure) in
        [("installed", Some(500)), ("installed", Some(401)), ("cancelled", None), ("adding-hosts", None)]
    {
        let Some(rig) = Rig::new() else { return };
        let controller = rig.start();
        rig.until("the event", Rig::is_announced);
        if let Some(failure) = failure {
            rig.state().failures.push(("GET", CLUSTER, 1, failure));
            rig.until("the failure", |rig| rig.state().failures[0].2 == 0);
        }
        rig.set_status(status);
        controller.finish().unwrap();
        assert_eq!(rig.sent("PUT", "/logs-progress").last(), Some(&json!({"logs_state": "completed"})), "{status}");
        assert_eq!((rig.sent("POST", "/logs").len(), rig.sent("GET", CREDENTIALS).len()), (1, 0), "{status}");
    }
}

/// The installation has failed: what shows the fault is gathered, for which an administrator's access is needed.
#[test]
fn a_failed_cluster_is_gathered_from() {
    let Some(rig) = Rig::new() else { return };
    let _controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.set_status("error");
    rig.until("an administrator's access", |rig| !rig.sent("GET", CREDENTIALS).is_empty());
    assert!(!rig.sent("POST", "/logs").is_empty(), "this controller's log is sent before");
}

/// The cluster is gone, or the controller is refused three times: the work ends well, so that the Job does not start it again, and
/// nothing more is sent to a service that would not take it. Refusals by 403 are refusals, too: the original asked for ever.
#[test]
fn the_work_ends_when_the_service_refuses_it() {
    for (status, looks) in [(404, 1), (401, 3), (403, 3)] {
        let Some(rig) = Rig::new() else { return };
        let controller = rig.start();
        rig.until("the event", Rig::is_announced);
        rig.state().failures.push(("GET", CLUSTER, 99, status));
        controller.finish().unwrap();
        assert_eq!(rig.state().failures[0].2, 99 - looks, "{status}");
        assert!(rig.sent("PUT", "/logs-progress").is_empty(), "{status}");
    }
}

/// A rig of the agent-based installer, whose cluster is available.
fn agent_based(platform: &str) -> Option<Rig> {
    let rig = Rig::new()?;
    rig.cluster.invoker("agent-installer");
    rig.state().cluster["platform"]["type"] = platform.into();
    rig.cluster.cluster_version(&[("Available", "True", "")], "4.20.1", &[], &[]);
    Some(rig)
}

/// The agent-based installer without a number of control plane nodes: the cluster is available, so the work ends, after each node that is
/// ready or not was untainted. No node need exist for that.
#[test]
fn an_available_cluster_ends_the_work_of_the_agent_based_installer() {
    for node in [Some("node9"), None] {
        let Some(rig) = agent_based("nutanix") else { return };
        if let Some(node) = node {
            tainted(&rig, node, &[UNINITIALIZED], true);
        }
        rig.start_with(Config { control_plane_count: 0, ..rig.config() }).finish().unwrap();
        assert_eq!(rig.calls("PATCH", "/nodes/").len(), usize::from(node.is_some()));
        assert!(node.is_none_or(|node| taints(&rig, node).is_empty()));
        assert!(rig.sent("PUT", "/logs-progress").is_empty(), "the service is gone by then");
    }
}

/// The agent-based installer's cluster is available before the host of the service has become a node: its node is waited for. Workers and
/// arbiters don't count.
#[test]
fn all_control_plane_nodes_are_waited_for() {
    let Some(rig) = agent_based("none") else { return };
    let node = |name: &str, role: &str| {
        rig.cluster.node_joins(&NodeState { name, internal_ips: &[IP], labels: &[(role, "")], ..NodeState::default() });
    };
    node("node0", "node-role.kubernetes.io/master");
    node("node1", "node-role.kubernetes.io/master");
    node("worker", "node-role.kubernetes.io/worker");
    node("arbiter", "node-role.kubernetes.io/arbiter");
    let controller = rig.start();
    rig.until("a look at the ClusterVersion", |rig| !rig.calls("GET", "/clusterversions").is_empty());
    rig.rounds(6);
    assert!(!controller.has_ended());
    // What was available once is not asked for again.
    rig.cluster.cluster_version(&[("Available", "False", "")], "4.20.1", &[], &[]);
    node("node2", "node-role.kubernetes.io/master");
    controller.finish().unwrap();
    assert_eq!(rig.calls("GET", "/clusterversions").len(), 1);
}
