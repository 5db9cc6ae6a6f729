//! Live ISOs and their initramfs archives, and the files our own live host has beyond its distribution's (`overlay/`).
//!
//! A CoreOS-style live ISO keeps room for an Ignition config: the embed area, found by [`embed`] and changed by [`area`]. What is
//! in it are [`initrd`] archives, which the boot loader hands to the kernel after the real one. [`PatchedImage`] serves an ISO with
//! such changes without a copy of it.

pub mod area;
pub mod cli;
pub mod customize;
pub mod embed;
pub mod image_cli;
pub mod initrd;
pub mod iso9660;
pub mod kargs;
pub mod miniso;
pub mod oci;
mod output;
mod patched;
#[cfg(test)]
mod testing;

pub use area::ignition_patch;
pub use patched::{Patch, PatchError, PatchedImage};
