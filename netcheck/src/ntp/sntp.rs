//! Asks servers for the time ourselves, and touches nothing (RFC 5905 §14, RFC 4330).

use crate::{
    codec::sntp::{PACKET_BYTES, Packet, Rejection, Sample, Timestamp},
    event_loop,
};
use kernel::order;
use resolve::Resolver;
use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::{Duration, SystemTime},
};
use tokio::{
    net::UdpSocket,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

const NTP_PORT: u16 = 123;
/// The sample with the shortest round trip is the best (RFC 5905 §10); more are a burden to the server.
const SAMPLES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait for an answer before asking again.
const RETRY: Duration = Duration::from_secs(1);
/// A name may stand for a pool of servers.
const MAX_ADDRESSES: usize = 4;

/// What a server says of this host's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    pub address: SocketAddr,
    /// To be added to this host's clock, seconds: positive where it is behind. Right up to 68 years.
    pub offset_s: f64,
    /// Round trip, seconds; the offset can't be off by more than half of it and `root_distance_s`.
    pub delay_s: f64,
    pub stratum: u8,
    /// How far the server's own clock may be off, seconds.
    pub root_distance_s: f64,
    /// How many answers this is the best of.
    pub samples: u32,
}

/// Why a server's time is not known.
#[derive(Debug, thiserror::Error)]
pub enum SntpError {
    /// Neither a name nor an address, with or without a port.
    #[error("{server} is not a server to ask for the time: NAME, ADDRESS, NAME:PORT or [ADDRESS]:PORT")]
    NotAServer { server: String },
    /// No address for its name.
    #[error("the name {server} could not be resolved")]
    Unresolved { server: String },
    /// No usable answer from any of its addresses.
    #[error("no time from {server} ({})", list(failures))]
    NoTime {
        server: String,
        /// What came of each address.
        failures: Vec<(SocketAddr, Failure)>,
    },
    #[error("cannot start the event loop of the time requests")]
    Runtime { source: io::Error },
}

fn list(failures: &[(SocketAddr, Failure)]) -> String {
    failures.iter().map(|(address, failure)| format!("{address}: {failure}")).collect::<Vec<_>>().join("; ")
}

/// What came of one address.
#[derive(Debug)]
pub enum Failure {
    /// Nothing came.
    Silent {
        /// For how long.
        waited: Duration,
    },
    /// Not to be used.
    Rejected(Rejection),
    /// It can't be reached, or doesn't want to be.
    Socket(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { waited } => write!(formatter, "no answer in {:.1} s", waited.as_secs_f64()),
            Self::Rejected(rejection) => rejection.fmt(formatter),
            Self::Socket(error) => error.fmt(formatter),
        }
    }
}

/// Asks `server` (a name or address, with a port if it is not 123) for the time, within `timeout`; its name is looked up by `resolver`.
///
/// Takes less than a second where it answers. The clock is not touched. Runs on this thread and in its network namespace, not
/// within an event loop, and needs no capability: call it on a thread that has given up all, for it reads what the network
/// sends.
pub fn measure(server: &str, resolver: &Resolver, timeout: Duration) -> Result<Offset, SntpError> {
    let mut results = measure_all(&[server.to_owned()], resolver, timeout)?;
    results.pop().unwrap_or_else(|| Err(SntpError::NotAServer { server: server.to_owned() }))
}

/// As [`measure`] for all `servers` at once, in their order.
pub(super) fn measure_all(
    servers: &[String],
    resolver: &Resolver,
    timeout: Duration,
) -> Result<Vec<Result<Offset, SntpError>>, SntpError> {
    let runtime = |source| SntpError::Runtime { source };
    let deadline = Instant::now() + timeout;
    let parsed: Vec<_> = servers.iter().map(|server| host_and_port(server)).collect();
    let names: Vec<String> = parsed.iter().flatten().filter_map(|(host, _)| host.name().map(str::to_owned)).collect();
    // Half the time at most, so that there is some left to ask those who need no name.
    let mut resolved = super::addresses(&names, resolver, timeout / 2).into_iter();
    let mut targets = Vec::new();
    for (server, parsed) in servers.iter().zip(parsed) {
        let server = server.clone();
        targets.push(match parsed {
            None => Err(SntpError::NotAServer { server }),
            Some((Host::Address(address), port)) => Ok(vec![SocketAddr::new(address, port)]),
            Some((Host::Name(_), port)) => match resolved.next() {
                Some(addresses) if !addresses.is_empty() => Ok(addresses
                    .into_iter()
                    .take(MAX_ADDRESSES)
                    .map(|address| SocketAddr::new(address, port))
                    .collect()),
                _ => Err(SntpError::Unresolved { server }),
            },
        });
    }
    let work = async {
        let mut results = Vec::new();
        // Each begins to be asked when it is made a task, so all are asked at once.
        let tasks: Vec<_> =
            targets.into_iter().map(|target| target.map(|addresses| start(addresses, deadline))).collect();
        for (server, task) in servers.iter().zip(tasks) {
            results.push(match task {
                Ok(tasks) => {
                    finish(tasks).await.map_err(|failures| SntpError::NoTime { server: server.clone(), failures })
                }
                Err(error) => Err(error),
            });
        }
        results
    };
    event_loop::run(work).map_err(runtime)
}

type Answers = JoinSet<(usize, SocketAddr, Result<Offset, Failure>)>;

fn start(addresses: Vec<SocketAddr>, deadline: Instant) -> Answers {
    let mut tasks = JoinSet::new();
    for (index, address) in addresses.into_iter().enumerate() {
        tasks.spawn_local(async move { (index, address, ask(address, deadline).await) });
    }
    tasks
}

/// The first address that answers.
async fn finish(mut tasks: Answers) -> Result<Offset, Vec<(SocketAddr, Failure)>> {
    let mut failures = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok((_, _, Ok(offset))) => return Ok(offset),
            Ok((index, address, Err(failure))) => failures.push((index, address, failure)),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    order::sort_by_key(&mut failures, |(index, ..)| *index);
    Err(failures.into_iter().map(|(_, address, failure)| (address, failure)).collect())
}

async fn ask(address: SocketAddr, deadline: Instant) -> Result<Offset, Failure> {
    let started = Instant::now();
    let unspecified: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0)).await.map_err(Failure::Socket)?;
    // From now on the kernel delivers only this server's packets, and reports refusals.
    socket.connect(address).await.map_err(Failure::Socket)?;
    let mut best: Option<Offset> = None;
    loop {
        let now = Instant::now();
        // The first answer is worth waiting for; the others only make it better.
        let patience = best.map_or(RETRY, |best| Duration::from_secs_f64((best.delay_s * 3.0).clamp(0.05, 1.0)));
        match exchange(&socket, deadline.min(now + patience)).await {
            Ok(Some((packet, Sample { offset_s, delay_s }))) => {
                let samples = best.map_or(0, |best| best.samples) + 1;
                let (stratum, root_distance_s) = (packet.stratum, packet.root_distance_s());
                let this = Offset { address, offset_s, delay_s, stratum, root_distance_s, samples };
                best = Some(match best {
                    Some(earlier) if earlier.delay_s <= delay_s => Offset { samples, ..earlier },
                    _ => this,
                });
                if samples == SAMPLES {
                    break;
                }
            }
            Ok(None) if best.is_none() && Instant::now() < deadline => continue,
            Err(failure) if best.is_none() => return Err(failure),
            Ok(None) | Err(_) => break,
        }
        sleep(PAUSE).await;
    }
    best.ok_or_else(|| Failure::Silent { waited: started.elapsed() })
}

/// One question and its answer; `None` when none came.
async fn exchange(socket: &UdpSocket, until: Instant) -> Result<Option<(Packet, Sample)>, Failure> {
    // The hash of a randomly keyed hasher can't be guessed from afar, and the standard library has no other random number.
    let nonce = RandomState::new().hash_one(Instant::now().into_std());
    let (sent, clock) = (Timestamp::from_system(SystemTime::now()), Instant::now());
    socket.send(&Packet::request(nonce).encode()).await.map_err(Failure::Socket)?;
    // Extensions may follow; they are not read.
    let mut buffer = [0; PACKET_BYTES];
    loop {
        let length = match timeout_at(until, socket.recv(&mut buffer)).await {
            Err(_elapsed) => return Ok(None),
            Ok(received) => received.map_err(Failure::Socket)?,
        };
        // The clock may be set meanwhile; this one only counts.
        let received = sent.after(clock.elapsed());
        let Some(packet) = Packet::decode(&buffer[..length]) else { continue };
        match packet.sample(nonce, sent, received) {
            Ok(sample) => return Ok(Some((packet, sample))),
            Err(Rejection::NotOurs) => {}
            Err(rejection) => return Err(Failure::Rejected(rejection)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl Host<'_> {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

fn host_and_port(server: &str) -> Option<(Host<'_>, u16)> {
    if let Ok(address) = server.parse() {
        return Some((Host::Address(address), NTP_PORT));
    }
    if let Ok(address) = server.parse::<SocketAddr>() {
        return Some((Host::Address(address.ip()), address.port()));
    }
    let (name, port) = match server.split_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (server, NTP_PORT),
    };
    (!name.is_empty()).then_some((Host::Name(name), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_ports() {
        let v6: IpAddr = "fd00::1".parse().unwrap();
        assert_eq!(host_and_port("ntp.example.com"), Some((Host::Name("ntp.example.com"), 123)));
        assert_eq!(host_and_port("ntp.example.com:1123"), Some((Host::Name("ntp.example.com"), 1123)));
        assert_eq!(host_and_port("10.0.0.1:1123"), Some((Host::Address([10, 0, 0, 1].into()), 1123)));
        assert_eq!(host_and_port("fd00::1"), Some((Host::Address(v6), 123)));
        assert_eq!(host_and_port("[fd00::1]:1123"), Some((Host::Address(v6), 1123)));
        for bad in ["", ":123", "a:b", "a:70000", "fd00::1::2"] {
            assert_eq!(host_and_port(bad), None, "{bad}");
        }
    }
}
