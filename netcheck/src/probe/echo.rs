//! Raw ICMP and ICMPv6 sockets for echo (raw(7), icmp(7)).

use super::{
    Sent, SocketError, SocketName, enlarge_receive_buffer, enlarge_send_buffer,
    packet::{JUMP_EQUAL, LOAD_HALF, LOAD_HALF_BEHIND, LOAD_HEADER_LENGTH, RETURN, WHOLE_PACKET, jump, statement},
    send_with,
};
use crate::codec::echo::{Family, icmp_of_ipv4};
use nix::{
    cmsg_space,
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6,
            SockaddrStorage, recvmsg, sendto, setsockopt, socket,
            sockopt::{BindToDevice, Ipv4RecvErr, Ipv6DontFrag, Ipv6RecvErr, ReceiveTimestampns},
        },
        time::TimeSpec,
    },
};
use std::{
    ffi::OsString,
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, SystemTime},
};
use tokio::io::{Interest, unix::AsyncFd};

/// `ICMP_FILTER` of linux/icmp.h: a set bit keeps that type out.
const ICMP_FILTER: libc::c_int = 1;
const ICMP_ALL_BUT_ECHO_REPLY: u32 = !1;
/// `ICMPV6_FILTER` of linux/icmpv6.h: 256 bits of the same sense.
const ICMPV6_FILTER: libc::c_int = 1;
const ICMPV6_ECHO_REPLY: usize = 129;
/// A socket may report this many errors of packets sent before in place of one result.
const PENDING_ERRORS: u32 = 8;

/// What an echo socket has received.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    Message {
        from: IpAddr,
        /// The message without the network header.
        message: &'a [u8],
        /// When the kernel got it, by the wall clock.
        arrival: Option<SystemTime>,
    },
    /// An echo to `target` was too big for the next link after `hop` (RFC 1191 §4, RFC 4443 §3.2).
    TooBig {
        target: IpAddr,
        hop: IpAddr,
        /// MTU of that link, bytes. Zero or nonsense from broken routers.
        mtu: u32,
        /// The start of the echo, 8 bytes or more, as `hop` quotes it.
        message: &'a [u8],
    },
}

/// A socket that receives the replies to its own echoes: those with its identifier.
///
/// The kernel sorts the others out, so that other programs' echoes and a flood of forged replies cost little, and our
/// receive buffer is ours alone. Errors of packets sent are asked for (`IP_RECVERR`): without that the kernel does not tell
/// that it dropped a packet itself, and we would report loss that the network did not have.
#[derive(Debug)]
pub(crate) struct EchoSocket {
    fd: AsyncFd<OwnedFd>,
    family: Family,
    identifier: u16,
}

impl EchoSocket {
    /// A socket that follows the routes. `None` on a kernel without this family.
    pub(crate) fn open(family: Family) -> Result<Option<Self>, SocketError> {
        Self::create(family, None)
    }

    /// A socket bound to an interface, for the path MTU: what it sends is never fragmented here or on the way.
    ///
    /// What the kernel believes of the path's MTU is not asked (`PMTUDISC_PROBE`): an old belief would be taken for a fact.
    pub(crate) fn open_unfragmented(family: Family, interface: &str) -> Result<Option<Self>, SocketError> {
        let Some(socket) = Self::create(family, Some(interface))? else { return Ok(None) };
        let name = SocketName::Echo(family, Some(interface.to_owned()));
        let fd = socket.fd.get_ref();
        let result = match family {
            Family::V4 => set_probing(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
            Family::V6 => set_probing(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
                .and_then(|()| Ok(setsockopt(fd, Ipv6DontFrag, &true)?)),
        };
        result.map_err(|source| SocketError::SetUp { socket: name, step: "forbid fragments on", source })?;
        Ok(Some(socket))
    }

    fn create(family: Family, interface: Option<&str>) -> Result<Option<Self>, SocketError> {
        let name = SocketName::Echo(family, interface.map(str::to_owned));
        let (domain, protocol) = match family {
            Family::V4 => (AddressFamily::Inet, SockProtocol::Icmp),
            Family::V6 => (AddressFamily::Inet6, SockProtocol::IcmpV6),
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = match socket(domain, SockType::Raw, flags, protocol) {
            Ok(fd) => fd,
            Err(Errno::EAFNOSUPPORT) => return Ok(None),
            Err(errno) => return Err(SocketError::open(name, errno)),
        };
        let set_up = |step| move |source| SocketError::SetUp { socket: name, step, source };
        let filtered = match family {
            Family::V4 => kernel::socket::set_words(fd.as_fd(), libc::SOL_RAW, ICMP_FILTER, &[ICMP_ALL_BUT_ECHO_REPLY]),
            Family::V6 => {
                let mut blocked = [u32::MAX; 8];
                blocked[ICMPV6_ECHO_REPLY / 32] &= !(1 << (ICMPV6_ECHO_REPLY % 32));
                kernel::socket::set_words(fd.as_fd(), libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &blocked)
            }
        };
        filtered.map_err(set_up.clone()("filter"))?;
        let identifier = fastrand::u16(..);
        // A raw IPv4 socket gets the packet with its network header, an IPv6 one without.
        let offset = [statement(LOAD_HEADER_LENGTH, 0), statement(LOAD_HALF_BEHIND, 4)];
        let offset = if family == Family::V4 { &offset[..] } else { &[statement(LOAD_HALF, 4)] };
        let rest = [jump(JUMP_EQUAL, identifier.into(), 0, 1), statement(RETURN, WHOLE_PACKET), statement(RETURN, 0)];
        kernel::socket::attach_filter(fd.as_fd(), &[offset, &rest].concat()).map_err(set_up.clone()("filter"))?;
        enlarge_receive_buffer(&fd).and_then(|()| enlarge_send_buffer(&fd)).map_err(set_up.clone()("size"))?;
        match family {
            Family::V4 => setsockopt(&fd, Ipv4RecvErr, &true),
            Family::V6 => setsockopt(&fd, Ipv6RecvErr, &true),
        }
        .map_err(|errno| set_up.clone()("watch the errors of")(errno.into()))?;
        setsockopt(&fd, ReceiveTimestampns, &true).map_err(|errno| set_up.clone()("time")(errno.into()))?;
        if let Some(interface) = interface {
            setsockopt(&fd, BindToDevice, &OsString::from(interface))
                .map_err(|errno| set_up.clone()("bind")(errno.into()))?;
        }
        Ok(Some(Self { fd: crate::event_loop::watch(fd).map_err(set_up("watch"))?, family, identifier }))
    }

    /// What echoes must carry for their replies to be received here.
    pub(crate) fn identifier(&self) -> u16 {
        self.identifier
    }

    /// Sends; `before` is called right before each attempt.
    pub(crate) async fn send(&self, target: IpAddr, message: &[u8], before: impl Fn()) -> Sent {
        send_with(&self.fd, |fd| {
            let mut tries = 0;
            loop {
                before();
                match send_once(fd, target, message) {
                    // It may be about a packet sent before.
                    Err(errno) if !matches!(errno, Errno::EAGAIN | Errno::ENOBUFS) && tries < PENDING_ERRORS => {
                        tries += 1;
                    }
                    result => return result.map_err(io::Error::from),
                }
            }
        })
        .await
    }

    /// Waits for a message. `None` for one that is damaged or longer than the buffer, and for errors of other kinds.
    pub(crate) async fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Received<'a>>> {
        let interest = Interest::READABLE | Interest::ERROR;
        let arrival = self.fd.async_io(interest, |fd| receive_once(fd, buffer)).await?;
        let packet = buffer.get(..arrival.length).unwrap_or_default();
        let Some(from) = arrival.name else { return Ok(None) };
        if arrival.is_error {
            let too_big =
                arrival.too_big.map(|(hop, mtu)| Received::TooBig { target: from, hop, mtu, message: packet });
            return Ok(too_big);
        }
        let message = match self.family {
            Family::V4 => icmp_of_ipv4(packet),
            Family::V6 => Some(packet),
        };
        Ok(message.map(|message| Received::Message { from, message, arrival: arrival.time }))
    }
}

fn set_probing(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    kernel::socket::set_words(fd.as_fd(), level, name, &[value.cast_unsigned()])
}

fn send_once(fd: &OwnedFd, target: IpAddr, message: &[u8]) -> nix::Result<()> {
    let fd = fd.as_raw_fd();
    match target {
        IpAddr::V4(ip) => sendto(fd, message, &SockaddrIn::from(SocketAddrV4::new(ip, 0)), MsgFlags::empty()),
        IpAddr::V6(ip) => sendto(fd, message, &SockaddrIn6::from(SocketAddrV6::new(ip, 0, 0, 0)), MsgFlags::empty()),
    }
    .map(drop)
}

/// One message, or one error of the socket's error queue (ip(7), `IP_RECVERR`).
#[derive(Default)]
struct Arrival {
    /// Bytes in the buffer: the message, or the start of the echo that an error is about.
    length: usize,
    /// Who sent the message, or where the echo was to go. `None` when either is cut off.
    name: Option<IpAddr>,
    time: Option<SystemTime>,
    is_error: bool,
    too_big: Option<(IpAddr, u32)>,
}

fn receive_once(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Arrival> {
    let mut result = receive_with(fd, buffer, MsgFlags::empty());
    // Each error of a packet sent is reported twice: here, and in the queue.
    for _ in 0..PENDING_ERRORS {
        match result {
            Err(Errno::EAGAIN) => break,
            Err(_) => result = receive_with(fd, buffer, MsgFlags::empty()),
            Ok(arrival) => return Ok(arrival),
        }
    }
    match receive_with(fd, buffer, MsgFlags::MSG_ERRQUEUE) {
        Err(Errno::EAGAIN) => result,
        other => other,
    }
    .map_err(io::Error::from)
}

fn receive_with(fd: &OwnedFd, buffer: &mut [u8], flags: MsgFlags) -> nix::Result<Arrival> {
    let mut control = cmsg_space!(TimeSpec, libc::sock_extended_err, libc::sockaddr_in6);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg::<SockaddrStorage>(fd.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let is_error = flags.contains(MsgFlags::MSG_ERRQUEUE);
    let mut arrival = Arrival { length: received.bytes, is_error, ..Arrival::default() };
    // Of what an error quotes, the start is enough.
    if received.flags.contains(MsgFlags::MSG_TRUNC) && !is_error {
        return Ok(arrival);
    }
    arrival.name = received.address.as_ref().and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    for message in received.cmsgs().into_iter().flatten() {
        match message {
            ControlMessageOwned::ScmTimestampns(time) => arrival.time = system_time(&time),
            ControlMessageOwned::Ipv4RecvErr(error, Some(hop)) => {
                arrival.too_big = too_big(&error, IpAddr::V4(u32::from_be(hop.sin_addr.s_addr).into()));
            }
            ControlMessageOwned::Ipv6RecvErr(error, Some(hop)) => {
                arrival.too_big = too_big(&error, IpAddr::V6(hop.sin6_addr.s6_addr.into()));
            }
            _ => {}
        }
    }
    Ok(arrival)
}

/// "Fragmentation needed" (type 3, code 4) of ICMP, "packet too big" (type 2) of ICMPv6.
fn too_big(error: &libc::sock_extended_err, hop: IpAddr) -> Option<(IpAddr, u32)> {
    let is_too_big = matches!(
        (error.ee_origin, error.ee_type, error.ee_code),
        (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, _)
    );
    is_too_big.then_some((hop, error.ee_info))
}

fn system_time(time: &TimeSpec) -> Option<SystemTime> {
    let since = Duration::new(u64::try_from(time.tv_sec()).ok()?, u32::try_from(time.tv_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}
