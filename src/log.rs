//! Where our log goes.

use agent::dropin::Logging;
use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    path::Path,
    sync::Arc,
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// Names the log levels: a level, or per part as in `info,diskwrite=debug`.
const LOG_VARIABLE: &str = "LANDFALL_LOG";
/// Set by the agent for its steps: what they say goes into the reply.
pub const STEP_VARIABLE: &str = "LANDFALL_STEP";
/// Set by whoever adds the time to each line of our log itself: the journal, and the agent.
const TIMED_BY_OTHERS: [&str; 2] = ["JOURNAL_STREAM", STEP_VARIABLE];

/// Starts it at `level` where [`LOG_VARIABLE`] says nothing else.
pub fn start(level: &str, logging: &Logging) {
    let filter = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let filter = if filter.trim().is_empty() { level.to_owned() } else { filter };
    let (filter, bad) = match EnvFilter::try_new(&filter) {
        Ok(parsed) => (parsed, None),
        Err(error) => (EnvFilter::new(level), Some(error)),
    };
    let (text, unopened) = match logging.text.as_deref().map(append).transpose() {
        Ok(text) => (text, None),
        Err(error) => (None, Some(error)),
    };
    let streams = Streams::of(logging, text);
    let on_terminal =
        matches!(streams, Streams { stream: Some(Stream::Error), text: None }) && io::stderr().is_terminal();
    // A log that nobody reads any more is no reason to stop: an installation outlives the agent at its pipe.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(on_terminal).log_internal_errors(false);
    if streams.text.is_none() && TIMED_BY_OTHERS.iter().any(|name| std::env::var_os(name).is_some()) {
        log.with_writer(streams).without_time().init();
    } else {
        log.with_writer(streams).init();
    }
    if let Some(error) = bad {
        tracing::warn!(%error, "{LOG_VARIABLE} is not understood, logging at level {level}");
    }
    if let (Some(path), Some(error)) = (&logging.text, unopened) {
        tracing::warn!(path = %path.display(), %error, "this file cannot be logged to");
    }
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
    fn of(logging: &Logging, text: Option<File>) -> Self {
        let stream = match (&text, logging.stream) {
            (Some(_), true) => Some(Stream::Output),
            (Some(_), false) => None,
            (None, true) => Some(Stream::Error),
            // Nobody would hear of anything. Of a program whose error stream is part of somebody's answer that is wanted.
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
        // One that fails keeps nothing from the other.
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
    fn each_switch_says_where_lines_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        std::fs::write(&path, "before\n").unwrap();
        let logging = Logging { text: Some(path.clone()), stream: false, ..Logging::default() };
        let mut streams = Streams::of(&logging, Some(append(&path).unwrap()));
        assert_eq!(streams.stream, None);
        streams.write_all(b"line\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nline\n");
        let both = Logging { stream: true, ..logging.clone() };
        assert_eq!(Streams::of(&both, Some(append(&path).unwrap())).stream, Some(Stream::Output));
        assert_eq!(Streams::of(&Logging::default(), None).stream, Some(Stream::Error));
        let quiet = Logging { stream: false, runs_for_long: false, ..Logging::default() };
        assert_eq!(Streams::of(&quiet, None).stream, None);
        assert_eq!(Streams::of(&Logging { runs_for_long: true, ..quiet }, None).stream, Some(Stream::Error));
    }
}
