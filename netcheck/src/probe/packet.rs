//! AF_PACKET sockets: whole frames of one EtherType on one interface (packet(7)).

use super::{RECEIVE_FAILURES, Sent, SocketError, SocketName, enlarge_receive_buffer, send_with};
use crate::{
    codec::ethernet::{self, Frame},
    interfaces::Interface,
    sys::{self, Instruction},
};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, recvfrom, send, socket};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// What a packet socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketProtocol {
    Arp,
    Ndp,
}

const fn statement(code: u32, operand: u32) -> Instruction {
    jump(code, operand, 0, 0)
}

const fn jump(code: u32, operand: u32, if_true: u8, if_false: u8) -> Instruction {
    // Every code of classic BPF is below 2^16.
    #[allow(clippy::cast_possible_truncation)]
    Instruction { code: code as u16, if_true, if_false, operand }
}

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const WHOLE_PACKET: u32 = 0x4_0000;

/// ARP replies: EtherType at 12, operation at 14 + 6.
const ARP_REPLIES: [Instruction; 6] = [
    statement(LOAD_HALF, 12),
    jump(JUMP_EQUAL, 0x0806, 0, 3),
    statement(LOAD_HALF, 20),
    jump(JUMP_EQUAL, 2, 0, 1),
    statement(RETURN, WHOLE_PACKET),
    statement(RETURN, 0),
];

/// Neighbour advertisements: EtherType at 12, next header at 14 + 6, ICMPv6 type at 14 + 40.
const NEIGHBOUR_ADVERTISEMENTS: [Instruction; 8] = [
    statement(LOAD_HALF, 12),
    jump(JUMP_EQUAL, 0x86dd, 0, 5),
    statement(LOAD_BYTE, 20),
    jump(JUMP_EQUAL, 58, 0, 3),
    statement(LOAD_BYTE, 54),
    jump(JUMP_EQUAL, 136, 0, 1),
    statement(RETURN, WHOLE_PACKET),
    statement(RETURN, 0),
];

/// Longer than any ARP or NDP message has reason to be.
const FRAME_BUFFER_BYTES: usize = 2048;

/// A socket that speaks one protocol on one interface.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: AsyncFd<OwnedFd>,
}

impl PacketSocket {
    pub fn open(protocol: PacketProtocol, interface: &Interface) -> Result<Self, SocketError> {
        let (name, ethertype, filter) = match protocol {
            PacketProtocol::Arp => (SocketName::Arp(interface.name.clone()), ethernet::ARP, &ARP_REPLIES[..]),
            PacketProtocol::Ndp => {
                (SocketName::Ndp(interface.name.clone()), ethernet::IPV6, &NEIGHBOUR_ADVERTISEMENTS[..])
            }
        };
        // Protocol 0 receives nothing, so no frame of another interface or kind gets in before the filter is set.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .map_err(|errno| SocketError::open(name.clone(), errno))?;
        let set_up = |step| move |source| SocketError::SetUp { socket: name, step, source };
        sys::attach_filter(fd.as_fd(), filter).map_err(set_up.clone()("filter"))?;
        enlarge_receive_buffer(&fd).map_err(set_up.clone()("size"))?;
        // A socket of one EtherType does not see what this host sends, unlike one of ETH_P_ALL.
        sys::bind_packet(fd.as_fd(), interface.index, ethertype).map_err(set_up.clone()("bind"))?;
        Ok(Self { fd: sys::watch(fd).map_err(set_up("watch"))? })
    }

    pub async fn send(&self, frame: &[u8]) -> Sent {
        send_with(&self.fd, |fd| Ok(send(fd.as_raw_fd(), frame, MsgFlags::empty()).map(drop)?)).await
    }

    /// Waits for a frame meant for us; its length.
    ///
    /// Frames for other stations are skipped. That includes those of a VLAN we have no interface for, which the kernel
    /// hands over with the tag removed and marks so.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd
            .async_io(Interest::READABLE, |fd| {
                let (length, from) = recvfrom::<LinkAddr>(fd.as_raw_fd(), buffer)?;
                let foreign =
                    from.is_some_and(|from| matches!(from.pkttype(), libc::PACKET_OTHERHOST | libc::PACKET_OUTGOING));
                Ok(if foreign { 0 } else { length })
            })
            .await
    }

    /// Hands every frame meant for us to `book`, until the socket keeps failing.
    pub async fn read_frames(&self, mut book: impl FnMut(Frame<'_>)) {
        let mut buffer = vec![0; FRAME_BUFFER_BYTES];
        let mut failures = 0;
        while failures < RECEIVE_FAILURES {
            match self.receive(&mut buffer).await {
                Ok(length) => {
                    failures = 0;
                    if let Some(frame) = buffer.get(..length).and_then(Frame::parse) {
                        book(frame);
                    }
                }
                // An interface that goes down says so once.
                Err(error) => {
                    failures += 1;
                    tracing::debug!(%error, "cannot receive frames");
                }
            }
        }
    }
}
