//! One question to one server. Sockets are connected, so that the kernel drops what others send and tells at once of a server
//! that is not running.

use super::{Cause, Settings};
use crate::codec::dns::{Question, Reply};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::{Instant, timeout_at},
};

/// More than any server sends in a datagram when asked for 1232 bytes.
const MAX_DATAGRAM_BYTES: usize = 4096;

/// Asks over UDP, and over TCP when the answer does not fit. Each has `settings.timeout`, and both end at `deadline`.
pub(super) async fn exchange(
    server: SocketAddr,
    question: &Question,
    settings: &Settings,
    deadline: Instant,
) -> Result<Reply, Cause> {
    let until = || deadline.min(Instant::now() + settings.timeout);
    if !settings.tcp {
        let reply = bounded(until(), over_udp(server, question, settings.edns)).await?;
        if !reply.truncated {
            return Ok(reply);
        }
    }
    bounded(until(), over_tcp(server, question, settings.edns)).await
}

async fn bounded(until: Instant, work: impl Future<Output = Result<Reply, Cause>>) -> Result<Reply, Cause> {
    timeout_at(until, work).await.unwrap_or(Err(Cause::Timeout))
}

async fn over_udp(server: SocketAddr, question: &Question, edns: bool) -> Result<Reply, Cause> {
    let unspecified: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0)).await.map_err(unreachable)?;
    socket.connect(server).await.map_err(unreachable)?;
    socket.send(&question.to_bytes(edns)).await.map_err(unreachable)?;
    let mut bytes = [0; MAX_DATAGRAM_BYTES];
    loop {
        let len = socket.recv(&mut bytes).await.map_err(unreachable)?;
        // What does not answer our question may be forged; the true answer may still come.
        if let Some(reply) = question.answer(bytes.get(..len).unwrap_or_default()) {
            return Ok(reply);
        }
    }
}

/// RFC 1035 §4.2.2: each message after its length.
async fn over_tcp(server: SocketAddr, question: &Question, edns: bool) -> Result<Reply, Cause> {
    let mut stream = TcpStream::connect(server).await.map_err(unreachable)?;
    let message = question.to_bytes(edns);
    let mut framed = u16::try_from(message.len()).unwrap_or_default().to_be_bytes().to_vec();
    framed.extend_from_slice(&message);
    stream.write_all(&framed).await.map_err(unreachable)?;
    let len = stream.read_u16().await.map_err(unreachable)?;
    let mut bytes = vec![0; len.into()];
    stream.read_exact(&mut bytes).await.map_err(unreachable)?;
    question.answer(&bytes).ok_or(Cause::Garbled)
}

fn unreachable(error: io::Error) -> Cause {
    Cause::Unreachable(error.kind())
}
