//! Zeroes the magic numbers, and nothing else.

use super::{Outcome, WipeError, Work};
use crate::probe::{Contents, Kind, Span, probe, probe_mirror};
use kernel::order::Gather;
use std::{collections::BTreeSet, os::unix::fs::FileExt};

/// Below one signature may lie another, which only shows when the first is gone. Each round takes all that shows.
const ROUNDS: u32 = 16;
/// No magic number is longer; more would be data.
const MAX_MAGIC_BYTES: u64 = 4096;

/// Every MBR and boot sector ends so; nothing else identifies a table without entries.
const BOOT_SIGNATURE: [u8; 2] = [0x55, 0xAA];
const BOOT_SIGNATURE_AT: u64 = 510;

/// The name of the type of partitions that firmware looks into.
const FIRMWARE_TYPE: &str = "EFI system";

/// Erases what shows until nothing does. What firmware starts from goes first, so that an interruption leaves no half of a system
/// to start; what lies in partitions goes before the table that leads there.
pub(super) fn signatures(work: &Work<'_>) -> Result<Outcome, WipeError> {
    let mut erased = BTreeSet::new();
    for _ in 0..ROUNDS {
        work.check_cancelled(0)?;
        let mut spans = remaining(work);
        if spans.is_empty() {
            let bytes = erased.iter().map(|span: &Span| span.len).sum();
            return Ok(Outcome::Done { bytes, verified_bytes: bytes, how: None });
        }
        let mut failed = Vec::new();
        for span in &spans {
            let zeros = vec![0; usize::try_from(span.len).unwrap_or_default()];
            if let Err(error) = work.disk.file().write_all_at(&zeros, span.offset) {
                failed.push((*span, error));
            }
        }
        let flushed = work.flush();
        let places = failed.iter().map(|(span, _)| *span).collect();
        if let Some((_, source)) = failed.into_iter().next() {
            return Err(WipeError::Unwritable { device: work.device(), spans: places, source });
        }
        flushed?;
        erased.append(&mut spans);
    }
    let remaining = remaining(work).len();
    Err(WipeError::StillThere { device: work.device(), remaining, rounds: ROUNDS })
}

/// What to erase next, as the medium has it.
fn remaining(work: &Work<'_>) -> BTreeSet<Span> {
    let disk_bytes = work.geometry.size_bytes;
    let contents = probe(work.disk.file(), disk_bytes, work.geometry.sector_bytes);
    let whole = Span { offset: 0, len: disk_bytes };
    let areas = contents.partitions.iter().map(|partition| partition.span).filter(|span| span.end() <= disk_bytes);
    let mirrored =
        areas.chain([whole]).flat_map(|area| probe_mirror(work.disk.file(), area, work.geometry.sector_bytes));
    let mirrored: Vec<Span> = mirrored.flat_map(|signature| signature.magics).collect();
    next(&contents, &mirrored, disk_bytes, |span| {
        let mut end = [0; BOOT_SIGNATURE.len()];
        work.disk.file().read_exact_at(&mut end, span.offset).is_ok() && end == BOOT_SIGNATURE
    })
}

/// The same of what was found, in mirrors too; `ends_as_boot_sector` looks at the disk.
fn next(
    contents: &Contents,
    mirrored: &[Span],
    disk_bytes: u64,
    ends_as_boot_sector: impl Fn(&Span) -> bool,
) -> BTreeSet<Span> {
    let whole = Span { offset: 0, len: disk_bytes };
    let boot_end = boot_signature(whole, disk_bytes);
    let inner = |firmware_only: bool| {
        let wanted = move |name: Option<&str>| !firmware_only || name == Some(FIRMWARE_TYPE);
        let parts = contents.partitions.iter().filter(move |part| wanted(part.type_name.as_deref()));
        let starts = parts.clone().filter(|part| part.type_name.as_deref() != Some("extended"));
        let signatures = parts.flat_map(|part| &part.signatures);
        let mut spans = magics(signatures.flat_map(|signature| &signature.magics), disk_bytes);
        spans.extend(starts.filter_map(|part| boot_signature(part.span, disk_bytes)).filter(&ends_as_boot_sector));
        // A partition over the table itself must not hide it.
        spans.retain(|span| Some(*span) != boot_end);
        spans
    };
    let mut spans = inner(true);
    let has = |kind| contents.signatures.iter().any(|signature| signature.kind == kind);
    // A GPT is found without the mark of the MBR that protects it; other tables are not.
    if has(Kind::Gpt) && !has(Kind::Mbr) {
        spans.extend(boot_end.filter(&ends_as_boot_sector));
    }
    // Where they are, only the members say.
    if spans.is_empty() {
        spans = magics(mirrored.iter(), disk_bytes);
    }
    if spans.is_empty() {
        spans = inner(false);
    }
    if spans.is_empty() {
        spans = magics(contents.signatures.iter().flat_map(|signature| &signature.magics), disk_bytes);
        spans.extend(boot_end.filter(&ends_as_boot_sector));
    }
    spans
}

/// Places on the disk, each once.
fn magics<'a>(all: impl Iterator<Item = &'a Span>, disk_bytes: u64) -> BTreeSet<Span> {
    all.copied().filter(|span| (1..=MAX_MAGIC_BYTES).contains(&span.len) && span.end() <= disk_bytes).gather()
}

/// Where a boot sector's mark would be.
fn boot_signature(area: Span, disk_bytes: u64) -> Option<Span> {
    let span = Span { offset: area.offset.checked_add(BOOT_SIGNATURE_AT)?, len: 2 };
    (span.end() <= area.end().min(disk_bytes)).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{PartitionContents, Signature};

    #[test]
    fn every_place_on_the_disk_is_taken_once() {
        let span = |offset, len| Span { offset, len };
        // The last ones are absurd, or past the end.
        let all = [span(512, 8), span(510, 2), span(512, 8), span(0, 4097), span((4 << 20) - 1, 2), span(u64::MAX, 8)];
        assert!(magics(all.iter(), 4 << 20).into_iter().eq([span(510, 2), span(512, 8)]));
        assert!(magics([span(7, 0)].iter(), 4 << 20).is_empty());
    }

    #[test]
    fn what_firmware_starts_from_goes_first_and_the_table_last() {
        let span = |offset, len| Span { offset, len };
        let disk_bytes = 4 << 20;
        let partition = |number: u32, kind: &str, magic| PartitionContents {
            number,
            span: span(u64::from(number) << 20, 1 << 20),
            name: String::new(),
            type_id: String::new(),
            type_name: Some(kind.into()),
            signatures: vec![Signature::new(Kind::Ext4, vec![magic])],
        };
        let (mark, table) = (span(510, 2), span(512, 8));
        let (esp, root) = (span((1 << 20) + 54, 8), span((2 << 20) + 1080, 2));
        let order = |kind| {
            let mut contents = Contents {
                signatures: vec![Signature::new(kind, vec![mark, table])],
                partitions: vec![partition(1, FIRMWARE_TYPE, esp), partition(2, "Linux", root)],
                systems: Vec::new(),
                unreadable: Vec::new(),
            };
            let mut gone = BTreeSet::new();
            std::iter::from_fn(|| {
                let spans = next(&contents, &[], disk_bytes, |span| *span == mark && !gone.contains(span));
                gone.extend(spans.iter().copied());
                let partitions = contents.partitions.iter_mut().flat_map(|partition| &mut partition.signatures);
                for signature in partitions.chain(&mut contents.signatures) {
                    signature.magics.retain(|magic| !gone.contains(magic));
                }
                (!spans.is_empty()).then(|| spans.into_iter().collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(order(Kind::Gpt), [vec![mark, esp], vec![root], vec![table]]);
        assert_eq!(order(Kind::Mbr), [vec![esp], vec![root], vec![mark, table]]);
    }

    #[test]
    fn a_boot_sector_is_inside_its_area() {
        let span = |offset, len| Span { offset, len };
        assert_eq!(boot_signature(span(1024, 512), 4096), Some(span(1534, 2)));
        assert_eq!(boot_signature(span(1024, 511), 4096), None);
        assert_eq!(boot_signature(span(4096, 512), 4096), None);
        assert_eq!(boot_signature(span(u64::MAX, 512), 4096), None);
    }
}
