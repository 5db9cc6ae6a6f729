//! The inventory document (docs/compatibility.md#inventory). Empty scalars are left out, lists are always present.

use crate::{is_zero, json::null_is_default};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// IPv4 address of the management controller; `0.0.0.0` when there is none.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub bmc_address: String,
    /// Its IPv6 address; `::/0` when there is none.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub bmc_v6address: String,
    /// How the host booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// Processors; the service refuses an inventory without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub disks: Vec<Disk>,
    /// Graphics and accelerators.
    #[serde(default, deserialize_with = "null_is_default")]
    pub gpus: Vec<Gpu>,
    /// The host's name, or its first usable MAC with dashes.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub hostname: String,
    /// Network interfaces, in kernel order.
    #[serde(default, deserialize_with = "null_is_default")]
    pub interfaces: Vec<Interface>,
    /// Memory; the service refuses an inventory without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Main-table routes, IPv4 then IPv6.
    #[serde(default, deserialize_with = "null_is_default")]
    pub routes: Vec<Route>,
    /// Who made the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_vendor: Option<SystemVendor>,
    /// `none`, `1.2` or `2.0`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub tpm_version: String,
    /// Set when something was left out to fit a size limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// `/proc/cmdline` verbatim, final newline included.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub command_line: String,
    /// `uefi` or `bios`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub current_boot_mode: String,
    /// `persistent` or `ephemeral`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub device_type: String,
    /// Value of `BOOTIF=`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub pxe_interface: String,
    /// `Unknown`, `NotSupported`, `Enabled` or `Disabled`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub secure_boot_state: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The kernel's name: `x86_64`, `aarch64`, …
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub architecture: String,
    /// Logical processors.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub count: u64,
    /// Feature flags.
    #[serde(default)]
    pub flags: Option<Vec<String>>,
    /// Highest frequency, MHz.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub frequency: f64,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub model_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Installed, bytes.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub physical_bytes: u64,
    /// `dmidecode`, `ghw` or `meminfo`: the source of `physical_bytes`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub physical_bytes_method: String,
    /// What the kernel has, bytes.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub usable_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Boot signature in sector 0.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub bootable: bool,
    /// `/dev/disk/by-id/wwn-…` or `nvme-eui…`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub by_id: String,
    /// `/dev/disk/by-path/…`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub by_path: String,
    /// `HDD`, `SSD`, `ODD`, `Multipath`, …
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub drive_type: String,
    /// Whether the disk gives a device identification page.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub has_uuid: bool,
    /// SCSI address.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub hctl: String,
    /// Devices stacked on it, comma-joined.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub holders: String,
    /// `by_id`, else `by_path`, else `path`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub id: String,
    /// Whether it may be installed to.
    #[serde(default, deserialize_with = "null_is_default")]
    pub installation_eligibility: Eligibility,
    /// The medium the host booted from.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub is_installation_media: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscsi: Option<Iscsi>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub model: String,
    /// Kernel name.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub name: String,
    /// `/dev/<name>`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub path: String,
    /// Removable medium.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub removable: bool,
    /// Serial number.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub serial: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub vendor: String,
    /// World-wide name.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub wwn: String,
}

/// `installation_eligibility`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eligibility {
    /// Whether it may be installed to; left out when false.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub eligible: bool,
    /// Why not; `null` when eligible.
    #[serde(default)]
    pub not_eligible_reasons: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iscsi {
    /// Our address in the session.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub host_ip_address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// PCI address.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub address: String,
    /// PCI device id, four hexadecimal digits.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub device_id: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub name: String,
    /// Vendor name.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub vendor: String,
    /// PCI vendor id, four hexadecimal digits.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub vendor_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Firmware's name of the port.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub biosdevname: String,
    /// Never set by the real agent.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub client_id: String,
    /// Subset of up, broadcast, loopback, pointtopoint, multicast, running, in that order.
    #[serde(default, deserialize_with = "null_is_default")]
    pub flags: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub has_carrier: bool,
    /// `address/prefix`, without link-local ones.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ipv4_addresses: Vec<String>,
    /// `address/prefix`, without link-local ones.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ipv6_addresses: Vec<String>,
    /// Hardware address; the permanent one for a bond's port.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub mac_address: String,
    /// MTU, bytes.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub mtu: u32,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub name: String,
    /// PCI device id, `0x1572`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub product: String,
    /// Speed, Mb/s; -1 for unknown.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub speed_mbps: i64,
    /// `physical`, `bond`, `vlan`, …
    #[serde(default, deserialize_with = "null_is_default", rename = "type", skip_serializing_if = "is_zero")]
    pub kind: String,
    /// PCI vendor id, `0x8086`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub vendor: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination without prefix length; `0.0.0.0` or `::` for a default route.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub destination: String,
    /// 2 (`AF_INET`) or 10 (`AF_INET6`).
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub family: i32,
    /// Next hop.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub gateway: String,
    /// Output interface.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub interface: String,
    /// Priority.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub metric: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemVendor {
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub manufacturer: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub product_name: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub serial_number: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub r#virtual: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// `partial` or `full`.
    #[serde(default, deserialize_with = "null_is_default", rename = "type")]
    pub kind: String,
    /// Why, for people.
    #[serde(default, deserialize_with = "null_is_default")]
    pub reasons: Vec<String>,
}
