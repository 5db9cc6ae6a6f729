//! Progress: a bar on a terminal, lines elsewhere, JSON lines for machines.

use api::{HostProgress, HostStage, Timestamp};
use diskwrite::{Event, InstallError, NetworkPlace, Phase, Stage};
use indicatif::{ProgressBar, ProgressStyle};
use kernel::{
    terminal::{BAR, COUNTER},
    units,
};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// Time between two lines, as coreos-installer has it.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// Raised when an event or field changes its name or meaning, not for new ones.
const SCHEMA: u32 = 1;
/// For what is not counted.
const WORDS: &str = "{msg}";

/// How progress is to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Style {
    /// A bar on a terminal, lines elsewhere.
    #[default]
    Auto,
    /// A bar on standard error.
    Bar,
    /// Lines on standard error, in coreos-installer's form.
    Lines,
    /// Events on standard output, one per line.
    Json,
}

impl Style {
    /// Whether it is a bar, for this process.
    pub(crate) fn is_bar(self) -> bool {
        match self {
            Self::Auto => io::stderr().is_terminal(),
            Self::Bar => true,
            Self::Lines | Self::Json => false,
        }
    }
}

/// Where progress goes. Write errors are ignored: a reader that is gone must not stop a half-written disk.
#[derive(Debug)]
pub(crate) enum Display {
    /// One event per line on standard output.
    Json,
    /// A bar on standard error.
    Bar(Bar),
    /// Lines on standard error.
    Lines(Lines),
}

/// What frames the events: first a line that says how to read them, after a failure one that says what it left.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Frame<'a> {
    Schema { schema: u32 },
    Stage { stage: HostStage, info: &'a str, at: Timestamp },
    Failed { error: String, disk: String },
}

/// A bar and what it shows.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    template: &'static str,
    /// Whether the image comes from a server.
    is_fetched: bool,
}

/// Which lines are due.
#[derive(Debug)]
pub(crate) struct Lines {
    /// What is read.
    name: String,
    last: Option<(Instant, String)>,
}

impl Display {
    /// The display for this process, of an image on its way to a disk.
    pub(crate) fn new(style: Style) -> Self {
        Self::named(style, "disk", false)
    }

    /// The display for this process, where the file `name` is fetched.
    pub(crate) fn of_download(name: &str) -> Self {
        Self::named(Style::Auto, name, true)
    }

    fn named(style: Style, name: &str, is_fetched: bool) -> Self {
        let bar = || {
            let bar = ProgressBar::no_length();
            let mut bar = Bar { bar, template: "", is_fetched };
            bar.layout(WORDS);
            bar.bar.set_message(name.to_owned());
            Self::Bar(bar)
        };
        match style {
            Style::Json => {
                print(&Frame::Schema { schema: SCHEMA });
                Self::Json
            }
            _ if style.is_bar() => bar(),
            Style::Auto | Style::Bar | Style::Lines => Self::Lines(Lines { name: name.to_owned(), last: None }),
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match self {
            Self::Json => print(event),
            Self::Bar(bar) => {
                bar.show(event);
                bar.bar.suspend(|| log(event));
            }
            Self::Lines(lines) => {
                if let Some(line) = lines.line(event, Instant::now()) {
                    let _ = writeln!(io::stderr(), "{line}");
                }
                log(event);
            }
        }
    }

    /// Writes a stage of a role's flow as an event. For people it is in the log.
    pub(crate) fn stage(&mut self, progress: &HostProgress) {
        if let Self::Json = self {
            let info = progress.progress_info.as_str();
            print(&Frame::Stage { stage: progress.current_stage, info, at: Timestamp::now() });
        }
    }

    /// Writes the end as an event. Other readers get the error itself.
    pub(crate) fn failed(&self, error: &InstallError) {
        if matches!(self, Self::Json) {
            print(&Frame::Failed { error: kernel::in_full(&error.cause), disk: error.disk.to_string() });
        }
    }

    /// Leaves the terminal as it was, for what is said next.
    pub(crate) fn close(&self) {
        if let Self::Bar(bar) = self {
            bar.bar.finish_and_clear();
        }
    }
}

fn print(line: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(line) {
        let mut stdout = io::stdout().lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}

impl Bar {
    fn show(&mut self, event: &Event) {
        match event {
            Event::Phase { phase } => {
                self.bar.reset();
                self.bar.set_prefix("");
                self.bar.set_message(describe(*phase));
                self.layout(WORDS);
            }
            Event::Progress { source_bytes_read, source_total, written_bytes, limit, .. } => {
                self.bar.set_prefix(limit.map(|limit| limited_by(limit, self.is_fetched)).unwrap_or_default());
                match source_total {
                    Some(total) => {
                        self.bar.set_length(*total);
                        self.bar.set_position(*source_bytes_read);
                        self.layout(BAR);
                    }
                    None => {
                        self.bar.set_position(*written_bytes);
                        self.layout(COUNTER);
                    }
                }
            }
            Event::ReadBack { checked_bytes, total_bytes } => {
                self.bar.set_length(*total_bytes);
                self.bar.set_position(*checked_bytes);
                self.layout(BAR);
            }
            Event::Saving { partition } => self.bar.println(partition.to_string()),
            Event::CopyingNetwork { .. } | Event::AppendedNetwork { .. } => {
                network(event).into_iter().for_each(|lines| self.bar.println(lines));
            }
            Event::Started { source, .. } => self.is_fetched = is_url(source),
            Event::Retrying { .. } | Event::Finished { .. } => {}
        }
    }

    fn layout(&mut self, template: &'static str) {
        if self.template != template
            && let Ok(style) = ProgressStyle::with_template(template)
        {
            self.template = template;
            self.bar.set_style(style);
        }
    }
}

fn limited_by(stage: Stage, is_fetched: bool) -> &'static str {
    match stage {
        Stage::Source if is_fetched => ", limited by the network",
        Stage::Source => ", limited by the source",
        Stage::Decode => ", limited by the decoder",
        Stage::Write => ", limited by the disk",
    }
}

fn is_url(source: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| source.starts_with(scheme))
}

fn log(event: &Event) {
    match event {
        Event::Started { source, format, device, device_bytes, sector_bytes, .. } => {
            tracing::info!(source, %format, device = %device.display(), device_bytes, sector_bytes, "writing image");
        }
        Event::Saving { partition } => tracing::info!("{partition}"),
        Event::Phase { phase } => tracing::info!("{}", describe(*phase)),
        Event::Retrying { error, wait_ms, source_offset } => {
            tracing::warn!(error, wait_ms, source_offset, "fetching failed, trying again");
        }
        Event::Finished { written_bytes, elapsed_ms, .. } => tracing::info!(written_bytes, elapsed_ms, "image written"),
        // Those that are shown in each style.
        Event::Progress { .. }
        | Event::ReadBack { .. }
        | Event::CopyingNetwork { .. }
        | Event::AppendedNetwork { .. } => {}
    }
}

/// What coreos-installer says of network keyfiles (docs/compatibility.md#network-keyfiles): lines that people look for.
fn network(event: &Event) -> Option<String> {
    match event {
        Event::CopyingNetwork { directory, files, .. } if files.is_empty() => {
            Some(format!("No networking configuration files found in {}, skipping", directory.display()))
        }
        Event::CopyingNetwork { directory, files, to } => {
            let to = if *to == NetworkPlace::Boot { "installed system" } else { "initramfs" };
            let first = format!("Copying networking configuration from {}", directory.display());
            Some(files.iter().fold(first, |text, file| format!("{text}\nCopying {} to {to}", file.display())))
        }
        Event::AppendedNetwork { initramfs } => {
            Some(format!("Appended network configuration to initramfs {initramfs}"))
        }
        _ => None,
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
    /// The lines for `event`, in coreos-installer's words, unless the last one is too young.
    fn line(&mut self, event: &Event, now: Instant) -> Option<String> {
        let Event::Progress { source_bytes_read, source_total, percent, .. } = event else { return network(event) };
        let complete = *source_total == Some(*source_bytes_read);
        let young = self.last.as_ref().is_some_and(|(last, _)| now.saturating_duration_since(*last) < LINE_INTERVAL);
        if young && !complete {
            return None;
        }
        let read = units::one_decimal(*source_bytes_read);
        let line = match (source_total, percent) {
            (Some(total), Some(percent)) => {
                format!("Read {} {read}/{} ({percent}%)", self.name, units::one_decimal(*total))
            }
            _ => format!("Read {} {read}", self.name),
        };
        // All may be read long before all is written.
        let news = self.last.as_ref().is_none_or(|(_, last)| *last != line);
        self.last = Some((now, line.clone()));
        news.then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(read: u64, total: Option<u64>, percent: Option<u8>) -> Event {
        Event::Progress { source_bytes_read: read, source_total: total, written_bytes: 0, percent, limit: None }
    }

    #[test]
    fn a_bar_names_what_limits_it() {
        assert_eq!(limited_by(Stage::Source, is_url("https://h/x.raw.xz")), ", limited by the network");
        assert_eq!(limited_by(Stage::Source, is_url("/http/x.raw")), ", limited by the source");
        assert_eq!(limited_by(Stage::Write, true), ", limited by the disk");
        for template in [BAR, COUNTER, WORDS] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn lines_read_as_the_ones_that_are_parsed_in_the_field() {
        let mut lines = Lines { name: "disk".into(), last: None };
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
        let copying = |files: &[&str], to| Event::CopyingNetwork {
            directory: "/nm/".into(),
            files: files.iter().map(Into::into).collect(),
            to,
        };
        assert_eq!(
            lines.line(&copying(&["/nm/a", "/nm/b"], NetworkPlace::Initramfs), now).unwrap(),
            "Copying networking configuration from /nm/\nCopying /nm/a to initramfs\nCopying /nm/b to initramfs"
        );
        assert_eq!(
            lines.line(&copying(&["/nm/a"], NetworkPlace::Boot), now).unwrap(),
            "Copying networking configuration from /nm/\nCopying /nm/a to installed system"
        );
        assert_eq!(
            lines.line(&copying(&[], NetworkPlace::Auto), now).unwrap(),
            "No networking configuration files found in /nm/, skipping"
        );
        let appended = Event::AppendedNetwork { initramfs: "/ostree/i.img".into() };
        assert_eq!(lines.line(&appended, now).unwrap(), "Appended network configuration to initramfs /ostree/i.img");
    }
}
