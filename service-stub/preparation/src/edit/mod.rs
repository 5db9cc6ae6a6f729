//! What is changed in the Ignition files that `openshift-install` makes (docs/compatibility.md#cluster-file-edits).

mod bare_metal;
mod bootstrap;
mod config;
mod error;
mod pool;
mod registries;
mod roles;
mod settings;
mod vips;

use crate::job::{Files, Manifest};
pub use error::EditError;
use error::shown;
use ignition::model::Document;
pub use pool::pool_exists;
pub use settings::{Node, NodeSettings, Vip, Vips};

const BOOTSTRAP: &str = "bootstrap.ign";

/// What can be known before there are any files: that the virtual addresses are, and that the pools of the hosts exist.
pub fn check(settings: &NodeSettings, manifests: &[Manifest]) -> Result<(), EditError> {
    if let Some(vips) = &settings.dhcp {
        vips::check(vips)?;
    }
    match settings.nodes.iter().filter_map(|node| node.pool.as_ref()).find(|pool| !pool_exists(manifests, pool)) {
        Some(pool) => Err(EditError::Pool { pool: shown(pool) }),
        None => Ok(()),
    }
}

/// Edits `bootstrap.ign`, `master.ign`, `worker.ign` and `arbiter.ign`. Edited once more they stay as they are.
pub fn apply(files: &mut Files, settings: &NodeSettings) -> Result<(), EditError> {
    change(files, BOOTSTRAP, |config| bootstrap::edit(config, settings))?;
    for name in roles::names(settings) {
        let additions = roles::additions(name, settings)?;
        if !additions.is_empty() {
            change(files, name, |config| {
                config::put(config, additions);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// `master.ign` with what its nodes need to renew the leases of the virtual addresses.
pub fn with_vips(master: &[u8], vips: &Vips) -> Result<Vec<u8>, EditError> {
    let files = vips::files(vips)?;
    config::edit(roles::MASTER, master, |config| {
        config::put(config, files);
        Ok(())
    })
}

fn change(
    files: &mut Files,
    name: &str,
    change: impl FnOnce(&mut Document<'_>) -> Result<(), EditError>,
) -> Result<(), EditError> {
    let text = files.get_mut(name).ok_or_else(|| EditError::Missing { file: name.to_owned() })?;
    *text = config::edit(name, text, change)?;
    Ok(())
}

#[cfg(test)]
mod tests;
