//! What people in front of the machine read: lines, and a block of them.

use super::replace;
use super::view::{Configured, View};
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Exists while `landfall console` has the first screen: the directory of its unit.
const SCREEN: &str = "/run/landfall-console";
/// Name of the file that agetty shows before its prompt.
const ISSUE_FILE: &str = "50-landfall.issue";
/// Of a console and its rule.
const WIDTH: usize = 78;
const MAX_VALUE_CHARS: usize = 220;
/// At the end of a longer one.
const MORE: &str = "...";

/// Where people look.
#[derive(Clone, Debug)]
pub(super) struct Consoles {
    /// The kernel's list of its consoles: `/sys/class/tty/console/active`.
    pub active: PathBuf,
    /// Where their devices are.
    pub devices: PathBuf,
    /// Where agetty looks for more than `/etc/issue`; nothing is written unless it can be made.
    pub issue: PathBuf,
    /// While it exists, screens get nothing: `landfall console` draws there.
    pub screen: PathBuf,
}

impl Default for Consoles {
    fn default() -> Self {
        Self {
            active: "/sys/class/tty/console/active".into(),
            devices: "/dev".into(),
            issue: "/run/issue.d".into(),
            screen: SCREEN.into(),
        }
    }
}

impl Consoles {
    /// Writes `block` to each console. One that doesn't take it at once, a serial line without a listener, say, misses it.
    pub(super) fn show(&self, block: &str) {
        let active = fs::read_to_string(&self.active).unwrap_or_default();
        let drawn_on = self.screen.exists();
        let is_wanted = |name: &&str| !(name.contains('/') || drawn_on && is_screen(name));
        for name in active.split_whitespace().filter(is_wanted) {
            if let Err(error) = print(&self.devices.join(name), block) {
                tracing::debug!(console = name, %error, "cannot show the status on this console");
            }
        }
        // agetty takes a backslash for the start of a code.
        let issue = format!("{}\n", block.replace('\\', "\\\\"));
        let written = fs::create_dir_all(&self.issue).and_then(|()| replace(&self.issue, ISSUE_FILE, issue.as_bytes()));
        if let Err(error) = written {
            tracing::debug!(directory = %self.issue.display(), %error, "cannot show the status at the login prompt");
        }
    }
}

/// Whether it is a virtual terminal: `tty0`, `tty1`, but not `ttyS0`.
fn is_screen(name: &str) -> bool {
    name.strip_prefix("tty").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn print(device: &Path, block: &str) -> std::io::Result<()> {
    let mut open = OpenOptions::new();
    let mut console = open.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(device)?;
    console.write_all(format!("\n{block}").as_bytes())
}

/// Plain ASCII lines: some consoles know nothing else.
pub(super) fn block(view: &View) -> String {
    let mut block = format!("{:-<WIDTH$}\n", "-- Landfall ");
    for (name, value) in lines(view) {
        let _ = writeln!(block, " {name:<10} {value}");
    }
    let _ = writeln!(block, "{}", "-".repeat(WIDTH));
    block
}

/// What the host does, each line with its name; printable ASCII.
pub fn lines(view: &View) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut line = |name, value: &str| {
        let mut value: String = plain(value).take(MAX_VALUE_CHARS + 1).collect();
        if value.len() > MAX_VALUE_CHARS {
            value.truncate(MAX_VALUE_CHARS - MORE.len());
            value.push_str(MORE);
        }
        lines.push((name, value.trim_end().to_owned()));
    };
    let alive = view.agent.as_ref().is_some_and(|(_, alive)| *alive);
    let snapshot = view.agent.as_ref().map(|(snapshot, _)| snapshot);
    line("name", &view.name);
    if let Some(id) = snapshot.and_then(|now| now.host_id) {
        line("host", &id.to_string());
    }
    line("addresses", &if view.addresses.is_empty() { "none".to_owned() } else { view.addresses.join("  ") });
    let service = match (snapshot.filter(|_| alive), &view.configured) {
        (Some(now), _) => {
            let registered = if now.registered.is_some() { ", this host is registered" } else { "" };
            format!("{}: {}{registered}", now.service.url, now.service.state.as_str())
        }
        (None, Configured::Service(url)) => url.clone(),
        (None, Configured::Rendezvous(place)) => format!("from the rendezvous: {place}"),
        (None, Configured::Nothing | Configured::Unusable(_)) => {
            snapshot.map_or_else(|| "none".to_owned(), |now| now.service.url.clone())
        }
    };
    line("service", &service);
    let agent = match (snapshot, &view.configured) {
        (Some(now), _) if alive => {
            let steps: Vec<_> = now.running.iter().map(|running| running.step_type.to_string()).collect();
            if steps.is_empty() { "running".to_owned() } else { format!("running {}", steps.join(", ")) }
        }
        (_, Configured::Rendezvous(_)) if view.agent_starts => "asking the rendezvous".to_owned(),
        (_, _) if view.agent_starts => "starting".to_owned(),
        (None, Configured::Nothing) => "off: no service is configured".to_owned(),
        (Some(_), _) => "no longer running".to_owned(),
        (None, _) => "not running".to_owned(),
    };
    line("agent", &agent);
    match view.serves {
        Some(true) => line("rendezvous", "this host serves the rack"),
        Some(false) => line("rendezvous", "this host has the rack's plan, but does not serve"),
        None => (),
    }
    if let (Configured::Unusable(why), false) = (&view.configured, alive) {
        line("error", why);
    }
    let Some(now) = snapshot else { return lines };
    if let Some(stage) = &now.stage {
        line("stage", &format!("{} {}", stage.stage, stage.info));
    }
    if let Some(action) = &now.user_action {
        line("to do", action);
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
    lines
}

/// The text's characters, those that not every console has replaced.
pub fn plain(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| match c {
        ' '..='~' => c,
        '\u{2019}' => '\'',
        _ => '?',
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Snapshot;
    use api::StepType;
    use serde_json::json;

    fn agent(alive: bool) -> Option<(Snapshot, bool)> {
        let file = json!({"host_id": "b1f5c5b7-caf8-66bd-addd-439b331f2640", "registered": "2026-01-01T00:00:00Z",
            "service": {"url": "https://s", "state": "reachable"}, "last_step": "inventory",
            "last_results": {"inventory": {"exit_code": 5, "at": "2026-01-01T00:00:00Z"}},
            "last_error": {"at": "2026-01-01T00:00:00Z", "step_type": "inventory", "text": "no\u{1b}[2J disk\u{2019}s"}});
        Some((serde_json::from_value(file).unwrap(), alive))
    }

    #[test]
    fn the_block_says_what_the_host_does() {
        let url = || Configured::Service("https://s".into());
        // The agent's configuration, whether its unit and the rack's service run, what the agent wrote; the lines of it.
        let place = || Configured::Rendezvous("192.0.2.1".parse().unwrap());
        let rows: [(Configured, bool, Option<bool>, _, &str); 9] = [
            (Configured::Nothing, false, None, None, "service none|agent off: no service is configured"),
            (url(), false, None, None, "service https://s|agent not running"),
            (url(), true, None, None, "service https://s|agent starting"),
            (
                place(),
                true,
                Some(false),
                None,
                "service from the rendezvous: http://192.0.2.1:8090|agent asking the rendezvous|rendezvous this host has the \
                 rack's plan, but does not serve",
            ),
            (
                place(),
                false,
                Some(true),
                None,
                "service from the rendezvous: http://192.0.2.1:8090|agent not running|rendezvous this host serves the rack",
            ),
            (
                Configured::Unusable("infra_env_id: no".into()),
                false,
                None,
                None,
                "service none|agent not running|error infra_env_id: no",
            ),
            (
                Configured::Nothing,
                true,
                None,
                agent(true),
                "host b1f5c5b7-caf8-66bd-addd-439b331f2640|service https://s: reachable, this host is registered|agent running|last step \
                 inventory failed (5)|error inventory: no?[2J disk's",
            ),
            (
                url(),
                false,
                None,
                agent(false),
                "service https://s|agent no longer running|error inventory: no?[2J disk's",
            ),
            (
                Configured::Nothing,
                true,
                None,
                agent(false),
                "service https://s|agent starting|error inventory: no?[2J disk's",
            ),
        ];
        for (configured, agent_starts, serves, agent, expected) in rows {
            let (name, addresses) = ("edge-17".to_owned(), vec!["192.0.2.17".to_owned(), "2001:db8::17".to_owned()]);
            let view = View { name, addresses, configured, agent_starts, serves, agent };
            let block = block(&view);
            let lines: Vec<_> =
                block.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            for line in ["name edge-17", "addresses 192.0.2.17 2001:db8::17"].into_iter().chain(expected.split('|')) {
                assert!(lines.iter().any(|other| other == line), "no '{line}' in\n{block}");
            }
            assert!(block.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)), "{block:?}");
            assert_eq!(
                lines.iter().filter(|line| line.starts_with("error ")).count(),
                expected.matches("error ").count()
            );
        }
    }

    #[test]
    fn each_console_of_the_kernel_and_the_login_prompt_have_it() {
        let dir = tempfile::tempdir().unwrap();
        let devices = dir.path().join("dev");
        fs::create_dir(&devices).unwrap();
        fs::write(dir.path().join("active"), "tty0 ../active ttyS0 ttyS9\n").unwrap();
        for name in ["tty0", "ttyS0"] {
            fs::write(devices.join(name), "").unwrap();
        }
        let (active, issue, screen) =
            (dir.path().join("active"), dir.path().join("issue.d"), dir.path().join("screen"));
        let consoles = Consoles { active, devices, issue, screen };
        consoles.show("-- a\\b\n");
        for name in ["tty0", "ttyS0"] {
            assert_eq!(fs::read_to_string(dir.path().join("dev").join(name)).unwrap(), "\n-- a\\b\n");
        }
        assert_eq!(fs::read_to_string(dir.path().join("issue.d/50-landfall.issue")).unwrap(), "-- a\\\\b\n\n");
        assert_eq!(fs::read_to_string(dir.path().join("active")).unwrap(), "tty0 ../active ttyS0 ttyS9\n");
        fs::create_dir(&consoles.screen).unwrap();
        consoles.show("-- b\n");
        for (name, written) in [("tty0", "\n-- a\\b\n"), ("ttyS0", "\n-- a\\b\n\n-- b\n")] {
            assert_eq!(fs::read_to_string(dir.path().join("dev").join(name)).unwrap(), written, "{name}");
        }
        assert!(!dir.path().join("dev/ttyS9").exists(), "no console is made");
    }

    #[test]
    fn steps_that_run_are_named() {
        let mut snapshot = agent(true).unwrap().0;
        for kind in [StepType::Inventory, StepType::ConnectivityCheck] {
            let running = json!({"step_type": kind, "step_id": "s", "since": "2026-01-01T00:00:00Z"});
            snapshot.running.push(serde_json::from_value(running).unwrap());
        }
        let block = block(&View { agent: Some((snapshot, true)), ..View::default() });
        assert!(block.contains(" agent      running inventory, connectivity-check\n"), "{block}");
    }
}
