//! Stages of the end of an installation, and operators that users chose.

use super::{Rig, Running, operator};
use serde_json::Value;

pub(crate) const OPERATORS: &str = "Waiting for cluster operators";
pub(crate) const ROUTER_CA: &str = "Adding router ca";
pub(crate) const INITIALIZATION: &str = "Waiting for olm operators csv initialization";
pub(crate) const MANIFESTS: &str = "Applying olm manifests";
pub(crate) const CSV: &str = "Waiting for olm operators csv";
pub(crate) const DONE: &str = "Done";
pub(crate) const ALL: [&str; 6] = [OPERATORS, ROUTER_CA, INITIALIZATION, MANIFESTS, CSV, DONE];
/// Of the operators that [`operator`] makes.
pub(crate) const OLM: &str = "openshift-test";

pub(crate) fn completions(rig: &Rig) -> Vec<Value> {
    rig.sent("POST", "/complete-installation")
}

pub(crate) fn reports(rig: &Rig) -> Vec<Value> {
    rig.sent("PUT", "/monitored-operators")
}

/// Waits until a stage was reported; it may be over by then.
pub(crate) fn reaches(rig: &Rig, stage: &str) {
    rig.until(stage, |rig| rig.finalizing().iter().any(|reported| reported == stage));
}

pub(crate) fn completes(rig: &Rig, controller: Running) {
    rig.until("completion", |rig| !completions(rig).is_empty());
    rig.set_status("installed");
    controller.finish().unwrap();
}

/// An operator that users chose, its subscription, and its version in a phase.
pub(crate) fn olm(rig: &Rig, name: &str, status: &str, phase: &str, message: &str) {
    rig.state().operators.push(operator(name, "olm", status));
    rig.cluster.subscription(OLM, &format!("{name}-operator"), &format!("{name}.v4"));
    rig.cluster.csv(OLM, &format!("{name}.v4"), phase, message, "4.12.0");
}

/// What a controller writes in the cluster, but for events.
pub(crate) fn writes(rig: &Rig) -> Vec<String> {
    let requests = rig.proxy.requests();
    let writing = requests.iter().filter(|request| request.method != "GET" && !request.target.contains("/events"));
    writing.map(|request| format!("{} {}", request.method, request.target)).collect()
}
