//! Nodes that are added to a cluster which exists, each by its own ISO.

use crate::common::{Files, Running, certificate_pem, pull_secret};
use crate::flow::{Machine, World, machines};
use api::{ApiVipConnectivityRequest, HostRole, HostStage, InfraEnv, StepReply, StepType, Timestamp};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use service_stub::rendezvous::{self, Rendezvous};
use std::sync::Arc;

const ENDPOINT: &str = "https://api-int.edge.example.com:22623/config";

/// What an ISO has of the cluster and of its new nodes.
fn world(platform: &str, nodes: &Value, ca: &str, expires_at: Timestamp) -> World {
    let cluster = json!({
        "kind": "ExistingCluster", "apiName": "api.edge.example.com", "id": "5a1e0000-0000-4000-8000-000000000001", "version": "4.20.3",
        "architecture": "x86_64", "platform": platform, "ignitionEndpoint": {"url": ENDPOINT, "caCertificate": ca},
        "pullSecret": pull_secret(), "expiresAt": expires_at,
    });
    let mut documents = rendezvous::parse("nodes-config.yaml", &nodes.to_string()).unwrap();
    documents.extend(rendezvous::parse("existing-cluster.json", &cluster.to_string()).unwrap());
    let plan = rendezvous::plan(&documents, None).unwrap();
    let machines = machines(1);
    let files = tempfile::tempdir().unwrap();
    let image = files.path().join("os.raw.gz");
    std::fs::write(&image, b"image").unwrap();
    let rendezvous = Arc::new(Rendezvous::new(plan, Some(machines[0].id)));
    let running =
        Running::start(Files { images: vec![image], rendezvous: Some(rendezvous.clone()), ..Files::default() });
    let cluster = running.client().cluster(rendezvous.cluster).unwrap();
    let infra_env = InfraEnv { id: rendezvous.infra_env, ..InfraEnv::default() };
    World { running, cluster, infra_env, machines, _files: files }
}

fn nodes(machine: &Machine) -> Value {
    json!({"hosts": [{"hostname": "worker-9", "interfaces": [{"name": "eth0", "macAddress": machine.mac}],
        "rootDeviceHints": {"deviceName": "/dev/vda"}}]})
}

fn in_an_hour() -> Timestamp {
    Timestamp::from_unix_seconds(Timestamp::now().unix_seconds() + 3600)
}

fn monitored(world: &World) {
    for _ in 0..3 {
        // A step that is taken and not answered is not given again.
        if world.state(0) == "installing" {
            return;
        }
        world.known(0);
        world.running.monitor();
    }
}

#[test]
fn a_node_adds_itself_to_a_cluster_that_exists() {
    let ca = certificate_pem();
    let machine = &machines(1)[0];
    let world = world("BareMetal", &nodes(machine), &ca, in_an_hour());
    let machine = &world.machines[0];
    let cluster = world.running.get(&format!("{}/v2/clusters/{}", crate::flow::API, world.cluster.id)).document();
    assert_eq!(
        (&cluster["imported"], &cluster["name"], &cluster["openshift_cluster_id"]),
        (&json!(true), &json!("edge"), &json!("5a1e0000-0000-4000-8000-000000000001"))
    );
    assert_eq!(cluster["ignition_endpoint"], json!({"url": ENDPOINT, "ca_certificate": BASE64_STANDARD.encode(&ca)}));

    world.register(machine).unwrap();
    let path = format!("/v2/infra-envs/{}/hosts/{}", world.infra_env.id, machine.id);
    assert_eq!(world.running.json("PATCH", &path, &json!({"ignition_endpoint_token": "t0ken"})).status, 201);
    world.poll(machine);
    // It tries where its installed system will ask, as that will.
    let steps = world.running.client().next_steps(world.infra_env.id, machine.id).unwrap().instructions.unwrap();
    let step = steps.iter().find(|step| step.step_type == StepType::ApiVipConnectivityCheck).unwrap();
    let asked: ApiVipConnectivityRequest = serde_json::from_str(&step.args[0]).unwrap();
    assert_eq!(
        (asked.url.as_str(), asked.ca_certificate),
        (&*format!("{ENDPOINT}/worker"), Some(BASE64_STANDARD.encode(&ca)))
    );
    assert_eq!(asked.ignition_endpoint_token.as_deref(), Some("t0ken"));
    let reply = StepReply {
        error: String::new(),
        exit_code: 0,
        output: json!({"is_success": true, "url": asked.url, "ignition": "{}"}).to_string(),
        step_id: step.step_id.clone(),
        step_type: step.step_type.clone(),
    };
    world.running.client().post_reply(world.infra_env.id, machine.id, &reply).unwrap();

    monitored(&world);
    let host = world.host(machine);
    assert_eq!(
        (host.status.as_str(), host.requested_hostname.as_str(), host.role),
        ("installing", "worker-9", HostRole::Worker),
        "{} {}",
        host.status_info,
        host.validations_info
    );
    let request = world.install_request(machine);
    assert_eq!((request.role, request.control_plane_count, request.coreos_image), (HostRole::Worker, 0, None));

    let config = world.running.client().host_ignition(world.infra_env.id, machine.id).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let merged = &config["ignition"]["config"]["merge"][0];
    assert_eq!(merged["source"], format!("{ENDPOINT}/worker"));
    assert_eq!(merged["httpHeaders"], json!([{"name": "Authorization", "value": "Bearer t0ken"}]));
    let authority = config["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"].as_str().unwrap();
    assert_eq!(ignition::data_url::decode(authority).unwrap().data, ca.as_bytes());
    assert!(!config.to_string().contains(&world.running.url), "the service is gone when it boots");

    world.write_disk(machine);
    assert_eq!(world.state(0), "added-to-existing-cluster");
    // Started again, the service finds its records.
    let rendezvous = world.running.service.settings.rendezvous.clone().unwrap();
    rendezvous::begin(&world.running.service, &rendezvous).unwrap();
    world.running.monitor();
    assert_eq!(world.state(0), "added-to-existing-cluster");
}

#[test]
fn neither_an_unknown_machine_nor_one_of_an_expired_iso_is_installed() {
    let other = Machine { mac: "52:54:00:00:00:99".into(), ..machines(1).remove(0) };
    let own = machines(1).remove(0);
    for (machine, expires_at) in [(&other, in_an_hour()), (&own, Timestamp::from_unix_seconds(1_000_000))] {
        let world = world("None", &nodes(machine), &certificate_pem(), expires_at);
        world.register(&world.machines[0]).unwrap();
        monitored(&world);
        assert_eq!(world.state(0), "known");
    }
}

#[test]
fn a_node_that_runs_from_its_disk_needs_a_system_of_the_cluster() {
    let machine = machines(1).remove(0);
    let world = world("None", &nodes(&machine), &certificate_pem(), in_an_hour());
    let machine = &world.machines[0];
    let client = world.running.client();
    world.register(machine).unwrap();
    let answer = |system: Option<&str>| {
        for step in client.next_steps(world.infra_env.id, machine.id).unwrap().instructions.unwrap_or_default() {
            let mut inventory = crate::flow::inventory(&machine.name, &machine.address, &machine.mac);
            inventory["boot"]["device_type"] = "persistent".into();
            let config = json!({"spec": {"osImageURL": system}}).to_string();
            let file = json!({"path": "/etc/ignition-machine-config-encapsulated.json",
                "contents": {"source": format!("data:;base64,{}", BASE64_STANDARD.encode(config))}});
            let fetched = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}).to_string();
            let output = match step.step_type {
                StepType::Inventory => inventory,
                StepType::ApiVipConnectivityCheck => json!({"is_success": true, "ignition": fetched}),
                _ => continue,
            };
            let (output, error) = (output.to_string(), String::new());
            let reply = StepReply { error, exit_code: 0, output, step_id: step.step_id, step_type: step.step_type };
            client.post_reply(world.infra_env.id, machine.id, &reply).unwrap();
        }
    };
    for _ in 0..4 {
        answer(None);
        world.running.monitor();
    }
    assert_eq!(world.state(0), "known");
    let refused = world.act(0, "install", &json!({}));
    assert_eq!(refused.status, 404, "{:?}", refused.document());
    answer(Some("quay.io/os@sha256:0000000000000000000000000000000000000000000000000000000000000001"));
    world.running.monitor();
    assert_eq!(world.state(0), "installing");
    let image = world.install_request(machine).coreos_image.unwrap();
    assert!(image.starts_with("quay.io/os@sha256:"), "{image}");
    let config = client.host_ignition(world.infra_env.id, machine.id).unwrap();
    assert!(String::from_utf8_lossy(&config).contains("cleanup-assisted-discovery-stateroot.service"));
    assert_eq!(world.put(machine, HostStage::WritingImageToDisk, "").map_err(|error| error.to_string()), Ok(()));
}
