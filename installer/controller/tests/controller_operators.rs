//! Operators that users chose: until they are initialized and up, and what is applied for them.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use base64::{Engine, prelude::BASE64_STANDARD};
use rig::{
    Rig,
    finalizing::{ALL, CSV, INITIALIZATION, MANIFESTS, OLM, completes, completions, olm, reaches, reports, writes},
    operator,
};
use serde_json::{Value, json};

/// An entry of the operators' manifests: a ConfigMap of this name.
fn manifest(operator: &str, name: &str) -> Value {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {OLM}}}\n");
    json!({"Name": operator, "Content": BASE64_STANDARD.encode(text)})
}

fn is_applied(rig: &Rig, name: &str) -> bool {
    rig.cluster.client().find(&format!("/api/v1/namespaces/{OLM}/configmaps/{name}")).unwrap().is_some()
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

/// Jobs that need a shell in this image are reported, once: their scripts can't run. Other Jobs are not, whatever operators there are.
#[test]
fn setup_jobs_that_need_a_shell_are_reported() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    not_initialized(&rig);
    rig.cluster.job(OLM, "of-others", 0, &[]);
    rig.cluster.setup_job(OLM, "kmm");
    rig.cluster.setup_job("redhat-ods-operator", "openshift-ai");
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
        not_initialized(&rig);
        rig.cluster.setup_job(OLM, "kmm");
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

/// An operator whose subscription names no version yet.
fn not_initialized(rig: &Rig) {
    rig.state().operators.push(operator("kmm", "olm", "available"));
    rig.cluster.subscription(OLM, "kmm-operator", "");
    rig.cluster.csv(OLM, "kmm.v4", "Succeeded", "", "4.12.0");
}

/// Messages of the events about setup Jobs.
fn setup_events(rig: &Rig) -> Vec<String> {
    let events = rig.sent("POST", "/events");
    let about = events.iter().filter(|event| event["name"] == "controller_setup_job_refused");
    about.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}
