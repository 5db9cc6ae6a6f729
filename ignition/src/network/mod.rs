//! Static networks: settings of a host's interfaces, written as NMState, as files for the host and as kernel arguments.
//!
//! An infra-env lists its hosts' networks (`static_network_config`, docs/compatibility.md#static-network). Names of
//! interfaces in them are logical: a host finds its entry, and the real names, by the MAC addresses of its interfaces.
//! [`check`] checks a list by the service's rules, [`files`] makes the files that the live ISO has below
//! `/etc/assisted/network`, [`apply`] is what the host does with them, [`kargs`] does the same for the initramfs.

pub mod apply;
mod error;
pub mod kargs;
mod keyfile;
mod mac;
mod policy;
mod rules;
mod schema;
mod state;

pub use error::NetworkError;
pub use mac::Mac;
pub use rules::check;
pub use schema::Note;
pub use state::State;

use kernel::order;
use serde::{Deserialize, Serialize};

/// Where the files of all hosts are on the live host.
pub const HOSTS_DIR: &str = "/etc/assisted/network";
/// In each host's directory: a line `MAC=logical name` for each of its interfaces.
pub const MAP_NAME: &str = "mac_interface.ini";
/// Mode of every file made here: a network's configuration may contain keys.
pub const FILE_MODE: u32 = 0o600;

/// One host's network: an entry of `static_network_config`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNetwork {
    /// NMState. It may contain keys, so it is not in the debug output.
    #[serde(default)]
    pub network_yaml: String,
    #[serde(default)]
    pub mac_interface_map: Vec<MacInterface>,
}

impl std::fmt::Debug for HostNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostNetwork").field("mac_interface_map", &self.mac_interface_map).finish_non_exhaustive()
    }
}

/// Which interface a logical name is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacInterface {
    /// MAC address, as it was given.
    pub mac_address: String,
    /// Name in the NMState.
    pub logical_nic_name: String,
}

/// How the files configure a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// NetworkManager's own keyfiles, with logical names in them.
    Keyfiles,
    /// NMState that captures each interface by its MAC address, for nmstatectl on the host.
    Policy,
}

impl Flow {
    /// The service's choice: policies from OpenShift 4.18 on, and keyfiles before and where no version is given.
    pub fn of_version(openshift_version: &str) -> Self {
        let mut numbers = openshift_version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), minor) if (major, minor.unwrap_or(0)) >= (4, 18) => Self::Policy,
            _ => Self::Keyfiles,
        }
    }
}

/// A file for the live host.
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkFile {
    /// Absolute path.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for NetworkFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The files with the hosts' networks, in the order of the service: host by host, its networks and then its map. `configs`
/// that break a rule are refused; without any there are no files.
///
/// They go into a config as [`NetworkFile::ignition_file`] makes them, into an archive as they are.
pub fn files(configs: &[HostNetwork], flow: Flow) -> Result<Vec<NetworkFile>, NetworkError> {
    let mut files = Vec::new();
    for (host, (config, state)) in configs.iter().zip(check(configs)?).enumerate() {
        let made = match flow {
            Flow::Keyfiles => state.keyfiles().iter().cloned().map(|keyfile| (keyfile.name, keyfile.text)).collect(),
            Flow::Policy => vec![(format!("ymlFile{host}.yml"), policy::text(host, config)?)],
        };
        let map = (MAP_NAME.to_owned(), map_text(&config.mac_interface_map));
        files.extend(made.into_iter().chain([map]).map(|(name, text)| NetworkFile {
            path: format!("{HOSTS_DIR}/host{host}/{name}"),
            mode: FILE_MODE,
            bytes: text.into_bytes(),
        }));
    }
    Ok(files)
}

impl NetworkFile {
    /// The file in an Ignition config.
    pub fn ignition_file(&self) -> crate::model::File<'_> {
        crate::parts::bytes_file(&*self.path, self.mode, &self.bytes)
    }
}

fn map_text(map: &[MacInterface]) -> String {
    let mut lines: Vec<String> =
        map.iter().map(|entry| format!("{}={}", entry.mac_address, entry.logical_nic_name)).collect();
    order::sort(&mut lines);
    lines.join("\n")
}

#[cfg(test)]
mod field_tests;
#[cfg(test)]
mod tests;
