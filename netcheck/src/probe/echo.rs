//! Raw ICMP and ICMPv6 sockets for echo (raw(7), icmp(7)).

use super::{Sent, SocketError, SocketName, enlarge_receive_buffer, send_with};
use crate::{
    codec::echo::{Family, icmp_of_ipv4},
    sys,
};
use nix::{
    cmsg_space,
    sys::{
        socket::{
            AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6,
            SockaddrStorage, recvmsg, sendto, setsockopt, socket,
            sockopt::{BindToDevice, Ipv6DontFrag, ReceiveTimestampns},
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

/// An ICMP message with its circumstances.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub from: IpAddr,
    /// The message without the network header.
    pub message: &'a [u8],
    /// When the kernel got it, by the wall clock.
    pub arrival: Option<SystemTime>,
}

/// A socket that receives echo replies.
#[derive(Debug)]
pub(crate) struct EchoSocket {
    fd: AsyncFd<OwnedFd>,
    family: Family,
}

impl EchoSocket {
    /// A socket that follows the routes. `None` on a kernel without this family.
    pub fn open(family: Family) -> Result<Option<Self>, SocketError> {
        Self::create(family, None)
    }

    /// A socket bound to an interface, for the path MTU: what it sends is never fragmented here or on the way.
    ///
    /// What the kernel believes of the path's MTU is not asked (`PMTUDISC_PROBE`): an old belief would be taken for a fact.
    pub fn open_unfragmented(family: Family, interface: &str) -> Result<Option<Self>, SocketError> {
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
            Err(nix::errno::Errno::EAFNOSUPPORT) => return Ok(None),
            Err(errno) => return Err(SocketError::open(name, errno)),
        };
        let set_up = |step| move |source| SocketError::SetUp { socket: name, step, source };
        let filtered = match family {
            Family::V4 => sys::set_words(fd.as_fd(), libc::SOL_RAW, ICMP_FILTER, &[ICMP_ALL_BUT_ECHO_REPLY]),
            Family::V6 => {
                let mut blocked = [u32::MAX; 8];
                blocked[ICMPV6_ECHO_REPLY / 32] &= !(1 << (ICMPV6_ECHO_REPLY % 32));
                sys::set_words(fd.as_fd(), libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &blocked)
            }
        };
        filtered.map_err(set_up.clone()("filter"))?;
        enlarge_receive_buffer(&fd).map_err(set_up.clone()("size"))?;
        setsockopt(&fd, ReceiveTimestampns, &true).map_err(|errno| set_up.clone()("time")(errno.into()))?;
        if let Some(interface) = interface {
            setsockopt(&fd, BindToDevice, &OsString::from(interface))
                .map_err(|errno| set_up.clone()("bind")(errno.into()))?;
        }
        Ok(Some(Self { fd: sys::watch(fd).map_err(set_up("watch"))?, family }))
    }

    pub async fn send(&self, target: IpAddr, message: &[u8]) -> Sent {
        send_with(&self.fd, |fd| {
            let fd = fd.as_raw_fd();
            match target {
                IpAddr::V4(ip) => sendto(fd, message, &SockaddrIn::from(SocketAddrV4::new(ip, 0)), MsgFlags::empty()),
                IpAddr::V6(ip) => {
                    sendto(fd, message, &SockaddrIn6::from(SocketAddrV6::new(ip, 0, 0, 0)), MsgFlags::empty())
                }
            }?;
            Ok(())
        })
        .await
    }

    /// Waits for a message. `None` for one that is damaged or longer than the buffer.
    pub async fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Received<'a>>> {
        let (length, from, arrival) = self.fd.async_io(Interest::READABLE, |fd| receive_once(fd, buffer)).await?;
        let packet = buffer.get(..length).unwrap_or_default();
        let message = match self.family {
            Family::V4 => icmp_of_ipv4(packet),
            Family::V6 => Some(packet),
        };
        Ok(from.zip(message).map(|(from, message)| Received { from, message, arrival }))
    }
}

fn set_probing(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    sys::set_words(fd.as_fd(), level, name, &[value.cast_unsigned()])
}

type Arrival = (usize, Option<IpAddr>, Option<SystemTime>);

fn receive_once(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Arrival> {
    let mut control = cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg::<SockaddrStorage>(fd.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    if received.flags.contains(MsgFlags::MSG_TRUNC) {
        return Ok((0, None, None));
    }
    let from = received.address.as_ref().and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    let arrival = received.cmsgs().ok().and_then(|mut messages| {
        messages.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => system_time(&time),
            _ => None,
        })
    });
    Ok((received.bytes, from, arrival))
}

fn system_time(time: &TimeSpec) -> Option<SystemTime> {
    let since = Duration::new(u64::try_from(time.tv_sec()).ok()?, u32::try_from(time.tv_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}
