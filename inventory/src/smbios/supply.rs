//! Power supplies, the network interface to the management controller, and firmware that is not the machine's own.

use super::structure::{Names, Structure, structure};
use kernel::{bytes, hex};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SUPPLY_TYPES: &Names =
    &[(1, &["Other", "Unknown", "Linear", "Switching", "Battery", "UPS", "Converter", "Regulator"])];
const SUPPLY_STATUSES: &Names = &[(1, &["Other", "Unknown", "OK", "Non-critical", "Critical"])];
const SUPPLY_RANGES: &Names = &[(1, &["Other", "Unknown", "Manual", "Auto-switch", "Wide Range", "N/A"])];
/// A capacity that is not known.
const NO_CAPACITY: u16 = 0x8000;
const INTERFACES: &Names = &[
    (
        2,
        &[
            "KCS: Keyboard Controller Style",
            "8250 UART Register Compatible",
            "16450 UART Register Compatible",
            "16550/16550A UART Register Compatible",
            "16650/16650A UART Register Compatible",
            "16750/16750A UART Register Compatible",
            "16850/16850A UART Register Compatible",
        ],
    ),
    (0x40, &["Network"]),
    (0xf0, &["OEM"]),
];
/// A network interface, and its kinds of device (DSP0270 1.3, 9): the later forms say more.
const NETWORK: u8 = 0x40;
const USB: u8 = 2;
const PCI: u8 = 3;
const USB_2: u8 = 4;
const PCI_2: u8 = 5;
/// The protocol that is Redfish, and how long its record is without the name at its end.
const REDFISH: u8 = 4;
const REDFISH_BYTES: usize = 91;
const ASSIGNMENTS: [&str; 5] = ["Unknown", "Static", "DHCP", "AutoConf", "Host Selected"];
const FIRMWARE_STATES: &Names = &[(
    1,
    &["Other", "Unknown", "Disabled", "Enabled", "Absent", "Stand-by Offline", "Stand-by Spare", "Unavailable Offline"],
)];

structure! {
    /// A power supply (type 39; DSP0134, 7.40).
    Supply = 39, |s| {
        /// Supplies of one group back each other.
        group: u8 = s.nonzero_byte(0x04),
        /// Where it is.
        location: String = s.text(0x05),
        /// What it is called.
        name: String = s.text(0x06),
        /// Maker.
        manufacturer: String = s.text(0x07),
        /// Serial number.
        serial_number: String = s.text(0x08),
        /// Asset tag.
        asset_tag: String = s.text(0x09),
        /// Part number of the model.
        part_number: String = s.text(0x0a),
        /// Revision of the model.
        revision: String = s.text(0x0b),
        /// What it gives for ever, W.
        capacity_watts: u16 = s.word(0x0c).filter(|watts| *watts != NO_CAPACITY),
        /// Whether it is in its place.
        is_present: bool = s.bit(0x0e, 1),
        /// Whether it has no power from outside.
        is_unplugged: bool = s.bit(0x0e, 2),
        /// Whether it can be changed while the machine runs.
        is_hot_replaceable: bool = s.bit(0x0e, 0),
        /// How it is: OK, Non-critical, Critical.
        status: String = s.word(0x0e).and_then(|bits| s.name_of((bits >> 7 & 7).to_le_bytes()[0], SUPPLY_STATUSES)),
        /// Its kind.
        supply_type: String = s.word(0x0e).and_then(|bits| s.name_of((bits >> 10 & 15).to_le_bytes()[0], SUPPLY_TYPES)),
        /// How it takes other input voltages.
        range_switching: String =
            s.word(0x0e).and_then(|bits| s.name_of((bits >> 3 & 15).to_le_bytes()[0], SUPPLY_RANGES)),
    }
}

structure! {
    /// An interface of the host to the management controller (type 42; DSP0134, 7.43), mostly a network for Redfish (DSP0270).
    HostInterface = 42, |s| {
        /// What it is.
        interface_type: String = s.name(0x04, INTERFACES),
        /// What a network is on: USB or PCI.
        device_type: String = device(s).map(|(kind, _)| kind.to_owned()),
        /// Vendor and product of that device, four hexadecimal digits each.
        device_id: String = device(s).and_then(|(_, data)| device_id(data)),
        /// Its MAC address, of the newer forms.
        mac_address: String = device(s).and_then(|(_, data)| mac_address(data)),
        /// UUID of the Redfish service.
        service_uuid: String = redfish(s).and_then(service_uuid),
        /// How the host gets its address on it: Static, DHCP, AutoConf, Host Selected.
        host_address_from: String = redfish(s).and_then(|data| assignment(data, 16)),
        /// The host's address on it.
        host_address: String = redfish(s).and_then(|data| address(data, 17, 18)),
        /// The mask that goes with it.
        host_mask: String = redfish(s).and_then(|data| address(data, 17, 34)),
        /// How the service gets its address.
        service_address_from: String = redfish(s).and_then(|data| assignment(data, 50)),
        /// The service's address.
        service_address: String = redfish(s).and_then(|data| address(data, 51, 52)),
        /// The mask that goes with it.
        service_mask: String = redfish(s).and_then(|data| address(data, 51, 68)),
        /// The service's port.
        service_port: u16 = redfish(s).and_then(|data| bytes::le16(data, 84)),
        /// Its VLAN; 0 for none.
        service_vlan: u32 = redfish(s).and_then(|data| bytes::le32(data, 86)),
        /// Its name.
        service_hostname: String = redfish(s).and_then(service_name),
    }
}

structure! {
    /// A piece of firmware (type 45; DSP0134, 7.46).
    FirmwareComponent = 45, |s| {
        /// What it is called.
        component: String = s.text(0x04),
        /// Its version.
        version: String = s.text(0x05),
        /// Its id, mostly a GUID.
        firmware_id: String = s.text(0x07),
        /// When it was released.
        release_date: String = s.text(0x09),
        /// Maker.
        manufacturer: String = s.text(0x0a),
        /// The lowest version it can be set back to.
        lowest_supported_version: String = s.text(0x0b),
        /// Size of its image, bytes.
        image_bytes: u64 = s.qword(0x0c).filter(|bytes| !matches!(*bytes, 0 | u64::MAX)),
        /// Whether it can be updated.
        is_updatable: bool = s.bit(0x14, 0),
        /// Whether it is protected from writing.
        is_write_protected: bool = s.bit(0x14, 1),
        /// Its state.
        firmware_state: String = s.name(0x16, FIRMWARE_STATES),
    }
}

/// The data of the interface, which begin with the kind of device, and of what kind that is.
fn device<'a>(s: &Structure<'a>) -> Option<(&'static str, &'a [u8])> {
    let data = s.part(0x06, usize::from(s.byte(0x05)?))?;
    let kind = match (s.byte(0x04)?, *data.first()?) {
        (NETWORK, USB | USB_2) => "USB",
        (NETWORK, PCI | PCI_2) => "PCI/PCIe",
        _ => return None,
    };
    Some((kind, data))
}

fn device_id(data: &[u8]) -> Option<String> {
    let at = if matches!(data.first()?, &USB | &PCI) { 1 } else { 2 };
    Some(format!("{:04x}:{:04x}", bytes::le16(data, at)?, bytes::le16(data, at + 2)?))
}

fn mac_address(data: &[u8]) -> Option<String> {
    let at = match *data.first()? {
        USB_2 => 7,
        PCI_2 => 10,
        _ => return None,
    };
    bytes::array::<6>(data, at).filter(|mac| *mac != [0; 6]).map(hex::colons)
}

/// The first record of Redfish over IP, of all protocols.
fn redfish<'a>(s: &Structure<'a>) -> Option<&'a [u8]> {
    let mut at = 0x07 + usize::from(s.byte(0x05)?);
    for _ in 0..s.byte(at - 1)? {
        let (kind, len) = (s.byte(at)?, usize::from(s.byte(at + 1)?));
        let record = s.part(at + 2, len)?;
        if kind == REDFISH {
            return (len >= REDFISH_BYTES).then_some(record);
        }
        at += 2 + len;
    }
    None
}

fn assignment(data: &[u8], at: usize) -> Option<String> {
    let number = *data.get(at)?;
    let known = ASSIGNMENTS.get(usize::from(number)).map(|name| (*name).to_owned());
    known.or_else(|| Some(format!("{number:#04x}"))).filter(|name| name != "Unknown")
}

/// An address or a mask, of the family that stands at `family`.
fn address(data: &[u8], family: usize, at: usize) -> Option<String> {
    let address: IpAddr = match *data.get(family)? {
        1 => Ipv4Addr::from(bytes::array::<4>(data, at)?).into(),
        2 => Ipv6Addr::from(bytes::array::<16>(data, at)?).into(),
        _ => return None,
    };
    Some(address.to_string())
}

fn service_uuid(data: &[u8]) -> Option<String> {
    Some(uuid::Uuid::from_bytes_le(bytes::array(data, 0)?).to_string())
}

fn service_name(data: &[u8]) -> Option<String> {
    let len = usize::from(*data.get(90)?);
    let name = bytes::text(data.get(91..91 + len)?);
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
