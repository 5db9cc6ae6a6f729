//! Clients that others publish, against our own service: how each of their calls ends is in the tables of `tests/clients`.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Exit code where the clients cannot be installed.
const NOT_INSTALLED: i32 = 3;

#[test]
fn published_clients_get_what_the_tables_say() {
    let program = std::env::var("LANDFALL_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_landfall").to_owned());
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/clients"));
    let output = command.env("LANDFALL_BIN", program).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(NOT_INSTALLED) {
        testkit::skip::because(format_args!("Python's packages cannot be installed: {said}"));
        return;
    }
    assert!(output.status.success(), "{said}");
}
