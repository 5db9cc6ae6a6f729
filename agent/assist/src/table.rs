//! What an assistant does for its step.

use crate::wire::{Mount, Start};
use nix::mount::MsFlags;
use std::path::{Path, PathBuf};

/// What a mount may have besides what it is mounted from.
const MOUNT_FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);
/// The file systems of a node.
const KINDS: [&str; 2] = ["ext4", "xfs"];

/// A program, and how it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name to look up in the PATH that the assistant was forked with.
    pub name: &'static str,
    /// Its argument lists. `*` stands for one argument that does not start with `-`, a last `**` for any number of such, and
    /// `--option **` for any number of that option, each with a value.
    pub arguments: &'static [&'static [&'static str]],
    /// Variables that may be set or removed.
    pub variables: &'static [&'static str],
}

/// All that an assistant does. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it starts.
    pub programs: Vec<Program>,
    /// Directories that programs may have as their root, besides `/`.
    pub roots: Vec<PathBuf>,
    /// Mount points that it makes writable.
    pub remounts: Vec<PathBuf>,
    /// Disks whose partitions it mounts, or none; only in private name spaces.
    pub disks: Vec<PathBuf>,
    /// Directories that it mounts them below.
    pub mount_points: &'static [&'static str],
}

impl Table {
    pub(crate) fn allows_start(&self, start: &Start) -> bool {
        let place = &start.place;
        let fits = |program: &&Program| {
            program.name == start.program
                && program.arguments.iter().any(|pattern| matches(pattern, &start.arguments))
                && start.environment.iter().all(|(name, _)| program.variables.contains(&name.as_str()))
        };
        let root = place.root.as_ref().is_none_or(|root| root == Path::new("/") || self.roots.contains(root));
        root && (place.root.is_some() || !place.writable_boot) && self.programs.iter().any(|program| fits(&program))
    }

    pub(crate) fn allows_remount(&self, path: &Path, flags: u64) -> bool {
        let allowed = MOUNT_FLAGS | MsFlags::MS_REMOUNT;
        let flags = MsFlags::from_bits(flags);
        flags.is_some_and(|flags| allowed.contains(flags) && flags.contains(MsFlags::MS_REMOUNT))
            && self.remounts.iter().any(|allowed| allowed == path)
    }

    pub(crate) fn has_private_mounts(&self) -> bool {
        !self.mount_points.is_empty()
    }

    /// `device` was resolved: it is the node of a partition or loop device.
    pub(crate) fn allows_mount(&self, mount: &Mount, is_of_disk: impl Fn(&Path, &[PathBuf]) -> bool) -> bool {
        let flags = MsFlags::from_bits(mount.flags);
        KINDS.contains(&mount.kind.as_str())
            && flags.is_some_and(|flags| MOUNT_FLAGS.contains(flags))
            && self.allows_mount_point(&mount.at)
            && is_of_disk(&mount.device, &self.disks)
    }

    pub(crate) fn allows_mount_point(&self, at: &Path) -> bool {
        let plain = at.is_absolute() && !at.components().any(|part| part == std::path::Component::ParentDir);
        plain && self.mount_points.iter().any(|below| at.starts_with(below))
    }
}

/// After an option that may be there several times.
const OPTIONS: &str = " **";

fn matches(pattern: &[&str], arguments: &[String]) -> bool {
    match (pattern, arguments) {
        ([], []) => true,
        (["**"], _) => !arguments.iter().any(|argument| argument.starts_with('-')),
        ([options, rest @ ..], _) if options.ends_with(OPTIONS) => match arguments {
            [option, _, others @ ..] if options.strip_suffix(OPTIONS) == Some(option) => matches(pattern, others),
            _ => matches(rest, arguments),
        },
        ([wanted, rest @ ..], [argument, others @ ..]) => {
            (wanted == argument || *wanted == "*" && !argument.starts_with('-')) && matches(rest, others)
        }
        _ => false,
    }
}
