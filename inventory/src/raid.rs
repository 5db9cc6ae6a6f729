//! RAID controllers, their volumes, and the drives that they hide: what every maker's are reported as.

use crate::{
    ata::{AtaHealth, AtaIdentity},
    scsi::ScsiLog,
};
use serde::{Deserialize, Serialize};

/// A RAID controller that answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RaidController {
    /// PCI address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version of the firmware in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Version of the package that the firmware came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_version: Option<String>,
    /// Its own memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Errors of that memory that were corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_corrected_errors: Option<u64>,
    /// Errors of that memory that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_uncorrected_errors: Option<u64>,
    /// Temperature of its processor, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u8>,
    /// Whether its cache is used: enabled, or such as disabled for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_state: Option<String>,
    /// Part of its memory that is a cache for reads, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_bytes: Option<u64>,
    /// Part of its memory that is a cache for writes, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_bytes: Option<u64>,
    /// What is wrong with its cache, or why it is disabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_problems: Vec<String>,
    /// The battery or capacitor that keeps its cache; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub battery: Option<RaidBattery>,
}

/// The battery or capacitor of a RAID controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RaidBattery {
    /// Kind, as the controller numbers or names it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it can keep the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_healthy: Option<bool>,
    /// What the controller says of it now, such as charging.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Charge, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge_percent: Option<u8>,
    /// Voltage, millivolts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voltage_millivolts: Option<u32>,
    /// Temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u8>,
}

/// A volume that a RAID controller shows as a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RaidVolume {
    /// PCI address of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// The controller's number of it.
    pub number: u32,
    /// Name that its maker gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The disk it is to the kernel, without /dev.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Level, such as RAID 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// State: optimal, or such as degraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether its copies or checksums are known to agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_consistent: Option<bool>,
    /// Its size, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What lies on one drive before the next one follows, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripe_bytes: Option<u64>,
    /// How the controller's cache is used now: write back or write through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// Bays of the drives it is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<String>,
}

/// A physical drive behind a RAID controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RaidDrive {
    /// PCI address of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Where it is, as the controller's own programs write it: enclosure and slot, such as 252:3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bay: Option<String>,
    /// The controller's number of it.
    pub number: u32,
    /// The disk it is to the kernel, without /dev, if it is shown as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Firmware revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// World-wide name, such as 0x5000c500a1b2c3d4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// sas, sata, nvme, scsi or fc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// hdd or ssd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Revolutions per minute; 0 for a drive without moving parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_rpm: Option<u16>,
    /// Its size, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// State: online, or such as hot spare, rebuilding or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether it belongs to a configuration of another controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_foreign: Option<bool>,
    /// Speed of its link, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// Fastest speed of its link, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_speed_mbps: Option<u32>,
    /// Errors of its medium that the controller counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// Other errors that the controller counted: of the link, of commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_errors: Option<u64>,
    /// Times it predicted its failure; 1 where the controller only says that it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_failures: Option<u64>,
    /// Temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u8>,
    /// Part of its endurance that is used, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u8>,
    /// Hours it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// What an ATA drive says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ata: Option<AtaIdentity>,
    /// What an ATA drive says of its health. A drive that sleeps is not woken for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smart: Option<AtaHealth>,
    /// What a SCSI drive counts in its logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scsi_log: Option<ScsiLog>,
}

/// What is found behind controllers.
#[derive(Debug, Default)]
pub(crate) struct Raid {
    pub controllers: Vec<RaidController>,
    pub volumes: Vec<RaidVolume>,
    pub drives: Vec<RaidDrive>,
}
