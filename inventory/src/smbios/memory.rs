//! Memory: arrays of sockets, and the devices in them.

use super::structure::{Names, Structure, flags, structure};

const ARRAY_LOCATIONS: &Names = &[
    (
        1,
        &[
            "Other",
            "Unknown",
            "System Board Or Motherboard",
            "ISA Add-on Card",
            "EISA Add-on Card",
            "PCI Add-on Card",
            "MCA Add-on Card",
            "PCMCIA Add-on Card",
            "Proprietary Add-on Card",
            "NuBus",
        ],
    ),
    (
        0xa0,
        &[
            "PC-98/C20 Add-on Card",
            "PC-98/C24 Add-on Card",
            "PC-98/E Add-on Card",
            "PC-98/Local Bus Add-on Card",
            "CXL Add-on Card",
        ],
    ),
];
const ARRAY_USES: &Names =
    &[(1, &["Other", "Unknown", "System Memory", "Video Memory", "Flash Memory", "Non-volatile RAM", "Cache Memory"])];
const ERROR_CORRECTIONS: &Names =
    &[(1, &["Other", "Unknown", "None", "Parity", "Single-bit ECC", "Multi-bit ECC", "CRC"])];
const FORM_FACTORS: &Names = &[(
    1,
    &[
        "Other",
        "Unknown",
        "SIMM",
        "SIP",
        "Chip",
        "DIP",
        "ZIP",
        "Proprietary Card",
        "DIMM",
        "TSOP",
        "Row Of Chips",
        "RIMM",
        "SODIMM",
        "SRIMM",
        "FB-DIMM",
        "Die",
        "CAMM",
    ],
)];
const TYPES: &Names = &[(
    1,
    &[
        "Other",
        "Unknown",
        "DRAM",
        "EDRAM",
        "VRAM",
        "SRAM",
        "RAM",
        "ROM",
        "Flash",
        "EEPROM",
        "FEPROM",
        "EPROM",
        "CDRAM",
        "3DRAM",
        "SDRAM",
        "SGRAM",
        "RDRAM",
        "DDR",
        "DDR2",
        "DDR2 FB-DIMM",
        "Reserved",
        "Reserved",
        "Reserved",
        "DDR3",
        "FBD2",
        "DDR4",
        "LPDDR",
        "LPDDR2",
        "LPDDR3",
        "LPDDR4",
        "Logical non-volatile device",
        "HBM",
        "HBM2",
        "DDR5",
        "LPDDR5",
        "HBM3",
    ],
)];
/// From bit 1 on.
const TYPE_DETAILS: [&str; 15] = [
    "Other",
    "Unknown",
    "Fast-paged",
    "Static Column",
    "Pseudo-static",
    "RAMBus",
    "Synchronous",
    "CMOS",
    "EDO",
    "Window DRAM",
    "Cache DRAM",
    "Non-Volatile",
    "Registered (Buffered)",
    "Unbuffered (Unregistered)",
    "LRDIMM",
];
const TECHNOLOGIES: &Names =
    &[(1, &["Other", "Unknown", "DRAM", "NVDIMM-N", "NVDIMM-F", "NVDIMM-P", "Intel Optane persistent memory"])];

structure! {
    /// A set of memory sockets with one use and one kind of error correction (type 16; DSP0134, 7.17).
    MemoryArray = 16, |s| {
        /// Where it is.
        location: String = s.name(0x04, ARRAY_LOCATIONS),
        /// What it is for.
        usage: String = s.name(0x05, ARRAY_USES),
        /// How errors are found and corrected.
        error_correction: String = s.name(0x06, ERROR_CORRECTIONS),
        /// The most it takes, bytes.
        maximum_capacity_bytes: u64 = capacity_bytes(s),
        /// Sockets, or devices without one.
        device_count: u16 = s.word(0x0d),
    }
}

structure! {
    /// A memory module or its empty socket (type 17; DSP0134, 7.18).
    MemoryDevice = 17, |s| {
        /// Handle of the [`MemoryArray`] it belongs to.
        array_handle: u16 = s.reference(0x04),
        /// The socket, as the board is labelled.
        locator: String = s.text(0x10),
        /// The bank, as the board is labelled.
        bank_locator: String = s.text(0x11),
        /// Whether there is a module in the socket.
        installed: bool = s.word(0x0c).map(|size| size != 0),
        /// What the module holds, bytes.
        size_bytes: u64 = size_bytes(s),
        /// How it is built.
        form_factor: String = s.name(0x0e, FORM_FACTORS),
        /// Kind of memory.
        memory_type: String = s.name(0x12, TYPES),
        /// More on the kind of memory.
        type_detail: Vec<String> = s.word(0x13).map(|bits| flags(bits & !(1 << 2), 1, &TYPE_DETAILS)),
        /// What the cells are made of.
        technology: String = s.name(0x28, TECHNOLOGIES),
        /// Width with the bits of error correction.
        total_width_bits: u16 = width_bits(s, 0x08),
        /// Width without the bits of error correction; a smaller one than [`Self::total_width_bits`] means ECC.
        data_width_bits: u16 = width_bits(s, 0x0a),
        /// Fastest speed the module is capable of, million transfers per second.
        speed_mts: u32 = speed_mts(s, 0x15, 0x54),
        /// Speed it runs at, million transfers per second.
        configured_speed_mts: u32 = speed_mts(s, 0x20, 0x58),
        /// Ranks.
        rank: u8 = s.byte(0x1b).map(|attributes| attributes & 0x0f).filter(|&rank| rank != 0),
        /// Maker.
        manufacturer: String = s.text(0x17),
        /// Serial number.
        serial_number: String = s.text(0x18),
        /// Asset tag.
        asset_tag: String = s.text(0x19),
        /// The maker's part number.
        part_number: String = s.text(0x1a),
        /// Version of the firmware on the module.
        firmware_version: String = s.text(0x2b),
        /// Lowest voltage it runs at, mV.
        minimum_voltage_mv: u16 = s.nonzero_word(0x22),
        /// Highest voltage it runs at, mV.
        maximum_voltage_mv: u16 = s.nonzero_word(0x24),
        /// Voltage it runs at, mV.
        configured_voltage_mv: u16 = s.nonzero_word(0x26),
        /// Size of the part that keeps its content without power, bytes; 0 when the module has none.
        non_volatile_bytes: u64 = portion_bytes(s, 0x34),
        /// Size of the part that loses its content without power, bytes; 0 when the module has none.
        volatile_bytes: u64 = portion_bytes(s, 0x3c),
    }
}

fn capacity_bytes(s: &Structure<'_>) -> Option<u64> {
    let bytes = match s.dword(0x07)? {
        0x8000_0000 => s.qword(0x0f)?,
        kib => u64::from(kib) << 10,
    };
    Some(bytes).filter(|&bytes| bytes != 0)
}

/// 7.18.2, 7.18.5.
pub(super) fn size_bytes(s: &Structure<'_>) -> Option<u64> {
    match s.word(0x0c)? {
        0 | 0xffff => None,
        // Bit 31 is reserved. Zero is not a size: then the field above means what it says.
        0x7fff => match s.dword(0x1c).unwrap_or(0) & 0x7fff_ffff {
            0 => Some(0x7fff << 20),
            mib => Some(u64::from(mib) << 20),
        },
        size if size & 0x8000 != 0 => Some(u64::from(size & 0x7fff) << 10),
        mib => Some(u64::from(mib) << 20),
    }
}

fn width_bits(s: &Structure<'_>, at: usize) -> Option<u16> {
    s.nonzero_word(at).filter(|&bits| bits != 0xffff)
}

/// Speeds that don't fit the word are in a double word (7.18.4, 7.18.13).
fn speed_mts(s: &Structure<'_>, at: usize, extended_at: usize) -> Option<u32> {
    match s.nonzero_word(at)? {
        0xffff => s.dword(extended_at).map(|speed| speed & 0x7fff_ffff).filter(|&speed| speed != 0),
        speed => Some(speed.into()),
    }
}

fn portion_bytes(s: &Structure<'_>, at: usize) -> Option<u64> {
    s.qword(at).filter(|&bytes| bytes != u64::MAX)
}
