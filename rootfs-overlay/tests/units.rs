//! systemd's opinion of the units.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/overlay/usr/lib/systemd/system");
/// Each unit; its exposure in tenths, as `systemd-analyze security` of systemd 252 counts it and the README has it; and the sum of the
/// exposures of all it looks at, which is finer.
const UNITS: [(&str, u32, u32); 4] = [
    ("agent.service", 77, 98),
    ("landfall-serve.service", 18, 23),
    ("landfall-status.service", 16, 22),
    ("landfall-console.service", 20, 27),
];
/// What hardens, and is not looked at there.
const UNCOUNTED: [&str; 4] = ["DeviceAllow", "DevicePolicy", "RemoveIPC", "SystemCallErrorNumber"];

fn text(unit: &str) -> String {
    fs::read_to_string(Path::new(DIRECTORY).join(unit)).unwrap()
}

/// The unit's file with `text` in it, elsewhere, with a program that is here in the place of the one the image build installs.
fn elsewhere(dir: &Path, unit: &str, text: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let path = dir.join(unit);
    fs::write(&path, text.replace("/usr/bin/landfall", here.to_str().unwrap())).unwrap();
    path
}

/// What systemd says of the unit itself.
fn verify(path: &Path) -> String {
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(path).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let name = path.file_name().unwrap().to_str().unwrap();
    // Of this machine's own units, which it loads too, it may say what it likes.
    log.lines().filter(|line| line.contains(name)).map(|line| format!("{line}\n")).collect()
}

fn security(path: &Path, options: &[&str]) -> (bool, String) {
    let mut analyze = Command::new("systemd-analyze");
    let output = analyze.args(["security", "--no-pager", "--offline=true"]).args(options).arg(path).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// Sum of what each of its tests finds, in tenths.
fn exposure(path: &Path) -> u32 {
    let tests: Vec<Value> = serde_json::from_str(&security(path, &["--json=short"]).1).unwrap();
    let found = tests.iter().filter_map(|test| test["exposure"].as_str());
    found.map(|found| found.replace('.', "").parse::<u32>().unwrap()).sum()
}

#[test]
fn systemd_understands_every_line() {
    let dir = tempfile::tempdir().unwrap();
    for (unit, ..) in UNITS {
        let text = text(unit);
        assert_eq!(verify(&elsewhere(dir.path(), unit, &text)), "", "{unit}");
        let broken = verify(&elsewhere(dir.path(), unit, &format!("{text}\n[Service]\nWatchdogSeconds=1\n")));
        assert!(broken.contains("WatchdogSeconds"), "{broken}");
    }
}

#[test]
fn no_unit_is_more_exposed_than_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let readme = include_str!("../overlay/README.md");
    for (unit, tenths, _) in UNITS {
        let path = elsewhere(dir.path(), unit, &text(unit));
        let within = |tenths: u32| security(&path, &[&format!("--threshold={tenths}")]).0;
        let (_, table) = security(&path, &[]);
        let line = table.lines().last().unwrap_or_default();
        assert!(within(tenths), "{unit}: {line}");
        assert!(!within(tenths - 1), "{unit} has become better, write it down: {line}");
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{unit}` |"))).unwrap();
        assert!(row.contains(&format!("| {}.{} |", tenths / 10, tenths % 10)), "{row}");
    }
}

#[test]
fn no_line_that_hardens_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    for (unit, _, sum) in UNITS {
        let text = text(unit);
        assert_eq!(exposure(&elsewhere(dir.path(), unit, &text)), sum, "{unit}");
        let (_, hardening) = text.split_once("[Service]").unwrap();
        let name = |line: &str| line.split_once('=').map(|(name, _)| name.to_owned()).unwrap_or_default();
        let starts =
            ["Protect", "Private", "Restrict", "Lock", "NoNew", "Memory", "SystemCall", "Capability", "IPAddress"];
        let hardens =
            |line: &&str| starts.iter().any(|start| line.starts_with(start)) && !UNCOUNTED.contains(&&*name(line));
        for dropped in hardening.lines().filter(hardens) {
            // Of lines that add to each other, all.
            let is_line = |line: &&str| name(line) != name(dropped) || line.starts_with('#');
            let without: String = text.lines().filter(is_line).map(|line| format!("{line}\n")).collect();
            let others = exposure(&elsewhere(dir.path(), unit, &without));
            assert!(others > sum, "{unit}: without {dropped} it is {others}");
        }
    }
}

#[test]
fn all_units_are_enabled_by_link_and_by_preset() {
    let preset = Path::new(DIRECTORY).join("../system-preset/50-landfall.preset");
    let preset = fs::read_to_string(preset).unwrap();
    for (unit, ..) in UNITS {
        let link = fs::read_link(Path::new(DIRECTORY).join("multi-user.target.wants").join(unit)).unwrap();
        assert_eq!(link, Path::new("..").join(unit));
        assert!(preset.lines().any(|line| line == format!("enable {unit}")), "{unit} in {preset}");
    }
}

/// The units of an installation, and the file of tmpfiles.d(5) that one of them reads.
const INSTALLATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/coreos-installer/usr");

#[test]
fn systemd_understands_the_units_of_an_installation() {
    let dir = tempfile::tempdir().unwrap();
    let here = std::env::current_exe().unwrap();
    let mut units = Vec::new();
    for entry in fs::read_dir(Path::new(INSTALLATION).join("lib/systemd/system")).unwrap() {
        let from = entry.unwrap().path();
        let path = dir.path().join(from.file_name().unwrap());
        let text = fs::read_to_string(&from).unwrap();
        fs::write(&path, text.replace("/usr/bin/coreos-installer", here.to_str().unwrap())).unwrap();
        units.push(path);
    }
    assert_eq!(units.len(), 7);
    for unit in units {
        assert_eq!(verify(&unit), "", "{}", unit.display());
    }
}

#[test]
fn arrays_and_volumes_stay_down_during_an_installation() {
    let root = testkit::tree::Tree::new(&[("etc/lvm/lvm.conf", "# x\n")]);
    let rules = fs::File::open(Path::new(INSTALLATION).join("share/coreos-installer/no-activation.conf")).unwrap();
    let option = format!("--root={}", root.path().display());
    let made = Command::new("systemd-tmpfiles").args([&option, "--create", "-"]).stdin(rules).output().unwrap();
    assert!(made.status.success() && made.stderr.is_empty(), "{made:?}");
    let text = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    assert_eq!(text("etc/mdadm.conf.d/coreos-installer.conf"), "AUTO -all\n");
    assert_eq!(text("etc/lvm/lvm.conf"), "# x\n\ndevices {\n\tfilter = [ \"r|.*|\" ]\n}\n");
}
