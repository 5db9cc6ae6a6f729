//! The kubelet: a node that registers, and is ready a little later.

use super::{
    Role, Settings, address, api, https, machine_config,
    objects::{MASTER_LABEL, NODES},
    say,
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{thread::sleep, time::Duration};

/// Between two tries to reach the API.
const RETRY: Duration = Duration::from_secs(1);
/// Between registering and being ready: a real one starts its network, and tests must see that the machine is being
/// configured.
const BECOMES_READY: Duration = Duration::from_secs(5);

pub(super) fn name() -> Result<String> {
    let name = nix::unistd::gethostname().context("asking for the host name")?;
    name.into_string().map_err(|name| anyhow::anyhow!("the host name {name:?} is not text"))
}

/// Registers and becomes ready; retries forever, as the API may come up at any time.
pub(super) fn run(settings: &Settings) -> Result<()> {
    let name = name()?;
    let node = loop {
        match node(settings, &name) {
            Ok(node) => break node,
            Err(error) => eprintln!("not yet: {error:#}"),
        }
        sleep(RETRY);
    };
    until_done("register", || ask(settings, "POST", NODES, &node, &[409]));
    say(&format!("kubelet of {name} registered"));
    sleep(BECOMES_READY);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    until_done("become ready", || ask(settings, "PATCH", &format!("{NODES}/{name}"), &ready, &[]));
    say(&format!("kubelet of {name} ready"));
    Ok(())
}

fn node(settings: &Settings, name: &str) -> Result<Value> {
    let rendered = machine_config::rendered_name(settings.role);
    let label = match settings.role {
        Role::Master => MASTER_LABEL,
        Role::Worker => "node-role.kubernetes.io/worker",
        Role::Bootstrap => bail!("a bootstrap host is not a node"),
    };
    let annotation = |what: &str| format!("machineconfiguration.openshift.io/{what}Config");
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {label: "", "kubernetes.io/hostname": name},
            "annotations": {annotation("current"): rendered, annotation("desired"): rendered},
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address::local_address()?.to_string()},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [{"type": "Ready", "status": "False"}],
        },
    }))
}

fn ask(settings: &Settings, method: &str, path: &str, body: &Value, expected: &[u16]) -> Result<()> {
    https::ask(settings, api::endpoint(settings), method, path, body.to_string().as_bytes(), expected).map(drop)
}

fn until_done(what: &str, work: impl Fn() -> Result<()>) {
    while let Err(error) = work() {
        eprintln!("cannot {what}, trying again: {error:#}");
        sleep(RETRY);
    }
}
