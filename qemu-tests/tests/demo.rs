//! What `make demo` does when it is stopped, and when a host fails.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{ok, turn};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

#[test]
fn a_stopped_demo_leaves_nothing_behind() {
    let _turn = turn();
    ok(media::agent_iso(Drivers::Cloud));
    ok(media::os_image(SectorSize::B512, Compression::Zstd, Drivers::Cloud));
    let mut demo = start(&["--hosts", "3"]);
    let mut progress = BufReader::new(demo.stderr.take().unwrap()).lines();
    assert!(progress.any(|line| line.unwrap().contains("machines boot")), "the demo ended early");
    let pid = demo.id();
    let mark = format!("landfall-vm-{pid}-");
    while count_processes(&mark) < 4 {
        assert!(demo.try_wait().unwrap().is_none(), "the demo ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
    progress.for_each(|line| println!("{}", line.unwrap()));
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(count_processes(&mark), 0, "machines are still running");
    for parent in [std::env::temp_dir(), paths::target_dir().join("vm/run")] {
        let names =
            fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default());
        assert_eq!(names.filter(|name| name.starts_with(&mark)).collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
fn a_host_that_fails_fails_the_demo_with_its_reason() {
    let _turn = turn();
    let image = ok(media::os_image(SectorSize::B4096, Compression::Xz, Drivers::Cloud));
    let mut demo = start(&["--hosts", "1", "--image", image.to_str().unwrap()]);
    let mut progress = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut progress).unwrap();
    println!("{progress}");
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    let reason = progress.lines().last().unwrap();
    assert!(
        reason.starts_with("demo: node-0 failed:") && reason.contains("4096") && reason.contains("vm/logs/demo"),
        "{reason}"
    );
    let (_, bundle) = progress.split_once("its logs are in ").expect("the failed host's logs");
    check_bundle(bundle.lines().next().unwrap().trim());
}

/// What a host sends when all logs are requested, by the real agent's names (docs/compatibility.md#log-sequence), and
/// that it says what happened.
fn check_bundle(path: &str) {
    let tar = |arguments: &[&str]| {
        let output = Command::new("tar").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let list = tar(&["-tzf", path]);
    println!("{list}");
    let (directory, _) = list.split_once('/').unwrap();
    assert!(directory.starts_with("logs_host_"), "{directory}");
    for name in ["mount.logs", "agent.logs", "installer.logs", "dmesg.logs", "journal.logs"] {
        assert!(list.lines().any(|line| line == format!("{directory}/{name}")), "{name} is missing");
    }
    let read = |name: &str| tar(&["-xzOf", path, &format!("{directory}/{name}")]);
    for (name, wanted) in [
        ("agent.logs", "Step execution failed"),
        ("installer.logs", "4096"),
        ("dmesg.logs", "Linux version"),
        ("journal.logs", "systemd"),
        ("mount.logs", "vda"),
    ] {
        let text = read(name);
        assert!(text.contains(wanted), "{name} does not say '{wanted}':\n{text}");
    }
    // Each record once: the installer writes its own, and the agent shows them without writing them again.
    let installer = read("installer.logs");
    let message =
        installer.lines().rfind(|line| line.contains("4096")).and_then(|line| line.split("msg=").nth(1)).unwrap();
    assert_eq!(read("journal.logs").matches(message).count(), installer.matches(message).count(), "{message}");
}

fn start(arguments: &[&str]) -> Child {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.env_remove("HOSTS").env_remove("BASE_ISO").env_remove("IMAGE");
    demo.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Processes whose command line has `mark` in it.
fn count_processes(mark: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}
