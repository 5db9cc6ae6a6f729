//! `connectivity-check` (docs/compatibility.md#connectivity-check): who answers on the segment (ARP, NDP), who answers echoes and how many
//! of them, and whether packets as large as the interface allows get through.
//!
//! A check is read ([`request`](RequestError)), planned from it and the local interfaces (`plan`, pure), carried out
//! (`run`, `send`, `receive`) and sorted into [`Findings`] (pure again).

mod findings;
mod options;
mod path_mtu;
mod plan;
mod receive;
pub(crate) mod request;
mod run;
mod send;
pub(crate) mod table;
mod tally;

pub use findings::{EchoFinding, Findings, HostFindings, MtuFinding, Responder, Unprobed};
pub use options::{MeshOptions, MeshOptionsError};
pub use path_mtu::{PathMtu, TooBig};
pub use plan::PlanError;
pub use request::RequestError;
pub use tally::{EchoStatistics, RoundTrip};

use crate::{
    event_loop,
    interfaces::{self, InterfacesError},
    privileges::PrivilegeError,
    probe::SocketError,
};
use api::{ConnectivityCheckHost, ConnectivityReport};
use std::io;

/// Why a check did not happen. Neighbours that do not answer are findings, not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is out of its range.
    #[error(transparent)]
    Options(#[from] MeshOptionsError),
    /// The request can't be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The local interfaces are not as needed.
    #[error(transparent)]
    Interfaces(#[from] InterfacesError),
    /// The request can't be carried out.
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
}

/// Probes every address of `hosts` and reports what came back, in the service's terms.
///
/// Blocks for about `count * interval` when all answer, and `timeout` longer when some do not. Runs its own event loop on
/// this thread and in this thread's network namespace; must not be called from within another one. Needs `CAP_NET_RAW`,
/// and leaves the thread without any capability.
pub fn connectivity(hosts: &[ConnectivityCheckHost], options: &MeshOptions) -> Result<ConnectivityReport, Error> {
    Ok(measure(hosts, options)?.report())
}

/// As [`connectivity`], with all that was measured.
pub fn measure(hosts: &[ConnectivityCheckHost], options: &MeshOptions) -> Result<Findings, Error> {
    options.check()?;
    let hosts = request::parse(hosts);
    let all = interfaces::read()?;
    let outgoing = interfaces::outgoing(&all, &options.interfaces, &options.sysfs)?;
    let plan = plan::plan(&hosts, outgoing, &all, options)?;
    let outcome = event_loop::run(run::run(plan, options)).map_err(|source| Error::Runtime { source })??;
    Ok(findings::findings(&hosts, &outcome))
}
