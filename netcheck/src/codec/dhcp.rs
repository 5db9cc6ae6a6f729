//! DHCP (RFC 2131, options of RFC 2132): what a client says, and what servers answer.
//!
//! Answers are read with the lazy half of `dhcproto`: its eager half stops at the first option it can't read, drops all
//! behind it without a word, and subtracts from lengths of zero.

use super::text::printable;
use api::Mac;
use dhcproto::v4::{
    DhcpOption, Encodable, Encoder, Flags, HType, MIN_PACKET_SIZE, Message, MessageType, Opcode, OptionCode,
    borrowed::{self, DhcpOptionIterator},
};
use std::{collections::BTreeMap, net::Ipv4Addr};

/// Port of servers and relays.
pub const SERVER_PORT: u16 = dhcproto::v4::SERVER_PORT;
pub const CLIENT_PORT: u16 = dhcproto::v4::CLIENT_PORT;

/// What ISC's dhclient asks for, in its order.
const PARAMETERS: [OptionCode; 7] = [
    OptionCode::SubnetMask,
    OptionCode::BroadcastAddr,
    OptionCode::TimeOffset,
    OptionCode::Router,
    OptionCode::DomainName,
    OptionCode::DomainNameServer,
    OptionCode::Hostname,
];

/// The fixed part with the magic cookie.
const HEADER_BYTES: usize = 240;
const COOKIE: std::ops::Range<usize> = 236..HEADER_BYTES;
const HARDWARE: std::ops::Range<usize> = 28..34;
const SERVER_NAME: std::ops::Range<usize> = 44..108;
const BOOT_FILE: std::ops::Range<usize> = 108..236;

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    pub kind: QuestionKind,
    /// Comes back in the answers.
    pub transaction: u32,
    /// How long the client has been asking.
    pub seconds: u16,
    /// Whom the address is for.
    pub hardware: Mac,
    /// The address wished for (option 50).
    pub requested: Option<Ipv4Addr>,
    /// Whose offer is accepted (option 54).
    pub server: Option<Ipv4Addr>,
    /// What the client is called (option 12); at most 255 bytes.
    pub host_name: Option<&'a str>,
}

/// Kinds of [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// Who has an address for me?
    Discover,
    /// I take that address.
    Request,
}

impl Question<'_> {
    /// The UDP payload. Answers are requested by broadcast: no host answers ARP for an address not yet configured.
    pub fn to_bytes(&self) -> Vec<u8> {
        let unset = Ipv4Addr::UNSPECIFIED;
        let mut message = Message::new_with_id(self.transaction, unset, unset, unset, unset, &self.hardware.0);
        message.set_secs(self.seconds).set_flags(Flags::default().set_broadcast());
        let kind = match self.kind {
            QuestionKind::Discover => MessageType::Discover,
            QuestionKind::Request => MessageType::Request,
        };
        let options = message.opts_mut();
        options.insert(DhcpOption::MessageType(kind));
        options.insert(DhcpOption::ParameterRequestList(PARAMETERS.to_vec()));
        self.requested.map(|address| options.insert(DhcpOption::RequestedIpAddress(address)));
        self.server.map(|server| options.insert(DhcpOption::ServerIdentifier(server)));
        self.host_name.map(|name| options.insert(DhcpOption::Hostname(name.to_owned())));
        let mut bytes = Vec::with_capacity(MIN_PACKET_SIZE);
        message.encode(&mut Encoder::new(&mut bytes)).expect("writing to memory, with no field longer than its place");
        // BOOTP relays may drop what is shorter (RFC 1542 section 2.1).
        bytes.resize(bytes.len().max(MIN_PACKET_SIZE), 0);
        bytes
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub kind: AnswerKind,
    /// That of the question.
    pub transaction: u32,
    /// Whom the address is for.
    pub hardware: Mac,
    /// The address (yiaddr); unspecified in a refusal.
    pub address: Ipv4Addr,
    /// The relay that the question came through (giaddr).
    pub relay: Option<Ipv4Addr>,
    pub options: DhcpOptions,
}

/// Kinds of [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// You could have this address.
    Offer,
    /// The address is yours.
    Acknowledgement,
    /// It is not.
    Refusal,
}

impl Answer {
    /// Reads the payload of a datagram; `None` unless it is a server's message to an Ethernet station.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        // Below, a length above six would be followed past the end of the message.
        let message = borrowed::Message::new(payload).ok().filter(|message| {
            message.opcode() == Opcode::BootReply && message.htype() == HType::Eth && message.hlen() == 6
        })?;
        let options = DhcpOptions::parse(payload)?;
        let kind = match options.bytes(OptionCode::MessageType)? {
            [2] => AnswerKind::Offer,
            [5] => AnswerKind::Acknowledgement,
            [6] => AnswerKind::Refusal,
            _ => return None,
        };
        Some(Self {
            kind,
            transaction: message.xid(),
            hardware: Mac(payload.get(HARDWARE)?.try_into().ok()?),
            address: message.yiaddr(),
            relay: Some(message.giaddr()).filter(|relay| !relay.is_unspecified()),
            options,
        })
    }
}

/// Options as they came. What has another length than its type is not an option of that type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpOptions(BTreeMap<OptionCode, Vec<u8>>);

impl DhcpOptions {
    /// Those behind the header, and in the header's fields where option 52 says so (RFC 2132 section 9.3). An option in
    /// several pieces is put together (RFC 3396).
    fn parse(payload: &[u8]) -> Option<Self> {
        if payload.get(COOKIE)? != dhcproto::v4::MAGIC {
            return None;
        }
        let mut options = Self::default();
        options.add(payload.get(HEADER_BYTES..)?);
        let overload = options.bytes(OptionCode::OptionOverload).map_or(0, |bytes| bytes.first().copied().unwrap_or(0));
        if overload & 1 != 0 {
            options.add(payload.get(BOOT_FILE)?);
        }
        if overload & 2 != 0 {
            options.add(payload.get(SERVER_NAME)?);
        }
        Some(options)
    }

    fn add(&mut self, bytes: &[u8]) {
        for option in DhcpOptionIterator::new(bytes) {
            self.0.entry(option.code()).or_default().extend_from_slice(option.data());
        }
    }

    /// The option's value as it came.
    pub fn bytes(&self, code: OptionCode) -> Option<&[u8]> {
        self.0.get(&code).map(Vec::as_slice)
    }

    pub fn address(&self, code: OptionCode) -> Option<Ipv4Addr> {
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(self.bytes(code)?).ok()?))
    }

    /// One address or more; empty for an option that is not there.
    pub fn addresses(&self, code: OptionCode) -> Vec<Ipv4Addr> {
        let (addresses, rest) = self.bytes(code).unwrap_or_default().as_chunks::<4>();
        if rest.is_empty() { addresses.iter().copied().map(Ipv4Addr::from).collect() } else { Vec::new() }
    }

    /// A number of seconds.
    pub fn seconds(&self, code: OptionCode) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(code)?.try_into().ok()?))
    }

    /// Text, made [`printable`]; `None` if it is empty.
    pub fn text(&self, code: OptionCode) -> Option<String> {
        self.bytes(code).map(printable).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dhcproto::v4::Decodable;
    use proptest::prelude::*;

    const HARDWARE_ADDRESS: Mac = Mac([0, 0x1a, 0x4a, 0x10, 0x20, 0x30]);

    /// An answer's bytes with the given options.
    fn answer(options: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&[2, 1, 6, 0, 0, 0, 0, 7]);
        bytes[16..20].copy_from_slice(&[192, 168, 127, 104]);
        bytes[HARDWARE].copy_from_slice(&HARDWARE_ADDRESS.0);
        bytes[COOKIE].copy_from_slice(&[99, 130, 83, 99]);
        bytes.extend(options.iter().flat_map(|option| option.iter()));
        bytes
    }

    #[test]
    fn a_question_is_what_dhclient_sends_but_for_the_broadcast_flag() {
        let question = Question {
            kind: QuestionKind::Request,
            transaction: 0x6090_894d,
            seconds: 3,
            hardware: HARDWARE_ADDRESS,
            requested: Some(Ipv4Addr::new(192, 168, 127, 104)),
            server: Some(Ipv4Addr::new(192, 168, 127, 1)),
            host_name: Some("00-1a-4a-10-20-30-api"),
        };
        let bytes = question.to_bytes();
        let mut expected = vec![1, 1, 6, 0, 0x60, 0x90, 0x89, 0x4d, 0, 3, 0x80, 0];
        expected.resize(28, 0);
        expected.extend_from_slice(&HARDWARE_ADDRESS.0);
        expected.resize(236, 0);
        expected.extend_from_slice(&[99, 130, 83, 99, 12, 21]);
        expected.extend_from_slice(b"00-1a-4a-10-20-30-api");
        expected.extend_from_slice(&[50, 4, 192, 168, 127, 104, 53, 1, 3, 54, 4, 192, 168, 127, 1]);
        expected.extend_from_slice(&[55, 7, 1, 28, 2, 3, 15, 6, 12, 255]);
        expected.resize(MIN_PACKET_SIZE, 0);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn options_are_found_in_pieces_and_in_header_fields() {
        let mut bytes = answer(&[&[53, 1, 2], &[0, 0], &[15, 2, b'a', b'b'], &[52, 1, 3], &[15, 1, b'c'], &[255]]);
        bytes[BOOT_FILE][..6].copy_from_slice(&[54, 4, 10, 0, 0, 1]);
        bytes[SERVER_NAME][..6].copy_from_slice(&[51, 4, 0, 0, 14, 16]);
        let answer = Answer::parse(&bytes).unwrap();
        assert_eq!(answer.kind, AnswerKind::Offer);
        assert_eq!(answer.address, Ipv4Addr::new(192, 168, 127, 104));
        assert_eq!((answer.transaction, answer.hardware, answer.relay), (7, HARDWARE_ADDRESS, None));
        assert_eq!(answer.options.text(OptionCode::DomainName), Some("abc".to_owned()));
        assert_eq!(answer.options.address(OptionCode::ServerIdentifier), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(answer.options.seconds(OptionCode::AddressLeaseTime), Some(3600));
    }

    #[test]
    fn values_of_another_length_are_none() {
        let bytes =
            answer(&[&[53, 1, 5], &[54, 3, 10, 0, 0], &[51, 5, 0, 0, 0, 0, 1], &[3, 5, 1, 2, 3, 4, 5], &[15, 2, 0, 0]]);
        let options = Answer::parse(&bytes).unwrap().options;
        assert_eq!(options.address(OptionCode::ServerIdentifier), None);
        assert_eq!(options.seconds(OptionCode::AddressLeaseTime), None);
        assert_eq!(options.addresses(OptionCode::Router), Vec::<Ipv4Addr>::new());
        assert_eq!(options.addresses(OptionCode::DomainNameServer), Vec::<Ipv4Addr>::new());
        assert_eq!(options.text(OptionCode::DomainName), None);
    }

    #[test]
    fn what_is_no_servers_message_to_an_ethernet_station_is_none() {
        let good = answer(&[&[53, 1, 5]]);
        assert!(Answer::parse(&good).is_some());
        for (offset, value) in [(0, 1), (1, 6), (2, 16), (2, 255), (236, 98), (242, 1), (242, 8)] {
            let mut bytes = good.clone();
            bytes[offset] = value;
            assert_eq!(Answer::parse(&bytes), None, "byte {offset} = {value}");
        }
        assert_eq!(Answer::parse(&good[..HEADER_BYTES]), None, "no message type");
        assert_eq!(Answer::parse(&good[..200]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(rest in prop::collection::vec(any::<u8>(), 0..400), start in prop::collection::vec(any::<u8>(), 0..HEADER_BYTES)) {
            let _ = Answer::parse(&start);
            let _ = Answer::parse(&answer(&[&[53, 1, 2], &rest]));
            let mut whole = start;
            whole.extend_from_slice(&rest);
            let _ = Answer::parse(&whole);
        }

        #[test]
        fn another_implementation_reads_what_is_written(
            transaction: u32, seconds: u16, mac: [u8; 6], requested: Option<[u8; 4]>, server: Option<[u8; 4]>,
            name in proptest::option::of("[a-z0-9-]{1,255}"), discover: bool,
        ) {
            let question = Question {
                kind: if discover { QuestionKind::Discover } else { QuestionKind::Request },
                transaction, seconds, hardware: Mac(mac),
                requested: requested.map(Ipv4Addr::from), server: server.map(Ipv4Addr::from), host_name: name.as_deref(),
            };
            let message = Message::from_bytes(&question.to_bytes()).unwrap();
            prop_assert_eq!((message.xid(), message.secs(), message.chaddr()), (transaction, seconds, &mac[..]));
            prop_assert!(message.flags().broadcast());
            prop_assert_eq!(message.opts().has_msg_type(MessageType::Discover), discover);
            let wish = message.opts().get(OptionCode::RequestedIpAddress).cloned();
            prop_assert_eq!(wish, question.requested.map(DhcpOption::RequestedIpAddress));
            let whom = message.opts().get(OptionCode::ServerIdentifier).cloned();
            prop_assert_eq!(whom, question.server.map(DhcpOption::ServerIdentifier));
            prop_assert_eq!(message.opts().get(OptionCode::Hostname).cloned(), name.map(DhcpOption::Hostname));
        }
    }
}
