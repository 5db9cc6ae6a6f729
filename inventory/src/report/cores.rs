//! Processors whose cores are of several kinds.

use super::{lists, place::CPUS};
use crate::Root;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of x86's cores, by the directory of their counters in /sys/devices.
const X86: [(&str, &str); 3] = [("cpu_core", "performance"), ("cpu_atom", "efficiency"), ("cpu_lowpower", "low power")];

/// Cores of one kind, where there are several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoreKind {
    /// performance, efficiency or low power; of other processors than x86's their capacity.
    pub name: String,
    /// The CPUs online that are of this kind.
    pub cpus: String,
    /// How much a core does; 1024 is the most of any core of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Highest frequency, MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mhz: Option<u32>,
}

/// The strongest first; none if all cores are alike.
pub(super) fn core_kinds(root: &Root, online: &BTreeSet<u32>) -> Vec<CoreKind> {
    let capacity = |cpu: u32| root.number::<u32>(format!("{CPUS}/cpu{cpu}/cpu_capacity"));
    let kind = |name: &str, cpus: &BTreeSet<u32>| {
        let first = *cpus.first()?;
        let khz = root.number::<u32>(format!("{CPUS}/cpu{first}/cpufreq/cpuinfo_max_freq"));
        Some(CoreKind {
            name: name.to_owned(),
            cpus: lists::format(cpus),
            capacity: capacity(first),
            max_mhz: khz.map(|khz| khz / 1000),
        })
    };
    let counted = |dir: &str| root.attribute(format!("/sys/devices/{dir}/cpus")).map(|list| lists::parse(&list));
    let kinds: Vec<CoreKind> = X86.iter().filter_map(|(dir, name)| kind(name, &counted(dir)?)).collect();
    if !kinds.is_empty() {
        return kinds;
    }
    // Where the first has none, no other has one.
    if online.first().and_then(|cpu| capacity(*cpu)).is_none() {
        return Vec::new();
    }
    let mut by_capacity: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (cpu, capacity) in online.iter().filter_map(|cpu| Some((*cpu, capacity(*cpu)?))) {
        by_capacity.entry(capacity).or_default().insert(cpu);
    }
    let kinds = by_capacity.iter().rev().filter(|_| by_capacity.len() > 1);
    kinds.filter_map(|(capacity, cpus)| kind(&format!("capacity {capacity}"), cpus)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn performance_and_efficiency() {
        let tree = Tree::new(&[
            ("sys/devices/cpu_core/cpus", "0-3\n"),
            ("sys/devices/cpu_atom/cpus", "4-7\n"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "1024\n"),
            ("sys/devices/system/cpu/cpu4/cpufreq/cpuinfo_max_freq", "3900000\n"),
        ]);
        let found = core_kinds(&tree.root(), &(0..8).collect());
        let kind = |name: &str, cpus: &str, capacity, max_mhz| CoreKind {
            name: name.to_owned(),
            cpus: cpus.to_owned(),
            capacity,
            max_mhz,
        };
        assert_eq!(found, [kind("performance", "0-3", Some(1024), None), kind("efficiency", "4-7", None, Some(3900))]);
    }

    #[test]
    fn big_and_little() {
        let tree = Tree::new(&[]);
        for (cpu, capacity) in [(0, 446), (1, 446), (2, 1024), (3, 446)] {
            tree.add(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), format!("{capacity}\n"));
        }
        let of = |cpus: &[u32]| {
            let kinds = core_kinds(&tree.root(), &cpus.iter().copied().collect());
            kinds.into_iter().map(|kind| (kind.name, kind.cpus)).collect::<Vec<_>>()
        };
        let pair = |name: &str, cpus: &str| (name.to_owned(), cpus.to_owned());
        assert_eq!(of(&[0, 1, 2, 3]), [pair("capacity 1024", "2"), pair("capacity 446", "0-1,3")]);
        assert_eq!((of(&[0, 1]).len(), of(&[7]).len()), (0, 0));
    }
}
