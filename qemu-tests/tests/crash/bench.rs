//! The machine that installs, again and again, with two disks whose every write is recorded.

use crate::crash::{
    check::{Copy, Installed, Job},
    medium::{self, MIB, State, System, after_power_cut, flushed, judge},
    moment::{At, Kind, Moment, condition, is_reached, part},
    service::{CLUSTER, HOST_ID, INFRA_ENV, Service},
};
use qemu_tests::{
    images::Drivers,
    media, paths,
    shell::Shell,
    vm::{Vm, with_path},
};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub(crate) const DISK_BYTES: usize = 64 * MIB;
/// Five times what a boot or an installation takes under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);
const SCRIPT_LIMIT: Duration = Duration::from_secs(300);
/// No installation writes more between two power cuts.
const LOG_BYTES: u64 = 64 << 30;

struct BenchDisk {
    serial: &'static str,
    path: PathBuf,
    log: PathBuf,
    at_power_on: Vec<u8>,
    keeps: bool,
    /// What boots from it.
    holds: Installed,
}

pub(crate) struct Bench {
    dir: TempDir,
    service: Service,
    systems: [System; 2],
    disks: [BenchDisk; 2],
    vm: Vm,
    shell: Shell,
    bytes_per_second: u64,
    /// Of installations so far.
    runs: usize,
    usual: Option<Duration>,
}

/// An installation that runs in the machine.
struct Run {
    word: String,
    /// Where its markers begin.
    from: usize,
    began: Instant,
}

impl Bench {
    /// Both disks hold the first system from the start; one of them has also a partition that must stay.
    pub(crate) fn start(systems: [System; 2], bytes_per_second: u64) -> Self {
        let dir = paths::scratch_dir().unwrap();
        let disks = [("PLAIN", false), ("KEEPS", true)].map(|(serial, keeps)| {
            let (path, log) = (dir.path().join(serial), dir.path().join(format!("{serial}.log")));
            let config = config(&format!("{serial} from the factory"));
            let at_power_on = prepare(&dir, &path, &systems[0], &config, keeps);
            let holds = Installed { name: systems[0].name, config: sha256(&config) };
            BenchDisk { serial, path, log, at_power_on, keeps, holds }
        });
        let mut vm = Vm::builder("crash", "install")
            .kernel(media::shell_system(Drivers::Cloud).unwrap())
            .shell()
            .with("-netdev", "user,id=n0,ipv6=off")
            .with("-device", "virtio-net-pci,netdev=n0,romfile=");
        for BenchDisk { serial, path, log, .. } in &disks {
            renew(log);
            let file = |name: String, path| {
                with_path(&format!("driver=file,cache.no-flush=on,node-name={name},filename="), path, "")
            };
            vm = vm
                .with("-blockdev", file(format!("disk-{serial}"), path))
                .with("-blockdev", file(format!("log-{serial}"), log))
                .with(
                    "-blockdev",
                    format!(
                        "driver=blklogwrites,node-name={serial},file=disk-{serial},log=log-{serial},log-sector-size=512"
                    ),
                )
                .with("-device", format!("virtio-blk-pci,drive={serial},serial={serial}"));
        }
        let mut vm = vm.start().unwrap();
        let shell = power_on(&mut vm);
        Self { dir, service: Service::start(), systems, disks, vm, shell, bytes_per_second, runs: 0, usual: None }
    }

    /// An uninterrupted installation; how long it takes.
    pub(crate) fn measure(&mut self) -> Duration {
        let (new, config) = (self.systems[1].clone(), config("measured"));
        self.service.offer(&new.image, &config, self.bytes_per_second);
        let run = self.install(0, None);
        let usual = self.complete(&run).unwrap_or_else(|error| panic!("{error}"));
        self.disks[0].holds = Installed { name: new.name, config: sha256(&config) };
        self.usual = Some(usual);
        usual
    }

    /// Interrupts an installation, looks at the disk, and installs once more.
    pub(crate) fn run(&mut self, moment: &Moment, random: &mut fastrand::Rng) -> Job {
        let index = usize::from(moment.keeps);
        let before = fs::read(&self.disks[index].path).unwrap();
        let holds = self.disks[index].holds.clone();
        let [old, new] = if holds.name == self.systems[0].name { [0, 1] } else { [1, 0] };
        let [old, new] = [&self.systems[old], &self.systems[new]].map(System::clone);
        let mut problems = Vec::new();

        let first = config(&format!("{} {}", self.runs, moment.at));
        self.service.offer(&new.image, &first, self.bytes_per_second);
        let run = self.install(index, Some(moment));
        self.wait(&run, moment.at);
        let after = run.began.elapsed();
        let sent = self.service.sent_bytes();
        let how = self.interrupt(&run, moment.kind, random);
        if !moment.kind.is_power_cut() {
            problems.extend(self.leftovers());
        }

        let medium = fs::read(&self.disks[index].path).unwrap();
        let state = judge(&medium, &before, &old, &new);
        let changed = before.chunks(4096).zip(medium.chunks(4096)).filter(|(before, now)| before != now).count() * 4096;
        let installed = match state {
            Ok(State::Complete) => Installed { name: new.name, config: sha256(&first) },
            _ => holds,
        };
        let interrupted = match &state {
            Ok(state) => Some(self.copy("interrupted", index, *state, installed)),
            Err(problem) => {
                problems.push(problem.clone());
                None
            }
        };
        if moment.kind.is_power_cut() {
            self.vm.restart().unwrap();
            self.shell = power_on(&mut self.vm);
        }

        let second = config(&format!("{} again", self.runs));
        self.service.offer(&new.image, &second, self.bytes_per_second);
        let again = self.install(index, None);
        let result = self.complete(&again);
        let took = result.as_ref().map_or(0.0, Duration::as_secs_f64);
        let holds = Installed { name: new.name, config: sha256(&second) };
        let medium = fs::read(&self.disks[index].path).unwrap();
        let completed = match result.and_then(|_| judge(&medium, &before, &old, &new)) {
            Ok(State::Complete) => Some(self.copy("completed", index, State::Complete, holds.clone())),
            Ok(state) => {
                problems.push(format!("the second installation left the disk {state:?}"));
                None
            }
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        self.disks[index].holds = holds;
        let disk = &self.disks[index];
        let line = format!(
            "{:21} {:30} {} | after {:4.1} s, {:4.1} MiB sent, {:4.1} MiB changed{how} | {:9} | second installation {took:4.1} s",
            moment.kind,
            moment.at,
            if disk.keeps { "keeps" } else { "plain" },
            after.as_secs_f64(),
            mib(sent),
            mib(u64::try_from(changed).unwrap()),
            state.map_or("BAD".to_owned(), |state| format!("{state:?}")),
        );
        Job { line, interrupted, completed, problems }
    }

    fn copy(&self, name: &str, index: usize, state: State, installed: Installed) -> Copy {
        let path = self.dir.path().join(format!("{name}-{}", self.runs));
        fs::copy(&self.disks[index].path, &path).unwrap();
        Copy { path, state, installed }
    }

    /// Signals are sent from within, as soon as the awaited line appears; the other moments are watched from here.
    fn install(&mut self, index: usize, interrupted: Option<&Moment>) -> Run {
        self.runs += 1;
        let (word, url, disk) = (format!("r{}:", self.runs), self.service.url(), &self.disks[index]);
        let watch = match interrupted {
            Some(Moment { kind: Kind::Term, at: At::Event(event), .. }) => (condition(event), "TERM"),
            Some(Moment { kind: Kind::Kill, at: At::Event(event), .. }) => (condition(event), "KILL"),
            _ => ("false".to_owned(), "0"),
        };
        let (condition, signal) = watch;
        let mut words = vec!["--image-url".to_owned(), format!("{url}/image.raw")];
        if disk.keeps {
            words.extend(["--save-partlabel", medium::KEPT].map(str::to_owned));
        }
        let (words, serial, from) = (json!(words), disk.serial, self.vm.markers().len());
        let script = format!(
            r#"rm -f /run/pid
            cat >/run/arguments <<'END'
{words}
END
            cat >/run/install <<'END'
            {{ sh -c 'echo $$ >/run/pid; export PULL_SECRET_TOKEN=token; exec landfall install --role master --url {url} --cluster-id {CLUSTER} \
                --infra-env-id {INFRA_ENV} --host-id {HOST_ID} --boot-device /dev/disk/by-id/virtio-{serial} \
                --installer-args "$(cat /run/arguments)" --json' 2>/run/errors
              echo "ended $?"; }} | while IFS= read -r line; do
                if {condition}; then read -r pid </run/pid; kill -{signal} $pid; fi 2>/dev/null
                echo "@@ {word} $line"
            done >/dev/console
END
            sh /run/install >/dev/null 2>&1 &
            until [ -s /run/pid ]; do usleep 5000; done"#
        );
        self.shell.run(&script, SCRIPT_LIMIT).unwrap_or_else(|error| panic!("{error}"));
        Run { word, from, began: Instant::now() }
    }

    /// What the installation says, line by line, until `enough`; whether it came to that before its end.
    fn follow(&mut self, run: &Run, mut enough: impl FnMut(&str) -> bool) -> Result<bool, String> {
        let mut from = run.from;
        loop {
            let found = self.vm.wait_for_after(from, &run.word, LIMIT).map_err(|error| error.to_string())?;
            let line = found.1.text[run.word.len()..].trim_start();
            if enough(line) {
                return Ok(true);
            }
            if line.starts_with("ended ") {
                return Ok(false);
            }
            from = found.0 + 1;
        }
    }

    fn wait(&mut self, run: &Run, at: At) {
        match at {
            At::Part(share) => {
                let usual = self.usual.unwrap_or(Duration::from_secs(5));
                std::thread::sleep(part(usual, share).saturating_sub(run.began.elapsed()));
            }
            At::Request(what) => {
                let asked = self.service.is_asked(what, LIMIT);
                assert!(asked, "{what} was not requested; requested: {:?}: {}", self.service.requests(), self.errors());
            }
            At::Event(event) => {
                let reached =
                    self.follow(run, |line| serde_json::from_str(line).is_ok_and(|line| is_reached(event, &line)));
                assert_eq!(reached, Ok(true), "{event} never came: {}", self.errors());
            }
        }
    }

    /// To the end, which must be a success.
    fn complete(&mut self, run: &Run) -> Result<Duration, String> {
        let mut code = String::new();
        self.follow(run, |line| {
            code = line.strip_prefix("ended ").unwrap_or_default().to_owned();
            !code.is_empty()
        })?;
        let took = run.began.elapsed();
        if code == "0" { Ok(took) } else { Err(format!("an installation ended with {code}: {}", self.errors())) }
    }

    fn errors(&mut self) -> String {
        self.ask("tail -n 12 /run/errors")
    }

    fn ask(&mut self, script: &str) -> String {
        let output = self.shell.run(script, SCRIPT_LIMIT).unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8(output).unwrap().trim().to_owned()
    }

    /// Gives remarks about it.
    fn interrupt(&mut self, run: &Run, kind: Kind, random: &mut fastrand::Rng) -> String {
        match kind {
            Kind::Term | Kind::Kill => {
                let began = Instant::now();
                // With a condition to wait for, the first signal is sent.
                let signal = if kind == Kind::Term { "TERM" } else { "KILL" };
                let patience = self.ask(&format!(
                    "pid=$(cat /run/pid); kill -{signal} $pid 2>/dev/null
                    for n in $(seq 100); do kill -0 $pid 2>/dev/null || exit 0; usleep 50000; done
                    kill -KILL $pid; echo 'killed, '",
                ));
                let mut code = String::new();
                let _ = self.follow(run, |line| {
                    code = line.strip_prefix("ended ").unwrap_or_default().to_owned();
                    !code.is_empty()
                });
                format!(", {patience}ended with {code} after {:.1} s", began.elapsed().as_secs_f64())
            }
            Kind::Cut | Kind::CutCache => {
                self.vm.kill();
                let mut lost = 0;
                for disk in &mut self.disks {
                    let mut medium = fs::read(&disk.path).unwrap();
                    if kind == Kind::CutCache {
                        let left = after_power_cut(flushed(&disk.log, &disk.at_power_on), &medium, random);
                        lost += left.chunks(4096).zip(medium.chunks(4096)).filter(|(left, all)| left != all).count();
                        fs::write(&disk.path, &left).unwrap();
                        medium = left;
                    }
                    disk.at_power_on = medium;
                    renew(&disk.log);
                }
                if kind == Kind::CutCache { format!(", {} KiB lost", lost * 4) } else { String::new() }
            }
        }
    }

    /// What a killed program left in the live system.
    fn leftovers(&mut self) -> Vec<String> {
        let found = self.ask(
            "sync
            grep /dev/vd /proc/mounts
            ls /sys/block | grep -E '^(dm-|md)'
            ls -d /sys/block/vd*/holders/* /sys/block/vd*/vd*/holders/* 2>/dev/null
            cat /sys/block/loop*/loop/backing_file 2>/dev/null
            pidof landfall
            :",
        );
        found.lines().map(|line| format!("left in the live system: {line}")).collect()
    }
}

/// The shell of a machine that is on, and its network.
fn power_on(vm: &mut Vm) -> Shell {
    let mut shell = vm.shell(LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let network = "for path in /sys/class/net/e*; do name=${path##*/}
        ip addr add 10.0.2.15/24 dev $name && ip link set $name up || exit 1; done";
    shell.run(network, SCRIPT_LIMIT).unwrap_or_else(|error| panic!("{error}"));
    shell
}

/// An empty record of writes; QEMU's driver doesn't make it longer.
fn renew(log: &PathBuf) {
    File::create(log).unwrap().set_len(LOG_BYTES).unwrap();
}

/// A disk as its last owner left it: a system that boots, and behind it, if asked for, a partition full of noise.
pub(crate) fn prepare(dir: &TempDir, path: &PathBuf, system: &System, config: &str, keeps: bool) -> Vec<u8> {
    let run = |program: &str, args: &[&str], stdin: Option<File>| {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(args).env("PATH", format!("{path}:/usr/sbin:/sbin"));
        if let Some(stdin) = stdin {
            command.stdin(stdin);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    fs::write(path, &*system.image).unwrap();
    File::options().write(true).open(path).unwrap().set_len(u64::try_from(DISK_BYTES).unwrap()).unwrap();
    let disk = path.to_str().unwrap();
    let (file, script) = (dir.path().join("config.ign"), dir.path().join("debugfs"));
    fs::write(&file, config).unwrap();
    fs::write(&script, format!("mkdir ignition\ncd ignition\nwrite {} config.ign\n", file.display())).unwrap();
    let boot = format!("{disk}?offset={}", system.boot.start);
    run("debugfs", &["-w", "-f", "/dev/stdin", &boot], Some(File::open(script).unwrap()));
    run("sgdisk", &["-e", disk], None);
    if keeps {
        let (start, name) = (DISK_BYTES - 20 * MIB, format!("9:{}", medium::KEPT));
        run("sgdisk", &[&format!("--new=9:{}:+16M", start / 512), "-c", &name, disk], None);
        let mut noise = vec![0; 16 * MIB];
        fastrand::Rng::with_seed(7).fill(&mut noise);
        let mut medium = fs::read(path).unwrap();
        medium[start..start + noise.len()].copy_from_slice(&noise);
        fs::write(path, medium).unwrap();
    }
    fs::read(path).unwrap()
}

fn config(word: &str) -> String {
    json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [
        {"path": "/etc/word", "contents": {"source": format!("data:,{}", word.replace([' ', '%'], "-"))}}
    ]}})
    .to_string()
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}
