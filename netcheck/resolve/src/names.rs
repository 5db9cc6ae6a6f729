//! Addresses to connect to.

use crate::{
    answer::{Answer, Failure, Outcome, Source},
    drive::Silent,
    message::{Question, Record},
    order::{order, source_towards},
    resolver::{ReadError, Resolver},
    settings::{Settings, parse_literal},
};
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// Addresses of each family that are tried: there is no time for all of them.
const MAX_TRIED: usize = 16;
/// Shown of what went wrong.
const MAX_SHOWN: usize = 4;

/// Looks names up for connections, each time by what the host's files say then.
#[derive(Clone, Debug)]
pub struct Names {
    resolv_conf: PathBuf,
    hosts: PathBuf,
    /// Servers that are asked last, since they were silent a moment ago.
    silent: Arc<Silent>,
}

impl Default for Names {
    /// As this host does.
    fn default() -> Self {
        Self::new("/etc/resolv.conf", "/etc/hosts")
    }
}

/// Why a name has no addresses.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The settings can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Text that is not a domain name.
    #[error("'{}' is not a domain name", name.escape_debug())]
    NotAName {
        /// As asked for, shortened.
        name: String,
    },
    #[error("the name {name} does not exist: {server} knows none of {}", tried.join(", "))]
    NoSuchName {
        name: String,
        /// The server that said so.
        server: SocketAddr,
        /// The absolute names that it may stand for.
        tried: Vec<String>,
    },
    #[error("the name {name} exists but has no address, according to {server}")]
    NoAddress {
        name: String,
        /// The server that said so.
        server: SocketAddr,
    },
    #[error("the name {name} is an alias of {target}, which has no address, according to {server}")]
    DanglingAlias {
        name: String,
        /// The end of the chain of aliases.
        target: String,
        /// The server that said so.
        server: SocketAddr,
    },
    /// No server said whether the name exists.
    #[error("cannot resolve {name}: {}", list(failures))]
    Failed {
        name: String,
        /// What was asked of which server, and what was seen.
        failures: Vec<Failure>,
    },
}

fn list(failures: &[Failure]) -> String {
    let texts: Vec<String> = failures.iter().take(MAX_SHOWN).map(ToString::to_string).collect();
    let more = failures.len().saturating_sub(MAX_SHOWN);
    match more {
        0 if texts.is_empty() => "no answer in time".to_owned(),
        0 => texts.join("; "),
        more => format!("{}; and {more} more", texts.join("; ")),
    }
}

impl Names {
    /// By a resolv.conf and a hosts file, either of which may be absent.
    pub fn new(resolv_conf: impl Into<PathBuf>, hosts: impl Into<PathBuf>) -> Self {
        Self { resolv_conf: resolv_conf.into(), hosts: hosts.into(), silent: Arc::default() }
    }

    /// Where to connect to for `host`, a name or an address without brackets, in the order to try. What has not been answered
    /// after `limit` has failed.
    pub fn addresses(&self, host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, LookupError> {
        if let Some(address) = parse_literal(host, port) {
            return Ok(vec![address]);
        }
        if Question::new(0, host, Record::A).is_none() {
            return Err(LookupError::NotAName { name: host.chars().take(80).collect() });
        }
        let resolver = Resolver::from_files(&self.resolv_conf, &self.hosts)?.remembering(Arc::clone(&self.silent));
        let answer = resolver.lookup_to_connect(host, limit);
        if answer.outcome != Outcome::Found {
            return Err(explain(answer, resolver.settings()));
        }
        let v6 = answer.v6.iter().take(MAX_TRIED).copied().map(IpAddr::from);
        let v4 = answer.v4.iter().take(MAX_TRIED).copied().map(IpAddr::from);
        let addresses = v6.chain(v4).map(|address| SocketAddr::new(address, port)).collect();
        Ok(order(addresses, source_towards))
    }
}

fn explain(answer: Answer, settings: &Settings) -> LookupError {
    let Answer { name, outcome, canonical, source, failures, .. } = answer;
    match (outcome, source) {
        (Outcome::NoSuchName, Some(Source::Server(server))) => {
            let tried = settings.candidates(&name);
            LookupError::NoSuchName { name, server, tried }
        }
        (Outcome::NoAddress, Some(Source::Server(server))) => LookupError::NoAddress { name, server },
        (Outcome::DanglingAlias, Some(Source::Server(server))) => {
            LookupError::DanglingAlias { name, target: canonical.unwrap_or_default(), server }
        }
        _ => LookupError::Failed { name, failures },
    }
}
