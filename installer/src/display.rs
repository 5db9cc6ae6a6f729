//! Progress for whoever watches: a bar on a terminal, lines elsewhere, JSON lines for machines.

use diskwrite::{Event, Phase};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// Time between two lines, as coreos-installer has it.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Where progress goes. Nobody reading it is no reason to stop half-way through a disk: write errors are ignored.
#[derive(Debug)]
pub enum Display {
    /// One event a line on standard output.
    Json,
    /// A bar on standard error.
    Bar(ProgressBar),
    /// Lines on standard error.
    Lines(Lines),
}

/// Which lines are due.
#[derive(Debug, Default)]
pub struct Lines {
    last: Option<(Instant, String)>,
}

impl Display {
    /// The display for this process.
    pub fn new(json: bool) -> Self {
        if json {
            return Self::Json;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines(Lines::default());
        }
        let bar = ProgressBar::no_length();
        if let Ok(style) =
            ProgressStyle::with_template("{msg} [{wide_bar}] {percent}% {bytes}/{total_bytes} {bytes_per_sec}, {eta}")
        {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match self {
            Self::Json => {
                if let Ok(line) = serde_json::to_string(event) {
                    let mut stdout = io::stdout().lock();
                    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
                }
                return;
            }
            Self::Bar(bar) => show_on_bar(bar, event),
            Self::Lines(lines) => {
                if let Some(line) = lines.line(event, Instant::now()) {
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
        }
        log(event);
    }
}

fn show_on_bar(bar: &ProgressBar, event: &Event) {
    match event {
        Event::Phase { phase } => bar.set_message(describe(*phase)),
        Event::Progress { source_bytes_read, source_total, .. } => {
            if let Some(total) = source_total {
                bar.set_length(*total);
            }
            bar.set_position(*source_bytes_read);
        }
        Event::ReadBack { checked_bytes, total_bytes } => {
            bar.set_length(*total_bytes);
            bar.set_position(*checked_bytes);
        }
        Event::Finished { .. } => bar.finish_and_clear(),
        Event::Started { .. } | Event::Retrying { .. } => {}
    }
}

fn log(event: &Event) {
    match event {
        Event::Started { source, format, device, device_bytes, sector_bytes, .. } => {
            tracing::info!(source, %format, device = %device.display(), device_bytes, sector_bytes, "writing image");
        }
        Event::Phase { phase } => tracing::info!("{}", describe(*phase)),
        Event::Retrying { error, wait_ms, source_offset } => {
            tracing::warn!(error, wait_ms, source_offset, "fetching failed, trying again");
        }
        Event::Finished { written_bytes, elapsed_ms, .. } => tracing::info!(written_bytes, elapsed_ms, "image written"),
        Event::Progress { .. } | Event::ReadBack { .. } => {}
    }
}

fn describe(phase: Phase) -> &'static str {
    match phase {
        Phase::Checking => "checking disk and image",
        Phase::Writing => "writing",
        Phase::Verifying => "reading back",
        Phase::Finishing => "flushing to the medium",
        Phase::RereadingTable => "re-reading the partition table",
        Phase::ConfiguringBoot => "configuring the first boot",
        Phase::Clearing => "clearing the partition table",
    }
}

impl Lines {
    /// The line for `event`, in coreos-installer's words, unless the last one is too young.
    fn line(&mut self, event: &Event, now: Instant) -> Option<String> {
        let Event::Progress { source_bytes_read, source_total, percent, .. } = event else { return None };
        let complete = *source_total == Some(*source_bytes_read);
        let young = self.last.as_ref().is_some_and(|(last, _)| now.saturating_duration_since(*last) < LINE_INTERVAL);
        if young && !complete {
            return None;
        }
        let read = one_decimal(*source_bytes_read);
        let line = match (source_total, percent) {
            (Some(total), Some(percent)) => format!("Read disk {read}/{} ({percent}%)", one_decimal(*total)),
            _ => format!("Read disk {read}"),
        };
        // All may be read long before all is written.
        let news = self.last.as_ref().is_none_or(|(_, last)| *last != line);
        self.last = Some((now, line.clone()));
        news.then_some(line)
    }
}

/// Bytes in the largest binary unit that leaves at least one, with one decimal: `473.8 MiB`.
fn one_decimal(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut power = 0usize;
    let mut rest = bytes;
    while rest >= 1024 && power < UNITS.len() {
        rest /= 1024;
        power += 1;
    }
    let Some(unit) = power.checked_sub(1).and_then(|index| UNITS.get(index)) else {
        return HumanBytes(bytes).to_string();
    };
    let unit_bytes = 1u128 << (10 * power);
    let tenths = (u128::from(bytes) * 10 + unit_bytes / 2) / unit_bytes;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(read: u64, total: Option<u64>, percent: Option<u8>) -> Event {
        Event::Progress { source_bytes_read: read, source_total: total, written_bytes: 0, percent, limit: None }
    }

    #[test]
    fn lines_read_as_the_ones_that_are_parsed_in_the_field() {
        let mut lines = Lines::default();
        let now = Instant::now();
        let event = progress(496_815_309, Some(885_731_328), Some(56));
        assert_eq!(lines.line(&event, now).unwrap(), "Read disk 473.8 MiB/844.7 MiB (56%)");
        let event = progress(496_815_310, Some(1_885_731_328), Some(26));
        assert_eq!(lines.line(&event, now + Duration::from_millis(999)), None);
        assert!(lines.line(&event, now + Duration::from_secs(1)).is_some());
        let end = progress(885_731_328, Some(885_731_328), Some(100));
        assert_eq!(lines.line(&end, now + Duration::from_secs(1)).unwrap(), "Read disk 844.7 MiB/844.7 MiB (100%)");
        assert_eq!(lines.line(&end, now + Duration::from_secs(8)), None, "nothing new");
        let unknown = progress(1024, None, None);
        assert_eq!(lines.line(&unknown, now + Duration::from_secs(9)).unwrap(), "Read disk 1.0 KiB");
        assert_eq!(lines.line(&Event::Phase { phase: Phase::Writing }, now), None);
    }

    #[test]
    fn sizes_of_every_order_are_shown() {
        let shown = [0, 1023, 1024, 1536, 1 << 30, u64::MAX].map(one_decimal);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "16.0 EiB"]);
    }
}
