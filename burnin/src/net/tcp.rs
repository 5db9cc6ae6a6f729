//! A flow of TCP.

use super::wire::{PATTERN_BYTES, pair, parse_pair};
use crate::result::wide;
use kernel::{processor::Width, socket::set_words};
use loops::differ;
use nix::sys::socket::{MsgFlags, recv};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::{AsFd, AsRawFd},
    time::{Duration, Instant},
};

/// A link on which nothing moves for so long is broken.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// What is under way at the end of a flow arrives within this time. That is seconds on a slow link, and more on a machine that has a
/// twentieth of its processors, as a virtual one beside others: it must not look like a fault of the link.
pub(super) const DRAIN: Duration = Duration::from_secs(45);

/// A receiver is woken for so much at once, not for each packet: that costs a third less of the processor's time.
const BATCH_BYTES: u32 = 512 << 10;

/// What a receiver saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub bytes: u64,
    /// Of those, bytes in pieces that are not what was sent.
    pub wrong_bytes: u64,
}

/// Sends the pattern until `is_over`, and returns how much.
pub(super) fn send(stream: &TcpStream, pattern: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<u64> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut sent, mut place) = (0, 0);
    while !is_over() {
        match (&*stream).write(pattern.get(place..place + PATTERN_BYTES).unwrap_or_default()) {
            Ok(len) => (sent, place) = (sent + wide(len), (place + len) % PATTERN_BYTES),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Receives until the sender ends, and compares it with the pattern. `is_over`: asks it, once, to end.
pub(super) fn receive(stream: &TcpStream, pattern: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<Received> {
    stream.set_read_timeout(Some(PATIENCE))?;
    if let Err(error) = set_words(stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &[BATCH_BYTES]) {
        tracing::debug!(%error, "the receiver is woken for each packet");
    }
    let mut batch = vec![0; usize::try_from(BATCH_BYTES).unwrap_or(PATTERN_BYTES)];
    let width = Width::widest();
    let mut received = Received::default();
    let (mut place, mut asked): (_, Option<Instant>) = (0, None);
    loop {
        if asked.is_some_and(|asked| asked.elapsed() >= DRAIN) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if asked.is_none() && is_over() {
            stream.shutdown(Shutdown::Write)?;
            asked = Some(Instant::now());
        }
        let len = match (&*stream).read(&mut batch) {
            Ok(0) => return Ok(received),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // Each piece but the last has the pattern's length, and so begins at the same place of it.
        for piece in batch.get(..len).unwrap_or_default().chunks(PATTERN_BYTES) {
            if differ(width, piece, pattern.get(place..place + piece.len()).unwrap_or_default()) {
                received.wrong_bytes += wide(piece.len());
            }
        }
        received.bytes += wide(len);
        place = (place + len) % PATTERN_BYTES;
    }
}

/// Ends sending, and returns what the receiver saw.
pub(super) fn finish_sending(stream: &TcpStream) -> io::Result<Received> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN))?;
    let mut report = [0; 16];
    (&*stream).read_exact(&mut report)?;
    let (bytes, wrong_bytes) = parse_pair(&report);
    Ok(Received { bytes, wrong_bytes })
}

/// Reports what was received.
pub(super) fn report(stream: &TcpStream, received: Received) -> io::Result<()> {
    (&*stream).write_all(&pair(received.bytes, received.wrong_bytes))
}

/// Whether the other end has ended its side, or the connection is gone.
pub(super) fn has_ended(stream: &TcpStream) -> bool {
    let mut byte = [0];
    match recv(stream.as_raw_fd(), &mut byte, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT) {
        Ok(count) => count == 0,
        Err(error) => error != nix::Error::EAGAIN && error != nix::Error::EINTR,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::wire::pattern, *};
    use std::{cell::Cell, net::TcpListener, thread};

    fn ends() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn what_is_sent_arrives_and_is_reported() {
        let (one, other) = ends();
        let pattern = pattern();
        thread::scope(|scope| {
            scope.spawn(|| report(&other, receive(&other, &pattern, &|| false).unwrap()).unwrap());
            let rounds = Cell::new(0);
            let is_over = || rounds.replace(rounds.get() + 1) == 3;
            let sent = send(&one, &pattern, &is_over).unwrap();
            assert!(sent > 0 && sent <= 3 * (128 << 10), "{sent}");
            assert_eq!(finish_sending(&one).unwrap(), Received { bytes: sent, wrong_bytes: 0 });
        });
    }

    #[test]
    fn a_byte_that_changed_on_the_way_is_found() {
        let (one, other) = ends();
        let pattern = pattern();
        let mut changed = pattern[..100_000].to_vec();
        changed[77_777] ^= 1;
        thread::scope(|scope| {
            scope.spawn(move || (&one).write_all(&changed).unwrap());
            let received = receive(&other, &pattern, &|| false).unwrap();
            assert!(received.bytes == 100_000 && received.wrong_bytes > 0, "{received:?}");
        });
    }

    #[test]
    fn an_end_of_the_other_side_is_seen() {
        let (one, other) = ends();
        assert!(!has_ended(&other));
        one.shutdown(Shutdown::Write).unwrap();
        assert!(testkit::wait::comes(|| has_ended(&other)));
    }
}
