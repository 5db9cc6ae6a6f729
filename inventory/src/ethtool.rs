//! What a driver says of its network card (linux/ethtool.h). Pure. Numbers are in the byte order of the machine that answered,
//! which is taken to be this one's.

use kernel::bytes::ne32;
use kernel::order::{self, Gather};
use std::collections::BTreeMap;

/// `ETH_GSTRING_LEN`
const NAME_BYTES: usize = 32;
/// `struct ethtool_get_features_block`: available, requested, active, never changed.
const BLOCK_BYTES: usize = 16;
const FEATURES_IN_BLOCK: usize = 32;

/// `struct ethtool_drvinfo`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Driver {
    pub name: Option<String>,
    pub version: Option<String>,
    pub firmware: Option<String>,
    /// Expansion ROM's.
    pub rom: Option<String>,
}

/// An offload, or another feature of the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    pub name: String,
    pub is_on: bool,
    /// It can't be switched.
    pub is_fixed: bool,
}

/// `struct ethtool_link_settings`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    pub port: Option<&'static str>,
    pub duplex: Option<&'static str>,
    pub is_autonegotiating: Option<bool>,
}

pub(crate) fn parse_driver(reply: &[u8]) -> Driver {
    let field = |index: usize| reply.get(4 + index * NAME_BYTES..4 + (index + 1) * NAME_BYTES).and_then(text);
    // Drivers without such a version say so in text.
    let version = |index| field(index).filter(|text| !["N/A", "n/a", "not available"].contains(&text.as_str()));
    Driver { name: field(0), version: version(1), firmware: version(2), rom: version(4) }
}

pub(crate) fn parse_features(names: &[u8], blocks: &[u8]) -> Vec<Feature> {
    let feature = |(index, name): (usize, &[u8])| {
        let block = blocks.get(index / FEATURES_IN_BLOCK * BLOCK_BYTES..)?;
        let is_set = |word: usize| Some(ne32(block, word * 4)? >> (index % FEATURES_IN_BLOCK) & 1 == 1);
        Some(Feature { name: text(name)?, is_on: is_set(2)?, is_fixed: !is_set(0)? || is_set(3)? })
    };
    let mut features: Vec<_> = names.chunks_exact(NAME_BYTES).enumerate().filter_map(feature).collect();
    order::sort_by(&mut features, |a, b| a.name.cmp(&b.name));
    features
}

/// The driver's own flags.
pub(crate) fn parse_private_flags(names: &[u8], bits: &[u8]) -> BTreeMap<String, bool> {
    let Some(bits) = ne32(bits, 0) else { return BTreeMap::new() };
    let names = names.chunks_exact(NAME_BYTES).take(32).enumerate();
    names.filter_map(|(bit, name)| Some((text(name)?, bits >> bit & 1 == 1))).gather()
}

/// Whether the card's firmware speaks LLDP, which then never reaches the host: from a flag of Intel's drivers (ice and
/// i40e); `None` where no flag does.
pub(crate) fn has_firmware_lldp(flags: &BTreeMap<String, bool>) -> Option<bool> {
    flags.get("fw-lldp-agent").copied().or_else(|| flags.get("disable-fw-lldp").map(|is_off| !is_off))
}

pub(crate) fn parse_link_settings(reply: &[u8]) -> Option<LinkSettings> {
    let [duplex, port, _, autonegotiation] = *reply.get(8..)?.first_chunk()?;
    Some(LinkSettings {
        port: match port {
            0x00 => Some("twisted pair"),
            0x01 => Some("AUI"),
            0x02 => Some("MII"),
            0x03 => Some("fibre"),
            0x04 => Some("BNC"),
            0x05 => Some("direct attach copper"),
            _ => None,
        },
        duplex: match duplex {
            0 => Some("half"),
            1 => Some("full"),
            _ => None,
        },
        is_autonegotiating: match autonegotiation {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    })
}

/// A hardware address, lower case with colons; `None` for none, and for all zeros.
pub(crate) fn parse_address(reply: &[u8]) -> Option<String> {
    if reply.iter().all(|byte| *byte == 0) {
        return None;
    }
    Some(kernel::hex::colons(reply))
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> Option<String> {
    let text = kernel::bytes::text(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(names: &[&str]) -> Vec<u8> {
        let padded = |name: &&str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME_BYTES, 0);
            bytes
        };
        names.iter().flat_map(padded).collect()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn drivers() {
        let mut reply = vec![3, 0, 0, 0];
        reply.extend(names(&["ice", "6.1.0", "4.40 0x8001c967 1.3534.0", "0000:17:00.0", "N/A"]));
        reply.resize(196, 0);
        let found = parse_driver(&reply);
        assert_eq!((found.name.as_deref(), found.version.as_deref()), (Some("ice"), Some("6.1.0")));
        assert_eq!((found.firmware.as_deref(), found.rom), (Some("4.40 0x8001c967 1.3534.0"), None));
        assert_eq!(parse_driver(&reply[..60]), Driver { name: Some("ice".to_owned()), ..Driver::default() });
    }

    #[test]
    fn features() {
        let mut all: Vec<String> = (0..40).map(|n| format!("feature-{n:02}")).collect();
        all[1].clear();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let blocks = words(&[0b1100, 0, 0b1001, 0b1000, 1 << 7, 0, 1 << 7, 0]);
        let found = parse_features(&names(&all), &blocks);
        let of = |name: &str| found.iter().find(|f| f.name == name).map(|f| (f.is_on, f.is_fixed));
        assert_eq!(of("feature-00"), Some((true, true)));
        assert_eq!(of("feature-02"), Some((false, false)));
        assert_eq!(of("feature-03"), Some((true, true)));
        assert_eq!(of("feature-39"), Some((true, false)));
        assert_eq!((of("feature-01"), found.len()), (None, 39));
        assert_eq!(parse_features(&names(&all), &blocks[..16]).len(), 31);
    }

    #[test]
    fn private_flags_and_lldp() {
        let names = names(&["link-down-on-close", "fw-lldp-agent", "vf-true-promisc-support"]);
        let flags = parse_private_flags(&names, &words(&[0b010]));
        assert_eq!(flags.iter().filter(|(_, on)| **on).map(|(name, _)| name).collect::<Vec<_>>(), ["fw-lldp-agent"]);
        assert_eq!((flags.len(), has_firmware_lldp(&flags)), (3, Some(true)));
        let i40e = BTreeMap::from([("disable-fw-lldp".to_owned(), true)]);
        assert_eq!((has_firmware_lldp(&i40e), has_firmware_lldp(&BTreeMap::new())), (Some(false), None));
        assert!(parse_private_flags(&names, &[1]).is_empty());
    }

    #[test]
    fn links_and_addresses() {
        let mut reply = words(&[0x4c, 25_000]);
        reply.extend([1, 5, 0, 1, 0, 0, 0, 4]);
        let found = parse_link_settings(&reply).unwrap();
        assert_eq!((found.port, found.duplex), (Some("direct attach copper"), Some("full")));
        assert_eq!(found.is_autonegotiating, Some(true));
        assert_eq!(parse_link_settings(&reply[..11]), None);
        assert_eq!(parse_address(&[0x52, 0x54, 0, 0xaa, 0xbb, 1]).as_deref(), Some("52:54:00:aa:bb:01"));
        assert_eq!((parse_address(&[0; 6]), parse_address(&[])), (None, None));
    }

    proptest! {
        #[test]
        fn noise_never_panics(a in prop::collection::vec(any::<u8>(), 0..3000), b in prop::collection::vec(any::<u8>(), 0..200)) {
            parse_driver(&a);
            parse_features(&a, &b);
            parse_private_flags(&a, &b);
            parse_link_settings(&a);
            parse_address(&b);
        }
    }
}
