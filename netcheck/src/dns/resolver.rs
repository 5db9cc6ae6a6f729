//! Looks names up as the host's own programs would, and remembers how it went.

use super::{Answer, Cause, Failure, Hosts, Outcome, Settings, Source, exchange::exchange};
use crate::{
    codec::dns::{Question, Record, Reply},
    event_loop,
    files::read_text,
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

/// A resolv.conf or a hosts file larger than this is none.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Questions on their way at once: a request with a thousand names is no reason to run out of sockets.
const MAX_QUESTIONS: usize = 64;

const NO_ERROR: u16 = 0;
const NO_SUCH_NAME: u16 = 3;

/// Why no name can be looked up.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file that is there and can't be read.
    #[error("cannot read {}, which says how names are looked up", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Asks the servers of a resolv.conf after looking into a hosts file. It keeps no answers: every lookup is a new one.
#[derive(Clone, Debug)]
pub struct Resolver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    hosts: Hosts,
    /// Index of the server to ask first: the one that answered when those before it were silent.
    first: AtomicUsize,
    questions: Semaphore,
}

impl Resolver {
    /// By these settings and names.
    pub fn new(settings: Settings, hosts: Hosts) -> Self {
        let questions = Semaphore::new(MAX_QUESTIONS);
        Self { shared: Arc::new(Shared { settings, hosts, first: AtomicUsize::new(0), questions }) }
    }

    /// As the files say now; a file that is not there is an empty one.
    pub fn from_files(resolv_conf: &Path, hosts: &Path) -> Result<Self, ReadError> {
        Ok(Self::new(Settings::parse(&read(resolv_conf)?), Hosts::parse(&read(hosts)?)))
    }

    /// What the servers are and how they are asked.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Looks all `names` up at the same time; answers are in their order. What is not answered after `limit` has failed.
    ///
    /// Not to be called from within an event loop. The error is that no event loop could be had.
    pub fn lookup_all(&self, names: &[String], limit: Duration) -> io::Result<Vec<Answer>> {
        event_loop::run(async {
            let deadline = Instant::now() + limit;
            let mut lookups = JoinSet::new();
            for (index, name) in names.iter().cloned().enumerate() {
                let resolver = self.clone();
                lookups.spawn_local(async move { (index, resolver.lookup(&name, deadline).await) });
            }
            let mut answers = lookups.join_all().await;
            answers.sort_by_key(|(index, _)| *index);
            answers.into_iter().map(|(_, answer)| answer).collect()
        })
    }

    /// The names of `addresses` (PTR records, RFC 1035 §3.5), without the last dot and in the same order. `None`: it has none, or
    /// nobody said so within `limit`.
    ///
    /// Not to be called from within an event loop. The error is that no event loop could be had.
    pub fn reverse_all(&self, addresses: &[IpAddr], limit: Duration) -> io::Result<Vec<Option<String>>> {
        event_loop::run(async {
            let deadline = Instant::now() + limit;
            let mut lookups = JoinSet::new();
            for (index, address) in addresses.iter().copied().enumerate() {
                let resolver = self.clone();
                lookups.spawn_local(async move { (index, resolver.reverse(address, deadline).await) });
            }
            let mut names = lookups.join_all().await;
            names.sort_by_key(|(index, _)| *index);
            names.into_iter().map(|(_, name)| name).collect()
        })
    }

    /// As [`Self::lookup_all`] for one name, inside an event loop.
    ///
    /// As in Go's resolver, whose results the contract describes: the hosts file first; then each name that `name` may stand for
    /// until one has addresses; one family of addresses is enough, whatever became of the other.
    pub(crate) async fn lookup(&self, name: &str, deadline: Instant) -> Answer {
        if let Some(entry) = self.shared.hosts.find(name) {
            let mut answer = Answer::new(name, Outcome::Found);
            answer.add(&entry.addresses);
            answer.canonical = Some(entry.canonical.clone());
            answer.found_as = Some(entry.canonical.clone());
            answer.source = Some(Source::HostsFile);
            return answer;
        }
        let mut answer = Answer::new(name, Outcome::NoSuchName);
        for candidate in self.shared.settings.candidates(name) {
            let (v4, v6) =
                tokio::join!(self.ask(&candidate, Record::A, deadline), self.ask(&candidate, Record::Aaaa, deadline));
            for asked in [v4, v6] {
                answer.failures.extend(asked.failures);
                let Some((server, reply)) = asked.reply else {
                    answer.outcome = answer.outcome.max(Outcome::Failed);
                    continue;
                };
                answer.add(&reply.addresses);
                let outcome = match reply {
                    Reply { ref addresses, .. } if !addresses.is_empty() => Outcome::Found,
                    // An alias of a name that does not exist does not exist either (RFC 6604 §3).
                    Reply { code: NO_SUCH_NAME, .. } => Outcome::NoSuchName,
                    Reply { canonical: Some(_), .. } => Outcome::DanglingAlias,
                    _ => Outcome::NoAddress,
                };
                if outcome > answer.outcome && reply.canonical.is_some() {
                    answer.canonical = reply.canonical;
                    answer.found_as = Some(candidate.clone());
                    answer.source = Some(Source::Server(server));
                }
                answer.outcome = answer.outcome.max(outcome);
            }
            if answer.outcome == Outcome::Found {
                break;
            }
        }
        answer
    }

    /// As [`Self::reverse_all`] for one address, inside an event loop.
    pub(crate) async fn reverse(&self, address: IpAddr, deadline: Instant) -> Option<String> {
        let absolute = match self.shared.hosts.name_of(address) {
            Some(name) => name.to_owned(),
            None => {
                let name = arpa(address);
                let (_, reply) = self.ask(&name, Record::Ptr, deadline).await.reply?;
                reply.names.into_iter().min()?
            }
        };
        Some(absolute.trim_end_matches('.').to_owned())
    }

    /// Asks one server after the other, and all again, until one says whether the name exists.
    async fn ask(&self, absolute: &str, record: Record, deadline: Instant) -> Asked {
        let shared = &*self.shared;
        let mut failures = Vec::new();
        let mut fail = |server, cause| {
            let failure = Failure { server, name: absolute.to_owned(), record, cause };
            if !failures.contains(&failure) {
                failures.push(failure);
            }
        };
        let Some(question) = Question::new(fastrand::u16(..), absolute, record) else {
            fail(None, Cause::NotAName);
            return Asked { reply: None, failures };
        };
        let servers = &shared.settings.servers;
        for _ in 0..shared.settings.attempts {
            let first = shared.first.load(Ordering::Relaxed);
            for index in (first..servers.len()).chain(0..first) {
                let Some(&server) = servers.get(index) else { continue };
                // It is never closed.
                let _turn = shared.questions.acquire().await;
                match exchange(server, &question, &shared.settings, deadline).await {
                    Ok(reply) if reply.referral => fail(Some(server), Cause::NoRecursion),
                    Ok(reply) if matches!(reply.code, NO_ERROR | NO_SUCH_NAME) => {
                        shared.first.store(index, Ordering::Relaxed);
                        return Asked { reply: Some((server, reply)), failures };
                    }
                    Ok(reply) => fail(Some(server), Cause::Refused(reply.code)),
                    Err(cause) => fail(Some(server), cause),
                }
                if Instant::now() >= deadline {
                    return Asked { reply: None, failures };
                }
            }
        }
        Asked { reply: None, failures }
    }
}

/// What became of one question.
struct Asked {
    reply: Option<(SocketAddr, Reply)>,
    failures: Vec<Failure>,
}

fn read(path: &Path) -> Result<String, ReadError> {
    match read_text(path, MAX_FILE_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| ReadError::Read { path: path.to_owned(), source }),
    }
}

/// The name that holds the PTR record of an address (RFC 1035 §3.5, RFC 3596 §2.5).
fn arpa(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 0xf, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::{
        op::{Message, MessageType, ResponseCode},
        rr::{Name, RData, RecordType, rdata},
    };
    use serde_json::json;
    use std::{net::UdpSocket, thread};

    /// A name, the response code for it, and what it has.
    type Records = (&'static str, ResponseCode, fn() -> RData);

    fn alias(of: &str) -> RData {
        RData::CNAME(rdata::CNAME(Name::from_ascii(of).unwrap()))
    }

    /// Looks `name` up at a server that has these records. One of addresses answers questions for A only.
    fn lookup(name: &str, search: &str, zone: &'static [Records]) -> Answer {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut settings = Settings::parse(search);
        settings.servers = vec![server.local_addr().unwrap()];
        thread::spawn(move || {
            let mut bytes = [0; 512];
            // Ends the thread, some time after the lookup.
            server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            while let Ok((length, client)) = server.recv_from(&mut bytes) {
                let mut message = Message::from_vec(&bytes[..length]).unwrap();
                let query = message.queries()[0].clone();
                let here = zone.iter().find(|(name, ..)| Name::from_ascii(name).unwrap() == *query.name());
                message.set_message_type(MessageType::Response).set_recursion_available(true);
                message.set_response_code(here.map_or(ResponseCode::NXDomain, |(_, code, _)| *code));
                let record = here
                    .map(|(_, _, data)| data())
                    .filter(|data| query.query_type() == RecordType::A || data.record_type() == RecordType::CNAME);
                message.add_answers(
                    record.map(|data| hickory_proto::rr::Record::from_rdata(query.name().clone(), 1, data)),
                );
                server.send_to(&message.to_vec().unwrap(), client).unwrap();
            }
        });
        let names = [name.to_owned()];
        Resolver::new(settings, Hosts::default()).lookup_all(&names, Duration::from_secs(9)).unwrap().remove(0)
    }

    #[test]
    fn an_alias_of_a_name_that_does_not_exist_does_not_exist() {
        let answer = lookup("wild.c.d.", "", &[("wild.c.d.", ResponseCode::NXDomain, || alias("gone.example."))]);
        assert_eq!(answer, Answer::new("wild.c.d.", Outcome::NoSuchName));
        let expected = json!({"domain_name": "wild.c.d.", "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null});
        assert_eq!(serde_json::to_value(answer.resolution()).unwrap(), expected);
    }

    #[test]
    fn an_alias_without_addresses_is_forgotten_once_there_are_some() {
        let zone: &[Records] = &[
            ("web.first.", ResponseCode::NoError, || alias("nowhere.first.")),
            ("web.second.", ResponseCode::NoError, || RData::A(rdata::A::new(10, 0, 0, 2))),
        ];
        let mut answer = lookup("web", "search first second\n", zone);
        assert!(answer.source.take().is_some());
        let expected = Answer {
            v4: vec![[10, 0, 0, 2].into()],
            canonical: Some("web.second.".into()),
            found_as: Some("web.second.".into()),
            ..Answer::new("web", Outcome::Found)
        };
        assert_eq!(answer, expected);
        let dangling = lookup("web.first.", "", zone);
        assert_eq!((dangling.outcome, dangling.canonical.as_deref()), (Outcome::DanglingAlias, Some("nowhere.first.")));
    }

    #[test]
    fn addresses_are_names_backwards() {
        assert_eq!(arpa("192.0.2.17".parse().unwrap()), "17.2.0.192.in-addr.arpa.");
        let expected = "1.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
        assert_eq!(arpa("2001:db8::f1".parse().unwrap()), expected);
    }

    #[test]
    fn a_hosts_file_that_is_a_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(Resolver::from_files(&missing, &missing).is_ok());
        let error = Resolver::from_files(directory.path(), &missing).unwrap_err();
        let expected = format!("cannot read {}, which says how names are looked up", directory.path().display());
        assert_eq!(error.to_string(), expected);
    }
}
