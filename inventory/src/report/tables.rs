//! Which fields of the report's longer lists have a column on its page.

/// A list whose elements have a line each.
pub(super) struct Table {
    /// Name of the list.
    pub list: &'static str,
    /// Heads and texts of the columns; a text stays empty unless the element has all fields in it.
    pub columns: &'static [(&'static str, &'static str)],
    /// Elements that have this field are only counted.
    pub but: &'static str,
}

/// How the lists of these names are told.
pub(super) const TABLES: [Table; 5] = [
    Table {
        list: "memory_devices",
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
        but: "",
    },
    Table {
        list: "pci",
        columns: &[
            ("address", "{address}"),
            ("class", "{class}"),
            ("vendor", "{vendor}"),
            ("device", "{device}"),
            ("driver", "{driver}"),
            ("link", "{link.speed_gts} x{link.width_lanes}"),
        ],
        but: "physical_function",
    },
    Table {
        list: "packages",
        columns: &[
            ("package", "{id}"),
            ("model", "{model_name}"),
            ("cores", "{cores}"),
            ("threads", "{threads}"),
            ("stepping", "{family}/{model}/{stepping}"),
            ("microcode", "{microcode}"),
            ("cpus", "{cpus}"),
        ],
        but: "",
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
        but: "",
    },
    Table {
        list: "numa_nodes",
        columns: &[("node", "{id}"), ("cpus", "{cpus}"), ("memory", "{memory_bytes}"), ("distances", "{distances}")],
        but: "",
    },
];
