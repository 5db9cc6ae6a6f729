//! One question, asked of one server after the other until one says whether the name exists.

use crate::{
    answer::{Cause, Failure},
    drive::{Network, Over, Servers},
    message::{Question, Record, Reply},
    settings::Settings,
};
use std::{net::SocketAddr, time::Instant};

const NO_ERROR: u16 = 0;
pub(crate) const NO_SUCH_NAME: u16 = 3;
/// Datagrams looked at in one go: a flood of forged ones must not keep us from looking at the clock.
const MAX_DATAGRAMS: u32 = 64;

/// A question, and how far it has got.
#[derive(Debug)]
pub(crate) struct Asking<W> {
    /// The absolute name.
    name: String,
    pub record: Record,
    /// `None` for text that is not a name.
    question: Option<Question>,
    servers: Vec<SocketAddr>,
    /// Counts servers, and rounds through them.
    turn: usize,
    /// Servers from which nothing came over UDP. In the end they are asked over TCP, which may be open where UDP is not.
    silent: Vec<SocketAddr>,
    state: State<W>,
    /// Cut short, for want of the whole.
    truncated: Option<(SocketAddr, Reply)>,
    pub failures: Vec<Failure>,
}

#[derive(Debug)]
enum State<W> {
    /// The next server must be asked.
    Next,
    Waiting {
        server: SocketAddr,
        wire: W,
        over: Over,
        until: Instant,
    },
    Done(Option<(SocketAddr, Reply)>),
}

impl<W> Asking<W> {
    /// `name` is taken as absolute.
    pub(crate) fn new(name: &str, record: Record, servers: Vec<SocketAddr>) -> Self {
        let question = Question::unpredictable(name, record);
        let mut asking = Self {
            name: name.to_owned(),
            record,
            servers,
            turn: 0,
            silent: Vec::new(),
            state: if question.is_some() { State::Next } else { State::Done(None) },
            question,
            truncated: None,
            failures: Vec::new(),
        };
        if asking.question.is_none() {
            asking.note(None, Cause::NotAName);
        }
        asking
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// The answer of an authoritative server.
    pub(crate) fn reply(&self) -> Option<&(SocketAddr, Reply)> {
        match &self.state {
            State::Done(reply) => reply.as_ref(),
            _ => None,
        }
    }

    /// When to act although nothing came.
    pub(crate) fn until(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting { until, .. } => Some(*until),
            _ => None,
        }
    }

    pub(crate) fn wire(&mut self) -> Option<&mut W> {
        match &mut self.state {
            State::Waiting { wire, .. } => Some(wire),
            _ => None,
        }
    }

    /// Continues as far as it can without waiting.
    pub(crate) fn advance<N: Network<Wire = W>>(&mut self, network: &mut N, servers: Servers<'_>, deadline: Instant) {
        loop {
            let next = match &mut self.state {
                State::Done(_) => return,
                State::Next => self.next(servers.settings),
                State::Waiting { server, wire, over, until } => {
                    let (server, over) = (*server, *over);
                    match listen(network, wire, over, self.question.as_ref()) {
                        Ok(None) if network.now() < *until => return,
                        Ok(Some(reply)) if reply.truncated && over == Over::Udp => {
                            self.truncated.get_or_insert((server, reply));
                            Some((server, Over::Tcp))
                        }
                        Ok(Some(reply)) => {
                            servers.answered(server);
                            match objection(&reply) {
                                None => return self.state = State::Done(Some((server, reply))),
                                Some(cause) => self.pass(server, over, cause),
                            }
                            continue;
                        }
                        nothing => {
                            let cause = nothing.err().unwrap_or(Cause::Timeout);
                            if cause.is_silence() {
                                servers.was_silent(server, network.now());
                            }
                            self.pass(server, over, cause);
                            continue;
                        }
                    }
                }
            };
            let Some((server, over)) = next else { return self.give_up() };
            let now = network.now();
            if now >= deadline {
                if self.failures.is_empty() {
                    self.note(Some(server), Cause::Timeout);
                }
                return self.give_up();
            }
            let Some(question) = &self.question else { return self.give_up() };
            match network.open(server, over, &question.to_bytes(servers.settings.edns)) {
                Ok(wire) => {
                    let until = deadline.min(now + servers.settings.timeout);
                    self.state = State::Waiting { server, wire, over, until };
                }
                Err(cause) => self.pass(server, over, cause),
            }
        }
    }

    /// Whom to ask, and how. Each server in each round; then over TCP those that were silent.
    fn next(&self, settings: &Settings) -> Option<(SocketAddr, Over)> {
        let over = if settings.tcp { Over::Tcp } else { Over::Udp };
        let rounds = usize::try_from(settings.attempts).unwrap_or(1);
        let count = self.servers.len();
        if self.turn < rounds * count {
            return self.servers.get(self.turn % count).map(|server| (*server, over));
        }
        let silent = self.silent.get(self.turn - rounds * count).filter(|_| over == Over::Udp);
        silent.map(|server| (*server, Over::Tcp))
    }

    /// Continues with the next server.
    fn pass(&mut self, server: SocketAddr, over: Over, cause: Cause) {
        let is_known = self.silent.contains(&server);
        if over == Over::Udp && cause.is_silence() && !is_known {
            self.silent.push(server);
        }
        // That a silent server has no TCP either is expected.
        if over == Over::Udp || !(is_known && cause.is_silence()) {
            self.note(Some(server), cause);
        }
        self.turn += 1;
        self.state = State::Next;
    }

    fn note(&mut self, server: Option<SocketAddr>, cause: Cause) {
        let failure = Failure { server, name: self.name.clone(), record: self.record, cause };
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// A part of the addresses is better than none.
    fn give_up(&mut self) {
        let part = self.truncated.take().filter(|(_, reply)| !reply.addresses.is_empty() && objection(reply).is_none());
        self.state = State::Done(part);
    }
}

/// The answer to `question`, if it has come.
fn listen<N: Network>(
    network: &mut N,
    wire: &mut N::Wire,
    over: Over,
    question: Option<&Question>,
) -> Result<Option<Reply>, Cause> {
    for _ in 0..MAX_DATAGRAMS {
        let Some(bytes) = network.receive(wire)? else { return Ok(None) };
        let reply = question.and_then(|question| question.answer(&bytes));
        match over {
            // What does not answer our question may be forged; the true answer may still come.
            Over::Udp if reply.is_none() => {}
            Over::Udp => return Ok(reply),
            Over::Tcp => return reply.map(Some).ok_or(Cause::Garbled),
        }
    }
    Ok(None)
}

/// Why another server must be asked.
fn objection(reply: &Reply) -> Option<Cause> {
    match reply.code {
        _ if reply.referral => Some(Cause::NoRecursion),
        NO_ERROR | NO_SUCH_NAME => None,
        code => Some(Cause::Refused(code)),
    }
}
