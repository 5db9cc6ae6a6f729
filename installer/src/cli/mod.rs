//! `landfall install`, which is also `coreos-installer install`.

pub mod config;
mod expand;
mod live;
mod request;
mod role;
pub(crate) mod values;
mod write;

use crate::display::{Display, Style};
use anyhow::Context;
use clap::{Args, FromArgMatches};
use config::InstallConfig;
use diskwrite::InstallError;
use kernel::Cancel;
pub(crate) use live::live_value;
use role::RoleArgs;
use serde::Serialize;
use std::{
    ffi::OsStr,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

const PROGRESS: &str = "Plan and progress";
const OTHER: &str = "Other ways to say what to install";

/// Whose wording messages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Voice {
    /// Ours.
    #[default]
    Landfall,
    /// Those of coreos-installer, for what was written for it.
    CoreosInstaller,
}

/// Install an image to a disk
///
/// Writes a CoreOS-style image to a disk and prepares its first boot. The disk's contents are destroyed, except partitions
/// to keep. Its first MiB, with the partition table, is written last, after everything else was checked and read back. It
/// is cleared if anything fails or a signal stops the command: a half-written disk does not boot.
///
/// Takes the options of coreos-installer, and more.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    mut_arg("dest_device", |disk| disk.required_unless_present_any(["config_file", "disk", "live", "request", "role", "stop"])),
    after_help = "\
Exit codes:
  0    installed (or the plan was printed)
  1    failed; the message gives the disk's state: untouched, partition table cleared, or left as requested
  2    wrong usage
  125  with --request or --role: another installation is running

Examples:
  landfall install -i host.ign /dev/sdb   # the live system's image, or stable
  landfall install -s testing -I https://10.0.0.1/host.ign /dev/sdb
  landfall install -f fedora-coreos.raw.xz --insecure -i host.ign \\
    --disk S4EVNX0M123456
  landfall install -u http://10.0.0.1/coreos.raw.gz --console ttyS0,115200 \\
    --append-karg debug /dev/sdb
  landfall install -i host.ign --save-partlabel 'data*' \\
    --save-partindex 5- /dev/sdb
  landfall install --dry-run -i host.ign /dev/sdb
  landfall install --role bootstrap --control-plane-count 3 \\
    --boot-device /dev/sdb --dry-run
  landfall install -c edge.yaml -c site.yaml   # options from files
  landfall install --live   # as kernel arguments and Ignition say

A request is {\"request\": {…}, \"service\": {\"url\", \"token\", \"ca_cert\", \"insecure\", \"agent_version\"}, \
\"reboot\": false, \"reboot_delay_seconds\": 10} with the service's install_cmd_request as \"request\"."
)]
pub struct Install {
    #[command(flatten)]
    config: InstallConfig,

    /// Print what would be done and do nothing
    #[arg(long, help_heading = PROGRESS)]
    dry_run: bool,
    /// How to show progress
    #[arg(long, value_name = "STYLE", value_enum, default_value_t, help_heading = PROGRESS)]
    progress: Style,
    /// The same as --progress json; with --dry-run the plan is JSON
    #[arg(long, help_heading = PROGRESS)]
    json: bool,

    /// Install as this live system is configured: by files in /etc/coreos/installer.d and coreos.inst.* kernel arguments
    ///
    /// Options on the command line override them. The kernel's network arguments are passed to the first boot. After the
    /// installation the files are deleted, as coreos-installer.service does.
    #[arg(long, help_heading = OTHER, conflicts_with = "request")]
    live: bool,
    /// Directory in which --live finds /etc and /proc
    #[arg(long, value_name = "DIR", default_value = "/", requires = "live", help_heading = OTHER)]
    root: PathBuf,
    /// Carry out a service's install request from a JSON file, or from standard input with '-'
    #[arg(long, value_name = "PATH", help_heading = OTHER, conflicts_with = "InstallConfig")]
    request: Option<PathBuf>,
    #[command(flatten)]
    role: RoleArgs,
    /// Stop the installation that a service's request started on this host, and print its name if there was one
    ///
    /// It has 30 seconds to clear the partition table, so that a half-written disk can't boot; then it is killed.
    #[arg(long, help_heading = OTHER, conflicts_with_all = ["request", "live", "InstallConfig"])]
    stop: bool,
}

impl Install {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.run_as(Voice::Landfall)
    }

    /// Runs the command in the words of `voice`.
    pub fn run_as(mut self, voice: Voice) -> anyhow::Result<ExitCode> {
        if self.json {
            self.progress = Style::Json;
        }
        if self.stop {
            return self.run_stop();
        }
        if let Some(role) = self.role.role {
            return self.run_document(&self.role_document(role)?);
        }
        if let Some(path) = &self.request {
            return self.run_request(path);
        }
        if self.live {
            self.config = self.read_live()?;
        }
        if !self.config.config_file.is_empty() {
            self.config = self.read_config_files()?;
        }
        let code = match self.run_disk(voice) {
            Err(error) if voice == Voice::CoreosInstaller => match error.downcast::<InstallError>() {
                Ok(error) => return Err(write::in_its_words(error)),
                Err(error) => return Err(error),
            },
            result => result?,
        };
        if self.live && !self.dry_run {
            live::forget(&self.root);
        }
        Ok(code)
    }

    /// The options of this command line behind those of the live system.
    fn read_live(&self) -> anyhow::Result<InstallConfig> {
        let mut words = live::words(&self.root)?;
        let files = parse(&words).context("processing the live system's configuration")?.config_file;
        words.extend(expand::words_for(&self.config)?);
        if self.config.fetch_retries.is_none() && !expand::any(&files, |config| config.fetch_retries.is_some())? {
            // The disk is for this installation alone, and the network may come late.
            words.extend(expand::option("fetch-retries", "infinite"));
        }
        self.say(&format!("coreos-installer install {}", words.join(" ")));
        let mut config = parse(&words).context("processing the live system's configuration")?;
        config.config_file.extend_from_slice(&self.config.config_file);
        Ok(config)
    }

    /// The options of the config files and, behind them, of this command line.
    fn read_config_files(&self) -> anyhow::Result<InstallConfig> {
        let words = expand::expand(&self.config)?;
        self.say(&format!("Running with arguments: {}", words.join(" ")));
        parse(&words).context("reprocessing command-line arguments")
    }

    /// Standard output is for people here, unless it is for events.
    fn say(&self, line: &str) {
        let _ = match self.progress {
            Style::Json => writeln!(io::stderr(), "{line}"),
            _ => writeln!(io::stdout(), "{line}"),
        };
    }

    /// Whether people watch a bar. The stages of a role's flow are in the log.
    pub fn has_bar(&self) -> bool {
        let is_flow = self.role.role.is_some() || self.request.is_some() || self.stop;
        !is_flow && !self.json && self.progress.is_bar() && io::stderr().is_terminal()
    }

    fn display(&self) -> Display {
        Display::new(self.progress)
    }

    fn cancel_on_signals(&self) -> anyhow::Result<Cancel> {
        let cancel = Cancel::default();
        cancel.on_signals().context("cannot wait for signals")?;
        Ok(cancel)
    }

    fn print(&self, plan: &impl Serialize, text: &str) -> anyhow::Result<ExitCode> {
        let json = self.progress == Style::Json;
        let text = if json { format!("{}\n", serde_json::to_string_pretty(plan)?) } else { text.to_owned() };
        match io::stdout().write_all(text.as_bytes()) {
            // The reader has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            result => Ok(result.map(|()| ExitCode::SUCCESS)?),
        }
    }
}

/// The options that these words of a command line are, by the same rules.
fn parse(words: &[String]) -> Result<InstallConfig, clap::Error> {
    parse_line(words).map(|install| install.config)
}

fn parse_line<W: AsRef<OsStr>>(words: &[W]) -> Result<Install, clap::Error> {
    let command = Install::augment_args(clap::Command::new("install").no_binary_name(true));
    let words = words.iter().map(|word| word.as_ref().to_owned());
    Install::from_arg_matches(&command.try_get_matches_from(words)?)
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
