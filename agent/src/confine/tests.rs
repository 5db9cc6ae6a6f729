//! Each step tries what it may not do. The attempts are made by this very test program, started as the agent starts a step, with all
//! of root's capabilities left: whatever is refused is refused by Landlock or seccomp.
#![allow(unsafe_code)]

use super::{
    named::{ACTION_VARIABLE, LIVE_SYSTEM_VARIABLE, TARGETS_VARIABLE},
    *,
};
use crate::child::{TYPE_VARIABLE, enter_if_step};
use api::StepType;
use nix::mount::MsFlags;
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    net::{TcpStream, UdpSocket},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::{net::UnixStream, process::parent_id},
    },
    process::Command,
};

/// A disk of no importance, and the one that the step's request names. They are only opened.
const DISKS: [&str; 2] = ["/dev/loop0", "/dev/loop1"];
const NOWHERE: *const libc::c_char = c"/nonexistent/landfall".as_ptr();

/// What is tried, and how.
type Attempt = (&'static str, fn() -> io::Result<()>);

/// A call whose arguments make it harmless where it is allowed.
macro_rules! call {
    ($name:ident $(, $argument:expr)*) => {
        // SAFETY: a number, and pointers that are null or to a constant text: the kernel checks both.
        match unsafe { libc::syscall(libc::$name $(, $argument)*) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
}

fn open(path: &str) -> io::Result<()> {
    File::open(path).map(drop)
}

fn open_to_write(path: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<()> {
    // SAFETY: numbers alone; the descriptor is ours.
    unsafe {
        match libc::socket(domain, kind, protocol) {
            -1 => Err(io::Error::last_os_error()),
            fd => {
                drop(File::from_raw_fd(fd));
                Ok(())
            }
        }
    }
}

fn ioctl(request: u64) -> io::Result<()> {
    call!(SYS_ioctl, -1, request, std::ptr::null::<u8>())
}

const NULL: *const u8 = std::ptr::null();

const ATTEMPTS: &[Attempt] = &[
    ("read /proc/self/status", || open("/proc/self/status")),
    ("read /etc/hosts", || open("/etc/hosts")),
    ("read a certificate", || open("/etc/ssl/certs/ca-certificates.crt")),
    ("read /sys/class/net", || fs::read_dir("/sys/class/net").map(drop)),
    ("read /proc/meminfo", || open("/proc/meminfo")),
    ("read /etc/shadow", || open("/etc/shadow")),
    ("read /root", || fs::read_dir("/root").map(drop)),
    ("read another's environment", || fs::read(format!("/proc/{}/environ", parent_id())).map(drop)),
    ("read another's status", || open(&format!("/proc/{}/stat", parent_id()))),
    ("write /etc/hosts", || open_to_write("/etc/hosts")),
    ("create in /tmp", || create("/tmp")),
    ("create in /var/tmp", || create("/var/tmp")),
    ("create in /etc", || create("/etc")),
    ("read a disk", || open(DISKS[0])),
    ("write to a disk", || open_to_write(DISKS[0])),
    ("write to its request's disk", || open_to_write(DISKS[1])),
    ("make a disk's node", || call!(SYS_mknodat, libc::AT_FDCWD, NOWHERE, libc::S_IFBLK, 0)),
    ("execute /bin/true", || Command::new("/bin/true").status().map(drop)),
    ("UDP socket", || UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("TCP to port 53", || TcpStream::connect("127.0.0.1:53").map(drop)),
    ("TCP to port 22", || TcpStream::connect("127.0.0.1:22").map(drop)),
    ("TCP listener", || std::net::TcpListener::bind("127.0.0.1:0").map(drop)),
    ("TCP listener at 7117", || std::net::TcpListener::bind("127.0.0.1:7117").map(drop)),
    ("raw ICMP", || socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    ("raw TCP", || socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP)),
    ("packet socket", || socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    ("routes (netlink)", || socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)),
    ("ethtool (netlink)", || socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC)),
    ("uevents (netlink)", || socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT)),
    ("Unix stream", || UnixStream::connect("/nonexistent/landfall").map(drop)),
    ("ioctl SG_IO", || ioctl(0x2285)),
    ("ioctl IPMICTL_SEND_COMMAND", || ioctl(0x8028_690d)),
    ("ioctl SIOCETHTOOL", || ioctl(0x8946)),
    ("ioctl SIOCGIFMTU", || ioctl(0x8921)),
    ("ioctl BLKFLSBUF", || ioctl(0x1261)),
    ("ioctl BLKPG", || ioctl(0x1269)),
    ("ioctl SIOCSIFFLAGS", || ioctl(0x8914)),
    ("ioctl TIOCSTI", || ioctl(0x5412)),
    ("signal process 1", || call!(SYS_kill, 1, 0)),
    ("pin to a processor", || call!(SYS_sched_setaffinity, 0, 0, NULL)),
    ("become another user", || call!(SYS_setresuid, -1, -1, -1)),
    ("change an owner", || call!(SYS_fchownat, libc::AT_FDCWD, NOWHERE, 0, 0, 0)),
    ("rename", || call!(SYS_renameat2, libc::AT_FDCWD, NOWHERE, libc::AT_FDCWD, NOWHERE, 0)),
    ("mount", || call!(SYS_mount, NULL, NOWHERE, NULL, 0, NULL)),
    ("unmount", || call!(SYS_umount2, NOWHERE, 0)),
    ("chroot", || call!(SYS_chroot, NOWHERE)),
    ("own name space", || call!(SYS_unshare, 0)),
    ("other name space", || call!(SYS_setns, -1, 0)),
    ("ptrace", || call!(SYS_ptrace, libc::PTRACE_CONT, 0, 0, 0)),
    ("bpf", || call!(SYS_bpf, -1, NULL, 0)),
    ("io_uring", || call!(SYS_io_uring_setup, 0, NULL)),
    ("keyctl", || call!(SYS_keyctl, -1, 0, 0, 0, 0)),
    ("perf_event_open", || call!(SYS_perf_event_open, NULL, 0, 0, -1, 0)),
    ("userfaultfd", || call!(SYS_userfaultfd, -1)),
    ("process_vm_writev", || call!(SYS_process_vm_writev, 0, NULL, 0, NULL, 0, 0)),
    ("open_by_handle_at", || call!(SYS_open_by_handle_at, -1, NULL, 0)),
    ("load a module", || call!(SYS_finit_module, -1, c"".as_ptr(), 0)),
    ("kexec_load", || call!(SYS_kexec_load, 0, 0, NULL, -1)),
    ("swapon", || call!(SYS_swapon, NOWHERE, 0)),
    ("set the clock", || call!(SYS_clock_settime, -1, NULL)),
    ("set the host's name", || call!(SYS_sethostname, NULL, -1)),
    ("reboot", || call!(SYS_reboot, 0, 0, 0, NULL)),
];

/// What each step gets; all else is refused. An installation that changes the live system has a word after its type, a step of a
/// certification its action.
const STEPS: &[(&str, &[&[&str]])] = &[
    (
        "inventory",
        &[&[
            "read /sys/class/net",
            "read /proc/meminfo",
            "read a disk",
            "UDP socket",
            "routes (netlink)",
            "ioctl SG_IO",
            "ioctl IPMICTL_SEND_COMMAND",
            "ioctl SIOCETHTOOL",
        ]],
    ),
    // Of what is tried here, nothing.
    ("attest", &[&[]]),
    ("connectivity-check", &[PROBES]),
    ("dhcp-lease-allocate", &[PROBES]),
    ("free-network-addresses", &[PROBES]),
    ("verify-vips", &[PROBES]),
    ("ntp-synchronizer", &[&["read /etc/hosts", "UDP socket", "TCP to port 53"]]),
    ("domain-resolution", &[&["read /etc/hosts", "UDP socket", "TCP to port 53"]]),
    ("api-vip-connectivity-check", &[FETCHES]),
    ("tang-connectivity-check", &[FETCHES]),
    (
        "installation-disk-speed-check",
        &[&["read /sys/class/net", "create in /tmp", "write to its request's disk", "ioctl BLKFLSBUF"]],
    ),
    ("stop-installation", &[&["read another's status", "signal process 1"]]),
    ("execute", &[&[]]),
    ("from-a-newer-service", &[&[]]),
    ("container-image-availability", &[FETCHES]),
    ("upgrade-agent", &[FETCHES_AND_KEEPS]),
    (
        "logs-gather",
        &[&[
            "read /etc/hosts",
            "read a certificate",
            "read /sys/class/net",
            "read /root",
            "UDP socket",
            "TCP to port 53",
            "TCP to port 22",
            "rename",
        ]],
    ),
    ("download-boot-artifacts", &[FETCHES_AND_KEEPS]),
    ("reboot-for-reclaim", &[&["signal process 1", "reboot"]]),
    ("certify", &[&[]]),
    (
        "certify burnin",
        &[&[
            "read /sys/class/net",
            "read /proc/meminfo",
            "read a disk",
            "write to its request's disk",
            "ioctl SG_IO",
            "ioctl BLKFLSBUF",
            "io_uring",
            "pin to a processor",
        ]],
    ),
    ("certify capture", &[DEVICES]),
    (
        "certify disk-speed",
        &[&["read /sys/class/net", "create in /tmp", "write to its request's disk", "ioctl BLKFLSBUF"]],
    ),
    ("certify doctor", &[PROBES, FETCHES]),
    ("certify network-serve", &[&["UDP socket", "TCP listener at 7117"]]),
    ("certify network-test", &[&["read /sys/class/net", "read /proc/meminfo", "UDP socket", "pin to a processor"]]),
    ("certify power-cut", &[&["ioctl IPMICTL_SEND_COMMAND"]]),
    ("certify reboot", &[&["signal process 1", "reboot"]]),
    ("certify report", &[DEVICES]),
    ("install", &[INSTALLS]),
    ("install live", &[INSTALLS, &["write /etc/hosts", "create in /tmp", "create in /var/tmp", "create in /etc"]]),
];
/// What devices tell.
const DEVICES: &[&str] = &[
    "read /sys/class/net",
    "read /proc/meminfo",
    "read a disk",
    "UDP socket",
    "routes (netlink)",
    "ethtool (netlink)",
    "ioctl SG_IO",
    "ioctl IPMICTL_SEND_COMMAND",
    "ioctl SIOCETHTOOL",
];
/// Disks and what is on them, and any network. Whatever starts a program or mounts is its assistant's.
const INSTALLS: &[&str] = &[
    "read /etc/hosts",
    "read a certificate",
    "read /sys/class/net",
    "read /proc/meminfo",
    "read /etc/shadow",
    "read /root",
    "read another's status",
    "read a disk",
    "write to its request's disk",
    "make a disk's node",
    "UDP socket",
    "TCP to port 53",
    "TCP to port 22",
    "raw ICMP",
    "raw TCP",
    "packet socket",
    "routes (netlink)",
    "ethtool (netlink)",
    "uevents (netlink)",
    "Unix stream",
    "ioctl SG_IO",
    "ioctl IPMICTL_SEND_COMMAND",
    "ioctl SIOCETHTOOL",
    "ioctl SIOCGIFMTU",
    "ioctl BLKFLSBUF",
    "ioctl BLKPG",
    "ioctl SIOCSIFFLAGS",
    "ioctl TIOCSTI",
    "signal process 1",
    "pin to a processor",
    "become another user",
    "change an owner",
    "rename",
    "chroot",
    "own name space",
    "other name space",
    "io_uring",
    "reboot",
];
const PROBES: &[&str] =
    &["read /sys/class/net", "UDP socket", "raw ICMP", "packet socket", "routes (netlink)", "ioctl SIOCGIFMTU"];
const FETCHES: &[&str] = &["read /etc/hosts", "read a certificate", "UDP socket", "TCP to port 53", "TCP to port 22"];
const FETCHES_AND_KEEPS: &[&str] =
    &["read /etc/hosts", "read a certificate", "UDP socket", "TCP to port 53", "TCP to port 22", "rename"];

fn create(directory: &str) -> io::Result<()> {
    let path = format!("{directory}/landfall-attempt-{}", std::process::id());
    let made = OpenOptions::new().write(true).create_new(true).open(&path).map(drop);
    let _ = fs::remove_file(path);
    made
}

#[test]
#[ignore = "the process that the next test starts as a step"]
fn attempts() {
    enter_if_step().unwrap();
    for (name, attempt) in ATTEMPTS {
        let got = match attempt() {
            Ok(()) => "ok".to_owned(),
            Err(error) => error
                .raw_os_error()
                .map_or(error.to_string(), |code| format!("{:?}", nix::errno::Errno::from_raw(code))),
        };
        println!("\nattempt\t{name}\t{got}");
    }
}

/// What one of the tests above and below says as a step.
fn said_as(step: Option<&str>, test: &str) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([&format!("confine::tests::{test}"), "--exact", "--ignored", "--nocapture"]);
    command.env_remove(TYPE_VARIABLE).env_remove(ACTION_VARIABLE).env(TARGETS_VARIABLE, DISKS[1]);
    if let Some((step, word)) = step.map(|step| step.split_once(' ').unwrap_or((step, ""))) {
        command.env(TYPE_VARIABLE, step);
        match word {
            "" => {}
            "live" => drop(command.env(LIVE_SYSTEM_VARIABLE, "1")),
            action => drop(command.env(ACTION_VARIABLE, action)),
        }
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{step:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What came of each attempt.
fn attempts_as(step: Option<&str>) -> BTreeMap<String, String> {
    let text = said_as(step, "attempts");
    let rows = text.lines().filter_map(|line| line.strip_prefix("attempt\t")?.split_once('\t'));
    let rows: BTreeMap<_, _> = rows.map(|(name, got)| (name.to_owned(), got.to_owned())).collect();
    assert_eq!(rows.len(), ATTEMPTS.len(), "{step:?}: {text}");
    rows
}

fn is_refused(got: &str) -> bool {
    ["EPERM", "EACCES"].contains(&got)
}

/// Run with `--nocapture` to read what each step tried beyond its rules and what it got.
#[test]
fn a_step_is_refused_what_its_rules_do_not_allow() {
    let means = Means::detect();
    let has_all = nix::unistd::geteuid().is_root() && means.landlock > 0 && means.seccomp;
    if !testkit::skip::unless(format_args!("root, Landlock and seccomp, which are {means:?}"), has_all) {
        return;
    }
    let is_held = |name: &str| match name {
        "TCP to port 22" | "TCP to port 53" | "TCP listener at 7117" => means.landlock >= 4,
        "signal process 1" => means.landlock >= 6,
        _ => true,
    };
    let free = attempts_as(None);
    let refused: Vec<_> = free.iter().filter(|(_, got)| is_refused(got)).collect();
    assert!(refused.is_empty(), "not held to any rules, and refused all the same: {refused:?}");
    for (step, allowed) in STEPS {
        let got = attempts_as(Some(step));
        println!("\n{step}");
        for (name, _) in ATTEMPTS {
            let expected = *name == "read /proc/self/status" || allowed.iter().any(|allowed| allowed.contains(name));
            println!("  {name:28} {:14} {}", got[*name], if expected { "within its rules" } else { "" });
            assert!(!is_held(name) || is_refused(&got[*name]) != expected, "{step}: {name}: {}", got[*name]);
        }
    }
}

/// What steps ask their assistants for, each a program with its arguments, and a variable that it sets.
const REQUESTS: &[(&str, &[&str], &str)] = &[
    ("/usr/bin/podman", &["image", "exists", "--", "r.io/a:1"], "HTTPS_PROXY"),
    ("/usr/bin/podman", &["image", "exists", "--", "r.io/a:1"], "LD_PRELOAD"),
    ("/usr/bin/podman", &["image", "exists", "--", "--root=/tmp"], "HTTPS_PROXY"),
    ("/usr/bin/podman", &["run", "--privileged", "r.io/a:1"], "HTTPS_PROXY"),
    ("/usr/bin/podman", &["pull", "--quiet", "--authfile", "/etc/shadow", "--", "r.io/a:1"], "HTTPS_PROXY"),
    ("podman", &["image", "exists", "--", "r.io/a:1"], "HTTPS_PROXY"),
    ("/bin/true", &[], "HTTPS_PROXY"),
];

#[test]
#[ignore = "the process that the next test starts as a step"]
fn requests() {
    enter_if_step().unwrap();
    let null = || -> OwnedFd { OpenOptions::new().write(true).open("/dev/null").unwrap().into() };
    for (number, (program, arguments, variable)) in REQUESTS.iter().enumerate() {
        let mut command = Command::new(program);
        command.args(*arguments).env(variable, "http://192.0.2.1");
        let got = assist::start(&command, assist::Place::default(), [null(), null()]);
        println!("\nrequest\t{number}\t{:?}", got.err().and_then(|error| error.raw_os_error()));
    }
    let remount = assist::remount(Path::new("/"), MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID);
    println!("\nrequest\tremount\t{:?}", remount.err().and_then(|error| error.raw_os_error()));
    let private = std::thread::spawn(|| assist::PrivateMounts::enter().err()).join().unwrap();
    println!("\nrequest\tprivate\t{:?}", private.and_then(|error| error.raw_os_error()));
}

#[test]
fn an_assistant_refuses_what_its_step_does_not_need() {
    if !testkit::skip::unless("root", nix::unistd::geteuid().is_root()) {
        return;
    }
    for step in ["container-image-availability", "upgrade-agent", "logs-gather", "install", "install live"] {
        let text = said_as(Some(step), "requests");
        let refused = format!("Some({})", libc::EPERM);
        let rows: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("request\t")?.split_once('\t')).collect();
        assert_eq!(rows.len(), REQUESTS.len() + 2, "{step}: {text}");
        for (request, got) in rows {
            println!("{step}: {request}: {got}");
            // A host may have no podman.
            let pulls = ["container-image-availability", "upgrade-agent"].contains(&step);
            let is_its_own = request == "0" && pulls || request == "private" && step.starts_with("install");
            assert_eq!(got == refused, !is_its_own, "{step}: {request}: {got}");
        }
    }
}

#[test]
fn every_step_has_a_row_in_that_test() {
    let types = StepType::NAMES.into_iter().filter(|name| *name != "next-step-runner").map(str::to_owned);
    for name in types.chain(crate::steps::actions().map(|action| format!("certify {action}"))) {
        assert!(STEPS.iter().any(|(step, _)| *step == name), "{name}");
    }
}

#[test]
fn what_a_kernel_lacks_is_named() {
    assert!(Means { landlock: 7, seccomp: true }.missing().is_empty());
    let missing = Means { landlock: 3, seccomp: false }.missing().join(", ");
    assert!(
        missing.starts_with("TCP ports (Landlock before version 4), ") && missing.contains("no seccomp"),
        "{missing}"
    );
    assert_eq!(Means { landlock: 0, seccomp: true }.missing()[0], "files (no Landlock)");
}
