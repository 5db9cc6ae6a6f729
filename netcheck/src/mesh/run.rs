//! Carries out a plan: every address through every interface at once, paced, on one thread.
//!
//! Probes go out in rounds (the first probe of all addresses, then the second, ...), so a check that is cut short has
//! asked everybody about equally often. Whatever comes back is booked by one task a socket.

use super::{
    Error, Options,
    plan::{ArpAsk, ECHO_PAYLOAD_BYTES, MTU_PROBES, NdpAsk, Plan},
    tally::{EchoTally, Responders, Stamp},
};
use crate::{
    codec::{
        arp::{self, Arp, Operation},
        echo::{self, Echo, Family},
        ndp::{self, Neighbour},
    },
    pace::Pace,
    privileges,
    probe::{EchoSocket, PacketProtocol, PacketSocket, RECEIVE_FAILURES, Sent, SocketError},
};
use api::Mac;
use std::{
    cell::RefCell,
    collections::HashMap,
    net::IpAddr,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{sleep, sleep_until, timeout_at},
};

/// An address that has answered is asked this often for a second responder, then left alone: requests are heard by every
/// station of the segment.
const NEIGHBOUR_QUESTIONS: u16 = 3;
/// A neighbour that takes longer is no neighbour.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(1);
/// How often to look whether all have answered.
const POLL: Duration = Duration::from_millis(20);
/// Time for a second responder after all have answered.
const SETTLE: Duration = Duration::from_millis(100);
/// The largest packet there is, with room to spare.
const LARGE_BUFFER_BYTES: usize = 1 << 16;
const SMALL_BUFFER_BYTES: usize = 2048;

/// What came back, in the order of the plan's lists.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub plan: Plan,
    pub echoes: Vec<EchoTally>,
    pub arps: Vec<Responders>,
    pub ndps: Vec<Responders>,
    pub mtus: Vec<MtuTally>,
}

/// Echoes of ordinary size and of the full MTU.
#[derive(Debug)]
pub(crate) struct MtuTally {
    pub ordinary: EchoTally,
    pub full: EchoTally,
}

/// A series of echoes, whatever for.
struct EchoSeries {
    target: IpAddr,
    /// Position in [`Mesh::echo_sockets`]; `None` where the kernel lacks the family, so that nothing can come back.
    socket: Option<usize>,
    payload_bytes: usize,
    rounds: u16,
}

struct Mesh {
    plan: Plan,
    series: Vec<EchoSeries>,
    echo_sockets: Vec<EchoSocket>,
    /// By interface; absent where nothing is asked.
    arp_sockets: HashMap<usize, PacketSocket>,
    ndp_sockets: HashMap<usize, PacketSocket>,
    identifier: u16,
    /// In every echo of this check. The identifier alone may be another's: pods and `ping` choose theirs at random too.
    cookie: [u8; 8],
    tallies: RefCell<Tallies>,
}

struct Tallies {
    echoes: Vec<EchoTally>,
    arps: Vec<Responders>,
    ndps: Vec<Responders>,
}

/// Sends the plan's probes and collects what comes back.
///
/// The thread keeps no capability: whatever comes back is read without any.
pub(crate) async fn run(plan: Plan, options: &Options) -> Result<Outcome, Error> {
    let deadline = Instant::now() + options.deadline;
    let mesh = Rc::new(Mesh::open(plan, options)?);
    privileges::drop_all()?;
    let mut readers = JoinSet::new();
    for position in 0..mesh.echo_sockets.len() {
        readers.spawn_local(Rc::clone(&mesh).read_echoes(position));
    }
    for &interface in mesh.arp_sockets.keys() {
        readers.spawn_local(Rc::clone(&mesh).read_arp(interface));
    }
    for &interface in mesh.ndp_sockets.keys() {
        readers.spawn_local(Rc::clone(&mesh).read_ndp(interface));
    }
    let work = async {
        mesh.send_all(options).await;
        mesh.wait_for_answers(options.timeout).await;
    };
    if timeout_at(deadline.into(), work).await.is_err() {
        tracing::warn!(deadline = ?options.deadline, "the check was cut short; what is known so far is reported");
        // Answers that have arrived already are yet to be read.
        sleep(POLL).await;
        let since = Instant::now().checked_sub(options.timeout);
        mesh.tallies.borrow_mut().echoes.iter_mut().for_each(|tally| tally.forget_waiting(since));
    }
    readers.shutdown().await;
    Ok(Rc::into_inner(mesh).expect("every task that shared it has ended").into_outcome())
}

impl Mesh {
    fn open(plan: Plan, options: &Options) -> Result<Self, SocketError> {
        let mut mesh = Self {
            series: Vec::new(),
            echo_sockets: Vec::new(),
            arp_sockets: HashMap::new(),
            ndp_sockets: HashMap::new(),
            identifier: fastrand::u16(..),
            cookie: fastrand::u64(..).to_be_bytes(),
            tallies: RefCell::new(Tallies {
                echoes: Vec::new(),
                arps: vec![Responders::default(); plan.arps.len()],
                ndps: vec![Responders::default(); plan.ndps.len()],
            }),
            plan,
        };
        mesh.open_packet_sockets()?;
        mesh.open_echo_sockets(options)?;
        let tallies = mesh.series.iter().map(|series| EchoTally::new(series.rounds)).collect();
        mesh.tallies.borrow_mut().echoes = tallies;
        Ok(mesh)
    }

    fn open_packet_sockets(&mut self) -> Result<(), SocketError> {
        for (position, interface) in self.plan.interfaces.iter().enumerate() {
            if self.plan.arps.iter().any(|ask| ask.interface == position) {
                self.arp_sockets.insert(position, PacketSocket::open(PacketProtocol::Arp, interface)?);
            }
            if self.plan.ndps.iter().any(|ask| ask.interface == position) {
                self.ndp_sockets.insert(position, PacketSocket::open(PacketProtocol::Ndp, interface)?);
            }
        }
        Ok(())
    }

    fn open_echo_sockets(&mut self, options: &Options) -> Result<(), SocketError> {
        let mut opened: HashMap<(Family, Option<usize>), Option<usize>> = HashMap::new();
        let plain = self.plan.echoes.iter().map(|target| (*target, None, ECHO_PAYLOAD_BYTES, options.count));
        let mtu = self.plan.mtus.iter().flat_map(|ask| {
            [ECHO_PAYLOAD_BYTES, ask.payload_bytes].map(|bytes| (ask.target, Some(ask.interface), bytes, MTU_PROBES))
        });
        for (target, interface, payload_bytes, rounds) in plain.chain(mtu) {
            let family = Family::of(target);
            let socket = match opened.get(&(family, interface)) {
                Some(socket) => *socket,
                None => {
                    let name =
                        interface.and_then(|position| self.plan.interfaces.get(position)).map(|i| i.name.as_str());
                    let socket = match name {
                        Some(name) => EchoSocket::open_unfragmented(family, name)?,
                        None => EchoSocket::open(family)?,
                    };
                    let position = socket.map(|socket| {
                        self.echo_sockets.push(socket);
                        self.echo_sockets.len() - 1
                    });
                    opened.insert((family, interface), position);
                    position
                }
            };
            self.series.push(EchoSeries { target, socket, payload_bytes, rounds });
        }
        Ok(())
    }

    async fn send_all(&self, options: &Options) {
        let start = Instant::now();
        let mut pace = Pace::new(options.packets_per_second, start);
        let rounds = options.count.max(if self.plan.mtus.is_empty() { 0 } else { MTU_PROBES });
        for round in 0..rounds {
            sleep_until((start + options.interval * u32::from(round)).into()).await;
            if round < options.count {
                for (position, ask) in self.plan.arps.iter().enumerate() {
                    self.ask_arp(position, ask, &mut pace).await;
                }
                for (position, ask) in self.plan.ndps.iter().enumerate() {
                    self.ask_ndp(position, ask, &mut pace).await;
                }
            }
            for (position, series) in self.series.iter().enumerate().filter(|(_, series)| round < series.rounds) {
                pace.wait().await;
                self.send_echo(position, series, round).await;
            }
        }
    }

    async fn ask_arp(&self, position: usize, ask: &ArpAsk, pace: &mut Pace) {
        let Some(socket) = self.arp_sockets.get(&ask.interface) else { return };
        if !wants_question(self.tallies.borrow().arps.get(position)) {
            return;
        }
        pace.wait().await;
        let question = arp::question(ask.own_mac, ask.claimed, ask.target);
        book_question(self.tallies.borrow_mut().arps.get_mut(position));
        socket.send(&question).await.note(ask.target.into());
    }

    async fn ask_ndp(&self, position: usize, ask: &NdpAsk, pace: &mut Pace) {
        let Some(socket) = self.ndp_sockets.get(&ask.interface) else { return };
        if !wants_question(self.tallies.borrow().ndps.get(position)) {
            return;
        }
        pace.wait().await;
        let question = ndp::question(ask.own_mac, ask.source, ask.target);
        book_question(self.tallies.borrow_mut().ndps.get_mut(position));
        socket.send(&question).await.note(ask.target.into());
    }

    async fn send_echo(&self, position: usize, series: &EchoSeries, round: u16) {
        let mut payload = self.tag(position);
        payload.resize(series.payload_bytes, 0x5a);
        let request =
            Echo { kind: echo::Kind::Request, identifier: self.identifier, sequence: round, payload: &payload };
        let message = request.to_bytes(Family::of(series.target));
        let book = |change: &dyn Fn(&mut EchoTally)| self.tallies.borrow_mut().echoes.get_mut(position).map(change);
        let at = Stamp::now();
        book(&|tally| tally.sent(round, at));
        let Some(socket) = series.socket.and_then(|socket| self.echo_sockets.get(socket)) else { return };
        let sent = socket.send(series.target, &message).await;
        if matches!(sent, Sent::Congested) {
            book(&|tally| tally.not_sent(round));
        }
        sent.note(series.target);
    }

    /// The start of an echo's payload: this check, and which of its series.
    fn tag(&self, position: usize) -> Vec<u8> {
        let mut tag = self.cookie.to_vec();
        tag.extend_from_slice(&u64::try_from(position).unwrap_or(u64::MAX).to_be_bytes());
        tag
    }

    /// The series that an echo's payload belongs to; a payload cut or stretched on the way belongs to none.
    fn series_of(&self, payload: &[u8]) -> Option<(usize, &EchoSeries)> {
        let (cookie, rest) = payload.split_first_chunk::<8>()?;
        let (position, _) = rest.split_first_chunk::<8>()?;
        let position = usize::try_from(u64::from_be_bytes(*position)).ok()?;
        let series = self.series.get(position)?;
        (*cookie == self.cookie && payload.len() == series.payload_bytes).then_some((position, series))
    }

    async fn read_echoes(self: Rc<Self>, socket: usize) {
        let Some(open) = self.echo_sockets.get(socket) else { return };
        let large =
            self.series.iter().any(|series| series.socket == Some(socket) && series.payload_bytes > ECHO_PAYLOAD_BYTES);
        let mut buffer = vec![0; if large { LARGE_BUFFER_BYTES } else { SMALL_BUFFER_BYTES }];
        let mut failures = 0;
        while failures < RECEIVE_FAILURES {
            let received = match open.receive(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    failures += 1;
                    tracing::debug!(%error, "cannot receive echoes");
                    continue;
                }
            };
            failures = 0;
            let now = Instant::now();
            let Some(received) = received else { continue };
            let Some(reply) = Echo::parse(Family::of(received.from), received.message) else { continue };
            if reply.kind != echo::Kind::Reply || reply.identifier != self.identifier {
                continue;
            }
            let Some((position, series)) = self.series_of(reply.payload) else { continue };
            // Every raw socket gets a copy of every reply; only the one that asked books it.
            if series.target == received.from && series.socket == Some(socket) {
                let mut tallies = self.tallies.borrow_mut();
                if let Some(tally) = tallies.echoes.get_mut(position) {
                    tally.answered(reply.sequence, now, received.arrival);
                }
            }
        }
    }

    async fn read_arp(self: Rc<Self>, interface: usize) {
        let Some(socket) = self.arp_sockets.get(&interface) else { return };
        let asks = self.plan.arps.iter().enumerate().filter(|(_, ask)| ask.interface == interface);
        let asks: HashMap<_, _> = asks.map(|(position, ask)| (ask.target, (position, ask))).collect();
        socket
            .read_frames(|frame| {
                let Some(reply) = Arp::parse(frame.payload).filter(|arp| arp.operation == Operation::Reply) else {
                    return;
                };
                let Some((position, ask)) = asks.get(&reply.sender_ip) else { return };
                if reply.target_ip == ask.claimed {
                    book_answer(self.tallies.borrow_mut().arps.get_mut(*position), reply.sender_mac, ask.target.into());
                }
            })
            .await;
    }

    async fn read_ndp(self: Rc<Self>, interface: usize) {
        let Some(socket) = self.ndp_sockets.get(&interface) else { return };
        let asks = self.plan.ndps.iter().enumerate().filter(|(_, ask)| ask.interface == interface);
        let asks: HashMap<_, _> = asks.map(|(position, ask)| (ask.target, (position, ask))).collect();
        socket
            .read_frames(|frame| {
                let Some(answer) = Neighbour::parse(frame.payload) else { return };
                let Some((position, ask)) = asks.get(&answer.target) else { return };
                if answer.kind == ndp::Kind::Advertisement && answer.destination == ask.source {
                    let mac = answer.link_address.unwrap_or(frame.source);
                    book_answer(self.tallies.borrow_mut().ndps.get_mut(*position), mac, ask.target.into());
                }
            })
            .await;
    }

    async fn wait_for_answers(&self, timeout: Duration) {
        let neighbour_timeout = timeout.min(NEIGHBOUR_TIMEOUT);
        loop {
            let now = Instant::now();
            let (echo_since, neighbour_since) = (now.checked_sub(timeout), now.checked_sub(neighbour_timeout));
            let waiting = {
                let tallies = self.tallies.borrow();
                let mut neighbours = tallies.arps.iter().chain(&tallies.ndps);
                tallies.echoes.iter().any(|tally| tally.is_waiting(echo_since))
                    || neighbours.any(|responders| responders.is_waiting(neighbour_since))
            };
            if !waiting {
                break;
            }
            sleep(POLL).await;
        }
        sleep(SETTLE.min(timeout)).await;
    }

    fn into_outcome(self) -> Outcome {
        let Tallies { echoes, arps, ndps } = self.tallies.into_inner();
        let mut echoes = echoes.into_iter();
        let plain = echoes.by_ref().take(self.plan.echoes.len()).collect();
        let mut mtus = Vec::new();
        while let (Some(ordinary), Some(full)) = (echoes.next(), echoes.next()) {
            mtus.push(MtuTally { ordinary, full });
        }
        Outcome { plan: self.plan, echoes: plain, arps, ndps, mtus }
    }
}

fn wants_question(responders: Option<&Responders>) -> bool {
    responders.is_some_and(|responders| responders.macs.is_empty() || responders.asked < NEIGHBOUR_QUESTIONS)
}

fn book_question(responders: Option<&mut Responders>) {
    if let Some(responders) = responders {
        responders.asked(Instant::now());
    }
}

fn book_answer(responders: Option<&mut Responders>, mac: Mac, target: IpAddr) {
    if mac != Mac([0; 6]) && responders.is_some_and(|responders| !responders.answered(mac)) {
        tracing::warn!(address = %target, %mac, "too many stations answer for this address; not listed");
    }
}
