//! Hours of a cluster's life in seconds of a test.

use crate::Cluster;
use std::{
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

type Deed = Box<dyn FnOnce(&Cluster) + Send>;

/// What happens when, in simulated time from the beginning. A test moves it on by hand ([`Life::advance_to`]) or lets it run
/// ([`Life::run`]).
#[derive(Default)]
pub struct Life {
    /// The next comes last.
    deeds: Vec<(Duration, Deed)>,
}

impl Life {
    /// One in which nothing happens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// And at this time, this. Deeds of the same time happen in the order that they were given in.
    #[must_use]
    pub fn at(mut self, time: Duration, deed: impl FnOnce(&Cluster) + Send + 'static) -> Self {
        let place = self.deeds.partition_point(|(other, _)| *other > time);
        self.deeds.insert(place, (time, Box::new(deed)));
        self
    }

    /// And at this minute, this.
    #[must_use]
    pub fn at_minute(self, minute: u64, deed: impl FnOnce(&Cluster) + Send + 'static) -> Self {
        self.at(Duration::from_secs(60 * minute), deed)
    }

    /// All that happens until this time, and at it.
    pub fn advance_to(&mut self, time: Duration, cluster: &Cluster) {
        while self.deeds.last().is_some_and(|(next, _)| *next <= time) {
            if let Some((_, deed)) = self.deeds.pop() {
                deed(cluster);
            }
        }
    }

    /// When the next deed is.
    pub fn next(&self) -> Option<Duration> {
        self.deeds.last().map(|(time, _)| *time)
    }

    /// Lives it in a thread, `scale` simulated seconds in a second.
    pub fn run(mut self, cluster: &Cluster, scale: u32) -> JoinHandle<()> {
        let cluster = cluster.clone();
        thread::spawn(move || {
            let start = Instant::now();
            while let Some(next) = self.next() {
                thread::sleep((next / scale).saturating_sub(start.elapsed()));
                self.advance_to(next, &cluster);
            }
        })
    }
}
