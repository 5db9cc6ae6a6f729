//! `landfall agent`.

use crate::{
    agent, beacon,
    config::{self, CaCert, Config, Key, Resolved, Sources},
    dropin::Logging,
    dry::DryRun,
    media::Media,
    offline, ourselves,
    poll::End,
    register::{Registered, identity},
    rendezvous, replay, restart,
    settings::{Limits, Pace, Settings},
    status, upgrade,
};
use anyhow::{Context, bail};
use api::http::HttpConfig;
use inventory::Root;
use kernel::Cancel;
use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    time::Duration,
};

/// Where a certificate given as text goes when there is no directory for the agent's state.
const STATE_DIRECTORY: &str = "/run/landfall";
const CA_FILE: &str = "ca.pem";

/// Groups of options in the help.
const HOST: &str = "This host";
const TIMES: &str = "Times";
const RENDEZVOUS: &str = "Rendezvous";

/// Register this host with the service and do what it asks
///
/// Runs until it is killed, which is safe at any time. Failures of the network or the service are retried for ever; if the
/// service refuses the host (401, 403, 404, 409), every five minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Settings not given here come from the environment (LANDFALL_URL, LANDFALL_INFRA_ENV_ID, LANDFALL_CACERT, LANDFALL_INSECURE, \
LANDFALL_AGENT_VERSION, LANDFALL_HOST_ID, LANDFALL_INTERVAL, LANDFALL_RENDEZVOUS, LANDFALL_RENDEZVOUS_KEY, LANDFALL_RENDEZVOUS_UNSIGNED; the token: PULL_SECRET_TOKEN; proxies: HTTP_PROXY, HTTPS_PROXY, \
NO_PROXY), else from /etc/landfall/agent.toml, the kernel's arguments, the firmware or QEMU: `landfall agent config --help` \
has the names, `landfall agent config` shows what is in force. Empty values count as absent.

Examples:
  PULL_SECRET_TOKEN=… landfall agent --url https://service.example.com \\
    --infra-env-id 5a1e…
  landfall agent --rendezvous 192.168.7.10   # a host of the rack serves
  landfall agent --rendezvous mdns --rendezvous-key rack.pub   # the same
  landfall agent config        # what is in force, and from where
  landfall agent status        # the state of this host's agent
  landfall agent beacon        # on the installed node, with the variables set")]
pub struct Agent {
    #[command(flatten)]
    service: ServiceArgs,
    /// Reported as the version of this agent: a container image reference
    #[arg(help_heading = HOST, long, value_name = "IMAGE")]
    agent_version: Option<String>,
    /// Seconds between attempts to register (60, if nothing else is configured)
    #[arg(help_heading = TIMES, long, value_name = "SECONDS")]
    interval: Option<String>,
    /// Seconds between attempts if the service refuses the host (401, 403, 404, 409), which only people can change
    #[arg(help_heading = TIMES, long, value_name = "SECONDS", env = "LANDFALL_REFUSED_INTERVAL", default_value = "300")]
    refused_interval: String,
    /// Seconds that a reply of the service may take as a whole
    #[arg(help_heading = TIMES, long, value_name = "SECONDS", env = "LANDFALL_ANSWER_TIMEOUT", default_value = "60")]
    answer_timeout: String,
    /// Seconds that an inventory or a check of the network may take before it is ended (an inventory at most 180)
    #[arg(help_heading = TIMES, long, value_name = "SECONDS", env = "LANDFALL_CHECK_DEADLINE", default_value = "300")]
    check_deadline: String,
    /// Leave an installed host running instead of rebooting it into its new system
    #[arg(help_heading = HOST, long)]
    no_reboot: bool,
    /// Write status.json to this directory, for `landfall agent status`
    #[arg(help_heading = HOST, long, value_name = "DIR", env = "RUNTIME_DIRECTORY")]
    state_dir: Option<PathBuf>,
    /// Where to ask for the service and the infra-env, for as long as it takes: a host of the rack by its address
    /// (https://ADDRESS[:PORT] if it has a certificate), or `mdns` for the one that multicast DNS announces
    #[arg(help_heading = RENDEZVOUS, long, value_name = "ADDRESS[:PORT]|mdns")]
    rendezvous: Option<String>,
    /// Public key for the signature of the service's answer: a file, PEM text, or its base64
    #[arg(help_heading = RENDEZVOUS, long, value_name = "KEY")]
    rendezvous_key: Option<String>,
    /// Trust the first answer to `--rendezvous mdns`, from any host
    #[arg(help_heading = RENDEZVOUS, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    rendezvous_unsigned: Option<String>,
    #[command(flatten)]
    dry: DryArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Args)]
struct ServiceArgs {
    /// Base URL of the service
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Infra-env to register with
    #[arg(long, global = true, value_name = "UUID")]
    infra_env_id: Option<String>,
    /// PEM bundle trusted in addition to the system's roots
    #[arg(long, global = true, value_name = "FILE")]
    cacert: Option<String>,
    /// Skip verification of the service's certificate
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    insecure: Option<String>,
    /// Use this identity instead of the one from the hardware
    #[arg(help_heading = HOST, long, global = true, value_name = "UUID")]
    host_id: Option<String>,
    /// Configuration file, which must exist, instead of /etc/landfall/agent.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Of the real agent; also with one dash if the program is called `agent`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logging")]
struct LogArgs {
    /// Log to the journal, with TAG=agent, if there is one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = switch)]
    with_journal_logging: bool,
    /// Append the log to /var/log/agent_registration.log
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = switch)]
    with_text_logging: bool,
    /// Log to standard error, or with a file to standard output
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = switch)]
    with_stdout_logging: bool,
}

/// For load tests: one machine pretends to be thousands of hosts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Dry run")]
struct DryArgs {
    /// Pretend: checks of other hosts succeed, disks are fast, nothing is installed; the inventory is this machine's
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = switch)]
    dry_run: bool,
    /// Identity of the pretended host
    #[arg(long, value_name = "UUID", requires = "dry_run")]
    force_id: Option<String>,
    /// MAC address of its only interface, which is this machine's of the default route, else the first with an IPv4 address
    #[arg(long, value_name = "MAC", requires = "dry_run")]
    force_mac: Option<String>,
    /// Its name
    #[arg(long, value_name = "NAME", requires = "dry_run")]
    force_hostname: Option<String>,
    /// The only address of that interface
    #[arg(long, value_name = "ADDRESS/PREFIX", requires = "dry_run")]
    forced_ipv4: Option<String>,
    /// End when this file exists: the pretended host has rebooted
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    fake_reboot_marker_path: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Poll for a host that is already registered (--host-id); end when it must register again
    Poll,
    /// On the installed node: report the stages 'Joined' and 'Done', retrying until the service accepts them
    Beacon,
    Status(status::cli::Status),
    Config(config::cli::Show),
    Offline(offline::Offline),
    Replay(replay::cli::Replay),
    #[command(hide = true)]
    Restart(restart::Restart),
}

impl Agent {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let given = self.given();
        let settings = match self.command {
            Some(Command::Status(status)) => return status.run(given, self.service.config),
            Some(Command::Offline(offline)) => {
                return offline.run(identity(parsed("--host-id", self.service.host_id.as_deref())?)?);
            }
            Some(Command::Replay(replay)) => {
                return replay.run(parsed("--host-id", self.service.host_id.as_deref())?);
            }
            Some(Command::Restart(restart)) => return restart.run(),
            Some(Command::Config(show)) => return show.run(given, self.service.config),
            _ => self.configured()?,
        };
        if settings.token.is_empty() {
            tracing::warn!("no token: only a service without authentication will accept this host");
        }
        // Nothing is worth saving at the end, so signals just end the process, and with it the steps.
        let stop = Cancel::default();
        if let Some(dry) = settings.dry.clone().filter(|dry| dry.reboot_marker.is_some()) {
            let stop = stop.clone();
            std::thread::Builder::new().name("reboot".into()).spawn(move || dry.await_reboot(&stop))?;
        }
        match self.command {
            Some(Command::Poll) => agent::poll_only(&settings, &registered(&settings)?, &stop)?,
            Some(Command::Beacon) => beacon::run(&settings, &stop)?,
            // This returns only if the program is unfit.
            _ => {
                while agent::run(&settings, &stop)? == End::Upgraded {
                    if let Err(error) = upgrade::become_staged() {
                        tracing::error!(
                            error = &error as &dyn std::error::Error,
                            "cannot become the new agent, continuing as this one"
                        );
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where its log goes.
    pub fn logging(&self) -> Logging {
        let LogArgs { with_journal_logging: journal, with_text_logging, with_stdout_logging: stream } = self.log;
        let text = with_text_logging.then(|| PathBuf::from("/var/log/agent_registration.log"));
        Logging { journal, text, stream, runs_for_long: true, is_verbose: false }
    }

    fn state_directory(&self) -> &Path {
        self.state_dir.as_deref().unwrap_or(Path::new(STATE_DIRECTORY))
    }

    /// What the command line says.
    fn given(&self) -> Vec<(Key, String)> {
        let service = &self.service;
        let given = [
            (Key::Url, &service.url),
            (Key::InfraEnvId, &service.infra_env_id),
            (Key::CaCert, &service.cacert),
            (Key::Insecure, &service.insecure),
            (Key::HostId, &service.host_id),
            (Key::AgentVersion, &self.agent_version),
            (Key::Interval, &self.interval),
            (Key::Rendezvous, &self.rendezvous),
            (Key::RendezvousKey, &self.rendezvous_key),
            (Key::RendezvousUnsigned, &self.rendezvous_unsigned),
        ];
        given.into_iter().filter_map(|(key, text)| Some((key, text.clone()?))).collect()
    }

    /// Settings from everywhere. Proxies that are not from the environment are put there, where this program and those it
    /// starts look for them: it starts anew, since nothing else may change the environment safely.
    fn configured(&self) -> anyhow::Result<Settings> {
        let (command_line, file) = (self.given(), self.service.config.clone());
        let environment = |name: &str| env::var(name).ok();
        let mut config =
            Config::read(&Sources { command_line, environment: &environment, file, root: &Root::open("/")? })?;
        if let Some((place, trust)) = config.rendezvous()? {
            let ca_file = self.state_directory().join(CA_FILE);
            let found = rendezvous::find(&place, trust, &config.http(&ca_file)?, &Cancel::default())?;
            config.found(&found.context("stopped waiting for the rendezvous")?);
        }
        let resolved = config.resolve()?;
        if !resolved.proxies.is_empty() {
            return Err(ourselves::go_on_as(Path::new(ourselves::PROGRAM), &resolved.proxies))
                .context("cannot restart with the configured proxies");
        }
        for (key, value) in config.values() {
            tracing::info!(%key, value = value.display(key), source = %value.source, "configured");
        }
        self.settings(resolved)
    }

    fn settings(&self, configured: Resolved) -> anyhow::Result<Settings> {
        let seconds = |what, text: &str, default| -> anyhow::Result<Duration> {
            let seconds: Option<u64> = parsed(what, Some(text))?;
            Ok(seconds.map_or(default, |seconds| Duration::from_secs(seconds.clamp(1, 86_400))))
        };
        let pace = Pace::default();
        let check = seconds("--check-deadline", &self.check_deadline, pace.network)?;
        let dry = self.dry.read()?;
        let ca_cert = match configured.ca_cert {
            Some(CaCert::Pem(pem)) => {
                let path = self.state_directory().join(CA_FILE);
                config::write_ca(&path, &pem)?;
                Some(path)
            }
            Some(CaCert::Path(path)) => Some(path),
            None => None,
        };
        Ok(Settings {
            url: configured.url,
            token: configured.token,
            http: HttpConfig { ca_cert, insecure: configured.insecure, proxies: None },
            infra_env_id: configured.infra_env_id,
            agent_version: configured.agent_version,
            host_id: dry.as_ref().and_then(|dry| dry.host_id).or(configured.host_id),
            dry,
            program: ourselves::PROGRAM.into(),
            media: Media::default(),
            reboot: !self.no_reboot,
            limits: Limits::default(),
            state_dir: self.state_dir.clone(),
            pace: Pace {
                interval: configured.interval,
                refused: seconds("--refused-interval", &self.refused_interval, pace.refused)?,
                answer: seconds("--answer-timeout", &self.answer_timeout, pace.answer)?,
                inventory: check.min(pace.inventory),
                network: check,
                ..pace
            },
        })
    }
}

impl DryArgs {
    fn read(&self) -> anyhow::Result<Option<DryRun>> {
        let text = |text: &Option<String>| given(text.as_deref()).map(str::to_owned);
        let dry = DryRun {
            host_id: parsed("--force-id", self.force_id.as_deref())?,
            mac: text(&self.force_mac),
            hostname: text(&self.force_hostname),
            ipv4: text(&self.forced_ipv4),
            reboot_marker: self.fake_reboot_marker_path.clone(),
        };
        Ok(self.dry_run.then_some(dry))
    }
}

/// The ids of a host that another process has registered.
fn registered(settings: &Settings) -> anyhow::Result<Registered> {
    let host_id = settings.host_id.context("no host to poll for: give --host-id or set LANDFALL_HOST_ID")?;
    let (infra_env_id, agent_version) = (settings.infra_env_id, settings.agent_version.clone());
    Ok(Registered { infra_env_id, host_id, agent_version })
}

/// A value that is not blank: units set variables to nothing.
fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

fn parsed<T: FromStr>(what: &str, text: Option<&str>) -> anyhow::Result<Option<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    given(text).map(|text| text.parse().with_context(|| format!("{what} '{text}' is not usable"))).transpose()
}

/// A boolean as the flags of the real agent take it.
fn switch(text: &str) -> anyhow::Result<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "t" | "true" => Ok(true),
        "" | "0" | "f" | "false" => Ok(false),
        _ => bail!("expected true or false, not '{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    const ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";

    fn settings(args: &[&str]) -> anyhow::Result<Settings> {
        let command = Agent::augment_args(clap::Command::new("agent"));
        let matches = command.try_get_matches_from(std::iter::once(&"agent").chain(args))?;
        let agent = Agent::from_arg_matches(&matches)?;
        let nothing = tempfile::tempdir()?;
        let root = Root::open(nothing.path())?;
        let environment = |name: &str| (name == "PULL_SECRET_TOKEN").then(|| "t0ken".to_owned());
        let sources = Sources { command_line: agent.given(), environment: &environment, file: None, root: &root };
        let settings = agent.settings(Config::read(&sources)?.resolve()?)?;
        assert_eq!(settings.token.expose(), "t0ken");
        Ok(settings)
    }

    #[test]
    fn flags_of_the_real_agent_are_understood() {
        Agent::augment_args(clap::Command::new("agent")).debug_assert();
        let settings = settings(&[
            "--url",
            "https://s",
            "--infra-env-id",
            ENV,
            "--agent-version",
            "r.io/a:1",
            "--insecure=true",
            "--interval",
            "5",
            "--cacert",
            "/etc/assisted-service/service-ca-cert.crt",
        ])
        .unwrap();
        assert_eq!((settings.url.as_str(), settings.agent_version.as_str()), ("https://s", "r.io/a:1"));
        assert!(settings.http.insecure && settings.reboot);
        assert_eq!(settings.pace.interval, Duration::from_secs(5));
        assert_eq!(settings.host_id, None);
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_by_name() {
        let base = ["--url", "http://s", "--infra-env-id", ENV];
        let error = |args: &[&str]| format!("{:#}", settings(args).unwrap_err());
        assert!(error(&["--infra-env-id", ENV]).contains("LANDFALL_URL"));
        assert!(error(&["--url", "http://s", "--infra-env-id", ""]).contains("LANDFALL_INFRA_ENV_ID"));
        assert!(
            error(&["--url", "http://s", "--infra-env-id", "x"])
                .starts_with("infra_env_id from the command line is not usable: 'x': ")
        );
        assert!(error(&[&base[..], &["--interval", "soon"]].concat()).starts_with("interval from the command line"));
        assert!(error(&[&base[..], &["--check-deadline", "soon"]].concat()).starts_with("--check-deadline 'soon'"));
        assert!(error(&[&base[..], &["--insecure=maybe"]].concat()).contains("maybe"));
        let settings =
            settings(&[&base[..], &["--insecure", "--host-id", "", "--interval", "0", "--no-reboot"]].concat());
        let settings = settings.unwrap();
        assert!(settings.http.insecure && !settings.reboot && settings.host_id.is_none());
        assert_eq!(settings.pace.interval, Duration::from_secs(1));
    }

    #[test]
    fn the_beacon_takes_the_same_options_behind_its_name() {
        let settings = settings(&["beacon", "--url", "http://s", "--infra-env-id", ENV, "--host-id", ENV]).unwrap();
        assert_eq!(settings.host_id.unwrap().to_string(), ENV);
    }
}
