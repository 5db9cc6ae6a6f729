//! A flow of UDP. Several datagrams go to the kernel, and come from it, at once, where it can (UDP_SEGMENT and UDP_GRO of udp(7)).

use super::{
    tcp::{DRAIN, PATIENCE},
    wire::{DATAGRAM_HEAD_BYTES, pair, parse_pair},
};
use crate::result::wide;
use kernel::{bytes::be64, processor::Width};
use loops::differ;
use nix::sys::socket::{
    MsgFlags, getsockopt, recv, setsockopt,
    sockopt::{RcvBuf, RcvBufForce, SndBuf, SndBufForce, UdpGroSegment, UdpGsoSegment},
};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

/// Room for what arrives while the receiver does something else.
const BUFFER_BYTES: usize = 16 << 20;
/// Of the room the kernel's own structures take the larger part.
const WINDOW_PART: usize = 4;
/// The most that the kernel takes at once (`UDP_MAX_SEGMENTS`), and the most that a datagram holds.
const MAX_SEGMENTS: usize = 64;
const MAX_BYTES: usize = 65_000;
/// A sender whose window is full waits so long for a report.
const WAIT: Duration = Duration::from_millis(20);
/// Without a report for so long, what is under way is lost. A receiver that gets no processor reports nothing either.
const LOST: Duration = Duration::from_secs(1);
/// The longest wait of a receiver for the next datagram.
const LOOK: Duration = Duration::from_millis(10);
/// When the sender has ended and so many waits in turn brought nothing, the rest is lost. Time alone says nothing: of a receiver that
/// gets no processor it passes while datagrams wait.
const EMPTY_LOOKS: u32 = 20;

/// What a receiver saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub datagrams: u64,
    /// Of those, with other bytes than were sent.
    pub wrong: u64,
    /// The number after the highest.
    next: u64,
}

/// A flow's identity: its datagrams' size and identifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub flow: u64,
    pub segment_bytes: u16,
}

/// Prepares a socket that receives; returns how many bytes may be under way to it.
pub(super) fn prepare_receiver(socket: &UdpSocket) -> io::Result<u32> {
    if setsockopt(socket, RcvBufForce, &BUFFER_BYTES).is_err() {
        setsockopt(socket, RcvBuf, &BUFFER_BYTES)?;
    }
    if let Err(error) = setsockopt(socket, UdpGroSegment, &true) {
        tracing::debug!(%error, "datagrams are received one by one");
    }
    socket.set_read_timeout(Some(LOOK))?;
    let window = getsockopt(socket, RcvBuf)? / WINDOW_PART;
    Ok(u32::try_from(window).unwrap_or(u32::MAX))
}

/// Sends datagrams to a connected socket until `is_over`; `control` brings the receiver's reports. Returns how many.
pub(super) fn send(
    socket: &UdpSocket,
    control: &TcpStream,
    flow: Flow,
    window_bytes: u32,
    pattern: &[u8],
    is_over: &dyn Fn() -> bool,
) -> io::Result<u64> {
    if setsockopt(socket, SndBufForce, &BUFFER_BYTES).is_err() {
        setsockopt(socket, SndBuf, &BUFFER_BYTES)?;
    }
    socket.set_write_timeout(Some(PATIENCE))?;
    control.set_read_timeout(Some(WAIT))?;
    let segment = usize::from(flow.segment_bytes);
    let mut at_once = (MAX_BYTES / segment).clamp(1, MAX_SEGMENTS);
    if let Err(error) = setsockopt(socket, UdpGsoSegment, &i32::from(flow.segment_bytes)) {
        tracing::debug!(%error, "datagrams are sent one by one");
        at_once = 1;
    }
    let window = (u64::from(window_bytes) / u64::from(flow.segment_bytes)).max(wide(at_once));
    let mut burst = burst(flow, at_once, pattern);
    let mut reports = Reports::default();
    let (mut next, mut arrived) = (0_u64, 0_u64);
    let mut heard = Instant::now();
    while !is_over() {
        if let Some(report) = reports.newest(control, MsgFlags::MSG_DONTWAIT)? {
            (arrived, heard) = (arrived.max(report), Instant::now());
        }
        if next.saturating_sub(arrived) + wide(at_once) > window {
            match reports.newest(control, MsgFlags::empty())? {
                Some(report) => (arrived, heard) = (arrived.max(report), Instant::now()),
                None if heard.elapsed() >= LOST => (arrived, heard) = (next, Instant::now()),
                None => {}
            }
            continue;
        }
        number(&mut burst, segment, next);
        match socket.send(&burst) {
            Ok(_) => next += wide(at_once),
            // The card cannot split it: one by one then.
            Err(error)
                if at_once > 1 && matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)) =>
            {
                setsockopt(socket, UdpGsoSegment, &0)?;
                at_once = 1;
                burst.truncate(segment);
            }
            // An earlier datagram was refused by the other end: it comes as an error of this one.
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(next)
}

fn burst(flow: Flow, count: usize, pattern: &[u8]) -> Vec<u8> {
    let segment = usize::from(flow.segment_bytes);
    let mut burst = Vec::with_capacity(count * segment);
    for _ in 0..count {
        burst.extend_from_slice(&pair(0, flow.flow));
        burst.extend_from_slice(pattern.get(DATAGRAM_HEAD_BYTES..segment).unwrap_or_default());
    }
    burst
}

fn number(burst: &mut [u8], segment: usize, first: u64) {
    for (datagram, number) in burst.chunks_mut(segment).zip(first..) {
        for (place, byte) in datagram.iter_mut().zip(number.to_be_bytes()) {
            *place = byte;
        }
    }
}

/// The receiver's reports, of which only the newest counts.
#[derive(Default)]
struct Reports {
    begun: Vec<u8>,
}

impl Reports {
    fn newest(&mut self, control: &TcpStream, flags: MsgFlags) -> io::Result<Option<u64>> {
        let mut bytes = [0; 4096];
        match recv(control.as_raw_fd(), &mut bytes, flags) {
            Ok(len) => self.begun.extend_from_slice(bytes.get(..len).unwrap_or_default()),
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let whole = self.begun.len() / 16 * 16;
        let rest = self.begun.split_off(whole);
        let reports = std::mem::replace(&mut self.begun, rest);
        Ok(reports.last_chunk().map(|report| parse_pair(report).0))
    }
}

/// Reports how many were sent, and ends. Returns what the receiver saw.
pub(super) fn finish_sending(control: &TcpStream, sent: u64) -> io::Result<(u64, u64)> {
    (&*control).write_all(&pair(sent, 0))?;
    control.shutdown(Shutdown::Write)?;
    control.set_read_timeout(Some(DRAIN))?;
    let mut reports = Vec::new();
    // Ends when the receiver closes the connection.
    control.take(wide(64 << 20)).read_to_end(&mut reports)?;
    let last: &[u8; 16] = reports.last_chunk().ok_or(ErrorKind::UnexpectedEof)?;
    Ok(parse_pair(last))
}

/// Receives until the sender has reported how many it sent, and what is under way has arrived. `is_over`: asks it, once, to end. Returns
/// what arrived, and how many were sent.
pub(super) fn receive(
    socket: &UdpSocket,
    control: &TcpStream,
    flow: Flow,
    window_bytes: u32,
    pattern: &[u8],
    is_over: &dyn Fn() -> bool,
) -> io::Result<(Received, u64)> {
    let report_after = u64::from(window_bytes / 8).max(1);
    let mut bytes = vec![0; 1 << 16];
    let mut received = Received::default();
    let mut unreported = 0;
    let (mut asked, mut ended, mut empty_looks): (Option<Instant>, Option<(Instant, u64)>, u32) = (None, None, 0);
    loop {
        let len = match socket.recv(&mut bytes) {
            Ok(len) => len,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => 0,
            Err(error) => return Err(error),
        };
        empty_looks = if len == 0 { empty_looks + 1 } else { 0 };
        take(&mut received, bytes.get(..len).unwrap_or_default(), flow, pattern);
        unreported += wide(len);
        if unreported >= report_after || (len == 0 && unreported > 0) {
            unreported = 0;
            // A sender that has ended reads no more.
            let _ = (&*control).write_all(&pair(received.next, received.datagrams));
        }
        if len > 0 && unreported > 0 {
            continue;
        }
        if asked.is_none() && is_over() {
            control.shutdown(Shutdown::Write)?;
            asked = Some(Instant::now());
        }
        match ended {
            None if asked.is_some_and(|asked| asked.elapsed() >= DRAIN) => return Err(ErrorKind::TimedOut.into()),
            None => {
                ended = sent(control)?.map(|sent| (Instant::now(), sent));
                empty_looks = 0;
            }
            Some((since, sent))
                if received.datagrams >= sent || empty_looks >= EMPTY_LOOKS || since.elapsed() >= DRAIN =>
            {
                return Ok((received, sent));
            }
            Some(_) => {}
        }
    }
}

/// How many were sent, once the sender says so.
fn sent(control: &TcpStream) -> io::Result<Option<u64>> {
    let mut report = [0; 16];
    match recv(control.as_raw_fd(), &mut report, MsgFlags::MSG_DONTWAIT) {
        Ok(16) => Ok(Some(parse_pair(&report).0)),
        Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
        Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes what arrived at once: datagrams of one size, of which the kernel may have put several together.
fn take(received: &mut Received, bytes: &[u8], flow: Flow, pattern: &[u8]) {
    let (segment, width) = (usize::from(flow.segment_bytes), Width::widest());
    for datagram in bytes.chunks(segment) {
        let Some(number) = be64(datagram, 0).filter(|_| be64(datagram, 8) == Some(flow.flow)) else { continue };
        received.datagrams += 1;
        received.next = received.next.max(number.saturating_add(1));
        let (found, expected) = (datagram.get(DATAGRAM_HEAD_BYTES..), pattern.get(DATAGRAM_HEAD_BYTES..segment));
        if differ(width, found.unwrap_or_default(), expected.unwrap_or_default()) {
            received.wrong += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::wire::pattern, *};
    use std::{net::TcpListener, thread};

    const FLOW: Flow = Flow { flow: 77, segment_bytes: 1472 };

    struct Ends {
        sender: UdpSocket,
        receiver: UdpSocket,
        control: (TcpStream, TcpStream),
        window: u32,
    }

    fn ends() -> Ends {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let window = prepare_receiver(&receiver).unwrap();
        Ends { sender, receiver, control: (one, listener.accept().unwrap().0), window }
    }

    /// Sends until about so many were sent; what arrived, and how many were sent.
    fn flow(ends: &Ends, count: u64, between: impl Fn(&UdpSocket) + Sync) -> (Received, u64) {
        let pattern = pattern();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                receive(&ends.receiver, &ends.control.1, FLOW, ends.window, &pattern, &|| false).inspect(
                    |(received, _)| {
                        (&ends.control.1).write_all(&pair(received.datagrams, received.wrong)).unwrap();
                        ends.control.1.shutdown(Shutdown::Both).unwrap();
                    },
                )
            });
            let looks = std::cell::Cell::new(0);
            let is_over = || looks.replace(looks.get() + 1) >= count;
            let sent = send(&ends.sender, &ends.control.0, FLOW, ends.window, &pattern, &is_over).unwrap();
            between(&ends.sender);
            let seen = finish_sending(&ends.control.0, sent).unwrap();
            let (received, reported) = receiver.join().unwrap().unwrap();
            assert_eq!((reported, seen), (sent, (received.datagrams, received.wrong)));
            (received, sent)
        })
    }

    #[test]
    fn nothing_is_lost_where_nothing_is_dropped() {
        let ends = ends();
        let (received, sent) = flow(&ends, 200, |_| ());
        assert!(sent > 0);
        assert_eq!((received.datagrams, received.wrong), (sent, 0));
    }

    #[test]
    fn datagrams_that_are_wrong_or_of_another_flow_are_distinguished() {
        let pattern = pattern();
        let mut datagram = burst(FLOW, 1, &pattern);
        let mut received = Received::default();
        number(&mut datagram, 1472, 5);
        take(&mut received, &datagram, FLOW, &pattern);
        datagram[900] ^= 1;
        take(&mut received, &datagram, FLOW, &pattern);
        take(&mut received, &datagram, Flow { flow: 78, ..FLOW }, &pattern);
        take(&mut received, &datagram[..7], FLOW, &pattern);
        take(&mut received, &[], FLOW, &pattern);
        assert_eq!(received, Received { datagrams: 2, wrong: 1, next: 6 });
    }

    #[test]
    fn datagrams_are_numbered_through_bursts() {
        let mut datagrams = burst(FLOW, 3, &pattern());
        number(&mut datagrams, 1472, 9);
        let numbers: Vec<_> = datagrams.chunks(1472).map(|datagram| be64(datagram, 0).unwrap()).collect();
        assert_eq!((numbers, datagrams.len()), (vec![9, 10, 11], 3 * 1472));
    }

    #[test]
    fn what_the_link_drops_is_missing() {
        // The double of a lossy link: whatever is sent to the receiver's place is not the flow's.
        let mut ends = ends();
        ends.receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        prepare_receiver(&ends.receiver).unwrap();
        let (received, sent) = flow(&ends, 20, |_| ());
        assert!(sent > 0 && received.datagrams == 0, "{received:?} of {sent}");
    }
}
