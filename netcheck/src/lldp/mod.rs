//! Which switch and port each network card is plugged into, by listening to LLDP (IEEE 802.1AB). Nothing is sent.
//!
//! Ports of a bond are listened to one by one: each has its own cable. Silence proves nothing, see [`Silence`].

mod listen;
pub(crate) mod table;

pub use crate::codec::lldp::{Advertisement, Aggregation, Identifier, Vlan};
pub use listen::listen;

use crate::{
    interfaces::{InterfacesError, Selection},
    privileges::PrivilegeError,
    probe::SocketError,
};
use api::Mac;
use serde::Serialize;
use std::{io, path::PathBuf, time::Duration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpOptions {
    /// How long at most. Switches send every 30 seconds by default.
    pub timeout: Duration,
    /// Where to listen; [`Selection::Automatic`] is every network card, whether it has an address or not.
    pub interfaces: Selection,
    /// Root of sysfs, for what a card is.
    pub sysfs: PathBuf,
}

impl Default for LldpOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(35), interfaces: Selection::Automatic, sysfs: PathBuf::from("/sys") }
    }
}

/// Why nothing could be listened to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The local interfaces are not as needed.
    #[error(transparent)]
    Interfaces(#[from] InterfacesError),
    /// A packet socket can't be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The thread could not drop its capabilities.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    #[error("cannot start the event loop that listens")]
    Runtime { source: io::Error },
}

/// All that was heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Neighbourhood {
    /// Of this document; 1.
    pub schema_version: u32,
    /// How long was listened, milliseconds: less than was allowed when every port was heard.
    pub listened_ms: u64,
    /// By name.
    pub ports: Vec<Port>,
}

/// A port of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    pub interface: String,
    /// Its address; `None` for what is not Ethernet.
    pub mac: Option<Mac>,
    pub mtu: Option<u32>,
    /// The kernel's driver; `None` for what is not a device.
    pub driver: Option<String>,
    /// Whether anything can arrive, when the listening began.
    pub link: Link,
    /// Who spoke, by switch and port. More than one: a repeater between, or a virtual switch beside the real one.
    pub neighbours: Vec<Neighbour>,
    /// Why no neighbour may have been heard; `None` when one was.
    pub silence: Option<Silence>,
}

/// Whether frames can arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// With carrier.
    Up,
    /// Switched on, without carrier.
    NoCarrier,
    /// Switched off on this host.
    Down,
}

/// What silence may mean: there is no neighbour that speaks LLDP, or we can't hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Silence {
    /// Nothing can be heard without a link.
    NoLink,
    /// The card's firmware has an LLDP agent, which by default consumes these frames.
    FirmwareAgent,
    /// The other end does not speak LLDP, or less often than we listened.
    NobodySpoke,
}

/// The other end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Who sent the frame.
    pub from_mac: Mac,
    #[serde(flatten)]
    pub advertisement: Advertisement,
}
