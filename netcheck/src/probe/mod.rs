//! Probe sockets: open, send, receive. What to send and what an answer means is decided elsewhere.

mod echo;
mod packet;

pub(crate) use echo::{EchoSocket, Received};
pub(crate) use packet::{PacketProtocol, PacketSocket};

use crate::codec::echo::Family;
use nix::{
    errno::Errno,
    sys::socket::{
        setsockopt,
        sockopt::{RcvBuf, RcvBufForce, SndBuf, SndBufForce},
    },
};
use std::{fmt, io, net::IpAddr, os::fd::OwnedFd, time::Duration};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::sleep,
};

/// Wait for a transmit queue to drain, and how often.
const QUEUE_FULL_WAIT: Duration = Duration::from_millis(1);
const QUEUE_FULL_TRIES: u32 = 10;

/// Asked of the kernel for each socket: bursts of answers must not be lost before we read them, or we would report loss
/// that the network did not have.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Asked of the kernel for sockets whose packets wait in it for the neighbour's address: silent neighbours must not hold up
/// the packets to the others.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// A socket that fails this often in a row is not read any more.
const RECEIVE_FAILURES: u32 = 16;
/// Packets read from one socket before the others, and the clock, have their turn: a flood on one must not stop a check.
pub(crate) const RECEIVE_BURST: u32 = 64;

/// Which socket an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketName {
    /// Packet socket for ARP on the interface.
    Arp(String),
    /// Packet socket for NDP on the interface.
    Ndp(String),
    /// Packet socket for DHCP on the interface.
    Dhcp(String),
    /// Packet socket for LLDP on the interface.
    Lldp(String),
    /// Raw ICMP or ICMPv6 socket, bound to the interface if there is one.
    Echo(Family, Option<String>),
}

impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arp(interface) => write!(f, "packet socket for ARP on {interface}"),
            Self::Ndp(interface) => write!(f, "packet socket for NDP on {interface}"),
            Self::Dhcp(interface) => write!(f, "packet socket for DHCP on {interface}"),
            Self::Lldp(interface) => write!(f, "packet socket for LLDP on {interface}"),
            Self::Echo(family, interface) => {
                let protocol = if *family == Family::V4 { "ICMP" } else { "ICMPv6" };
                write!(f, "raw {protocol} socket")?;
                interface.iter().try_for_each(|name| write!(f, " on {name}"))
            }
        }
    }
}

/// Why a probe socket can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The kernel refuses such sockets to us.
    #[error("not allowed to open a {socket}: this needs the capability CAP_NET_RAW; run as root or grant it")]
    Privilege { socket: SocketName, source: io::Error },
    #[error("cannot {step} the {socket}")]
    SetUp {
        socket: SocketName,
        /// What was being done.
        step: &'static str,
        source: io::Error,
    },
}

impl SocketError {
    fn open(socket: SocketName, errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::Privilege { socket, source: errno.into() },
            _ => Self::SetUp { socket, step: "open", source: errno.into() },
        }
    }
}

/// What became of a packet handed to the kernel.
#[derive(Debug)]
pub(crate) enum Sent {
    Yes,
    /// Refused as unreachable, too long, filtered: what was to be found out, and as good as lost.
    Refused(io::Error),
    /// Our own queues stayed full: says nothing of the network.
    Congested,
}

impl Sent {
    /// Logs a packet that did not leave.
    pub(crate) fn note(&self, target: IpAddr) {
        match self {
            Self::Yes => {}
            Self::Refused(error) => tracing::debug!(address = %target, %error, "probe refused"),
            Self::Congested => tracing::debug!(address = %target, "probe not sent: the transmit queue stays full"),
        }
    }
}

/// Makes room for bursts: beyond the system's limit where we may (CAP_NET_ADMIN), else up to it.
fn enlarge_receive_buffer(socket: &OwnedFd) -> io::Result<()> {
    setsockopt(socket, RcvBufForce, &RECEIVE_BUFFER_BYTES)
        .or_else(|_| setsockopt(socket, RcvBuf, &RECEIVE_BUFFER_BYTES))
        .map_err(io::Error::from)
}

/// As [`enlarge_receive_buffer`], for what is on its way out.
fn enlarge_send_buffer(socket: &OwnedFd) -> io::Result<()> {
    setsockopt(socket, SndBufForce, &SEND_BUFFER_BYTES)
        .or_else(|_| setsockopt(socket, SndBuf, &SEND_BUFFER_BYTES))
        .map_err(io::Error::from)
}

/// Sends through a non-blocking socket, waiting for our own queues.
async fn send_with(socket: &AsyncFd<OwnedFd>, mut send: impl FnMut(&OwnedFd) -> io::Result<()>) -> Sent {
    for _ in 0..QUEUE_FULL_TRIES {
        match socket.async_io(Interest::WRITABLE, &mut send).await {
            Ok(()) => return Sent::Yes,
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => sleep(QUEUE_FULL_WAIT).await,
            Err(error) => return Sent::Refused(error),
        }
    }
    Sent::Congested
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_capability() {
        let error = SocketError::open(SocketName::Arp("ens3".into()), Errno::EPERM);
        let text = "not allowed to open a packet socket for ARP on ens3: this needs the capability CAP_NET_RAW; run as root or grant it";
        assert_eq!(error.to_string(), text);
        let error = SocketError::open(SocketName::Echo(Family::V6, Some("ens3".into())), Errno::EMFILE);
        assert_eq!(error.to_string(), "cannot open the raw ICMPv6 socket on ens3");
    }
}
