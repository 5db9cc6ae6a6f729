//! `landfall up --vms`: stopped in the middle, continued with less said, and removed.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{ok, turn};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths, service,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use testkit::disk::LoopDisk;

/// A rack's directory, and its machines, which outlive their command.
struct Rack {
    directory: PathBuf,
    program: PathBuf,
}

impl Rack {
    fn up(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["up", "--state-dir"]).arg(&self.directory).args(arguments);
        command.current_dir(self.directory.parent().unwrap()).stdin(Stdio::null());
        command
    }

    /// Processes that have the rack's files.
    fn processes(&self) -> usize {
        let mark = self.directory.to_str().unwrap();
        let all =
            fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
        all.filter(|words| words.windows(mark.len()).any(|window| window == mark.as_bytes())).count()
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        let _ = self.up(&["--down"]).output();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn three_machines_are_installed_though_the_command_was_stopped() {
    let _turn = turn();
    let iso = ok(media::agent_iso(Drivers::Cloud));
    let image = ok(media::os_image(SectorSize::B512, Compression::Zstd, Drivers::Cloud));
    let scratch = tempfile::Builder::new().prefix("up-").tempdir_in(paths::target_dir()).unwrap();
    let key = scratch.path().join("key.pub");
    fs::write(
        &key,
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIfHxU8uJ1Y8Bp1Ln3nqy8lRBvF0Y1n0mJ1b6m3Yw0aZ up@example.com\n",
    )
    .unwrap();
    let rack = Rack { directory: scratch.path().join("rack"), program: ok(service::binary()) };

    let mut first = rack
        .up(&["--vms", "3", "--vm-memory", "1024", "--vm-disk", "4"])
        .args(["--iso", text(&iso), "--image", text(&image), "--ssh-key", text(&key)])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines().map(Result::unwrap);
    let stopped_at =
        lines.by_ref().inspect(|line| println!("{line}")).find(|line| line.contains("Writing image to disk"));
    assert!(stopped_at.is_some(), "it ended early: {:?}", first.wait());
    kill(Pid::from_raw(i32::try_from(first.id()).unwrap()), Signal::SIGINT).unwrap();
    let last: Vec<String> = lines.inspect(|line| println!("{line}")).collect();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    assert!(last.iter().any(|line| line.contains("`landfall up --down` ends them")), "{last:?}");
    assert_eq!(rack.processes(), 3, "the machines run, the service does not");

    let other = rack.up(&["--name", "other"]).output().unwrap();
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(!other.status.success() && said.contains("other settings"), "{said}");

    let second = rack.up(&["--json"]).stderr(Stdio::inherit()).output().unwrap();
    assert!(second.status.success(), "{second:?}");
    let nodes: Value = serde_json::from_slice(&second.stdout).unwrap();
    let names: Vec<&str> =
        nodes["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node-1", "node-2", "node-3"]);
    for node in nodes["nodes"].as_array().unwrap() {
        assert!(node["address"].as_str().unwrap().starts_with("10.0.2."), "{node}");
        assert!(node["login"].as_str().unwrap().ends_with(" core@127.0.0.1"), "{node}");
    }
    assert_eq!(rack.processes(), 3);

    let down = rack.up(&["--down"]).output().unwrap();
    let said = String::from_utf8(down.stdout).unwrap();
    assert!(down.status.success() && said.starts_with("3 virtual machines ended"), "{said}");
    assert_eq!(rack.processes(), 0);
    assert!(!rack.directory.exists());
}

#[test]
fn a_stick_gets_the_iso_of_the_rack() {
    if testkit::disk::skipped() {
        return;
    }
    let _turn = turn();
    let iso = ok(media::agent_iso(Drivers::Cloud));
    let image = ok(media::os_image(SectorSize::B512, Compression::Zstd, Drivers::Cloud));
    let scratch = tempfile::Builder::new().prefix("up-").tempdir_in(paths::target_dir()).unwrap();
    let rack = Rack { directory: scratch.path().join("rack"), program: ok(service::binary()) };
    let stick = LoopDisk::new(256 << 20, 512, false);
    let path = stick.path();
    let start = |more: &[&str]| {
        let mut command = rack.up(&["--hosts", "1", "--listen", "127.0.0.1:0", "--stick", text(&path)]);
        command.args(["--iso", text(&iso), "--image", text(&image)]).args(more);
        command
    };

    let said = |output: Output| (output.status.success(), String::from_utf8(output.stderr).unwrap());
    let unasked = said(start(&[]).output().unwrap());
    assert!(!unasked.0 && unasked.1.contains("would be overwritten: confirm with --yes"), "{}", unasked.1);
    let claim = fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(&path).unwrap();
    let claimed = said(start(&["--yes"]).output().unwrap());
    assert!(!claimed.0 && claimed.1.contains("is in use: unmount what is on it"), "{}", claimed.1);
    drop(claim);
    assert!(stick.read(0, 1 << 20).iter().all(|byte| *byte == 0), "a refused stick is left as it is");

    let mut up = start(&["--yes"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    let written =
        lines.by_ref().inspect(|line| println!("{line}")).any(|line| line.ends_with("is written and checked"));
    kill(Pid::from_raw(i32::try_from(up.id()).unwrap()), Signal::SIGTERM).unwrap();
    lines.for_each(|line| println!("{line}"));
    assert!(written);
    assert_eq!(up.wait().unwrap().code(), Some(130));
    let discovery = fs::read(rack.directory.join("rack.iso")).unwrap();
    assert_eq!(stick.read(0, u64::try_from(discovery.len()).unwrap()), discovery);
}
