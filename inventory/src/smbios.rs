//! What the firmware tells in its SMBIOS table. The bytes are the firmware's and hostile.

use crate::Root;
use smbioslib::{
    MemorySize, MemorySizeExtended, SMBiosInformation, SMBiosMemoryDevice, SMBiosProcessorInformation, SMBiosStruct,
    UndefinedStructTable,
};

/// The structure table without its entry point, readable by root alone.
const TABLE: &str = "/sys/firmware/dmi/tables/DMI";
/// Real tables are a few KiB to about 100 KiB; the format allows 4 GiB.
const MAX_TABLE_BYTES: usize = 1 << 20;
/// Byte 2 of the BIOS characteristics extension, and its bit for "the table describes a virtual machine" (DSP0134, 7.1.2).
const CHARACTERISTICS_2: usize = 0x13;
const IS_VIRTUAL: u8 = 1 << 4;

/// The parsed table; empty when there is none.
pub(crate) struct Smbios(UndefinedStructTable);

impl Smbios {
    /// Reads the table; one that is missing, unreadable or too large is empty.
    pub(crate) fn read(root: &Root) -> Self {
        Self::parse(root.read(TABLE, MAX_TABLE_BYTES).unwrap_or_default())
    }

    /// Takes a table apart, up to the first structure that does not fit.
    pub(crate) fn parse(table: Vec<u8>) -> Self {
        Self(UndefinedStructTable::from(table))
    }

    /// Sum of the sizes of all memory devices (type 17), bytes; 0 when none tells.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.0
            .defined_struct_iter::<SMBiosMemoryDevice<'_>>()
            .map(|device| device_bytes(&device))
            .fold(0, u64::saturating_add)
    }

    /// Name of the first processor (type 4) that has one.
    pub(crate) fn processor(&self) -> Option<String> {
        self.0
            .defined_struct_iter::<SMBiosProcessorInformation<'_>>()
            .filter_map(|processor| processor.processor_version().to_utf8_lossy())
            .map(|name| name.trim().to_owned())
            .find(|name| !name.is_empty())
    }

    /// Serial numbers, asset tags and the system's UUID.
    pub(crate) fn serials(&self) -> Vec<String> {
        // Type, and where the numbers of the strings stand (DSP0134 7.2 to 7.5, 7.18, 7.23, 7.40).
        const STRINGS: [(u8, &[usize]); 7] =
            [(1, &[7]), (2, &[7, 8]), (3, &[7, 8]), (4, &[0x20, 0x21]), (17, &[0x18, 0x19]), (22, &[7]), (39, &[8, 9])];
        let mut found = Vec::new();
        for structure in self.0.iter() {
            let kind = structure.header.struct_type();
            let places = STRINGS.iter().filter(|(of, _)| *of == kind).flat_map(|(_, places)| *places);
            found.extend(places.filter_map(|place| structure.get_field_string(*place).to_utf8_lossy()));
        }
        found.iter().map(|text| text.trim().to_owned()).collect()
    }

    /// Whether the firmware says that it is a virtual machine's; `None` when it is too old to say.
    pub(crate) fn is_virtual(&self) -> Option<bool> {
        let bios = self.0.first::<SMBiosInformation<'_>>()?;
        Some(bios.parts().get_field_byte(CHARACTERISTICS_2)? & IS_VIRTUAL != 0)
    }
}

fn device_bytes(device: &SMBiosMemoryDevice<'_>) -> u64 {
    match device.size() {
        Some(MemorySize::Kilobytes(kib)) => u64::from(kib) << 10,
        Some(MemorySize::Megabytes(mib)) => u64::from(mib) << 20,
        Some(MemorySize::SeeExtendedSize) => match device.extended_size() {
            Some(MemorySizeExtended::Megabytes(mib)) => u64::from(mib) << 20,
            // Exactly 32 GiB - 1 MiB, as the size field says by itself.
            Some(MemorySizeExtended::SeeSize) | None => 0x7fff << 20,
        },
        Some(MemorySize::NotInstalled | MemorySize::Unknown) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A memory device of SMBIOS 2.7: size in the word at 0x0c, extended size in the double word at 0x1c.
    fn device(size: u16, extended: u32) -> Vec<u8> {
        let mut bytes = vec![0; 0x22];
        bytes[..4].copy_from_slice(&[17, 0x22, 0x11, 0]);
        bytes[0x0c..0x0e].copy_from_slice(&size.to_le_bytes());
        bytes[0x1c..0x20].copy_from_slice(&extended.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn all_ways_to_write_a_size() {
        for (size, extended, bytes) in [
            (0, 0, 0),
            (0xffff, 0, 0),
            (0x8100, 0, 256 << 10),
            (0x0100, 0, 256 << 20),
            (0x7fff, 0x0001_0000, 64 << 30),
            (0x7fff, 0, 0x7fff << 20),
        ] {
            assert_eq!(Smbios::parse(device(size, extended)).memory_bytes(), bytes, "{size:#x} {extended:#x}");
        }
    }

    #[test]
    fn devices_add_up_until_the_end_of_the_table() {
        let mut table = [device(0x2000, 0), device(0, 0), device(0x7fff, 0x8000)].concat();
        assert_eq!(Smbios::parse(table.clone()).memory_bytes(), 40 << 30);
        table.extend([127, 4, 0, 0, 0, 0]);
        table.extend(device(0x2000, 0));
        assert_eq!(Smbios::parse(table).memory_bytes(), 40 << 30);
    }

    #[test]
    fn a_structure_that_is_too_short_counts_nothing() {
        assert_eq!(Smbios::parse(vec![17, 4, 0, 0, 0, 0]).memory_bytes(), 0);
        assert_eq!(Smbios::parse(vec![17, 200, 0, 0, 0, 0]).memory_bytes(), 0);
        assert_eq!(Smbios::parse(Vec::new()).processor(), None);
    }

    /// Chains of structures with plausible headers reach deeper than plain noise does.
    fn hostile_table() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![Just(0u8), Just(4), Just(17), Just(127), any::<u8>()];
        let structure = (kind, 0u8..80, prop::collection::vec(any::<u8>(), 0..90), any::<bool>());
        prop::collection::vec(structure, 0..12).prop_map(|structures| {
            let mut table = Vec::new();
            for (kind, length, body, ended) in structures {
                table.extend([kind, length, 0, 0]);
                table.extend(body);
                if ended {
                    table.extend([0, 0]);
                }
            }
            table
        })
    }

    fn ask_all(table: Vec<u8>) {
        let smbios = Smbios::parse(table);
        smbios.memory_bytes();
        smbios.processor();
        smbios.is_virtual();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn hostile_tables_never_panic(table in hostile_table()) {
            ask_all(table);
        }

        #[test]
        fn noise_never_panics(table in prop::collection::vec(any::<u8>(), 0..600)) {
            ask_all(table);
        }
    }
}
