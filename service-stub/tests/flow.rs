//! From nothing to an installed cluster, with agents that only speak HTTP.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

#[path = "people/browser.rs"]
mod browser;
#[path = "people/commands.rs"]
mod commands;
use crate::common;
use crate::iso;
#[path = "people/lifecycle.rs"]
mod lifecycle;
#[path = "people/misfortunes.rs"]
mod misfortunes;
#[path = "people/nodes.rs"]
mod nodes;
#[path = "people/page.rs"]
mod page;
#[path = "people/rack.rs"]
mod rack;
#[path = "people/settings.rs"]
mod settings;

use api::{
    ClientError, Cluster, ClusterCreateParams, HostCreateParams, HostId, HostProgress, HostRole, HostStage,
    HostUpdateParams, InfraEnv, InfraEnvCreateParams, InstallRequest, Secret, StepReply, StepType,
};
use common::{API, Files, Running, connectivity, inventory, pull_secret};
use serde_json::{Value, json};
use std::path::Path;

struct Machine {
    id: HostId,
    name: String,
    address: String,
    mac: String,
}

fn machines(count: usize) -> Vec<Machine> {
    (1..=count)
        .map(|n| Machine {
            id: HostId::random(),
            name: format!("node-{n}"),
            address: format!("10.0.0.{n}"),
            mac: format!("52:54:00:00:00:{n:02x}"),
        })
        .collect()
}

struct World {
    running: Running,
    cluster: Cluster,
    infra_env: InfraEnv,
    machines: Vec<Machine>,
    _files: tempfile::TempDir,
}

impl World {
    fn new(masters: u32, hosts: usize) -> Self {
        Self::start(masters, hosts, true)
    }

    /// Hosts register in an infra-env that is the cluster's, or nobody's.
    fn start(masters: u32, hosts: usize, bound: bool) -> Self {
        Self::start_with(masters, hosts, bound, |_| Files::default())
    }

    /// With more on offer, kept in the directory given.
    fn start_with(masters: u32, hosts: usize, bound: bool, offer: impl FnOnce(&Path) -> Files) -> Self {
        let files = tempfile::tempdir().unwrap();
        let image = files.path().join("os.raw.gz");
        std::fs::write(&image, b"image").unwrap();
        let running = Running::start(Files { images: vec![image], ..offer(files.path()) });
        let client = running.client();
        let cluster = client
            .create_cluster(&ClusterCreateParams {
                name: "rack".into(),
                openshift_version: "4.22".into(),
                base_dns_domain: Some("example.com".into()),
                control_plane_count: Some(masters.into()),
                user_managed_networking: Some(true),
                pull_secret: Secret::new(pull_secret()),
                ssh_public_key: Some(
                    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g key".into(),
                ),
                ..ClusterCreateParams::default()
            })
            .unwrap();
        assert_eq!(
            (cluster.status.as_str(), cluster.status_info.as_str()),
            ("insufficient", "Cluster is not ready for install")
        );
        let infra_env = client
            .create_infra_env(&InfraEnvCreateParams {
                name: "rack".into(),
                cluster_id: bound.then_some(cluster.id),
                pull_secret: Secret::new(pull_secret()),
                ..InfraEnvCreateParams::default()
            })
            .unwrap();
        Self { running, cluster, infra_env, machines: machines(hosts), _files: files }
    }

    fn host(&self, machine: &Machine) -> api::Host {
        let hosts = self.running.client().hosts(self.infra_env.id).unwrap();
        hosts.into_iter().find(|host| host.id == machine.id).unwrap()
    }

    fn cluster_record(&self) -> Cluster {
        self.running.client().cluster(self.cluster.id).unwrap()
    }

    fn install(&self) {
        self.running.client().install_cluster(self.cluster.id).unwrap();
        self.running.monitor();
        assert_eq!(self.status(), "installing");
    }

    fn status(&self) -> String {
        self.running.client().cluster(self.cluster.id).unwrap().status
    }

    fn register(&self, machine: &Machine) -> Result<api::HostRegistration, ClientError> {
        let params = HostCreateParams { host_id: machine.id, discovery_agent_version: "localhost/agent:1".into() };
        self.running.client().register_host(self.infra_env.id, &params)
    }

    /// Polls once and answers every step as a healthy machine does.
    fn poll(&self, machine: &Machine) -> Vec<StepType> {
        let client = self.running.client();
        let steps = client.next_steps(self.infra_env.id, machine.id).unwrap().instructions.unwrap_or_default();
        let reply = |step: &api::Step, output: Value| StepReply {
            error: String::new(),
            exit_code: 0,
            output: output.to_string(),
            step_id: step.step_id.clone(),
            step_type: step.step_type.clone(),
        };
        for step in &steps {
            match step.step_type {
                StepType::Inventory => {
                    assert_eq!(step.args, [machine.id.to_string()]);
                    let inventory = inventory(&machine.name, &machine.address, &machine.mac);
                    self.tell(machine, &reply(step, inventory));
                }
                StepType::ConnectivityCheck => {
                    let report = connectivity(step);
                    self.tell(machine, &reply(step, report));
                }
                StepType::FreeNetworkAddresses => {
                    assert_eq!(step.args, ["[\"10.0.0.0/24\"]"]);
                    let free = json!([{"network": "10.0.0.0/24", "free_addresses": []}]);
                    client.post_reply(self.infra_env.id, machine.id, &reply(step, free)).unwrap();
                }
                StepType::ApiVipConnectivityCheck => {
                    let asked: api::ApiVipConnectivityRequest = serde_json::from_str(&step.args[0]).unwrap();
                    let fetched = json!({"is_success": true, "url": asked.url, "ignition": "{}"});
                    client.post_reply(self.infra_env.id, machine.id, &reply(step, fetched)).unwrap();
                }
                StepType::VerifyVips => {
                    let asked: Vec<api::VerifyVip> = serde_json::from_str(&step.args[0]).unwrap();
                    let in_use = |vip: &str| if vip.ends_with(".66") { "failed" } else { "succeeded" };
                    let verified = asked.iter().map(|asked| {
                        json!({"vip": asked.vip, "vip_type": asked.vip_type, "verification": in_use(&asked.vip)})
                    });
                    let verified = verified.collect::<Vec<_>>();
                    client.post_reply(self.infra_env.id, machine.id, &reply(step, json!(verified))).unwrap();
                }
                _ => {}
            }
        }
        steps.into_iter().map(|step| step.step_type).collect()
    }

    /// Too late where the installation has begun by itself meanwhile.
    fn tell(&self, machine: &Machine, reply: &StepReply) {
        if let Err(error) = self.running.client().post_reply(self.infra_env.id, machine.id, reply) {
            let status = self.host(machine).status;
            assert!(status.starts_with("preparing") || status.starts_with("installing"), "{status}: {error}");
        }
    }

    fn discover_all(&self) {
        for machine in &self.machines {
            self.register(machine).unwrap();
        }
        // Inventory, then who is there to reach, then what is reached.
        for _ in 0..3 {
            for machine in &self.machines {
                self.poll(machine);
            }
        }
    }

    fn put(&self, machine: &Machine, current_stage: HostStage, info: &str) -> Result<(), ClientError> {
        let progress = HostProgress { current_stage, progress_info: info.into() };
        self.running.client().put_progress(self.infra_env.id, machine.id, &progress)
    }

    fn install_request(&self, machine: &Machine) -> InstallRequest {
        let steps = self.running.client().next_steps(self.infra_env.id, machine.id).unwrap();
        let steps = steps.instructions.unwrap();
        assert_eq!((steps.len(), &steps[0].step_type), (1, &StepType::Install));
        serde_json::from_str(&steps[0].args[0]).unwrap()
    }

    /// Up to the reboot.
    fn write_disk(&self, machine: &Machine) {
        use HostStage as S;
        let worker = self.host(machine).role == HostRole::Worker;
        self.put(machine, S::StartingInstallation, "master").unwrap();
        self.put(machine, S::Installing, "master").unwrap();
        self.put(machine, S::WritingImageToDisk, "").unwrap();
        self.put(machine, S::WritingImageToDisk, "50%").unwrap();
        if worker {
            self.put(machine, S::WaitingForControlPlane, "").unwrap();
        }
        self.put(machine, S::Rebooting, "").unwrap();
    }

    /// What Ignition fetches on the first boot; a curious person with curl changes nothing.
    fn follow_pointer(&self, machine: &Machine) {
        let config: Value =
            serde_json::from_slice(&self.running.client().host_ignition(self.infra_env.id, machine.id).unwrap())
                .unwrap();
        let source = config["ignition"]["config"]["merge"][0]["source"].as_str().unwrap();
        let path = source.strip_prefix(&self.running.url).unwrap();
        assert_eq!(self.running.request("GET", path, &[("user-agent", "curl/8")], b"").status, 200);
        assert_eq!(self.host(machine).progress.unwrap().current_stage, Some(HostStage::Rebooting));
        let fetched = self.running.request("GET", path, &[("user-agent", "Ignition/2.14.0")], b"");
        assert_eq!(fetched.document()["ignition"]["version"], "3.2.0");
        assert_eq!(self.host(machine).progress.unwrap().current_stage, Some(HostStage::Configuring));
    }
}

#[test]
fn virtual_addresses_are_looked_for_and_must_be_free() {
    let world = World::new(3, 3);
    let set = |settings: Value| {
        let answer = world.running.json("PATCH", &format!("/v2/clusters/{}", world.cluster.id), &settings);
        (answer.status, answer.document()["reason"].as_str().unwrap_or_default().to_owned())
    };
    let with_api = |api: &str| json!({"api_vips": [{"ip": api}], "ingress_vips": [{"ip": "10.0.0.67"}]});
    let validation = |id: &str| {
        let cluster = world.running.client().cluster(world.cluster.id).unwrap();
        let all: Value = serde_json::from_str(&cluster.validations_info).unwrap();
        let list = all["network"].as_array().unwrap();
        list.iter().find(|finding| finding["id"] == id).unwrap()["status"].as_str().unwrap().to_owned()
    };
    let unknown = |vip: &str| format!("Calculate machine network CIDR: No suitable matching CIDR found for VIP {vip}");
    assert_eq!(set(json!({"user_managed_networking": false})).0, 201);
    assert_eq!(set(with_api("10.0.0.66")), (400, unknown("10.0.0.66")), "no machine is known yet");
    world.discover_all();
    assert_eq!(set(with_api("10.0.0.66")).0, 201);
    world.poll(&world.machines[0]);
    assert_eq!((world.status().as_str(), validation("api-vips-valid").as_str()), ("insufficient", "failure"), "in use");
    assert_eq!(validation("ingress-vips-valid"), "success");
    assert_eq!(set(with_api("10.0.0.65")).0, 201);
    assert_eq!(validation("api-vips-valid"), "failure", "not looked for yet");
    world.poll(&world.machines[0]);
    assert_eq!((world.status().as_str(), validation("api-vips-valid").as_str()), ("ready", "success"));
    let elsewhere =
        "1 error occurred:\n\t* api-vip <192.168.7.1> does not belong to machine-network-cidr <10.0.0.0/24>\n\n";
    assert_eq!(set(with_api("192.168.7.1")), (400, elsewhere.to_owned()), "the network is known by now");
    assert_eq!(world.status(), "ready");
}

#[test]
fn four_machines_become_a_cluster() {
    let world = World::new(3, 4);
    let registration = world.register(&world.machines[0]).unwrap();
    assert_eq!(registration.host.status, "discovering");
    assert_eq!(registration.host.requested_hostname, world.machines[0].id.to_string());
    let args = registration.next_step_runner_command.unwrap().args;
    let request: api::NextStepRequest = serde_json::from_str(&args[0]).unwrap();
    assert_eq!(request.agent_version, "localhost/agent:1", "the agent goes on as what it is");

    world.discover_all();
    for machine in &world.machines {
        let host = world.host(machine);
        assert_eq!(
            (host.status.as_str(), host.status_info.as_str()),
            ("known", "Host is ready to be installed"),
            "{}",
            host.validations_info
        );
        assert_eq!(host.installation_disk_id, "/dev/disk/by-path/virtio-0");
        assert_eq!(host.requested_hostname, machine.name);
        let inventory: Value = serde_json::from_str(&host.inventory).unwrap();
        assert_eq!(inventory["interfaces"].as_array().unwrap().len(), 1, "the loopback can't carry a cluster");
        assert_eq!(inventory["disks"][0]["installation_eligibility"]["eligible"], true);
    }
    assert_eq!(world.status(), "ready");

    let installing = world.running.client().install_cluster(world.cluster.id).unwrap();
    assert_eq!(installing.status, "preparing-for-installation");
    world.running.monitor();
    assert_eq!(world.status(), "installing");
    let cluster = world.running.json("GET", &format!("/v2/clusters/{}", world.cluster.id), &json!(null)).document();
    let prepared = json!({"status": "success", "reason": "Installation preparation successful"});
    assert_eq!(cluster["last-installation-preparation"], prepared);
    let roles: Vec<HostRole> = world.machines.iter().map(|machine| world.host(machine).role).collect();
    assert_eq!(roles.iter().filter(|role| **role == HostRole::Master).count(), 3);
    assert_eq!(roles.iter().filter(|role| **role == HostRole::Worker).count(), 1);

    for machine in &world.machines {
        let request = world.install_request(machine);
        assert_eq!(request.control_plane_count, 0);
        assert_eq!(request.boot_device, "/dev/disk/by-path/virtio-0");
        let args: Vec<String> = serde_json::from_str(request.installer_args.as_deref().unwrap()).unwrap();
        let karg = format!("ip={}:dhcp", machine.mac.replace(':', "-"));
        let image = format!("{}/boot-artifacts/os/os.raw.gz", world.running.url);
        assert_eq!(args, ["--append-karg", &karg, "--image-url", &image]);
        world.write_disk(machine);
        assert_eq!(world.host(machine).status, "installing-in-progress");
        assert_eq!(world.poll(machine), [], "the step is handed out until the first progress");
        world.follow_pointer(machine);
    }
    let writing = world.running.client().cluster(world.cluster.id).unwrap().progress.unwrap();
    assert!((10..95).contains(&writing.total_percentage), "{writing:?}");
    // The cluster is finalized with its last master, so the worker goes first; which one it is follows from random ids.
    let mut order: Vec<&Machine> = world.machines.iter().collect();
    order.sort_by_key(|machine| world.host(machine).role == HostRole::Master);
    for machine in order {
        world.put(machine, HostStage::Joined, "").unwrap();
        assert_eq!(world.status(), "installing");
        world.put(machine, HostStage::Done, "").unwrap();
        assert_eq!(world.host(machine).status, "installed");
    }
    let cluster = world.running.client().cluster(world.cluster.id).unwrap();
    assert_eq!((cluster.status.as_str(), cluster.status_info.as_str()), ("installed", "Cluster is installed"));
    assert_eq!(cluster.progress.unwrap().total_percentage, 100);
    assert!(!cluster.install_completed_at.is_zero());

    let refused = world.register(&world.machines[0]).unwrap_err();
    assert_eq!(refused.status(), Some(409), "an installed host that boots the ISO is told so");
    let events = world.running.get(&format!("{API}/v2/events?cluster_id={}", world.cluster.id)).document();
    let names: Vec<&str> = events.as_array().unwrap().iter().map(|event| event["name"].as_str().unwrap()).collect();
    for name in [
        "cluster_registration_succeeded",
        "host_registration_succeeded",
        "host_install_progress_updated",
        "cluster_installation_completed",
        "host_registration_failed",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for event in events.as_array().unwrap() {
        let message = event["message"].as_str().unwrap();
        assert!(!message.contains('{'), "a detail is missing: {event}");
    }
    let metrics = String::from_utf8(world.running.get("/metrics").body).unwrap();
    for line in [
        "service_assisted_installer_cluster_creations 1",
        "service_assisted_installer_cluster_installation_started 1",
        "service_assisted_installer_cluster_installation_seconds_count{result=\"installed\"} 1",
        "service_assisted_installer_cluster_hosts{role=\"worker\",result=\"Done\"} 1",
        "service_assisted_installer_cluster_hosts{role=\"master\",result=\"Done\"} 3",
        "service_assisted_installer_host_installation_phase_seconds_count{phase=\"Rebooting\",result=\"Done\"} 4",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line} in {metrics}");
    }
}

#[test]
fn only_our_own_agent_comes_sooner_and_no_step_runs_twice() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    world.register(machine).unwrap();
    let path = format!("{API}/v2/infra-envs/{}/hosts/{}/instructions", world.infra_env.id, machine.id);
    let poll = |agent: &str| world.running.request("GET", &path, &[("user-agent", agent)], b"").document();
    let first = poll("Go-http-client/1.1");
    assert_eq!(first["instructions"][0]["step_type"], "inventory");
    assert_eq!(first["next_instruction_seconds"], 60);
    assert_eq!(poll("Go-http-client/1.1")["instructions"], Value::Null, "it runs");
    let own = world.running.client().next_steps(world.infra_env.id, machine.id).unwrap();
    assert_eq!((own.instructions, own.next_instruction_seconds), (None, 1), "not for our own agent either");
    let failed = json!({"step_type": "inventory", "step_id": "x", "exit_code": 1, "error": "why"}).to_string();
    assert_eq!(world.running.request("POST", &path, &[], failed.as_bytes()).status, 204);
    assert_eq!(poll("curl/8")["instructions"][0]["step_type"], "inventory", "its reply has come");
    world.register(machine).unwrap();
    assert_eq!(poll("curl/8")["instructions"][0]["step_type"], "inventory", "the agent starts anew");
    for reply in [json!({"step_id": "x"}), json!({"step_type": "", "output": "whatever", "error": "noise"})] {
        assert_eq!(world.running.request("POST", &path, &[], reply.to_string().as_bytes()).status, 204, "{reply}");
    }
}

#[test]
fn settings_of_hosts_are_checked_and_used() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    world.discover_all();
    let client = world.running.client();
    let set = |params: HostUpdateParams| client.update_host(world.infra_env.id, machine.id, &params);
    let named = set(HostUpdateParams { host_name: Some("other".into()), ..HostUpdateParams::default() }).unwrap();
    assert_eq!(named.requested_hostname, "other");
    let bad = set(HostUpdateParams { host_name: Some("Bad_Name".into()), ..HostUpdateParams::default() });
    assert_eq!(bad.unwrap_err().status(), Some(400));
    let disk = |id: &str| HostUpdateParams {
        disks_selected_config: Some(vec![api::DiskConfigParams { id: id.into(), role: "install".into() }]),
        ..HostUpdateParams::default()
    };
    assert_eq!(set(disk("/dev/sr0")).unwrap_err().status(), Some(409), "not eligible");
    assert_eq!(set(disk("/dev/gone")).unwrap_err().status(), Some(409));
    set(disk("/dev/vda")).unwrap();

    let path = format!("/v2/infra-envs/{}/hosts/{}", world.infra_env.id, machine.id);
    let args = json!({"args": ["--append-karg", "ip=dhcp", "--image-url", "http://mirror/os.raw"]});
    assert_eq!(world.running.json("PATCH", &format!("{path}/installer-args"), &args).status, 201);
    let bad = json!({"args": ["--insecure"]});
    assert_eq!(world.running.json("PATCH", &format!("{path}/installer-args"), &bad).status, 400);
    let config = json!({"config": json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "/etc/x", "contents": {"source": "data:,x"}}]}}).to_string()});
    assert_eq!(world.running.json("PATCH", &format!("{path}/ignition"), &config).status, 201);
    assert_eq!(world.running.json("PATCH", &format!("{path}/ignition"), &json!({"config": "{"})).status, 400);
    assert_eq!(
        world.running.get(&format!("{API}{path}/ignition")).status,
        409,
        "there is none before the installation"
    );

    assert_eq!(client.host_ignition(world.infra_env.id, machine.id).unwrap_err().status(), Some(409), "too early");
    world.install();
    let request = world.install_request(machine);
    let args: Vec<String> = serde_json::from_str(request.installer_args.as_deref().unwrap()).unwrap();
    assert_eq!(
        args,
        ["--append-karg", "ip=dhcp", "--image-url", "http://mirror/os.raw"],
        "the user's image and network"
    );
    let config: Value = serde_json::from_slice(&client.host_ignition(world.infra_env.id, machine.id).unwrap()).unwrap();
    let text = config.to_string();
    let as_text = world.running.get(&format!("{API}{path}/ignition")).document();
    assert_eq!(serde_json::from_str::<Value>(as_text["config"].as_str().unwrap()).unwrap(), config);
    assert!(
        text.contains("/etc/x")
            && text.contains("data:,other")
            && text.contains("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g key"),
        "{text}"
    );
    let late = set(HostUpdateParams { host_name: Some("late".into()), ..HostUpdateParams::default() });
    assert_eq!(late.unwrap_err().status(), Some(409));
}

#[test]
fn an_installation_that_can_not_start_says_why() {
    let world = World::new(1, 1);
    let refused = world.running.client().install_cluster(world.cluster.id).unwrap_err();
    assert_eq!(refused.status(), Some(409));
    assert!(refused.to_string().contains("Cluster is not ready for installation, "), "{refused}");
}
