//! The parts of the machine that can be loaded: processors, memory, disks. Read through a root directory.

use crate::list;
use inventory::Root;
use kernel::order;
use std::path::{Component, Path};

const NODES: &str = "/sys/devices/system/node";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Longest /proc/meminfo, and the like.
const MAX_BYTES: usize = 64 << 10;

/// The facts that a plan is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// CPUs this process may use.
    pub cpus: Vec<u32>,
    /// By number; at least one.
    pub nodes: Vec<Node>,
    /// Memory that can be taken before anything must be given up, bytes.
    pub available_bytes: u64,
    pub disks: Vec<Disk>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub id: u32,
    /// Those of its CPUs that this process may use.
    pub cpus: Vec<u32>,
    pub free_bytes: u64,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Device node.
    pub path: String,
    /// Size and model.
    pub about: String,
}

impl Facts {
    pub(crate) fn read(root: &Root, allowed: Vec<u32>) -> Self {
        let nodes = nodes(root, &allowed);
        let disks = inventory::disk_nodes(root).into_iter().map(|(path, about)| Disk { path, about }).collect();
        Self { nodes, available_bytes: available_bytes(root), disks, cpus: allowed }
    }
}

fn nodes(root: &Root, allowed: &[u32]) -> Vec<Node> {
    let node = |name: String| {
        let id = name.strip_prefix("node")?.parse().ok()?;
        let cpus = list::parse(&root.attribute(format!("{NODES}/{name}/cpulist"))?).ok()?;
        let free_bytes = kib(&root.text(format!("{NODES}/{name}/meminfo"), MAX_BYTES)?, "MemFree:")?;
        Some(Node { id, cpus: cpus.into_iter().filter(|cpu| allowed.contains(cpu)).collect(), free_bytes })
    };
    let mut nodes: Vec<Node> = root.list(NODES).into_iter().filter_map(node).collect();
    if nodes.is_empty() {
        nodes.push(Node { id: 0, cpus: allowed.to_vec(), free_bytes: available_bytes(root) });
    }
    order::sort_by_key(&mut nodes, |node| node.id);
    nodes
}

/// What the kernel can give without swapping, and what each control group above this process leaves, whichever is less.
pub(crate) fn available_bytes(root: &Root) -> u64 {
    let whole = root.text("/proc/meminfo", MAX_BYTES).and_then(|text| kib(&text, "MemAvailable:")).unwrap_or(0);
    let group = root.text("/proc/self/cgroup", MAX_BYTES).unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let is_plain = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::RootDir);
    let path = Path::new(group);
    if !path.components().all(|part| is_plain(&part)) {
        return whole;
    }
    path.ancestors().filter_map(|path| group_bytes(root, path)).fold(whole, u64::min)
}

/// What a control group leaves: files in the cache are given up for it (Documentation/admin-guide/cgroup-v2.rst, Memory).
fn group_bytes(root: &Root, path: &Path) -> Option<u64> {
    let dir = Path::new(CGROUPS).join(path.strip_prefix("/").ok()?);
    let limit: u64 = root.number(dir.join("memory.max"))?;
    let used: u64 = root.number(dir.join("memory.current"))?;
    let stat = root.text(dir.join("memory.stat"), MAX_BYTES).unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// `MemFree:  123 kB`, wherever in its line.
fn kib(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.split_once(name))?.1;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::Tree;

    #[test]
    fn memory_is_bounded_by_the_machine_and_by_every_control_group() {
        let tree = Tree::new(&[
            ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4096 kB\n"),
            ("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "3000000\n"),
            ("sys/fs/cgroup/a/memory.current", "2000000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 500000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1\n"),
        ]);
        let root = Root::open(tree.path()).unwrap();
        assert_eq!(available_bytes(&root), 1_500_000);
        tree.add("sys/fs/cgroup/a/b/memory.max", "1000\n");
        assert_eq!(available_bytes(&root), 999);
        tree.add("proc/self/cgroup", "0::/../../etc\n");
        assert_eq!(available_bytes(&root), 4096 << 10);
    }

    #[test]
    fn nodes_have_the_cpus_that_may_be_used() {
        let tree = Tree::new(&[
            ("proc/meminfo", "MemAvailable: 8 kB\n"),
            ("sys/devices/system/node/node1/cpulist", "2-3\n"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 9 kB\nNode 1 MemFree:   7 kB\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 5 kB\n"),
        ]);
        let found = Facts::read(&Root::open(tree.path()).unwrap(), vec![1, 2, 3]);
        let node = |id, cpus: &[u32], kib: u64| Node { id, cpus: cpus.to_vec(), free_bytes: kib << 10 };
        assert_eq!(found.nodes, [node(0, &[1], 5), node(1, &[2, 3], 7)]);
        let bare = Tree::new(&[("proc/meminfo", "MemAvailable: 8 kB\n")]);
        assert_eq!(Facts::read(&Root::open(bare.path()).unwrap(), vec![4]).nodes, [node(0, &[4], 8)]);
    }
}
