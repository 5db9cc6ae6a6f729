//! Asks all questions of a plan in rounds, on one thread, and books who answers.

use super::{
    Claim, ClaimOptions, Duplicate, Error, Holder,
    plan::{self, Ask, Plan},
};
use crate::{
    codec::{
        arp::{self, Arp},
        echo::{self, Echo, Family},
        ethernet::Frame,
        ndp::{self, Neighbour},
    },
    interfaces::Interface,
    pace::Pace,
    privileges,
    probe::{EchoSocket, PacketProtocol, PacketSocket, RECEIVE_BURST, Received, Sent, SocketError},
};
use api::Mac;
use kernel::order;
use std::{
    cell::RefCell,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    task::{JoinSet, yield_now},
    time::{sleep, sleep_until},
};

/// Questions are few; this keeps a thousand from coming at once.
const PACKETS_PER_SECOND: u32 = 4000;
/// Stations listed for one address. More are a flood.
const MAX_STATIONS: usize = 16;
/// Longer than any reply to our echoes.
const ECHO_BUFFER_BYTES: usize = 2048;

/// Rest after an error, so that a socket that has nothing else to say takes no time.
const ERROR_WAIT: Duration = Duration::from_millis(5);

/// What became of one [`Ask`].
#[derive(Clone, Debug, Default)]
struct Outcome {
    stations: BTreeSet<Mac>,
    echoed: bool,
    sent: bool,
    /// Why the last question did not leave.
    obstacle: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Heard {
    plan: Plan,
    /// In the order of [`Plan::asks`].
    outcomes: Vec<Outcome>,
}

struct Asker {
    plan: Plan,
    /// In the order of [`Plan::links`]; `None` where nothing is asked.
    arp: Vec<Option<PacketSocket>>,
    ndp: Vec<Option<PacketSocket>>,
    echo: [(Family, Option<EchoSocket>); 2],
    /// In every echo of this check: the identifier may be another's.
    cookie: [u8; 8],
    outcomes: RefCell<Vec<Outcome>>,
}

/// The thread keeps no capability: whatever comes back is read without any.
pub(crate) async fn run(plan: Plan, options: &ClaimOptions) -> Result<Heard, Error> {
    let asker = Rc::new(Asker::open(plan)?);
    privileges::drop_all()?;
    let mut readers = JoinSet::new();
    for link in 0..asker.plan.links.len() {
        readers.spawn_local(Rc::clone(&asker).read_arp(link));
        readers.spawn_local(Rc::clone(&asker).read_ndp(link));
    }
    for position in 0..asker.echo.len() {
        readers.spawn_local(Rc::clone(&asker).read_echoes(position));
    }
    asker.ask_all(options).await;
    readers.shutdown().await;
    let asker = Rc::into_inner(asker).expect("every task that shared it has ended");
    Ok(Heard { plan: asker.plan, outcomes: asker.outcomes.into_inner() })
}

impl Asker {
    fn open(plan: Plan) -> Result<Self, SocketError> {
        let open = |protocol, wanted: &dyn Fn(&Ask) -> bool| {
            let one = |(position, (interface, _)): (usize, &(Interface, Mac))| {
                let needed = plan.asks.iter().any(|ask| ask.link() == Some(position) && wanted(ask));
                needed.then(|| PacketSocket::open(protocol, interface)).transpose()
            };
            plan.links.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()
        };
        let open_echo = |family| {
            let is_needed = |ask: &Ask| matches!(ask, Ask::Echo { target } if Family::from(*target) == family);
            let socket = if plan.asks.iter().any(is_needed) { EchoSocket::open(family)? } else { None };
            Ok((family, socket))
        };
        Ok(Self {
            arp: open(PacketProtocol::ArpOfAnyKind, &|ask| matches!(ask, Ask::Arp { .. }))?,
            ndp: open(PacketProtocol::Ndp, &|ask| matches!(ask, Ask::Ndp { .. }))?,
            echo: [open_echo(Family::V4)?, open_echo(Family::V6)?],
            cookie: fastrand::u64(..).to_be_bytes(),
            outcomes: RefCell::new(vec![Outcome::default(); plan.asks.len()]),
            plan,
        })
    }

    async fn ask_all(&self, options: &ClaimOptions) {
        if self.plan.asks.is_empty() {
            return;
        }
        let start = Instant::now();
        let pace = Pace::new(PACKETS_PER_SECOND, start);
        for round in 0..options.count {
            sleep_until((start + options.interval * u32::from(round)).into()).await;
            for (position, ask) in self.plan.asks.iter().enumerate() {
                pace.wait().await;
                let sent = self.ask(ask, round).await;
                self.book(position, |outcome| match sent {
                    Ok(()) => outcome.sent = true,
                    Err(obstacle) => outcome.obstacle = Some(obstacle),
                });
            }
        }
        sleep(options.timeout).await;
    }

    /// Asks once; or says why the question was not sent.
    async fn ask(&self, ask: &Ask, round: u16) -> Result<(), String> {
        let link = ask.link().and_then(|link| self.plan.links.get(link));
        let sent = match (*ask, link) {
            (Ask::Echo { target }, _) => {
                let family = Family::from(target);
                let Some((_, Some(socket))) = self.echo.iter().find(|(of, _)| *of == family) else {
                    return Err("the kernel lacks this protocol".to_owned());
                };
                let (kind, identifier) = (echo::Kind::Request, socket.identifier());
                let request = Echo { kind, identifier, sequence: round, payload: &self.cookie };
                socket.send(target, &request.to_bytes(family), || ()).await
            }
            (_, Some((interface, _))) if !interface.has_link => return Err(format!("{} has no link", interface.name)),
            (Ask::Arp { link, target }, Some((_, mac))) => {
                let Some(Some(socket)) = self.arp.get(link) else { return Err("not asked".to_owned()) };
                socket.send(&arp::question(*mac, Ipv4Addr::UNSPECIFIED, target)).await
            }
            (Ask::Ndp { link, target }, Some((_, mac))) => {
                let Some(Some(socket)) = self.ndp.get(link) else { return Err("not asked".to_owned()) };
                socket.send(&ndp::question(*mac, Ipv6Addr::UNSPECIFIED, target)).await
            }
            (_, None) => return Err("not asked".to_owned()),
        };
        let name = link.map_or(String::new(), |(interface, _)| format!("{}: ", interface.name));
        match sent {
            Sent::Yes => Ok(()),
            Sent::Refused(error) => Err(format!("{name}{error}")),
            Sent::Congested => Err(format!("{name}the transmit queue stays full")),
        }
    }

    fn book(&self, position: usize, change: impl FnOnce(&mut Outcome)) {
        if let Some(outcome) = self.outcomes.borrow_mut().get_mut(position) {
            change(outcome);
        }
    }

    fn book_station(&self, link: usize, address: IpAddr, mac: Mac) {
        if mac == Mac([0; 6]) || self.plan.own_macs.contains(&mac) {
            return;
        }
        let asked = self.plan.asks.iter().position(|ask| ask.link() == Some(link) && ask.target() == address);
        let Some(position) = asked else { return };
        self.book(position, |outcome| {
            if outcome.stations.len() < MAX_STATIONS {
                outcome.stations.insert(mac);
            }
        });
    }

    /// A station that sends from the address has it, whatever it says (RFC 5227 §2.1.1).
    async fn read_arp(self: Rc<Self>, link: usize) {
        let Some(Some(socket)) = self.arp.get(link) else { return };
        let book = |frame: Frame<'_>| {
            if let Some(arp) = Arp::parse(frame.payload) {
                self.book_station(link, arp.sender_ip.into(), arp.sender_mac);
            }
        };
        socket.read_frames(book).await;
    }

    /// Advertisements come to us or, as the question names no asker, to all nodes.
    async fn read_ndp(self: Rc<Self>, link: usize) {
        let Some(Some(socket)) = self.ndp.get(link) else { return };
        let book = |frame: Frame<'_>| {
            if let Some(answer) = Neighbour::parse(frame.payload).filter(|n| n.kind == ndp::Kind::Advertisement) {
                self.book_station(link, answer.target.into(), answer.link_address.unwrap_or(frame.source));
            }
        };
        socket.read_frames(book).await;
    }

    async fn read_echoes(self: Rc<Self>, position: usize) {
        let Some((family, Some(socket))) = self.echo.get(position) else { return };
        let mut buffer = vec![0; ECHO_BUFFER_BYTES];
        for received in 1u32.. {
            match socket.receive(&mut buffer).await {
                Ok(Some(Received::Message { from, message, .. })) => {
                    let reply = Echo::parse(*family, message)
                        .filter(|echo| echo.kind == echo::Kind::Reply && echo.payload == self.cookie);
                    let asked = self.plan.asks.iter().position(|ask| *ask == Ask::Echo { target: from });
                    if let (Some(_), Some(position)) = (reply, asked) {
                        self.book(position, |outcome| outcome.echoed = true);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot receive echoes");
                    sleep(ERROR_WAIT).await;
                }
            }
            if received.is_multiple_of(RECEIVE_BURST) {
                yield_now().await;
            }
        }
    }
}

impl Heard {
    /// Who has `address`.
    pub(super) fn claim(&self, address: IpAddr, all: &[Interface]) -> Claim {
        let asked: Vec<_> =
            self.plan.asks.iter().zip(&self.outcomes).filter(|(ask, _)| ask.target() == address).collect();
        let is_asked = asked.iter().any(|(_, outcome)| outcome.sent) || plan::is_ours(all, address);
        let obstacle = (!is_asked).then(|| {
            let obstacles: Vec<_> = asked.iter().filter_map(|(_, outcome)| outcome.obstacle.clone()).collect();
            obstacles.join("; ")
        });
        if let Some(obstacle) = &obstacle {
            tracing::warn!(%address, obstacle, "could not be probed; its holder is unknown");
        }
        let ours = all.iter().filter(|interface| interface.addresses.iter().any(|own| own.ip == address));
        let mut holders: Vec<_> = ours.map(|i| Holder::Ourselves { interface: i.name.clone() }).collect();
        for (ask, outcome) in &asked {
            let neighbour = |mac: &Mac| Holder::Neighbour { interface: self.interface_name(ask), mac: *mac };
            holders.extend(outcome.stations.iter().map(neighbour));
            holders.extend(outcome.echoed.then_some(Holder::Remote));
        }
        order::sort(&mut holders);
        let on_links = asked.iter().filter(|(ask, outcome)| outcome.sent && ask.link().is_some());
        Claim { address, holders, links: on_links.map(|(ask, _)| self.interface_name(ask)).collect(), obstacle }
    }

    /// Every station heard, of questions for our own addresses.
    pub(super) fn duplicates(&self) -> Vec<Duplicate> {
        let mut found: Vec<_> = (self.plan.asks.iter().zip(&self.outcomes))
            .flat_map(|(ask, outcome)| {
                let duplicate =
                    |mac: &Mac| Duplicate { address: ask.target(), interface: self.interface_name(ask), mac: *mac };
                outcome.stations.iter().map(duplicate).collect::<Vec<_>>()
            })
            .collect();
        order::sort(&mut found);
        found
    }

    fn interface_name(&self, ask: &Ask) -> String {
        ask.link().and_then(|link| self.plan.links.get(link)).map_or(String::new(), |(link, _)| link.name.clone())
    }
}
