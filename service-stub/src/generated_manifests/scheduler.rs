//! Whether control-plane nodes run what users bring.

use super::generated::Generated;
use crate::model::{ClusterRecord, HostRecord};
use api::HostRole;
use serde_json::{Value, json};
use std::sync::Arc;

/// The file of `openshift-install` with the cluster's `Scheduler`.
pub(super) const FILE: &str = "cluster-scheduler-02-config.yml";
/// Fewer workers cannot run all that a cluster consists of.
const ENOUGH_WORKERS: usize = 2;

/// Whether they must, whatever the user says.
pub(crate) fn are_masters_forced_schedulable(hosts: &[Arc<HostRecord>]) -> bool {
    hosts.iter().filter(|host| host.effective_role() == HostRole::Worker).count() < ENOUGH_WORKERS
}

fn is_wanted(cluster: &ClusterRecord) -> bool {
    cluster.settings.get("schedulable_masters") == Some(&Value::Bool(true))
}

/// A patch of the file.
pub(super) fn patch(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Option<Generated> {
    let operations = json!([{"op": "replace", "path": "/spec/mastersSchedulable", "value": true}]);
    let patch = || Generated::new(format!("{FILE}.patch_ai_set_masters_schedulable"), &operations);
    (is_wanted(cluster) || are_masters_forced_schedulable(hosts)).then(patch)
}

/// The object itself, for the cluster's controller to apply, if the user wants it.
pub(crate) fn object(cluster: &ClusterRecord) -> Option<Generated> {
    let object = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "Scheduler",
        "metadata": {"name": "cluster"},
        "spec": {"mastersSchedulable": true},
    });
    is_wanted(cluster).then(|| Generated::new("cluster-scheduler-masters-schedulable.yaml", &object))
}
