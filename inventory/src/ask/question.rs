//! What can be asked, and where a capture stores the answer. Pure.

use super::table::Table;
use kernel::ethnl::{Get, ModulePage};

/// The kernel's part that links, addresses and routes are asked of.
const RTNETLINK: &str = "rtnetlink";

/// How the name of a drive behind a MegaRAID controller begins.
const MEGARAID: &str = "megaraid";

/// The name of a drive behind the MegaRAID controller that is this SCSI host, for questions to disks. No disk is called so.
pub(crate) fn drive_behind(host: u16, drive: u8) -> String {
    format!("{MEGARAID}{host}.{drive}")
}

/// The host and the drive of such a name.
pub(super) fn place_behind(name: &str) -> Option<(u16, u8)> {
    let (host, drive) = name.strip_prefix(MEGARAID)?.split_once('.')?;
    Some((host.parse().ok()?, drive.parse().ok()?))
}

/// What the firmware of a MegaRAID controller is asked. Drives and volumes go by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum MegaRaid {
    /// `MR_DCMD_CTRL_GET_INFO`: 2048 bytes.
    Controller,
    /// `MR_DCMD_BBU_GET_STATUS`: 64 bytes.
    Battery,
    /// `MR_DCMD_PD_GET_LIST`.
    Drives,
    /// `MR_DCMD_PD_GET_INFO`: 512 bytes.
    Drive(u16),
    /// `MR_DCMD_LD_GET_LIST`.
    Volumes,
    /// `MR_DCMD_LD_GET_INFO`: 384 bytes.
    Volume(u8),
    /// `MR_DCMD_CFG_READ`: which drives make up what.
    Configuration,
}

impl MegaRaid {
    fn name(self) -> String {
        match self {
            Self::Controller => "controller".to_owned(),
            Self::Battery => "battery".to_owned(),
            Self::Drives => "drives".to_owned(),
            Self::Drive(number) => format!("drive-{number}"),
            Self::Volumes => "volumes".to_owned(),
            Self::Volume(number) => format!("volume-{number}"),
            Self::Configuration => "configuration".to_owned(),
        }
    }
}

/// What a Smart Array controller is asked. Drives and volumes go by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SmartArray {
    /// BMIC IDENTIFY CONTROLLER: 512 bytes.
    Controller,
    /// BMIC SENSE SUBSYSTEM INFORMATION: 512 bytes.
    Subsystem,
    /// CISS REPORT PHYSICAL LUNS, extended.
    Drives,
    /// BMIC IDENTIFY PHYSICAL DEVICE: 2560 bytes.
    Drive(u16),
    /// CISS REPORT LOGICAL LUNS.
    Volumes,
    /// BMIC IDENTIFY LOGICAL DRIVE: 512 bytes.
    Volume(u8),
    /// BMIC SENSE LOGICAL DRIVE STATUS: 1024 bytes.
    VolumeStatus(u8),
    /// BMIC SENSE CACHE CONFIGURATION: 512 bytes.
    Cache,
    /// CISS GET RAID MAP, of a volume by its own node.
    Map,
}

impl SmartArray {
    fn name(self) -> String {
        match self {
            Self::Controller => "controller".to_owned(),
            Self::Subsystem => "subsystem".to_owned(),
            Self::Drives => "drives".to_owned(),
            Self::Drive(number) => format!("drive-{number}"),
            Self::Volumes => "volumes".to_owned(),
            Self::Volume(number) => format!("volume-{number}"),
            Self::VolumeStatus(number) => format!("volume-status-{number}"),
            Self::Cache => "cache".to_owned(),
            Self::Map => "map".to_owned(),
        }
    }
}

/// What a SAS adapter of the drivers `mpt2sas` and `mpt3sas` is asked. Devices go by the firmware's handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mpt {
    /// What its driver knows of it: 92 bytes.
    Info,
    /// The page with its temperatures.
    Temperatures,
    /// Pages of all volumes, one behind the other.
    Volumes,
    /// Pages of all drives of volumes, and of spares.
    Drives,
    /// The page with a volume's name.
    VolumeName(u16),
    /// Channel and target of a volume: two numbers of 32 bits, little endian.
    Place(u16),
    /// The page of a SAS device.
    Device(u16),
}

impl Mpt {
    fn name(self) -> String {
        match self {
            Self::Info => "info".to_owned(),
            Self::Temperatures => "temperatures".to_owned(),
            Self::Volumes => "volumes".to_owned(),
            Self::Drives => "drives".to_owned(),
            Self::VolumeName(handle) => format!("name-{handle:04x}"),
            Self::Place(handle) => format!("place-{handle:04x}"),
            Self::Device(handle) => format!("device-{handle:04x}"),
        }
    }
}

/// What a CXL memory device is asked, by the kernel's number of the command (linux/cxl_mem.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cxl {
    Identity = 1,
    Firmware = 4,
    Health = 7,
    Alerts = 11,
}

impl Cxl {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Identity, Self::Firmware, Self::Health, Self::Alerts];

    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Firmware => "firmware",
            Self::Health => "health",
            Self::Alerts => "alerts",
        }
    }
}

/// A log of ATA SMART, by its address (ACS-4 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SmartLog {
    /// Summary of errors.
    Errors = 0x01,
    /// Self-tests.
    SelfTests = 0x06,
}

/// A question to the kernel or to a device. Disks and interfaces go by their kernel names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Question {
    /// A whole table by netlink: each message's payload behind its length (`u32`, little endian).
    Table(Table),
    /// A sysfs attribute whose driver asks a device at every read; its path without links.
    Measurement { path: String },
    /// The first 512 bytes of a disk.
    FirstSector { disk: String },
    /// The first volume descriptor of a CD's file system: 2048 bytes at 32 KiB (ECMA-119, 8.1).
    IsoDescriptor { disk: String },
    /// A SCSI vital product data page, header included (SPC-5 6.7.2).
    ScsiPage { disk: String, page: u8 },
    /// A page of a SCSI disk's logs, header included: LOG SENSE, cumulative values (SPC-5 6.8).
    ScsiLog { disk: String, page: u8 },
    /// The header of a SCSI disk's list of grown defects: 8 bytes of READ DEFECT DATA (12), or 4 of (10).
    ScsiDefects { disk: String },
    /// A page of an enclosure, by its generic SCSI node such as `sg3`: RECEIVE DIAGNOSTIC RESULTS (SES-3 6.1).
    EnclosurePage { node: String, page: u8 },
    /// ATA IDENTIFY DEVICE by ATA PASS-THROUGH (ACS-4 7.13, SAT-4 12.2): 512 bytes.
    AtaIdentify { disk: String },
    /// ATA SMART READ DATA: 512 bytes.
    AtaSmartData { disk: String },
    /// ATA SMART READ THRESHOLDS: 512 bytes.
    AtaSmartThresholds { disk: String },
    /// A log of ATA SMART READ LOG: 512 bytes.
    AtaSmartLog { disk: String, log: SmartLog },
    /// NVMe Identify Controller (CNS 01h) of `nvme0` and the like: 4096 bytes.
    NvmeController { controller: String },
    /// NVMe SMART / Health Information log page (02h), all namespaces: 512 bytes.
    NvmeHealth { controller: String },
    /// A question to the firmware of the MegaRAID controller that is this SCSI host.
    MegaRaid { host: u16, ask: MegaRaid },
    /// A question to a Smart Array controller, by its generic SCSI node such as `sg0`.
    SmartArray { node: String, ask: SmartArray },
    /// A question to a SAS adapter, by the generation of its driver and the driver's number of it.
    Mpt { generation: u8, adapter: u32, ask: Mpt },
    /// The output of a command to a CXL memory device such as `mem0`.
    Cxl { memory: String, ask: Cxl },
    /// A request to the management controller, on its system interface, LUN 0: the reply from its completion code on.
    Ipmi { netfn: u8, command: u8, data: Vec<u8> },
    /// All sensor data records of the management controller, one behind the other.
    SensorRecords,
    /// The data of a part (FRU) that the management controller stores.
    PartData { device: u8 },
    /// The last entries of the management controller's event log, 16 bytes each, the oldest first.
    Events { count: u8 },
    /// A group of a TPM's capabilities from a property on: TPMS_CAPABILITY_DATA.
    TpmCapability { tpm: String, capability: u32, property: u32 },
    /// The contents of an index of a TPM's non-volatile memory, by the index's own empty password.
    TpmNv { tpm: String, index: u32 },
    /// The public area of a key in a TPM: TPMT_PUBLIC.
    TpmPublic { tpm: String, handle: u32 },
    /// `struct ethtool_drvinfo`, 196 bytes.
    Driver { interface: String },
    /// Names of the offload features, 32 bytes each (`ETH_SS_FEATURES`).
    FeatureNames { interface: String },
    /// Their states: `struct ethtool_get_features_block`, 16 bytes for each 32 features.
    Features { interface: String },
    /// Names of the driver's own flags, 32 bytes each (`ETH_SS_PRIV_FLAGS`).
    PrivateFlagNames { interface: String },
    /// Their states: 32 bits.
    PrivateFlags { interface: String },
    /// The hardware address the port was made with, 6 bytes for Ethernet.
    PermanentAddress { interface: String },
    /// `struct ethtool_link_settings` up to its masks, 48 bytes.
    LinkSettings { interface: String },
    /// Attributes of an ethtool message (linux/ethtool_netlink.h), without headers.
    Ethtool { interface: String, what: Get },
    /// 128 bytes of the memory of the optical module or cable that is plugged into a port.
    ModulePage { interface: String, page: ModulePage },
    /// A leaf of CPUID, of any processor: EAX, EBX, ECX, EDX, little endian.
    Cpuid { leaf: u32, subleaf: u32 },
    /// A register of the first processor, 8 bytes little endian, where the kernel has a node for them (the module `msr`).
    Register { number: u32 },
}

impl Question {
    /// The file of a capture that holds the answer, absolute in its root.
    pub(crate) fn path(&self) -> String {
        let disk = |disk: &str, what: &str| format!("/landfall/disks/{}/{what}", flat(disk));
        let port = |interface: &str, what: &str| format!("/landfall/interfaces/{}/{what}", flat(interface));
        match self {
            Self::Table(request) => format!("/landfall/netlink/{}", request.name().replace(' ', "-")),
            Self::Measurement { path } => path.clone(),
            Self::FirstSector { disk: name } => disk(name, "first-sector"),
            Self::IsoDescriptor { disk: name } => disk(name, "iso-descriptor"),
            Self::ScsiPage { disk: name, page } => disk(name, &format!("scsi-page-{page:02x}")),
            Self::ScsiLog { disk: name, page } => disk(name, &format!("scsi-log-{page:02x}")),
            Self::ScsiDefects { disk: name } => disk(name, "scsi-defects"),
            Self::EnclosurePage { node, page } => disk(node, &format!("enclosure-page-{page:02x}")),
            Self::AtaIdentify { disk: name } => disk(name, "ata-identify"),
            Self::AtaSmartData { disk: name } => disk(name, "ata-smart-data"),
            Self::AtaSmartThresholds { disk: name } => disk(name, "ata-smart-thresholds"),
            Self::AtaSmartLog { disk: name, log } => disk(name, &format!("ata-smart-log-{:02x}", *log as u8)),
            Self::NvmeController { controller } => disk(controller, "nvme-identify-controller"),
            Self::NvmeHealth { controller } => disk(controller, "nvme-health"),
            Self::MegaRaid { host, ask } => disk(&format!("{MEGARAID}{host}"), &format!("megaraid-{}", ask.name())),
            Self::SmartArray { node, ask } => disk(node, &format!("smartarray-{}", ask.name())),
            Self::Mpt { generation, adapter, ask } => {
                disk(&adapter_name(*generation, *adapter), &format!("mpt-{}", ask.name()))
            }
            Self::Cxl { memory, ask } => disk(&format!("cxl!{memory}"), ask.name()),
            Self::Ipmi { netfn, command, data } => {
                let data: String = data.iter().map(|byte| format!("-{byte:02x}")).collect();
                format!("/landfall/ipmi/{netfn:02x}-{command:02x}{data}")
            }
            Self::SensorRecords => "/landfall/ipmi/sensor-records".to_owned(),
            Self::PartData { device } => format!("/landfall/ipmi/part-{device:02x}"),
            Self::Events { count } => format!("/landfall/ipmi/last-events-{count}"),
            Self::TpmCapability { tpm, capability, property } => {
                format!("/landfall/tpm/{}/capability-{capability:x}-{property:x}", flat(tpm))
            }
            Self::TpmNv { tpm, index } => format!("/landfall/tpm/{}/nv-{index:08x}", flat(tpm)),
            Self::TpmPublic { tpm, handle } => format!("/landfall/tpm/{}/public-{handle:08x}", flat(tpm)),
            Self::Driver { interface } => port(interface, "driver"),
            Self::FeatureNames { interface } => port(interface, "feature-names"),
            Self::Features { interface } => port(interface, "features"),
            Self::PrivateFlagNames { interface } => port(interface, "private-flag-names"),
            Self::PrivateFlags { interface } => port(interface, "private-flags"),
            Self::PermanentAddress { interface } => port(interface, "permanent-address"),
            Self::LinkSettings { interface } => port(interface, "link-settings"),
            Self::Ethtool { interface, what } => port(
                interface,
                match what {
                    Get::LinkModes => "link-modes",
                    Get::LinkState => "link-state",
                    Get::Fec => "fec",
                    Get::Statistics => "statistics",
                },
            ),
            Self::ModulePage { interface, page } => {
                let ModulePage { device, bank, page, upper } = page;
                let half = if *upper { "upper" } else { "lower" };
                port(interface, &format!("module-{device:02x}-{bank:02x}-{page:02x}-{half}"))
            }
            Self::Cpuid { leaf, subleaf } => format!("/landfall/cpuid/{leaf:08x}-{subleaf}"),
            Self::Register { number } => format!("/landfall/registers/{number:08x}"),
        }
    }

    /// The device that is asked; one that hangs is skipped from then on. `None` for the management controller, whose
    /// driver never blocks, and for the processor.
    pub(crate) fn device(&self) -> Option<String> {
        match self {
            // Under the lock that a network card's driver may hold while it waits for the card.
            Self::Table(_) => Some(RTNETLINK.to_owned()),
            Self::Measurement { path } if path.ends_with("/speed") => Some(RTNETLINK.to_owned()),
            // Attributes of one device stand in one directory.
            Self::Measurement { path } => path.rsplit_once('/').map(|(device, _)| device.to_owned()),
            Self::FirstSector { disk }
            | Self::IsoDescriptor { disk }
            | Self::ScsiPage { disk, .. }
            | Self::ScsiLog { disk, .. }
            | Self::ScsiDefects { disk }
            | Self::AtaIdentify { disk }
            | Self::AtaSmartData { disk }
            | Self::AtaSmartThresholds { disk }
            | Self::AtaSmartLog { disk, .. } => Some(disk.clone()),
            Self::EnclosurePage { node, .. } | Self::SmartArray { node, .. } => Some(node.clone()),
            Self::NvmeController { controller } | Self::NvmeHealth { controller } => Some(controller.clone()),
            Self::MegaRaid { host, .. } => Some(format!("{MEGARAID}{host}")),
            Self::Mpt { generation, adapter, .. } => Some(adapter_name(*generation, *adapter)),
            Self::Cxl { memory, .. } => Some(format!("cxl/{memory}")),
            Self::Ipmi { .. }
            | Self::SensorRecords
            | Self::PartData { .. }
            | Self::Events { .. }
            | Self::Cpuid { .. }
            | Self::Register { .. } => None,
            Self::TpmCapability { tpm, .. } | Self::TpmNv { tpm, .. } | Self::TpmPublic { tpm, .. } => {
                Some(tpm.clone())
            }
            // A driver may ask the card's firmware, which may hang as well.
            Self::Driver { interface }
            | Self::FeatureNames { interface }
            | Self::Features { interface }
            | Self::PrivateFlagNames { interface }
            | Self::PrivateFlags { interface }
            | Self::PermanentAddress { interface }
            | Self::LinkSettings { interface }
            | Self::Ethtool { interface, .. }
            | Self::ModulePage { interface, .. } => Some(interface.clone()),
        }
    }
}

/// No disk is called so.
fn adapter_name(generation: u8, adapter: u32) -> String {
    format!("mpt{generation}sas{adapter}")
}

/// A kernel name as one path component.
fn flat(name: &str) -> String {
    name.replace('/', "!")
}
