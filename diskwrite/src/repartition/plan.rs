//! From a table and what a config wants of it to the new table: pure.

use super::place::{alignment, place};
use super::wanted::{Change, Fate, RepartitionError, Wanted};
use crate::gpt::{Entry, Table};
use crate::layout::LayoutPartition;
use kernel::order::Gather;
use std::collections::BTreeSet;
use uuid::{Uuid, uuid};

/// Of partitions without a type: Linux file systems.
const LINUX: Uuid = uuid!("0fc63daf-8483-4772-8e79-3d69d8477de4");

/// A wanted partition whose number and place are known.
struct Resolved<'w> {
    /// In the config's list.
    place: usize,
    wanted: &'w Wanted,
    number: u32,
    first_lba: u64,
    last_lba: u64,
}

/// The table afterwards, and what becomes of each partition that is wanted. `new_guid` gives the GUID of a new partition.
pub(crate) fn plan(
    before: &Table,
    wanted: &[Wanted],
    new_guid: &mut dyn FnMut() -> [u8; 16],
) -> Result<(Table, Vec<Change>), RepartitionError> {
    let resolved = resolve(before, wanted)?;
    let mut after = before.clone();
    let mut changes = Vec::new();
    let mut entries = Vec::new();
    for one in &resolved {
        let existing = before.entry(one.number);
        let Some((fate, entry)) = decide(one, existing.as_ref(), &resolved, new_guid)? else { continue };
        if matches!(fate, Fate::Delete | Fate::Replace | Fate::Resize) {
            after.clear(one.number)?;
        }
        let partition = LayoutPartition::new(one.number, &entry, before.sector_bytes)?;
        changes.push(Change { wanted: one.place, fate, partition });
        if !matches!(fate, Fate::Keep | Fate::Delete) {
            entries.push((one.number, entry));
        }
    }
    for (number, entry) in &entries {
        after.set(*number, entry)?;
    }
    after.check()?;
    Ok((after, changes))
}

/// Numbers and places, as if all that is wanted were made anew: what has neither, last.
fn resolve<'w>(before: &Table, wanted: &'w [Wanted]) -> Result<Vec<Resolved<'w>>, RepartitionError> {
    let sector = u64::from(before.sector_bytes).max(1);
    let alignment = alignment(before);
    let (numbered, others): (Vec<_>, Vec<_>) = wanted.iter().enumerate().partition(|(_, wanted)| wanted.number != 0);
    let mut trial = before.clone();
    let mut used: BTreeSet<u32> = before.entries().map(|(number, _)| number).gather();
    for (_, wanted) in &numbered {
        if before.entry(wanted.number).is_some() {
            trial.clear(wanted.number)?;
        }
        if wanted.exists {
            used.insert(wanted.number);
        } else {
            used.remove(&wanted.number);
        }
    }
    let mut resolved = Vec::with_capacity(wanted.len());
    for (at, wanted) in numbered.into_iter().chain(others) {
        let number = match wanted.number {
            0 if wanted.exists => (1..).find(|number| !used.contains(number)).unwrap_or(u32::MAX),
            number => number,
        };
        let existing = before.entry(number).filter(|_| wanted.number != 0);
        if !wanted.exists {
            let (first_lba, last_lba) = existing.map_or((0, 0), |entry| (entry.first_lba(), entry.last_lba()));
            resolved.push(Resolved { place: at, wanted, number, first_lba, last_lba });
            continue;
        }
        used.insert(number);
        // What is not set stays, unless the entry may be replaced.
        let kept = existing.filter(|_| !wanted.replace);
        let stays = |value: Option<u64>, kept: Option<u64>| match value {
            Some(bytes) => Some(bytes / sector).filter(|sectors| *sectors != 0),
            None => kept,
        };
        let start = stays(wanted.start, kept.as_ref().map(Entry::first_lba));
        let sectors = stays(wanted.len, kept.as_ref().map(|entry| entry.last_lba() - entry.first_lba() + 1));
        let (first_lba, last_lba) = place(&trial, alignment, start, sectors)
            .map_err(|free| RepartitionError::NoRoom { number, free, wanted: sectors })?;
        // The GUID stands for its place here only.
        let guid = u128::from(number).to_le_bytes();
        trial.set(number, &Entry::new(LINUX.to_bytes_le(), guid, first_lba, last_lba, ""))?;
        resolved.push(Resolved { place: at, wanted, number, first_lba, last_lba });
    }
    Ok(resolved)
}

/// What becomes of one, and its entry then; None if there is nothing to do or to say.
fn decide(
    one: &Resolved<'_>,
    existing: Option<&Entry>,
    all: &[Resolved<'_>],
    new_guid: &mut dyn FnMut() -> [u8; 16],
) -> Result<Option<(Fate, Entry)>, RepartitionError> {
    let (wanted, number) = (one.wanted, one.number);
    // One that takes the number of another that goes is compared with that other.
    if !wanted.exists && all.iter().any(|other| other.number == number && other.wanted.exists) {
        return Ok(None);
    }
    let mut new = || {
        Entry::new(
            wanted.type_guid.unwrap_or(LINUX.to_bytes_le()),
            wanted.guid.unwrap_or_else(&mut *new_guid),
            one.first_lba,
            one.last_lba,
            wanted.label.as_deref().unwrap_or_default(),
        )
    };
    let Some(existing) = existing else { return Ok(wanted.exists.then(|| (Fate::Create, new()))) };
    if !wanted.exists {
        return match wanted.replace {
            true => Ok(Some((Fate::Delete, existing.clone()))),
            false => Err(RepartitionError::Exists { number }),
        };
    }
    let difference = difference(one, existing);
    let size = |first: u64, last: u64| last.saturating_sub(first).saturating_add(1);
    let (wanted_size, size) = (size(one.first_lba, one.last_lba), size(existing.first_lba(), existing.last_lba()));
    Ok(Some(match difference {
        None if wanted_size == size => (Fate::Keep, existing.clone()),
        _ if wanted.replace => (Fate::Replace, new()),
        None if wanted.resize => (Fate::Resize, existing.ending_at(one.last_lba)),
        difference => {
            let size = || format!("size did not match (specified {wanted_size}, got {size})");
            return Err(RepartitionError::Mismatch { number, difference: difference.unwrap_or_else(size) });
        }
    }))
}

/// The first property but the size in which an existing partition is not the wanted one.
fn difference(one: &Resolved<'_>, existing: &Entry) -> Option<String> {
    let guid = |bytes: [u8; 16]| Uuid::from_bytes_le(bytes).to_string().to_uppercase();
    let differs = |what: &str, wanted: String, found: String| {
        (wanted != found).then(|| format!("{what} did not match (specified {wanted:?}, got {found:?})"))
    };
    let wanted = one.wanted;
    if one.first_lba != existing.first_lba() {
        let (wanted, found) = (one.first_lba, existing.first_lba());
        return Some(format!("starting sector did not match (specified {wanted}, got {found})"));
    }
    let own = wanted.guid.and_then(|wanted| differs("GUID", guid(wanted), guid(existing.guid())));
    let kind = || wanted.type_guid.and_then(|wanted| differs("type GUID", guid(wanted), guid(existing.type_guid())));
    let label = || wanted.label.clone().and_then(|wanted| differs("label", wanted, existing.name()));
    own.or_else(kind).or_else(label)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
