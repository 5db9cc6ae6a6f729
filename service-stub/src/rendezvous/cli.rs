//! The options of `landfall serve` for a self-contained rack.

use super::{Rendezvous, Unknown, as_json, documents, here, lines, plan_with};
use crate::auth::keys::SigningKey;
use anyhow::Context;
use inventory::{Root, identity::host_id};
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The plan, and what to do with it.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "A rack with nothing else around")]
pub(crate) struct RendezvousArgs {
    /// Install the rack that this machine is in. The plan is read from this directory's *.yaml, *.yml, *.json and *.toml:
    /// ClusterDeployment, AgentClusterInstall, InfraEnv, NMStateConfig, ClusterImageSet, Secret, BareMetalHost, AgentConfig, and an
    /// install-config; or what `landfall node-iso` puts into an ISO, which adds nodes to a cluster. If it has a rendezvousIP, only the machine with that address serves; on others the command exits
    #[arg(long, value_name = "DIR")]
    rendezvous: Option<PathBuf>,

    /// Seconds to wait for the network to bring up the rendezvousIP
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "rendezvous")]
    rendezvous_wait: u64,

    /// Announce this service by multicast DNS, for agents with `rendezvous = "mdns"`
    #[arg(long, requires = "rendezvous")]
    pub(crate) announce: bool,

    /// Private key, PEM, curve P-256, that proves to agents with `rendezvous = "mdns"` that this is their rack's service. Agents
    /// have its public half as `rendezvous_key`, which --check prints. Default: the key of --auth-key
    #[arg(long, value_name = "FILE", requires = "rendezvous")]
    rendezvous_key: Option<PathBuf>,

    /// Print the plan and everything in the files that does nothing here, and exit
    #[arg(long, requires = "rendezvous")]
    check: bool,

    /// Ignore fields of the plan that are not known, with a warning; never those about machines, disks and encryption
    #[arg(long, requires = "rendezvous")]
    ignore_unknown: bool,

    /// Print the plan as JSON
    #[arg(long, requires = "check")]
    json: bool,
}

/// The result of the options.
pub(crate) enum Outcome {
    /// There is no plan.
    None,
    /// Nothing is left to do.
    Done,
    /// This machine serves.
    Serve(Rendezvous),
}

impl RendezvousArgs {
    /// Reads the plan; prints it, or decides whether this machine serves. `version` is the default version to install; `auth_key` is
    /// the key of tokens.
    pub(crate) fn read(&self, version: Option<&str>, auth_key: Option<&Path>) -> anyhow::Result<Outcome> {
        let Some(path) = &self.rendezvous else { return Ok(Outcome::None) };
        let key = self.rendezvous_key.as_deref().or(auth_key).map(SigningKey::read).transpose()?.map(Arc::new);
        let unknown = if self.ignore_unknown { Unknown::Ignored } else { Unknown::Refused };
        let rack = documents(path)
            .and_then(|documents| plan_with(&documents, version, unknown))
            .and_then(|rack| rack.judge().map(|()| rack))
            .with_context(|| format!("{} is not a rack plan", path.display()))?;
        if self.check {
            let rendezvous = Rendezvous { key, ..Rendezvous::new(rack, None) };
            let text = match self.json {
                true => format!("{:#}\n", as_json(&rendezvous)),
                false => lines(&rendezvous).iter().map(|line| format!("{line}\n")).collect(),
            };
            std::io::stdout().write_all(text.as_bytes())?;
            return Ok(Outcome::Done);
        }
        rack.tell();
        if let Some(address) = rack.address {
            let limit = Duration::from_secs(self.rendezvous_wait);
            if !here(address, limit).context("cannot list this machine's addresses")? {
                writeln!(std::io::stdout(), "the rendezvous is another machine, {address}: nothing to serve here")?;
                return Ok(Outcome::Done);
            }
        }
        let identity = host_id(&Root::open("/").context("cannot determine this machine's identity")?);
        Ok(Outcome::Serve(Rendezvous { key, ..Rendezvous::new(rack, Some(identity.id)) }))
    }
}
