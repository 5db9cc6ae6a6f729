//! The agent's state: a file for programs, a line for systemd. People have a block of lines on the console, which
//! `landfall agent status --console` makes of the file and of the host, also without an agent.

pub mod cli;
mod console;
mod snapshot;
mod view;

pub use console::{lines, plain};
use kernel::order;
use snapshot::cut;
pub use snapshot::{Failure, InstallStage, Last, Running, Service, ServiceState, Snapshot};
pub use view::{Configured, View};

use crate::{clock, notify::Notifier, settings::Settings};
use anyhow::Context;
use api::{Client, ClientError, HostId, InfraEnvId, Step, StepType, Timestamp, http::public_url};
use kernel::Cancel;
use nix::ifaddrs::getifaddrs;
use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Name of the file in the state directory.
pub const STATUS_FILE: &str = "status.json";
const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_STAGE_BYTES: u64 = 64 << 10;
/// How often the stage of a running installation is looked at.
const STAGE_LOOK: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct State {
    now: Snapshot,
    /// The last line sent to systemd.
    last_line: String,
}

/// The state of this agent, and where it is reported.
#[derive(Debug, Default)]
pub(crate) struct Status {
    state: Mutex<State>,
    directory: Option<PathBuf>,
    stage_file: Option<PathBuf>,
    notifier: Notifier,
}

impl Status {
    /// The status of an agent that starts now. Stages of an installation before it are forgotten only by the installation.
    pub(crate) fn new(settings: &Settings, notifier: Notifier) -> Self {
        let now = Snapshot::of_this_process(public_url(&settings.url), settings.infra_env_id);
        let state = Mutex::new(State { now, ..State::default() });
        let status = Self { state, directory: settings.state_dir.clone(), stage_file: settings.stage_file(), notifier };
        if let Some(text) = clock::implausible(Timestamp::now()) {
            tracing::warn!("{text}");
            status.update(|now| now.clock = Some(text));
        }
        status
    }

    /// The agent has started, whether or not there is a service.
    pub(crate) fn ready(&self) {
        self.notifier.ready();
        self.update(|_| ());
    }

    pub(crate) fn identified(&self, host_id: HostId) {
        self.update(|now| now.host_id = Some(host_id));
    }

    /// The service took the registration.
    pub(crate) fn registered(&self, infra_env_id: InfraEnvId, host_id: HostId, agent_version: &str) {
        self.update(|now| {
            now.registered = Some(Timestamp::now());
            now.host_id = Some(host_id);
            now.infra_env_id = Some(infra_env_id);
            now.agent_version = agent_version.to_owned();
        });
    }

    /// What the service waits for the user to do at this host, if anything.
    pub(crate) fn user_action(&self, action: Option<&str>) {
        let action = action.map(cut);
        self.update(|now| now.user_action = action);
    }

    /// The service answered as it should.
    pub(crate) fn service_answered(&self, client: &Client) {
        // Signs of life come from the loop alone: steps that end say nothing of it.
        self.notifier.alive();
        let offset = client.clock_offset_s();
        self.update(|now| {
            now.service.reached(Timestamp::now());
            now.resolve(None);
            note_clock(now, offset);
        });
    }

    /// The service did not, which is `state`. Says the cause in other words where that helps.
    pub(crate) fn service_failed(&self, state: ServiceState, error: &ClientError, client: &Client) {
        self.notifier.alive();
        let offset = client.clock_offset_s().filter(|_| error.status().is_some());
        let at = Timestamp::now();
        let hint = clock::certificate(error, at);
        if let Some(hint) = &hint {
            tracing::warn!("{hint}");
        }
        let text = hint.map_or_else(|| kernel::in_full(error), |hint| format!("{hint} {}", kernel::in_full(error)));
        self.update(|now| {
            now.service.failed(state, at);
            if state != ServiceState::Unreachable {
                now.registered = None;
            }
            now.last_error = Some(Failure::new(None, &text, at));
            note_clock(now, offset);
        });
    }

    /// When the service will be asked again.
    pub(crate) fn next_poll(&self, pause: Duration, replies_waiting: usize) {
        let pause = i64::try_from(pause.as_secs()).unwrap_or(i64::MAX / 2);
        let at = Timestamp::from_unix_seconds(Timestamp::now().unix_seconds().saturating_add(pause));
        self.update(|now| {
            now.service.next_poll = Some(at);
            now.replies_waiting = replies_waiting;
        });
    }

    pub(crate) fn step_started(&self, step: &Step, deadline: Option<Duration>) {
        let since = Timestamp::now();
        let until = deadline.and_then(|deadline| i64::try_from(deadline.as_secs()).ok());
        let running = Running {
            step_type: step.step_type.clone(),
            step_id: cut(&step.step_id),
            since,
            pid: None,
            deadline: until.map(|seconds| Timestamp::from_unix_seconds(since.unix_seconds() + seconds)),
        };
        self.update(|now| now.running.push(running));
    }

    /// Its process is this one.
    pub(crate) fn step_runs_as(&self, kind: &StepType, pid: u32) {
        self.update(|now| {
            if let Some(running) = now.running.iter_mut().find(|running| running.step_type == *kind) {
                running.pid = Some(pid);
            }
        });
    }

    /// A step ended; `error` is its log, or why it was not run.
    pub(crate) fn step_ended(&self, kind: &StepType, exit_code: i64, error: &str) {
        let at = Timestamp::now();
        self.update(|now| {
            now.running.retain(|running| running.step_type != *kind);
            now.last_results.insert(kind.to_string(), Last { exit_code, at });
            now.last_step = Some(kind.clone());
            if exit_code == 0 {
                now.resolve(Some(kind));
            } else {
                let line = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                now.last_error = Some(Failure::new(Some(kind.clone()), line, at));
            }
        });
    }

    /// Sleeps as [`Cancel::sleep`], with signs of life and with an eye on a running installation.
    pub(crate) fn wait(&self, stop: &Cancel, pause: Duration) -> bool {
        let start = Instant::now();
        loop {
            self.refresh();
            let left = pause.saturating_sub(start.elapsed());
            if left.is_zero() {
                return stop.is_cancelled();
            }
            if stop.sleep(left.min(self.patience())) {
                return true;
            }
        }
    }

    /// How long nothing needs to be done here.
    fn patience(&self) -> Duration {
        let state = self.lock();
        let installs = self.directory.is_some() && state.now.installs();
        let patience = [self.notifier.interval(), installs.then_some(STAGE_LOOK)].into_iter().flatten();
        patience.min().unwrap_or(Duration::MAX)
    }

    /// A sign of life, and what others may have changed.
    fn refresh(&self) {
        self.notifier.alive();
        let installs = self.lock().now.installs();
        if let Some(stage) = self.stage_file.as_deref().filter(|_| installs).and_then(read_stage) {
            self.update(|now| now.stage = Some(stage));
        }
    }

    fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut state = self.lock();
        let before = state.now.clone();
        change(&mut state.now);
        state.now.addresses = addresses();
        if state.now != before {
            self.save(&mut state.now);
        }
        self.report(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, now: &mut Snapshot) {
        let Some(directory) = &self.directory else { return };
        now.written = Timestamp::now();
        let text = serde_json::to_vec(now).unwrap_or_default();
        if let Err(error) = replace(directory, STATUS_FILE, &text) {
            tracing::debug!(directory = %directory.display(), %error, "cannot write the status");
        }
    }

    fn report(&self, state: &mut State) {
        let line = state.now.line();
        if line != state.last_line {
            self.notifier.status(&line);
            tracing::info!("status: {line}");
            state.last_line = line;
        }
    }
}

/// Notes a clock that differs, and says so when that is news.
fn note_clock(now: &mut Snapshot, offset_s: Option<i64>) {
    let Some(offset_s) = offset_s else { return };
    let difference = clock::difference(offset_s);
    if let (Some(difference), true) = (&difference, now.clock_offset_s.and_then(clock::difference).is_none()) {
        tracing::warn!("this host's clock is {difference}: certificates are judged by it");
    }
    now.clock_offset_s = Some(offset_s);
    now.clock = difference;
}

/// What the agent whose state is in `directory` wrote there; `None` if none has.
pub fn read(directory: &Path) -> anyhow::Result<Option<Snapshot>> {
    let path = directory.join(STATUS_FILE);
    let name = || path.display().to_string();
    let len = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", name())),
    };
    anyhow::ensure!(
        len <= MAX_FILE_BYTES,
        "{} has {}: too large for an agent's status",
        name(),
        kernel::units::binary(len)
    );
    let text = fs::read(&path).with_context(|| format!("cannot read {}", name()))?;
    serde_json::from_slice(&text).map(Some).with_context(|| format!("{} is not a status of an agent", name()))
}

fn read_stage(path: &Path) -> Option<InstallStage> {
    let len = fs::metadata(path).ok()?.len();
    let text = (len <= MAX_STAGE_BYTES).then(|| fs::read(path).ok())??;
    serde_json::from_slice(&text).ok()
}

/// Replaces the file at once, readable by all.
fn replace(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let draft = directory.join(format!(".{name}"));
    fs::write(&draft, content)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o644))?;
    fs::rename(&draft, directory.join(name))
}

/// Addresses others can reach this host at, sorted.
fn addresses() -> Vec<String> {
    let all = getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        let ip = v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))?;
        let local = match ip {
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
        };
        (!local).then(|| ip.to_string())
    });
    let mut all: Vec<_> = all.collect();
    order::sort(&mut all);
    all.dedup();
    all
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
