//! NUMA nodes: which memory is near to which CPUs.

use super::lists;
use crate::Root;
use kernel::order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";
/// How a node's memory is reached: from the CPUs that are nearest, else from the nearest initiator.
const ACCESS: [&str; 2] = ["access1", "access0"];

/// A NUMA node (/sys/devices/system/node).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NumaNode {
    /// Number.
    pub id: u32,
    /// Its CPUs in the kernel's list form; empty of a node that is memory alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Its memory that the kernel uses, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Its memory for enclaves (SGX), bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave_bytes: Option<u64>,
    /// Distances to the online nodes in their order; 10 is the node itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
    /// Memory tier; those with lower numbers are faster, and are used first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_tier: Option<u32>,
    /// What CPUs can read from its memory, as the firmware reports (ACPI HMAT): megabytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_mb_per_second: Option<u64>,
    /// What CPUs can write to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_mb_per_second: Option<u64>,
    /// How long a read takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency_nanoseconds: Option<u64>,
    /// How long a write takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_latency_nanoseconds: Option<u64>,
    /// Huge pages set aside, by size. Sizes of which there are none are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub huge_pages: Vec<HugePages>,
}

/// Huge pages of a size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HugePages {
    /// Size of one, bytes.
    pub page_bytes: u64,
    /// How many there are.
    pub pages: u64,
}

pub(super) fn nodes(root: &Root) -> Vec<NumaNode> {
    let tiers = tiers(root);
    let node = |name: String| {
        let id = name.strip_prefix("node")?.parse().ok()?;
        let dir = format!("{NODES}/{name}");
        let text = |name: &str| root.attribute(format!("{dir}/{name}"));
        let reached = |name: &str| {
            let number = |access: &&str| root.number::<u64>(format!("{dir}/{access}/initiators/{name}"));
            ACCESS.iter().find_map(number).filter(|number| *number > 0)
        };
        Some(NumaNode {
            memory_tier: tiers.iter().find(|(_, nodes)| nodes.contains(&id)).map(|(tier, _)| *tier),
            read_mb_per_second: reached("read_bandwidth"),
            write_mb_per_second: reached("write_bandwidth"),
            read_latency_nanoseconds: reached("read_latency"),
            write_latency_nanoseconds: reached("write_latency"),
            id,
            cpus: text("cpulist"),
            memory_bytes: text("meminfo").as_deref().and_then(mem_total),
            enclave_bytes: root.number(format!("{dir}/x86/sgx_total_bytes")).filter(|bytes| *bytes > 0),
            distances: text("distance").as_deref().and_then(distances).unwrap_or_default(),
            huge_pages: huge_pages(root, &format!("{dir}/hugepages")),
        })
    };
    let mut nodes: Vec<NumaNode> = root.list(NODES).into_iter().filter_map(node).collect();
    order::sort_by_key(&mut nodes, |node| node.id);
    nodes
}

/// Tiers with their nodes.
fn tiers(root: &Root) -> Vec<(u32, BTreeSet<u32>)> {
    let tier = |name: String| {
        let nodes = root.attribute(format!("{TIERS}/{name}/nodelist"))?;
        Some((name.strip_prefix("memory_tier")?.parse().ok()?, lists::parse(&nodes)))
    };
    root.list(TIERS).into_iter().filter_map(tier).collect()
}

/// `Node 0 MemTotal:       30601816 kB`
fn mem_total(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn distances(text: &str) -> Option<Vec<u32>> {
    text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
}

fn huge_pages(root: &Root, dir: &str) -> Vec<HugePages> {
    let pages = |name: String| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = root.number(format!("{dir}/{name}/nr_hugepages")).filter(|pages| *pages > 0)?;
        Some(HugePages { page_bytes: kib.checked_mul(1024)?, pages })
    };
    let mut found: Vec<HugePages> = root.list(dir).into_iter().filter_map(pages).collect();
    order::sort(&mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn nodes_by_number() {
        let tree = Tree::new(&[
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n"),
            ("sys/devices/system/node/node0/distance", "10 21 31\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "4\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
            ("sys/devices/system/node/node0/x86/sgx_total_bytes", "4096\n"),
            ("sys/devices/system/node/node10/x86/sgx_total_bytes", "0\n"),
            ("sys/devices/system/node/node10/cpulist", "\n"),
            ("sys/devices/system/node/node2/distance", "10 x\n"),
            ("sys/devices/system/node/node2/access0/initiators/read_bandwidth", "1\n"),
            ("sys/devices/system/node/node2/access1/initiators/read_bandwidth", "30000\n"),
            ("sys/devices/system/node/node2/access0/initiators/read_latency", "250\n"),
            ("sys/devices/system/node/node2/access1/initiators/write_latency", "0\n"),
            ("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0,10\n"),
            ("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "2\n"),
            ("sys/devices/system/node/possible", "0-10\n"),
        ]);
        let found = nodes(&tree.root());
        assert_eq!(found.iter().map(|node| node.id).collect::<Vec<_>>(), [0, 2, 10]);
        assert_eq!((found[0].memory_bytes, found[0].distances.as_slice()), (Some(1 << 20), &[10, 21, 31][..]));
        assert_eq!(found[0].huge_pages, [HugePages { page_bytes: 1 << 30, pages: 4 }]);
        assert_eq!((found[0].enclave_bytes, found[2].enclave_bytes), (Some(4096), None));
        assert_eq!((found[1].cpus.as_ref(), found[1].distances.len()), (None, 0));
        assert_eq!(found[2].cpus.as_deref(), Some(""));
        assert_eq!(found.iter().map(|node| node.memory_tier).collect::<Vec<_>>(), [Some(4), Some(22), Some(4)]);
        assert_eq!((found[1].read_mb_per_second, found[1].read_latency_nanoseconds), (Some(30_000), Some(250)));
        assert_eq!((found[1].write_latency_nanoseconds, found[0].read_mb_per_second), (None, None));
    }
}
