//! Servers of time that say what a test wants, without a clock being touched.

use super::Namespace;
use netcheck::codec::sntp::{Packet, Timestamp};
use std::{
    net::{IpAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

/// Answers at port 123 until dropped.
pub struct TimeServer {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TimeServer {
    /// Serves this machine's time plus `ahead_s` at an address of `namespace`.
    pub fn ahead(namespace: &Namespace, address: &str, ahead_s: i64) -> Self {
        Self::start(namespace, address, move |answer| {
            let shift = ahead_s.cast_unsigned() << 32;
            for time in [&mut answer.receive, &mut answer.transmit, &mut answer.reference] {
                *time = Timestamp(time.0.wrapping_add(shift));
            }
        })
    }

    /// Serves this machine's time in answers that `spoil` has changed.
    pub fn start(namespace: &Namespace, address: &str, spoil: impl Fn(&mut Packet) + Send + 'static) -> Self {
        let address: IpAddr = address.parse().unwrap();
        // A socket stays in the namespace it was made in.
        let socket = namespace.enter(|| UdpSocket::bind((address, 123)).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 512];
            while !end.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
                let Some(request) = Packet::decode(&buffer[..length]) else { continue };
                let now = Timestamp::from_system(SystemTime::now());
                let mut answer = Packet {
                    leap: 0,
                    version: request.version,
                    mode: 4,
                    stratum: 2,
                    poll: request.poll,
                    precision: -20,
                    root_delay: 0,
                    root_dispersion: 64,
                    reference_id: [192, 0, 2, 1],
                    reference: now,
                    origin: request.transmit,
                    receive: now,
                    transmit: now,
                };
                spoil(&mut answer);
                let _ = socket.send_to(&answer.encode(), client);
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for TimeServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
