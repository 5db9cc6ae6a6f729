//! What the firmware starts, in which order, and what must change: state and plan, without access to firmware.

use super::{
    device_path::HardDrive,
    esp::{self, Architecture},
    load_option::{LoadOption, LoadOptionError},
};
use kernel::efi::{VariableError, Variables};
use kernel::order::Gather;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The firmware's boot entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootState {
    /// Numbers of entries, the first that is tried first.
    pub order: Vec<u16>,
    /// The one that was started.
    pub current: Option<u16>,
    /// The one to be started next time, and only then.
    pub next: Option<u16>,
    /// Whether only signed programs are started; None if the firmware does not say.
    pub secure_boot: Option<bool>,
    /// Entries by number, including invalid ones.
    pub entries: BTreeMap<u16, Result<LoadOption, LoadOptionError>>,
}

impl BootState {
    pub fn read(variables: &Variables) -> Result<Self, VariableError> {
        let value = |name| Ok(variables.read(name)?.map(|variable| variable.value));
        let number = |name| value(name).map(|value| value?.as_slice().try_into().ok().map(u16::from_le_bytes));
        let mut entries = BTreeMap::new();
        for name in variables.names()? {
            let Some(number) = entry_number(&name) else { continue };
            if let Some(variable) = variables.read(&name)? {
                entries.insert(number, LoadOption::parse(&variable.value));
            }
        }
        let order = value("BootOrder")?.unwrap_or_default();
        Ok(Self {
            order: order.as_chunks().0.iter().map(|number| u16::from_le_bytes(*number)).collect(),
            current: number("BootCurrent")?,
            next: number("BootNext")?,
            secure_boot: value("SecureBoot")?.and_then(|value| value.first().map(|on| *on == 1)),
            entries,
        })
    }

    /// One line for each entry, in the order they are tried, then the others.
    pub fn lines(&self) -> Vec<String> {
        let listed = self.order.iter().filter(|number| self.entries.contains_key(number));
        let in_order: BTreeSet<&u16> = self.order.iter().gather();
        let others = self.entries.keys().filter(|number| !in_order.contains(number));
        let line = |number: &u16| match self.entries.get(number) {
            Some(Ok(option)) => {
                let off = if option.is_active() { "" } else { " (off)" };
                Some(format!("{} {}{off}: {}", entry_name(*number), option.label(), option.path_text()))
            }
            Some(Err(error)) => Some(format!("{} is invalid: {error}", entry_name(*number))),
            None => None,
        };
        listed.chain(others).filter_map(line).collect()
    }
}

/// The number in `Boot0000`.
fn entry_number(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("Boot").filter(|digits| digits.len() == 4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

/// The name of an entry's variable.
pub fn entry_name(number: u16) -> String {
    format!("Boot{number:04X}")
}

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What the entry is called.
    pub label: String,
    /// The EFI system partition.
    pub partition: HardDrive,
    /// The file in it.
    pub loader: String,
    /// Whose loaders are ours.
    pub architecture: Architecture,
}

impl Target {
    pub fn entry(&self) -> LoadOption {
        LoadOption::file(&self.label, self.partition.clone(), &self.loader)
    }
}

/// GUIDs of the existing partitions, as they stand in the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    /// Of the disk to be started.
    pub target: BTreeSet<[u8; 16]>,
    /// Of all others.
    pub others: BTreeSet<[u8; 16]>,
    /// Whether there may be others that could not be read.
    pub unknown: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes an entry, or one in place of another.
    Entry {
        number: u16,
        /// What it becomes.
        option: LoadOption,
        /// What it was called before, if it was there.
        instead_of: Option<String>,
    },
    Order(Vec<u16>),
    /// What is started next time.
    Next(u16),
    /// Removes an entry that leads nowhere.
    Delete {
        number: u16,
        /// What it was called.
        label: String,
    },
}

impl Change {
    pub fn apply(&self, variables: &Variables) -> Result<(), VariableError> {
        match self {
            Self::Entry { number, option, .. } => variables.write(&entry_name(*number), &option.to_bytes()),
            Self::Order(order) => {
                let value: Vec<u8> = order.iter().flat_map(|number| number.to_le_bytes()).collect();
                variables.write("BootOrder", &value)
            }
            Self::Next(number) => variables.write("BootNext", &number.to_le_bytes()),
            Self::Delete { number, .. } => variables.delete(&entry_name(*number)),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { number, option, instead_of } => {
                write!(f, "write {} {}: {}", entry_name(*number), option.label(), option.path_text())?;
                instead_of.iter().try_for_each(|label| write!(f, " (in place of {label})"))
            }
            Self::Order(order) => write!(f, "set BootOrder to {}", numbers(order)),
            Self::Next(number) => write!(f, "set BootNext to {number:04X}"),
            Self::Delete { number, label } => write!(f, "delete {} {label}", entry_name(*number)),
        }
    }
}

/// Numbers of entries, as the firmware's menus have them.
pub fn numbers(order: &[u16]) -> String {
    order.iter().map(|number| format!("{number:04X}")).collect::<Vec<_>>().join(",")
}

/// The changes, in this order: after each, the machine starts something that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of the entry that will be started.
    pub number: u16,
    /// Empty if everything is as it should be.
    pub changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the firmware has 65536 boot entries: delete some in its setup")]
pub struct Full;

/// Makes the target's entry the first of the order, whose rest stays as it is, and the next to be started. An equal entry is used again;
/// one that leads nowhere gets the new content, so that repeated installations do not fill the firmware.
pub fn plan(state: &BootState, target: &Target, partitions: &Partitions) -> Result<Plan, Full> {
    let option = target.entry();
    let good = state.entries.iter().filter_map(|(number, entry)| Some((*number, entry.as_ref().ok()?)));
    let equal = good.clone().find(|(_, entry)| **entry == option).map(|(number, _)| number);
    let stale: Vec<_> = good.filter(|(_, entry)| **entry != option && is_stale(entry, target, partitions)).collect();
    let mut changes = Vec::new();
    let number = match (equal, stale.first()) {
        (Some(number), _) => number,
        (None, Some((number, old))) => {
            let instead_of = Some(old.label());
            changes.push(Change::Entry { number: *number, option: option.clone(), instead_of });
            *number
        }
        (None, None) => {
            let number = free_number(state).ok_or(Full)?;
            changes.push(Change::Entry { number, option: option.clone(), instead_of: None });
            number
        }
    };
    // Of equal entries the firmware needs one.
    let good = state.entries.iter().filter_map(|(number, entry)| Some((*number, entry.as_ref().ok()?)));
    let equals = good.filter(|(other, entry)| **entry == option && *other != number);
    let gone: BTreeMap<_, _> = stale.into_iter().chain(equals).filter(|(other, _)| *other != number).gather();
    let rest = state.order.iter().filter(|other| **other != number && !gone.contains_key(other));
    let order: Vec<u16> = [number].into_iter().chain(rest.copied()).collect();
    if order != state.order {
        changes.push(Change::Order(order));
    }
    if state.next != Some(number) {
        changes.push(Change::Next(number));
    }
    changes.extend(gone.into_iter().map(|(number, entry)| Change::Delete { number, label: entry.label() }));
    Ok(Plan { number, changes })
}

/// Whether an entry was made for a system that an installation has overwritten. All others are left alone: other systems on other
/// disks, networks, what the firmware made for itself.
fn is_stale(entry: &LoadOption, target: &Target, partitions: &Partitions) -> bool {
    let Some(guid) = entry.partition().and_then(HardDrive::guid) else { return false };
    let same_label = entry.description == target.label;
    let is_loader =
        |path: &str| esp::all_paths(target.architecture).iter().any(|loader| loader.eq_ignore_ascii_case(path));
    let is_ours = esp::all_labels().any(|label| entry.description == label) || entry.loader().is_some_and(is_loader);
    if partitions.target.contains(&guid) {
        return same_label || is_ours;
    }
    // A partition that is not found may be on a disk that can't be read at the moment.
    !partitions.others.contains(&guid) && (same_label || is_ours && !partitions.unknown)
}

fn free_number(state: &BootState) -> Option<u16> {
    let named = state.order.iter().chain(&state.current).chain(&state.next);
    let taken: BTreeSet<&u16> = named.chain(state.entries.keys()).gather();
    (0..=u16::MAX).find(|number| !taken.contains(number))
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
