//! Changes to a mounted boot file system: Ignition config, kernel arguments, consoles, network keyfiles. Wherever
//! coreos-installer changes a file, the result is the same to the byte.

pub(crate) mod console;
mod grub;
pub(crate) mod kargs;
pub(crate) mod label;
pub(crate) mod network;
pub(crate) mod platform;

use crate::event::Event;
use crate::ignition_hash::{IgnitionHash, IgnitionHashError};
use crate::initrd::ArchiveError;
use crate::options::METAL;
use kargs::{EntryError, KargEdits, edit_entry};
use platform::Platforms;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where GRUB looks for entries.
const ENTRIES: &str = "loader/entries";
/// Ignition runs on the first boot because this exists.
const STAMP: &str = "ignition.firstboot";
/// Where the boot loader's consoles are set; the first that exists.
const GRUB: [&str; 2] = ["grub2/console.cfg", "grub2/grub.cfg"];
/// Entries, platforms and the boot loader's configuration have a few kilobytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// An Ignition config; never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ignition {
    pub config: Vec<u8>,
    /// Its expected hash, compared again when it is written.
    pub hash: Option<IgnitionHash>,
}

/// What to do on the boot file system.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct BootConfig {
    pub ignition: Option<Ignition>,
    /// Other than `metal`.
    pub platform: Option<String>,
    pub consoles: Vec<console::Console>,
    pub firstboot_args: Option<String>,
    pub kargs: KargEdits,
    /// If a directory was given.
    pub network: Option<network::Network>,
}

/// Why the boot file system can't be made ready. Paths are as seen from its root.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// Something can't be read or written.
    #[error("cannot {action} {} on the boot file system", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The image already carries a config.
    #[error("{} exists on the boot file system: the image is already configured", path.display())]
    Configured { path: PathBuf },
    /// No place for first-boot arguments.
    #[error("the boot file system has no {}: it is not a first boot, and first-boot arguments would have no effect",
        path.display())]
    NoStamp { path: PathBuf },
    /// No place for kernel arguments.
    #[error("Found no BLS entries in {}", path.display())]
    NoEntries { path: PathBuf },
    /// The entry does not name an initramfs.
    #[error("missing 'initrd' key in default BLS config: {} does not name an initramfs", path.display())]
    NoInitrdKey { path: PathBuf },
    /// The entry names an initramfs in a way that may lead anywhere.
    #[error("BLS path {problem}: {initramfs}")]
    InitramfsPath { problem: &'static str, initramfs: String },
    /// The initramfs that the entry names is missing.
    #[error("initramfs file not found at {path:?}")]
    NoInitramfs { path: PathBuf },
    /// The initramfs is replaced by a longer copy, so that both must fit.
    #[error("the boot file system has no room for a second copy of {} with the network configuration, {needed_bytes} bytes",
        path.display())]
    Space { path: PathBuf, needed_bytes: u64 },
    /// Their names differ only in bytes that are not UTF-8.
    #[error("multiple input files named '{name}'")]
    SameName { name: String },
    #[error("cannot pack the network configuration")]
    Archive(#[from] ArchiveError),
    /// An entry that is not understood.
    #[error("cannot edit the kernel arguments in {}", path.display())]
    Entry { path: PathBuf, source: EntryError },
    /// Larger than any such file.
    #[error("{} has more than {MAX_TEXT_BYTES} bytes", path.display())]
    Size { path: PathBuf },
    /// Not the config that was checked before.
    #[error(transparent)]
    Hash(#[from] IgnitionHashError),
    /// The image's platforms make no sense.
    #[error("parsing platform table {}", path.display())]
    Platforms { path: PathBuf, source: serde_json::Error },
    /// No place for the consoles.
    #[error("missing substitution marker in grub.cfg: {} has no CONSOLE-SETTINGS block", path.display())]
    NoMarker {
        /// The boot loader's configuration.
        path: PathBuf,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BootError {
    let path = path.to_owned();
    move |source| BootError::Io { action, path, source }
}

/// Makes all changes below `root`.
/// `done` gets what is worth an event.
pub(crate) fn configure(root: &Path, config: &BootConfig, done: &mut Vec<Event>) -> Result<(), BootError> {
    if let Some(ignition) = &config.ignition {
        write_ignition(root, ignition)?;
    }
    // Only what sets consoles needs the table.
    let platforms = if config.platform.is_some() || !config.consoles.is_empty() {
        Platforms::read(root)?
    } else {
        Platforms::default()
    };
    let edits = karg_edits(config, &platforms);
    if !edits.is_empty() {
        let all = |args: &str| edits.iter().try_fold(args.to_owned(), |args, edits| edits.apply(&args)).map(Some);
        edit_last_entry(root, all)?;
    }
    if let Some(args) = &config.firstboot_args {
        append_firstboot_args(root, args)?;
    }
    if let Some(commands) = grub_commands(config, &platforms) {
        set_grub_commands(root, &commands)?;
    }
    if let Some(network) = &config.network {
        network::copy(root, network, done)?;
    }
    Ok(())
}

/// The edits of the kernel arguments, each made on what the one before left: platform, consoles, what the caller named.
fn karg_edits(config: &BootConfig, platforms: &Platforms) -> Vec<KargEdits> {
    let mut edits = Vec::new();
    let metal = platforms.get(METAL).kernel_arguments;
    if let Some(platform) = &config.platform {
        edits.push(KargEdits { platform: Some(platform.clone()), ..Default::default() });
        let append = platforms.get(platform).kernel_arguments;
        // Consoles that were named take the place of the platform's.
        if config.consoles.is_empty() && !(append.is_empty() && metal.is_empty()) {
            edits.push(KargEdits { delete: metal.clone(), append, ..Default::default() });
        }
    }
    if !config.consoles.is_empty() {
        let append = config.consoles.iter().map(console::Console::karg).collect();
        edits.push(KargEdits { delete: metal, append, ..Default::default() });
    }
    if config.kargs != KargEdits::default() {
        edits.push(config.kargs.clone());
    }
    edits
}

/// Commands for the boot loader, if any; s390x has a different one.
fn grub_commands(config: &BootConfig, platforms: &Platforms) -> Option<Vec<String>> {
    if cfg!(target_arch = "s390x") {
        return None;
    }
    if !config.consoles.is_empty() {
        return Some(console::grub_commands(&config.consoles));
    }
    let commands = platforms.get(config.platform.as_deref()?).grub_commands;
    (commands != platforms.get(METAL).grub_commands).then_some(commands)
}

fn write_ignition(root: &Path, ignition: &Ignition) -> Result<(), BootError> {
    if !root.join(STAMP).is_file() {
        tracing::warn!("the boot file system has no {STAMP}: it is configured as requested, but Ignition will not run");
    }
    if let Some(hash) = &ignition.hash {
        hash.check(&ignition.config)?;
    }
    let dir = root.join("ignition");
    make_dir(&dir, 0o700)?;
    let path = dir.join("config.ign");
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(BootError::Configured { path }),
        result => result.map_err(failed("create", &path))?,
    };
    // The umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(failed("set the mode of", &path))?;
    file.write_all(&ignition.config).and_then(|()| file.sync_all()).map_err(failed("write", &path))
}

/// An existing directory stays as it is.
fn make_dir(dir: &Path, mode: u32) -> Result<(), BootError> {
    match DirBuilder::new().mode(mode).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(failed("create", dir)(error)),
        // The umask may have taken bits away.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(mode)).map_err(failed("set the mode of", dir)),
    }
}

/// A file's text; None if there is no such file.
fn read_text(path: &Path) -> Result<Option<String>, BootError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(failed("read", path))?,
    };
    let mut text = String::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text).map_err(failed("read", path))?;
    if u64::try_from(text.len()).is_ok_and(|len| len > MAX_TEXT_BYTES) {
        return Err(BootError::Size { path: path.to_owned() });
    }
    Ok(Some(text))
}

/// In place, so that the file keeps its mode and SELinux label. There is no partition table yet that leads to a
/// half-written one.
fn rewrite(path: &Path, text: &str) -> Result<(), BootError> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path).map_err(failed("open", path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write", path))
}

/// Edits the kernel arguments of the last entry below `root`, unless `edit` leaves them as they are. Returns whether it did.
///
/// # Errors
///
/// There is no entry, or it can't be understood or written.
pub fn edit_last_entry(
    root: &Path,
    edit: impl FnOnce(&str) -> Result<Option<String>, EntryError>,
) -> Result<bool, BootError> {
    let (path, text) = last_entry(root)?;
    match edit_entry(&text, edit) {
        Ok(Some(text)) => rewrite(&path, &text).map(|()| true),
        Ok(None) => Ok(false),
        Err(source) => Err(BootError::Entry { path, source }),
    }
}

/// The last entry by name, and its text: ostree sorts the newest last, and a fresh image has one.
fn last_entry(root: &Path) -> Result<(PathBuf, String), BootError> {
    let dir = root.join(ENTRIES);
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BootError::NoEntries { path: dir }),
        result => result.map_err(failed("list", &dir))?,
    };
    let mut last: Option<PathBuf> = None;
    for entry in entries {
        let path = entry.map_err(failed("list", &dir))?.path();
        if path.extension().is_some_and(|extension| extension == "conf") && Some(&path) > last.as_ref() {
            last = Some(path);
        }
    }
    let path = last.ok_or(BootError::NoEntries { path: dir })?;
    let text = read_text(&path)?.ok_or_else(|| failed("read", &path)(io::ErrorKind::NotFound.into()))?;
    Ok((path, text))
}

/// The stamp is sourced by the boot loader before the first boot, and removed after it.
fn append_firstboot_args(root: &Path, args: &str) -> Result<(), BootError> {
    let path = root.join(STAMP);
    let mut file = match OpenOptions::new().append(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BootError::NoStamp { path }),
        result => result.map_err(failed("open", &path))?,
    };
    let line = format!("set ignition_network_kcmdline=\"{args}\"\n");
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write", &path))
}

fn set_grub_commands(root: &Path, commands: &[String]) -> Result<(), BootError> {
    let [separate, shared] = GRUB.map(|name| root.join(name));
    let path = if separate.exists() { separate } else { shared };
    let text = read_text(&path)?.ok_or_else(|| failed("read", &path)(io::ErrorKind::NotFound.into()))?;
    match grub::with_commands(&text, commands) {
        Some(text) => rewrite(&path, &text),
        None => Err(BootError::NoMarker { path }),
    }
}

#[cfg(test)]
#[path = "boot_tests.rs"]
mod tests;
