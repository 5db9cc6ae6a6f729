//! Books what comes back, one task a socket.

use super::{
    plan::{ECHO_PAYLOAD_BYTES, header_bytes},
    run::{EchoSeries, Mesh},
    tally::Responders,
};
use crate::{
    codec::{
        arp::{Arp, Operation},
        echo::{self, Echo, Family, quoted_identifier},
        ndp::{self, Neighbour},
    },
    probe::{RECEIVE_BURST, Received},
};
use api::Mac;
use std::{
    collections::HashMap,
    net::IpAddr,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{task::yield_now, time::sleep};

/// The largest packet there is, with room to spare.
const LARGE_BUFFER_BYTES: usize = 1 << 16;
const SMALL_BUFFER_BYTES: usize = 2048;
/// Rest after an error, so that a socket that has nothing else to say takes no time. An interface that goes down says so
/// once and works again later.
const ERROR_WAIT: Duration = Duration::from_millis(5);

impl Mesh {
    pub(super) async fn read_echoes(self: Rc<Self>, socket: usize) {
        let Some(open) = self.echo_sockets.get(socket) else { return };
        let large =
            self.series.iter().any(|series| series.socket == Some(socket) && series.payload_bytes > ECHO_PAYLOAD_BYTES);
        let mut buffer = vec![0; if large { LARGE_BUFFER_BYTES } else { SMALL_BUFFER_BYTES }];
        for received in 1u32.. {
            match open.receive(&mut buffer).await {
                Ok(Some(Received::Message { from, message, arrival })) => {
                    let now = Instant::now();
                    if let Some(reply) = Echo::parse(Family::from(from), message)
                        && reply.kind == echo::Kind::Reply
                        && reply.identifier == open.identifier()
                    {
                        self.book_echo(socket, from, &reply, now, arrival);
                    }
                }
                Ok(Some(Received::TooBig { target, hop, mtu, message })) => {
                    if quoted_identifier(Family::from(target), message) == Some(open.identifier()) {
                        self.book_too_big(socket, target, hop, mtu);
                    }
                }
                Ok(None) => {}
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

    fn book_echo(&self, socket: usize, from: IpAddr, reply: &Echo<'_>, now: Instant, arrival: Option<SystemTime>) {
        let Some(position) = self.position(reply.payload) else { return };
        let mut tallies = self.tallies.borrow_mut();
        // A payload cut or stretched on the way belongs to no series.
        let matches = |series: &EchoSeries| series.target == from && series.socket == Some(socket);
        if let Some(series) = self.series.get(position) {
            if matches(series)
                && reply.payload.len() == series.payload_bytes
                && let Some(tally) = tallies.echoes.get_mut(position)
            {
                tally.answered(reply.sequence, now, arrival);
            }
            return;
        }
        let mtu = position - self.series.len();
        if mtu < self.plan.mtus.len()
            && self.series.get(self.mtu_series(mtu)).is_some_and(matches)
            && let Some(search) = tallies.sizes.get_mut(mtu)
            && let Ok(payload_bytes) = u32::try_from(reply.payload.len())
        {
            search.answered(payload_bytes.saturating_add(header_bytes(from)));
        }
    }

    fn book_too_big(&self, socket: usize, target: IpAddr, hop: IpAddr, mtu: u32) {
        let of_path = |position: &usize| {
            let series = self.series.get(self.mtu_series(*position));
            series.is_some_and(|series| series.target == target && series.socket == Some(socket))
        };
        let path = (0..self.plan.mtus.len()).find(of_path);
        let mut tallies = self.tallies.borrow_mut();
        if let Some(search) = path.and_then(|path| tallies.sizes.get_mut(path)) {
            search.report(hop, mtu);
        }
    }

    /// What an echo's payload says that it is for, if it is of this check.
    fn position(&self, payload: &[u8]) -> Option<usize> {
        let (cookie, rest) = payload.split_first_chunk::<8>()?;
        let (position, _) = rest.split_first_chunk::<8>()?;
        (*cookie == self.cookie).then(|| usize::try_from(u64::from_be_bytes(*position)).ok())?
    }

    pub(super) async fn read_arp(self: Rc<Self>, interface: usize) {
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

    pub(super) async fn read_ndp(self: Rc<Self>, interface: usize) {
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
}

fn book_answer(responders: Option<&mut Responders>, mac: Mac, target: IpAddr) {
    if mac != Mac([0; 6]) && responders.is_some_and(|responders| !responders.answered(mac)) {
        tracing::warn!(address = %target, "too many stations answer for this address; not all are listed");
    }
}
