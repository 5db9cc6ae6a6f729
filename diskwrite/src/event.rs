//! Events of a running installation.

use crate::decode::Format;
use crate::options::NetworkPlace;
use crate::saved::SavedPartition;
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Looking at disk and image; the disk is untouched.
    Checking,
    /// Old tables are wiped and the image is streamed, all but its first MiB.
    Writing,
    /// What was written is read back and compared.
    Verifying,
    /// Data is flushed to the medium, then the first MiB is written and flushed.
    Finishing,
    /// The kernel learns of the new partitions.
    RereadingTable,
    /// The boot file system gets its Ignition config, kernel arguments and network keyfiles.
    ConfiguringBoot,
    /// After a failure: first and last MiB are zeroed.
    Clearing,
}

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Bytes come from the file or server.
    Source,
    /// They are unpacked.
    Decode,
    /// They are written.
    Write,
}

/// One thing that happened; `event` names it in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Source and disk are open and fit each other as far as the image's start shows. Comes once.
    Started {
        /// The source without secrets.
        source: String,
        /// How the image is packed.
        format: Format,
        /// Bytes the source will give, when known.
        total_bytes: Option<u64>,
        /// The disk, links resolved.
        device: PathBuf,
        /// Size of the disk in bytes.
        device_bytes: u64,
        /// Logical sector size of the disk in bytes.
        sector_bytes: u32,
    },
    /// A partition of the disk is retained; one event for each, before anything is written.
    Saving {
        /// Which, and its new number.
        #[serde(flatten)]
        partition: SavedPartition,
    },
    /// Another phase begins.
    Phase { phase: Phase },
    /// How far it is; at most five a second, and always one when the last byte is written.
    Progress {
        /// Bytes taken from the source.
        source_bytes_read: u64,
        /// Bytes the source will give, when known.
        source_total: Option<u64>,
        /// Bytes of the unpacked image on the disk.
        written_bytes: u64,
        /// `source_bytes_read` of `source_total` in whole percent, rounded down, when that is known.
        percent: Option<u8>,
        /// The stage the others wait for, when that is clear.
        limit: Option<Stage>,
    },
    /// How much of what was written is compared; at most five a second, and always one at the end.
    ReadBack {
        /// Bytes read back and found right.
        checked_bytes: u64,
        /// Bytes to be compared.
        total_bytes: u64,
    },
    /// Network keyfiles are copied for the first boot.
    CopyingNetwork {
        directory: PathBuf,
        /// Those in it; none: nothing is copied.
        files: Vec<PathBuf>,
        /// The boot file system or the initramfs.
        to: NetworkPlace,
    },
    /// They are in the initramfs.
    AppendedNetwork {
        /// Its path on the boot file system.
        initramfs: String,
    },
    /// The server failed for now and the request is repeated.
    Retrying {
        error: String,
        /// Pause before the next try, in milliseconds.
        wait_ms: u64,
        /// Bytes the source has given so far.
        source_offset: u64,
    },
    /// All is on the medium. Comes once, last.
    Finished {
        /// Bytes of the unpacked image.
        written_bytes: u64,
        /// Bytes taken from the source.
        source_bytes: u64,
        /// Duration of the whole call, in milliseconds.
        elapsed_ms: u64,
    },
}

/// At most five a second.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// How long each stage has waited for another: for memory, for bytes, for blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub source: Duration,
    /// None where nothing is unpacked.
    pub decode: Option<Duration>,
    pub write: Duration,
}

impl Waits {
    /// The stage that waited least since `before`, `interval` ago, if that tells anything: it must have been busy for most
    /// of the time, and another must have waited clearly longer.
    fn limit(&self, before: &Self, interval: Duration) -> Option<Stage> {
        // Threads of one stage wait side by side.
        let since = |now: Duration, then: Duration| now.saturating_sub(then).min(interval);
        let decode = self.decode.map(|decode| (since(decode, before.decode.unwrap_or_default()), Stage::Decode));
        let source = (since(self.source, before.source), Stage::Source);
        let write = (since(self.write, before.write), Stage::Write);
        let stages = || [Some(source), decode, Some(write)].into_iter().flatten();
        let (least, stage) = stages().min_by_key(|(waited, _)| *waited)?;
        let (most, _) = stages().max_by_key(|(waited, _)| *waited)?;
        (least < interval / 2 && most.saturating_sub(least) > interval / 10).then_some(stage)
    }
}

/// Decides which progress is worth an event.
#[derive(Debug)]
pub(crate) struct Meter {
    source_total: Option<u64>,
    last: Option<(Instant, u64, u64, Waits)>,
}

impl Meter {
    pub(crate) fn new(source_total: Option<u64>) -> Self {
        Self { source_total, last: None }
    }

    /// The event for this state of things, unless nothing moved or, if not `forced`, the last one is too young.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        source_bytes_read: u64,
        written_bytes: u64,
        waits: Waits,
        forced: bool,
    ) -> Option<Event> {
        let mut limit = None;
        if let Some((at, read, written, before)) = self.last {
            let moved = (read, written) != (source_bytes_read, written_bytes);
            let interval = now.saturating_duration_since(at);
            if !moved || (!forced && interval < PROGRESS_INTERVAL) {
                return None;
            }
            limit = waits.limit(&before, interval);
        }
        self.last = Some((now, source_bytes_read, written_bytes, waits));
        let percent = self.source_total.map(|total| percent(source_bytes_read, total));
        Some(Event::Progress { source_bytes_read, source_total: self.source_total, written_bytes, percent, limit })
    }
}

fn percent(part: u64, whole: u64) -> u8 {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(100);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_tagged() {
        let json = serde_json::to_string(&Event::Phase { phase: Phase::RereadingTable }).unwrap();
        assert_eq!(json, r#"{"event":"phase","phase":"rereading_table"}"#);
    }

    #[test]
    fn percent_rounds_down_and_stays_in_range() {
        assert_eq!([percent(0, 3), percent(1, 3), percent(2, 3), percent(3, 3)], [0, 33, 66, 100]);
        assert_eq!(percent(0, 0), 100);
        assert_eq!(percent(u64::MAX, 1), 100);
        assert_eq!(percent(u64::MAX - 1, u64::MAX), 99);
    }

    #[test]
    fn progress_is_throttled_but_its_end_is_not() {
        let mut meter = Meter::new(Some(10));
        let start = Instant::now();
        assert!(meter.tick(start, 1, 0, Waits::default(), false).is_some());
        assert!(meter.tick(start + Duration::from_millis(199), 2, 0, Waits::default(), false).is_none());
        assert!(meter.tick(start + Duration::from_millis(200), 2, 0, Waits::default(), false).is_some());
        assert!(meter.tick(start + Duration::from_secs(9), 2, 0, Waits::default(), false).is_none(), "nothing moved");
        let end = meter.tick(start + Duration::from_millis(201), 10, 7, Waits::default(), true);
        assert_eq!(
            end,
            Some(Event::Progress {
                source_bytes_read: 10,
                source_total: Some(10),
                written_bytes: 7,
                percent: Some(100),
                limit: None
            })
        );
        assert!(meter.tick(start + Duration::from_millis(202), 10, 7, Waits::default(), true).is_none());
    }

    #[test]
    fn limit_is_the_stage_that_waits_least() {
        let ms = Duration::from_millis;
        let waits =
            |source, decode: Option<u64>, write| Waits { source: ms(source), decode: decode.map(ms), write: ms(write) };
        let table = [
            (waits(0, Some(180), 190), Some(Stage::Source)),
            (waits(150, Some(10), 150), Some(Stage::Decode)),
            (waits(190, Some(390), 5), Some(Stage::Write)),
            (waits(100, None, 5), Some(Stage::Write)),
            (waits(5, None, 100), Some(Stage::Source)),
            // All busy, all idle.
            (waits(10, Some(9), 12), None),
            (waits(110, Some(190), 150), None),
        ];
        for (now, expected) in table {
            assert_eq!(now.limit(&Waits::default(), ms(200)), expected, "{now:?}");
        }
        let before = waits(500, Some(100), 100);
        assert_eq!(waits(510, Some(200), 200).limit(&before, ms(200)), Some(Stage::Source));
    }
}
