//! `landfall agent`.

use crate::{
    agent, beacon,
    child::{Limits, OURSELVES},
    dropin::Logging,
    dry::DryRun,
    media::Media,
    register::Registered,
    settings::{Pace, Settings},
    status::{self, Consoles, Outputs},
    stop::Stop,
};
use anyhow::{Context, bail};
use api::{Secret, http::HttpConfig};
use std::{path::PathBuf, process::ExitCode, str::FromStr, time::Duration};

/// Register this host with the service and do what it asks
///
/// Runs until it is killed, which is safe at any time. Failures of the network or the service are retried for ever;
/// where the service refuses the host (401, 403, 404, 409), every five minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every option can be given by the environment variable named with it; empty ones count as absent. \
The token is taken from PULL_SECRET_TOKEN only.

Examples:
  PULL_SECRET_TOKEN=… landfall agent --url https://service.example.com --infra-env-id 5a1e…
  landfall agent beacon        # on the installed node, with the variables set")]
pub struct Agent {
    #[command(flatten)]
    service: ServiceArgs,
    /// Reported as the version of this agent: a container image reference
    #[arg(long, value_name = "IMAGE", env = "LANDFALL_AGENT_VERSION", default_value = "", hide_default_value = true)]
    agent_version: String,
    /// Seconds between attempts to register
    #[arg(long, value_name = "SECONDS", env = "LANDFALL_INTERVAL", default_value = "60")]
    interval: String,
    /// Seconds between attempts where the service refuses the host (401, 403, 404, 409), which only people can change
    #[arg(long, value_name = "SECONDS", env = "LANDFALL_REFUSED_INTERVAL", default_value = "300")]
    refused_interval: String,
    /// Seconds that an answer of the service may take as a whole
    #[arg(long, value_name = "SECONDS", env = "LANDFALL_ANSWER_TIMEOUT", default_value = "60")]
    answer_timeout: String,
    /// Seconds that an inventory or a check of the network may take before it is ended (an inventory at most 180)
    #[arg(long, value_name = "SECONDS", env = "LANDFALL_CHECK_DEADLINE", default_value = "300")]
    check_deadline: String,
    /// Leave an installed host running instead of rebooting it into its new system
    #[arg(long)]
    no_reboot: bool,
    /// Keep a file status.json in this directory, for `landfall agent status`
    #[arg(long, value_name = "DIR", env = "RUNTIME_DIRECTORY")]
    state_dir: Option<PathBuf>,
    /// Show host id, addresses, service and errors on the machine's consoles and at their login prompts when they change
    #[arg(long)]
    console: bool,
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
    #[arg(long, global = true, value_name = "URL", env = "LANDFALL_URL")]
    url: Option<String>,
    /// Infra-env to register with
    #[arg(long, global = true, value_name = "UUID", env = "LANDFALL_INFRA_ENV_ID")]
    infra_env_id: Option<String>,
    /// PEM bundle trusted in addition to the system's roots
    #[arg(long, global = true, value_name = "FILE", env = "LANDFALL_CACERT")]
    cacert: Option<String>,
    /// Skip verification of the service's certificate
    #[arg(long, global = true, value_name = "BOOL", env = "LANDFALL_INSECURE", num_args = 0..=1, require_equals = true, default_value = "", hide_default_value = true, default_missing_value = "true")]
    insecure: String,
    /// Use this identity instead of the one from the hardware
    #[arg(long, global = true, value_name = "UUID", env = "LANDFALL_HOST_ID")]
    host_id: Option<String>,
}

/// Of the real agent; also as single words with one dash where the program is called `agent`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Where the log goes")]
struct LogArgs {
    /// To the journal, with TAG=agent
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = switch)]
    with_journal_logging: bool,
    /// To the end of /var/log/agent_registration.log
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = switch)]
    with_text_logging: bool,
    /// To standard error, or with a file to standard output
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = switch)]
    with_stdout_logging: bool,
}

/// For load tests: thousands of hosts that are one.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Dry run")]
struct DryArgs {
    /// Pretend: checks of others succeed, disks are fast, nothing is installed; the inventory is this machine's
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = switch)]
    dry_run: bool,
    /// Identity of the pretended host
    #[arg(long, value_name = "UUID", requires = "dry_run")]
    force_id: Option<String>,
    /// MAC address of its first interface with an IPv4 address; it has no other
    #[arg(long, value_name = "MAC", requires = "dry_run")]
    force_mac: Option<String>,
    /// Its name
    #[arg(long, value_name = "NAME", requires = "dry_run")]
    force_hostname: Option<String>,
    /// The first address of that interface
    #[arg(long, value_name = "ADDRESS/PREFIX", requires = "dry_run")]
    forced_ipv4: Option<String>,
    /// End when this file exists: the pretended host has rebooted
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    fake_reboot_marker_path: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Poll for a host that is registered already (--host-id); end when it has to register again
    Poll,
    /// On the installed node: report the stages 'Joined' and 'Done', retrying until the service accepts them
    Beacon,
    Status(status::cli::Status),
}

impl Agent {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Command::Status(status)) = self.command {
            return status.run();
        }
        let token = std::env::var("PULL_SECRET_TOKEN").unwrap_or_default();
        let settings = self.settings(Secret::new(token))?;
        if settings.token.is_empty() {
            tracing::warn!("PULL_SECRET_TOKEN is not set: only a service without authentication will accept this host");
        }
        // Nothing is worth saving at the end, so signals just end the process, and with it the steps.
        let stop = Stop::default();
        if let Some(dry) = settings.dry.clone().filter(|dry| dry.reboot_marker.is_some()) {
            let stop = stop.clone();
            std::thread::Builder::new().name("reboot".into()).spawn(move || dry.await_reboot(&stop))?;
        }
        match self.command {
            None => agent::run(&settings, &stop)?,
            Some(Command::Poll) => agent::poll_only(&settings, &registered(&settings)?, &stop)?,
            Some(Command::Beacon) => beacon::run(&settings, &stop)?,
            Some(Command::Status(status)) => return status.run(),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where its log goes.
    pub fn logging(&self) -> Logging {
        let LogArgs { with_journal_logging: journal, with_text_logging, with_stdout_logging: stream } = self.log;
        let text = with_text_logging.then(|| PathBuf::from("/var/log/agent_registration.log"));
        Logging { journal, text, stream, runs_for_long: true }
    }

    fn settings(&self, token: Secret) -> anyhow::Result<Settings> {
        let service = &self.service;
        let Some(url) = given(service.url.as_deref()) else {
            bail!("no service: give --url or set LANDFALL_URL");
        };
        let infra_env = parsed("--infra-env-id", service.infra_env_id.as_deref())?;
        let seconds = |what, text: &str, default| -> anyhow::Result<Duration> {
            let seconds: Option<u64> = parsed(what, Some(text))?;
            Ok(seconds.map_or(default, |seconds| Duration::from_secs(seconds.clamp(1, 86_400))))
        };
        let pace = Pace::default();
        let check = seconds("--check-deadline", &self.check_deadline, pace.network)?;
        let dry = self.dry.read()?;
        Ok(Settings {
            url: url.to_owned(),
            token,
            http: HttpConfig {
                ca_cert: given(service.cacert.as_deref()).map(PathBuf::from),
                insecure: switch(&service.insecure).context("--insecure")?,
            },
            infra_env_id: infra_env.context("no infra-env: give --infra-env-id or set LANDFALL_INFRA_ENV_ID")?,
            agent_version: self.agent_version.clone(),
            host_id: match &dry {
                Some(DryRun { host_id: Some(pretended), .. }) => Some(*pretended),
                _ => parsed("--host-id", service.host_id.as_deref())?,
            },
            dry,
            program: OURSELVES.into(),
            media: Media::default(),
            reboot: !self.no_reboot,
            limits: Limits::default(),
            outputs: Outputs { directory: self.state_dir.clone(), consoles: self.console.then(Consoles::default) },
            pace: Pace {
                interval: seconds("--interval", &self.interval, pace.interval)?,
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

/// The names of a host that somebody else has registered.
fn registered(settings: &Settings) -> anyhow::Result<Registered> {
    let host_id = settings.host_id.context("no host to poll for: give --host-id or set LANDFALL_HOST_ID")?;
    let (infra_env_id, agent_version) = (settings.infra_env_id, settings.agent_version.clone());
    Ok(Registered { infra_env_id, host_id, agent_version })
}

/// What is there and not blank: units set variables to nothing.
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
        _ => bail!("true or false is wanted here, not '{text}'"),
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
        Agent::from_arg_matches(&matches)?.settings(Secret::new("t0ken"))
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
        assert!(error(&["--url", "http://s", "--infra-env-id", "x"]).starts_with("--infra-env-id 'x' is not usable: "));
        assert!(error(&[&base[..], &["--interval", "soon"]].concat()).starts_with("--interval 'soon'"));
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
