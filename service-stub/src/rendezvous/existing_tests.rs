//! The document of a cluster that exists, and what is wrong in one.

use super::*;
use crate::rendezvous::{Rack, Rendezvous, Unknown, as_json, changes, lines, plan};
use serde_json::json;

fn existing() -> Value {
    json!({
        "kind": KIND, "apiName": "api.edge.example.com", "id": "5a1e0000-0000-4000-8000-000000000001", "version": "4.20.3",
        "releaseImage": "quay.io/release@sha256:00", "architecture": "x86_64", "platform": "None",
        "ignitionEndpoint": {"url": "https://api-int.edge.example.com:22623/config", "caCertificate": ""},
        "pullSecret": r#"{"auths":{"q":{"auth":"aHVudGVyMjpo"}}}"#,
        "proxy": {"httpProxy": "http://proxy.example.com:3128"}, "additionalTrustBundle": "", "sshKey": "", "fips": true,
        "additionalNTPSources": ["ntp.example.com"], "mirrors": [{"source": "quay.io/a", "mirrors": ["m.example.com/a"]}],
        "liveISO": "https://mirror.example.com/live.iso", "expiresAt": "2026-11-26T12:00:00.000Z",
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut document = existing();
    match pointer.rsplit_once('/') {
        Some((parent, name)) => document.pointer_mut(parent).unwrap()[name] = value,
        None => panic!("{pointer}"),
    }
    document
}

const NODES: &str = "\
cpuArchitecture: arm64
sshKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g key
bootArtifactsBaseURL: http://boot.example.com
hosts:
- hostname: worker-1
  role: worker
  rootDeviceHints: {deviceName: /dev/sda}
  interfaces: [{name: eth0, macAddress: '52:54:00:00:00:01'}]
  networkConfig: {interfaces: [{name: eth0, type: ethernet, state: up}]}
- interfaces: [{name: eth0, macAddress: '52:54:00:00:00:02'}]
";

fn planned(nodes: &str, cluster: &Value) -> Result<Rack, String> {
    let read = |name: &str, text: &str| read::parse(name, text).map_err(|error| error.to_string());
    let documents = [read("nodes-config.yaml", nodes)?, read("existing-cluster.json", &cluster.to_string())?].concat();
    plan(&documents, None).map_err(|error| error.to_string())
}

#[test]
fn a_document_is_read_as_it_was_written() {
    let text = existing().to_string();
    let cluster = ExistingCluster::parse("cluster.json", &text).unwrap();
    assert_eq!(cluster.document(), existing());
    assert_eq!((cluster.names(), cluster.is_user_managed()), (("edge", "example.com"), true));
    let by_address = with("/apiName", json!("192.0.2.1"));
    assert_eq!(ExistingCluster::parse("c.json", &by_address.to_string()).unwrap().names(), (NAME, ""));
}

#[test]
fn facts_that_cannot_be_are_refused_without_showing_secrets() {
    for (document, said) in [
        (with("/id", json!("x")), "id: is not a UUID"),
        (with("/id", json!(null)), "id: is missing"),
        (with("/kind", json!("Other")), "no cluster: c.json must be one document of the kind ExistingCluster"),
        (with("/apiName", json!("Api.Edge")), "apiName: DNS format mismatch"),
        (with("/version", json!("4.20 x")), "version: has blanks, quotes or control characters"),
        (with("/expiresAt", json!("tomorrow")), "expiresAt: is not a time"),
        (with("/ignitionEndpoint/url", json!("ftp://x")), "ignitionEndpoint.url: The URL scheme must be http(s)"),
        (with("/ignitionEndpoint/caCertificate", json!("hunter2")), "ignitionEndpoint.caCertificate: invalid block"),
        (with("/pullSecret", json!("hunter2")), "pullSecret: pull secret must be a well-formed JSON"),
        (with("/sshKey", json!("key")), "sshKey: SSH key: key does not match"),
        (with("/additionalNTPSources", json!(["a b"])), "additionalNTPSources: Invalid NTP source"),
        (with("/additionalTrustBundle", json!("hunter2")), "additionalTrustBundle: invalid block"),
        (with("/mirrors", json!([{"source": "a\"\n[x]", "mirrors": []}])), "mirrors[0].source: has blanks"),
        (
            with("/mirrors", json!([{"source": "a", "mirrors": ["b\"c"]}])),
            "mirrors[0].mirrors: 'b\\\"c' is not a registry",
        ),
        (with("/fips", json!("yes")), "fips: expected true or false"),
        (with("/fibs", json!(true)), "c.json: fibs, line 1: is not a field of this document: did you mean 'fips'?"),
        (with("/proxy/port", json!(1)), "c.json: proxy.port, line 1: is not a field of this document"),
    ] {
        let error = ExistingCluster::parse("c.json", &document.to_string()).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("hunter2"), "{said}: {error}");
    }
}

#[test]
fn nodes_are_planned_for_the_cluster() {
    let rack = planned(NODES, &existing()).unwrap();
    assert_eq!((rack.masters, rack.total, rack.hosts.len(), rack.warnings.len()), (0, 2, 2, 0));
    assert_eq!(rack.address, Some([127, 0, 0, 1].into()));
    let infra_env = &rack.infra_env;
    assert_eq!(infra_env.cpu_architecture.as_deref(), Some("aarch64"));
    assert!(infra_env.ssh_authorized_key.as_deref().unwrap().starts_with("ssh-ed25519 "));
    assert_eq!(infra_env.additional_ntp_sources.as_deref(), Some("ntp.example.com"));
    assert_eq!(infra_env.static_network_config.as_ref().unwrap().len(), 1);
    let rendezvous = Rendezvous::new(rack, None);
    let text = lines(&rendezvous).join("\n");
    assert!(text.contains("cluster      edge.example.com (exists, id 5a1e0000-"), "{text}");
    assert!(text.contains("expires      2026-11-26T12:00:00.000Z"), "{text}");
    assert!(
        text.contains("host         worker-1 (52:54:00:00:00:01): worker, disk {\"deviceName\":\"/dev/sda\"}"),
        "{text}"
    );
    let shown = as_json(&rendezvous).to_string();
    assert!(
        shown.contains("\"expires_at\":\"2026") && !shown.contains("aHVudGVyMjpo") && !shown.contains("3128"),
        "{shown}"
    );
}

#[test]
fn a_list_of_nodes_is_strict() {
    let host = "hosts: [{interfaces: [{name: a, macAddress: '52:54:00:00:00:01'}]}]\n";
    assert!(planned(host, &existing()).is_ok());
    for (nodes, said) in [
        ("hosts: []\n", "nodes-config.yaml: hosts: is empty"),
        ("hosts:\n- {interfaces: [}\n", "nodes-config.yaml is not YAML: look at line 2"),
        ("hosts: [{hostname: a}]\n", "hosts[0].interfaces: is empty"),
        ("hosts: [{interfaces: [{macAddress: x}]}]\n", "hosts[0].interfaces[0].macAddress: "),
        (&host.replace("}]}]", "}], role: master}]"), "is a master, but only workers can be added"),
        (&host.replace("}]}]", "}], role: arbiter}]"), "is an arbiter, but only workers can be added"),
        (
            &host.replace("}]}]", "}], hostName: a}]"),
            "nodes-config.yaml: hosts[0].hostName, line 1: is not a field of this document: did you mean 'hostname'?",
        ),
        (
            &format!("{host}rendezvousIP: 192.0.2.1\n"),
            "nodes-config.yaml: rendezvousIP, line 2: is not a field of this document",
        ),
        (&format!("{host}cpuArchitecture: vax\n"), "cpuArchitecture: 'vax' is not one of amd64, arm64"),
    ] {
        let error = planned(nodes, &existing()).unwrap_err();
        assert!(error.contains(said), "{nodes}: {error}");
    }
}

#[test]
fn nodes_and_cluster_belong_together() {
    let nodes = || read::parse("nodes-config.yaml", NODES).unwrap();
    let cluster = || read::parse("existing-cluster.json", &existing().to_string()).unwrap();
    let deployment = || read::parse("a.yaml", "kind: ClusterDeployment\nspec: {clusterName: a}\n").unwrap();
    for (documents, said) in [
        (nodes(), "no cluster to add nodes to"),
        (cluster(), "no nodes to add"),
        ([nodes(), cluster(), deployment()].concat(), "a.yaml: spec.clusterName sets the name, but the cluster exists"),
        ([nodes(), cluster(), cluster()].concat(), "differ in the cluster that exists"),
    ] {
        let error = plan(&documents, None).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    let error = changes(&[nodes(), cluster()].concat(), None, Unknown::Refused).unwrap_err().to_string();
    assert!(error.contains("`landfall node-iso`"), "{error}");
}
