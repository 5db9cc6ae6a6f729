//! Our facts in dmidecode's words, compared with what it printed of the same structure. Each structure is taken apart field by
//! field, so that a new field does not compile until it is compared.

use crate::smbios_dmidecode::{
    dump::Block,
    words::{bytes_of, printable, size, size_of_kib, volts},
};
use inventory::smbios::*;

/// Families by number (DSP0134, 7.5.2), of those the dumps have.
const FAMILIES: [(u16, &str); 5] =
    [(0x6b, "Zen"), (0xb3, "Xeon"), (0xcd, "Core i5"), (0x101, "ARMv8"), (0x100, "ARMv7")];
/// Names of later versions of the specification than dmidecode knows.
const NEWER: [&str; 3] = ["CAMM", "HBM3", "0x05"];

/// One structure's facts against its block.
pub(crate) struct Compare<'a> {
    pub handle: u16,
    pub block: &'a Block,
}

impl Compare<'_> {
    fn printed(&self, key: &str) -> Option<&str> {
        let values = self.block.values.get(key)?;
        Some(values.first().map_or("", String::as_str))
    }

    fn list(&self, key: &str) -> &[String] {
        self.block.values.get(key).map_or(&[], Vec::as_slice)
    }

    fn is(&self, key: &str, ours: Option<String>, nothing: &[&str]) {
        let printed = self.printed(key);
        let what = format!("{:#06x} type {} {key}: {ours:?}, dmidecode {printed:?}", self.handle, self.block.kind);
        match (ours, printed) {
            (Some(ours), Some(printed)) => assert!(ours == printed, "{what}"),
            (None, Some(printed)) => assert!(nothing.contains(&printed), "{what}"),
            (None, None) => {}
            (Some(_), None) => panic!("{what}"),
        }
    }

    /// A string of the structure.
    fn text(&self, key: &str, ours: &Option<String>) {
        self.is(key, ours.as_deref().map(printable), &["Not Specified", "<BAD INDEX>", ""]);
    }

    /// What a number is called: itself where dmidecode knows no name.
    fn name(&self, key: &str, ours: &Option<String>) {
        let printed = self.printed(key);
        if let (Some(ours), Some("<OUT OF SPEC>")) = (ours, printed) {
            assert!(ours.starts_with("0x") || NEWER.contains(&ours.as_str()), "{key}: {ours}");
            return;
        }
        self.is(key, ours.clone(), &["Unknown"]);
    }

    fn number<T: ToString>(&self, key: &str, ours: Option<T>, unit: &str, nothing: &[&str]) {
        self.is(key, ours.map(|number| format!("{}{unit}", number.to_string())), nothing);
    }

    fn bus_address(&self, ours: &Option<String>) {
        // dmidecode leaves out an address only if segment, bus, device and function are all ones together.
        let nothing =
            self.printed("Bus Address").filter(|text| text.starts_with("ffff:") || text.ends_with(":ff:1f.7"));
        self.is("Bus Address", ours.clone(), nothing.as_slice());
    }

    fn handle_of(&self, key: &str, ours: Option<u16>) {
        let nothing = ["0xFFFF", "0xFFFE", "Not Provided", "No L1 Cache", "No L2 Cache", "No L3 Cache"];
        self.is(key, ours.map(|handle| format!("0x{handle:04X}")), &nothing);
    }

    pub(crate) fn bios(&self, fact: &Bios) {
        let Bios {
            handle: _,
            vendor,
            version,
            release_date,
            rom_bytes,
            revision,
            embedded_controller_revision,
            uefi,
            virtual_machine,
        } = fact;
        self.text("Vendor", vendor);
        self.text("Version", version);
        self.text("Release Date", release_date);
        let reserved = self.printed("ROM Size").filter(|text| text.ends_with("<OUT OF SPEC>"));
        // From 16 MiB on, dmidecode does not turn 1024 MB into a GB.
        match self.printed("ROM Size").and_then(|text| text.strip_suffix(" MB")) {
            Some(mib) => assert_eq!(*rom_bytes, Some(mib.parse::<u64>().unwrap() << 20)),
            None => match self.printed("ROM Size").and_then(|text| text.strip_suffix(" GB")) {
                Some(gib) => assert_eq!(*rom_bytes, Some(gib.parse::<u64>().unwrap() << 30)),
                None => self.is("ROM Size", rom_bytes.map(size_of_kib), reserved.as_slice()),
            },
        }
        self.is("BIOS Revision", revision.clone(), &[]);
        self.is("Firmware Revision", embedded_controller_revision.clone(), &[]);
        let characteristics = self.list("Characteristics");
        for (ours, words) in [(uefi, "UEFI is supported"), (virtual_machine, "System is a virtual machine")] {
            assert_eq!(ours.unwrap_or(false), characteristics.iter().any(|line| line == words), "{words}");
        }
    }

    pub(crate) fn system(&self, fact: &System) {
        let System {
            handle: _,
            manufacturer,
            product_name,
            version,
            serial_number,
            uuid,
            wake_up_type,
            sku_number,
            family,
        } = fact;
        self.text("Manufacturer", manufacturer);
        self.text("Product Name", product_name);
        self.text("Version", version);
        self.text("Serial Number", serial_number);
        self.is("UUID", uuid.clone(), &["Not Present", "Not Settable"]);
        self.name("Wake-up Type", wake_up_type);
        self.text("SKU Number", sku_number);
        self.text("Family", family);
    }

    pub(crate) fn baseboard(&self, fact: &Baseboard) {
        let Baseboard {
            handle: _,
            manufacturer,
            product,
            version,
            serial_number,
            asset_tag,
            features,
            location,
            chassis_handle,
            board_type,
        } = fact;
        self.text("Manufacturer", manufacturer);
        self.text("Product Name", product);
        self.text("Version", version);
        self.text("Serial Number", serial_number);
        self.text("Asset Tag", asset_tag);
        let words = |feature: &String| match feature.as_str() {
            "hosting board" => "Board is a hosting board".to_owned(),
            "requires a daughter board" => "Board requires at least one daughter board".to_owned(),
            feature => format!("Board is {feature}"),
        };
        self.all_of("Features", features.as_ref().map(|features| features.iter().map(words).collect()));
        self.text("Location In Chassis", location);
        self.handle_of("Chassis Handle", *chassis_handle);
        self.name("Type", board_type);
    }

    /// A list, or `None` printed.
    fn all_of(&self, key: &str, ours: Option<Vec<String>>) {
        let printed = self.block.values.get(key).map(|list| list.iter().filter(|item| *item != "None").cloned());
        assert_eq!(ours, printed.map(Iterator::collect), "{:#06x} {key}", self.handle);
    }

    pub(crate) fn chassis(&self, fact: &Chassis) {
        let Chassis {
            handle: _,
            manufacturer,
            chassis_type,
            lock,
            version,
            serial_number,
            asset_tag,
            boot_up_state,
            power_supply_state,
            thermal_state,
            security_status,
            height_u,
            power_cords,
            sku_number,
        } = fact;
        self.text("Manufacturer", manufacturer);
        self.name("Type", chassis_type);
        self.is("Lock", lock.map(|lock| if lock { "Present" } else { "Not Present" }.to_owned()), &[]);
        self.text("Version", version);
        self.text("Serial Number", serial_number);
        self.text("Asset Tag", asset_tag);
        self.name("Boot-up State", boot_up_state);
        self.name("Power Supply State", power_supply_state);
        self.name("Thermal State", thermal_state);
        self.name("Security Status", security_status);
        self.number("Height", *height_u, " U", &["Unspecified"]);
        self.number("Number Of Power Cords", *power_cords, "", &["Unspecified"]);
        self.text("SKU Number", sku_number);
    }

    pub(crate) fn processor(&self, fact: &Processor) {
        let Processor {
            handle: _,
            socket,
            processor_type,
            populated,
            status,
            family,
            manufacturer,
            id,
            version,
            voltage_mv,
            external_clock_mhz,
            max_speed_mhz,
            current_speed_mhz,
            l1_cache_handle,
            l2_cache_handle,
            l3_cache_handle,
            serial_number,
            asset_tag,
            part_number,
            core_count,
            core_enabled,
            thread_count,
            thread_enabled,
            characteristics,
        } = fact;
        self.text("Socket Designation", socket);
        self.name("Type", processor_type);
        let state = match (populated, status.as_deref()) {
            (Some(false), _) => "Unpopulated".to_owned(),
            (Some(true), None) => "Populated, Unknown".to_owned(),
            (Some(true), Some(status)) if status.starts_with("0x") => "Populated, <OUT OF SPEC>".to_owned(),
            (Some(true), Some(status)) => format!("Populated, {status}"),
            (None, _) => panic!("no status"),
        };
        self.is("Status", Some(state), &[]);
        let printed_family = self.printed("Family").unwrap();
        match family {
            // The latter where the number should be in a word that the structure is too short for.
            None => assert!(matches!(printed_family, "Unknown" | "<OUT OF SPEC>")),
            Some(family) => {
                let known = FAMILIES.iter().find(|(id, name)| id == family || *name == printed_family);
                assert!(known.is_none_or(|known| *known == (*family, printed_family)), "{family:#x} {printed_family}");
            }
        }
        self.text("Manufacturer", manufacturer);
        self.is("ID", id.clone(), &["00 00 00 00 00 00 00 00"]);
        self.text("Version", version);
        let legacy = self.printed("Voltage").filter(|text| {
            let voltages = ["5.0 V", "3.3 V", "2.9 V"];
            *text == "0.0 V" || voltages.iter().any(|voltage| text.starts_with(voltage))
        });
        let volts = voltage_mv.map(|mv| format!("{}.{} V", mv / 1000, mv % 1000 / 100));
        self.is("Voltage", volts, &["Unknown", legacy.unwrap_or("Unknown")]);
        self.number("External Clock", *external_clock_mhz, " MHz", &["Unknown"]);
        self.number("Max Speed", *max_speed_mhz, " MHz", &["Unknown"]);
        self.number("Current Speed", *current_speed_mhz, " MHz", &["Unknown"]);
        self.handle_of("L1 Cache Handle", *l1_cache_handle);
        self.handle_of("L2 Cache Handle", *l2_cache_handle);
        self.handle_of("L3 Cache Handle", *l3_cache_handle);
        self.text("Serial Number", serial_number);
        self.text("Asset Tag", asset_tag);
        self.text("Part Number", part_number);
        // The highest values are counts to dmidecode only.
        let reserved = ["255", "0", "65535"];
        self.number("Core Count", *core_count, "", &reserved);
        self.number("Core Enabled", *core_enabled, "", &reserved);
        self.number("Thread Count", *thread_count, "", &reserved);
        if self.printed("Thread Enabled").is_some() {
            self.number("Thread Enabled", *thread_enabled, "", &reserved);
        }
        // dmidecode looks at the highest bits only where it sees another.
        let high = |name: &String| matches!(name.as_str(), "128-bit Capable" | "Arm64 SoC ID");
        let seen = characteristics.clone().map(|list| if list.iter().all(high) { Vec::new() } else { list });
        self.all_of("Characteristics", seen);
    }

    pub(crate) fn cache(&self, fact: &Cache) {
        let Cache {
            handle: _,
            designation,
            level,
            socketed,
            location,
            enabled,
            mode,
            maximum_bytes,
            installed_bytes,
            speed_ns,
            error_correction,
            cache_type,
            associativity,
        } = fact;
        self.text("Socket Designation", designation);
        let (enabled, socketed) = (enabled.unwrap(), socketed.unwrap());
        let words = [if enabled { "Enabled" } else { "Disabled" }, if socketed { "Socketed" } else { "Not Socketed" }];
        self.is("Configuration", Some(format!("{}, Level {}", words.join(", "), level.unwrap())), &[]);
        self.name("Operational Mode", mode);
        let location = location.clone().filter(|location| location != "Reserved");
        self.is("Location", location, &["Unknown", "<OUT OF SPEC>"]);
        self.is("Maximum Size", maximum_bytes.map(size_of_kib), &["Unknown"]);
        self.is("Installed Size", installed_bytes.map(size_of_kib), &["Unknown"]);
        self.number("Speed", *speed_ns, " ns", &["Unknown"]);
        self.name("Error Correction Type", error_correction);
        self.name("System Type", cache_type);
        self.name("Associativity", associativity);
    }

    pub(crate) fn slot(&self, fact: &Slot) {
        let Slot { handle: _, designation, slot_type, width, usage, length, id, bus_address } = fact;
        self.text("Designation", designation);
        let width = width.as_deref().map(|width| if width.starts_with("0x") { "<OUT OF SPEC>" } else { width });
        let kind = slot_type.as_deref().unwrap_or("Unknown");
        let kind = if kind.starts_with("0x") { "<OUT OF SPEC>" } else { kind };
        // dmidecode's spelling.
        let kind = kind.replace("CXL Flexbus", "CXL FLexbus");
        // Before dmidecode 3.6 both are in one line, the width if it has a name, and the key is that of a number.
        let printed = self.printed("Data Bus Width").filter(|text| text.parse::<u8>().is_err());
        let (expected, kind) = match printed {
            Some(printed) => (printed.rsplit(" or ").next().map(|width| width.replace(" bit", "-bit")), kind),
            None => {
                let prefix = width.filter(|width| *width != "Other").map(|width| format!("{width} "));
                (None, prefix.unwrap_or_default() + &kind)
            }
        };
        assert!(expected.is_none_or(|expected| expected == width.unwrap_or("Unknown")), "{width:?} {printed:?}");
        self.is("Type", Some(kind), &[]);
        self.name("Current Usage", usage);
        self.name("Length", length);
        if let Some(printed) = self.printed("ID") {
            let [low, high] = id.unwrap().to_le_bytes();
            // Some versions print the low byte of a number that is a word (7.10.5).
            let whole = u16::from_le_bytes([low, high]);
            let words = [whole.to_string(), low.to_string(), format!("Adapter {low}, Socket {high}")];
            assert!(words.contains(&printed.to_owned()), "{id:?} {printed}");
        }
        self.bus_address(bus_address);
    }

    pub(crate) fn memory_array(&self, fact: &MemoryArray) {
        let MemoryArray { handle: _, location, usage, error_correction, maximum_capacity_bytes, device_count } = fact;
        // Before dmidecode 3.6 a slot's name.
        let is_slot =
            self.printed("Location") == Some("CXL Flexbus 1.0") && location.as_deref() == Some("CXL Add-on Card");
        if !is_slot {
            self.name("Location", location);
        }
        self.name("Use", usage);
        self.name("Error Correction Type", error_correction);
        self.is("Maximum Capacity", maximum_capacity_bytes.map(size), &["Unknown", "0 bytes", "0 kB"]);
        self.number("Number Of Devices", *device_count, "", &[]);
    }

    pub(crate) fn memory_device(&self, fact: &MemoryDevice) {
        let MemoryDevice {
            handle: _,
            array_handle,
            locator,
            bank_locator,
            installed,
            size_bytes,
            form_factor,
            memory_type,
            type_detail,
            technology,
            total_width_bits,
            data_width_bits,
            speed_mts,
            configured_speed_mts,
            rank,
            manufacturer,
            serial_number,
            asset_tag,
            part_number,
            firmware_version,
            minimum_voltage_mv,
            maximum_voltage_mv,
            configured_voltage_mv,
            non_volatile_bytes,
            volatile_bytes,
        } = fact;
        self.handle_of("Array Handle", *array_handle);
        self.text("Locator", locator);
        self.text("Bank Locator", bank_locator);
        assert_eq!(*installed, Some(self.printed("Size") != Some("No Module Installed")));
        match size_bytes {
            None => self.is("Size", None, &["No Module Installed", "Unknown"]),
            Some(bytes) => assert_eq!(bytes_of(self.printed("Size").unwrap()), *bytes),
        }
        self.name("Form Factor", form_factor);
        self.name("Type", memory_type);
        let detail = type_detail.clone().filter(|list| !list.is_empty()).map(|list| list.join(" "));
        let printed = self.printed("Type Detail").map(|text| text.replace("Unknown ", "").replace(" Unknown", ""));
        let printed = printed.filter(|text| !matches!(text.as_str(), "None" | "Unknown"));
        assert_eq!(detail, printed, "{:#06x} Type Detail", self.handle);
        self.number("Total Width", *total_width_bits, " bits", &["Unknown"]);
        self.number("Data Width", *data_width_bits, " bits", &["Unknown"]);
        if *installed == Some(false) && self.printed("Manufacturer").is_none() {
            // dmidecode stops here at an empty socket.
            return;
        }
        self.name("Memory Technology", &technology.as_ref().map(|name| name.replace("Optane", "Optane DC")));
        self.speed("Speed", *speed_mts);
        self.speed("Configured Memory Speed", *configured_speed_mts);
        self.number("Rank", *rank, "", &["Unknown"]);
        self.text("Manufacturer", manufacturer);
        self.text("Serial Number", serial_number);
        self.text("Asset Tag", asset_tag);
        self.text("Part Number", part_number);
        self.text("Firmware Version", firmware_version);
        self.is("Minimum Voltage", minimum_voltage_mv.map(volts), &["Unknown"]);
        self.is("Maximum Voltage", maximum_voltage_mv.map(volts), &["Unknown"]);
        self.is("Configured Voltage", configured_voltage_mv.map(volts), &["Unknown"]);
        let portion = |bytes: Option<u64>| bytes.map(|bytes| if bytes == 0 { "None".to_owned() } else { size(bytes) });
        self.is("Non-Volatile Size", portion(*non_volatile_bytes), &["Unknown"]);
        self.is("Volatile Size", portion(*volatile_bytes), &["Unknown"]);
    }

    /// dmidecode prints the reserved highest bit too.
    fn speed(&self, key: &str, ours: Option<u32>) {
        let printed = self.printed(key).and_then(|text| text.strip_suffix(" MT/s")?.parse::<u32>().ok());
        match printed {
            Some(printed) => assert_eq!(ours.unwrap_or(0), printed & 0x7fff_ffff, "{key}"),
            None => self.number(key, ours, " MT/s", &["Unknown"]),
        }
    }

    pub(crate) fn boot_status(&self, fact: &BootStatus) {
        let BootStatus { handle: _, status } = fact;
        let status = status.clone().map(|status| match status.split_once(" 0x") {
            Some((whose, _)) => whose.to_owned(),
            None => status,
        });
        self.name("Status", &status);
    }

    pub(crate) fn ipmi_device(&self, fact: &IpmiDevice) {
        let IpmiDevice {
            handle: _,
            interface_type,
            specification_version,
            i2c_address,
            nv_storage_address,
            address_space,
            base_address,
            register_spacing_bytes,
            interrupt,
        } = fact;
        self.name("Interface Type", interface_type);
        self.is("Specification Version", specification_version.clone(), &[]);
        self.is("I2C Slave Address", i2c_address.map(|address| format!("0x{address:02x}")), &[]);
        self.number("NV Storage Device Address", *nv_storage_address, "", &[]);
        assert_eq!(nv_storage_address.is_none(), self.printed("NV Storage Device") == Some("Not Present"));
        let digits = if address_space.as_deref() == Some("SMBus") { 2 } else { 16 };
        let address = base_address.zip(address_space.clone());
        let address = address.map(|(address, space)| format!("0x{address:0digits$X} ({space})"));
        self.is("Base Address", address, &[]);
        let spacing = register_spacing_bytes.map(|bytes| match bytes {
            1 => "Successive Byte Boundaries".to_owned(),
            4 => "32-bit Boundaries".to_owned(),
            bytes => format!("{bytes}-byte Boundaries"),
        });
        self.is("Register Spacing", spacing, &["<OUT OF SPEC>"]);
        self.number("Interrupt Number", *interrupt, "", &[]);
    }

    pub(crate) fn supply(&self, fact: &Supply) {
        let Supply {
            handle: _,
            group,
            location,
            name,
            manufacturer,
            serial_number,
            asset_tag,
            part_number,
            revision,
            capacity_watts,
            is_present,
            is_unplugged,
            is_hot_replaceable,
            status,
            supply_type,
            range_switching,
        } = fact;
        self.number("Power Unit Group", *group, "", &[]);
        self.text("Location", location);
        self.text("Name", name);
        self.text("Manufacturer", manufacturer);
        self.text("Serial Number", serial_number);
        self.text("Asset Tag", asset_tag);
        self.text("Model Part Number", part_number);
        self.text("Revision", revision);
        self.number("Max Power Capacity", *capacity_watts, " W", &["Unknown"]);
        let printed = self.printed("Status").and_then(|text| text.strip_prefix("Present, "));
        assert_eq!(is_present.unwrap(), printed.is_some());
        match (status.as_deref(), printed) {
            (ours, Some(printed)) if printed != "<OUT OF SPEC>" => assert_eq!(ours.unwrap_or("Unknown"), printed),
            (Some(ours), Some(_)) => assert!(ours.starts_with("0x"), "{ours}"),
            _ => {}
        }
        self.name("Type", supply_type);
        self.name("Input Voltage Range Switching", range_switching);
        let yes = |yes: bool| Some(if yes { "Yes" } else { "No" }.to_owned());
        self.is("Plugged", is_unplugged.and_then(|is| yes(!is)), &[]);
        self.is("Hot Replaceable", is_hot_replaceable.and_then(yes), &[]);
    }

    /// dmidecode prints nothing of records that it does not understand.
    pub(crate) fn host_interface(&self, fact: &HostInterface) {
        let HostInterface {
            handle: _,
            interface_type,
            device_type,
            device_id,
            // Of forms newer than dmidecode's.
            mac_address: _,
            service_uuid,
            host_address_from,
            host_address,
            host_mask,
            service_address_from,
            service_address,
            service_mask,
            service_port,
            service_vlan,
            service_hostname,
        } = fact;
        self.name("Host Interface Type", interface_type);
        self.is("Device Type", device_type.clone(), &["<OUT OF SPEC>", "OEM"]);
        let usb =
            device_id.as_ref().and_then(|id| id.split_once(':')).filter(|_| device_type.as_deref() == Some("USB"));
        self.is("idVendor", usb.map(|(vendor, _)| format!("0x{vendor}")), &[]);
        self.is("idProduct", usb.map(|(_, product)| format!("0x{product}")), &[]);
        // Lines of a list behind the protocol's name.
        let record = self.list("Protocol ID");
        let has = |key: &str, ours: Option<String>| {
            let line = record.iter().find_map(|line| line.strip_prefix(&format!("{key}: ")));
            let line = line.filter(|line| *line != "Unknown");
            assert_eq!(ours.as_deref(), line, "{:#06x} {key}: {record:?}", self.handle);
        };
        has("Service UUID", service_uuid.clone());
        has("Host IP Assignment Type", host_address_from.clone());
        let of_family = |key: &str, ours: &Option<String>| {
            let family = if ours.as_ref().is_some_and(|address| address.contains(':')) { "IPv6" } else { "IPv4" };
            has(&format!("{family} {key}"), ours.clone());
        };
        of_family("Address", host_address);
        of_family("Mask", host_mask);
        has("Redfish Service IP Discovery Type", service_address_from.clone());
        of_family("Redfish Service Address", service_address);
        of_family("Redfish Service Mask", service_mask);
        has("Redfish Service Port", service_port.map(|port| port.to_string()));
        has("Redfish Service Vlan", service_vlan.map(|vlan| vlan.to_string()));
        has("Redfish Service Hostname", service_hostname.clone());
    }

    pub(crate) fn firmware_component(&self, fact: &FirmwareComponent) {
        let FirmwareComponent {
            handle: _,
            component,
            version,
            firmware_id,
            release_date,
            manufacturer,
            lowest_supported_version,
            image_bytes,
            is_updatable,
            is_write_protected,
            firmware_state,
        } = fact;
        self.text("Firmware Component Name", component);
        // Of a real one dmidecode shows the line's end as dots.
        let printed = self.printed("Firmware Version").filter(|text| text.ends_with(".."));
        match (printed, version) {
            (Some(printed), Some(version)) => assert_eq!(printed.trim_end_matches('.'), printable(version)),
            _ => self.text("Firmware Version", version),
        }
        self.text("Firmware ID", firmware_id);
        self.text("Release Date", release_date);
        self.text("Manufacturer", manufacturer);
        self.text("Lowest Supported Firmware Version", lowest_supported_version);
        self.is("Image Size", image_bytes.map(size), &["Unknown", "None"]);
        let yes = |name: &str, yes: bool| format!("{name}: {}", if yes { "Yes" } else { "No" });
        let bits = is_updatable.zip(*is_write_protected);
        let bits = bits.map(|(can, protected)| vec![yes("Updatable", can), yes("Write-Protect", protected)]);
        self.all_of("Characteristics", bits);
        self.name("State", firmware_state);
    }

    pub(crate) fn onboard_device(&self, fact: &OnboardDevice) {
        let OnboardDevice { handle: _, designation, device_type, enabled, instance, bus_address } = fact;
        self.text("Reference Designation", designation);
        self.name("Type", device_type);
        self.is("Status", enabled.map(|on| if on { "Enabled" } else { "Disabled" }.to_owned()), &[]);
        self.number("Type Instance", *instance, "", &[]);
        self.bus_address(bus_address);
    }

    pub(crate) fn tpm(&self, fact: &Tpm) {
        let Tpm { handle: _, vendor_id, specification_version, firmware_version, description } = fact;
        self.is("Vendor ID", vendor_id.clone(), &[""]);
        self.is("Specification Version", specification_version.clone(), &[]);
        self.is("Firmware Revision", firmware_version.clone(), &[]);
        self.text("Description", description);
    }
}
