//! Decides whether this machine serves the rack.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::{
    io,
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

/// Pause between checks.
const LOOK: Duration = Duration::from_millis(500);

/// Whether this machine has `address`; waits up to `limit` for the network.
pub(crate) fn here(address: IpAddr, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let found = getifaddrs()?.filter_map(|interface| ip(&interface.address?)).any(|ip| ip == address);
        if found || Instant::now() >= deadline {
            return Ok(found);
        }
        thread::sleep(LOOK);
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_here_and_a_documentation_address_is_not() {
        assert!(here([127, 0, 0, 1].into(), Duration::ZERO).unwrap());
        assert!(!here([192, 0, 2, 1].into(), Duration::ZERO).unwrap());
    }
}
