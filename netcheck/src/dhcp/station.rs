//! A hardware address on an interface that DHCP is spoken with; it need not be the interface's own.

use super::client::{Client, Grant, Seen, Verdict};
use crate::{
    codec::{
        dhcp::{Answer, CLIENT_PORT, SERVER_PORT},
        ethernet::{self, Frame},
        udp::Datagram,
    },
    interfaces::Interface,
    probe::{PacketProtocol, PacketSocket, Sent, SocketError},
};
use api::Mac;
use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout_at};

/// A frame of the usual size; DHCP servers send larger ones only if the client allows it.
const FRAME_BUFFER_BYTES: usize = 2048;
/// Limits how often a socket that fails at once is read.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// An answer and who sent it.
#[derive(Debug)]
pub(super) struct Heard {
    pub answer: Answer,
    /// Of the frame: the server, or the router or relay in front of it.
    pub from_mac: Mac,
    /// Of the packet.
    pub from_ip: Ipv4Addr,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Station {
    pub interface: String,
    pub mac: Mac,
    socket: PacketSocket,
}

impl Station {
    pub(super) fn open(interface: &Interface, mac: Mac) -> Result<Self, SocketError> {
        let socket = PacketSocket::open(PacketProtocol::Dhcp(mac), interface)?;
        Ok(Self { interface: interface.name.clone(), mac, socket })
    }

    /// Broadcasts a client's message. The station's address is the frame's source too, as it was on dhclient's macvlan: a
    /// server that answers to it alone must find it behind a port of the switch.
    pub(super) async fn broadcast(&self, message: &[u8]) -> Sent {
        let datagram = Datagram {
            source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, CLIENT_PORT),
            destination: SocketAddrV4::new(Ipv4Addr::BROADCAST, SERVER_PORT),
            payload: message,
        };
        let packet = datagram.to_packet().expect("a client's message is a few hundred bytes long");
        let frame =
            Frame { destination: ethernet::BROADCAST, source: self.mac, ethertype: ethernet::IPV4, payload: &packet };
        self.socket.send(&frame.to_bytes()).await
    }

    /// Waits for a server's message; `None` for anything else that came.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Heard>> {
        let length = self.socket.receive(buffer).await?;
        Ok(buffer.get(..length).and_then(read))
    }

    /// Carries the client's questions until it is bound or the time is up; then what it has seen instead.
    pub(super) async fn acquire(&self, mut client: Client, timeout: Duration) -> Result<(Grant, Answer), Seen> {
        let start = Instant::now();
        let deadline = start + timeout;
        let mut next = start;
        let mut buffer = vec![0; FRAME_BUFFER_BYTES];
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Err(client.seen);
            }
            if now >= next {
                let (message, wait) = client.question(now - start);
                client.seen.not_sent = match self.broadcast(&message).await {
                    Sent::Yes => None,
                    Sent::Refused(error) => Some(error.to_string()),
                    Sent::Congested => Some("the transmit queue stays full".to_owned()),
                };
                next = now + wait;
            }
            match timeout_at(deadline.min(next).into(), self.receive(&mut buffer)).await {
                Err(_) | Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, interface = self.interface, "cannot receive DHCP messages");
                    sleep(FAILURE_PAUSE).await;
                }
                Ok(Ok(Some(heard))) => match client.hear(&heard.answer) {
                    Verdict::Nothing => {}
                    Verdict::Ask => next = Instant::now(),
                    Verdict::AskAfter(wait) => next = Instant::now() + wait,
                    Verdict::Bound(grant) => return Ok((grant, heard.answer)),
                },
            }
        }
    }
}

/// A server's message in a frame.
fn read(frame: &[u8]) -> Option<Heard> {
    let frame = Frame::parse(frame).filter(|frame| frame.ethertype == ethernet::IPV4)?;
    let datagram = Datagram::parse(frame.payload)
        .filter(|datagram| datagram.source.port() == SERVER_PORT && datagram.destination.port() == CLIENT_PORT)?;
    let answer = Answer::parse(datagram.payload)?;
    Some(Heard { answer, from_mac: frame.source, from_ip: *datagram.source.ip() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dhcp::AnswerKind;
    use proptest::prelude::*;

    /// An offer from 10.0.0.1 in a frame.
    fn offer(source_port: u16, destination_port: u16, ethertype: u16) -> Vec<u8> {
        let mut message = vec![0; 236];
        message[..8].copy_from_slice(&[2, 1, 6, 0, 0, 0, 0, 7]);
        message.extend_from_slice(&[99, 130, 83, 99, 53, 1, 2]);
        let server = Ipv4Addr::new(10, 0, 0, 1);
        let packet = Datagram {
            source: SocketAddrV4::new(server, source_port),
            destination: SocketAddrV4::new(Ipv4Addr::BROADCAST, destination_port),
            payload: &message,
        };
        let payload = &packet.to_packet().unwrap();
        Frame { destination: ethernet::BROADCAST, source: Mac([2; 6]), ethertype, payload }.to_bytes()
    }

    #[test]
    fn servers_speak_from_their_port_to_the_clients() {
        let heard = read(&offer(67, 68, 0x0800)).unwrap();
        assert_eq!((heard.answer.kind, heard.from_mac), (AnswerKind::Offer, Mac([2; 6])));
        assert_eq!(heard.from_ip, Ipv4Addr::new(10, 0, 0, 1));
        for (source, destination, ethertype) in [(68, 68, 0x0800), (67, 67, 0x0800), (67, 68, 0x0806)] {
            assert!(read(&offer(source, destination, ethertype)).is_none());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..700), at in 0usize..300) {
            let _ = read(&bytes);
            let mut frame = offer(67, 68, 0x0800);
            for (to, from) in frame.iter_mut().skip(at).zip(&bytes) {
                *to = *from;
            }
            let _ = read(&frame);
        }
    }
}
