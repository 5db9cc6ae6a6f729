//! The local interfaces that probes can leave from.

use api::Mac;
use kernel::order::{self, Gather};
use nix::{
    ifaddrs::getifaddrs,
    net::if_::InterfaceFlags,
    sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, socket},
};
use std::{
    collections::BTreeMap,
    fs, io,
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// ARPHRD_ETHER: the only link type whose neighbours are asked directly.
const ETHERNET: u16 = 1;

/// Which local interfaces probes leave from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Physical, bond and VLAN interfaces that own an address other than a link-local one (docs/compatibility.md#connectivity-check).
    #[default]
    Automatic,
    /// These, whatever their kind; each must exist. Those without such an address still send nothing.
    Named(Vec<String>),
}

/// An address with the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub ip: IpAddr,
    pub prefix_bits: u32,
}

impl InterfaceAddress {
    /// Whether `other` is on the network of this address.
    pub(crate) fn network_contains(&self, other: IpAddr) -> bool {
        match (self.ip, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                leading_bits_equal(a.to_bits().into(), b.to_bits().into(), self.prefix_bits, 32)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => leading_bits_equal(a.to_bits(), b.to_bits(), self.prefix_bits, 128),
            _ => false,
        }
    }

    /// 169.254.0.0/16 or fe80::/10.
    pub(crate) fn is_link_local(&self) -> bool {
        match self.ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }
}

fn leading_bits_equal(a: u128, b: u128, prefix: u32, width: u32) -> bool {
    let host_bits = width.saturating_sub(prefix);
    (a ^ b).checked_shr(host_bits).unwrap_or(0) == 0
}

/// One interface of our network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub name: String,
    pub index: u32,
    /// Set when ARP and NDP can be spoken: Ethernet, with a link address.
    pub mac: Option<Mac>,
    pub mtu: Option<u32>,
    /// Up, with a carrier (IFF_RUNNING): what is sent elsewhere is lost without a word.
    pub has_link: bool,
    /// In the kernel's order.
    pub addresses: Vec<InterfaceAddress>,
}

impl Interface {
    /// Whether it owns an address of the same family as `remote` that is not link-local.
    pub(crate) fn speaks_family_of(&self, remote: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.ip.is_ipv4() == remote.is_ipv4() && !own.is_link_local())
    }
}

/// Why the interfaces are not known.
#[derive(Debug, thiserror::Error)]
pub enum InterfacesError {
    /// The kernel did not list them.
    #[error("cannot list the network interfaces")]
    List { source: io::Error },
    /// Asked for by name, but missing.
    #[error("no network interface '{name}'; this host has {present}")]
    Missing {
        name: String,
        /// Those there are, comma-separated.
        present: String,
    },
}

/// Lists every interface of our network namespace.
pub(crate) fn read() -> Result<Vec<Interface>, InterfacesError> {
    let list = |source| InterfacesError::List { source };
    let entries = getifaddrs().map_err(|errno| list(errno.into()))?;
    let socket = control_socket().map_err(list)?;
    let mut interfaces: Vec<Interface> = Vec::new();
    for entry in entries {
        // An address label (eth0:1) names the interface in front of the colon.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        let position = interfaces.iter().position(|known| known.name == name).unwrap_or_else(|| {
            let mtu = kernel::socket::interface_mtu(socket.as_fd(), name)
                .inspect_err(|error| tracing::debug!(interface = name, %error, "MTU unknown"))
                .ok();
            let has_link = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
            let name = name.to_owned();
            interfaces.push(Interface { name, index: 0, mac: None, mtu, has_link, addresses: Vec::new() });
            interfaces.len() - 1
        });
        let (Some(interface), Some(address)) = (interfaces.get_mut(position), entry.address) else { continue };
        if let Some(link) = address.as_link_addr() {
            interface.index = u32::try_from(link.ifindex()).unwrap_or(0);
            let asks =
                link.hatype() == ETHERNET && link.halen() == 6 && !entry.flags.contains(InterfaceFlags::IFF_NOARP);
            interface.mac = link.addr().filter(|mac| asks && *mac != [0; 6]).map(Mac);
        } else if let Some(ip) = ip_address(&address) {
            interface.addresses.push(InterfaceAddress { ip, prefix_bits: prefix_bits(ip, entry.netmask.as_ref()) });
        }
    }
    Ok(interfaces)
}

/// Any socket will do to ask about interfaces; a kernel without IPv4 or without IPv6 has the other.
fn control_socket() -> io::Result<OwnedFd> {
    let open = |family| socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    Ok(open(AddressFamily::Inet).or_else(|_| open(AddressFamily::Inet6))?)
}

fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

/// The prefix that a netmask stands for; without one the address is alone on its network.
fn prefix_bits(ip: IpAddr, netmask: Option<&SockaddrStorage>) -> u32 {
    match (ip, netmask.and_then(ip_address)) {
        (IpAddr::V4(_), Some(IpAddr::V4(mask))) => mask.to_bits().leading_ones(),
        (IpAddr::V6(_), Some(IpAddr::V6(mask))) => mask.to_bits().leading_ones(),
        (IpAddr::V4(_), _) => 32,
        (IpAddr::V6(_), _) => Ipv6Addr::BITS,
    }
}

/// Those of `interfaces` that probes are to leave from.
pub(crate) fn outgoing(
    interfaces: &[Interface],
    selection: &Selection,
    sysfs: &Path,
) -> Result<Vec<Interface>, InterfacesError> {
    let (usable, idle): (Vec<_>, Vec<_>) = chosen(interfaces, selection, sysfs)?
        .into_iter()
        .partition(|interface| interface.addresses.iter().any(|own| !own.is_link_local()));
    for interface in idle {
        tracing::debug!(interface = interface.name, "no address to probe from");
    }
    Ok(usable.into_iter().cloned().collect())
}

/// As [`outgoing`], whether they have an address or not.
pub(crate) fn chosen<'a>(
    interfaces: &'a [Interface],
    selection: &Selection,
    sysfs: &Path,
) -> Result<Vec<&'a Interface>, InterfacesError> {
    match selection {
        Selection::Automatic => Ok(interfaces.iter().filter(|interface| counts(sysfs, &interface.name)).collect()),
        Selection::Named(names) => all_named(interfaces, names),
    }
}

/// Ethernet cards, whether they have an address or not.
pub(crate) fn cards<'a>(interfaces: &'a [Interface], sysfs: &Path) -> Vec<&'a Interface> {
    interfaces.iter().filter(|interface| interface.mac.is_some() && is_physical(sysfs, &interface.name)).collect()
}

/// What the kernel says of each interface's state.
pub(crate) fn flags() -> Result<BTreeMap<String, InterfaceFlags>, InterfacesError> {
    let entries = getifaddrs().map_err(|errno| InterfacesError::List { source: errno.into() })?;
    Ok(entries.map(|entry| (entry.interface_name, entry.flags)).gather())
}

/// The one called `name`.
pub(crate) fn named<'a>(interfaces: &'a [Interface], name: &str) -> Result<&'a Interface, InterfacesError> {
    interfaces.iter().find(|interface| interface.name == name).ok_or_else(|| InterfacesError::Missing {
        name: name.chars().take(64).collect(),
        present: interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// Those of these names, each once, sorted.
pub(crate) fn all_named<'a>(
    interfaces: &'a [Interface],
    names: &[String],
) -> Result<Vec<&'a Interface>, InterfacesError> {
    let mut names: Vec<_> = names.iter().collect();
    order::sort(&mut names);
    names.dedup();
    names.into_iter().map(|name| named(interfaces, name)).collect()
}

/// Physical, bond or VLAN (docs/compatibility.md#interfaces), and not a port of a bond.
///
/// Addresses that a bond's port was left with are its own mistake: a probe from it would teach switches and neighbours to
/// send the bond's traffic to one port (BZ 2105358). The bond speaks for it. The real agent knows no such rule for ports of
/// bridges and teams, which do not speak themselves.
fn counts(sysfs: &Path, name: &str) -> bool {
    let is_bond_or_vlan = || {
        let uevent = fs::read_to_string(sysfs.join("class/net").join(name).join("uevent")).unwrap_or_default();
        uevent.lines().any(|line| matches!(line, "DEVTYPE=bond" | "DEVTYPE=vlan"))
    };
    !is_bond_port(sysfs, name) && (is_physical(sysfs, name) || is_bond_or_vlan())
}

/// The kernel makes either directory with the bond's port (bond_sysfs_slave.c, net/core/dev.c).
pub(crate) fn is_bond_port(sysfs: &Path, name: &str) -> bool {
    let entry = sysfs.join("class/net").join(name);
    entry.join("bonding_slave").is_dir() || entry.join("master/bonding").is_dir()
}

/// What does not resolve is taken for physical.
fn is_physical(sysfs: &Path, name: &str) -> bool {
    fs::canonicalize(sysfs.join("class/net").join(name))
        .map_or(true, |path| !path.components().any(|part| part.as_os_str() == "virtual"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn address(text: &str) -> InterfaceAddress {
        let (ip, bits) = text.split_once('/').unwrap();
        InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits: bits.parse().unwrap() }
    }

    fn interface(name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| address(text)).collect();
        Interface { name: name.to_owned(), index: 1, mac: None, mtu: Some(1500), has_link: true, addresses }
    }

    #[test]
    fn networks_contain_their_hosts_only() {
        for (own, other, inside) in [
            ("192.168.126.10/24", "192.168.126.11", true),
            ("192.168.126.10/24", "192.168.127.11", false),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.2", false),
            ("10.0.0.1/0", "192.0.2.1", true),
            ("fd00::1/64", "fd00::ffff", true),
            ("fd00::1/64", "fd00:0:0:1::1", false),
            ("fd00::1/0", "2001:db8::1", true),
            ("fd00::1/128", "fd00::2", false),
            ("0.0.0.1/0", "::1", false),
        ] {
            assert_eq!(address(own).network_contains(other.parse().unwrap()), inside, "{own} {other}");
        }
    }

    #[test]
    fn probes_leave_by_physical_bond_and_vlan_with_an_address() {
        let root = tempfile::tempdir().unwrap();
        let class = root.path().join("class/net");
        fs::create_dir_all(&class).unwrap();
        for (name, device, uevent) in [
            ("ens3", "devices/pci0000:00/0000:00:03.0/virtio0/net/ens3", "INTERFACE=ens3\n"),
            ("ens4", "devices/pci0000:00/0000:00:04.0/virtio1/net/ens4", "INTERFACE=ens4\n"),
            ("bond0", "devices/virtual/net/bond0", "DEVTYPE=bond\nINTERFACE=bond0\n"),
            ("bond0.7", "devices/virtual/net/bond0.7", "DEVTYPE=vlan\nINTERFACE=bond0.7\n"),
            ("br0", "devices/virtual/net/br0", "DEVTYPE=bridge\nINTERFACE=br0\n"),
            ("lo", "devices/virtual/net/lo", "INTERFACE=lo\n"),
        ] {
            let device = root.path().join(device);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("uevent"), uevent).unwrap();
            symlink(&device, class.join(name)).unwrap();
        }
        let all = [
            interface("lo", &["127.0.0.1/8"]),
            interface("ens3", &["10.0.0.1/24", "fe80::1/64"]),
            interface("ens4", &["169.254.3.4/16", "fe80::2/64"]),
            interface("bond0", &["fd00::1/64"]),
            interface("bond0.7", &["10.0.7.1/24"]),
            interface("br0", &["10.0.8.1/24"]),
            interface("gone", &["10.0.9.1/24"]),
        ];
        let names = |selection: &Selection| -> Vec<String> {
            outgoing(&all, selection, root.path()).unwrap().into_iter().map(|i| i.name).collect()
        };
        assert_eq!(names(&Selection::Automatic), ["ens3", "bond0", "bond0.7", "gone"]);
        assert_eq!(names(&Selection::Named(vec!["br0".into(), "ens4".into(), "br0".into()])), ["br0"]);
        let error = outgoing(&all[..2], &Selection::Named(vec!["eno1".into()]), root.path()).unwrap_err();
        assert_eq!(error.to_string(), "no network interface 'eno1'; this host has lo, ens3");
    }

    #[test]
    fn a_port_of_a_bond_with_a_stray_address_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let class = root.path().join("class/net");
        fs::create_dir_all(&class).unwrap();
        for (name, device, below) in [
            ("bond0", "devices/virtual/net/bond0", "bonding"),
            ("br0", "devices/virtual/net/br0", "bridge"),
            ("ens3", "devices/pci0000:00/net/ens3", "bonding_slave"),
            ("ens4", "devices/pci0000:00/net/ens4", "statistics"),
            ("ens5", "devices/pci0000:00/net/ens5", "brport"),
            ("ens6", "devices/pci0000:00/net/ens6", "statistics"),
        ] {
            let device = root.path().join(device);
            fs::create_dir_all(device.join(below)).unwrap();
            symlink(&device, class.join(name)).unwrap();
        }
        fs::write(class.join("bond0/uevent"), "DEVTYPE=bond\n").unwrap();
        for (port, master) in [("ens4", "bond0"), ("ens5", "br0")] {
            symlink(class.join(master), class.join(port).join("master")).unwrap();
        }
        let all = ["bond0", "br0", "ens3", "ens4", "ens5", "ens6"].map(|name| interface(name, &["10.0.0.1/24"]));
        let names = |selection: &Selection| -> Vec<String> {
            outgoing(&all, selection, root.path()).unwrap().into_iter().map(|i| i.name).collect()
        };
        assert_eq!(names(&Selection::Automatic), ["bond0", "ens5", "ens6"]);
        assert_eq!(names(&Selection::Named(vec!["ens3".into()])), ["ens3"], "asked for by name");
    }

    #[test]
    fn our_own_loopback_is_read() {
        let interfaces = read().unwrap();
        let lo = interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(lo.index > 0 && lo.mtu.is_some());
        assert_eq!(lo.mac, None, "no neighbours on the loopback");
    }
}
