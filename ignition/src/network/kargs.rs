//! The same network for the initramfs: kernel arguments of dracut.cmdline(7), which CoreOS systems hand to NetworkManager's
//! nm-initrd-generator(8).

use super::{MacInterface, State};
use kernel::order::{self, Gather};
use nmstate::{BaseInterface, Interface, InterfaceIdentifier, InterfaceIpAddr, RouteEntry};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// The main routing table.
const MAIN_TABLE: u32 = 254;

/// Kernel arguments, and what of the network they can't express.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Kargs {
    /// In the order in which they must be given.
    pub arguments: Vec<String>,
    /// Sentences about what is left out or doubtful.
    pub notes: Vec<String>,
}

/// The arguments for a network; `map` has the MAC addresses of its interfaces.
pub fn kargs(state: &State, map: &[MacInterface]) -> Kargs {
    let mut kargs = Kargs::default();
    let mut interfaces: Vec<&Interface> = state.network.interfaces.iter().filter(|one| one.is_up()).collect();
    order::sort_by_key(&mut interfaces, |interface| interface.name());
    let ports: BTreeSet<&str> = interfaces.iter().filter_map(|one| one.ports()).flatten().gather();
    let routes: Vec<&RouteEntry> =
        state.network.routes.config.iter().flatten().filter(|route| route.state.is_none()).collect();

    kargs.names(&interfaces, &ports, map);
    let left_out: BTreeSet<&str> =
        interfaces.iter().filter(|interface| !kargs.device(interface)).map(|interface| interface.name()).gather();
    let configured = |one: &&&Interface| !ports.contains(one.name()) && !left_out.contains(one.name());
    for interface in interfaces.iter().filter(configured) {
        kargs.addresses(interface, &routes);
    }
    kargs.routes(&routes, &interfaces);
    let dns = state.network.dns.iter().filter_map(|dns| dns.config.as_ref());
    for server in dns.clone().flat_map(|dns| dns.server.iter().flatten()) {
        kargs.add(format!("nameserver={}", bracketed(server)));
    }
    if dns.flat_map(|dns| dns.search.iter().flatten()).next().is_some() {
        kargs.note("no argument supports DNS search domains");
    }
    kargs
}

impl Kargs {
    fn add(&mut self, argument: String) {
        if argument.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') {
            self.note(&format!("{argument:?} would be split on a command line"));
        } else {
            self.arguments.push(argument);
        }
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// `ifname=`: names by MAC address. An interface without a known address keeps its name.
    fn names(&mut self, interfaces: &[&Interface], ports: &BTreeSet<&str>, map: &[MacInterface]) {
        let mut used = ports.clone();
        for interface in interfaces {
            used.insert(interface.name());
            used.extend(base_of(interface));
        }
        for name in used {
            let known = map.iter().find(|entry| entry.logical_nic_name == name).map(|entry| entry.mac_address.as_str());
            let own = interfaces.iter().map(|one| one.base_iface()).find(|base| base.name == name).and_then(own_mac);
            let Some(mac) = known.or(own) else { continue };
            self.add(format!("ifname={name}:{}", mac.to_ascii_lowercase().replace('-', ":")));
            if name.strip_prefix("eth").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit())) {
                self.note(&format!(
                    "{name} is a name that the kernel assigns; renaming fails if another interface has it"
                ));
            }
        }
    }

    /// `bond=`, `bridge=`, `vlan=`; whether the interface will exist.
    fn device(&mut self, interface: &Interface) -> bool {
        let name = interface.name();
        let ports = interface.ports().unwrap_or_default().join(",");
        match interface {
            Interface::Ethernet(_) | Interface::Loopback(_) => {}
            Interface::Bond(bond) => {
                let mut options = Vec::new();
                let config = bond.bond.as_ref();
                options.extend(config.and_then(|bond| bond.mode).map(|mode| format!("mode={mode}")));
                let given = config.and_then(|bond| bond.options.as_ref()).and_then(|o| api::json::to_value(o).ok());
                for (key, value) in given.iter().filter_map(|given| given.as_object()).flatten() {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    options.push(format!("{key}={}", text.replace(',', ";")));
                }
                let mtu = bond.base.mtu.map(|mtu| format!(":{mtu}")).unwrap_or_default();
                self.add(format!("bond={name}:{ports}:{}{mtu}", options.join(",")));
            }
            Interface::LinuxBridge(_) => self.add(format!("bridge={name}:{ports}")),
            Interface::Vlan(vlan) => {
                let Some((base, id)) = vlan.vlan.as_ref().and_then(|v| Some((v.base_iface.as_deref()?, v.id))) else {
                    self.note(&format!("{name} is left out: it is a VLAN without an interface"));
                    return false;
                };
                // The argument has no place for the id: it is read off the name.
                let said = name.rsplit_once('.').map(|(_, id)| id).or_else(|| name.strip_prefix("vlan"));
                if said.and_then(|digits| digits.parse().ok()) == Some(id) {
                    self.add(format!("vlan={name}:{base}"));
                } else {
                    self.note(&format!(
                        "{name} is left out: an argument supports VLAN {id} only with a name like {base}.{id} or vlan{id}"
                    ));
                    return false;
                }
            }
            other => {
                self.note(&format!("{name} is left out: no argument supports {}", other.iface_type()));
                return false;
            }
        }
        true
    }

    /// `ip=`.
    fn addresses(&mut self, interface: &Interface, routes: &[&RouteEntry]) {
        let BaseInterface { name, ipv4, ipv6, mtu, .. } = interface.base_iface();
        let mtu = mtu.map(|mtu| format!(":{mtu}")).unwrap_or_default();
        let mut fixed: Vec<&InterfaceIpAddr> = Vec::new();
        if let Some(ip) = ipv4.as_ref().filter(|ip| ip.enabled) {
            if ip.dhcp == Some(true) {
                self.add(format!("ip={name}:dhcp{mtu}"));
            }
            fixed.extend(ip.addresses.iter().flatten());
        }
        if let Some(ip) = ipv6.as_ref().filter(|ip| ip.enabled) {
            match (ip.autoconf, ip.dhcp) {
                (Some(true), _) => self.add(format!("ip={name}:auto6{mtu}")),
                (_, Some(true)) => self.add(format!("ip={name}:dhcp6{mtu}")),
                _ => {}
            }
            fixed.extend(ip.addresses.iter().flatten());
        }
        if fixed.is_empty() && !self.arguments.iter().any(|argument| argument.starts_with(&format!("ip={name}:"))) {
            // Without an argument it would be configured by DHCP.
            self.add(format!("ip={name}:off{mtu}"));
        }
        let mut gateways: BTreeSet<bool> = BTreeSet::new();
        for InterfaceIpAddr { ip, prefix_length, .. } in fixed {
            // Each family's gateway is given once, with its first address.
            let gateway = if gateways.insert(ip.is_ipv4()) { gateway(name, *ip, routes) } else { "" };
            let mask = match ip {
                IpAddr::V4(_) => netmask(*prefix_length).to_string(),
                IpAddr::V6(_) => prefix_length.to_string(),
            };
            self.add(format!("ip={}::{}:{mask}::{name}:none{mtu}", bracketed(&ip.to_string()), bracketed(gateway)));
        }
    }

    /// `rd.route=`, for what `ip=` doesn't express.
    fn routes(&mut self, routes: &[&RouteEntry], interfaces: &[&Interface]) {
        for route in routes {
            let destination = route.destination.as_deref().unwrap_or_default();
            let (Some(hop), name) =
                (route.next_hop_addr.as_deref(), route.next_hop_iface.as_deref().unwrap_or_default())
            else {
                self.note(&format!("the route to {destination} is left out: an argument needs a next hop"));
                continue;
            };
            if let Some(table) = route.table_id.filter(|table| ![0, MAIN_TABLE].contains(table)) {
                self.note(&format!("the route to {destination} is left out: it is in table {table}"));
                continue;
            }
            if route.metric.is_some_and(|metric| metric >= 0) {
                self.note(&format!("no argument supports the metric of the route to {destination}"));
            }
            let base = interfaces.iter().map(|one| one.base_iface()).find(|base| base.name == name);
            let said = base.is_some_and(|base| {
                let first = |v4: bool| addresses(base).find(|address| address.ip.is_ipv4() == v4);
                is_default(destination).and_then(first).is_some_and(|first| gateway(name, first.ip, routes) == hop)
            });
            if said {
                continue;
            }
            let network = if destination.contains(':') { format!("[{destination}]") } else { destination.to_owned() };
            let name = if name.is_empty() { String::new() } else { format!(":{name}") };
            self.add(format!("rd.route={network}:{}{name}", bracketed(hop)));
        }
    }
}

fn addresses(base: &BaseInterface) -> impl Iterator<Item = &InterfaceIpAddr> {
    let v4 = base.ipv4.as_ref().filter(|ip| ip.enabled).and_then(|ip| ip.addresses.as_ref());
    let v6 = base.ipv6.as_ref().filter(|ip| ip.enabled).and_then(|ip| ip.addresses.as_ref());
    v4.into_iter().chain(v6).flatten()
}

fn own_mac(base: &BaseInterface) -> Option<&str> {
    (base.identifier == Some(InterfaceIdentifier::MacAddress)).then_some(base.mac_address.as_deref()).flatten()
}

fn base_of(interface: &Interface) -> Option<&str> {
    let Interface::Vlan(vlan) = interface else { return None };
    vlan.vlan.as_ref()?.base_iface.as_deref()
}

/// Whether it is the default route, and if so, whether that of IPv4.
fn is_default(destination: &str) -> Option<bool> {
    match destination {
        "0.0.0.0/0" => Some(true),
        "::/0" => Some(false),
        _ => None,
    }
}

/// The first default route of the address's family through `interface` in the main table; empty for none.
fn gateway<'a>(interface: &str, address: IpAddr, routes: &[&'a RouteEntry]) -> &'a str {
    let default = routes.iter().find(|route| {
        route.destination.as_deref().and_then(is_default) == Some(address.is_ipv4())
            && route.next_hop_iface.as_deref() == Some(interface)
            && route.next_hop_addr.is_some()
            && route.table_id.is_none_or(|table| [0, MAIN_TABLE].contains(&table))
    });
    default.and_then(|route| route.next_hop_addr.as_deref()).unwrap_or_default()
}

fn netmask(prefix_len: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix_len))).unwrap_or(0))
}

/// IPv6 addresses hold the colon that separates fields.
fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[cfg(test)]
#[path = "kargs_tests.rs"]
mod tests;
