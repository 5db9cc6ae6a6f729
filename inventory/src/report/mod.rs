//! The deep facts of a machine, for certification and for comparing machines: what the service's inventory has no fields for.
//!
//! Units stand in the names of the facts. A fact that can't be read is absent, lists are sorted, and the same machine gives
//! the same bytes but for what it measures (temperatures, counters).

mod accelerators;
mod attached;
mod caches;
pub mod cli;
mod condition;
mod controllers;
mod cores;
mod cpuinfo;
mod devicetree;
mod diff;
mod enclaves;
mod expect;
mod fields;
mod finding;
mod firmware;
mod health;
mod kernel;
mod layout;
mod links;
mod lists;
mod logs;
pub mod management;
mod memory;
mod mpt;
pub mod network;
mod numa;
mod page;
mod place;
mod processors;
mod raid;
mod schema;
mod security;
mod sensors;
mod signals;
mod slots;
mod starter;
pub mod storage;
mod summary;
mod supplies;
mod system;
mod tables;
mod topology;
#[cfg(test)]
mod toy;
mod usb;
mod warnings;
pub mod watch;
mod wear;
mod words;

pub use crate::{
    bmc::{Event, EventLog, Part, PartBoard, PartChassis, PartProduct, Satellite, Sensor, SupplyRating},
    optics::{Module, ModuleLimits, Signal},
    pci::{Aer, Function, Link, Sriov, Vpd},
    smbios,
    tpm::{Certificate, EndorsementKey, MeasuredBoot, Measurement, TpmDetails},
};
pub use accelerators::Accelerator;
pub use attached::AttachedMemory;
pub use caches::Cache;
pub use cores::CoreKind;
pub use diff::{Change, changes};
pub use enclaves::{MemoryEncryption, Sgx, TrustDomains};
pub use expect::{Difference, ExpectError, Expectation};
pub use firmware::{Firmware, FirmwareResource};
pub use health::{Health, PowerSupply};
pub use kernel::Kernel;
pub use links::Ethernet;
pub use management::ManagementController;
pub use memory::{CountedModule, Memory, MemoryController, Mismatch};
pub use network::Network;
pub use numa::{HugePages, NumaNode};
pub use processors::{Frequency, Package, Processors};
pub use security::{Iommu, Security, Tpm};
pub use sensors::{Fan, Power, SensorChip, Temperature, ThermalZone, Voltage};
pub use slots::Slot;
pub use storage::Storage;
pub use supplies::PowerSupplyUnit;
pub use system::System;
pub use usb::UsbDevice;
pub use words::{escaped, printable};

use crate::{Root, about, identity, pci, smbios::Smbios};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raised when a fact changes its name or meaning; new facts leave it.
pub const SCHEMA_VERSION: u32 = 1;

/// All that is known of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of this form.
    pub schema_version: u32,
    /// Id the assisted-installer service knows this host by.
    pub host_id: String,
    /// Where the id comes from: the operator (kernel-argument, fw-cfg, oem-string) or the hardware (board-serial, system-uuid,
    /// mac); nothing if nothing distinguishes the host from others.
    pub host_id_source: String,
    /// When the facts were read, UTC; of a capture, when it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The machine's name, as the kernel has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Version of the Landfall that made the report.
    #[serde(default)]
    pub tool_version: String,
    /// The running kernel.
    pub kernel: Kernel,
    /// The machine: model, boards, chassis.
    pub system: System,
    /// Its firmware.
    pub firmware: Firmware,
    /// The management controller (BMC), if there is one that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management_controller: Option<ManagementController>,
    /// Power supplies, of the firmware and of the management controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_supply_units: Vec<PowerSupplyUnit>,
    /// Processors, their caches and NUMA nodes.
    pub processors: Processors,
    /// Memory: modules, sockets, errors.
    pub memory: Memory,
    /// CXL and persistent memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_memory: Option<AttachedMemory>,
    /// Expansion slots, in the firmware's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
    /// Devices on the system board that the firmware lists, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub onboard_devices: Vec<smbios::OnboardDevice>,
    /// PCI functions, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<Function>,
    /// Secure boot, TPM, IOMMU, protections.
    pub security: Security,
    /// Measurements and counted errors.
    pub health: Health,
    /// Disks and what they hang on.
    pub storage: Storage,
    /// Network cards.
    pub network: Network,
    /// Graphics processors and accelerators, by PCI address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Accelerator>,
    /// Devices on the USB bus, by bus and ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usb_devices: Vec<UsbDevice>,
}

/// The report of a machine, the running one or a captured one.
pub fn collect(root: &Root) -> Report {
    let identity = identity::host_id(root);
    let smbios = Smbios::read(root);
    let pci = pci::functions(root);
    // The management controller takes longer than all the rest.
    std::thread::scope(|scope| {
        let controller = scope.spawn(|| management::management_controller(root));
        let kernel = kernel::kernel(root);
        let processors = processors::processors(root, &smbios);
        let memory = memory::memory(root, &smbios);
        let report = Report {
            schema_version: SCHEMA_VERSION,
            host_id: identity.id.to_string(),
            host_id_source: identity.source.to_string(),
            date: about::date(root),
            hostname: root
                .attribute("/proc/sys/kernel/hostname")
                .filter(|name| !matches!(name.as_str(), "" | "(none)")),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            security: security::security(root, &smbios, &processors.flags, kernel.command_line.as_deref()),
            health: health::health(root, &memory.controllers, &pci),
            kernel,
            management_controller: None,
            power_supply_units: Vec::new(),
            system: system::system(root, &smbios),
            firmware: firmware::firmware(root, &smbios),
            processors,
            memory,
            attached_memory: attached::attached_memory(root),
            slots: slots::slots(&smbios, &pci),
            onboard_devices: smbios.onboard_devices(),
            accelerators: accelerators::accelerators(root, &pci),
            pci,
            storage: storage::storage(root),
            network: network::network(root),
            usb_devices: usb::usb_devices(root),
        };
        let management_controller = controller.join().ok().flatten();
        let power_supply_units = supplies::supplies(&smbios, management_controller.as_ref());
        Report { management_controller, power_supply_units, ..report }
    })
}

/// The same with all members in the order of their names. Otherwise that order depends on a feature of serde_json, which
/// any crate can turn on for the whole program.
fn by_name(value: &Value) -> Value {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted
}
