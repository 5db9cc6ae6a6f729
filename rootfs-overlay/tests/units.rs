//! systemd's opinion of the units.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, process::Command};

#[test]
fn systemd_understands_every_line_of_the_agents_unit() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/overlay/usr/lib/systemd/system/agent.service");
    let text = fs::read_to_string(unit).unwrap();
    // A program that is here, in the place of the one that the image build installs.
    let here = std::env::current_exe().unwrap();
    let text = text.replace("/usr/bin/landfall", here.to_str().unwrap());
    let dir = std::env::temp_dir().join(format!("landfall-units-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let complaints = |text: &str| {
        let unit = dir.join("agent.service");
        fs::write(&unit, text).unwrap();
        verify(&unit)
    };
    let (ours, broken) = (complaints(&text), complaints(&format!("{text}\n[Service]\nWatchdogSeconds=1\n")));
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(ours, "");
    assert!(broken.contains("WatchdogSeconds"), "{broken}");
}

/// What systemd says of the unit itself.
fn verify(unit: &Path) -> String {
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Of this machine's own units, which it loads too, it may say what it likes.
    said.lines().filter(|line| line.contains("agent.service")).map(|line| format!("{line}\n")).collect()
}
