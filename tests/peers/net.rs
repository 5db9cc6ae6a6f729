//! Namespaces of the network, as the tests of the checks make them, and ways into one by its name.

#[path = "../../netcheck/tests/common/mod.rs"]
mod common;

pub use common::*;
use nix::sched::{CloneFlags, setns};
use std::{fs::File, thread};

/// Moves the calling thread into a namespace of ours, where it stays.
pub fn enter_for_good(namespace: &str) {
    setns(File::open(format!("/run/netns/{namespace}")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
    assert_isolated();
}

/// Runs `work` on a thread of its own inside.
pub fn in_namespace<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter_for_good(namespace);
            work()
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
