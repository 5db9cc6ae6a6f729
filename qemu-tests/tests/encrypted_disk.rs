//! A node whose disk is encrypted as the service's manifest asks: by its TPM, or by a Tang server. The real Ignition makes the device, the
//! real clevis binds it and unlocks it at the next boot; where the key is not at hand it stays locked.
//!
//! The disk is the OS image, as an installer writes it. What the initramfs of CoreOS does around Ignition (it saves the root file system,
//! and puts it back into the new one), and its order of services at later boots, are scripts of this test.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::{ClusterCreateParams, Mac, Platform, Secret};
use common::ok;
use installer_double::{Behaviour, Double};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths,
    service::{Service, ServiceConfig},
    shell::{Answer, Shell},
    switch::Switch,
    uplink::{self, Uplink},
    vm::{Disk, Vm},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Several times what a boot, or Ignition's disks stage, takes under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);
const PULL_SECRET: &str = r#"{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}"#;
/// With room for XFS, which wants 300 MiB.
const DISK_BYTES: u64 = 768 << 20;
const DEVICE: &str = "/dev/disk/by-partlabel/root";
const UNLOCK: &str = "clevis luks unlock -d /dev/disk/by-partlabel/root -n root";
const MARK: &str = "this is written to the encrypted root";

#[test]
fn a_disk_is_unlocked_by_its_tpm_and_by_no_other() {
    let lab = Lab::new("encrypted-tpm");
    let config = lab.config("tpm", json!({"enable_on": "all", "mode": "tpmv2"}));
    let mut vm = lab.vm();
    let mut shell = ok(vm.shell(LIMIT));
    install(&mut shell, &config);
    lab.check_disk();

    opens(&mut reset(&mut vm, shell));

    ok(vm.restart());
    let refusal = ok(vm.shell(LIMIT).unwrap().ask(UNLOCK, LIMIT));
    assert_ne!(refusal.code, 0, "another TPM unlocked the disk");
}

#[test]
fn a_disk_is_unlocked_as_long_as_its_tang_server_answers() {
    const ONLINE: &str = "systemctl start NetworkManager.service NetworkManager-wait-online.service";
    let lab = Lab::new("encrypted-tang");
    let tang = Tang::new(lab.dir.path());
    let server = json!([{"url": tang.url(), "thumbprint": tang.thumbprint}]);
    let setting = json!({"enable_on": "masters", "mode": "tang", "tang_servers": server.to_string()});
    let config = lab.config("tang", setting);
    let mut vm = lab.vm();
    let mut shell = ok(vm.shell(LIMIT));
    ok(shell.run(ONLINE, LIMIT));
    install(&mut shell, &config);
    lab.check_disk();

    tang.answers.store(false, Ordering::Relaxed);
    let mut shell = reset(&mut vm, shell);
    ok(shell.run(ONLINE, LIMIT));
    let refusal = ok(shell.ask(UNLOCK, LIMIT));
    assert_ne!(refusal.code, 0, "the disk was unlocked without its server");
    tang.answers.store(true, Ordering::Relaxed);
    opens(&mut shell);
}

/// The first boot: the root file system is made anew on an encrypted device, and holds what it held.
fn install(shell: &mut Shell, config: &Value) {
    const CONTENT: &str = "cd /sysroot; find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum";
    let begin = format!(
        "mkdir -p /sysroot /run/saved /run/ignition
        cat >/usr/lib/ignition/user.ign <<'EOF'\n{config}\nEOF
        mount -t tmpfs -o size=75% saved /run/saved
        udevadm settle
        mount -t ext4 {DEVICE} /sysroot
        cp -a /sysroot/. /run/saved"
    );
    text(shell, &begin);
    let before = text(shell, CONTENT);
    text(shell, "umount /sysroot");
    ignition(shell, &["fetch-offline", "fetch", "disks"]);
    text(shell, "mount -t xfs /dev/mapper/root /sysroot; cp -a /run/saved/. /sysroot");
    assert_eq!(text(shell, CONTENT), before, "the root file system holds something else");
    ignition(shell, &["mount", "files"]);

    let luks = &config["storage"]["luks"][0];
    let header = text(shell, &format!("cryptsetup luksDump --dump-json-metadata {DEVICE}"));
    let header: Value = serde_json::from_str(&header).unwrap();
    assert_eq!(header["segments"]["0"]["encryption"], luks["options"][1], "{header:#}");
    let count = |part: &str| header[part].as_object().unwrap().len();
    assert_eq!((count("keyslots"), count("tokens")), (1, 1), "clevis has the only key: {header:#}");
    assert_eq!(header["tokens"]["0"]["type"], "clevis", "{header:#}");
    println!("{}", text(shell, &format!("clevis luks list -d {DEVICE}; cat /sysroot/etc/crypttab; blkid")));
    let mut label = |device: &str| text(shell, &format!("blkid -p -s LABEL -o value {device}")).trim().to_owned();
    assert_eq!(label(DEVICE), luks["label"]);
    assert_eq!(label("/dev/mapper/root"), "root");
    text(shell, &format!("echo '{MARK}' >/sysroot/mark; umount /sysroot; sync"));
}

/// What a script that must succeed writes.
fn text(shell: &mut Shell, script: &str) -> String {
    let Answer { code, output, errors } = ok(shell.ask(&format!("set -e\n{script}"), LIMIT));
    let [output, errors] = [output, errors].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(code, 0, "{script}\n{output}\n{errors}");
    output
}

fn ignition(shell: &mut Shell, stages: &[&str]) {
    for stage in stages {
        let log = format!("/run/ignition/{stage}.log");
        let run = format!("ignition --root=/sysroot --platform=metal --stage={stage} --log-to-stdout >{log} 2>&1");
        text(shell, &format!("{run} || {{ tail -n 40 {log}; exit 1; }}"));
    }
}

/// A later boot, without Ignition.
fn opens(shell: &mut Shell) {
    let mount = "mkdir -p /sysroot; mount -t xfs /dev/mapper/root /sysroot; cat /sysroot/mark";
    assert_eq!(text(shell, &format!("udevadm settle; {UNLOCK}; {mount}")).trim_end(), MARK);
}

/// As the button does; the TPM stays. The port of the shell takes one client: the old one must be gone.
fn reset(vm: &mut Vm, shell: Shell) -> Shell {
    drop(shell);
    let seen = vm.markers().len();
    ok(vm.execute("system_reset", json!({})));
    ok(vm.wait_for_after(seen, "shell", LIMIT));
    ok(vm.shell(LIMIT))
}

/// The service, a segment, and a disk.
struct Lab {
    run: &'static str,
    service: Service,
    _uplink: Uplink,
    switch: Switch,
    disk: PathBuf,
    dir: tempfile::TempDir,
}

impl Lab {
    fn new(run: &'static str) -> Self {
        let (logs, dir) = (ok(paths::log_dir(run)), ok(paths::scratch_dir()));
        let built = testkit::process::program("openshift-install-double");
        let installer = ok(Double::place(&built, dir.path(), &Behaviour::default()));
        let image = ok(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud));
        let disk = dir.path().join("disk");
        installed(&image, &disk);
        let service = ok(Service::start(ServiceConfig {
            state_dir: dir.path().join("state"),
            iso: ok(media::agent_iso(Drivers::Cloud)),
            image,
            agent_binary: None,
            offered: Vec::new(),
            openshift_install: Some(installer.program().to_owned()),
            poll_interval_s: 2,
            requirements: "[]".to_owned(),
            deliver_agent: false,
            log: logs.join("service.log"),
        }));
        let switch = ok(Switch::start(1));
        let uplink = ok(Uplink::start(&switch, &logs));
        Self { run, service, _uplink: uplink, switch, disk, dir }
    }

    /// What the service's manifest has Ignition do on a cluster's masters.
    fn config(&self, lock: &str, setting: Value) -> Value {
        let cluster = self.service.client().create_cluster(&ClusterCreateParams {
            name: "locked".into(),
            base_dns_domain: Some("example.com".into()),
            openshift_version: "4.22".into(),
            platform: Some(Platform { kind: "none".into(), ..Platform::default() }),
            user_managed_networking: Some(true),
            pull_secret: Secret::new(PULL_SECRET),
            disk_encryption: Some(setting),
            ..ClusterCreateParams::default()
        });
        let name = format!("99-openshift-master-{lock}-encryption.yaml");
        let url = format!("{}/api/assisted-install/v2/clusters/{}/manifests", self.service.url(), ok(cluster).id);
        let file = self.dir.path().join("answer");
        let get = |query: &str| {
            ok(self.service.fetch(&format!("{url}{query}"), &file));
            fs::read_to_string(&file).unwrap()
        };
        let list: Value = serde_json::from_str(&get("?include_system_generated=true")).unwrap();
        assert!(list.as_array().unwrap().iter().any(|manifest| manifest["file_name"] == *name), "{list:#}");
        let manifest = get(&format!("/files?folder=openshift&file_name={name}"));
        println!("{manifest}");
        let manifest: Value = serde_norway::from_str(&manifest).unwrap();
        manifest["spec"]["config"].clone()
    }

    fn vm(&self) -> Vm {
        let port = ok(self.switch.add_port("node"));
        let system = ok(media::encryption_system());
        let disk = Disk::virtio(&self.disk, "LOCKED", DISK_BYTES);
        let builder = Vm::builder(self.run, "node").kernel(system).memory_mib(2048).disk(disk).tpm().shell();
        ok(builder.nic(Mac([0x52, 0x54, 0x00, 0x4c, 0x4b, 0x01]), self.switch.port_path(port)).start())
    }

    /// Nothing of what the root holds can be read from it.
    fn check_disk(&self) {
        let finds =
            |text: &str| Command::new("grep").args(["-aqF", text]).arg(&self.disk).status().unwrap().code() == Some(0);
        assert!(finds("luks-root"), "what is looked for would be found");
        assert!(!finds(MARK), "the disk shows what is on its encrypted root");
    }
}

/// A disk as an installer leaves it, whose root has more room.
fn installed(image: &Path, disk: &Path) {
    fs::copy(image, disk).unwrap();
    File::options().write(true).open(disk).unwrap().set_len(DISK_BYTES).unwrap();
    let mut sgdisk = Command::new("/usr/sbin/sgdisk");
    sgdisk.args(["--move-second-header", "--delete=4", "--new=4:0:0", "--change-name=4:root"]).arg(disk);
    let output = sgdisk.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A real Tang server on this host's loopback: a `tangd` for each connection, as systemd's socket has it. While it does not answer, it closes
/// connections at once.
struct Tang {
    port: u16,
    thumbprint: String,
    answers: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tang {
    fn new(dir: &Path) -> Self {
        let keys = dir.join("keys");
        fs::create_dir(&keys).unwrap();
        said(tang_program("usr/libexec/tangd-keygen").arg(&keys).args(["sig", "exc"]));
        let thumbprint = said(tang_program("usr/bin/jose").args(["jwk", "thp", "-i"]).arg(keys.join("sig.jwk")));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answers, ends) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (answering, ending) = (answers.clone(), ends.clone());
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                if answering.load(Ordering::Relaxed) {
                    let keys = keys.clone();
                    // Ignition holds its connection when clevis makes another.
                    thread::spawn(move || serve(&keys, stream));
                }
            }
        });
        Self { port, thumbprint: thumbprint.trim().to_owned(), answers, ends, thread: Some(thread) }
    }

    /// As the machine reaches it.
    fn url(&self) -> String {
        format!("http://{}:{}", uplink::HOST, self.port)
    }
}

impl Drop for Tang {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Ends with the connection.
fn serve(keys: &Path, stream: TcpStream) {
    let output = OwnedFd::from(stream.try_clone().unwrap());
    let mut tangd = tang_program("usr/libexec/tangd");
    tangd.arg(keys).stdin(OwnedFd::from(stream)).stdout(output).stderr(Stdio::null());
    tangd.status().unwrap();
}

/// A program of the servers that `.ci/vm-packages` unpacks, with its libraries.
fn tang_program(path: &str) -> Command {
    let servers = paths::target_dir().join("vm/packages/servers").canonicalize().unwrap();
    let mut command = Command::new(servers.join(path));
    command.env("LD_LIBRARY_PATH", servers.join("usr/lib/x86_64-linux-gnu"));
    command.env("PATH", format!("{}:/usr/bin:/bin", servers.join("usr/bin").display()));
    command
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
