//! Names of network ports by where the firmware says they are, as `biosdevname -i` prints them under its own (physical)
//! policy: `em2` for the second port of the board, `p3p1` for the first port of the card in slot 3, `_0` behind either for the
//! first virtual function of the port. The planning is pure.

use super::NET;
use crate::{Root, smbios::Smbios};
use api::Interface;
use kernel::order;
use std::{collections::BTreeMap, path::Path};

const SLOTS: &str = "/sys/bus/pci/slots";

/// A PCI function: segment, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub segment: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl Address {
    /// `0000:3b:00.1`; the segment may have more digits, the function may be missing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (segment, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.').unwrap_or((rest, "0"));
        let byte = |hex: &str| u8::from_str_radix(hex, 16).ok();
        let segment = u32::from_str_radix(segment, 16).ok()?;
        Some(Self { segment, bus: byte(bus)?, device: byte(device)?, function: byte(function)? })
    }
}

/// A network port on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Port {
    name: String,
    /// From the function up to the root port.
    path: Vec<Address>,
    /// Which of several ports of one function.
    dev_port: u32,
    /// Its physical function and its number there, of a virtual function.
    virtual_of: Option<(Address, u32)>,
}

/// What the firmware knows of the machine's slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Firmware {
    /// Number of the slot by the device in it, by one of its functions, or by the bridge above it.
    pub slots: BTreeMap<Address, u32>,
    /// Number of a port of the board by its function.
    pub on_board: BTreeMap<Address, u32>,
}

/// Adds the names. Only for real machines: biosdevname says nothing in virtual ones.
pub(crate) fn name_by_firmware(root: &Root, smbios: &Smbios, interfaces: &mut [Interface]) {
    let physical = interfaces.iter().filter(|interface| interface.kind == "physical");
    let ports: Vec<Port> = physical.filter_map(|interface| port(root, &interface.name)).collect();
    if ports.is_empty() {
        return;
    }
    let mut firmware = smbios_places(smbios);
    for slot in root.list(SLOTS) {
        let number = slot.parse::<u32>().ok().filter(|number| *number > 0);
        let address = || Address::parse(&root.attribute(format!("{SLOTS}/{slot}/address"))?);
        if let Some((number, address)) = number.and_then(|number| Some((number, address()?))) {
            firmware.slots.entry(address).or_insert(number);
        }
    }
    let mut names = plan(&ports, &firmware);
    for interface in interfaces {
        interface.biosdevname = names.remove(&interface.name).unwrap_or_default();
    }
}

/// Names of the ports whose place is known.
fn plan(ports: &[Port], firmware: &Firmware) -> BTreeMap<String, String> {
    let mut by_slot: BTreeMap<u32, Vec<&Port>> = BTreeMap::new();
    let mut physical: BTreeMap<(Address, u32), String> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for port in ports.iter().filter(|port| port.virtual_of.is_none()) {
        let Some(own) = port.path.first() else { continue };
        if let Some(instance) = firmware.on_board.get(own) {
            // A function with several ports counts on from its own number.
            let name = format!("em{}", instance.saturating_add(port.dev_port));
            physical.insert((*own, port.dev_port), name.clone());
            names.insert(port.name.clone(), name);
        } else if let Some(slot) = slot_of(port, firmware) {
            by_slot.entry(slot).or_default().push(port);
        }
    }
    for (slot, mut ports) in by_slot {
        order::sort_by_key(&mut ports, |port| (port.path.first().copied(), port.dev_port, &port.name));
        for (index, port) in ports.into_iter().enumerate() {
            let name = format!("p{slot}p{}", index + 1);
            if let Some(own) = port.path.first() {
                physical.insert((*own, port.dev_port), name.clone());
            }
            names.insert(port.name.clone(), name);
        }
    }
    for port in ports {
        if let Some((parent, number)) = port.virtual_of
            && let Some(name) = physical.get(&(parent, port.dev_port)).or_else(|| physical.get(&(parent, 0)))
        {
            names.insert(port.name.clone(), format!("{name}_{number}"));
        }
    }
    names
}

/// The slot of the port's device, else of the nearest bridge above it. A device is in its slot with all of its functions, but
/// the functions of one device may be root ports of several slots.
fn slot_of(port: &Port, firmware: &Firmware) -> Option<u32> {
    let root_port = port.path.last().filter(|_| port.path.len() > 1);
    port.path.iter().find_map(|address| {
        let functions = match root_port == Some(address) {
            true => *address..=*address,
            false => Address { function: 0, ..*address }..=Address { function: 7, ..*address },
        };
        firmware.slots.range(functions).next().map(|(_, number)| *number)
    })
}

fn port(root: &Root, name: &str) -> Option<Port> {
    let device = root.resolve(format!("{NET}/{name}/device"))?;
    let address = |path: &Path| Address::parse(path.file_name()?.to_str()?);
    // The device may be one of virtio or of another bus below the function.
    let path: Vec<Address> = device.ancestors().filter_map(address).collect();
    let function = device.ancestors().find(|path| address(path).is_some())?;
    let virtual_of = root.resolve(function.join("physfn")).and_then(|parent| {
        let is_own = |link: &String| root.resolve(parent.join(link)).as_deref() == Some(function);
        let links = root.list(&parent).into_iter().filter(|entry| entry.starts_with("virtfn"));
        let number = links.filter_map(|link| is_own(&link).then(|| link["virtfn".len()..].parse().ok())?).next()?;
        Some((address(&parent)?, number))
    });
    let dev_port = root.number(format!("{NET}/{name}/dev_port")).unwrap_or(0);
    Some(Port { name: name.to_owned(), path, dev_port, virtual_of })
}

/// Slots (type 9) and devices of the board (type 41) in SMBIOS. Before version 2.6 neither had an address, and
/// biosdevname gives up.
fn smbios_places(smbios: &Smbios) -> Firmware {
    let mut firmware = Firmware::default();
    if smbios.version().is_some_and(|version| (version.major, version.minor) < (2, 6)) {
        return firmware;
    }
    for slot in smbios.slots() {
        let address = slot.bus_address.as_deref().and_then(Address::parse);
        if let (Some(id @ 1..), Some(address)) = (slot.id, address) {
            firmware.slots.entry(address).or_insert(u32::from(id));
        }
    }
    for device in smbios.onboard_devices() {
        let address = device.bus_address.as_deref().and_then(Address::parse);
        if let (Some(instance @ 1..), Some(address)) = (device.instance, address) {
            firmware.on_board.entry(address).or_insert(u32::from(instance));
        }
    }
    firmware
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn port(name: &str, path: &[&str], dev_port: u32) -> Port {
        Port { name: name.to_owned(), path: path.iter().map(|text| at(text)).collect(), dev_port, virtual_of: None }
    }

    #[test]
    fn addresses() {
        assert_eq!(at("0001:3b:1f.7"), Address { segment: 1, bus: 0x3b, device: 0x1f, function: 7 });
        assert_eq!(at("10000:e1:00"), at("10000:e1:00.0"));
        for bad in ["", "3b:00.0", "0000:3b", "zz:00:00.0", "pci0000:00", "0000:00:"] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_as_biosdevname_gives_them() {
        let mut firmware = Firmware::default();
        firmware.on_board.insert(at("0000:18:00.0"), 1);
        firmware.on_board.insert(at("0000:18:00.1"), 2);
        // One slot is known by its device, the other by the bridge above it.
        firmware.slots.insert(at("0000:3b:00.0"), 3);
        firmware.slots.insert(at("0000:80:02.0"), 5);
        let below = ["0000:82:00.0", "0000:81:00.0", "0000:80:02.0"];
        let mut virtual_port = port("eth9", &["0000:3b:02.1", "0000:3a:00.0"], 0);
        virtual_port.virtual_of = Some((at("0000:3b:00.1"), 4));
        let ports = [
            port("eth0", &["0000:18:00.0"], 0),
            port("eth1", &["0000:18:00.1"], 0),
            port("eth3", &["0000:3b:00.1", "0000:3a:00.0"], 0),
            port("eth2", &["0000:3b:00.0", "0000:3a:00.0"], 0),
            port("eth5", &below, 1),
            port("eth4", &below, 0),
            port("eth7", &["0000:00:1f.6"], 0),
            virtual_port,
        ];
        let names = plan(&ports, &firmware);
        let shown: Vec<_> = names.iter().map(|(port, name)| format!("{port}={name}")).collect();
        assert_eq!(shown.join(" "), "eth0=em1 eth1=em2 eth2=p3p1 eth3=p3p2 eth4=p5p1 eth5=p5p2 eth9=p3p2_4");
    }
    #[test]
    fn a_card_in_a_slot_with_a_virtual_function() {
        let tree = crate::testing::Tree::new(&[
            ("sys/bus/pci/slots/3/address", "0000:3b:00\n"),
            ("sys/bus/pci/slots/3-1/address", "0000:18:00\n"),
        ]);
        let bridge = "sys/devices/pci0000:3a/0000:3a:00.0";
        for (name, function) in [("eth0", "0000:3b:00.0"), ("eth1", "0000:3b:00.1"), ("eth2", "0000:3b:02.0")] {
            tree.dir(&format!("{bridge}/{function}/net/{name}"));
            tree.link(&format!("{bridge}/{function}/net/{name}/device"), "../..");
            tree.link(
                &format!("sys/class/net/{name}"),
                &format!("../../devices/pci0000:3a/0000:3a:00.0/{function}/net/{name}"),
            );
        }
        tree.link(&format!("{bridge}/0000:3b:02.0/physfn"), "../0000:3b:00.1");
        tree.link(&format!("{bridge}/0000:3b:00.1/virtfn0"), "../0000:3b:02.0");
        let interface =
            |name: &str, kind: &str| Interface { name: name.to_owned(), kind: kind.to_owned(), ..Interface::default() };
        let mut interfaces = [
            interface("eth0", "physical"),
            interface("eth1", "physical"),
            interface("eth2", "physical"),
            interface("lo", "device"),
        ];
        name_by_firmware(&tree.root(), &Smbios::parse(Vec::new()), &mut interfaces);
        assert_eq!(interfaces.map(|interface| interface.biosdevname), ["p3p1", "p3p2", "p3p2_0", ""]);
        // The board's own ports, by SMBIOS: type 41 with instance 1, enabled, at 3b:00.1.
        let on_board = vec![41, 11, 0, 0, 0, 0x85, 1, 0, 0, 0x3b, 0x01, 0, 0];
        let mut one = [interface("eth1", "physical")];
        name_by_firmware(&tree.root(), &Smbios::parse(on_board), &mut one);
        assert_eq!(one[0].biosdevname, "em1");
    }
}
