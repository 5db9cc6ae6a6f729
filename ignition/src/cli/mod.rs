//! `landfall ignition`.

mod apply;
mod build;
mod butane;
mod ignition_apply;
mod merge;
mod network;
mod render;
mod size;
mod translate;
mod validate;

pub use ignition_apply::ignition_apply;
pub use validate::ignition_validate;

use crate::apply::DisksStage;
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// A larger file is not a config: those of the largest clusters are tens of megabytes.
const MAX_CONFIG_BYTES: u64 = 256 << 20;

/// Check, translate, merge, render, build and apply Ignition configs
///
/// Where a config is read, a Butane document of variant fcos or openshift may be given instead: it is translated first.
#[derive(Debug, Args)]
pub struct Ignition {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Apply(apply::Apply),
    Validate(validate::Validate),
    Translate(translate::Translate),
    Merge(merge::Merge),
    Render(render::Render),
    Size(size::Size),
    Network(network::Network),
    Build(build::Build),
}

impl Ignition {
    /// Runs the subcommand. The exit status is a failure, without an error, for a config that is not valid.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.run_with(None)
    }

    /// The same with a stage for `apply --disks`.
    pub fn run_with(self, disks: Option<DisksStage>) -> anyhow::Result<ExitCode> {
        let done = match self.command {
            Command::Validate(validate) => return validate.run(),
            Command::Apply(apply) => apply.run(disks),
            Command::Translate(translate) => translate.run(),
            Command::Merge(merge) => merge.run(),
            Command::Render(render) => render.run(),
            Command::Size(size) => size.run(),
            Command::Network(network) => network.run(),
            Command::Build(build) => build.run(),
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

/// A config on standard output.
fn print_config(config: &[u8]) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    out.write_all(config)?;
    writeln!(out)?;
    Ok(())
}

/// A config from a file, or from standard input if it is `-`.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(file).with_context(|| format!("{} can't be opened", file.display()))?)
    };
    let mut config = Vec::new();
    input
        .take(MAX_CONFIG_BYTES + 1)
        .read_to_end(&mut config)
        .with_context(|| format!("{} can't be read", file.display()))?;
    anyhow::ensure!(
        len(&config) <= MAX_CONFIG_BYTES,
        "{} is larger than {}",
        file.display(),
        kernel::units::binary(MAX_CONFIG_BYTES)
    );
    // YAML may begin with one.
    anyhow::ensure!(
        !kernel::butane::has_mark(&config) || kernel::butane::is_butane(&config),
        "{} begins with a byte order mark, which Ignition does not read: store it as UTF-8 without one",
        file.display()
    );
    Ok(config)
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
