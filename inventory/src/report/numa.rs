//! NUMA nodes: which memory is near to which CPUs.

use crate::Root;
use kernel::order;
use serde::{Deserialize, Serialize};

const NODES: &str = "/sys/devices/system/node";

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
    /// Distances to the online nodes in their order; 10 is the node itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
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
    let node = |name: String| {
        let id = name.strip_prefix("node")?.parse().ok()?;
        let dir = format!("{NODES}/{name}");
        let text = |name: &str| root.attribute(format!("{dir}/{name}"));
        Some(NumaNode {
            id,
            cpus: text("cpulist"),
            memory_bytes: text("meminfo").as_deref().and_then(mem_total),
            distances: text("distance").as_deref().and_then(distances).unwrap_or_default(),
            huge_pages: huge_pages(root, &format!("{dir}/hugepages")),
        })
    };
    let mut nodes: Vec<NumaNode> = root.list(NODES).into_iter().filter_map(node).collect();
    order::sort_by_key(&mut nodes, |node| node.id);
    nodes
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
    let of_size = |name: String| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = root.number(format!("{dir}/{name}/nr_hugepages")).filter(|pages| *pages > 0)?;
        Some(HugePages { page_bytes: kib.checked_mul(1024)?, pages })
    };
    let mut found: Vec<HugePages> = root.list(dir).into_iter().filter_map(of_size).collect();
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
            ("sys/devices/system/node/node10/cpulist", "\n"),
            ("sys/devices/system/node/node2/distance", "10 x\n"),
            ("sys/devices/system/node/possible", "0-10\n"),
        ]);
        let found = nodes(&tree.root());
        assert_eq!(found.iter().map(|node| node.id).collect::<Vec<_>>(), [0, 2, 10]);
        assert_eq!((found[0].memory_bytes, found[0].distances.as_slice()), (Some(1 << 20), &[10, 21, 31][..]));
        assert_eq!(found[0].huge_pages, [HugePages { page_bytes: 1 << 30, pages: 4 }]);
        assert_eq!((found[1].cpus.as_ref(), found[1].distances.len()), (None, 0));
        assert_eq!(found[2].cpus.as_deref(), Some(""));
    }
}
