//! One virtual machine: a QEMU process, its console, its control socket.

use crate::{
    accel::{self, QEMU},
    paths,
    process::Process,
    qmp::{Qmp, QmpError},
    serial::{Fate, Marker, Serial},
};
use api::Mac;
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

const OVMF_CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const OVMF_VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";
/// QEMU makes its control socket before it runs a guest instruction; this is for a machine under load.
const QMP_LIMIT: Duration = Duration::from_secs(60);

/// What went wrong with a machine. Each says where its console log is.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The host lacks something.
    #[error("{vm}: {what} {}: {hint}", path.display())]
    Missing {
        /// Machine.
        vm: String,
        /// What is missing.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// QEMU didn't start.
    #[error("{vm}: cannot start {QEMU}; is qemu-system-x86 installed?")]
    Spawn {
        /// Machine.
        vm: String,
        /// Cause.
        source: io::Error,
    },
    /// A file of ours could not be made.
    #[error("{vm}: cannot prepare {}", path.display())]
    Prepare {
        /// Machine.
        vm: String,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The control socket failed.
    #[error("{vm}: the control socket failed{}", .state)]
    Control {
        /// Machine.
        vm: String,
        /// Console and log.
        state: Box<ConsoleState>,
        /// Cause.
        source: QmpError,
    },
    /// The marker didn't come.
    #[error("{vm}: '{wanted}' was not seen on the console within {} s{state}", limit.as_secs())]
    NoMarker {
        /// Machine.
        vm: String,
        /// What was waited for.
        wanted: String,
        /// For how long.
        limit: Duration,
        /// Console and log.
        state: Box<ConsoleState>,
    },
    /// QEMU ended while the machine was still needed. An exit status of 0 is no success: guests that panic give it too.
    #[error("{vm}: QEMU ended ({status}){state}")]
    Ended {
        /// Machine.
        vm: String,
        /// Its exit status.
        status: String,
        /// Console and log.
        state: Box<ConsoleState>,
    },
    /// The guest's kernel panicked.
    #[error("{vm}: the guest panicked: {line}{state}")]
    Panicked {
        /// Machine.
        vm: String,
        /// The console line.
        line: String,
        /// Console and log.
        state: Box<ConsoleState>,
    },
}

/// The console's last lines and where the whole is; the second half of error messages.
pub struct ConsoleState {
    log: PathBuf,
    tail: Vec<String>,
    markers: Vec<Marker>,
    qemu: String,
}

/// As text too, since a test's `unwrap` prints this.
impl fmt::Debug for ConsoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConsoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.qemu.is_empty() {
            write!(f, "\n  QEMU said: {}", self.qemu.replace('\n', "\n             "))?;
        }
        match self.markers.last() {
            Some(marker) => write!(f, "\n  last marker, at {:.1} s: {}", marker.at.as_secs_f64(), marker.text)?,
            None => f.write_str("\n  no marker was seen")?,
        }
        f.write_str("\n  console ends:")?;
        for line in &self.tail {
            write!(f, "\n    {line}")?;
        }
        write!(f, "\n  whole console: {}", self.log.display())
    }
}

/// What the machine starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Firmware {
    /// SeaBIOS.
    #[default]
    Bios,
    /// OVMF, with variables of its own.
    Uefi,
}

/// A virtio disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// A raw image; made sparse with `size_bytes` when it doesn't exist.
    pub path: PathBuf,
    /// Bytes.
    pub size_bytes: u64,
    /// What the guest reads as serial number, up to 20 characters.
    pub serial: String,
    /// Logical and physical: 512 or 4096.
    pub sector_bytes: u32,
}

/// A network interface.
#[derive(Clone, Debug)]
pub struct Nic {
    /// Its address.
    pub mac: Mac,
    /// Socket of a switch port (see [`crate::switch::Switch::add_port`]).
    pub port: PathBuf,
}

/// A kernel started without a boot loader.
#[derive(Clone, Debug)]
pub struct DirectKernel {
    /// bzImage.
    pub kernel: PathBuf,
    /// Archive.
    pub initrd: PathBuf,
    /// Command line.
    pub arguments: String,
}

/// A machine to be.
#[derive(Clone, Debug)]
pub struct VmBuilder {
    name: String,
    run: String,
    memory_mib: u32,
    firmware: Firmware,
    disks: Vec<Disk>,
    iso: Option<PathBuf>,
    nics: Vec<Nic>,
    uuid: Option<String>,
    serial: Option<String>,
    kernel: Option<DirectKernel>,
    reboot: bool,
}

impl VmBuilder {
    /// MiB of memory, 512 unless told.
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// BIOS unless told.
    pub fn firmware(mut self, firmware: Firmware) -> Self {
        self.firmware = firmware;
        self
    }

    /// One more disk. Disks are tried for booting in this order, before the ISO: blank ones are passed over.
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disks.push(disk);
        self
    }

    /// A CD in an IDE drive.
    pub fn iso(mut self, iso: impl Into<PathBuf>) -> Self {
        self.iso = Some(iso.into());
        self
    }

    /// One more interface (`net0`, `net1`, … for [`Vm::set_link`]).
    pub fn nic(mut self, mac: Mac, port: impl Into<PathBuf>) -> Self {
        self.nics.push(Nic { mac, port: port.into() });
        self
    }

    /// The SMBIOS system UUID and serial number.
    pub fn identity(mut self, uuid: impl Into<String>, serial: impl Into<String>) -> Self {
        (self.uuid, self.serial) = (Some(uuid.into()), Some(serial.into()));
        self
    }

    /// Boot this kernel directly.
    pub fn kernel(mut self, kernel: DirectKernel) -> Self {
        self.kernel = Some(kernel);
        self
    }

    /// Whether a guest's reboot starts it again in the same process (the default) or ends the process.
    pub fn reboot(mut self, reboot: bool) -> Self {
        self.reboot = reboot;
        self
    }

    /// Starts it.
    pub fn start(self) -> Result<Vm, VmError> {
        Vm::start(self)
    }

    fn arguments(&self, qmp: &Path, vars: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| args.extend([name.into(), value]);
        add("-name", self.name.clone().into());
        add("-accel", accel::choose().argument().into());
        for (name, value) in
            [("-machine", "pc"), ("-cpu", "max"), ("-smp", "1"), ("-display", "none"), ("-serial", "stdio")]
        {
            add(name, value.into());
        }
        add("-m", self.memory_mib.to_string().into());
        add("-qmp", with_path("unix:", qmp, ",server=on,wait=off"));
        if let Some(uuid) = &self.uuid {
            add("-uuid", uuid.into());
        }
        if let Some(serial) = &self.serial {
            add("-smbios", format!("type=1,manufacturer=Landfall,product=Test machine,serial={serial}").into());
        }
        if self.firmware == Firmware::Uefi {
            add("-drive", with_path("if=pflash,format=raw,unit=0,readonly=on,file=", Path::new(OVMF_CODE), ""));
            add("-drive", with_path("if=pflash,format=raw,unit=1,file=", vars, ""));
        }
        for (index, disk) in self.disks.iter().enumerate() {
            // The host's page cache outlives QEMU, so "unsafe" risks a disk only when the host itself goes down.
            add(
                "-drive",
                with_path(
                    &format!("if=none,id=disk{index},format=raw,cache=unsafe,discard=unmap,file="),
                    &disk.path,
                    "",
                ),
            );
            let (serial, sector, boot) = (&disk.serial, disk.sector_bytes, index + 1);
            let sectors = format!("logical_block_size={sector},physical_block_size={sector}");
            add(
                "-device",
                format!("virtio-blk-pci,drive=disk{index},serial={serial},{sectors},bootindex={boot}").into(),
            );
        }
        if let Some(iso) = &self.iso {
            add("-drive", with_path("if=none,id=cd,media=cdrom,format=raw,readonly=on,file=", iso, ""));
            add("-device", format!("ide-cd,drive=cd,bootindex={}", self.disks.len() + 1).into());
        }
        for (index, nic) in self.nics.iter().enumerate() {
            add(
                "-netdev",
                with_path(&format!("stream,id=net{index},server=off,addr.type=unix,addr.path="), &nic.port, ""),
            );
            add("-device", format!("virtio-net-pci,netdev=net{index},mac={},romfile=", nic.mac).into());
        }
        if let Some(direct) = &self.kernel {
            add("-kernel", direct.kernel.clone().into());
            add("-initrd", direct.initrd.clone().into());
            add("-append", direct.arguments.clone().into());
        }
        args.push("-nodefaults".into());
        if !self.reboot {
            args.push("-no-reboot".into());
        }
        args
    }
}

/// An option value that ends in a path; QEMU wants commas in it doubled.
fn with_path(before: &str, path: &Path, after: &str) -> OsString {
    let mut value = OsString::from(before);
    value.push(path.to_string_lossy().replace(',', ",,"));
    value.push(after);
    value
}

/// A running machine. Dropping it is pulling its plug.
#[derive(Debug)]
pub struct Vm {
    config: VmBuilder,
    process: Process,
    serial: Serial,
    qmp: Option<Qmp>,
    dir: tempfile::TempDir,
    log: PathBuf,
    retried: bool,
}

impl Vm {
    /// A machine to be; its console goes to `<target>/vm/logs/<run>/<name>.log`.
    pub fn builder(run: impl Into<String>, name: impl Into<String>) -> VmBuilder {
        VmBuilder {
            name: name.into(),
            run: run.into(),
            memory_mib: 512,
            firmware: Firmware::Bios,
            disks: Vec::new(),
            iso: None,
            nics: Vec::new(),
            uuid: None,
            serial: None,
            kernel: None,
            reboot: true,
        }
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
                hint: "build the test images first",
                source,
            })?;
        }
        let logs = paths::log_dir(&config.run).map_err(prepare(&paths::target_dir()))?;
        let dir = paths::socket_dir().map_err(prepare(&std::env::temp_dir()))?;
        if config.firmware == Firmware::Uefi {
            std::fs::copy(OVMF_VARS, dir.path().join("vars.fd")).map_err(|source| VmError::Missing {
                vm: vm.clone(),
                what: "cannot copy the UEFI variables",
                path: OVMF_VARS.into(),
                hint: "install the package ovmf",
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
        let (process, serial) = launch(&config, dir.path(), &log)?;
        Ok(Self { config, process, serial, qmp: None, dir, log, retried: false })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The console log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its disks, in order.
    pub fn disks(&self) -> &[Disk] {
        &self.config.disks
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

    /// Fails when the guest panicked or QEMU is gone. The timer panic of TCG is cured by one new start, and then the answer
    /// is true: the machine is at its beginning again.
    pub fn check(&mut self) -> Result<bool, VmError> {
        let fate = self.serial.fate();
        if fate == Fate::TimerPanic && !self.retried {
            tracing::warn!(vm = self.config.name, "the guest's kernel missed its timer, starting it once more");
            self.retried = true;
            self.restart()?;
            return Ok(true);
        }
        match fate {
            Fate::Running => Ok(false),
            Fate::Panic(line) => Err(VmError::Panicked { vm: self.config.name.clone(), line, state: self.state() }),
            Fate::TimerPanic => {
                let line = "IO-APIC + timer doesn't work, twice".to_owned();
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
        let wait = |source| VmError::Spawn { vm: self.config.name.clone(), source };
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

    /// Pulls the plug and switches on again; disks and UEFI variables stay.
    pub fn restart(&mut self) -> Result<(), VmError> {
        let _ = self.process.kill();
        self.qmp = None;
        (self.process, self.serial) = launch(&self.config, self.dir.path(), &self.log)?;
        Ok(())
    }

    /// Pulls the plug.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Presses the power button.
    pub fn power_down(&mut self) -> Result<(), VmError> {
        self.qmp("system_powerdown", json!({})).map(drop)
    }

    /// Ends QEMU in order.
    pub fn quit(&mut self) -> Result<(), VmError> {
        self.qmp("quit", json!({})).map(drop)
    }

    /// Plugs the cable of interface `index` in or out.
    pub fn set_link(&mut self, index: usize, up: bool) -> Result<(), VmError> {
        self.qmp("set_link", json!({ "name": format!("net{index}"), "up": up })).map(drop)
    }

    /// QEMU's word for the machine's state: `running`, `paused`, `shutdown`, …
    pub fn status(&mut self) -> Result<String, VmError> {
        let answer = self.qmp("query-status", json!({}))?;
        Ok(answer.get("status").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    fn qmp(&mut self, command: &str, arguments: Value) -> Result<Value, VmError> {
        let path = self.dir.path().join("qmp");
        let result = match &mut self.qmp {
            Some(qmp) => qmp.execute(command, arguments),
            None => Qmp::connect(&path, QMP_LIMIT).and_then(|qmp| self.qmp.insert(qmp).execute(command, arguments)),
        };
        result.map_err(|source| VmError::Control { vm: self.config.name.clone(), state: self.state(), source })
    }

    fn exit_status(&mut self) -> String {
        match self.process.wait(Duration::from_secs(5)) {
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
    let qmp = dir.join("qmp");
    // QEMU refuses to listen where an old socket lies only in some versions; away with it.
    let _ = std::fs::remove_file(&qmp);
    let mut command = Command::new(QEMU);
    command.args(config.arguments(&qmp, &dir.join("vars.fd")));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    tracing::debug!(vm = config.name, ?command, "starting");
    let spawn = |source| VmError::Spawn { vm: config.name.clone(), source };
    let started = Instant::now();
    let mut process = Process::spawn(command).map_err(spawn)?;
    let output = process.take_stdout().ok_or_else(|| spawn(io::Error::other("no stdout")))?;
    Ok((process, Serial::follow(output, console, started)))
}
