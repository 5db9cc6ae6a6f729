//! What is asked of the kinds of load, and what they answer with.

use crate::{facts::Facts, load::Load};
use inventory::Root;
use std::{net::SocketAddr, path::PathBuf, sync::Arc};

/// What is left to the system unless the user says otherwise: a sixteenth, within these bounds.
const RESERVE_BYTES: (u64, u64) = (256 << 20, 4 << 30);

/// A kind of load.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its name in options and results.
    pub name: &'static str,
    /// How far its threads give way to others.
    pub nice: i32,
    /// What it would do, of the facts and of what is asked. Pure: the loads have taken nothing yet.
    pub plan: fn(&Facts, &Request) -> Planned,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Where facts and counters are read.
    pub root: Arc<Root>,
    /// The most memory to test.
    pub memory_bytes: Option<u64>,
    /// Memory to leave to the system.
    pub reserve_bytes: Option<u64>,
    /// Disks to read; `None`: all.
    pub disks: Option<Vec<PathBuf>>,
    /// Disks to write. What is on them is lost.
    pub destroyed: Vec<PathBuf>,
    /// Other ends of links.
    pub peers: Vec<SocketAddr>,
    /// Pairs of ports of this machine, each with a cable between them.
    pub ports: Vec<[String; 2]>,
    /// TCP streams to each of them, in each direction.
    pub streams: u16,
}

impl Request {
    /// What is left to the system of so much that is available.
    pub(crate) fn reserve(&self, available_bytes: u64) -> u64 {
        let usual = (available_bytes / 16).clamp(RESERVE_BYTES.0, RESERVE_BYTES.1);
        self.reserve_bytes.unwrap_or(usual)
    }

    /// What may be taken of so much that is available.
    pub(crate) fn memory_room(&self, available_bytes: u64) -> u64 {
        available_bytes.saturating_sub(self.reserve(available_bytes))
    }
}

/// What a kind would do.
#[derive(Default)]
pub(crate) struct Planned {
    /// For people, a line each.
    pub text: Vec<String>,
    pub loads: Vec<Box<dyn Load>>,
    /// What it can't test, and why.
    pub not_tested: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_bounded() {
        const GIB: u64 = 1 << 30;
        let request = |reserve_bytes| Request {
            root: Arc::new(Root::open("/").unwrap()),
            memory_bytes: None,
            reserve_bytes,
            disks: None,
            destroyed: Vec::new(),
            peers: Vec::new(),
            ports: Vec::new(),
            streams: 1,
        };
        assert_eq!([0, 16 * GIB, 1024 * GIB].map(|bytes| request(None).reserve(bytes)), [256 << 20, GIB, 4 * GIB]);
        assert_eq!((request(Some(5)).memory_room(7), request(Some(5)).memory_room(4)), (2, 0));
    }
}
