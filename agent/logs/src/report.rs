//! What could not be gathered.

use std::fmt::{self, Display, Write};

/// More lines are only counted.
const MAX_FAILURES: usize = 200;
const MAX_LINE: usize = 2000;

/// The list of failures, in the words of `report.logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    failures: Vec<String>,
    more: usize,
}

impl Report {
    /// Adds a failure, and logs it.
    pub(crate) fn add(&mut self, failure: impl Display) {
        let failure: String = format!("{failure:#}").chars().take(MAX_LINE).collect();
        tracing::warn!("{failure}");
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(failure);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }
}

impl Display for Report {
    /// Empty without failures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failures.len() + self.more {
            0 => return Ok(()),
            1 => f.write_str("1 error occurred:\n")?,
            count => writeln!(f, "{count} errors occurred:")?,
        }
        for failure in &self.failures {
            writeln!(f, "\t* {failure}")?;
        }
        if self.more > 0 {
            writeln!(f, "\t* and {} more", self.more)?;
        }
        f.write_char('\n')
    }
}
