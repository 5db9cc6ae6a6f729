//! `dhcp-lease-allocate` (docs/compatibility.md#dhcp-lease-allocate): takes DHCP leases for the cluster's virtual addresses, and by hand
//! shows which servers offer what.
//!
//! dhclient did this on macvlan interfaces with the virtual addresses' own hardware addresses. Here those are the source of
//! the frames and the client's hardware address in the messages, on the interface as it is: no interface is made, no
//! file is written, and both leases are taken at the same time. As with dhclient there, it is not checked whether another
//! station holds the address already (RFC 2131 section 3.1 step 5): the cluster's other hosts may, with good reason.

mod client;
mod lease;
mod offers;
mod station;
pub(crate) mod table;

pub use client::Seen;
pub use lease::Lease;
pub use offers::{Offer, Offers, offers};

use crate::{
    event_loop,
    interfaces::{self, Interface, InterfacesError},
    privileges::{self, PrivilegeError},
    probe::SocketError,
};
use api::{DhcpAllocationRequest, DhcpAllocationResponse, Mac};
use client::Client;
use station::Station;
use std::{fmt, io, time::Duration};
use time::OffsetDateTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpTiming {
    /// How long to try for each address, both at the same time; for [`offers`], how long to listen.
    pub timeout: Duration,
    /// First wait for an answer; it doubles with each question, to four times this.
    pub patience: Duration,
}

impl Default for DhcpTiming {
    /// 28 s, the time that the real agent gives each address.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(28), patience: Duration::from_secs(2) }
    }
}

/// A virtual address of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vip {
    Api,
    Ingress,
}

impl Vip {
    /// What the lease calls its interface.
    fn interface(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Ingress => "ingress",
        }
    }
}

impl fmt::Display for Vip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Api => "API",
            Self::Ingress => "ingress",
        })
    }
}

/// The leases of both virtual addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub api: Lease,
    pub ingress: Lease,
}

impl Allocation {
    /// The step's reply.
    pub fn response(&self) -> DhcpAllocationResponse {
        DhcpAllocationResponse {
            api_vip_address: self.api.address.to_string(),
            api_vip_lease: self.api.text.clone(),
            ingress_vip_address: self.ingress.address.to_string(),
            ingress_vip_lease: self.ingress.text.clone(),
        }
    }
}

/// No server gave an address in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLease {
    pub vip: Vip,
    /// Asked from.
    pub interface: String,
    pub mac: Mac,
    pub waited: Duration,
    /// What there was instead.
    pub seen: Seen,
}

impl fmt::Display for NoLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vip, interface, mac, waited, seen } = self;
        let waited = waited.as_secs_f64();
        write!(f, "no DHCP lease for the {vip} address on {interface} with MAC {mac} within {waited} seconds: {seen}")
    }
}

/// Why there are no leases.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request can't be read.
    #[error("the request is not a DHCP allocation request (interface, api_vip_mac, ingress_vip_mac)")]
    Request { source: serde_json::Error },
    /// A hardware address that no station has.
    #[error("{0} is not a unicast MAC address")]
    NotAStation(Mac),
    #[error("the API and the ingress address have the same MAC address {0}: a server would give both the same address")]
    SameMac(Mac),
    /// The local interfaces are not as needed.
    #[error(transparent)]
    Interfaces(#[from] InterfacesError),
    /// An interface without Ethernet addresses.
    #[error("{interface} is not an Ethernet interface: DHCP with a MAC address needs one")]
    NotEthernet { interface: String },
    /// The packet socket can't be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The thread could not drop its capabilities.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    #[error("cannot start the event loop of the DHCP client")]
    Runtime { source: io::Error },
    /// The question of who offers an address did not leave.
    #[error("cannot send on {interface}; is it up, with carrier?")]
    NotSent { interface: String, source: io::Error },
    #[error("cannot receive DHCP messages on {interface}")]
    NotReceived { interface: String, source: io::Error },
    /// One address or both could not be leased.
    #[error("{}; is there a DHCP server on this network with addresses left?", join(.0))]
    NoLease(Vec<NoLease>),
}

fn join(failures: &[NoLease]) -> String {
    failures.iter().map(NoLease::to_string).collect::<Vec<_>>().join("; ")
}

/// Reads the argument of the service's step.
pub(crate) fn request_from_json(json: &[u8]) -> Result<DhcpAllocationRequest, Error> {
    serde_json::from_slice(json).map_err(|source| Error::Request { source })
}

/// Takes a lease for each of the cluster's virtual addresses, the same as before where the request says what that was.
///
/// Every host of a cluster does this with the same hardware addresses, so all get the same leases. Nothing is
/// configured. Both are asked for at once, so all is over within `options.timeout`.
///
/// Runs its own event loop on this thread and in this thread's network namespace. Needs `CAP_NET_RAW`, and leaves the
/// thread without any capability.
pub fn allocate(request: &DhcpAllocationRequest, options: &DhcpTiming) -> Result<Allocation, Error> {
    let (api, ingress) = (request.api_vip_mac, request.ingress_vip_mac);
    for mac in [api, ingress] {
        check_station(mac)?;
    }
    if api == ingress {
        return Err(Error::SameMac(api));
    }
    let interface = find(&request.interface)?;
    let outcome = event_loop::run(async {
        let api = Station::open(&interface, api)?;
        let ingress = Station::open(&interface, ingress)?;
        privileges::drop_all()?;
        Ok::<_, Error>(tokio::join!(
            take(Vip::Api, &api, &request.api_vip_lease, options),
            take(Vip::Ingress, &ingress, &request.ingress_vip_lease, options),
        ))
    });
    match outcome.map_err(|source| Error::Runtime { source })?? {
        (Ok(api), Ok(ingress)) => Ok(Allocation { api, ingress }),
        (api, ingress) => Err(Error::NoLease([api, ingress].into_iter().filter_map(Result::err).collect())),
    }
}

async fn take(vip: Vip, station: &Station, earlier: &str, options: &DhcpTiming) -> Result<Lease, NoLease> {
    let wish = lease::last_address(earlier);
    if wish.is_none() && !earlier.trim().is_empty() {
        tracing::warn!(%vip, "the earlier lease has no usable address; asking for any");
    }
    // The name that dhclient was given: the MAC address keeps the names of several clusters apart.
    let host_name = format!("{}-{}", station.mac.dashed(), vip.interface());
    let client = Client::new(station.mac, host_name, wish, options.patience);
    match station.acquire(client, options.timeout).await {
        Ok((grant, answer)) => Ok(Lease::new(grant, &answer.options, vip.interface(), OffsetDateTime::now_utc())),
        Err(seen) => {
            let (interface, mac) = (station.interface.clone(), station.mac);
            Err(NoLease { vip, interface, mac, waited: options.timeout, seen })
        }
    }
}

/// A group's address would make every station of the segment an addressee.
fn check_station(mac: Mac) -> Result<(), Error> {
    let [first, ..] = mac.0;
    if first & 1 != 0 || mac == Mac([0; 6]) { Err(Error::NotAStation(mac)) } else { Ok(()) }
}

/// The interface of that name, if it is an Ethernet.
fn find(name: &str) -> Result<Interface, Error> {
    let interface = interfaces::named(&interfaces::read()?, name)?.clone();
    match interface.mac {
        Some(_) => Ok(interface),
        None => Err(Error::NotEthernet { interface: interface.name }),
    }
}
