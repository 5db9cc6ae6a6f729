//! Makes the running live system a bootstrap host (docs/compatibility.md#bootstrap).

use super::{
    BootstrapError, Context,
    files::{self, below},
    manifests, name, payload,
    services::{self, Failed, systemctl, wait_for_state},
    ssh,
};
use crate::host::Host;
use kernel::Cancel;
use sha2::{Digest, Sha256};
use std::{fs, path::Path};

const CONFIG: &str = "/opt/install-dir/bootstrap.ign";
const WORK_DIR: &str = "/opt/openshift";
const OC: &str = "/usr/bin/oc";
/// What brings `oc` to systems without it.
const IMAGE_UNITS: [&str; 2] = ["node-image-pull.service", "node-image-overlay.service"];
/// What carries the temporary control plane, in the order it is started.
const UNITS: [&str; 3] = ["bootkube.service", "approve-csr.service", "progress.service"];
/// Of which config this boot of the system carries the control plane: its hash. Gone with the next boot, like what it says.
const STARTED: &str = "/run/landfall/bootstrap-started";

/// Makes this system the bootstrap host that the service's `bootstrap.ign` describes, and starts the temporary control plane.
///
/// It may be killed at any moment and run again. Until the services are started a second run does all of it once more. From then on
/// their files are not touched: a second run with the same config only makes sure that they
/// have been started. With another config they are stopped first. The signs that an earlier control plane is done
/// are removed before the new one is started.
pub fn start(host: &dyn Host, ctx: &Context<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let root = host.root();
    files::make_directory(&below(root, "/root/.ssh"))?;
    let cluster = ctx.request.cluster_id;
    let text = payload::fetch(ctx, payload::NAME, |client| client.cluster_file(cluster, payload::NAME), cancel)?;
    let config = payload::parse(payload::NAME, &text)?;
    let hash = hash(&text);
    match files::read(&below(root, STARTED))? {
        Some(started) if started == hash.as_bytes() => {
            tracing::info!("this boot already runs the control plane of this config");
            return start_units(host, cancel);
        }
        Some(_) => {
            tracing::warn!("this boot has run another control plane; stopping what is left of it");
            stop_units(host, cancel)?;
            files::remove(&below(root, STARTED))?;
        }
        None => {}
    }
    clear_signs(root)?;
    files::write(&below(root, CONFIG), &text, 0o600)?;
    payload::write_credentials(root, &config)?;
    payload::apply(host, &config, cancel)?;
    if !ctx.is_single_node() {
        let key = ssh::ensure(root)?;
        manifests::write_ssh_key(root, &key)?;
    }
    systemctl(host, &["daemon-reload"], cancel)?;
    name::ensure(host, cancel)?;
    if !ctx.is_single_node() {
        // The payload's dispatcher scripts make this host its own name server.
        systemctl(host, &["restart", "NetworkManager.service"], cancel)?;
    }
    manifests::write_controller(root, ctx)?;
    ensure_oc(host, ctx, cancel)?;
    files::write(&below(root, STARTED), hash.as_bytes(), 0o600)?;
    start_units(host, cancel)
}

fn hash(text: &[u8]) -> String {
    kernel::hex::lower(Sha256::digest(text))
}

fn start_units(host: &dyn Host, cancel: &Cancel) -> Result<(), BootstrapError> {
    // One that has done its work stays as it is: its unit says under which condition it starts.
    UNITS.iter().try_for_each(|unit| systemctl(host, &["start", unit], cancel).map(drop))?;
    Ok(())
}

/// Missing ones need no stopping.
fn stop_units(host: &dyn Host, cancel: &Cancel) -> Result<(), BootstrapError> {
    for unit in UNITS.iter().rev() {
        let state = services::state(host, unit, cancel)?;
        if !matches!(state.as_str(), "inactive" | "failed") {
            systemctl(host, &["stop", unit], cancel)?;
        }
    }
    Ok(())
}

/// Removes what says that a stage of bootkube is done, what its last stage made, and files that a killed run has half written,
/// which bootkube might take for manifests.
fn clear_signs(root: &Path) -> Result<(), BootstrapError> {
    for dir in [WORK_DIR, "/opt/openshift/manifests", "/opt/openshift/openshift"] {
        let dir = below(root, dir);
        let fail = |source| BootstrapError::File { doing: "listing", path: dir.clone(), source };
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fail(error)),
        };
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let is_file = entry.file_type().is_ok_and(|kind| !kind.is_dir());
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_file && (name.ends_with(".done") || name.starts_with(".landfall-")) {
                files::remove(&entry.path())?;
            }
        }
    }
    super::disk_config::clear(root)
}

/// On systems without `oc` in them it comes with the node's image.
fn ensure_oc(host: &dyn Host, ctx: &Context<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let oc = below(host.root(), OC);
    if oc.exists() {
        return Ok(());
    }
    tracing::info!("no {OC}; waiting for the node's image");
    let [pull, overlay] = IMAGE_UNITS;
    systemctl(host, &["start", "--no-block", pull, overlay], cancel)?;
    for unit in IMAGE_UNITS {
        wait_for_state(host, unit, "active", Failed::IsFatal, ctx.pace.poll, cancel)?;
    }
    if oc.exists() { Ok(()) } else { Err(BootstrapError::NoOc { path: OC }) }
}
