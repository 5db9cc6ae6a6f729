//! The machine as a whole: firmware, system, boards, chassis, and what watches over it.

use super::structure::{Names, Structure, flags, structure};

const WAKE_UP_TYPES: &Names = &[(
    0,
    &[
        "Reserved",
        "Other",
        "Unknown",
        "APM Timer",
        "Modem Ring",
        "LAN Remote",
        "Power Switch",
        "PCI PME#",
        "AC Power Restored",
    ],
)];
const BOARD_FEATURES: [&str; 5] =
    ["hosting board", "requires a daughter board", "removable", "replaceable", "hot swappable"];
const BOARD_TYPES: &Names = &[(
    1,
    &[
        "Unknown",
        "Other",
        "Server Blade",
        "Connectivity Switch",
        "System Management Module",
        "Processor Module",
        "I/O Module",
        "Memory Module",
        "Daughter Board",
        "Motherboard",
        "Processor+Memory Module",
        "Processor+I/O Module",
        "Interconnect Board",
    ],
)];
const CHASSIS_TYPES: &Names = &[(
    1,
    &[
        "Other",
        "Unknown",
        "Desktop",
        "Low Profile Desktop",
        "Pizza Box",
        "Mini Tower",
        "Tower",
        "Portable",
        "Laptop",
        "Notebook",
        "Hand Held",
        "Docking Station",
        "All In One",
        "Sub Notebook",
        "Space-saving",
        "Lunch Box",
        "Main Server Chassis",
        "Expansion Chassis",
        "Sub Chassis",
        "Bus Expansion Chassis",
        "Peripheral Chassis",
        "RAID Chassis",
        "Rack Mount Chassis",
        "Sealed-case PC",
        "Multi-system",
        "CompactPCI",
        "AdvancedTCA",
        "Blade",
        "Blade Enclosing",
        "Tablet",
        "Convertible",
        "Detachable",
        "IoT Gateway",
        "Embedded PC",
        "Mini PC",
        "Stick PC",
    ],
)];
const CHASSIS_STATES: &Names = &[(1, &["Other", "Unknown", "Safe", "Warning", "Critical", "Non-recoverable"])];
const CHASSIS_SECURITY: &Names =
    &[(1, &["Other", "Unknown", "None", "External Interface Locked Out", "External Interface Enabled"])];
const BOOT_STATUSES: [&str; 9] = [
    "No errors detected",
    "No bootable media",
    "Operating system failed to load",
    "Firmware-detected hardware failure",
    "Operating system-detected hardware failure",
    "User-requested boot",
    "System security violation",
    "Previously-requested image",
    "System watchdog timer expired",
];
const IPMI_INTERFACES: &Names = &[(
    0,
    &[
        "Unknown",
        "KCS (Keyboard Control Style)",
        "SMIC (Server Management Interface Chip)",
        "BT (Block Transfer)",
        "SSIF (SMBus System Interface)",
    ],
)];
/// The interface type whose base address is one of the SMBus.
const SSIF: u8 = 4;

structure! {
    /// The firmware (type 0; DSP0134, 7.1).
    Bios = 0, |s| {
        /// Maker.
        vendor: String = s.text(0x04),
        /// Version.
        version: String = s.text(0x05),
        /// Release date as the table has it, mostly mm/dd/yyyy.
        release_date: String = s.text(0x08),
        /// Size of the device that holds it, bytes.
        rom_bytes: u64 = rom_bytes(s),
        /// The maker's release of the system firmware: major, minor.
        revision: String = release(s, 0x14),
        /// Release of the embedded controller's firmware: major, minor.
        embedded_controller_revision: String = release(s, 0x16),
        /// Whether it supports UEFI.
        uefi: bool = s.bit(0x13, 3),
        /// Whether it says that the machine is a virtual one.
        virtual_machine: bool = s.bit(0x13, 4),
    }
}

structure! {
    /// The machine (type 1; DSP0134, 7.2).
    System = 1, |s| {
        /// Maker.
        manufacturer: String = s.text(0x04),
        /// Model.
        product_name: String = s.text(0x05),
        /// Version of the model.
        version: String = s.text(0x06),
        /// Serial number.
        serial_number: String = s.text(0x07),
        /// UUID in lower case, its first three fields little-endian as SMBIOS 2.6 and later have them (7.2.1).
        uuid: String = uuid(s),
        /// What turned it on.
        wake_up_type: String = s.name(0x18, WAKE_UP_TYPES),
        /// The maker's order number of this configuration.
        sku_number: String = s.text(0x19),
        /// The family of models.
        family: String = s.text(0x1a),
    }
}

structure! {
    /// A board or module of the machine (type 2; DSP0134, 7.3).
    Baseboard = 2, |s| {
        /// Maker.
        manufacturer: String = s.text(0x04),
        /// Model.
        product: String = s.text(0x05),
        /// Version of the model.
        version: String = s.text(0x06),
        /// Serial number.
        serial_number: String = s.text(0x07),
        /// Asset tag.
        asset_tag: String = s.text(0x08),
        /// What can be done with it.
        features: Vec<String> = s.byte(0x09).map(|bits| flags(bits.into(), 0, &BOARD_FEATURES)),
        /// Where it is in the chassis.
        location: String = s.text(0x0a),
        /// Handle of the [`Chassis`] it is in.
        chassis_handle: u16 = s.reference(0x0b),
        /// Its kind.
        board_type: String = s.name(0x0d, BOARD_TYPES),
    }
}

structure! {
    /// A chassis (type 3; DSP0134, 7.4).
    Chassis = 3, |s| {
        /// Maker.
        manufacturer: String = s.text(0x04),
        /// Its kind.
        chassis_type: String = s.name_of_bits(0x05, 0..7, CHASSIS_TYPES),
        /// Whether it has a lock.
        lock: bool = s.bit(0x05, 7),
        /// Version of the model.
        version: String = s.text(0x06),
        /// Serial number.
        serial_number: String = s.text(0x07),
        /// Asset tag.
        asset_tag: String = s.text(0x08),
        /// How it was when last booted.
        boot_up_state: String = s.name(0x09, CHASSIS_STATES),
        /// How its power supplies were when last booted.
        power_supply_state: String = s.name(0x0a, CHASSIS_STATES),
        /// How warm it was when last booted.
        thermal_state: String = s.name(0x0b, CHASSIS_STATES),
        /// State of the external interface lock.
        security_status: String = s.name(0x0c, CHASSIS_SECURITY),
        /// Height, rack units of 44.45 mm.
        height_u: u8 = s.nonzero_byte(0x11),
        /// Power cords.
        power_cords: u8 = s.nonzero_byte(0x12),
        /// The maker's order number.
        sku_number: String = chassis_sku_at(s).and_then(|at| s.text(at)),
    }
}

structure! {
    /// How the last boot went (type 32; DSP0134, 7.33).
    BootStatus = 32, |s| {
        /// What the firmware says of it.
        status: String = s.byte(0x0a).map(boot_status),
    }
}

structure! {
    /// The interface to the management controller (type 38; DSP0134, 7.39).
    IpmiDevice = 38, |s| {
        /// How it is talked to.
        interface_type: String = s.name(0x04, IPMI_INTERFACES),
        /// The IPMI version it speaks.
        specification_version: String = s.byte(0x05).map(|bcd| format!("{}.{}", bcd >> 4, bcd & 0x0f)),
        /// The controller's own address on the IPMB, 7 bits.
        i2c_address: u8 = s.byte(0x06).map(|address| address >> 1),
        /// Address of its non-volatile storage.
        nv_storage_address: u8 = s.byte(0x07).filter(|&address| address != 0xff),
        /// What the base address is one of: `I/O`, `Memory-mapped` or `SMBus`.
        address_space: String = address_space(s).map(str::to_owned),
        /// Base address; on the SMBus the 7 bits of it.
        base_address: u64 = base_address(s),
        /// From one register to the next, bytes.
        register_spacing_bytes: u8 = register_spacing_bytes(s),
        /// Interrupt line.
        interrupt: u8 = s.nonzero_byte(0x11),
    }
}

structure! {
    /// A trusted platform module (type 43; DSP0134, 7.44).
    Tpm = 43, |s| {
        /// Maker, the four letters of its registration.
        vendor_id: String = vendor_id(s),
        /// The TPM specification it implements: major, minor.
        specification_version: String = s.byte(0x08).zip(s.byte(0x09)).map(|(major, minor)| format!("{major}.{minor}")),
        /// Version of its firmware: major, minor.
        firmware_version: String = tpm_firmware(s),
        /// What it is called.
        description: String = s.text(0x12),
    }
}

/// 7.1.1: units of 64 KiB less one; sizes from 16 MiB on are in a separate word.
fn rom_bytes(s: &Structure<'_>) -> Option<u64> {
    match s.byte(0x09)? {
        0xff => match s.word(0x18) {
            None => Some(16 << 20),
            Some(size) => match size >> 14 {
                0 => Some(u64::from(size & 0x3fff) << 20),
                1 => Some(u64::from(size & 0x3fff) << 30),
                _ => None,
            },
        },
        units => Some((u64::from(units) + 1) << 16),
    }
}

/// Major and minor, each all ones where there is none.
fn release(s: &Structure<'_>, at: usize) -> Option<String> {
    let (major, minor) = (s.byte(at)?, s.byte(at + 1)?);
    (major != 0xff && minor != 0xff).then(|| format!("{major}.{minor}"))
}

fn uuid(s: &Structure<'_>) -> Option<String> {
    let bytes: [u8; 16] = s.array(0x08)?;
    if bytes == [0; 16] || bytes == [0xff; 16] {
        return None;
    }
    let uuid = if s.big_endian_uuid { uuid::Uuid::from_bytes(bytes) } else { uuid::Uuid::from_bytes_le(bytes) };
    Some(uuid.to_string())
}

/// It follows the contained elements, so many of such a length.
fn chassis_sku_at(s: &Structure<'_>) -> Option<usize> {
    Some(0x15 + usize::from(s.byte(0x13)?) * usize::from(s.byte(0x14)?))
}

/// 7.33.1.
fn boot_status(status: u8) -> String {
    match (status, BOOT_STATUSES.get(usize::from(status))) {
        (_, Some(known)) => (*known).to_owned(),
        (128..=191, _) => format!("OEM-specific {status:#04x}"),
        (192..=255, _) => format!("Product-specific {status:#04x}"),
        _ => format!("{status:#04x}"),
    }
}

fn address_space(s: &Structure<'_>) -> Option<&'static str> {
    Some(match (s.byte(0x04)?, s.qword(0x08)?) {
        (SSIF, _) => "SMBus",
        (_, address) if address & 1 == 1 => "I/O",
        _ => "Memory-mapped",
    })
}

/// The lowest bit gives the address space; its own value is in the modifier that later versions added (7.39).
fn base_address(s: &Structure<'_>) -> Option<u64> {
    let address = s.qword(0x08)?;
    if s.byte(0x04)? == SSIF {
        return Some((address & 0xff) >> 1);
    }
    Some(address & !1 | u64::from(s.bit(0x10, 4).unwrap_or(false)))
}

fn register_spacing_bytes(s: &Structure<'_>) -> Option<u8> {
    match (s.byte(0x04)?, s.byte(0x10)? >> 6) {
        (SSIF, _) => None,
        (_, 0) => Some(1),
        (_, 1) => Some(4),
        (_, 2) => Some(16),
        _ => None,
    }
}

fn vendor_id(s: &Structure<'_>) -> Option<String> {
    let bytes: [u8; 4] = s.array(0x04)?;
    let letters = bytes.iter().take_while(|&&byte| byte != 0);
    let text: String = letters.map(|&byte| if matches!(byte, b' '..=b'~') { byte.into() } else { '.' }).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// 7.44: TPM 1.2 has its version in bytes two and three of the first double word, TPM 2.0 in its words.
fn tpm_firmware(s: &Structure<'_>) -> Option<String> {
    let version: [u8; 4] = s.array(0x0a)?;
    match s.byte(0x08)? {
        1 => Some(format!("{}.{}", version[2], version[3])),
        2 => {
            let version = u32::from_le_bytes(version);
            Some(format!("{}.{}", version >> 16, version & 0xffff))
        }
        _ => None,
    }
}
