//! DNS messages (RFC 1035 §4): the questions asked, and as much of an answer as concerns them.

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

/// What fits through every path (DNS flag day 2020).
const EDNS_PAYLOAD_BYTES: u16 = 1232;
/// Longer chains of aliases are loops.
const MAX_ALIASES: usize = 16;

/// What is asked of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    A,
    Aaaa,
    /// The name of an address.
    Ptr,
}

impl Record {
    fn record_type(self) -> RecordType {
        match self {
            Self::A => RecordType::A,
            Self::Aaaa => RecordType::AAAA,
            Self::Ptr => RecordType::PTR,
        }
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.record_type().fmt(f)
    }
}

/// A question for an absolute name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Distinguishes it from other questions.
    pub id: u16,
    /// The name; case stays.
    pub name: Name,
    /// What is asked of it.
    pub record: Record,
}

impl Question {
    /// With an unguessable id: an answer to another question is discarded.
    pub(crate) fn unpredictable(name: &str, record: Record) -> Option<Self> {
        Self::new(random(), name, record)
    }

    /// `name` is taken as absolute, with or without its last dot. `None` for text that is not a name (RFC 1035 §2.3.4).
    pub fn new(id: u16, name: &str, record: Record) -> Option<Self> {
        let mut name = Name::from_ascii(name).ok()?;
        name.set_fqdn(true);
        (!name.is_root()).then_some(Self { id, name, record })
    }

    /// The message to send. With `edns` the server may answer over UDP with more than 512 bytes (RFC 6891).
    pub fn to_bytes(&self, edns: bool) -> Vec<u8> {
        let mut message = Message::new();
        message.set_id(self.id).set_message_type(MessageType::Query).set_op_code(OpCode::Query);
        message.set_recursion_desired(true);
        message.add_query(Query::query(self.name.clone(), self.record.record_type()));
        if edns {
            let mut options = Edns::new();
            options.set_max_payload(EDNS_PAYLOAD_BYTES);
            message.set_edns(options);
        }
        // One name that was checked and no compression: this can't fail, and an empty datagram gets no answer.
        message.to_vec().unwrap_or_default()
    }

    /// Reads an answer; `None` for bytes that are not an answer to this question.
    pub fn answer(&self, bytes: &[u8]) -> Option<Reply> {
        let message = Message::from_vec(bytes).ok()?;
        let asked = |query: &Query| *query.name() == self.name && query.query_type() == self.record.record_type();
        let fits = message.id() == self.id
            && message.message_type() == MessageType::Response
            && message.op_code() == OpCode::Query
            // Servers that refuse may leave the question out.
            && match message.queries() {
                [] => message.response_code() != ResponseCode::NoError,
                [query] => asked(query),
                _ => false,
            };
        fits.then(|| self.reply(&message))
    }

    fn reply(&self, message: &Message) -> Reply {
        let mut canonical = &self.name;
        let mut aliases = 0;
        while let Some(target) = message.answers().iter().find_map(|record| match record.data() {
            RData::CNAME(target) if record.name() == canonical => Some(&target.0),
            _ => None,
        }) {
            canonical = target;
            aliases += 1;
            if aliases > MAX_ALIASES {
                break;
            }
        }
        let mut reply = Reply {
            code: message.response_code().into(),
            truncated: message.truncated(),
            addresses: Vec::new(),
            names: Vec::new(),
            canonical: None,
            referral: !message.authoritative() && !message.recursion_available(),
        };
        for record in message.answers().iter().filter(|record| record.name() == canonical) {
            match (self.record, record.data()) {
                (Record::A, RData::A(address)) => reply.addresses.push(IpAddr::V4(address.0)),
                (Record::Aaaa, RData::AAAA(address)) => reply.addresses.push(IpAddr::V6(address.0)),
                (Record::Ptr, RData::PTR(name)) => reply.names.push(absolute(&name.0)),
                _ => {}
            }
        }
        let holds_something = !reply.addresses.is_empty() || !reply.names.is_empty();
        reply.referral &= !holds_something && message.answers().is_empty() && !message.name_servers().is_empty();
        reply.canonical = (holds_something || aliases > 0).then(|| absolute(canonical));
        reply
    }
}

/// The hash of a randomly keyed hasher, since the standard library has no other random number.
pub(crate) fn random() -> u16 {
    let [.., high, low] = RandomState::new().hash_one(()).to_be_bytes();
    u16::from_be_bytes([high, low])
}

fn absolute(name: &Name) -> String {
    let mut text = name.to_ascii();
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}

/// What a server says to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Response code: 0 no error, 2 server failure, 3 no such name, 5 refused (RFC 1035 §4.1.1).
    pub code: u16,
    /// There is more than fits a datagram; to be asked again over TCP.
    pub truncated: bool,
    /// Of the name or of what it is an alias of, in the server's order.
    pub addresses: Vec<IpAddr>,
    /// For a PTR question, with a trailing dot.
    pub names: Vec<String>,
    /// The last name of the chain of aliases with a trailing dot, or the name itself where it has records; `None` where it has
    /// none.
    pub canonical: Option<String>,
    /// The server only points to others: it does not resolve names for us.
    pub referral: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::{
        Record as Resource,
        rdata::{A, CNAME},
    };
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn answer_to(question: &Question, answers: Vec<Resource>) -> Vec<u8> {
        let mut message = Message::from_vec(&question.to_bytes(false)).unwrap();
        message.set_message_type(MessageType::Response).set_recursion_available(true).add_answers(answers);
        message.to_vec().unwrap()
    }

    fn alias(from: &str, to: &str) -> Resource {
        Resource::from_rdata(name(from), 1, RData::CNAME(CNAME(name(to))))
    }

    fn address(owner: &str, last: u8) -> Resource {
        Resource::from_rdata(name(owner), 1, RData::A(A::new(10, 0, 0, last)))
    }

    #[test]
    fn a_question_is_these_bytes() {
        let question = Question::new(0x1234, "Api.c.d", Record::Aaaa).unwrap();
        let plain = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03Api\x01c\x01d\x00\x00\x1c\x00\x01";
        assert_eq!(question.to_bytes(false), plain);
        let edns = question.to_bytes(true);
        assert_eq!(edns[11], 1);
        assert_eq!(edns[plain.len()..], *b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
        for bad in ["", ".", "a..b", &"x".repeat(64), &"x.".repeat(128)] {
            assert_eq!(Question::new(0, bad, Record::A), None, "{bad}");
        }
    }

    #[test]
    fn aliases_are_followed_in_any_order_and_to_nowhere_else() {
        let question = Question::new(7, "a.d", Record::A).unwrap();
        let bytes = answer_to(
            &question,
            vec![address("C.d.", 1), alias("b.d.", "c.d."), alias("A.d.", "b.d."), address("evil.d.", 66)],
        );
        let reply = question.answer(&bytes).unwrap();
        assert_eq!(reply.addresses, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(reply.canonical.as_deref(), Some("c.d."));
    }

    #[test]
    fn a_loop_of_aliases_ends() {
        let question = Question::new(7, "a.d", Record::A).unwrap();
        let reply = question.answer(&answer_to(&question, vec![alias("a.d.", "b.d."), alias("b.d.", "a.d.")])).unwrap();
        assert!(reply.addresses.is_empty());
    }

    #[test]
    fn a_name_without_records_has_no_canonical_name() {
        let question = Question::new(7, "a.d", Record::A).unwrap();
        let reply = question.answer(&answer_to(&question, vec![])).unwrap();
        assert_eq!((reply.code, reply.canonical, reply.referral), (0, None, false));
    }

    #[test]
    fn answers_to_other_questions_are_none() {
        let question = Question::new(7, "a.d", Record::A).unwrap();
        let bytes = answer_to(&question, vec![address("a.d.", 1)]);
        assert!(question.answer(&bytes).is_some());
        for other in [
            Question { id: 8, ..question.clone() },
            Question { record: Record::Aaaa, ..question.clone() },
            Question::new(7, "b.d", Record::A).unwrap(),
        ] {
            assert_eq!(other.answer(&bytes), None, "{other:?}");
        }
        assert_eq!(question.answer(&question.to_bytes(false)), None, "a question is not an answer");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(id: u16, tail: Vec<u8>) {
            let question = Question::new(id, "a.d", Record::A).unwrap();
            let mut bytes = answer_to(&question, vec![address("a.d.", 1)]);
            let keep = usize::from(id) % bytes.len();
            bytes.truncate(keep);
            bytes.extend_from_slice(&tail);
            let _ = question.answer(&bytes);
            let _ = question.answer(&tail);
        }

        #[test]
        fn names_keep_their_case(id: u16, name in "[a-zA-Z0-9]{1,20}(\\.[a-zA-Z0-9][a-zA-Z0-9-]{0,20}){0,5}\\.?") {
            let question = Question::new(id, &name, Record::A).unwrap();
            let bytes = answer_to(&question, vec![Resource::from_rdata(question.name.clone(), 1, RData::A(A::new(1, 2, 3, 4)))]);
            let canonical = question.answer(&bytes).unwrap().canonical.unwrap();
            prop_assert_eq!(canonical.trim_end_matches('.'), name.trim_end_matches('.'));
        }
    }
}
