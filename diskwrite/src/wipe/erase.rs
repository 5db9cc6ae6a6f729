//! Zeroes the magic numbers, and nothing else.

use super::{Outcome, WipeError, Work};
use crate::probe::{Span, probe};
use std::{collections::BTreeSet, os::unix::fs::FileExt};

/// Below one signature may lie another, which only shows when the first is gone. Each round takes all that shows.
const ROUNDS: u32 = 16;
/// No magic number is longer; more would be data.
const MAX_MAGIC_BYTES: u64 = 4096;

/// Every MBR and boot sector ends so; a table without entries is told by nothing else.
const BOOT_SIGNATURE: [u8; 2] = [0x55, 0xAA];
const BOOT_SIGNATURE_AT: u64 = 510;

/// Erases what shows until nothing does. What lies in partitions goes before the table that leads there.
pub(super) fn signatures(work: &Work<'_>) -> Result<Outcome, WipeError> {
    let mut erased = BTreeSet::new();
    for _ in 0..ROUNDS {
        work.check_cancelled(0)?;
        let mut spans = left(work);
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
    let left = left(work).len();
    Err(WipeError::StillThere { device: work.device(), left, rounds: ROUNDS })
}

/// What to erase next, as the medium has it.
fn left(work: &Work<'_>) -> BTreeSet<Span> {
    let disk_bytes = work.geometry.size_bytes;
    let contents = probe(work.disk.file(), disk_bytes, work.geometry.sector_bytes);
    let ends_as_boot_sector = |span: &Span| {
        let mut end = [0; BOOT_SIGNATURE.len()];
        work.disk.file().read_exact_at(&mut end, span.offset).is_ok() && end == BOOT_SIGNATURE
    };
    let starts = contents.partitions.iter().filter(|partition| partition.type_name.as_deref() != Some("extended"));
    let inner = contents.partitions.iter().flat_map(|partition| &partition.signatures);
    let mut spans = magics(inner.flat_map(|signature| &signature.magics), disk_bytes);
    spans.extend(starts.filter_map(|part| boot_signature(part.span, disk_bytes)).filter(ends_as_boot_sector));
    // A partition over the table itself must not hide it.
    let whole = Span { offset: 0, len: disk_bytes };
    let own_end = boot_signature(whole, disk_bytes);
    spans.retain(|span| Some(*span) != own_end);
    if spans.is_empty() {
        spans = magics(contents.signatures.iter().flat_map(|signature| &signature.magics), disk_bytes);
        spans.extend(own_end.filter(ends_as_boot_sector));
    }
    spans
}

/// Places on the disk, each once.
fn magics<'a>(all: impl Iterator<Item = &'a Span>, disk_bytes: u64) -> BTreeSet<Span> {
    all.copied().filter(|span| (1..=MAX_MAGIC_BYTES).contains(&span.len) && span.end() <= disk_bytes).collect()
}

/// Where a boot sector's mark would be.
fn boot_signature(area: Span, disk_bytes: u64) -> Option<Span> {
    let span = Span { offset: area.offset.checked_add(BOOT_SIGNATURE_AT)?, len: 2 };
    (span.end() <= area.end().min(disk_bytes)).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_on_the_disk_is_taken_once() {
        let span = |offset, len| Span { offset, len };
        // The last ones are absurd, or past the end.
        let all = [span(512, 8), span(510, 2), span(512, 8), span(0, 4097), span((4 << 20) - 1, 2), span(u64::MAX, 8)];
        assert!(magics(all.iter(), 4 << 20).into_iter().eq([span(510, 2), span(512, 8)]));
        assert!(magics([span(7, 0)].iter(), 4 << 20).is_empty());
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
