//! The client's side of RFC 2131 figure 5 up to the lease, without clock or socket.

use crate::codec::dhcp::{Answer, AnswerKind, Question, QuestionKind};
use api::Mac;
use dhcproto::v4::OptionCode;
use std::{collections::BTreeSet, fmt, net::Ipv4Addr, time::Duration};

/// Requests without an answer before the client starts over; one more would take most of the time there is.
const REQUESTS: u32 = 2;
/// The wait for an answer doubles with each question up to this often.
const DOUBLINGS: u32 = 2;
/// Offers that are remembered for the report.
const OFFERS: usize = 8;
const REFUSAL_CHARACTERS: usize = 120;

/// Whether a host can have the address.
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || address.is_broadcast())
}

/// What the servers have said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub questions: u32,
    /// Address and server of each offer.
    pub offers: BTreeSet<(Ipv4Addr, Ipv4Addr)>,
    /// Refusals of a request.
    pub refusals: u32,
    /// What the last of them said.
    pub refusal: Option<String>,
    /// What was wrong with the last unusable answer.
    pub flaw: Option<&'static str>,
    /// Why the last question did not leave.
    pub not_sent: Option<String>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { questions, offers, refusals, .. } = self;
        match questions {
            1 => write!(f, "asked once, ")?,
            _ => write!(f, "asked {questions} times, ")?,
        }
        if offers.is_empty() {
            write!(f, "no offer")?;
        } else {
            let offers: Vec<_> = offers.iter().map(|(address, server)| format!("{address} from {server}")).collect();
            write!(f, "offered {}, never acknowledged", offers.join(" and "))?;
        }
        if *refusals > 0 {
            let text = self.refusal.as_deref().unwrap_or("no reason given");
            let times = if *refusals == 1 { "once".to_owned() } else { format!("{refusals} times") };
            write!(f, ", refused {times} ({text})")?;
        }
        self.flaw.iter().try_for_each(|flaw| write!(f, ", an answer {flaw}"))?;
        self.not_sent.iter().try_for_each(|error| write!(f, ", the question could not be sent ({error})"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asks for an address it had (INIT-REBOOT).
    Rebooting(Ipv4Addr),
    Selecting,
    Requesting {
        address: Ipv4Addr,
        server: Ipv4Addr,
    },
}

/// What to do about an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait on.
    Nothing,
    /// Put the next question at once.
    Ask,
    /// Put the next question after a wait.
    AskAfter(Duration),
    /// The address is ours.
    Bound(Grant),
}

/// What makes an acknowledgement a lease (RFC 2131 table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub address: Ipv4Addr,
    pub server: Ipv4Addr,
    /// How long the address is ours; all ones means forever.
    pub seconds: u32,
}

/// A client on its way to a lease.
#[derive(Debug)]
pub(super) struct Client {
    hardware: Mac,
    host_name: String,
    /// First wait for an answer.
    patience: Duration,
    state: State,
    transaction: u32,
    /// Questions put in this state.
    tries: u32,
    /// RFC 2131 section 4.4.1: a request has the time of its discover.
    seconds: u16,
    /// Named in a discover, as dhclient does, until a server refuses it.
    wish: Option<Ipv4Addr>,
    pub seen: Seen,
}

impl Client {
    pub(super) fn new(hardware: Mac, host_name: String, wish: Option<Ipv4Addr>, patience: Duration) -> Self {
        Self {
            hardware,
            host_name,
            patience,
            state: wish.map_or(State::Selecting, State::Rebooting),
            transaction: fastrand::u32(..),
            tries: 0,
            seconds: 0,
            wish,
            seen: Seen::default(),
        }
    }

    /// The next question, as a UDP payload, and how long to wait for its answer before the one after it.
    pub(super) fn question(&mut self, elapsed: Duration) -> (Vec<u8>, Duration) {
        if self.state != State::Selecting && self.tries >= REQUESTS {
            self.start_over();
        }
        let wait = self.patience * (1 << self.tries.min(DOUBLINGS));
        // Many hosts start at once; each waits up to a fifth longer.
        let wait = wait + wait.mul_f64(fastrand::f64() / 5.0);
        self.tries += 1;
        self.seen.questions += 1;
        if !matches!(self.state, State::Requesting { .. }) {
            self.seconds = u16::try_from(elapsed.as_secs()).unwrap_or(u16::MAX);
        }
        let (kind, requested, server) = match self.state {
            State::Rebooting(address) => (QuestionKind::Request, Some(address), None),
            State::Selecting => (QuestionKind::Discover, self.wish, None),
            State::Requesting { address, server } => (QuestionKind::Request, Some(address), Some(server)),
        };
        let question = Question {
            kind,
            transaction: self.transaction,
            seconds: self.seconds,
            hardware: self.hardware,
            requested,
            server,
            host_name: Some(&self.host_name),
        };
        (question.to_bytes(), wait)
    }

    /// Takes in an answer.
    pub(super) fn hear(&mut self, answer: &Answer) -> Verdict {
        if answer.transaction != self.transaction || answer.hardware != self.hardware {
            return Verdict::Nothing;
        }
        let server = answer.options.address(OptionCode::ServerIdentifier);
        match (self.state, answer.kind) {
            (State::Selecting, AnswerKind::Offer) => self.hear_offer(answer.address, server),
            (State::Requesting { server: chosen, .. }, AnswerKind::Offer | AnswerKind::Acknowledgement)
                if server != Some(chosen) =>
            {
                // Another server's offer, late or slower: worth a word in the report, no more.
                if let Some(server) = server.filter(|_| answer.kind == AnswerKind::Offer) {
                    self.remember(answer.address, server);
                }
                Verdict::Nothing
            }
            (State::Rebooting(address) | State::Requesting { address, .. }, AnswerKind::Acknowledgement) => {
                if answer.address != address {
                    return self.flawed("acknowledged a different address than requested");
                }
                match (server, answer.options.seconds(OptionCode::AddressLeaseTime)) {
                    (Some(server), Some(seconds)) => Verdict::Bound(Grant { address, server, seconds }),
                    _ => self.flawed("had no server identifier or no lease time"),
                }
            }
            (State::Requesting { server: chosen, .. }, AnswerKind::Refusal) if server == Some(chosen) => {
                self.hear_refusal(answer)
            }
            (State::Rebooting(_), AnswerKind::Refusal) => self.hear_refusal(answer),
            _ => Verdict::Nothing,
        }
    }

    /// The first offer is taken, as dhclient does.
    fn hear_offer(&mut self, address: Ipv4Addr, server: Option<Ipv4Addr>) -> Verdict {
        let Some(server) = server.filter(|server| is_host(*server)) else {
            return self.flawed("had no server identifier");
        };
        if !is_host(address) {
            return self.flawed("offered an address that is not valid for a host");
        }
        self.remember(address, server);
        // The transaction stays that of the discover (RFC 2131 section 4.4.1).
        self.state = State::Requesting { address, server };
        self.tries = 0;
        Verdict::Ask
    }

    fn hear_refusal(&mut self, answer: &Answer) -> Verdict {
        self.seen.refusals += 1;
        let text = answer.options.text(OptionCode::Message);
        self.seen.refusal = text.map(|text| text.chars().take(REFUSAL_CHARACTERS).collect());
        self.wish = None;
        self.start_over();
        // Offering and refusing may repeat forever; only the first time it counts as a misunderstanding.
        if self.seen.refusals > 1 { Verdict::AskAfter(self.patience) } else { Verdict::Ask }
    }

    fn remember(&mut self, address: Ipv4Addr, server: Ipv4Addr) {
        if self.seen.offers.len() < OFFERS {
            self.seen.offers.insert((address, server));
        }
    }

    fn flawed(&mut self, flaw: &'static str) -> Verdict {
        self.seen.flaw = Some(flaw);
        Verdict::Nothing
    }

    fn start_over(&mut self) {
        self.state = State::Selecting;
        self.tries = 0;
        self.transaction = fastrand::u32(..);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dhcproto::v4::{Decodable, DhcpOption, Encodable, Encoder, Message, MessageType, Opcode};
    use proptest::prelude::*;

    const HARDWARE: Mac = Mac([0, 0x1a, 0x4a, 0x10, 0x20, 0x30]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const PATIENCE: Duration = Duration::from_secs(2);

    fn client(wish: Option<Ipv4Addr>) -> Client {
        Client::new(HARDWARE, "00-1a-4a-10-20-30-api".to_owned(), wish, PATIENCE)
    }

    /// What a client asks: kind, requested address, server.
    fn asked(client: &mut Client) -> (MessageType, Option<Ipv4Addr>, Option<Ipv4Addr>) {
        let message = Message::from_bytes(&client.question(Duration::ZERO).0).unwrap();
        assert_eq!(message.xid(), client.transaction);
        let address = |code| match message.opts().get(code) {
            Some(DhcpOption::RequestedIpAddress(address) | DhcpOption::ServerIdentifier(address)) => Some(*address),
            _ => None,
        };
        let kind = message.opts().msg_type().unwrap();
        (kind, address(OptionCode::RequestedIpAddress), address(OptionCode::ServerIdentifier))
    }

    fn answer(client: &Client, kind: MessageType, address: Ipv4Addr, server: Option<Ipv4Addr>) -> Answer {
        let unset = Ipv4Addr::UNSPECIFIED;
        let mut message = Message::new_with_id(client.transaction, unset, address, unset, unset, &HARDWARE.0);
        message.set_opcode(Opcode::BootReply);
        message.opts_mut().insert(DhcpOption::MessageType(kind));
        message.opts_mut().insert(DhcpOption::AddressLeaseTime(3600));
        server.map(|server| message.opts_mut().insert(DhcpOption::ServerIdentifier(server)));
        if kind == MessageType::Nak {
            message.opts_mut().insert(DhcpOption::Message("wrong\u{7} network".to_owned()));
        }
        let mut bytes = Vec::new();
        message.encode(&mut Encoder::new(&mut bytes)).unwrap();
        Answer::parse(&bytes).unwrap()
    }

    fn hear(client: &mut Client, kind: MessageType, address: Ipv4Addr, server: Option<Ipv4Addr>) -> Verdict {
        let answer = answer(client, kind, address, server);
        client.hear(&answer)
    }

    #[test]
    fn discover_offer_request_acknowledgement() {
        let mut client = client(None);
        assert_eq!(asked(&mut client), (MessageType::Discover, None, None));
        let transaction = client.transaction;
        assert_eq!(hear(&mut client, MessageType::Offer, ADDRESS, Some(SERVER)), Verdict::Ask);
        assert_eq!(asked(&mut client), (MessageType::Request, Some(ADDRESS), Some(SERVER)));
        assert_eq!(client.transaction, transaction);
        let grant = Grant { address: ADDRESS, server: SERVER, seconds: 3600 };
        assert_eq!(hear(&mut client, MessageType::Ack, ADDRESS, Some(SERVER)), Verdict::Bound(grant));
    }

    #[test]
    fn an_address_had_before_is_asked_for_without_naming_a_server() {
        let mut client = client(Some(ADDRESS));
        assert_eq!(asked(&mut client), (MessageType::Request, Some(ADDRESS), None));
        assert_eq!(hear(&mut client, MessageType::Ack, ADDRESS, None), Verdict::Nothing);
        assert_eq!(client.seen.flaw, Some("had no server identifier or no lease time"));
        let grant = Grant { address: ADDRESS, server: OTHER, seconds: 3600 };
        assert_eq!(hear(&mut client, MessageType::Ack, ADDRESS, Some(OTHER)), Verdict::Bound(grant));
    }

    #[test]
    fn silence_leads_from_a_request_back_to_a_discover_that_wishes_for_the_address() {
        let mut client = client(Some(ADDRESS));
        for _ in 0..REQUESTS {
            assert_eq!(asked(&mut client).0, MessageType::Request);
        }
        assert_eq!(asked(&mut client), (MessageType::Discover, Some(ADDRESS), None));
        assert_eq!(hear(&mut client, MessageType::Offer, OTHER, Some(SERVER)), Verdict::Ask);
        for _ in 0..REQUESTS {
            assert_eq!(asked(&mut client).0, MessageType::Request);
        }
        assert_eq!(asked(&mut client).0, MessageType::Discover);
    }

    #[test]
    fn a_refusal_starts_over_without_the_wish_and_a_second_one_after_a_wait() {
        let mut client = client(Some(ADDRESS));
        asked(&mut client);
        assert_eq!(hear(&mut client, MessageType::Nak, Ipv4Addr::UNSPECIFIED, Some(SERVER)), Verdict::Ask);
        assert_eq!(asked(&mut client), (MessageType::Discover, None, None));
        hear(&mut client, MessageType::Offer, ADDRESS, Some(SERVER));
        let no = Ipv4Addr::UNSPECIFIED;
        assert_eq!(hear(&mut client, MessageType::Nak, no, Some(OTHER)), Verdict::Nothing, "not the one asked");
        assert_eq!(hear(&mut client, MessageType::Nak, no, Some(SERVER)), Verdict::AskAfter(PATIENCE));
        let text = "asked 2 times, offered 10.0.0.5 from 10.0.0.1, never acknowledged, refused 2 times (wrong\u{fffd} network)";
        assert_eq!(client.seen.to_string(), text);
    }

    #[test]
    fn what_is_not_for_this_question_is_passed_over() {
        let mut client = client(None);
        assert_eq!(client.seen.to_string(), "asked 0 times, no offer");
        asked(&mut client);
        let mut foreign = answer(&client, MessageType::Offer, ADDRESS, Some(SERVER));
        foreign.transaction ^= 1;
        assert_eq!(client.hear(&foreign), Verdict::Nothing);
        let mut foreign = answer(&client, MessageType::Offer, ADDRESS, Some(SERVER));
        foreign.hardware = Mac([2; 6]);
        assert_eq!(client.hear(&foreign), Verdict::Nothing);
        assert_eq!(
            hear(&mut client, MessageType::Ack, ADDRESS, Some(SERVER)),
            Verdict::Nothing,
            "nothing requested yet"
        );
        assert_eq!(client.seen.flaw, None);
        assert_eq!(hear(&mut client, MessageType::Offer, ADDRESS, None), Verdict::Nothing);
        assert_eq!(client.seen.flaw, Some("had no server identifier"));
        for bad in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
            assert_eq!(hear(&mut client, MessageType::Offer, bad, Some(SERVER)), Verdict::Nothing, "{bad}");
        }
        hear(&mut client, MessageType::Offer, ADDRESS, Some(SERVER));
        assert_eq!(hear(&mut client, MessageType::Ack, ADDRESS, Some(OTHER)), Verdict::Nothing);
        assert_eq!(hear(&mut client, MessageType::Ack, OTHER, Some(SERVER)), Verdict::Nothing);
        assert_eq!(client.seen.flaw, Some("acknowledged a different address than requested"));
        hear(&mut client, MessageType::Offer, OTHER, Some(OTHER));
        assert_eq!(client.seen.offers, BTreeSet::from([(ADDRESS, SERVER), (OTHER, OTHER)]));
    }

    #[test]
    fn waits_grow_and_stay_inside_the_time_there_is() {
        let mut client = client(None);
        let waits: Vec<_> = (0..6).map(|_| client.question(Duration::ZERO).1.as_secs_f64()).collect();
        for (wait, least) in waits.iter().zip([2.0, 4.0, 8.0, 8.0, 8.0, 8.0]) {
            assert!((least..=least * 1.2).contains(wait), "{waits:?}");
        }
        assert!(waits[..4].iter().sum::<f64>() < 28.0, "{waits:?}");
    }

    proptest! {
        /// Whatever servers say, a client is bound only to an address that it has asked for.
        #[test]
        fn no_order_of_answers_binds_a_foreign_address(
            said in prop::collection::vec((0usize..4, 0u8..4, 0u8..3, any::<bool>()), 0..40),
        ) {
            let mut client = client(None);
            for (kind, address, server, question) in said {
                let requested = if question { asked(&mut client).1 } else { None };
                let kind = [MessageType::Offer, MessageType::Ack, MessageType::Nak, MessageType::Offer][kind];
                let server = (server > 0).then(|| Ipv4Addr::new(10, 0, 0, server));
                let address = Ipv4Addr::new(10, 0, 1, address);
                let expected = match client.state { State::Requesting { address, .. } => Some(address), _ => requested };
                if let Verdict::Bound(grant) = hear(&mut client, kind, address, server) {
                    prop_assert_eq!((Some(grant.address), Some(grant.server)), (expected, server));
                    break;
                }
            }
        }
    }
}
