//! Why a static network is not valid.

use super::mac::MacError;
use crate::yaml::YamlError;

/// What is wrong with a static network. Hosts are counted from 0, as in the names of their directories.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("host{host}: the NMState has {found} bytes, more than {max}")]
    TooLong { host: usize, found: usize, max: usize },
    /// Reading it would take too long.
    #[error("host{host}: the NMState is refused: {reason}")]
    Yaml {
        host: usize,
        /// Which bound it breaks.
        reason: YamlError,
    },
    #[error("{found} hosts, more than {max}")]
    TooManyHosts { found: usize, max: usize },
    /// Not NMState. The text is the library's, with the values of keys left out.
    #[error("host{host}: network_yaml is not NMState: {text}")]
    Parse {
        host: usize,
        /// What the library said.
        text: String,
    },
    /// NMState that can't be applied. The text is the library's, with the values of keys left out.
    #[error("host{host}: network_yaml can't be converted to keyfiles: {text}")]
    Keyfiles {
        host: usize,
        /// What the library said.
        text: String,
    },
    #[error("host{host}: network_yaml names no interface, so nothing would be configured")]
    NoInterface { host: usize },
    #[error(
        "host{host}: two profiles would have the file name {name}; give one of the interfaces another profile-name"
    )]
    SameName { host: usize, name: String },
    #[error("host{host}: the profile name {name:?} is not a valid file name")]
    FileName { host: usize, name: String },
    #[error("host{host}: mac_interface_map is empty; add at least one MAC address, by which the host is found")]
    NoMac { host: usize },
    #[error("host{host}: mac_interface_map, interface {interface:?}")]
    Mac { host: usize, interface: String, source: MacError },
    #[error(
        "host{host}: {name:?} is not a logical interface name: expected 1 to 64 printable characters without / : and space"
    )]
    Name { host: usize, name: String },
    #[error("host{host}: two interfaces of mac_interface_map are named {interface}")]
    SameInterface { host: usize, interface: String },
    /// The first with the address and the second.
    #[error(
        "host{host}: interface {interface} has the MAC address {mac}, as has interface {other_interface} of host{other_host}"
    )]
    SameMac { host: usize, interface: String, mac: String, other_host: usize, other_interface: String },
    #[error(
        "host{host}: interface {interface} is not in mac_interface_map, has no `identifier: mac-address` and no \
         predictable name such as enp1s0: the host could not identify it"
    )]
    Unmapped { host: usize, interface: String },
    /// A port or a base that nobody would find.
    #[error(
        "host{host}: interface {interface} is not in mac_interface_map, and network_yaml does not define it: {place} names it; \
         add its MAC address"
    )]
    Missing { host: usize, interface: String, place: String },
    /// The NMState library itself failed.
    #[error("host{host}: the NMState library failed on network_yaml: {text}")]
    Library { host: usize, text: String },
}
