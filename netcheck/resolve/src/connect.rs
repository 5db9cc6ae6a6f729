//! A connection to the first of several addresses that takes one (RFC 8305 §5): the next is tried while the last has not
//! answered, so that an address that leads nowhere costs a moment and not the whole time.

use crate::socket::{Readiness, is_connected, start_connecting, wait};
use std::{
    fmt, io,
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// Connection attempt delay (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);
/// Clocks overflow somewhere above.
const MAX_LIMIT: Duration = Duration::from_secs(3600);

/// No address took a connection.
#[derive(Debug)]
pub struct ConnectError {
    /// What came of each address that was tried, in that order.
    pub failures: Vec<(SocketAddr, AttemptFailure)>,
}

/// What came of an address.
#[derive(Debug)]
pub enum AttemptFailure {
    /// The kernel's word.
    Refused(io::Error),
    /// Nothing came for so long.
    Silent(Duration),
}

impl ConnectError {
    /// Whether nothing came from any address.
    pub fn is_timeout(&self) -> bool {
        let is_silent = |failure: &AttemptFailure| matches!(failure, AttemptFailure::Silent(_));
        !self.failures.is_empty() && self.failures.iter().all(|(_, failure)| is_silent(failure))
    }

    /// Of the first address that was refused.
    pub fn kind(&self) -> io::ErrorKind {
        let refused = self.failures.iter().find_map(|(_, failure)| match failure {
            AttemptFailure::Refused(error) => Some(error.kind()),
            AttemptFailure::Silent(_) => None,
        });
        refused.unwrap_or(io::ErrorKind::TimedOut)
    }
}

impl std::error::Error for ConnectError {}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot connect")?;
        for (index, (address, failure)) in self.failures.iter().enumerate() {
            let separator = if index == 0 { " to" } else { ";" };
            write!(f, "{separator} {address}: {failure}")?;
        }
        Ok(())
    }
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Silent(waited) => write!(f, "no answer in {:.1} s", waited.as_secs_f64()),
        }
    }
}

/// Connects to one of `addresses`, of which the first is tried first, within `limit` for all of them.
pub fn connect(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, ConnectError> {
    race(&Host, addresses, limit)
}

/// Connections and time, or in tests what stands for them.
trait Dial {
    type Attempt;
    type Connection;

    fn now(&self) -> Instant;
    fn start(&self, address: SocketAddr) -> io::Result<Self::Attempt>;
    /// The connection, or the attempt again if it continues.
    fn finish(&self, attempt: Self::Attempt) -> io::Result<Result<Self::Connection, Self::Attempt>>;
    /// Until something becomes of one of `attempts`, or until then.
    fn wait(&self, attempts: &[&Self::Attempt], until: Instant);
}

struct Host;

impl Dial for Host {
    type Attempt = TcpStream;
    type Connection = TcpStream;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn start(&self, address: SocketAddr) -> io::Result<TcpStream> {
        start_connecting(address)
    }

    fn finish(&self, attempt: TcpStream) -> io::Result<Result<TcpStream, TcpStream>> {
        if !is_connected(&attempt)? {
            return Ok(Err(attempt));
        }
        attempt.set_nonblocking(false)?;
        Ok(Ok(attempt))
    }

    fn wait(&self, attempts: &[&TcpStream], until: Instant) {
        wait(attempts.iter().map(|attempt| (attempt.as_fd(), Readiness::Writable)), until);
    }
}

/// An attempt that continues.
struct Running<A> {
    /// Its place among the addresses.
    index: usize,
    address: SocketAddr,
    since: Instant,
    attempt: A,
}

fn race<D: Dial>(dial: &D, addresses: &[SocketAddr], limit: Duration) -> Result<D::Connection, ConnectError> {
    let deadline = dial.now() + limit.min(MAX_LIMIT);
    let mut next = addresses.iter().copied().enumerate();
    let mut running: Vec<Running<D::Attempt>> = Vec::new();
    let mut failures = Vec::new();
    let mut start_at = dial.now();
    loop {
        for Running { index, address, since, attempt } in std::mem::take(&mut running) {
            match dial.finish(attempt) {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(attempt)) => running.push(Running { index, address, since, attempt }),
                Err(error) => {
                    failures.push((index, address, AttemptFailure::Refused(error)));
                    start_at = dial.now();
                }
            }
        }
        let now = dial.now();
        if now >= deadline {
            let silent = |it: Running<_>| (it.index, it.address, AttemptFailure::Silent(now - it.since));
            failures.extend(running.drain(..).map(silent));
            break;
        }
        if now >= start_at || running.is_empty() {
            if let Some((index, address)) = next.next() {
                start_at = now + STAGGER;
                match dial.start(address) {
                    Ok(attempt) => running.push(Running { index, address, since: now, attempt }),
                    Err(error) => {
                        failures.push((index, address, AttemptFailure::Refused(error)));
                        start_at = now;
                    }
                }
                continue;
            }
            if running.is_empty() {
                break;
            }
        }
        let until = if next.len() > 0 { deadline.min(start_at) } else { deadline };
        dial.wait(&running.iter().map(|it| &it.attempt).collect::<Vec<_>>(), until);
    }
    failures.sort_by_key(|(index, ..)| *index);
    Err(ConnectError { failures: failures.into_iter().map(|(_, address, failure)| (address, failure)).collect() })
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
