//! `landfall console`.

use crate::{
    facts::{Log, gather},
    frame::Frame,
    jobs::{self, Means},
    keys::Decoder,
    screen::{Action, Event, Screen},
    terminal::Terminal,
};
use agent::config::Sources;
use anyhow::Context;
use inventory::Root;
use kernel::{Cancel, mounts::mounts};
use std::{
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// Between two looks at the host.
const LOOK: Duration = Duration::from_secs(2);
/// How long a key is waited for before what else there is is shown.
const KEY_MS: u16 = 250;
/// The kernel and others write to the first screen too: then all of it is drawn again.
const REPAINT: Duration = Duration::from_secs(10);
const CA_FILE: &str = "/run/landfall-console/ca.pem";
/// File systems that are made at boot, in memory.
const LIVE_ROOTS: [&str; 6] = ["overlay", "tmpfs", "ramfs", "rootfs", "squashfs", "erofs"];
const MAX_FILE_BYTES: usize = 1 << 20;

/// Watch this live host on a steady screen, and set its network and its service
///
/// Shows what `landfall agent status` prints, the interfaces, the checks that ran and the agent's log. Forms change the
/// network (NetworkManager takes it back after a minute unless it is kept), the service, and the rendezvous. Their values are
/// in /etc/landfall/console.toml, and win over all but the agent's options.
///
/// Keys: n network, s service, r rendezvous, l log, c how to log in, Up and Down scroll, Ctrl-L draws the screen again, q quits.
/// landfall-console.service runs it on the first screen of a live system; a serial console has landfall-status.service.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  ended by a key or a signal
  1  standard input or output is not a terminal, or it was hung up
  2  wrong usage

Examples:
  landfall console
  landfall console --in /run/landfall
  systemctl stop landfall-console      # the login prompt is back
  landfall agent status --follow       # the same without a terminal")]
pub struct Console {
    /// Directory of the agent's state
    #[arg(long = "in", value_name = "DIR", default_value = "/run/landfall")]
    directory: PathBuf,
    /// Do not quit, and draw all of the screen every ten seconds: others write to it
    #[arg(long)]
    screen_of_live_system: bool,
    /// Only say by the exit code whether this is a live system: 0 yes, 1 no
    #[arg(long, conflicts_with = "screen_of_live_system")]
    is_live_system: bool,
}

impl Console {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.is_live_system {
            return Ok(if is_live(&Root::open("/")?) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        let stop = Cancel::default();
        stop.on_signals_in_order().context("cannot take signals")?;
        let terminal = Terminal::open()?;
        let (sender, events) = channel();
        let watcher = {
            let (directory, sender, stop) = (self.directory.clone(), sender.clone(), stop.clone());
            thread::Builder::new().name("facts".into()).spawn(move || watch(&directory, &sender, &stop))?
        };
        let ended = self.show(&terminal, &sender, &events, &stop);
        stop.cancel();
        let _ = watcher.join();
        ended?;
        Ok(ExitCode::SUCCESS)
    }

    fn show(
        &self,
        terminal: &Terminal,
        sender: &Sender<Event>,
        events: &Receiver<Event>,
        stop: &Cancel,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut screen = Screen::new(!self.screen_of_live_system);
        let mut decoder = Decoder::default();
        let mut shown: Option<Frame> = None;
        let mut painted = Instant::now();
        while !stop.is_cancelled() {
            let (width, height) = terminal.size();
            let frame = screen.draw(width, height);
            if self.screen_of_live_system && painted.elapsed() >= REPAINT {
                shown = None;
            }
            if shown.is_none() {
                painted = Instant::now();
            }
            terminal.write(&frame.changes(shown.as_ref()));
            shown = Some(frame);
            let bytes = terminal.read(KEY_MS)?;
            let keys = if bytes.is_empty() { decoder.pause().into_iter().collect() } else { decoder.feed(&bytes) };
            for key in keys {
                if key == crate::keys::Key::Redraw {
                    shown = None;
                }
                match screen.key(key) {
                    Some(Action::Quit) => return Ok(()),
                    // Not joined: a job that waits for another program does not keep us.
                    Some(action) => drop(spawn(action, sender.clone(), stop.clone())?),
                    None => {}
                }
            }
            screen.tick(start.elapsed().as_secs());
            events.try_iter().for_each(|event| screen.take(event));
        }
        Ok(())
    }
}

/// Calls `work` with what the host's own configuration is read from.
fn with_sources<T>(work: impl FnOnce(&Sources<'_>) -> T) -> anyhow::Result<T> {
    let root = Root::open("/")?;
    let environment = |name: &str| std::env::var(name).ok();
    Ok(work(&Sources { command_line: Vec::new(), environment: &environment, file: None, root: &root }))
}

fn watch(directory: &std::path::Path, sender: &Sender<Event>, stop: &Cancel) {
    let mut log = Log::default();
    loop {
        let gathered = with_sources(|sources| gather(directory, sources, &mut log));
        let event =
            gathered.map_or_else(|error| Event::Refused(format!("{error:#}")), |facts| Event::Facts(Box::new(facts)));
        if sender.send(event).is_err() || stop.sleep(LOOK) {
            return;
        }
    }
}

fn spawn(action: Action, sender: Sender<Event>, stop: Cancel) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("job".into()).spawn(move || {
        let run = |sources: &Sources<'_>| jobs::run(&action, &Means { sources, ca_file: CA_FILE.into(), stop: &stop });
        let event = with_sources(run).unwrap_or_else(|error| Event::Refused(format!("{error:#}")));
        // Its receiver ends only with the process.
        let _ = sender.send(event);
    })
}

/// Whether the system runs from memory: its root is neither on a disk nor a deployment of ostree, which may be an overlay too.
fn is_live(root: &Root) -> bool {
    let text = |path| root.text(path, MAX_FILE_BYTES).unwrap_or_default();
    let is_deployed = text("/proc/cmdline").split_ascii_whitespace().any(|word| word.starts_with("ostree="));
    let mounts = mounts(&text("/proc/self/mountinfo"));
    // The last one is on top.
    let kind = mounts.iter().rfind(|mount| mount.target == "/").map(|mount| mount.kind.as_str());
    !is_deployed && kind.is_some_and(|kind| LIVE_ROOTS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::put;

    #[test]
    fn a_system_in_memory_is_live_and_an_installed_one_is_not() {
        for (line, kind, expected) in [
            ("coreos.liveiso=fedora ignition.firstboot", "overlay", true),
            ("root=live:CDLABEL=x", "tmpfs", true),
            ("ostree=/ostree/boot.1/x rw", "overlay", false),
            ("root=UUID=5f8c", "xfs", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            put(dir.path(), "proc/cmdline", format!("{line}\n"));
            let mounts =
                format!("1 0 0:2 / / rw - rootfs rootfs rw\n22 1 0:21 / / rw,relatime shared:1 - {kind} x rw\n");
            put(dir.path(), "proc/self/mountinfo", mounts);
            assert_eq!(is_live(&Root::open(dir.path()).unwrap()), expected, "{line}");
        }
    }
}
