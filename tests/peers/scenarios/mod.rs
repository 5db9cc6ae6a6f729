//! One file for each scenario; its test says what is proven.

mod butane;
mod checks;
mod control_plane;
mod controller;
mod host;
mod ignition_disks;
mod install_config;
mod logs;
mod manifests;
mod operators;
mod pace;
mod preparation;
mod registration;
mod schemas;
mod secured;
mod single_node;
mod three_hosts;

use crate::{
    report::{Peers, begin, line, traces},
    service::IMAGE_URL,
    site::Site,
    user::Api,
    wire::{
        Comparison, Exchange,
        allowed::Row,
        compare::{Direction, compare},
    },
};
use serde_json::{Value, json};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::{Duration, Instant},
};
use testkit::wire::assert_fits;

/// A host is asked once a minute; this is some of those.
pub(crate) const PATIENCE: Duration = Duration::from_secs(420);
pub(crate) const PULL_SECRET: &str = r#"{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz","email":"a@b.c"},"cloud.openshift.com":{"auth":"dXNlcjpwYXNz","email":"a@b.c"},"registry.redhat.io":{"auth":"dXNlcjpwYXNz","email":"a@b.c"},"registry.ci.openshift.org":{"auth":"dXNlcjpwYXNz","email":"a@b.c"}}}"#;

/// Runs a scenario and reports what came of it.
pub(crate) fn scenario(
    name: &str,
    programs: &[&str],
    names: &[(&str, &str)],
    run: impl FnOnce(&Peers, &Site) -> String,
) {
    let Some(peers) = Peers::with(name, programs) else { return };
    begin(name);
    let _ = std::fs::remove_dir_all(traces());
    let Some(site) = Site::new(names) else {
        return line(name, "not run", "missing: the servers that make setup unpacks");
    };
    let result = catch_unwind(AssertUnwindSafe(|| run(&peers, &site)));
    trace(&site);
    match result {
        Ok(summary) => line(name, "passed", &summary),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            line(name, "FAILED", text.unwrap_or("?").lines().next().unwrap_or_default());
            resume_unwind(panic);
        }
    }
}

/// What went through the relay so far.
pub(crate) fn exchanges(site: &Site) -> Vec<Exchange> {
    let pairs = site.relay.pairs().unwrap();
    pairs.iter().enumerate().map(|(number, pair)| Exchange::seen(number, pair)).collect()
}

/// All exchanges beside the recorded ones; panics with the first differences that nothing names.
pub(crate) fn assert_as_recorded(site: &Site, direction: Direction) -> Comparison {
    assert_as_recorded_but(site, direction, &[])
}

/// As [`assert_as_recorded`], but for what is another in this scenario alone.
pub(crate) fn assert_as_recorded_but(site: &Site, direction: Direction, scenario: &[Row]) -> Comparison {
    let comparison = compare(&exchanges(site), direction, scenario);
    let unnamed = comparison.first_unnamed();
    assert!(
        unnamed.is_empty(),
        "{} differences from the recordings are not named; the first of each:\n  {}",
        comparison.unnamed.len(),
        unnamed.join("\n  ")
    );
    comparison
}

/// Waits until the exchanges that were answered so far are enough.
pub(crate) fn await_exchanges(site: &Site, what: &str, enough: impl Fn(&[Exchange]) -> bool) -> Vec<Exchange> {
    let end = Instant::now() + PATIENCE;
    loop {
        let exchanges: Vec<Exchange> = exchanges(site).into_iter().filter(|one| one.status.is_some()).collect();
        if enough(&exchanges) {
            return exchanges;
        }
        let kinds: Vec<String> = exchanges.iter().map(Exchange::kind).collect();
        assert!(Instant::now() < end, "never came: {what}; came: {}", kinds.join(", "));
        thread::sleep(Duration::from_secs(1));
    }
}

/// The replies to steps of this type, which the service has taken, as the service defines them.
pub(crate) fn replies(exchanges: &[Exchange], step: &str, definition: &str) -> Vec<Value> {
    let replies = exchanges.iter().filter(|one| one.kind().starts_with(&format!("reply {step}")));
    let taken = |one: &Exchange| {
        assert_eq!(one.status, Some(204), "{step}: {} {}", one.request.body, one.response.body);
        let output = one.request.raw["output"].as_str().unwrap_or_else(|| panic!("{step}: {}", one.request.raw));
        assert_fits(definition, &serde_json::from_str(output).unwrap());
        one.request.body.clone()
    };
    replies.map(taken).collect()
}

/// A cluster and its infra-env.
pub(crate) fn create(api: &Api, cluster: Value) -> (String, String) {
    let version = cluster["openshift_version"].clone();
    let cluster = id(&api.request("POST", "/clusters", Some(cluster)));
    let mut env = infra_env(Some(&cluster));
    env["openshift_version"] = version;
    (cluster, id(&api.request("POST", "/infra-envs", Some(env))))
}

/// Waits until the hosts of an infra-env are known; their ids.
pub(crate) fn await_known(api: &Api, env: &str, count: usize) -> Vec<String> {
    let known = |hosts: &Value| {
        let hosts = hosts.as_array().unwrap();
        hosts.len() == count && hosts.iter().all(|host| host["status"] == "known")
    };
    let hosts = api.await_state("the hosts are known", &format!("/infra-envs/{env}/hosts"), PATIENCE, known);
    hosts.as_array().unwrap().iter().map(id).collect()
}

/// What a user does once the hosts are known, up to hosts that install.
pub(crate) fn install(api: &Api, cluster: &str, env: &str, hosts: &[String]) {
    install_from(api, cluster, env, hosts, IMAGE_URL);
}

/// As [`install`], from another image.
pub(crate) fn install_from(api: &Api, cluster: &str, env: &str, hosts: &[String], image: &str) {
    let path = format!("/clusters/{cluster}");
    api.await_state("the cluster is ready", &path, PATIENCE, |cluster| cluster["status"] == "ready");
    for host in hosts {
        let args = json!({"args": ["--image-url", image]});
        api.request("PATCH", &format!("/infra-envs/{env}/hosts/{host}/installer-args"), Some(args));
    }
    api.request("POST", &format!("{path}/actions/install"), None);
    let after = api.await_state("the cluster installs", &path, PATIENCE, |cluster| {
        !["ready", "preparing-for-installation"].contains(&cluster["status"].as_str().unwrap_or_default())
            || cluster["last_installation_preparation"]["status"] == "failed"
    });
    let preparation = &after["last-installation-preparation"];
    assert!(after["status"] == "installing", "{}: {}; {preparation}", after["status"], after["status_info"]);
}

/// Waits until a host is at a stage; panics at once where it fails.
pub(crate) fn await_stage(api: &Api, env: &str, host: &str, stage: &str) {
    let path = format!("/infra-envs/{env}/hosts/{host}");
    let at = |host: &Value| host["progress"]["current_stage"] == stage;
    let what = format!("the host is at {stage}");
    let done = api.await_state(&what, &path, PATIENCE, |host| at(host) || host["status"] == "error");
    assert!(at(&done), "{} {}", done["status_info"], done["progress"]);
}

pub(crate) fn single_node_cluster() -> Value {
    json!({
        "name": "sno4",
        "openshift_version": "4.22",
        "control_plane_count": 1,
        "high_availability_mode": "None",
        "base_dns_domain": "example.com",
        "pull_secret": PULL_SECRET,
        "cpu_architecture": "x86_64",
        "machine_networks": [{"cidr": "192.168.131.0/24"}],
        "network_type": "OVNKubernetes",
        "ssh_public_key": "",
    })
}

pub(crate) fn infra_env(cluster: Option<&str>) -> Value {
    let mut body = json!({
        "name": "env",
        "openshift_version": "4.22",
        "pull_secret": PULL_SECRET,
        "cpu_architecture": "x86_64",
        "image_type": "full-iso",
    });
    if let Some(cluster) = cluster {
        body["cluster_id"] = cluster.into();
    }
    body
}

pub(crate) fn id(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

/// All exchanges in files, for who mends a difference.
fn trace(site: &Site) {
    // What goes by TLS cannot be read.
    let pairs = site.relay.pairs().unwrap_or_default();
    for (number, pair) in pairs.iter().enumerate() {
        let exchange = Exchange::seen(number, pair);
        let name = format!("{number:04}-{}.txt", exchange.kind().replace(['/', ' '], "_"));
        std::fs::write(traces().join(name), format!("{exchange:#?}")).unwrap();
    }
}
