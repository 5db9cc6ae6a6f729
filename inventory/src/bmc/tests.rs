//! Controllers of many kinds, good and bad.

use super::{lan::Addresses, *};
use crate::testing::Tree;
use proptest::prelude::*;
use std::{cell::Cell, collections::BTreeMap};

/// Answers what it was given, and refuses everything else.
#[derive(Default)]
struct Fake {
    replies: BTreeMap<(u8, u8, Vec<u8>), Vec<u8>>,
    asked: Cell<usize>,
}

impl Controller for Fake {
    fn request(&mut self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
        self.asked.set(self.asked.get() + 1);
        self.replies.get(&(netfn, command, data.to_vec())).cloned()
    }
}

impl Fake {
    fn channel(mut self, channel: u8, medium: u8) -> Self {
        let info = vec![channel, medium, 1, 0x80, 0xf2, 0x1b, 0, 0, 0];
        self.replies.insert((NETFN_APP, 0x42, vec![channel]), info);
        self
    }

    fn parameter(mut self, channel: u8, parameter: u8, set: u8, data: &[u8]) -> Self {
        // The revision goes first.
        let reply = [&[0x11], data].concat();
        self.replies.insert((NETFN_TRANSPORT, 2, vec![channel, parameter, set, 0]), reply);
        self
    }

    /// An entry of the static (56) or dynamic (59) table.
    fn ipv6(self, channel: u8, table: u8, set: u8, source: u8, address: &str, status: u8) -> Self {
        let address: std::net::Ipv6Addr = address.parse().unwrap();
        self.parameter(channel, table, set, &[&[set, source], &address.octets()[..], &[64, status]].concat())
    }

    fn found(mut self) -> (String, String) {
        let Addresses { ipv4, ipv6 } = addresses(&mut self);
        let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        (text(ipv4.map(|ip| ip.to_string())), text(ipv6.map(|ip| ip.to_string())))
    }
}

fn pair(ipv4: &str, ipv6: &str) -> (String, String) {
    (ipv4.to_owned(), ipv6.to_owned())
}

#[test]
fn ipv4_of_the_first_lan_channel_that_has_one() {
    let fake = Fake::default()
        .channel(1, 4)
        .parameter(1, 3, 0, &[0, 0, 0, 0])
        // A serial port with an address does not count.
        .channel(2, 5)
        .parameter(2, 3, 0, &[10, 0, 0, 2])
        .channel(8, 4)
        .parameter(8, 3, 0, &[10, 16, 218, 144])
        .channel(9, 4)
        .parameter(9, 3, 0, &[10, 0, 0, 9]);
    assert_eq!(fake.found(), pair("10.16.218.144", "-"));
    // Channels above 12 are not networks.
    assert_eq!(Fake::default().channel(13, 4).parameter(13, 3, 0, &[10, 0, 0, 1]).found(), pair("-", "-"));
    assert_eq!(Fake::default().channel(1, 4).parameter(1, 3, 0, &[10, 0, 0]).found(), pair("-", "-"));
}

#[test]
fn ipv6_from_the_network_goes_before_that_set_by_hand() {
    let fake = || {
        Fake::default()
            .channel(1, 4)
            .parameter(1, 51, 0, &[2])
            .parameter(1, 55, 0, &[1, 3, 3])
            .ipv6(1, 56, 0, 0x80, "fd00::56", 0)
            .ipv6(1, 59, 0, 2, "fd00::1", 2)
            .ipv6(1, 59, 1, 0, "fd00::2", 0)
    };
    assert_eq!(fake().ipv6(1, 59, 2, 1, "fe80::3", 0).found(), pair("-", "fe80::3"));
    assert_eq!(fake().ipv6(1, 59, 2, 2, "::", 0).found(), pair("-", "fd00::56"));
    // The controller has no more than three of them.
    assert_eq!(fake().ipv6(1, 59, 3, 1, "fd00::3", 0).found(), pair("-", "fd00::56"));
    assert_eq!(fake().ipv6(1, 56, 0, 0, "fd00::56", 0).found(), pair("-", "-"));
    assert_eq!(fake().ipv6(1, 56, 0, 0x80, "fd00::56", 1).found(), pair("-", "-"));
}

#[test]
fn ipv6_only_where_it_is_enabled() {
    let fake = |enables: &[u8]| {
        let fake = Fake::default().channel(1, 4).ipv6(1, 59, 0, 1, "fd00::1", 0);
        fake.parameter(1, 51, 0, enables).found().1
    };
    assert_eq!([fake(&[0]), fake(&[1]), fake(&[2]), fake(&[]), fake(&[3])], ["-", "fd00::1", "fd00::1", "-", "-"]);
}

#[test]
fn a_controller_without_lan_is_asked_for_its_channels_only() {
    let mut fake = Fake::default().channel(1, 5);
    assert_eq!(addresses(&mut fake), Addresses::default());
    assert_eq!(fake.asked.get(), 12);
}

#[test]
fn a_captured_controller() {
    let tree = Tree::new(&[("sys/class/ipmi/ipmi0/dev", "247:0\n")]);
    tree.add("landfall/ipmi/06-42-01", [0, 1, 4, 1, 0x80, 0xf2, 0x1b, 0, 0, 0]);
    tree.add("landfall/ipmi/0c-02-01-03-00-00", [0, 0x11, 192, 168, 0, 120]);
    // "Parameter not supported"
    tree.add("landfall/ipmi/0c-02-01-33-00-00", [0x80]);
    let root = tree.root();
    let found = addresses(&mut Machine::find(&root).unwrap());
    assert_eq!(found, Addresses { ipv4: Some([192, 168, 0, 120].into()), ipv6: None });
}

#[test]
fn a_machine_without_one() {
    let tree = Tree::new(&[("landfall/ipmi/06-42-01", "")]);
    assert!(Machine::find(&tree.root()).is_none());
}

proptest! {
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        fuzz(&bytes);
    }
}
