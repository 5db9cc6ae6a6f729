//! `landfall wait`: waits until a cluster reaches a goal, or cannot reach it any more.

use super::{
    Console, Reach, Session,
    culprit::{Urgency, culprits, fitted, reason, stage, urgency, urgent_first},
    display_name, host_name,
};
use crate::text::{self, at, number_at};
use api::endpoint::GET_CLUSTER;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::signal::unix::{SignalKind, signal};

/// Of a host's state with its reason, in a line of progress.
const MAX_STATE_CHARS: usize = 100;
/// It failed, was cancelled, or is past the goal.
const EXIT_FAILED: u8 = 3;
/// As of timeout(1).
const EXIT_TIMEOUT: u8 = 124;
/// As of a shell after Ctrl-C.
const EXIT_INTERRUPTED: i32 = 130;

/// Wait until a cluster is ready, installed, …
///
/// Shows the hosts' progress on standard error: in one line on a terminal, else a line per change. If the service stops
/// answering, it keeps trying.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall wait rack --for known --hosts 3   # three hosts are fit
  landfall wait rack --for ready && landfall cluster install rack
  landfall wait rack --for installed --timeout 2h

Exit codes: 0 reached, 1 refused by the service, 2 wrong usage, 3 the installation failed or was cancelled, or the cluster is \
past the state waited for, 124 timeout, 130 Ctrl-C.")]
pub struct Wait {
    #[command(flatten)]
    reach: Reach,
    /// Cluster: name, id, or start of the id
    cluster: String,
    /// State to wait for
    #[arg(long = "for", value_name = "STATE", default_value = "installed")]
    goal: Goal,
    /// With known: minimum number of hosts
    #[arg(long, value_name = "COUNT")]
    hosts: Option<usize>,
    /// Maximum time to wait: 90m, 2h, 45s
    #[arg(long, value_name = "TIME", default_value = "90m", value_parser = duration)]
    timeout: Duration,
}

/// A state to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// All its hosts are known: they are fit to install
    Known,
    /// It can be installed
    Ready,
    /// The installation has started
    Installing,
    /// All required hosts are installed
    Finalizing,
    /// The cluster is installed
    Installed,
    /// The installation failed
    Error,
    /// The installation was cancelled
    Cancelled,
}

impl Goal {
    fn as_str(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Ready => "ready",
            Self::Installing => "installing",
            Self::Finalizing => "finalizing",
            Self::Installed => "installed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Whether a cluster has reached a goal.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Reached,
    Waiting,
    /// It cannot be reached any more, and why.
    Never(String),
}

/// The position of a status on the way to an installed cluster; `None` for others.
fn rank(status: &str) -> Option<u8> {
    match status {
        "insufficient" | "pending-for-input" => Some(0),
        "ready" => Some(1),
        "preparing-for-installation" => Some(2),
        "installing" | "installing-pending-user-action" => Some(3),
        "finalizing" => Some(4),
        "installed" | "adding-hosts" => Some(5),
        _ => None,
    }
}

fn judge(goal: Goal, cluster: &Value, least_hosts: usize) -> Verdict {
    let status = at(cluster, "/status");
    if status == goal.as_str() {
        return Verdict::Reached;
    }
    let past = |limit: u8| rank(status).is_some_and(|rank| rank > limit);
    let never = |what: &str| Verdict::Never(format!("{what}: {}", text::plain(at(cluster, "/status_info"))));
    match goal {
        Goal::Known if past(1) => never(&format!("it is already {status}")),
        Goal::Known => {
            let hosts = cluster.get("hosts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let known = hosts.iter().filter(|host| at(host, "/status") == "known").count();
            if known == hosts.len() && known >= least_hosts.max(1) { Verdict::Reached } else { Verdict::Waiting }
        }
        Goal::Ready if past(1) => never(&format!("it is already {status}")),
        Goal::Installing if past(2) => Verdict::Reached,
        Goal::Finalizing if past(4) => Verdict::Reached,
        Goal::Installed if status == "adding-hosts" => Verdict::Reached,
        Goal::Error | Goal::Cancelled if past(4) => never(&format!("it is {status}")),
        Goal::Installing | Goal::Finalizing | Goal::Installed if matches!(status, "error" | "cancelled") => {
            never(if status == "error" { "the installation failed" } else { "the installation was cancelled" })
        }
        _ => Verdict::Waiting,
    }
}

/// Its status in one line.
fn line(cluster: &Value) -> String {
    let mut line = format!("{} {}", display_name(cluster), at(cluster, "/status"));
    let begun = rank(at(cluster, "/status")).is_some_and(|rank| rank >= 2);
    if begun {
        line.push_str(&format!(", {} %", number_at(cluster, "/progress/total_percentage")));
    }
    for host in urgent_first(cluster) {
        let (status, stage) = (at(host, "/status"), stage(host));
        let state = match urgency(host) {
            Urgency::Well if stage.is_empty() => status.to_owned(),
            Urgency::Well => stage,
            _ => format!("{status}: {}", reason(host)),
        };
        line.push_str(&format!("; {}: {}", host_name(host), text::cut(&state, MAX_STATE_CHARS)));
    }
    text::plain(&line)
}

impl Wait {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        Console::standard(|console| self.run_on(console))
    }

    /// The same, printing to `console`.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let session = self.reach.session()?;
        let id = session.cluster_id(&self.cluster)?;
        follow(&session, console, &id, self.goal, self.hosts, self.timeout)
    }
}

/// The pause between polls: short at first for a goal that is reached already, then longer to spare the service.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

/// Waits, and prints how it ended.
pub fn follow(
    session: &Session,
    console: &mut Console,
    id: &str,
    goal: Goal,
    hosts: Option<usize>,
    timeout: Duration,
) -> anyhow::Result<ExitCode> {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let end = on_interrupt({
        let bar = bar.clone();
        move || bar.finish_and_clear()
    })?;
    let started = Instant::now();
    let mut said = String::new();
    let mut last = Value::Null;
    let (code, how) = loop {
        match session.client.document(&GET_CLUSTER.at(&[&id])) {
            Ok(cluster) => {
                say(&bar, &mut said, line(&cluster));
                last = cluster;
                match judge(goal, &last, hosts.unwrap_or(1)) {
                    Verdict::Reached => break (ExitCode::SUCCESS, format!("is {}", at(&last, "/status"))),
                    Verdict::Never(why) => {
                        break (ExitCode::from(EXIT_FAILED), format!("will not be {}: {why}", goal.as_str()));
                    }
                    Verdict::Waiting => {}
                }
            }
            // The service is restarting, or the network is down.
            Err(error)
                if error.status().is_none_or(|status| status >= 500)
                    && !matches!(error, api::ClientError::Decode { .. }) =>
            {
                say(&bar, &mut said, format!("{error}"));
            }
            Err(error) => {
                bar.finish_and_clear();
                return Err(error.into());
            }
        }
        let waited = started.elapsed();
        if waited >= timeout {
            let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
            let after = format!(
                "is not {} after {}: its status is {}",
                goal.as_str(),
                text::duration(seconds),
                at(&last, "/status")
            );
            break (ExitCode::from(EXIT_TIMEOUT), after);
        }
        std::thread::sleep(pause(waited).min(timeout.saturating_sub(waited)));
    };
    bar.finish_and_clear();
    drop(end);
    match session.json {
        true => console.json(&last)?,
        false => {
            console.say(text::plain(&format!("cluster {} {how}", display_name(&last))))?;
            if code != ExitCode::SUCCESS {
                let lines = fitted(&culprits(&last), console.width);
                console.out.write_all(lines.as_bytes())?;
            }
        }
    }
    Ok(code)
}

fn say(bar: &ProgressBar, said: &mut String, line: String) {
    if *said == line {
        return;
    }
    match io::stderr().is_terminal() {
        true => bar.set_message(line.clone()),
        // It goes to a log.
        false => drop(io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes())),
    }
    *said = line;
}

/// Until dropped, Ctrl-C and SIGTERM run `tidy` and end the program.
pub(crate) struct OnInterrupt(Option<tokio::sync::oneshot::Sender<()>>);

impl Drop for OnInterrupt {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// Makes Ctrl-C and SIGTERM clean up.
pub(crate) fn on_interrupt(tidy: impl FnOnce() + Send + 'static) -> io::Result<OnInterrupt> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (keep, over) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let interrupted = runtime.block_on(async {
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return false };
            tokio::select! {
                pressed = tokio::signal::ctrl_c() => pressed.is_ok(),
                _ = terminate.recv() => true,
                _ = over => false,
            }
        });
        if interrupted {
            tidy();
            std::process::exit(EXIT_INTERRUPTED);
        }
    });
    Ok(OnInterrupt(Some(keep)))
}

/// A duration as users write it: `90m`, `2h`, `45s`, `1h30m`, or seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a duration: write 45s, 90m, 2h or 1h30m");
    let mut seconds = 0_u64;
    let mut number = String::new();
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(bad()),
        };
        let count: u64 = std::mem::take(&mut number).parse().map_err(|_| bad())?;
        seconds = count.checked_mul(unit).and_then(|part| seconds.checked_add(part)).ok_or_else(bad)?;
    }
    if !number.is_empty() {
        let rest: u64 = number.parse().map_err(|_| bad())?;
        // A bare number is seconds, but not after a unit.
        if text.chars().any(|c| c.is_ascii_alphabetic()) {
            return Err(bad());
        }
        seconds = rest;
    } else if text.is_empty() {
        return Err(bad());
    }
    // Ten years is as good as for ever, and an Instant can still be that far away.
    Ok(Duration::from_secs(seconds.min(10 * 365 * 86_400)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn goals_are_judged_by_the_way_to_them() {
        let judged = |goal, status: &str, hosts: &[&str]| {
            let hosts: Vec<Value> = hosts.iter().map(|status| json!({"status": status})).collect();
            match judge(goal, &json!({"status": status, "status_info": "why", "hosts": hosts}), 2) {
                Verdict::Reached => "reached".to_owned(),
                Verdict::Waiting => "waiting".to_owned(),
                Verdict::Never(why) => why,
            }
        };
        for (goal, status, hosts, outcome) in [
            (Goal::Installed, "installing", [].as_slice(), "waiting"),
            (Goal::Installed, "installed", &[], "reached"),
            (Goal::Installed, "adding-hosts", &[], "reached"),
            (Goal::Installed, "error", &[], "the installation failed: why"),
            (Goal::Installed, "cancelled", &[], "the installation was cancelled: why"),
            (Goal::Installed, "insufficient", &[], "waiting"),
            (Goal::Installing, "finalizing", &[], "reached"),
            (Goal::Finalizing, "installing-pending-user-action", &[], "waiting"),
            (Goal::Ready, "pending-for-input", &[], "waiting"),
            (Goal::Ready, "installing", &[], "it is already installing: why"),
            // After a failure somebody may reset it.
            (Goal::Ready, "error", &[], "waiting"),
            (Goal::Error, "error", &[], "reached"),
            (Goal::Error, "installed", &[], "it is installed: why"),
            (Goal::Known, "insufficient", &["known", "known"], "reached"),
            (Goal::Known, "ready", &["known", "insufficient"], "waiting"),
            (Goal::Known, "insufficient", &["known"], "waiting"),
            (Goal::Known, "installed", &["installed", "installed"], "it is already installed: why"),
        ] {
            assert_eq!(judged(goal, status, hosts), outcome, "{goal:?} {status}");
        }
    }

    #[test]
    fn times() {
        for (text, seconds) in [("45", 45), ("45s", 45), ("90m", 5400), ("1h30m", 5400), ("2d", 172_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "m", "-5s", "5x", "1h30", "99999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_tells_of_every_host() {
        let cluster = json!({"name": "rack", "status": "installing", "progress": {"total_percentage": 43}, "hosts": [
            {"requested_hostname": "b\u{1b}[0m", "status": "known"},
            {"requested_hostname": "a", "status": "installing-in-progress", "progress": {"current_stage": "Writing image to disk", "progress_info": "40%"}},
            {"requested_hostname": "c", "status": "error", "status_info": "the disk is full"},
        ]});
        assert_eq!(
            line(&cluster),
            "rack installing, 43 %; c: error: the disk is full; a: Writing image to disk: 40%; b [0m: known"
        );
    }
}
