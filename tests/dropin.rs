//! The program under the names of others: the agent's, and cp.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Output, Stdio},
};

const OURS: &str = env!("CARGO_BIN_EXE_landfall");
const NAMES: [&str; 7] =
    ["agent", "disk_speed_check", "free_addresses", "installer", "inventory", "logs_sender", "next_step_runner"];

/// Called by `name`.
fn called(name: &str, words: &[&str]) -> Output {
    let mut command = Command::new(OURS);
    for variable in ["PULL_SECRET_TOKEN", "LANDFALL_LOG", "LANDFALL_STEP"] {
        command.env_remove(variable);
    }
    command.arg0(name).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn every_name_has_its_own_command_line() {
    for name in NAMES {
        let path = format!("/usr/bin/{name}");
        let help = called(&path, &["-h"]);
        assert_eq!(help.status.code(), Some(0), "{name}");
        assert!(text(&help.stderr).starts_with(&format!("Usage of {path}:\n  -")), "{}", text(&help.stderr));
        let wrong = called(name, &["--dry-run", "-nope=1"]);
        assert_eq!(wrong.status.code(), Some(2), "{name}");
        let expected = format!("flag provided but not defined: -nope\nUsage of {name}:\n");
        assert!(text(&wrong.stderr).starts_with(&expected), "{}", text(&wrong.stderr));
        // As the first word, too, where that is no command of ours.
        if !["agent", "inventory"].contains(&name) {
            let help = called("landfall", &[name, "--help"]);
            assert_eq!(help.status.code(), Some(0), "{name}");
            assert!(text(&help.stderr).starts_with(&format!("Usage of {name}:\n")), "{name}");
        }
    }
}

#[test]
fn what_is_missing_ends_as_with_the_real_programs() {
    let table: &[(&str, &[&str], i32, &str)] = &[
        ("agent", &[], 1, "agent: --url is required"),
        ("agent", &["--url", "http://s"], 1, "agent: --infra-env-id is required"),
        ("next_step_runner", &["-url=http://s", "-infra-env-id=x"], 1, "next_step_runner: --host-id is required"),
        ("agent", &["--url"], 2, "flag needs an argument: -url\nUsage of agent:\n"),
        ("agent", &["--insecure=yes"], 2, "invalid boolean value \"yes\" for -insecure: parse error\n"),
        ("agent", &["--interval=1h"], 2, "invalid value \"1h\" for flag -interval: parse error\n"),
        ("logs_sender", &["-url=http://s"], 2, "missing required -cluster-id argument/flag\n"),
        ("free_addresses", &[], 255, "free_addresses takes exactly one argument"),
        ("free_addresses", &["[]", "[]"], 255, "free_addresses takes exactly one argument"),
        ("free_addresses", &["not json"], 255, ""),
        ("disk_speed_check", &["{}"], 255, ""),
        ("installer", &["--dry-run"], 1, "installer: it cannot pretend an installation to the service"),
        ("installer", &["--installer-args", "-n"], 2, "installer: --installer-args is not a JSON list of strings\n"),
        ("installer", &["--control-plane-count=many"], 2, "invalid value \"many\" for flag -control-plane-count"),
        ("assisted-installer-controller", &[], 1, "landfall: error: CLUSTER_ID is not set"),
        ("assisted-installer-controller", &["--insecure"], 2, "error: unexpected argument '--insecure' found"),
        ("agnet", &["--url=x"], 2, "error: unexpected argument '--url'"),
        (
            "agnet",
            &["serve-me"],
            1,
            "unknown binary name agnet, expected one of agent, assisted-installer-controller, disk_speed_check, \
             free_addresses, installer, inventory, logs_sender, next_step_runner\n",
        ),
    ];
    for (name, words, code, start) in table {
        let output = called(name, words);
        assert_eq!(output.status.code(), Some(*code), "{name} {words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with(start), "{name} {words:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{name} {words:?}");
    }
}

#[test]
fn the_controllers_image_has_no_shell_and_says_so() {
    for program in ["bash", "/usr/bin/bash"] {
        let output = called(program, &["-ex", "-c", "oc get csv\nexit 0"]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("bash -ex -c oc get csv\\nexit 0: this image has"), "{stderr}");
        for part in ["neither a shell nor oc", "kmm and openshift-ai", "CONTROLLER_IMAGE"] {
            assert!(stderr.contains(part), "{part} in {stderr}");
        }
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn an_inventory_is_json_without_a_newline() {
    let output = called("inventory", &["--with-journal-logging=false", "--disk-min-size=1"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"{") && output.stdout.ends_with(b"}"), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "", "the service gets it as the step's error");
    let words = ["-dry-run", "-force-hostname=h7", "-force-mac=52:54:00:00:00:07", "-forced-ipv4=10.7.0.7/16"];
    let pretended: serde_json::Value = serde_json::from_slice(&called("inventory", &words).stdout).unwrap();
    assert_eq!(pretended["hostname"], "h7");
    assert!(pretended["interfaces"].as_array().unwrap().len() <= 1);
    if let Some(interface) = pretended["interfaces"].get(0) {
        assert_eq!(
            (&interface["mac_address"], &interface["ipv4_addresses"][0]),
            (&words[2][11..].into(), &"10.7.0.7/16".into())
        );
    }
}

#[test]
fn a_disk_is_measured_by_the_last_word() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let request = serde_json::json!({"path": file.path()}).to_string();
    let pretended = called("disk_speed_check", &["--dry-run", &request]);
    let expected = serde_json::json!({"io_sync_duration": 1, "path": file.path()});
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&pretended.stdout).unwrap(), expected);
    let missing = called("disk_speed_check", &["x", r#"{"path":"/nonexistent/disk"}"#]);
    assert_eq!(
        (missing.status.code(), text(&missing.stdout).trim_end()),
        (Some(255), r#"{"path":"/nonexistent/disk"}"#)
    );
    assert!(text(&missing.stderr).contains("Could not get I/O performance for path /nonexistent/disk"));
}

/// Where nothing it writes stays: a /var/log of its own, in namespaces whose init process is its parent.
fn installer_apart(words: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("installer");
    symlink(OURS, &program).unwrap();
    let script = "mount -t tmpfs none /var/log && program=$1 && shift && \"$program\" \"$@\"; code=$?; \
                  cat /var/log/assisted-installer.log; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"]).arg(program).args(words);
    for variable in ["PULL_SECRET_TOKEN", "LANDFALL_LOG", "LANDFALL_STEP"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn an_installer_s_command_line_is_that_of_an_installation() {
    if !testkit::skip::unless("root, to make namespaces", nix::unistd::geteuid().is_root()) {
        return;
    }
    const ID: &str = "1f5c9a4e-0000-0000-0000-000000000001";
    let line = format!(
        "--role worker --infra-env-id {ID} --cluster-id {ID} --host-id {ID} --url http://127.0.0.1:1 --controller-image r.io/c:1 \
         --agent-image r.io/a:1 --control-plane-count 3 --mco-image r.io/m:1 --must-gather-image r.io/g:1 --openshift-version \
         4.22.9 --format-disk /dev/sdx --format-disk /dev/sdy --insecure --check-cluster-version --cacert /ca.pem \
         --skip-installation-disk-cleanup --installer-args [\"-n\"] --enable-skip-mco-reboot --notify-num-reboots --service-ips \
         10.0.0.1 --http-proxy http://p --https-proxy http://p --no-proxy a -verbose"
    );
    // All of it is understood; only then the disk is missed, so that nothing happens here.
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = installer_apart(&words);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let missing = "--role needs --boot-device";
    assert!(text(&output.stderr).contains(missing), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(missing), "its log has it too: {}", text(&output.stdout));
    let output = installer_apart(&["--role", "auto-assign", "--boot-device=/dev/sdz"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("expected one of bootstrap, master, arbiter, worker"),
        "{}",
        text(&output.stderr)
    );
}

/// A directory for one cp, made the same for each.
fn playground() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let write = |name: &str, content: &str, mode: u32| {
        fs::write(at(name), content).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    write("plain", "plain", 0o644);
    write("program", "#!", 0o755);
    write("odd", "odd", 0o6711);
    write("there", "was here before", 0o640);
    fs::create_dir(at("tree")).unwrap();
    fs::create_dir(at("tree/deep")).unwrap();
    write("tree/deep/leaf", "leaf", 0o600);
    fs::hard_link(at("tree/deep/leaf"), at("tree/twin")).unwrap();
    symlink("deep/leaf", at("tree/link")).unwrap();
    nix::unistd::mkfifo(&at("tree/fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    fs::set_permissions(at("tree/deep"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(at("dir")).unwrap();
    symlink("plain", at("link")).unwrap();
    symlink("there", at("link-there")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("dir", at("link-dir")).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for name in ["plain", "program", "tree/deep/leaf", "tree/deep"] {
        fs::File::open(at(name)).unwrap().set_modified(old).unwrap();
    }
    dir
}

/// What of a tree a cp decides.
fn look(dir: &Path, below: &str, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().into_string().unwrap());
        let meta = fs::symlink_metadata(entry.path()).unwrap();
        let kind = meta.file_type();
        let content = match () {
            () if kind.is_dir() => "directory".to_owned(),
            () if kind.is_symlink() => format!("-> {}", fs::read_link(entry.path()).unwrap().display()),
            () if kind.is_fifo() => "fifo".to_owned(),
            () => fs::read_to_string(entry.path()).unwrap(),
        };
        let links = if kind.is_dir() { 0 } else { meta.nlink() };
        let is_old = meta.mtime() == 1_000_000_000;
        into.insert(name.clone(), format!("{content} {:o} {links} {is_old}", meta.mode()));
        if kind.is_dir() {
            look(dir, &format!("{name}/"), into);
        }
    }
}

fn run_cp(program: &str, words: &[&str]) -> (Option<i32>, String, String, BTreeMap<String, String>) {
    let dir = playground();
    let mut command = Command::new(program);
    command.arg0("cp").args(words).current_dir(dir.path()).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().unwrap();
    let mut tree = BTreeMap::new();
    look(dir.path(), "", &mut tree);
    (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned(), tree)
}

#[test]
fn cp_does_what_cp_does() {
    let mut differences = Vec::new();
    for line in [
        "plain new",
        "plain dir",
        "-v program plain dir",
        "odd new",
        "-p odd new",
        "-p program dir",
        "plain there",
        "-f plain there",
        "-fpv program there",
        "plain link-there",
        "plain link-dir",
        "plain dir/",
        "link new",
        "tree dir",
        "plain tree dir",
        "missing new",
        "plain plain",
        "plain link",
        "dangling new",
        "plain program new",
        "plain program there",
        "plain program missing/",
        "plain new/",
        "plain no/where",
        "plain",
        "",
        "-z plain new",
        "--nope plain new",
        "-- plain new",
        "dir/../plain new",
    ] {
        let words: Vec<_> = line.split_whitespace().collect();
        let (ours, theirs) = (run_cp(OURS, &words), run_cp("/bin/cp", &words));
        let order = |out: &str| {
            let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let [ours, theirs] = [ours, theirs].map(|(code, out, err, tree)| (code, order(&out), order(&err), tree));
        if ours != theirs {
            differences.push(format!("cp {line}:\nours   {ours:?}\ntheirs {theirs:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn cp_replaces_a_running_program() {
    let dir = tempfile::tempdir().unwrap();
    let running = dir.path().join("agent");
    testkit::process::place(&running, fs::read("/bin/sleep").unwrap());
    let mut child = Command::new(&running).arg("1000").spawn().unwrap();
    let source = dir.path().join("new");
    fs::File::create(&source).unwrap().write_all(b"new").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    let output = called("cp", &[source.to_str().unwrap(), running.to_str().unwrap()]);
    let still_runs = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(output.status.success() && still_runs, "{}", text(&output.stderr));
    assert_eq!(fs::read(&running).unwrap(), b"new");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no draft is left");
    // As the first word.
    let output = called("landfall", &["cp", source.to_str().unwrap(), dir.path().join("x").to_str().unwrap()]);
    assert!(output.status.success());
}
