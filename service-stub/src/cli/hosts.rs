//! Options of `landfall serve` about hosts.

use crate::attest::{Attest, FirstBoot, Policy};
use anyhow::Context;
use attestation::endorsement::Roots;
use std::{path::PathBuf, sync::Arc};

/// What hosts get, and what is asked of them.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Hosts")]
pub(crate) struct HostArgs {
    /// Landfall binary for hosts. Default: the landfall-host installed with
    /// this program, else this program. May be given once per processor
    /// architecture; an installed host reports with it too
    #[arg(long = "agent-binary", value_name = "FILE")]
    pub(super) agent_binaries: Vec<PathBuf>,

    /// Have the discovery config fetch the binary, for an ISO without it
    #[arg(long)]
    pub(super) deliver_agent: bool,

    /// Maximum of hosts per infra-env
    #[arg(long, value_name = "COUNT", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_hosts: u32,

    /// Seconds between polls of a host. Landfall's agent polls every few seconds while its host is new, for up to a minute
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) poll_interval: u64,

    /// Have the TPM of each host prove what it booted, and do this where it proves no recorded boot: off, note, warn, refuse
    ///
    /// note shows it, warn fails a validation that blocks nothing, refuse keeps the host from being installed. Record a good boot with
    /// `landfall host attest HOST --record`. Needs Landfall's agent and a TPM 2.0.
    #[arg(long, value_name = "POLICY", default_value = "off", hide_possible_values = true)]
    pub(super) attest: Policy,

    /// What becomes of the first boot that a host proves while its infra-env has no recorded boot: hold, record
    ///
    /// hold waits for `landfall host attest HOST --record`; record takes it for good, unseen, for this host alone: a machine that booted
    /// something else from the beginning is then not noticed.
    #[arg(long, value_name = "WHAT", default_value = "hold", hide_possible_values = true)]
    pub(super) attest_first_boot: FirstBoot,

    /// File with certificates (PEM) of the authorities that must have signed the endorsement certificates of TPMs. Default: none is needed
    #[arg(long, value_name = "FILE")]
    pub(super) attest_roots: Option<PathBuf>,

    /// Hardware requirements, a JSON list by version: [{"version":"default","master":{"cpu_cores":4,"ram_mib":16384,
    /// "disk_size_gb":100},"worker":{…}}]. Omitted values stay at their defaults
    #[arg(long, value_name = "FILE")]
    pub(super) requirements: Option<PathBuf>,

    /// Validations of hosts and clusters to disable, by name (as in validations_info), separated by commas: they are shown as
    /// disabled and block nothing. A cluster's own list (PUT …/ignored-validations) takes precedence
    #[arg(long, alias = "ignore-validations", value_name = "NAME,…", value_delimiter = ',')]
    pub(super) disable_validations: Vec<String>,
}

impl HostArgs {
    pub(super) fn attest(&self) -> anyhow::Result<Attest> {
        Ok(Attest { policy: self.attest, first_boot: self.attest_first_boot, roots: self.attest_roots()? })
    }

    /// Authorities of TPM makers, if some are named.
    fn attest_roots(&self) -> anyhow::Result<Option<Arc<Roots>>> {
        let Some(path) = &self.attest_roots else { return Ok(None) };
        let pem = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let roots = Roots::parse(&pem).with_context(|| format!("{} has no authorities of TPMs", path.display()))?;
        Ok(Some(Arc::new(roots)))
    }
}
