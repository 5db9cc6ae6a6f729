//! Programs that tests start.

use std::{path::PathBuf, process::Child};

/// One that ends with its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that a supervisor started last and has not replaced: of `landfall serve`, the one that works.
pub fn worker(supervisor: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// A program of the workspace that `cargo test --workspace` builds beside the tests.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo test --workspace builds it, as does cargo build -p of its package",
        path.display()
    );
    path
}
