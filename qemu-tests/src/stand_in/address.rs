//! The cluster's address, which one machine at a time has.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    process::Command,
};

/// Takes the address on the loopback, which nothing reconfigures, as the kernel answers for it on every interface; and
/// announces it to the segment.
pub(super) fn take(address: Ipv4Addr) -> Result<()> {
    ip(["addr", "replace", &format!("{address}/32"), "dev", "lo"])?;
    let routes = fs::read_to_string("/proc/net/route").context("reading /proc/net/route")?;
    // A station with a stale entry asks again sooner or later.
    if let Some(interface) = default_interface(&routes) {
        let _ = Command::new("arping").args(["-q", "-U", "-c", "1", "-I", interface, &address.to_string()]).status();
    }
    Ok(())
}

/// Gives it up.
pub(super) fn release(address: Ipv4Addr) -> Result<()> {
    ip(["addr", "del", &format!("{address}/32"), "dev", "lo"])
}

fn ip<const N: usize>(arguments: [&str; N]) -> Result<()> {
    let status = Command::new("ip").args(arguments).status().context("starting ip")?;
    ensure!(status.success(), "ip {}: {status}", arguments.join(" "));
    Ok(())
}

/// By the kernel's table: destination and mask of no bits.
fn default_interface(routes: &str) -> Option<&str> {
    routes.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (name, destination) = (fields.next()?, fields.next()?);
        (destination == "00000000").then_some(name)
    })
}

/// This machine's own address. Nothing is sent: connecting a datagram socket asks the routing table only.
pub(super) fn local_address() -> Result<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect("192.0.2.1:9").context("no default route yet")?;
    match socket.local_addr()? {
        std::net::SocketAddr::V4(address) => Ok(*address.ip()),
        std::net::SocketAddr::V6(address) => anyhow::bail!("{address} is not of IPv4"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_routes_interface_is_found() {
        let table = "Iface\tDestination\tGateway\nens3\t0002000A\t00000000\nens4\t00000000\t0202000A\n";
        assert_eq!(default_interface(table), Some("ens4"));
        assert_eq!(default_interface("Iface\tDestination\n"), None);
    }
}
