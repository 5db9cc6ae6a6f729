//! The way to a name server. UDP sockets are connected, so that the kernel drops what others send and tells at once of a server
//! that is not running; it also chooses their ports, at random.

use crate::{
    answer::Cause,
    drive::{Network, Over},
    order::source_towards,
    socket::{Readiness, is_connected, start_connecting, wait},
};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

/// More than any server sends in a datagram when asked for 1232 bytes.
const MAX_DATAGRAM_BYTES: usize = 4096;

/// This host's network.
#[derive(Debug)]
pub(crate) struct Host;

#[derive(Debug)]
pub(crate) enum Wire {
    Udp(UdpSocket),
    Tcp(Exchange),
}

/// A message each way, behind its length (RFC 1035 §4.2.2).
#[derive(Debug)]
pub(crate) struct Exchange {
    stream: TcpStream,
    /// Still to be sent.
    output: Vec<u8>,
    input: Vec<u8>,
}

impl Network for Host {
    type Wire = Wire;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn open(&mut self, server: SocketAddr, over: Over, message: &[u8]) -> Result<Wire, Cause> {
        match over {
            Over::Udp => send_datagram(server, message).map(Wire::Udp),
            Over::Tcp => Exchange::start(server, message).map(Wire::Tcp),
        }
        .map_err(|error| Cause::Unreachable(error.kind()))
    }

    fn receive(&mut self, wire: &mut Wire) -> Result<Option<Vec<u8>>, Cause> {
        let received = match wire {
            Wire::Udp(socket) => {
                let mut bytes = [0; MAX_DATAGRAM_BYTES];
                socket.recv(&mut bytes).map(|len| Some(bytes.get(..len).unwrap_or_default().to_vec()))
            }
            Wire::Tcp(exchange) => exchange.receive(),
        };
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received.map_err(|error| Cause::Unreachable(error.kind())),
        }
    }

    fn wait(&mut self, wires: &mut [&mut Wire], until: Instant) {
        wait(wires.iter().map(|wire| wire.awaited()), until);
    }

    fn has_route(&self, address: IpAddr) -> bool {
        source_towards(SocketAddr::new(address, 0)).is_some()
    }
}

impl Wire {
    fn awaited(&self) -> (BorrowedFd<'_>, Readiness) {
        match self {
            Self::Udp(socket) => (socket.as_fd(), Readiness::Readable),
            Self::Tcp(exchange) if exchange.output.is_empty() => (exchange.stream.as_fd(), Readiness::Readable),
            Self::Tcp(exchange) => (exchange.stream.as_fd(), Readiness::Writable),
        }
    }
}

fn send_datagram(server: SocketAddr, message: &[u8]) -> io::Result<UdpSocket> {
    let unspecified: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(server)?;
    socket.send(message)?;
    Ok(socket)
}

impl Exchange {
    fn start(server: SocketAddr, message: &[u8]) -> io::Result<Self> {
        let len = u16::try_from(message.len()).map_err(io::Error::other)?;
        let output = [&len.to_be_bytes(), message].concat();
        Ok(Self { stream: start_connecting(server)?, output, input: Vec::new() })
    }

    /// The answer, once it is there whole.
    fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !is_connected(&self.stream)? {
            return Ok(None);
        }
        while !self.output.is_empty() {
            let sent = self.stream.write(&self.output)?;
            self.output.drain(..sent);
        }
        loop {
            let expected = match self.input.first_chunk() {
                Some(len) => 2 + usize::from(u16::from_be_bytes(*len)),
                None => 2,
            };
            if self.input.len() == expected && expected > 2 {
                return Ok(Some(self.input.split_off(2)));
            }
            // Never more than the one message, which its length bounds.
            let mut bytes = [0; MAX_DATAGRAM_BYTES];
            let room = bytes.get_mut(..(expected - self.input.len()).min(MAX_DATAGRAM_BYTES)).unwrap_or_default();
            let len = self.stream.read(room)?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(room.get(..len).unwrap_or_default());
        }
    }
}
