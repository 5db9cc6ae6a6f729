//! Errors of rack plans.

use ignition::yaml::YamlError;
use std::{io, path::PathBuf};

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
    /// A field with an impossible value.
    #[error("{file}: {field}: {reason}")]
    Field { file: String, field: String, reason: String },
    /// It may be misspelled, and matters here.
    #[error("{field}: is not a field of this file")]
    Unknown {
        /// Its file and place.
        field: String,
    },
    #[error("{one} and {other} differ in {what}: remove one of them")]
    Contradiction {
        /// A file and its field.
        one: String,
        other: String,
        what: String,
    },
    #[error("no {what}: {hint}")]
    Missing {
        what: &'static str,
        /// Where to give it.
        hint: String,
    },
    #[error("the plan is inconsistent: {0}")]
    Refused(String),
}
