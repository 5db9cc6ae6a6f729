//! `rdcore`: what the initramfs of a CoreOS system asks on its first boot (docs/compatibility.md#rdcore). It reads sysfs and superblocks.

mod bind_boot;
mod kargs;
mod rootmap;
mod stream_hash;
mod system;
#[cfg(test)]
mod tests;
mod unique_label;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// The commands of rdcore.
#[derive(Debug, Subcommand)]
pub enum Command {
    Rootmap(rootmap::Rootmap),
    BindBoot(bind_boot::BindBoot),
    Kargs(kargs::Kargs),
    StreamHash(stream_hash::StreamHash),
    VerifyUniqueFsLabel(unique_label::VerifyUniqueFsLabel),
    /// Write the boot loader of IBM Z (only in coreos-installer's rdcore)
    #[command(hide = true)]
    Zipl(Zipl),
}

/// Any arguments of a missing command.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Zipl {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

impl Command {
    /// Runs it on this system.
    ///
    /// # Errors
    ///
    /// What could not be done.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Rootmap(rootmap) => rootmap.run().context("Configuring rootmap"),
            Self::BindBoot(bind) => bind.run().context("Failed to bind boot"),
            Self::Kargs(kargs) => kargs.run(),
            Self::StreamHash(hash) => hash.run(),
            Self::VerifyUniqueFsLabel(verify) => verify.run(),
            Self::Zipl(_) => {
                bail!("zipl is for IBM Z (s390x), for which there is no landfall: use coreos-installer's rdcore")
            }
        }
    }
}
