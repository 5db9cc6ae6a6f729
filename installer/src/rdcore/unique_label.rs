//! `rdcore verify-unique-fs-label`: a second disk with an installed system must not be mixed up with the first.

use super::system::{Device, System};
use anyhow::bail;
use clap::Args;
use diskwrite::probe::{Kind, Signature};
use kernel::disk;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Exists while udev handles events.
const UDEV_QUEUE: &str = "/run/udev/queue";
/// Until udev has heard of a change.
const PAUSE: Duration = Duration::from_millis(200);
/// As patient as `udevadm settle`.
const LOOKS: u32 = 600;

/// Waits until udev has made its links of partitions again: what starts next looks for them.
fn settle(queue: &Path) {
    for _ in 0..LOOKS {
        thread::sleep(PAUSE);
        if !queue.exists() {
            return;
        }
    }
    tracing::warn!("udev is still busy");
}

/// Fail unless exactly one file system has a label
///
/// The same file system on several paths to a disk counts once. Members of RAID arrays do not count, the assembled array does.
#[derive(Debug, Args)]
pub struct VerifyUniqueFsLabel {
    /// Label
    #[arg(value_name = "LABEL")]
    label: String,
    /// Read partition tables again first
    ///
    /// And drop what is stored in memory of each disk: another path to it may have been written to.
    #[arg(long)]
    rereadpt: bool,
}

impl VerifyUniqueFsLabel {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let system = System::open(Path::new("/"))?;
        if self.rereadpt {
            for file in system.whole_disks().iter().filter_map(|disk| system.open_node(disk).ok()) {
                // Disks in use refuse the one, drives without a medium both.
                let _ = disk::drop_cache(&file);
                let _ = disk::reread_partition_table(&file);
            }
            settle(&system.path(Path::new(UDEV_QUEUE)));
        }
        verify(&system, &self.label)
    }
}

/// The devices with this label, each file system once, and the members of arrays with it that nothing has assembled.
fn find(system: &System, label: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut found, mut members, mut uuids) = (Vec::new(), Vec::new(), BTreeSet::new());
    let look = |device: Device| system.contents(&device).ok().map(|contents| (device, contents.signatures));
    for (device, signatures) in system.leaves().into_iter().filter_map(look) {
        let has_label = |signature: &&Signature| match &signature.label {
            // Arrays are called HOST:NAME.
            Some(name) if signature.kind == Kind::MdRaid => name == label || name.rsplit(':').next() == Some(label),
            Some(name) => name == label,
            None => false,
        };
        let Some(signature) = signatures.iter().find(has_label) else { continue };
        if signatures.iter().any(|signature| signature.kind.is_raid() && !signature.remains) {
            if !system.has_holders(&device) {
                members.push(device.node());
            }
        } else if signature.uuid.as_ref().is_none_or(|uuid| uuids.insert(uuid.clone())) {
            found.push(device.node());
        }
    }
    (found, members)
}

pub(super) fn verify(system: &System, label: &str) -> anyhow::Result<()> {
    let (found, members) = find(system, label);
    match found.len() {
        1 => Ok(()),
        0 if !members.is_empty() => bail!(
            "No assembled filesystem labeled '{label}', but found RAID member devices {members:?}. Is the RAID array degraded or \
             failed to assemble?"
        ),
        count => bail!("System has {count} devices with a filesystem labeled '{label}': {found:?}"),
    }
}
