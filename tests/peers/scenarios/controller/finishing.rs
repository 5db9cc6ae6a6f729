//! Ours finishes a cluster of the real service.

use super::*;
use crate::{
    host::Host,
    scenarios::{
        control_plane::{self, Node},
        three_hosts::{self, NAMES, has_rebooted, three_hosts_cluster},
    },
    service::{RealService, ServiceOptions},
    site::Clock,
};
use simulator::{CertificateRequest, NodeState};
use std::{collections::BTreeMap, fs};

/// What the operator is configured by.
const VOLUME_SETS: &str =
    "/apis/local.storage.openshift.io/v1alpha1/namespaces/openshift-local-storage/localvolumesets";

fn declare_volume_sets(cluster: &Cluster) {
    let names = json!({"plural": "localvolumesets", "singular": "localvolumeset", "kind": "LocalVolumeSet"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "metadata": {"name": "localvolumesets.local.storage.openshift.io"},
        "spec": {
            "group": "local.storage.openshift.io", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.client().create(definitions, &definition).unwrap();
}

/// Plays the nodes and operators of a cluster, from hosts that are being installed until the service calls it installed and the controller
/// ends. Masters that have rebooted are named to the bootstrap host.
fn play_nodes(
    service: &RealService,
    cluster_id: &str,
    env: &str,
    site: (&Namespace, &str),
    masters: &Mutex<Vec<Node>>,
) {
    begin("r");
    let ((namespace, url), api) = (site, &service.api);
    let server = ApiServer::start().expect("kube-apiserver is built");
    let (cluster, proxy) = (server.cluster(), server.proxy());
    prepare(&cluster);
    declare_volume_sets(&cluster);
    let mut pod = start(namespace, "controller", &ours(), url, &server, &proxy, cluster_id);
    let hosts = || {
        let hosts = api.get(&format!("/infra-envs/{env}/hosts")).as_array().unwrap().clone();
        for host in &hosts {
            assert!(host["status"] != "error", "{} {}", host["status_info"], host["progress"]);
        }
        hosts
    };
    let mut requests = BTreeMap::new();
    until(&mut pod, "all hosts have rebooted", || {
        let hosts = hosts();
        for host in hosts.iter().filter(|host| has_rebooted(host)) {
            let host_node = three_hosts::node(host);
            let request = CertificateRequest::client(&host_node.0);
            requests.entry(host_node.0.clone()).or_insert_with(|| cluster.certificate_request(&request));
            let mut masters = lock(masters);
            if host["bootstrap"] != true && !masters.contains(&host_node) {
                masters.push(host_node);
            }
        }
        hosts.iter().all(has_rebooted)
    });
    until(&mut pod, "approvals of clients", || requests.values().all(|request| cluster.is_approved(request)));
    let all_at = |stage: &str| hosts().iter().all(|host| host["progress"]["current_stage"] == stage);
    let nodes: Vec<Node> = hosts().iter().map(three_hosts::node).collect();
    for (name, address) in &nodes {
        cluster.node_joins(&NodeState { name, internal_ips: &[address], ..NodeState::default() });
    }
    until(&mut pod, "Joined", || all_at("Joined"));
    nodes.iter().for_each(|(name, _)| cluster.set_ready(name, true));
    until(&mut pod, "Done", || all_at("Done"));

    let path = format!("/clusters/{cluster_id}");
    let is_at = |stage: &str| api.get(&path)["progress"]["finalizing_stage"] == stage;
    let operators = || api.get(&format!("{path}/monitored-operators")).as_array().unwrap().clone();
    let has = |name: &str, info: &str| operators().iter().any(|one| one["name"] == name && one["status_info"] == info);
    until(&mut pod, "finalizing", || is_at("Waiting for cluster operators"));
    console(&cluster, "Progressing", "on its way");
    until(&mut pod, "what is on its way", || has("console", "on its way") && has("cvo", "on its way"));
    // Manifests of operators are applied with it.
    fs::write(service.file(cluster_id, "kubeconfig-noingress"), server.admin_kubeconfig()).unwrap();
    console(&cluster, "Available", "all is well");
    until(&mut pod, "the router's stage", || is_at("Adding router ca"));
    cluster.ingress_ca(server.ca_pem());
    cluster.subscription(OPERATOR_NAMESPACE, SUBSCRIPTION, CSV);
    cluster.csv(OPERATOR_NAMESPACE, CSV, "Installing", "installing", VERSION);
    until(&mut pod, "an operator on its way", || has(OPERATOR, "installing"));
    assert_eq!(cluster.client().list(VOLUME_SETS).unwrap().len(), 1, "the service's manifests are applied");
    cluster.csv(OPERATOR_NAMESPACE, CSV, "Succeeded", "all is well", VERSION);
    until(&mut pod, "the cluster is installed", || {
        let cluster = api.get(&path);
        assert!(cluster["status"] != "error", "{}", cluster["status_info"]);
        cluster["status"] == "installed"
    });
    await_end(&mut pod);
}

#[test]
fn ours_finishes_a_cluster_of_the_real_service() {
    scenario("r: three hosts and our controller at the real service", &["assisted-service"], NAMES, |peers, site| {
        let environment = [("CHECK_CLUSTER_VERSION", "true".to_owned())];
        let options = ServiceOptions { environment: &environment, ..ServiceOptions::default() };
        let mut service = site.real_service(peers, options);
        let mut body = three_hosts_cluster();
        body["olm_operators"] = json!([{"name": OPERATOR}]);
        let (cluster, env) = create(&service.api, body);
        let masters = control_plane::play(site);
        let hosts: Vec<(Host, Clock)> = [0, 2, 3].map(|number| site.our_host(number, &env, &site.url(), &[])).into();
        let ids = await_known(&service.api, &env, 3);
        service.replace_dummies(&cluster);
        install(&service.api, &cluster, &env, &ids);
        let (namespace, url) = (&site.server.namespace, site.url());
        namespace.enter(|| play_nodes(&service, &cluster, &env, (namespace, &url), &masters));
        drop(hosts);
        for file in ["downloads/credentials?file_name=kubeconfig", "logs?logs_type=controller"] {
            let (status, answer) = service.api.file(&format!("/clusters/{cluster}/{file}"));
            assert_eq!(status, 200, "{file}: {}", String::from_utf8_lossy(&answer));
        }
        let last = service.api.get(&format!("/clusters/{cluster}"));
        assert_eq!(last["status_info"], "Cluster is installed");
        assert_eq!(last["progress"]["finalizing_stage"], "Done");
        assert_eq!(last["logs_info"], "completed");
        for exchange in exchanges(site) {
            assert!(exchange.status.is_none_or(|status| status < 400), "{exchange:#?}");
        }
        let checks = Row("poll", "step install.args[].check_cvo", "this service waits for the cluster's version");
        let access = Row("GET credentials", "response body*", "an administrator's access to this test's API server");
        assert_as_recorded_but(site, Direction::OursAtTheRealService, &[checks, access]).summary()
    });
}
