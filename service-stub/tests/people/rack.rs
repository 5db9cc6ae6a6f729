//! A rack that is installed from within, by one of its own hosts.

use crate::common::{Files, Running, pull_secret};
use crate::flow::{Machine, World, machines};
use api::{HostRole, HostStage, InfraEnv};
use serde_json::{Value, json};
use service_stub::rendezvous::{self, HANDOVER_PATH, Rendezvous};
use std::{io::Read, sync::Arc};

/// What a rack of three is told from within.
fn rack(hosts: &[Machine]) -> String {
    let host = |(index, machine): (usize, &Machine)| {
        json!({"kind": "BareMetalHost", "metadata": {"annotations": {
                "bmac.agent-install.openshift.io/hostname": format!("rack-{index}"),
                "bmac.agent-install.openshift.io/role": "master",
                "bmac.agent-install.openshift.io/installer-args": r#"["--append-karg","quiet"]"#}},
            "spec": {"bootMACAddress": machine.mac, "rootDeviceHints": {"deviceName": "/dev/vda"}}})
    };
    let pull_secret = pull_secret();
    let cluster = [
        json!({"kind": "ClusterDeployment", "spec": {"clusterName": "rack", "baseDomain": "example.com"}}),
        json!({"kind": "AgentClusterInstall", "spec": {"platformType": "None", "provisionRequirements": {"controlPlaneAgents": 3}}}),
        json!({"kind": "ClusterImageSet", "metadata": {"name": "x"}, "spec": {"releaseImage": "r.io/x:4.22.0"}}),
        json!({"kind": "Secret", "metadata": {"name": "x"}, "stringData": {".dockerconfigjson": pull_secret}}),
    ];
    cluster.into_iter().chain(hosts.iter().enumerate().map(host)).map(|one| format!("---\n{one}\n")).collect()
}

#[test]
fn a_rack_is_installed_from_within_and_the_host_that_serves_goes_last() {
    let machines = machines(3);
    let files = tempfile::tempdir().unwrap();
    let image = files.path().join("os.raw.gz");
    std::fs::write(&image, b"image").unwrap();
    let plan = rendezvous::plan(&rendezvous::parse("rack.yaml", &rack(&machines)).unwrap(), None).unwrap();
    let rendezvous = Arc::new(Rendezvous::new(plan, Some(machines[0].id)));
    let running =
        Running::start(Files { images: vec![image], rendezvous: Some(rendezvous.clone()), ..Files::default() });
    let ids = running.get("/landfall/rendezvous").document();
    assert_eq!(ids, json!({"cluster_id": rendezvous.cluster, "infra_env_id": rendezvous.infra_env}));
    let cluster = running.client().cluster(rendezvous.cluster).unwrap();
    let infra_env = InfraEnv { id: rendezvous.infra_env, ..InfraEnv::default() };
    let world = World { running, cluster, infra_env, machines, _files: files };
    let [own, others @ ..] = world.machines.as_slice() else { panic!() };
    let look = || world.running.monitor();

    // Two of three: nothing starts, though all is well with them.
    for machine in others {
        world.register(machine).unwrap();
    }
    for _ in 0..3 {
        others.iter().for_each(|machine| drop(world.poll(machine)));
        look();
    }
    assert_eq!(world.host(&others[0]).requested_hostname, "rack-1");
    assert_eq!(world.host(&others[0]).role, HostRole::Master);
    assert!(world.cluster_record().install_started_at.is_zero());

    // All three: it starts by itself, and once.
    world.discover_all();
    (0..3).for_each(|_| look());
    assert_eq!(world.status(), "installing", "{}", world.host(own).validations_info);
    let held = world.host(own);
    assert_eq!(held.status, "preparing-successful");
    assert!(held.status_info.ends_with("installed last: waiting for rack-1, rack-2"), "{}", held.status_info);
    assert_eq!(world.poll(own), [], "nothing to do before the others are done");
    for machine in others {
        let args: Vec<String> =
            serde_json::from_str(world.install_request(machine).installer_args.as_deref().unwrap()).unwrap();
        assert_eq!(args[..2], ["--append-karg", "quiet"]);
        world.write_disk(machine);
        world.follow_pointer(machine);
        assert_eq!(world.host(own).status, "preparing-successful");
        world.put(machine, HostStage::Joined, "").unwrap();
        world.put(machine, HostStage::Done, "").unwrap();
    }
    look();
    assert_eq!(world.host(own).status, "installing");
    world.install_request(own);

    // It has nowhere to ask and nobody to tell when it boots, and the records with it, without their secrets.
    let config = world.running.client().host_ignition(world.infra_env.id, own.id).unwrap();
    let text = String::from_utf8(config).unwrap();
    assert!(!text.contains(&world.running.url), "{text}");
    let config: Value = serde_json::from_str(&text).unwrap();
    let files = config["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == HANDOVER_PATH).unwrap();
    let packed = base64(file["contents"]["source"].as_str().unwrap().strip_prefix("data:;base64,").unwrap());
    let mut records = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut records).unwrap();
    assert!(!records.contains("dXNlcjpwYXNz"), "{records}");
    let records: Value = serde_json::from_str(&records).unwrap();
    let states: Vec<&str> =
        records["cluster"]["hosts"].as_array().unwrap().iter().map(|host| host["status"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "installed").count(), 2, "{states:?}");
    assert!(records["events"].as_array().unwrap().len() > 10);
}

#[test]
fn a_service_beside_the_rack_leaves_the_bootstrap_host_to_the_election() {
    let machines = machines(3);
    let files = tempfile::tempdir().unwrap();
    let image = files.path().join("os.raw.gz");
    std::fs::write(&image, b"image").unwrap();
    let cluster = files.path().join("cluster");
    std::fs::create_dir(&cluster).unwrap();
    for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
        std::fs::write(cluster.join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
    }
    let plan = rendezvous::plan(&rendezvous::parse("rack.yaml", &rack(&machines)).unwrap(), None).unwrap();
    let rendezvous = Arc::new(Rendezvous::new(plan, Some(api::HostId::random())));
    let offered =
        Files { images: vec![image], cluster: Some(cluster), rendezvous: Some(rendezvous.clone()), ..Files::default() };
    let running = Running::start(offered);
    let cluster = running.client().cluster(rendezvous.cluster).unwrap();
    let infra_env = InfraEnv { id: rendezvous.infra_env, ..InfraEnv::default() };
    let world = World { running, cluster, infra_env, machines, _files: files };
    world.discover_all();
    (0..3).for_each(|_| world.running.monitor());
    assert_eq!(world.status(), "installing");
    let elected = world.machines.iter().filter(|machine| world.host(machine).bootstrap).count();
    assert_eq!(elected, 1);
}

fn base64(text: &str) -> Vec<u8> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    BASE64_STANDARD.decode(text).unwrap()
}
