//! Asks chronyd: over its Unix socket, which may also add sources, or else over UDP, which may only read.

use super::{NtpOptions, socket::ClientSocket};
use crate::codec::chrony::{
    MAX_REPLY_BYTES, Measurement, Reply, ReplyError, Request, ServerName, Source, SourceAddress, Status, Tracking,
};
use std::{
    fmt, io,
    net::{Ipv4Addr, UdpSocket},
    time::{Duration, Instant},
};

/// First pause before a request is repeated; each is twice as long as the one before. chronyd answers at once, if at all.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// No host has as many.
const MAX_SOURCES: u32 = 1024;

/// A source as chronyd has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What it is and how it does.
    pub source: Source,
    /// The name or address it was configured with; `None` where chronyd doesn't say.
    pub configured: Option<String>,
    /// Round trip of the last sample; `None` where there is none.
    pub delay_s: Option<f64>,
}

/// Why chronyd could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ChronydError {
    /// Neither socket leads to a chronyd.
    #[error("chronyd does not answer ({0})")]
    NotReached(Attempts),
    #[error("chronyd was timed out after {} seconds: no answer to {requests} {command} requests at {place}{}", waited.as_secs(), and_seen(*seen))]
    Silent {
        place: String,
        command: &'static str,
        requests: u32,
        /// How long all took.
        waited: Duration,
        /// The last packet that was no answer.
        seen: Option<ReplyError>,
    },
    /// It refuses, or its answer can't be read.
    #[error("chronyd at {place} answered {command} with {reply}")]
    Reply { place: String, command: &'static str, reply: ReplyError },
    #[error("cannot ask chronyd at {place} for {command}")]
    Socket { place: String, command: &'static str, source: io::Error },
    /// It claims more sources than it can have.
    #[error("chronyd at {place} has {count} sources, more than {MAX_SOURCES}")]
    TooMany { place: String, count: u32 },
}

fn and_seen(seen: Option<ReplyError>) -> String {
    seen.map_or_else(String::new, |seen| format!("; last received: {seen}"))
}

/// What was tried, with what came of it.
#[derive(Debug, Default)]
pub struct Attempts(Vec<(String, io::Error)>);

impl Attempts {
    /// Whether no chronyd runs here, rather than that we may not ask it.
    pub(super) fn mean_absence(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NetworkUnreachable, NotADirectory, NotFound};
        let absent = [ConnectionRefused, NetworkUnreachable, NotADirectory, NotFound];
        self.0.iter().all(|(_, error)| absent.contains(&error.kind()))
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (place, error)) in self.0.iter().enumerate() {
            write!(formatter, "{}{place}: {error}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// A way to chronyd.
#[derive(Debug)]
pub(super) struct Chronyd {
    link: Link,
    place: String,
    /// What was tried before.
    failed: Attempts,
    started: Instant,
    deadline: Instant,
}

#[derive(Debug)]
enum Link {
    Unix(ClientSocket),
    Udp(UdpSocket),
}

impl Chronyd {
    /// Opens a socket and sends nothing yet. The thread's user for files is chronyd's until this is dropped.
    pub(super) fn open(options: &NtpOptions, started: Instant) -> Result<Self, ChronydError> {
        let deadline = started + options.deadline;
        let mut failed = Attempts::default();
        let path = options.chrony_socket.display().to_string();
        match ClientSocket::connect(&options.chrony_socket) {
            Ok(socket) => return Ok(Self { link: Link::Unix(socket), place: path, failed, started, deadline }),
            Err(error) => failed.0.push((path, error)),
        }
        let place = format!("UDP {}", options.chrony_udp);
        let connected = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
            .and_then(|socket| socket.connect(options.chrony_udp).map(|()| socket));
        match connected {
            Ok(socket) => Ok(Self { link: Link::Udp(socket), place, failed, started, deadline }),
            Err(error) => {
                failed.0.push((place, error));
                Err(ChronydError::NotReached(failed))
            }
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// All sources in chronyd's order.
    pub(super) fn sources(&mut self) -> Result<Vec<Listed>, ChronydError> {
        let Reply::SourceCount(count) = self.ask(&Request::SourceCount, self.deadline)? else { return Ok(Vec::new()) };
        if count > MAX_SOURCES {
            return Err(ChronydError::TooMany { place: self.place.clone(), count });
        }
        let mut sources = Vec::new();
        for index in 0..count {
            // A source may be removed while we list them.
            if let Some(Reply::Source(source)) = self.ask_if_there(&Request::Source { index }, self.deadline)? {
                sources.push(Listed { source, configured: None, delay_s: None });
            }
        }
        let until = self.share(1);
        for listed in &mut sources {
            self.complete(listed, until);
        }
        Ok(sources)
    }

    fn complete(&mut self, listed: &mut Listed, until: Instant) {
        let address = listed.source.address;
        if let Some(Reply::SourceName(name)) = self.ask_for_extra(&Request::SourceName { address }, until)
            && !name.is_empty()
        {
            listed.configured = Some(name);
        }
        if let Source { address: SourceAddress::Ip(address), since_sample_s: Some(_), .. } = listed.source
            && let Some(Reply::Measurement(Measurement { delay_s })) =
                self.ask_for_extra(&Request::Measurement { address }, until)
        {
            listed.delay_s = Some(delay_s);
        }
    }

    /// How the clock does; `None` where chronyd doesn't say.
    pub(super) fn tracking(&mut self) -> Option<Tracking> {
        match self.ask_for_extra(&Request::Tracking, self.share(1)) {
            Some(Reply::Tracking(tracking)) => Some(tracking),
            _ => None,
        }
    }

    /// The end of a share of what is left of the time: half of it is for `number` questions whose failure does no harm, the
    /// other for what comes after them.
    pub(super) fn share(&self, number: usize) -> Instant {
        let now = Instant::now();
        let shares = u32::try_from(number.max(1)).unwrap_or(u32::MAX).saturating_mul(2);
        now + self.deadline.saturating_duration_since(now) / shares
    }

    /// Adds a server that is polled in quick succession at first. Nothing changes when it exists already.
    pub(super) fn add(&mut self, name: ServerName, until: Instant) -> Result<(), ChronydError> {
        match self.ask(&Request::AddServer(name), until) {
            Err(ChronydError::Reply { reply: ReplyError::Refused(Status::SOURCE_KNOWN), .. }) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// For what the list of sources is complete without: a failure is logged. Nothing is asked when the time is up.
    fn ask_for_extra(&mut self, request: &Request, until: Instant) -> Option<Reply> {
        if Instant::now() >= until {
            return None;
        }
        self.ask_if_there(request, until).unwrap_or_else(|error| {
            tracing::warn!(%error, "chronyd does not report all of its sources or its clock");
            None
        })
    }

    /// `None` when the source is not there, or when chronyd doesn't tell over this socket.
    fn ask_if_there(&mut self, request: &Request, until: Instant) -> Result<Option<Reply>, ChronydError> {
        match self.ask(request, until) {
            Err(ChronydError::Reply {
                reply: ReplyError::Refused(Status::NO_SUCH_SOURCE | Status::NOT_AUTHORISED),
                ..
            }) => Ok(None),
            other => other.map(Some),
        }
    }

    fn ask(&mut self, request: &Request, until: Instant) -> Result<Reply, ChronydError> {
        let command = request.name();
        let (mut wait, mut requests, mut seen) = (FIRST_RETRY, 0u16, None);
        loop {
            let retry = Instant::now() + wait;
            let sequence = fastrand::u32(..);
            self.send(&request.encode(sequence, requests)).map_err(|error| self.failure(command, error))?;
            requests += 1;
            let mut buffer = [0; MAX_REPLY_BYTES];
            loop {
                let now = Instant::now();
                if now >= until {
                    let (place, waited) = (self.place.clone(), now - self.started);
                    return Err(ChronydError::Silent { place, command, requests: requests.into(), waited, seen });
                }
                if now >= retry {
                    break;
                }
                let patience = retry.min(until) - now;
                let Some(length) = self.receive(&mut buffer, patience).map_err(|error| self.failure(command, error))?
                else {
                    continue;
                };
                match request.decode_reply(sequence, &buffer[..length]) {
                    Ok(reply) => return Ok(reply),
                    // Late, or not for us: the answer may still come.
                    Err(other @ (ReplyError::NotAReply { .. } | ReplyError::OtherRequest { .. })) => seen = Some(other),
                    Err(reply) => return Err(ChronydError::Reply { place: self.place.clone(), command, reply }),
                }
            }
            wait *= 2;
        }
    }

    fn send(&self, packet: &[u8]) -> io::Result<()> {
        match &self.link {
            Link::Unix(client) => client.socket.send(packet),
            Link::Udp(socket) => socket.send(packet),
        }
        .map(|_| ())
    }

    /// `None` when nothing came.
    fn receive(&self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        let received = match &self.link {
            Link::Unix(client) => {
                client.socket.set_read_timeout(Some(patience))?;
                client.socket.recv(buffer)
            }
            Link::Udp(socket) => {
                socket.set_read_timeout(Some(patience))?;
                socket.recv(buffer)
            }
        };
        match received {
            Ok(length) => Ok(Some(length)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn failure(&mut self, command: &'static str, error: io::Error) -> ChronydError {
        match self.link {
            // Only now does UDP report that nothing listens.
            Link::Udp(_) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let mut attempts = std::mem::take(&mut self.failed);
                attempts.0.push((self.place.clone(), error));
                ChronydError::NotReached(attempts)
            }
            _ => ChronydError::Socket { place: self.place.clone(), command, source: error },
        }
    }
}
