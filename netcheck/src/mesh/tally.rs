//! Counts what came back. Pure.

use api::Mac;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant, SystemTime},
};

/// More responders than this to one address are a broken or hostile network, not a finding.
const MAX_RESPONDERS: usize = 16;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub wall: SystemTime,
    pub steady: Instant,
}

impl Stamp {
    pub(super) fn now() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }
}

/// What became of one echo.
#[derive(Clone, Copy, Debug)]
enum Echo {
    /// Not sent yet, or cut off before it could count as lost.
    Idle,
    /// Our own device did not take it: no fault of the network.
    Refused,
    Sent(Stamp),
    Answered(Duration),
}

/// The echoes of one address, by sequence number.
#[derive(Clone, Debug)]
pub(crate) struct EchoTally(Vec<Echo>);

impl EchoTally {
    pub(super) fn new(count: u16) -> Self {
        Self(vec![Echo::Idle; usize::from(count)])
    }

    pub(super) fn sent(&mut self, sequence: u16, at: Stamp) {
        if let Some(echo) = self.0.get_mut(usize::from(sequence)) {
            *echo = Echo::Sent(at);
        }
    }

    /// Takes back a [`sent`](Self::sent): the packet never left us, so its loss says nothing of the path.
    pub(super) fn not_sent(&mut self, sequence: u16) {
        if let Some(echo) = self.0.get_mut(usize::from(sequence)) {
            *echo = Echo::Refused;
        }
    }

    /// Books an answer; `kernel` is the kernel's time of arrival. A second answer, or one to nothing, changes nothing.
    ///
    /// The kernel's time leaves our own scheduling out, but is of the wall clock, which may be set at this moment: it
    /// counts only if it lies between sending and now.
    pub(super) fn answered(&mut self, sequence: u16, now: Instant, kernel: Option<SystemTime>) {
        let Some(echo) = self.0.get_mut(usize::from(sequence)) else { return };
        let Echo::Sent(at) = *echo else { return };
        let at_most = now.saturating_duration_since(at.steady);
        let measured = kernel.and_then(|arrival| arrival.duration_since(at.wall).ok()).filter(|rtt| *rtt <= at_most);
        *echo = Echo::Answered(measured.unwrap_or(at_most));
    }

    /// Leaves echoes sent after `since` and not answered out of the count: whether they are lost is not known yet.
    pub(super) fn forget_waiting(&mut self, since: Option<Instant>) {
        for echo in &mut self.0 {
            if matches!(echo, Echo::Sent(at) if since.is_none_or(|since| at.steady > since)) {
                *echo = Echo::Idle;
            }
        }
    }

    /// Whether an echo sent after `since` is still without an answer.
    pub(super) fn is_waiting(&self, since: Option<Instant>) -> bool {
        self.0.iter().any(|echo| matches!(echo, Echo::Sent(at) if since.is_none_or(|since| at.steady > since)))
    }

    /// Whether one came back; `None` while none has and the fate of another is not known.
    pub(super) fn passed(&self) -> Option<bool> {
        let answered = self.0.iter().any(|echo| matches!(echo, Echo::Answered(_)));
        let unknown = self.0.iter().any(|echo| matches!(echo, Echo::Idle));
        (answered || !unknown).then_some(answered)
    }

    pub(super) fn statistics(&self) -> EchoStatistics {
        let trips = self.0.iter().filter_map(|echo| match echo {
            Echo::Answered(trip) => Some(*trip),
            _ => None,
        });
        let trips: Vec<Duration> = trips.collect();
        let count = |wanted: fn(&Echo) -> bool| self.0.iter().filter(|echo| wanted(echo)).count();
        let sent = count(|echo| matches!(echo, Echo::Sent(_) | Echo::Answered(_)));
        // One that our own queues had no room for says nothing of the path. When they take none, nothing gets there.
        let sent = if sent == 0 { count(|echo| matches!(echo, Echo::Refused)) } else { sent };
        EchoStatistics { sent, received: trips.len(), round_trip: RoundTrip::from_trips(&trips) }
    }
}

/// Loss and delay of one address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EchoStatistics {
    /// Echoes sent; where our own device takes none of them, those that it refused.
    pub sent: usize,
    /// Echoes answered, each counted once.
    pub received: usize,
    /// Delays; `None` when nothing came back.
    pub round_trip: Option<RoundTrip>,
}

impl EchoStatistics {
    /// Lost echoes, percent of those sent; 0 when none was sent.
    pub fn loss_percent(&self) -> f64 {
        let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        if self.sent == 0 { 0.0 } else { count(self.sent.saturating_sub(self.received)) * 100.0 / count(self.sent) }
    }
}

/// Delays of the echoes that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Shortest.
    pub min: Duration,
    pub mean: Duration,
    /// Longest.
    pub max: Duration,
    /// Mean difference of one delay to the next (RFC 3550 §6.4.1 without the smoothing).
    pub jitter: Duration,
}

impl RoundTrip {
    fn from_trips(trips: &[Duration]) -> Option<Self> {
        let mean = |durations: &mut dyn Iterator<Item = Duration>, count: usize| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            durations.sum::<Duration>().checked_div(count).unwrap_or_default()
        };
        Some(Self {
            min: *trips.iter().min()?,
            mean: mean(&mut trips.iter().copied(), trips.len()),
            max: *trips.iter().max()?,
            jitter: mean(&mut trips.windows(2).map(|pair| pair[0].abs_diff(pair[1])), trips.len() - 1),
        })
    }
}

/// Who answered for one address on one interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responders {
    /// MACs of the hosts that the address belongs to; they always find a place, whatever else answers.
    pub expected: BTreeSet<Mac>,
    pub macs: BTreeSet<Mac>,
    pub asked: u16,
    pub last_asked: Option<Instant>,
    /// Others that found no place.
    pub too_many: bool,
}

impl Responders {
    pub(super) fn expecting(expected: BTreeSet<Mac>) -> Self {
        Self { expected, ..Self::default() }
    }

    pub(super) fn asked(&mut self, at: Instant) {
        self.asked = self.asked.saturating_add(1);
        self.last_asked = Some(at);
    }

    /// Books an answer; false when it is the first one too many.
    pub(super) fn answered(&mut self, mac: Mac) -> bool {
        let others = self.macs.difference(&self.expected).count();
        let fits = others < MAX_RESPONDERS || self.expected.contains(&mac) || self.macs.contains(&mac);
        if fits {
            self.macs.insert(mac);
            return true;
        }
        std::mem::replace(&mut self.too_many, true)
    }

    /// Whether the host itself has answered, or any station if its MACs are not known.
    pub(super) fn is_found(&self) -> bool {
        if self.expected.is_empty() { !self.macs.is_empty() } else { !self.expected.is_disjoint(&self.macs) }
    }

    /// Whether the host has not answered, though asked after `since`.
    pub(super) fn is_waiting(&self, since: Option<Instant>) -> bool {
        !self.is_found() && self.last_asked.is_some_and(|at| since.is_none_or(|since| at > since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn loss_and_delay_are_counted_once_an_echo() {
        let start = Stamp::now();
        let mut tally = EchoTally::new(4);
        for sequence in 0..3 {
            tally.sent(sequence, start);
        }
        tally.not_sent(2);
        tally.sent(3, start);
        tally.sent(9, start);
        tally.answered(0, start.steady + ms(10), None);
        tally.answered(0, start.steady + ms(90), None);
        tally.answered(2, start.steady + ms(90), None);
        tally.answered(3, start.steady + ms(30), None);
        tally.answered(9, start.steady + ms(30), None);
        let statistics = tally.statistics();
        assert_eq!((statistics.sent, statistics.received), (3, 2));
        let round_trip = RoundTrip { min: ms(10), mean: ms(20), max: ms(30), jitter: ms(20) };
        assert_eq!(statistics.round_trip, Some(round_trip));
        assert!(tally.is_waiting(None));
        assert!(!tally.is_waiting(Some(start.steady)));
        tally.forget_waiting(Some(start.steady));
        assert_eq!(tally.statistics().sent, 3, "old enough to be lost");
        tally.forget_waiting(start.steady.checked_sub(ms(1)));
        assert_eq!(tally.statistics().sent, 2, "the one without an answer");
        assert_eq!(EchoTally::new(4).statistics(), EchoStatistics { sent: 0, received: 0, round_trip: None });
    }

    #[test]
    fn an_address_that_no_echo_leaves_for_is_lost() {
        let mut tally = EchoTally::new(3);
        tally.not_sent(0);
        tally.not_sent(1);
        assert_eq!(tally.statistics(), EchoStatistics { sent: 2, received: 0, round_trip: None });
        tally.sent(2, Stamp::now());
        assert_eq!(tally.statistics().sent, 1, "the others say nothing of the path");
    }

    #[test]
    fn the_kernels_time_counts_only_while_the_clock_stands() {
        let start = Stamp::now();
        let trip = |kernel: SystemTime| {
            let mut tally = EchoTally::new(1);
            tally.sent(0, start);
            tally.answered(0, start.steady + ms(5), Some(kernel));
            tally.statistics().round_trip.unwrap().mean
        };
        assert_eq!(trip(start.wall + ms(2)), ms(2));
        assert_eq!(trip(start.wall - ms(86_400_000)), ms(5), "set back a day");
        assert_eq!(trip(start.wall + ms(86_400_000)), ms(5), "set forth a day");
    }

    fn mac(last: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, last])
    }

    #[test]
    fn responders_are_bounded() {
        let mut responders = Responders::default();
        assert!(!responders.is_waiting(None), "not asked yet");
        let now = Instant::now();
        responders.asked(now);
        assert!(responders.is_waiting(None) && !responders.is_waiting(Some(now)));
        for last in 0..16 {
            assert!(responders.answered(mac(last)));
        }
        assert!(!responders.answered(mac(99)), "one too many");
        assert!(responders.answered(mac(98)), "said once, not once a packet");
        assert!(responders.answered(mac(3)), "one already known");
        assert_eq!(responders.macs.len(), 16);
        assert!(!responders.is_waiting(None));
    }

    #[test]
    fn the_host_itself_finds_a_place_among_any_number_of_others() {
        let mut responders = Responders::expecting([mac(200), mac(201)].into());
        responders.asked(Instant::now());
        for last in 0..100 {
            responders.answered(mac(last));
        }
        assert!(responders.is_waiting(None), "others are not the host");
        assert!(responders.answered(mac(201)) && responders.is_found());
        assert_eq!(responders.macs.len(), 17);
    }
}
