//! What is plugged in or could be: slots, on-board devices, connectors.

use super::structure::{Names, Structure, structure};

const SLOT_TYPES: &Names = &[
    (
        0x01,
        &[
            "Other",
            "Unknown",
            "ISA",
            "MCA",
            "EISA",
            "PCI",
            "PC Card (PCMCIA)",
            "VLB",
            "Proprietary",
            "Processor Card",
            "Proprietary Memory Card",
            "I/O Riser Card",
            "NuBus",
            "PCI-66",
            "AGP",
            "AGP 2x",
            "AGP 4x",
            "PCI-X",
            "AGP 8x",
            "M.2 Socket 1-DP",
            "M.2 Socket 1-SD",
            "M.2 Socket 2",
            "M.2 Socket 3",
            "MXM Type I",
            "MXM Type II",
            "MXM Type III",
            "MXM Type III-HE",
            "MXM Type IV",
            "MXM 3.0 Type A",
            "MXM 3.0 Type B",
            "PCI Express 2 SFF-8639 (U.2)",
            "PCI Express 3 SFF-8639 (U.2)",
            "PCI Express Mini 52-pin with bottom-side keep-outs",
            "PCI Express Mini 52-pin without bottom-side keep-outs",
            "PCI Express Mini 76-pin",
            "PCI Express 4 SFF-8639 (U.2)",
            "PCI Express 5 SFF-8639 (U.2)",
            "OCP NIC 3.0 Small Form Factor (SFF)",
            "OCP NIC 3.0 Large Form Factor (LFF)",
            "OCP NIC Prior to 3.0",
        ],
    ),
    (0x30, &["CXL Flexbus 1.0"]),
    (
        0xa0,
        &[
            "PC-98/C20",
            "PC-98/C24",
            "PC-98/E",
            "PC-98/Local Bus",
            "PC-98/Card",
            "PCI Express",
            "PCI Express x1",
            "PCI Express x2",
            "PCI Express x4",
            "PCI Express x8",
            "PCI Express x16",
            "PCI Express 2",
            "PCI Express 2 x1",
            "PCI Express 2 x2",
            "PCI Express 2 x4",
            "PCI Express 2 x8",
            "PCI Express 2 x16",
            "PCI Express 3",
            "PCI Express 3 x1",
            "PCI Express 3 x2",
            "PCI Express 3 x4",
            "PCI Express 3 x8",
            "PCI Express 3 x16",
        ],
    ),
    (
        0xb8,
        &[
            "PCI Express 4",
            "PCI Express 4 x1",
            "PCI Express 4 x2",
            "PCI Express 4 x4",
            "PCI Express 4 x8",
            "PCI Express 4 x16",
            "PCI Express 5",
            "PCI Express 5 x1",
            "PCI Express 5 x2",
            "PCI Express 5 x4",
            "PCI Express 5 x8",
            "PCI Express 5 x16",
            "PCI Express 6+",
            "EDSFF E1",
            "EDSFF E3",
        ],
    ),
];
const SLOT_WIDTHS: &Names = &[(
    1,
    &[
        "Other", "Unknown", "8-bit", "16-bit", "32-bit", "64-bit", "128-bit", "x1", "x2", "x4", "x8", "x12", "x16",
        "x32",
    ],
)];
const SLOT_USAGES: &Names = &[(1, &["Other", "Unknown", "Available", "In Use", "Unavailable"])];
const SLOT_LENGTHS: &Names =
    &[(1, &["Other", "Unknown", "Short", "Long", "2.5\" drive form factor", "3.5\" drive form factor"])];
const DEVICE_TYPES: &Names = &[(
    1,
    &[
        "Other",
        "Unknown",
        "Video",
        "SCSI Controller",
        "Ethernet",
        "Token Ring",
        "Sound",
        "PATA Controller",
        "SATA Controller",
        "SAS Controller",
        "Wireless LAN",
        "Bluetooth",
        "WWAN",
        "eMMC",
        "NVMe Controller",
        "UFS Controller",
    ],
)];

structure! {
    /// An expansion slot (type 9; DSP0134, 7.10).
    Slot = 9, |s| {
        /// What is printed beside it.
        designation: String = s.text(0x04),
        /// Its kind.
        slot_type: String = s.name(0x05, SLOT_TYPES),
        /// Width of its data bus.
        width: String = s.name(0x06, SLOT_WIDTHS),
        /// Whether there is a card in it.
        usage: String = s.name(0x07, SLOT_USAGES),
        /// Length of the cards it takes.
        length: String = s.name(0x08, SLOT_LENGTHS),
        /// Number of the slot; its meaning depends on the kind (7.10.5).
        id: u16 = s.word(0x09),
        /// Where its card is on the PCI bus, as the kernel writes addresses.
        bus_address: String = bus_address(s, 0x0d),
    }
}

structure! {
    /// A device on the system board (type 41; DSP0134, 7.42).
    OnboardDevice = 41, |s| {
        /// What is printed beside it, or what it is called.
        designation: String = s.text(0x04),
        /// Its kind.
        device_type: String = s.name_of_bits(0x05, 0..7, DEVICE_TYPES),
        /// Whether the firmware enabled it.
        enabled: bool = s.bit(0x05, 7),
        /// Number among the on-board devices of its kind.
        instance: u8 = s.byte(0x06),
        /// Where it is on the PCI bus, as the kernel writes addresses.
        bus_address: String = bus_address(s, 0x07),
    }
}

/// Segment group, bus, and device with function (7.10.8). All ones mean none; firmware with only one segment leaves out
/// its ones.
fn bus_address(s: &Structure<'_>, at: usize) -> Option<String> {
    let (segment, bus, device) = (s.word(at)?, s.byte(at + 2)?, s.byte(at + 3)?);
    if segment == 0xffff || (bus, device) == (0xff, 0xff) {
        return None;
    }
    Some(format!("{segment:04x}:{bus:02x}:{:02x}.{}", device >> 3, device & 7))
}
