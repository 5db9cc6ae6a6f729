//! Labels and the pool of workers, BareMetalHosts, and the name server's address, situation by situation.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use controller::clock::Reason;
use rig::{CLUSTER, Rig};
use serde_json::{Value, json};
use simulator::Fault;

const LABELS: &str = r#"{"zone":"a","node-role.kubernetes.io/infra":""}"#;
const NODES: &str = "/api/v1/nodes/";
const POOLS: &str = "/machineconfigpools/";
const BARE_METAL_HOSTS: &str = "/baremetalhosts/";
const MACHINE_API: &str = "openshift-machine-api";
const SERVICES: &str = "/api/v1/services";
const DNS_PODS: &str = "/api/v1/namespaces/openshift-dns-operator/pods";

/// A rig whose first hosts have labels. All have joined already, and nothing is reported of nodes that are not ready.
fn labelled(count: usize) -> Option<Rig> {
    let rig = Rig::new()?;
    for number in 0..3 {
        rig.state().host(number)["progress"]["current_stage"] = "Done".into();
        if number < count {
            rig.state().host(number)["node_labels"] = LABELS.into();
        }
    }
    rig.cluster.pool("worker", false);
    Some(rig)
}

/// The same with a worker among them whose pool is another.
fn with_pool() -> Option<Rig> {
    let rig = labelled(3)?;
    rig.state().host(1)["role"] = "worker".into();
    rig.state().host(1)["machine_config_pool_name"] = "infra".into();
    Some(rig)
}

/// Names of the nodes that were patched, in order.
fn patched(rig: &Rig) -> Vec<String> {
    let patches = rig.calls("PATCH", NODES);
    patches.iter().map(|(path, _)| path.strip_prefix(NODES).unwrap().to_owned()).collect()
}

/// Each node once: one is labelled again if the controller looks before the API server has shown it the labels.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    let all = names.len();
    names.dedup();
    assert!(all <= 2 * names.len(), "labelled again and again");
    names
}

fn is_labelled(rig: &Rig, number: usize) -> bool {
    let node = rig.cluster.read_node(&format!("node{number}"));
    node.is_some_and(|node| node["metadata"]["labels"]["zone"] == "a")
}

/// What the pool of workers was set to, in order.
fn pauses(rig: &Rig) -> Vec<bool> {
    rig.calls("PATCH", POOLS).iter().map(|(_, body)| body["spec"]["paused"].as_bool().unwrap()).collect()
}

fn is_paused(rig: &Rig) -> bool {
    rig.cluster.read("machineconfigpools", None, "worker").unwrap()["spec"]["paused"] == true
}

/// Three hosts have labels, and their nodes are ready: each gets its labels, once, and keeps its own.
#[test]
fn nodes_get_the_labels_of_their_hosts() {
    let Some(rig) = labelled(3) else { return };
    rig.join(3, true);
    let _controller = rig.start();
    rig.until("labels", |rig| (0..3).all(|number| is_labelled(rig, number)));
    rig.looks(3);
    assert_eq!(sorted(patched(&rig)), ["node0", "node1", "node2"]);
    let labels: Value = serde_json::from_str(LABELS).unwrap();
    assert_eq!(rig.calls("PATCH", NODES)[0].1, json!({"metadata": {"labels": labels}}));
    assert_eq!(rig.cluster.read_node("node0").unwrap()["metadata"]["labels"]["kubernetes.io/hostname"], "node0");
    assert!(pauses(&rig).is_empty());
}

/// First the service fails, nodes can't be listed, and none is there: labels come once the nodes do.
#[test]
fn nodes_are_labelled_after_failed_reads() {
    let Some(rig) = labelled(3) else { return };
    rig.state().failures.push(("GET", CLUSTER, 1, 500));
    rig.fail_some(2, "GET", "/api/v1/nodes", 500);
    let _controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    assert!(patched(&rig).is_empty());
    rig.join(3, true);
    rig.until("labels", |rig| (0..3).all(|number| is_labelled(rig, number)));
    assert_eq!(sorted(patched(&rig)), ["node0", "node1", "node2"]);
}

/// No host has labels at the first look: labels that come later are not looked for.
#[test]
fn without_labels_there_is_nothing_to_do() {
    let Some(rig) = labelled(0) else { return };
    rig.join(3, true);
    let _controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    rig.state().host(0)["node_labels"] = LABELS.into();
    rig.looks(3);
    assert!(patched(&rig).is_empty() && pauses(&rig).is_empty());
}

/// Two of three hosts have labels: only their nodes get any.
#[test]
fn hosts_without_labels_are_left_alone() {
    let Some(rig) = labelled(2) else { return };
    rig.join(3, true);
    let _controller = rig.start();
    rig.until("labels", |rig| (0..2).all(|number| is_labelled(rig, number)));
    rig.looks(3);
    assert_eq!(sorted(patched(&rig)), ["node0", "node1"]);
}

/// One node is not ready: the others get their labels at once and are not labelled again, it gets its own when it is ready.
#[test]
fn a_node_is_labelled_when_it_is_ready() {
    let Some(rig) = labelled(3) else { return };
    rig.join(2, true);
    rig.node("node2", false);
    let _controller = rig.start();
    rig.until("labels", |rig| (0..2).all(|number| is_labelled(rig, number)));
    rig.looks(3);
    assert_eq!(sorted(patched(&rig)), ["node0", "node1"]);
    rig.node("node2", true);
    rig.until("labels", |rig| is_labelled(rig, 2));
    rig.looks(3);
    assert_eq!(sorted(patched(&rig)), ["node0", "node1", "node2"]);
}

/// Hosts that are disabled or have failed get no labels, and are not waited for.
#[test]
fn labels_of_hosts_that_are_out_are_not_waited_for() {
    let Some(rig) = with_pool() else { return };
    rig.state().host(0)["status"] = "disabled".into();
    rig.state().host(2)["status"] = "error".into();
    rig.join(3, true);
    let _controller = rig.start();
    rig.until("the pool", |rig| pauses(rig) == [true, false]);
    rig.looks(2);
    assert_eq!(sorted(patched(&rig)), ["node1"]);
}

/// Hosts with a pool that are not workers, and workers without one, have nothing to do with the pool of workers.
#[test]
fn only_workers_of_another_pool_pause_that_of_workers() {
    let Some(rig) = labelled(3) else { return };
    rig.state().host(0)["machine_config_pool_name"] = "infra".into();
    rig.state().host(1)["role"] = "worker".into();
    rig.join(3, true);
    let _controller = rig.start();
    rig.until("labels", |rig| (0..3).all(|number| is_labelled(rig, number)));
    rig.looks(3);
    assert_eq!(sorted(patched(&rig)), ["node0", "node1", "node2"]);
    assert!(rig.calls("GET", POOLS).is_empty() && pauses(&rig).is_empty());
}

/// A worker belongs to another pool: the pool of workers is paused, all nodes get their labels, and it is released, in this order.
#[test]
fn the_pool_of_workers_waits_for_labels() {
    let Some(rig) = with_pool() else { return };
    rig.join(3, true);
    let _controller = rig.start();
    rig.until("the pool", |rig| pauses(rig) == [true, false]);
    let kinds: Vec<_> = rig.calls("PATCH", "/").iter().map(|(path, _)| path.contains(POOLS)).collect();
    assert_eq!(kinds, [true, false, false, false, true]);
    rig.looks(3);
    assert_eq!(rig.calls("PATCH", "/").len(), 5);
    assert!(!is_paused(&rig));
}

/// The pool can't be paused at first: no node is labelled before it is.
#[test]
fn nothing_is_labelled_before_the_pool_is_paused() {
    let Some(rig) = with_pool() else { return };
    rig.join(3, true);
    rig.fail_all("PATCH", POOLS, 500);
    let _controller = rig.start();
    rig.until("tries", |rig| pauses(rig).len() > 2);
    assert!(patched(&rig).is_empty());
    rig.proxy.pass();
    rig.until("labels", |rig| (0..3).all(|number| is_labelled(rig, number)));
    rig.until("the pool", |rig| pauses(rig).last() == Some(&false));
}

/// The pool can't be released at first: that is repeated, and nodes are not labelled again.
#[test]
fn releasing_the_pool_is_repeated() {
    let Some(rig) = with_pool() else { return };
    rig.join(2, true);
    let _controller = rig.start();
    rig.until("labels", |rig| (0..2).all(|number| is_labelled(rig, number)));
    rig.fail_some(2, "PATCH", POOLS, 500);
    rig.node("node2", true);
    rig.until("the pool", |rig| pauses(rig) == [true, false, false, false]);
    rig.until("the pool", |rig| !is_paused(rig));
    assert_eq!(sorted(patched(&rig)), ["node0", "node1", "node2"]);
}

/// The cluster is installed while a label is missing, as of a node that never became ready: the pool is released nonetheless. The
/// original left it paused, and workers without updates for ever.
#[test]
fn the_pool_is_released_at_the_end() {
    let Some(rig) = with_pool() else { return };
    rig.join(2, true);
    let controller = rig.start();
    rig.until("labels", |rig| (0..2).all(|number| is_labelled(rig, number)));
    assert!(is_paused(&rig));
    rig.set_status("installed");
    controller.finish().unwrap();
    assert!(!is_paused(&rig));
}

/// The controller is stopped while the pool is paused: it stays paused for the next run, which releases it when all labels are there, or
/// at the end, even where the cluster is installed when it starts.
#[test]
fn a_pool_that_an_earlier_run_paused_is_released() {
    for is_installed in [false, true] {
        let Some(rig) = with_pool() else { return };
        rig.join(2, true);
        let first = rig.start();
        rig.until("labels", |rig| (0..2).all(|number| is_labelled(rig, number)));
        first.end.set(Reason::Stopped);
        first.finish().unwrap();
        assert!(is_paused(&rig));
        if is_installed {
            rig.set_status("installed");
            rig.start().finish().unwrap();
        } else {
            rig.node("node2", true);
            let _second = rig.start();
            rig.until("the pool", |rig| !is_paused(rig));
        }
        assert_eq!(pauses(&rig), [true, false]);
    }
}

/// A rig of bare metal.
fn bare_metal() -> Option<Rig> {
    let rig = Rig::new()?;
    rig.state().cluster["platform"]["type"] = "baremetal".into();
    Some(rig)
}

fn bare_metal_host(rig: &Rig, name: &str) -> Value {
    rig.cluster.read("baremetalhosts", Some(MACHINE_API), name).unwrap()
}

/// Paths of the writes, below the namespace.
fn replaced(rig: &Rig) -> Vec<String> {
    let calls = rig.calls("PUT", BARE_METAL_HOSTS);
    calls.iter().map(|(path, _)| path.rsplit_once(BARE_METAL_HOSTS).unwrap().1.to_owned()).collect()
}

/// The cluster does not provision hosts, and a host has its status as an annotation: the status is written at once, with its own time. For
/// the rest it waits for a Machine of a worker; then it is consumed by it, and the annotation is gone.
#[test]
fn the_status_of_a_host_is_taken_from_its_annotation() {
    let Some(rig) = bare_metal() else { return };
    let status = json!({"provisioning": {"state": "unmanaged", "ID": ""}, "lastUpdated": "2026-01-01T00:00:00Z"});
    rig.cluster.bare_metal_host("host0", &json!({"baremetalhost.metal3.io/status": status.to_string()}), "");
    rig.cluster.machine("master-0", "master");
    let _controller = rig.start();
    rig.until("its status", |rig| bare_metal_host(rig, "host0")["status"] == status);
    rig.until("repetition", |rig| replaced(rig).len() > 2);
    assert!(replaced(&rig).iter().all(|path| path == "host0/status"));
    assert!(bare_metal_host(&rig, "host0")["spec"]["consumerRef"].is_null());
    rig.cluster.machine("worker-0", "worker");
    rig.until("a consumer", |rig| !bare_metal_host(rig, "host0")["spec"]["consumerRef"].is_null());
    let host = bare_metal_host(&rig, "host0");
    let consumer = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "namespace": MACHINE_API, "name": "worker-0"});
    assert_eq!(host["spec"]["consumerRef"], consumer);
    assert!(host["metadata"]["annotations"]["baremetalhost.metal3.io/status"].is_null());
    assert!(host["spec"]["externallyProvisioned"].is_null());
    let done = replaced(&rig);
    assert_eq!(done.last().unwrap(), "host0");
    rig.looks(3);
    assert_eq!(replaced(&rig), done, "there is nothing left to do");
}

/// The same with a status that has no time: it gets the present one. A second host finds no free Machine, and does not keep the first.
#[test]
fn each_host_takes_a_machine_that_no_other_has() {
    let Some(rig) = bare_metal() else { return };
    let status = json!({"provisioning": {"state": "unmanaged", "ID": ""}, "lastUpdated": null});
    rig.cluster.bare_metal_host("host0", &json!({"baremetalhost.metal3.io/status": status.to_string()}), "");
    rig.cluster.bare_metal_host("host1", &json!({}), "");
    rig.cluster.machine("worker-0", "worker");
    let _controller = rig.start();
    rig.until("a consumer", |rig| bare_metal_host(rig, "host0")["spec"]["consumerRef"]["name"] == "worker-0");
    assert!(bare_metal_host(&rig, "host0")["status"]["lastUpdated"].as_str().unwrap() > "2026");
    rig.looks(2);
    assert_eq!(replaced(&rig), ["host0/status", "host0"]);
    rig.cluster.machine("worker-1", "worker");
    rig.until("a consumer", |rig| bare_metal_host(rig, "host1")["spec"]["consumerRef"]["name"] == "worker-1");
    assert_eq!(replaced(&rig), ["host0/status", "host0", "host1"]);
}

/// The cluster provisions hosts: one that was paused is marked as provisioned elsewhere, released and consumed, in one write; its status
/// stays an annotation. One that the cluster has provisioned is its own. Writes that come between are not overwritten: the server
/// refuses, and it is done anew.
#[test]
fn a_host_is_adopted_by_a_cluster_that_provisions() {
    let Some(rig) = bare_metal() else { return };
    let annotations =
        json!({"baremetalhost.metal3.io/paused": "assisted", "baremetalhost.metal3.io/status": "{}", "other": "stays"});
    rig.cluster.provisioning();
    rig.cluster.bare_metal_host("host0", &annotations, "");
    rig.cluster.bare_metal_host("host1", &json!({"baremetalhost.metal3.io/paused": ""}), "provisioned");
    rig.cluster.machine("worker-0", "worker");
    rig.fail_some(1, "PUT", BARE_METAL_HOSTS, 409);
    let _controller = rig.start();
    rig.until("adoption", |rig| bare_metal_host(rig, "host0")["spec"]["externallyProvisioned"] == true);
    let host = bare_metal_host(&rig, "host0");
    let kept = json!({"baremetalhost.metal3.io/status": "{}", "other": "stays"});
    assert_eq!(host["metadata"]["annotations"], kept);
    assert_eq!((&host["spec"]["consumerRef"]["name"], &host["spec"]["online"]), (&json!("worker-0"), &json!(true)));
    rig.looks(3);
    assert_eq!(replaced(&rig), ["host0", "host0"]);
}

/// On other platforms BareMetalHosts are not even looked at.
#[test]
fn elsewhere_hosts_of_bare_metal_are_left_alone() {
    let Some(rig) = Rig::new() else { return };
    rig.cluster.bare_metal_host("host0", &json!({"baremetalhost.metal3.io/paused": ""}), "");
    rig.cluster.provisioning();
    let _controller = rig.start();
    rig.until("the event", Rig::is_announced);
    rig.looks(2);
    assert!(rig.calls("GET", "/baremetalhosts").is_empty() && replaced(&rig).is_empty());
}

/// A rig with this service network, and a service on its tenth address if one is named.
fn with_services(owner: Option<(&str, &str)>) -> Option<Rig> {
    let rig = Rig::new()?;
    rig.cluster.install_config("networking: { serviceNetwork: [172.30.56.0/24, 'fd02::/112'] }\n");
    if let Some((namespace, name)) = owner {
        rig.cluster.service(namespace, name, "172.30.56.10");
    }
    rig.cluster.pod("openshift-dns-operator", "dns-operator", "node0", &[]);
    Some(rig)
}

const OTHER: Option<(&str, &str)> = Some(("other", "first"));
const NAME_SERVER: Option<(&str, &str)> = Some(("openshift-dns", "dns-default"));

/// What the operator does as soon as the address is free.
fn make_name_server(rig: &Rig) {
    let spec = json!({"clusterIP": "172.30.56.10", "ports": [{"name": "dns", "port": 53}]});
    let service = json!({"metadata": {"name": "dns-default"}, "spec": spec});
    rig.cluster.namespace("openshift-dns");
    let services = "/api/v1/namespaces/openshift-dns/services";
    rig.until("the address", |rig| rig.cluster.client().create(services, &service).is_ok());
}

/// How often services were listed and deleted, and the operator's pods deleted.
fn dns_calls(rig: &Rig) -> (usize, usize, usize) {
    let count = |method, path| rig.calls(method, path).len();
    (count("GET", SERVICES), count("DELETE", "/services/"), count("DELETE", DNS_PODS))
}

/// Waits until this is what was done, and no more is done then.
fn assert_that_it_ends_with(rig: &Rig, calls: (usize, usize, usize)) {
    rig.until("calls", |rig| {
        let seen = dns_calls(rig);
        assert!(seen.0 <= calls.0 && seen.1 <= calls.1 && seen.2 <= calls.2, "{seen:?}");
        seen == calls
    });
    rig.rounds(4);
    assert_eq!(dns_calls(rig), calls);
}

/// The service network can't be read, or is none: there is nothing to look for.
#[test]
fn without_a_service_network_no_address_is_freed() {
    for config in [None, Some("networking: {}\n"), Some("networking: { serviceNetwork: [x] }\n")] {
        let Some(rig) = Rig::new() else { return };
        if let Some(config) = config {
            rig.cluster.install_config(config);
        }
        let _controller = rig.start();
        rig.until("the configuration", |rig| !rig.calls("GET", "/configmaps/cluster-config-v1").is_empty());
        rig.until("the event", Rig::is_announced);
        assert_that_it_ends_with(&rig, (0, 0, 0));
    }
}

/// Another service has the name server's address: it is deleted, and the pods of the operator with it, which then makes the right one.
/// That may happen before the controller's service answers.
#[test]
fn the_address_of_the_name_server_is_freed() {
    let Some(rig) = with_services(OTHER) else { return };
    rig.state().failures.push(("GET", CLUSTER, u32::MAX, 503));
    let _controller = rig.start();
    rig.until("deletion", |rig| dns_calls(rig).2 == 1);
    let pods = || rig.cluster.client().list(DNS_PODS).unwrap();
    rig.until("pods", |_| pods().is_empty());
    assert!(rig.cluster.client().find("/api/v1/namespaces/other/services/first").unwrap().is_none());
    make_name_server(&rig);
    rig.rounds(3);
    let calls = dns_calls(&rig);
    assert_eq!((calls.1, calls.2), (1, 1));
    assert_that_it_ends_with(&rig, calls);
}

/// The name server has its address, and services can't be listed at first: they are listed again, and that is all.
#[test]
fn the_name_server_keeps_its_address() {
    let Some(rig) = with_services(NAME_SERVER) else { return };
    rig.fail_some(1, "GET", SERVICES, 500);
    let _controller = rig.start();
    assert_that_it_ends_with(&rig, (2, 0, 0));
}

/// The service, or the operator's pods, can't be deleted four times: the fifth time they can.
#[test]
fn deletions_are_repeated() {
    for (part, deletions) in [("/services/", (5, 1)), (DNS_PODS, (1, 5))] {
        let Some(rig) = with_services(OTHER) else { return };
        rig.fail_some(4, "DELETE", part, 500);
        let _controller = rig.start();
        rig.until("deletions", |rig| (dns_calls(rig).1, dns_calls(rig).2) == deletions);
        make_name_server(&rig);
        rig.rounds(3);
        assert_that_it_ends_with(&rig, (dns_calls(&rig).0, deletions.0, deletions.1));
    }
}

/// Services can never be listed, or none has the address: after a quarter of an hour it is given up.
#[test]
fn a_service_that_is_not_found_is_given_up() {
    for fails in [true, false] {
        let Some(rig) = with_services(None) else { return };
        if fails {
            rig.fail_all("GET", SERVICES, 500);
        }
        let _controller = rig.start();
        assert_that_it_ends_with(&rig, (45, 0, 0));
    }
}

/// The service can never be deleted: pods are left alone, and it is given up after as many rounds of five tries.
#[test]
fn a_service_that_cannot_be_deleted_is_given_up() {
    let Some(rig) = with_services(OTHER) else { return };
    rig.fail_all("DELETE", "/services/", 500);
    let _controller = rig.start();
    assert_that_it_ends_with(&rig, (45, 225, 0));
}

/// The service comes again and again, and the operator's pods can never be deleted: as many rounds, in each of which the service is
/// deleted once.
#[test]
fn pods_that_cannot_be_deleted_are_given_up() {
    let Some(rig) = with_services(OTHER) else { return };
    rig.proxy.set_faults(|method, path, _| match method {
        "DELETE" if path.contains("/services/") => Fault::Status(200),
        "DELETE" => Fault::Status(500),
        _ => Fault::Pass,
    });
    let _controller = rig.start();
    assert_that_it_ends_with(&rig, (45, 45, 225));
}

/// The cluster is at its end before the address is: the work ends without waiting for it. The original waited a quarter of an hour.
#[test]
fn the_end_does_not_wait_for_the_address() {
    let Some(rig) = with_services(OTHER) else { return };
    rig.fail_all("DELETE", "/services/", 500);
    let controller = rig.start();
    rig.until("a try", |rig| dns_calls(rig).1 > 0);
    rig.set_status("installed");
    controller.finish().unwrap();
    assert!(dns_calls(&rig).1 < 225);
}
