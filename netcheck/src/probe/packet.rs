//! AF_PACKET sockets: whole frames of one EtherType on one interface (packet(7)).

use super::{RECEIVE_BURST, RECEIVE_FAILURES, Sent, SocketError, SocketName, enlarge_receive_buffer, send_with};
use crate::{
    codec::ethernet::{self, Frame},
    interfaces::Interface,
};
use api::Mac;
use kernel::{filter::Instruction, socket::Membership};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, recvfrom, send, socket};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::yield_now,
};

/// What a packet socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketProtocol {
    /// Replies only.
    Arp,
    /// Requests too: a station that asks has an address (RFC 5227 §2.1.1).
    ArpOfAnyKind,
    Ndp,
    /// What DHCP servers send, also to a hardware address that is not the interface's own.
    Dhcp(Mac),
    Lldp,
}

pub(super) const fn statement(code: u32, operand: u32) -> Instruction {
    jump(code, operand, 0, 0)
}

pub(super) const fn jump(code: u32, operand: u32, if_true: u8, if_false: u8) -> Instruction {
    // Every code of classic BPF is below 2^16.
    #[allow(clippy::cast_possible_truncation)]
    Instruction { code: code as u16, if_true, if_false, operand }
}

pub(super) const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub(super) const LOAD_HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
pub(super) const LOAD_HEADER_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
pub(super) const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
pub(super) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
pub(super) const WHOLE_PACKET: u32 = 0x4_0000;
/// SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT (linux/filter.h): whether the frame came with a VLAN tag, which the kernel removes.
const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;

/// ARP replies: EtherType at 12, operation at 14 + 6.
const ARP_REPLIES: [Instruction; 6] = [
    statement(LOAD_HALF, 12),
    jump(JUMP_EQUAL, 0x0806, 0, 3),
    statement(LOAD_HALF, 20),
    jump(JUMP_EQUAL, 2, 0, 1),
    statement(RETURN, WHOLE_PACKET),
    statement(RETURN, 0),
];

const ARP_OF_ANY_KIND: [Instruction; 4] =
    [statement(LOAD_HALF, 12), jump(JUMP_EQUAL, 0x0806, 0, 1), statement(RETURN, WHOLE_PACKET), statement(RETURN, 0)];

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

/// Longer than any message of these protocols has reason to be.
const FRAME_BUFFER_BYTES: usize = 2048;

/// UDP to port 68, untagged and not in fragments: EtherType at 12, fragment offset at 14 + 6, protocol at 14 + 9, the
/// destination port 2 bytes into what follows the IPv4 header, whose length is in the low half of byte 14.
const DHCP_ANSWERS: [Instruction; 13] = [
    statement(LOAD_WORD, VLAN_TAG_PRESENT),
    jump(JUMP_EQUAL, 0, 0, 9),
    statement(LOAD_HALF, 12),
    jump(JUMP_EQUAL, 0x0800, 0, 7),
    statement(LOAD_BYTE, 23),
    jump(JUMP_EQUAL, 17, 0, 5),
    statement(LOAD_HALF, 20),
    jump(JUMP_ANY_BIT, 0x1fff, 3, 0),
    statement(LOAD_HEADER_LENGTH, 14),
    statement(LOAD_HALF_BEHIND, 16),
    jump(JUMP_EQUAL, 68, 1, 0),
    statement(RETURN, 0),
    statement(RETURN, WHOLE_PACKET),
];

/// LLDP: EtherType at 12, untagged.
const LLDP_ADVERTISEMENTS: [Instruction; 6] = [
    statement(LOAD_WORD, VLAN_TAG_PRESENT),
    jump(JUMP_EQUAL, 0, 0, 3),
    statement(LOAD_HALF, 12),
    jump(JUMP_EQUAL, 0x88cc, 0, 1),
    statement(RETURN, WHOLE_PACKET),
    statement(RETURN, 0),
];

/// The groups LLDP is sent to: nearest bridge, nearest bridge that is not a repeater, nearest customer bridge
/// (IEEE 802.1AB-2016 table 7-1).
const LLDP_GROUPS: [Mac; 3] =
    [Mac([1, 0x80, 0xc2, 0, 0, 0x0e]), Mac([1, 0x80, 0xc2, 0, 0, 3]), Mac([1, 0x80, 0xc2, 0, 0, 0])];

/// Where IPv6 advertisements to all nodes go (RFC 2464 §7), such as those to a question that names no asker (RFC 4861
/// §7.2.4). Where IPv6 is disabled nothing else makes the card accept them.
const ALL_NODES: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

/// A socket that speaks one protocol on one interface.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: AsyncFd<OwnedFd>,
    /// A station besides the interface itself whose frames are ours.
    also_for: Option<Mac>,
}

impl PacketSocket {
    pub(crate) fn open(protocol: PacketProtocol, interface: &Interface) -> Result<Self, SocketError> {
        let (name, ethertype, filter): (fn(String) -> SocketName, u16, &[Instruction]) = match protocol {
            PacketProtocol::Arp => (SocketName::Arp, ethernet::ARP, &ARP_REPLIES),
            PacketProtocol::ArpOfAnyKind => (SocketName::Arp, ethernet::ARP, &ARP_OF_ANY_KIND),
            PacketProtocol::Ndp => (SocketName::Ndp, ethernet::IPV6, &NEIGHBOUR_ADVERTISEMENTS),
            PacketProtocol::Dhcp(_) => (SocketName::Dhcp, ethernet::IPV4, &DHCP_ANSWERS),
            PacketProtocol::Lldp => (SocketName::Lldp, ethernet::LLDP, &LLDP_ADVERTISEMENTS),
        };
        let name = name(interface.name.clone());
        // Protocol 0 receives nothing, so no frame of another interface or kind gets in before the filter is set.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .map_err(|errno| SocketError::open(name.clone(), errno))?;
        let set_up = |step| move |source| SocketError::SetUp { socket: name, step, source };
        kernel::socket::attach_filter(fd.as_fd(), filter).map_err(set_up.clone()("filter"))?;
        enlarge_receive_buffer(&fd).map_err(set_up.clone()("size"))?;
        // A socket of one EtherType does not see what this host sends, unlike one of ETH_P_ALL.
        kernel::socket::bind_packet(fd.as_fd(), interface.index, ethertype).map_err(set_up.clone()("bind"))?;
        for membership in memberships(protocol, interface) {
            kernel::socket::join(fd.as_fd(), interface.index, membership)
                .map_err(set_up.clone()("join the groups of"))?;
        }
        let also_for = if let PacketProtocol::Dhcp(mac) = protocol { Some(mac) } else { None };
        Ok(Self { fd: crate::event_loop::watch(fd).map_err(set_up("watch"))?, also_for })
    }

    pub(crate) async fn send(&self, frame: &[u8]) -> Sent {
        send_with(&self.fd, |fd| Ok(send(fd.as_raw_fd(), frame, MsgFlags::empty()).map(drop)?)).await
    }

    /// Waits for a frame meant for us; its length.
    ///
    /// Frames for other stations are skipped. That includes those of a VLAN we have no interface for, which the kernel
    /// hands over with the tag removed and marks so (where frames for another address are ours, the filter keeps tags out).
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd
            .async_io(Interest::READABLE, |fd| {
                let (length, from) = recvfrom::<LinkAddr>(fd.as_raw_fd(), buffer)?;
                let ours = from.is_none_or(|from| match from.pkttype() {
                    libc::PACKET_OUTGOING => false,
                    libc::PACKET_OTHERHOST => self.also_for.is_some_and(|mac| buffer.starts_with(&mac.0)),
                    _ => true,
                });
                Ok(if ours { length } else { 0 })
            })
            .await
    }

    /// Hands every frame meant for us to `book`, until the socket keeps failing.
    pub(crate) async fn read_frames(&self, mut book: impl FnMut(Frame<'_>)) {
        let mut buffer = vec![0; FRAME_BUFFER_BYTES];
        let mut failures = 0;
        let mut received: u32 = 0;
        while failures < RECEIVE_FAILURES {
            received = received.wrapping_add(1);
            if received.is_multiple_of(RECEIVE_BURST) {
                yield_now().await;
            }
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

/// What the interface must accept besides unicast to itself and broadcasts.
fn memberships(protocol: PacketProtocol, interface: &Interface) -> Vec<Membership> {
    match protocol {
        PacketProtocol::Arp | PacketProtocol::ArpOfAnyKind => Vec::new(),
        PacketProtocol::Ndp => vec![Membership::Multicast(ALL_NODES.0)],
        PacketProtocol::Dhcp(mac) if interface.mac == Some(mac) => Vec::new(),
        PacketProtocol::Dhcp(_) => vec![Membership::Everything],
        PacketProtocol::Lldp => LLDP_GROUPS.map(|Mac(group)| Membership::Multicast(group)).to_vec(),
    }
}
