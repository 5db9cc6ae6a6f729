//! Netlink framing: requests, and the messages of a datagram. Pure.

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::AddressMessage,
    link::LinkMessage,
    route::{RouteHeader, RouteMessage},
};

/// A table of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Request {
    /// `RTM_GETLINK`.
    Links,
    /// `RTM_GETADDR`, both families.
    Addresses,
    /// `RTM_GETROUTE`, main table.
    Ipv4Routes,
    /// `RTM_GETROUTE`, main table.
    Ipv6Routes,
}

impl Request {
    /// For messages to people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Addresses => "addresses",
            Self::Ipv4Routes => "IPv4 routes",
            Self::Ipv6Routes => "IPv6 routes",
        }
    }

    /// The datagram that asks for the whole table.
    pub(crate) fn encode(self, sequence: u32) -> Vec<u8> {
        let routes = |family| {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            message.header.table = RouteHeader::RT_TABLE_MAIN;
            RouteNetlinkMessage::GetRoute(message)
        };
        let payload = match self {
            Self::Links => RouteNetlinkMessage::GetLink(LinkMessage::default()),
            Self::Addresses => RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            Self::Ipv4Routes => routes(AddressFamily::Inet),
            Self::Ipv6Routes => routes(AddressFamily::Inet6),
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(payload));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }
}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// An entry of the table, behind its netlink header.
    Message { payload: &'a [u8], inconsistent: bool },
    /// The table is complete, but for what changed meanwhile.
    End { inconsistent: bool },
    /// The kernel refused, with this errno.
    Error(i32),
}

/// Takes a datagram apart. What follows a malformed message, and messages to others, are left out.
pub(crate) fn frames(datagram: &[u8], sequence: u32) -> Vec<Frame<'_>> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Ok(message) = NetlinkBuffer::new_checked(rest) {
        if message.sequence_number() == sequence {
            let inconsistent = message.flags() & NLM_F_DUMP_INTR != 0;
            let payload = message.payload();
            // Both carry a negative errno or 0 first.
            let errno =
                payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes).checked_neg().unwrap_or(libc::EIO));
            match message.message_type() {
                NLMSG_NOOP => {}
                NLMSG_DONE | NLMSG_ERROR if errno != 0 => found.push(Frame::Error(errno)),
                NLMSG_DONE | NLMSG_ERROR => found.push(Frame::End { inconsistent }),
                _ => found.push(Frame::Message { payload, inconsistent }),
            }
        }
        let Some(aligned) = usize::try_from(message.length()).ok().and_then(|len| len.checked_next_multiple_of(4))
        else {
            break;
        };
        rest = rest.get(aligned..).unwrap_or_default();
    }
    found
}

/// The attributes behind a header of `header_len` bytes, up to the first malformed one.
///
/// Only wanted attributes are ever decoded, where netlink-packet-route's messages are parsed whole: a kernel that
/// changes one it does not know well would cost the entire interface.
pub(crate) fn attributes(message: &[u8], header_len: usize) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(message.get(header_len..).unwrap_or_default()).map_while(Result::ok).filter_map(|attribute| {
        let whole = attribute.into_inner();
        let kind = u16::from_ne_bytes([*whole.get(2)?, *whole.get(3)?]) & netlink_packet_core::NLA_TYPE_MASK;
        let len = usize::from(u16::from_ne_bytes([*whole.first()?, *whole.get(1)?]));
        Some((kind, whole.get(4..len)?))
    })
}

/// An attribute that is a 32-bit number of the machine's byte order.
pub(crate) fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// An attribute that is a C string.
pub(crate) fn text_of(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len() + 16).unwrap();
        let mut bytes =
            [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &sequence.to_ne_bytes(), &[0; 4]]
                .concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn frames_of_a_datagram() {
        let datagram = [
            message(16, 2, 7, b"abcde"),
            message(16, 2, 6, b"other"),
            message(16, 2 | NLM_F_DUMP_INTR, 7, b"x"),
            message(NLMSG_DONE, 2, 7, &0i32.to_ne_bytes()),
        ]
        .concat();
        assert_eq!(
            frames(&datagram, 7),
            [
                Frame::Message { payload: b"abcde", inconsistent: false },
                Frame::Message { payload: b"x", inconsistent: true },
                Frame::End { inconsistent: false },
            ]
        );
        let refused = message(NLMSG_ERROR, 0, 1, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(frames(&refused, 1), [Frame::Error(libc::ENOENT)]);
    }

    #[test]
    fn requests_are_well_formed() {
        for request in [Request::Links, Request::Addresses, Request::Ipv4Routes, Request::Ipv6Routes] {
            let bytes = request.encode(3);
            let read = NetlinkBuffer::new_checked(&bytes[..]).unwrap();
            assert_eq!(usize::try_from(read.length()).unwrap(), bytes.len());
            assert_eq!((read.flags(), read.sequence_number()), (NLM_F_REQUEST | NLM_F_DUMP, 3));
        }
    }

    #[test]
    fn attributes_of_a_message() {
        let bytes = [vec![0; 8], attribute(3, b"eth0\0"), attribute(0x8000 | 18, b""), vec![9, 0, 1, 0, 5]].concat();
        let found: Vec<_> = attributes(&bytes, 8).collect();
        assert_eq!(found, [(3, &b"eth0\0"[..]), (18, b"")]);
        assert_eq!(text_of(found[0].1), "eth0");
        assert_eq!(attributes(&[], 8).count(), 0);
    }

    proptest! {
        #[test]
        fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            frames(&bytes, 0);
            attributes(&bytes, 4).for_each(drop);
            crate::net::link::parse_link(&bytes);
            crate::net::link::parse_address(&bytes);
            crate::net::route::parse_route(&bytes);
        }

        #[test]
        fn noisy_attributes_never_panic(kinds in prop::collection::vec((0u16..64, prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let mut bytes = vec![2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
            for (kind, value) in kinds {
                bytes.extend(attribute(kind, &value));
            }
            crate::net::route::parse_route(&bytes);
            crate::net::link::parse_link(&bytes);
            crate::net::link::parse_address(&bytes);
        }
    }
}
