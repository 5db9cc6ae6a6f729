//! Which accelerator guests get: KVM if a guest really runs under it, otherwise TCG.

use crate::{arch::Arch, paths, process::Process};
use std::{
    io::Read,
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Overrides the choice: `kvm` or `tcg`.
pub const ACCEL_ENV: &str = "LANDFALL_QEMU_ACCEL";
/// Under KVM a kernel needs a second or two.
const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// A kernel's last words where it has no root file system.
const PROBE_END: &[u8] = b"Unable to mount root fs";
/// QEMU's message if the host's KVM can't run the guest's code.
const PROBE_FAULT: &[u8] = b"KVM internal error";

/// How guest code is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// By the processor.
    Kvm,
    /// By translation; a tenth of the speed.
    Tcg,
}

impl Accel {
    /// The value of QEMU's `-accel`.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            // One thread for all processors: with one for each, a machine whose devices come and go while its processors start
            // ends in QEMU's own assertions (iotlb_to_section) or never leaves its firmware, now and then.
            Self::Tcg => "tcg,thread=single",
        }
    }

    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// The accelerator of guests of a processor: another than the host's is translated.
pub fn choose_for(arch: Arch) -> Accel {
    if arch.is_host() { choose() } else { Accel::Tcg }
}

/// The accelerator of this machine, determined once per process.
///
/// An openable `/dev/kvm` is not a proof: under some nested hypervisors it opens and the guest then fails or hangs,
/// sometimes only in a kernel, at the first instruction that they don't support. So a kernel must run until it misses its
/// root file system.
pub fn choose() -> Accel {
    static CHOICE: OnceLock<Accel> = OnceLock::new();
    *CHOICE.get_or_init(|| {
        let accel = match std::env::var(ACCEL_ENV).as_deref() {
            Ok("kvm") => Accel::Kvm,
            Ok("tcg") => Accel::Tcg,
            Ok(other) if !other.is_empty() => {
                tracing::warn!(value = other, "{ACCEL_ENV} is neither kvm nor tcg, probing instead");
                probe()
            }
            _ => probe(),
        };
        tracing::info!(accel = accel.name(), "accelerator chosen");
        accel
    })
}

fn probe() -> Accel {
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return Accel::Tcg;
    }
    // A guest that hangs costs the whole limit: the result is valid until this machine boots again.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let note = paths::target_dir().join("vm/accelerator");
    let found = |accel: Accel| format!("{} {boot}", accel.name());
    if let Ok(noted) = std::fs::read_to_string(&note)
        && let Some(accel) = [Accel::Kvm, Accel::Tcg].into_iter().find(|accel| noted == found(*accel))
    {
        return accel;
    }
    let accel = if kernel_runs(Accel::Kvm, PROBE_LIMIT) { Accel::Kvm } else { Accel::Tcg };
    if let Err(error) = std::fs::write(&note, found(accel)) {
        tracing::warn!(path = %note.display(), %error, "cannot store the choice of accelerator");
    }
    accel
}

/// The kernel that set-up has unpacked for the machines' images.
fn kernel() -> Option<PathBuf> {
    let boot = paths::target_dir().join("vm/packages/cloud/boot");
    let files = std::fs::read_dir(boot).ok()?.flatten().map(|entry| entry.path());
    files.into_iter().find(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz-")))
}

fn kernel_runs(accel: Accel, limit: Duration) -> bool {
    let Some(kernel) = kernel() else { return false };
    let mut command = Command::new(Arch::X86_64.qemu);
    command.args(["-accel", accel.argument(), "-machine", "pc", "-cpu", "max", "-m", "256"]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]);
    command.arg("-kernel").arg(kernel).args(["-append", "console=ttyS0 panic=-1"]);
    let Ok((mut output, written)) = std::io::pipe() else { return false };
    let Ok(complaints) = written.try_clone() else { return false };
    command.stdin(Stdio::null()).stdout(written).stderr(complaints);
    let Ok(process) = Process::spawn(command) else { return false };
    let reader = std::thread::spawn(move || {
        let mut log = Vec::new();
        let mut chunk = [0; 4096];
        let says = |log: &[u8], what: &[u8]| log.windows(what.len()).any(|window| window == what);
        while let Ok(len @ 1..) = output.read(&mut chunk) {
            log.extend_from_slice(&chunk[..len]);
            if says(&log, PROBE_END) || says(&log, PROBE_FAULT) {
                break;
            }
        }
        says(&log, PROBE_END)
    });
    let deadline = Instant::now() + limit;
    while !reader.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Ends the output, and so the reader.
    drop(process);
    reader.join().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_sees_a_guest_that_runs() {
        assert!(kernel_runs(Accel::Tcg, testkit::wait::LIMIT), "is {} installed?", Arch::X86_64.qemu);
    }

    #[test]
    fn the_probe_sees_a_guest_that_does_not() {
        assert!(!kernel_runs(Accel::Tcg, Duration::ZERO));
    }
}
