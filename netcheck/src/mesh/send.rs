//! Sends the probes of a plan.
//!
//! Probes go out in rounds (the first probe of all addresses, then the second, ...), so a check that is cut short has
//! asked all addresses about equally often. Within a round they are spread over the interval, in an order of this check's
//! own: when many hosts check each other at the same moment, no address is asked by all of them at once.

use super::{
    MeshOptions,
    path_mtu::SEARCH_ROUNDS,
    plan::{MTU_PROBES, header_bytes},
    run::{EchoSeries, Mesh},
    tally::{EchoTally, Responders, Stamp},
};
use crate::{
    codec::{
        arp,
        echo::{self, Echo, Family},
        ndp,
    },
    probe::Sent,
};
use std::{
    net::IpAddr,
    time::{Duration, Instant},
};
use tokio::time::{sleep, sleep_until};

/// A neighbour that has answered is asked this often for a second responder, then left alone: requests are heard by every
/// station of the segment.
const NEIGHBOUR_QUESTIONS: u16 = 3;
/// Paths searched for the largest packet at most: where many fail, they mostly share the reason.
const SEARCHED_PATHS: usize = 16;
/// How long a round of the search waits for answers, on top of twice the longest round trip seen.
const SEARCH_WAIT: Duration = Duration::from_millis(150);

/// Something to send in each round.
#[derive(Clone, Copy)]
enum Probe {
    Arp(usize),
    Ndp(usize),
    /// Position in [`Mesh::series`].
    Echo(usize),
}

impl Mesh {
    pub(super) async fn send_all(&self, options: &MeshOptions) {
        let mut probes: Vec<Probe> = (0..self.plan.arps.len()).map(Probe::Arp).collect();
        probes.extend((0..self.plan.ndps.len()).map(Probe::Ndp));
        probes.extend((0..self.series.len()).map(Probe::Echo));
        fastrand::shuffle(&mut probes);
        let apart = options.interval / u32::try_from(probes.len()).unwrap_or(u32::MAX).max(1);

        let start = Instant::now();
        let rounds = options.count.max(if self.plan.mtus.is_empty() { 0 } else { MTU_PROBES });
        for round in 0..rounds {
            let mut at = start + options.interval * u32::from(round);
            for probe in &probes {
                sleep_until(at.into()).await;
                at += apart;
                match *probe {
                    Probe::Arp(_) | Probe::Ndp(_) if round >= options.count => {}
                    Probe::Arp(position) => self.ask_arp(position).await,
                    Probe::Ndp(position) => self.ask_ndp(position).await,
                    Probe::Echo(position) => self.send_next_echo(position, round).await,
                }
            }
        }
    }

    async fn ask_arp(&self, position: usize) {
        let Some(ask) = self.plan.arps.get(position) else { return };
        let Some(socket) = self.arp_sockets.get(&ask.interface) else { return };
        if !wants_question(self.tallies.borrow().arps.get(position)) {
            return;
        }
        self.pace.wait().await;
        let question = arp::question(ask.own_mac, ask.claimed, ask.target);
        if was_sent(&socket.send(&question).await, ask.target.into()) {
            book_question(self.tallies.borrow_mut().arps.get_mut(position));
        }
    }

    async fn ask_ndp(&self, position: usize) {
        let Some(ask) = self.plan.ndps.get(position) else { return };
        let Some(socket) = self.ndp_sockets.get(&ask.interface) else { return };
        if !wants_question(self.tallies.borrow().ndps.get(position)) {
            return;
        }
        self.pace.wait().await;
        let question = ndp::question(ask.own_mac, ask.source, ask.target);
        if was_sent(&socket.send(&question).await, ask.target.into()) {
            book_question(self.tallies.borrow_mut().ndps.get_mut(position));
        }
    }

    async fn send_next_echo(&self, position: usize, round: u16) {
        let Some(series) = self.series.get(position).filter(|series| round < series.rounds) else { return };
        self.pace.wait().await;
        let book = |change: &dyn Fn(&mut EchoTally)| self.tallies.borrow_mut().echoes.get_mut(position).map(change);
        // Booked right before each attempt: waiting for our own queues is not part of the round trip.
        let before = || {
            let at = Stamp::now();
            book(&|tally| tally.sent(round, at));
        };
        if series.socket.is_none() {
            before();
        } else if !self.send_echo(position, series, round, series.payload_bytes, before).await {
            book(&|tally| tally.not_sent(round));
        }
    }

    /// Sends an echo whose payload begins with the tag `position`; whether it left us.
    async fn send_echo(
        &self,
        position: usize,
        series: &EchoSeries,
        sequence: u16,
        payload_bytes: usize,
        before: impl Fn(),
    ) -> bool {
        let Some(socket) = series.socket.and_then(|socket| self.echo_sockets.get(socket)) else { return false };
        let mut payload = self.tag(position);
        payload.resize(payload_bytes, 0x5a);
        let request = Echo { kind: echo::Kind::Request, identifier: socket.identifier(), sequence, payload: &payload };
        let message = request.to_bytes(Family::from(series.target));
        was_sent(&socket.send(series.target, &message, before).await, series.target)
    }

    /// The start of an echo's payload: this check, and what the echo is for.
    fn tag(&self, position: usize) -> Vec<u8> {
        let mut tag = self.cookie.to_vec();
        tag.extend_from_slice(&u64::try_from(position).unwrap_or(u64::MAX).to_be_bytes());
        tag
    }

    /// Measures the paths that carry ordinary packets but not the full size. Ends at once where there are none.
    pub(super) async fn search_paths(&self) {
        for round in 0..SEARCH_ROUNDS {
            let mut longest = None;
            for (mtu, series, wait) in self.paths_to_search() {
                let sizes = self.tallies.borrow_mut().sizes.get_mut(mtu).map(|search| search.next_sizes().to_vec());
                for size in sizes.unwrap_or_default() {
                    let payload = usize::try_from(size.saturating_sub(header_bytes(series.target))).unwrap_or(0);
                    self.pace.wait().await;
                    let sequence = u16::try_from(round).unwrap_or(u16::MAX);
                    self.send_echo(self.series.len() + mtu, series, sequence, payload, || {}).await;
                    longest = longest.max(Some(wait));
                }
            }
            let Some(longest) = longest else { return };
            sleep(longest).await;
        }
    }

    /// Positions among the plan's MTUs, with the series of full size and how long answers may take.
    fn paths_to_search(&self) -> Vec<(usize, &EchoSeries, Duration)> {
        let tallies = self.tallies.borrow();
        let path = |mtu: usize| {
            let ordinary = tallies.echoes.get(self.mtu_series(mtu))?.statistics().round_trip?;
            let full = tallies.echoes.get(self.mtu_series(mtu) + 1)?.statistics();
            let series = self.series.get(self.mtu_series(mtu) + 1)?;
            (full.received == 0).then_some((mtu, series, SEARCH_WAIT + 2 * ordinary.max))
        };
        (0..self.plan.mtus.len()).filter_map(path).take(SEARCHED_PATHS).collect()
    }
}

/// The host itself is asked for until it answers: a flood of others' answers must not hide its own.
fn wants_question(responders: Option<&Responders>) -> bool {
    responders.is_some_and(|responders| !responders.is_found() || responders.asked < NEIGHBOUR_QUESTIONS)
}

fn book_question(responders: Option<&mut Responders>) {
    if let Some(responders) = responders {
        responders.asked(Instant::now());
    }
}

/// Whether a packet counts as sent: one that the network refused does, one that our own queues had no room for does not.
fn was_sent(sent: &Sent, target: IpAddr) -> bool {
    sent.note(target);
    !matches!(sent, Sent::Congested)
}
