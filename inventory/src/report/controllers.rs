//! What disks hang on: NVMe controllers with their health, and SCSI, SAS, RAID and Fibre Channel adapters with their firmware.

use super::place::{is_virtual, pci_address};
use crate::{
    Root,
    ask::Question,
    nvme::{self, NvmeHealth, NvmeIdentity},
};
use kernel::order;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

const NVME: &str = "/sys/class/nvme";
const SCSI_HOSTS: &str = "/sys/class/scsi_host";
const FC_HOSTS: &str = "/sys/class/fc_host";

// Each driver has its own names for the same things: mpt3sas, lpfc, qla2xxx, smartpqi, hpsa, aacraid, arcmsr, in that order.
const FIRMWARE: [&str; 7] = [
    "version_fw",
    "fwrev",
    "fw_version",
    "firmware_version",
    "firmware_revision",
    "hba_kernel_version",
    "host_fw_version",
];
const BIOS: [&str; 4] = ["version_bios", "option_rom_version", "optrom_bios_version", "hba_bios_version"];
const MODEL: [&str; 5] = ["board_name", "modelname", "model_name", "model", "host_fw_model"];
const SERIAL: [&str; 5] = ["board_tracer", "serialnum", "serial_num", "serial_number", "hba_serial_number"];
const NVDATA: [&str; 2] = ["version_nvdata_persistent", "version_nvdata_default"];
const CHIP: [&str; 1] = ["version_product"];
const ASSEMBLY: [&str; 1] = ["board_assembly"];
const DRIVER_VERSION: [&str; 4] = ["lpfc_drvr_version", "driver_version", "host_driver_version", "hba_driver_version"];

/// An NVMe controller: a drive's, or a connection to a remote one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NvmeController {
    /// Kernel name, such as nvme0.
    pub name: String,
    /// PCI address; absent over a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// pcie, tcp, rdma or fc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// State, such as live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// NVMe qualified name of the subsystem it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_nqn: Option<String>,
    /// Number of the controller in its subsystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<u16>,
    /// NUMA node it is nearest to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Queues in use, the admin queue included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_count: Option<u32>,
    /// Model number, as the kernel read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number, as the kernel read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Firmware revision, as the kernel read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<NvmeIdentity>,
    /// What it says of its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smart: Option<NvmeHealth>,
}

/// An adapter with a SCSI host for each of its ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StorageAdapter {
    /// PCI address of its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Numbers of its SCSI hosts, in order.
    pub hosts: Vec<u32>,
    /// Model or board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Version of its boot ROM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios_version: Option<String>,
    /// Version of the settings that its firmware stores (NVDATA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvdata_version: Option<String>,
    /// Its chip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// The maker's number of the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly: Option<String>,
    /// Temperature of its processor, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u8>,
    /// Temperature of its board, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_temperature_celsius: Option<u8>,
    /// Fibre Channel ports, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fibre_channel_ports: Vec<FibreChannelPort>,
}

/// A Fibre Channel port (/sys/class/fc_host).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FibreChannelPort {
    /// Kernel name, such as host2.
    pub name: String,
    /// World-wide port name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwpn: Option<String>,
    /// World-wide node name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwnn: Option<String>,
    /// State, such as Online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Speed, such as 16 Gbit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<String>,
}

/// By number.
pub(super) fn nvme_controllers(root: &Root) -> Vec<NvmeController> {
    let mut names = root.list(NVME);
    order::sort_by_key(&mut names, |name| numbered(name, "nvme"));
    let questions = names.iter().flat_map(|name| {
        let controller = || name.clone();
        [Question::NvmeController { controller: controller() }, Question::NvmeHealth { controller: controller() }]
    });
    let questions: Vec<_> = questions.collect();
    let mut answers = root.ask_all(&questions).into_iter().zip(&questions).map(|(answer, question)| {
        answer.inspect_err(|error| tracing::debug!(device = question.device(), %error, "no answer")).ok()
    });
    let mut controllers = Vec::new();
    for name in names {
        let identity = answers.next().flatten().and_then(|reply| nvme::parse_identity(&reply));
        let health = answers.next().flatten().and_then(|reply| nvme::parse_health(&reply));
        controllers.push(nvme_controller(root, name, identity, health));
    }
    controllers
}

/// Those that lead to a namespace: its parent is the only one, or the subsystem that lists them.
pub(super) fn nvme_controllers_of(root: &Root, parent: &Path) -> Vec<String> {
    let name = root.resolve(parent).and_then(|sys| Some(sys.file_name()?.to_str()?.to_owned()));
    let mut names: Vec<String> = name.into_iter().chain(root.list(parent)).collect();
    names.retain(|name| numbered(name, "nvme").is_some());
    order::sort_by_key(&mut names, |name| numbered(name, "nvme"));
    names.dedup();
    names
}

/// PCI address of a controller; `None` over a network.
pub(super) fn nvme_address(root: &Root, name: &str) -> Option<String> {
    root.resolve(format!("{NVME}/{name}")).filter(|sys| !is_virtual(sys)).and_then(|sys| pci_address(&sys))
}

fn nvme_controller(
    root: &Root,
    name: String,
    identity: Option<NvmeIdentity>,
    health: Option<NvmeHealth>,
) -> NvmeController {
    let dir = format!("{NVME}/{name}");
    let text = |file: &str| root.attribute(format!("{dir}/{file}")).filter(|text| !text.is_empty());
    let number = |file: &str| root.number::<u32>(format!("{dir}/{file}"));
    NvmeController {
        pci_address: nvme_address(root, &name),
        transport: text("transport"),
        state: text("state"),
        subsystem_nqn: text("subsysnqn"),
        controller_id: root.number(format!("{dir}/cntlid")),
        numa_node: number("numa_node").or_else(|| number("device/numa_node")),
        queue_count: number("queue_count"),
        model: text("model"),
        serial: text("serial"),
        firmware_version: text("firmware_rev"),
        identity,
        smart: health,
        name,
    }
}

/// By PCI address; those that are on no PCI bus, such as USB bridges, by driver behind them.
pub(super) fn storage_adapters(root: &Root) -> Vec<StorageAdapter> {
    let mut adapters: BTreeMap<(bool, Option<String>, Option<String>), StorageAdapter> = BTreeMap::new();
    let mut hosts: Vec<_> = root.list(SCSI_HOSTS).into_iter().filter_map(|name| numbered(&name, "host")).collect();
    order::sort(&mut hosts);
    for number in hosts {
        let dir = format!("{SCSI_HOSTS}/host{number}");
        let Some(sys) = root.resolve(&dir) else { continue };
        let driver = root.attribute(format!("{dir}/proc_name")).filter(|name| !matches!(name.as_str(), "" | "<NULL>"));
        let address = pci_address(&sys).filter(|_| !is_virtual(&sys));
        let driver = driver.or_else(|| pci_driver(root, address.as_deref()?));
        let key = (address.is_none(), address.clone(), driver.clone());
        let adapter = adapters.entry(key).or_insert_with(|| adapter(root, &dir, address, driver));
        adapter.hosts.push(number);
        adapter.fibre_channel_ports.extend(fibre_channel_port(root, format!("host{number}")));
    }
    adapters.into_values().collect()
}

fn adapter(root: &Root, dir: &str, address: Option<String>, driver: Option<String>) -> StorageAdapter {
    let first = |files: &[&str]| {
        files.iter().find_map(|file| root.attribute(format!("{dir}/{file}")).filter(|text| !text.is_empty()))
    };
    let module = driver.as_ref().map(|driver| format!("/sys/module/{driver}/version"));
    StorageAdapter {
        driver_version: first(&DRIVER_VERSION).or_else(|| root.attribute(module?)),
        model: first(&MODEL),
        serial: first(&SERIAL),
        firmware_version: first(&FIRMWARE),
        bios_version: first(&BIOS),
        nvdata_version: first(&NVDATA),
        chip: first(&CHIP),
        assembly: first(&ASSEMBLY),
        address,
        driver,
        ..StorageAdapter::default()
    }
}

/// The driver bound to a PCI function.
pub(super) fn pci_driver(root: &Root, address: &str) -> Option<String> {
    let target = root.link_target(Path::new(crate::pci::DEVICES).join(address).join("driver"))?;
    Some(target.file_name()?.to_str()?.to_owned())
}

fn fibre_channel_port(root: &Root, name: String) -> Option<FibreChannelPort> {
    let dir = format!("{FC_HOSTS}/{name}");
    let text = |file: &str| root.attribute(format!("{dir}/{file}")).filter(|text| !text.is_empty());
    root.is_dir(&dir).then(|| FibreChannelPort {
        wwpn: text("port_name"),
        wwnn: text("node_name"),
        state: text("port_state"),
        speed: text("speed").filter(|speed| speed != "unknown"),
        name,
    })
}

fn numbered(name: &str, kind: &str) -> Option<u32> {
    name.strip_prefix(kind)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn controllers_by_number() {
        let tree = Tree::new(&[]);
        for (name, address) in [("nvme10", "0000:02:00.0"), ("nvme2", "0000:01:00.0")] {
            let dir = format!("sys/devices/pci0000:00/{address}/nvme/{name}");
            tree.add(&format!("{dir}/transport"), "pcie\n").add(&format!("{dir}/firmware_rev"), "1.0     \n");
            tree.add(&format!("{dir}/cntlid"), "5\n").add(&format!("{dir}/numa_node"), "1\n");
            tree.link(&format!("sys/class/nvme/{name}"), &format!("../../../{dir}"));
        }
        let fabric = "sys/devices/virtual/nvme-fabrics/ctl/nvme3";
        tree.add(&format!("{fabric}/transport"), "tcp\n").link("sys/class/nvme/nvme3", &format!("../../../{fabric}"));
        let mut health = vec![0; 512];
        health[1..6].copy_from_slice(&[0x2f, 0x01, 100, 10, 3]);
        tree.add("landfall/disks/nvme2/nvme-health", health).add("landfall/disks/nvme10/nvme-health", "short");
        let found = nvme_controllers(&tree.root());
        let short: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.pci_address.as_deref())).collect();
        assert_eq!(short, [("nvme2", Some("0000:01:00.0")), ("nvme3", None), ("nvme10", Some("0000:02:00.0"))]);
        assert_eq!((found[0].firmware_version.as_deref(), found[0].controller_id), (Some("1.0"), Some(5)));
        assert_eq!(found[0].smart.as_ref().map(|health| health.used_percent), Some(3));
        assert_eq!((&found[0].identity, &found[2].smart, found[0].numa_node), (&None, &None, Some(1)));
    }

    #[test]
    fn adapters() {
        let tree = Tree::new(&[("sys/module/ahci/version", "3.0\n")]);
        let host = |number: u32, place: &str, files: &[(&str, &str)]| {
            let dir = format!("sys/devices/{place}/host{number}/scsi_host/host{number}");
            for (file, content) in files {
                tree.add(&format!("{dir}/{file}"), format!("{content}\n"));
            }
            tree.link(&format!("sys/class/scsi_host/host{number}"), &format!("../../../{dir}"));
        };
        host(10, "pci0000:00/0000:00:1f.2/ata2", &[("proc_name", "ahci")]);
        host(2, "pci0000:00/0000:00:1f.2/ata1", &[("proc_name", "ahci")]);
        let sas = [("proc_name", "mpt3sas"), ("version_fw", "16.00.11.00"), ("board_name", "SAS9300-8i")];
        host(0, "pci0000:00/0000:00:01.0/0000:03:00.0", &sas);
        let fc = [("proc_name", "<NULL>"), ("fwrev", "14.0.539.18"), ("modelname", "LPe35002"), ("serialnum", "FC1")];
        host(1, "pci0000:00/0000:04:00.0", &fc);
        tree.link("sys/bus/pci/devices/0000:04:00.0/driver", "../../drivers/lpfc");
        tree.add("sys/class/fc_host/host1/port_name", "0x10000090fa000001\n");
        tree.add("sys/class/fc_host/host1/port_state", "Online\n").add("sys/class/fc_host/host1/speed", "unknown\n");
        let found = storage_adapters(&tree.root());
        let short: Vec<_> = found.iter().map(|a| (a.driver.as_deref().unwrap(), a.hosts.as_slice())).collect();
        assert_eq!(short, [("ahci", &[2, 10][..]), ("mpt3sas", &[0]), ("lpfc", &[1])]);
        assert_eq!(found[0].driver_version.as_deref(), Some("3.0"));
        assert_eq!(found[1].firmware_version.as_deref(), Some("16.00.11.00"));
        assert_eq!(found[2].fibre_channel_ports[0].wwpn.as_deref(), Some("0x10000090fa000001"));
        assert_eq!(found[2].fibre_channel_ports[0].speed, None);
    }
}
