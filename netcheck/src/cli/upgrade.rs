//! `landfall netcheck upgrade`.

use super::{image::Image, print, read_request};
use crate::{image::program, privileges};
use anyhow::Context;
use api::{UpgradeAgentRequest, UpgradeAgentResponse};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Fetch the image of another agent, and the agent in it.
///
/// If the host has podman, it pulls and stores the image, as for the real agent; otherwise the image is fetched and verified.
/// If the image has this project's label (org.landfall.agent), its program is written to --stage.
///
/// The exit status is always 0: the answer has the result; with --json in the form of an upgrade-agent step.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with an upgrade-agent step:
  {"agent_image":"registry.example.com/landfall-agent:2.0"}
and the answer the same with "result": "success" or "failure".

Examples:
  landfall netcheck upgrade --request request.json
  landfall netcheck upgrade --request request.json \
    --stage /run/landfall/agent && /run/landfall/agent --version"#)]
pub(super) struct Upgrade {
    /// File with the request, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Where to write the program, if there is one; an existing file is removed first
    #[arg(long, value_name = "FILE")]
    stage: Option<PathBuf>,
    /// Time for each of pulling and fetching, seconds
    #[arg(long, value_name = "N", default_value_t = 600)]
    timeout_s: u32,
    /// Print the answer as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Upgrade {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let UpgradeAgentRequest { agent_image } = serde_json::from_slice(&read_request(&self.request)?)
            .context("the request is not an agent request: expected {\"agent_image\":\"…\"}")?;
        let is_there = self.fetch(&agent_image).unwrap_or_else(|error| {
            tracing::error!("could not get the agent's image {agent_image}: {error:#}");
            false
        });
        let result = if is_there { "success" } else { "failure" };
        let answer = UpgradeAgentResponse { agent_image, result: result.to_owned() };
        print(self.json, &answer, || format!("{}: {}\n", answer.agent_image.escape_debug(), answer.result))?;
        Ok(ExitCode::SUCCESS)
    }

    fn fetch(&self, name: &str) -> anyhow::Result<bool> {
        if let Some(stage) = &self.stage {
            let _ = std::fs::remove_file(stage);
        }
        let image = Image::one(name, self.timeout_s);
        let pulled = image.pull()?;
        if pulled == Some(false) {
            return Ok(false);
        }
        let Some(stage) = &self.stage else { return pulled.map_or_else(|| image.can_be_had(), Ok) };
        if let Some(directory) = stage.parent() {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        }
        // What comes from here on is others' bytes, and needs nothing but the network and a file of our own.
        privileges::drop_all()?;
        let timeout = Duration::from_secs(self.timeout_s.into());
        match program::take(name, &image.options()?, timeout, stage) {
            Ok(Some(version)) => {
                tracing::info!(version, "the image contains another landfall");
                Ok(true)
            }
            Ok(None) => {
                tracing::warn!("the image {name} contains no landfall: it was pulled, and this program stays in use");
                pulled.map_or_else(|| image.can_be_had(), Ok)
            }
            // The service wanted the image, and podman has it.
            Err(error) if pulled == Some(true) => {
                tracing::warn!("could not extract a program from the image {name}: {:#}", anyhow::Error::from(error));
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }
}
