//! What the firmware says in its SMBIOS table (DSP0134, 3.7). The bytes come from the firmware and are hostile.
//!
//! Each structure type is declared once: its facts, what they mean, and where they stand. A fact that the table leaves open is
//! `None`; a text is as the firmware has it, trimmed: a real serial number as well as `Default string`.

mod expansion;
mod memory;
mod platform;
mod processor;
mod structure;
mod supply;

pub use expansion::{OnboardDevice, Slot};
pub use memory::{MemoryArray, MemoryDevice};
pub use platform::{Baseboard, Bios, BootStatus, Chassis, IpmiDevice, System, Tpm};
pub use processor::{Cache, Processor};
pub use structure::Version;
pub use supply::{FirmwareComponent, HostInterface, Supply};

use crate::Root;
use serde::{Deserialize, Serialize};
use structure::{Decode, Structure, structures};

/// The structure table without its entry point, readable by root alone.
const TABLE: &str = "/sys/firmware/dmi/tables/DMI";
const ENTRY_POINT: &str = "/sys/firmware/dmi/tables/smbios_entry_point";
/// Real tables are a few KiB to about 100 KiB; the format allows 4 GiB.
const MAX_TABLE_BYTES: usize = 1 << 20;
const MAX_ENTRY_POINT_BYTES: usize = 256;
/// Texts of the machine's maker (7.12), and where their number is.
const OEM_STRINGS: u8 = 11;
const OEM_STRING_COUNT: usize = 0x04;

/// The table; empty if it is missing.
#[derive(Clone, Debug, Default)]
pub struct Smbios {
    table: Vec<u8>,
    version: Option<Version>,
}

/// All that is decoded of a table, each list in the table's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Facts {
    /// Version of the specification the table was made by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios: Option<Bios>,
    /// The machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// Boards.
    pub baseboards: Vec<Baseboard>,
    /// Chassis, of a blade also the one around it.
    pub chassis: Vec<Chassis>,
    /// Processor sockets.
    pub processors: Vec<Processor>,
    /// Caches.
    pub caches: Vec<Cache>,
    /// Expansion slots.
    pub slots: Vec<Slot>,
    /// Texts of the machine's maker.
    pub oem_strings: Vec<String>,
    /// Sets of memory sockets.
    pub memory_arrays: Vec<MemoryArray>,
    /// Memory modules and empty sockets.
    pub memory_devices: Vec<MemoryDevice>,
    /// How the last boot went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_status: Option<BootStatus>,
    /// Interfaces to management controllers.
    pub ipmi_devices: Vec<IpmiDevice>,
    /// Devices on the system board.
    pub onboard_devices: Vec<OnboardDevice>,
    /// Trusted platform modules.
    pub tpms: Vec<Tpm>,
    /// Power supplies.
    pub supplies: Vec<Supply>,
    /// Interfaces of the host to management controllers.
    pub host_interfaces: Vec<HostInterface>,
    /// Pieces of firmware.
    pub firmware_components: Vec<FirmwareComponent>,
}

impl Smbios {
    /// Reads the table and the version; one that is missing, unreadable or too large is empty.
    pub fn read(root: &Root) -> Self {
        let read = |path, limit_bytes| {
            root.read(path, limit_bytes).inspect_err(|error| tracing::debug!(path, %error, "no SMBIOS table")).ok()
        };
        let version = read(ENTRY_POINT, MAX_ENTRY_POINT_BYTES).and_then(|bytes| Version::parse(&bytes));
        Self { table: read(TABLE, MAX_TABLE_BYTES).unwrap_or_default(), version }
    }

    /// Takes a table of a version that is not known, thus of 2.6 or later.
    pub fn parse(table: Vec<u8>) -> Self {
        Self { table, version: None }
    }

    /// The table as it is.
    pub fn table_bytes(&self) -> &[u8] {
        &self.table
    }

    /// Version of the specification the table was made by.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Sum of the sizes of all memory devices (type 17), bytes; 0 when none has one.
    pub fn memory_bytes(&self) -> u64 {
        self.typed::<MemoryDevice>().filter_map(|device| memory::size_bytes(&device)).fold(0, u64::saturating_add)
    }

    /// Name of the first processor (type 4) that has one.
    pub fn processor(&self) -> Option<String> {
        self.typed::<Processor>().find_map(|processor| Processor::decode(&processor).version)
    }

    /// Serial numbers, asset tags, and the addresses and UUIDs of host interfaces; also of structures that are not decoded.
    pub(crate) fn serials(&self) -> Vec<String> {
        // Type, and where the numbers of the strings stand (DSP0134, 7.2 to 7.5, 7.18, 7.23, 7.40).
        const STRINGS: [(u8, &[usize]); 7] =
            [(1, &[7]), (2, &[7, 8]), (3, &[7, 8]), (4, &[0x20, 0x21]), (17, &[0x18, 0x19]), (22, &[7]), (39, &[8, 9])];
        let places = |kind| STRINGS.iter().filter(move |(of, _)| *of == kind).flat_map(|(_, places)| *places);
        let texts = self.structures().flat_map(|s| places(s.kind).filter_map(move |&at| s.text(at)));
        let hosts = self.host_interfaces().into_iter();
        texts.chain(hosts.flat_map(|host| host.mac_address.into_iter().chain(host.service_uuid))).collect()
    }

    /// Whether the firmware says that it is a virtual machine's; `None` when it is too old to say.
    pub fn is_virtual(&self) -> Option<bool> {
        self.bios()?.virtual_machine
    }

    /// All that is decoded of the table.
    pub fn facts(&self) -> Facts {
        Facts {
            version: self.version,
            bios: self.bios(),
            system: self.system(),
            baseboards: self.baseboards(),
            chassis: self.chassis(),
            processors: self.processors(),
            caches: self.caches(),
            slots: self.slots(),
            oem_strings: self.oem_strings(),
            memory_arrays: self.memory_arrays(),
            memory_devices: self.memory_devices(),
            boot_status: self.boot_status(),
            ipmi_devices: self.ipmi_devices(),
            onboard_devices: self.onboard_devices(),
            tpms: self.tpms(),
            supplies: self.supplies(),
            host_interfaces: self.host_interfaces(),
            firmware_components: self.firmware_components(),
        }
    }

    /// The firmware (type 0).
    pub fn bios(&self) -> Option<Bios> {
        self.first()
    }

    /// The machine (type 1).
    pub fn system(&self) -> Option<System> {
        self.first()
    }

    /// Boards (type 2).
    pub fn baseboards(&self) -> Vec<Baseboard> {
        self.all()
    }

    /// Chassis (type 3).
    pub fn chassis(&self) -> Vec<Chassis> {
        self.all()
    }

    /// Processor sockets (type 4).
    pub fn processors(&self) -> Vec<Processor> {
        self.all()
    }

    /// Caches (type 7).
    pub fn caches(&self) -> Vec<Cache> {
        self.all()
    }

    /// Expansion slots (type 9).
    pub fn slots(&self) -> Vec<Slot> {
        self.all()
    }

    /// Texts of the machine's maker (type 11).
    pub fn oem_strings(&self) -> Vec<String> {
        let strings = self.structures().filter(|structure| structure.kind == OEM_STRINGS);
        strings.flat_map(|s| s.texts(s.byte(OEM_STRING_COUNT).unwrap_or(0).into())).collect()
    }

    /// Sets of memory sockets (type 16).
    pub fn memory_arrays(&self) -> Vec<MemoryArray> {
        self.all()
    }

    /// Memory modules and empty sockets (type 17).
    pub fn memory_devices(&self) -> Vec<MemoryDevice> {
        self.all()
    }

    /// How the last boot went (type 32).
    pub fn boot_status(&self) -> Option<BootStatus> {
        self.first()
    }

    /// Interfaces to management controllers (type 38).
    pub fn ipmi_devices(&self) -> Vec<IpmiDevice> {
        self.all()
    }

    /// Devices on the system board (type 41).
    pub fn onboard_devices(&self) -> Vec<OnboardDevice> {
        self.all()
    }

    /// Trusted platform modules (type 43).
    pub fn tpms(&self) -> Vec<Tpm> {
        self.all()
    }

    /// Power supplies (type 39).
    pub fn supplies(&self) -> Vec<Supply> {
        self.all()
    }

    /// Interfaces of the host to management controllers (type 42).
    pub fn host_interfaces(&self) -> Vec<HostInterface> {
        self.all()
    }

    /// Pieces of firmware (type 45).
    pub fn firmware_components(&self) -> Vec<FirmwareComponent> {
        self.all()
    }

    fn structures(&self) -> impl Iterator<Item = Structure<'_>> {
        structures(&self.table, self.version)
    }

    fn typed<T: Decode>(&self) -> impl Iterator<Item = Structure<'_>> {
        self.structures().filter(|structure| structure.kind == T::KIND)
    }

    fn all<T: Decode>(&self) -> Vec<T> {
        self.typed::<T>().map(|structure| T::decode(&structure)).collect()
    }

    fn first<T: Decode>(&self) -> Option<T> {
        self.typed::<T>().next().map(|structure| T::decode(&structure))
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
        let kind = prop_oneof![4 => 0u8..46, 1 => any::<u8>()];
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
        serde_json::to_string(&smbios.facts()).unwrap();
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
