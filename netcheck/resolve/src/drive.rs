//! Many lookups at once, on the caller's thread: in its network namespace, with its capabilities, and with nothing left behind.

use crate::{answer::Cause, lookup::Lookup, settings::Settings};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Names looked up at once: a request with a thousand of them must not use up all sockets.
const MAX_LOOKUPS: usize = 32;
/// A server that was silent is asked after the others for this long.
const SILENCE: Duration = Duration::from_secs(60);
const MAX_SILENT: usize = 16;

/// What a question is sent by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

/// Servers and time, or in tests what stands for them.
pub(crate) trait Network {
    /// The way to a server, closed when dropped.
    type Wire;

    fn now(&self) -> Instant;

    /// Sends `message`, or begins to.
    fn open(&mut self, server: SocketAddr, over: Over, message: &[u8]) -> Result<Self::Wire, Cause>;

    /// The next message that came, if there is one.
    fn receive(&mut self, wire: &mut Self::Wire) -> Result<Option<Vec<u8>>, Cause>;

    /// Until something comes by one of `wires`, or until then.
    fn wait(&mut self, wires: &mut [&mut Self::Wire], until: Instant);

    /// Whether this host has a route to `address`.
    fn has_route(&self, address: IpAddr) -> bool;
}

/// Servers that were silent, and when.
#[derive(Debug, Default)]
pub(crate) struct Silent(Mutex<Vec<(SocketAddr, Instant)>>);

impl Silent {
    fn change<T>(&self, work: impl FnOnce(&mut Vec<(SocketAddr, Instant)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Servers<'a> {
    pub settings: &'a Settings,
    pub silent: &'a Silent,
    /// Where to begin, with `options rotate`.
    pub start: usize,
}

impl Servers<'_> {
    /// In the order of the settings; those that were silent lately come last.
    pub(crate) fn order(&self, now: Instant) -> Vec<SocketAddr> {
        let mut order = self.settings.servers.clone();
        if self.settings.rotate && !order.is_empty() {
            let start = self.start % order.len();
            order.rotate_left(start);
        }
        self.silent.change(|silent| {
            silent.retain(|(_, since)| now.saturating_duration_since(*since) < SILENCE);
            order.sort_by_key(|server| silent.iter().any(|(known, _)| known == server));
        });
        order
    }

    /// Nothing came from `server`.
    pub(crate) fn was_silent(&self, server: SocketAddr, now: Instant) {
        self.silent.change(|silent| {
            silent.retain(|(known, _)| *known != server);
            if silent.len() < MAX_SILENT {
                silent.push((server, now));
            }
        });
    }

    /// Something came from `server`.
    pub(crate) fn answered(&self, server: SocketAddr) {
        self.silent.change(|silent| silent.retain(|(known, _)| *known != server));
    }
}

/// Carries out all of `lookups` and gives them back in their order. What is not answered at `deadline` has failed.
pub(crate) fn drive<N: Network>(
    network: &mut N,
    lookups: impl IntoIterator<Item = Lookup<N::Wire>>,
    servers: Servers<'_>,
    deadline: Instant,
) -> Vec<Lookup<N::Wire>> {
    let mut waiting = lookups.into_iter().enumerate();
    let mut active = Vec::new();
    let mut finished = Vec::new();
    loop {
        let room = MAX_LOOKUPS.saturating_sub(active.len());
        active.extend(waiting.by_ref().take(room));
        let (done, others): (Vec<_>, Vec<_>) = active
            .into_iter()
            .map(|(index, mut lookup)| (lookup.advance(network, servers, deadline), index, lookup))
            .partition(|(is_finished, ..)| *is_finished);
        let has_room = !done.is_empty();
        finished.extend(done.into_iter().map(|(_, index, lookup)| (index, lookup)));
        active = others.into_iter().map(|(_, index, lookup)| (index, lookup)).collect();
        if has_room {
            continue;
        }
        if active.is_empty() {
            break;
        }
        let until = active.iter().filter_map(|(_, lookup)| lookup.until()).min().unwrap_or(deadline);
        let mut wires: Vec<_> = active.iter_mut().flat_map(|(_, lookup)| lookup.wires()).collect();
        network.wait(&mut wires, until.min(deadline));
    }
    finished.sort_by_key(|(index, _)| *index);
    finished.into_iter().map(|(_, lookup)| lookup).collect()
}
