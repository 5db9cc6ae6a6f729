//! Virtual machines of QEMU in a network of their own. They outlive the command that started them.
//!
//! The first machine's process has the network's gateway, which gives addresses and reaches the service, and a wire to each other
//! machine. The others have only their wire. So the network ends at this machine, and needs no privileges.

use super::place::{SERVICE, make};
use super::stored::{self, Stored};
use crate::text;
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const DIRECTORY: &str = "vms";
const QEMU: &str = "qemu-system-x86_64";
/// What a live system of CoreOS and its installed one need, with room.
const MEMORY_MIB: u32 = 4096;
const DISK_GIB: u64 = 20;
const KVM: &str = "/dev/kvm";
/// QEMU answers between two guest instructions.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const MAX_LINE_BYTES: u64 = 1 << 20;
/// A process that is asked to end does so.
const END_LIMIT: Duration = Duration::from_secs(10);
/// What our directory holds, so that `--down` removes nothing else.
const FILES: [&str; 7] = ["plan", SERVICE, "images", DIRECTORY, "service.log", "requirements.json", stored::FILE];

/// The machines of a rack.
pub(super) struct Machines {
    directory: PathBuf,
}

/// Where their disks and consoles are.
pub(super) fn place(directory: &Path) -> PathBuf {
    directory.join(DIRECTORY)
}

/// Whether QEMU is here.
pub(super) fn check() -> anyhow::Result<()> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "--vms makes machines of x86_64 only; start others by hand, with the ISO that `landfall up` makes"
    );
    let found =
        Command::new(QEMU).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(
        found.is_ok_and(|status| status.success()),
        "{QEMU} is missing: install QEMU (Debian: apt-get install qemu-system-x86)"
    );
    Ok(())
}

impl Machines {
    /// Starts those that don't run.
    pub(super) fn start(directory: &Path, count: u8, stored: &Stored, iso: &Path) -> anyhow::Result<Self> {
        let directory = place(directory);
        make(&directory)?;
        let machines = Self { directory };
        let names: Vec<String> = (1..=count).map(|number| format!("node-{number}")).collect();
        // Without the first, which has the gateway, the others have no network.
        if names.first().is_some_and(|first| machines.qmp(first).is_err()) {
            names.iter().try_for_each(|name| machines.end(name))?;
        }
        let memory_mib = stored.vm_memory.unwrap_or(MEMORY_MIB);
        let disk_bytes = stored.vm_disk.unwrap_or(DISK_GIB) << 30;
        for (index, name) in names.iter().enumerate() {
            if machines.qmp(name).is_err() {
                let machine = Machine { index, count: names.len(), memory_mib, directory: &machines.directory, iso };
                machine.start(name, disk_bytes)?;
            }
        }
        Ok(machines)
    }

    /// A port of this machine that leads to a node's SSH server.
    pub(super) fn forward_ssh(&self, address: &str) -> anyhow::Result<u16> {
        let address: Ipv4Addr = address.parse().context("its address is unknown")?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let line = format!("hostfwd_add net tcp:127.0.0.1:{port}-{address}:22");
        let answer = self.qmp("node-1")?.execute("human-monitor-command", &json!({"command-line": line}))?;
        let said = answer.as_str().unwrap_or_default().trim();
        ensure!(said.is_empty(), "QEMU: {}", text::plain(said));
        Ok(port)
    }

    fn qmp(&self, name: &str) -> anyhow::Result<Qmp> {
        Qmp::connect(&self.directory, &format!("{name}.qmp"))
    }

    /// Ends a machine that runs, as if its plug was pulled.
    fn end(&self, name: &str) -> anyhow::Result<()> {
        let Ok(mut qmp) = self.qmp(name) else { return Ok(()) };
        // It may end before it answers.
        drop(qmp.execute("quit", &json!({})));
        let deadline = Instant::now() + END_LIMIT;
        while self.qmp(name).is_ok() {
            ensure!(Instant::now() < deadline, "the virtual machine {name} does not end");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Ends the machines of a rack, and removes all that is stored of it.
pub(super) fn down(directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot read {}", directory.display());
    if !directory.exists() {
        writeln!(std::io::stdout(), "there is no rack in {}", directory.display())?;
        return Ok(());
    }
    let mut ours = Vec::new();
    for entry in fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // The discovery ISO, or what is left of one that was being fetched.
        let is_iso = name.ends_with(".iso") || name.starts_with(".landfall-") && name.ends_with(".part");
        let is_iso = is_iso && entry.file_type().is_ok_and(|kind| kind.is_file());
        if !FILES.contains(&name.as_str()) && !is_iso {
            bail!("{} is not a rack's: it has {name} in it, and nothing is removed", directory.display());
        }
        ours.push(entry.path());
    }
    if crate::store::is_in_use(&directory.join(SERVICE)) {
        bail!("`landfall up` runs with {}: stop it first (Ctrl-C)", directory.display());
    }
    let machines = Machines { directory: place(directory) };
    let mut ended = 0_u32;
    for number in 1..=9 {
        let name = format!("node-{number}");
        if machines.qmp(&name).is_ok() {
            machines.end(&name)?;
            ended += 1;
        }
    }
    for path in ours {
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    fs::remove_dir(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    writeln!(std::io::stdout(), "{ended} virtual machines ended, {} removed", directory.display())?;
    Ok(())
}

/// One machine as it is asked for.
struct Machine<'a> {
    index: usize,
    count: usize,
    memory_mib: u32,
    directory: &'a Path,
    iso: &'a Path,
}

impl Machine<'_> {
    fn start(&self, name: &str, disk_bytes: u64) -> anyhow::Result<()> {
        let disk = self.directory.join(format!("{name}.img"));
        let made = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&disk);
        let made = made.and_then(|file| if file.metadata()?.len() == 0 { file.set_len(disk_bytes) } else { Ok(()) });
        made.with_context(|| format!("cannot make {}", disk.display()))?;
        // A device that opens is no proof: nested hypervisors have one that fails.
        let has_kvm = fs::OpenOptions::new().read(true).write(true).open(KVM).is_ok();
        if has_kvm && self.run(name, true).is_ok() {
            return Ok(());
        }
        self.run(name, false).with_context(|| format!("the virtual machine {name} did not start"))
    }

    fn run(&self, name: &str, has_kvm: bool) -> anyhow::Result<()> {
        let output = Command::new(QEMU)
            .args(self.arguments(name, has_kvm))
            // Sockets are named as they lie there: whole paths may be too long for them.
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {QEMU}"))?;
        ensure!(output.status.success(), "{}", text::plain(&String::from_utf8_lossy(&output.stderr)));
        Ok(())
    }

    fn arguments(&self, name: &str, has_kvm: bool) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        add("-name", name.into());
        add("-machine", "pc".into());
        // One thread for all processors: QEMU's translator is not safe with devices that come and go.
        add("-accel", if has_kvm { "kvm" } else { "tcg,thread=single" }.into());
        add("-cpu", "max".into());
        add("-smp", if has_kvm { "2" } else { "1" }.into());
        add("-m", self.memory_mib.to_string().into());
        add("-display", "none".into());
        add("-serial", format!("file:{name}.console").into());
        add("-qmp", format!("unix:{name}.qmp,server=on,wait=off").into());
        add("-pidfile", format!("{name}.pid").into());
        let id = identity(self.directory, name);
        add("-uuid", id.to_string().into());
        add("-smbios", format!("type=1,manufacturer=Landfall,product=Virtual machine,serial={name}").into());
        // The host's page cache outlives QEMU, so only a crash of the host itself loses what was written.
        add("-drive", format!("if=none,id=disk,format=raw,cache=unsafe,discard=unmap,file={name}.img").into());
        add("-device", format!("virtio-blk-pci,drive=disk,serial={name},bootindex=1").into());
        let mut cd: OsString = "if=none,id=cd,media=cdrom,format=raw,readonly=on,file=".into();
        cd.push(self.iso.to_string_lossy().replace(',', ",,"));
        add("-drive", cd);
        // Behind the disk: a blank one is passed over.
        add("-device", "ide-cd,drive=cd,bootindex=2".into());
        for (option, value) in self.network() {
            add(option, value.into());
        }
        add("-device", format!("virtio-net-pci,netdev=nic,mac={},romfile=", mac(self.directory, name)).into());
        arguments.extend(["-nodefaults".into(), "-daemonize".into()]);
        arguments
    }

    /// The first machine's has the gateway and a hub, the others' a wire to it.
    fn network(&self) -> Vec<(&'static str, String)> {
        if self.index > 0 {
            return vec![(
                "-netdev",
                format!("stream,id=nic,server=off,addr.type=unix,addr.path=wire-{}", self.index + 1),
            )];
        }
        let mut all = vec![
            ("-netdev", "user,id=net".to_owned()),
            ("-netdev", "hubport,id=gateway,hubid=0,netdev=net".to_owned()),
            ("-netdev", "hubport,id=nic,hubid=0".to_owned()),
        ];
        for number in 2..=self.count {
            all.push(("-netdev", format!("stream,id=wire{number},server=on,addr.type=unix,addr.path=wire-{number}")));
            all.push(("-netdev", format!("hubport,id=port{number},hubid=0,netdev=wire{number}")));
        }
        all
    }
}

/// The same at each start, and another in each rack.
fn identity(directory: &Path, name: &str) -> uuid::Uuid {
    let digest = Sha256::digest(format!("landfall virtual machine {} {name}", directory.display()));
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// What `landfall up` knows of its machines beforehand: their names and addresses.
pub(super) fn planned(directory: &Path, count: u8) -> impl Iterator<Item = (String, String)> {
    let directory = place(directory);
    (1..=count).map(move |number| {
        let name = format!("node-{number}");
        let mac = mac(&directory, &name);
        (name, mac)
    })
}

/// In the range of QEMU and KVM.
fn mac(directory: &Path, name: &str) -> String {
    let id = identity(directory, name);
    let [a, b, c, ..] = *id.as_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

/// A client of QEMU's machine protocol: one JSON object a line.
struct Qmp(BufReader<UnixStream>);

impl Qmp {
    fn connect(directory: &Path, name: &str) -> anyhow::Result<Self> {
        let open = fs::File::open(directory)?;
        let stream = UnixStream::connect(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        let mut qmp = Self(BufReader::new(stream));
        // The greeting.
        qmp.message()?;
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> anyhow::Result<Value> {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        self.0.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut message = self.message()?;
            if let Some(value) = message.get_mut("return") {
                return Ok(value.take());
            }
            // Others are events.
            if let Some(error) = message.get("error") {
                bail!("QEMU refuses {command}: {}", text::plain(text::at(error, "/desc")));
            }
        }
    }

    fn message(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        (&mut self.0).take(MAX_LINE_BYTES).read_line(&mut line)?;
        ensure!(!line.is_empty(), "QEMU ended");
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn arguments(index: usize, count: usize) -> String {
        let machine =
            Machine { index, count, memory_mib: 1024, directory: Path::new("/rack/vms"), iso: Path::new("/a,b.iso") };
        let all = machine.arguments(&format!("node-{}", index + 1), true);
        all.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_machine_has_a_wire_to_each_other() {
        let first = arguments(0, 3);
        for part in ["user,id=net", "addr.path=wire-2", "hubport,id=port3,hubid=0,netdev=wire3", "file=/a,,b.iso"] {
            assert!(first.contains(part), "{part}: {first}");
        }
        let second = arguments(1, 3);
        assert!(second.contains("server=off,addr.type=unix,addr.path=wire-2") && !second.contains("user"), "{second}");
        assert!(!arguments(0, 1).contains("wire"));
    }

    #[test]
    fn machines_differ_and_stay_the_same() {
        let id = |name: &str| identity(Path::new("/rack"), name);
        assert_eq!(id("node-1"), id("node-1"));
        assert_ne!(id("node-1"), id("node-2"));
    }

    #[test]
    fn a_directory_with_other_things_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.txt"), "mine").unwrap();
        let error = down(directory.path()).unwrap_err().to_string();
        assert!(error.contains("it has thesis.txt in it"), "{error}");
        assert!(directory.path().join("thesis.txt").exists());
    }
}
