//! The management controller (BMC): what it is, and where it is reached.

use crate::{
    Root,
    bmc::{self, EventLog, Part, Satellite, Sensor},
};
use serde::{Deserialize, Serialize};

/// A management controller that speaks IPMI, over the machine's system interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ManagementController {
    /// Firmware version such as 2.88, from Get Device ID (IPMI 2.0 20.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// The vendor's own four bytes of the firmware version, as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auxiliary_firmware: Option<String>,
    /// Version of IPMI that it speaks, such as 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipmi_version: Option<String>,
    /// IANA private enterprise number of its maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer_id: Option<u32>,
    /// The maker's number for this kind of machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_id: Option<u16>,
    /// GUID of the system, else of the controller (IPMI 2.0 20.8, 22.14).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    /// What it has: sensors, event log, FRU data and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Users that it can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_users: Option<u8>,
    /// Users that may log in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_users: Option<u8>,
    /// LAN channels, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Channel>,
    /// Its sensors, in its order, without those of other controllers' own buses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensor_readings: Vec<Sensor>,
    /// Parts whose data it stores (FRU), by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frus: Vec<Part>,
    /// Other controllers behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub satellites: Vec<Satellite>,
    /// Its event log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log: Option<EventLog>,
}

/// A channel of the controller that leads to a network (IPMI 2.0 23.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Channel {
    /// 1 to 12.
    pub number: u8,
    /// MAC address, lower case with colons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_address: Option<String>,
    /// Where the IPv4 address comes from: static, dhcp, firmware or other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_source: Option<String>,
    /// IPv4 subnet mask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_mask: Option<String>,
    /// IPv4 default gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// Id of the VLAN it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<u16>,
    /// The first IPv6 address in use, one given by the network before one set by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_address: Option<String>,
}

/// `None` where there is none, or none that answers.
pub(crate) fn management_controller(root: &Root) -> Option<ManagementController> {
    let mut controller = bmc::Machine::find(root)?.for_report();
    let id = bmc::device_id(&mut controller)?;
    let guid = bmc::guid(&mut controller);
    let channels = bmc::channels(&mut controller);
    let users = bmc::users(&mut controller, channels.first().map(|channel| channel.number));
    let contents = bmc::contents(&mut controller);
    Some(ManagementController {
        firmware_version: Some(id.firmware_version),
        auxiliary_firmware: id.auxiliary_firmware,
        ipmi_version: Some(id.ipmi_version),
        manufacturer_id: id.manufacturer,
        product_id: Some(id.product),
        guid,
        functions: id.functions,
        max_users: users.map(|users| users.most),
        enabled_users: users.map(|users| users.enabled),
        channels: channels.into_iter().map(channel).collect(),
        sensor_readings: contents.sensors,
        frus: contents.parts,
        satellites: contents.satellites,
        event_log: contents.event_log,
    })
}

fn channel(channel: bmc::Channel) -> Channel {
    let source = |number| match number {
        1 => Some("static"),
        2 => Some("dhcp"),
        3 => Some("firmware"),
        4 => Some("other"),
        _ => None,
    };
    Channel {
        number: channel.number,
        mac_address: channel.mac.filter(|mac| *mac != [0; 6]).map(kernel::hex::colons),
        ipv4_address: channel.ipv4.map(|ip| ip.to_string()),
        ipv4_source: channel.ipv4_source.and_then(source).map(str::to_owned),
        ipv4_mask: channel.ipv4_mask.map(|ip| ip.to_string()),
        ipv4_gateway: channel.ipv4_gateway.map(|ip| ip.to_string()),
        vlan_id: channel.vlan,
        ipv6_address: channel.ipv6.map(|ip| ip.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn what_a_captured_controller_said() {
        let tree = Tree::new(&[("sys/class/ipmi/ipmi0/dev", "247:0\n")]);
        assert_eq!(management_controller(&tree.root()), None);
        for (question, reply) in [
            ("06-01", &[0, 0x20, 1, 2, 0x41, 2, 0xdf, 0xa2, 2, 0, 0, 1, 0, 0x28, 0x28, 0x28][..]),
            ("06-42-01", &[0, 1, 4, 1, 0x80, 0xf2, 0x1b, 0, 0, 0]),
            ("0c-02-01-03-00-00", &[0, 0x11, 192, 168, 0, 120]),
            ("0c-02-01-04-00-00", &[0, 0x11, 2]),
            ("0c-02-01-05-00-00", &[0, 0x11, 0x58, 0x8a, 0x5a, 1, 2, 3]),
            ("0c-02-01-06-00-00", &[0, 0x11, 255, 255, 255, 0]),
            ("0c-02-01-0c-00-00", &[0, 0x11, 192, 168, 0, 1]),
            ("0c-02-01-14-00-00", &[0, 0x11, 0x2a, 0x80]),
            ("06-44-01-01", &[0, 0x10, 0x02, 1, 0]),
        ] {
            tree.add(&format!("landfall/ipmi/{question}"), reply);
        }
        let found = management_controller(&tree.root()).unwrap();
        assert_eq!((found.manufacturer_id, found.guid, found.ipmi_version.as_deref()), (Some(674), None, Some("2.0")));
        let lan = Channel {
            number: 1,
            mac_address: Some("58:8a:5a:01:02:03".to_owned()),
            ipv4_address: Some("192.168.0.120".to_owned()),
            ipv4_source: Some("dhcp".to_owned()),
            ipv4_mask: Some("255.255.255.0".to_owned()),
            ipv4_gateway: Some("192.168.0.1".to_owned()),
            vlan_id: Some(42),
            ipv6_address: None,
        };
        assert_eq!(found.channels, [lan]);
        assert_eq!((found.max_users, found.enabled_users, found.functions.len()), (Some(16), Some(2), 7));
        assert_eq!((found.sensor_readings.len(), found.frus.len(), found.event_log), (0, 0, None));
    }
}
