//! Writes an OS image to a disk and prepares its first boot: source, decoder, writer, in a row of bounded buffers.
//!
//! The image's first MiB, which holds the partition table, goes to the disk last, when everything else is on the medium;
//! after a failure the table is cleared. Whatever the moment of a crash, a half-written disk does not boot.

mod disk;
mod event;
mod in_use;
mod install;
mod options;
mod sys;

pub use disk::{DiskError, Geometry};
pub use event::{Event, Format, Phase};
pub use in_use::Use;
pub use install::{DiskState, Failure, InstallError, Installed, install};
pub use options::{InstallOptions, Source};
