//! `rdcore kargs`, and the way of all commands to the entry they edit.

use anyhow::{Context, bail};
use clap::Args;
use diskwrite::{BootError, EntryError, KargEdits, edit_last_entry, enter_device};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

const KERNEL_ARGUMENTS: &str = "/proc/cmdline";
/// What boot file systems are.
const BOOT_KINDS: [&str; 2] = ["ext4", "xfs"];

/// Edit the kernel arguments of the boot entry, and print them
///
/// First all deletions, then the additions. Without any, the arguments are only printed.
#[derive(Debug, Args)]
pub struct Kargs {
    /// Device with the boot file system
    #[arg(long, value_name = "DEVPATH", conflicts_with_all = ["boot_mount", "current"])]
    boot_device: Option<PathBuf>,
    /// Where the boot file system is mounted
    #[arg(long, value_name = "BOOT_MOUNT", conflicts_with = "current")]
    boot_mount: Option<PathBuf>,
    /// Edit a copy of the running kernel's arguments, and change no file
    #[arg(long)]
    current: bool,
    /// Edit these arguments
    #[arg(long, value_name = "OPTIONS", hide = true)]
    override_options: Option<String>,
    /// Create this file if the arguments changed
    #[arg(long, value_name = "PATH")]
    create_if_changed: Option<PathBuf>,
    /// Append an argument
    #[arg(long, value_name = "ARG")]
    append: Vec<String>,
    /// Append an argument unless there is an equal one
    #[arg(long, value_name = "ARG", alias = "should-exist")]
    append_if_missing: Vec<String>,
    /// Delete an argument
    #[arg(long, value_name = "ARG", alias = "should-not-exist")]
    delete: Vec<String>,
}

impl Kargs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let edits = KargEdits {
            delete: self.delete,
            append: self.append,
            append_if_missing: self.append_if_missing,
            platform: None,
        };
        let has_edits = edits != KargEdits::default();
        let mut both = (String::new(), String::new());
        let mut edit = |args: &str| {
            let edited = if has_edits { edits.apply(args)? } else { args.to_owned() };
            both = (args.to_owned(), edited);
            Ok::<_, EntryError>(has_edits.then(|| both.1.clone()))
        };
        let boot = Boot::new(self.boot_mount.as_deref(), self.boot_device.as_deref());
        if let Some(args) = &self.override_options {
            edit(args.trim()).context("modifying options")?;
        } else if self.current {
            let args = fs::read_to_string(KERNEL_ARGUMENTS).context("reading kernel command line")?;
            edit(args.trim()).context("modifying options")?;
        } else if let Some(boot) = boot {
            boot.edit(&mut edit)?;
        } else {
            bail!("one of --boot-device, --boot-mount, or --current required");
        }
        let (old, new) = both;
        writeln!(io::stdout(), "{new}").context("printing the arguments")?;
        if let (true, Some(path)) = (old != new, &self.create_if_changed) {
            let mut file = OpenOptions::new();
            file.write(true)
                .create(true)
                .truncate(true)
                .open(path)
                .with_context(|| format!("creating {}", path.display()))?;
        }
        Ok(())
    }
}

/// Where the boot file system is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Boot<'a> {
    Mounted(&'a Path),
    Device(&'a Path),
}

impl<'a> Boot<'a> {
    pub(super) fn new(mount: Option<&'a Path>, device: Option<&'a Path>) -> Option<Self> {
        mount.map(Self::Mounted).or(device.map(Self::Device))
    }

    /// Edits the kernel arguments of its last entry, unless `edit` leaves them as they are.
    pub(super) fn edit(
        self,
        edit: impl FnOnce(&str) -> Result<Option<String>, EntryError> + Send,
    ) -> anyhow::Result<bool> {
        let edited: Result<bool, BootError> = match self {
            Self::Mounted(path) => edit_last_entry(path, edit),
            Self::Device(device) => enter_device(device, &BOOT_KINDS, || edit_last_entry(Path::new("/"), edit))?,
        };
        edited.context("visiting BLS options")
    }
}
