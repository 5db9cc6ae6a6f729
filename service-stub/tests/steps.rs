//! Steps that somebody asks for, and what becomes of the replies.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::{
    ClusterCreateParams, ClusterId, HostCreateParams, HostId, InfraEnvCreateParams, InfraEnvId, Secret, Step,
    StepReply, StepType, Timestamp,
};
use common::{API, Files, Running, connectivity, inventory, pull_secret};
use serde_json::{Value, json};
use service_stub::instructions::options::StepOptions;
use service_stub::retention::{self, Retention};
use std::time::Duration;

const DISK: &str = "/dev/disk/by-path/virtio-0";

struct World {
    running: Running,
    cluster: ClusterId,
    infra_env: InfraEnvId,
    hosts: Vec<HostId>,
    /// Version their agents tell.
    version: &'static str,
}

impl World {
    fn new(files: Files, hosts: usize, more: ClusterCreateParams) -> Self {
        let running = Running::start(files);
        let client = running.client();
        // Addresses by DHCP ended with 4.14.
        let version = if more.vip_dhcp_allocation == Some(true) { "4.14" } else { "4.22" };
        let masters = u32::try_from(hosts).unwrap();
        let cluster = client
            .create_cluster(&ClusterCreateParams {
                name: "rack".into(),
                openshift_version: version.into(),
                base_dns_domain: Some("example.com".into()),
                control_plane_count: Some(masters.into()),
                pull_secret: Secret::new(pull_secret()),
                ..more
            })
            .unwrap()
            .id;
        let infra_env = client
            .create_infra_env(&InfraEnvCreateParams {
                name: "rack".into(),
                cluster_id: Some(cluster),
                pull_secret: Secret::new(pull_secret()),
                ..InfraEnvCreateParams::default()
            })
            .unwrap()
            .id;
        let hosts = (0..hosts).map(|_| HostId::random()).collect();
        Self { running, cluster, infra_env, hosts, version: "localhost/agent:1" }
    }

    fn register(&self, host: HostId) -> api::HostRegistration {
        let params = HostCreateParams { host_id: host, discovery_agent_version: self.version.into() };
        self.running.client().register_host(self.infra_env, &params).unwrap()
    }

    fn discover(&self) {
        self.hosts.iter().for_each(|host| drop(self.register(*host)));
        for _ in 0..4 {
            for (index, host) in self.hosts.iter().enumerate() {
                for step in self.poll(*host) {
                    let answer = match step.step_type {
                        StepType::Inventory => inventory(
                            &format!("node-{index}"),
                            &format!("10.0.0.{}", index + 1),
                            &format!("52:54:00:00:00:{index:02x}"),
                        ),
                        StepType::ConnectivityCheck => connectivity(&step),
                        StepType::VerifyVips => {
                            let vips: Vec<api::VerifyVip> = serde_json::from_str(&step.args[0]).unwrap();
                            let verified = |vip: &api::VerifyVip| json!({"vip": vip.vip, "vip_type": vip.vip_type, "verification": "succeeded"});
                            vips.iter().map(verified).collect()
                        }
                        kind => {
                            assert_eq!(self.reply(*host, kind, 1, ""), 204);
                            continue;
                        }
                    };
                    assert_eq!(self.reply(*host, step.step_type, 0, &answer.to_string()), 204);
                }
            }
        }
    }

    fn poll(&self, host: HostId) -> Vec<Step> {
        self.running.client().next_steps(self.infra_env, host).unwrap().instructions.unwrap_or_default()
    }

    fn kinds(&self, host: HostId) -> Vec<StepType> {
        self.poll(host).into_iter().map(|step| step.step_type).collect()
    }

    fn host_path(&self, host: HostId) -> String {
        format!("/v2/infra-envs/{}/hosts/{host}", self.infra_env)
    }

    fn reply(&self, host: HostId, step_type: StepType, exit_code: i64, output: &str) -> u16 {
        let reply =
            StepReply { error: "why".into(), exit_code, output: output.into(), step_id: "x-1".into(), step_type };
        let path = format!("{}/instructions", self.host_path(host));
        self.running.json("POST", &path, &serde_json::to_value(reply).unwrap()).status
    }

    fn host(&self, host: HostId) -> Value {
        self.running.get(&format!("{API}{}", self.host_path(host))).document()
    }

    /// A text field of a host, as the document it is.
    fn host_text(&self, host: HostId, name: &str) -> Value {
        serde_json::from_str(self.host(host)[name].as_str().unwrap_or("null")).unwrap()
    }

    fn document(&self) -> Value {
        self.running.get(&format!("{API}/v2/clusters/{}", self.cluster)).document()
    }

    fn status(&self) -> String {
        self.document()["status"].as_str().unwrap().to_owned()
    }

    /// Until the hosts prepare for it, which they do soon after the answer.
    fn install(&self) -> u16 {
        let path = format!("/v2/clusters/{}/actions/install", self.cluster);
        let status = self.running.json("POST", &path, &json!({})).status;
        let prepare = || self.hosts.iter().all(|host| self.host(*host)["status"] != "known");
        assert!(testkit::wait::comes(prepare), "the hosts do not prepare for the installation");
        status
    }

    fn count(&self, event: &str) -> usize {
        let events = self.running.get(&format!("{API}/v2/events?cluster_id={}", self.cluster)).document();
        events.as_array().unwrap().iter().filter(|own| own["name"] == event).count()
    }
}

fn single(steps: StepOptions) -> World {
    let more = ClusterCreateParams { user_managed_networking: Some(true), ..ClusterCreateParams::default() };
    let world = World::new(Files { steps, ..Files::default() }, 1, more);
    world.discover();
    assert_eq!(world.status(), "ready", "{}", world.host(world.hosts[0])["validations_info"]);
    world
}

#[test]
fn nothing_is_installed_before_disk_and_images_are_known() {
    let images = vec!["r.io/a:1".to_owned(), "r.io/b:1".to_owned()];
    let world = single(StepOptions { disk_speed_check: true, check_images: images, ..StepOptions::default() });
    let host = world.hosts[0];
    assert_eq!(world.install(), 202);
    use StepType::{ContainerImageAvailability as Images, InstallationDiskSpeedCheck as Disk};
    assert_eq!((world.status().as_str(), world.kinds(host)), ("preparing-for-installation", vec![Disk, Images]));

    assert_eq!(world.reply(host, Disk, 0, ""), 204, "nothing is said");
    assert_eq!(world.reply(host, Disk, 0, "[]"), 400);
    assert_eq!(world.reply(host, Disk, 0, &json!({"path": DISK, "io_sync_duration": 11}).to_string()), 204);
    let speed = json!({"tested": true, "speed_ms": 11});
    assert_eq!(world.host_text(host, "disks_info"), json!({DISK: {"path": DISK, "disk_speed": speed}}));
    assert_eq!(world.count("disk_speed_slower_than_supported"), 1, "told, and no more");
    assert_eq!(world.host(host)["status"], "preparing-for-installation");

    let image = |name: &str, result: &str| json!({"name": name, "result": result, "time": 2.0, "size_bytes": 9, "download_rate": 4.5});
    let reply = |list: &[Value]| world.reply(host, Images, 0, &json!({"images": list}).to_string());
    assert_eq!(reply(&[image("r.io/a:1", "success")]), 204);
    let rest = world.poll(host);
    assert_eq!((rest.len(), &rest[0].step_type), (1, &Images));
    let asked: Value = serde_json::from_str(&rest[0].args[0]).unwrap();
    assert_eq!(asked["images"], json!(["r.io/b:1"]), "those not tried yet");
    assert_eq!(world.kinds(host), [], "it runs");
    assert_eq!(reply(&[image("r.io/b:1", "failure")]), 204);
    assert_eq!(world.host_text(host, "images_status")["r.io/b:1"]["result"], "failure");
    assert_eq!(world.count("image_status_updated"), 2);
    assert_eq!(world.status(), "ready", "it failed to prepare");
    assert_eq!(world.host(host)["status"], "known");

    assert_eq!(world.install(), 202);
    assert_eq!(world.kinds(host), [Images], "those that failed are tried again, the disk is measured");
    assert_eq!(reply(&[image("r.io/a:1", "success"), image("r.io/b:1", "success")]), 204);
    assert_eq!(world.status(), "preparing-for-installation", "until the monitor's turn");
    world.running.monitor();
    assert_eq!((world.status().as_str(), world.kinds(host)), ("installing", vec![StepType::Install]));
}

#[test]
fn a_disk_that_cannot_be_measured_is_not_installed_to() {
    let world = single(StepOptions { disk_speed_check: true, ..StepOptions::default() });
    let host = world.hosts[0];
    assert_eq!(world.install(), 202);
    assert_eq!(world.reply(host, StepType::InstallationDiskSpeedCheck, 1, "no JSON"), 204);
    assert_eq!(world.host_text(host, "disks_info")[DISK]["disk_speed"]["exit_code"], 1);
    assert_eq!((world.host(host)["status"].as_str(), world.status().as_str()), (Some("insufficient"), "insufficient"));
    let reset = |id: &str| {
        let path = format!("{}/actions/reset-validation/{id}", world.host_path(host));
        world.running.json("PATCH", &path, &json!({}))
    };
    for id in ["ntp-synced", "nothing"] {
        let refused = reset(id);
        let reason = format!("Validation \"{id}\" cannot be reset or does not exist");
        assert_eq!((refused.status, &refused.document()["reason"]), (400, &json!(reason)));
    }
    assert_eq!(reset("sufficient-installation-disk-speed").status, 200);
    assert_eq!(world.status(), "ready", "it may be measured again");
}

#[test]
fn a_disk_that_was_fast_before_may_still_fail_until_the_monitors_turn() {
    use StepType::InstallationDiskSpeedCheck as Disk;
    let world = single(StepOptions { disk_speed_check: true, ..StepOptions::default() });
    let host = world.hosts[0];
    assert_eq!(world.reply(host, Disk, 0, &json!({"path": DISK, "io_sync_duration": 5}).to_string()), 204);
    assert_eq!(world.install(), 202);
    assert_eq!(world.host(host)["status"], "preparing-for-installation", "a write alone installs nothing");
    assert_eq!(world.reply(host, Disk, 1, &json!({"path": DISK}).to_string()), 204);
    for _ in 0..2 {
        assert_eq!(
            (world.host(host)["status"].as_str(), world.status().as_str()),
            (Some("insufficient"), "insufficient")
        );
        world.running.monitor();
    }
}

#[test]
fn a_host_that_is_in_two_infra_envs_is_two_hosts() {
    let mut world = single(StepOptions::default());
    let host = world.hosts[0];
    let own = world.infra_env;
    let params = InfraEnvCreateParams {
        name: "pool".into(),
        pull_secret: Secret::new(pull_secret()),
        ..InfraEnvCreateParams::default()
    };
    let pool = world.running.client().create_infra_env(&params).unwrap().id;
    world.infra_env = pool;
    world.register(host);
    let gone = format!("/v2/infra-envs/{own}/hosts/{host}");
    assert_eq!(world.running.json("DELETE", &gone, &json!({})).status, 204);
    assert_eq!(world.running.get(&format!("{API}{gone}")).status, 404);
    let inventory = inventory("node-0", "10.0.0.1", "52:54:00:00:00:00").to_string();
    assert_eq!(world.reply(host, StepType::Inventory, 0, &inventory), 204);
    let first = world.host(host);
    assert_eq!(first["status"], "known-unbound");
    assert_eq!(world.kinds(host), [StepType::Inventory, StepType::NtpSynchronizer]);
    let reset = format!("{}/actions/reset-validation/container-images-available", world.host_path(host));
    assert_eq!(world.running.json("PATCH", &reset, &json!({})).status, 500, "it is in no cluster");
    std::thread::sleep(Duration::from_millis(5));
    world.register(host);
    let again = world.host(host);
    assert_eq!((&again["status"], again.get("inventory")), (&json!("discovering-unbound"), None));
    assert_ne!(again["registered_at"], first["registered_at"]);
}

#[test]
fn an_older_agent_is_given_nothing_but_the_newer_one() {
    let more = ClusterCreateParams { user_managed_networking: Some(true), ..ClusterCreateParams::default() };
    let steps = StepOptions { upgrade_agents: true, ..StepOptions::default() };
    let mut world = World::new(Files { steps, ..Files::default() }, 1, more);
    let host = world.hosts[0];
    let wanted = world.running.service.settings.agent_image.clone();
    let args = world.register(host).next_step_runner_command.unwrap().args;
    let request: api::NextStepRequest = serde_json::from_str(&args[0]).unwrap();
    assert_eq!(request.agent_version, wanted);
    for _ in 0..2 {
        let steps = world.poll(host);
        assert_eq!((steps.len(), &steps[0].step_type), (1, &StepType::UpgradeAgent));
        assert_eq!(steps[0].args, [json!({"agent_image": wanted}).to_string()]);
        let done = json!({"agent_image": wanted, "result": "success"}).to_string();
        assert_eq!(world.reply(host, StepType::UpgradeAgent, 0, &done), 204);
        let failed = json!({"agent_image": wanted, "result": "failure"}).to_string();
        assert_eq!(world.reply(host, StepType::UpgradeAgent, 0, &failed), 204);
        assert_eq!(world.reply(host, StepType::UpgradeAgent, 0, &json!({"agent_image": wanted}).to_string()), 204);
    }
    let told = ["started", "finished", "failed"].map(|what| world.count(&format!("upgrade_agent_{what}")));
    assert_eq!(told, [1; 3], "at most hourly");
    world.version = "quay.io/edge-infrastructure/assisted-installer-agent:latest";
    assert_eq!(world.version, wanted);
    world.register(host);
    assert_eq!(world.kinds(host), [StepType::Inventory]);
}

#[test]
fn virtual_addresses_come_by_dhcp() {
    let more = ClusterCreateParams {
        vip_dhcp_allocation: Some(true),
        network_type: Some("OpenShiftSDN".into()),
        ..ClusterCreateParams::default()
    };
    let world = World::new(Files::default(), 3, more);
    world.discover();
    assert_eq!((world.status().as_str(), &world.document()["vip_dhcp_allocation"]), ("insufficient", &json!(true)));
    let host = world.hosts[0];
    let step = world.poll(host).into_iter().find(|step| step.step_type == StepType::DhcpLeaseAllocate).unwrap();
    let request: api::DhcpAllocationRequest = serde_json::from_str(&step.args[0]).unwrap();
    assert_eq!(request.interface, "eth0", "of the one network that all are in");
    let leases = |api: &str| {
        let lease =
            format!("lease {{\n  interface \"api\";\n  fixed-address {api};\n  renew 1 2026/11/23 01:02:03;\n}}");
        let answer = json!({"api_vip_address": api, "api_vip_lease": lease, "ingress_vip_address": "10.0.0.101", "ingress_vip_lease": lease});
        world.reply(host, StepType::DhcpLeaseAllocate, 0, &answer.to_string())
    };
    assert_eq!(leases("192.0.2.1"), 500, "in no network of the machines");
    assert_eq!(leases("10.0.0.100"), 204);
    assert_eq!(world.document()["api_vips"][0]["ip"], "10.0.0.100");
    assert_eq!(world.count("api_ingress_vip_updated"), 1);
    world.discover();
    assert_eq!(world.status(), "ready", "{}", world.document()["validations_info"]);
    let step = world.poll(host).into_iter().find(|step| step.step_type == StepType::DhcpLeaseAllocate).unwrap();
    let request: api::DhcpAllocationRequest = serde_json::from_str(&step.args[0]).unwrap();
    assert!(request.api_vip_lease.contains("fixed-address 10.0.0.100;"), "it is asked for again");

    let patch = |params: Value| world.running.json("PATCH", &format!("/v2/clusters/{}", world.cluster), &params).status;
    assert_eq!(patch(json!({"api_vips": [{"ip": "10.0.0.9"}], "ingress_vips": [{"ip": "10.0.0.8"}]})), 400);
    assert_eq!(patch(json!({"user_managed_networking": true})), 400);
    assert_eq!(patch(json!({"vip_dhcp_allocation": false})), 201);
    assert_eq!(world.document()["api_vips"], json!([]));
    assert_eq!(leases("10.0.0.100"), 500, "nobody wants them any more");
}

#[test]
fn reports_about_tang_and_the_api_are_stored() {
    let world = single(StepOptions::default());
    let host = world.hosts[0];
    let answer = json!({"is_success": true, "tang_server_response": [{"tang_url": "http://t/adv/x", "payload": "e30", "signatures": []}]});
    assert_eq!(world.reply(host, StepType::TangConnectivityCheck, 0, &answer.to_string()), 204);
    assert_eq!(world.host_text(host, "tang_connectivity")["is_success"], true);
    assert_eq!(world.reply(host, StepType::TangConnectivityCheck, -1, r#"{"tang_server_response":null}"#), 204);
    assert_eq!(world.host(host)["tang_connectivity"], "why", "the error's text");
    let answer = json!({"is_success": true, "url": "http://api:22624/config/worker", "ignition": "{}"});
    assert_eq!(world.reply(host, StepType::ApiVipConnectivityCheck, 0, &answer.to_string()), 204);
    assert_eq!(world.host_text(host, "api_vip_connectivity"), answer);
    assert_eq!(world.reply(host, StepType::ApiVipConnectivityCheck, 0, "[]"), 400);
}

#[test]
fn what_a_host_was_installed_on_is_an_event_of_the_category_metrics() {
    let world = single(StepOptions::default());
    let host = world.hosts[0];
    assert_eq!(world.install(), 202);
    world.running.monitor();
    assert_eq!(world.status(), "installing");
    let put = |stage: &str| {
        let progress = json!({"current_stage": stage});
        assert_eq!(world.running.json("PUT", &format!("{}/progress", world.host_path(host)), &progress).status, 200);
    };
    let listed = || -> Vec<(String, Value)> {
        let path = format!("{API}/v2/events?cluster_id={}&categories=metrics", world.cluster);
        let events = world.running.get(&path).document();
        let read = |event: &Value| {
            assert_eq!(
                (&event["category"], event.get("name"), event.get("infra_env_id")),
                (&json!("metrics"), None, None)
            );
            let props = serde_json::from_str(event["props"].as_str().unwrap()).unwrap();
            (event["message"].as_str().unwrap().to_owned(), props)
        };
        events.as_array().unwrap().iter().map(read).collect()
    };
    put("Starting installation");
    assert_eq!(listed(), [], "the first stage follows none");
    put("Writing image to disk");
    let [(message, stage)] = listed().try_into().unwrap();
    assert_eq!((message.as_str(), &stage["host_stage"]), ("host.stage.duration", &json!("Starting installation")));
    assert_eq!((&stage["result"], &stage["host_role"]), (&json!("Done"), &json!("master")));
    put("Failed");
    let all = listed();
    let messages: Vec<&str> = all.iter().map(|(message, _)| message.as_str()).collect();
    let (stage, disk, ended) = ("host.stage.duration", "disk.size.type", "cluster.installation.results");
    assert_eq!(messages, [stage, "host.mem.cpu", disk, disk, "nic.speed", stage, ended]);
    assert_eq!((&all[1].1["host_result"], &all[1].1["mem_bytes"]), (&json!("Failed"), &json!(2)));
    assert_eq!((&all[5].1["host_stage"], &all[5].1["result"]), (&json!("Writing image to disk"), &json!("Failed")));
    assert_eq!((&all[6].1["result"], &all[6].1["lastState"]), (&json!("error"), &json!("installing")));
}

#[test]
fn networks_go_with_the_last_host_and_a_deleted_cluster_is_shown_to_those_who_ask() {
    let world = World::new(Files::default(), 3, ClusterCreateParams::default());
    world.discover();
    let path = format!("/v2/clusters/{}", world.cluster);
    assert_eq!(world.document()["ip_collisions"], "{}");
    let platforms = world.running.get(&format!("{API}{path}/supported-platforms")).document();
    assert_eq!(platforms, json!(["baremetal", "none", "external"]), "of machines without a cloud");
    let vips = json!({"api_vips": [{"ip": "10.0.0.65"}], "ingress_vips": [{"ip": "10.0.0.66"}]});
    assert_eq!(world.running.json("PATCH", &path, &vips).status, 201);
    assert_eq!(world.document()["machine_networks"][0]["cidr"], "10.0.0.0/24");
    for host in &world.hosts {
        let answer = world.running.request("DELETE", &format!("{API}{}", world.host_path(*host)), &[], b"");
        assert_eq!(answer.status, 204);
    }
    assert_eq!(world.document()["machine_networks"], json!([]));
    assert_eq!(world.document()["hosts"], json!([]));
    let groups = r#"{"majority_groups":{"IPv4":[],"IPv6":[]},"l3_connected_addresses":{}}"#;
    assert_eq!(world.document()["connectivity_majority_groups"], groups, "without hosts too");
    let without = world.running.get(&format!("{API}{path}?exclude-hosts=true")).document();
    assert_eq!(without["hosts"], Value::Null, "left out is not the same as none");

    world.register(world.hosts[0]);
    assert_eq!(world.running.request("DELETE", &format!("{API}{path}"), &[], b"").status, 204);
    let asked = [("get_unregistered_clusters", "true")];
    let deleted =
        |query: &str| world.running.request("GET", &format!("{API}/v2/clusters{query}"), &asked, b"").document();
    assert_eq!(world.running.get(&format!("{API}/v2/clusters")).document(), json!([]));
    assert_eq!(deleted("")[0]["hosts"], json!([]));
    let with_hosts = deleted("?with_hosts=true");
    assert_eq!(with_hosts[0]["hosts"][0]["id"], json!(world.hosts[0]));
    assert_eq!(deleted(&format!("/{}", world.cluster)), with_hosts[0]);
    assert!(with_hosts[0]["deleted_at"].is_string(), "{with_hosts}");
}

#[test]
fn a_request_without_the_time_leaves_the_one_before() {
    let world = single(StepOptions::default());
    let host = world.hosts[0];
    let synced = || {
        let all = world.host_text(host, "validations_info");
        let list = all["network"].as_array().unwrap();
        list.iter().find(|one| one["id"] == "time-synced-between-host-and-service").unwrap()["status"].clone()
    };
    let path = format!("{API}{}/instructions", world.host_path(host));
    // A change has the host judged anew.
    let judge = |name: &str| {
        let answer = world.running.json("PATCH", &world.host_path(host), &json!({"host_name": name}));
        assert_eq!(answer.status, 201);
    };
    assert_eq!(world.running.get(&format!("{path}?timestamp={}", Timestamp::now().unix_seconds())).status, 200);
    judge("a");
    assert_eq!(synced(), "success");
    assert_eq!(world.running.get(&path).status, 200);
    judge("b");
    assert_eq!(synced(), "success");
}

#[test]
fn a_cluster_that_installs_itself_is_only_recorded() {
    let running = Running::start(Files::default());
    let create = |body: Value| running.json("POST", "/v2/clusters/disconnected", &body);
    assert_eq!(create(json!({"name": "edge", "openshift_version": ""})).status, 400);
    assert_eq!(create(json!({"name": "x".repeat(55), "openshift_version": "4.22"})).status, 400);
    let created = create(json!({"name": "edge", "openshift_version": "4.22"}));
    let id = created.document()["id"].as_str().unwrap().to_owned();
    let path = format!("/v2/clusters/{id}");
    for cluster in [created.document(), running.get(&format!("{API}{path}")).document()] {
        assert_eq!((&cluster["status"], &cluster["kind"]), (&json!("unmonitored"), &json!("DisconnectedCluster")));
        assert_eq!(cluster["status_info"], "Cluster created for offline installation");
    }
    assert_eq!(running.json("POST", &format!("{path}/actions/install"), &json!({})).status, 409);

    let mut body = json!({"name": "edge", "pull_secret": pull_secret(), "openshift_version": "4.22",
        "image_type": "disconnected-iso", "rendezvous_ip": "192.0.2.80"});
    let unbound = running.json("POST", "/v2/infra-envs", &body).document();
    body["cluster_id"] = json!(id);
    let bound = running.json("POST", "/v2/infra-envs", &body).document();
    assert_eq!((&bound["type"], &bound["rendezvous_ip"]), (&json!("disconnected-iso"), &json!("192.0.2.80")));
    for (infra_env, status) in [(unbound, 404), (bound, 501)] {
        let path = format!("/v2/infra-envs/{}", infra_env["id"].as_str().unwrap());
        let config = running.get(&format!("{API}{path}/downloads/files?file_name=discovery.ign"));
        assert_eq!(config.status, status, "the config of its image is not made here");
        let host = running.json("POST", &format!("{path}/hosts"), &json!({"host_id": HostId::random()}));
        assert_eq!(
            (host.status, &host.document()["reason"]),
            (400, &json!("Cannot register a host to an InfraEnv with disconnected-iso type"))
        );
        let changed = running.json("PATCH", &path, &json!({"image_type": "full-iso"})).document();
        assert_eq!(changed.get("rendezvous_ip"), None);
    }
}

#[test]
fn what_nobody_touches_is_removed() {
    let more = ClusterCreateParams { user_managed_networking: Some(true), ..ClusterCreateParams::default() };
    let world = World::new(Files { retention: Retention(Some(5)), ..Files::default() }, 1, more);
    let client = world.running.client();
    let params = InfraEnvCreateParams {
        name: "pool".into(),
        pull_secret: Secret::new(pull_secret()),
        ..InfraEnvCreateParams::default()
    };
    let pool = client.create_infra_env(&params).unwrap().id;
    let host = world.hosts[0];
    world.register(host);
    let service = &world.running.service;
    let known = || service.store.model().infra_envs.keys().copied().collect::<Vec<InfraEnvId>>();
    std::thread::sleep(Duration::from_secs(3));
    let polled = Timestamp::now();
    world.poll(host);
    let after = |seconds| Timestamp::from_unix_seconds(polled.unix_milliseconds() / 1000 + seconds);
    retention::sweep(service, after(4), 4).unwrap();
    assert_eq!(known().len(), 2, "the service has not run for so long, whatever the clock says");
    retention::sweep(service, after(4), 5).unwrap();
    assert_eq!(known(), [world.infra_env], "the pool {pool} has no hosts");
    assert_eq!(world.status(), "pending-for-input", "its host polls");
    retention::sweep(service, after(3600), 11).unwrap();
    assert_eq!(known(), []);
    assert_eq!(world.running.get(&format!("{API}/v2/clusters/{}", world.cluster)).status, 404);
    assert_eq!(world.count("after_inactivity_cluster_deregistered"), 1);
    assert_eq!(world.running.get(&format!("{API}{}", world.host_path(host))).status, 404);
}
