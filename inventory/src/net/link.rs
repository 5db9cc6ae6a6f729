//! Links and their addresses, from netlink messages or from sysfs. Pure but for sysfs.

use super::NET;
use crate::Root;
use kernel::rtnetlink;

// linux/if.h
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;

/// Flags with the names they are reported by, in that order.
const FLAG_NAMES: [(u32, &str); 6] = [
    (IFF_UP, "up"),
    (2, "broadcast"),
    (IFF_LOOPBACK, "loopback"),
    (0x10, "pointtopoint"),
    (0x1000, "multicast"),
    (0x40, "running"),
];

/// A network interface as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub index: u32,
    pub name: String,
    /// Bytes.
    pub mtu: u32,
    /// `IFF_` flags.
    pub flags: u32,
    /// Lower case with colons; a bond's port has its permanent one. `None` for all zeros or none.
    pub mac: Option<String>,
    /// The kernel's kind of a virtual link.
    pub kind: Option<String>,
    pub has_carrier: bool,
}

impl Link {
    pub(crate) fn flag_names(&self) -> Vec<String> {
        FLAG_NAMES.iter().filter(|(flag, _)| self.flags & flag != 0).map(|(_, name)| (*name).to_owned()).collect()
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.flags & IFF_LOOPBACK != 0
    }
}

/// The link of a netlink message.
pub(crate) fn parse_link(message: &[u8]) -> Option<Link> {
    let link = rtnetlink::Link::parse(message)?;
    Some(Link {
        index: link.index,
        name: link.name,
        mtu: link.mtu,
        flags: link.flags,
        mac: link.address.map(|address| kernel::hex::colons(&address)),
        kind: link.kind,
        // A link that is down has no carrier, whatever its driver thinks.
        has_carrier: link.has_carrier && link.flags & IFF_UP != 0,
    })
}

/// All links that a tree's sysfs lists.
pub(crate) fn from_sysfs(root: &Root) -> Vec<Link> {
    root.list(NET).into_iter().filter_map(|name| sysfs_link(root, name)).collect()
}

fn sysfs_link(root: &Root, name: String) -> Option<Link> {
    let dir = format!("{NET}/{name}");
    if !root.is_dir(&dir) {
        return None;
    }
    let attribute = |file: &str| root.attribute(format!("{dir}/{file}"));
    let mac = |file: &str| {
        attribute(file).map(|mac| mac.to_lowercase()).filter(|mac| mac.bytes().any(|b| !b"0:".contains(&b)))
    };
    let flags = attribute("flags").and_then(|hex| u32::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
    Some(Link {
        index: root.number(format!("{dir}/ifindex")).unwrap_or(0),
        mtu: root.number(format!("{dir}/mtu")).unwrap_or(0),
        flags: flags.unwrap_or(0),
        mac: mac("bonding_slave/perm_hwaddr").or_else(|| mac("address")),
        kind: sysfs_kind(root, &dir),
        has_carrier: attribute("carrier").as_deref() == Some("1"),
        name,
    })
}

fn sysfs_kind(root: &Root, dir: &str) -> Option<String> {
    let has = |file: &str| root.exists(format!("{dir}/{file}"));
    if has("tun_flags") {
        return Some("tun".to_owned());
    }
    if let Some(kind) = ["bonding", "bridge"].into_iter().find(|file| has(file)) {
        return Some(if kind == "bonding" { "bond" } else { kind }.to_owned());
    }
    let uevent = root.text(format!("{dir}/uevent"), 4096)?;
    uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::attribute;

    // linux/if_link.h
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_CARRIER: u16 = 33;
    const IFLA_INFO_KIND: u16 = 1;
    const IFLA_INFO_SLAVE_KIND: u16 = 4;
    const IFLA_INFO_SLAVE_DATA: u16 = 5;
    const IFLA_BOND_SLAVE_PERM_HWADDR: u16 = 4;

    /// `struct ifinfomsg` for link 4 with these flags.
    fn link(flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        [&[0, 0, 1, 0][..], &4u32.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4], &attributes.concat()].concat()
    }

    #[test]
    fn a_plain_link() {
        let found = parse_link(&link(
            0x11043,
            &[
                attribute(IFLA_IFNAME, b"eth0\0"),
                attribute(IFLA_MTU, &1400u32.to_ne_bytes()),
                attribute(IFLA_ADDRESS, &[2, 0xfc, 0, 0, 0, 1]),
                attribute(IFLA_CARRIER, &[1]),
                attribute(200, b"of the future"),
            ],
        ))
        .unwrap();
        assert_eq!((found.index, found.name.as_str(), found.mtu), (4, "eth0", 1400));
        assert_eq!(found.mac.as_deref(), Some("02:fc:00:00:00:01"));
        assert_eq!(found.flag_names(), ["up", "broadcast", "multicast", "running"]);
        assert!(found.has_carrier && found.kind.is_none());
    }

    #[test]
    fn a_port_of_a_bond_keeps_its_own_mac() {
        let port = attribute(IFLA_BOND_SLAVE_PERM_HWADDR, &[2, 0, 0, 0, 0, 9]);
        let info = [attribute(IFLA_INFO_SLAVE_KIND, b"bond\0"), attribute(IFLA_INFO_SLAVE_DATA, &port)].concat();
        let name = attribute(IFLA_IFNAME, b"eth1\0");
        let mac = attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]);
        let linkinfo = attribute(IFLA_LINKINFO, &info);
        for order in [[name.clone(), mac.clone(), linkinfo.clone()], [linkinfo, name, mac]] {
            assert_eq!(parse_link(&link(0, &order)).unwrap().mac.as_deref(), Some("02:00:00:00:00:09"));
        }
    }

    #[test]
    fn kinds_and_carriers() {
        let info = attribute(IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, b"veth\0"));
        let parts =
            [attribute(IFLA_IFNAME, b"v\0"), info, attribute(IFLA_CARRIER, &[1]), attribute(IFLA_ADDRESS, &[0; 6])];
        let down = parse_link(&link(0, &parts)).unwrap();
        assert_eq!((down.kind.as_deref(), down.has_carrier, down.mac), (Some("veth"), false, None));
        assert!(parse_link(&link(1, &parts)).unwrap().has_carrier);
        assert_eq!(parse_link(&link(1, &[])), None);
        assert_eq!(parse_link(&[0; 15]), None);
    }
}
