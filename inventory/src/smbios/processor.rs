//! Processor sockets and caches.

use super::structure::{Names, Structure, flags, structure};

const PROCESSOR_TYPES: &Names =
    &[(1, &["Other", "Unknown", "Central Processor", "Math Processor", "DSP Processor", "Video Processor"])];
const STATES: &Names =
    &[(0, &["Unknown", "Enabled", "Disabled By User", "Disabled By BIOS", "Idle", "0x05", "0x06", "Other"])];
/// From bit 2 on.
const CHARACTERISTICS: [&str; 8] = [
    "64-bit capable",
    "Multi-Core",
    "Hardware Thread",
    "Execute Protection",
    "Enhanced Virtualization",
    "Power/Performance Control",
    "128-bit Capable",
    "Arm64 SoC ID",
];
const CACHE_LOCATIONS: &Names = &[(0, &["Internal", "External", "Reserved", "Unknown"])];
const CACHE_MODES: &Names = &[(0, &["Write Through", "Write Back", "Varies With Memory Address", "Unknown"])];
const ERROR_CORRECTIONS: &Names = &[(1, &["Other", "Unknown", "None", "Parity", "Single-bit ECC", "Multi-bit ECC"])];
const CACHE_TYPES: &Names = &[(1, &["Other", "Unknown", "Instruction", "Data", "Unified"])];
const ASSOCIATIVITIES: &Names = &[(
    1,
    &[
        "Other",
        "Unknown",
        "Direct Mapped",
        "2-way Set-associative",
        "4-way Set-associative",
        "Fully Associative",
        "8-way Set-associative",
        "16-way Set-associative",
        "12-way Set-associative",
        "24-way Set-associative",
        "32-way Set-associative",
        "48-way Set-associative",
        "64-way Set-associative",
        "20-way Set-associative",
    ],
)];

structure! {
    /// A processor or its empty socket (type 4; DSP0134, 7.5).
    Processor = 4, |s| {
        /// The socket, as the board is labelled.
        socket: String = s.text(0x04),
        /// What it processes.
        processor_type: String = s.name(0x05, PROCESSOR_TYPES),
        /// Whether there is a processor in the socket.
        populated: bool = s.bit(0x18, 6),
        /// Whether it is in use, and who turned it off if not.
        status: String = s.name_of_bits(0x18, 0..3, STATES),
        /// Number of the processor family (7.5.2).
        family: u16 = family(s),
        /// Maker.
        manufacturer: String = s.text(0x07),
        /// What the processor says of itself, in the table's order: signature and feature flags of CPUID on x86, the MIDR or the
        /// SoC's id on Arm (7.5.3).
        id: String = id(s),
        /// Name.
        version: String = s.text(0x10),
        /// Voltage it runs at, mV; none where the table only lists voltages of the socket.
        voltage_mv: u16 = voltage_mv(s),
        /// External clock, MHz.
        external_clock_mhz: u16 = s.nonzero_word(0x12),
        /// Fastest that the socket takes, MHz.
        max_speed_mhz: u16 = s.nonzero_word(0x14),
        /// Speed it booted with, MHz.
        current_speed_mhz: u16 = s.nonzero_word(0x16),
        /// Handle of its first-level [`Cache`].
        l1_cache_handle: u16 = s.reference(0x1a),
        /// Handle of its second-level [`Cache`].
        l2_cache_handle: u16 = s.reference(0x1c),
        /// Handle of its third-level [`Cache`].
        l3_cache_handle: u16 = s.reference(0x1e),
        /// Serial number.
        serial_number: String = s.text(0x20),
        /// Asset tag.
        asset_tag: String = s.text(0x21),
        /// The maker's part number.
        part_number: String = s.text(0x22),
        /// Cores it has.
        core_count: u16 = count(s, 0x23, 0x2a),
        /// Cores that the firmware left enabled.
        core_enabled: u16 = count(s, 0x24, 0x2c),
        /// Threads it has, over all cores.
        thread_count: u16 = count(s, 0x25, 0x2e),
        /// Threads that the firmware left enabled.
        thread_enabled: u16 = s.word(0x30).filter(|count| !matches!(count, 0 | 0xffff)),
        /// What it is capable of.
        characteristics: Vec<String> = s.word(0x26).map(|bits| flags(bits, 2, &CHARACTERISTICS)),
    }
}

structure! {
    /// A cache (type 7; DSP0134, 7.8).
    Cache = 7, |s| {
        /// What it is called.
        designation: String = s.text(0x04),
        /// Level, from 1 on.
        level: u8 = s.byte(0x05).map(|bits| (bits & 7) + 1),
        /// Whether it is in a socket.
        socketed: bool = s.bit(0x05, 3),
        /// Where it is, seen from the processor.
        location: String = s.name_of_bits(0x05, 5..7, CACHE_LOCATIONS),
        /// Whether it was enabled at boot.
        enabled: bool = s.bit(0x05, 7),
        /// When it writes to memory.
        mode: String = s.name_of_bits(0x06, 0..2, CACHE_MODES),
        /// The largest that can be there, bytes.
        maximum_bytes: u64 = cache_bytes(s, 0x07, 0x13),
        /// What is there, bytes; 0 when there is none.
        installed_bytes: u64 = cache_bytes(s, 0x09, 0x17),
        /// Speed of its cells, ns.
        speed_ns: u8 = s.nonzero_byte(0x0f),
        /// How errors are found and corrected.
        error_correction: String = s.name(0x10, ERROR_CORRECTIONS),
        /// What it holds.
        cache_type: String = s.name(0x11, CACHE_TYPES),
        /// Places where one line can be.
        associativity: String = s.name(0x12, ASSOCIATIVITIES),
    }
}

/// 7.5.2: 0xfe says that the number is in a separate word.
fn family(s: &Structure<'_>) -> Option<u16> {
    let family = match s.byte(0x06)? {
        0xfe => s.word(0x28)?,
        family => family.into(),
    };
    // Unknown.
    Some(family).filter(|&family| family != 2)
}

fn id(s: &Structure<'_>) -> Option<String> {
    let bytes: [u8; 8] = s.array(0x08)?;
    let text = bytes.map(|byte| format!("{byte:02X}")).join(" ");
    Some(text).filter(|_| bytes != [0; 8])
}

/// 7.5.4: tenths of a volt when bit 7 is set.
fn voltage_mv(s: &Structure<'_>) -> Option<u16> {
    let voltage = s.byte(0x11)?;
    Some(u16::from(voltage & 0x7f) * 100).filter(|&mv| voltage & 0x80 != 0 && mv != 0)
}

/// 7.5.6: counts from 255 on are in a separate word.
fn count(s: &Structure<'_>, at: usize, extended_at: usize) -> Option<u16> {
    match s.nonzero_byte(at)? {
        0xff => s.word(extended_at).filter(|count| !matches!(count, 0 | 0xffff)),
        count => Some(count.into()),
    }
}

/// KiB, or 64 KiB when the highest bit is set (7.8). Later versions have all sizes, not only those that don't fit the word, in a
/// double word too.
fn cache_bytes(s: &Structure<'_>, at: usize, extended_at: usize) -> Option<u64> {
    let (size, in_64_kib) = match s.dword(extended_at) {
        Some(size) => (size & 0x7fff_ffff, size >> 31 != 0),
        None => s.word(at).map(|size| (u32::from(size & 0x7fff), size >> 15 != 0))?,
    };
    Some(u64::from(size) << if in_64_kib { 16 } else { 10 })
}
