//! Lets the disk erase itself, by its own command, and looks whether it did.

use super::ata::{self, AtaError};
use super::nvme::{self, Abilities, Controller, IDENTIFY_BYTES, SANITIZE_LOG_BYTES, Sanitizing, Way};
use super::{Level, Outcome, WipeError, WipeProgress, Work};
use crate::{flight::bytes, probe::Span};
use kernel::order::Gather;
use std::{collections::BTreeSet, io, os::unix::fs::FileExt, thread, time::Duration};

/// How often a sanitize operation is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// Asked in vain so often in a row, it is given up: disks take no commands for a while.
const LOOKS: u32 = 240;
/// Places all over the disk that must have changed, and bytes of each.
const SAMPLES: u64 = 256;
const SAMPLE_BYTES: u64 = 4096;

/// Why there is no erasure.
#[derive(Debug)]
enum Problem {
    /// The disk can't, or won't; nothing was written.
    Refused(String),
    Failed(io::Error),
}

/// Erases the disk by NVMe Format or Sanitize, or ATA SECURITY ERASE UNIT.
pub(super) fn secure(work: &Work<'_>, progress: &mut dyn FnMut(WipeProgress)) -> Result<Outcome, WipeError> {
    let total_bytes = work.geometry.size_bytes;
    let whole = Span { offset: 0, len: total_bytes };
    let before = samples(work).map_err(work.io("read samples of", whole))?;
    let mut show =
        |done_bytes| progress(WipeProgress { level: Level::Secure, verifying: false, done_bytes, total_bytes });
    show(0);
    let name = work.disk.identity().name.as_str();
    let result = if name.starts_with("nvme") {
        nvme(work, &mut |part| show(total_bytes / 65536 * u64::from(part)))
    } else if work.disk.identity().transport.as_deref() == Some("usb") {
        Err(Problem::Refused("erasing through a USB bridge may leave the disk locked: attach it directly".to_owned()))
    } else if name.starts_with("sd") {
        ata::erase(&mut work.disk.file()).map_err(|error| match error {
            AtaError::Refused(reason) => Problem::Refused(reason),
            error => Problem::Failed(in_full(&error)),
        })
    } else {
        Err(Problem::Refused(format!("{name} is neither an NVMe nor an ATA disk")))
    };
    let how = result.map_err(|problem| match problem {
        Problem::Refused(reason) => {
            WipeError::Refused { device: work.device(), level: Level::Secure, source: io::Error::other(reason) }
        }
        Problem::Failed(source) => work.io("erase", whole)(source),
    })?;
    work.flush()?;
    let after = samples(work).map_err(work.io("read back samples of", whole))?;
    let verified_bytes = match changed(&before, &after) {
        Ok(bytes) => bytes,
        Err(offset) => return Err(WipeError::NotErased { device: work.device(), how, offset }),
    };
    Ok(Outcome::Done { bytes: total_bytes, verified_bytes, how: Some(how) })
}

fn in_full(error: &AtaError) -> io::Error {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    io::Error::other(format!("{error}{cause}"))
}

/// A place on the disk and what is there.
type Sample = (u64, Vec<u8>);

fn samples(work: &Work<'_>) -> io::Result<Vec<Sample>> {
    let step = (work.geometry.size_bytes / SAMPLES / SAMPLE_BYTES).max(1) * SAMPLE_BYTES;
    let places = (0..SAMPLES).map(|index| index * step).filter(|at| at + SAMPLE_BYTES <= work.geometry.size_bytes);
    let read = |at| {
        let mut data = vec![0; usize::try_from(SAMPLE_BYTES).unwrap_or_default()];
        work.disk.file().read_exact_at(&mut data, at).map(|()| (at, data))
    };
    places.map(read).collect()
}

/// How many bytes of samples are others than before, or zeros as before; the first that is not is the error. What was one
/// byte over and over may be what an erased disk reads as.
fn changed(before: &[Sample], after: &[Sample]) -> Result<u64, u64> {
    let uniform = |data: &[u8]| data.windows(2).all(|pair| pair.first() == pair.last());
    let mut verified = 0;
    for ((at, before), (_, after)) in before.iter().zip(after) {
        if uniform(after) || before != after {
            verified += bytes(after.len());
        } else {
            return Err(*at);
        }
    }
    Ok(verified)
}

/// Tries all ways of the controller that touch no other namespace.
fn nvme(work: &Work<'_>, progress: &mut dyn FnMut(u16)) -> Result<String, Problem> {
    let mut disk = work.disk.file();
    let refused = |error: io::Error| Problem::Refused(format!("the disk does not accept NVMe admin commands: {error}"));
    let namespace = kernel::commands::nvme_namespace(disk).map_err(refused)?;
    erase(&mut disk, namespace, LOOK, progress)
}

fn erase(
    disk: &mut dyn Controller,
    namespace: u32,
    look: Duration,
    progress: &mut dyn FnMut(u16),
) -> Result<String, Problem> {
    let abilities = nvme::abilities(&identify(disk, 1, 0)?);
    let others: BTreeSet<u32> = namespaces(disk, abilities)?.into_iter().filter(|id| *id != namespace).gather();
    let structure = identify(disk, 0, namespace)?;
    let ways = nvme::ways(abilities, others.is_empty());
    let mut reasons = Vec::new();
    for way in ways {
        let command = nvme::command(way, namespace, &structure);
        tracing::info!(%way, "the disk erases itself, which cannot be stopped: leave the power on");
        match disk.admin(&command, &mut []).map_err(Problem::Failed)? {
            Err(status) => reasons.push(format!("{way}: {status}")),
            Ok(()) => {
                if matches!(way, Way::CryptoSanitize | Way::BlockSanitize) {
                    wait(disk, way, look, progress)?;
                }
                return Ok(way.to_string());
            }
        }
    }
    if reasons.is_empty() {
        let list: Vec<_> = others.iter().map(u32::to_string).collect();
        reasons.push(if others.is_empty() {
            "the controller supports neither Format NVM nor Sanitize".to_owned()
        } else {
            format!("every erase command of the controller also erases its other namespaces: {}", list.join(", "))
        });
    }
    Err(Problem::Refused(reasons.join("; ")))
}

fn identify(disk: &mut dyn Controller, cns: u32, namespace: u32) -> Result<Vec<u8>, Problem> {
    let mut data = vec![0; IDENTIFY_BYTES];
    match disk.admin(&nvme::identify(cns, namespace), &mut data) {
        Ok(Ok(())) => Ok(data),
        Ok(Err(status)) => Err(Problem::Refused(format!("the controller does not answer Identify: {status}"))),
        Err(error) => Err(Problem::Refused(format!("the disk does not accept NVMe admin commands: {error}"))),
    }
}

/// All namespaces, those of others that are not attached here too, if the controller lists them.
fn namespaces(disk: &mut dyn Controller, abilities: Abilities) -> Result<BTreeSet<u32>, Problem> {
    let mut found = nvme::namespaces(&identify(disk, 0x02, 0)?);
    if abilities.management {
        found.extend(nvme::namespaces(&identify(disk, 0x10, 0)?));
    }
    Ok(found)
}

/// Waits until a sanitize operation ends; a failed one is left, so that the disk can be used.
fn wait(disk: &mut dyn Controller, way: Way, look: Duration, progress: &mut dyn FnMut(u16)) -> Result<(), Problem> {
    let failed = |text: String| Problem::Failed(io::Error::other(format!("{way}: {text}")));
    let mut silent = 0;
    loop {
        thread::sleep(look);
        let mut log = vec![0; SANITIZE_LOG_BYTES];
        match disk.admin(&nvme::sanitize_status(), &mut log) {
            Ok(Ok(())) => silent = 0,
            answer if silent < LOOKS => {
                tracing::debug!(?answer, "no sanitize status");
                silent += 1;
                continue;
            }
            Ok(Err(status)) => return Err(failed(format!("no more status: {status}"))),
            Err(error) => return Err(failed(format!("no more status: {error}"))),
        }
        match nvme::sanitizing(&log) {
            Sanitizing::Running(part) => progress(part),
            Sanitizing::Done => return Ok(()),
            Sanitizing::Failed => {
                let ended: Result<_, _> = disk.admin(&nvme::exit_failure_mode(), &mut []);
                return Err(failed(format!("the disk reports that it failed; leaving the failure mode: {ended:?}")));
            }
            other @ (Sanitizing::Never | Sanitizing::Unknown(_)) => {
                return Err(failed(format!("the disk reports {other:?} for an operation it accepted")));
            }
        }
    }
}

#[cfg(test)]
#[path = "secure_tests.rs"]
mod tests;
