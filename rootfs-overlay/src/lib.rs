//! Live ISOs and their initramfs archives, and the files our own live host has beyond its distribution's (`overlay/`).
//!
//! A CoreOS-style live ISO ([`iso9660`]) keeps room for an Ignition config and network settings: the embed area, found by [`embed`].
//! What is in it are [`initrd`] archives, which the boot loader hands to the kernel after the real one. It keeps room for kernel
//! arguments too ([`kargs`]). [`area`] reads and changes both, `customize` makes of a live system one that installs a machine by
//! itself, `miniso` takes the minimal ISO out of a full one that describes it, [`cut`] makes one of any other, and [`cli`] is what coreos-installer's `iso` and `pxe` are.
//! [`PatchedImage`] serves an ISO with changes without a copy of it.

pub mod area;
pub mod bake;
pub mod cli;
mod customize;
pub mod cut;
pub mod embed;
pub mod image_cli;
mod installer_files;
pub mod iso9660;
pub mod kargs;
pub mod miniso;
mod oci;
mod output;
mod overlay_cli;
mod patched;
mod progress;
#[cfg(test)]
mod testing;

pub use area::ignition_patch;
pub use bake::program::for_images as program_for_images;
pub use diskwrite::initrd;
pub use output::{Output, OutputError};
pub use patched::{Patch, PatchError, PatchedImage};
