//! Builds what the test machines boot: a live ISO and metal disk images with CoreOS layout, from distribution packages and
//! without privileges. Built once per change of their inputs, below `target/vm/images`.

mod cpio;
mod elf;
mod fat;
mod gpt;
mod grub;
mod initramfs;
mod iso;
mod kernel;
mod metal;
mod root;
mod store;
mod tools;
mod tree;

pub use iso::{LiveIso, live_iso};
pub use metal::{Compression, SectorSize, metal_image};

/// Kernel arguments of every test image: the serial console; no timer check, which fails under emulation on a busy host; no
/// cipher self-tests, which take a second there.
pub const TEST_KARGS: &str = "console=ttyS0 quiet no_timer_check cryptomgr.notests";
