//! The role flow against a fake service and a fake machine.
#![allow(clippy::unwrap_used)]

use crate::machine;

use diskwrite::Event;
use fake_service::{
    Answer, FakeService, PATIENCE, Request,
    recorded::{Exchange, header_faults, recorded, wire},
};
use installer::{
    flow::{FlowError, News, Pace, run},
    host::WriteError,
};
use kernel::Cancel;
use machine::FakeHost;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

fn pace() -> Pace {
    let soon = Duration::from_millis(1);
    Pace { write_retry: soon, masters_poll: soon, flush: PATIENCE, ..Pace::default() }
}

const IGNITION: &str = r#"{"ignition":{"version":"3.2.0"}}"#;

fn document(service: &FakeService, change: impl Fn(&mut Value)) -> api::InstallDocument {
    let mut document = json!({
        "request": {
            "boot_device": "/dev/landfall-test-disk", "check_cvo": false,
            "cluster_id": "11111111-2222-3333-4444-555555555555", "control_plane_count": 3,
            "controller_image": "r.io/c:1", "disks_to_format": ["/dev/landfall-test-other"],
            "host_id": "aaaaaaaa-0000-0000-0000-000000000001", "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000001",
            "installer_args": r#"["--append-karg","ip=52-54-00-00-00-01:dhcp","--image-file","/i.raw"]"#,
            "installer_image": "r.io/i:1", "role": "master", "service_ips": null
        },
        "service": {"url": service.url, "token": "t0ken", "agent_version": "r.io/agent:1"},
        "reboot": true, "reboot_delay_seconds": 3
    });
    change(&mut document);
    serde_json::from_value(document).unwrap()
}

/// A service that accepts everything and serves `IGNITION`.
fn friendly(request: &Request) -> Answer {
    match request.method.as_str() {
        "GET" if request.path.ends_with("/downloads/ignition") => Answer::Text(200, IGNITION),
        "PUT" => Answer::Done,
        _ => Answer::Status(404),
    }
}

fn at(percent: u8) -> Event {
    let source_bytes_read = u64::from(percent) * 10;
    Event::Progress {
        source_bytes_read,
        source_total: Some(1000),
        written_bytes: 0,
        percent: Some(percent),
        limit: None,
    }
}

fn failed(transient: bool) -> WriteError {
    WriteError { transient, cause: "the cause".into() }
}

#[test]
fn a_master_is_installed_and_every_stage_reported() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|_, _, on_event| {
        on_event(&at(7));
        Ok(())
    });
    let mut events = 0;
    run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |news| {
        events += usize::from(matches!(news, News::Image(_)))
    })
    .unwrap();
    assert_eq!(events, 1);

    let did = host.did();
    let expected = [
        "clear /dev/landfall-test-other",
        "clean /dev/landfall-test-disk",
        "write /dev/landfall-test-disk",
        "boot from /dev/landfall-test-disk",
        "send logs, bootstrap false",
        "systemctl list-units --no-legend ironic-agent.service",
        "reboot after 3s",
    ];
    assert_eq!(did, expected, "a boot sector that can't be cleared stops nothing");
    assert_eq!(host.ignition.lock().unwrap().as_deref(), Some(IGNITION.as_bytes()));
    let mut progress = service.progress();
    // Whether the percentage gets out before the next stage replaces it is a matter of time.
    progress.retain(|report| report != "Writing image to disk: 7%");
    let stages = ["Starting installation: master", "Installing: master", "Writing image to disk", "Rebooting"];
    assert_eq!(progress, stages);

    let requests = service.requests();
    let ignition = requests.iter().find(|r| r.method == "GET").unwrap();
    assert_eq!(
        ignition.path,
        "/v2/infra-env/bbbbbbbb-0000-0000-0000-000000000001/hosts/aaaaaaaa-0000-0000-0000-000000000001/downloads/ignition"
    );
    assert!(requests.iter().any(|r| r.ends_with("PUT", "/logs-progress") && r.body["logs_state"] == "requested"));
    let ids: Vec<_> = requests.iter().map(|r| r.header("X-Request-Id").unwrap()).collect();
    assert!(ids.iter().enumerate().all(|(i, id)| !ids[..i].contains(id)), "one id an operation: {ids:?}");
    assert!(requests.iter().all(|r| r.header("X-Secret-Key") == Some("t0ken")));
    assert!(requests.iter().all(|r| r.header("Discovery_agent_version").is_none()), "an agent's alone");

    let Some(wire) = wire() else { return };
    let theirs = |name: &str| Exchange::read(&wire.join("sno-install").join(name));
    let real = theirs("0012-PUT-v2_infra-envs_ID_hosts_ID_progress-200.json");
    let ours = requests.iter().find(|r| r.body["progress_info"] == "master").unwrap();
    assert_eq!(header_faults(ours, &real), ["header x-secret-key is \"t0ken\", recorded \"dummy\""]);
    let expected = json!({"current_stage": "Starting installation", "progress_info": "master"});
    assert_eq!(ours.body, expected);
    let real = theirs("0030-PUT-v2_infra-envs_ID_hosts_ID_progress-200.json");
    assert_eq!(&requests.last().unwrap().body, real.asked());
}

#[test]
fn without_leave_the_machine_stays_up() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|_, _, _| Ok(()));
    let document = document(&service, |d| drop(d.as_object_mut().unwrap().remove("reboot")));
    run(&document, &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    assert!(!host.did().iter().any(|did| did.starts_with("reboot")));
    assert_eq!(service.progress().last().unwrap(), "Rebooting");
}

#[test]
fn a_cause_that_may_pass_is_tried_three_times_and_another_once() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|attempt, _, _| if attempt < 3 { Err(failed(true)) } else { Ok(()) });
    run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    assert_eq!(*host.attempts.lock().unwrap(), 3);

    for (transient, attempts) in [(true, 3), (false, 1)] {
        let service = FakeService::start(friendly);
        let host = FakeHost::new(|_, _, _| Err(failed(transient)));
        let error = run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap_err();
        assert!(matches!(error, FlowError::Write { attempt, .. } if attempt == attempts), "{error:?}");
        assert_eq!(*host.attempts.lock().unwrap(), attempts);
        let last = service.progress().pop().unwrap();
        assert_eq!(
            last,
            format!("Failed: cannot write /i.raw to /dev/landfall-test-disk (attempt {attempts} of 3): the cause")
        );
        assert!(!host.did().iter().any(|did| did.starts_with("reboot")));
    }
}

#[test]
fn a_slow_service_does_not_slow_the_writer() {
    let written = Arc::new((Mutex::new(false), Condvar::new()));
    let gate = written.clone();
    let service = FakeService::start(move |request| {
        if request.body["progress_info"] == "5%" {
            // Answers only when the whole image is written: a writer that waits for the answer would never get there.
            let (done, changed) = &*gate;
            let (_done, wait) = changed.wait_timeout_while(done.lock().unwrap(), PATIENCE, |done| !*done).unwrap();
            assert!(!wait.timed_out(), "the writer waits for the service");
        }
        friendly(request)
    });
    let host = FakeHost::new(|_, _, on_event| {
        on_event(&at(5));
        service.wait_for("stage before the percentages", |r| {
            r.iter().any(|r| r.body["current_stage"] == "Writing image to disk")
        });
        for percent in 6..=100 {
            on_event(&at(percent));
        }
        *written.0.lock().unwrap() = true;
        written.1.notify_all();
        Ok(())
    });
    run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    let progress = service.progress();
    assert_eq!(progress.last().unwrap(), "Rebooting");
    assert_eq!(progress[progress.len() - 2], "Writing image to disk: 100%", "{progress:?}");
}

#[test]
fn a_service_that_refuses_progress_stops_nothing() {
    let service = FakeService::start(|request| match request.method.as_str() {
        "PUT" => Answer::Json(409, json!({"code": "409", "href": "", "id": 409, "kind": "Error", "reason": "no"})),
        _ => friendly(request),
    });
    let host = FakeHost::new(|_, _, _| Ok(()));
    run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    assert_eq!(host.did().last().unwrap(), "reboot after 3s");
}

#[test]
fn what_cannot_be_planned_is_reported_and_nothing_touched() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|_, _, _| Ok(()));
    let bootstrap = document(&service, |d| d["request"]["role"] = "auto-assign".into());
    let error = run(&bootstrap, &host, &Cancel::default(), pace(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, FlowError::Plan(_)));
    assert!(host.did().is_empty());
    let progress = service.progress();
    assert_eq!(progress.len(), 1);
    assert!(progress[0].starts_with("Failed: role auto-assign"), "{progress:?}");
}

#[test]
fn a_page_instead_of_an_ignition_config_never_reaches_a_disk() {
    let service = FakeService::start(|request| match request.method.as_str() {
        "GET" => Answer::Text(200, "<html>log in first</html>"),
        _ => friendly(request),
    });
    let host = FakeHost::new(|_, _, _| Ok(()));
    let error = run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, FlowError::NotIgnition { .. }));
    assert_eq!(*host.attempts.lock().unwrap(), 0);
    assert!(service.progress().last().unwrap().starts_with("Failed: "));
}

#[test]
fn a_refused_ignition_config_is_a_failure_with_the_services_reason() {
    let service = FakeService::start(|request| match request.method.as_str() {
        "GET" => Answer::Json(403, json!({"code": 403, "message": "not yours"})),
        _ => friendly(request),
    });
    let host = FakeHost::new(|_, _, _| Ok(()));
    let error = run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, FlowError::Ignition { .. }));
    let last = service.progress().pop().unwrap();
    assert!(last.contains("403: not yours"), "{last}");
}

#[test]
fn a_worker_reboots_when_two_masters_are_done() {
    let asked = Mutex::new(0);
    let service = FakeService::start(move |request| {
        if !request.path.starts_with("/v2/clusters/") {
            return friendly(request);
        }
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        let host = |n: u32, stage: &str| json!({"id": format!("aaaaaaaa-0000-0000-0000-00000000001{n}"), "progress": {"current_stage": stage}});
        let second = if *asked < 8 { "Joined" } else { "Done" };
        match (request.path.ends_with("/hosts"), request.query.as_str(), *asked) {
            (_, _, 1) => Answer::Status(500),
            (_, _, 2) => Answer::Garbage,
            (false, "exclude-hosts=true", _) => {
                Answer::Json(200, json!({"id": "11111111-2222-3333-4444-555555555555", "kind": "Cluster", "hosts": []}))
            }
            (true, "role=arbiter", _) => Answer::Status(400),
            (true, "role=master", _) => {
                Answer::Json(200, json!([host(1, "Done"), host(2, second), host(3, "Installing")]))
            }
            _ => Answer::Status(404),
        }
    });
    let host = FakeHost::new(|_, _, _| Ok(()));
    let worker = document(&service, |d| d["request"]["role"] = "worker".into());
    run(&worker, &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    let progress = service.progress();
    assert_eq!(progress[progress.len() - 2..], ["Waiting for control plane", "Rebooting"]);
    assert_eq!(service.requests().iter().filter(|r| r.path.starts_with("/v2/clusters/")).count(), 9);
}

#[test]
fn a_worker_of_an_existing_cluster_does_not_wait() {
    let service = FakeService::start(|request| match request.path.starts_with("/v2/clusters/") {
        true => Answer::Json(200, json!({"id": "11111111-2222-3333-4444-555555555555", "kind": "AddHostsCluster"})),
        false => friendly(request),
    });
    let host = FakeHost::new(|_, _, _| Ok(()));
    let worker = document(&service, |d| d["request"]["role"] = "worker".into());
    run(&worker, &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    assert_eq!(host.did().last().unwrap(), "reboot after 3s");
}

#[test]
fn cancelling_ends_the_flow_without_another_attempt() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|_, cancel, _| {
        cancel.cancel();
        Err(failed(true))
    });
    let error = run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, FlowError::WriteCancelled { .. }));
    assert_eq!(*host.attempts.lock().unwrap(), 1);
    assert!(service.progress().last().unwrap().starts_with("Failed: cancelled by a signal"));
}

#[test]
fn recorded_requests_report_the_stages_that_were_recorded_of_their_roles() {
    let Some(wire) = wire() else { return };
    let stages = recorded(wire.join("steps/progress-stages.json"));
    let stages: Vec<(&str, Vec<&str>)> = stages
        .as_object()
        .unwrap()
        .iter()
        .map(|(who, stages)| {
            let stages = stages.as_array().unwrap().iter().map(|stage| stage.as_str().unwrap()).collect();
            (who.rsplit('/').next().unwrap(), stages)
        })
        .collect();
    for n in 0..5 {
        let steps = recorded(wire.join(format!("steps/install-step-{n}.json")));
        let request = steps["instructions"][0]["args"][0].as_str().unwrap();
        let request: api::InstallRequest = serde_json::from_str(request).unwrap();
        let plan = installer::plan::plan(&request, false, Duration::ZERO).unwrap();
        let reported: Vec<_> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                installer::plan::Action::Report { stage, .. } => Some(stage.as_str()),
                _ => None,
            })
            .collect();
        let role = request.role.as_str();
        let fits = |listed: &Vec<&str>| {
            let mut listed = listed.iter();
            reported.iter().all(|stage| listed.any(|listed| listed == stage))
        };
        assert!(
            stages.iter().any(|(who, listed)| *who == role && fits(listed)),
            "{role}: {reported:?} is in none of {stages:#?}"
        );
    }
}

#[test]
fn a_disk_that_cannot_be_cleaned_is_reported_and_written_all_the_same() {
    let service = FakeService::start(friendly);
    let mut host = FakeHost::new(|_, _, _| Ok(()));
    host.unclean = true;
    run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    let progress = service.progress();
    assert_eq!(
        progress[..3],
        [
            "Starting installation: master",
            "Starting installation: Could not clean install device /dev/landfall-test-disk. The installation will \
             continue. If the installation fails, clean the disk and try again",
            "Installing: master",
        ]
    );
    assert_eq!(host.did().last().unwrap(), "reboot after 3s");
}

#[test]
fn a_host_that_ironic_started_is_rebooted_by_it() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|_, _, _| Ok(()));
    host.answer("ironic-agent.service loaded active running Ironic Agent");
    run(&document(&service, |_| ()), &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    assert_eq!(service.progress().last().unwrap(), "Rebooting: Ironic will reboot the node shortly");
    assert_eq!(host.did().last().unwrap(), "systemctl --no-block stop agent.service");
}

#[test]
fn the_running_root_is_deployed_to_whatever_an_attempt_before_left() {
    let service = FakeService::start(friendly);
    let host = FakeHost::new(|_, _, _| unreachable!("no disk is written"));
    let root = host.root.path();
    for dir in ["ostree/repo/refs/heads/coreos", "ostree/repo/tmp", "boot/ignition", "etc/nm"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    for (file, content) in [
        ("ostree/repo/refs/heads/coreos/node-image", ""),
        ("boot/ignition/config.ign", "of the attempt before"),
        ("etc/nm/eth0.nmconnection", "[connection]"),
    ] {
        std::fs::write(root.join(file), content).unwrap();
    }
    host.fail("ostree container", 1);
    let document = document(&service, |d| {
        d["request"]["coreos_image"] = "r.io/os:1".into();
        d["request"]["installer_args"] =
            r#"["--append-karg","a=1","--delete-karg","b","--copy-network","--network-dir","/etc/nm"]"#.into();
    });
    run(&document, &host, &Cancel::default(), pace(), &mut |_| ()).unwrap();
    let deploy = "ostree container image deploy --stateroot install --sysroot / --authfile /root/.docker/config.json --karg \
                  $ignition_firstboot --karg ignition.platform.id=metal --image r.io/os:1";
    let attempt = [
        "make sysroot writable",
        "make boot writable",
        "ostree refs --repo /ostree/repo --delete coreos/node-image",
        "ostree admin stateroot-init install",
        deploy,
    ];
    let mut expected: Vec<_> = attempt.iter().chain(&attempt).copied().collect();
    expected.extend([
        "ostree admin finalize-staged",
        "rpm-ostree kargs --os install --append a=1 --delete-if-present b",
        "ostree admin finalize-staged",
        "send logs, bootstrap false",
        "systemctl list-units --no-legend ironic-agent.service",
        "reboot after 3s",
    ]);
    assert_eq!(host.did(), expected);
    assert!(root.join("ostree/repo/tmp/node-image").exists());
    assert_eq!(std::fs::read_to_string(root.join("boot/ignition/config.ign")).unwrap(), IGNITION);
    assert!(root.join("boot/ignition.firstboot").exists());
    assert!(root.join("boot/coreos-firstboot-network/eth0.nmconnection").exists());
}
