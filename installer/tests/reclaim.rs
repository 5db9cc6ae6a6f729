//! Reclaiming a node: a directory tree in the place of its root, a small server, and a real boot file system.
#![allow(clippy::unwrap_used)]

use api::{BootArtifactsRequest, http::HttpConfig};
use installer::reclaim::{
    Architecture, Host, HostError, NodeHost, Pace, ReclaimError, download, loader_entry, reboot, zipl_options,
};
use installer::writable::WritableError;
use std::{
    cell::{Cell, RefCell},
    fs,
    io::Read,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use testkit::http::Server;

const ENTRY: &str = "boot/loader/entries/00-assisted-discovery.conf";
const PACE: Pace = Pace { retry: Duration::from_millis(1), attempt: testkit::wait::LIMIT };

/// Gives each path its own bytes.
fn plain() -> Server {
    Server::start(|request| whole(&content(request.path())))
}

fn request(server: &Server, node: &Path) -> BootArtifactsRequest {
    BootArtifactsRequest {
        kernel_url: server.url("/kernel"),
        initrd_url: server.url("/initrd"),
        rootfs_url: "https://s.example/rootfs?arch=x86_64&version=4.22".into(),
        host_fs_mount_dir: node.into(),
    }
}

fn content(path: &str) -> Vec<u8> {
    let size = if path == "/kernel" { 100_000 } else { 300_001 };
    (0..size).map(|n: u32| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect()
}

fn whole(body: &[u8]) -> Vec<u8> {
    testkit::http::reply("200 OK", "ETag: \"1\"\r\n", body)
}

/// A node as its own files and some numbers.
#[derive(Default)]
struct FakeHost {
    free: Cell<u64>,
    freed_by_cleanup: u64,
    did: RefCell<Vec<String>>,
    read_only_times: Cell<u32>,
}

impl FakeHost {
    fn with(free: u64) -> Self {
        Self { free: Cell::new(free), ..Self::default() }
    }

    fn note(&self, what: impl Into<String>) {
        self.did.borrow_mut().push(what.into());
    }
}

impl Host for FakeHost {
    fn make_writable(&self, boot: &Path) -> Result<(), HostError> {
        let remaining = self.read_only_times.get();
        self.read_only_times.set(remaining.saturating_sub(1));
        if remaining > 0 {
            let error = WritableError { path: boot.into(), source: std::io::Error::from_raw_os_error(30) };
            return Err(error.into());
        }
        Ok(())
    }
    fn free_bytes(&self, _: &Path) -> Result<u64, HostError> {
        Ok(self.free.get())
    }
    fn remove_rollback(&self) -> Result<(), HostError> {
        self.note("cleanup");
        self.free.set(self.free.get() + self.freed_by_cleanup);
        Ok(())
    }
    fn write_boot_record(&self, options: &str) -> Result<(), HostError> {
        self.note(format!("zipl {options}"));
        Ok(())
    }
    fn command_line(&self) -> Result<String, HostError> {
        Ok("ip=a rd.dasd=0.0.1 quiet ip=b rd.zfcp=x nameserver=9.9.9.9 root=/dev/sda ipx=1 rd.znet=y\n".into())
    }
    fn reboot(&self) -> Result<(), HostError> {
        self.note("reboot");
        Ok(())
    }
}

struct Node {
    dir: TempDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("host/boot")).unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("host")
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.root().join(path)).ok()
    }

    fn download(&self, server: &Server, host: &dyn Host) -> Result<(), ReclaimError> {
        let http = HttpConfig::default();
        let scratch = self.dir.path().join("scratch");
        download(&request(server, &self.root()), &http, host, Architecture::Other, &scratch, PACE)
    }

    fn assert_complete(&self) {
        assert_eq!(self.read("boot/discovery/vmlinuz"), Some(content("/kernel")));
        assert_eq!(self.read("boot/discovery/initrd"), Some(content("/initrd")));
        let entry = String::from_utf8(self.read(ENTRY).unwrap()).unwrap();
        assert!(
            entry.contains("'coreos.live.rootfs_url=https://s.example/rootfs?arch=x86_64&version=4.22'\n"),
            "{entry}"
        );
        let remaining = |dir: &str| fs::read_dir(self.root().join(dir)).unwrap().count();
        assert_eq!((remaining("boot/discovery"), remaining("boot/loader/entries")), (2, 1), "no draft is left");
    }
}

#[test]
fn the_entry_is_the_real_agents_for_both_kinds_of_machine() {
    assert_eq!(
        loader_entry("http://s/r", Architecture::Other).unwrap(),
        "title Assisted Installer Discovery\nversion 999\noptions random.trust_cpu=on ignition.firstboot \
         ignition.platform.id=metal 'coreos.live.rootfs_url=http://s/r'\nlinux /boot/discovery/vmlinuz\n\
         initrd /boot/discovery/initrd\n"
    );
    let z = loader_entry("http://s/r", Architecture::S390x).unwrap();
    let options = "random.trust_cpu=on ai.ip_cfg_override=1 ignition.firstboot ignition.platform.id=metal \
                   coreos.live.rootfs_url=http://s/r";
    assert!(z.contains(&format!("\noptions {options}\n")), "{z}");
    let line = FakeHost::default().command_line().unwrap();
    let preserved = "ip=a nameserver=9.9.9.9 rd.znet=y rd.zfcp=x rd.dasd=0.0.1";
    assert_eq!(zipl_options(&z, &line).unwrap(), format!("{options} {preserved}"));
    assert!(zipl_options("title x\n", &line).is_err());
    for url in ["http://s/r' init=/bin/sh '", "http://s/r\nlinux /evil", "http://s/ü", "http://s/\"", "http://s/ r"] {
        let error = loader_entry(url, Architecture::Other).unwrap_err().to_string();
        assert!(error.starts_with("rootfs_url http://s/") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_node_gets_kernel_initramfs_and_entry_once() {
    let (node, server, host) = (Node::new(), plain(), FakeHost::with(1 << 30));
    host.read_only_times.set(4);
    node.download(&server, &host).unwrap();
    node.assert_complete();
    assert_eq!(*host.did.borrow(), [] as [String; 0]);
    node.download(&server, &host).unwrap();
    assert_eq!(server.requests().len(), 2, "the second time everything is there");
    host.read_only_times.set(5);
    fs::remove_file(node.root().join(ENTRY)).unwrap();
    let error = node.download(&server, &host).unwrap_err();
    assert!(matches!(error, ReclaimError::Host(HostError::Writable(_))), "{error:?}");
}

#[test]
fn a_broken_download_goes_on_where_it_broke() {
    let node = Node::new();
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let (count, body) = (count.fetch_add(1, Ordering::Relaxed), content(request.path()));
        if count == 1 {
            return testkit::http::reply("503 Service Unavailable", "", "");
        }
        let end = request.range_start().unwrap_or(0) + 60_000 + count;
        testkit::http::resumed(request, &body, end.min(body.len()))
    });
    // Three attempts for one file and five for the other, each of which goes on.
    node.download(&server, &FakeHost::with(1 << 30)).unwrap();
    node.assert_complete();
    let asked: String = server.requests().iter().map(|request| request.head.to_lowercase()).collect();
    assert!(asked.contains("range: bytes=60000-") && asked.contains("if-range: \"1\""), "{asked}");
    assert!(asked.contains("range: bytes=60003-"), "{asked}");
    assert_eq!(server.requests().len(), 8);
}

#[test]
fn a_file_that_changed_meanwhile_starts_anew() {
    let node = Node::new();
    let server = Server::start(|request| {
        let mut answer = whole(&content(request.path()));
        // The first answer breaks off; the second is whole although a part was asked for.
        if (request.path(), request.earlier) == ("/kernel", 0) {
            answer.truncate(1000);
        }
        answer
    });
    node.download(&server, &FakeHost::with(1 << 30)).unwrap();
    node.assert_complete();
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn errors_name_the_server_and_not_its_secrets() {
    let node = Node::new();
    let server = Server::start(|_| testkit::http::reply("404 Not Found", "", ""));
    let mut request = request(&server, &node.root());
    request.kernel_url += "?token=t0ken";
    let (http, scratch) = (HttpConfig::default(), node.dir.path().join("scratch"));
    let host = FakeHost::with(1 << 30);
    let error = download(&request, &http, &host, Architecture::Other, &scratch, PACE).unwrap_err().to_string();
    assert_eq!(error, format!("cannot fetch {}/kernel: the server answered 404", server.url("")));
    assert_eq!(server.requests().len(), 5);
    let nowhere = BootArtifactsRequest { host_fs_mount_dir: "host".into(), ..request };
    let error = download(&nowhere, &http, &host, Architecture::Other, &scratch, PACE).unwrap_err();
    assert!(matches!(error, ReclaimError::NoNode { .. }), "{error:?}");
}

#[test]
fn the_rollback_goes_when_there_is_no_room_and_only_then() {
    let (node, server) = (Node::new(), plain());
    let tight = FakeHost { freed_by_cleanup: 1 << 20, ..FakeHost::with(400_000) };
    node.download(&server, &tight).unwrap();
    assert_eq!(*tight.did.borrow(), ["cleanup"]);
    let (node, full) = (Node::new(), FakeHost { freed_by_cleanup: 1, ..FakeHost::with(400_000) });
    let error = node.download(&server, &full).unwrap_err();
    assert!(matches!(error, ReclaimError::NoSpace { free_bytes: 400_001, needed_bytes: 400_201.., .. }), "{error:?}");
    assert_eq!(node.read("boot/discovery/initrd"), None);
}

#[test]
fn a_reboot_needs_to_be_allowed_and_on_s390x_a_boot_record() {
    let node = Node::new();
    let host = NodeHost { root: node.root(), allow_reboot: false };
    let error = reboot(&node.root(), &host, Architecture::Other).unwrap_err();
    assert!(matches!(error, ReclaimError::Host(HostError::RebootNotAllowed)), "{error:?}");
    let fake = FakeHost::default();
    reboot(&node.root(), &fake, Architecture::Other).unwrap();
    assert_eq!(*fake.did.borrow(), ["reboot"]);
    let fake = FakeHost::default();
    reboot(&node.root(), &fake, Architecture::S390x).unwrap_err();
    assert!(fake.did.borrow().is_empty(), "without an entry there is nothing to boot");
    fs::create_dir_all(node.root().join("boot/loader/entries")).unwrap();
    fs::write(node.root().join(ENTRY), loader_entry("http://s/r", Architecture::S390x).unwrap()).unwrap();
    reboot(&node.root(), &fake, Architecture::S390x).unwrap();
    let did = fake.did.borrow();
    assert!(did[0].starts_with("zipl random.trust_cpu=on ai.ip_cfg_override=1 ") && did[0].ends_with(" rd.dasd=0.0.1"));
    assert_eq!(did[1..], ["reboot"]);
}

/// A boot file system as a node has it: read-only, with little space, in a mount table of this thread alone.
#[test]
fn a_read_only_boot_file_system_is_made_writable() {
    if !testkit::skip::unless("root", nix::unistd::geteuid().is_root()) {
        return;
    }
    let check = || {
        use nix::{mount::MsFlags, sched::CloneFlags};
        nix::sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        let (node, server) = (Node::new(), plain());
        let (image, boot) = (node.dir.path().join("boot.img"), node.root().join("boot"));
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop,nosuid"]).arg(&image).arg(&boot));
        run(Command::new("mount").args(["-o", "remount,ro,nosuid"]).arg(&boot));
        let host = NodeHost { root: node.root(), allow_reboot: false };
        assert!(fs::write(boot.join("x"), "").is_err());
        assert!((1..8 << 20).contains(&host.free_bytes(&boot).unwrap()));
        let result = node.download(&server, &host);
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains("/host/boot ")).unwrap().to_owned();
        result.unwrap();
        node.assert_complete_beside_lost_and_found();
        assert!(line.contains(" rw,nosuid"), "{line}");
        run(Command::new("umount").arg(&boot));
    };
    thread::spawn(check).join().unwrap();
}

impl Node {
    fn assert_complete_beside_lost_and_found(&self) {
        self.assert_complete();
        assert!(self.root().join("boot/lost+found").is_dir());
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let mut log = String::new();
    let _ = output.stderr.as_slice().read_to_string(&mut log);
    assert!(output.status.success(), "{command:?}: {log}");
}

/// What an ordinary user of the node can do before: the directory is there already, with a kernel in it.
#[test]
fn no_planted_file_is_booted() {
    let node = Node::new();
    let scratch = node.dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::write(scratch.join("vmlinuz"), "planted").unwrap();
    // Open, so that it can be written whenever its new content is there.
    let planted = fs::OpenOptions::new().write(true).open(scratch.join("vmlinuz")).unwrap();
    let server = Server::start(move |request| {
        if request.path() == "/initrd" {
            std::os::unix::fs::FileExt::write_all_at(&planted, b"evil", 0).unwrap();
        }
        whole(&content(request.path()))
    });
    let host = FakeHost::with(1 << 30);
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).unwrap();
    let error = node.download(&server, &host).unwrap_err();
    assert!(matches!(error, ReclaimError::Foreign { mode: 0o755, .. }), "{error:?}");
    assert_eq!(node.read("boot/discovery/vmlinuz"), None);
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o700)).unwrap();
    node.download(&server, &host).unwrap();
    node.assert_complete();
    assert_eq!(fs::read(scratch.join("vmlinuz")).unwrap()[..4], *b"evil", "the attack was tried");
    if nix::unistd::geteuid().is_root() {
        let node = Node::new();
        let scratch = node.dir.path().join("scratch");
        fs::DirBuilder::new().mode(0o700).create(&scratch).unwrap();
        std::os::unix::fs::chown(&scratch, Some(65534), Some(65534)).unwrap();
        let error = node.download(&server, &host).unwrap_err();
        assert!(matches!(error, ReclaimError::Foreign { uid: 65534, .. }), "{error:?}");
        fs::remove_dir(&scratch).unwrap();
        std::os::unix::fs::symlink(node.dir.path(), &scratch).unwrap();
        let error = node.download(&server, &host).unwrap_err();
        assert!(matches!(error, ReclaimError::Foreign { .. }), "a link: {error:?}");
    }
}
