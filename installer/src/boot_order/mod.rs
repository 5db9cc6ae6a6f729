//! What the machine's firmware starts after the installation (docs/compatibility.md#boot-entry): the disk that was written, although the
//! medium of the live system may still be in and first.
//!
//! UEFI has entries in variables, which are read and written here without efibootmgr. A BIOS stores its order where no
//! system can reach it: there the disk must come before the medium, or the medium must be removed. POWER has a program
//! for it.

mod device_path;
mod esp;
mod fat;
mod load_option;
mod order;

pub mod cli;

pub use device_path::{HardDrive, Node, PathError};
pub use esp::{Architecture, Loader, LoaderError};
pub use fat::FatError;
pub use kernel::efi::{VariableError, Variables};
pub use load_option::{LoadOption, LoadOptionError};
pub use order::{BootState, Change, Full, Partitions, Plan, Target, entry_name, numbers, plan};

use crate::{
    host::Host,
    programs::{Program, ProgramError},
};
use diskwrite::{Layout, ReadLayoutError, disks, open_layout};
use fat::Fat;
use kernel::Cancel;
use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use uuid::{Uuid, uuid};

/// The type of the EFI system partition (UEFI 2.10, table 5.7).
const EFI_SYSTEM: Uuid = uuid!("c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
/// Disks of these names have no systems that firmware starts.
const NO_DISKS: [&str; 6] = ["loop", "ram", "zram", "sr", "fd", "nbd"];
/// Programs of POWER's firmware, as they lie below the root.
const BOOTLIST: &str = "usr/sbin/bootlist";

/// Why the machine may start something else.
#[derive(Debug, thiserror::Error)]
pub enum BootOrderError {
    #[error(transparent)]
    Layout(#[from] ReadLayoutError),
    /// No place for a loader.
    #[error("{} has no EFI system partition, so UEFI can't start from it", device.display())]
    NoEsp { device: PathBuf },
    /// What the EFI system partition holds.
    #[error("cannot find the boot loader of {}", device.display())]
    Loader { device: PathBuf, source: LoaderError },
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error(transparent)]
    Full(#[from] Full),
    /// It accepted the change, but has something else.
    #[error("the firmware did not retain the change: {what} is {found}, not {wanted}")]
    NotKept {
        /// Which of its variables.
        what: String,
        /// As it was written.
        wanted: String,
        found: String,
    },
    /// A machine whose firmware is not supported.
    #[error("UEFI on this architecture is not supported: the boot order is unchanged")]
    Architecture,
    #[error(transparent)]
    Program(#[from] ProgramError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The disk's entry is the first, and the next to be started.
    Uefi {
        /// What changed, or would.
        plan: Plan,
        loader: Loader,
    },
    /// POWER's boot list was set.
    Bootlist,
    /// Nothing can be set: BIOS, or z/Architecture.
    Nothing {
        /// What starts the machine.
        firmware: &'static str,
    },
}

/// Makes the machine start from `device`; logs its entry and the changes. An installation continues after an error, such
/// as firmware that refuses.
pub fn set(host: &dyn Host, device: &Path, dry_run: bool, cancel: &Cancel) -> Result<Done, BootOrderError> {
    if host.root().join(BOOTLIST).exists() {
        if !dry_run {
            let words = ["-m", "normal", "-o"].map(OsStr::new);
            let args = [words.as_slice(), &[device.as_os_str()]].concat();
            let output = host.run(Program::Bootlist, &args, cancel)?;
            tracing::info!(device = %device.display(), said = output, "the firmware's boot list is set");
        }
        return Ok(Done::Bootlist);
    }
    let Some(variables) = Variables::open(host.root()) else {
        let firmware = if cfg!(target_arch = "s390x") { "z/Architecture" } else { "BIOS" };
        tracing::info!(
            firmware,
            "no boot order to set: make sure that the disk comes before the live medium in the firmware's setup"
        );
        return Ok(Done::Nothing { firmware });
    };
    let architecture = Architecture::current().ok_or(BootOrderError::Architecture)?;
    let disk = Source::open(device)?;
    let partitions = partitions(host.root(), device, &disk.layout);
    set_uefi(&variables, &disk, &partitions, architecture, dry_run)
}

/// A disk with its partitions.
pub(crate) struct Source<'a> {
    pub path: &'a Path,
    pub file: File,
    pub layout: Layout,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, BootOrderError> {
        let (file, layout) = open_layout(path)?;
        Ok(Self { path, file, layout })
    }
}

/// The GUIDs of all existing partitions: entries for others lead nowhere.
fn partitions(root: &Path, device: &Path, layout: &Layout) -> Partitions {
    let guids = |layout: &Layout| layout.partitions.iter().map(|partition| partition.guid).collect::<Vec<_>>();
    let mut found = Partitions { target: guids(layout).into_iter().collect(), ..Partitions::default() };
    let device = fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let all = kernel::Root::open(root).map_or_else(|_| Vec::new(), |root| disks(&root));
    for disk in all {
        let node = disk.node();
        if NO_DISKS.iter().any(|prefix| disk.name.starts_with(prefix)) || node == device {
            continue;
        }
        match open_layout(&node) {
            Ok((_, layout)) => found.others.extend(guids(&layout)),
            Err(ReadLayoutError::None { .. }) => {}
            Err(error) => {
                tracing::debug!(
                    disk = disk.name,
                    error = &error as &dyn std::error::Error,
                    "cannot read a disk's partitions"
                );
                found.unknown = true;
            }
        }
    }
    found
}

fn set_uefi(
    variables: &Variables,
    disk: &Source<'_>,
    partitions: &Partitions,
    architecture: Architecture,
    dry_run: bool,
) -> Result<Done, BootOrderError> {
    let device = || disk.path.to_owned();
    let is_esp = |guid: [u8; 16]| Uuid::from_bytes_le(guid) == EFI_SYSTEM;
    let esp = disk.layout.partitions.iter().find(|partition| is_esp(partition.type_guid));
    let esp = esp.ok_or_else(|| BootOrderError::NoEsp { device: device() })?;
    let before = BootState::read(variables)?;
    let read = |offset: u64, buf: &mut [u8]| {
        let len = u64::try_from(buf.len()).unwrap_or(u64::MAX);
        if offset.checked_add(len).is_none_or(|end| end > esp.len) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        disk.file.read_exact_at(buf, esp.start + offset)
    };
    let loader = Fat::open(&read).map_err(LoaderError::from);
    let loader = loader.and_then(|fat| esp::find(&fat, architecture, before.secure_boot == Some(true)));
    let loader = loader.map_err(|source| BootOrderError::Loader { device: device(), source })?;
    if !loader.has_fallback {
        tracing::warn!(
            device = %disk.path.display(),
            "the disk has no loader at UEFI's fallback path: firmware that loses its entries will not start it"
        );
    }
    let target = Target {
        label: loader.label.to_owned(),
        partition: HardDrive::gpt(esp.number, esp.first_lba, esp.sectors, esp.guid),
        loader: loader.path.clone(),
        architecture,
    };
    let plan = plan(&before, &target, partitions)?;
    if dry_run {
        return Ok(Done::Uefi { plan, loader });
    }
    log("before", &before);
    for change in &plan.changes {
        tracing::info!("boot order: {change}");
        change.apply(variables)?;
    }
    let after = BootState::read(variables)?;
    log("after", &after);
    verify(&after, plan.number, &target.entry())?;
    Ok(Done::Uefi { plan, loader })
}

fn log(when: &str, state: &BootState) {
    let next = state.next.map(|next| format!("{next:04X}")).unwrap_or_default();
    tracing::info!(order = numbers(&state.order), next, entries = state.lines().join("; "), "boot entries {when}");
}

/// Some firmware accepts a change and forgets it.
fn verify(state: &BootState, number: u16, option: &LoadOption) -> Result<(), BootOrderError> {
    let not_kept = |what: &str, wanted: String, found: String| {
        Err(BootOrderError::NotKept { what: what.to_owned(), wanted, found })
    };
    let text = |option: &LoadOption| format!("{}: {}", option.label(), option.path_text());
    match state.entries.get(&number) {
        Some(Ok(found)) if found == option => {}
        Some(Ok(found)) => return not_kept(&entry_name(number), text(option), text(found)),
        Some(Err(error)) => return not_kept(&entry_name(number), text(option), error.to_string()),
        None => return not_kept(&entry_name(number), text(option), "gone".to_owned()),
    }
    if state.order.first() != Some(&number) {
        return not_kept("BootOrder", format!("{number:04X} first"), numbers(&state.order));
    }
    if state.next != Some(number) {
        let found = state.next.map_or_else(|| "unset".to_owned(), |next| format!("{next:04X}"));
        return not_kept("BootNext", format!("{number:04X}"), found);
    }
    Ok(())
}

/// A character as it may be printed: text from firmware may be made to fool a terminal.
fn printable(c: char) -> char {
    if c.is_control() { '?' } else { c }
}

/// What fuzzers call: reads the bytes as a boot entry, as a file system with loaders; what is understood is written again, and must
/// read the same.
#[cfg(any(test, fuzzing))]
pub fn fuzz_load_option(bytes: &[u8]) {
    if let Ok(option) = LoadOption::parse(bytes) {
        let _ = (option.label(), option.path_text(), option.loader(), option.partition());
        assert!(LoadOption::parse(&option.to_bytes()).as_ref() == Ok(&option));
    }
}

/// As before, for the file system of an EFI system partition.
#[cfg(any(test, fuzzing))]
pub fn fuzz_fat(bytes: &[u8]) {
    let read = |offset: u64, buf: &mut [u8]| {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = bytes.get(from..).and_then(|rest| rest.get(..buf.len()));
        found.map(|found| buf.copy_from_slice(found)).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    };
    if let Ok(fat) = Fat::open(&read) {
        let _ = (esp::find(&fat, Architecture::X86_64, false), esp::find(&fat, Architecture::Aarch64, true));
    }
}

#[cfg(test)]
mod tests;
