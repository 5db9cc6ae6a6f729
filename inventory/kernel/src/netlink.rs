//! Requests to the kernel over netlink (netlink(7)).

use crate::socket::set_words;
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

// linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The number of an attribute, without the flags for nested ones and for byte order.
const NLA_TYPE_MASK: u16 = 0x3fff;
/// Of `struct nlmsghdr`: length (4 bytes), type (2), flags (2), sequence number (4), port (4).
const HEADER_BYTES: usize = 16;
/// Of `struct nlattr`: length and number, 2 bytes each.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
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
    #[error("the answer contains a message of {len_bytes} bytes")]
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
    /// The kernel answers at once; this ends the wait if it never does.
    pub timeout_s: i64,
    pub bytes: usize,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the message.
    pub kind: u16,
    /// Its structure and attributes, in the machine's byte order.
    pub body: Vec<u8>,
}

/// How much of a table a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Table,
    Entry,
    /// Not a question but a change, which the kernel confirms.
    Change,
}

impl Scope {
    fn flags(self) -> u16 {
        match self {
            Self::Table => NLM_F_REQUEST | NLM_F_DUMP,
            Self::Entry => NLM_F_REQUEST,
            Self::Change => NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
        }
    }
}

/// Sends a request to rtnetlink, in the calling thread's network namespace. `each` gets the entries without their netlink headers,
/// and may break off. Returns whether the table changed during the dump.
pub fn ask(
    request: &Request,
    scope: Scope,
    sequence: u32,
    limits: Limits,
    each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<bool, NetlinkError> {
    exchange(SockProtocol::NetlinkRoute, request, scope, sequence, limits, each)
}

/// The same to a family of generic netlink.
pub(crate) fn ask_generic(
    request: &Request,
    scope: Scope,
    sequence: u32,
    limits: Limits,
    each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<bool, NetlinkError> {
    exchange(SockProtocol::NetlinkGeneric, request, scope, sequence, limits, each)
}

fn exchange(
    protocol: SockProtocol,
    request: &Request,
    scope: Scope,
    sequence: u32,
    limits: Limits,
    mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<bool, NetlinkError> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
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

fn encode(request: &Request, scope: Scope, sequence: u32) -> Vec<u8> {
    let len_bytes = u32::try_from(HEADER_BYTES + request.body.len()).unwrap_or(u32::MAX);
    let numbers = [request.kind, scope.flags()].map(u16::to_ne_bytes).concat();
    [&len_bytes.to_ne_bytes()[..], &numbers, &sequence.to_ne_bytes(), &[0; 4], &request.body].concat()
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
    while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
        let len_bytes = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
        let Some(payload) = rest.get(HEADER_BYTES..len_bytes) else { break };
        if u32::from_ne_bytes([s0, s1, s2, s3]) == sequence {
            let inconsistent = u16::from_ne_bytes([f0, f1]) & NLM_F_DUMP_INTR != 0;
            // Both carry a negative errno or 0 first.
            let errno =
                payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes).checked_neg().unwrap_or(libc::EIO));
            match u16::from_ne_bytes([k0, k1]) {
                NLMSG_NOOP => {}
                NLMSG_DONE | NLMSG_ERROR if errno != 0 => found.push(Frame::Error(errno)),
                NLMSG_DONE | NLMSG_ERROR => found.push(Frame::End { inconsistent }),
                _ => found.push(Frame::Message { payload, inconsistent }),
            }
        }
        rest = rest.get(len_bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The attributes behind a header of `header_len` bytes, up to the first malformed one.
pub fn attributes(message: &[u8], header_len: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = message.get(header_len..).unwrap_or_default();
    std::iter::from_fn(move || {
        let [l0, l1, k0, k1] = *rest.first_chunk::<ATTRIBUTE_HEADER_BYTES>()?;
        let len_bytes = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..len_bytes)?;
        rest = rest.get(len_bytes.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & NLA_TYPE_MASK, value))
    })
}

/// An attribute as the kernel writes it. One that is too long for its length of 16 bits is cut.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let value = value.get(..usize::from(u16::MAX) - ATTRIBUTE_HEADER_BYTES).unwrap_or(value);
    let len_bytes = u16::try_from(value.len() + ATTRIBUTE_HEADER_BYTES).unwrap_or(u16::MAX);
    let mut bytes = [&len_bytes.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
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
        // Without its last message the table continues in another datagram.
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
            let request = Request { kind: 18, body: b"abcde".to_vec() };
            let bytes = encode(&request, scope, 3);
            let expected = [
                &21u32.to_ne_bytes()[..],
                &18u16.to_ne_bytes(),
                &flags.to_ne_bytes(),
                &3u32.to_ne_bytes(),
                &[0; 4],
                b"abcde",
            ];
            assert_eq!(bytes, expected.concat());
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
