//! The kernel's tables of links, addresses and routes (rtnetlink(7)), as far as the stations need them. The namespace is the
//! calling thread's.

use super::Error;
use kernel::{
    netlink::{Limits, NetlinkError, Request, Scope, ask},
    order,
    rtnetlink::{self, MAIN_TABLE},
};
use std::{io, net::IpAddr, ops::ControlFlow};

pub(super) use kernel::rtnetlink::{Address, Link, Route};

/// The kernel answers at once; this is for one that never does.
const TIMEOUT_S: i64 = 2;
/// A router's table of routes is not read to its end.
const MAX_ENTRIES: usize = 100_000;
const SEQUENCE: u32 = 1;

pub(super) fn links() -> Result<Vec<Link>, Error> {
    table(&rtnetlink::links(), Scope::Table, "interfaces", Link::parse)
}

pub(super) fn addresses() -> Result<Vec<Address>, Error> {
    table(&rtnetlink::addresses(), Scope::Table, "addresses", Address::parse)
}

/// Default routes of the main table, the preferred first.
pub(super) fn default_routes() -> Result<Vec<Route>, Error> {
    let mut routes = table(&rtnetlink::routes(), Scope::Table, "routes", Route::parse)?;
    routes.retain(|route| {
        route.prefix_len == 0 && route.table == MAIN_TABLE && !route.is_dead_end && route.link.is_some()
    });
    order::sort_by_key(&mut routes, |route| (route.destination.is_ipv6(), route.metric, route.gateway));
    Ok(routes)
}

/// The way to an address; `None` where the kernel has none.
pub(super) fn route_to(destination: IpAddr) -> Result<Option<Route>, Error> {
    match table(&rtnetlink::route_to(destination), Scope::Entry, "a route", Route::parse) {
        Ok(routes) => Ok(routes.into_iter().next().filter(|route| !route.is_dead_end)),
        Err(Error::Netlink { source, .. }) if leads_nowhere(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

fn leads_nowhere(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL))
}

fn table<T>(
    request: &Request,
    scope: Scope,
    what: &'static str,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    let limits = Limits { timeout_s: TIMEOUT_S, bytes: usize::MAX };
    let keep = |entry: &[u8]| {
        found.extend(parse(entry));
        if found.len() > MAX_ENTRIES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    match ask(request, scope, SEQUENCE, limits, keep) {
        Ok(_) => Ok(found),
        Err(NetlinkError::Io(source)) => Err(Error::Netlink { what, source }),
        Err(error) => Err(Error::Netlink { what, source: io::Error::other(error) }),
    }
}
