//! The log is told to nobody when nobody listens, and the command goes on.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_left_is_no_reason_to_stop() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_landfall"))
        .args(["install", "--image-file", "/nonexistent", "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    // 101 would be a panic.
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
