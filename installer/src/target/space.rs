//! How much of the disk the root partition leaves free.

use diskwrite::Layout;

/// Percent of the disk that are left when `requested` bytes more are taken than the partitions have; 0 if there are not so many
/// (docs/compatibility.md#skipping-a-reboot).
pub(super) fn free_percent(layout: &Layout, requested: u64) -> u64 {
    let used = layout.partitions.iter().fold(requested, |used, partition| used.saturating_add(partition.len));
    let free = layout.size_bytes.saturating_sub(used);
    let percent = u128::from(free) * 100 / u128::from(layout.size_bytes).max(1);
    u64::try_from(percent).unwrap_or_default()
}

/// Which percentages of a copy are reported: every five, and the last (docs/compatibility.md#writing-progress).
#[derive(Debug, Default)]
pub(super) struct Steps {
    last: u64,
}

impl Steps {
    /// The percentage, if it is worth a report.
    pub(super) fn report(&mut self, done: u64, total: u64) -> Option<u64> {
        let percent = u128::from(done.min(total)) * 100 / u128::from(total).max(1);
        let percent = if total == 0 { 100 } else { u64::try_from(percent).unwrap_or(100) };
        let due = percent >= self.last.saturating_add(5) || (percent == 100 && self.last != 100);
        due.then(|| self.last = percent).map(|()| percent)
    }
}
