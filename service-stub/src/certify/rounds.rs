//! Pairs of hosts by rounds: every host meets every other once, and is in one pair at a time.

/// What a host does in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// No other host is there at all.
    Alone,
    /// The number of hosts is odd: it pauses.
    Pause,
    /// The other one tests.
    Serve,
    Test,
}

/// How many rounds so many hosts take.
pub(super) fn count(hosts: usize) -> u32 {
    let rounds = match hosts {
        0 | 1 => 1,
        even if even % 2 == 0 => even - 1,
        odd => odd,
    };
    u32::try_from(rounds).unwrap_or(u32::MAX)
}

/// The part of a host in a round, and its peer. The last place stands still, the others move round it.
pub(super) fn part(hosts: usize, host: usize, round: u32) -> (Part, Option<usize>) {
    if hosts < 2 {
        return (Part::Alone, None);
    }
    let places = hosts + hosts % 2;
    let moving = places - 1;
    let round = usize::try_from(round).unwrap_or(0) % moving;
    let peer = if host == moving {
        // The one that meets itself.
        (0..moving).find(|other| 2 * other % moving == round).unwrap_or(0)
    } else {
        match (round + moving - host) % moving {
            same if same == host => moving,
            other => other,
        }
    };
    if peer >= hosts {
        return (Part::Pause, None);
    }
    (if host < peer { Part::Serve } else { Part::Test }, Some(peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_pair_meets_once_and_no_host_is_in_two_pairs() {
        for hosts in 2..=17 {
            let mut met = BTreeSet::new();
            for round in 0..count(hosts) {
                let mut pauses = 0;
                for host in 0..hosts {
                    match part(hosts, host, round) {
                        (Part::Pause, None) => pauses += 1,
                        (own, Some(peer)) => {
                            assert_ne!(host, peer);
                            let theirs = if own == Part::Serve { Part::Test } else { Part::Serve };
                            assert_eq!(part(hosts, peer, round), (theirs, Some(host)), "{hosts} {round}");
                            if own == Part::Test {
                                assert!(met.insert((peer, host)), "{hosts}: {peer} and {host} meet again");
                            }
                        }
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(pauses, hosts % 2);
            }
            assert_eq!(met.len(), hosts * (hosts - 1) / 2);
        }
        assert_eq!((count(1), part(1, 0, 0)), (1, (Part::Alone, None)));
    }
}
