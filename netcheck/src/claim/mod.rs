//! Who holds an address? `verify-vips` (docs/compatibility.md#verify-vips), and whether another station has one of ours.
//!
//! An address on a network of ours is asked for on the segment itself, as a station does before it takes the address: by
//! ARP probes (RFC 5227 §2.1.1) and by the solicitations of duplicate address detection (RFC 4862 §5.4.2). No station
//! learns anything from these, no proxy answers them, and even a host that filters everything else must. Elsewhere an
//! echo has to do.
//!
//! Others that ask for the same address are not holders, although both RFCs treat them so: every host of a cluster asks
//! after the same virtual addresses, about when we do.

mod plan;
pub(crate) mod request;
mod run;
pub(crate) mod table;

pub use request::RequestError;

use crate::{
    event_loop,
    interfaces::{self, Interface, InterfacesError},
    privileges::PrivilegeError,
    probe::SocketError,
};
use api::{Mac, VerifiedVip, VerifyVip};
use serde::{Serialize, Serializer};
use std::{io, net::IpAddr, path::PathBuf, time::Duration};

/// How hard to ask, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOptions {
    /// Questions for each address on each link.
    pub count: u16,
    /// Pause between two questions for one address.
    pub interval: Duration,
    /// How long to wait for an answer to the last.
    pub timeout: Duration,
    /// Ask on these interfaces, with or without an address on the network asked about. Empty: on all that have one, of
    /// whatever kind, but for the ports of a bond.
    pub interfaces: Vec<String>,
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
}

impl Default for ClaimOptions {
    /// Three questions as in RFC 5227, a second in all.
    fn default() -> Self {
        Self {
            count: 3,
            interval: Duration::from_millis(250),
            timeout: Duration::from_millis(500),
            interfaces: Vec::new(),
            sysfs: PathBuf::from("/sys"),
        }
    }
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum Holder {
    /// This host, on this interface.
    Ourselves { interface: String },
    /// A station of the segment behind this interface.
    Neighbour {
        interface: String,
        #[serde(serialize_with = "as_text")]
        mac: Mac,
    },
    /// A host that is not on a network of ours and answers echoes.
    Remote,
}

/// An address and those that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    pub address: IpAddr,
    /// Those that have it, sorted.
    pub holders: Vec<Holder>,
    /// Interfaces whose segment was asked. When empty, an echo was tried, unless the address is our own.
    pub links: Vec<String>,
    /// Why no question could be sent: no link, no route. Whether the address is free is not known then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// An address of ours that another station has too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Duplicate {
    pub address: IpAddr,
    /// Our interface that has it.
    pub interface: String,
    /// The other station.
    #[serde(serialize_with = "as_text")]
    pub mac: Mac,
}

fn as_text<S: Serializer>(mac: &Mac, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

/// Why no station was asked. Free addresses, or ones that can't be probed, are results, not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request can't be read or carried out.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The local interfaces are not as needed.
    #[error(transparent)]
    Interfaces(#[from] InterfacesError),
    /// A probe socket can't be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The thread could not drop its capabilities.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    #[error("cannot start the event loop of the probes")]
    Runtime { source: io::Error },
}

/// Finds out who holds each of `addresses`, in their order.
///
/// Blocks for about a second. Runs its own event loop on this thread and in this thread's network namespace; must not be
/// called from within another one. Needs `CAP_NET_RAW`, and leaves the thread without any capability.
pub fn holders(addresses: &[IpAddr], options: &ClaimOptions) -> Result<Vec<Claim>, Error> {
    request::check(addresses)?;
    let all = interfaces::read()?;
    let plan = plan::holders(addresses, &all, &links(&all, options)?, !options.interfaces.is_empty());
    let heard = ask(plan, options)?;
    Ok(addresses.iter().map(|&address| heard.claim(address, &all)).collect())
}

/// Finds the addresses of ours that another station of their segment holds too, sorted. Interfaces without a link, and kinds
/// that speak neither ARP nor NDP, are left out.
///
/// As [`holders`] in all else.
pub fn duplicates(options: &ClaimOptions) -> Result<Vec<Duplicate>, Error> {
    let all = interfaces::read()?;
    let plan = plan::duplicates(&all, &links(&all, options)?);
    Ok(ask(plan, options)?.duplicates())
}

/// `verify-vips`: the reply to `request` and what it rests on, both in its order.
///
/// As [`holders`] in all else.
pub fn verify(request: &[VerifyVip], options: &ClaimOptions) -> Result<(Vec<VerifiedVip>, Vec<Claim>), Error> {
    let claims = holders(&request::addresses(request)?, options)?;
    Ok((request::reply(request, &claims), claims))
}

/// The bond speaks for its ports: a frame from one of them would teach switches the wrong way.
fn links<'a>(all: &'a [Interface], options: &ClaimOptions) -> Result<Vec<&'a Interface>, InterfacesError> {
    if options.interfaces.is_empty() {
        Ok(all.iter().filter(|interface| !interfaces::is_bond_port(&options.sysfs, &interface.name)).collect())
    } else {
        interfaces::all_named(all, &options.interfaces)
    }
}

fn ask(plan: plan::Plan, options: &ClaimOptions) -> Result<run::Heard, Error> {
    event_loop::run(run::run(plan, options)).map_err(|source| Error::Runtime { source })?
}
