//! Images in install requests: from the release image in a registry, from options, or none.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::{
    Cluster, ClusterId, Host, HostId, HostRole, InfraEnv, InfraEnvId, InstallRequest, Secret, StepType, Timestamp,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use common::{Files, Running};
use netcheck::image::{ImageOptions, registries};
use serde_json::{Value, json};
use service_stub::model::{ClusterRecord, HostKey, HostRecord, InfraEnvRecord};
use service_stub::payload::ImageArgs;
use service_stub::state::{ClusterState, HostState};
use service_stub::store::StoreError;
use std::sync::Arc;
use testkit::registry::{self, PASSWORD, Registry, USER};

const MCO: &str = "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:3abb327d574eaa5d0027d7ab6a0cb5d8571c470d519bcc1d6f980890e4411687";
const MUST_GATHER: &str = "quay.io/openshift-release-dev/ocp-v4.0-art-dev:must-gather";

/// A service with a host that is to be installed, in a cluster with this release image.
struct World {
    running: Running,
    cluster: ClusterId,
    key: HostKey,
    _files: tempfile::TempDir,
}

impl World {
    fn new(image: &str, pull_secret: &Value, image_args: ImageArgs) -> Self {
        let files = tempfile::tempdir().unwrap();
        for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
            std::fs::write(files.path().join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
        }
        let host = image.split('/').next().unwrap();
        let insecure = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
        let options = ImageOptions {
            registries: registries::parse(&insecure).unwrap(),
            architecture: "amd64".into(),
            ..ImageOptions::default()
        };
        let offered = Files {
            cluster: Some(files.path().to_owned()),
            registry: Some(Arc::new(options)),
            image_args,
            ..Files::default()
        };
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let id = ClusterId::random();
        let running = Running::start_with(offered, |store| {
            let cluster = Cluster {
                id,
                name: "rack".into(),
                kind: "Cluster".into(),
                control_plane_count: 1,
                openshift_version: "4.22.9".into(),
                install_started_at: Timestamp::now(),
                status_updated_at: Timestamp::now(),
                ..Cluster::default()
            };
            let mut cluster =
                ClusterRecord::new(ClusterState::Installing, cluster, Secret::new(pull_secret.to_string()));
            cluster.settings.insert("ocp_release_image".into(), image.into());
            let mut host = HostRecord::new(key, Some(id), Timestamp::now());
            host.state = HostState::Installing;
            host.host = Host {
                bootstrap: true,
                role: HostRole::Master,
                installation_disk_id: "/dev/null".into(),
                status_updated_at: Timestamp::now(),
                ..host.host
            };
            let infra_env = InfraEnv { id: key.infra_env, cluster_id: Some(id), ..InfraEnv::default() };
            let infra_env = InfraEnvRecord { infra_env, ..InfraEnvRecord::default() };
            let put = store.change("", |change| {
                change.put_cluster(cluster);
                change.put_infra_env(infra_env);
                change.put_host(host);
                Ok::<_, StoreError>(())
            });
            put.unwrap();
        });
        Self { running, cluster: id, key, _files: files }
    }

    fn request(&self) -> InstallRequest {
        let steps = self.running.client().next_steps(self.key.infra_env, self.key.host).unwrap();
        let step = steps.instructions.unwrap().into_iter().find(|step| step.step_type == StepType::Install).unwrap();
        serde_json::from_str(&step.args[0]).unwrap()
    }

    fn warnings(&self) -> Vec<Value> {
        let path = format!("{}/v2/events?cluster_id={}", common::API, self.cluster);
        let all = self.running.get(&path).document();
        let all = all.as_array().unwrap().iter();
        all.filter(|event| event["name"] == "release_image_unreadable").cloned().collect()
    }
}

/// Waits for what happens in the background.
fn wait(what: &str, ready: impl Fn() -> bool) {
    assert!(testkit::wait::comes(ready), "never: {what}");
}

fn pull_secret(registry: &str, password: &str) -> Value {
    json!({"auths": {registry: {"auth": BASE64_STANDARD.encode(format!("{USER}:{password}"))}}})
}

fn references() -> Value {
    let tag = |name: &str, image: &str| json!({"name": name, "from": {"kind": "DockerImage", "name": image}});
    let tags = [tag("cli", "quay.io/cli:1"), tag("machine-config-operator", MCO), tag("must-gather", MUST_GATHER)];
    json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": tags}})
}

#[test]
fn a_request_names_what_the_release_image_names() {
    let Some(registry) = Registry::start(env!("CARGO_TARGET_TMPDIR")) else { return };
    let text = references().to_string();
    let layers = [
        registry::layer(&[("etc/os-release", b"NAME=x"), ("release-manifests/image-references", b"of an older base")]),
        registry::layer(&[("release-manifests/image-references", text.as_bytes()), ("release-manifests/0.yaml", b"x")]),
        registry::layer(&[("usr/share/doc", b"a later layer")]),
    ];
    registry.push("ocp/release", "4.22.9", &layers);
    let image = format!("{}/ocp/release:4.22.9", registry.address);
    let world = World::new(&image, &pull_secret(&registry.address, PASSWORD), ImageArgs::default());
    wait("the release image read", || world.running.service.payloads.get(&image).is_some());
    let request = world.request();
    assert_eq!((request.mco_image.as_deref(), request.must_gather_image.as_deref()), (Some(MCO), Some(MUST_GATHER)));
    assert_eq!(request.openshift_version.as_deref(), Some("4.22.9"));
    assert_eq!(world.warnings(), [] as [Value; 0]);

    // Options come before it, each for itself.
    let named = ImageArgs { mco_images: vec!["4.22=r.io/mco:1".parse().unwrap()], ..ImageArgs::default() };
    let world = World::new(&image, &pull_secret(&registry.address, PASSWORD), named);
    wait("the release image read", || world.running.service.payloads.get(&image).is_some());
    let request = world.request();
    assert_eq!(request.mco_image.as_deref(), Some("r.io/mco:1"));
    assert_eq!(request.must_gather_image.as_deref(), Some(MUST_GATHER));

    // The cluster's own credentials count.
    let world = World::new(&image, &pull_secret(&registry.address, "wrong"), ImageArgs::default());
    wait("a warning", || !world.warnings().is_empty());
    let said = world.warnings()[0]["message"].as_str().unwrap().to_owned();
    assert!(said.contains(&image) && said.contains("refuses the credentials of user 'tester'"), "{said}");
    assert!(!said.contains("wrong"), "{said}");

    // An image without the file says so.
    registry.push("ocp/other", "1", &layers[2..]);
    let image = format!("{}/ocp/other:1", registry.address);
    let world = World::new(&image, &pull_secret(&registry.address, PASSWORD), ImageArgs::default());
    wait("a warning", || !world.warnings().is_empty());
    let said = world.warnings()[0]["message"].as_str().unwrap().to_owned();
    assert!(said.ends_with("none of its last 1 layers has release-manifests/image-references"), "{said}");
}

#[test]
fn without_a_registry_a_request_names_no_image_and_no_poll_waits() {
    let image = "127.0.0.1:1/ocp/release:4.22.9";
    let world = World::new(image, &pull_secret("127.0.0.1:1", PASSWORD), ImageArgs::default());
    let steps = world.running.client().next_steps(world.key.infra_env, world.key.host).unwrap();
    let step = steps.instructions.unwrap().into_iter().find(|step| step.step_type == StepType::Install).unwrap();
    let request: Value = serde_json::from_str(&step.args[0]).unwrap();
    assert!(request.get("mco_image").is_none() && request.get("must_gather_image").is_none(), "{request}");
    wait("a warning", || !world.warnings().is_empty());
    let warnings = world.warnings();
    assert_eq!((warnings.len(), &warnings[0]["severity"]), (1, &json!("warning")));
    assert!(warnings[0]["message"].as_str().unwrap().contains("cannot connect to 127.0.0.1:1"), "{warnings:?}");
}

#[test]
fn where_options_name_both_no_release_image_is_read() {
    let image = "127.0.0.1:1/ocp/release:4.22.9";
    let named = ImageArgs {
        mco_images: vec!["r.io/mco:1".parse().unwrap()],
        must_gather_images: vec!["4.22.9=r.io/mg:1".parse().unwrap()],
    };
    let world = World::new(image, &pull_secret("127.0.0.1:1", PASSWORD), named);
    assert!(!service_stub::payload::read_one(&world.running.service).unwrap(), "nothing is wanted");
    let request = world.request();
    assert_eq!(request.mco_image.as_deref(), Some("r.io/mco:1"));
    assert_eq!(request.must_gather_image.as_deref(), Some("r.io/mg:1"));
}
