//! The systemd journal, without journalctl: its files read, and records written in its native protocol.
//!
//! Reading follows systemd's description of the format (`docs/JOURNAL_FILE_FORMAT.md`). Files are hostile: they may be cut,
//! damaged, still written to, or made to mislead. What can be read is, what can't is named, and nothing is read twice: all
//! chains in a file lead forward, and one that doesn't ends there.

mod entries;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod layer;
mod merge;
mod query;
mod short;
mod since;
mod sys;
mod write;

pub use file::{Bytes, Fault};
pub use layer::{JournalLayer, RELAYED};
pub use merge::{Found, Journal, Range, directories};
pub use query::Query;
pub use short::{SHORT_FIELDS, Short};
pub use since::{SinceError, parse_time};
pub use sys::{Local, local};
pub use write::{SOCKET, Sender, stderr_is_journal};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
