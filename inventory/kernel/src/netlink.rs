//! Requests to the kernel over netlink (netlink(7)).

use crate::socket::set_words;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
};
use nix::{
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recvmsg, sendto, setsockopt,
            socket, sockopt::ReceiveTimeout,
        },
        time::{TimeVal, TimeValLike},
    },
};
use std::{
    io::{self, IoSliceMut},
    ops::ControlFlow,
    os::fd::{AsFd, AsRawFd, RawFd},
};

/// The kernel's datagrams are 32 KiB at most, or as large as the largest message.
const DATAGRAM_BYTES: usize = 256 << 10;
/// `NETLINK_GET_STRICT_CHK` of linux/netlink.h.
const STRICT_CHECKS: libc::c_int = 12;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the answer exceeds {limit_bytes} bytes")]
    TooLong { limit_bytes: usize },
    #[error("the answer holds a message of {len_bytes} bytes")]
    Truncated { len_bytes: usize },
}

impl From<Errno> for NetlinkError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Bounds of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The kernel answers at once; this ends the wait for one that never does.
    pub timeout_s: i64,
    pub bytes: usize,
}

/// How much of a table a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Table,
    Entry,
}

impl Scope {
    fn flags(self) -> u16 {
        match self {
            Self::Table => NLM_F_REQUEST | NLM_F_DUMP,
            Self::Entry => NLM_F_REQUEST,
        }
    }
}

/// Sends a request to rtnetlink, in the calling thread's network namespace. `each` gets the entries without their netlink headers,
/// and may break off. Returns whether the table changed during the dump.
pub fn ask(
    request: impl NetlinkSerializable,
    scope: Scope,
    sequence: u32,
    limits: Limits,
    mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<bool, NetlinkError> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(limits.timeout_s))?;
    // Lets the kernel filter by table. Kernels before 4.20 don't know it; what they send is filtered again anyway.
    if scope == Scope::Table
        && let Err(error) = set_words(socket.as_fd(), libc::SOL_NETLINK, STRICT_CHECKS, &[1])
    {
        tracing::debug!(%error, "kernel without strict netlink checks");
    }
    let request = encode(request, scope, sequence);
    sendto(socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let (mut total, mut changed) = (0_usize, false);
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let (len_bytes, sender) = match receive(socket.as_raw_fd(), &mut datagram) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        let Some(received) = datagram.get(..len_bytes) else { return Err(NetlinkError::Truncated { len_bytes }) };
        if sender.is_none_or(|sender| sender.pid() != 0) {
            continue;
        }
        total = total.saturating_add(len_bytes);
        if total > limits.bytes {
            return Err(NetlinkError::TooLong { limit_bytes: limits.bytes });
        }
        for frame in frames(received, sequence) {
            match frame {
                Frame::Message { payload, inconsistent } => {
                    changed |= inconsistent;
                    if each(payload).is_break() {
                        return Ok(changed);
                    }
                }
                Frame::End { inconsistent } => return Ok(changed || inconsistent),
                // A namespace that never had a route has no table yet.
                Frame::Error(libc::ENOENT) if scope == Scope::Table => return Ok(changed),
                Frame::Error(errno) => return Err(io::Error::from_raw_os_error(errno).into()),
            }
        }
        if scope == Scope::Entry {
            return Ok(changed);
        }
    }
}

/// Returns the datagram's whole length, whether it fits or not.
fn receive(socket: RawFd, datagram: &mut [u8]) -> nix::Result<(usize, Option<NetlinkAddr>)> {
    let mut parts = [IoSliceMut::new(datagram)];
    let message = recvmsg(socket, &mut parts, None, MsgFlags::MSG_TRUNC)?;
    Ok((message.bytes, message.address))
}

fn encode(payload: impl NetlinkSerializable, scope: Scope, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = scope.flags();
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(payload));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Frame<'a> {
    /// An entry of the table, without its netlink header.
    Message { payload: &'a [u8], inconsistent: bool },
    /// The end of the table.
    End { inconsistent: bool },
    /// The kernel refused, with this errno.
    Error(i32),
}

/// Takes a datagram apart. Messages to others are left out, as is everything after a malformed message.
fn frames(datagram: &[u8], sequence: u32) -> Vec<Frame<'_>> {
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
pub fn attributes(message: &[u8], header_len: usize) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(message.get(header_len..).unwrap_or_default()).map_while(Result::ok).filter_map(|attribute| {
        let whole = attribute.into_inner();
        let kind = u16::from_ne_bytes([*whole.get(2)?, *whole.get(3)?]) & netlink_packet_core::NLA_TYPE_MASK;
        let len = usize::from(u16::from_ne_bytes([*whole.first()?, *whole.get(1)?]));
        Some((kind, whole.get(4..len)?))
    })
}

/// An attribute that is a 32-bit number of the machine's byte order.
pub fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len() + 16).unwrap();
        let mut bytes =
            [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &sequence.to_ne_bytes(), &[0; 4]]
                .concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// What a request holds.
    struct Payload(&'static [u8]);

    impl NetlinkSerializable for Payload {
        fn message_type(&self) -> u16 {
            18
        }

        fn buffer_len(&self) -> usize {
            self.0.len()
        }

        fn serialize(&self, buffer: &mut [u8]) {
            buffer.copy_from_slice(self.0);
        }
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
        // Without its last message the table goes on in another datagram.
        assert_eq!(
            frames(&datagram[..datagram.len() - 20], 7).last(),
            Some(&Frame::Message { payload: b"x", inconsistent: true })
        );
    }

    #[test]
    fn an_acknowledgement_is_not_an_error() {
        let error = |errno: i32| message(NLMSG_ERROR, 0, 1, &[errno.wrapping_neg().to_ne_bytes(), [0; 4]].concat());
        assert_eq!(frames(&error(libc::ENOENT), 1), [Frame::Error(libc::ENOENT)]);
        assert_eq!(frames(&error(0), 1), [Frame::End { inconsistent: false }]);
        assert_eq!(frames(&error(i32::MIN), 1), [Frame::Error(libc::EIO)]);
    }

    #[test]
    fn requests_are_well_formed() {
        for (scope, flags) in [(Scope::Table, NLM_F_REQUEST | NLM_F_DUMP), (Scope::Entry, NLM_F_REQUEST)] {
            let bytes = encode(Payload(b"abcde"), scope, 3);
            let read = NetlinkBuffer::new_checked(&bytes[..]).unwrap();
            assert_eq!((read.message_type(), read.flags(), read.sequence_number()), (18, flags, 3));
            assert_eq!((usize::try_from(read.length()).unwrap(), read.payload()), (bytes.len(), &b"abcde"[..]));
        }
    }

    #[test]
    fn attributes_of_a_message() {
        let bytes = [vec![0; 8], attribute(3, b"eth0\0"), attribute(0x8000 | 18, b""), vec![9, 0, 1, 0, 5]].concat();
        let found: Vec<_> = attributes(&bytes, 8).collect();
        assert_eq!(found, [(3, &b"eth0\0"[..]), (18, b"")]);
        assert_eq!(attributes(&[], 8).count(), 0);
    }

    proptest! {
        #[test]
        fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            frames(&bytes, 0);
            attributes(&bytes, 4).for_each(drop);
        }
    }
}
