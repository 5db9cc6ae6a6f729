//! One name: everything it may stand for, until something has addresses.

use crate::{
    answer::{Answer, Outcome, Source},
    drive::{Network, Servers},
    message::{Record, Reply},
    question::{Asking, NO_SUCH_NAME},
};
use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
    vec,
};

/// Resolution delay (RFC 8305 §3): once one family's answer suffices, the other's may take this much longer.
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// What a lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// To connect: what one family's servers say suffices, and what all servers are silent about is given up.
    Connect,
    /// To tell all there is to know of the name.
    Report,
}

/// A name being looked up.
#[derive(Debug)]
pub(crate) struct Lookup<W> {
    pub answer: Answer,
    /// For PTR.
    pub names: Vec<String>,
    aim: Aim,
    records: &'static [Record],
    candidates: vec::IntoIter<String>,
    /// The absolute name that is asked for now, and what is asked of it.
    candidate: String,
    questions: Vec<Asking<W>>,
    grace_until: Option<Instant>,
}

impl<W> Lookup<W> {
    /// Of the absolute names `candidates`, in their order.
    pub(crate) fn new(name: &str, aim: Aim, records: &'static [Record], candidates: Vec<String>) -> Self {
        Self {
            answer: Answer::new(name, Outcome::NoSuchName),
            names: Vec::new(),
            aim,
            records,
            candidates: candidates.into_iter(),
            candidate: String::new(),
            questions: Vec::new(),
            grace_until: None,
        }
    }

    /// One that is finished.
    pub(crate) fn known(answer: Answer) -> Self {
        Self { answer, ..Self::new("", Aim::Report, &[], Vec::new()) }
    }

    /// One that is finished, of an address.
    pub(crate) fn named(name: String) -> Self {
        Self { names: vec![name], ..Self::new("", Aim::Report, &[], Vec::new()) }
    }

    /// Continues as far as it can without waiting; whether it is finished.
    pub(crate) fn advance<N: Network<Wire = W>>(
        &mut self,
        network: &mut N,
        servers: Servers<'_>,
        deadline: Instant,
    ) -> bool {
        loop {
            if self.questions.is_empty() {
                let Some(candidate) = self.candidates.next() else { return true };
                let order = servers.order(network.now());
                let ask = |record: &Record| Asking::new(&candidate, *record, order.clone());
                self.questions = self.records.iter().map(ask).collect();
                self.candidate = candidate;
                self.grace_until = None;
            }
            for question in &mut self.questions {
                question.advance(network, servers, deadline);
                if servers.settings.one_at_a_time && !question.is_done() {
                    break;
                }
            }
            if !self.is_answered(network) {
                return false;
            }
            let is_hopeless = self.take();
            if self.answer.outcome == Outcome::Found || is_hopeless || network.now() >= deadline {
                return true;
            }
        }
    }

    /// When to act although nothing came.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.questions.iter().filter_map(Asking::until).chain(self.grace_until).min()
    }

    pub(crate) fn wires(&mut self) -> impl Iterator<Item = &mut W> {
        self.questions.iter_mut().filter_map(Asking::wire)
    }

    fn is_answered<N: Network>(&mut self, network: &N) -> bool {
        if self.questions.iter().all(Asking::is_done) {
            return true;
        }
        // Some servers deny a whole name for want of AAAA records (RFC 4074 §4.2), but none for want of A.
        let suffices = |asking: &Asking<W>| {
            asking.reply().is_some_and(|(_, reply)| {
                reply.addresses.iter().any(|address| network.has_route(*address))
                    || asking.record == Record::A && reply.code == NO_SUCH_NAME
            })
        };
        if self.aim == Aim::Report || !self.questions.iter().any(suffices) {
            return false;
        }
        let now = network.now();
        now >= *self.grace_until.get_or_insert(now + RESOLUTION_DELAY)
    }

    /// Takes what was answered; whether other names need not be asked for.
    fn take(&mut self) -> bool {
        let questions = std::mem::take(&mut self.questions);
        let is_silent = |asking: &Asking<W>| {
            asking.reply().is_none() && asking.failures.iter().all(|failure| failure.cause.is_silence())
        };
        let is_hopeless = self.aim == Aim::Connect && questions.iter().all(is_silent);
        for question in questions {
            let is_done = question.is_done();
            match question.reply() {
                Some((server, reply)) => self.add(*server, reply),
                None if is_done && self.answer.outcome < Outcome::Failed => {
                    self.answer.outcome = Outcome::Failed;
                    self.answer.source = None;
                }
                // What is not waited for any longer has not failed.
                None => {}
            }
            self.answer.failures.extend(question.failures);
        }
        is_hopeless
    }

    fn add(&mut self, server: SocketAddr, reply: &Reply) {
        let answer = &mut self.answer;
        answer.add(&reply.addresses);
        self.names.extend(reply.names.iter().cloned());
        let outcome = match reply {
            Reply { addresses, .. } if !addresses.is_empty() => Outcome::Found,
            // An alias of a name that does not exist does not exist either (RFC 6604 §3).
            Reply { code: NO_SUCH_NAME, .. } => Outcome::NoSuchName,
            Reply { canonical: Some(_), .. } => Outcome::DanglingAlias,
            _ => Outcome::NoAddress,
        };
        if outcome > answer.outcome || answer.source.is_none() {
            answer.source = Some(Source::Server(server));
        }
        if outcome > answer.outcome && reply.canonical.is_some() {
            answer.canonical.clone_from(&reply.canonical);
            answer.found_as = Some(self.candidate.clone());
        }
        answer.outcome = answer.outcome.max(outcome);
    }
}

/// The name that holds the PTR record of an address (RFC 1035 §3.5, RFC 3596 §2.5).
pub(crate) fn arpa(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 0xf, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_names_backwards() {
        assert_eq!(arpa("192.0.2.17".parse().unwrap()), "17.2.0.192.in-addr.arpa.");
        let expected = "1.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
        assert_eq!(arpa("2001:db8::f1".parse().unwrap()), expected);
    }
}
