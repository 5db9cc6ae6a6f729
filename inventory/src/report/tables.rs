//! Which fields of the report's longer lists have a column on its page.

use serde_json::{Map, Value};

/// A list whose elements have a line each.
pub(super) struct Table {
    /// Name of the list.
    pub list: &'static str,
    /// Heads and texts of the columns; a text stays empty unless the element has all fields in it.
    pub columns: &'static [(&'static str, &'static str)],
    /// Elements that are only counted, and what they are called.
    pub but: Option<(Hides, &'static str)>,
}

/// Whether an element is hidden.
type Hides = fn(&Map<String, Value>) -> bool;

/// How the lists of these names are shown.
pub(super) const TABLES: [Table; 43] = [
    Table {
        list: "baseboards",
        columns: &[
            ("board", "{product}"),
            ("maker", "{manufacturer}"),
            ("version", "{version}"),
            ("serial", "{serial_number}"),
            ("asset", "{asset_tag}"),
        ],
        but: None,
    },
    Table {
        list: "chassis",
        columns: &[
            ("chassis", "{chassis_type}"),
            ("maker", "{manufacturer}"),
            ("version", "{version}"),
            ("serial", "{serial_number}"),
            ("asset", "{asset_tag}"),
        ],
        but: None,
    },
    Table {
        list: "resources",
        columns: &[
            ("firmware", "{type}"),
            ("class", "{class}"),
            ("version", "{version}"),
            ("last attempt", "{last_attempt_version}"),
            ("status", "{last_attempt_status}"),
        ],
        but: None,
    },
    Table {
        list: "components",
        columns: &[
            ("component", "{component}"),
            ("version", "{version}"),
            ("date", "{release_date}"),
            ("maker", "{manufacturer}"),
            ("state", "{firmware_state}"),
            ("lowest", "{lowest_supported_version}"),
        ],
        but: None,
    },
    Table {
        list: "host_interfaces",
        columns: &[
            ("interface", "{interface_type}"),
            ("on", "{device_type}"),
            ("id", "{device_id}"),
            ("host", "{host_address}"),
            ("service", "{service_address}"),
            ("port", "{service_port}"),
            ("name", "{service_hostname}"),
        ],
        but: None,
    },
    Table {
        list: "ipmi_interfaces",
        columns: &[
            ("interface", "{interface_type}"),
            ("ipmi", "{specification_version}"),
            ("address", "{address_space} {base_address}"),
            ("interrupt", "{interrupt}"),
        ],
        but: None,
    },
    Table {
        list: "power_supply_units",
        columns: &[
            ("supply", "{name}"),
            ("maker", "{manufacturer}"),
            ("model", "{model}"),
            ("part", "{part_number}"),
            ("serial", "{serial_number}"),
            ("capacity", "{capacity_watts}"),
            ("state", "{power_supply_state}"),
        ],
        but: None,
    },
    Table {
        list: "channels",
        columns: &[
            ("channel", "{number}"),
            ("mac", "{mac_address}"),
            ("ipv4", "{ipv4_address}"),
            ("from", "{ipv4_source}"),
            ("vlan", "{vlan_id}"),
            ("ipv6", "{ipv6_address}"),
        ],
        but: None,
    },
    Table {
        list: "frus",
        columns: &[
            ("fru", "{name}"),
            ("of", "{entity}"),
            ("maker", "{product.manufacturer|board.manufacturer}"),
            ("product", "{product.product|board.product}"),
            ("part", "{product.part_number|board.part_number|chassis.part_number}"),
            ("serial", "{product.serial_number|board.serial_number|chassis.serial_number}"),
            ("capacity", "{power_supply.capacity_watts}"),
        ],
        but: None,
    },
    Table {
        list: "sensor_readings",
        columns: &[
            ("sensor", "{name}"),
            ("of", "{entity}"),
            ("type", "{type}"),
            ("now", "{reading}"),
            ("unit", "{unit}"),
            ("state", "{sensor_state}"),
            ("low", "{lower_critical|lower_non_critical}"),
            ("high", "{upper_critical|upper_non_critical}"),
        ],
        but: Some((reads_nothing, "sensors that are not available")),
    },
    Table {
        list: "satellites",
        columns: &[
            ("controller", "{name}"),
            ("channel", "{channel}"),
            ("address", "{slave_address}"),
            ("of", "{entity}"),
        ],
        but: None,
    },
    Table {
        list: "last_events",
        columns: &[
            ("event", "{number}"),
            ("time", "{time|after_start_seconds}"),
            ("sensor", "{sensor}"),
            ("type", "{sensor_type}"),
            ("what", "{event}"),
            ("began", "{is_asserted}"),
            ("data", "{data}"),
        ],
        but: None,
    },
    Table {
        list: "sockets",
        columns: &[
            ("socket", "{socket}"),
            ("processor", "{version}"),
            ("cores", "{core_enabled} of {core_count}"),
            ("threads", "{thread_count}"),
            ("max", "{max_speed_mhz}"),
            ("status", "{status}"),
        ],
        but: None,
    },
    Table {
        list: "packages",
        columns: &[
            ("package", "{id}"),
            ("maker", "{vendor_id}"),
            ("model", "{model_name}"),
            ("cores", "{cores}"),
            ("threads", "{threads}"),
            ("family/model/step", "{family}/{model}/{stepping}"),
            ("microcode", "{microcode}"),
            ("cpus", "{cpus}"),
        ],
        but: None,
    },
    Table {
        list: "caches",
        columns: &[
            ("cache", "L{level}"),
            ("type", "{type}"),
            ("size", "{size_bytes}"),
            ("ways", "{ways}"),
            ("line", "{line_bytes}"),
            ("instances", "{instances}"),
        ],
        but: None,
    },
    Table {
        list: "numa_nodes",
        columns: &[
            ("node", "{id}"),
            ("cpus", "{cpus}"),
            ("memory", "{memory_bytes}"),
            ("distances", "{distances}"),
            ("tier", "{memory_tier}"),
            ("reads", "{read_mb_per_second}"),
            ("latency", "{read_latency_nanoseconds}"),
        ],
        but: None,
    },
    Table {
        list: "arrays",
        columns: &[
            ("array", "{location}"),
            ("usage", "{usage}"),
            ("error correction", "{error_correction}"),
            ("sockets", "{device_count}"),
            ("capacity", "{maximum_capacity_bytes}"),
        ],
        but: None,
    },
    Table {
        list: "devices",
        columns: &[
            ("slot", "{locator}"),
            ("bank", "{bank_locator}"),
            ("size", "{size_bytes}"),
            ("type", "{memory_type}"),
            ("speed", "{configured_speed_mts}"),
            ("rank", "{rank}"),
            ("maker", "{manufacturer}"),
            ("part", "{part_number}"),
            ("serial", "{serial_number}"),
        ],
        but: None,
    },
    Table {
        list: "controllers",
        columns: &[
            ("controller", "{name}"),
            ("model", "{model}"),
            ("size", "{size_bytes}"),
            ("corrected", "{corrected_errors}"),
            ("uncorrected", "{uncorrected_errors}"),
        ],
        but: None,
    },
    Table {
        list: "slots",
        columns: &[
            ("slot", "{designation}"),
            ("type", "{slot_type}"),
            ("width", "{width}"),
            ("usage", "{usage}"),
            ("functions", "{functions}"),
        ],
        but: None,
    },
    Table {
        list: "onboard_devices",
        columns: &[
            ("device", "{designation}"),
            ("type", "{device_type}"),
            ("enabled", "{enabled}"),
            ("address", "{bus_address}"),
        ],
        but: None,
    },
    Table {
        list: "tpms",
        columns: &[
            ("tpm", "{name}"),
            ("version", "{version}"),
            ("maker", "{details.manufacturer}"),
            ("model", "{details.vendor_text}"),
            ("firmware", "{details.firmware_version}"),
            ("revision", "{details.revision}"),
            ("pcr banks", "{pcr_banks}"),
            ("log", "{measured_boot.outcome}"),
            ("description", "{description}"),
        ],
        but: None,
    },
    Table {
        list: "thermal_zones",
        columns: &[
            ("zone", "{name}"),
            ("type", "{type}"),
            ("now", "{temperature_celsius}"),
            ("critical", "{critical_celsius}"),
        ],
        but: None,
    },
    Table {
        list: "power_supplies",
        columns: &[
            ("supply", "{name}"),
            ("type", "{type}"),
            ("model", "{model_name}"),
            ("online", "{online}"),
            ("status", "{status}"),
            ("health", "{health}"),
            ("charge", "{charge_percent}"),
        ],
        but: None,
    },
    Table {
        list: "disks",
        columns: &[
            ("disk", "{name}"),
            ("transport", "{transport}"),
            ("size", "{size_bytes}"),
            ("vendor", "{vendor}"),
            ("model", "{model}"),
            ("firmware", "{firmware_version}"),
            ("serial", "{serial}"),
            ("bus id", "{bus_id}"),
            ("discipline", "{discipline}"),
            ("state", "{state}"),
            ("now", "{smart.temperature_celsius|scsi_log.temperature_celsius}"),
            ("failing", "{smart.is_failing|scsi_log.is_failing}"),
            ("on", "{scsi_log.power_on_hours}"),
            ("defects", "{scsi_log.grown_defects}"),
        ],
        but: None,
    },
    Table {
        list: "nvme_controllers",
        columns: &[
            ("controller", "{name}"),
            ("address", "{pci_address}"),
            ("state", "{state}"),
            ("firmware", "{firmware_version}"),
            ("now", "{smart.temperature_celsius}"),
            ("used", "{smart.used_percent}"),
            ("spare", "{smart.available_spare_percent}"),
            ("on", "{smart.power_on_hours}"),
            ("written", "{smart.written_bytes}"),
            ("errors", "{smart.media_errors}"),
        ],
        but: None,
    },
    Table {
        list: "adapters",
        columns: &[
            ("adapter", "{address}"),
            ("driver", "{driver}"),
            ("model", "{model}"),
            ("firmware", "{firmware_version}"),
            ("settings", "{nvdata_version}"),
            ("serial", "{serial}"),
            ("now", "{temperature_celsius}"),
        ],
        but: None,
    },
    Table {
        list: "raid_controllers",
        columns: &[
            ("raid controller", "{address}"),
            ("model", "{model}"),
            ("firmware", "{firmware_version}"),
            ("package", "{package_version}"),
            ("serial", "{serial}"),
            ("memory", "{memory_bytes}"),
            ("now", "{temperature_celsius}"),
            ("cache", "{cache_state}"),
            ("battery", "{battery.type}"),
            ("healthy", "{battery.is_healthy}"),
            ("charge", "{battery.charge_percent}"),
        ],
        but: None,
    },
    Table {
        list: "raid_volumes",
        columns: &[
            ("raid volume", "{controller} {number}"),
            ("name", "{name}"),
            ("disk", "{disk}"),
            ("level", "{level}"),
            ("size", "{size_bytes}"),
            ("state", "{state}"),
            ("cache", "{write_cache}"),
            ("drives", "{drives}"),
        ],
        but: None,
    },
    Table {
        list: "raid_drives",
        columns: &[
            ("raid drive", "{controller} {bay|number}"),
            ("state", "{state}"),
            ("type", "{transport}"),
            ("medium", "{medium}"),
            ("size", "{size_bytes}"),
            ("vendor", "{vendor}"),
            ("model", "{model}"),
            ("firmware", "{firmware_version}"),
            ("serial", "{serial}"),
            ("now", "{temperature_celsius|smart.temperature_celsius|scsi_log.temperature_celsius}"),
            ("used", "{used_percent}"),
            ("errors", "{media_errors}"),
            ("failing", "{smart.is_failing|scsi_log.is_failing}"),
        ],
        but: None,
    },
    Table {
        list: "cxl_memory",
        columns: &[
            ("cxl memory", "{name}"),
            ("address", "{pci_address}"),
            ("volatile", "{ram_bytes}"),
            ("persistent", "{persistent_bytes}"),
            ("firmware", "{firmware_version}"),
            ("serial", "{serial}"),
            ("state", "{health.media_state}"),
            ("now", "{health.temperature_celsius}"),
            ("used", "{health.used_percent}"),
        ],
        but: None,
    },
    Table {
        list: "sas_expanders",
        columns: &[
            ("expander", "{name}"),
            ("vendor", "{vendor}"),
            ("model", "{model}"),
            ("firmware", "{firmware_version}"),
            ("level", "{level}"),
        ],
        but: None,
    },
    Table {
        list: "sas_phys",
        columns: &[
            ("sas link", "{name}"),
            ("attached", "{device_type}"),
            ("speed", "{speed_mbps}"),
            ("max", "{max_speed_mbps}"),
            ("invalid", "{invalid_dwords}"),
            ("disparity", "{disparity_errors}"),
            ("sync lost", "{sync_losses}"),
            ("resets", "{reset_problems}"),
        ],
        but: None,
    },
    Table {
        list: "enclosures",
        columns: &[
            ("enclosure", "{name}"),
            ("address", "{pci_address}"),
            ("vendor", "{vendor}"),
            ("model", "{model}"),
            ("firmware", "{firmware_version}"),
            ("conditions", "{conditions}"),
        ],
        but: None,
    },
    Table {
        list: "enclosure_bays",
        columns: &[("bay", "{enclosure} {number}"), ("name", "{name}"), ("state", "{state}"), ("disk", "{disk}")],
        but: None,
    },
    Table {
        list: "enclosure_parts",
        columns: &[
            ("part", "{enclosure} {type} {number}"),
            ("name", "{name}"),
            ("state", "{state}"),
            ("speed", "{speed_rpm}"),
            ("now", "{temperature_celsius}"),
            ("voltage", "{voltage_millivolts}"),
            ("current", "{current_milliamperes}"),
            ("problems", "{problems}"),
        ],
        but: None,
    },
    Table {
        list: "interfaces",
        columns: &[
            ("interface", "{name}"),
            ("address", "{pci_address}"),
            ("driver", "{driver}"),
            ("firmware", "{firmware_version}"),
            ("speed", "{speed_mbps}"),
            ("mac", "{permanent_mac_address}"),
        ],
        but: None,
    },
    Table {
        list: "interfaces",
        columns: &[
            ("interface", "{name}"),
            ("carrier", "{has_carrier}"),
            ("duplex", "{duplex}"),
            ("port", "{port}"),
            ("node", "{numa_node}"),
            ("VFs", "{virtual_functions} of {max_virtual_functions}"),
            ("own lldp", "{has_firmware_lldp}"),
        ],
        but: None,
    },
    Table {
        list: "interfaces",
        columns: &[
            ("interface", "{name}"),
            ("fec", "{ethernet.fec_active}"),
            ("lanes", "{ethernet.lanes}"),
            ("downs", "{ethernet.link_downs|ethernet.carrier_losses}"),
            ("no link", "{ethernet.down_reason}"),
        ],
        but: None,
    },
    Table {
        list: "interfaces",
        columns: &[
            ("interface", "{name}"),
            ("module", "{module.form}"),
            ("maker", "{module.vendor}"),
            ("part", "{module.part_number}"),
            ("serial", "{module.serial_number}"),
            ("media", "{module.media}"),
            ("now", "{module.temperature_celsius}"),
            ("flags", "{module.raised_flags}"),
        ],
        but: None,
    },
    Table {
        list: "accelerators",
        columns: &[
            ("accelerator", "{address}"),
            ("driver", "{driver}"),
            ("model", "{model}"),
            ("memory", "{memory_size_bytes}"),
            ("bios", "{vbios_version}"),
            ("serial", "{serial_number}"),
        ],
        but: None,
    },
    Table {
        list: "usb_devices",
        columns: &[
            ("device", "{name}"),
            ("id", "{vendor_id}:{product_id}"),
            ("maker", "{manufacturer}"),
            ("model", "{model}"),
            ("speed", "{speed_mbps}"),
            ("class", "{classes}"),
            ("driver", "{drivers}"),
        ],
        but: None,
    },
    Table {
        list: "pci",
        columns: &[
            ("address", "{address}"),
            ("class", "{class|class_id}"),
            ("vendor", "{vendor|vendor_id}"),
            ("device", "{device|device_id}"),
            ("driver", "{driver}"),
            ("link", "{link.speed_gts} x{link.width_lanes}"),
            ("part", "{vpd.part_number}"),
            ("serial", "{vpd.serial_number}"),
        ],
        but: Some((is_part_of_the_board, "bridges, parts of the processor and virtual functions")),
    },
];

/// Sensors of what is not plugged in.
fn reads_nothing(sensor: &Map<String, Value>) -> bool {
    sensor.get("sensor_state").and_then(Value::as_str) == Some("unavailable")
}

/// Bridges (class 06), system peripherals (08) and signal processing (11), of which a processor has dozens, without a driver
/// or with the bus's own; and virtual functions.
fn is_part_of_the_board(function: &Map<String, Value>) -> bool {
    let text = |name: &str| function.get(name).and_then(Value::as_str);
    let is_plumbing =
        text("class_id").is_some_and(|class| ["06", "08", "11"].iter().any(|base| class.starts_with(base)));
    function.contains_key("physical_function") || is_plumbing && matches!(text("driver"), None | Some("pcieport"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::schema::{self, Shape};

    /// The shape of the elements of the list of that name, wherever it is.
    fn list<'a>(shape: &Shape<'a>, name: &str) -> Option<Shape<'a>> {
        let inner = shape.fields().into_iter().filter_map(|field| Some((field, shape.field(field)?)));
        inner.into_iter().find_map(|(field, shape)| match shape.element() {
            Some(element) if field == name => Some(element),
            Some(element) => list(&element, name),
            None => list(&shape, name),
        })
    }

    #[test]
    fn every_column_is_a_field() {
        let schema = schema::report();
        for table in &TABLES {
            let element = list(&Shape::new(&schema), table.list).unwrap_or_else(|| panic!("no list {}", table.list));
            for (head, text) in table.columns {
                for path in text.split('{').skip(1).flat_map(|rest| rest.split('}').next().unwrap().split('|')) {
                    let field = path.split('.').try_fold(element.clone(), |shape, name| shape.field(name));
                    assert!(field.is_some(), "{}: {head}: {path}", table.list);
                }
            }
        }
    }
}
