//! The live ISO, the OS images and the small system that machines start from, with the `landfall` under test inside.

use crate::{
    arch::Arch,
    images::{self, Compression, Drivers, Extra, Hardware, LiveIso, SectorSize, System, live_iso, metal_image},
    service,
    vm::DirectKernel,
};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Files of the live host, and where the program goes there.
const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rootfs-overlay/overlay");
const PROGRAM: &str = "usr/bin/landfall";

/// A live ISO that starts the agent. Built unless one of the same inputs exists.
pub fn agent_iso(hardware: impl Into<Hardware>) -> Result<PathBuf> {
    let hardware = hardware.into();
    let files = vec![(PROGRAM.to_owned(), service::binary_of(hardware.arch)?)];
    let overlays = vec![Path::new(OVERLAY).to_owned()];
    live_iso(&LiveIso { overlays, files, ..live_system(hardware) }).context("building the live ISO")
}

/// The live system without `landfall`, for its processor.
pub fn live_system(hardware: impl Into<Hardware>) -> LiveIso {
    let hardware = hardware.into();
    LiveIso { kargs: hardware.arch.kernel_arguments.to_owned(), hardware, ..LiveIso::default() }
}

/// The same, as distributions make theirs: NetworkManager, chrony, and dracut's initramfs. Without its root file system
/// inside it is the base for describing a minimal ISO.
pub fn dracut_iso(with_rootfs: bool) -> Result<PathBuf> {
    let files = vec![(PROGRAM.to_owned(), service::binary()?)];
    let overlays = vec![Path::new(OVERLAY).to_owned()];
    let spec = LiveIso { overlays, files, system: System::Dracut, with_rootfs, ..LiveIso::default() };
    live_iso(&spec).context("building the live ISO of real parts")
}

/// An OS image. Built unless one of the same inputs exists.
pub fn os_image(sector: SectorSize, compression: Compression, hardware: impl Into<Hardware>) -> Result<PathBuf> {
    metal_image(sector, compression, hardware)
        .with_context(|| format!("building the OS image ({sector:?}, {compression:?})"))
}

/// A small system with the program and a shell in it, for [`crate::vm::Vm::shell`]. Built unless one of the same inputs
/// exists.
pub fn shell_system(hardware: impl Into<Hardware>) -> Result<DirectKernel> {
    let mut system = build_shell_system(hardware.into(), Extra::HostTools(&[]))?;
    // With a periodic tick it is harmless that emulation loses one.
    system.arguments += " highres=off nohz=off";
    Ok(system)
}

/// As [`shell_system`], with mdadm, lvm and dmsetup, and every driver.
pub fn storage_system() -> Result<DirectKernel> {
    let mut system = build_shell_system(Drivers::Full.into(), Extra::Storage)?;
    system.arguments += " highres=off nohz=off";
    Ok(system)
}

/// As [`shell_system`], with other programs that tell of hardware, and every driver.
pub fn hardware_system() -> Result<DirectKernel> {
    let mut system = build_shell_system(Drivers::Full.into(), Extra::Hardware)?;
    system.arguments += " highres=off nohz=off";
    Ok(system)
}

/// A system with systemd, a shell, and what encrypts a disk and unlocks it. Built unless one of the same inputs exists.
pub fn encryption_system() -> Result<DirectKernel> {
    let (kernel, initrd) = images::encryption_system().context("building the system that encrypts disks")?;
    // No more of it is started than the shell.
    let arguments = format!(
        "{} panic=-1 highres=off nohz=off systemd.firstboot=0 systemd.unit=basic.target systemd.wants=landfall-test-shell.service",
        Arch::X86_64.kernel_arguments
    );
    Ok(DirectKernel { kernel, initrd, arguments })
}

/// As [`shell_system`], with the host's tools for networks, and with timers finer than a tick (4 ms) for what delays packets.
pub fn network_system() -> Result<DirectKernel> {
    build_shell_system(Drivers::Cloud.into(), Extra::HostTools(&["arping", "bridge", "ip", "ping", "tc"]))
}

fn build_shell_system(hardware: Hardware, extra: Extra<'_>) -> Result<DirectKernel> {
    let Hardware { arch, drivers } = hardware;
    let built = images::shell_system(hardware, &service::binary_of(arch)?, extra);
    let (kernel, initrd) =
        built.with_context(|| format!("building the system with a shell ({drivers:?}, {})", arch.name))?;
    Ok(DirectKernel { kernel, initrd, arguments: format!("{} panic=-1", arch.kernel_arguments) })
}
