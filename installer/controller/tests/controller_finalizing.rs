//! From the last node to a finished cluster: its own operators, the ingress authority, and the completion.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use rig::{
    NAMESPACE, Rig,
    finalizing::{
        ALL, CSV, DONE, INITIALIZATION, MANIFESTS, OLM, OPERATORS, ROUTER_CA, completes, completions, olm, reaches,
        reports, writes,
    },
    operator,
};
use serde_json::json;
use simulator::Fault;

/// The authority of the ingress is sent when both sides answer, and the next stage waits for that. A cluster without operators that users
/// chose is then done.
#[test]
fn the_ingress_authority_is_sent_until_the_service_has_it() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.fail_all("GET", "configmaps/default-ingress-cert", 500);
    rig.state().failures.push(("POST", "/ingress-cert", 2, 500));
    let controller = rig.start();
    reaches(&rig, ROUTER_CA);
    rig.rounds(3);
    assert!(rig.sent("POST", "/ingress-cert").is_empty());
    assert_eq!(rig.finalizing(), [OPERATORS, ROUTER_CA]);
    rig.proxy.pass();
    completes(&rig, controller);
    assert_eq!(rig.sent("POST", "/ingress-cert"), [json!("CA"), json!("CA"), json!("CA")]);
    assert_eq!(rig.finalizing(), [OPERATORS, ROUTER_CA, INITIALIZATION, DONE]);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
    assert!(reports(&rig).is_empty() && writes(&rig).is_empty(), "{:?}", writes(&rig));
}

/// With the version asked for, both it and the console are reported; a report that the service does not take is repeated. A completion
/// that it does not take, too. Nothing is collected of a cluster that is well.
#[test]
fn version_and_console_are_reported_and_the_completion_is_repeated() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.set_status("installing");
    rig.state().operators.extend([operator("console", "builtin", ""), operator("cvo", "builtin", "")]);
    rig.cluster.cluster_version(&[("Available", "True", "")], "4.20.1", &["Console"], &["Console"]);
    rig.cluster.cluster_operator("console", &[("Available", "True", "")], "4.20.0");
    rig.state().failures.extend([("PUT", "/monitored-operators", 1, 500), ("POST", "/complete-installation", 1, 500)]);
    let mut config = rig.config();
    config.check_cluster_version = true;
    let controller = rig.start_with(config);
    rig.rounds(4);
    assert!(rig.finalizing().is_empty(), "stages begin when the service says so");
    rig.set_status("finalizing");
    rig.until("the second completion", |rig| completions(rig).len() == 2);
    rig.set_status("installed");
    controller.finish().unwrap();
    let mut sent = reports(&rig);
    sent.sort_by_key(|report| report["name"].to_string());
    let console = json!({"name": "console", "status": "available", "version": "4.20.0"});
    assert_eq!(sent, [console.clone(), console, json!({"name": "cvo", "status": "available", "version": "4.20.1"})]);
    assert_eq!(rig.finalizing(), [OPERATORS, ROUTER_CA, INITIALIZATION, DONE]);
    assert_eq!(completions(&rig), [json!({"is_success": true}), json!({"is_success": true})]);
    assert!(rig.pods("must-gather-").is_empty() && rig.sent("POST", "/events").is_empty());
}

/// The version is looked at in each round, whatever becomes of the console.
#[test]
fn a_console_that_cannot_be_read_does_not_hide_the_version() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.state().operators.extend([operator("console", "builtin", ""), operator("cvo", "builtin", "")]);
    rig.cluster.cluster_version(&[("Progressing", "True", "progress")], "4.20.1", &["Console"], &["Console"]);
    rig.cluster.cluster_operator("console", &[("Available", "True", "")], "4.20.0");
    let fail_both = || {
        rig.proxy.set_faults(|_, path, _| {
            let fails = path.contains("clusteroperators/console") || path.contains("clusterversions/");
            if fails { Fault::Status(500) } else { Fault::Pass }
        })
    };
    fail_both();
    let mut config = rig.config();
    config.check_cluster_version = true;
    let controller = rig.start_with(config);
    reaches(&rig, OPERATORS);
    rig.rounds(2);
    assert!(reports(&rig).is_empty());
    rig.fail_all("GET", "clusteroperators/console", 500);
    let progress = json!({"name": "cvo", "status": "progressing", "status_info": "progress", "version": "4.20.1"});
    rig.until("the progress", |rig| !reports(rig).is_empty());
    fail_both();
    rig.rounds(3);
    assert_eq!(reports(&rig), [progress]);
    rig.cluster.cluster_version(&[("Available", "True", "")], "4.20.1", &["Console"], &["Console"]);
    rig.proxy.pass();
    completes(&rig, controller);
    let sent: Vec<_> = reports(&rig).iter().map(|report| format!("{}{}", report["name"], report["status"])).collect();
    assert_eq!(sent, [r#""cvo""progressing""#, r#""console""available""#, r#""cvo""available""#]);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
}

/// The cluster's own operators never come up: at its end the service gets one completion, with what is wrong with which of them.
#[test]
fn a_cluster_that_fails_before_its_operators_are_up_is_reported_with_them() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.state().operators.push(operator("cvo", "builtin", "progressing"));
    rig.cluster.cluster_operator("authentication", &[("Degraded", "True", "OAuth is down")], "4.20.1");
    rig.fail_all("GET", "clusterversions/", 500);
    let mut config = rig.config();
    config.check_cluster_version = true;
    let controller = rig.start_with(config);
    reaches(&rig, OPERATORS);
    rig.rounds(3);
    rig.set_status("error");
    rig.until("the logs", |rig| !rig.sent("PUT", "/logs-progress").is_empty());
    controller.stop();
    assert_eq!(rig.finalizing(), [OPERATORS]);
    let report = json!([{"name": "authentication", "status": "failed", "status_info": "OAuth is down"}]);
    let why = "Stopped waiting for cluster operators to be available: context canceled";
    let wanted = json!({"is_success": false, "error_info": why, "data": {"CLUSTER_OPERATORS_REPORT": report}});
    assert_eq!(completions(&rig), [wanted]);
    assert!(rig.sent("POST", "/events")[0]["message"].as_str().unwrap().contains(why), "people see why");
}

/// The authority of the ingress never comes, and operators can't be listed either: the reason is sent without them.
#[test]
fn a_cluster_that_fails_without_an_ingress_is_reported_with_that() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.proxy.set_faults(|_, path, _| {
        let fails = path.contains("default-ingress-cert") || path.ends_with("/clusteroperators");
        if fails { Fault::Status(500) } else { Fault::Pass }
    });
    let controller = rig.start();
    reaches(&rig, ROUTER_CA);
    rig.set_status("error");
    rig.until("the logs", |rig| !rig.sent("PUT", "/logs-progress").is_empty());
    controller.stop();
    assert_eq!(rig.finalizing(), [OPERATORS, ROUTER_CA]);
    let why = "Stopped waiting for router ca data: context canceled";
    assert_eq!(completions(&rig), [json!({"is_success": false, "error_info": why})]);
}

/// The version's progress reaches the service as it changes, word for word, and an empty message is no news.
#[test]
fn the_version_is_reported_when_there_is_news() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.state().operators.push(operator("cvo", "builtin", "progressing"));
    let version = |kind: &str, message: &str| {
        rig.cluster.cluster_version(&[(kind, "True", message)], "4.20.1", &[], &["Console"]);
    };
    version("Progressing", "");
    let mut config = rig.config();
    config.check_cluster_version = true;
    let controller = rig.start_with(config);
    reaches(&rig, OPERATORS);
    for (message, sent) in [("", 0), ("message", 1), ("new", 2), ("", 2)] {
        version("Progressing", message);
        rig.until(message, |rig| reports(rig).len() >= sent);
        rig.rounds(3);
        assert_eq!(reports(&rig).len(), sent, "{message}");
    }
    version("Available", "");
    completes(&rig, controller);
    let report = |status: &str, message: &str| {
        let mut report = json!({"name": "cvo", "status": status, "version": "4.20.1"});
        if !message.is_empty() {
            report["status_info"] = message.into();
        }
        report
    };
    let wanted = [report("progressing", "message"), report("progressing", "new"), report("available", "")];
    assert_eq!(reports(&rig), wanted);
}

/// A version that is available with a message is reported with it; one that the service knows to be available is left alone.
#[test]
fn an_available_version_is_reported_once() {
    for (status, sent) in [("progressing", 1), ("available", 0)] {
        let Some(rig) = Rig::new() else { return };
        rig.finalizes();
        rig.state().operators.push(operator("cvo", "builtin", status));
        let kind = if sent == 1 { "Available" } else { "Progressing" };
        rig.cluster.cluster_version(&[(kind, "True", "message")], "4.20.1", &[], &["Console"]);
        let mut config = rig.config();
        config.check_cluster_version = true;
        let controller = rig.start_with(config);
        completes(&rig, controller);
        let wanted = json!({"name": "cvo", "status": "available", "status_info": "message", "version": "4.20.1"});
        assert_eq!(reports(&rig), vec![wanted; sent]);
    }
}

/// The service never takes the version's state: the stage lasts until the service ends it.
#[test]
fn a_version_that_the_service_does_not_take_is_not_available() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.state().operators.push(operator("cvo", "builtin", "progressing"));
    rig.cluster.cluster_version(&[("Available", "True", "")], "4.20.1", &[], &["Console"]);
    rig.state().failures.push(("PUT", "/monitored-operators", 9999, 500));
    let mut config = rig.config();
    config.check_cluster_version = true;
    let controller = rig.start_with(config);
    rig.until("some tries", |rig| reports(rig).len() > 2);
    rig.set_status("cancelled");
    rig.until("the logs", |rig| !rig.sent("PUT", "/logs-progress").is_empty());
    controller.stop();
    assert_eq!(rig.finalizing(), [OPERATORS]);
    let sent = completions(&rig);
    assert!(sent.len() == 1 && sent[0]["is_success"] == false, "{sent:?}");
}

/// The service is past all stages, and refuses each: the work is done all the same, and the completion sent once.
#[test]
fn a_refused_stage_does_not_keep_the_work() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Succeeded", "");
    rig.state().failures.push(("PUT", "/progress", 9999, 400));
    let controller = rig.start();
    completes(&rig, controller);
    assert_eq!(rig.finalizing(), ALL);
    assert_eq!(rig.sent("POST", "/ingress-cert"), [json!("CA")]);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
}

/// What keeps a controller in a stage, and what lets it go on.
fn block(rig: &Rig, stage: &str) {
    let console = |status| rig.cluster.cluster_operator("console", &[("Available", status, "")], "4.20.1");
    let enabled: &[&str] = if stage == OPERATORS { &["Console"] } else { &[] };
    rig.cluster.cluster_version(&[], "4.20.1", enabled, &["Console"]);
    console("False");
    rig.cluster.ingress_ca(if stage == ROUTER_CA { "" } else { "CA" });
    rig.cluster.subscription(OLM, "lso-operator", if stage == INITIALIZATION { "lso.v5" } else { "lso.v4" });
    let bad = json!([{"Name": "lso", "Content": "%"}]).to_string();
    rig.file("custom_manifests.json", if stage == MANIFESTS { bad } else { "[]".to_owned() });
    rig.cluster.csv(OLM, "lso.v4", if stage == CSV { "Installing" } else { "Succeeded" }, "", "4.12.0");
}

/// The cluster ends in any stage: one completion at most, and none that says that a failed cluster is finished. One that the service calls
/// installed is complete.
#[test]
fn the_end_of_the_cluster_sends_one_completion_at_most() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Installing", "");
    for status in ["cancelled", "installed"] {
        for stage in [OPERATORS, ROUTER_CA, INITIALIZATION, MANIFESTS, CSV] {
            block(&rig, stage);
            rig.state().operators[0] = operator("lso", "olm", "progressing");
            rig.set_status("finalizing");
            let (before, stages, logs) =
                (completions(&rig).len(), rig.finalizing().len(), rig.sent("PUT", "/logs-progress").len());
            let controller = rig.start();
            let is_there = |rig: &Rig| rig.finalizing().len() > stages && rig.finalizing().last().unwrap() == stage;
            rig.until(stage, is_there);
            rig.set_status(status);
            rig.until("the logs", |rig| rig.sent("PUT", "/logs-progress").len() > logs);
            controller.stop();
            let wanted: &[bool] = match (status, stage) {
                ("installed", _) => &[true],
                (_, OPERATORS | ROUTER_CA) => &[false],
                _ => &[],
            };
            let sent: Vec<_> = completions(&rig)[before..].iter().map(|body| body["is_success"] == true).collect();
            assert_eq!(sent, wanted, "{status} in {stage}");
            assert_eq!(rig.finalizing().last().unwrap(), stage, "no stage begins after the end");
        }
    }
}

/// The process is asked to end in any stage: it sends nothing more, and the next one goes through all stages from the first.
#[test]
fn another_run_takes_over_in_any_stage() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Installing", "");
    let writes = |request: &fake_service::Request| request.method != "GET" && !request.path.ends_with("/logs");
    let sent = |rig: &Rig| rig.service.requests().into_iter().filter(writes).count();
    for (number, stage) in ALL[..5].iter().enumerate() {
        block(&rig, stage);
        let before = rig.finalizing().len();
        let controller = rig.start();
        rig.until(stage, |rig| rig.finalizing().len() == before + number + 1);
        rig.rounds(1);
        let requests = sent(&rig);
        controller.stop();
        assert_eq!(sent(&rig), requests, "{stage}");
        assert_eq!(rig.finalizing()[before..], ALL[..=number]);
        assert!(completions(&rig).is_empty());
    }
    block(&rig, DONE);
    let before = rig.finalizing().len();
    let controller = rig.start();
    completes(&rig, controller);
    assert_eq!(rig.finalizing()[before..], ALL);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
    assert!(
        rig.cluster
            .client()
            .find(&format!("/api/v1/namespaces/{NAMESPACE}/events/AssistedControllerIsReady"))
            .unwrap()
            .is_some()
    );
}
