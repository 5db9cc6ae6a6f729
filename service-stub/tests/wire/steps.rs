//! The steps of a cluster of five, with their arguments, and the stages of each role.

use super::*;
use api::{HostRole, Timestamp};
use service_stub::instructions::{self, Situation};
use service_stub::payload::Payload;
use std::{path::Path, sync::Arc};

const SKIPS: Meant = meant(
    "install*",
    ".instructions[install].args[0]:.enable_skip_mco_reboot",
    "ours never asks an installer to leave out the reboot: without a config server of its own it would wait 20 minutes for one",
);

struct Rack {
    hosts: Vec<Arc<HostRecord>>,
    cluster: ClusterRecord,
    running: Running,
    payload: Payload,
}

fn load(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

fn args(answer: &Value, kind: &str) -> Value {
    let steps = answer["instructions"].as_array().unwrap();
    let step = steps.iter().find(|step| step["step_type"] == kind).unwrap();
    serde_json::from_str(step["args"][0].as_str().unwrap()).unwrap()
}

impl Rack {
    /// The five hosts as the recorded requests describe them.
    fn new(folder: &Path) -> Self {
        let installs: Vec<Value> =
            (0..5).map(|n| args(&load(folder, &format!("install-step-{n}.json")), "install")).collect();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let cluster_id = ClusterId(id(&text(&installs[0]["cluster_id"])));
        let hosts = installs.iter().enumerate().map(|(n, install)| {
            let key = HostKey {
                infra_env: InfraEnvId(id(&text(&install["infra_env_id"]))),
                host: HostId(id(&text(&install["host_id"]))),
            };
            let mut record = HostRecord::new(key, Some(cluster_id), Timestamp::now());
            let role = text(&install["role"]);
            record.host.bootstrap = role == "bootstrap";
            record.host.role = if role == "worker" { HostRole::Worker } else { HostRole::Master };
            record.host.installation_disk_id = text(&install["boot_device"]);
            record.state = HostState::Insufficient;
            let nic = json!({"name": "ens3", "mac_address": format!("52:54:00:aa:bb:{n:02x}"),
                "ipv4_addresses": [format!("192.168.126.{}/24", 10 + n)]});
            record.set_inventory(json!({"interfaces": [nic]}).to_string());
            Arc::new(record)
        });
        let mut cluster = cluster(cluster_id, ClusterState::Insufficient);
        cluster.cluster.name = "ha".into();
        cluster.cluster.control_plane_count = 3;
        cluster.cluster.user_managed_networking = false;
        cluster.cluster.api_vips = vec![json!({"ip": "192.168.126.100"})];
        cluster.cluster.ingress_vips = vec![json!({"ip": "192.168.126.101"})];
        let files = tempfile::tempdir().unwrap();
        for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
            std::fs::write(files.path().join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
        }
        let images = args(&load(folder, "step-container-image-availability.json"), "container-image-availability");
        let check_images = images["images"].as_array().unwrap().iter().map(text).collect();
        let steps = StepOptions { disk_speed_check: true, check_images, ..StepOptions::default() };
        let running = Running::start(Files { cluster: Some(files.path().to_owned()), steps, ..Files::default() });
        let payload = Payload {
            machine_config_operator: Some(text(&installs[0]["mco_image"])),
            must_gather: Some(text(&installs[0]["must_gather_image"])),
            coreos: None,
        };
        Self { hosts: hosts.collect(), cluster, running, payload }
    }

    /// What a host is told in a state.
    fn instructions(&self, index: usize, state: HostState) -> Value {
        let mut record = HostRecord::clone(&self.hosts[index]);
        record.state = state;
        let steps = instructions::next(&Situation {
            record: &record,
            infra_env: None,
            cluster: Some(&self.cluster),
            peers: &self.hosts,
            machine_networks: &["192.168.126.0/24".parse().unwrap()],
            static_network: false,
            settings: &self.running.service.settings,
            payload: self.payload.clone(),
            image: None,
            now: Timestamp::now(),
            attest: None,
            certify: None,
            hurries: false,
        });
        serde_json::to_value(steps).unwrap()
    }
}

#[test]
fn each_step_asks_what_the_real_service_asks() {
    let Some(folder) = recorded("steps") else { return };
    let rack = Rack::new(&folder);
    let of_state = [
        ("step-inventory.json", HostState::Discovering),
        ("step-connectivity-check.json", HostState::Insufficient),
        ("step-domain-resolution.json", HostState::Insufficient),
        ("step-free-network-addresses.json", HostState::Insufficient),
        ("step-ntp-synchronizer.json", HostState::Insufficient),
        ("step-verify-vips.json", HostState::Insufficient),
        ("step-installation-disk-speed-check.json", HostState::PreparingForInstallation),
        ("step-container-image-availability.json", HostState::PreparingForInstallation),
        ("step-install.json", HostState::Installing),
    ];
    let installs = (0..5).map(|n| (format!("install-step-{n}.json"), n, HostState::Installing));
    let all = of_state.into_iter().map(|(name, state)| (name.to_owned(), 0, state)).chain(installs);
    let (mut found, mut count) = (Vec::new(), 0_u32);
    for (name, index, state) in all {
        count += 1;
        for (place, recorded, ours) in compare::documents(&load(&folder, &name), &rack.instructions(index, state)) {
            let exchange = name.trim_start_matches("step-").to_owned();
            found.push(compare::Difference { number: count, exchange, place, recorded, ours });
        }
    }
    compare::settle("steps", 14, &found, &[&[SKIPS]]);
    assert_eq!(count, 14);
}

#[test]
fn each_role_has_the_stages_of_the_real_service() {
    let Some(folder) = recorded("steps") else { return };
    let rack = Rack::new(&folder);
    let recorded = load(&folder, "progress-stages.json");
    for (name, stages) in recorded.as_object().unwrap() {
        let role = name.split('/').next_back().unwrap();
        let host = rack.hosts.iter().find(|host| match role {
            "bootstrap" => host.host.bootstrap,
            "worker" => host.host.role == HostRole::Worker,
            _ => host.host.role == HostRole::Master && !host.host.bootstrap,
        });
        let ours = service_stub::pass::stages(host.unwrap(), Some(&rack.cluster));
        assert_eq!(serde_json::to_value(ours).unwrap(), *stages, "{name}");
    }
}
