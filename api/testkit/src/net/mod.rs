//! Network namespaces on one virtual switch, removed when dropped. Nothing outside them is touched.

pub mod name_server;
pub mod programs;
pub mod time_server;

use crate::{skip, wait};
use nix::{
    ifaddrs::getifaddrs,
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::mman::{MlockAllFlags, mlockall, munlockall},
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

static SEGMENTS: AtomicU32 = AtomicU32::new(0);

/// A switch with hosts on it.
pub struct Segment {
    prefix: String,
    switch: Namespace,
}

/// A network namespace that we made.
pub struct Namespace(pub String);

/// A host: a namespace whose interfaces are connected to the switch.
pub struct Host {
    pub namespace: Namespace,
    name: String,
}

/// Runs a program of iproute2 to its end.
fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program} (package iproute2): {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Namespace {
    fn add(name: String) -> Self {
        run("ip", &format!("netns add {name}"));
        Self(name)
    }

    pub fn ip(&self, arguments: &str) -> String {
        run("ip", &format!("-n {} {arguments}", self.0))
    }

    /// Runs `work` on a separate thread inside this namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.0, work)
    }
}

/// Moves the calling thread into a namespace of ours, where it stays.
pub fn enter_for_good(namespace: &str) {
    setns(File::open(format!("/run/netns/{namespace}")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
    assert_isolated();
}

/// Runs `work` on a separate thread inside.
pub fn in_namespace<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter_for_good(namespace);
            work()
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Covers /etc/resolv.conf by another file for this thread and the processes it starts. It ends with them.
pub fn cover_resolv_conf(file: &Path) {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING).unwrap();
    mount(Some(file), "/etc/resolv.conf", NOTHING, MsFlags::MS_BIND, NOTHING).unwrap();
}

/// Panics unless this thread is in a namespace that tests made and that holds only what they put in: nothing may be sent
/// elsewhere.
pub fn assert_isolated() {
    let here = fs::metadata("/proc/thread-self/ns/net").unwrap();
    let made_by_tests = fs::read_dir("/run/netns").unwrap().flatten().any(|entry| {
        let name = entry.file_name();
        let found = fs::metadata(entry.path());
        name.to_string_lossy().starts_with("lf")
            && found.is_ok_and(|there| (there.dev(), there.ino()) == (here.dev(), here.ino()))
    });
    assert!(made_by_tests, "this is not a network namespace of ours");
    let names: BTreeSet<_> = getifaddrs().unwrap().map(|address| address.interface_name).collect();
    let ours = |name: &String| name == "lo" || name == "br0" || name.starts_with("ens");
    assert!(names.iter().all(ours), "a namespace of ours has only what we made, not {names:?}");
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let status = Command::new("ip").args(["netns", "delete", &self.0]).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("network namespace {} could not be removed", self.0);
        }
    }
}

impl Segment {
    /// A switch without hosts; `None`, with the reason printed, when we are not root.
    pub fn new() -> Option<Self> {
        if !skip::unless("root, to make network namespaces", nix::unistd::geteuid().is_root()) {
            return None;
        }
        let prefix = format!("lf{}x{}", std::process::id(), SEGMENTS.fetch_add(1, Ordering::Relaxed));
        let switch = Namespace::add(format!("{prefix}-switch"));
        switch.ip("link add br0 type bridge mcast_snooping 0");
        switch.ip("link set br0 mtu 9000 up");
        Some(Self { prefix, switch })
    }

    /// Makes the switch hand on LLDP, which a bridge keeps to itself: as if its hosts were plugged into one another.
    pub fn forward_lldp(&self) {
        self.switch.ip("link set br0 type bridge group_fwd_mask 0x4000");
    }

    /// Makes the switch flood frames for `ens3` of `host`, like one that has not learned its port.
    pub fn flood_frames_to(&self, host: &Host) {
        self.switch.ip(&format!("link set ens-{}-3 type bridge_slave learning off fdb_flush", host.name));
    }

    /// A host with an interface `ens3`.
    pub fn host(&self, name: &str, mac: &str, addresses: &[&str]) -> Host {
        let host = Host { namespace: Namespace::add(format!("{}-{name}", self.prefix)), name: name.to_owned() };
        host.namespace.ip("link set lo up");
        self.connect(&host, "ens3", mac, 1500, addresses);
        host
    }

    /// Makes the switch drop frames that match a rule of nftables' bridge family.
    pub fn drop_frames(&self, rules: &[&str]) {
        let dropping: Vec<_> = rules.iter().map(|rule| format!("{rule} drop")).collect();
        self.filter_frames(&dropping);
    }

    /// Makes the switch treat frames by these rules of nftables' bridge family.
    pub fn filter_frames<R: AsRef<str>>(&self, rules: &[R]) {
        let in_switch = format!("netns exec {} nft", self.switch.0);
        run("ip", &format!("{in_switch} add table bridge t"));
        run("ip", &format!("{in_switch} add chain bridge t frames {{ type filter hook forward priority 0 ; }}"));
        for rule in rules {
            run("ip", &format!("{in_switch} add rule bridge t frames {}", rule.as_ref()));
        }
    }

    /// Gives `host` another interface.
    pub fn connect(&self, host: &Host, interface: &str, mac: &str, mtu: u32, addresses: &[&str]) {
        let port = format!("ens-{}-{}", host.name, interface.trim_start_matches("ens"));
        let namespace = &host.namespace;
        self.switch.ip(&format!("link add {port} mtu 9000 type veth peer name {interface} netns {}", namespace.0));
        self.switch.ip(&format!("link set {port} master br0 up"));
        namespace.ip(&format!("link set {interface} address {mac} mtu {mtu} up"));
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            namespace.ip(&format!("address add {address} dev {interface} {nodad}"));
        }
        wait::until(&format!("{interface} of {} is up", host.name), || {
            namespace.ip(&format!("link show {interface}")).contains("state UP")
                && run("bridge", &format!("-n {} link show dev {port}", self.switch.0)).contains("state forwarding")
        });
    }

    /// Switches off the port that `ens3` of `host` is connected to.
    pub fn unplug(&self, host: &Host) {
        self.switch.ip(&format!("link set ens-{}-3 down", host.name));
        wait::until(&format!("ens3 of {} has no carrier", host.name), || {
            host.namespace.ip("link show ens3").contains("NO-CARRIER")
        });
    }
}

impl Host {
    /// Routes a network through `gateway`.
    pub fn route(&self, network: &str, gateway: &str) {
        self.namespace.ip(&format!("route add {network} via {gateway}"));
    }

    /// Makes the host answer for every address of a network.
    pub fn answer_for(&self, network: &str) {
        self.namespace.ip(&format!("route add local {network} dev lo"));
    }

    /// Changes the MTU of `ens3`.
    pub fn set_mtu(&self, mtu: u32) {
        self.namespace.ip(&format!("link set ens3 mtu {mtu}"));
    }
}

/// Set in the child that [`Again`] starts.
const INSIDE: &str = "NETCHECK_TEST_INSIDE";

/// Whether this is a process that [`Again`] has started.
pub fn is_inside() -> bool {
    let inside = std::env::var_os(INSIDE).is_some();
    if inside {
        assert_isolated();
    }
    inside
}

/// The most memory this process had, KiB.
pub fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The same once all of the program is in memory: what is read of it later would look like growth.
pub fn peak_kib_of_all() -> u64 {
    mlockall(MlockAllFlags::MCL_CURRENT).unwrap();
    munlockall().unwrap();
    peak_kib()
}

/// A test of this program, run again as a separate process inside a host's namespace. Killed when dropped.
pub struct Again(Option<Child>);

impl Again {
    /// `through` is a command that the program is an argument of.
    pub fn start(host: &Host, through: &[&str], test: &str, input: String) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &host.namespace.0])
            .args(through)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Closed at its end.
        let mut stdin = child.stdin.take().unwrap();
        thread::spawn(move || stdin.write_all(input.as_bytes()));
        Self(Some(child))
    }

    /// Waits for it; what it printed.
    pub fn end(mut self) -> String {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        text.into_owned()
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
