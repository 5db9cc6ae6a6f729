//! The agent-based installer: its service is on one of the hosts, and is gone when that host reboots.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use base64::{Engine, prelude::BASE64_STANDARD};
use controller::config::Config;
use rig::{IP, NAMESPACE, Rig};
use serde_json::{Value, json};
use simulator::{Fault, FaultProxy, NodeState};
use std::fs;

const OLM: &str = "openshift-test";

/// A rig whose cluster an agent-based installer installs.
fn agent_based() -> Option<Rig> {
    let rig = Rig::new()?;
    rig.cluster.invoker("agent-installer");
    rig.cluster.namespace(OLM);
    Some(rig)
}

/// And its settings on a single node, where an administrator's kubeconfig lies.
fn single_node(rig: &Rig) -> Config {
    fs::write(rig.surroundings().bootstrap_kubeconfig, rig.server.admin_kubeconfig()).unwrap();
    let mut config = rig.config();
    config.control_plane_count = 1;
    config
}

fn is_available(rig: &Rig, is_available: bool) {
    let status = if is_available { "True" } else { "False" };
    rig.cluster.cluster_version(&[("Available", status, "")], "4.20.1", &[], &[]);
}

fn master(rig: &Rig, name: &str) {
    let labels = [("node-role.kubernetes.io/master", "")];
    rig.cluster.node_joins(&NodeState { name, internal_ips: &[IP], labels: &labels, ..NodeState::default() });
}

fn metadata(operator: &str, manifests: &[&str]) -> String {
    let list: String = manifests.iter().map(|key| format!("  - {key}\n")).collect();
    format!("namespace: {OLM}\nsubscriptionName: {operator}-operator\nmanifests:\n{list}")
}

/// A ConfigMap of this name, as the installer leaves a manifest.
fn manifest(name: &str) -> String {
    BASE64_STANDARD.encode(format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {OLM}}}\n"))
}

/// Two operators, each with one manifest.
fn two_operators() -> Value {
    json!({
        "lso.metadata.yaml": metadata("lso", &["lso-01.yaml"]), "lso-01.yaml": manifest("of-lso"),
        "cnv.metadata.yaml": metadata("cnv", &["cnv-01.yaml"]), "cnv-01.yaml": manifest("of-cnv"),
    })
}

fn manifests(rig: &Rig, data: &Value) {
    rig.cluster.config_map(NAMESPACE, "olm-operator-manifests", data);
}

/// The operator's version exists, in whatever phase.
fn initialized(rig: &Rig, operator: &str) {
    rig.cluster.subscription(OLM, &format!("{operator}-operator"), &format!("{operator}.v4"));
    rig.cluster.csv(OLM, &format!("{operator}.v4"), "", "", "");
}

fn is_applied(rig: &Rig, name: &str) -> bool {
    rig.cluster.client().find(&format!("/api/v1/namespaces/{OLM}/configmaps/{name}")).unwrap().is_some()
}

/// Reads of the ConfigMap so far.
fn reads(rig: &Rig) -> usize {
    let requests = rig.proxy.requests();
    requests.iter().filter(|request| request.target.contains("configmaps/olm-operator-manifests")).count()
}

fn kubeconfigs(rig: &Rig) -> usize {
    rig.sent("GET", "/downloads/credentials").len()
}

/// Manifests of operators that are there are applied once. The kubeconfig for it is asked for until it comes, and before the operators are
/// there: the service may be gone by then. Nothing else is said to the service.
#[test]
fn manifests_are_applied_with_a_kubeconfig_that_was_asked_for_early() {
    let Some(rig) = agent_based() else { return };
    manifests(&rig, &two_operators());
    rig.file("kubeconfig-noingress", rig.server.admin_kubeconfig());
    rig.state().failures.push(("GET", "/downloads/credentials", 1, 500));
    let controller = rig.start();
    rig.until("the kubeconfig", |rig| kubeconfigs(rig) == 2);
    rig.state().files.clear();
    initialized(&rig, "lso");
    rig.until("the first", |rig| is_applied(rig, "of-lso"));
    assert!(!is_applied(&rig, "of-cnv"), "each waits for its own operator");
    initialized(&rig, "cnv");
    rig.until("the second", |rig| is_applied(rig, "of-cnv"));
    rig.rounds(1);
    let before = reads(&rig);
    rig.rounds(3);
    assert_eq!((reads(&rig), kubeconfigs(&rig)), (before, 2), "that was all");
    controller.end();
    let is_report = |request: &fake_service::Request| request.method != "GET" && !request.path.ends_with("/logs");
    assert!(!rig.service.requests().iter().any(is_report));
}

/// Nothing is applied while an operator can't be read; it is looked for until the cluster is at its end.
#[test]
fn manifests_wait_for_what_is_not_there() {
    let Some(rig) = agent_based() else { return };
    rig.file("kubeconfig-noingress", rig.server.admin_kubeconfig());
    // First there is no ConfigMap at all.
    let controller = rig.start();
    rig.until("some reads", |rig| reads(rig) > 3);
    assert_eq!(kubeconfigs(&rig), 0);
    // Then one that lacks a manifest.
    manifests(&rig, &json!({"lso.metadata.yaml": metadata("lso", &["lso-01.yaml"])}));
    initialized(&rig, "lso");
    let before = reads(&rig);
    rig.until("some reads", |rig| reads(rig) > before + 3);
    // Then the operator can't be read.
    rig.fail_all("GET", "subscriptions/", 500);
    manifests(&rig, &json!({"lso-01.yaml": manifest("of-lso")}));
    let before = reads(&rig);
    rig.until("some reads", |rig| reads(rig) > before + 3);
    assert!(!is_applied(&rig, "of-lso"));
    rig.proxy.pass();
    rig.until("the manifest", |rig| is_applied(rig, "of-lso"));
    controller.end();
}

/// What is not a description of an operator, or describes none, is not waited for: it will not change.
#[test]
fn nothing_is_applied_of_what_cannot_be_understood() {
    for data in [json!({}), json!({"lso.metadata.yaml": "not: [yaml", "lso-01.yaml": manifest("of-lso")})] {
        let Some(rig) = agent_based() else { return };
        manifests(&rig, &data);
        let controller = rig.start();
        rig.until("a read", |rig| reads(rig) == 1);
        rig.rounds(3);
        assert_eq!((reads(&rig), kubeconfigs(&rig)), (1, 0));
        assert!(!is_applied(&rig, "of-lso"));
        controller.end();
    }
}

/// The work ends when the cluster is available and all masters are nodes, that of the service among them. A cluster that was available once
/// counts.
#[test]
fn the_end_waits_for_all_masters() {
    let Some(rig) = agent_based() else { return };
    let controller = rig.start();
    master(&rig, "node0");
    master(&rig, "node1");
    rig.node("node3", true);
    is_available(&rig, true);
    rig.rounds(6);
    assert!(!controller.has_ended());
    is_available(&rig, false);
    master(&rig, "node2");
    controller.finish().unwrap();
    assert!(rig.sent("PUT", "/logs-progress").is_empty() && rig.sent("POST", "/complete-installation").is_empty());
}

/// The service does not answer any more, not even with a refusal, while a log is on its way to it: the end does not wait for it.
#[test]
fn a_dead_service_does_not_keep_the_controller() {
    let Some(rig) = agent_based() else { return };
    let between = FaultProxy::http(&rig.service.url);
    let mut config = rig.config();
    config.url = between.url();
    let controller = rig.start_with(config);
    rig.until("the service is known", |rig| !rig.service.requests().is_empty());
    between.set_faults(|_, _, _| Fault::Hang);
    let is_under_way = |end: &str| between.requests().iter().any(|it| it.target.contains(end) && it.status.is_none());
    rig.until("a log is on its way", |_| is_under_way("/logs?"));
    is_available(&rig, true);
    ["node0", "node1", "node2"].iter().for_each(|name| master(&rig, name));
    controller.finish().unwrap();
}

/// On a single node nothing is said to a service, there is none. Manifests are applied while the cluster comes up: it may wait for them.
#[test]
fn a_single_node_gets_its_manifests_before_it_is_available() {
    let Some(rig) = agent_based() else { return };
    manifests(&rig, &two_operators());
    let controller = rig.start_with(single_node(&rig));
    initialized(&rig, "lso");
    rig.until("the first", |rig| is_applied(rig, "of-lso"));
    // Available, but an operator is not there yet: a controller that ended now would leave it without its manifests.
    is_available(&rig, true);
    rig.rounds(6);
    assert!(!controller.has_ended());
    initialized(&rig, "cnv");
    controller.finish().unwrap();
    assert!(is_applied(&rig, "of-cnv"));
    assert!(rig.service.requests().is_empty());
}

/// Where no operator was chosen, there is nothing to wait for once the cluster is available, and no sooner.
#[test]
fn a_single_node_without_operators_ends_when_it_is_available() {
    let Some(rig) = agent_based() else { return };
    let controller = rig.start_with(single_node(&rig));
    rig.rounds(4);
    is_available(&rig, false);
    rig.rounds(4);
    assert!(!controller.has_ended());
    is_available(&rig, true);
    controller.finish().unwrap();
    assert!(rig.service.requests().is_empty());
}
