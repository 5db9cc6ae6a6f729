//! Builds what the test machines boot: a live ISO and metal disk images with CoreOS layout, and a small system with a shell, from
//! distribution packages and without privileges. There are two live systems: a small one with an initramfs of busybox, and one of
//! real parts ([`System::Dracut`]): NetworkManager, chrony, journald, logins, and dracut's initramfs. Built once per change of their inputs, below `target/vm/images`.
//!
//! Machines report their progress in lines on the first serial port that start with `@@ `, in this order:
//!
//! | line | when |
//! |---|---|
//! | `initramfs bios` or `uefi` | the kernel has started |
//! | `medium DEVICE`, `live-rootfs` | live: the ISO was found, the root is mounted |
//! | `metal-rootfs` | installed: root and boot are mounted |
//! | `network INTERFACE ADDRESS` | Ignition has to fetch something, and DHCP answered |
//! | `ignition STAGE ok` | after each of fetch-offline, fetch, disks, mount, files; on the first boot only |
//! | `ignition FAIL STAGE` | and `\| ` lines with the end of its log; the machine powers off, as after every `FAIL`; [`System::Dracut`] says `live FAIL initramfs` |
//! | `firstboot done` | installed: the stamp is removed |
//! | `live-root`, `live ready` | live: systemd has passed sysinit.target, and has started everything |
//! | `live-login`, `shell` | [`System::Dracut`]: logins are possible; a shell listens on the virtio port that tests may attach |
//! | `live failed-unit=UNIT`, `node failed-unit=UNIT` | one per failed unit, before `ready` |
//! | `node KEY=VALUE`, `node ready` | installed: hostname, user, ignition-result, cmdline, `file:PATH sha256=HEX`; all units have started |

mod cpio;
mod dracut;
mod elf;
mod encryption;
mod fat;
mod gpt;
mod grub;
mod initramfs;
mod iso;
mod kernel;
mod metal;
mod minimal;
mod root;
mod shell;
mod store;
mod tools;
mod tree;

pub use encryption::encryption_system;
pub use iso::{LiveIso, System, live_iso};
pub use metal::{Compression, SectorSize, metal_image};
pub use minimal::{Minimal, minimal_image};
pub use shell::{Extra, shell_system};

use crate::arch::Arch;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Which hardware a kernel has drivers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// Virtio and little else; starts fast.
    Cloud,
    /// All.
    Full,
}

impl Drivers {
    fn package(self) -> &'static str {
        match self {
            Self::Cloud => "cloud",
            Self::Full => "full",
        }
    }

    /// These drivers for machines of a processor.
    pub fn of(self, arch: Arch) -> Hardware {
        Hardware { arch, drivers: self }
    }
}

/// What an image can boot on. Drivers alone are those of x86_64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    pub arch: Arch,
    pub drivers: Drivers,
}

impl From<Drivers> for Hardware {
    fn from(drivers: Drivers) -> Self {
        drivers.of(Arch::default())
    }
}

/// A shared library of the machines' packages that images leave out because no program in them needs it.
pub(crate) fn unused_library(name: &str) -> Result<PathBuf> {
    let arch = Arch::default();
    let package = store::packages(arch, "root")?;
    let dirs = ["lib", "usr/lib"].map(|dir| package.join(dir).join(arch.library_dir).join(name));
    dirs.into_iter().find(|path| path.exists()).with_context(|| format!("the test machines' packages have no {name}"))
}
