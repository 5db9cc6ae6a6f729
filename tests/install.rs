//! `landfall install` as a program, under both its names: what it says, what it leaves on a disk, how signals end it. What it
//! says as coreos-installer is held against the real one where that is found.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;
use testkit::disk::{ENTRY, Image, LoopDisk, MIB, skipped};

fn landfall() -> PathBuf {
    std::env::var_os("LANDFALL_BIN").map_or_else(|| env!("CARGO_BIN_EXE_landfall").into(), PathBuf::from)
}

/// A directory with a link of the other name.
fn other_name() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("coreos-installer");
    symlink(fs::canonicalize(landfall()).unwrap(), &link).unwrap();
    (dir, link)
}

fn say(program: &Path, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .env_remove("LANDFALL_LOG")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard error of a program that must succeed.
fn succeeds(program: &Path, args: &[&str]) -> String {
    let output = say(program, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn scripts_written_for_coreos_installer_read_what_they_expect() {
    if skipped() {
        return;
    }
    let (_dir, program) = other_name();
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let raw = image.packed(None).display().to_string();
    let said = succeeds(&program, &["install", "--insecure", "-f", &raw, &disk.path().display().to_string()]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("Copying image from {raw}"), "{said}");
    assert_eq!(lines[1], format!("Reading signature from {raw}.sig"), "{said}");
    assert!(lines.contains(&"Read disk 32.0 MiB/32.0 MiB (100%)"), "{said}");
    assert_eq!(lines.last(), Some(&"Install complete."), "{said}");
    assert_eq!(disk.partitions(), [1, 2, 3, 4]);
    assert!(text(&say(&program, &["--version"]).stdout).starts_with("coreos-installer "));
}

#[test]
fn config_files_reach_the_disk() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("1.yaml"), dir.path().join("2.yaml"));
    let raw = image.packed(None);
    fs::write(&first, format!("image-file: {}\ninsecure: true\nappend-karg: [a]\n", raw.display())).unwrap();
    fs::write(&second, format!("dest-device: {}\nappend-karg: [b]\n", disk.path().display())).unwrap();
    let (first, second) = (first.display().to_string(), second.display().to_string());
    let output = say(&landfall(), &["install", "-c", &first, "--append-karg", "c", "-c", &second]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let words = text(&output.stdout);
    assert!(
        words.starts_with("Running with arguments: --image-file ") && words.ends_with("--append-karg c\n"),
        "{words}"
    );
    let entry = image.debugfs(&disk, "cat /loader/entries/ostree-1-test.conf");
    assert_eq!(entry, ENTRY.replace("=metal", "=metal a b c"));
}

#[test]
fn events_say_how_to_read_them_and_how_it_ended() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let (raw, device) = (image.packed(None).display().to_string(), disk.path().display().to_string());
    let events = |args: &[&str]| -> Vec<serde_json::Value> {
        let output = say(&landfall(), args);
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let good = events(&["install", "--progress", "json", "--insecure", "-f", &raw, &device]);
    assert_eq!(good[0], serde_json::json!({"event": "schema", "schema": 1}));
    assert_eq!(good.last().unwrap()["event"], "finished");
    let bad = events(&["install", "--json", "--insecure", "-f", "/nonexistent", &device]);
    let last = bad.last().unwrap();
    assert_eq!((&last["event"], &last["disk"]), (&"failed".into(), &"nothing was written".into()), "{last}");
}

#[test]
fn a_signal_in_the_middle_leaves_no_table() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    for signal in [nix::sys::signal::Signal::SIGINT, nix::sys::signal::Signal::SIGKILL] {
        let disk = LoopDisk::new(64 * MIB, 512, true);
        disk.put_old_tables(512);
        let mut child = Command::new(landfall())
            .args(["install", "--insecure", "--image-file", "-"])
            .arg(disk.path())
            .env_remove("LANDFALL_LOG")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&image.data[..image.data.len() / 2]).unwrap();
        // The old table and then its backup go before anything is written.
        let has_tables = || disk.read(512, 8) == b"EFI PART" || disk.read(disk.size() - 512, 8) == b"EFI PART";
        assert!(testkit::wait::comes(|| !has_tables()), "nothing is written");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        drop(stdin);
        if signal == nix::sys::signal::Signal::SIGINT {
            assert_eq!(status.code(), Some(1), "{said}");
            assert!(said.contains("cancelled by a signal") && said.contains("partition table was cleared"), "{said}");
            disk.assert_cleared();
        } else {
            assert_eq!(status.signal(), Some(9), "{said}");
            assert_ne!(disk.read(512, 8), b"EFI PART");
            assert_ne!(disk.read(510, 2), [0x55, 0xAA]);
            assert_ne!(disk.read(disk.size() - 512, 8), b"EFI PART");
        }
    }
}

/// The real program. `make test` builds it.
fn peer() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("COREOS_INSTALLER").map(PathBuf::from);
    let found =
        named.or_else(|| std::env::split_paths(&path).map(|dir| dir.join("coreos-installer")).find(|p| p.is_file()));
    if found.is_none() {
        testkit::skip::because("there is no coreos-installer; name one in COREOS_INSTALLER");
    }
    found
}

/// Without what need not be the same: the case of placeholders, and the list of all keys that there are.
fn essence(output: &Output) -> (Option<i32>, String, String) {
    let stderr = text(&output.stderr);
    let lines = stderr.lines().map(|line| line.split(", expected one of").next().unwrap_or(line).to_lowercase());
    (output.status.code(), text(&output.stdout), lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn errors_are_those_of_coreos_installer() {
    if skipped() {
        return;
    }
    let Some(peer) = peer() else { return };
    let (dir, ours) = other_name();
    let disk = LoopDisk::new(16 * MIB, 512, false);
    let device = disk.path().display().to_string();
    let config = |name: &str, content: &str| {
        let path = dir.path().join(name).display().to_string();
        fs::write(&path, content).unwrap();
        path
    };
    let forbidden = config("forbidden", "firstboot-args: a\n");
    let kind = config("kind", "append-karg: a\n");
    let empty_list = config("empty", "append-karg: []\n");
    let raw = config("raw", "");
    let page = config("page", "<html>\nvariant: x\n</html>\n");
    let list = config("list", "- variant: fcos\n");
    let from = ["--insecure", "-f", &raw, &device];
    for args in [
        &[][..],
        &["--no-such", "/d"],
        &["-s", "a", "-f", "b", "/d"],
        &["-i", "a", "-I", "http://h", "/d"],
        &["--fetch-retries", "often", "/d"],
        &["/a", "/b"],
        &["-c", "/nonexistent"],
        &["-c", &forbidden],
        &["-c", &kind],
        &["-c", &empty_list, "-I", "http://127.0.0.1:1/c", &device],
        &["-I", "http://127.0.0.1:1/c", &device],
        &[&from[..], &["--save-partindex", "9-7"]].concat(),
        &[&from[..], &["--save-partindex", "--"]].concat(),
        &[&from[..], &["--save-partindex", "0"]].concat(),
        &[&from[..], &["--save-partindex", "23q"]].concat(),
        &[&from[..], &["--save-partindex", "-"]].concat(),
        &[&from[..], &["--save-partindex", "5,1-2-3"]].concat(),
        &[&from[..], &["--save-partlabel", "***"]].concat(),
        &[&from[..], &["-i", &page]].concat(),
        &[&from[..], &["-i", &list]].concat(),
        &[&from[..], &["-i", &raw]].concat(),
        &[&from[..], &["-i", &page, "--save-partindex", "9-7"]].concat(),
    ] {
        let args = [&["install"], args].concat();
        assert_eq!(essence(&say(&ours, &args)), essence(&say(&peer, &args)), "{args:?}");
    }
}
