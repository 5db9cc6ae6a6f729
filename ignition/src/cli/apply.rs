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

/// Carry a config out on a directory, as Ignition's files stage does on a new system.
///
/// Users, groups, directories, files, links and units come to be below the root, with the numbers, modes and owners Ignition would
/// give them; no program is started, and no link leads out of the root. Accounts are made by editing the root's /etc/passwd and its
/// kin. It needs root's rights, as files get owners.
///
/// Configs named in ignition.config are fetched and merged first, by a dry run too.
///
/// Partitions, arrays, encryption, file systems, kernel arguments and SELinux labels are left alone. A config that has them is
/// refused, with a list, unless --ignore-unsupported is given. An error leaves what was done before it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition apply --root /mnt/image --dry-run host.ign\n  \
    landfall ignition apply --root /mnt/image host.ign\n  \
    landfall ignition apply --root /mnt/image --dry-run --json - < host.ign | jq -r '.actions[].to'")]
pub(super) struct Apply {
    /// The directory that stands for /
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Fetch nothing from the network: a config that needs it fails
    #[arg(long)]
    offline: bool,
    /// Do the rest of a config that asks for more than files
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
