//! From the last node to a finished cluster: operators, the ingress authority, operators that users chose, and the completion.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod rig;

use base64::{Engine, prelude::BASE64_STANDARD};
use rig::{NAMESPACE, Rig, Running, operator};
use serde_json::{Value, json};
use simulator::Fault;

const OPERATORS: &str = "Waiting for cluster operators";
const ROUTER_CA: &str = "Adding router ca";
const INITIALIZATION: &str = "Waiting for olm operators csv initialization";
const MANIFESTS: &str = "Applying olm manifests";
const CSV: &str = "Waiting for olm operators csv";
const DONE: &str = "Done";
const ALL: [&str; 6] = [OPERATORS, ROUTER_CA, INITIALIZATION, MANIFESTS, CSV, DONE];
/// Of the operators that [`operator`] makes.
const OLM: &str = "openshift-test";

fn completions(rig: &Rig) -> Vec<Value> {
    rig.sent("POST", "/complete-installation")
}

fn reports(rig: &Rig) -> Vec<Value> {
    rig.sent("PUT", "/monitored-operators")
}

fn reaches(rig: &Rig, stage: &str) {
    rig.until(stage, |rig| rig.finalizing().last().is_some_and(|last| last == stage));
}

fn completes(rig: &Rig, controller: Running) {
    rig.until("completion", |rig| !completions(rig).is_empty());
    rig.set_status("installed");
    controller.finish().unwrap();
}

/// An operator that users chose, its subscription, and its version in a phase.
fn olm(rig: &Rig, name: &str, status: &str, phase: &str, message: &str) {
    rig.state().operators.push(operator(name, "olm", status));
    rig.cluster.subscription(OLM, &format!("{name}-operator"), &format!("{name}.v4"));
    rig.cluster.csv(OLM, &format!("{name}.v4"), phase, message, "4.12.0");
}

/// What a controller writes in the cluster, but for events.
fn writes(rig: &Rig) -> Vec<String> {
    let requests = rig.proxy.requests();
    let writing = requests.iter().filter(|request| request.method != "GET" && !request.target.contains("/events"));
    writing.map(|request| format!("{} {}", request.method, request.target)).collect()
}

/// An entry of the operators' manifests: a ConfigMap of this name.
fn manifest(operator: &str, name: &str) -> Value {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {OLM}}}\n");
    json!({"Name": operator, "Content": BASE64_STANDARD.encode(text)})
}

fn is_applied(rig: &Rig, name: &str) -> bool {
    rig.cluster.client().find(&format!("/api/v1/namespaces/{OLM}/configmaps/{name}")).unwrap().is_some()
}

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

/// An operator whose subscription can't be read, has no version yet, or names one that does not exist, is not initialized. What failed
/// before and blocks it is removed; what runs, has ended well or belongs to others stays.
#[test]
fn an_operator_is_initialized_once_its_version_exists() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.state().operators.push(operator("lso", "olm", ""));
    rig.cluster.job("openshift-marketplace", "has-failed", 1, &[]);
    rig.cluster.job("openshift-marketplace", "gave-up", 0, &[("Failed", "True", "DeadlineExceeded")]);
    rig.cluster.job("openshift-marketplace", "fine", 0, &[]);
    for (name, subscription, phase) in [
        ("failed", "lso-operator", "Failed"),
        ("complete", "lso-operator", "Complete"),
        ("installing", "lso-operator", "Installing"),
        ("of-others", "other-operator", "Failed"),
    ] {
        rig.cluster.install_plan(OLM, name, subscription, phase);
    }
    rig.fail_all("GET", "subscriptions/", 500);
    let controller = rig.start();
    reaches(&rig, INITIALIZATION);
    let left = |rig: &Rig, path: &str| {
        let list = rig.cluster.client().list(path).unwrap();
        list.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let plans = format!("/apis/operators.coreos.com/v1alpha1/namespaces/{OLM}/installplans");
    rig.until("clean-up", |rig| {
        left(rig, "/apis/batch/v1/namespaces/openshift-marketplace/jobs") == ["fine"]
            && left(rig, &plans) == ["complete", "installing", "of-others"]
    });
    assert_eq!(writes(&rig).len(), 3, "{:?}", writes(&rig));
    rig.proxy.pass();
    rig.cluster.subscription(OLM, "lso-operator", "");
    rig.rounds(3);
    rig.cluster.subscription(OLM, "lso-operator", "lso.v4");
    rig.rounds(3);
    rig.fail_all("GET", "clusterserviceversions/", 500);
    rig.cluster.csv(OLM, "lso.v4", "Pending", "", "4.12.0");
    rig.rounds(3);
    assert_eq!(rig.finalizing().last().unwrap(), INITIALIZATION);
    rig.proxy.pass();
    reaches(&rig, CSV);
    assert_eq!(writes(&rig).len(), 3, "nothing else is removed");
    controller.stop();
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

/// An operator comes up: each state is reported once, and all stages in order.
#[test]
fn an_operator_is_reported_as_it_comes_up() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "", "Installing", "");
    let controller = rig.start();
    rig.until("progressing", |rig| !reports(rig).is_empty());
    rig.rounds(3);
    rig.cluster.csv(OLM, "lso.v4", "Succeeded", "", "4.12.0");
    completes(&rig, controller);
    let report = |status: &str| json!({"name": "lso", "status": status, "version": "4.12.0"});
    assert_eq!(reports(&rig), [report("progressing"), report("available")]);
    assert_eq!(rig.finalizing(), ALL);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
    assert!(rig.pods("must-gather-").is_empty());
}

/// An operator does not come up before the service gives its stages no more time: it has failed, and the cluster is complete.
#[test]
fn an_operator_whose_time_is_over_has_failed() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    // One with a version that never gets further, one without any.
    olm(&rig, "lso", "progressing", "Installing", "");
    rig.state().operators.push(operator("cnv", "olm", ""));
    rig.state().failures.push(("PUT", "/monitored-operators", 1, 500));
    let controller = rig.start();
    for stage in [INITIALIZATION, MANIFESTS, CSV] {
        rig.time_out(stage);
    }
    rig.until("completion", |rig| !completions(rig).is_empty());
    let report =
        |name: &str| json!({"name": name, "status": "failed", "status_info": "Waiting for operator timed out"});
    // The first was refused, and is repeated.
    assert_eq!(reports(&rig), [report("lso"), report("cnv"), report("lso")]);
    assert_eq!(rig.finalizing(), ALL);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
    controller.stop();
}

/// The list of operators can't be read in time: those that are pending at the end are still marked as failed.
#[test]
fn operators_that_were_never_listed_fail_as_well() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Installing", "");
    rig.state().failures.push(("GET", "/monitored-operators", 9999, 500));
    let controller = rig.start();
    rig.time_out(INITIALIZATION);
    reaches(&rig, CSV);
    rig.rounds(2);
    rig.state().failures.clear();
    rig.time_out(CSV);
    rig.until("completion", |rig| !completions(rig).is_empty());
    assert_eq!(reports(&rig).last().unwrap()["status_info"], "Waiting for operator timed out");
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
    controller.stop();
}

/// What both sides say already is not reported again; a new message is.
#[test]
fn an_operator_is_reported_when_there_is_news() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Installing", "");
    let controller = rig.start();
    reaches(&rig, CSV);
    rig.rounds(3);
    assert!(reports(&rig).is_empty());
    rig.cluster.csv(OLM, "lso.v4", "Installing", "waiting", "4.12.0");
    rig.until("the message", |rig| !reports(rig).is_empty());
    rig.rounds(3);
    let report =
        |message: &str| json!({"name": "lso", "status": "progressing", "status_info": message, "version": "4.12.0"});
    assert_eq!(reports(&rig), [report("waiting")]);
    rig.cluster.csv(OLM, "lso.v4", "Installing", "still waiting", "4.12.0");
    rig.until("the next message", |rig| reports(rig).len() > 1);
    rig.rounds(3);
    assert_eq!(reports(&rig), [report("waiting"), report("still waiting")]);
    // The service decides; an operator of a cluster that ended is not marked.
    rig.set_status("cancelled");
    controller.finish().unwrap();
    assert_eq!(reports(&rig).len(), 2);
    assert!(completions(&rig).is_empty());
}

/// A version that fails may recover within five minutes, unreported.
#[test]
fn an_operator_that_recovers_has_not_failed() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Failed", "crash");
    let controller = rig.start();
    reaches(&rig, CSV);
    rig.rounds(4);
    assert!(reports(&rig).is_empty());
    rig.cluster.csv(OLM, "lso.v4", "Succeeded", "", "4.12.0");
    completes(&rig, controller);
    assert_eq!(reports(&rig), [json!({"name": "lso", "status": "available", "version": "4.12.0"})]);
}

/// One that stays failed for longer is reported with its reason, so that users need not wait for the end of its time. The cluster is
/// complete.
#[test]
fn an_operator_that_stays_failed_is_reported() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "progressing", "Failed", "crash");
    let controller = rig.start();
    rig.until("completion", |rig| !completions(rig).is_empty());
    let wanted = json!({"name": "lso", "status": "failed", "status_info": "crash", "version": "4.12.0"});
    assert_eq!(reports(&rig), [wanted]);
    assert_eq!(completions(&rig), [json!({"is_success": true})]);
    controller.stop();
}

/// Operators that the service knows to be up are not reported, and not waited for.
#[test]
fn operators_that_are_up_in_the_service_are_left_alone() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    for name in ["cnv", "lso", "odf"] {
        olm(&rig, name, "progressing", "Installing", "");
    }
    let controller = rig.start();
    reaches(&rig, CSV);
    for number in 0..3 {
        rig.rounds(1);
        assert_eq!(rig.finalizing().last().unwrap(), CSV);
        rig.state().operators[number]["status"] = "available".into();
    }
    completes(&rig, controller);
    assert!(reports(&rig).is_empty());
}

/// Manifests are applied for each operator that is there, also where another is not, where one has none, and where another's are broken.
#[test]
fn manifests_of_an_operator_wait_for_no_other() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.cluster.namespace(OLM);
    olm(&rig, "lso", "available", "Succeeded", "");
    rig.state().operators.extend([operator("cnv", "olm", ""), operator("mce", "olm", "available")]);
    rig.cluster.subscription(OLM, "mce-operator", "lso.v4");
    let list = json!([
        {"Name": "mce", "Content": ""}, {"Name": "lso", "Content": "%"}, manifest("cnv", "of-cnv"),
        manifest("lso", "of-lso"), manifest("lso", "also-of-lso"), manifest("other", "of-no-operator"),
    ]);
    rig.file("custom_manifests.json", list.to_string());
    let controller = rig.start();
    rig.time_out(INITIALIZATION);
    rig.until("those of lso", |rig| is_applied(rig, "of-lso") && is_applied(rig, "also-of-lso"));
    rig.rounds(2);
    assert_eq!(rig.finalizing().last().unwrap(), MANIFESTS, "one is broken, one not there yet");
    assert!(!is_applied(&rig, "of-cnv"));
    let list = json!([{"Name": "mce", "Content": ""}, manifest("cnv", "of-cnv")]);
    rig.file("custom_manifests.json", list.to_string());
    rig.cluster.subscription(OLM, "cnv-operator", "lso.v4");
    reaches(&rig, CSV);
    assert!(is_applied(&rig, "of-cnv") && !is_applied(&rig, "of-no-operator"));
    controller.stop();
}

/// Operators without manifests need none.
#[test]
fn empty_manifests_are_applied() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "lso", "available", "Succeeded", "");
    rig.file("custom_manifests.json", json!([{"Name": "lso", "Content": ""}]).to_string());
    let controller = rig.start();
    completes(&rig, controller);
    assert_eq!(rig.finalizing(), ALL);
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

/// Jobs that need a shell in this image are reported, once: their scripts can't run. Other Jobs are not, whatever operators there are.
#[test]
fn setup_jobs_that_need_a_shell_are_reported() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "kmm", "available", "Succeeded", "");
    rig.cluster.job(OLM, "of-others", 0, &[]);
    rig.cluster.setup_job(OLM, "kmm");
    rig.cluster.setup_job("redhat-ods-operator", "openshift-ai");
    // Before it is there its stage goes through some rounds.
    rig.cluster.subscription(OLM, "kmm-operator", "");
    let controller = rig.start();
    reaches(&rig, INITIALIZATION);
    rig.rounds(3);
    rig.cluster.subscription(OLM, "kmm-operator", "kmm.v4");
    completes(&rig, controller);
    let events = setup_events(&rig);
    let [first, second] = &events[..] else { panic!("{events:?}") };
    for (message, operator, place) in [
        (first, "operator kmm ", "job setup in namespace openshift-test "),
        (second, "operator openshift-ai ", "job setup in namespace redhat-ods-operator "),
    ] {
        assert!(message.contains(operator) && message.contains(place), "{message}");
    }
}

/// Our own service makes no such Job: the operators' names alone are no reason for an event.
#[test]
fn operators_without_a_setup_job_are_not_reported() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    olm(&rig, "kmm", "available", "Succeeded", "");
    olm(&rig, "openshift-ai", "available", "Succeeded", "");
    rig.cluster.job(OLM, "of-others", 0, &[]);
    let controller = rig.start();
    completes(&rig, controller);
    assert_eq!(setup_events(&rig), [""; 0]);
    assert_eq!(rig.calls("GET", "/apis/batch/v1/jobs").len(), 1, "read once");
}

/// Jobs that can't be read keep no operator. They are reported if they can be read while the operators' versions are waited for.
#[test]
fn setup_jobs_that_cannot_be_read_keep_no_operator() {
    for is_readable_later in [false, true] {
        let Some(rig) = Rig::new() else { return };
        rig.finalizes();
        olm(&rig, "kmm", "available", "Succeeded", "");
        rig.cluster.setup_job(OLM, "kmm");
        rig.cluster.subscription(OLM, "kmm-operator", "");
        rig.fail_all("GET", "/apis/batch/v1/jobs", 403);
        let controller = rig.start();
        rig.until("a second look", |rig| rig.calls("GET", "/apis/batch/v1/jobs").len() > 1);
        assert_eq!(setup_events(&rig), [""; 0]);
        if is_readable_later {
            rig.proxy.pass();
            rig.until("the event", |rig| !setup_events(rig).is_empty());
        }
        rig.cluster.subscription(OLM, "kmm-operator", "kmm.v4");
        completes(&rig, controller);
        assert_eq!(
            (setup_events(&rig).len(), rig.finalizing()),
            (usize::from(is_readable_later), ALL.map(str::to_owned).to_vec())
        );
    }
}

/// Messages of the events about setup Jobs.
fn setup_events(rig: &Rig) -> Vec<String> {
    let events = rig.sent("POST", "/events");
    let about = events.iter().filter(|event| event["name"] == "controller_setup_job_refused");
    about.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}
