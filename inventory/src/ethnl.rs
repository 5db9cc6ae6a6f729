//! What a driver says of its link (linux/ethtool_netlink.h): speeds, error correction, why there is none, errors. Pure; the
//! bytes are hostile. Numbers are in the byte order of the machine that answered, which is taken to be this one's.

use kernel::{
    bytes::ne64,
    netlink::{attributes, u32_of},
};
use std::collections::BTreeMap;

/// `ETHTOOL_A_BITSET_`
const NOMASK: u16 = 1;
const BITS: u16 = 3;
/// `ETHTOOL_A_BITSET_BIT_`
const NAME: u16 = 2;
const VALUE: u16 = 3;
/// Modes of a link; kernels have some 130.
const MAX_MODES: usize = 512;
/// `ETHTOOL_STAT_NOT_SET`
const NOT_SET: u64 = u64::MAX;

/// `ETHTOOL_LINK_EXT_STATE_`, from 0 on.
const REASONS: [&str; 11] = [
    "autonegotiation",
    "link training failed",
    "logical mismatch",
    "bad signal integrity",
    "no cable",
    "cable issue",
    "EEPROM issue",
    "calibration failed",
    "power budget exceeded",
    "overheat",
    "module",
];
/// `ETHTOOL_LINK_MODE_FEC_` bits, and how the kernel calls them.
const FEC_MODES: [(u32, &str); 4] = [(49, "None"), (50, "RS"), (51, "BASER"), (74, "LLRS")];
/// Counters that mean errors: group, number (`ETHTOOL_A_STATS_`), name.
const ERRORS: [(u32, u16, &str); 16] = [
    (0, 0, "symbol_errors"),
    (1, 4, "frame_check_sequence_errors"),
    (1, 5, "alignment_errors"),
    (1, 8, "late_collisions"),
    (1, 9, "excessive_collisions"),
    (1, 10, "internal_transmit_errors"),
    (1, 11, "carrier_sense_errors"),
    (1, 13, "internal_receive_errors"),
    (1, 16, "excessive_deferrals"),
    (1, 19, "in_range_length_errors"),
    (1, 20, "out_of_range_lengths"),
    (1, 21, "frames_too_long"),
    (3, 0, "undersize_packets"),
    (3, 1, "oversize_packets"),
    (3, 2, "fragments"),
    (3, 3, "jabbers"),
];

/// Speeds, by the kernel's names such as `25000baseCR/Full`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkModes {
    pub supported: Vec<String>,
    pub advertised: Vec<String>,
    pub peer: Vec<String>,
    pub lanes: Option<u32>,
}

/// How the link is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub down_reason: Option<&'static str>,
    pub signal_quality: Option<u32>,
    pub max_signal_quality: Option<u32>,
    pub downs: Option<u32>,
}

/// Forward error correction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fec {
    pub configured: Vec<String>,
    pub is_automatic: Option<bool>,
    pub active: Option<&'static str>,
    pub counts: BTreeMap<String, u64>,
}

pub(crate) fn parse_link_modes(reply: &[u8]) -> LinkModes {
    let mut found = LinkModes::default();
    // Others are not speeds: ports, pauses, error correction.
    let speeds = |modes: Vec<String>| modes.into_iter().filter(|mode| mode.contains("base")).collect();
    for (kind, value) in attributes(reply, 0) {
        match kind {
            3 => {
                let (all, set) = bitset(value);
                (found.supported, found.advertised) = (speeds(all), speeds(set));
            }
            4 => found.peer = speeds(bitset(value).1),
            9 => found.lanes = u32_of(value).filter(|lanes| *lanes > 0),
            _ => {}
        }
    }
    found
}

pub(crate) fn parse_link_state(reply: &[u8]) -> LinkState {
    let mut found = LinkState::default();
    for (kind, value) in attributes(reply, 0) {
        match kind {
            3 => found.signal_quality = u32_of(value),
            4 => found.max_signal_quality = u32_of(value),
            5 => found.down_reason = value.first().and_then(|reason| REASONS.get(usize::from(*reason))).copied(),
            7 => found.downs = u32_of(value),
            _ => {}
        }
    }
    found
}

pub(crate) fn parse_fec(reply: &[u8]) -> Fec {
    let mut found = Fec::default();
    for (kind, value) in attributes(reply, 0) {
        match kind {
            2 => found.configured = bitset(value).1,
            3 => found.is_automatic = value.first().map(|byte| *byte != 0),
            4 => {
                let active = u32_of(value);
                found.active = FEC_MODES.iter().find(|(bit, _)| Some(*bit) == active).map(|(_, name)| *name);
            }
            5 => {
                // The first number of each is the sum of all lanes.
                let names = [(2, "fec_corrected_blocks"), (3, "fec_uncorrectable_blocks"), (4, "fec_corrected_bits")];
                for (kind, value) in attributes(value, 0) {
                    let name = names.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
                    found.counts.extend(name.zip(count(value)).map(|(name, count)| (name.to_owned(), count)));
                }
            }
            _ => {}
        }
    }
    found
}

/// The counters that mean errors, by name; those a driver does not have are missing.
pub(crate) fn parse_errors(reply: &[u8]) -> BTreeMap<String, u64> {
    let mut errors = BTreeMap::new();
    for (_, group) in attributes(reply, 0).filter(|(kind, _)| *kind == 4) {
        let Some(id) = attributes(group, 0).find(|(kind, _)| *kind == 2).and_then(|(_, id)| u32_of(id)) else {
            continue;
        };
        let counters =
            attributes(group, 0).filter(|(kind, _)| *kind == 4).flat_map(|(_, counter)| attributes(counter, 0));
        for (number, value) in counters {
            let known = ERRORS.iter().find(|(group, known, _)| (*group, *known) == (id, number));
            errors.extend(known.zip(count(value)).map(|((.., name), count)| ((*name).to_owned(), count)));
        }
    }
    errors
}

fn count(value: &[u8]) -> Option<u64> {
    ne64(value, 0).filter(|count| *count != NOT_SET)
}

/// The names of all bits of a set that is not compact, and of those that are set.
fn bitset(value: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut all, mut set) = (Vec::new(), Vec::new());
    // A set without a mask lists what is set.
    let is_list = attributes(value, 0).any(|(kind, _)| kind == NOMASK);
    let bits = attributes(value, 0).filter(|(kind, _)| *kind == BITS).flat_map(|(_, bits)| attributes(bits, 0));
    for (_, bit) in bits.take(MAX_MODES) {
        let Some((_, name)) = attributes(bit, 0).find(|(kind, _)| *kind == NAME) else { continue };
        let name = kernel::bytes::text(name);
        if is_list || attributes(bit, 0).any(|(kind, _)| kind == VALUE) {
            set.push(name.clone());
        }
        all.push(name);
    }
    (all, set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::netlink::attribute;
    use proptest::prelude::*;

    /// A set of bits: each name, and whether it is set.
    fn set(bits: &[(&str, bool)], has_mask: bool) -> Vec<u8> {
        let bit = |(name, is_set): &(&str, bool)| {
            let mut bit = attribute(NAME, format!("{name}\0").as_bytes());
            if *is_set && has_mask {
                bit.extend(attribute(VALUE, &[]));
            }
            attribute(1, &bit)
        };
        let bits = attribute(BITS, &bits.iter().flat_map(bit).collect::<Vec<_>>());
        if has_mask { bits } else { [attribute(NOMASK, &[]), bits].concat() }
    }

    #[test]
    fn speeds_and_lanes() {
        let ours = [("Autoneg", true), ("25000baseCR/Full", true), ("10000baseCR/Full", false), ("RS", true)];
        let reply = [
            attribute(0x8000 | 3, &set(&ours, true)),
            attribute(4, &set(&[("25000baseCR/Full", false), ("FIBRE", false)], false)),
            attribute(9, &1u32.to_ne_bytes()),
        ];
        let found = parse_link_modes(&reply.concat());
        assert_eq!(found.supported, ["25000baseCR/Full", "10000baseCR/Full"]);
        assert_eq!(
            (found.advertised, found.peer),
            (vec!["25000baseCR/Full".to_owned()], vec!["25000baseCR/Full".to_owned()])
        );
        assert_eq!(found.lanes, Some(1));
    }

    #[test]
    fn states() {
        let number = |kind, number: u32| attribute(kind, &number.to_ne_bytes());
        let reply = [attribute(2, &[0]), number(3, 4), number(4, 7), attribute(5, &[4]), number(7, 12)].concat();
        let found = parse_link_state(&reply);
        assert_eq!((found.down_reason, found.downs), (Some("no cable"), Some(12)));
        assert_eq!((found.signal_quality, found.max_signal_quality), (Some(4), Some(7)));
        assert_eq!(parse_link_state(&attribute(5, &[99])), LinkState::default());
    }

    #[test]
    fn error_correction() {
        let lanes = |counts: &[u64]| counts.iter().flat_map(|count| count.to_ne_bytes()).collect::<Vec<_>>();
        let counts = [attribute(2, &lanes(&[7, 3, 4])), attribute(3, &lanes(&[0])), attribute(4, &lanes(&[u64::MAX]))];
        let reply = [
            attribute(2, &set(&[("RS", false)], false)),
            attribute(3, &[1]),
            attribute(4, &50u32.to_ne_bytes()),
            attribute(5, &counts.concat()),
        ];
        let found = parse_fec(&reply.concat());
        assert_eq!(
            (found.configured, found.is_automatic, found.active),
            (vec!["RS".to_owned()], Some(true), Some("RS"))
        );
        let counts = [("fec_corrected_blocks".to_owned(), 7), ("fec_uncorrectable_blocks".to_owned(), 0)];
        assert_eq!(found.counts, counts.into());
    }

    #[test]
    fn errors_by_name() {
        let counter = |number, count: u64| attribute(4, &attribute(number, &count.to_ne_bytes()));
        let group = |id: u32, counters: Vec<u8>| attribute(4, &[attribute(2, &id.to_ne_bytes()), counters].concat());
        let reply = [
            group(0, counter(0, 3)),
            group(1, [counter(0, 1_000), counter(4, 9), counter(5, u64::MAX)].concat()),
            group(3, counter(3, 0)),
        ];
        let expected = [("symbol_errors", 3), ("frame_check_sequence_errors", 9), ("jabbers", 0)];
        assert_eq!(parse_errors(&reply.concat()), expected.map(|(name, count)| (name.to_owned(), count)).into());
    }

    proptest! {
        #[test]
        fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_link_modes(&bytes);
            parse_link_state(&bytes);
            parse_fec(&bytes);
            parse_errors(&bytes);
        }
    }
}
