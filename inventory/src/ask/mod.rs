//! Facts that no file has: a kernel table, a page of a disk, a reply of the management controller. One question has one
//! answer in bytes, which a capture stores as a file, so that a replay gives the same results.

mod allowed;
mod commands;
mod controller;
mod devices;
mod letter;
#[cfg(test)]
mod live;
mod mpt;
mod patience;
mod power;
mod question;
#[cfg(test)]
mod swtpm;
mod table;
mod tpm;

pub(crate) use devices::open_tpm;
pub(crate) use patience::Patience;
pub use power::{PowerError, PowerSwitch};
pub(crate) use question::{Cxl, MegaRaid, Mpt, Question, SmartArray, SmartLog, drive_behind};
pub(crate) use table::{Table, messages};
pub(crate) use tpm::nv as certificate_at;
