//! The edits of the roles' files: they are files put in.

use super::config;
use super::error::EditError;
use super::settings::NodeSettings;
use super::vips;
use ignition::data_url;
use ignition::discovery::assisted::{CA_PATH, IPV6_CONF, IPV6_PATH};
use ignition::model::File;

/// The role whose nodes hold the virtual addresses.
pub(super) const MASTER: &str = "master.ign";
/// Where connections are in an overlay of older systems.
const KEYFILE_PATH: &str = "[keyfile]\npath=/etc/NetworkManager/system-connections-merged\n";

/// The files of the cluster's roles.
pub(super) fn names(settings: &NodeSettings) -> impl Iterator<Item = &'static str> {
    [MASTER, "worker.ign"].into_iter().chain(settings.has_arbiter.then_some("arbiter.ign"))
}

/// What is put into a role's file.
pub(super) fn additions(name: &str, settings: &NodeSettings) -> Result<Vec<File<'static>>, EditError> {
    let text = |path, text: &str| config::file(path, data_url::percent(text.as_bytes()));
    let mut files: Vec<_> = settings.service_ca_pem.iter().map(|pem| text(CA_PATH, pem)).collect();
    if let Some(vips) = settings.dhcp.as_ref().filter(|_| name == MASTER) {
        files.extend(vips::files(vips)?);
    }
    if settings.has_ipv6 {
        let keyfile = if settings.has_keyfile_path() { "" } else { KEYFILE_PATH };
        files.push(text(IPV6_PATH, &format!("{IPV6_CONF}{keyfile}")));
    }
    Ok(files)
}
