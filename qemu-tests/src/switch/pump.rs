//! The switch's thread: moves bytes between sockets and asks the fabric where frames go.

use super::{
    Shared,
    fabric::{PortId, len_u64},
    framing::{Decoder, encode},
    lock,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    io::{self, Read, Write},
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Bytes queued for a machine that doesn't read; like a real switch's buffer, the excess is dropped.
const MAX_QUEUE_BYTES: usize = 4 << 20;
/// Bytes taken from one machine before the others have their turn.
const TURN_BYTES: usize = 256 << 10;

/// Interrupts the thread's sleep.
#[derive(Debug)]
pub(super) struct Wake(UnixStream);

impl Wake {
    pub(super) fn new() -> io::Result<(Self, UnixStream)> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok((Self(wake), woken))
    }

    pub(super) fn wake(&self) {
        // A full socket wakes as well.
        let _ = (&self.0).write(&[1]);
    }
}

/// A plugged-in machine.
#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    queue: VecDeque<u8>,
}

impl Connection {
    /// Sends what the machine accepts now.
    fn flush(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            match self.stream.write(self.queue.as_slices().0) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => drop(self.queue.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A frame that waits for its time; ordered by that, then by arrival.
type Delayed = Reverse<(Instant, u64, PortId, Vec<u8>)>;

/// The thread's state.
#[derive(Debug)]
pub(super) struct Pump {
    shared: Arc<Mutex<Shared>>,
    woken: UnixStream,
    listeners: Vec<(PortId, UnixListener)>,
    connections: BTreeMap<PortId, Connection>,
    delayed: BinaryHeap<Delayed>,
    arrivals: u64,
}

impl Pump {
    pub(super) fn new(shared: Arc<Mutex<Shared>>, woken: UnixStream) -> Self {
        let (listeners, connections, delayed) = (Vec::new(), BTreeMap::new(), BinaryHeap::new());
        Self { shared, woken, listeners, connections, delayed, arrivals: 0 }
    }

    pub(super) fn run(mut self) {
        loop {
            {
                let mut shared = lock(&self.shared);
                if shared.stop {
                    return;
                }
                self.listeners.append(&mut shared.new);
            }
            let (callers, readable, writable) = match self.sleep() {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::error!(%error, "the switch cannot poll its sockets and stops");
                    return;
                }
            };
            let mut chunk = vec![0; 4096];
            while let Ok(1..) = self.woken.read(&mut chunk) {}
            callers.into_iter().for_each(|index| self.accept(index));
            readable.into_iter().for_each(|port| self.receive(port));
            self.deliver_due();
            writable.into_iter().for_each(|port| self.flush(port));
        }
    }

    /// Sleeps until there is something to do: indices of listeners with callers, ports to read from, ports to write to.
    fn sleep(&self) -> io::Result<(Vec<usize>, Vec<PortId>, Vec<PortId>)> {
        let mut polled = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        polled.extend(self.listeners.iter().map(|(_, listener)| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        for connection in self.connections.values() {
            let write = if connection.queue.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            polled.push(PollFd::new(connection.stream.as_fd(), PollFlags::POLLIN | write));
        }
        let timeout = match self.delayed.peek() {
            // Rounded up: waking too early would only spin.
            Some(Reverse((due, ..))) => {
                let left = due.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
                PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::MAX)
            }
            None => PollTimeout::NONE,
        };
        match poll(&mut polled, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events: Vec<PollFlags> = polled.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        let (listeners, connections) = events[1..].split_at(self.listeners.len());
        let callers =
            listeners.iter().enumerate().filter(|(_, events)| !events.is_empty()).map(|(index, _)| index).collect();
        let ports = || self.connections.keys().copied().zip(connections);
        // Errors and hang-ups show when reading.
        let readable =
            ports().filter(|(_, events)| !(**events - PollFlags::POLLOUT).is_empty()).map(|(port, _)| port).collect();
        let writable =
            ports().filter(|(_, events)| events.contains(PollFlags::POLLOUT)).map(|(port, _)| port).collect();
        Ok((callers, readable, writable))
    }

    fn accept(&mut self, index: usize) {
        let Some((port, listener)) = self.listeners.get(index) else { return };
        let port = *port;
        let stream = match listener.accept().and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream)) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                tracing::warn!(port = port.0, %error, "a machine could not be plugged in");
                return;
            }
        };
        self.unplug(port);
        self.connections.insert(port, Connection { stream, decoder: Decoder::default(), queue: VecDeque::new() });
        self.set_connected(port, true);
    }

    fn receive(&mut self, port: PortId) {
        let mut chunk = vec![0; 64 << 10];
        let mut turn = 0;
        while turn < TURN_BYTES {
            let Some(connection) = self.connections.get_mut(&port) else { return };
            let len = match connection.stream.read(&mut chunk) {
                Ok(0) => return self.unplug(port),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.unplug(port),
            };
            turn += len;
            connection.decoder.feed(&chunk[..len]);
            loop {
                let Some(connection) = self.connections.get_mut(&port) else { return };
                match connection.decoder.next() {
                    Ok(Some(frame)) => {
                        let frame = frame.to_vec();
                        self.forward(port, frame);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(port = lock(&self.shared).fabric.name(port), %error, "unplugging a machine");
                        return self.unplug(port);
                    }
                }
            }
        }
    }

    fn forward(&mut self, from: PortId, frame: Vec<u8>) {
        let deliveries = lock(&self.shared).fabric.forward(from, &frame);
        for delivery in deliveries {
            if delivery.delay.is_zero() {
                self.deliver(delivery.to, &frame);
            } else {
                self.arrivals += 1;
                self.delayed.push(Reverse((
                    Instant::now() + delivery.delay,
                    self.arrivals,
                    delivery.to,
                    frame.clone(),
                )));
            }
        }
    }

    fn deliver_due(&mut self) {
        let now = Instant::now();
        while self.delayed.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            if let Some(Reverse((_, _, port, frame))) = self.delayed.pop() {
                self.deliver(port, &frame);
            }
        }
    }

    fn deliver(&mut self, port: PortId, frame: &[u8]) {
        let connection = self.connections.get_mut(&port).filter(|connection| connection.queue.len() < MAX_QUEUE_BYTES);
        let taken = match (connection, encode(frame)) {
            (Some(connection), Some(bytes)) => {
                connection.queue.extend(bytes);
                true
            }
            _ => false,
        };
        if let Some((_, counters)) = lock(&self.shared).fabric.port_mut(port) {
            if taken {
                counters.sent += 1;
                counters.sent_bytes += len_u64(frame);
            } else {
                counters.overflowed += 1;
            }
        }
        if taken {
            self.flush(port);
        }
    }

    fn flush(&mut self, port: PortId) {
        if self.connections.get_mut(&port).is_some_and(|connection| connection.flush().is_err()) {
            self.unplug(port);
        }
    }

    fn unplug(&mut self, port: PortId) {
        if self.connections.remove(&port).is_some() {
            self.set_connected(port, false);
            lock(&self.shared).fabric.unplug(port);
        }
    }

    fn set_connected(&self, port: PortId, connected: bool) {
        if let Some(state) = lock(&self.shared).connected.get_mut(port.0) {
            *state = connected;
        }
    }
}
