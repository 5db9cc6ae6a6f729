//! Looks names up as the host's own programs would, and remembers how it went.

use crate::{
    answer::{Answer, Outcome, Source},
    drive::{Network, Servers, Silent, drive},
    hosts::Hosts,
    lookup::{Aim, Lookup, arpa},
    message::Record,
    settings::Settings,
    wire::Host,
};
use std::{
    fs::File,
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A resolv.conf or a hosts file larger than this is refused.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Clocks overflow somewhere above.
const MAX_LIMIT: Duration = Duration::from_secs(3600);

/// Why no name can be looked up.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file that exists and can't be read.
    #[error("cannot read {}, which name lookups need", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Asks the servers of a resolv.conf after looking into a hosts file. It keeps no answers: every lookup is a new one.
#[derive(Clone, Debug)]
pub struct Resolver {
    settings: Settings,
    hosts: Hosts,
    silent: Arc<Silent>,
}

impl Resolver {
    /// By these settings and names.
    pub fn new(settings: Settings, hosts: Hosts) -> Self {
        Self { settings, hosts, silent: Arc::default() }
    }

    /// As the files say now; a missing file counts as an empty one.
    pub fn from_files(resolv_conf: &Path, hosts: &Path) -> Result<Self, ReadError> {
        Ok(Self::new(Settings::parse(&read(resolv_conf)?), Hosts::parse(&read(hosts)?)))
    }

    pub(crate) fn remembering(self, silent: Arc<Silent>) -> Self {
        Self { silent, ..self }
    }

    /// What the servers are and how they are asked.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Looks all `names` up at the same time; answers are in their order. What is not answered after `limit` has failed.
    pub fn lookup_all(&self, names: &[String], limit: Duration) -> Vec<Answer> {
        let lookups = names.iter().map(|name| self.lookup(name, Aim::Report));
        self.drive(&mut Host, lookups, limit).into_iter().map(|lookup| lookup.answer).collect()
    }

    /// Addresses of `name` to connect to: what comes of one family is enough, whatever becomes of the other.
    pub(crate) fn lookup_to_connect(&self, name: &str, limit: Duration) -> Answer {
        let lookup = self.lookup(name, Aim::Connect);
        let finished = self.drive(&mut Host, [lookup], limit).pop();
        finished.map_or_else(|| Answer::new(name, Outcome::Failed), |lookup| lookup.answer)
    }

    /// The names of `addresses` (PTR records, RFC 1035 §3.5), without the last dot and in the same order. `None`: it has
    /// none, or no server said so within `limit`.
    pub fn reverse_all(&self, addresses: &[IpAddr], limit: Duration) -> Vec<Option<String>> {
        let lookups = addresses.iter().map(|address| match self.hosts.find_name(*address) {
            Some(name) => Lookup::named(name.to_owned()),
            None => Lookup::new("", Aim::Report, &[Record::Ptr], vec![arpa(*address)]),
        });
        let finished = self.drive(&mut Host, lookups, limit);
        let name = |lookup: Lookup<_>| lookup.names.into_iter().min().map(|name| name.trim_end_matches('.').to_owned());
        finished.into_iter().map(name).collect()
    }

    /// The hosts file first, then each name that `name` may stand for until one has addresses.
    pub(crate) fn lookup<W>(&self, name: &str, aim: Aim) -> Lookup<W> {
        if let Some(entry) = self.hosts.find(name) {
            return Lookup::known(Answer {
                canonical: Some(entry.canonical.clone()),
                found_as: Some(entry.canonical.clone()),
                ..known(name, Source::HostsFile, &entry.addresses)
            });
        }
        if is_localhost(name) {
            let loopback = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
            return Lookup::known(known(name, Source::Localhost, &loopback));
        }
        let records = if self.settings.no_aaaa { &[Record::A][..] } else { &[Record::A, Record::Aaaa] };
        Lookup::new(name, aim, records, self.settings.candidates(name))
    }

    pub(crate) fn drive<N: Network>(
        &self,
        network: &mut N,
        lookups: impl IntoIterator<Item = Lookup<N::Wire>>,
        limit: Duration,
    ) -> Vec<Lookup<N::Wire>> {
        let deadline = network.now() + limit.min(MAX_LIMIT);
        let servers =
            Servers { settings: &self.settings, silent: &self.silent, start: crate::message::random().into() };
        drive(network, lookups, servers, deadline)
    }
}

fn known(name: &str, source: Source, addresses: &[IpAddr]) -> Answer {
    let mut answer = Answer::new(name, Outcome::Found);
    answer.add(addresses);
    answer.source = Some(source);
    answer
}

/// RFC 6761 §6.3: no server is asked for it.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn read(path: &Path) -> Result<String, ReadError> {
    match read_bounded(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(ReadError::Read { path: path.to_owned(), source }),
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(len) if len <= MAX_FILE_BYTES => Ok(bytes),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
