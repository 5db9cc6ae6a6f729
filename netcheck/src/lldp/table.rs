//! Neighbours for a reader at a terminal.

use super::{Identifier, Link, Neighbour, Neighbourhood, Port, Silence, Vlan};
use std::{fmt::Write, net::IpAddr};

/// One paragraph a port.
pub(crate) fn render(found: &Neighbourhood) -> String {
    if found.ports.is_empty() {
        return "no network card found\n".to_owned();
    }
    found.ports.iter().map(|port| paragraph(port, found.listened_ms)).collect()
}

fn paragraph(port: &Port, listened_ms: u64) -> String {
    let link = match port.link {
        Link::Up => "up",
        Link::NoCarrier => "NO CARRIER",
        Link::Down => "DOWN",
    };
    let mut text = port.interface.clone();
    let mac = port.mac.map(|mac| mac.to_string());
    for part in [mac, port.driver.clone(), Some(link.to_owned())].into_iter().flatten() {
        text.push_str("  ");
        text.push_str(&part);
    }
    text.push('\n');
    for neighbour in &port.neighbours {
        text.push_str(&lines(neighbour, port.mtu));
    }
    if let Some(silence) = port.silence {
        let why = explain(silence, port, listened_ms);
        // Writing to a String does not fail.
        let _ = writeln!(text, "  no neighbour: {why}");
    }
    text
}

fn explain(silence: Silence, port: &Port, listened_ms: u64) -> String {
    let name = &port.interface;
    match (silence, port.link, port.driver.as_deref()) {
        (Silence::NoLink, Link::Down, _) => format!("the interface is down (ip link set {name} up)"),
        (Silence::NoLink, ..) => "no carrier; check the cable, the module and the switch's port".to_owned(),
        (Silence::FirmwareAgent, _, driver) => {
            let (driver, flag) = match driver {
                Some("i40e") => ("i40e", "disable-fw-lldp on"),
                _ => ("ice", "fw-lldp-agent off"),
            };
            format!(
                "the card's firmware ({driver}) consumes LLDP frames by default; to receive them: ethtool --set-priv-flags {name} {flag}"
            )
        }
        (Silence::NobodySpoke, ..) => format!(
            "the switch does not send LLDP on this port, or not within the {} s of listening",
            listened_ms / 1000
        ),
    }
}

fn lines(neighbour: &Neighbour, own_mtu: Option<u32>) -> String {
    let advertisement = &neighbour.advertisement;
    let chassis = describe(&advertisement.chassis);
    let switch =
        advertisement.system_name.as_ref().map_or_else(|| chassis.clone(), |name| format!("{name} ({chassis})"));
    let port = described(&advertisement.port, advertisement.port_description.as_ref());
    let vlans = vlans(advertisement.port_vlan, &advertisement.vlans);
    let frame = advertisement.max_frame_bytes.map(|bytes| {
        // The number is to include header and check sequence; some switches write the MTU. Too small it is either way.
        let small = own_mtu.is_some_and(|mtu| u32::from(bytes) < mtu);
        let own = own_mtu.unwrap_or(0);
        format!("{bytes} bytes{}", if small { format!(", LESS THAN THE LOCAL MTU {own}") } else { String::new() })
    });
    let bond = advertisement.aggregation.map(|aggregation| match (aggregation.active, aggregation.capable) {
        (true, _) => "active".to_owned(),
        (false, true) => "possible, not active".to_owned(),
        (false, false) => "not possible".to_owned(),
    });
    let managed = advertisement.management_addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
    let rows = [
        ("switch", Some(switch)),
        ("port", Some(port)),
        ("VLAN", vlans),
        ("largest frame", frame),
        ("aggregation", bond),
        ("management", Some(managed).filter(|text| !text.is_empty())),
        ("description", advertisement.system_description.clone()),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
    rows.map(|(name, value)| format!("  {name:<13}  {value}\n")).collect()
}

fn describe(identifier: &Identifier) -> String {
    format!("{} {}", identifier.kind, identifier.value)
}

/// A port is known by its name; other kinds of identifier are shown with their kind.
fn described(port: &Identifier, description: Option<&String>) -> String {
    let name = if port.kind == "interface name" { port.value.clone() } else { describe(port) };
    match description {
        Some(description) if *description != port.value => format!("{name} ({description})"),
        _ => name,
    }
}

fn vlans(untagged: Option<u16>, named: &[Vlan]) -> Option<String> {
    let untagged = untagged.filter(|id| *id != 0).map(|id| format!("{id} untagged"));
    let named = named.iter().map(|vlan| format!("{} {}", vlan.id, vlan.name).trim_end().to_owned());
    let all: Vec<_> = untagged.into_iter().chain(named).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lldp::{Advertisement, Aggregation};
    use api::Mac;

    fn id(kind: &str, value: &str) -> Identifier {
        Identifier { kind: kind.to_owned(), value: value.to_owned() }
    }

    fn port(name: &str, driver: Option<&str>, link: Link, silence: Option<Silence>) -> Port {
        Port {
            interface: name.to_owned(),
            mac: Some(Mac([0x52, 0x54, 0, 0xaa, 0xbb, 1])),
            mtu: Some(9000),
            driver: driver.map(str::to_owned),
            link,
            neighbours: vec![],
            silence,
        }
    }

    #[test]
    fn a_paragraph_a_port() {
        let mut heard = port("ens1", Some("mlx5_core"), Link::Up, None);
        let full = Advertisement {
            chassis: id("MAC address", "02:00:00:00:00:01"),
            port: id("interface name", "Ethernet1/7"),
            valid_s: 120,
            port_description: Some("rack 7 unit 12".into()),
            system_name: Some("leaf-07".into()),
            system_description: Some("NX-OS 10.3".into()),
            management_addresses: vec!["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
            port_vlan: Some(126),
            vlans: vec![Vlan { id: 127, name: "storage".into() }, Vlan { id: 128, name: String::new() }],
            aggregation: Some(Aggregation { capable: true, active: false, port: 0 }),
            max_frame_bytes: Some(1518),
        };
        let bare = Advertisement {
            chassis: id("local", "vswitch"),
            port: id("local", "7"),
            port_description: Some("7".into()),
            port_vlan: Some(0),
            ..Advertisement::default()
        };
        let from_mac = Mac([2; 6]);
        heard.neighbours =
            vec![Neighbour { from_mac, advertisement: full }, Neighbour { from_mac, advertisement: bare }];
        let ports = vec![
            heard,
            port("ens2", Some("ice"), Link::Up, Some(Silence::FirmwareAgent)),
            port("ens3", Some("i40e"), Link::Up, Some(Silence::FirmwareAgent)),
            port("ens4", None, Link::Up, Some(Silence::NobodySpoke)),
            port("ens5", None, Link::NoCarrier, Some(Silence::NoLink)),
            port("ens6", None, Link::Down, Some(Silence::NoLink)),
        ];
        let expected = "ens1  52:54:00:aa:bb:01  mlx5_core  up
  switch         leaf-07 (MAC address 02:00:00:00:00:01)
  port           Ethernet1/7 (rack 7 unit 12)
  VLAN           126 untagged, 127 storage, 128
  largest frame  1518 bytes, LESS THAN THE LOCAL MTU 9000
  aggregation    possible, not active
  management     10.0.0.7, fd00::7
  description    NX-OS 10.3
  switch         local vswitch
  port           local 7
ens2  52:54:00:aa:bb:01  ice  up
  no neighbour: the card's firmware (ice) consumes LLDP frames by default; to receive them: ethtool --set-priv-flags ens2 fw-lldp-agent off
ens3  52:54:00:aa:bb:01  i40e  up
  no neighbour: the card's firmware (i40e) consumes LLDP frames by default; to receive them: ethtool --set-priv-flags ens3 disable-fw-lldp on
ens4  52:54:00:aa:bb:01  up
  no neighbour: the switch does not send LLDP on this port, or not within the 35 s of listening
ens5  52:54:00:aa:bb:01  NO CARRIER
  no neighbour: no carrier; check the cable, the module and the switch's port
ens6  52:54:00:aa:bb:01  DOWN
  no neighbour: the interface is down (ip link set ens6 up)
";
        assert_eq!(render(&Neighbourhood { schema_version: 1, listened_ms: 35012, ports }), expected);
    }
}
