//! Errors of rack plans.

use ignition::yaml::YamlError;
use std::{io, path::PathBuf};

/// The rack plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Reading it would take too long.
    #[error("{file} is refused: {reason}")]
    Yaml {
        file: String,
        /// Which bound it breaks.
        reason: YamlError,
    },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{what} are too many: {most} at most make sense")]
    TooMuch {
        what: String,
        /// How much there may be.
        most: usize,
    },
    #[error("{file} is not {kind}{}", line.map_or_else(String::new, |line| format!(": look at line {line}")))]
    Syntax {
        file: String,
        /// What it should be.
        kind: &'static str,
        line: Option<usize>,
    },
    /// A field with an impossible value.
    #[error("{file}: {field}: {reason}")]
    Field { file: String, field: String, reason: String },
    #[error("{one} and {other} say different things of {what}: one of them must go")]
    Contradiction {
        /// A file and its field.
        one: String,
        other: String,
        what: String,
    },
    #[error("no {what}: {hint}")]
    Missing {
        what: &'static str,
        /// Where to say it.
        hint: String,
    },
    #[error("the plan does not hold: {0}")]
    Refused(String),
}
