//! Station 2: an address that others can answer to.

use super::{
    link::{Interface, State},
    netlink,
    report::{Code, Finding, Station},
};
use kernel::order;
use std::net::IpAddr;

// linux/if_addr.h
const DAD_FAILED: u32 = 0x08;
const TENTATIVE: u32 = 0x40;
const OPTIMISTIC: u32 = 0x04;

/// An address of an interface that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub interface: String,
    /// The interface has carrier.
    pub is_up: bool,
    pub ip: IpAddr,
    pub prefix_bits: u8,
    /// The kernel has found another holder, and does not use it.
    pub has_failed: bool,
    /// The kernel is still looking for another holder.
    pub is_tentative: bool,
}

impl Address {
    pub(super) fn is_link_local(&self) -> bool {
        match self.ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }

    /// Others can answer to it.
    pub(super) fn is_usable(&self) -> bool {
        self.is_up && !self.is_link_local() && !self.has_failed && !self.is_tentative
    }
}

pub(super) fn addresses(interfaces: &[Interface], addresses: &[netlink::Address]) -> Vec<Address> {
    let mut known: Vec<_> = addresses
        .iter()
        .filter_map(|address| {
            let interface = interfaces.iter().find(|interface| interface.index == address.link)?;
            let has_failed = address.flags & DAD_FAILED != 0;
            Some(Address {
                interface: interface.name.clone(),
                is_up: interface.state == State::Up,
                ip: address.ip,
                prefix_bits: address.prefix_len,
                has_failed,
                is_tentative: !has_failed && address.flags & TENTATIVE != 0 && address.flags & OPTIMISTIC == 0,
            })
        })
        .collect();
    order::sort_by(&mut known, |a, b| (&a.interface, a.ip).cmp(&(&b.interface, b.ip)));
    known
}

/// Is there an address to be answered at?
pub(super) fn judge(interfaces: &[Interface], addresses: &[Address]) -> Finding {
    let station = Station::Address;
    let list = |wanted: &dyn Fn(&Address) -> bool| -> String {
        let chosen = addresses.iter().filter(|address| wanted(address));
        let texts =
            chosen.map(|Address { ip, prefix_bits, interface, .. }| format!("{ip}/{prefix_bits} on {interface}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let usable = list(&Address::is_usable);
    let failed = list(&|address| address.has_failed);
    let tentative = list(&|address| address.is_tentative && address.is_up && !address.is_link_local());
    let up = interfaces.iter().filter(|interface| interface.state == State::Up && !interface.is_port);
    let up = up.map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
    if !failed.is_empty() {
        let next = "another station has this address: find it (`ip neighbour`, the switch's table) and change the address \
                    of one of them; if it is the other one, set the interface down and up to use ours";
        return if usable.is_empty() {
            let seen = format!("{failed}: not used, because the kernel detected a duplicate (dadfailed)");
            Finding::broken(station, Code::DuplicateDetected, seen, next)
        } else {
            let seen = format!("{usable}; not used: {failed} (the kernel detected a duplicate: dadfailed)");
            Finding::warn(station, Code::DuplicateDetected, seen, next)
        };
    }
    if !usable.is_empty() {
        return Finding::ok(station, usable);
    }
    if !tentative.is_empty() {
        let seen = format!("{tentative}: the kernel is still checking for duplicates (tentative)");
        return Finding::broken(station, Code::Tentative, seen, "wait two seconds and try again");
    }
    let link_local = list(&|address| address.is_up && address.is_link_local());
    let next = format!(
        "check that a DHCP server answers on the network of {up} (right switch port and VLAN?), or give {up} a static address"
    );
    if link_local.is_empty() {
        let idle = list(&|address| !address.is_up);
        if up.is_empty() && !idle.is_empty() {
            let next = "find out why no interface with an address is up";
            return Finding::broken(station, Code::NoAddress, format!("{idle}, which is not up"), next);
        }
        let elsewhere = if idle.is_empty() { String::new() } else { format!("; {idle}, which is not up") };
        let seen = format!("no address on {up}{elsewhere}");
        return Finding::broken(station, Code::NoAddress, seen, next);
    }
    let seen = format!("only link-local: {link_local}; no address was assigned (DHCP failed)");
    Finding::broken(station, Code::LinkLocalOnly, seen, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ens3() -> Interface {
        Interface { index: 2, name: "ens3".into(), mac: None, state: State::Up, speed_mbps: None, is_port: false }
    }

    fn judged(entries: &[(&str, u32)]) -> Finding {
        let entries: Vec<_> = entries
            .iter()
            .map(|(ip, flags)| netlink::Address { link: 2, ip: ip.parse().unwrap(), prefix_len: 24, flags: *flags })
            .collect();
        judge(&[ens3()], &addresses(&[ens3()], &entries))
    }

    #[test]
    fn addresses_without_answers_are_free() {
        for (entries, code, seen) in [
            (&[][..], Code::NoAddress, "no address on ens3"),
            (
                &[("169.254.3.4", 0), ("fe80::1", 0)],
                Code::LinkLocalOnly,
                "only link-local: 169.254.3.4/24 on ens3, fe80::1/24 on ens3; no address was assigned (DHCP failed)",
            ),
            (
                &[("fd00::1", TENTATIVE)],
                Code::Tentative,
                "fd00::1/24 on ens3: the kernel is still checking for duplicates (tentative)",
            ),
            (
                &[("fd00::1", TENTATIVE | DAD_FAILED)],
                Code::DuplicateDetected,
                "fd00::1/24 on ens3: not used, because the kernel detected a duplicate (dadfailed)",
            ),
            (
                &[("10.0.0.1", 0), ("fd00::1", DAD_FAILED)],
                Code::DuplicateDetected,
                "10.0.0.1/24 on ens3; not used: fd00::1/24 on ens3 (the kernel detected a duplicate: dadfailed)",
            ),
            (&[("10.0.0.1", 0), ("fe80::1", 0)], Code::Ok, "10.0.0.1/24 on ens3"),
        ] {
            let finding = judged(entries);
            assert_eq!((finding.code, finding.seen.as_str()), (code, seen));
        }
    }
}
