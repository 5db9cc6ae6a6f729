//! What became of a name.

use crate::message::Record;
use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As it was asked for.
    pub name: String,
    /// In short.
    pub outcome: Outcome,
    /// A records in the server's order, each once.
    pub v4: Vec<Ipv4Addr>,
    /// AAAA records in the server's order, each once.
    pub v6: Vec<Ipv6Addr>,
    /// The name that has the addresses, after all aliases, with a trailing dot; also that of an alias that leads nowhere.
    pub canonical: Option<String>,
    /// The absolute name that `name` stood for, its search domain included.
    pub found_as: Option<String>,
    /// Who said so; `None` where no server said anything of use.
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
    HostsFile,
    /// A name that always means this host (RFC 6761 §6.3).
    Localhost,
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
    /// Bytes that are not an answer.
    Garbled,
    /// The text is not a domain name: empty labels, labels of more than 63 bytes, more than 255 in all.
    NotAName,
}

impl Cause {
    /// Whether nothing at all came from the server.
    pub fn is_silence(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable(_))
    }
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
            Self::NotAName => f.write_str("this is not a domain name"),
        }
    }
}

impl Answer {
    /// Without addresses.
    pub fn new(name: &str, outcome: Outcome) -> Self {
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

    /// All addresses, IPv6 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.v6.iter().copied().map(IpAddr::from).chain(self.v4.iter().copied().map(IpAddr::from))
    }

    pub(crate) fn add(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            match *address {
                IpAddr::V4(address) if !self.v4.contains(&address) => self.v4.push(address),
                IpAddr::V6(address) if !self.v6.contains(&address) => self.v6.push(address),
                _ => {}
            }
        }
    }
}
