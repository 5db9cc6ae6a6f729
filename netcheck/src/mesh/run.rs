//! Carries out a plan: every address through every interface at once, on one thread.
//!
//! One task a socket books what comes back (`receive`) while this one sends (`send`).

use super::{
    Error, MeshOptions,
    path_mtu::{PathMtu, SizeSearch},
    plan::{ECHO_PAYLOAD_BYTES, MTU_PROBES, Plan, header_bytes},
    tally::{EchoTally, Responders},
};
use crate::{
    codec::echo::Family,
    pace::Pace,
    privileges,
    probe::{EchoSocket, PacketProtocol, PacketSocket, SocketError},
};
use api::Mac;
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{sleep, sleep_until, timeout_at},
};

/// A neighbour that takes longer does not count as one.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(1);
/// How often to look whether all have answered.
const POLL: Duration = Duration::from_millis(20);
/// Time for a second responder after the last question.
const SETTLE: Duration = Duration::from_millis(100);

/// What came back, in the order of the plan's lists.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub plan: Plan,
    pub echoes: Vec<EchoTally>,
    pub arps: Vec<Responders>,
    pub ndps: Vec<Responders>,
    pub mtus: Vec<MtuTally>,
}

/// Echoes of ordinary size and of the full MTU, and what is known of the sizes between.
#[derive(Debug)]
pub(crate) struct MtuTally {
    pub ordinary: EchoTally,
    pub full: EchoTally,
    pub path: Option<PathMtu>,
}

/// A series of echoes, whatever for.
pub(super) struct EchoSeries {
    pub target: IpAddr,
    /// Position in [`Mesh::echo_sockets`]; `None` where the kernel lacks the family, so that nothing can come back.
    pub socket: Option<usize>,
    pub payload_bytes: usize,
    pub rounds: u16,
}

pub(super) struct Mesh {
    pub plan: Plan,
    /// One for each of the plan's echoes, then two for each of its MTUs: ordinary and full.
    pub series: Vec<EchoSeries>,
    pub echo_sockets: Vec<EchoSocket>,
    /// By interface; absent where nothing is asked.
    pub arp_sockets: HashMap<usize, PacketSocket>,
    pub ndp_sockets: HashMap<usize, PacketSocket>,
    /// In every echo of this check. A socket's identifier alone may be another's: pods and `ping` choose theirs at random
    /// too.
    pub cookie: [u8; 8],
    pub pace: Pace,
    pub tallies: RefCell<Tallies>,
}

pub(super) struct Tallies {
    pub echoes: Vec<EchoTally>,
    pub arps: Vec<Responders>,
    pub ndps: Vec<Responders>,
    /// In the order of the plan's MTUs.
    pub sizes: Vec<SizeSearch>,
}

/// Sends the plan's probes and collects what comes back.
///
/// The thread keeps no capability: whatever comes back is read without any.
pub(crate) async fn run(plan: Plan, options: &MeshOptions) -> Result<Outcome, Error> {
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
        tokio::join!(mesh.search_paths(), mesh.wait_for_answers(options.timeout));
        // Paths on which the first ordinary packet came back late.
        mesh.search_paths().await;
    };
    if timeout_at(deadline.into(), work).await.is_err() {
        tracing::warn!(deadline = ?options.deadline, "the deadline was reached; reporting what is known so far");
        // Answers that have arrived already are yet to be read.
        sleep(POLL).await;
        let since = Instant::now().checked_sub(options.timeout);
        mesh.tallies.borrow_mut().echoes.iter_mut().for_each(|tally| tally.forget_waiting(since));
    }
    readers.shutdown().await;
    Ok(Rc::into_inner(mesh).expect("every task that shared it has ended").into_outcome())
}

impl Mesh {
    fn open(plan: Plan, options: &MeshOptions) -> Result<Self, SocketError> {
        let expected = |address: IpAddr| -> BTreeSet<Mac> { plan.expected.get(&address).cloned().unwrap_or_default() };
        let sizes = plan.mtus.iter().map(|ask| {
            let packet =
                |payload: usize| u32::try_from(payload).unwrap_or(u32::MAX).saturating_add(header_bytes(ask.target));
            SizeSearch::new(packet(ECHO_PAYLOAD_BYTES), packet(ask.payload_bytes))
        });
        let tallies = Tallies {
            echoes: Vec::new(),
            arps: plan.arps.iter().map(|ask| Responders::expecting(expected(ask.target.into()))).collect(),
            ndps: plan.ndps.iter().map(|ask| Responders::expecting(expected(ask.target.into()))).collect(),
            sizes: sizes.collect(),
        };
        let mut mesh = Self {
            series: Vec::new(),
            echo_sockets: Vec::new(),
            arp_sockets: HashMap::new(),
            ndp_sockets: HashMap::new(),
            cookie: fastrand::u64(..).to_be_bytes(),
            pace: Pace::new(options.packets_per_second, Instant::now()),
            tallies: RefCell::new(tallies),
            plan,
        };
        mesh.open_packet_sockets()?;
        mesh.open_echo_sockets(options)?;
        let echoes = mesh.series.iter().map(|series| EchoTally::new(series.rounds)).collect();
        mesh.tallies.borrow_mut().echoes = echoes;
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

    fn open_echo_sockets(&mut self, options: &MeshOptions) -> Result<(), SocketError> {
        let mut opened: HashMap<(Family, Option<usize>), Option<usize>> = HashMap::new();
        let plain = self.plan.echoes.iter().map(|target| (*target, None, ECHO_PAYLOAD_BYTES, options.count));
        let mtu = self.plan.mtus.iter().flat_map(|ask| {
            [ECHO_PAYLOAD_BYTES, ask.payload_bytes].map(|bytes| (ask.target, Some(ask.interface), bytes, MTU_PROBES))
        });
        for (target, interface, payload_bytes, rounds) in plain.chain(mtu) {
            let family = Family::from(target);
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

    /// Position in [`Self::series`] of the ordinary echoes of the plan's `mtu`; those of the full size come next.
    pub(super) fn mtu_series(&self, mtu: usize) -> usize {
        self.plan.echoes.len() + 2 * mtu
    }

    async fn wait_for_answers(&self, timeout: Duration) {
        let neighbour_timeout = timeout.min(NEIGHBOUR_TIMEOUT);
        loop {
            let now = Instant::now();
            if !self.is_waiting(now.checked_sub(timeout), now.checked_sub(neighbour_timeout)) {
                break;
            }
            sleep(POLL).await;
        }
        if self.is_waiting(None, None) {
            // On a busy machine time may run out with the answers in our sockets, yet to be read.
            sleep(POLL).await;
        }
        let last_asked = {
            let tallies = self.tallies.borrow();
            tallies.arps.iter().chain(&tallies.ndps).filter_map(|responders| responders.last_asked).max()
        };
        if let Some(at) = last_asked {
            sleep_until((at + SETTLE.min(timeout)).into()).await;
        }
    }

    /// Whether an echo sent after `echo_since`, or a neighbour asked after `neighbour_since`, is without its answer.
    fn is_waiting(&self, echo_since: Option<Instant>, neighbour_since: Option<Instant>) -> bool {
        let tallies = self.tallies.borrow();
        tallies.echoes.iter().any(|tally| tally.is_waiting(echo_since))
            || tallies.arps.iter().chain(&tallies.ndps).any(|responders| responders.is_waiting(neighbour_since))
    }

    fn into_outcome(self) -> Outcome {
        let Tallies { echoes, arps, ndps, sizes } = self.tallies.into_inner();
        let mut echoes = echoes.into_iter();
        let plain = echoes.by_ref().take(self.plan.echoes.len()).collect();
        let mut mtus = Vec::new();
        let mut sizes = sizes.iter();
        while let (Some(ordinary), Some(full), Some(sizes)) = (echoes.next(), echoes.next(), sizes.next()) {
            mtus.push(MtuTally { ordinary, full, path: sizes.result() });
        }
        Outcome { plan: self.plan, echoes: plain, arps, ndps, mtus }
    }
}
