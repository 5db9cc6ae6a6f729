//! NTP packets of 48 bytes, as a simple client sends and reads them (RFC 5905 §7.3 and §14, RFC 4330).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length of a packet without extensions.
pub const PACKET_BYTES: usize = 48;
/// From 1900, where NTP's first era begins, to 1970.
const UNIX_EPOCH_S: u64 = 2_208_988_800;
/// A server further from true time than this is unusable (RFC 5905 appendix A.1.1, MAXDISP).
const MAX_ROOT_DISTANCE_S: f64 = 16.0;
const MODE_CLIENT: u8 = 3;
const MODE_SERVER: u8 = 4;
const VERSION: u8 = 4;

/// Seconds since 1900 times 2^32, modulo 2^64: it starts again in 2036, so only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The reading of a clock, also of one before 1970.
    pub fn from_system(time: SystemTime) -> Self {
        let epoch = Self(UNIX_EPOCH_S << 32);
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => epoch.after(since),
            Err(before) => Self(epoch.0.wrapping_sub(units(before.duration()))),
        }
    }

    /// Some time later.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.wrapping_add(units(duration)))
    }

    /// By how much this is later than `other`, in units of 2^-32 s. Right for times less than 68 years apart, whatever the era.
    fn since(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }
}

/// A packet, in the order of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Leap indicator, 0 to 3; 3 is a clock that is not synchronised.
    pub leap: u8,
    /// 1 to 7.
    pub version: u8,
    /// 3 asks, 4 answers.
    pub mode: u8,
    /// 1 has a reference clock, 0 refuses to answer.
    pub stratum: u8,
    /// Interval as a power of two, seconds.
    pub poll: i8,
    /// Of the clock as a power of two, seconds.
    pub precision: i8,
    /// Round trip to the reference clock, 2^-16 s.
    pub root_delay: u32,
    /// Error accumulated from there, 2^-16 s.
    pub root_dispersion: u32,
    /// Who the server follows, or why it refuses.
    pub reference_id: [u8; 4],
    /// When its clock was last set.
    pub reference: Timestamp,
    /// The request's `transmit`, sent back.
    pub origin: Timestamp,
    /// When the request came.
    pub receive: Timestamp,
    /// When this packet left.
    pub transmit: Timestamp,
}

/// Why a reply is not to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Not an answer to our request: forged, late, or no reply at all. To be ignored.
    #[error("not an answer to this request")]
    NotOurs,
    /// A kiss-o'-death (RFC 5905 §7.4).
    #[error("the server refuses service ({})", .0.escape_ascii())]
    KissOfDeath([u8; 4]),
    /// The server itself does not know the time.
    #[error("the server's own clock is not synchronised (leap indicator {leap}, stratum {stratum})")]
    Unsynchronised { leap: u8, stratum: u8 },
    #[error("the server's answer contradicts itself")]
    Implausible,
}

/// What one exchange says of the clocks, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// To be added to this host's clock; positive where it is behind.
    pub offset_s: f64,
    /// Round trip without the server's share.
    pub delay_s: f64,
}

impl Packet {
    /// A request. `nonce` stands where the clock would be read: the server sends it back, so only a host that has seen
    /// the request can answer, and none learns what our clock says.
    pub fn request(nonce: u64) -> Self {
        Self {
            leap: 0,
            version: VERSION,
            mode: MODE_CLIENT,
            stratum: 0,
            poll: 0,
            precision: 0,
            root_delay: 0,
            root_dispersion: 0,
            reference_id: [0; 4],
            reference: Timestamp(0),
            origin: Timestamp(0),
            receive: Timestamp(0),
            transmit: Timestamp(nonce),
        }
    }

    /// The first 48 bytes; what follows are extensions that were not asked for.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let [flags, stratum, poll, precision] = take(&mut rest)?;
        let (root_delay, root_dispersion) =
            (u32::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
        let reference_id = take(&mut rest)?;
        let mut timestamp = || Some(Timestamp(u64::from_be_bytes(take(&mut rest)?)));
        Some(Self {
            leap: flags >> 6,
            version: (flags >> 3) & 7,
            mode: flags & 7,
            stratum,
            poll: poll.cast_signed(),
            precision: precision.cast_signed(),
            root_delay,
            root_dispersion,
            reference_id,
            reference: timestamp()?,
            origin: timestamp()?,
            receive: timestamp()?,
            transmit: timestamp()?,
        })
    }

    /// As on the wire; of `leap`, `version` and `mode` the low bits.
    pub fn encode(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        let flags = (self.leap << 6) | ((self.version & 7) << 3) | (self.mode & 7);
        let fields = [flags, self.stratum, self.poll.cast_unsigned(), self.precision.cast_unsigned()]
            .into_iter()
            .chain(self.root_delay.to_be_bytes())
            .chain(self.root_dispersion.to_be_bytes())
            .chain(self.reference_id)
            .chain(
                [self.reference, self.origin, self.receive, self.transmit].into_iter().flat_map(|t| t.0.to_be_bytes()),
            );
        bytes.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
        bytes
    }

    /// Error of the server's clock at most, seconds: half the round trip to its reference clock and all dispersion on the way.
    pub fn root_distance_s(&self) -> f64 {
        (f64::from(self.root_delay) / 2.0 + f64::from(self.root_dispersion)) / 65536.0
    }

    /// What the reply to [`Packet::request`] says, that was sent at `sent` and answered at `received` by this host's clock.
    pub fn sample(&self, nonce: u64, sent: Timestamp, received: Timestamp) -> Result<Sample, Rejection> {
        if self.mode != MODE_SERVER || self.origin != Timestamp(nonce) || !(1..=VERSION).contains(&self.version) {
            return Err(Rejection::NotOurs);
        }
        if self.stratum == 0 {
            return Err(Rejection::KissOfDeath(self.reference_id));
        }
        if self.leap == 3 || self.stratum >= 16 {
            return Err(Rejection::Unsynchronised { leap: self.leap, stratum: self.stratum });
        }
        let (there, back) = (self.receive.since(sent), self.transmit.since(received));
        let (total, inside) = (received.since(sent), self.transmit.since(self.receive));
        if self.transmit == Timestamp(0) || inside < 0 || self.root_distance_s() >= MAX_ROOT_DISTANCE_S {
            return Err(Rejection::Implausible);
        }
        Ok(Sample {
            offset_s: (seconds(there) + seconds(back)) / 2.0,
            // The server's clock may run a little faster than ours.
            delay_s: seconds(total.saturating_sub(inside)).max(0.0),
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*field)
}

/// In 2^-32 s, modulo 2^64.
fn units(duration: Duration) -> u64 {
    (duration.as_secs() << 32) | ((u64::from(duration.subsec_nanos()) << 32) / 1_000_000_000)
}

/// Of 2^-32 s. Good to 10 ns at an offset of two years.
fn seconds(units: i64) -> f64 {
    let whole = i32::try_from(units >> 32).expect("the upper half of 64 bits has 32");
    let fraction = u32::try_from(units & 0xffff_ffff).expect("the lower half of 64 bits has 32");
    f64::from(whole) + f64::from(fraction) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONCE: u64 = 0x0123_4567_89ab_cdef;

    fn at(unix_s: u64, nanos: u32) -> Timestamp {
        Timestamp::from_system(UNIX_EPOCH + Duration::new(unix_s, nanos))
    }

    /// A server whose clock read `there` for `inside` in the middle of the exchange.
    fn reply(there: Timestamp, inside: Duration) -> Packet {
        Packet {
            mode: 4,
            stratum: 2,
            origin: Timestamp(NONCE),
            receive: there,
            transmit: there.after(inside),
            ..Packet::request(0)
        }
    }

    fn sample(here: Timestamp, there: Timestamp) -> Sample {
        let ms = Duration::from_millis;
        // 1 ms there, 2 ms inside, 1 ms back.
        reply(there.after(ms(1)), ms(2)).sample(NONCE, here, here.after(ms(4))).unwrap()
    }

    #[test]
    fn offsets_of_years_come_out_right() {
        let now = at(1_795_000_000, 250_000_000);
        let year = 365 * 86400;
        for (host, offset) in
            [(at(1_795_000_000 - 2 * year, 0), 63_072_000.25), (at(1_795_000_000 + 2 * year, 0), -63_071_999.75)]
        {
            let sample = sample(host, now);
            assert!((sample.offset_s - offset).abs() < 1e-6, "{sample:?}");
            assert!((sample.delay_s - 0.002).abs() < 1e-6, "{sample:?}");
        }
    }

    #[test]
    fn eras_are_crossed() {
        // The first era ends on 7 February 2036, 06:28:16.
        let end = (1 << 32) - UNIX_EPOCH_S;
        let sample_across = sample(at(end - 10, 0), at(end + 10, 0));
        assert!((sample_across.offset_s - 20.0).abs() < 1e-6, "{sample_across:?}");
        // A clock without a battery, asked in 2026; and one before 1970.
        let unset = sample(at(0, 0), at(1_795_000_000, 0));
        assert!((unset.offset_s - 1_795_000_000.0).abs() < 1e-6, "{unset:?}");
        let before = Timestamp::from_system(UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!(before.since(at(0, 0)), -(3 << 31));
    }

    #[test]
    fn what_is_not_an_answer_is_not_used() {
        let (here, good) = (at(1_795_000_000, 0), reply(at(1_795_000_000, 0), Duration::from_millis(1)));
        let verdict = |packet: Packet| packet.sample(NONCE, here, here.after(Duration::from_millis(5))).err();
        assert_eq!(verdict(good), None);
        for other in [
            Packet { origin: Timestamp(NONCE + 1), ..good },
            Packet { mode: 3, ..good },
            Packet { mode: 5, ..good },
            Packet { version: 0, ..good },
        ] {
            assert_eq!(verdict(other), Some(Rejection::NotOurs));
        }
        let kiss = Packet { stratum: 0, leap: 3, reference_id: *b"RATE", ..good };
        assert_eq!(verdict(kiss), Some(Rejection::KissOfDeath(*b"RATE")));
        assert_eq!(verdict(kiss).unwrap().to_string(), "the server refuses service (RATE)");
        assert_eq!(verdict(Packet { leap: 3, ..good }), Some(Rejection::Unsynchronised { leap: 3, stratum: 2 }));
        assert_eq!(verdict(Packet { stratum: 16, ..good }), Some(Rejection::Unsynchronised { leap: 0, stratum: 16 }));
        for implausible in [
            Packet { transmit: Timestamp(0), ..good },
            Packet { transmit: Timestamp(good.receive.0 - 1), ..good },
            Packet { root_dispersion: 16 << 16, ..good },
        ] {
            assert_eq!(verdict(implausible), Some(Rejection::Implausible));
        }
    }

    #[test]
    fn a_request_is_as_the_rfc_draws_it() {
        let mut expected = [0; PACKET_BYTES];
        expected[0] = 0x23;
        expected[40..].copy_from_slice(&NONCE.to_be_bytes());
        assert_eq!(Packet::request(NONCE).encode(), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80), sent: u64, received: u64) {
            let packet = Packet::decode(&bytes);
            prop_assert_eq!(packet.is_some(), bytes.len() >= PACKET_BYTES);
            if let Some(packet) = packet {
                prop_assert_eq!(&packet.encode()[..], &bytes[..PACKET_BYTES]);
                if let Ok(sample) = packet.sample(packet.origin.0, Timestamp(sent), Timestamp(received)) {
                    prop_assert!(sample.offset_s.is_finite() && sample.delay_s >= 0.0);
                }
            }
        }
    }
}
