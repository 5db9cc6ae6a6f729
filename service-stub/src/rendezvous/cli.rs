//! The options of `landfall serve` for a rack with nothing else around.

use super::{Rendezvous, as_json, directory, here, lines};
use crate::auth::keys::SigningKey;
use anyhow::Context;
use inventory::{Root, identity::host_id};
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Where the plan is, and what to do with it.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "A rack with nothing else around")]
pub(crate) struct RendezvousArgs {
    /// Install the rack this machine is in: what it is to become is in this directory's *.yaml, *.yml, *.json and *.toml. Taken
    /// are ClusterDeployment, AgentClusterInstall, InfraEnv, NMStateConfig, ClusterImageSet, Secret, BareMetalHost, AgentConfig,
    /// and an install-config. With a rendezvousIP among it only the machine that has it serves; on all others the command ends
    #[arg(long, value_name = "DIR")]
    rendezvous: Option<PathBuf>,

    /// Seconds that the network may take to bring up the rendezvousIP
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "rendezvous")]
    rendezvous_wait: u64,

    /// Tell the rack by multicast DNS where this service is, for agents with `rendezvous = "mdns"`
    #[arg(long, requires = "rendezvous")]
    pub(crate) announce: bool,

    /// Private key on curve P-256, PEM, that proves to agents with `rendezvous = "mdns"` that this is their rack's service. They have
    /// its public half as `rendezvous_key`, which --check prints. Without this option the key of --auth-key does it
    #[arg(long, value_name = "FILE", requires = "rendezvous")]
    rendezvous_key: Option<PathBuf>,

    /// Print the plan, and what of the files is not understood; serve nothing
    #[arg(long, requires = "rendezvous")]
    check: bool,

    /// Print it as JSON
    #[arg(long, requires = "check")]
    json: bool,
}

/// What follows from the options.
pub(crate) enum Outcome {
    /// They weren't given.
    None,
    /// All is done.
    Done,
    /// This machine serves.
    Serve(Rendezvous),
}

impl RendezvousArgs {
    /// Reads the plan; prints it, or finds out whether it is ours to carry out. `version` is what to install where no file says
    /// it; `auth_key` is the key of tokens.
    pub(crate) fn read(&self, version: Option<&str>, auth_key: Option<&Path>) -> anyhow::Result<Outcome> {
        let Some(path) = &self.rendezvous else { return Ok(Outcome::None) };
        let key = self.rendezvous_key.as_deref().or(auth_key).map(SigningKey::read).transpose()?.map(Arc::new);
        let rack = directory(path, version).with_context(|| format!("{} is not a plan of a rack", path.display()))?;
        if self.check {
            let rendezvous = Rendezvous { key, ..Rendezvous::new(rack, None) };
            let text = match self.json {
                true => format!("{:#}\n", as_json(&rendezvous)),
                false => lines(&rendezvous).iter().map(|line| format!("{line}\n")).collect(),
            };
            std::io::stdout().write_all(text.as_bytes())?;
            return Ok(Outcome::Done);
        }
        for warning in &rack.warnings {
            tracing::warn!("{warning}");
        }
        if let Some(address) = rack.address {
            let limit = Duration::from_secs(self.rendezvous_wait);
            if !here(address, limit).context("cannot list this machine's addresses")? {
                writeln!(
                    std::io::stdout(),
                    "the rendezvous is at {address}, which is another machine: nothing to serve here"
                )?;
                return Ok(Outcome::Done);
            }
        }
        let identity = host_id(&Root::open("/").context("cannot find out this machine's identity")?);
        Ok(Outcome::Serve(Rendezvous { key, ..Rendezvous::new(rack, Some(identity.id)) }))
    }
}
