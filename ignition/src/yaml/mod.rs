//! YAML from outside, within bounds.
//!
//! libyaml looks at every open bracket for each word it reads, and at every `%TAG` line for each further one, and the
//! result of a text follows its aliases: a megabyte can take minutes and many gigabytes. So a text is scanned once before
//! it is read, event by event, and refused at the first event beyond a bound.

mod node;
mod sys;

pub(crate) use node::first_document;
pub use node::{Content, Member, Node, NodeError, trees};

use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use sys::{Event, EventKind, Events};

/// Depth of collections. The reader accepts no more either.
pub const MAX_DEPTH: usize = 128;
/// Collections, scalars and aliases of a short text; a longer one has a quarter of its bytes more.
const MIN_NODES: usize = 10_000;
/// Documents of a text are separated, and their tags abbreviated, by lines that cost time with the square of their number.
const MAX_DIRECTIVES: usize = 64;

/// Why a text is not read. What stands in it is not shown: it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    #[error("it has {found} bytes, more than {max}")]
    TooLong { found: usize, max: usize },
    #[error("it is nested too deeply: at most {max} levels of lists and mappings are allowed")]
    TooDeep { max: usize },
    /// With its aliases expanded.
    #[error("it has too many values: at most {max}, with aliases followed")]
    TooManyValues { max: usize },
    #[error("its aliases repeat too much text: at most {max} bytes")]
    TooMuchText { max: usize },
    /// It would be endless.
    #[error("an alias in it contains itself")]
    Endless,
    #[error("it has more than {max} %TAG lines")]
    TooManyDirectives { max: usize },
    /// UTF-16, or not Unicode.
    #[error("it is not UTF-8")]
    Encoding,
    /// Not YAML, or not what is wanted.
    #[error("it can't be read{}", place(.line, .column))]
    Syntax {
        /// From 1.
        line: Option<usize>,
        /// From 1.
        column: Option<usize>,
    },
}

fn place(line: &Option<usize>, column: &Option<usize>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(" at line {line} column {column}"),
        _ => String::new(),
    }
}

impl From<serde_norway::Error> for YamlError {
    fn from(error: serde_norway::Error) -> Self {
        let at = error.location();
        Self::Syntax { line: at.as_ref().map(|at| at.line()), column: at.as_ref().map(|at| at.column()) }
    }
}

impl YamlError {
    /// The line that can't be read, where it is known.
    pub fn line(&self) -> Option<usize> {
        if let Self::Syntax { line, .. } = self { *line } else { None }
    }
}

/// The one document of a text of at most `max_bytes`.
pub fn document<T: DeserializeOwned>(text: &[u8], max_bytes: usize) -> Result<T, YamlError> {
    check(text, max_bytes)?;
    Ok(serde_norway::from_slice(text)?)
}

/// Why a text is not read, in the parser's words.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum WordedError {
    /// Beyond a bound.
    Bound(#[from] YamlError),
    /// Not YAML, or not what is wanted.
    Parser(#[from] serde_norway::Error),
}

/// As [`document`]. The error may quote the text: for the operator who wrote it.
pub fn worded_document<T: DeserializeOwned>(text: &[u8], max_bytes: usize) -> Result<T, WordedError> {
    check(text, max_bytes)?;
    Ok(serde_norway::from_slice(text)?)
}

/// All documents of a text of at most `max_bytes`.
pub fn documents<T: DeserializeOwned>(text: &[u8], max_bytes: usize) -> Result<Vec<T>, YamlError> {
    check(text, max_bytes)?;
    let read = serde_norway::Deserializer::from_slice(text).map(|document| Ok(T::deserialize(document)?));
    read.collect()
}

/// The size of a part of a document with its aliases followed.
#[derive(Clone, Copy, Default)]
struct Extent {
    values: usize,
    text_bytes: usize,
}

impl Extent {
    fn add(&mut self, other: Self) {
        self.values = self.values.saturating_add(other.values);
        self.text_bytes = self.text_bytes.saturating_add(other.text_bytes);
    }
}

/// Refuses a text that would take a reader of YAML too long, or too much memory. A text that is not YAML passes: its
/// reader stops at the same place, with the error.
pub fn check(text: &[u8], max_bytes: usize) -> Result<(), YamlError> {
    if text.len() > max_bytes {
        return Err(YamlError::TooLong { found: text.len(), max: max_bytes });
    }
    let utf8 = str::from_utf8(text).map_err(|_| YamlError::Encoding)?;
    if utf8.matches("%TAG").nth(MAX_DIRECTIVES).is_some() {
        return Err(YamlError::TooManyDirectives { max: MAX_DIRECTIVES });
    }
    let (max_values, max_text) = (MIN_NODES + text.len() / 4, max_bytes.saturating_mul(4));
    // What comes before the innermost open collection, those around it last first, and their anchors.
    let mut open: Vec<(Extent, Option<Box<[u8]>>)> = Vec::new();
    let mut anchors: BTreeMap<Box<[u8]>, Option<Extent>> = BTreeMap::new();
    let (mut current, mut before) = (Extent::default(), Extent::default());
    for Event { anchor, kind, .. } in Events::parse(text) {
        let value = Extent { values: 1, text_bytes: 0 };
        match kind {
            EventKind::DocumentStart => {
                anchors.clear();
                before.add(std::mem::take(&mut current));
            }
            EventKind::SequenceStart | EventKind::MappingStart => {
                if open.len() >= MAX_DEPTH {
                    return Err(YamlError::TooDeep { max: MAX_DEPTH });
                }
                if let Some(anchor) = &anchor {
                    anchors.insert(anchor.clone(), None);
                }
                open.push((std::mem::replace(&mut current, value), anchor));
            }
            EventKind::CollectionEnd => {
                let (outer, anchor) = open.pop().unwrap_or_default();
                if let Some(anchor) = anchor {
                    anchors.insert(anchor, Some(current));
                }
                current.add(outer);
            }
            EventKind::Scalar { bytes, .. } => {
                let scalar = Extent { text_bytes: bytes, ..value };
                if let Some(anchor) = anchor {
                    anchors.insert(anchor, Some(scalar));
                }
                current.add(scalar);
            }
            EventKind::Alias => match anchor.and_then(|anchor| anchors.get(&anchor)) {
                Some(Some(extent)) => current.add(*extent),
                Some(None) => return Err(YamlError::Endless),
                // Its reader refuses it.
                None => current.add(value),
            },
            EventKind::StreamEnd | EventKind::Other => {}
        }
        // What is around the innermost collection was within the bounds when that began.
        let mut all = before;
        all.add(current);
        if all.values > max_values {
            return Err(YamlError::TooManyValues { max: max_values });
        }
        if all.text_bytes > max_text {
            return Err(YamlError::TooMuchText { max: max_text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
