//! Station 1: an interface with carrier.

use super::{
    netlink::Link,
    report::{Code, Finding, Station},
};
use api::Mac;
use kernel::order;
use std::{fmt, fs, path::Path};

const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const IFF_LOWER_UP: u32 = 1 << 16;
/// `IF_OPER_DORMANT` (RFC 2863): waits for an event outside.
const DORMANT: u8 = 5;
/// ARPHRD_ numbers of Ethernet and InfiniBand.
const CABLED: [u16; 2] = [1, 32];

/// How an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Administratively down.
    SwitchedOff,
    /// Nothing at the other end.
    NoCarrier,
    /// Carrier, but not yet authorised (802.1X).
    Waiting,
    /// As it should be.
    Up,
}

/// An interface that may lead to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub index: u32,
    pub name: String,
    pub mac: Option<Mac>,
    pub state: State,
    /// Megabits a second.
    pub speed_mbps: Option<u32>,
    /// A port of a bond or bridge, which has the addresses.
    pub is_port: bool,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.mac.iter().try_for_each(|mac| write!(f, " ({mac})"))
    }
}

/// The interfaces that count: hardware, bonds, teams and VLANs, and what has one of these as a port. Where there is none (in
/// a container), all but the loopback.
pub(super) fn interfaces(links: &[Link], sysfs: &Path) -> Vec<Interface> {
    let kind = |link: &Link| link.kind.clone().unwrap_or_default();
    let is_loopback = |link: &&Link| link.flags & IFF_LOOPBACK != 0;
    let mut counted: Vec<&Link> = links
        .iter()
        .filter(|link| !is_loopback(link) && CABLED.contains(&link.technology))
        .filter(|link| matches!(kind(link).as_str(), "" | "bond" | "team" | "vlan"))
        .collect();
    // A bridge on a bond on a card is three layers; many more are not in use.
    for _ in 0..4 {
        let is_master = |link: &&Link| {
            counted.iter().any(|port| port.master == Some(link.index))
                && !counted.iter().any(|known| known.index == link.index)
        };
        let masters: Vec<_> = links.iter().filter(is_master).collect();
        counted.extend(masters);
    }
    if counted.is_empty() {
        counted = links.iter().filter(|link| !is_loopback(link)).collect();
    }
    order::sort_by_key(&mut counted, |link| link.index);
    counted.into_iter().map(|link| interface(link, sysfs)).collect()
}

fn interface(link: &Link, sysfs: &Path) -> Interface {
    let state = if link.flags & IFF_UP == 0 {
        State::SwitchedOff
    } else if link.flags & IFF_LOWER_UP == 0 {
        State::NoCarrier
    } else if link.state == DORMANT {
        State::Waiting
    } else {
        State::Up
    };
    Interface {
        index: link.index,
        name: link.name.clone(),
        mac: link.address.as_deref().and_then(|address| address.try_into().ok()).map(Mac),
        state,
        speed_mbps: speed(link, sysfs),
        is_port: link.master.is_some(),
    }
}

/// From sysfs, if it shows the interface of this number (it may show another namespace's).
fn speed(link: &Link, sysfs: &Path) -> Option<u32> {
    let entry = sysfs.join("class/net").join(&link.name);
    let read = |name: &str| fs::read_to_string(entry.join(name)).ok()?.trim().parse::<u32>().ok();
    let is_same = read("ifindex") == Some(link.index);
    // Unknown is -1, and 4294967295 on older kernels.
    read("speed").filter(|speed| is_same && *speed > 0 && *speed < u32::MAX)
}

/// Is there an interface with carrier?
pub(super) fn judge(interfaces: &[Interface]) -> Finding {
    let station = Station::Link;
    let described: Vec<_> = interfaces.iter().map(describe).collect();
    let seen = described.join("; ");
    let any = |state: State| interfaces.iter().find(|interface| interface.state == state).map(|i| i.name.as_str());
    if interfaces.is_empty() {
        let next = "check that the kernel knows the machine's network card (`landfall report`): a driver or its firmware \
                    may be missing";
        return Finding::broken(station, Code::NoInterface, "the only network interface is the loopback", next);
    }
    if any(State::Up).is_some() {
        return Finding::ok(station, seen);
    }
    if let Some(name) = any(State::Waiting) {
        let next = format!(
            "{name} waits for 802.1X authentication by the switch: check its credentials and the port's policy"
        );
        return Finding::broken(station, Code::Waiting, seen, next);
    }
    if let Some(name) = any(State::NoCarrier) {
        let next =
            format!("check the cable of {name} at both ends, and that the switch port is enabled at the same speed");
        return Finding::broken(station, Code::NoCarrier, seen, next);
    }
    let name = any(State::SwitchedOff).unwrap_or_default();
    let next = format!("set it up (`ip link set {name} up`), and find out why the network configuration does not");
    Finding::broken(station, Code::SwitchedOff, seen, next)
}

fn describe(interface: &Interface) -> String {
    match (interface.state, interface.speed_mbps) {
        (State::SwitchedOff, _) => format!("{interface} is down"),
        (State::NoCarrier, _) => format!("{interface} is up but has no carrier"),
        (State::Waiting, _) => format!("{interface} has carrier but waits for 802.1X authentication"),
        (State::Up, Some(speed)) => format!("{interface} is up, {speed} Mb/s"),
        (State::Up, None) => format!("{interface} is up"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: &str, master: Option<u32>, flags: u32) -> Link {
        let kind = (!kind.is_empty()).then(|| kind.to_owned());
        Link { index, name: name.into(), technology: 1, kind, master, flags, ..Link::default() }
    }

    #[test]
    fn what_counts_is_hardware_and_what_stands_on_it() {
        let up = IFF_UP | IFF_LOWER_UP;
        let links = [
            link(1, "lo", "", None, up | IFF_LOOPBACK),
            link(2, "ens3", "", Some(4), up),
            link(3, "podman0", "bridge", None, up),
            link(4, "bond0", "bond", Some(5), up),
            link(5, "br0", "bridge", None, up),
            link(6, "veth1", "veth", Some(3), up),
        ];
        let names = |links: &[Link]| -> Vec<String> {
            interfaces(links, Path::new("/nonexistent")).into_iter().map(|interface| interface.name).collect()
        };
        assert_eq!(names(&links), ["ens3", "bond0", "br0"]);
        assert_eq!(names(&[links[0].clone(), links[5].clone()]), ["veth1"], "a container has nothing else");
    }

    #[test]
    fn each_interface_is_named_with_what_ails_it() {
        let links = [link(2, "ens3", "", None, 0), link(3, "ens4", "", None, IFF_UP)];
        let finding = judge(&interfaces(&links, Path::new("/nonexistent")));
        assert_eq!(finding.code, Code::NoCarrier);
        assert_eq!(finding.seen, "ens3 is down; ens4 is up but has no carrier");
        let finding = judge(&interfaces(&links[..1], Path::new("/nonexistent")));
        assert_eq!((finding.code, finding.seen.as_str()), (Code::SwitchedOff, "ens3 is down"));
        assert_eq!(judge(&[]).code, Code::NoInterface);
    }
}
