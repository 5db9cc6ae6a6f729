//! `landfall ignition build discovery`.

use super::{Butane, Output, text, text_of};
use crate::AgentBinary;
use crate::cli::network::{networks, warn};
use crate::discovery::assisted::{self, Assisted, Mirror, Ntp, StaticNetwork};
use crate::network::{self, Flow};
use anyhow::{Context, ensure};
use api::{InfraEnvId, Proxy, Secret};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Groups of options in the help.
const AGENT: &str = "Agent";
const PROXIES: &str = "Proxies";

/// Whose units and files a config has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Settings for our own live ISO, or our agent for another
    Native,
    /// As the assisted service makes it: its agent, from a container image
    Assisted,
}

/// The config of a live host, which makes it report to the service.
///
/// The native shape has the settings of our own live ISO; with --agent-url it brings our agent to any other. The assisted shape is
/// what the assisted service makes, for its agent and a CoreOS live ISO. Overrides are Ignition configs, merged last.
#[derive(Debug, Args)]
#[command(override_usage = "landfall ignition build discovery [OPTIONS] --url <URL>\n       --infra-env-id <ID>")]
#[command(after_help = "Examples:\n  \
    landfall ignition build discovery --url https://service:8090 \\\n    \
    --infra-env-id ID --ca ca.pem --ssh-keys id.pub\n  \
    landfall ignition build discovery --shape assisted \\\n    \
    --url https://service:8090 --infra-env-id ID \\\n    \
    --agent-version quay.io/agent:latest --pull-secret pull.json \\\n    \
    --static-network nets.yaml --budget > discovery.ign")]
pub(super) struct Discovery {
    /// Base URL of the service
    #[arg(long)]
    url: String,
    /// Environment that hosts are discovered in
    #[arg(long, value_name = "ID")]
    infra_env_id: InfraEnvId,
    /// Version that the agent reports; in the assisted shape its image
    #[arg(help_heading = AGENT, long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    agent_version: String,
    /// Whose units and files it has
    #[arg(long, value_enum, default_value = "native")]
    shape: Shape,
    /// Don't check the service's certificate
    #[arg(long)]
    insecure: bool,
    /// CA certificates for the service, PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Token sent with every request
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Proxy for http URLs
    #[arg(help_heading = PROXIES, long, value_name = "URL")]
    http_proxy: Option<String>,
    /// Proxy for https URLs
    #[arg(help_heading = PROXIES, long, value_name = "URL")]
    https_proxy: Option<String>,
    /// Hosts to reach without proxy, comma-separated
    #[arg(help_heading = PROXIES, long, value_name = "LIST")]
    no_proxy: Option<String>,
    /// Public keys of user core, one per line
    #[arg(long, value_name = "FILE")]
    ssh_keys: Option<PathBuf>,
    /// The environment's override
    #[arg(long = "override", value_name = "FILE")]
    ignition_override: Option<PathBuf>,
    /// Native: where Ignition gets our agent, for an ISO that doesn't carry it
    #[arg(help_heading = AGENT, long, value_name = "URL", requires = "agent_sha512")]
    agent_url: Option<String>,
    /// Native: SHA-512 of our agent
    #[arg(help_heading = AGENT, long, value_name = "HEX", requires = "agent_url")]
    agent_sha512: Option<String>,
    #[command(flatten)]
    assisted: AssistedArgs,
    #[command(flatten)]
    butane: Butane,
    #[command(flatten)]
    output: Output,
}

/// For the assisted shape alone.
#[derive(Debug, Args)]
#[command(next_help_heading = "Assisted shape")]
struct AssistedArgs {
    /// Registry credentials
    #[arg(long, value_name = "FILE")]
    pull_secret: Option<PathBuf>,
    /// Certificates that hosts must trust, PEM
    #[arg(long, value_name = "FILE")]
    trust_bundle: Option<PathBuf>,
    /// Mirrors of registries, as containers-registries.conf
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,
    /// Certificate of the mirror, PEM
    #[arg(long, value_name = "FILE", requires = "registries_conf")]
    mirror_ca: Option<PathBuf>,
    /// Which signatures images need, as containers-policy.json
    #[arg(long, value_name = "FILE", requires = "registries_conf")]
    policy: Option<PathBuf>,
    /// Time source; repeatable
    #[arg(long, value_name = "SERVER")]
    ntp: Vec<String>,
    /// Use no other time sources than these
    #[arg(long, requires = "ntp")]
    ntp_only: bool,
    /// Hosts' networks: static_network_config of an environment, YAML or JSON
    #[arg(long, value_name = "FILE")]
    static_network: Option<PathBuf>,
    /// Version of OpenShift to install: from 4.18 on, hosts get their networks as policies, before as keyfiles
    #[arg(long, value_name = "VERSION", default_value = "", requires = "static_network")]
    openshift_version: String,
    /// Seconds to wait for slow network hardware
    #[arg(long, value_name = "S", default_value_t = 0)]
    discovery_delay: u32,
    /// The operator's override; with it the agent is not started
    #[arg(long, value_name = "FILE")]
    internal_override: Option<PathBuf>,
}

impl AssistedArgs {
    /// Whether any is given.
    fn is_used(&self) -> bool {
        let files = [
            &self.pull_secret,
            &self.trust_bundle,
            &self.registries_conf,
            &self.static_network,
            &self.internal_override,
        ];
        files.into_iter().any(Option::is_some) || !self.ntp.is_empty() || self.discovery_delay > 0
    }

    fn read(self, butane: &Butane) -> anyhow::Result<Assisted> {
        let pull_secret = text_of(self.pull_secret.as_ref())?.unwrap_or_default();
        ensure!(
            pull_secret.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(pull_secret.as_bytes()).is_ok(),
            "the pull secret is not JSON"
        );
        let mirror = match &self.registries_conf {
            Some(file) => Some(Mirror {
                registries_conf: text(file)?,
                ca_pem: text_of(self.mirror_ca.as_ref())?,
                policy_json: text_of(self.policy.as_ref())?,
            }),
            None => None,
        };
        let ntp = (!self.ntp.is_empty()).then_some(Ntp { sources: self.ntp, only: self.ntp_only });
        let flow = Flow::of_version(&self.openshift_version);
        let static_network = match &self.static_network {
            Some(file) => {
                let networks = networks(file)?;
                let files = network::check(&networks).and_then(|states| {
                    states.iter().for_each(|state| warn(state.notes()));
                    network::files(&networks, flow)
                });
                let files = files.with_context(|| format!("cannot create files from {}", file.display()))?;
                Some(StaticNetwork { flow, files, discovery_delay_s: self.discovery_delay })
            }
            None => None,
        };
        Ok(Assisted {
            pull_secret: Secret::new(pull_secret),
            trust_bundle_pem: text_of(self.trust_bundle.as_ref())?,
            mirror,
            ntp,
            static_network,
            internal_override: butane.text_of(self.internal_override.as_ref())?.unwrap_or_default(),
            ..Assisted::default()
        })
    }
}

impl Discovery {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let deliver_agent = self.agent_url.zip(self.agent_sha512);
        ensure!(
            self.shape == Shape::Assisted || !self.assisted.is_used(),
            "the native shape has no pull secret, trust bundle, mirror, time sources, network settings and internal \
             override; use --shape assisted"
        );
        ensure!(
            self.shape == Shape::Native || deliver_agent.is_none(),
            "in the assisted shape the agent comes from an image: --agent-url is for the native one"
        );
        let discovery = crate::Discovery {
            service_url: self.url,
            infra_env_id: self.infra_env_id,
            agent_version: self.agent_version,
            insecure: self.insecure,
            ca_pem: text_of(self.ca.as_ref())?,
            token: text_of(self.token.as_ref())?.map(|token| Secret::new(token.trim())),
            proxy: Proxy { http_proxy: self.http_proxy, https_proxy: self.https_proxy, no_proxy: self.no_proxy },
            ssh_authorized_key: text_of(self.ssh_keys.as_ref())?.unwrap_or_default(),
            deliver_agent: deliver_agent.map(|(url, sha512_hex)| AgentBinary { url, sha512_hex }),
            ignition_override: self.butane.text_of(self.ignition_override.as_ref())?.unwrap_or_default(),
        };
        match self.shape {
            Shape::Native => self.output.print_document(&crate::discovery::build(&discovery)?),
            Shape::Assisted => {
                let assisted = self.assisted.read(&self.butane)?;
                self.output.print_document(&assisted::build(&discovery, &assisted)?)
            }
        }
    }
}
