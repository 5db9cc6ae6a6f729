//! `landfall agent status`.

use super::console::{Consoles, block};
use super::{STATUS_FILE, Snapshot, read, view::View};
use crate::config::{Key, Sources};
use crate::notify::Notifier;
use anyhow::Context;
use api::Timestamp;
use inventory::Root;
use std::{
    io::{self, ErrorKind, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

const LOOK: Duration = Duration::from_millis(500);
/// Between two blocks on a console, which people read.
const CONSOLE_LOOK: Duration = Duration::from_secs(3);

const EXIT_NOT_WORKING: u8 = 3;
const EXIT_NOT_RUNNING: u8 = 4;

/// Show the state of this host's agent: registered or not, what runs, what failed
///
/// Reads the running agent's status file; contacts neither the agent nor the service.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  registered, and the service answers
  1  the file can't be read
  2  wrong usage
  3  running, but not registered, or the service can't be reached
  4  not running

Examples:
  landfall agent status
  landfall agent status --json | jq .service
  landfall agent status --follow
  landfall agent status --console      # what landfall-status.service does
  landfall console                     # a screen with forms")]
pub struct Status {
    /// Print the file's JSON, with `alive` added
    #[arg(long)]
    json: bool,
    /// Keep running, and print again whenever something changes
    #[arg(long)]
    follow: bool,
    /// Keep running, and show changes on the machine's consoles and at their login prompts; without an agent, show its
    /// configuration
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    console: bool,
    /// Directory of the agent's state
    #[arg(long = "in", value_name = "DIR", default_value = "/run/landfall")]
    directory: PathBuf,
}

impl Status {
    /// Runs the command, with what the agent's options say.
    pub fn run(self, command_line: Vec<(Key, String)>, file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
        let root = Root::open("/")?;
        let environment = |name: &str| std::env::var(name).ok();
        let sources = Sources { command_line, environment: &environment, file, root: &root };
        if self.console {
            self.show(&sources, &Consoles::default(), &Notifier::from_env());
        }
        let mut printed = None;
        loop {
            let view = View::now(read(&self.directory)?, &sources);
            let text = match &view.agent {
                Some((snapshot, alive)) => self.text(&view, snapshot, *alive)?,
                None => format!("no agent is running: {} does not exist\n", self.directory.join(STATUS_FILE).display()),
            };
            if printed.as_ref() != Some(&text) {
                match io::stdout().write_all(text.as_bytes()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                    result => result.context("printing")?,
                }
                printed = Some(text);
            }
            if !self.follow {
                return Ok(match &view.agent {
                    Some((snapshot, true)) if snapshot.is_working(Timestamp::now()) => ExitCode::SUCCESS,
                    Some((_, true)) => ExitCode::from(EXIT_NOT_WORKING),
                    _ => ExitCode::from(EXIT_NOT_RUNNING),
                });
            }
            thread::sleep(LOOK);
        }
    }

    /// Shows it until the process is ended: failures are not errors, as there is no user to act on them.
    fn show(&self, sources: &Sources, consoles: &Consoles, notifier: &Notifier) -> ! {
        let mut shown = String::new();
        let mut ready = false;
        loop {
            let found = read(&self.directory).unwrap_or_else(|error| {
                tracing::warn!("{error:#}");
                None
            });
            let block = block(&View::now(found, sources));
            if block != shown {
                consoles.show(&block);
                shown = block;
            }
            if !std::mem::replace(&mut ready, true) {
                notifier.ready();
            }
            thread::sleep(CONSOLE_LOOK);
        }
    }

    fn text(&self, view: &View, snapshot: &Snapshot, alive: bool) -> anyhow::Result<String> {
        if self.json {
            let mut json = api::json::to_value(snapshot)?;
            json["alive"] = alive.into();
            // One line each where more may follow.
            let text = if self.follow { json.to_string() } else { format!("{json:#}") };
            return Ok(format!("{text}\n"));
        }
        let mut text = block(view);
        let time = |time: Option<Timestamp>| time.map_or_else(|| "never".to_owned(), |time| time.to_string());
        let mut line = |name: &str, value: String| text.push_str(&format!(" {name:<10} {value}\n"));
        let state = if alive { "running" } else { "no longer running" };
        line("process", format!("{} {state}, started {}", snapshot.pid, snapshot.started));
        line("infra-env", snapshot.infra_env_id.map_or_else(|| "unknown".to_owned(), |id| id.to_string()));
        line("registered", time(snapshot.registered));
        line("last poll", time(snapshot.service.last_poll));
        line("answered", time(snapshot.service.last_success));
        line("next poll", time(snapshot.service.next_poll));
        line("replies", format!("{} waiting", snapshot.replies_waiting));
        for running in &snapshot.running {
            let pid = running.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
            let deadline = running.deadline.map_or_else(String::new, |at| format!(", until {at} at most"));
            line("runs", format!("{} since {}{pid}{deadline}", running.step_type, running.since));
        }
        for (kind, last) in &snapshot.last_results {
            line("ended", format!("{kind} with {} at {}", last.exit_code, last.at));
        }
        Ok(text)
    }
}
