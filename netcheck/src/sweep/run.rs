//! Asks for all addresses of a plan, paced, on one thread, and books who answers.

use super::{
    Error, Findings, Occupied, Progress, SweepOptions,
    plan::{Ask, Plan},
};
use crate::{
    codec::arp::{self, Arp, Operation},
    pace::Pace,
    privileges,
    probe::{PacketProtocol, PacketSocket, Sent},
};
use api::Mac;
use kernel::order;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::Ipv4Addr,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout_at},
};

const ROUNDS: u8 = 2;
/// Time to answer before the second question.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Time to answer the last.
const LAST_ANSWER: Duration = Duration::from_millis(300);
/// Time to answer the last where answers come late: what answers for others in Linux takes up to 0.8 s (arp(7),
/// `proxy_delay`).
const LATE_ANSWER: Duration = Duration::from_secs(1);
/// Wait for our own queues.
const CONGESTION_WAIT: Duration = Duration::from_millis(10);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Stations listed for one address. More are a flood.
const MAX_STATIONS: usize = 4;

struct Sweep {
    plan: Plan,
    /// One a network.
    sockets: Vec<PacketSocket>,
    tallies: Vec<RefCell<Tally>>,
    progress: Cell<Progress>,
}

/// What is known of one network. Bounded by its size, whatever answers come.
struct Tally {
    /// Set once a question was sent: earlier answers are ignored.
    asked: Vec<bool>,
    stations: BTreeMap<Ipv4Addr, Vec<Mac>>,
    /// Why the network can't be asked any more: who was not asked is not free.
    refused: Option<Error>,
    /// Whether a station answered that had not when the second round began.
    late: bool,
}

/// The thread keeps no capability: whatever comes back is read without any.
pub(crate) async fn run(
    plan: Plan,
    options: &SweepOptions,
    report: &mut dyn FnMut(Progress),
) -> Result<Vec<Findings>, Error> {
    let deadline = Instant::now() + options.deadline;
    let open = |ask: &Ask| PacketSocket::open(PacketProtocol::Arp, &ask.interface);
    let sockets = plan.asks.iter().map(open).collect::<Result<_, _>>()?;
    privileges::drop_all()?;
    let tally = |ask: &Ask| Tally {
        asked: ask.network.addresses().map(|_| false).collect(),
        stations: BTreeMap::new(),
        refused: None,
        late: false,
    };
    let tallies: Vec<_> = plan.asks.iter().map(|ask| RefCell::new(tally(ask))).collect();
    let total = plan.asks.iter().map(|ask| ask.network.addresses().size_hint().0).sum();
    let progress = Cell::new(Progress { round: 1, done: 0, total });
    let sweep = Rc::new(Sweep { plan, sockets, tallies, progress });
    let mut readers = JoinSet::new();
    for position in 0..sweep.sockets.len() {
        readers.spawn_local(Rc::clone(&sweep).read(position));
    }
    let done = timeout_at(deadline.into(), sweep.ask_all(options, report)).await;
    readers.shutdown().await;
    let Progress { round, done: reached, total } = sweep.progress.get();
    done.map_err(|_| Error::Deadline { deadline: options.deadline, round, done: reached, total })?;
    Rc::into_inner(sweep).expect("every task that shared it has ended").into_findings()
}

impl Sweep {
    async fn ask_all(&self, options: &SweepOptions, report: &mut dyn FnMut(Progress)) {
        let pace = Pace::new(options.packets_per_second, Instant::now());
        let mut reported = Instant::now();
        let total = self.progress.get().total;
        for round in 1..=ROUNDS {
            self.progress.set(Progress { round, done: 0, total });
            for ((ask, socket), tally) in self.plan.asks.iter().zip(&self.sockets).zip(&self.tallies) {
                for (offset, target) in ask.network.addresses().enumerate() {
                    if tally.borrow().wants(target, round) && (round == 1 || !self.plan.ours.contains_key(&target)) {
                        if let Some(asked) = tally.borrow_mut().asked.get_mut(offset) {
                            *asked = true;
                        }
                        let refused = self.ask(ask, socket, target, round, &pace).await.err();
                        tally.borrow_mut().refused = refused;
                    }
                    let Progress { done, .. } = self.progress.get();
                    self.progress.set(Progress { round, done: done + 1, total });
                    if reported.elapsed() >= PROGRESS_INTERVAL {
                        reported = Instant::now();
                        report(self.progress.get());
                    }
                }
            }
            sleep(if round < ROUNDS { RETRY_AFTER } else { LAST_ANSWER }).await;
        }
        if self.tallies.iter().any(|tally| tally.borrow().late) {
            sleep(LATE_ANSWER - LAST_ANSWER).await;
        }
    }

    /// Asks once, however long our own queues take; a question that can't be sent voids the sweep of its network.
    async fn ask(
        &self,
        ask: &Ask,
        socket: &PacketSocket,
        target: Ipv4Addr,
        round: u8,
        pace: &Pace,
    ) -> Result<(), Error> {
        let sender = if round == 1 { Ipv4Addr::UNSPECIFIED } else { ask.own_ip };
        let question = arp::question(ask.own_mac, sender, target);
        loop {
            pace.wait().await;
            match socket.send(&question).await {
                Sent::Yes => return Ok(()),
                Sent::Congested => sleep(CONGESTION_WAIT).await,
                Sent::Refused(source) => {
                    return Err(Error::Refused { address: target, interface: ask.interface.name.clone(), source });
                }
            }
        }
    }

    async fn read(self: Rc<Self>, position: usize) {
        let (Some(ask), Some(socket), Some(tally)) =
            (self.plan.asks.get(position), self.sockets.get(position), self.tallies.get(position))
        else {
            return;
        };
        let book = |payload: &[u8]| {
            if let Some(reply) = Arp::parse(payload)
                && answers(&reply, ask)
                && !self.plan.own_macs.contains(&reply.sender_mac)
            {
                tally.borrow_mut().book(ask, &reply, self.progress.get().round);
            }
        };
        socket.read_frames(|frame| book(frame.payload)).await;
    }

    /// What was found on the networks that could be asked to the end.
    fn into_findings(self) -> Result<Vec<Findings>, Error> {
        let (plan, tallies) = (self.plan, self.tallies);
        let (mut swept, mut obstacle) = (Vec::new(), None);
        for (ask, tally) in plan.asks.into_iter().zip(tallies) {
            let Tally { mut stations, refused, .. } = tally.into_inner();
            if let Some(error) = refused {
                tracing::warn!(network = %ask.network, %error, "left out of the reply");
                obstacle.get_or_insert(error);
                continue;
            }
            let ours = plan.ours.keys().filter(|address| ask.network.contains(**address));
            for address in ours {
                stations.entry(*address).or_default();
            }
            let occupied = stations.into_iter().map(|(address, mut stations)| {
                order::sort(&mut stations);
                Occupied { address, ours: plan.ours.get(&address).cloned(), stations }
            });
            let occupied = occupied.collect();
            swept.push(Findings { network: ask.network, interface: ask.interface.name, occupied });
        }
        match obstacle {
            Some(error) if swept.is_empty() => Err(error),
            _ => Ok(swept),
        }
    }
}

/// Whether it is an answer to a question of ours, from a station that can be one.
fn answers(reply: &Arp, ask: &Ask) -> bool {
    let is_station = reply.sender_mac.0 != [0; 6] && reply.sender_mac.0[0] & 1 == 0;
    reply.operation == Operation::Reply
        && is_station
        && reply.target_mac == ask.own_mac
        && (reply.target_ip.is_unspecified() || reply.target_ip == ask.own_ip)
}

impl Tally {
    /// Who has not answered is asked again.
    fn wants(&self, target: Ipv4Addr, round: u8) -> bool {
        self.refused.is_none() && (round == 1 || !self.stations.contains_key(&target))
    }

    fn book(&mut self, ask: &Ask, reply: &Arp, round: u8) {
        let asked = ask.network.offset(reply.sender_ip).and_then(|offset| self.asked.get(offset));
        if asked != Some(&true) {
            return;
        }
        self.late |= round > 1 && !self.stations.contains_key(&reply.sender_ip);
        let stations = self.stations.entry(reply.sender_ip).or_default();
        if stations.len() < MAX_STATIONS && !stations.contains(&reply.sender_mac) {
            stations.push(reply.sender_mac);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::Interface;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn ask() -> Ask {
        let interface =
            Interface { name: "a".into(), index: 1, mac: Some(OWN), mtu: None, has_link: true, addresses: vec![] };
        Ask { network: "10.0.0.0/30".parse().unwrap(), interface, own_mac: OWN, own_ip: Ipv4Addr::new(10, 0, 0, 1) }
    }

    fn reply() -> Arp {
        Arp {
            operation: Operation::Reply,
            sender_mac: OTHER,
            sender_ip: Ipv4Addr::new(10, 0, 0, 2),
            target_mac: OWN,
            target_ip: Ipv4Addr::UNSPECIFIED,
        }
    }

    #[test]
    fn only_answers_to_us_count() {
        let good = reply();
        assert!(answers(&good, &ask()));
        assert!(answers(&Arp { target_ip: Ipv4Addr::new(10, 0, 0, 1), ..good }, &ask()));
        for bad in [
            Arp { operation: Operation::Request, ..good },
            Arp { target_mac: OTHER, ..good },
            Arp { target_mac: Mac([0xff; 6]), ..good },
            Arp { target_ip: Ipv4Addr::new(10, 0, 0, 2), ..good },
            Arp { sender_mac: Mac([0; 6]), ..good },
            Arp { sender_mac: Mac([0xff; 6]), ..good },
        ] {
            assert!(!answers(&bad, &ask()), "{bad:?}");
        }
    }

    #[test]
    fn unasked_answers_and_crowds_are_left_out() {
        let ask = ask();
        let mut tally =
            Tally { asked: vec![false, false, false, true], stations: BTreeMap::new(), refused: None, late: false };
        tally.book(&ask, &reply(), 2);
        tally.book(&ask, &Arp { sender_ip: Ipv4Addr::new(10, 0, 0, 4), ..reply() }, 2);
        assert!(tally.stations.is_empty() && !tally.late);
        for last in (0..200).chain(0..200) {
            let sender_mac = Mac([2, 0, 0, 0, 1, last]);
            tally.book(&ask, &Arp { sender_ip: Ipv4Addr::new(10, 0, 0, 3), sender_mac, ..reply() }, 1);
        }
        let stations = &tally.stations[&Ipv4Addr::new(10, 0, 0, 3)];
        assert_eq!(stations[..], [0, 1, 2, 3].map(|last| Mac([2, 0, 0, 0, 1, last])));
    }
}
