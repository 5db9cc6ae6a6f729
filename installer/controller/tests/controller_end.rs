//! What ends the work, and what another run continues.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use controller::{clock::Reason, config::Config};
use rig::{CLUSTER, IP, Rig, UNINITIALIZED};
use serde_json::json;
use simulator::NodeState;

const CREDENTIALS: &str = "/downloads/credentials";

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

/// The controller is stopped and another takes over: the event is there already, the reports continue where they were, and the logs are
/// left to the end.
#[test]
fn another_run_continues_where_the_first_was_stopped() {
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 1) else { return };
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
            rig.tainted(node, &[UNINITIALIZED], true);
        }
        rig.start_with(Config { control_plane_count: 0, ..rig.config() }).finish().unwrap();
        assert_eq!(rig.calls("PATCH", "/nodes/").len(), usize::from(node.is_some()));
        assert!(node.is_none_or(|node| rig.taints(node).is_empty()));
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
