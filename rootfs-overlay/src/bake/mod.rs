//! Baking: the overlay put into a live system that is there already, without unpacking its root file system.
//!
//! `/usr` of a CoreOS-style live system is a read-only squashfs, so files get into it as everything does: by Ignition. The initrd
//! gets a further archive with a fragment for `/usr/lib/ignition/base.d`, which Ignition merges below the config of the embed area.
//! [`content`] says what that fragment writes, [`segment`] how the archive lies at the initrd's end, [`iso`] how an ISO is made to
//! name the longer initrd, [`initrd`] does the same for a file of its own.

pub mod content;
mod ingredients;
pub mod initrd;
pub mod iso;
pub mod manifest;
pub mod os_image;
mod partitions;
pub mod program;
pub mod segment;
pub mod splice;
#[cfg(test)]
mod tests;

pub use ingredients::OverlayOptions;

use content::{Content, ContentError};
use manifest::{ImageFacts, IsoBase, Manifest, SCHEMA_VERSION};
use program::ProgramError;
use segment::SegmentError;
use std::io;
use std::path::PathBuf;

/// Why nothing is baked.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    /// A file can't be read.
    #[error("{} can't be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A base can't be looked into.
    #[error("{} is not an image to bake into", path.display())]
    Iso { path: PathBuf, source: crate::iso9660::IsoError },
    #[error("{} can't be baked into: {what}", path.display())]
    Base {
        path: PathBuf,
        /// Why not, and what to do.
        what: String,
    },
    /// What it was before can't be told.
    #[error(transparent)]
    Patch(#[from] crate::PatchError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("{} carries nothing that was baked in", path.display())]
    Absent { path: PathBuf },
    #[error(transparent)]
    Output(#[from] crate::output::OutputError),
}

/// What a segment of `content` says of itself.
fn manifest(content: &Content, initrd_bytes: u64, image: Option<ImageFacts>, iso: Option<IsoBase>) -> Manifest {
    Manifest {
        schema_version: SCHEMA_VERSION,
        landfall_version: env!("CARGO_PKG_VERSION").to_owned(),
        program: content.program_facts(),
        files: content.file_facts(),
        units: content.unit_names(),
        service_url: content.service_url().map(str::to_owned),
        rendezvous: content.has_rendezvous(),
        image,
        initrd_bytes,
        iso,
    }
}
