//! `free-network-addresses` (docs/compatibility.md#free-network-addresses): which addresses of a network no station
//! answers for.
//!
//! Every address is asked for by ARP, at one pace for all networks. The first question is a probe (RFC 5227: no sender
//! address), from which no station learns anything and which no proxy answers. Silent addresses are asked for once more,
//! from our own address: there are stations that ignore probes, and switches that drop them, and either question may get
//! lost. So an address is free when no station, proxies included, answered the question every host would ask.
//!
//! The last answers have 0.3 s, and a second where any came that the first question had not brought: that is how proxies
//! answer, and Linux's takes its time.

mod plan;
pub(crate) mod request;
mod run;
pub(crate) mod table;

pub use plan::PlanError;
pub use request::{Network, RequestError};

use crate::{
    Selection, event_loop,
    interfaces::{self, InterfacesError},
    privileges::PrivilegeError,
    probe::SocketError,
};
use api::{FreeNetworkAddresses, Mac};
use std::{io, net::Ipv4Addr, path::PathBuf, time::Duration};

/// How fast to ask, and through which interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Questions a second at most, all networks together. Each is heard by every station of the segment.
    pub packets_per_second: u32,
    /// A sweep that is not done by then is an error: who was not asked is not free.
    pub deadline: Duration,
    /// Where questions leave from: on each network the first of these, in the kernel's order, that owns an address on it.
    pub interfaces: Selection,
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self {
            packets_per_second: 4000,
            deadline: Duration::from_secs(60),
            interfaces: Selection::Automatic,
            sysfs: PathBuf::from("/sys"),
        }
    }
}

/// An address in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied {
    pub address: Ipv4Addr,
    /// The interface of this host that has it.
    pub ours: Option<String>,
    /// Other stations that answer for it, sorted.
    pub stations: Vec<Mac>,
}

impl Occupied {
    /// Whether more than one station has it.
    pub fn is_duplicate(&self) -> bool {
        self.stations.len() + usize::from(self.ours.is_some()) > 1
    }
}

/// What was found on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    pub network: Network,
    /// The interface that asked.
    pub interface: String,
    /// Ascending.
    pub occupied: Vec<Occupied>,
}

impl Findings {
    /// Every other address, network and broadcast address included, ascending.
    pub fn free(&self) -> impl Iterator<Item = Ipv4Addr> {
        let mut occupied = self.occupied.iter().map(|occupied| occupied.address).peekable();
        self.network.addresses().filter(move |address| occupied.next_if_eq(address).is_none())
    }

    /// In the service's terms. Whole, however long: the service asks for no network larger than a /22.
    pub fn reply(&self) -> FreeNetworkAddresses {
        FreeNetworkAddresses {
            free_addresses: self.free().map(|address| address.to_string()).collect(),
            network: self.network.to_string(),
        }
    }
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// 1 or 2.
    pub round: u8,
    /// Addresses dealt with in this round.
    pub done: usize,
    pub total: usize,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request can't be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The local interfaces are not as needed.
    #[error(transparent)]
    Interfaces(#[from] InterfacesError),
    /// No network of the request can be swept from here.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A probe socket can't be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The thread could not drop its capabilities.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    #[error("cannot start the event loop of the probes")]
    Runtime { source: io::Error },
    /// Questions were refused by our own kernel, on every network.
    #[error("cannot ask for {address} on {interface}")]
    Refused { address: Ipv4Addr, interface: String, source: io::Error },
    #[error(
        "the sweep did not finish within {deadline:?} ({done} of {total} addresses in round {round} of 2); allow it more time or more packets per second"
    )]
    Deadline {
        deadline: Duration,
        round: u8,
        /// Addresses dealt with in that round.
        done: usize,
        total: usize,
    },
}

/// Asks for every address of `networks`; the findings are in their order. Networks that can't be asked (no interface on them,
/// no link, or none any more) are left out with a warning; it is an error when none is left.
///
/// Blocks for `2 * addresses / packets_per_second` and 0.4 s, or 1.1 s. `progress` is called now and then, several times a
/// second. Runs its own event loop on this thread and in this thread's network namespace; must not be called from within
/// another one. Needs `CAP_NET_RAW`, and leaves the thread without any capability.
pub fn sweep(
    networks: &[Network],
    options: &SweepOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Findings>, Error> {
    request::check(networks)?;
    let all = interfaces::read()?;
    let outgoing = interfaces::outgoing(&all, &options.interfaces, &options.sysfs)?;
    let plan = plan::plan(networks, &outgoing, &all)?;
    event_loop::run(run::run(plan, options, progress)).map_err(|source| Error::Runtime { source })?
}

/// The networks of our own interfaces, in the kernel's order. Left out are those of a single address, and, with a warning,
/// those larger than a /16.
pub fn own_networks(options: &SweepOptions) -> Result<Vec<Network>, Error> {
    let all = interfaces::read()?;
    let networks = plan::own_networks(&interfaces::outgoing(&all, &options.interfaces, &options.sysfs)?);
    if networks.is_empty() { Err(PlanError::NothingOwn.into()) } else { Ok(networks) }
}
