//! Where the log goes.

use agent::dropin::Logging;
use journal::JournalLayer;
use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    path::Path,
    sync::Arc,
};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    Layer,
    filter::{Targets, filter_fn},
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer, layer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

/// Sets the log level, or levels per part: `info,diskwrite=debug`.
const LOG_VARIABLE: &str = "LANDFALL_LOG";
/// Set by the agent for its steps, whose output goes into the reply.
pub(crate) const STEP_VARIABLE: &str = "LANDFALL_STEP";
/// Set by the programs that add the time to each line themselves: the journal, and the agent.
const TIMED_BY_OTHERS: [&str; 2] = ["JOURNAL_STREAM", STEP_VARIABLE];

/// Target of records that are on standard error already and go to the journal too: why a step failed.
pub(crate) const PRINTED: &str = "landfall::printed";
/// The made-up identity of a simulated host.
const FORCED_ID_VARIABLE: &str = "DRY_HOST_ID";

/// Starts the log at `level` unless [`LOG_VARIABLE`] sets another; with a `tag` it also goes to the journal, if one runs.
///
/// No line reaches the journal twice. If standard error is the journal, only the record with its fields is written; and a child
/// writes its own records, which the agent that shows them does not repeat. On a terminal, lines `for_people` are plain unless they were
/// asked for in detail.
pub(crate) fn start(level: &str, has_color: bool, logging: &Logging, tag: Option<&'static str>, for_people: bool) {
    let filter = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let is_detailed = !filter.trim().is_empty() || !matches!(level, "info" | "warn");
    let filter = if filter.trim().is_empty() { level.to_owned() } else { filter };
    let (filter, bad) = match filter.parse::<Targets>() {
        Ok(parsed) => (parsed, None),
        Err(error) => (level.parse().unwrap_or_default(), Some(error)),
    };
    let (text, unopened) = match logging.text.as_deref().map(append).transpose() {
        Ok(text) => (text, None),
        Err(error) => (None, Some(error)),
    };
    let forced_id = std::env::var(FORCED_ID_VARIABLE).unwrap_or_default();
    let journal = tag.and_then(|tag| JournalLayer::new(Path::new(journal::SOCKET), tag, &forced_id).ok());
    let mut streams = Streams::new(logging, text);
    if journal.is_some() && journal::stderr_is_journal() {
        streams.stream = streams.stream.filter(|stream| *stream != Stream::Error);
    }
    let is_terminal =
        matches!(streams, Streams { stream: Some(Stream::Error), text: None }) && io::stderr().is_terminal();
    let is_plain = is_terminal && for_people && !is_detailed;
    let on_terminal = is_terminal && has_color;
    let timed_by_others = TIMED_BY_OTHERS.iter().any(|name| std::env::var_os(name).is_some());
    let lines = (streams.stream.is_some() || streams.text.is_some()).then(|| {
        let is_timed = streams.text.is_none() && timed_by_others;
        // A closed pipe must not stop us: an installation outlives the agent that reads its log.
        let lines = layer().with_ansi(on_terminal).log_internal_errors(false).with_writer(streams);
        let lines = match (is_plain, is_timed) {
            (true, _) => lines.event_format(Plain).boxed(),
            (false, true) => lines.without_time().boxed(),
            (false, false) => lines.boxed(),
        };
        lines.with_filter(filter_fn(|metadata| metadata.target() != PRINTED))
    });
    tracing_subscriber::registry().with(filter).with(lines).with(journal).init();
    if let Some(error) = bad {
        tracing::warn!(%error, "{LOG_VARIABLE} is invalid; logging at level {level}");
    }
    if let (Some(path), Some(error)) = (&logging.text, unopened) {
        tracing::warn!(path = %path.display(), %error, "cannot open the log file");
    }
}

/// A line as the command itself would print it: no time, and no name of a module.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        match *event.metadata().level() {
            Level::ERROR => line.write_str("error: ")?,
            Level::WARN => line.write_str("warning: ")?,
            _ => {}
        }
        context.field_format().format_fields(line.by_ref(), event)?;
        writeln!(line)
    }
}

/// Whether lines on a terminal have colors, where no option says so: <https://no-color.org>.
pub(crate) fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Output,
    Error,
}

/// Where lines are written to.
#[derive(Clone, Debug)]
struct Streams {
    stream: Option<Stream>,
    text: Option<Arc<File>>,
}

impl Streams {
    fn new(logging: &Logging, text: Option<File>) -> Self {
        let stream = match (&text, logging.stream) {
            (Some(_), true) => Some(Stream::Output),
            (Some(_), false) => None,
            (None, true) => Some(Stream::Error),
            // Without this no log is visible. For a program whose standard error is part of a reply that is intended.
            (None, false) => logging.runs_for_long.then_some(Stream::Error),
        };
        Self { stream, text: text.map(Arc::new) }
    }
}

impl<'a> MakeWriter<'a> for Streams {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Streams {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A failure of one does not affect the other.
        let text = self.text.as_deref().map_or(Ok(()), |mut file| file.write_all(line));
        match self.stream {
            Some(Stream::Output) => io::stdout().write_all(line)?,
            Some(Stream::Error) => io::stderr().write_all(line)?,
            None => {}
        }
        text.map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.stream == Some(Stream::Output) { io::stdout().flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_the_message_and_what_kind_it_is() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = Streams { stream: None, text: Some(Arc::new(path.reopen().unwrap())) };
        let lines = layer().with_ansi(false).with_writer(file).event_format(Plain);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(disk = "sda", "slow");
            tracing::info!("done");
        });
        assert_eq!(std::fs::read_to_string(path.path()).unwrap(), "warning: slow disk=\"sda\"\ndone\n");
    }

    #[test]
    fn each_switch_says_where_lines_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        std::fs::write(&path, "before\n").unwrap();
        let logging = Logging { text: Some(path.clone()), stream: false, ..Logging::default() };
        let mut streams = Streams::new(&logging, Some(append(&path).unwrap()));
        assert_eq!(streams.stream, None);
        streams.write_all(b"line\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nline\n");
        let both = Logging { stream: true, ..logging.clone() };
        assert_eq!(Streams::new(&both, Some(append(&path).unwrap())).stream, Some(Stream::Output));
        assert_eq!(Streams::new(&Logging::default(), None).stream, Some(Stream::Error));
        let quiet = Logging { stream: false, runs_for_long: false, ..Logging::default() };
        assert_eq!(Streams::new(&quiet, None).stream, None);
        assert_eq!(Streams::new(&Logging { runs_for_long: true, ..quiet }, None).stream, Some(Stream::Error));
    }
}
