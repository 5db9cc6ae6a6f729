//! Writes an OS image to a disk and prepares its first boot: source, decoder, writer, in a row of bounded buffers.
//!
//! The image's first MiB, which holds the partition table, goes to the disk last, when everything else is on the medium;
//! after a failure the table is cleared. Whatever the moment of a crash, a half-written disk does not boot.

mod boot;
mod buffer;
mod claim;
mod copy;
mod decode;
mod device;
mod disk;
mod ends;
mod event;
mod extents;
mod filter;
mod flight;
#[doc(hidden)]
pub mod floor;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gpt;
mod identity;
mod ignition_hash;
mod image;
mod in_use;
pub mod initrd;
mod install;
mod layout;
mod maps;
mod memory;
mod mount;
mod options;
mod own_source;
mod pack;
mod partitions;
mod plan;
mod prepare;
pub mod probe;
mod record;
pub mod release;
pub mod repartition;
mod request;
mod saved;
mod source;
pub mod speed;
mod stream;
mod threads;
mod trust;
mod verify;
pub mod wipe;
mod write;
mod written;
mod zeros;

#[cfg(test)]
mod fake_disk;

pub use boot::console::{ConsoleError, console_hint};
pub use boot::kargs::{EntryError, KargEdits};
pub use boot::{BootError, edit_last_entry};
pub use claim::ClaimedDisk;
pub use copy::{Copy, CopyError, Signature, signature};
pub use decode::{DecodeError, Format};
pub use disk::{DiskError, Geometry};
pub use event::{Event, Phase, Stage};
pub use extents::{Extent, ExtentsError, extents};
pub use filter::{FilterError, check_filters};
pub use gpt::{FindError, LayoutError, TableError};
pub use identity::{Change, DiskIdentity, ResolveError, disks, resolve};
pub use ignition_hash::{IgnitionHash, IgnitionHashError};
pub use image::ImageError;
pub use in_use::Use;
pub use install::{DiskState, Failure, InstallError, Installed, install};
pub use layout::{Layout, LayoutPartition, ReadLayoutError, open_layout};
pub use mount::{MountError, enter_device};
pub use options::{Changes, InstallOptions, NetworkPlace, Retries, Source};
pub use pack::{Overlaps, PackError, PackEvent, PackOptions, Packed, Scan, pack};
pub use partitions::PartitionError;
pub use plan::{Fate, OldPartition, PLAN_SCHEMA, Plan, Step, plan};
pub use prepare::OptionsError;
pub use saved::{SavedError, SavedPartition};
pub use source::SourceError;
pub use source::osmet::{Osmet, OsmetError, OsmetFormatError, osmet};
pub use stream::Packing;
pub use trust::{SignatureAt, Trust, parse_sha256};
pub use verify::VerifyError;
pub use write::WriteError;
pub use written::{WrittenDisk, WrittenError, grow_xfs};
