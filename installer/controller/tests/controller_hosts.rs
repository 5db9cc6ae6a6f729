//! Nodes and their certificates, situation by situation.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use controller::config::Config;
use rig::{CLUSTER, Rig, inventory};
use serde_json::json;
use simulator::{CertificateRequest, NodeState};

const REQUESTS: &str = "/certificatesigningrequests/";
const CREDENTIALS: &str = "/downloads/credentials";

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

/// All three hosts have fetched their configs and their nodes are ready: each is reported as joined and as done, once, in this order, and
/// the boots of each are counted.
#[test]
fn configured_hosts_with_ready_nodes_have_joined_and_are_done() {
    let Some(rig) = Rig::with_hosts("installing", "Configuring", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installed", "Done", 3) else { return };
    rig.join(3, true);
    let controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    assert!(all_have(&rig, 3, &[]));
    assert_that_no_certificate_is_approved(&rig);
    assert!(!controller.has_ended(), "the cluster is not installed yet");
}

/// Nodes that are not ready yet have joined, whether their hosts were configuring or rebooting; what has joined is not done.
#[test]
fn nodes_that_are_not_ready_have_only_joined() {
    let Some(rig) = Rig::with_hosts("installing", "Configuring", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 1) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Joined", 4) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Joined", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("error", "Joined", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Joined", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Joined", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Joined", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 2) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Joined", 3) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Waiting for ignition", 4) else { return };
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
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 4) else { return };
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

/// Whether the service takes it is not known, as when its replies are lost: a stage before must not follow.
#[test]
fn a_host_that_joined_is_not_configuring_any_more() {
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 1) else { return };
    rig.state().failures.push(("PUT", "/progress", u32::MAX, 500));
    rig.join(1, false);
    rig.cluster.mcs_pod("node0", &asked_for_config("master", "192.168.126.10:4711"));
    let _controller = rig.start();
    rig.until("reports", |rig| rig.stages(0).len() > 20);
    assert!(rig.stages(0).iter().all(|stage| stage == "Joined"), "{:?}", rig.stages(0));
}

/// One machine-config server's log can't be read, as on a node that is down: what the others say counts, and the log itself once it can
/// be read. The original looked at none of them then.
#[test]
fn a_log_that_fails_hides_no_other() {
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 2) else { return };
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
