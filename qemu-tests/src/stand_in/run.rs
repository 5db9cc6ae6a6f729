//! What the units on the machines start.

use super::{Role, Settings, address, api, job, machine_config, manifests, node, pods, say};
use anyhow::{Context, Result};
use simulator::Client;
use std::{
    fs,
    path::Path,
    thread::{park, sleep},
    time::Duration,
};

const INTERVAL: Duration = Duration::from_millis(500);
/// A real one is not done when the last of these masters is ready: the installer sees that first.
const LINGERS: Duration = Duration::from_secs(10);
const DONE: &str = "/opt/openshift/.bootkube.done";
const SINGLE_NODE_CONFIG: &str = "/opt/openshift/master.ign";
/// Masters that suffice for a control plane before its bootstrap host joins.
const ENOUGH_MASTERS: usize = 2;
/// Failed checks in a row after which the server counts as gone.
const GONE_AFTER: u32 = 3;

/// The temporary control plane, until masters have theirs.
pub fn bootkube() -> Result<()> {
    let settings = Settings::read()?;
    let administrator = settings.administrator();
    manifests::create(&administrator)?;
    say("manifests created");
    if settings.is_single_node() {
        // All of what the machine-config server would give; there will be none.
        let config = machine_config::config(&settings, Role::Master)?;
        write(SINGLE_NODE_CONFIG, &config.to_string())?;
    } else {
        serve_until_masters_do(&settings, &administrator)?;
    }
    write(DONE, "")?;
    say("bootkube done");
    Ok(())
}

fn serve_until_masters_do(settings: &Settings, administrator: &Client) -> Result<()> {
    api::start(settings)?;
    say(&format!("bootstrap serves {}", settings.address));
    let needed = settings.replicas.saturating_sub(1).min(ENOUGH_MASTERS);
    while ready_masters(administrator).len() < needed {
        approve(administrator);
        sleep(INTERVAL);
    }
    sleep(LINGERS);
    // The servers end with this process.
    address::release(settings.address)
}

/// None as long as the API server doesn't answer.
fn ready_masters(administrator: &Client) -> Vec<String> {
    let masters = api::masters(administrator).inspect_err(|error| eprintln!("no list of the masters: {error}"));
    masters.unwrap_or_default().into_iter().filter(|(_, is_ready)| *is_ready).map(|(name, _)| name).collect()
}

fn approve(administrator: &Client) {
    if let Err(error) = node::approve_certificates(administrator) {
        eprintln!("cannot approve requests for certificates, trying again: {error}");
    }
}

/// Atomically.
fn write(path: &str, text: &str) -> Result<()> {
    let draft = format!("{path}.draft");
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).with_context(|| format!("writing {path}"))
}

/// Ends when the control plane is that of a master.
pub fn progress() -> Result<()> {
    let settings = Settings::read()?;
    let administrator = settings.administrator();
    let has_ended = || settings.is_single_node() || matches!(machine_config::is_on_master(&administrator), Ok(true));
    while !Path::new(DONE).exists() || !has_ended() {
        sleep(INTERVAL);
    }
    say("etcd bootstrap is complete");
    Ok(())
}

/// A node of the cluster.
pub fn kubelet() -> Result<()> {
    node::run(&Settings::read()?)
}

/// A master's part of the control plane: serves, with the controller, when nobody else does and it is its turn.
pub fn control_plane() -> Result<()> {
    let settings = Settings::read()?;
    let (name, administrator) = (node::name()?, settings.administrator());
    if !settings.is_single_node() {
        stand_by(&settings, &administrator, &name);
    }
    api::start(&settings)?;
    pods::serve_logs(&settings)?;
    say(&format!("{name} serves {}", settings.address));
    machine_config::run(&administrator, &name)?;
    while !ready_masters(&administrator).contains(&name) {
        // As the script of a single node's first boot does; other masters are ready by now.
        if settings.is_single_node() {
            approve(&administrator);
        }
        sleep(INTERVAL);
    }
    job::run(&settings, &name)?;
    loop {
        park();
    }
}

/// Returns when it is this master's turn.
fn stand_by(settings: &Settings, administrator: &Client, name: &str) {
    let mut failed = 0;
    loop {
        failed = if api::is_served(settings) { 0 } else { failed + 1 };
        let is_first = || {
            let masters = api::masters(administrator).unwrap_or_default();
            masters.first().is_some_and(|(first, _)| first == name)
        };
        if failed >= GONE_AFTER && is_first() {
            return;
        }
        sleep(INTERVAL);
    }
}
