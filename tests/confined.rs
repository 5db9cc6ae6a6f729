//! The program as the agent starts it for a step: held to the rules of the step's type before it reads its request, and still able to
//! do its work. What each type is refused is tried in `agent/src/confine/tests.rs`.
#![allow(clippy::unwrap_used)]

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    process::{Child, Command, Output, Stdio},
    thread,
};
use testkit::disk::{Image, LoopDisk, MIB, skipped};
use testkit::http::{Server, ok};
use testkit::wait;

fn step(kind: &str, args: &[&str]) -> Command {
    // Another C library makes other system calls: the program that hosts run is the one to hold.
    let program = std::env::var_os("LANDFALL_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_landfall").into());
    let mut command = Command::new(program);
    command.args(args).env_remove("LANDFALL_LOG").env("LANDFALL_STEP", "x-1").env("LANDFALL_STEP_TYPE", kind);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(mut child: Child, request: &Value) -> Output {
    let _ = child.stdin.take().unwrap().write_all(request.to_string().as_bytes());
    child.wait_with_output().unwrap()
}

/// Waits until the process has a filter of system calls.
fn gets_a_filter(child: &Child) -> bool {
    wait::comes(|| {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.lines().any(|line| line == "Seccomp:\t2")
    })
}

#[test]
fn a_step_is_confined_while_it_waits_for_its_request() {
    let netcheck = [
        ("api-vip-connectivity-check", "endpoint"),
        ("connectivity-check", "mesh"),
        ("container-image-availability", "image"),
        ("dhcp-lease-allocate", "dhcp"),
        ("domain-resolution", "dns"),
        ("free-network-addresses", "sweep"),
        ("ntp-synchronizer", "ntp"),
        ("tang-connectivity-check", "tang"),
        ("verify-vips", "vip"),
    ];
    let mut steps: Vec<_> = netcheck.map(|(kind, check)| (kind, vec!["netcheck", check, "--request", "-"])).into();
    steps.push(("installation-disk-speed-check", vec!["disk", "speed", "--request", "-", "--json"]));
    steps.push(("install", vec!["install", "--request", "-"]));
    steps.push(("logs-gather", vec!["logs", "send", "--request", "-"]));
    steps.push(("download-boot-artifacts", vec!["reclaim", "download", "--request", "-"]));
    steps.push(("reboot-for-reclaim", vec!["reclaim", "reboot", "--request", "-"]));
    for (kind, args) in steps {
        let child = step(kind, &args).spawn().unwrap();
        let confined = gets_a_filter(&child);
        let output = finish(child, &json!("not a request"));
        assert!(confined, "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        assert_ne!(output.status.code(), Some(0), "{kind}");
    }
}

#[test]
fn a_confined_inventory_finds_the_same() {
    let inventory = |confined: bool| {
        let mut command = step("inventory", &["inventory"]);
        if !confined {
            command.env_remove("LANDFALL_STEP_TYPE");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
        found.as_object_mut().unwrap().remove("timestamp");
        found
    };
    // Other tests make and remove disks and interfaces meanwhile.
    let undisturbed = || Some((inventory(false), inventory(true), inventory(false))).filter(|found| found.0 == found.2);
    let (before, confined, _) = wait::found(undisturbed).unwrap();
    assert!(before["cpu"]["count"].as_u64() > Some(0), "{before}");
    assert_eq!(confined, before);
}

/// A step of a certification.
fn certify(action: &str, args: &[&str]) -> Command {
    let mut command = step("certify", args);
    command.env("LANDFALL_STEP_ACTION", action);
    command
}

/// Names of all fields, without those of what comes and goes.
fn fields(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| fields(value, &format!("{at}.{name}"), found))
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, at, found)),
        _ => drop(found.insert(at.to_owned())),
    }
}

#[test]
fn a_confined_report_has_the_same_facts() {
    let report = |confined: bool| {
        let mut command = certify("report", &["report", "--json"]);
        if !confined {
            command.env_remove("LANDFALL_STEP_TYPE");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found = BTreeSet::new();
        fields(&serde_json::from_slice(&output.stdout).unwrap(), "", &mut found);
        found
    };
    // Other tests make and remove disks and interfaces meanwhile.
    let undisturbed = || Some((report(false), report(true), report(false))).filter(|found| found.0 == found.2);
    let (before, confined, _) = wait::found(undisturbed).unwrap();
    let missing: Vec<_> = before.difference(&confined).collect();
    assert!(before.len() > 50 && missing.is_empty(), "missing: {missing:?}");
}

#[test]
fn a_confined_capture_is_one() {
    let output = certify("capture", &["capture", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let archive = BASE64_STANDARD.decode(document["tar_gz"].as_str().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("capture.tar.gz");
    fs::write(&file, archive).unwrap();
    let mut command = step("inventory", &["inventory", "--root", file.to_str().unwrap()]);
    let output = command.env_remove("LANDFALL_STEP_TYPE").output().unwrap();
    let inventory: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(inventory["cpu"]["count"].as_u64() > Some(0), "{inventory}");
}

/// For how long a burn-in works: longer and longer, since on a busy machine it may not have tested all of it by then.
const TIMES: [&str; 4] = ["1s", "5s", "30s", "120s"];

fn burnt_in(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    serde_json::from_slice(&output.stdout).expect(&said)
}

#[test]
fn a_confined_burn_in_tests_the_machine() {
    let small = ["burnin", "--json", "--only=cpu,memory", "--memory=67108864", "--for"];
    let is_whole = |found: &Value| {
        let parts = found["parts"].as_array().unwrap();
        !parts.is_empty() && parts.iter().all(|part| part["state"] == "done") && found["not_tested"] == json!([])
    };
    let mut tries = TIMES.iter().map(|time| burnt_in(&mut certify("burnin", &[&small[..], &[time]].concat())));
    assert!(tries.any(|found| is_whole(&found)), "not tested whole, as said above");
}

#[test]
fn a_confined_burn_in_writes_the_disks_of_its_request_and_no_other() {
    if skipped() {
        return;
    }
    let [asked, other] = [(); 2].map(|()| LoopDisk::new(32 * MIB, 512, false));
    let burnin = |disk: &LoopDisk, time: &str| {
        let destroy = format!("--destroy={}", disk.path().display());
        let mut command = certify("burnin", &["burnin", "--json", "--only=disk", "--for", time, &destroy, "--yes"]);
        command.env("LANDFALL_STEP_TARGETS", asked.path());
        burnt_in(&mut command)
    };
    let is_written = |found: &Value| {
        let part = &found["parts"][0];
        part["state"] == "done" && part["measurements"]["write_bytes"].as_f64() > Some(0.0)
    };
    assert!(TIMES.iter().any(|time| is_written(&burnin(&asked, time))), "not written, as said above");
    let found = burnin(&other, "1s");
    let error = found["parts"][0]["error"].as_str().unwrap();
    assert!(error.contains("ermission denied"), "{found:#}");
    assert_eq!(other.read(0, 512), [0; 512]);
    // A disk that something uses is refused, whatever the request says.
    let holder = fs::File::options().write(true).custom_flags(nix::libc::O_EXCL).open(asked.path()).unwrap();
    let found = burnin(&asked, "1s");
    assert!(found["parts"][0]["error"].is_string(), "{found:#}");
    drop(holder);
}

#[test]
fn confined_ends_of_a_link_test_it() {
    // A step gets one port, which others on this machine may have.
    if nix::unistd::geteuid().is_root() {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        run("ip", &["link", "set", "lo", "up"]);
    }
    // As on all addresses, where those of IPv4 have this form.
    let listen = ["burnin", "serve-net", "--listen", "[::ffff:127.0.0.7]:7117", "--for", "600s"];
    let mut server = certify("network-serve", &listen).spawn().unwrap();
    assert!(gets_a_filter(&server));
    let test = ["burnin", "--json", "--only", "net", "--peer", "127.0.0.7", "--for", "2s"];
    // It listens some time after it is confined.
    let tested =
        || Some(burnt_in(&mut certify("network-test", &test))).filter(|found| found["parts"][0]["state"] == "done");
    let found = wait::found(tested).unwrap();
    assert!(found["parts"][0]["measurements"]["tcp_sent_bytes"].as_f64() > Some(0.0), "{found:#}");
    let elsewhere = ["burnin", "--json", "--only", "net", "--peer", "127.0.0.7:7118", "--for", "1s"];
    let found = burnt_in(&mut certify("network-test", &elsewhere));
    let error = found["parts"][0]["error"].as_str().unwrap();
    assert!(error.contains("ermission denied"), "{found:#}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_machine_without_a_controller_says_that_its_power_cannot_be_cut() {
    let nodes = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"];
    // On any other machine this would cut it.
    let has_none = nodes.iter().all(|node| !std::path::Path::new(node).exists());
    if !testkit::skip::unless("a machine without a management controller", has_none) {
        return;
    }
    let output = certify("power-cut", &["agent", "restart", "--power-cut"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("this machine's power cannot be cut: no management controller (BMC) was found"), "{said}");
}

#[test]
fn the_disk_of_the_request_is_measured_and_no_other() {
    if skipped() {
        return;
    }
    let [asked, other] = [(); 2].map(|()| LoopDisk::new(32 * MIB, 512, false));
    let speed = |disk: &LoopDisk, timeout: &str| {
        let mut command = step("installation-disk-speed-check", &["disk", "speed", "--request", "-", "--json"]);
        command.args(["--timeout", timeout]).env("LANDFALL_STEP_TARGETS", asked.path());
        finish(command.spawn().unwrap(), &json!({"path": disk.path()}))
    };
    // Too short for all of it, but it writes.
    let output = speed(&asked, "0.2");
    assert_eq!(output.status.code(), Some(124), "{}", String::from_utf8_lossy(&output.stderr));
    let output = speed(&other, "480");
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.code() == Some(255) && said.contains("Permission denied"), "{said}");
}

/// The real work: an old map on the disk is taken down, another disk's boot sector cleared, the image written, and its boot file system
/// mounted to put the host's config in, by a partition's node or, where the kernel makes none, by a loop device.
#[test]
fn an_installation_writes_to_the_disks_of_its_request_and_no_other() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let server = Server::start(|_| ok(r#"{"ignition":{"version":"3.2.0"}}"#));
    let url = server.url("");
    for partition_scan in [true, false] {
        let [asked, formatted, other] = [(); 3].map(|()| LoopDisk::new(80 * MIB, 512, partition_scan));
        for disk in [&asked, &formatted, &other] {
            disk.put_old_tables(512);
        }
        let install = |disk: &LoopDisk| {
            let id = "11111111-2222-3333-4444-555555555555";
            let args = json!(["--image-file", image.packed(None), "--append-karg", "confined=yes"]).to_string();
            let mut command = step("install", &["install", "--request", "-"]);
            let targets = [formatted.path(), asked.path()].map(|path| path.display().to_string()).join("\n");
            command.env("LANDFALL_STEP_TARGETS", targets);
            let request = json!({
                "boot_device": disk.path(), "cluster_id": id, "control_plane_count": 3, "controller_image": "r.io/c:1",
                "disks_to_format": [formatted.path()], "host_id": id, "infra_env_id": id, "installer_args": args,
                "installer_image": "r.io/i:1", "role": "master"
            });
            let service = json!({"url": url, "token": "t"});
            let output =
                finish(command.spawn().unwrap(), &json!({"request": request, "service": service, "reboot": false}));
            (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (status, said) = install(&asked);
        println!("{said}");
        assert!(status.success() && said.contains("installed"), "{said}");
        assert_eq!(formatted.read(0, 512), [0; 512]);
        let config = image.debugfs(&asked, "cat /ignition/config.ign");
        assert!(config.contains("3.2.0"), "{config}");
        let (status, said) = install(&other);
        println!("{said}");
        assert!(!status.success() && said.contains("Permission denied"), "{said}");
        other.assert_untouched(512);
    }
}

fn is_root() -> bool {
    testkit::skip::unless("root", nix::unistd::geteuid().is_root())
}

/// Runs `inside` where its mounts are seen by it and what it starts alone.
fn in_private(inside: impl FnOnce() + Send + 'static) {
    use nix::{mount::MsFlags, sched::CloneFlags};
    let inside = || {
        nix::sched::unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        inside();
    };
    thread::spawn(inside).join().unwrap();
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// It mounts as the real one does, which its step may not.
const PODMAN: &str = r#"#!/bin/sh
case "$*" in
    "image exists -- "*) exit 1;;
    "pull --quiet -- "*) mount -t tmpfs none /mnt && umount /mnt && echo id;;
    "image inspect --format={{.Size}} -- "*) echo 123;;
    *) exit 125;;
esac
"#;

#[test]
fn a_confined_check_of_images_has_podman_pull_them() {
    if !is_root() {
        return;
    }
    in_private(|| {
        let dir = tempfile::tempdir().unwrap();
        run("mount", &["-t", "tmpfs", "none", dir.path().to_str().unwrap()]);
        for name in ["upper", "work"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        testkit::process::place(&dir.path().join("upper/podman"), PODMAN);
        let at = dir.path().display();
        let options = format!("lowerdir=/usr/bin,upperdir={at}/upper,workdir={at}/work");
        run("mount", &["-t", "overlay", "none", "-o", &options, "/usr/bin"]);
        for (kind, args, request) in [
            (
                "container-image-availability",
                vec!["netcheck", "image", "--request", "-", "--json"],
                json!({"images": ["r.io/a:1"]}),
            ),
            (
                "upgrade-agent",
                vec!["netcheck", "upgrade", "--request", "-", "--json"],
                json!({"agent_image": "r.io/a:1"}),
            ),
        ] {
            let output = finish(step(kind, &args).spawn().unwrap(), &request);
            let said = String::from_utf8_lossy(&output.stderr);
            let answer: Value = serde_json::from_slice(&output.stdout).expect(&said);
            println!("{kind}: {answer}");
            let result = answer.pointer("/images/0/result").or(answer.get("result"));
            assert_eq!(result, Some(&json!("success")), "{kind}: {answer} {said}");
        }
    });
}

#[test]
fn a_confined_download_makes_the_nodes_boot_file_system_writable() {
    if !is_root() {
        return;
    }
    let server = Server::start(|_| ok("kernel or initramfs"));
    let url = server.url("");
    in_private(move || {
        let dir = tempfile::tempdir().unwrap();
        let (image, node) = (dir.path().join("boot.img"), dir.path().join("node"));
        let boot = node.join("boot");
        fs::create_dir_all(&boot).unwrap();
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        run("mount", &["-o", "loop,nosuid", image.to_str().unwrap(), boot.to_str().unwrap()]);
        run("mount", &["-o", "remount,ro,nosuid", boot.to_str().unwrap()]);
        let request = json!({"request": {"kernel_url": format!("{url}/k"), "initrd_url": format!("{url}/i"),
            "rootfs_url": "https://s.example/r", "host_fs_mount_dir": node}});
        let mut command = step("download-boot-artifacts", &["reclaim", "download", "--request", "-"]);
        let output = finish(command.env("LANDFALL_STEP_TARGETS", &node).spawn().unwrap(), &request);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read(boot.join("discovery/vmlinuz")).unwrap(), b"kernel or initramfs");
        assert!(boot.join("loader/entries/00-assisted-discovery.conf").is_file());
        run("umount", &[boot.to_str().unwrap()]);
    });
}

/// An LVM tool that wants to mount, and one that fails.
const DISPLAYS: [(&str, &str); 2] = [
    ("pvdisplay", "#!/bin/sh\nmount -t tmpfs none /mnt && umount /mnt && echo a volume\n"),
    ("vgdisplay", "#!/bin/sh\necho no group >&2; exit 5\n"),
];

#[test]
fn confined_gathering_of_logs_sends_them() {
    if !is_root() {
        return;
    }
    let server = Server::start(|_| ok(""));
    let url = server.url("");
    in_private(move || {
        let dir = tempfile::tempdir().unwrap();
        run("mount", &["-t", "tmpfs", "none", dir.path().to_str().unwrap()]);
        for name in ["upper", "work"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for (name, script) in DISPLAYS {
            testkit::process::place(&dir.path().join("upper").join(name), script);
        }
        let at = dir.path().display();
        let options = format!("lowerdir=/usr/sbin,upperdir={at}/upper,workdir={at}/work");
        run("mount", &["-t", "overlay", "none", "-o", &options, "/usr/sbin"]);
        let request = json!({"request": {"cluster_id": "11111111-2222-3333-4444-555555555555",
            "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000001", "host_id": "aaaaaaaa-0000-0000-0000-000000000001",
            "bootstrap": false, "installer_gather": true, "master_ips": []},
            "service": {"url": url, "token": "t0ken", "ca_cert": null, "insecure": false, "agent_version": "1"}});
        let output = finish(step("logs-gather", &["logs", "send", "--request", "-"]).spawn().unwrap(), &request);
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        println!("{said}");
        assert!(output.status.success() && said.contains("Logs were sent"), "{said}");
        assert!(said.contains("vgdisplay failed: 5 no group") && !said.contains("pvdisplay failed"), "{said}");
        assert!(!said.contains("ermission denied") && !said.contains("not permitted"), "{said}");
    });
}
