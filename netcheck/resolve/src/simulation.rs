//! Name servers that do what a test says, at times that it says: no clock runs, and no test waits.

use crate::{
    answer::{Answer, Cause},
    drive::{Network, Over},
    hosts::Hosts,
    lookup::Aim,
    resolver::Resolver,
    settings::Settings,
};
use hickory_proto::op::ResponseCode;
use std::{
    net::{IpAddr, SocketAddr},
    ops::Deref,
    time::{Duration, Instant},
};
use testkit::net::name_server::Query;

/// What a server does with a question.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// Nothing.
    Drop,
    /// The kernel says that nothing is there.
    Unreachable,
    /// These messages, each after so many milliseconds.
    Send(Vec<(u64, Vec<u8>)>),
}

/// A question as a server sees it.
pub(crate) struct Seen {
    pub server: SocketAddr,
    pub over: Over,
    query: Query,
}

impl Deref for Seen {
    type Target = Query;

    fn deref(&self) -> &Query {
        &self.query
    }
}

impl Seen {
    pub(crate) fn refuse(&self, code: ResponseCode) -> Deed {
        Deed::Send(vec![(1, self.with(code, &[]))])
    }

    /// The name has this address, answered after this many milliseconds.
    pub(crate) fn tell(&self, after_ms: u64, address: &str) -> Deed {
        Deed::Send(vec![(after_ms, self.addresses(&[address]))])
    }
}

pub(crate) struct Simulation<F> {
    serve: F,
    started: Instant,
    now: Instant,
    /// Of each question: server, way, name and kind, in the order they came, with the milliseconds since the start.
    pub log: Vec<(u64, String)>,
    pub has_v6: bool,
    pub most_open: usize,
}

pub(crate) struct Coming(Vec<(Instant, Result<Vec<u8>, Cause>)>);

impl<F: FnMut(&Seen) -> Deed> Simulation<F> {
    pub(crate) fn new(serve: F) -> Self {
        let now = Instant::now();
        Self { serve, started: now, now, log: Vec::new(), has_v6: true, most_open: 0 }
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        (self.now - self.started).as_millis().try_into().unwrap()
    }

    /// Looks a name up by the text of a resolv.conf.
    pub(crate) fn lookup(&mut self, name: &str, resolv_conf: &str, aim: Aim) -> Answer {
        let resolver = Resolver::new(Settings::parse(resolv_conf), Hosts::default());
        self.lookup_by(&resolver, name, aim)
    }

    pub(crate) fn lookup_by(&mut self, resolver: &Resolver, name: &str, aim: Aim) -> Answer {
        let lookup = resolver.lookup(name, aim);
        resolver.drive(self, [lookup], Duration::from_secs(30)).remove(0).answer
    }

    pub(crate) fn questions(&self) -> Vec<&str> {
        self.log.iter().map(|(_, question)| question.as_str()).collect()
    }
}

impl<F: FnMut(&Seen) -> Deed> Network for Simulation<F> {
    type Wire = Coming;

    fn now(&self) -> Instant {
        self.now
    }

    fn open(&mut self, server: SocketAddr, over: Over, message: &[u8]) -> Result<Coming, Cause> {
        let seen = Seen { server, over, query: Query::parse(message, over == Over::Tcp).unwrap() };
        let over = if over == Over::Tcp { " tcp" } else { "" };
        self.log.push((self.elapsed_ms(), format!("{}{over} {} {}", server.ip(), seen.kind, seen.name)));
        let mut coming = match (self.serve)(&seen) {
            Deed::Drop => Vec::new(),
            Deed::Unreachable => vec![(self.now, Err(Cause::Unreachable(std::io::ErrorKind::ConnectionRefused)))],
            Deed::Send(messages) => {
                messages.into_iter().map(|(ms, bytes)| (self.now + Duration::from_millis(ms), Ok(bytes))).collect()
            }
        };
        coming.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Ok(Coming(coming))
    }

    fn receive(&mut self, wire: &mut Coming) -> Result<Option<Vec<u8>>, Cause> {
        match wire.0.last() {
            Some((at, _)) if *at <= self.now => wire.0.pop().map(|(_, came)| came).transpose(),
            _ => Ok(None),
        }
    }

    fn wait(&mut self, wires: &mut [&mut Coming], until: Instant) {
        self.most_open = self.most_open.max(wires.len());
        assert!(until > self.now, "to wait for nothing is to spin");
        let next = wires.iter().filter_map(|wire| Some(wire.0.last()?.0)).min();
        self.now = next.unwrap_or(until).min(until).max(self.now);
    }

    fn has_route(&self, address: IpAddr) -> bool {
        self.has_v6 || address.is_ipv4()
    }
}
