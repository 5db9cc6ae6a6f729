//! A small machine of tests, with all that a report may be made of.

use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A small machine with all that a report may be made of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Toy {
    pub(super) maker: Option<String>,
    pub(super) serial_number: String,
    pub(super) memory: Option<Memory>,
    pub(super) flaws: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Memory {
    pub(super) installed_bytes: u64,
    pub(super) ecc: Option<bool>,
    pub(super) devices: Vec<Dimm>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Dimm {
    pub(super) locator: String,
    pub(super) size_bytes: Option<u64>,
    pub(super) volts: Option<f64>,
    pub(super) ranks: BTreeSet<u8>,
    pub(super) chips: Vec<Chip>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Chip {
    pub(super) maker: Option<String>,
}

/// The schema of a toy.
pub(super) fn schema() -> Value {
    schemars::schema_for!(Toy).to_value()
}

/// Two modules of 32 GiB, and an empty slot.
pub(super) fn server() -> Value {
    let dimm = |locator: &str, size_bytes| {
        let ranks = BTreeSet::from([1, 2]);
        Dimm { locator: locator.to_owned(), size_bytes, volts: None, ranks, chips: Vec::new() }
    };
    let devices = vec![dimm("A1", Some(32 << 30)), dimm("A2", Some(32 << 30)), dimm("B1", None)];
    let memory = Some(Memory { installed_bytes: 64 << 30, ecc: Some(true), devices });
    let flaws = BTreeMap::from([("l1tf".to_owned(), "Vulnerable".to_owned())]);
    let toy = Toy { maker: Some("A*".to_owned()), serial_number: "1".to_owned(), memory, flaws };
    serde_json::to_value(toy).unwrap_or_default()
}

prop_compose! {
    pub(super) fn chip()(maker in option::of(r"[a-b*\\\\=!]{0,3}")) -> Chip { Chip { maker } }
}
prop_compose! {
    pub(super) fn dimm()(
        locator in "[A-D]", size_bytes in option::of(0..3u64), shift in 0..50u32, volts in option::of(-2.0..2.0f64),
        ranks in btree_set(0..3u8, 0..3), chips in vec(chip(), 0..3),
    ) -> Dimm {
        Dimm { locator, size_bytes: size_bytes.map(|size| size << shift), volts, ranks, chips }
    }
}
prop_compose! {
    pub(super) fn memory()(installed_bytes: u64, ecc: Option<bool>, devices in vec(dimm(), 0..5)) -> Memory {
        Memory { installed_bytes, ecc, devices }
    }
}
prop_compose! {
    pub(super) fn toy()(
        maker in option::of(".{0,8}"), serial_number in "[0-9]{3}", memory in option::of(memory()),
        flaws in btree_map("[a-c. ]{1,3}", "[A-C]{0,2}", 0..3),
    ) -> Toy {
        Toy { maker, serial_number, memory, flaws }
    }
}
