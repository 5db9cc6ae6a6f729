//! The block of lines for who stands in front of the machine.

use super::{Snapshot, replace};
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Name of the file that agetty shows before its prompt.
const ISSUE_FILE: &str = "50-landfall.issue";
/// Of a console and its rule.
const WIDTH: usize = 78;
const MAX_VALUE_CHARS: usize = 220;

/// Where people look.
#[derive(Clone, Debug)]
pub struct Consoles {
    /// The kernel's list of its consoles: `/sys/class/tty/console/active`.
    pub active: PathBuf,
    /// Where their devices are.
    pub devices: PathBuf,
    /// Where agetty looks for more than `/etc/issue`; nothing is written unless it can be made.
    pub issue: PathBuf,
}

impl Default for Consoles {
    fn default() -> Self {
        Self { active: "/sys/class/tty/console/active".into(), devices: "/dev".into(), issue: "/run/issue.d".into() }
    }
}

impl Consoles {
    /// Writes `block` to each console. One that doesn't take it at once, a serial line without a listener, say, misses it.
    pub(super) fn show(&self, block: &str) {
        let active = fs::read_to_string(&self.active).unwrap_or_default();
        for name in active.split_whitespace().filter(|name| !name.contains('/')) {
            if let Err(error) = print(&self.devices.join(name), block) {
                tracing::debug!(console = name, %error, "the status is not shown");
            }
        }
        // agetty takes a backslash for the start of a code.
        let issue = format!("{}\n", block.replace('\\', "\\\\"));
        let written = fs::create_dir_all(&self.issue).and_then(|()| replace(&self.issue, ISSUE_FILE, issue.as_bytes()));
        if let Err(error) = written {
            tracing::debug!(directory = %self.issue.display(), %error, "the status is not shown at the login prompt");
        }
    }
}

fn print(device: &Path, block: &str) -> std::io::Result<()> {
    let mut open = OpenOptions::new();
    let mut console = open.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(device)?;
    console.write_all(format!("\n{block}").as_bytes())
}

/// Plain ASCII lines: some consoles know nothing else.
pub(super) fn block(now: &Snapshot) -> String {
    let mut block = format!("{:-<WIDTH$}\n", "-- Landfall ");
    let mut line = |name: &str, value: &str| {
        let value: String = value.chars().map(printable).take(MAX_VALUE_CHARS).collect();
        let _ = writeln!(block, " {name:<10} {}", value.trim_end());
    };
    line("host", &now.host_id.map_or_else(|| "not identified yet".to_owned(), |id| id.to_string()));
    line("addresses", &if now.addresses.is_empty() { "none".to_owned() } else { now.addresses.join("  ") });
    let registered = if now.registered.is_some() { ", this host is registered" } else { "" };
    line("service", &format!("{}: {}{registered}", now.service.url, now.service.state.as_str()));
    if let Some(stage) = &now.stage {
        line("stage", &format!("{} {}", stage.stage, stage.info));
    }
    if let Some(action) = &now.user_action {
        line("to be done", action);
    }
    let last = now.last_step.as_ref().and_then(|kind| Some((kind, now.last_results.get(&kind.to_string())?)));
    if let Some((kind, last)) = last {
        let result = if last.exit_code == 0 { "ok".to_owned() } else { format!("failed ({})", last.exit_code) };
        line("last step", &format!("{kind} {result}"));
    }
    if let Some(clock) = &now.clock {
        line("clock", clock);
    }
    if let Some(failure) = now.last_error.as_ref().filter(|failure| !failure.resolved) {
        let step = failure.step_type.as_ref().map_or_else(String::new, |kind| format!("{kind}: "));
        line("error", &format!("{step}{}", failure.text));
    }
    let _ = writeln!(block, "{}", "-".repeat(WIDTH));
    block
}

fn printable(c: char) -> char {
    match c {
        ' '..='~' => c,
        '\u{2019}' => '\'',
        _ => '?',
    }
}
