//! Which memory is tested by which thread. Pure.

use crate::{facts::Node, result::wide};
use kernel::region::STEP_BYTES;

/// Less is not worth a thread.
const LEAST_SHARE_BYTES: u64 = 16 << 20;

/// What one thread tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub node: u32,
    /// Among those of its node, from 1.
    pub number: u64,
    /// Where its thread runs; empty: anywhere.
    pub cpus: Vec<u32>,
    pub bytes: usize,
    /// Whether the machine has other nodes.
    pub is_one_of_many: bool,
}

/// Divides `room` bytes, or `most` if that is less, among the nodes as they have free memory, and each node's part among its CPUs.
pub(super) fn shares(nodes: &[Node], all: &[u32], room: u64, most: Option<u64>) -> Vec<Share> {
    let total = room.min(most.unwrap_or(u64::MAX));
    let free: u128 = nodes.iter().map(|node| u128::from(node.free_bytes)).sum();
    let mut found = Vec::new();
    for node in nodes {
        // Memory that is used as cache counts as available, but not as free: the sum may be more than all nodes have free.
        let part = u128::from(total) * u128::from(node.free_bytes) / free.max(1);
        let part = u64::try_from(part).unwrap_or(0);
        // A node that is memory alone is tested from the others.
        let cpus = if node.cpus.is_empty() { all } else { &node.cpus };
        let count = (part / LEAST_SHARE_BYTES).clamp(1, wide(cpus.len()).max(1));
        let step = wide(STEP_BYTES);
        let bytes = usize::try_from(part / count / step * step).unwrap_or(0);
        if bytes == 0 {
            continue;
        }
        for number in 1..=count {
            let cpu = usize::try_from(number - 1).ok().and_then(|place| cpus.get(place));
            let cpus = cpu.into_iter().copied().collect();
            found.push(Share { node: node.id, number, cpus, bytes, is_one_of_many: nodes.len() > 1 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn node(id: u32, cpus: &[u32], free_bytes: u64) -> Node {
        Node { id, cpus: cpus.to_vec(), free_bytes }
    }

    fn shown(shares: &[Share]) -> Vec<(u32, u64, Vec<u32>, usize)> {
        shares.iter().map(|share| (share.node, share.number, share.cpus.clone(), share.bytes >> 20)).collect()
    }

    #[test]
    fn nodes_are_tested_by_their_own_cpus() {
        let nodes = [node(0, &[0, 1], GIB), node(1, &[2, 3], 3 * GIB)];
        let found = shares(&nodes, &[0, 1, 2, 3], 2 * GIB, None);
        let expected = [(0, 1, vec![0], 256), (0, 2, vec![1], 256), (1, 1, vec![2], 768), (1, 2, vec![3], 768)];
        assert_eq!(shown(&found), expected);
        assert!(found.iter().all(|share| share.is_one_of_many));
    }

    #[test]
    fn a_node_without_cpus_is_tested_too() {
        let found = shares(&[node(0, &[0], GIB), node(9, &[], GIB)], &[0], GIB, None);
        assert_eq!(shown(&found), [(0, 1, vec![0], 512), (9, 1, vec![0], 512)]);
    }

    #[test]
    fn shares_never_exceed_what_may_be_taken() {
        for (room, most) in
            [(0, None), (1 << 20, None), (100 << 20, Some(33 << 20)), (7 * GIB + 5, None), (GIB, Some(0))]
        {
            let found = shares(&[node(0, &[0, 1, 2], GIB), node(1, &[], 5)], &[0, 1, 2], room, most);
            let total: u64 = found.iter().map(|share| wide(share.bytes)).sum();
            assert!(total <= room.min(most.unwrap_or(u64::MAX)), "{room} {most:?} {found:?}");
            assert!(found.iter().all(|share| share.bytes % STEP_BYTES == 0 && share.bytes > 0));
        }
        assert_eq!(shown(&shares(&[node(0, &[0, 1], GIB)], &[0, 1], 20 << 20, None)), [(0, 1, vec![0], 20)]);
    }
}
