//! What is wrong with a config, where, and how bad it is; in the words and the form of `ignition-validate`.

use crate::json::{Document, Kind, Lines, Position, Value};
use crate::model::Version;
use serde::Serialize;
use std::{collections::HashMap, fmt};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Ignition refuses the config.
    Error,
    /// Ignition continues.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub severity: Severity,
    /// Such as `$.storage.files.0.path`; None if it is not JSON at all.
    pub path: Option<String>,
    /// Where that is in the text.
    #[serde(flatten)]
    pub position: Option<Position>,
    pub message: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.severity)?;
        match (&self.path, &self.position) {
            (Some(path), Some(at)) => write!(f, " at {path}, line {} col {}", at.line, at.column)?,
            (Some(path), None) => write!(f, " at {path}")?,
            (None, Some(at)) => write!(f, " at line {} col {}", at.line, at.column)?,
            (None, None) => {}
        }
        write!(f, ": {}", self.message)
    }
}

/// All findings, in the order of the walks that made them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub entries: Vec<Entry>,
}

impl Report {
    /// Whether Ignition would refuse the config.
    pub fn is_fatal(&self) -> bool {
        self.entries.iter().any(|entry| entry.severity == Severity::Error)
    }

    /// The first errors, on one line.
    pub fn summary(&self) -> String {
        let errors = || self.entries.iter().filter(|entry| entry.severity == Severity::Error);
        let shown: Vec<_> = errors().take(SUMMARY_ENTRIES).map(ToString::to_string).collect();
        let more = errors().count().saturating_sub(shown.len());
        if more > 0 { format!("{}; and {more} more", shown.join("; ")) } else { shown.join("; ") }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

/// Errors that fit a message.
const SUMMARY_ENTRIES: usize = 5;

/// A step down a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'s> {
    Key(&'s str),
    Index(usize),
}

impl<'s> From<&'s str> for Step<'s> {
    fn from(key: &'s str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// For a duplicate entry.
pub(crate) const DUPLICATE: &str = "duplicate entry defined";
/// The search ends after this many findings.
const MAX_ENTRIES: usize = 10_000;

/// A walk through a config.
pub(crate) struct Walk<'w, 'a> {
    pub version: Version,
    document: &'w Document<'a>,
    lines: &'w Lines,
    path: Vec<Step<'w>>,
    /// Where in each array the last value was found: findings come in order, and lists may be long.
    cursors: HashMap<usize, (usize, Value<'w, 'a>)>,
    pub report: Report,
}

impl<'w, 'a> Walk<'w, 'a> {
    pub(crate) fn new(version: Version, document: &'w Document<'a>, lines: &'w Lines) -> Self {
        Self { version, document, lines, path: Vec::new(), cursors: HashMap::new(), report: Report::default() }
    }

    /// One step further down.
    pub(crate) fn within(&mut self, step: impl Into<Step<'w>>, go: impl FnOnce(&mut Self)) {
        self.path.push(step.into());
        go(self);
        self.path.pop();
    }

    /// An error at the place reached, or below it.
    pub(crate) fn error(&mut self, below: &[Step<'_>], message: impl ToString) {
        self.add(Severity::Error, below, &message.to_string());
    }

    /// The same of a warning.
    pub(crate) fn warning(&mut self, below: &[Step<'_>], message: impl ToString) {
        self.add(Severity::Warning, below, &message.to_string());
    }

    /// A key that means nothing, which is at this offset.
    pub(crate) fn unused_key(&mut self, key: &str, offset: usize) {
        let path = text(&self.path, &[Step::Key(key)]);
        self.push(Severity::Warning, path, self.lines.position(offset), format!("unused key {key}"));
    }

    /// A null in the place of an object. Its contents can't be distinguished from missing ones.
    pub(crate) fn null_object(&mut self, offset: usize) {
        let path = text(&self.path, &[]);
        let message = format!(
            "context tree does not match content tree at {path}. Line and column reporting may be inconsistent. Unused keys \
             may not be reported"
        );
        self.push(Severity::Warning, path, self.lines.position(offset), message);
    }

    /// How many findings are still looked for.
    pub(crate) fn room(&self) -> usize {
        MAX_ENTRIES.saturating_sub(self.report.entries.len())
    }

    fn add(&mut self, severity: Severity, below: &[Step<'_>], message: &str) {
        if self.room() > 0 {
            let position = self.lines.position(self.nearest(below).report_offset());
            self.push(severity, text(&self.path, below), position, message.to_owned());
        }
    }

    fn push(&mut self, severity: Severity, path: String, position: Position, message: String) {
        if self.room() > 0 {
            self.report.entries.push(Entry { severity, path: Some(path), position: Some(position), message });
        }
    }

    /// Whether there is an object below the place reached, even an empty one.
    pub(crate) fn is_object(&self, below: &[Step<'_>]) -> bool {
        let mut path = self.path.iter().chain(below);
        let found = path.try_fold(self.document.root(), |value, step| match step {
            Step::Key(key) => value.member(key),
            Step::Index(index) => value.items().nth(*index),
        });
        found.is_some_and(|value| value.kind() == Kind::Object)
    }

    /// The deepest value on the way.
    fn nearest(&mut self, below: &[Step<'_>]) -> Value<'w, 'a> {
        let mut value = self.document.root();
        let Self { path, cursors, .. } = self;
        for step in path.iter().chain(below) {
            let next = match step {
                Step::Key(key) => value.member(key),
                Step::Index(index) => item(value, *index, cursors),
            };
            let Some(next) = next else { break };
            value = next;
        }
        value
    }
}

/// An array's value by its index, sought from the one found last.
fn item<'w, 'a>(
    array: Value<'w, 'a>,
    index: usize,
    cursors: &mut HashMap<usize, (usize, Value<'w, 'a>)>,
) -> Option<Value<'w, 'a>> {
    let from = cursors.get(&array.start()).copied().filter(|(known, _)| *known <= index);
    let found = match from {
        Some((known, value)) => value.siblings(array).nth(index - known),
        None => array.items().nth(index),
    }?;
    cursors.insert(array.start(), (index, found));
    Some(found)
}

fn text(path: &[Step<'_>], below: &[Step<'_>]) -> String {
    path.iter().chain(below).fold("$".to_owned(), |text, step| match step {
        Step::Key(key) => format!("{text}.{key}"),
        Step::Index(index) => format!("{text}.{index}"),
    })
}
