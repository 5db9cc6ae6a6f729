//! Asks the kernel for its tables. The namespace is the calling thread's.

use super::Error;
use crate::codec::rtnetlink::{Address, Link, Message, NEW_ADDRESS, NEW_LINK, NEW_ROUTE, Request, Route, messages};
use nix::sys::{
    socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket,
        sockopt::ReceiveTimeout,
    },
    time::{TimeVal, TimeValLike},
};
use std::{io, net::IpAddr, os::fd::AsRawFd};

/// The kernel answers at once; this is for one that never does.
const TIMEOUT_S: i64 = 2;
/// The kernel's datagrams are 32 KiB at most, or as large as the largest message.
const DATAGRAM_BYTES: usize = 256 << 10;
/// A router's table of routes is not read to its end.
const MAX_ENTRIES: usize = 100_000;

pub(super) fn links() -> Result<Vec<Link>, Error> {
    table(Request::Links, "interfaces", NEW_LINK, Link::parse)
}

pub(super) fn addresses() -> Result<Vec<Address>, Error> {
    table(Request::Addresses, "addresses", NEW_ADDRESS, Address::parse)
}

/// Default routes of the main table, the preferred first.
pub(super) fn default_routes() -> Result<Vec<Route>, Error> {
    let mut routes = table(Request::Routes, "routes", NEW_ROUTE, Route::parse)?;
    routes.retain(|route| route.prefix_bits == 0 && route.is_main && !route.is_dead_end && route.link.is_some());
    routes.sort_by_key(|route| (!route.is_ipv4, route.metric, route.gateway));
    Ok(routes)
}

/// The way to an address; `None` where the kernel has none.
pub(super) fn route_to(destination: IpAddr) -> Result<Option<Route>, Error> {
    match table(Request::RouteTo(destination), "a route", NEW_ROUTE, Route::parse) {
        Ok(routes) => Ok(routes.into_iter().next().filter(|route| !route.is_dead_end)),
        Err(Error::Netlink { source, .. }) if leads_nowhere(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

fn leads_nowhere(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL))
}

fn table<T>(
    request: Request,
    what: &'static str,
    wanted: u16,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let fail = |source: io::Error| Error::Netlink { what, source };
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
        .map_err(|errno| fail(errno.into()))?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_S)).map_err(|errno| fail(errno.into()))?;
    let sequence = 1;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &request.to_bytes(sequence), &kernel, MsgFlags::empty())
        .map_err(|errno| fail(errno.into()))?;
    let single = matches!(request, Request::RouteTo(_));
    let mut found = Vec::new();
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut datagram, MsgFlags::empty()) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other.map_err(|errno| fail(errno.into()))?,
        };
        for message in messages(datagram.get(..length).unwrap_or_default(), sequence) {
            match message {
                Message::Entry(kind, payload) if kind == wanted => found.extend(parse(payload)),
                Message::Entry(..) => {}
                Message::End => return Ok(found),
                Message::Refused(errno) => return Err(fail(io::Error::from_raw_os_error(errno))),
            }
        }
        if single || found.len() > MAX_ENTRIES {
            return Ok(found);
        }
    }
}
