//! One virtual machine: a QEMU process, its console, its control socket.

mod config;
mod error;

pub use config::{Bus, DirectKernel, Disk, Firmware, Nic, VmBuilder, with_path};
pub use error::{ConsoleState, VmError};

use crate::{
    paths,
    process::Process,
    qmp::Qmp,
    serial::{Fate, Marker, Serial},
    shell::Shell,
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// The machine's files in its own directory.
mod paths_in {
    pub(super) const QMP: &str = "qmp";
    pub(super) const UEFI_VARIABLES: &str = "vars.fd";
    pub(super) const TPM: &str = "tpm";
    pub(super) const TPM_STATE: &str = "tpm-state";
    pub(super) const SHELL: &str = "shell";
}

/// QEMU makes its control socket before it runs a guest instruction; this is for a machine under load.
const QMP_LIMIT: Duration = Duration::from_secs(300);
/// Likewise: swtpm listens as soon as it runs.
const TPM_LIMIT: Duration = Duration::from_secs(300);

/// A running machine. Dropping it cuts its power.
#[derive(Debug)]
pub struct Vm {
    config: VmBuilder,
    process: Process,
    serial: Serial,
    tpm: Option<Process>,
    qmp: Option<Qmp>,
    dir: tempfile::TempDir,
    log: PathBuf,
    retried: bool,
}

impl Vm {
    /// A machine to be; its console goes to `<target>/vm/logs/<run>/<name>.log`.
    pub fn builder(run: impl Into<String>, name: impl Into<String>) -> VmBuilder {
        VmBuilder::new(run.into(), name.into())
    }

    fn start(config: VmBuilder) -> Result<Self, VmError> {
        let vm = config.name.clone();
        let prepare = |path: &Path| {
            let (vm, path) = (vm.clone(), path.to_owned());
            move |source| VmError::Prepare { vm, path, source }
        };
        for path in config.iso.iter().chain(config.kernel.iter().flat_map(|direct| [&direct.kernel, &direct.initrd])) {
            File::open(path).map_err(|source| VmError::Missing {
                vm: vm.clone(),
                what: "cannot read",
                path: path.clone(),
                hint: "build the test images first".to_owned(),
                source,
            })?;
        }
        let logs = paths::log_dir(&config.run).map_err(prepare(&paths::target_dir()))?;
        let dir = paths::socket_dir().map_err(prepare(&std::env::temp_dir()))?;
        if let Some((_, variables)) = config.firmware.uefi(config.arch) {
            let copied = std::fs::copy(variables, dir.path().join(paths_in::UEFI_VARIABLES));
            copied.map_err(|source| VmError::Missing {
                vm: vm.clone(),
                what: "cannot copy the UEFI variables",
                path: variables.into(),
                hint: format!("install the package {}", config.arch.uefi_package),
                source,
            })?;
        }
        for disk in &config.disks {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&disk.path)
                .map_err(prepare(&disk.path))?;
            if file.metadata().map_err(prepare(&disk.path))?.len() == 0 {
                file.set_len(disk.size_bytes).map_err(prepare(&disk.path))?;
            }
        }
        let log = logs.join(format!("{vm}.log"));
        // A new run's log starts empty; a second start of the same run adds to it.
        for path in [log.clone(), log.with_extension("qemu.log")] {
            File::create(&path).map_err(prepare(&path))?;
        }
        let tpm = start_tpm(&config, dir.path(), &log)?;
        let (process, serial) = launch(&config, dir.path(), &log)?;
        Ok(Self { config, process, serial, tpm, qmp: None, dir, log, retried: false })
    }

    pub fn name(&self) -> &str {
        &self.config.name
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its disks, in order.
    pub fn disks(&self) -> &[Disk] {
        &self.config.disks
    }

    /// Since the last start of the process, which [`Marker::at`] is counted from.
    pub fn uptime(&self) -> Duration {
        self.serial.elapsed()
    }

    /// All markers since the last start of the process, reboots included.
    pub fn markers(&self) -> Vec<Marker> {
        self.serial.markers()
    }

    /// Waits for a marker that starts with `wanted`.
    pub fn wait_for(&mut self, wanted: &str, limit: Duration) -> Result<Marker, VmError> {
        self.wait_for_after(0, wanted, limit).map(|(_, marker)| marker)
    }

    /// Waits for such a marker at index `from` of [`Vm::markers`] or later; gives its index too. After a reboot the same
    /// words come again.
    pub fn wait_for_after(&mut self, from: usize, wanted: &str, limit: Duration) -> Result<(usize, Marker), VmError> {
        loop {
            if let Some(found) = self.serial.wait(from, limit, |marker| marker.text.starts_with(wanted)) {
                return Ok(found);
            }
            if !self.check()? {
                let (vm, state) = (self.config.name.clone(), self.state());
                return Err(VmError::NoMarker { vm, wanted: wanted.to_owned(), limit, state });
            }
        }
    }

    /// Fails when the guest panicked or QEMU is gone. After a timer panic of TCG it is started once more, and then the
    /// answer is true: the machine starts from the beginning.
    pub fn check(&mut self) -> Result<bool, VmError> {
        let fate = self.serial.fate();
        if fate == Fate::TimerPanic && !self.retried {
            tracing::warn!(vm = self.config.name, "the guest's kernel missed its timer; starting it again");
            self.retried = true;
            self.restart()?;
            return Ok(true);
        }
        match fate {
            Fate::Running => Ok(false),
            Fate::Panic(line) => Err(VmError::Panicked { vm: self.config.name.clone(), line, state: self.state() }),
            Fate::TimerPanic => {
                let line = "its timer doesn't work, twice".to_owned();
                Err(VmError::Panicked { vm: self.config.name.clone(), line, state: self.state() })
            }
            Fate::Ended => {
                let status = self.exit_status();
                Err(VmError::Ended { vm: self.config.name.clone(), status, state: self.state() })
            }
        }
    }

    /// Waits until QEMU has ended (guest power-off; reboot, without [`VmBuilder::reboot`]).
    pub fn wait_end(&mut self, limit: Duration) -> Result<ExitStatus, VmError> {
        let wait = |source| self.config.not_started(source);
        match self.process.wait(limit).map_err(wait)? {
            Some(status) => Ok(status),
            None => Err(VmError::NoMarker {
                vm: self.config.name.clone(),
                wanted: "power-off".into(),
                limit,
                state: self.state(),
            }),
        }
    }

    /// Cuts the power and switches on again; disks and UEFI variables stay.
    pub fn restart(&mut self) -> Result<(), VmError> {
        let _ = self.process.kill();
        self.qmp = None;
        self.tpm = start_tpm(&self.config, self.dir.path(), &self.log)?;
        (self.process, self.serial) = launch(&self.config, self.dir.path(), &self.log)?;
        Ok(())
    }

    /// The shell of a machine that runs [`crate::images::shell_system`], once it is ready.
    pub fn shell(&mut self, limit: Duration) -> Result<Shell, VmError> {
        self.wait_for("shell", limit)?;
        let path = self.dir.path().join(paths_in::SHELL);
        Shell::connect(&path).map_err(|source| VmError::Prepare { vm: self.config.name.clone(), path, source })
    }

    /// Cuts the power.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Presses the power button.
    pub fn power_down(&mut self) -> Result<(), VmError> {
        self.execute("system_powerdown", json!({})).map(drop)
    }

    /// Ends QEMU cleanly.
    pub fn quit(&mut self) -> Result<(), VmError> {
        self.execute("quit", json!({})).map(drop)
    }

    /// Plugs the cable of interface `index` in or out.
    pub fn set_link(&mut self, index: usize, up: bool) -> Result<(), VmError> {
        self.execute("set_link", json!({ "name": format!("net{index}"), "up": up })).map(drop)
    }

    /// The machine's state as QEMU reports it: `running`, `paused`, `shutdown`, …
    pub fn status(&mut self) -> Result<String, VmError> {
        let answer = self.execute("query-status", json!({}))?;
        Ok(answer.get("status").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Any other command of QEMU's control socket.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, VmError> {
        let path = self.dir.path().join(paths_in::QMP);
        let result = match &mut self.qmp {
            Some(qmp) => qmp.execute(command, arguments),
            None => Qmp::connect(&path, QMP_LIMIT).and_then(|qmp| self.qmp.insert(qmp).execute(command, arguments)),
        };
        result.map_err(|source| VmError::Control { vm: self.config.name.clone(), state: self.state(), source })
    }

    fn exit_status(&mut self) -> String {
        match self.process.wait(Duration::from_secs(60)) {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "its console closed, but it still runs".to_owned(),
            Err(error) => format!("exit status unknown: {error}"),
        }
    }

    fn state(&self) -> Box<ConsoleState> {
        let qemu = std::fs::read_to_string(self.log.with_extension("qemu.log")).unwrap_or_default();
        Box::new(ConsoleState {
            log: self.log.clone(),
            tail: self.serial.tail(),
            markers: self.serial.markers(),
            qemu: qemu.trim().to_owned(),
        })
    }
}

/// A TPM with nothing in it; it ends when the QEMU that connected to it does.
fn start_tpm(config: &VmBuilder, dir: &Path, log: &Path) -> Result<Option<Process>, VmError> {
    if !config.tpm {
        return Ok(None);
    }
    let (socket, state, log) = (dir.join(paths_in::TPM), dir.join(paths_in::TPM_STATE), log.with_extension("tpm.log"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| VmError::Prepare { vm: config.name.clone(), path, source }
    };
    for old in [&socket, &state] {
        let _ = if old.is_dir() { std::fs::remove_dir_all(old) } else { std::fs::remove_file(old) };
    }
    std::fs::create_dir(&state).map_err(failed(&state))?;
    let mut command = Command::new("swtpm");
    command.args(["socket", "--tpm2", "--tpmstate"]).arg(with_path("dir=", &state, ""));
    command.arg("--ctrl").arg(with_path("type=unixio,path=", &socket, ""));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).map_err(failed(&log))?);
    let mut process = Process::spawn(command).map_err(|source| VmError::Missing {
        vm: config.name.clone(),
        what: "cannot start",
        path: "swtpm".into(),
        hint: "install the package swtpm".to_owned(),
        source,
    })?;
    let deadline = Instant::now() + TPM_LIMIT;
    while !socket.exists() {
        let ended = process.ended().map_err(failed(&socket))?;
        if ended.is_some() || Instant::now() >= deadline {
            return Err(failed(&log)(io::Error::other("swtpm does not listen")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Some(process))
}

fn launch(config: &VmBuilder, dir: &Path, log: &Path) -> Result<(Process, Serial), VmError> {
    let open = |path: PathBuf| {
        File::options().create(true).append(true).open(&path).map_err(|source| VmError::Prepare {
            vm: config.name.clone(),
            path,
            source,
        })
    };
    let console = open(log.to_owned())?;
    let errors = open(log.with_extension("qemu.log"))?;
    // Some versions of QEMU don't listen where an old socket exists, so it is removed.
    for socket in [paths_in::QMP, paths_in::SHELL] {
        let _ = std::fs::remove_file(dir.join(socket));
    }
    let mut command = Command::new(config.arch.qemu);
    command.args(config.arguments(dir));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    tracing::debug!(vm = config.name, ?command, "starting");
    let spawn = |source| config.not_started(source);
    let started = Instant::now();
    let mut process = Process::spawn(command).map_err(spawn)?;
    let output = process.take_stdout().ok_or_else(|| spawn(io::Error::other("no stdout")))?;
    Ok((process, Serial::follow(output, console, started)))
}
