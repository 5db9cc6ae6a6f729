//! What a cluster gets.

use crate::common::{API, certificate_pem};
use crate::preparing::rack::{Rack, Site, preparation, secret};
use api::MirrorRegistry;
use installer_double::{Behaviour, Fault};
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The openshift-install to run in the double's place.
fn real() -> Option<PathBuf> {
    env::var_os("LANDFALL_OPENSHIFT_INSTALL").map(PathBuf::from)
}

fn entry<'a>(config: &'a Value, path: &str) -> Option<&'a Value> {
    config["storage"]["files"].as_array()?.iter().find(|file| file["path"] == path)
}

#[test]
fn several_nodes_get_files_of_their_own_in_the_background() {
    let scratch = tempfile::tempdir().unwrap();
    let release = scratch.path().join("release");
    let waits = Fault { command: Some("manifests".into()), waits_for: Some(release.clone()), ..Fault::default() };
    let site = Site::start(&Behaviour { real: real(), faults: vec![waits], ..Behaviour::default() });
    let rack = Rack::ready(&site, 1, 3, 5);
    let before: String =
        serde_json::from_slice(&site.get(&format!("/v2/clusters/{}/install-config", rack.cluster)).unwrap()).unwrap();
    let before: Value = serde_json::from_str(&before).unwrap();
    rack.install(&site);
    let cluster = site.until("preparing", &rack, |cluster| cluster["status"] == "preparing-for-installation");
    assert_eq!(preparation(&cluster), "not_started", "the answer came before anything was made");
    assert_eq!(site.file(&rack, "bootstrap.ign").unwrap_err(), 409);
    fs::write(release, "").unwrap();
    let cluster = site.until("prepared", &rack, |cluster| preparation(cluster) == "success");
    let names: Vec<String> = site.events(&rack).into_iter().map(|(name, _)| name).collect();
    let prepared = names.iter().position(|name| name == "cluster_prepare_installation_started").unwrap();
    assert!(!names[..prepared].contains(&"host_installation_started".to_owned()), "{names:?}");
    site.until("installing", &rack, |cluster| cluster["status"] == "installing");

    let calls = site.double.calls().unwrap();
    let commands: Vec<_> = calls.iter().map(|call| call.arguments[..2].join(" ")).collect();
    assert_eq!(commands, ["create manifests", "create ignition-configs"]);
    assert_eq!(calls[0].environment["OPENSHIFT_INSTALL_INVOKER"], "assisted-installer");
    let config = &calls[0].install_config;
    assert_eq!(config["controlPlane"]["replicas"], 3);
    assert_eq!(config["compute"][0]["replicas"], 2);
    assert_eq!(config["pullSecret"], secret(1));
    assert_eq!(before["metadata"], config["metadata"]);
    for file in ["openshift/50-masters-chrony-configuration.yaml", "openshift/50-workers-iscsi-nic-reapply.yaml"] {
        assert!(calls[1].files.iter().any(|own| own == file), "{file}: {:?}", calls[1].files);
    }
    assert!(!calls[1].files.iter().any(|own| own == "install-config.yaml"), "the first command ate it");

    let bootstrap = site.json(&rack, "bootstrap.ign");
    for path in ["/opt/openshift/assisted-install-bootstrap", "/etc/NetworkManager/conf.d/99-kni.conf"] {
        assert!(entry(&bootstrap, path).is_some(), "{path}");
    }
    assert!(entry(&bootstrap, "/opt/openshift/openshift/50-masters-chrony-configuration.yaml").is_some());
    let metadata = site.json(&rack, "metadata.json");
    assert_eq!(cluster["openshift_cluster_id"], metadata["clusterID"]);
    let stored: Value = serde_json::from_slice(&site.file(&rack, "install-config.yaml").unwrap()).unwrap();
    assert_eq!(stored, *config);
    for host in &rack.hosts {
        let config = rack.host_config(&site, *host);
        let source = entry(&config, "/etc/hostname").unwrap()["contents"]["source"].as_str().unwrap().to_owned();
        assert!(source.starts_with("data:,node-"), "{source}");
    }
    for name in ["kubeadmin-password", "kubeconfig-noingress"] {
        assert!(
            site.get(&format!("/v2/clusters/{}/downloads/credentials?file_name={name}", rack.cluster)).is_ok(),
            "{name}"
        );
    }
    assert_eq!(site.leftovers(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_single_node_bootstraps_in_place() {
    let site = Site::start(&Behaviour { real: real(), ..Behaviour::default() });
    let rack = Rack::ready(&site, 2, 1, 1);
    rack.install(&site);
    site.until("installing", &rack, |cluster| cluster["status"] == "installing");
    let calls = site.double.calls().unwrap();
    assert_eq!(calls[1].arguments[1], "single-node-ignition-config");
    assert_eq!(calls[0].install_config["bootstrapInPlace"], json!({"installationDisk": "/dev/disk/by-path/virtio-0"}));
    assert_eq!(calls[0].environment["OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP"], "10.0.2.1");
    for name in ["master.ign", "worker.ign"] {
        let config = site.json(&rack, name);
        assert!(config["ignition"]["version"].is_string() && config["storage"].is_null(), "{config}");
    }
    let bootstrap = site.json(&rack, "bootstrap.ign");
    assert!(entry(&bootstrap, "/opt/openshift/assisted-install-bootstrap").is_none());
    let host = rack.host_config(&site, rack.hosts[0]);
    let hint = entry(&host, "/etc/default/nodeip-configuration").unwrap();
    assert_eq!(hint["contents"]["source"], "data:,KUBELET_NODEIP_HINT=10.0.2.0");
}

#[test]
fn users_manifests_are_in_the_files_and_patches_applied() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let site = Site::start(&Behaviour { real: real(), ..Behaviour::default() });
    let rack = Rack::ready(&site, 3, 3, 3);
    let post = |folder: &str, file: &str, content: &str| {
        let body = json!({"folder": folder, "file_name": file, "content": STANDARD.encode(content)});
        let url = format!("{}/v2/clusters/{}/manifests", site.client_url(), rack.cluster);
        let reply = ureq::post(url).header("content-type", "application/json").send(body.to_string()).unwrap();
        assert_eq!(reply.status(), 201, "{file}");
    };
    post("openshift", "several.yaml", "kind: A\n---\nkind: B\n---\nkind: C\n");
    post("openshift", "one.yaml", "kind: One # as it is\n");
    post(
        "manifests",
        "cluster-scheduler-02-config.yml.patch_1",
        "- op: add\n  path: /metadata/labels\n  value: {first: '1'}\n",
    );
    post(
        "manifests",
        "cluster-scheduler-02-config.yml.patch_2",
        "- op: add\n  path: /metadata/labels/second\n  value: '2'\n",
    );
    rack.install(&site);
    site.until("installing", &rack, |cluster| cluster["status"] == "installing");
    let files = site.double.calls().unwrap()[1].files.clone();
    let parts: Vec<&String> = files.iter().filter(|file| file.starts_with("openshift/several-")).collect();
    assert_eq!(parts.len(), 3, "{files:?}");
    assert!(!files.iter().any(|file| file.contains(".patch") || file == "openshift/several.yaml"), "{files:?}");
    let bootstrap = site.json(&rack, "bootstrap.ign");
    let text = |path: &str| {
        let source = entry(&bootstrap, path).unwrap()["contents"]["source"].as_str().unwrap().to_owned();
        String::from_utf8(ignition::data_url::decode(&source).unwrap().data.into_owned()).unwrap()
    };
    assert_eq!(text("/opt/openshift/openshift/one.yaml"), "kind: One # as it is\n");
    let scheduler: Value =
        serde_norway::from_str(&text("/opt/openshift/manifests/cluster-scheduler-02-config.yml")).unwrap();
    assert_eq!(scheduler["metadata"]["labels"], json!({"first": "1", "second": "2"}));
    assert_eq!(scheduler["spec"]["mastersSchedulable"], true, "there are no workers");
}

/// A script in place of `oc`, which writes down its arguments and copies the double as the program that it is to extract.
fn oc(double: &Path, directory: &Path) -> PathBuf {
    let path = directory.join("oc");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {log}\n\
         for option in \"$@\"; do case $option in --to=*) to=${{option#--to=}};; --command=*) command=${{option#--command=}};; esac; done\n\
         test -z \"$to\" || cp {double} \"$to/$command\"\n",
        log = directory.join("oc.log").display(),
        double = double.display(),
    );
    testkit::process::place(&path, script);
    path
}

#[test]
fn mirrors_of_one_cluster_are_in_its_install_config_and_not_in_the_extraction() {
    let mut log = PathBuf::new();
    let site = Site::start_with(&Behaviour::default(), |double, directory| {
        log = directory.join("oc.log");
        vec![format!("--oc={}", oc(double, directory).display())]
    });
    let image = "quay.example/ocp/release:4.22.9";
    let conf = "[[registry]]\nlocation = 'quay.example/ocp'\n[[registry.mirror]]\nlocation = 'mirror.example/ocp'\n";
    let ca = certificate_pem();
    let rack = Rack::ready_with(&site, 5, 3, 3, |params| {
        params.ocp_release_image = Some(image.to_owned());
        params.mirror_registry_configuration =
            Some(MirrorRegistry { registries_conf: conf.to_owned(), ca_bundle: ca.clone() });
    });
    let other = Rack::ready_with(&site, 6, 3, 3, |params| params.ocp_release_image = Some(image.to_owned()));
    for rack in [&rack, &other] {
        rack.install(&site);
        site.until("installing", rack, |cluster| cluster["status"] == "installing");
    }
    let config: Value = serde_json::from_slice(&site.file(&rack, "install-config.yaml").unwrap()).unwrap();
    assert_eq!(
        config["imageDigestSources"],
        json!([{"source": "quay.example/ocp", "mirrors": ["mirror.example/ocp"]}])
    );
    assert_eq!(config["additionalTrustBundle"], ca);
    let config: Value = serde_json::from_slice(&site.file(&other, "install-config.yaml").unwrap()).unwrap();
    assert!(config.get("imageDigestSources").is_none() && config.get("additionalTrustBundle").is_none(), "{config}");
    let calls = fs::read_to_string(log).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    let [call] = calls.as_slice() else { panic!("one extraction for both: {calls:?}") };
    assert!(call.starts_with("adm release extract ") && call.contains(image), "{call}");
    assert!(!call.contains("idms-file") && !call.contains("icsp-file") && !call.contains("mirror"), "{call}");

    let url = site.client_url().replace(API, "/metrics");
    let metrics = String::from_utf8(Site::fetch(&url).unwrap()).unwrap();
    for line in [
        "release_cache{releaseId=\"4.22\",hit=\"false\"} 1",
        "release_cache{releaseId=\"4.22\",hit=\"true\"} 1",
        "release_cache_eviction{success=\"true\"} 0",
    ] {
        let line = format!("service_assisted_installer_{line}");
        assert!(metrics.lines().any(|own| own == line), "{line} in {metrics}");
    }
}
