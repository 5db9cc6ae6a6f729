//! Stages (docs/compatibility.md#installation-order) and retries (docs/compatibility.md#http-client), against a service that fails as it
//! was told, in simulated time.
#![allow(clippy::unwrap_used)]

use crate::machine;

use fake_service::{Answer, FakeService, PATIENCE, Request};
use installer::{
    flow::{FlowError, Pace, run},
    host::WriteError,
};
use kernel::Cancel;
use machine::FakeHost;
use serde_json::json;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

const IGNITION: &str = r#"{"ignition":{"version":"3.2.0"}}"#;
const MASTER: [&str; 4] = ["Starting installation: master", "Installing: master", "Writing image to disk", "Rebooting"];

fn document(service: &FakeService) -> api::InstallDocument {
    let document = json!({
        "request": {
            "boot_device": "/dev/landfall-test-disk", "check_cvo": false,
            "cluster_id": "11111111-2222-3333-4444-555555555555", "control_plane_count": 3,
            "controller_image": "r.io/c:1", "disks_to_format": [], "installer_image": "r.io/i:1", "role": "master",
            "host_id": "aaaaaaaa-0000-0000-0000-000000000001", "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000001",
            "installer_args": "[]", "service_ips": null
        },
        "service": {"url": service.url, "token": "t0ken"}, "reboot": true
    });
    serde_json::from_value(document).unwrap()
}

fn is_ignition(request: &Request) -> bool {
    request.ends_with("GET", "/downloads/ignition")
}

fn friendly(request: &Request) -> Answer {
    if is_ignition(request) { Answer::Text(200, IGNITION) } else { Answer::Done }
}

/// How asking for the config went when it was answered so: attempts, simulated time, result.
fn ask(answer: impl Fn(u32, Duration) -> Answer + Send + Sync + 'static) -> (u32, Duration, Result<(), FlowError>) {
    let (cancel, asked) = (Cancel::in_simulated_time(), AtomicU32::new(0));
    let clock = cancel.clone();
    let service = FakeService::start(move |request| match is_ignition(request) {
        true => answer(asked.fetch_add(1, Ordering::Relaxed) + 1, clock.slept()),
        false => friendly(request),
    });
    let host = FakeHost::new(|_, _, _| Ok(()));
    let result = run(&document(&service), &host, &cancel, Pace { flush: PATIENCE, ..Pace::default() }, &mut |_| ());
    let asked = service.requests().iter().filter(|request| is_ignition(request)).count();
    let last = service.progress().pop().unwrap();
    match &result {
        Ok(()) => assert_eq!(service.progress(), MASTER),
        Err(_) => assert!(last.starts_with("Failed: cannot get this host's Ignition config"), "{last}"),
    }
    (asked.try_into().unwrap(), cancel.slept(), result)
}

#[test]
fn each_status_is_tried_as_often_as_by_the_real_installer() {
    let rows: [(u16, u32); 14] = [
        (400, 1),
        (401, 1),
        (403, 1),
        (405, 1),
        (409, 1),
        (404, 11),
        (423, 11),
        (425, 11),
        (408, 361),
        (429, 361),
        (500, 361),
        (502, 361),
        (503, 361),
        (504, 361),
    ];
    for (status, attempts) in rows {
        let (asked, slept, result) = ask(move |_, _| Answer::Status(status));
        assert_eq!(asked, attempts, "{status}");
        assert!(result.is_err());
        println!("{status}: {asked} attempts in {:.0} min", slept.as_secs_f64() / 60.0);
        // Each of the later pauses is five seconds on average.
        let minutes = if attempts > 100 { 20..40 } else { 0..2 };
        assert!(minutes.contains(&(slept.as_secs() / 60)), "{status}: {slept:?}");
    }
}

#[test]
fn what_passes_is_waited_for() {
    let (asked, _, result) = ask(|n, _| if n <= 10 { Answer::Status(404) } else { Answer::Text(200, IGNITION) });
    assert!(result.is_ok());
    assert_eq!(asked, 11, "a config that is made a little later");

    let ten_minutes = Duration::from_secs(600);
    let (asked, slept, result) =
        ask(move |_, at| if at < ten_minutes { Answer::Status(500) } else { Answer::Text(200, IGNITION) });
    assert!(result.is_ok());
    assert!(slept >= ten_minutes && asked > 60, "{asked} in {slept:?}");
    println!("500 for {:.0} s of simulated time: answered after {asked} attempts", slept.as_secs_f64());

    let (asked, _, result) = ask(|n, _| if n <= 20 { Answer::HangUp } else { Answer::Text(200, IGNITION) });
    assert!(result.is_ok());
    assert_eq!(asked, 21, "connections that break");
}

#[test]
fn a_service_that_is_away_is_waited_for_half_an_hour() {
    let cancel = Cancel::in_simulated_time();
    let service = FakeService::start(friendly);
    let mut document = document(&service);
    let nowhere = testkit::port::Held::default();
    document.service.url = format!("http://{}", nowhere.address());
    let host = FakeHost::new(|_, _, _| Ok(()));
    let error = run(&document, &host, &cancel, Pace { flush: PATIENCE, ..Pace::default() }, &mut |_| ()).unwrap_err();
    assert!(matches!(error, FlowError::Ignition { .. }), "{error}");
    // Reports are tried beside it, in the same simulated time.
    assert!(cancel.slept() > Duration::from_secs(20 * 60), "{:?}", cancel.slept());
}

#[test]
fn a_report_that_is_refused_is_not_repeated_and_one_that_fails_is() {
    for (status, attempts) in [(409, 1), (400, 1), (404, 11), (500, 361)] {
        let service = FakeService::start(move |request| match request.ends_with("PUT", "/progress") {
            true if request.body["current_stage"] == "Installing" => Answer::Status(status),
            _ => friendly(request),
        });
        let host = FakeHost::new(|_, _, _| Ok(()));
        run(
            &document(&service),
            &host,
            &Cancel::in_simulated_time(),
            Pace { flush: PATIENCE, ..Pace::default() },
            &mut |_| (),
        )
        .unwrap();
        let progress = service.progress();
        let reports = progress.iter().filter(|report| *report == "Installing: master").count();
        assert_eq!(reports, attempts, "{status}");
        assert_eq!(
            progress.last().unwrap(),
            "Rebooting",
            "{status}: an installation doesn't fail because a report did"
        );
    }
}

#[test]
fn writing_that_fails_for_a_passing_cause_is_tried_three_times_a_second_apart() {
    let service = FakeService::start(friendly);
    let lost = || WriteError { transient: true, cause: "the connection was lost".into() };
    let host = FakeHost::new(move |_, _, _| Err(lost()));
    let cancel = Cancel::in_simulated_time();
    run(&document(&service), &host, &cancel, Pace { flush: PATIENCE, ..Pace::default() }, &mut |_| ()).unwrap_err();
    assert_eq!(*host.attempts.lock().unwrap(), 3);
    assert_eq!(cancel.slept(), Duration::from_secs(2));
    assert_eq!(
        service.progress().pop().unwrap(),
        "Failed: cannot write the live system's image to /dev/landfall-test-disk (attempt 3 of 3): the connection was lost"
    );
}
