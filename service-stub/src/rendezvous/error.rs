//! Errors of rack plans.

use ignition::yaml::YamlError;
use std::{io, path::PathBuf};

fn again(first: Option<usize>, line: usize) -> String {
    first.map_or_else(|| line.to_string(), |first| format!("{first}, again in line {line}"))
}

/// The rack plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Reading it would take too long.
    #[error("refused {file}: {reason}")]
    Yaml {
        file: String,
        /// Which limit it exceeds.
        reason: YamlError,
    },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{what}: the limit is {most}")]
    TooMuch {
        what: String,
        /// The limit.
        most: usize,
    },
    #[error("{file} is not {kind}{}", line.map_or_else(String::new, |line| format!(": look at line {line}")))]
    Syntax {
        file: String,
        /// The expected format.
        kind: &'static str,
        line: Option<usize>,
    },
    /// Readers differ in which of them counts.
    #[error("{file}: duplicate key {}, line {}", key.escape_default(), again(*first, *line))]
    Twice { file: String, key: String, first: Option<usize>, line: usize },
    /// YAML that has no meaning here.
    #[error("{file}: {what}, line {line}")]
    Unusual { file: String, what: &'static str, line: usize },
    /// A field with an impossible value.
    #[error("{file}: {field}: {reason}{}", line.map_or_else(String::new, |line| format!(" (line {line})")))]
    Field { file: String, field: String, reason: String, line: Option<usize> },
    /// They may be misspelled.
    #[error("{fields}")]
    Unknown {
        /// Each with its file, place and line.
        fields: String,
    },
    #[error("{one} and {other} differ in {what}: remove one of them")]
    Contradiction {
        /// A file and its field.
        one: String,
        other: String,
        what: String,
    },
    /// A reference to a document that is not there, or to one of several.
    #[error("{place} {reason}")]
    Reference {
        /// A file and its field.
        place: String,
        reason: String,
    },
    #[error("no {what}: {hint}")]
    Missing {
        what: &'static str,
        /// Where to give it.
        hint: String,
    },
    /// A rule of the service, in its words.
    #[error("{0}")]
    Rule(String),
    #[error("the plan is inconsistent: {0}")]
    Refused(String),
}
