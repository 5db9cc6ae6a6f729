//! What agents and installers send, some of it not quite as described, and what they get for it: no recording is needed.

use super::*;
use crate::common::{API, inventory};
use api::{StepType, Timestamp};
use service_stub::endpoints::{Body, ENDPOINTS};
use std::collections::BTreeSet;

const UNKNOWN: &str = "7e5ff6df-e038-4103-bbb2-90433ded3e50";

/// A cluster with a host of its infra-env.
struct World {
    running: Running,
    cluster: ClusterId,
    infra_env: InfraEnvId,
    host: HostId,
}

impl World {
    fn new(state: ClusterState, of_host: HostState) -> Self {
        Self::with(state, of_host, |_| {})
    }

    fn with(state: ClusterState, of_host: HostState, change: impl FnOnce(&mut HostRecord)) -> Self {
        let (cluster_id, infra_env_id, host) = (ClusterId::random(), InfraEnvId::random(), HostId::random());
        let running = Running::start_with(Files::default(), |store| {
            let key = HostKey { infra_env: infra_env_id, host };
            let mut record = HostRecord::new(key, Some(cluster_id), Timestamp::now());
            record.state = of_host;
            change(&mut record);
            let mut cluster = cluster(cluster_id, state);
            cluster.cluster.control_plane_count = 3;
            put(store, cluster, infra_env(infra_env_id, cluster_id), Some(record));
        });
        Self { running, cluster: cluster_id, infra_env: infra_env_id, host }
    }

    fn hosts(&self) -> String {
        format!("/v2/infra-envs/{}/hosts", self.infra_env)
    }

    fn of_host(&self, more: &str) -> String {
        format!("{}/{}/{more}", self.hosts(), self.host)
    }

    /// The status, and the document if there is one.
    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.running.json(method, path, body);
        (answer.status, if answer.body.is_empty() { Value::Null } else { answer.document() })
    }

    fn poll(&self) -> Value {
        self.running.get(&format!("{API}{}", self.of_host("instructions"))).document()
    }
}

fn request_form(status: u16, message: &str) -> (u16, Value) {
    (status, json!({"code": status, "message": message}))
}

fn application_form(status: u16, reason: &str) -> (u16, Value) {
    (status, json!({"code": status.to_string(), "href": "", "id": status, "kind": "Error", "reason": reason}))
}

#[test]
fn nothing_to_do_is_null_and_not_an_empty_list() {
    let world = World::new(ClusterState::Installing, HostState::Installed);
    let idle = json!({"instructions": null, "next_instruction_seconds": 60, "post_step_action": "continue"});
    assert_eq!(world.poll(), idle);
    let world = World::new(ClusterState::Installing, HostState::Resetting);
    assert_eq!(world.poll()["next_instruction_seconds"], 120);
}

#[test]
fn a_step_has_arguments_and_no_command() {
    let world = World::new(ClusterState::Insufficient, HostState::Discovering);
    let step = &world.poll()["instructions"][0];
    let names: BTreeSet<&str> = step.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["args", "step_id", "step_type"]));
    assert_eq!(step["args"], json!([world.host]));
}

#[test]
fn a_registration_brings_the_runners_arguments_and_the_second_one_no_state() {
    let world = World::new(ClusterState::Insufficient, HostState::Discovering);
    let id = HostId::random();
    let register =
        || world.send("POST", &world.hosts(), &json!({"host_id": id, "discovery_agent_version": "r.io/a:1"}));
    let (status, first) = register();
    assert_eq!((status, &first["status"], &first["requested_hostname"]), (201, &json!("discovering"), &json!(id)));
    assert_eq!((&first["role"], &first["progress_stages"]), (&json!("auto-assign"), &json!([])));
    let host = world.running.get(&format!("{API}{}/{id}", world.hosts())).document();
    assert_eq!(host["progress_stages"], Value::Null, "a list only where it registers");
    for never in ["logs_collected_at", "logs_started_at", "stage_started_at", "stage_updated_at"] {
        assert_eq!(first[never], "0001-01-01T00:00:00.000Z", "{never}");
    }
    let command = first["next_step_runner_command"].as_object().unwrap();
    assert_eq!(command.keys().collect::<Vec<_>>(), ["args"], "neither a command nor a time to retry after");
    let args: Value = serde_json::from_str(command["args"][0].as_str().unwrap()).unwrap();
    assert_eq!(args, json!({"agent_version": "r.io/a:1", "host_id": id, "infra_env_id": world.infra_env}));

    let (status, again) = register();
    assert_eq!((status, again.get("status"), again.get("status_info")), (201, Some(&Value::Null), Some(&Value::Null)));
}

#[test]
fn a_cluster_in_error_takes_back_its_hosts_and_no_new_one() {
    let world = World::new(ClusterState::Error, HostState::Error);
    let register = |host: HostId| world.send("POST", &world.hosts(), &json!({"host_id": host}));
    assert_eq!(register(world.host).0, 201);
    let reason = format!(
        "Host can register only in one of [insufficient ready pending-for-input adding-hosts] states, cluster {} is in error state",
        world.cluster
    );
    assert_eq!(register(HostId::random()), application_form(409, &reason));
}

/// A body of each endpoint that takes an object, with one field more.
#[test]
fn no_body_has_a_field_that_is_not_described() {
    let world = World::new(ClusterState::Insufficient, HostState::Discovering);
    let ids = [
        ("{cluster_id}", world.cluster.to_string()),
        ("{infra_env_id}", world.infra_env.to_string()),
        ("{host_id}", world.host.to_string()),
    ];
    let mut shapes = 0;
    for endpoint in ENDPOINTS.iter() {
        let Body::Object(shape) = endpoint.body else { continue };
        let path = ids.iter().fold(endpoint.path.to_owned(), |path, (name, id)| path.replace(name, id));
        let text = format!("parsing {} body from \"\" failed, because json: unknown field \"surprise\"", shape.name);
        let answer = world.send(endpoint.method.as_str(), &path, &json!({"surprise": 1}));
        assert_eq!(answer, request_form(400, &text), "{} {}", endpoint.method, endpoint.path);
        shapes += 1;
    }
    assert!(shapes > 20, "{shapes}");
}

#[test]
fn replies_are_taken_or_refused_by_their_output_alone() {
    let world = World::new(ClusterState::Insufficient, HostState::Discovering);
    let reply = |body: &Value| world.send("POST", &world.of_host("instructions"), body);
    let said =
        |step_type: &str, output: &Value| json!({"step_id": "x", "step_type": step_type, "output": output.to_string()});
    let nic = json!({"name": "eth0", "ipv4_addresses": ["192.0.2.1/24"]});
    let disk = json!({"name": "sda", "drive_type": "SSD", "size_bytes": 20_000_000_000_u64});
    let image = json!({"name": "r.io/a:1", "result": "success", "size_bytes": 333_000_000.0, "time": 1.5});
    let domain = json!({"domain_name": "api.c.d", "ipv4_addresses": ["7.8.9.10/24"], "ipv6_addresses": []});
    for (what, body) in [
        ("ids alone", json!({"step_id": "stop-installation-00000001", "step_type": "stop-installation"})),
        ("nothing at all", json!({})),
        ("no type", json!({"step_id": "x", "output": "{", "exit_code": 0})),
        ("an empty type", json!({"step_id": "x", "step_type": "", "output": "{"})),
        ("no id", json!({"step_type": "ntp-synchronizer", "output": r#"{"ntp_sources":[]}"#})),
        (
            "a failure, whatever it printed",
            json!({"step_id": "x", "step_type": "inventory", "exit_code": 1, "output": "{"}),
        ),
        (
            "a success that logged",
            json!({"step_id": "x", "step_type": "ntp-synchronizer", "error": "WARN", "output": "{}"}),
        ),
        ("a field of a later agent", said("ntp-synchronizer", &json!({"ntp_sources": [], "surprise": 1}))),
        ("an interface that is all", said("inventory", &json!({"interfaces": [nic]}))),
        ("a disk without a path", said("inventory", &json!({"disks": [disk]}))),
        ("hosts without ids", said("connectivity-check", &json!({"remote_hosts": [{"l2_connectivity": null}]}))),
        ("a size with a fraction", said("container-image-availability", &json!({"images": [image]}))),
        ("an address with the length of its prefix", said("domain-resolution", &json!({"resolutions": [domain]}))),
    ] {
        assert_eq!(reply(&body), (204, Value::Null), "{what}");
    }
    let wrong = |kind: &str, model: &str| format!("json: cannot unmarshal {kind} into Go value of type models.{model}");
    for (step_type, output, reason) in [
        ("ntp-synchronizer", json!([]), wrong("array", "NtpSynchronizationResponse")),
        ("inventory", json!([]), wrong("array", "Inventory")),
        ("free-network-addresses", json!({}), wrong("object", "FreeNetworksAddresses")),
    ] {
        assert_eq!(reply(&said(step_type, &output)), application_form(400, &reason), "{step_type}");
    }
    let (status, document) = reply(&json!({"step_id": "x", "step_type": "inventory", "output": "{bad json"}));
    assert_eq!((status, &document["code"], document["reason"].is_string()), (400, &json!("400"), true));
    let text = format!("step_type in body should be one of [{}]", StepType::NAMES.join(" "));
    assert_eq!(reply(&said("bogus", &json!({}))), request_form(400, &text));
    let unknown = format!("{}/{UNKNOWN}/instructions", world.hosts());
    let reason = format!("failed to get host {UNKNOWN} in infra_env {}: record not found", world.infra_env);
    assert_eq!(world.send("POST", &unknown, &said("inventory", &json!({}))), application_form(404, &reason));
}

#[test]
fn interfaces_that_can_carry_no_cluster_are_dropped() {
    let world = World::new(ClusterState::Insufficient, HostState::Discovering);
    let kinds = ["", "physical", "vlan", "bond", "veth", "device", "bridge", "tun"];
    let mut document = inventory("node", "192.168.131.5", "52:54:00:00:00:05");
    document["interfaces"] = kinds.iter().map(|kind| json!({"name": format!("nic-{kind}"), "type": kind})).collect();
    let body = json!({"step_id": "x", "step_type": "inventory", "output": document.to_string()});
    assert_eq!(world.send("POST", &world.of_host("instructions"), &body).0, 204);
    let host = world.running.get(&format!("{API}{}/{}", world.hosts(), world.host)).document();
    let stored: Value = serde_json::from_str(host["inventory"].as_str().unwrap()).unwrap();
    let names: Vec<&str> =
        stored["interfaces"].as_array().unwrap().iter().map(|nic| nic["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["nic-", "nic-physical", "nic-vlan", "nic-bond"]);
}

#[test]
fn a_host_in_error_reports_no_more_and_is_asked_for_its_logs_once() {
    let world = World::new(ClusterState::Error, HostState::Error);
    let put = |stage: &str| world.send("PUT", &world.of_host("progress"), &json!({"current_stage": stage}));
    assert_eq!(put("Installing"), application_form(409, "Can't set progress <Installing> to host in status <error>"));
    let stages = "Starting installation Waiting for control plane Waiting for bootkube Waiting for controller Installing Writing image to disk Copying registry data to disk Rebooting Waiting for ignition Configuring Joined Done Failed";
    assert_eq!(put("Nope"), request_form(400, &format!("current_stage in body should be one of [{stages}]")));
    let states = "discovering known disconnected insufficient pending-for-input installing-in-progress disconnected-unbound insufficient-unbound discovering-unbound known-unbound";
    let reason = format!("Host is in error state, host can be updated only in one of [{states}] states");
    let late = json!({"step_id": "x", "step_type": "inventory", "output": "{}"});
    assert_eq!(world.send("POST", &world.of_host("instructions"), &late), application_form(500, &reason));

    let asked = |world: &World| {
        let answer = world.poll();
        let steps = answer["instructions"].as_array().unwrap().iter();
        let kinds: Vec<String> = steps.map(|step| step["step_type"].as_str().unwrap().to_owned()).collect();
        (kinds.join(" "), answer["next_instruction_seconds"].clone())
    };
    assert_eq!(asked(&world), ("logs-gather stop-installation".to_owned(), json!(120)));
    let sent = |record: &mut HostRecord| record.host.logs_collected_at = Timestamp::now();
    let world = World::with(ClusterState::Error, HostState::Error, sent);
    assert_eq!(asked(&world), ("stop-installation".to_owned(), json!(120)), "its logs are here");
}

#[test]
fn a_hosts_config_is_below_the_singular_path_only() {
    let world = World::new(ClusterState::Insufficient, HostState::Discovering);
    let ask = |path: &str| {
        let answer = world.running.get(path);
        (answer.status, answer.document())
    };
    let plural = format!("{API}{}", world.of_host("downloads/ignition"));
    assert_eq!(ask(&plural), request_form(404, &format!("path {plural} was not found")));
    let (status, document) = ask(&plural.replace("/infra-envs/", "/infra-env/"));
    assert_eq!((status, &document["code"]), (409, &json!("409")), "it is there, and too early: {document}");
}
