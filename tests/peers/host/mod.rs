//! Hosts: namespaces of network, mounts, processes and names, in which a loop device is /dev/vda and this machine's disk does
//! not exist.

pub(crate) mod pod;
pub(crate) mod sys_tree;

use crate::{
    disk::LoopDisk,
    net::{Namespace, Segment},
    service::kubeconfig,
};
use nix::{
    sys::{
        signal::{Signal, kill},
        stat::{major, minor},
    },
    unistd::Pid,
};
use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const HOST: &str = include_str!("host.sh");
const SERVICE: &str = include_str!("service.sh");
/// Finds no device of its kind.
const NOTHING: &str = "#!/bin/sh\nexit 0\n";
/// In the place of the host's own programs, by name.
const STAND_INS: [(&str, &str); 12] = [
    ("dmsetup", NOTHING),
    ("lvs", NOTHING),
    ("mdadm", NOTHING),
    ("pvs", NOTHING),
    ("hostnamectl", include_str!("bin/hostnamectl")),
    ("nsenter", include_str!("bin/nsenter")),
    ("oc", include_str!("bin/oc")),
    ("podman", include_str!("bin/podman")),
    ("reboot", include_str!("bin/reboot")),
    ("shutdown", include_str!("bin/reboot")),
    ("systemctl", include_str!("bin/systemctl")),
    ("vgs", NOTHING),
];
/// As big as the recorded hosts' disks; sparse.
const DISK_BYTES: u64 = 256 << 30;
const LOOP_MAJOR: u64 = 7;
const MAX_JOURNAL_BYTES: usize = 64 << 20;

/// What a host is made of.
pub(crate) struct Plan<'a> {
    /// Its addresses, MAC and serial numbers are made of it.
    pub number: u8,
    /// More links: what a program is called here, and where it is.
    pub programs: &'a [(&'a str, PathBuf)],
    /// More stand-ins: name and text.
    pub scripts: &'a [(&'a str, String)],
    /// Program and arguments that are kept running. `$SHARED` in the environment is the directory that the test sees, too.
    pub service: Vec<String>,
    pub environment: &'a [(&'a str, &'a str)],
}

pub(crate) struct Host {
    pub disk: LoopDisk,
    pub address: String,
    network: crate::net::Host,
    child: Child,
    /// The same path inside and outside.
    pub shared: TempDir,
    _scratch: TempDir,
}

/// Numbers of the disks that this machine really has, as `stat -c %t:%T` prints them.
fn real_disks() -> Vec<String> {
    let entries = fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path());
    let numbers = entries.filter_map(|block| fs::read_to_string(block.join("dev")).ok());
    let pair = |text: &str| {
        let (major, minor) = text.trim().split_once(':').unwrap();
        (major.parse::<u64>().unwrap(), minor.parse::<u64>().unwrap())
    };
    let real = numbers.map(|text| pair(&text)).filter(|(major, _)| *major != LOOP_MAJOR);
    real.map(|(major, minor)| format!("{major:x}:{minor:x}")).collect()
}

impl Host {
    pub(crate) fn start(segment: &Segment, plan: Plan) -> Self {
        let number = plan.number;
        let (mac, address) = (format!("52:54:00:aa:13:{number:02x}"), format!("192.168.131.{}", 10 + number));
        let network = segment.host(&format!("h{number}"), &mac, &[&format!("{address}/24")]);
        network.namespace.ip("route add default via 192.168.131.1");
        let disk = LoopDisk::new(DISK_BYTES, 512, true);
        let loop_minor = minor(fs::metadata(disk.path()).unwrap().rdev());

        let temporary = |name: &str| tempfile::Builder::new().prefix(name).tempdir_in("/dev/shm").unwrap();
        let (shared, scratch) = (temporary("peers-host-"), temporary("peers-scratch-"));
        let at = |name: &str| shared.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        fs::write(at("service.sh"), SERVICE).unwrap();
        fs::write(at("cmdline"), "console=ttyS0 quiet\n").unwrap();
        let serial = format!("VDA-{number}");
        fs::write(at("udev"), format!("E:ID_MODEL=FAKEDISK\nE:ID_SERIAL={serial}\nE:ID_SERIAL_SHORT={serial}\n"))
            .unwrap();
        fs::write(at("kubeconfig"), kubeconfig().to_string()).unwrap();
        journal(&at("journal"));
        sys_tree::write(&at("sys"), &sys_tree::Identity { number, mac: &mac, disk_bytes: DISK_BYTES, loop_minor });
        let more = plan.scripts.iter().map(|(name, text)| (*name, text.as_str()));
        for (name, text) in STAND_INS.into_iter().chain(more) {
            let text = text.replace("$SHARED", &shared.path().display().to_string());
            fs::write(at("bin").join(name), text).unwrap();
            fs::set_permissions(at("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (name, program) in plan.programs {
            symlink(program, at("bin").join(name)).unwrap();
        }
        let directories = plan.programs.iter().filter_map(|(_, program)| program.parent());
        let given: Vec<_> = directories.map(|directory| directory.display().to_string()).collect();

        let mut command = Command::new("ip");
        command.args(["netns", "exec", &network.namespace.0]);
        command.args(["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=SIGKILL"]);
        command.args(["--propagation", "private", "sh", "-c", HOST, "host"]).args(&plan.service);
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "LANDFALL_LOG"]
        {
            command.env_remove(name);
        }
        let here = shared.path().display().to_string();
        command.envs(plan.environment.iter().map(|(name, value)| (*name, value.replace("$SHARED", &here))));
        command.env("SCRATCH", scratch.path()).env("SHARED", shared.path());
        command.env("LOOP_MINOR", loop_minor.to_string()).env("HOST_NAME", format!("host-{number}"));
        command
            .env("RESOLVER", "192.168.131.1")
            .env("REAL_DISKS", real_disks().join(" "))
            .env("GIVEN", given.join(" "));
        let log = fs::File::create(at("start.log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut host = Self { disk, address, network, child, shared, _scratch: scratch };
        host.await_start(loop_minor);
        host
    }

    fn await_start(&mut self, loop_minor: u64) {
        for _ in 0..3000 {
            if self.shared.path().join("agent.pid").exists() {
                return self.assert_harmless(loop_minor);
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the host did not start ({status}): {}", self.file("start.log"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the host does not start: {}", self.file("start.log"));
    }

    /// Asked from outside, too: /dev/vda in the host is the loop device and nothing else.
    fn assert_harmless(&self, loop_minor: u64) {
        let devices = PathBuf::from(format!("/proc/{}/root/dev", self.init()));
        let inside = fs::metadata(devices.join("vda")).unwrap();
        assert!(inside.file_type().is_block_device());
        assert_eq!((major(inside.rdev()), minor(inside.rdev())), (LOOP_MAJOR, loop_minor));
        let others = fs::read_dir(&devices).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        for meta in others.filter(|meta| meta.file_type().is_block_device()) {
            assert_eq!(major(meta.rdev()), LOOP_MAJOR, "a disk of this machine is in the host");
        }
        let bounding = fs::read_to_string(format!("/proc/{}/status", self.init())).unwrap();
        let bounding = bounding.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap().trim();
        const CAP_MKNOD: u32 = 27;
        assert_eq!(u64::from_str_radix(bounding, 16).unwrap() >> CAP_MKNOD & 1, 0, "the host could make nodes");
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.network.namespace
    }

    /// The first process of the host, by its number outside.
    fn init(&self) -> i32 {
        let unshare = self.child.id();
        let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// A file that the host has written; empty where there is none.
    pub(crate) fn file(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.shared.path().join(name)).unwrap_or_default()).into_owned()
    }

    /// A path of the host, seen from outside.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.init())).join(inside.trim_start_matches('/'))
    }

    /// Kills the service as a crash would.
    pub(crate) fn kill_service(&self) {
        let inside: i32 = self.file("agent.pid").trim().parse().unwrap();
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let init = self.init();
        let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let is_it = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            numbers.split_whitespace().last() == Some(&inside.to_string()) && namespace(*pid) == namespace(init)
        };
        let outside = { all }.find(is_it).expect("the service runs");
        kill(Pid::from_raw(outside), Signal::SIGKILL).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for name in ["agent.log", "installer.log", "journal.log", "calls", "ends"] {
            crate::report::keep(&self.shared.path().join(name), &format!("{}-{name}", self.address));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The loop device can only go once nothing in the host has it open.
        thread::sleep(Duration::from_millis(200));
    }
}

/// Takes what programs log, as the journal does: one that finds none says so in each of its replies. Each message becomes a line
/// of a file beside the socket, after the milliseconds since the host began. Ends with the process.
fn journal(path: &Path) {
    let socket = UnixDatagram::bind(path).unwrap();
    let mut file = fs::File::create(path.with_extension("log")).unwrap();
    let begun = Instant::now();
    thread::spawn(move || {
        let (mut buffer, mut left) = (vec![0; 64 << 10], MAX_JOURNAL_BYTES);
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).replace('\n', " ");
            let line = format!("{} {text}\n", begun.elapsed().as_millis());
            left = left.saturating_sub(line.len());
            if left > 0 && file.write_all(line.as_bytes()).is_err() {
                return;
            }
        }
    });
}
