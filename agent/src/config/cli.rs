//! `landfall agent config`.

use super::{Config, ConfigError, Key, Sources};
use inventory::Root;
use serde_json::{Map, json};
use std::{path::PathBuf, process::ExitCode};

const SCHEMA_VERSION: u32 = 1;

/// Show the agent's configuration and the source of each value
///
/// Precedence: options, what was set at the console, the environment, the file, the kernel's arguments, the firmware's SMBIOS OEM strings, QEMU's fw_cfg.
/// Secrets are not shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: url, infra_env_id, token, cacert (a path or PEM text), insecure, agent_version, host_id, interval, proxy, http_proxy, \
https_proxy, no_proxy, rendezvous, rendezvous_key (a path, PEM text or its base64), rendezvous_unsigned. KEY is given as
  KEY = \"…\"                             in /etc/landfall/agent.toml
  landfall.KEY=…                        to the kernel; every user of the host can read it there
  io.landfall.KEY=…                     as an SMBIOS OEM string (type 11), or io.systemd.credential:landfall.KEY=…, or
                                        with io.systemd.credential.binary: and
                                        BASE64 for PEM text
  opt/landfall/KEY                      in QEMU's fw_cfg: -fw_cfg name=opt/landfall/url,string=https://…

Exit codes:
  0  the agent has what it needs
  1  something is missing or unusable
  2  wrong usage

Examples:
  landfall agent config
  landfall agent config --json | jq .values.url.source
  landfall agent config --is-configured && systemctl start agent.service")]
pub struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print only errors; the exit code says whether a service is configured
    #[arg(long, conflicts_with = "json")]
    is_configured: bool,
    /// Directory to use instead of /
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl Show {
    /// Runs the command, with what the agent's options say.
    pub fn run(self, command_line: Vec<(Key, String)>, file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
        let root = Root::open(&self.root)?;
        let environment = |name: &str| std::env::var(name).ok();
        let read = Config::read(&Sources { command_line, environment: &environment, file, root: &root });
        if self.is_configured {
            return Ok(match read {
                Ok(config) if !config.is_configured() => {
                    tracing::info!("no service is configured: looked for it {}", config.places(Key::Url).join("; "));
                    ExitCode::FAILURE
                }
                // The agent itself reports what is wrong with it, repeatedly.
                _ => ExitCode::SUCCESS,
            });
        }
        let config = read?;
        // Where a rendezvous is named, all else is asked for there.
        let problem = match config.rendezvous() {
            Ok(None) => config.resolve().err(),
            Ok(Some(_)) => None,
            Err(error) => Some(error),
        };
        let problem_text = problem.as_ref().map(ConfigError::to_string);
        let text = if self.json {
            let value =
                |key, value: &super::Value| json!({"value": value.display(key), "source": value.source.to_string()});
            let values: Map<_, _> = config.values().map(|(key, v)| (key.to_string(), value(key, v))).collect();
            let json = json!({"schema_version": SCHEMA_VERSION, "values": values, "problem": problem_text});
            format!("{json:#}\n")
        } else {
            let line = |(key, value): (Key, &super::Value)| {
                format!("{:<20}{}  (from {})\n", key.name(), value.display(key), value.source)
            };
            config.values().map(line).collect()
        };
        std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
        match problem {
            None => Ok(ExitCode::SUCCESS),
            Some(_) if self.json => Ok(ExitCode::FAILURE),
            Some(problem) => Err(problem.into()),
        }
    }
}
