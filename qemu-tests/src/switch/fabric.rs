//! What happens to a frame: learning, forwarding, loss, delay, cuts. No I/O.

use std::{collections::BTreeMap, time::Duration};

/// Ethernet header: destination, source, type.
const HEADER_BYTES: usize = 14;
/// Addresses remembered; a guest that invents more only causes flooding.
const MAX_ADDRESSES: usize = 4096;

/// A port's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub usize);

/// The quality of a port's cable, or of the path between two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// Share of frames lost, 0 to 1, either way.
    pub loss: f64,
    /// Added to each frame's way.
    pub delay: Duration,
    /// Nothing passes.
    pub cut: bool,
}

/// What passed a port, as seen from the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames the machine sent.
    pub received: u64,
    pub received_bytes: u64,
    /// Frames handed to the machine.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Frames for the machine lost by chance.
    pub dropped: u64,
    /// Frames for the machine that met a cut.
    pub cut: u64,
    /// Frames for the machine while it was too slow or not connected.
    pub overflowed: u64,
}

/// One copy of a frame on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub to: PortId,
    pub delay: Duration,
}

#[derive(Debug)]
struct Port {
    name: String,
    link: Link,
    counters: Counters,
}

/// Ports, rules and learnt addresses.
#[derive(Debug)]
pub(super) struct Fabric {
    ports: Vec<Port>,
    pairs: BTreeMap<(PortId, PortId), Link>,
    addresses: BTreeMap<[u8; 6], PortId>,
    random: fastrand::Rng,
}

impl Fabric {
    /// The same seed and traffic lose the same frames.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            ports: Vec::new(),
            pairs: BTreeMap::new(),
            addresses: BTreeMap::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    pub(super) fn add_port(&mut self, name: &str) -> PortId {
        self.ports.push(Port { name: name.to_owned(), link: Link::default(), counters: Counters::default() });
        PortId(self.ports.len() - 1)
    }

    pub(super) fn name(&self, port: PortId) -> &str {
        self.ports.get(port.0).map_or("?", |port| &port.name)
    }

    pub(super) fn port_mut(&mut self, port: PortId) -> Option<(&mut Link, &mut Counters)> {
        self.ports.get_mut(port.0).map(|port| (&mut port.link, &mut port.counters))
    }

    pub(super) fn counters(&self, port: PortId) -> Counters {
        self.ports.get(port.0).map(|port| port.counters).unwrap_or_default()
    }

    pub(super) fn pair_mut(&mut self, a: PortId, b: PortId) -> &mut Link {
        self.pairs.entry((a.min(b), a.max(b))).or_default()
    }

    /// Removes every rule.
    pub(super) fn heal(&mut self) {
        self.pairs.clear();
        self.ports.iter_mut().for_each(|port| port.link = Link::default());
    }

    /// Forgets what was learnt behind a port whose machine went away.
    pub(super) fn unplug(&mut self, port: PortId) {
        self.addresses.retain(|_, behind| *behind != port);
    }

    /// Where a frame goes. Group and unknown addresses go everywhere, link-local groups (LLDP, STP) included: this is one
    /// cable with many ends rather than a bridge, so that a test can act as the neighbour.
    pub(super) fn forward(&mut self, from: PortId, frame: &[u8]) -> Vec<Delivery> {
        let bytes = len_u64(frame);
        if let Some((_, counters)) = self.port_mut(from) {
            counters.received += 1;
            counters.received_bytes += bytes;
        }
        let (Some(to), Some(source)) = (address(frame, 0), address(frame, 6)) else { return Vec::new() };
        if frame.len() < HEADER_BYTES {
            return Vec::new();
        }
        if !is_group(source) && (self.addresses.len() < MAX_ADDRESSES || self.addresses.contains_key(&source)) {
            self.addresses.insert(source, from);
        }
        match self.addresses.get(&to).copied().filter(|_| !is_group(to)) {
            Some(port) if port == from => Vec::new(),
            Some(port) => self.pass(from, port).into_iter().collect(),
            None => {
                let all: Vec<_> = (0..self.ports.len()).map(PortId).filter(|port| *port != from).collect();
                all.into_iter().filter_map(|port| self.pass(from, port)).collect()
            }
        }
    }

    fn pass(&mut self, from: PortId, to: PortId) -> Option<Delivery> {
        let pair = self.pairs.get(&(from.min(to), from.max(to))).copied().unwrap_or_default();
        let sender = self.ports.get(from.0)?.link;
        let links = [sender, pair, self.ports.get(to.0)?.link];
        let dropped = links.iter().any(|link| link.loss > 0.0 && self.random.f64() < link.loss);
        let receiver = self.ports.get_mut(to.0)?;
        if links.iter().any(|link| link.cut) {
            receiver.counters.cut += 1;
            return None;
        }
        if dropped {
            receiver.counters.dropped += 1;
            return None;
        }
        Some(Delivery { to, delay: links.iter().map(|link| link.delay).sum() })
    }
}

fn address(frame: &[u8], at: usize) -> Option<[u8; 6]> {
    frame.get(at..at + 6)?.try_into().ok()
}

fn is_group(address: [u8; 6]) -> bool {
    address[0] & 1 == 1
}

/// A length as a counter.
pub(super) fn len_u64(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let address = |last| if last == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, last] };
        [&address(to)[..], &address(from)[..], &[0x88, 0xb5, 1, 2, 3]].concat()
    }

    fn fabric() -> (Fabric, [PortId; 3]) {
        let mut fabric = Fabric::new(1);
        let ports = ["a", "b", "c"].map(|name| fabric.add_port(name));
        (fabric, ports)
    }

    fn targets(deliveries: &[Delivery]) -> Vec<PortId> {
        deliveries.iter().map(|delivery| delivery.to).collect()
    }

    #[test]
    fn unknown_and_group_addresses_go_everywhere_known_ones_to_their_port() {
        let (mut fabric, [a, b, c]) = fabric();
        assert_eq!(targets(&fabric.forward(a, &frame(2, 1))), [b, c]);
        assert_eq!(targets(&fabric.forward(b, &frame(1, 2))), [a]);
        assert_eq!(targets(&fabric.forward(a, &frame(2, 1))), [b]);
        assert_eq!(targets(&fabric.forward(a, &frame(0xff, 1))), [b, c]);
        // Two machines behind one port: not back out of it.
        fabric.forward(a, &frame(0xff, 9));
        assert_eq!(targets(&fabric.forward(a, &frame(9, 1))), []);
        fabric.unplug(b);
        assert_eq!(targets(&fabric.forward(a, &frame(2, 1))), [b, c]);
        assert_eq!(fabric.counters(a), Counters { received: 6, received_bytes: 102, ..Counters::default() });
    }

    #[test]
    fn a_machine_that_moves_is_found_again() {
        let (mut fabric, [a, b, c]) = fabric();
        fabric.forward(b, &frame(0xff, 2));
        fabric.forward(c, &frame(0xff, 2));
        assert_eq!(targets(&fabric.forward(a, &frame(2, 1))), [c]);
    }

    #[test]
    fn a_cut_between_two_leaves_the_others() {
        let (mut fabric, [a, b, c]) = fabric();
        fabric.pair_mut(b, a).cut = true;
        assert_eq!(targets(&fabric.forward(a, &frame(0xff, 1))), [c]);
        assert_eq!(targets(&fabric.forward(b, &frame(0xff, 2))), [c]);
        assert_eq!(targets(&fabric.forward(c, &frame(0xff, 3))), [a, b]);
        assert_eq!((fabric.counters(a).cut, fabric.counters(b).cut), (1, 1));
        fabric.heal();
        assert_eq!(targets(&fabric.forward(a, &frame(0xff, 1))), [b, c]);
    }

    #[test]
    fn losses_and_delays_add_up_along_the_way() {
        let (mut fabric, [a, b, _]) = fabric();
        fabric.port_mut(a).unwrap().0.delay = Duration::from_millis(10);
        fabric.pair_mut(a, b).delay = Duration::from_millis(5);
        fabric.forward(b, &frame(0xff, 2));
        assert_eq!(fabric.forward(a, &frame(2, 1)), [Delivery { to: b, delay: Duration::from_millis(15) }]);
        fabric.port_mut(b).unwrap().0.loss = 0.3;
        let passed = (0..1000).filter(|_| !fabric.forward(a, &frame(2, 1)).is_empty()).count();
        assert!((640..=760).contains(&passed), "{passed} of 1000 passed a link that loses 30 %");
        assert_eq!(usize::try_from(fabric.counters(b).dropped).unwrap(), 1000 - passed);
        fabric.port_mut(b).unwrap().0.loss = 1.0;
        assert!(fabric.forward(a, &frame(2, 1)).is_empty());
    }

    #[test]
    fn runts_go_nowhere() {
        let (mut fabric, [a, ..]) = fabric();
        assert!(fabric.forward(a, &[0xff; 13]).is_empty());
        assert!(fabric.forward(a, &[]).is_empty());
    }
}
