//! What the units on the machines start.

use super::{Role, Settings, address, api, controller, machine_config, node, objects::Objects, say};
use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    thread::{self, sleep},
    time::Duration,
};

const INTERVAL: Duration = Duration::from_millis(500);
/// Manifests that the installer and its payload have left.
const MANIFESTS: [&str; 2] = ["/opt/openshift/manifests", "/opt/openshift/openshift"];
const DONE: &str = "/opt/openshift/.bootkube.done";
const SINGLE_NODE_CONFIG: &str = "/opt/openshift/master.ign";
/// Masters that suffice for a control plane before its bootstrap host joins.
const ENOUGH_MASTERS: usize = 2;
/// Failed checks in a row after which the server counts as gone.
const GONE_AFTER: u32 = 3;

/// The temporary control plane, until masters have theirs.
pub fn bootkube() -> Result<()> {
    let settings = Settings::read()?;
    let mut objects = api::initial(&settings);
    for manifest in manifests()? {
        objects.put_manifest(manifest);
    }
    if settings.is_single_node() {
        write_single_node_config(&settings, &objects)?;
    } else {
        serve_until_masters_do(&settings, objects)?;
    }
    write(DONE, "")?;
    say("bootkube done");
    Ok(())
}

fn serve_until_masters_do(settings: &Settings, objects: Objects) -> Result<()> {
    let serving = api::start(settings, objects, "bootstrap")?;
    say(&format!("bootstrap serves {}", settings.address));
    let needed = settings.replicas.saturating_sub(1).min(ENOUGH_MASTERS);
    loop {
        let masters = serving.with(|objects| objects.masters());
        let ready = masters.iter().filter(|(_, ready)| *ready).count();
        if ready >= needed && masters.first().is_some_and(|(name, _)| serving.has_copy(name)) {
            break;
        }
        sleep(INTERVAL);
    }
    // The servers end with this process.
    address::release(settings.address)
}

/// All of what the machine-config server would give; there will be none.
fn write_single_node_config(settings: &Settings, objects: &Objects) -> Result<()> {
    let settings = Settings { objects: Some(objects.clone()), ..settings.with_role(Role::Master) };
    let config = machine_config::machine(&settings, &serde_json::json!({}));
    write(SINGLE_NODE_CONFIG, &config.to_string())
}

fn manifests() -> Result<Vec<Value>> {
    let mut manifests = Vec::new();
    for dir in MANIFESTS {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "yaml") {
                let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                manifests.push(serde_norway::from_str(&text).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(manifests)
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
    while !Path::new(DONE).exists() || !settings.is_single_node() && !served_by_master(&settings) {
        sleep(INTERVAL);
    }
    say("etcd bootstrap is complete");
    Ok(())
}

fn served_by_master(settings: &Settings) -> bool {
    api::server_name(settings).is_ok_and(|name| name != "bootstrap")
}

/// A node of the cluster.
pub fn kubelet() -> Result<()> {
    node::run(&Settings::read()?)
}

/// A master's part of the control plane: holds a copy, and serves when no other master does and it is its turn.
pub fn control_plane() -> Result<()> {
    let settings = Settings::read()?;
    let name = node::name()?;
    let objects = match &settings.objects {
        Some(objects) => objects.clone(),
        None => stand_by(&settings, &name),
    };
    let serving = api::start(&settings, objects, &name)?;
    say(&format!("{name} serves {}", settings.address));
    let watched = serving.clone();
    thread::spawn(move || controller::run(&watched)).join().map_err(|_| anyhow::anyhow!("the controller ended"))
}

/// Returns when it is this master's turn.
fn stand_by(settings: &Settings, name: &str) -> Objects {
    let (mut last, mut failed) = (None::<Objects>, 0);
    loop {
        match api::copy(settings, name) {
            Ok(objects) => (last, failed) = (Some(objects), 0),
            Err(error) => {
                failed += 1;
                eprintln!("no copy ({failed}): {error:#}");
            }
        }
        let first = last.as_ref().and_then(|objects| objects.masters().into_iter().next());
        if failed >= GONE_AFTER
            && first.is_some_and(|(first, _)| first == name)
            && let Some(objects) = last.take()
        {
            return objects;
        }
        sleep(INTERVAL);
    }
}
