//! Many pretended hosts against our own service.
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn twenty_pretended_hosts_register_tell_an_inventory_and_poll() {
    let program = std::env::var("LANDFALL_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_landfall").to_owned());
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/bench-agents"));
    command.env("LANDFALL_BIN", program).env("TMPDIR", std::env::temp_dir());
    for (name, value) in [("AGENTS", "20"), ("INTERVAL", "1"), ("WINDOW", "3"), ("DEADLINE", "60")] {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("20 of 20 agents registered and sent an inventory within "), "{said}");
    assert!(said.contains("RSS "), "{said}");
}
