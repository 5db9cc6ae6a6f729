//! `landfall ignition build`.

mod discovery;
mod installed;

use super::{print_config, read};
use crate::model::Document;
use crate::{check_budget, parse, redact};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Build the configs of live and installed hosts.
///
/// Each is built from flags and files, checked as by `landfall ignition validate`, and printed as compact JSON. Secrets,
/// such as tokens and pull secrets, are read from files only and are not in any message.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition build discovery --url https://service:8090 \\\n    \
    --infra-env-id ID --ca ca.pem > discovery.ign\n  \
    landfall ignition build host --hostname node-1 --role-config worker.ign \\\n    \
    --pool gpu > node-1.ign\n  \
    landfall ignition build pointer https://api-int:22623/config/worker \\\n    \
    --ca mcs.pem > worker.ign\n  \
    landfall ignition build live --dest-device /dev/disk/by-id/x \\\n    \
    --dest-ignition node-1.ign > live.ign")]
pub(super) struct Build {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Discovery(Box<discovery::Discovery>),
    Host(Box<installed::Host>),
    Pointer(installed::Pointer),
    Dest(installed::Dest),
    Live(Box<installed::Live>),
}

/// What is done with a config that was built.
#[derive(Debug, Args)]
struct Output {
    /// Fail if the config doesn't fit a live ISO, and name its largest parts
    #[arg(long)]
    budget: bool,
    /// Print it without secrets: for inspection, not for use
    #[arg(long)]
    redacted: bool,
}

impl Output {
    fn print(&self, config: &[u8]) -> anyhow::Result<()> {
        if self.budget {
            check_budget(config)?;
        }
        if !self.redacted {
            return print_config(config);
        }
        // Of an unknown version it is not known what is secret in it.
        let (config, ..) = parse(config).context("the config cannot be shown")?;
        print_config(redact(&config).as_bytes())
    }

    fn print_document(&self, config: &Document<'_>) -> anyhow::Result<()> {
        self.print(&config.to_json())
    }
}

impl Build {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Discovery(discovery) => discovery.run(),
            Command::Host(host) => host.run(),
            Command::Pointer(pointer) => pointer.run(),
            Command::Dest(dest) => dest.run(),
            Command::Live(live) => live.run(),
        }
    }
}

/// Text from a file. An error does not quote its contents.
fn text(file: &Path) -> anyhow::Result<String> {
    String::from_utf8(read(file)?).map_err(|_| anyhow::anyhow!("{} is not text", file.display()))
}

/// The same of a file that may not be named.
fn text_of(file: Option<&PathBuf>) -> anyhow::Result<Option<String>> {
    file.map(|file| text(file)).transpose()
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
