//! The state of a host, also without a running agent, when people look at its console.

use super::{Snapshot, addresses};
use crate::config::{Config, ConfigError, Key, Sources};
use crate::rendezvous::Place;
use inventory::Root;
use nix::unistd::gethostname;

/// A rack's plan: with one this host may be the one that serves.
const PLAN: &str = "/etc/landfall/rendezvous";
/// Processes of a unit, below the unit's name; with version 2 of control groups, and with version 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
const MAX_PROCESSES_BYTES: usize = 64 << 10;

/// What one host does. There are no secrets in it.
#[derive(Debug, Default)]
pub struct View {
    pub name: String,
    /// Addresses others can reach it at, sorted.
    pub addresses: Vec<String>,
    /// Where the agent is configured to report.
    pub configured: Configured,
    /// Whether anything runs in the agent's unit.
    pub agent_starts: bool,
    /// Whether it serves the rack; absent without a plan of one.
    pub serves: Option<bool>,
    /// The agent's own status, and whether it still runs.
    pub agent: Option<(Snapshot, bool)>,
}

/// Where the agent is configured to report.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Configured {
    /// Nowhere.
    #[default]
    Nothing,
    Service(String),
    /// To the one that this place names.
    Rendezvous(Place),
    /// Something that is not usable.
    Unusable(String),
}

impl Configured {
    fn from_config(config: Result<Config, ConfigError>) -> Self {
        let read = config.and_then(|config| {
            if let Some((place, _)) = config.rendezvous()? {
                return Ok(Self::Rendezvous(place));
            }
            let Some(url) = config.get(Key::Url).map(|url| url.display(Key::Url)) else { return Ok(Self::Nothing) };
            config.resolve().map(|_| Self::Service(url))
        });
        read.unwrap_or_else(|error| Self::Unusable(error.to_string()))
    }
}

impl View {
    /// What is so now. `snapshot` is what the agent's file says.
    pub fn now(snapshot: Option<Snapshot>, sources: &Sources) -> Self {
        let agent = snapshot.map(|snapshot| {
            let alive = snapshot.is_alive();
            (snapshot, alive)
        });
        // An agent that runs knows better, and its host's firmware needn't be asked every few seconds.
        let configured = match &agent {
            Some((_, true)) => Configured::Nothing,
            _ => Configured::from_config(Config::read(sources)),
        };
        let root = sources.root;
        Self {
            name: gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            addresses: addresses(),
            configured,
            agent_starts: runs(root, "agent.service"),
            serves: (!root.list(PLAN).is_empty()).then(|| runs(root, "landfall-serve.service")),
            agent,
        }
    }
}

/// Whether the unit has processes: asking systemd would take its program, or its bus.
fn runs(root: &Root, unit: &str) -> bool {
    let processes = |group| root.text(format!("{group}/{unit}/cgroup.procs"), MAX_PROCESSES_BYTES);
    GROUPS.into_iter().filter_map(processes).any(|processes| !processes.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::put;

    #[test]
    fn a_view_has_a_hosts_configuration_and_what_runs_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(dir.path(), path, text);
        let root = Root::open(dir.path()).unwrap();
        let view =
            || View::now(None, &Sources { command_line: Vec::new(), environment: &|_| None, file: None, root: &root });
        let empty = view();
        assert_eq!((empty.configured, empty.agent_starts, empty.serves), (Configured::Nothing, false, None));
        put("etc/landfall/rendezvous/rack.yaml", "");
        put("sys/fs/cgroup/system.slice/agent.service/cgroup.procs", "");
        put("etc/landfall/agent.toml", "rendezvous = '192.0.2.1'\n");
        let idle = view();
        assert_eq!(idle.configured, Configured::Rendezvous("192.0.2.1".parse().unwrap()));
        assert_eq!((idle.agent_starts, idle.serves), (false, Some(false)));
        put("sys/fs/cgroup/system.slice/agent.service/cgroup.procs", "77\n");
        put("sys/fs/cgroup/systemd/system.slice/landfall-serve.service/cgroup.procs", "78\n79\n");
        let id = "5f8c6ef1-4b5a-4c3c-9a3e-0a6b5d3c2b1a";
        put("etc/landfall/agent.toml", &format!("url = 'https://u:secret@s/?k=secret'\ninfra_env_id = '{id}'\n"));
        let busy = view();
        assert_eq!(busy.configured, Configured::Service("https://s/".into()));
        assert_eq!((busy.agent_starts, busy.serves), (true, Some(true)));
        put("etc/landfall/agent.toml", "url = 'https://s/'\ninfra_env_id = 'rack 7'\n");
        assert!(matches!(view().configured, Configured::Unusable(why) if why.contains("infra_env_id")));
    }
}
