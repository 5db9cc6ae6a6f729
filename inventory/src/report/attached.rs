//! Memory besides the modules in the processors' sockets: CXL and persistent memory.

use super::{finding::Finding, logs::answers, place::pci_address};
use crate::{
    Root,
    ask::{Cxl, Question},
    cxl::{self, CxlHealth, CxlLimits},
};
use kernel::order;
use serde::{Deserialize, Serialize};

const CXL: &str = "/sys/bus/cxl/devices";
const ND: &str = "/sys/bus/nd/devices";
/// What a module of persistent memory says in `flags`, and what it means (Documentation/ABI/testing/sysfs-bus-nfit).
const FLAGS: [(&str, &str); 6] = [
    ("save_fail", "saving at the last power loss failed"),
    ("restore_fail", "restoring at the last boot failed"),
    ("flush_fail", "data were lost at the last power loss"),
    ("not_armed", "it cannot save at a power loss"),
    ("smart_event", "its health has events"),
    ("map_fail", "the firmware could not map it"),
];

/// Memory on CXL, and persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttachedMemory {
    /// CXL memory devices, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cxl_memory: Vec<CxlMemory>,
    /// CXL decoders that map addresses, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cxl_decoders: Vec<CxlDecoder>,
    /// CXL regions, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cxl_regions: Vec<CxlRegion>,
    /// Modules of persistent memory, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvdimms: Vec<Nvdimm>,
    /// Regions of persistent memory, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvdimm_regions: Vec<NvdimmRegion>,
    /// Namespaces in them that are in use, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvdimm_namespaces: Vec<NvdimmNamespace>,
}

/// A CXL memory device (Documentation/ABI/testing/sysfs-bus-cxl).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CxlMemory {
    /// Kernel name, such as mem0.
    pub name: String,
    /// PCI address of its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// NUMA node of its slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Volatile memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_bytes: Option<u64>,
    /// Persistent memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_bytes: Option<u64>,
    /// Room for labels of namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_bytes: Option<u64>,
    /// All of its memory, however it is divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Version of the firmware that it uses after its next reset, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_firmware_version: Option<String>,
    /// State of its lock: disabled, unlocked, locked, frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_state: Option<String>,
    /// What it says of its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<CxlHealth>,
    /// From where on it warns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<CxlLimits>,
}

/// A decoder of CXL addresses: of a host bridge, a switch or a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CxlDecoder {
    /// Kernel name, such as decoder0.0.
    pub name: String,
    /// What it belongs to: root, switch or endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Addresses that it maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What is behind it: expander or accelerator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_type: Option<String>,
    /// Targets that addresses alternate between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave_ways: Option<u32>,
    /// Bytes to one target at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave_bytes: Option<u64>,
    /// Whether the firmware has locked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_locked: Option<bool>,
    /// Region that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// A region of CXL memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CxlRegion {
    /// Kernel name, such as region0.
    pub name: String,
    /// ram or pmem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Devices that addresses alternate between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave_ways: Option<u32>,
    /// Bytes to one device at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave_bytes: Option<u64>,
    /// Whether it is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_committed: Option<bool>,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// A module of persistent memory (Documentation/ABI/testing/sysfs-bus-nfit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nvdimm {
    /// Kernel name, such as nmem0.
    pub name: String,
    /// Maker, by its JEDEC number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
    /// The maker's number of the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Name that is unique in the world; the serial number is a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_serial: Option<String>,
    /// Handle of its structure in SMBIOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smbios_handle: Option<String>,
    /// State of its lock: disabled, unlocked, locked, frozen, overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_state: Option<String>,
    /// Times the power was lost without a save.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_shutdowns: Option<u64>,
    /// What is wrong, by the kernel's names: save_fail, not_armed and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised_flags: Vec<String>,
}

/// A region of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NvdimmRegion {
    /// Kernel name, such as region0.
    pub name: String,
    /// Size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Part of it that no namespace has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Modules it lies on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<u32>,
    /// NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Whether it can only be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_read_only: Option<bool>,
    /// What is saved at a power loss: cpu_cache or memory_controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_domain: Option<String>,
    /// Ranges that are known to be bad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_ranges: Option<u32>,
}

/// A namespace of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NvdimmNamespace {
    /// Kernel name, such as namespace0.0.
    pub name: String,
    /// How it is used: raw, memory, safe (sectors), dax.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Size of a sector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sector_bytes: Option<u64>,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// A device's directory in sysfs.
struct Device<'a> {
    root: &'a Root,
    dir: String,
}

impl Device<'_> {
    fn text(&self, file: &str) -> Option<String> {
        self.root.attribute(format!("{}/{file}", self.dir)).filter(|text| !text.is_empty())
    }

    /// In either notation; `None` for zero.
    fn bytes(&self, file: &str) -> Option<u64> {
        let text = self.text(file)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number.filter(|number| *number > 0)
    }

    /// `None` for -1, which stands for a machine without nodes.
    fn number(&self, file: &str) -> Option<u32> {
        self.text(file)?.parse().ok()
    }

    fn flag(&self, file: &str) -> Option<bool> {
        self.text(file).map(|text| text == "1")
    }
}

/// `None` on a machine that has nothing of it.
pub(super) fn attached_memory(root: &Root) -> Option<AttachedMemory> {
    let mut found = AttachedMemory::default();
    for (name, cxl) in devices(root, CXL) {
        match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "mem" => found.cxl_memory.push(cxl_memory(name, &cxl)),
            "decoder" => found.cxl_decoders.extend(cxl_decoder(name, &cxl)),
            "region" => found.cxl_regions.push(cxl_region(name, &cxl)),
            _ => {}
        }
    }
    ask(root, &mut found.cxl_memory);
    for (name, nd) in devices(root, ND) {
        match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "nmem" => found.nvdimms.push(nvdimm(name, &nd)),
            "region" => found.nvdimm_regions.push(nvdimm_region(name, &nd)),
            // Each region has one that is empty, for the next.
            "namespace" => found.nvdimm_namespaces.extend(namespace(name, &nd)),
            _ => {}
        }
    }
    (found != AttachedMemory::default()).then_some(found)
}

/// By the numbers in their names.
fn devices<'a>(root: &'a Root, bus: &str) -> Vec<(String, Device<'a>)> {
    let mut names = root.list(bus);
    order::sort_by_key(&mut names, |name| {
        let numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u32>().ok());
        (numbers.collect::<Vec<_>>(), name.clone())
    });
    names.into_iter().map(|name| (name.clone(), Device { root, dir: format!("{bus}/{name}") })).collect()
}

/// What only the devices themselves tell.
fn ask(root: &Root, memory: &mut [CxlMemory]) {
    let of_one = |one: &CxlMemory| Cxl::ALL.map(|ask| Question::Cxl { memory: one.name.clone(), ask });
    let mut answers = answers(root, &memory.iter().flat_map(of_one).collect::<Vec<_>>()).into_iter();
    for one in memory {
        let [identity, firmware, health, alerts] =
            std::array::from_fn(|_| answers.next().flatten().unwrap_or_default());
        let [active, staged] = cxl::firmware(&firmware);
        one.total_bytes = cxl::total_bytes(&identity);
        one.firmware_version = one.firmware_version.take().or_else(|| active.clone());
        one.staged_firmware_version = staged.filter(|staged| Some(staged) != active.as_ref());
        (one.health, one.limits) = (cxl::health(&health), cxl::limits(&alerts));
    }
}

fn cxl_memory(name: String, cxl: &Device<'_>) -> CxlMemory {
    CxlMemory {
        name,
        pci_address: cxl.root.resolve(&cxl.dir).and_then(|sys| pci_address(&sys)),
        numa_node: cxl.number("numa_node"),
        serial: cxl.text("serial"),
        firmware_version: cxl.text("firmware_version"),
        ram_bytes: cxl.bytes("ram/size"),
        persistent_bytes: cxl.bytes("pmem/size"),
        label_bytes: cxl.bytes("label_storage_size"),
        security_state: cxl.text("security/state"),
        ..CxlMemory::default()
    }
}

fn cxl_decoder(name: String, cxl: &Device<'_>) -> Option<CxlDecoder> {
    Some(CxlDecoder {
        name,
        kind: cxl.text("devtype").and_then(|kind| kind.strip_prefix("cxl_decoder_").map(str::to_owned)),
        size_bytes: Some(cxl.bytes("size")?),
        target_type: cxl.text("target_type"),
        interleave_ways: cxl.number("interleave_ways"),
        interleave_bytes: cxl.bytes("interleave_granularity"),
        is_locked: cxl.flag("locked"),
        region: cxl.text("region"),
    })
}

fn cxl_region(name: String, cxl: &Device<'_>) -> CxlRegion {
    CxlRegion {
        name,
        mode: cxl.text("mode"),
        size_bytes: cxl.bytes("size"),
        interleave_ways: cxl.number("interleave_ways"),
        interleave_bytes: cxl.bytes("interleave_granularity"),
        is_committed: cxl.flag("commit"),
        uuid: cxl.text("uuid"),
    }
}

fn nvdimm(name: String, nd: &Device<'_>) -> Nvdimm {
    let flags = nd.text("nfit/flags").or_else(|| nd.text("papr/flags")).unwrap_or_default();
    Nvdimm {
        name,
        vendor_id: nd.text("nfit/vendor"),
        device_id: nd.text("nfit/device"),
        serial: nd.text("nfit/serial"),
        unique_serial: nd.text("nfit/id"),
        smbios_handle: nd.text("nfit/phys_id"),
        security_state: nd.text("security"),
        dirty_shutdowns: nd.text("nfit/dirty_shutdown").and_then(|count| count.parse().ok()),
        // That it will tell is not a fault.
        raised_flags: flags.split_whitespace().filter(|flag| *flag != "smart_notify").map(str::to_owned).collect(),
    }
}

fn nvdimm_region(name: String, nd: &Device<'_>) -> NvdimmRegion {
    let ranges = nd.root.attribute(format!("{}/badblocks", nd.dir)).map(|list| list.lines().count());
    NvdimmRegion {
        name,
        size_bytes: nd.bytes("size"),
        available_bytes: nd.bytes("available_size"),
        modules: nd.number("mappings"),
        numa_node: nd.number("numa_node"),
        is_read_only: nd.flag("read_only"),
        persistence_domain: nd.text("persistence_domain"),
        bad_ranges: ranges.and_then(|count| u32::try_from(count).ok()),
    }
}

fn namespace(name: String, nd: &Device<'_>) -> Option<NvdimmNamespace> {
    Some(NvdimmNamespace {
        name,
        mode: nd.text("mode"),
        size_bytes: Some(nd.bytes("size")?),
        sector_bytes: nd.bytes("sector_size"),
        uuid: nd.text("uuid"),
    })
}

pub(super) fn findings(memory: &AttachedMemory) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in &memory.cxl_memory {
        let name = format!("CXL memory {}", one.name);
        let Some(health) = &one.health else { continue };
        if let Some(state) = health.media_state.as_ref().filter(|state| *state != "normal") {
            found.push(Finding::warning(&name, format!("the state of its memory is: {state}")));
        }
        if !health.problems.is_empty() {
            found.push(Finding::warning(&name, format!("it warns: {}", health.problems.join(", "))));
        }
    }
    for module in &memory.nvdimms {
        for flag in &module.raised_flags {
            let meaning = FLAGS.iter().find(|(known, _)| known == flag).map_or(flag.as_str(), |(_, meaning)| meaning);
            found.push(Finding::warning(&format!("persistent memory {}", module.name), meaning));
        }
    }
    for region in &memory.nvdimm_regions {
        if let Some(ranges @ 1..) = region.bad_ranges {
            found
                .push(Finding::warning(&format!("persistent memory {}", region.name), format!("bad ranges: {ranges}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cxl::tests::health_info, testing::Tree};

    #[test]
    fn cxl() {
        let pci = "sys/devices/pci0000:0c/0000:0c:00.0/0000:0d:00.0/mem0";
        let tree = Tree::new(&[]);
        for (file, content) in [
            ("serial", "0x1a2b3c4d"),
            ("firmware_version", "BWFW VERSION 00"),
            ("ram/size", "0x4000000000"),
            ("pmem/size", "0"),
            ("numa_node", "1"),
            ("security/state", "disabled"),
        ] {
            tree.add(&format!("{pci}/{file}"), format!("{content}\n"));
        }
        tree.link("sys/bus/cxl/devices/mem0", &format!("../../../../{pci}"));
        tree.add("landfall/disks/cxl!mem0/health", health_info(1, 1, 0));
        tree.add("landfall/disks/cxl!mem0/alerts", [0; 9]);
        for (file, content) in [
            ("decoder0.0/size", "0x4000000000"),
            ("decoder0.0/devtype", "cxl_decoder_root"),
            ("decoder0.0/target_type", "expander"),
            ("decoder0.0/locked", "1"),
            ("decoder2.0/size", "0x0"),
            ("port1/devtype", "cxl_port"),
            ("region0/size", "0x4000000000"),
            ("region0/mode", "ram"),
            ("region0/interleave_ways", "2"),
            ("region0/interleave_granularity", "256"),
            ("region0/commit", "1"),
        ] {
            tree.add(&format!("sys/bus/cxl/devices/{file}"), format!("{content}\n"));
        }
        let found = attached_memory(&tree.root()).unwrap();
        let [memory] = &found.cxl_memory[..] else { panic!("{found:?}") };
        assert_eq!((memory.pci_address.as_deref(), memory.numa_node), (Some("0000:0d:00.0"), Some(1)));
        assert_eq!((memory.ram_bytes, memory.persistent_bytes), (Some(256 << 30), None));
        assert_eq!(memory.serial.as_deref(), Some("0x1a2b3c4d"));
        let health = memory.health.as_ref().unwrap();
        assert_eq!((health.temperature_celsius, &memory.limits, memory.total_bytes), (Some(41), &None, None));
        let expected = [
            Finding::warning("CXL memory mem0", "the state of its memory is: not ready"),
            Finding::warning("CXL memory mem0", "it warns: maintenance needed"),
        ];
        assert_eq!(findings(&found), expected);
        let [decoder] = &found.cxl_decoders[..] else { panic!("{found:?}") };
        assert_eq!((decoder.kind.as_deref(), decoder.is_locked), (Some("root"), Some(true)));
        let [region] = &found.cxl_regions[..] else { panic!("{found:?}") };
        assert_eq!((region.size_bytes, region.interleave_ways), (Some(256 << 30), Some(2)));
        assert_eq!((region.interleave_bytes, region.is_committed), (Some(256), Some(true)));
    }

    #[test]
    fn persistent_memory_and_its_faults() {
        let tree = Tree::new(&[]);
        for (file, content) in [
            ("nmem10/nfit/serial", "0x00000a11"),
            ("nmem10/nfit/flags", "save_fail not_armed smart_notify"),
            ("nmem10/nfit/dirty_shutdown", "3"),
            ("nmem2/nfit/id", "8089-a2-1834-00000a12"),
            ("nmem2/nfit/flags", ""),
            ("nmem2/security", "unlocked"),
            ("region0/size", "270582939648"),
            ("region0/mappings", "2"),
            ("region0/badblocks", "8 1\n24 8"),
            ("region0/persistence_domain", "memory_controller"),
            ("region1/badblocks", ""),
            ("namespace0.0/size", "268435456000"),
            ("namespace0.0/mode", "memory"),
            ("namespace0.1/size", "0"),
            ("btt0.0/size", "1"),
        ] {
            tree.add(&format!("sys/bus/nd/devices/{file}"), format!("{content}\n"));
        }
        let found = attached_memory(&tree.root()).unwrap();
        assert_eq!(found.nvdimms.iter().map(|dimm| dimm.name.as_str()).collect::<Vec<_>>(), ["nmem2", "nmem10"]);
        assert_eq!((found.nvdimms[1].dirty_shutdowns, found.nvdimms[0].raised_flags.len()), (Some(3), 0));
        assert_eq!((found.nvdimm_regions[0].modules, found.nvdimm_regions[0].bad_ranges), (Some(2), Some(2)));
        assert_eq!(found.nvdimm_namespaces.len(), 1);
        let expected = [
            Finding::warning("persistent memory nmem10", "saving at the last power loss failed"),
            Finding::warning("persistent memory nmem10", "it cannot save at a power loss"),
            Finding::warning("persistent memory region0", "bad ranges: 2"),
        ];
        assert_eq!(findings(&found), expected);
        assert_eq!(attached_memory(&Tree::new(&[]).root()), None);
    }
}
