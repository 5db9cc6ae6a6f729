//! The end of links that serves: it does in each flow what the other end does not.

use super::{
    tcp, udp,
    wire::{HEADER_BYTES, Header, Role, pair, pattern},
};
use kernel::Cancel;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    cell::Cell,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Flows at once; more are closed.
const MAX_FLOWS: usize = 64;
/// A flow that lasts longer is ended: those of a burn-in take seconds.
const MAX_TIME: Duration = Duration::from_secs(60);
/// For the header.
const PATIENCE: Duration = Duration::from_secs(5);
/// Writes between two looks at whether the other end has ended.
const WRITES: u32 = 8;
/// Between two looks at whether to stop, in milliseconds.
const LOOK_MS: u16 = 200;

/// Serves until it is cancelled. Flows that are under way then end by themselves.
pub(crate) fn serve(listener: &TcpListener, stop: &Cancel) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let (pattern, flows) = (Arc::new(pattern()), Arc::new(AtomicUsize::new(0)));
    while !stop.is_cancelled() {
        poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::from(LOOK_MS))
            .or_else(|error| if error == nix::Error::EINTR { Ok(0) } else { Err(error) })?;
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            // Nothing, or a connection that is gone already, or no descriptor for it.
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::debug!(%error, "cannot accept a connection");
                    stop.sleep(Duration::from_millis(100));
                }
                continue;
            }
        };
        if flows.fetch_add(1, Ordering::AcqRel) >= MAX_FLOWS {
            flows.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (pattern, counted, stop) = (pattern.clone(), flows.clone(), stop.clone());
        let spawned = thread::Builder::new().name("flow".to_owned()).spawn(move || {
            if let Err(error) = carry(&stream, peer, &pattern, &stop) {
                tracing::debug!(%peer, %error, "a flow ended");
            }
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            flows.fetch_sub(1, Ordering::AcqRel);
        }
    }
    Ok(())
}

fn carry(stream: &TcpStream, peer: SocketAddr, pattern: &[u8], stop: &Cancel) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut header = [0; HEADER_BYTES];
    (&*stream).read_exact(&mut header)?;
    let header = Header::parse(&header).ok_or(io::ErrorKind::InvalidData)?;
    let begin = Instant::now();
    let is_late = || stop.is_cancelled() || begin.elapsed() >= MAX_TIME;
    let ip = stream.local_addr()?.ip();
    let flow = udp::Flow { flow: header.flow, segment_bytes: header.segment_bytes };
    match header.role {
        Role::SendTcp => tcp::report(stream, tcp::receive(stream, pattern, &is_late)?),
        Role::ReceiveTcp => {
            let writes = Cell::new(0_u32);
            let is_over = || {
                writes.set(writes.get().wrapping_add(1));
                // A system call each: not before every write.
                writes.get().is_multiple_of(WRITES) && (is_late() || tcp::has_ended(stream))
            };
            tcp::send(stream, pattern, &is_over)?;
            stream.shutdown(Shutdown::Write)
        }
        Role::SendUdp => {
            let socket = UdpSocket::bind(SocketAddr::new(ip, 0))?;
            let window = udp::prepare_receiver(&socket)?;
            (&*stream).write_all(&pair(socket.local_addr()?.port().into(), window.into()))?;
            let (received, _) = udp::receive(&socket, stream, flow, window, pattern, &is_late)?;
            (&*stream).write_all(&pair(received.datagrams, received.wrong))
        }
        Role::ReceiveUdp => {
            let socket = UdpSocket::bind(SocketAddr::new(ip, 0))?;
            // To the address that the connection comes from, and no other.
            socket.connect(SocketAddr::new(peer.ip(), header.port))?;
            let is_over = || is_late() || tcp::has_ended(stream);
            let sent = udp::send(&socket, stream, flow, header.window_bytes, pattern, &is_over)?;
            // The other end closes without a last word.
            let _ = udp::finish_sending(stream, sent);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_the_protocol_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Cancel::default();
        let stopped = stop.clone();
        let server = thread::spawn(move || serve(&listener, &stopped));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // Closed, or reset since it had sent more than was read.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
        stop.cancel();
        server.join().unwrap().unwrap();
    }
}
