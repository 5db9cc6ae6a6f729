//! A cluster from its first node to its end.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use rig::{Rig, operator};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn three_hosts_become_a_cluster() {
    let Some(rig) = Rig::new() else { return };
    rig.state().operators.push(operator("console", "builtin", ""));
    let controller = rig.start();
    rig.until("the event", |rig| {
        rig.node("other", true);
        rig.cluster
            .client()
            .find("/api/v1/namespaces/assisted-installer/events/AssistedControllerIsReady")
            .unwrap()
            .is_some()
    });
    rig.cluster
        .mcs_pod("other", "Pool master requested by address:\"192.168.126.11:47018\" User-Agent:\"Ignition/2.14.0\"\n");
    rig.until("Configuring", |rig| rig.stages(1) == ["Configuring"]);
    rig.join(3, false);
    rig.until("Joined", |rig| (0..3).all(|number| rig.stages(number).last().is_some_and(|stage| stage == "Joined")));
    rig.join(3, true);
    rig.until("Done", |rig| (0..3).all(|number| rig.stages(number).last().is_some_and(|stage| stage == "Done")));
    // What is there before the controller looks is reported once, as available.
    rig.cluster.cluster_operator("console", &[("Available", "True", "All is well")], "4.20.1");
    rig.cluster.cluster_version(&[("Available", "True", "")], "4.20.1", &["Console"], &["Console"]);
    rig.set_status("finalizing");
    rig.cluster.ingress_ca("CA");
    rig.until("completion", |rig| !rig.sent("POST", "/complete-installation").is_empty());
    rig.set_status("installed");
    controller.finish().unwrap();

    assert_eq!(rig.stages(0), ["Joined", "Done"]);
    assert_eq!(rig.stages(1), ["Configuring", "Joined", "Done"]);
    let stages =
        ["Waiting for cluster operators", "Adding router ca", "Waiting for olm operators csv initialization", "Done"];
    assert_eq!(rig.finalizing(), stages);
    let console = json!({"name": "console", "status": "available", "status_info": "All is well", "version": "4.20.1"});
    assert_eq!(rig.sent("PUT", "/monitored-operators"), [console]);
    assert_eq!(rig.sent("POST", "/ingress-cert"), [json!("CA")]);
    assert_eq!(rig.sent("POST", "/complete-installation"), [json!({"is_success": true})]);
    let states = [json!({"logs_state": "requested"}), json!({"logs_state": "completed"})];
    assert_eq!(rig.sent("PUT", "/logs-progress"), states);
    assert_eq!(watched(&rig), may_be_watched(), "a right that nothing uses, or one that is missing");
}

/// What the controller has watched.
fn watched(rig: &Rig) -> BTreeSet<String> {
    let requests = rig.proxy.requests().into_iter();
    let watches = requests.filter(|request| request.method == "GET" && request.target.contains("watch=true"));
    watches.map(|request| request.target.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
}

/// What its manifests let it watch.
fn may_be_watched() -> BTreeSet<String> {
    let rules: Vec<Value> =
        rig::manifests().iter().filter_map(|manifest| manifest["rules"].as_array()).flatten().cloned().collect();
    let watching = rules.iter().filter(|rule| rule["verbs"].as_array().unwrap().contains(&json!("watch")));
    let resources = watching.flat_map(|rule| rule["resources"].as_array().unwrap());
    resources.map(|resource| resource.as_str().unwrap().to_owned()).collect()
}
