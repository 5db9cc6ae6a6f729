//! Taints of nodes: which are removed, and when.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use controller::config::Config;
use rig::{CLUSTER, Rig, UNINITIALIZED, taint};
use serde_json::json;
use simulator::Fault;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Where no provider initialises nodes, a node that is not ready loses that taint, and no other, after its host was reported as joined.
#[test]
fn a_node_that_is_not_ready_is_untainted() {
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 3) else { return };
    rig.state().cluster["platform"]["type"] = "nutanix".into();
    rig.tainted("node0", &["first", UNINITIALIZED, "last"], false);
    let controller = rig.start();
    rig.until("untainted", |rig| rig.taints("node0") == ["first", "last"]);
    assert_eq!(rig.stages(0), ["Joined"]);
    rig.looks(3);
    assert_eq!((rig.stages(0), rig.calls("PATCH", "/nodes/").len()), (vec!["Joined".to_owned()], 1));
    assert!(!controller.has_ended());
}

/// A taint is added between reading a node and changing it: the change is refused by the server and made anew, so that the other taint
/// stays. A patch by index would have removed the wrong one.
#[test]
fn a_taint_that_comes_meanwhile_stays() {
    let Some(rig) = Rig::with_hosts("installing", "Rebooting", 1) else { return };
    rig.state().cluster["platform"]["type"] = "vsphere".into();
    rig.tainted("node0", &[UNINITIALIZED], false);
    let (cluster, is_first) = (rig.cluster.clone(), AtomicBool::new(true));
    rig.proxy.set_faults(move |method, path, _| {
        if method == "PATCH" && path.ends_with("/nodes/node0") && is_first.swap(false, Relaxed) {
            let taints = json!({"spec": {"taints": [taint("meanwhile"), taint(UNINITIALIZED)]}});
            cluster.client().patch("/api/v1/nodes/node0", &taints).unwrap();
        }
        Fault::Pass
    });
    let _controller = rig.start();
    rig.until("untainted", |rig| rig.taints("node0") == ["meanwhile"]);
    assert_eq!(rig.calls("PATCH", "/nodes/node0").len(), 2);
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

/// Whether a node that is not ready loses its taint. One that shall is waited for.
fn untaints(provider: &Provider<'_>, wanted: bool) -> Option<bool> {
    let rig = Rig::with_hosts("installing", "Rebooting", 3)?;
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
    rig.tainted("node0", &[UNINITIALIZED], false);
    let controller = rig.start_with(Config { openshift_version: provider.version.to_owned(), ..rig.config() });
    match provider.overrides {
        // Nodes are untainted before this is read.
        None => rig.until("a look at the ClusterVersion", |rig| !rig.calls("GET", "/clusterversions").is_empty()),
        Some(_) => {
            rig.until("Joined", |rig| rig.stages(0) == ["Joined"]);
            if wanted {
                rig.until("untainted", |rig| rig.taints("node0").is_empty());
            } else {
                rig.looks(2);
            }
        }
    }
    let untainted = rig.taints("node0").is_empty();
    assert_eq!(untainted, !rig.calls("PATCH", "/nodes/node0").is_empty());
    controller.end();
    Some(untainted)
}

/// Nodes are untainted on Nutanix and vSphere, for those no other program does it there; on other platforms the taint is somebody's sign.
#[test]
fn the_platform_decides_on_taints() {
    for (platform, wanted) in [("nutanix", true), ("vsphere", true), ("none", false), ("baremetal", false)] {
        let Some(untaints) = untaints(&Provider { platform, ..BY_SERVICE }, wanted) else { return };
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
        let Some(untaints) = untaints(&Provider { version, overrides: Some(overrides), ..AGENT_BASED }, wanted) else {
            return;
        };
        assert_eq!(untaints, wanted, "{version} {overrides}");
    }
}

/// The agent-based installer's service is gone: the install configuration in the cluster tells of its server, never of users.
#[test]
fn without_service_the_install_configuration_decides_on_taints() {
    for (server, wanted) in [("vcenter.example.com", false), ("vcenterplaceholder", true), ("", true)] {
        let Some(untaints) = untaints(&Provider { server, overrides: None, ..AGENT_BASED }, wanted) else { return };
        assert_eq!(untaints, wanted, "{server}");
    }
}
