//! `landfall event`.

use super::{Console, Reach, Session};
use crate::text::{at, cut, plain};
use api::endpoint::{LIST_EVENTS, Target};
use serde_json::Value;
use std::{collections::VecDeque, process::ExitCode, time::Duration};

/// Pause between polls for new events.
const PAUSE: Duration = Duration::from_secs(2);
/// How many of the newest events a poll requests.
const WINDOW: usize = 500;
/// A longer message is cut: some contain documents. `--json` has the whole.
const MAX_MESSAGE_CHARS: usize = 500;

/// Events: list or follow them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall event list --cluster rack --limit 20
  landfall event list --severity error,critical --json
  landfall event follow --cluster rack

Exit codes: 0 success, 1 failure, 2 wrong usage.")]
pub struct Event {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the newest events, the newest last
    List {
        #[command(flatten)]
        which: Which,
        /// Maximum number
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: usize,
    },
    /// Print the newest events, then each new one until Ctrl-C; with --json one document per line
    Follow {
        #[command(flatten)]
        which: Which,
        /// Number of past events to print first
        #[arg(long, value_name = "COUNT", default_value_t = 10)]
        limit: usize,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Only events of this cluster
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Only events of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only events of this infra-env
    #[arg(long, value_name = "INFRA-ENV")]
    infra_env: Option<String>,
    /// Only these severities: info, warning, error, critical
    #[arg(long, value_name = "SEVERITY", value_delimiter = ',', value_parser = crate::events::Severity::NAMES)]
    severity: Vec<String>,
}

impl Which {
    fn target(&self, session: &Session) -> anyhow::Result<Target> {
        let mut target = LIST_EVENTS.at(&[]).with("order", "descending");
        let cluster = self.cluster.as_deref().map(|cluster| session.cluster_id(cluster)).transpose()?;
        if let Some(host) = &self.host {
            let host = match &cluster {
                Some(cluster) => session.host_of(cluster, host)?,
                None => session.host(host, self.infra_env.as_deref())?,
            };
            target = target.with("host_id", at(&host, "/id"));
        }
        if let Some(cluster) = cluster {
            target = target.with("cluster_id", cluster);
        }
        if let Some(infra_env) = &self.infra_env {
            target = target.with("infra_env_id", session.infra_env_id(infra_env)?);
        }
        if !self.severity.is_empty() {
            target = target.with("severities", self.severity.join(","));
        }
        Ok(target)
    }
}

impl Event {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        Console::standard(|console| self.run_on(console))
    }

    /// The same, printing to `console`.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let session = self.reach.session()?;
        match self.command {
            Command::List { which, limit } => {
                let events = newest(&session, which.target(&session)?, limit)?;
                match session.json {
                    true => console.json(&Value::Array(events))?,
                    false => events.iter().try_for_each(|event| console.say(line(event)))?,
                }
            }
            Command::Follow { which, limit } => follow(&session, console, &which.target(&session)?, limit)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Oldest first.
fn newest(session: &Session, target: Target, limit: usize) -> anyhow::Result<Vec<Value>> {
    let mut events = session.list(&target.with("limit", limit))?;
    events.reverse();
    Ok(events)
}

fn line(event: &Value) -> String {
    let time = at(event, "/event_time").split('.').next().unwrap_or_default().replace('T', " ");
    let message = cut(at(event, "/message"), MAX_MESSAGE_CHARS);
    plain(&format!("{time}  {:<8}  {message}", at(event, "/severity")))
}

fn follow(session: &Session, console: &mut Console, target: &Target, first: usize) -> anyhow::Result<()> {
    let mut seen = VecDeque::new();
    let mut begun = false;
    loop {
        match newest(session, target.clone(), WINDOW) {
            Ok(events) => {
                let skipped = if begun { 0 } else { events.len().saturating_sub(first) };
                for event in unseen(&mut seen, events).into_iter().skip(skipped) {
                    match session.json {
                        true => console.say(event.to_string())?,
                        false => console.say(line(&event))?,
                    }
                }
                begun = true;
                console.out.flush()?;
            }
            // It worked before: the service may be restarting.
            Err(error) if begun => tracing::warn!("{error:#}"),
            Err(error) => return Err(error),
        }
        std::thread::sleep(PAUSE);
    }
}

/// The events that were not among the last seen. Events have no id: two with identical content count as one.
fn unseen(seen: &mut VecDeque<Value>, events: Vec<Value>) -> Vec<Value> {
    let new: Vec<Value> = events.into_iter().filter(|event| !seen.contains(event)).collect();
    seen.extend(new.iter().cloned());
    let spare = seen.len().saturating_sub(2 * WINDOW);
    seen.drain(..spare);
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_event_is_printed_once() {
        let event = |n: i32| json!({"message": n});
        let mut seen = VecDeque::new();
        assert_eq!(unseen(&mut seen, vec![event(1), event(2)]).len(), 2);
        assert_eq!(unseen(&mut seen, vec![event(2), event(3)]), [event(3)]);
        assert!(unseen(&mut seen, vec![event(2), event(3)]).is_empty());
    }

    #[test]
    fn a_line_is_one_line() {
        let event = json!({"event_time": "2026-11-21T03:15:46.123Z", "severity": "info", "message": "a\nb"});
        assert_eq!(line(&event), "2026-11-21 03:15:46  info      a b");
        assert!(line(&json!({"message": "{}".repeat(5000)})).chars().count() < 600);
    }
}
