//! Facts that no file tells: a kernel table, a page of a disk, a reply of the management controller. One question has one
//! answer in bytes, which a capture keeps as a file, so that all that is made of them is the same on a replay.

mod commands;
mod devices;
mod letter;
#[cfg(test)]
mod live;
mod patience;
mod question;
mod table;

pub(crate) use patience::Patience;
pub(crate) use question::Question;
pub(crate) use table::{Table, messages};
