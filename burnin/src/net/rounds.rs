//! Which ports of a rack are tested together. Pure.

/// A port of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// The machine.
    pub host: String,
    /// Its interface.
    pub interface: String,
}

/// All pairs of ports of different machines, in rounds: in none of them a port is in two pairs. With as many ports on each machine there
/// are at most as many rounds as ports.
///
/// It is the schedule of a tournament: one place stays, the others move by one each round, and opposite places are paired.
pub fn rounds(ports: &[Port]) -> Vec<Vec<(Port, Port)>> {
    let mut circle: Vec<Option<&Port>> = ports.iter().map(Some).collect();
    // An odd one waits in each round.
    if circle.len() % 2 == 1 {
        circle.push(None);
    }
    let mut found = Vec::new();
    for _ in 1..circle.len() {
        let opposite = circle.iter().zip(circle.iter().rev()).take(circle.len() / 2);
        let pair = |(one, other): (&Option<&Port>, &Option<&Port>)| {
            let (one, other) = ((*one)?, (*other)?);
            (one.host != other.host).then(|| (one.clone(), other.clone()))
        };
        let round: Vec<_> = opposite.filter_map(pair).collect();
        if !round.is_empty() {
            found.push(round);
        }
        if let Some((_, moving)) = circle.split_first_mut() {
            moving.rotate_right(1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn ports(hosts: usize, each: usize) -> Vec<Port> {
        let port = |host: usize, port: usize| Port { host: format!("node{host}"), interface: format!("eth{port}") };
        (0..hosts).flat_map(|host| (0..each).map(move |number| port(host, number))).collect()
    }

    #[test]
    fn every_pair_has_one_round_and_no_port_is_used_twice_in_one() {
        for (hosts, each) in [(2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (5, 3), (9, 2), (16, 4)] {
            let ports = ports(hosts, each);
            let rounds = rounds(&ports);
            let mut pairs = BTreeSet::new();
            for round in &rounds {
                let mut used = BTreeSet::new();
                for (one, other) in round {
                    assert!(one.host != other.host && used.insert(one) && used.insert(other), "{round:?}");
                    let pair = if one < other { (one, other) } else { (other, one) };
                    assert!(pairs.insert(pair), "{pair:?} twice");
                }
            }
            assert_eq!(pairs.len(), hosts * (hosts - 1) / 2 * each * each, "{hosts} {each}");
            assert!(rounds.len() <= ports.len(), "{} rounds", rounds.len());
        }
    }

    #[test]
    fn one_machine_alone_has_no_pairs() {
        assert!(rounds(&ports(1, 4)).is_empty());
        assert!(rounds(&[]).is_empty());
    }
}
