//! Where a program says it logs to (docs/compatibility.md#agent-flags).

use super::flags::{Flag, Values};
use std::path::PathBuf;

/// Where the log goes, with the names of the flags that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// To the journal, with the fields by which it is collected later.
    pub journal: bool,
    /// To the end of this file as well.
    pub text: Option<PathBuf>,
    /// To a standard stream as well: the output beside a file, else the error stream, as the real programs do.
    pub stream: bool,
    /// Without journal or file, a program whose output is another's input shows only warnings on the error stream; one that
    /// runs for long shows all.
    pub runs_for_long: bool,
    /// Also details for debugging.
    pub is_verbose: bool,
}

impl Default for Logging {
    /// Of our own commands: the error stream alone.
    fn default() -> Self {
        Self { journal: false, text: None, stream: true, runs_for_long: true, is_verbose: false }
    }
}

pub(super) fn flags(text_default: bool) -> [Flag; 2] {
    [
        Flag::bool("with-journal-logging", true, "Log to the journal"),
        Flag::bool("with-text-logging", text_default, "Log to a file in /var/log"),
    ]
}

/// The flag that the sender of logs lacks.
pub(super) fn stream_flag() -> Flag {
    Flag::bool("with-stdout-logging", false, "Log to standard output, or to standard error where no file is logged to")
}

/// What they say for the program whose file is `/var/log/NAME.log`.
pub(super) fn logging(values: &Values, name: &str, runs_for_long: bool) -> Logging {
    let text = values.is_on("with-text-logging").then(|| PathBuf::from(format!("/var/log/{name}.log")));
    Logging {
        journal: values.is_on("with-journal-logging"),
        text,
        stream: values.is_on("with-stdout-logging"),
        runs_for_long,
        is_verbose: false,
    }
}
