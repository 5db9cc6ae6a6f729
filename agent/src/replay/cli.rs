//! `landfall agent replay`.

use super::{read, rewrite};
use crate::{
    child,
    media::Media,
    ourselves,
    register::identify,
    settings::{Limits, Pace, Settings},
    steps::action,
};
use anyhow::Context;
use api::{HostId, InfraEnvId, Secret, Step, StepReply, StepType, http::HttpConfig};
use kernel::Cancel;
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Run recorded instructions, without a service
///
/// Takes an answer to a poll, a step, a list of steps, a recorded exchange, or a directory of such files, and prints the
/// agent's replies, one JSON document per line. Steps that write or reboot are left out, unless --allow-writes gives them
/// another target; nothing reboots, and nothing is sent to a service.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  every step succeeded
  1  a step failed or was left out, or nothing could be read
  2  wrong usage

Examples:
  landfall agent replay poll.json
  landfall agent replay recording/ --only inventory --only domain-resolution
  landfall agent replay recording/ --dry-run
  landfall agent replay step.json --allow-writes /dev/loop7")]
pub struct Replay {
    /// File or directory
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Only steps of this type; may be repeated
    #[arg(long, value_name = "TYPE")]
    only: Vec<String>,
    /// Print what would be run, and run nothing
    #[arg(long = "dry-run", id = "replay_dry_run")]
    dry_run: bool,
    /// Target of install, installation-disk-speed-check, download-boot-artifacts and reboot-for-reclaim instead of the
    /// recorded one: a disk, whose contents are lost, or a directory to use as a node's root
    #[arg(long, value_name = "DEVICE")]
    allow_writes: Option<PathBuf>,
}

impl Replay {
    /// Runs the command as host `host_id`, or as the one that the hardware says.
    pub fn run(self, host_id: Option<HostId>) -> anyhow::Result<ExitCode> {
        let steps = read(&self.path)?;
        let settings = settings(host_id);
        let host_id = identify(&settings)?;
        let mut all_well = true;
        for step in steps.into_iter().filter(|step| self.wants(&step.step_type)) {
            let (line, ok) = self.replay(step, &settings, host_id);
            all_well &= ok;
            match writeln!(io::stdout(), "{line}") {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                result => result.context("printing")?,
            }
        }
        Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn wants(&self, kind: &StepType) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| *only == kind.to_string())
    }

    /// What to print for `step`, and whether it succeeded.
    fn replay(&self, step: Step, settings: &Settings, host_id: HostId) -> (Value, bool) {
        let (id, kind) = (step.step_id.clone(), step.step_type.clone());
        let step = match rewrite(step, &host_id.to_string(), self.allow_writes.as_deref()) {
            Ok(step) => step,
            Err(reason) => {
                return (json!({"step_id": id, "step_type": kind, "left_out": reason.to_string()}), self.dry_run);
            }
        };
        let run = match action(&step, settings, host_id) {
            Ok(run) => run,
            Err(refusal) => {
                let reply = StepReply {
                    error: refusal.to_string(),
                    exit_code: -1,
                    output: String::new(),
                    step_id: id,
                    step_type: kind,
                };
                return (json!(reply), false);
            }
        };
        if self.dry_run {
            let deadline = run.deadline.map(|deadline| deadline.as_secs());
            let plan = json!({"step_id": id, "step_type": kind, "command": run.args, "deadline_s": deadline});
            return (plan, true);
        }
        let outcome = child::run(Path::new(ourselves::PROGRAM), &run, &kind, &id, settings.limits, &Cancel::default());
        let ok = outcome.exit_code == 0;
        let reply = StepReply {
            error: outcome.error,
            exit_code: outcome.exit_code,
            output: outcome.output,
            step_id: id,
            step_type: kind,
        };
        (json!(reply), ok)
    }
}

/// Of an agent without a service.
fn settings(host_id: Option<HostId>) -> Settings {
    Settings {
        // Nothing listens there: a step's requests fail at once.
        url: "http://127.0.0.1:9".to_owned(),
        token: Secret::default(),
        http: HttpConfig::default(),
        infra_env_id: InfraEnvId::default(),
        agent_version: String::new(),
        host_id,
        program: ourselves::PROGRAM.into(),
        media: Media::default(),
        reboot: false,
        limits: Limits::default(),
        dry: None,
        state_dir: None,
        pace: Pace::default(),
    }
}
