//! What names of the cluster resolve to from here (agent contract §6.7): the host's own resolver settings, read each time, and
//! absolute names kept apart from those that the search list applies to.

mod exchange;
mod hosts;
mod request;
mod resolver;
mod settings;
pub(crate) mod table;

pub use crate::codec::dns::Record;
pub use hosts::{Entry, Hosts};
pub use request::{RequestError, from_json};
pub use resolver::{ReadError, Resolver};
pub use settings::Settings;

use crate::privileges::{self, PrivilegeError};
use api::{DomainResolution, DomainResolutionResponse};
use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// How to look names up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Servers and search list.
    pub resolv_conf: PathBuf,
    /// Names known without asking.
    pub hosts: PathBuf,
    /// For all names together, an hour at most; what has no answer by then has failed.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            // Two rounds through three servers that are all silent.
            deadline: Duration::from_secs(30),
        }
    }
}

/// Clocks overflow somewhere above.
const MAX_DEADLINE: Duration = Duration::from_secs(3600);
/// Of one lookup. A request of the service has a few for each cluster.
const MAX_NAMES: usize = 1000;

/// Why names were not looked up.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// See there.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// See there.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Too much for one check.
    #[error("{count} names are to be looked up; {MAX_NAMES} at most can be")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// No event loop.
    #[error("cannot start the event loop that names are looked up on")]
    EventLoop(#[source] io::Error),
}

/// Looks `names` up, all at the same time; answers are in their order.
///
/// This thread loses all capabilities for good.
pub fn resolve(names: &[String], options: &Options) -> Result<Vec<Answer>, ResolveError> {
    privileges::drop_all()?;
    if names.len() > MAX_NAMES {
        return Err(ResolveError::TooMany { count: names.len() });
    }
    let resolver = Resolver::from_files(&options.resolv_conf, &options.hosts)?;
    resolver.lookup_all(names, options.deadline.min(MAX_DEADLINE)).map_err(ResolveError::EventLoop)
}

/// The step's reply.
pub fn response(answers: &[Answer]) -> DomainResolutionResponse {
    DomainResolutionResponse { resolutions: answers.iter().map(Answer::resolution).collect() }
}

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As it was asked for.
    pub name: String,
    /// In short.
    pub outcome: Outcome,
    /// A records, ascending.
    pub v4: Vec<Ipv4Addr>,
    /// AAAA records, ascending.
    pub v6: Vec<Ipv6Addr>,
    /// The name that has the addresses, after all aliases, with a trailing dot; also that of an alias that leads nowhere.
    pub canonical: Option<String>,
    /// The absolute name that `name` stood for, its search domain included.
    pub found_as: Option<String>,
    /// Who said so.
    pub source: Option<Source>,
    /// What went wrong on the way, in order; an answer may have come nevertheless.
    pub failures: Vec<Failure>,
}

/// What became of a name, in short. Ordered: of the names it may stand for, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It does not exist.
    NoSuchName,
    /// It exists and has no addresses.
    NoAddress,
    /// No server said whether it exists.
    Failed,
    /// It is an alias of a name without addresses.
    DanglingAlias,
    /// It has addresses.
    Found,
}

/// Who knew a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The host itself.
    HostsFile,
    /// This server.
    Server(SocketAddr),
}

/// A question that got no answer from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The server; `None` when none was asked.
    pub server: Option<SocketAddr>,
    /// The absolute name asked for.
    pub name: String,
    /// What was asked of it.
    pub record: Record,
    /// Why not.
    pub cause: Cause,
}

/// Why a question got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing came in time.
    Timeout,
    /// The kernel could not reach it.
    Unreachable(io::ErrorKind),
    /// A response code that is neither "no error" nor "no such name" (RFC 1035 §4.1.1).
    Refused(u16),
    /// It points to other servers and does not ask them itself.
    NoRecursion,
    /// Bytes that are no answer.
    Garbled,
    /// The text is no domain name: empty labels, labels of more than 63 bytes, more than 255 in all.
    NotAName,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, name, record, cause } = self;
        match server {
            Some(server) => write!(f, "{server} asked for {record} of {name}: {cause}"),
            None => write!(f, "{name}: {cause}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::Unreachable(kind) => kind.fmt(f),
            Self::Refused(1) => f.write_str("it did not understand the question (FORMERR)"),
            Self::Refused(2) => f.write_str("server failure (SERVFAIL)"),
            Self::Refused(5) => f.write_str("refused (REFUSED)"),
            Self::Refused(code) => write!(f, "response code {code}"),
            Self::NoRecursion => f.write_str("it does not resolve names for others"),
            Self::Garbled => f.write_str("the answer is damaged"),
            Self::NotAName => f.write_str("this is no domain name"),
        }
    }
}

impl Answer {
    fn new(name: &str, outcome: Outcome) -> Self {
        Self {
            name: name.to_owned(),
            outcome,
            v4: Vec::new(),
            v6: Vec::new(),
            canonical: None,
            found_as: None,
            source: None,
            failures: Vec::new(),
        }
    }

    fn add(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            match *address {
                IpAddr::V4(address) => self.v4.push(address),
                IpAddr::V6(address) => self.v6.push(address),
            }
        }
        self.v4.sort_unstable();
        self.v4.dedup();
        self.v6.sort_unstable();
        self.v6.dedup();
    }

    /// Its element in the step's reply.
    fn resolution(&self) -> DomainResolution {
        DomainResolution {
            cnames: self.canonical.clone().map(|name| vec![name]),
            domain_name: self.name.clone(),
            ipv4_addresses: self.v4.iter().map(Ipv4Addr::to_string).collect(),
            ipv6_addresses: self.v6.iter().map(Ipv6Addr::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_names_and_an_hour_are_enough() {
        let resolve = |names: Vec<String>, options: Options| {
            // It takes its thread's capabilities.
            std::thread::spawn(move || resolve(&names, &options)).join().unwrap()
        };
        let names = vec!["a".to_owned(); 1001];
        assert_eq!(
            resolve(names, Options::default()).unwrap_err().to_string(),
            "1001 names are to be looked up; 1000 at most can be"
        );
        let longest = Options { deadline: Duration::MAX, ..Options::default() };
        assert!(resolve(Vec::new(), longest).unwrap().is_empty());
    }
}
