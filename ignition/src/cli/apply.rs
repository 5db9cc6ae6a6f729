//! `landfall ignition apply`.

use super::butane::Butane;
use crate::apply::{
    Action, AllowedDisk, ApplyError, DisksDone, DisksRequest, DisksStage, Now, Root, Unsupported, add_crypttab, apply,
    newest, plan,
};
use crate::fetch::{FetchOptions, Fetcher};
use crate::{model::Document, parse};
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Apply a config to a directory, as Ignition's files stage does on a new system.
///
/// Creates users, groups, directories, files, links and units below the root, with the numbers, modes and owners that
/// Ignition would set; no program is started, and no link leads out of the root. Accounts are created by editing the
/// root's /etc/passwd and related files. Needs root, because files get owners.
///
/// Configs named in ignition.config are fetched and merged first, also by a dry run.
///
/// With --disks, partitions, RAID arrays, LUKS devices and file systems are made too, as Ignition's disks stage does, on
/// the devices that are named and no others. Nothing is mounted: without --root, that is all that is done. Partitions
/// need no other program; mkfs.ext4, mkfs.xfs, mkfs.btrfs, mkfs.fat, mkswap, mdadm and cryptsetup are started where the
/// config needs them. A disk in use is refused. All is planned before the first write.
///
/// Kernel arguments and SELinux labels are not applied, nor disks without --disks. A config that has them is refused,
/// with a list, unless --ignore-unsupported is given. After an error, earlier changes remain.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition apply --root /mnt/image --dry-run host.ign\n  \
    landfall ignition apply --root /mnt/image host.ign\n  \
    landfall ignition apply --disks /dev/loop3 --dry-run host.ign\n  \
    landfall ignition apply --disks /dev/disk/by-id/wwn-0x50=/dev/loop3 host.ign\n  \
    landfall ignition apply --root /mnt/image --dry-run --json - < host.ign \\\n    \
    | jq -r '.actions[].to'")]
pub(super) struct Apply {
    /// Directory to use as /
    #[arg(long, value_name = "DIR", required_unless_present = "disks")]
    root: Option<PathBuf>,
    /// Make partitions, arrays, LUKS devices and file systems on this device; repeatable
    ///
    /// A whole disk. CONFIG_PATH=DEVICE stands for one that the config calls by another name.
    #[arg(long, value_name = "DEVICE")]
    disks: Vec<AllowedDisk>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Fetch nothing from the network: a config that needs it fails
    #[arg(long)]
    offline: bool,
    /// Apply the supported part of a config that has more
    #[arg(long)]
    ignore_unsupported: bool,
    /// The config, or - for standard input
    file: PathBuf,
    #[command(flatten)]
    butane: Butane,
}

/// What a disks stage does.
const DISKS: [&str; 4] = ["$.storage.disks", "$.storage.raid", "$.storage.luks", "$.storage.filesystems"];

/// The answer of `landfall ignition apply --json`.
#[derive(Debug, Serialize)]
struct Outcome {
    schema: u32,
    /// Whether the actions were done, not only planned.
    applied: bool,
    actions: Vec<Action>,
    unsupported: Vec<Unsupported>,
}

impl Apply {
    /// Prints what is done.
    pub(super) fn run(self, stage: Option<DisksStage>) -> anyhow::Result<()> {
        let file = self.file.display();
        let mut fetcher = Fetcher::new(FetchOptions { offline: self.offline, ..FetchOptions::default() });
        let text = self.butane.read(&self.file)?;
        let text = crate::render(&text, &mut fetcher).with_context(|| format!("{file} can't be applied"))?;
        let (config, version, _) = parse(&text).with_context(|| format!("{file} can't be applied"))?;
        let mut config = newest(config, version);
        let root = self
            .root
            .as_ref()
            .map(|path| Root::open(path).map_err(|source| ApplyError::Root { path: path.clone(), source }));
        let root = root.transpose()?;
        let (mut actions, mut unsupported) = match &root {
            Some(root) => plan(root, &config)?,
            None => Default::default(),
        };
        if !self.disks.is_empty() {
            unsupported.retain(|left| !DISKS.contains(&left.at.as_str()));
        }
        if !self.dry_run && !unsupported.is_empty() && !self.ignore_unsupported {
            return Err(anyhow::Error::new(ApplyError::Unsupported { what: unsupported })
                .context("use --ignore-unsupported to apply the rest of it"));
        }
        let done = self.make_disks(stage, &config, &fetcher)?;
        actions.splice(0..0, done.actions);
        if let Some(root) = root.as_ref().filter(|_| !self.dry_run) {
            add_crypttab(&mut config, root, &done.volumes)?;
            apply(root, &config, &Now::read(), &fetcher)?;
        }
        self.print(&Outcome { schema: 1, applied: !self.dry_run, actions, unsupported })
    }

    /// Nothing, if no device is named.
    fn make_disks(
        &self,
        stage: Option<DisksStage>,
        config: &Document<'_>,
        fetcher: &Fetcher,
    ) -> anyhow::Result<DisksDone> {
        if self.disks.is_empty() {
            return Ok(DisksDone::default());
        }
        let stage = stage.context("this program has no disks stage: use the full program, landfall")?;
        stage(&DisksRequest { config, allowed: &self.disks, dry_run: self.dry_run, fetcher })
    }

    fn print(&self, outcome: &Outcome) -> anyhow::Result<()> {
        let out = &mut std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut *out, outcome)?;
            writeln!(out)?;
            return Ok(());
        }
        for action in &outcome.actions {
            writeln!(out, "{action}")?;
        }
        for left in &outcome.unsupported {
            writeln!(out, "not done: {}: {}", left.at, left.why)?;
        }
        Ok(())
    }
}
