//! Three hosts and the real controller, to an installed cluster.

use super::{control_plane::Node, *};
use crate::{
    host::Host,
    service::{ServiceOptions, ours::OurService},
    site::Clock,
};
use std::sync::Mutex;

pub(super) const NAMES: &[(&str, &str)] = &[
    ("quay.io", "192.0.2.80"),
    ("api.ha3.example.com", "192.168.131.100"),
    ("api-int.ha3.example.com", "192.168.131.100"),
    ("apps.ha3.example.com", "192.168.131.101"),
];

pub(super) fn three_hosts_cluster() -> Value {
    let mut body = single_node_cluster();
    body["name"] = "ha3".into();
    body["control_plane_count"] = 3.into();
    body["high_availability_mode"] = "Full".into();
    body["api_vips"] = json!([{"ip": "192.168.131.100"}]);
    body["ingress_vips"] = json!([{"ip": "192.168.131.101"}]);
    body.as_object_mut().unwrap().remove("machine_networks");
    body
}

/// Name and address, by its inventory.
pub(super) fn node(host: &Value) -> Node {
    let inventory: Value = serde_json::from_str(host["inventory"].as_str().unwrap()).unwrap();
    let interfaces = inventory["interfaces"].as_array().unwrap();
    let ens3 = interfaces.iter().find(|interface| interface["name"] == "ens3").unwrap();
    let address = ens3["ipv4_addresses"][0].as_str().unwrap().split('/').next().unwrap();
    (inventory["hostname"].as_str().unwrap().to_owned(), address.to_owned())
}

/// Names the hosts to the controller, and lets it begin.
fn start_controller(api: &Api, env: &str, controller: &Host) {
    let hosts = api.get(&format!("/infra-envs/{env}/hosts"));
    let hosts: Vec<Node> = hosts.as_array().unwrap().iter().map(node).collect();
    control_plane::name_hosts(controller, &hosts);
    control_plane::begin(controller);
}

pub(super) fn has_rebooted(host: &Value) -> bool {
    ["Rebooting", "Configuring", "Joined", "Done"]
        .contains(&host["progress"]["current_stage"].as_str().unwrap_or_default())
}

/// Waits until all reboot, and then until the cluster is installed. A host that reboots becomes a node of the control plane, unless
/// it is the bootstrap. It must not be a node before: the controller would report it as joined, and it would never be told to install.
fn await_installed(api: &Api, cluster: &str, env: &str, nodes: &Mutex<Vec<Node>>, controller: &Host) {
    let path = format!("/infra-envs/{env}/hosts");
    api.await_state("all hosts reboot", &path, PATIENCE, |hosts| {
        let hosts = hosts.as_array().unwrap();
        for host in hosts {
            assert!(host["status"] != "error", "{} {}", host["status_info"], host["progress"]);
            if has_rebooted(host) {
                let (node, mut nodes) = (node(host), nodes.lock().unwrap());
                control_plane::rebooted(controller, &node.0);
                if host["bootstrap"] != true && !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        hosts.iter().all(has_rebooted)
    });
    api.await_state("the cluster is installed", &format!("/clusters/{cluster}"), PATIENCE, |cluster| {
        assert!(cluster["status"] != "error", "{}", cluster["status_info"]);
        cluster["status"] == "installed"
    });
}

#[test]
fn ours_at_the_real_service_with_the_real_controller() {
    let programs = ["assisted-service", "assisted-installer-controller"];
    scenario("b: three hosts, ours at the real service", &programs, NAMES, |peers, site| {
        let mut service = site.real_service(peers, ServiceOptions::default());
        let (cluster, env) = create(&service.api, three_hosts_cluster());
        let nodes = control_plane::play(site);
        let hosts: Vec<(Host, Clock)> = [0, 2, 3].map(|number| site.our_host(number, &env, &site.url(), &[])).into();
        let (controller, _clock) = control_plane::controller(peers, site, &cluster);
        let ids = await_known(&service.api, &env, 3);
        service.replace_dummies(&cluster);
        install(&service.api, &cluster, &env, &ids);
        start_controller(&service.api, &env, &controller);
        await_installed(&service.api, &cluster, &env, &nodes, &controller);
        for (host, _) in &hosts {
            assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
            assert!(site.image.debugfs(&host.disk, "cat /ignition/config.ign").contains("22623/config/master"));
        }
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

#[test]
fn the_real_ones_at_ours_with_the_real_controller() {
    let programs = ["agent", "installer", "assisted-installer-controller"];
    scenario("m: three hosts, the real ones at ours", &programs, NAMES, |peers, site| {
        let service = OurService::start(site, &["--await-controller"]);
        let (cluster, env) = create(&service.api, three_hosts_cluster());
        let nodes = control_plane::play(site);
        let hosts: Vec<(Host, Clock)> = [0, 2, 3].map(|number| site.real_host(peers, number, &env)).into();
        let (controller, _clock) = control_plane::controller(peers, site, &cluster);
        let ids = await_known(&service.api, &env, 3);
        install(&service.api, &cluster, &env, &ids);
        start_controller(&service.api, &env, &controller);
        await_installed(&service.api, &cluster, &env, &nodes, &controller);
        for (host, _) in &hosts {
            assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
            assert!(site.image.debugfs(&host.disk, "cat /ignition/config.ign").contains("22623/config/master"));
        }
        assert_as_recorded(site, Direction::TheRealOnesAtOurs).summary()
    });
}
