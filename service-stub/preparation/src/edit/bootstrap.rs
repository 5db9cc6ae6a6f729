//! The edits of `bootstrap.ign`.

use super::bare_metal::{self, Unmatched};
use super::config;
use super::error::EditError;
use super::registries;
use super::settings::NodeSettings;
use ignition::model::{Document, File};

/// Part of the path of what starts the bare-metal operator.
const METAL_CONFIG: &str = "baremetal-provisioning-config";
/// The bootstrap's network, which hosts here have from their discovery.
const NETWORK_PATH: &str = "/etc/NetworkManager/system-connections/nmconnection";
const MOTD_PATH: &str = "/etc/motd";
/// Tells the bootstrap's scripts who installs.
const MARKER_PATH: &str = "/opt/openshift/assisted-install-bootstrap";
const RESOLV_PATH: &str = "/etc/NetworkManager/conf.d/99-kni.conf";
/// `/etc/resolv.conf` is not NetworkManager's.
const RESOLV_CONF: &str = "[main]\nrc-manager=unmanaged\n";

pub(super) fn edit(config: &mut Document<'_>, settings: &NodeSettings) -> Result<(), EditError> {
    let files = &mut config.storage.files;
    files.retain(|file| file.path != NETWORK_PATH && (settings.has_metal() || !file.path.contains(METAL_CONFIG)));
    let mut unmatched = Unmatched::new(settings);
    for file in files.iter_mut() {
        if file.path == MOTD_PATH {
            replace_appended(file);
        } else if bare_metal::is_object(file) && !file.path.contains(METAL_CONFIG) {
            file.contents = config::resource(config::text_url(&unmatched.matched(file)?));
        }
    }
    if let Some(api) = &settings.internal_registry {
        let path = registries::PATH;
        let file = files.iter_mut().find(|file| file.path == path).ok_or(EditError::NoRegistries { path })?;
        let text = config::contents(file).unwrap_or_default();
        file.contents = config::resource(config::text_url(&registries::with_internal(&text, api)?));
    }
    if !settings.single_node {
        let marker = config::file(MARKER_PATH, "data:,".to_owned());
        let resolv = config::file(RESOLV_PATH, config::text_url(RESOLV_CONF));
        config::put(config, vec![marker, resolv]);
    }
    Ok(())
}

/// Makes what is appended to a file its contents: the machine-config operator can't read the former.
fn replace_appended(file: &mut File<'_>) {
    if file.contents.source.is_none() && file.append.len() == 1 {
        file.contents = file.append.0.pop().unwrap_or_default();
    }
}
