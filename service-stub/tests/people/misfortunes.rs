//! Installations that fail, stop, or wait for a person.

use crate::common::API;
use crate::flow::World;
use api::{HostStage, StepReply, StepType};
use serde_json::json;

#[test]
fn progress_never_goes_back_and_failures_end_it() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    world.discover_all();
    assert_eq!(world.put(machine, HostStage::Installing, "").unwrap_err().status(), Some(409), "not being installed");
    world.install();
    world.put(machine, HostStage::WritingImageToDisk, "10%").unwrap();
    world.put(machine, HostStage::WritingImageToDisk, &"ä".repeat(5000)).unwrap();
    assert_eq!(world.host(machine).progress.unwrap().progress_info, "ä".repeat(2048));
    assert_eq!(world.put(machine, HostStage::Installing, "").unwrap_err().status(), Some(409));
    assert_eq!(world.put(machine, HostStage::WaitingForBootkube, "").unwrap_err().status(), Some(409));
    world.put(machine, HostStage::Failed, "the disk is gone").unwrap();
    let host = world.host(machine);
    assert_eq!((host.status.as_str(), host.status_info.as_str()), ("error", "Failed - the disk is gone"));
    assert_eq!(host.progress.unwrap().current_stage, Some(HostStage::WritingImageToDisk));
    assert_eq!(world.status(), "error");
    assert_eq!(world.poll(machine), [StepType::LogsGather, StepType::StopInstallation]);

    let reset = world.running.json("POST", &format!("/v2/clusters/{}/actions/reset", world.cluster.id), &json!({}));
    assert_eq!(reset.status, 202, "{:?}", reset.document());
    assert_eq!(world.host(machine).status, "resetting-pending-user-action");
    world.register(machine).unwrap();
    world.poll(machine);
    assert_eq!(
        (world.host(machine).status, world.status()),
        ("known".into(), "ready".into()),
        "and again from the start"
    );
}

#[test]
fn a_failing_install_step_fails_the_host() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    world.discover_all();
    world.install();
    let reply = |exit_code: i64, error: &str| {
        let reply = StepReply {
            error: error.into(),
            exit_code,
            output: String::new(),
            step_id: "install-1".into(),
            step_type: StepType::Install,
        };
        world.running.client().post_reply(world.infra_env.id, machine.id, &reply).unwrap();
    };
    reply(125, "the container name \"assisted-installer\" is already in use by 1234");
    assert_eq!(world.host(machine).status, "installing", "handed out twice, run once");
    reply(1, "exit status 1");
    let host = world.host(machine);
    assert_eq!((host.status.as_str(), host.status_info.as_str()), ("error", "installation command failed"));
    let events = world.running.get(&format!("{API}/v2/events?host_id={}", machine.id)).document();
    let event = events.as_array().unwrap().iter().find(|event| event["name"] == "host_step_failed").unwrap();
    assert_eq!(event["message"], "Host node-1: installation command failed: exit status 1");
}

#[test]
fn a_wrong_boot_waits_for_a_person_and_goes_on() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    world.discover_all();
    world.install();
    world.write_disk(machine);
    world.register(machine).unwrap();
    let host = world.host(machine);
    assert_eq!(host.status, "installing-pending-user-action");
    assert!(host.status_info.ends_with("boot from disk (vda, /dev/disk/by-path/virtio-0)"), "{}", host.status_info);
    assert_eq!(world.status(), "installing-pending-user-action");
    assert_eq!(world.register(machine).unwrap_err().status(), Some(400), "told once is enough");
    world.put(machine, HostStage::Joined, "").unwrap();
    assert_eq!(world.status(), "installing");
    world.put(machine, HostStage::Done, "").unwrap();
    assert_eq!(world.status(), "installed");
}

#[test]
fn a_host_that_restarts_while_it_is_written_is_lost() {
    let world = World::new(1, 1);
    world.discover_all();
    world.install();
    world.put(&world.machines[0], HostStage::WritingImageToDisk, "").unwrap();
    world.register(&world.machines[0]).unwrap();
    assert_eq!(world.host(&world.machines[0]).status, "error");
    assert_eq!(world.status(), "error");
}

#[test]
fn a_cancelled_installation_stops_its_hosts() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    world.discover_all();
    world.install();
    world.put(machine, HostStage::Installing, "").unwrap();
    let path = format!("/v2/clusters/{}/actions/cancel", world.cluster.id);
    assert_eq!(world.running.json("POST", &path, &json!({})).status, 202);
    assert_eq!((world.host(machine).status, world.status()), ("cancelled".into(), "cancelled".into()));
    assert_eq!(world.running.json("POST", &path, &json!({})).status, 409);
    let refused = world.put(machine, HostStage::WritingImageToDisk, "").unwrap_err();
    assert_eq!(refused.status(), Some(409));
}
