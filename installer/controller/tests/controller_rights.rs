//! What the controller's account may do, as `kubectl auth can-i --list` asks the API server: what the manifests grant, and no more.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use rig::{NAMESPACE, Rig};
use serde_json::{Value, json};
use simulator::Client;
use std::collections::BTreeSet;

const NAMESPACES: [&str; 8] = [
    "default",
    NAMESPACE,
    "kube-system",
    "openshift-config",
    "openshift-config-managed",
    "openshift-dns-operator",
    "openshift-machine-config-operator",
    "openshift-machine-api",
];

/// Each right as one text: verb, group, resource, name.
fn rights(rules: &Value) -> BTreeSet<String> {
    let list = |rule: &Value, member: &str| match rule[member].as_array() {
        Some(items) if !items.is_empty() => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
        _ => vec![String::new()],
    };
    let mut rights = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        for verb in list(rule, "verbs") {
            for group in list(rule, "apiGroups") {
                for resource in list(rule, "resources") {
                    for name in list(rule, "resourceNames") {
                        rights.insert(format!("{verb} {resource}.{group} {name}"));
                    }
                }
            }
        }
    }
    rights
}

fn can(client: &Client, namespace: &str) -> BTreeSet<String> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}});
    let answer = client.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &review).unwrap();
    assert_eq!(answer["status"]["incomplete"], false);
    rights(&answer["status"]["resourceRules"])
}

#[test]
fn the_account_may_do_what_the_manifests_grant() {
    let Some(rig) = Rig::new() else { return };
    let client = |name: &str| {
        let token = rig.server.service_account_token(NAMESPACE, name);
        Client::new(&rig.server.url(), rig.server.ca_pem(), &token)
    };
    let (controller, anyone) = (client("assisted-installer-controller"), client("anyone"));
    let manifests = rig::manifests();
    for namespace in NAMESPACES {
        let granted = manifests.iter().filter(|manifest| match manifest["kind"].as_str().unwrap() {
            "ClusterRole" => true,
            "Role" => manifest["metadata"]["namespace"] == namespace,
            _ => false,
        });
        let granted: BTreeSet<String> = granted.flat_map(|manifest| rights(&manifest["rules"])).collect();
        let has: BTreeSet<String> = can(&controller, namespace).difference(&can(&anyone, namespace)).cloned().collect();
        println!("rights: {namespace}: {} beyond those of any account", has.len());
        assert_eq!(has, granted, "{namespace}");
    }
}
