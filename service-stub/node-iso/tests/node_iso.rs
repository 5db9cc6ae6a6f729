//! From a cluster's objects to the facts that new nodes must know, and from those to an ISO.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use api::Timestamp;
use base64::{Engine, prelude::BASE64_STANDARD};
use node_iso::{facts, image::Plan};
use serde_json::{Value, json};
use service_stub::rendezvous::{self, ExistingCluster};
use simulator::ApiServer;
use std::fs;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g key";
const PULL_SECRET: &str = r#"{"auths":{"q":{"auth":"aHVudGVyMjpo"}}}"#;
const NODES: &str = "\
hosts:
- hostname: worker-9
  interfaces: [{name: eth0, macAddress: '52:54:00:00:00:01'}]
  networkConfig:
    interfaces:
    - {name: eth0, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}
";

fn data(text: &str) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", BASE64_STANDARD.encode(text))
}

/// Puts what a cluster has into the API server.
fn fill(server: &ApiServer) {
    let (client, ca) = (server.client(), server.ca_pem());
    for namespace in ["openshift-config", "openshift-machine-api", "openshift-machine-config-operator"] {
        server.cluster().namespace(namespace);
    }
    let put = |plural: &str, name: &str, members: Value| {
        let resource = simulator::Resource::named(plural);
        client.put(&resource.collection(None), &resource.object(None, name, members)).unwrap();
    };
    let core = |namespace: &str, plural: &str, name: &str, data: Value| {
        let object = json!({"metadata": {"name": name}, "data": data});
        client.put(&format!("/api/v1/namespaces/{namespace}/{plural}"), &object).unwrap();
    };
    let desired = json!({"version": "4.20.3", "image": "quay.io/release@sha256:00"});
    put(
        "clusterversions",
        "version",
        json!({"spec": {"clusterID": "5a1e0000-0000-4000-8000-000000000001"}, "status": {"desired": desired}}),
    );
    let url = "https://api.edge.example.com:6443";
    put(
        "infrastructures",
        "cluster",
        json!({"status": {"apiServerURL": url, "platformStatus": {"type": "BareMetal"}}}),
    );
    put("proxies", "cluster", json!({"status": {"httpProxy": "http://proxy.example.com:3128", "noProxy": ".svc"}}));
    core(
        "openshift-config",
        "secrets",
        "pull-secret",
        json!({".dockerconfigjson": BASE64_STANDARD.encode(PULL_SECRET)}),
    );
    core("openshift-config", "configmaps", "user-ca-bundle", json!({"ca-bundle.crt": ca}));
    let user_data = json!({"ignition": {
        "config": {"merge": [{"source": "https://api-int.edge.example.com:22623/config/worker"}]},
        "security": {"tls": {"certificateAuthorities": [{"source": data(ca)}]}}, "version": "3.2.0"}});
    let user_data = BASE64_STANDARD.encode(user_data.to_string());
    core("openshift-machine-api", "secrets", "worker-user-data-managed", json!({"userData": user_data}));
    let disk = json!({"location": "https://mirror.example.com/live.iso"});
    let stream = json!({"architectures": {"x86_64": {"artifacts": {"metal": {"formats": {"iso": {"disk": disk}}}}}}});
    core("openshift-machine-config-operator", "configmaps", "coreos-bootimages", json!({"stream": stream.to_string()}));
    let users = json!([{"name": "core", "sshAuthorizedKeys": [KEY]}]);
    put("machineconfigs", "99-worker-ssh", json!({"spec": {"config": {"passwd": {"users": users}}}}));
    put("machineconfigs", "99-worker-fips", json!({"spec": {"fips": true}}));
    let chrony = json!([{"path": "/etc/chrony.conf", "contents": {"source": data("server ntp.example.com iburst\n")}}]);
    put(
        "machineconfigs",
        "50-workers-chrony-configuration",
        json!({"spec": {"config": {"storage": {"files": chrony}}}}),
    );
    let mirrors = json!([{"source": "quay.io/a", "mirrors": ["m.example.com/a"]}]);
    put("imagedigestmirrorsets", "one", json!({"spec": {"imageDigestMirrors": mirrors}}));
    put("imagecontentsourcepolicies", "two", json!({"spec": {"repositoryDigestMirrors": mirrors}}));
    let labels = json!({"node-role.kubernetes.io/master": ""});
    let info = json!({
        "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
        "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""});
    let node = json!({"metadata": {"name": "master-0", "labels": labels}, "status": {"nodeInfo": info}});
    client.put("/api/v1/nodes", &node).unwrap();
}

#[test]
fn the_facts_are_what_the_cluster_says_of_itself() {
    let Some(server) = ApiServer::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    fs::write(&kubeconfig, server.admin_kubeconfig()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let read = || runtime.block_on(facts::read(&kubeconfig)).map_err(|error| error.to_string());
    assert!(read().unwrap_err().contains("clusterversions version"));
    fill(&server);
    let expected = json!({
        "kind": "ExistingCluster",
        "apiName": "api.edge.example.com",
        "id": "5a1e0000-0000-4000-8000-000000000001",
        "version": "4.20.3",
        "releaseImage": "quay.io/release@sha256:00",
        "architecture": "x86_64",
        "platform": "BareMetal",
        "ignitionEndpoint": {"url": "https://api-int.edge.example.com:22623/config", "caCertificate": server.ca_pem()},
        "pullSecret": PULL_SECRET,
        "proxy": {"httpProxy": "http://proxy.example.com:3128", "noProxy": ".svc"},
        "additionalTrustBundle": server.ca_pem(),
        "sshKey": KEY,
        "fips": true,
        "additionalNTPSources": ["ntp.example.com"],
        "mirrors": [{"source": "quay.io/a", "mirrors": ["m.example.com/a"]}, {"source": "quay.io/a", "mirrors": ["m.example.com/a"]}],
        "liveISO": "https://mirror.example.com/live.iso",
    });
    assert_eq!(read().map(|facts| facts.document()), Ok(expected));

    // An authority that is not one is refused here, not on the node.
    let secret = "/api/v1/namespaces/openshift-machine-api/secrets/worker-user-data-managed";
    let config = json!({"ignition": {"config": {"merge": [{"source": "https://x/config/worker"}]},
        "security": {"tls": {"certificateAuthorities": [{"source": data("no certificate")}]}}}});
    server.client().patch(secret, &json!({"data": {"userData": BASE64_STANDARD.encode(config.to_string())}})).unwrap();
    assert!(read().is_err());
}

fn cluster() -> ExistingCluster {
    let document = json!({
        "kind": "ExistingCluster", "apiName": "api.edge.example.com", "id": "5a1e0000-0000-4000-8000-000000000001", "version": "4.20.3",
        "architecture": "x86_64", "platform": "None", "pullSecret": PULL_SECRET, "sshKey": KEY,
        "ignitionEndpoint": {"url": "https://api-int.edge.example.com:22623/config"},
        "proxy": {"httpProxy": "http://proxy.example.com:3128"}, "additionalNTPSources": ["ntp.example.com"],
        "mirrors": [{"source": "quay.io/a", "mirrors": ["m.example.com/a"]}],
    });
    ExistingCluster::parse("cluster.json", &document.to_string()).unwrap()
}

#[test]
fn the_iso_has_the_plan_and_what_the_live_system_needs() {
    let now = Timestamp::from_unix_seconds(1_800_000_000);
    let plan = Plan::new(NODES.to_owned(), cluster(), now).unwrap();
    assert_eq!(plan.architecture(), "x86_64");

    // The node reads the same plan of its files.
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in plan.files() {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    let rack = rendezvous::directory(directory.path(), None).unwrap();
    assert_eq!(rack.hosts, plan.rack.hosts);
    let expires = rack.existing.unwrap().expires_at.unwrap();
    assert_eq!(expires.seconds_since(now), 48 * 3600);
    service_stub::auth::keys::SigningKey::read(&directory.path().join("auth.key")).unwrap();

    let config: Value = serde_json::from_slice(&plan.live_config().unwrap()).unwrap();
    let files = config["storage"]["files"].as_array().unwrap();
    let content = |path: &str| {
        let file = files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path}"));
        let source = file["contents"]["source"].as_str().unwrap();
        String::from_utf8(ignition::data_url::decode(source).unwrap().data.into_owned()).unwrap()
    };
    let environment = content("/etc/landfall/agent.env");
    assert!(
        environment.contains("http://127.0.0.1:8090") && environment.contains("PULL_SECRET_TOKEN="),
        "{environment}"
    );
    assert!(environment.contains("http://proxy.example.com:3128"), "{environment}");
    assert_eq!(
        content("/etc/containers/registries.conf"),
        "[[registry]]\nprefix = \"\"\nlocation = \"quay.io/a\"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = \
         \"m.example.com/a\"\n"
    );
    assert!(content("/usr/local/bin/add-ntp-sources.sh").contains("ntp.example.com"));
    assert!(files.iter().any(|file| file["path"].as_str().unwrap().starts_with("/etc/assisted/network/")));
    let units = config["systemd"]["units"].to_string();
    assert!(units.contains("/usr/local/bin/landfall ignition network apply"), "{units}");
    assert_eq!(config["passwd"]["users"][0]["sshAuthorizedKeys"], json!([KEY]));
}

#[test]
fn a_cluster_of_another_kind_or_an_unknown_field_is_refused_before_anything_is_written() {
    let now = Timestamp::now();
    for (nodes, said) in [
        ("hosts: []\n".to_owned(), "nodes-config.yaml: hosts: is empty"),
        (format!("{NODES}kind_of_nodes: x\n"), "kind_of_nodes, line 7: is not a field of this document"),
    ] {
        let error = Plan::new(nodes, cluster(), now).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    }
}
