//! Network cards: their drivers, firmware, links and offloads. Only what is hardware; the rest is configuration.

use super::{
    links::{self, Ethernet},
    place::{is_virtual, pci_address},
};
use crate::{Root, ask::Question, ethtool, optics::Module};
use kernel::order;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

const NET: &str = "/sys/class/net";
const INFINIBAND: &str = "/sys/class/infiniband";

/// Counters of errors that InfiniBand defines, and that some drivers have for RoCE.
const RDMA_ERRORS: [&str; 12] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "symbol_error",
];
/// Those of drivers: mlx5, bnxt_re, irdma, efa.
const RDMA_DRIVER_ERRORS: [&str; 10] = [
    "local_ack_timeout_err",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_slow_restart",
    "rx_icrc_encapsulated",
    "seq_err_naks_rcvd",
    "res_oos_drop_count",
    "rx_drops",
    "unrecoverable_err",
];

/// Network hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Network {
    /// Interfaces of network cards, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NetworkPort>,
    /// InfiniBand and RoCE devices, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma_devices: Vec<RdmaDevice>,
}

/// An interface that is a port of a network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetworkPort {
    /// Kernel name.
    pub name: String,
    /// PCI address of its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// Number of the port on its card, where several share a PCI function (sysfs dev_port).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_number: Option<u32>,
    /// NUMA node it is nearest to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Driver, as it names itself (ethtool -i).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver; in-tree drivers have the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Version of the card's firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Version of the card's expansion ROM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rom_version: Option<String>,
    /// The address it was made with, lower case with colons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permanent_mac_address: Option<String>,
    /// Whether the link is up; absent while the interface is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_carrier: Option<bool>,
    /// Speed of the link, megabits a second; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// full or half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex: Option<String>,
    /// Kind of the connector: twisted pair, fibre, direct attach copper and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Whether speed and duplex are negotiated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_autonegotiating: Option<bool>,
    /// Largest packet it is set to, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// How many virtual functions there may be (SR-IOV).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_virtual_functions: Option<u32>,
    /// How many virtual functions there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_functions: Option<u32>,
    /// Whether it is a virtual function itself.
    pub is_virtual_function: bool,
    /// Whether the card's firmware speaks LLDP, so that it never reaches the host. From the flags fw-lldp-agent (ice) and
    /// disable-fw-lldp (i40e); absent for other drivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_firmware_lldp: Option<bool>,
    /// Offloads and other features that are on, by the kernel's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features_on: Vec<String>,
    /// Features that are off and could be switched on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features_off: Vec<String>,
    /// The driver's own flags (ethtool --show-priv-flags).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub private_flags: BTreeMap<String, bool>,
    /// Its link: speeds, error correction, errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethernet: Option<Ethernet>,
    /// The optical module or cable that is plugged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<Module>,
}

/// An InfiniBand or RoCE device (/sys/class/infiniband).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RdmaDevice {
    /// Kernel name.
    pub name: String,
    /// PCI address of its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// Kind of adapter, such as MT4129.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// The board's id, which its firmware image is chosen by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_id: Option<String>,
    /// Version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// GUID of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<String>,
    /// GUID that all devices of one adapter share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sys_image_guid: Option<String>,
    /// What it is: CA (adapter), Switch, RNIC (iWARP) and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_type: Option<String>,
    /// Its ports, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<RdmaPort>,
}

/// A port of an InfiniBand or RoCE device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RdmaPort {
    /// Number, from 1 on.
    pub name: String,
    /// InfiniBand or Ethernet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_layer: Option<String>,
    /// Logical state, such as ACTIVE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Physical state, such as LinkUp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_state: Option<String>,
    /// Speed and width, such as 200 Gb/sec (4X HDR).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// GUID of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_guid: Option<String>,
    /// Local identifier that the subnet manager gave it; 0 without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lid: Option<String>,
    /// Local identifier of the subnet manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_manager_lid: Option<String>,
    /// Counters that mean errors and are not zero, by their names in sysfs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// All network hardware.
pub(crate) fn network(root: &Root) -> Network {
    let names: Vec<String> = root.list(NET).into_iter().filter(|name| is_hardware(root, name)).collect();
    // All are asked at once: a card whose firmware is slow does not hold up the others.
    let questions: Vec<Question> =
        names.iter().flat_map(|name| questions(name).into_iter().chain(links::questions(name))).collect();
    let mut answers = root.ask_all(&questions).into_iter();
    let (mut interfaces, mut first_pages) = (Vec::new(), Vec::new());
    for name in names {
        let card_answers = std::array::from_fn(|_| answers.next()?.ok());
        let link_answers = std::array::from_fn(|_| answers.next()?.ok());
        first_pages.push((name.clone(), answers.next().and_then(Result::ok)));
        let ethernet = links::ethernet(root, &format!("{NET}/{name}"), link_answers);
        interfaces.push(NetworkPort { ethernet, ..port(root, name, card_answers) });
    }
    for (interface, module) in interfaces.iter_mut().zip(links::modules(root, first_pages)) {
        interface.module = module;
    }
    let rdma_devices = root.list(INFINIBAND).into_iter().map(|name| rdma_device(root, name)).collect();
    Network { interfaces, rdma_devices }
}

/// It hangs on a bus, or says that it has a device.
fn is_hardware(root: &Root, name: &str) -> bool {
    let place = root.resolve(format!("{NET}/{name}"));
    place.is_some_and(|place| !is_virtual(&place)) && root.exists(format!("{NET}/{name}/device"))
}

fn questions(name: &str) -> [Question; 7] {
    let interface = || name.to_owned();
    [
        Question::Driver { interface: interface() },
        Question::PermanentAddress { interface: interface() },
        Question::LinkSettings { interface: interface() },
        Question::FeatureNames { interface: interface() },
        Question::Features { interface: interface() },
        Question::PrivateFlagNames { interface: interface() },
        Question::PrivateFlags { interface: interface() },
    ]
}

fn port(root: &Root, name: String, answers: [Option<Vec<u8>>; 7]) -> NetworkPort {
    let [driver, address, settings, feature_names, features, flag_names, flags] = answers;
    let dir = format!("{NET}/{name}");
    let device = root.resolve(format!("{dir}/device"));
    let device_file = |file: &str| device.as_ref().map(|device| device.join(file));
    // virtio's device lies below the PCI function that everything else refers to.
    let pci = device.as_deref().and_then(pci_address).map(|address| (function(&address), address));
    let function_file = |file: &str| pci.as_ref().map(|(function, _)| format!("{function}/{file}"));
    let number = |path: Option<String>| path.and_then(|path| root.number::<u32>(path));
    let driver = driver.map(|reply| ethtool::parse_driver(&reply)).unwrap_or_default();
    let settings = settings.and_then(|reply| ethtool::parse_link_settings(&reply));
    let features = ethtool::parse_features(&feature_names.unwrap_or_default(), &features.unwrap_or_default());
    let private_flags = ethtool::parse_private_flags(&flag_names.unwrap_or_default(), &flags.unwrap_or_default());
    let named = |is_wanted: fn(&ethtool::Feature) -> bool| {
        features.iter().filter(|feature| is_wanted(feature)).map(|feature| feature.name.clone()).collect()
    };
    let has_carrier = root.attribute(format!("{dir}/carrier")).map(|text| text == "1");
    let duplex = settings.and_then(|settings| settings.duplex).map(str::to_owned);
    NetworkPort {
        port_number: root.number(format!("{dir}/dev_port")).filter(|number| *number > 0),
        numa_node: number(function_file("numa_node")),
        driver: driver.name.or_else(|| name_of_link(root, &device_file("driver")?)),
        driver_version: driver.version,
        firmware_version: driver.firmware,
        rom_version: driver.rom,
        permanent_mac_address: address.and_then(|reply| ethtool::parse_address(&reply)),
        has_carrier,
        // Some drivers of old kernels give -1, which means no speed, as an unsigned number, cut to 16 bits or not.
        speed_mbps: root.number(format!("{dir}/speed")).filter(|speed| ![0, 0xffff, u32::MAX].contains(speed)),
        // Without a link, drivers report their initial zero, which stands for half.
        duplex: duplex
            .or_else(|| root.attribute(format!("{dir}/duplex")))
            .filter(|text| has_carrier != Some(false) && text != "unknown"),
        port: settings.and_then(|settings| settings.port).map(str::to_owned),
        is_autonegotiating: settings.and_then(|settings| settings.is_autonegotiating),
        mtu: root.number(format!("{dir}/mtu")),
        max_virtual_functions: number(function_file("sriov_totalvfs")),
        virtual_functions: number(function_file("sriov_numvfs")),
        is_virtual_function: function_file("physfn").is_some_and(|path| root.exists(path)),
        has_firmware_lldp: ethtool::has_firmware_lldp(&private_flags),
        features_on: named(|feature| feature.is_on),
        features_off: named(|feature| !feature.is_on && !feature.is_fixed),
        private_flags,
        pci_address: pci.map(|(_, address)| address),
        name,
        ..NetworkPort::default()
    }
}

fn function(address: &str) -> String {
    format!("{}/{address}", crate::pci::DEVICES)
}

fn name_of_link(root: &Root, link: &Path) -> Option<String> {
    Some(root.link_target(link)?.file_name()?.to_str()?.to_owned())
}

fn rdma_device(root: &Root, name: String) -> RdmaDevice {
    let dir = format!("{INFINIBAND}/{name}");
    let text = |file: &str| root.attribute(format!("{dir}/{file}")).filter(|text| !text.is_empty());
    let mut numbers = root.list(format!("{dir}/ports"));
    order::sort_by_key(&mut numbers, |number| number.parse::<u32>().unwrap_or(u32::MAX));
    // States are written as `4: ACTIVE`.
    let word = |text: Option<String>| text.map(|text| text.rsplit(": ").next().unwrap_or_default().to_owned());
    let port = |number: String| {
        let text = |file: &str| text(&format!("ports/{number}/{file}"));
        // The first address of a port ends with its GUID.
        let guid = text("gids/0").filter(|gid| gid.len() == 39).and_then(|gid| gid.get(20..).map(str::to_owned));
        RdmaPort {
            port_guid: guid.filter(|guid| guid != "0000:0000:0000:0000"),
            lid: text("lid"),
            subnet_manager_lid: text("sm_lid"),
            errors: rdma_errors(root, &format!("{dir}/ports/{number}")),
            link_layer: text("link_layer"),
            state: word(text("state")),
            physical_state: word(text("phys_state")),
            rate: text("rate"),
            name: number,
        }
    };
    RdmaDevice {
        pci_address: root.resolve(format!("{dir}/device")).and_then(|device| pci_address(&device)),
        adapter: text("hca_type"),
        board_id: text("board_id"),
        firmware_version: text("fw_ver"),
        node_guid: text("node_guid"),
        sys_image_guid: text("sys_image_guid"),
        node_type: word(text("node_type")),
        ports: numbers.into_iter().map(port).collect(),
        name,
    }
}

/// A driver may ask the device's firmware for them.
fn rdma_errors(root: &Root, port: &str) -> BTreeMap<String, u64> {
    let files: Vec<String> = [("counters", &RDMA_ERRORS[..]), ("hw_counters", &RDMA_DRIVER_ERRORS)]
        .into_iter()
        .flat_map(|(dir, names)| names.iter().map(move |name| format!("{port}/{dir}/{name}")))
        .collect();
    let counts = root.measured(&files).into_iter().map(|count| count?.parse().ok().filter(|count| *count > 0));
    let named = files.iter().zip(counts).filter_map(|(file, count)| Some((file.rsplit('/').next()?, count?)));
    named.map(|(name, count)| (name.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_captured_card() {
        let pci = "sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0";
        let tree = Tree::new(&[]);
        for (file, content) in [("net/eno1/dev_port", "1"), ("net/eno1/mtu", "9000"), ("net/eno1/speed", "25000")] {
            tree.add(&format!("{pci}/{file}"), content);
        }
        for (file, content) in [("net/eno1/carrier", "1"), ("sriov_totalvfs", "64"), ("sriov_numvfs", "0")] {
            tree.add(&format!("{pci}/{file}"), content);
        }
        tree.add(&format!("{pci}/numa_node"), "-1\n");
        tree.link(&format!("{pci}/net/eno1/device"), "../..");
        tree.link(&format!("{pci}/driver"), "../../../../bus/pci/drivers/ice");
        tree.link("sys/class/net/eno1", &format!("../../../{pci}/net/eno1"));
        tree.link("sys/bus/pci/devices/0000:17:00.0", &format!("../../../../{pci}"));
        tree.add("sys/devices/virtual/net/lo/mtu", "65536").link("sys/class/net/lo", "../../devices/virtual/net/lo");
        let names = |names: &[&str]| {
            let padded = names.iter().map(|name| format!("{name:\0<32}"));
            padded.collect::<String>().into_bytes()
        };
        tree.add("landfall/interfaces/eno1/private-flag-names", names(&["link-down-on-close", "fw-lldp-agent"]));
        tree.add("landfall/interfaces/eno1/private-flags", 2u32.to_ne_bytes());
        tree.add("landfall/interfaces/eno1/feature-names", names(&["tx-scatter-gather", "rx-gro-hw", "netns-local"]));
        let block = [3u32, 0, 1, 0].map(u32::to_ne_bytes).concat();
        tree.add("landfall/interfaces/eno1/features", block);
        tree.add("landfall/interfaces/eno1/permanent-address", [0x52, 0x54, 0, 0xaa, 0xbb, 1]);
        let found = network(&tree.root());
        let [port] = &found.interfaces[..] else { panic!("{found:?}") };
        let expected = NetworkPort {
            name: "eno1".to_owned(),
            pci_address: Some("0000:17:00.0".to_owned()),
            port_number: Some(1),
            driver: Some("ice".to_owned()),
            permanent_mac_address: Some("52:54:00:aa:bb:01".to_owned()),
            has_carrier: Some(true),
            speed_mbps: Some(25000),
            mtu: Some(9000),
            max_virtual_functions: Some(64),
            virtual_functions: Some(0),
            has_firmware_lldp: Some(true),
            features_on: vec!["tx-scatter-gather".to_owned()],
            features_off: vec!["rx-gro-hw".to_owned()],
            private_flags: [("fw-lldp-agent".to_owned(), true), ("link-down-on-close".to_owned(), false)].into(),
            ..NetworkPort::default()
        };
        assert_eq!(*port, expected);
    }

    #[test]
    fn a_captured_rdma_device() {
        let ib = "sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0";
        let tree = Tree::new(&[]);
        for (file, content) in [
            ("fw_ver", "20.31.1014\n"),
            ("board_id", "MT_0000000223\n"),
            ("hca_type", "MT4123\n"),
            ("ports/1/state", "4: ACTIVE\n"),
            ("ports/1/phys_state", "5: LinkUp\n"),
            ("ports/1/rate", "200 Gb/sec (4X HDR)\n"),
            ("ports/1/gids/0", "fe80:0000:0000:0000:0c42:a103:0012:3456\n"),
            ("ports/1/lid", "0x1f\n"),
            ("ports/1/counters/symbol_error", "4\n"),
            ("ports/1/counters/link_downed", "0\n"),
            ("ports/1/hw_counters/out_of_sequence", "9\n"),
            ("node_type", "1: CA\n"),
            ("ports/10/state", "1: DOWN\n"),
            ("ports/2/state", "1: DOWN\n"),
        ] {
            tree.add(&format!("{ib}/{file}"), content);
        }
        tree.link(&format!("{ib}/device"), "../..").link("sys/class/infiniband/mlx5_0", &format!("../../../{ib}"));
        let [device] = &network(&tree.root()).rdma_devices[..] else { panic!() };
        assert_eq!((device.pci_address.as_deref(), device.adapter.as_deref()), (Some("0000:3b:00.0"), Some("MT4123")));
        assert_eq!(device.firmware_version.as_deref(), Some("20.31.1014"));
        assert_eq!(device.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["1", "2", "10"]);
        assert_eq!(device.ports[0].state.as_deref(), Some("ACTIVE"));
        assert_eq!(device.ports[0].rate.as_deref(), Some("200 Gb/sec (4X HDR)"));
        assert_eq!((device.node_type.as_deref(), device.ports[0].lid.as_deref()), (Some("CA"), Some("0x1f")));
        assert_eq!(device.ports[0].port_guid.as_deref(), Some("0c42:a103:0012:3456"));
        let errors = [("symbol_error".to_owned(), 4), ("out_of_sequence".to_owned(), 9)];
        assert_eq!(device.ports[0].errors, errors.into());
    }
}
