//! One file for each scenario; its test says what is proven.

mod host;
mod single_node;

use crate::{
    report::{Peers, line},
    site::Site,
    wire::{
        Comparison, Exchange,
        compare::{Direction, compare},
    },
};
use serde_json::{Value, json};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

/// A host is asked once a minute; this is some of those.
pub const PATIENCE: Duration = Duration::from_secs(420);
pub const PULL_SECRET: &str = r#"{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz","email":"a@b.c"},"cloud.openshift.com":{"auth":"dXNlcjpwYXNz","email":"a@b.c"},"registry.redhat.io":{"auth":"dXNlcjpwYXNz","email":"a@b.c"},"registry.ci.openshift.org":{"auth":"dXNlcjpwYXNz","email":"a@b.c"}}}"#;

/// Runs a scenario and reports what came of it.
pub fn scenario(name: &str, programs: &[&str], names: &[(&str, &str)], run: impl FnOnce(&Peers, &Site) -> String) {
    let Some(peers) = Peers::with(name, programs) else { return };
    let Some(site) = Site::new(names) else {
        return line(name, "not run", "missing: the servers that make setup unpacks");
    };
    let result = catch_unwind(AssertUnwindSafe(|| run(&peers, &site)));
    if let Some(directory) = std::env::var_os("LANDFALL_PEERS_TRACE") {
        trace(&site, &std::path::Path::new(&directory).join(name.split(':').next().unwrap_or_default()));
    }
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
pub fn exchanges(site: &Site) -> Vec<Exchange> {
    let pairs = site.relay.pairs().unwrap();
    pairs.iter().enumerate().map(|(number, pair)| Exchange::seen(number, pair)).collect()
}

/// All exchanges beside the recorded ones; panics with the first differences that nothing names.
pub fn assert_as_recorded(site: &Site, direction: Direction) -> Comparison {
    let comparison = compare(&exchanges(site), direction);
    let unnamed = comparison.first_unnamed();
    assert!(
        unnamed.is_empty(),
        "{} differences from the recordings are not named; the first of each:\n  {}",
        comparison.unnamed.len(),
        unnamed.join("\n  ")
    );
    comparison
}

pub fn single_node_cluster() -> Value {
    json!({
        "name": "sno",
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

pub fn infra_env(cluster: Option<&str>) -> Value {
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

pub fn id(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

/// All exchanges in files, for who mends a difference.
fn trace(site: &Site, directory: &std::path::Path) {
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).unwrap();
    for (number, exchange) in exchanges(site).iter().enumerate() {
        let name = format!("{number:04}-{}.txt", exchange.kind().replace(['/', ' '], "_"));
        std::fs::write(directory.join(name), format!("{exchange:#?}")).unwrap();
    }
}
