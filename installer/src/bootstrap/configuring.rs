//! Reports to the service, in the background, which hosts have fetched their configs from the bootstrap's machine-config
//! server: they are being configured (docs/compatibility.md#configuring-hosts).

use super::{
    BootstrapError, Context,
    files::below,
    hosts::{Hosts, KnownHost},
    mcs_log::requests,
    nodes::is_reported,
};
use api::{Client, ClusterId, HostId, HostProgress, HostRole, HostStage};
use kernel::Cancel;
use kernel::order;
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    net::IpAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::Duration,
};

const LOG_DIR: &str = "/var/log/containers";
const SERVER: &str = "machine-config-server";
const LOG: &str = ".log";
/// One server that is restarted again and again does not have more logs.
const MAX_LOGS: usize = 256;
/// Read from one log in one look; the rest waits for the next.
const MAX_BYTES: u64 = 8 << 20;
/// Longer lines are not the server's.
const MAX_LINE_BYTES: usize = 64 << 10;
/// How often its end is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The thread that looks.
#[derive(Debug)]
pub struct Watcher {
    cancel: Cancel,
    stop: Cancel,
    thread: JoinHandle<()>,
}

impl Watcher {
    /// Starts to look, every `ctx.pace.configuring_poll`, until no host is left to be configured, or `cancel` is set. `root` is the
    /// live system's.
    pub fn start(root: &Path, ctx: &Context<'_>, cancel: &Cancel) -> Result<Self, BootstrapError> {
        let stop = Cancel::default();
        let mut watch = Watch {
            client: ctx.brief.clone(),
            cluster: ctx.request.cluster_id,
            this_host: ctx.request.host_id,
            dir: below(root, LOG_DIR),
            hosts: None,
            seen: BTreeSet::new(),
            reported: BTreeSet::new(),
            positions: BTreeMap::new(),
        };
        let (poll, ends) = (ctx.pace.configuring_poll, [cancel.clone(), stop.clone()]);
        let run = move || {
            while !ends.iter().any(Cancel::is_cancelled) && watch.look() {
                sleep(poll, &ends);
            }
        };
        let thread = thread::Builder::new().name("configuring".into()).spawn(run);
        Ok(Self { cancel: cancel.clone(), stop, thread: thread.map_err(|source| BootstrapError::Thread { source })? })
    }

    /// Ends it. A request that is under way is waited for, unless the installation is cancelled.
    pub fn finish(self) {
        self.stop.cancel();
        while !self.thread.is_finished() {
            if self.cancel.is_cancelled() {
                return tracing::debug!("not waiting for the thread that watches hosts being configured");
            }
            thread::sleep(LOOK);
        }
        if self.thread.join().is_err() {
            tracing::warn!("the thread that watches hosts being configured panicked");
        }
    }
}

/// Until one of two is cancelled.
fn sleep(duration: Duration, ends: &[Cancel; 2]) {
    let [first, second] = ends;
    let mut remaining = duration;
    while !remaining.is_zero() && !second.is_cancelled() {
        let part = remaining.min(LOOK);
        if first.sleep(part) {
            return;
        }
        remaining = remaining.saturating_sub(part);
    }
}

struct Watch {
    client: Client,
    cluster: ClusterId,
    this_host: HostId,
    dir: PathBuf,
    /// Asked for once.
    hosts: Option<Hosts>,
    /// Addresses that have asked for a config.
    seen: BTreeSet<IpAddr>,
    /// Hosts that the service knows about.
    reported: BTreeSet<HostId>,
    /// How far each log has been read.
    positions: BTreeMap<PathBuf, Position>,
}

/// A place in a file, which may be another one of the same name by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    device: u64,
    inode: u64,
    offset: u64,
}

impl Watch {
    /// Whether there is more to look for.
    fn look(&mut self) -> bool {
        if self.hosts.is_none() {
            match self.client.session().cluster(self.cluster) {
                Ok(cluster) => self.hosts = Some(Hosts::new(&cluster)),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn Error, "cannot get the hosts from the service, trying again");
                    return true;
                }
            }
        }
        for log in self.logs() {
            if let Err(error) = self.read(&log) {
                tracing::warn!(log = %log.display(), %error, "cannot read the log, trying again");
            }
        }
        let hosts = self.hosts.as_ref();
        let waiting: Vec<_> =
            hosts.iter().flat_map(|hosts| hosts.iter()).filter(|host| self.is_waiting(host)).collect();
        let mut remaining = waiting.len();
        let asked = |host: &&&KnownHost| host.addresses.iter().any(|address| self.seen.contains(address));
        for host in waiting.iter().filter(asked) {
            let current_stage = stage_of(host.role);
            tracing::info!(host = %host.id, name = host.name, stage = %current_stage, "a host has fetched its config");
            let progress = HostProgress { current_stage, progress_info: String::new() };
            if is_reported(&self.client.session().put_progress(host.infra_env, host.id, &progress)) {
                self.reported.insert(host.id);
                remaining -= 1;
            }
        }
        remaining > 0
    }

    fn is_waiting(&self, host: &KnownHost) -> bool {
        use HostStage::{Configuring, Done, Joined, WaitingForIgnition};
        let is_past = matches!(host.stage, Some(Configuring | Joined | Done | WaitingForIgnition));
        host.id != self.this_host && !is_past && !self.reported.contains(&host.id)
    }

    /// Of every container of the server: it may have been started more than once.
    fn logs(&self) -> Vec<PathBuf> {
        // Not there before the first container is.
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut logs: Vec<_> =
            names.filter(|name| name.contains(SERVER) && name.ends_with(LOG)).map(|name| self.dir.join(name)).collect();
        order::sort(&mut logs);
        logs.truncate(MAX_LOGS);
        logs
    }

    /// Takes note of whole lines that are new.
    fn read(&mut self, log: &Path) -> io::Result<()> {
        let mut file = File::open(log)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        let mut position = self.positions.get(log).copied().unwrap_or_default();
        let is_same = (position.device, position.inode) == (metadata.dev(), metadata.ino());
        if !is_same || position.offset > metadata.len() {
            position = Position { device: metadata.dev(), inode: metadata.ino(), offset: 0 };
        }
        file.seek(SeekFrom::Start(position.offset))?;
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text)?;
        let whole = match text.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // Not the beginning of a line that is still being written.
            None if text.len() > MAX_LINE_BYTES => text.len(),
            None => 0,
        };
        let lines = text.get(..whole).unwrap_or_default();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| line.len() <= MAX_LINE_BYTES) {
            self.seen.extend(requests(line));
        }
        position.offset = position.offset.saturating_add(u64::try_from(whole).unwrap_or_default());
        self.positions.insert(log.to_owned(), position);
        Ok(())
    }
}

/// The stage of a host that has its config. A worker fetches its own only after the masters are up.
fn stage_of(role: HostRole) -> HostStage {
    if role == HostRole::Worker { HostStage::WaitingForIgnition } else { HostStage::Configuring }
}
