//! Comparison of a boot with a good one, by what was measured.

use crate::{Event, Facts, Pcr};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Registers that are alike on machines of a model that boot the same image. Not 1 and 5: they hold serial numbers, the order of boot
/// and partitions; not 6, which holds what woke the machine; not 11 to 13 and 15, which systemd extends while it runs.
pub const JUDGED: [u8; 8] = [0, 2, 3, 4, 7, 8, 9, 14];
/// Events that are named of one register.
const MAX_NAMED: usize = 4;

/// What a machine booted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    pub pcrs: Vec<Pcr>,
    pub events: Vec<Event>,
}

impl From<&Facts> for Boot {
    fn from(facts: &Facts) -> Self {
        let measured = facts.events.iter().filter(|event| event.is_measured());
        Self { pcrs: facts.pcrs.clone(), events: measured.cloned().collect() }
    }
}

/// What is different from the good boot, a line for each register; empty if nothing is.
pub fn differences(good: &Boot, seen: &Boot) -> Vec<String> {
    let value = |boot: &Boot, index| boot.pcrs.iter().find(|pcr| pcr.index == index).map(|pcr| pcr.sha256);
    let differing = JUDGED.into_iter().filter(|index| value(good, *index) != value(seen, *index));
    differing.map(|index| format!("register {index} ({}): {}", holds(index), changes(good, seen, index))).collect()
}

/// The differences from that good boot which is nearest.
pub fn from_nearest<'a>(good: impl IntoIterator<Item = &'a Boot>, seen: &Boot) -> Option<Vec<String>> {
    good.into_iter().map(|good| differences(good, seen)).min_by_key(Vec::len)
}

/// What a register is for (TCG PC Client Platform Firmware Profile, 3.3.4; GRUB's manual, "Measured Boot").
fn holds(index: u8) -> &'static str {
    match index {
        0 => "firmware",
        2 => "drivers of cards",
        3 => "settings of cards",
        4 => "boot loader and kernel",
        7 => "secure boot",
        8 => "commands and arguments of GRUB",
        9 => "files, and arguments of the kernel",
        14 => "keys of shim",
        _ => "other",
    }
}

fn measured(boot: &Boot, pcr: u8) -> impl Iterator<Item = &Event> {
    boot.events.iter().filter(move |event| event.pcr == pcr)
}

fn changes(good: &Boot, seen: &Boot, pcr: u8) -> String {
    if good.events.is_empty() || seen.events.is_empty() {
        let which = if seen.events.is_empty() { "the host has no event log" } else { "no event log was recorded" };
        return format!("another value; {which} to say why");
    }
    let mut count: HashMap<_, i64> = HashMap::new();
    for event in measured(good, pcr) {
        *count.entry(event.sha256).or_default() += 1;
    }
    let mut new = Vec::new();
    for event in measured(seen, pcr) {
        let left = count.entry(event.sha256).or_default();
        *left -= 1;
        if *left < 0 {
            new.push(event);
        }
    }
    let mut missing = Vec::new();
    for event in measured(good, pcr) {
        let left = count.entry(event.sha256).or_default();
        if *left > 0 {
            *left -= 1;
            missing.push(event);
        }
    }
    let parts: Vec<String> = [("measured", new), ("missing", missing)]
        .into_iter()
        .filter(|(_, events)| !events.is_empty())
        .map(|(word, events)| format!("{word}: {}", named(&events)))
        .collect();
    if parts.is_empty() { "the same was measured in another order".to_owned() } else { parts.join("; ") }
}

fn named(events: &[&Event]) -> String {
    let mut names: Vec<String> = events
        .iter()
        .take(MAX_NAMED)
        .map(|event| {
            let digest: String = event.sha256.to_string().chars().take(12).collect();
            format!("{} {} [{digest}]", event.kind, event.description)
        })
        .collect();
    if let Some(more) = events.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}
