//! An Ethernet switch in user space: each port is a unix socket a machine's `-netdev stream` connects to.
//!
//! Unprivileged, deterministic, and its cables can be degraded while machines run.

mod fabric;
mod framing;
mod pump;

pub use fabric::{Counters, Link, PortId};

use fabric::Fabric;
use pump::{Pump, Wake};
use std::{
    io,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// State the thread and the owner share.
#[derive(Debug)]
struct Shared {
    fabric: Fabric,
    connected: Vec<bool>,
    /// Listeners of new ports, for the thread to take over.
    new: Vec<(PortId, UnixListener)>,
    stop: bool,
}

/// A running switch. Dropping it unplugs all machines.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Mutex<Shared>>,
    wake: Wake,
    thread: Option<JoinHandle<()>>,
    dir: tempfile::TempDir,
}

impl Switch {
    /// Starts one without ports. `seed` decides which frames a lossy link loses.
    pub fn start(seed: u64) -> io::Result<Self> {
        let dir = crate::paths::socket_dir()?;
        let shared = Shared { fabric: Fabric::new(seed), connected: Vec::new(), new: Vec::new(), stop: false };
        let shared = Arc::new(Mutex::new(shared));
        let (wake, woken) = Wake::new()?;
        let pump = Pump::new(shared.clone(), woken);
        let thread = std::thread::Builder::new().name("switch".to_owned()).spawn(move || pump.run())?;
        Ok(Self { shared, wake, thread: Some(thread), dir })
    }

    /// A new port. One machine at a time may be connected; a newer connection replaces the older.
    pub fn add_port(&self, name: &str) -> io::Result<PortId> {
        let mut shared = self.lock();
        let port = shared.fabric.add_port(name);
        let listener = UnixListener::bind(self.port_path(port))?;
        listener.set_nonblocking(true)?;
        shared.connected.push(false);
        shared.new.push((port, listener));
        drop(shared);
        self.wake.wake();
        Ok(port)
    }

    /// The socket of a port.
    pub fn port_path(&self, port: PortId) -> PathBuf {
        socket_path(self.dir.path(), port)
    }

    /// Whether a machine is plugged in.
    pub fn connected(&self, port: PortId) -> bool {
        self.lock().connected.get(port.0).copied().unwrap_or(false)
    }

    /// Waits for a machine at the port; false after `limit`.
    pub fn wait_connected(&self, port: PortId, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.connected(port) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Replaces the quality of a port's cable.
    pub fn set_port(&self, port: PortId, link: Link) {
        if let Some((current, _)) = self.lock().fabric.port_mut(port) {
            *current = link;
        }
    }

    /// Replaces the quality of the path between two ports, both ways.
    pub fn set_pair(&self, a: PortId, b: PortId, link: Link) {
        *self.lock().fabric.pair_mut(a, b) = link;
    }

    /// Cuts every path between the two sides; other ports are not affected.
    pub fn partition(&self, one: &[PortId], other: &[PortId]) {
        let mut shared = self.lock();
        for a in one {
            other.iter().for_each(|b| shared.fabric.pair_mut(*a, *b).cut = true);
        }
    }

    /// Removes all loss, delay and cuts.
    pub fn heal(&self) {
        self.lock().fabric.heal();
    }

    /// What passed a port so far.
    pub fn counters(&self, port: PortId) -> Counters {
        self.lock().fabric.counters(port)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.lock().stop = true;
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed where it happened.
            let _ = thread.join();
        }
    }
}

fn socket_path(dir: &Path, port: PortId) -> PathBuf {
    dir.join(format!("port{}", port.0))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    const PATIENCE: Duration = testkit::wait::LIMIT;

    /// A machine with one cable.
    struct Fake {
        stream: UnixStream,
        address: u8,
    }

    impl Fake {
        fn plug(switch: &Switch, port: PortId, address: u8) -> Self {
            let stream = UnixStream::connect(switch.port_path(port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert!(switch.wait_connected(port, PATIENCE));
            Self { stream, address }
        }

        fn send(&mut self, to: u8, payload: &[u8]) {
            let to = if to == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, to] };
            let frame = [&to[..], &[2, 0, 0, 0, 0, self.address], &[0x88, 0xb5], payload].concat();
            self.stream.write_all(&framing::encode(&frame).unwrap()).unwrap();
        }

        fn receive(&mut self) -> (u8, Vec<u8>) {
            let mut length = [0; 4];
            self.stream.read_exact(&mut length).unwrap();
            let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
            self.stream.read_exact(&mut frame).unwrap();
            (frame[11], frame[14..].to_vec())
        }
    }

    fn rack() -> (Switch, [PortId; 3], [Fake; 3]) {
        let switch = Switch::start(7).unwrap();
        let ports = ["a", "b", "c"].map(|name| switch.add_port(name).unwrap());
        let fakes = [1, 2, 3].map(|address: u8| Fake::plug(&switch, ports[usize::from(address) - 1], address));
        (switch, ports, fakes)
    }

    #[test]
    fn frames_reach_everybody_or_the_one_they_are_for() {
        let (switch, ports, [mut a, mut b, mut c]) = rack();
        a.send(0xff, b"hello");
        assert_eq!(b.receive(), (1, b"hello".to_vec()));
        assert_eq!(c.receive(), (1, b"hello".to_vec()));
        b.send(1, b"for a");
        b.send(0xff, b"for all");
        assert_eq!(a.receive(), (2, b"for a".to_vec()));
        assert_eq!(c.receive(), (2, b"for all".to_vec()));
        let seen = switch.counters(ports[2]);
        assert_eq!((seen.received, seen.sent, seen.sent_bytes), (0, 2, 14 + 5 + 14 + 7));
    }

    #[test]
    fn a_partition_cuts_and_heals_while_machines_run() {
        let (switch, ports, [mut a, mut b, mut c]) = rack();
        switch.partition(&ports[..1], &ports[1..]);
        a.send(0xff, b"lost");
        b.send(0xff, b"seen");
        assert_eq!(c.receive(), (2, b"seen".to_vec()));
        // Frames of one port keep their order, so once c has seen the last, nothing of before is on its way.
        switch.heal();
        a.send(0xff, b"again");
        assert_eq!(b.receive(), (1, b"again".to_vec()));
        assert_eq!(c.receive(), (1, b"again".to_vec()));
        assert_eq!(switch.counters(ports[2]).cut, 1);
    }

    #[test]
    fn delayed_frames_arrive_later_and_in_order() {
        let (switch, ports, [mut a, mut b, _c]) = rack();
        let delay = Duration::from_millis(80);
        switch.set_pair(ports[0], ports[1], Link { delay, ..Link::default() });
        let sent = Instant::now();
        for n in 0..20 {
            a.send(0xff, &[n]);
        }
        for n in 0..20 {
            assert_eq!(b.receive(), (1, vec![n]));
        }
        assert!(sent.elapsed() >= delay);
    }

    #[test]
    fn a_machine_that_is_replugged_is_served_again() {
        let (switch, ports, [mut a, b, mut c]) = rack();
        drop(b);
        assert!(testkit::wait::comes(|| !switch.connected(ports[1])));
        a.send(0xff, b"nobody");
        assert_eq!(c.receive(), (1, b"nobody".to_vec()));
        let mut b = Fake::plug(&switch, ports[1], 2);
        b.send(1, b"back");
        assert_eq!(a.receive(), (2, b"back".to_vec()));
        a.send(2, b"welcome");
        assert_eq!(b.receive(), (1, b"welcome".to_vec()));
        // A second connection takes the port over.
        let mut newer = Fake::plug(&switch, ports[1], 2);
        newer.send(1, b"newer");
        assert_eq!(a.receive(), (2, b"newer".to_vec()));
        assert_eq!(b.stream.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_machine_that_does_not_read_costs_only_its_own_frames() {
        let (switch, ports, [mut a, mut b, mut c]) = rack();
        let payload = vec![0x55; 60_000];
        for _ in 0..400 {
            a.send(0xff, &payload);
            // b keeps up, c sleeps.
            assert_eq!(b.receive().1.len(), payload.len());
        }
        // After this, the switch has handled what came before.
        b.send(1, b"done");
        assert_eq!(a.receive(), (2, b"done".to_vec()));
        let seen = switch.counters(ports[2]);
        assert!(seen.overflowed > 0 && seen.sent > 0, "{seen:?}");
        assert_eq!(seen.overflowed + seen.sent, 400);
        // And what it does get is complete.
        assert_eq!(c.receive().1, payload);
    }
}
