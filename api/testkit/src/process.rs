//! Programs that tests start.

use std::process::Child;

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
