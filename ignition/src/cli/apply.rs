//! `landfall ignition apply`.

use super::read;
use crate::apply::{Action, ApplyError, Now, Root, Unsupported, apply, newest, plan};
use crate::fetch::{FetchOptions, Fetcher};
use crate::parse;
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
/// Partitions, arrays, encryption, file systems, kernel arguments and SELinux labels are not applied. A config that has
/// them is refused, with a list, unless --ignore-unsupported is given. After an error, earlier changes remain.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition apply --root /mnt/image --dry-run host.ign\n  \
    landfall ignition apply --root /mnt/image host.ign\n  \
    landfall ignition apply --root /mnt/image --dry-run --json - < host.ign \\\n    \
    | jq -r '.actions[].to'")]
pub(super) struct Apply {
    /// Directory to use as /
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
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
}

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
    pub(super) fn run(self) -> anyhow::Result<()> {
        let file = self.file.display();
        let mut fetcher = Fetcher::new(FetchOptions { offline: self.offline, ..FetchOptions::default() });
        let text =
            crate::render(&read(&self.file)?, &mut fetcher).with_context(|| format!("{file} can't be applied"))?;
        let (config, version, _) = parse(&text).with_context(|| format!("{file} can't be applied"))?;
        let config = newest(config, version);
        let root = Root::open(&self.root).map_err(|source| ApplyError::Root { path: self.root.clone(), source })?;
        let (actions, unsupported) = plan(&root, &config)?;
        if !self.dry_run {
            if !unsupported.is_empty() && !self.ignore_unsupported {
                return Err(anyhow::Error::new(ApplyError::Unsupported { what: unsupported })
                    .context("use --ignore-unsupported to apply the rest of it"));
            }
            apply(&root, &config, &Now::read(), &fetcher)?;
        }
        self.print(&Outcome { schema: 1, applied: !self.dry_run, actions, unsupported })
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
