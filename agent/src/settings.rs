//! The agent's settings, and how long things take.

use crate::{dry::DryRun, media::Media};
use api::{ClientConfig, HostId, InfraEnvId, Secret, http::HttpConfig};
use std::{path::PathBuf, time::Duration};

/// Settings of one agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL of the service.
    pub url: String,
    /// Sent as `X-Secret-Key`.
    pub token: Secret,
    /// TLS.
    pub http: HttpConfig,
    /// Where the host registers.
    pub infra_env_id: InfraEnvId,
    /// Reported version: an image reference.
    pub agent_version: String,
    /// Identity to use instead of the one from the hardware.
    pub host_id: Option<HostId>,
    /// The program that runs steps: normally this one.
    pub program: PathBuf,
    pub media: Media,
    /// Whether an installed host may reboot.
    pub reboot: bool,
    /// The host that is pretended instead of this one.
    pub dry: Option<DryRun>,
    /// Bounds of a step's output.
    pub limits: Limits,
    /// Gets `status.json`, and the stage of an installation.
    pub state_dir: Option<PathBuf>,
    pub pace: Pace,
}

/// Name of the file in the state directory that an installation writes its stage to.
/// An installation may write to that directory; its parent has the agent's program in it.
const STAGE_FILE: &str = "installation/stage.json";

impl Settings {
    pub(crate) fn stage_file(&self) -> Option<PathBuf> {
        self.state_dir.as_ref().map(|directory| directory.join(STAGE_FILE))
    }

    /// Settings of a client that says it is `agent_version`.
    pub fn client_config(&self, agent_version: &str) -> ClientConfig {
        ClientConfig {
            url: self.url.clone(),
            token: self.token.clone(),
            http: self.http.clone(),
            agent_version: agent_version.to_owned(),
            answer_timeout: Some(self.pace.answer),
        }
    }
}

/// Bounds of a child's output.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A child that prints more has failed: half a document is useless.
    pub stdout_bytes: usize,
    /// How much of the end of its log is retained.
    pub stderr_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { stdout_bytes: 32 << 20, stderr_bytes: 64 << 10 }
    }
}

/// How long things take; tests make it short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between registrations that failed for a temporary cause.
    pub interval: Duration,
    /// Between attempts the service refused for a cause that only people remove. The real agent gives up for ever there
    /// and must be restarted by hand.
    pub refused: Duration,
    /// Longest time an answer of the service may take as a whole.
    pub answer: Duration,
    /// First delay after a failed poll; grows by half each time.
    pub poll_retry: Duration,
    /// Largest delay after a failed poll.
    pub poll_retry_max: Duration,
    /// Polls failing for this long end in a new registration.
    pub poll_give_up: Duration,
    /// Delay between polls at least, whatever the service says.
    pub poll_min: Duration,
    /// Delay between polls at most: a host silent for three minutes counts as disconnected.
    pub poll_max: Duration,
    /// First delay after a reply that was not accepted; doubles each time.
    pub reply_retry: Duration,
    /// How long a successful reply is not repeated while it stays the same.
    pub reply_cache: Duration,
    /// Longest run of an inventory.
    pub inventory: Duration,
    /// Longest run of a check of the network.
    pub network: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            refused: Duration::from_secs(300),
            answer: api::ANSWER_TIMEOUT,
            poll_retry: Duration::from_millis(500),
            poll_retry_max: Duration::from_secs(60),
            poll_give_up: Duration::from_secs(15 * 60),
            poll_min: Duration::from_secs(1),
            poll_max: Duration::from_secs(600),
            reply_retry: Duration::from_secs(2),
            reply_cache: Duration::from_secs(3600),
            inventory: Duration::from_secs(180),
            network: Duration::from_secs(300),
        }
    }
}
