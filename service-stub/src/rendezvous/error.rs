//! Why there is no plan.

use ignition::yaml::YamlError;
use std::{io, path::PathBuf};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Reading it would take too long.
    #[error("{file} is refused: {reason}")]
    Yaml {
        #[allow(missing_docs)]
        file: String,
        /// Which bound it breaks.
        reason: YamlError,
    },
    /// A file.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// More than anybody writes.
    #[error("{what} are too many: {most} at most make sense")]
    TooMuch {
        /// What there is.
        what: String,
        /// How much there may be.
        most: usize,
    },
    /// No document.
    #[error("{file} is no {kind}{}", line.map_or_else(String::new, |line| format!(": look at line {line}")))]
    Syntax {
        /// The file.
        file: String,
        /// What it should be.
        kind: &'static str,
        /// Where it isn't.
        line: Option<usize>,
    },
    /// A field that can't be.
    #[error("{file}: {field}: {reason}")]
    Field {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// Two places that differ.
    #[error("{one} and {other} say different things of {what}: one of them must go")]
    Contradiction {
        /// A file and its field.
        one: String,
        /// Another.
        other: String,
        /// Of what.
        what: String,
    },
    /// Nobody says it.
    #[error("no {what}: {hint}")]
    Missing {
        /// What.
        what: &'static str,
        /// Where to say it.
        hint: String,
    },
    /// The service's own rules.
    #[error("the plan does not hold: {0}")]
    Refused(String),
}
