//! Processor caches, counted as they are and not for each CPU that shares them.

use super::{lists, place::CPUS};
use crate::Root;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Caches of one level, type and size (/sys/devices/system/cpu/cpu*/cache).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cache {
    /// Level: 1 is next to the core.
    pub level: u32,
    /// Name as lscpu has it: L1d, L1i, L2.
    pub name: String,
    /// Data, Instruction or Unified.
    #[serde(rename = "type")]
    pub kind: String,
    /// Size of each of them, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Ways of associativity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Size of a line, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<u32>,
    /// How many there are.
    pub instances: u32,
    /// The CPUs that share each of them, by their first.
    pub shared_by: Vec<String>,
}

pub(super) fn caches(root: &Root, online: &BTreeSet<u32>) -> Vec<Cache> {
    let mut found: BTreeMap<Cache, BTreeSet<BTreeSet<u32>>> = BTreeMap::new();
    // By place in the list, whose order is the same for all CPUs of a kind.
    let mut seen: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for cpu in online {
        let dir = format!("{CPUS}/cpu{cpu}/cache");
        for index in root.list(&dir).into_iter().filter(|name| name.starts_with("index")) {
            if seen.get(&index).is_some_and(|cpus| cpus.contains(cpu)) {
                continue;
            }
            let text = |name: &str| root.attribute(format!("{dir}/{index}/{name}"));
            let (Some(level), Some(kind)) = (text("level").and_then(|text| text.parse::<u32>().ok()), text("type"))
            else {
                tracing::debug!(cpu, index, "a cache without level or type is left out");
                continue;
            };
            let mut shared = text("shared_cpu_list").map(|list| lists::parse(&list)).unwrap_or_default();
            shared.insert(*cpu);
            let letter = match kind.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            let cache = Cache {
                level,
                name: format!("L{level}{letter}"),
                kind,
                size_bytes: text("size").as_deref().and_then(size),
                // 0 of old kernels stands for fully associative.
                ways: text("ways_of_associativity").and_then(|text| text.parse().ok()).filter(|ways| *ways > 0),
                line_bytes: text("coherency_line_size").and_then(|text| text.parse().ok()),
                ..Cache::default()
            };
            seen.entry(index).or_default().extend(&shared);
            found.entry(cache).or_default().insert(shared);
        }
    }
    let counted = |(cache, shared): (Cache, BTreeSet<BTreeSet<u32>>)| Cache {
        instances: u32::try_from(shared.len()).unwrap_or(u32::MAX),
        shared_by: shared.iter().map(lists::format).collect(),
        ..cache
    };
    found.into_iter().map(counted).collect()
}

/// `512K`
fn size(text: &str) -> Option<u64> {
    text.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn each_instance_counts_once() {
        let tree = Tree::new(&[]);
        let add = |cpu: u32, index: u32, level: &str, kind: &str, size: &str, shared: &str| {
            let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            for (name, text) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)] {
                tree.add(&format!("{dir}/{name}"), text);
            }
            tree.add(&format!("{dir}/ways_of_associativity"), "8\n");
        };
        for cpu in 0..4 {
            add(cpu, 0, "1", "Data", "32K", &format!("{cpu}"));
            // A large core and three small ones that share.
            add(cpu, 2, "2", "Unified", if cpu == 0 { "2048K" } else { "4096K" }, if cpu == 0 { "0" } else { "1-3" });
            add(cpu, 3, "3", "Unified", "24576K", "0-3");
        }
        tree.add("sys/devices/system/cpu/cpu0/cache/index9/level", "odd");
        let found = caches(&tree.root(), &(0..4).collect());
        let short: Vec<_> =
            found.iter().map(|c| (c.name.as_str(), c.size_bytes.unwrap() >> 10, c.shared_by.join(" "))).collect();
        let expected = [("L1d", 32, "0 1 2 3"), ("L2", 2048, "0"), ("L2", 4096, "1-3"), ("L3", 24576, "0-3")];
        assert_eq!(short, expected.map(|(name, kib, shared)| (name, kib, shared.to_owned())));
        assert_eq!((found[0].instances, found[0].ways, found[0].line_bytes), (4, Some(8), None));
        assert_eq!(size("18014398509481985K"), None);
    }
}
