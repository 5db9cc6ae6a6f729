//! The largest packet that a path carries, where one as large as the interface allows does not get through. Pure.

use kernel::order;
use std::net::IpAddr;

/// Sizes tried in one round, besides those that a router named. Three rounds tell any size up to 32 KiB.
const SIZES_A_ROUND: u32 = 32;
/// Rounds until the answer is as good as it gets on a lossy path.
pub(crate) const SEARCH_ROUNDS: u32 = 4;

/// The path MTU to an address, measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Bytes of the largest packet that was answered.
    pub largest: u32,
    /// The first hop that said a packet was too big for its next link. `None` where they vanish without a word.
    pub reported: Option<TooBig>,
}

/// What a hop said of its next link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    pub hop: IpAddr,
    /// Bytes its next link carries; what it said, not what was measured.
    pub mtu: u32,
}

/// Narrows down by packets of many sizes at once.
#[derive(Clone, Debug)]
pub(crate) struct SizeSearch {
    /// The largest size that came through.
    passes: u32,
    /// The smallest that is taken not to.
    fails: u32,
    /// Sent and not yet judged.
    asked: Vec<u32>,
    reported: Option<TooBig>,
    begun: bool,
}

impl SizeSearch {
    /// Between an ordinary size that came through and a full one that did not.
    pub(super) fn new(passes: u32, fails: u32) -> Self {
        Self { passes, fails, asked: Vec::new(), reported: None, begun: false }
    }

    /// Records the report of a hop; the first counts.
    pub(super) fn report(&mut self, hop: IpAddr, mtu: u32) {
        self.reported.get_or_insert(TooBig { hop, mtu });
    }

    /// The sizes to send next; empty when nothing is left to find out. Those sent before and not answered count as failed.
    pub(super) fn next_sizes(&mut self) -> &[u32] {
        self.begun = true;
        self.fails = self.asked.iter().copied().filter(|size| *size > self.passes).min().unwrap_or(self.fails);
        let (passes, fails) = (self.passes, self.fails);
        let gap = fails.saturating_sub(passes);
        let step = gap / (SIZES_A_ROUND + 1) + 1;
        let ladder = (1..=SIZES_A_ROUND).map(|n| passes.saturating_add(n.saturating_mul(step)));
        let named = self.reported.iter().flat_map(|hop| [hop.mtu, hop.mtu.saturating_add(1)]);
        self.asked = ladder.chain(named).filter(|size| (passes + 1..fails).contains(size)).collect();
        order::sort(&mut self.asked);
        self.asked.dedup();
        &self.asked
    }

    /// Books an answer to a packet of `size` bytes.
    pub(super) fn answered(&mut self, size: u32) {
        if self.asked.contains(&size) {
            self.passes = self.passes.max(size);
        }
    }

    /// What is known; `None` before the first round.
    pub(super) fn result(&self) -> Option<PathMtu> {
        self.begun.then_some(PathMtu { largest: self.passes, reported: self.reported })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches a path that carries `mtu`; rounds it took.
    fn search(search: &mut SizeSearch, mtu: u32) -> u32 {
        for round in 0..SEARCH_ROUNDS {
            let sizes = search.next_sizes().to_vec();
            if sizes.is_empty() {
                return round;
            }
            sizes.iter().filter(|size| **size <= mtu).for_each(|size| search.answered(*size));
        }
        SEARCH_ROUNDS
    }

    #[test]
    fn the_word_of_a_router_saves_rounds_but_is_not_believed() {
        let hop = "10.0.0.254".parse().unwrap();
        for (word, mtu, rounds) in [(1500, 1500, 1), (1500, 1400, 3), (0, 1500, 3), (u32::MAX, 1500, 3)] {
            let mut sizes = SizeSearch::new(84, 9000);
            sizes.report(hop, word);
            let reported = Some(TooBig { hop, mtu: word });
            assert_eq!(
                (search(&mut sizes, mtu), sizes.result()),
                (rounds, Some(PathMtu { largest: mtu, reported })),
                "{word}"
            );
        }
    }

    #[test]
    fn an_answer_to_what_was_not_asked_counts_for_nothing() {
        let mut sizes = SizeSearch::new(84, 9000);
        sizes.answered(8000);
        assert_eq!(sizes.result(), None);
        sizes.next_sizes();
        sizes.answered(20_000);
        assert_eq!(sizes.result().map(|path| path.largest), Some(84));
    }

    proptest! {
        #[test]
        fn any_mtu_is_found(full in 100u32..32_768, part in 0u32..1000) {
            let mtu = 84 + ((full - 85) * part) / 1000;
            let mut sizes = SizeSearch::new(84, full);
            prop_assert!(search(&mut sizes, mtu) <= SEARCH_ROUNDS);
            prop_assert_eq!(sizes.result().unwrap().largest, mtu);
        }

        #[test]
        fn a_lossy_path_is_never_overrated(mtu in 100u32..9000, drops in prop::collection::vec(any::<bool>(), 128)) {
            let mut sizes = SizeSearch::new(84, 9000);
            let mut drops = drops.into_iter().cycle();
            for _ in 0..SEARCH_ROUNDS {
                for size in sizes.next_sizes().to_vec() {
                    if size <= mtu && !drops.next().unwrap() {
                        sizes.answered(size);
                    }
                }
            }
            prop_assert!(sizes.result().unwrap().largest <= mtu);
        }
    }
}
