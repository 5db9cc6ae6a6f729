//! A host's ways into a cluster and out of it: late binding, day 2, lost media, a reset that one host refuses.

use super::World;
use crate::common::{API, Answer};
use api::{HostRole, HostStage, PostStepAction, StepReply, StepType};
use serde_json::json;
use service_stub::model::{HostKey, HostRecord};
use service_stub::state::HostState;

impl World {
    pub(super) fn act(&self, index: usize, action: &str, body: &serde_json::Value) -> Answer {
        let id = self.machines[index].id;
        self.running.json("POST", &format!("/v2/infra-envs/{}/hosts/{id}/actions/{action}", self.infra_env.id), body)
    }

    fn act_on_cluster(&self, action: &str) -> Answer {
        self.running.json("POST", &format!("/v2/clusters/{}/actions/{action}", self.cluster.id), &json!({}))
    }

    pub(super) fn state(&self, index: usize) -> String {
        self.host(&self.machines[index]).status
    }

    pub(super) fn known(&self, index: usize) {
        for _ in 0..3 {
            self.poll(&self.machines[index]);
        }
    }

    pub(super) fn leaves_and_comes_back(&self, index: usize) {
        let steps = self.running.client().next_steps(self.infra_env.id, self.machines[index].id).unwrap();
        assert_eq!((steps.post_step_action, steps.next_instruction_seconds), (PostStepAction::Exit, 0));
        self.register(&self.machines[index]).unwrap();
    }

    fn event_names(&self) -> Vec<String> {
        let events = self.running.get(&format!("{API}/v2/events?limit=-1")).document();
        events.as_array().unwrap().iter().map(|event| event["name"].as_str().unwrap().to_owned()).collect()
    }

    fn media_lost(&self, index: usize) {
        let reply = StepReply {
            error: String::new(),
            exit_code: 256,
            output: String::new(),
            step_id: "inventory-1".into(),
            step_type: StepType::Inventory,
        };
        self.running.client().post_reply(self.infra_env.id, self.machines[index].id, &reply).unwrap();
    }
}

#[test]
fn a_host_is_bound_and_unbound() {
    let world = World::start(1, 1, false);
    let bind = json!({"cluster_id": world.cluster.id});
    world.register(&world.machines[0]).unwrap();
    assert_eq!(world.state(0), "discovering-unbound");
    assert_eq!(world.act(0, "bind", &bind).status, 409, "too early");
    world.known(0);
    assert_eq!(world.state(0), "known-unbound");
    assert_eq!(world.act(0, "unbind", &json!({})).status, 409);
    assert_eq!(world.act(0, "bind", &json!({"cluster_id": world.infra_env.id})).status, 400);

    let bound = world.act(0, "bind", &bind);
    let document = bound.document();
    assert_eq!((bound.status, &document["status"], &document["role"]), (200, &json!("binding"), &json!("master")));
    assert_eq!(document["cluster_id"], json!(world.cluster.id));
    assert_eq!(world.act(0, "bind", &bind).status, 409, "once");
    world.leaves_and_comes_back(0);
    assert_eq!(world.state(0), "discovering");
    world.known(0);
    assert_eq!((world.state(0).as_str(), world.status().as_str()), ("known", "ready"));

    let unbound = world.act(0, "unbind", &json!({})).document();
    assert_eq!((&unbound["status"], &unbound["role"]), (&json!("unbinding"), &json!("auto-assign")));
    assert!(unbound.get("cluster_id").is_none() && unbound.get("installation_disk_id").is_none());
    assert_eq!(world.status(), "pending-for-input", "whose network is its, nobody knows any more");
    world.leaves_and_comes_back(0);
    world.known(0);
    assert_eq!(world.state(0), "known-unbound");

    assert_eq!(world.act(0, "bind", &bind).status, 200);
    world.leaves_and_comes_back(0);
    world.known(0);
    world.install();
    assert_eq!(world.act(0, "unbind", &json!({})).document()["status"], "unbinding-pending-user-action");
    world.register(&world.machines[0]).unwrap();
    assert_eq!(world.state(0), "discovering-unbound");
    let names = world.event_names();
    for name in ["host_bind_failed", "host_bind_succeeded", "host_unbind_failed", "host_unbind_succeeded"] {
        assert!(names.iter().any(|own| own == name), "{name} in {names:?}");
    }
}

#[test]
fn an_installed_host_is_reclaimed() {
    let world = World::start(1, 1, false);
    world.register(&world.machines[0]).unwrap();
    world.known(0);
    assert_eq!(world.act(0, "bind", &json!({"cluster_id": world.cluster.id})).status, 200);
    world.leaves_and_comes_back(0);
    world.known(0);
    world.install();
    assert_eq!(world.act(0, "unbind?reclaim=true", &json!({})).status, 409, "not while it is being installed");
    world.write_disk(&world.machines[0]);
    world.put(&world.machines[0], HostStage::Done, "").unwrap();
    assert_eq!(world.act(0, "unbind?reclaim=true", &json!({})).document()["status"], "reclaiming");
    let steps = world.running.client().next_steps(world.infra_env.id, world.machines[0].id).unwrap();
    let step = steps.instructions.unwrap().remove(0);
    let request: api::BootArtifactsRequest = serde_json::from_str(&step.args[0]).unwrap();
    assert!(request.kernel_url.ends_with("/boot-artifacts/kernel"), "{request:?}");
    let reply = StepReply {
        error: String::new(),
        exit_code: 0,
        output: String::new(),
        step_id: step.step_id,
        step_type: StepType::DownloadBootArtifacts,
    };
    world.running.client().post_reply(world.infra_env.id, world.machines[0].id, &reply).unwrap();
    assert_eq!(world.state(0), "reclaiming-rebooting");
    let steps = world.running.client().next_steps(world.infra_env.id, world.machines[0].id).unwrap();
    assert_eq!(steps.instructions.unwrap()[0].step_type, StepType::RebootForReclaim);
    world.register(&world.machines[0]).unwrap();
    world.known(0);
    assert_eq!(world.state(0), "known-unbound");
}

#[test]
fn a_host_of_a_bound_infra_env_stays_with_it() {
    let world = World::new(1, 1);
    world.discover_all();
    assert_eq!(world.act(0, "unbind", &json!({})).status, 409);
    assert_eq!(world.act(0, "reset", &json!({})).status, 409, "of day 2 only");
    assert_eq!(world.act(0, "install", &json!({})).status, 409, "of day 2 only");
}

#[test]
fn a_host_is_added_to_a_cluster_that_runs() {
    let world = World::new(1, 2);
    let (first, second) = (&world.machines[0], &world.machines[1]);
    world.register(first).unwrap();
    world.known(0);
    assert_eq!(world.act_on_cluster("allow-add-hosts").status, 400, "not installed");
    world.install();
    world.write_disk(first);
    world.put(first, HostStage::Done, "").unwrap();
    assert_eq!(world.status(), "installed");
    assert_eq!(world.register(second).unwrap_err().status(), Some(409));

    let cluster = world.act_on_cluster("allow-add-hosts");
    let document = cluster.document();
    assert_eq!(
        (cluster.status, &document["status"], &document["kind"]),
        (202, &json!("adding-hosts"), &json!("AddHostsCluster"))
    );
    assert_eq!(document["api_vip_dns_name"], "api.rack.example.com");
    assert_eq!(world.act_on_cluster("allow-add-workers").status, 400, "once");
    assert_eq!(world.state(0), "installed");

    world.register(second).unwrap();
    world.known(1);
    let host = world.host(second);
    assert_eq!(
        (host.kind.as_str(), host.role, host.status.as_str()),
        ("AddToExistingClusterHost", HostRole::Worker, "known"),
        "{}",
        host.status_info
    );
    assert_eq!(host.progress_stages.unwrap().last(), Some(&HostStage::Rebooting));
    let started = world.act(1, "install", &json!({}));
    assert_eq!((started.status, &started.document()["status"]), (202, &json!("installing")));
    assert_eq!(world.act(1, "install", &json!({})).status, 409, "once");
    assert_eq!(world.install_request(second).role, HostRole::Worker);
    world.put(second, HostStage::WritingImageToDisk, "").unwrap();
    world.put(second, HostStage::Rebooting, "").unwrap();
    let host = world.host(second);
    assert_eq!(host.status, "added-to-existing-cluster");
    assert_eq!(host.progress.unwrap().current_stage, Some(HostStage::Done));
    world.put(second, HostStage::Rebooting, "").unwrap();
    world.register(second).unwrap();
    assert_eq!(world.state(1), "installing-pending-user-action", "it booted the discovery image again");
    assert_eq!(world.act(1, "reset", &json!({})).document()["status"], "resetting-pending-user-action");
    world.register(second).unwrap();
    world.known(1);
    assert_eq!(world.state(1), "known");
    assert!(world.event_names().iter().any(|name| name == "host_installation_started"));
}

#[test]
fn a_cluster_of_somebody_else_takes_hosts() {
    let world = World::start(1, 1, false);
    let params =
        json!({"name": "far", "api_vip_dnsname": "api.far.example.com", "openshift_cluster_id": world.infra_env.id});
    let imported = world.running.json("POST", "/v2/clusters/import", &params);
    let document = imported.document();
    assert_eq!(
        (imported.status, &document["status"], &document["imported"]),
        (201, &json!("adding-hosts"), &json!(true))
    );
    assert_eq!(
        (&document["base_dns_domain"], &document["openshift_cluster_id"]),
        (&json!("example.com"), &json!(world.infra_env.id))
    );
    assert_eq!(world.running.json("POST", "/v2/clusters/import", &json!({"name": "far"})).status, 400);
    world.register(&world.machines[0]).unwrap();
    world.known(0);
    assert_eq!(world.act(0, "bind", &json!({"cluster_id": document["id"]})).status, 200);
    world.leaves_and_comes_back(0);
    world.known(0);
    assert_eq!(world.state(0), "known");
    assert_eq!(world.act(0, "install", &json!({})).status, 202);
    let config = world.running.client().host_ignition(world.infra_env.id, world.machines[0].id).unwrap();
    let config = String::from_utf8(config).unwrap();
    assert!(config.contains("http://api.far.example.com:22624/config/worker"), "{config}");
}

#[test]
fn media_are_lost_and_come_back() {
    let world = World::new(1, 1);
    world.discover_all();
    world.media_lost(0);
    let host = world.host(&world.machines[0]);
    assert_eq!((host.status.as_str(), host.media_status.as_str()), ("disconnected", "disconnected"));
    assert!(host.status_info.contains("minimal ISO"), "{}", host.status_info);
    assert_eq!(world.status(), "insufficient");
    world.known(0);
    let host = world.host(&world.machines[0]);
    assert_eq!((host.status.as_str(), host.media_status.as_str()), ("known", "connected"));
    world.install();
    world.media_lost(0);
    assert_eq!((world.state(0).as_str(), world.status().as_str()), ("error", "error"));
    assert!(world.event_names().iter().any(|name| name == "host_media_disconnected"));
}

#[test]
fn one_host_that_can_not_be_reset_stops_the_reset() {
    let world = World::new(3, 3);
    world.discover_all();
    world.install();
    world.put(&world.machines[0], HostStage::Failed, "").unwrap();
    assert_eq!(world.status(), "error");
    let key = HostKey { infra_env: world.infra_env.id, host: world.machines[1].id };
    let set = |state| {
        let changed = world.running.service.store.change("", |change| {
            let mut record = HostRecord::clone(&change.model().hosts[&key]);
            record.state = state;
            change.put_host(record);
            Ok::<_, service_stub::store::StoreError>(())
        });
        changed.unwrap();
    };
    set(HostState::Disconnected);
    assert_eq!(world.act_on_cluster("reset").status, 409);
    assert_eq!((world.status().as_str(), world.state(0).as_str()), ("error", "error"), "nothing was changed");
    set(HostState::Error);
    assert_eq!(world.act_on_cluster("reset").status, 202);
    for index in 0..3 {
        assert_eq!(world.state(index), "resetting-pending-user-action");
    }
    let names = world.event_names();
    for name in [
        "reset_installation_failed",
        "cluster_installation_reset",
        "host_installation_reset_failed",
        "host_installation_reset",
    ] {
        assert!(names.iter().any(|own| own == name), "{name} in {names:?}");
    }
}
