//! Servers of time that say what a test wants, without a clock being touched.

use super::Namespace;
use std::{
    net::{IpAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Seconds from NTP's epoch, 1900, to that of Unix.
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// What a test may want otherwise in an answer. Times are NTP's: seconds in the upper half, a fraction in the lower.
pub struct TimeAnswer {
    pub leap: u8,
    pub stratum: u8,
    pub reference_id: [u8; 4],
    pub reference: u64,
    pub origin: u64,
    pub receive: u64,
    pub transmit: u64,
}

impl TimeAnswer {
    /// As RFC 5905 has it, in the version of the request.
    fn encode(&self, request: &[u8]) -> Vec<u8> {
        const SERVER: u8 = 4;
        const PRECISION: u8 = 0xEC;
        let flags = (self.leap << 6) | (request[0] & 0b0011_1000) | SERVER;
        let mut bytes = vec![flags, self.stratum, request[2], PRECISION];
        for field in [0, 64_u32] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(self.reference_id);
        for time in [self.reference, self.origin, self.receive, self.transmit] {
            bytes.extend(time.to_be_bytes());
        }
        bytes
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    ((now.as_secs() + UNIX_EPOCH_S) << 32) | fraction
}

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
                *time = time.wrapping_add(shift);
            }
        })
    }

    /// Serves this machine's time in answers that `spoil` has changed.
    pub fn start(namespace: &Namespace, address: &str, spoil: impl Fn(&mut TimeAnswer) + Send + 'static) -> Self {
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
                let request = &buffer[..length];
                let Some(origin) = request.get(40..48) else { continue };
                let now = now();
                let mut answer = TimeAnswer {
                    leap: 0,
                    stratum: 2,
                    reference_id: [192, 0, 2, 1],
                    reference: now,
                    origin: u64::from_be_bytes(origin.try_into().unwrap()),
                    receive: now,
                    transmit: now,
                };
                spoil(&mut answer);
                let _ = socket.send_to(&answer.encode(request), client);
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
