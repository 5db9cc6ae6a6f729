//! Baking: puts the overlay into an existing live system, without unpacking its root file system.
//!
//! `/usr` of a CoreOS-style live system is a read-only squashfs, so files are added by Ignition. The initrd gets another archive
//! with a fragment for `/usr/lib/ignition/base.d`, which Ignition merges below the config of the embed area. [`content`] is what
//! that fragment writes, [`segment`] the archive at the initrd's end; [`iso`] makes an ISO use the longer initrd, [`initrd`] does
//! the same for a separate initrd.

pub mod content;
mod ingredients;
pub mod initrd;
pub mod iso;
pub mod manifest;
pub mod os_image;
pub(crate) mod partitions;
pub mod program;
pub mod segment;
pub mod splice;
#[cfg(test)]
mod tests;

pub(crate) use ingredients::CONTENT;
pub use ingredients::OverlayOptions;

use crate::iso9660::IsoError;
use content::{Content, ContentError};
use manifest::{ImageFacts, IsoBase, Manifest, SCHEMA_VERSION};
use program::ProgramError;
use segment::SegmentError;
use std::io;
use std::path::{Path, PathBuf};

/// Why baking failed.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    /// A file can't be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A base is another file.
    #[error("{} is not an ISO, which has a volume descriptor at byte 32768: give the ISO of a live system", path.display())]
    NotAnIso { path: PathBuf },
    /// A base can't be parsed.
    #[error("{} is not an image for baking", path.display())]
    Iso { path: PathBuf, source: IsoError },
    #[error("cannot bake into {}: {what}", path.display())]
    Base {
        path: PathBuf,
        /// Why not, and what to do.
        what: String,
    },
    /// The original can't be restored.
    #[error(transparent)]
    Patch(#[from] crate::PatchError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("nothing was baked into {}", path.display())]
    Absent { path: PathBuf },
    #[error(transparent)]
    Output(#[from] crate::output::OutputError),
}

impl BakeError {
    /// Why the image at `path` can't be read.
    fn iso(path: &Path, source: IsoError) -> Self {
        let path = path.to_owned();
        if source.is_another_file() { Self::NotAnIso { path } } else { Self::Iso { path, source } }
    }
}

/// The manifest of a segment of `content`.
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
