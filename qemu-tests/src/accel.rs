//! Which accelerator guests get: KVM where a guest really runs under it, otherwise TCG.

use crate::process::Process;
use std::{
    io::Read,
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The QEMU program.
pub const QEMU: &str = "qemu-system-x86_64";
/// Overrides the choice: `kvm` or `tcg`.
pub const ACCEL_ENV: &str = "LANDFALL_QEMU_ACCEL";
/// The firmware is through in well under a second under KVM.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// The firmware's last word when there is nothing to boot from.
const PROBE_END: &[u8] = b"No bootable device";

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

/// The accelerator of this machine, found once a process.
///
/// An openable `/dev/kvm` is no proof: nested hypervisors exist where it opens and the guest then fails or stands still.
/// So a guest without disks must run its firmware to the end.
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
    let openable = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    if openable && firmware_runs(Accel::Kvm, PROBE_LIMIT) { Accel::Kvm } else { Accel::Tcg }
}

fn firmware_runs(accel: Accel, limit: Duration) -> bool {
    let mut command = Command::new(QEMU);
    command.args([
        "-accel",
        accel.argument(),
        "-machine",
        "pc",
        "-cpu",
        "max",
        "-m",
        "64",
        "-nodefaults",
        "-display",
        "none",
    ]);
    // SeaBIOS writes its debug log to this port.
    command.args(["-chardev", "stdio,id=debug", "-device", "isa-debugcon,iobase=0x402,chardev=debug"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut process) = Process::spawn(command) else { return false };
    let Some(mut output) = process.take_stdout() else { return false };
    let reader = std::thread::spawn(move || {
        let mut log = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(len @ 1..) = output.read(&mut chunk) {
            log.extend_from_slice(&chunk[..len]);
            if log.windows(PROBE_END.len()).any(|window| window == PROBE_END) {
                return true;
            }
        }
        false
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
        assert!(firmware_runs(Accel::Tcg, Duration::from_secs(60)), "is {QEMU} installed?");
    }

    #[test]
    fn the_probe_sees_a_guest_that_does_not() {
        assert!(!firmware_runs(Accel::Tcg, Duration::ZERO));
    }
}
