//! The configuration of a machine, and QEMU's arguments for it.

use super::{Vm, VmError, paths_in};
use crate::{
    accel::{self, Accel},
    arch::Arch,
};
use api::{Mac, Timestamp};
use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

/// The date that tests run at, where that is not the host's: a date or an RFC 3339 time in UTC.
const TEST_DATE: &str = "LANDFALL_TEST_DATE";
/// How much later a run of tests still starts machines.
const LONGEST_RUN_S: i64 = 86_400;

/// What the machine starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Firmware {
    /// SeaBIOS; on a processor without BIOS the same as UEFI.
    #[default]
    Bios,
    /// EDK II, with its own variables.
    Uefi,
    /// EDK II for x86_64 that checks what it starts against Microsoft's keys; needs the machine `q35,smm=on`.
    UefiSecure,
}

impl Firmware {
    /// UEFI's program and the variables it begins with.
    pub(super) fn uefi(self, arch: Arch) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bios if arch.has_bios => None,
            Self::Bios | Self::Uefi => Some(arch.uefi),
            Self::UefiSecure => Some(("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd")),
        }
    }
}

/// What a disk is attached to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bus {
    /// virtio-blk.
    #[default]
    Virtio,
    /// A separate NVMe controller.
    Nvme,
    /// A separate virtio SCSI host adapter.
    Scsi,
    /// A separate AHCI controller.
    Sata,
}

impl Bus {
    /// QEMU's devices for disk number `index`; the disk itself comes last.
    fn devices(self, index: usize) -> Vec<String> {
        match self {
            Self::Virtio => vec!["virtio-blk-pci".to_owned()],
            Self::Nvme => vec!["nvme".to_owned()],
            Self::Scsi => vec![format!("virtio-scsi-pci,id=scsi{index}"), format!("scsi-hd,bus=scsi{index}.0")],
            Self::Sata => vec![format!("ich9-ahci,id=ahci{index}"), format!("ide-hd,bus=ahci{index}.0")],
        }
    }
}

#[derive(Clone, Debug)]
pub struct Disk {
    /// A raw image; made sparse with `size_bytes` when it doesn't exist.
    pub path: PathBuf,
    pub size_bytes: u64,
    /// What the guest reads as serial number, up to 20 characters.
    pub serial: String,
    /// Logical and physical: 512 or 4096.
    pub sector_bytes: u32,
    /// What it is attached to.
    pub bus: Bus,
}

impl Disk {
    /// One with sectors of 512 bytes on virtio.
    pub fn virtio(path: impl Into<PathBuf>, serial: &str, size_bytes: u64) -> Self {
        Self { path: path.into(), size_bytes, serial: serial.to_owned(), sector_bytes: 512, bus: Bus::Virtio }
    }
}

#[derive(Clone, Debug)]
pub struct Nic {
    pub mac: Mac,
    /// Socket of a switch port (see [`crate::switch::Switch::add_port`]).
    pub port: PathBuf,
}

/// A kernel started without a boot loader.
#[derive(Clone, Debug)]
pub struct DirectKernel {
    /// bzImage.
    pub kernel: PathBuf,
    pub initrd: PathBuf,
    pub arguments: String,
}

/// A machine to be.
#[derive(Clone, Debug)]
pub struct VmBuilder {
    pub(super) name: String,
    pub(super) run: String,
    pub(super) arch: Arch,
    machine: Option<String>,
    processors: String,
    memory_mib: u32,
    pub(super) firmware: Firmware,
    pub(super) disks: Vec<Disk>,
    pub(super) iso: Option<PathBuf>,
    iso_first: bool,
    nics: Vec<Nic>,
    netboot: bool,
    uuid: Option<String>,
    serial: Option<String>,
    pub(super) kernel: Option<DirectKernel>,
    pub(super) tpm: bool,
    shell: bool,
    virtual_time: bool,
    more: Vec<OsString>,
    reboot: bool,
}

impl VmBuilder {
    pub(super) fn new(run: String, name: String) -> Self {
        Self {
            name,
            run,
            arch: Arch::default(),
            machine: None,
            processors: "1".to_owned(),
            memory_mib: 512,
            firmware: Firmware::Bios,
            disks: Vec::new(),
            iso: None,
            iso_first: false,
            nics: Vec::new(),
            netboot: false,
            uuid: None,
            serial: None,
            kernel: None,
            tpm: false,
            shell: false,
            virtual_time: false,
            more: Vec::new(),
            reboot: true,
        }
    }

    /// MiB of memory, default 512.
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Its processor, default x86_64.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// QEMU's `-machine`; default `pc`, or what its processor has instead.
    pub fn machine(mut self, machine: impl Into<String>) -> Self {
        self.machine = Some(machine.into());
        self
    }

    /// QEMU's `-smp`, default one processor.
    pub fn processors(mut self, processors: impl Into<String>) -> Self {
        self.processors = processors.into();
        self
    }

    /// Default BIOS.
    pub fn firmware(mut self, firmware: Firmware) -> Self {
        self.firmware = firmware;
        self
    }

    /// One more disk. Disks are tried for booting in this order, before the ISO: blank ones are skipped.
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disks.push(disk);
        self
    }

    /// A CD in a drive.
    pub fn iso(mut self, iso: impl Into<PathBuf>) -> Self {
        self.iso = Some(iso.into());
        self
    }

    /// The CD comes before the disks in the firmware's order, which in UEFI is restored at every start: only BootNext
    /// precedes it.
    pub fn iso_first(mut self, first: bool) -> Self {
        self.iso_first = first;
        self
    }

    /// One more interface (`net0`, `net1`, … for [`Vm::set_link`]).
    pub fn nic(mut self, mac: Mac, port: impl Into<PathBuf>) -> Self {
        self.nics.push(Nic { mac, port: port.into() });
        self
    }

    /// The firmware boots from the first interface, with iPXE, if no disk and no CD boots first.
    pub fn netboot(mut self) -> Self {
        self.netboot = true;
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

    /// A TPM 2.0, new at each start of the process.
    pub fn tpm(mut self) -> Self {
        self.tpm = true;
        self
    }

    /// The port that [`Vm::shell`] needs.
    pub fn shell(mut self) -> Self {
        self.shell = true;
        self
    }

    /// The guest's clocks count its instructions, and jump to the next timer when it has nothing to do: what it measures between
    /// its own parts does not depend on how busy the host is. Under KVM they run as usual, which suffices.
    ///
    /// They also jump while the guest waits for the outside: a guest must not wait for that with a time-out.
    pub fn virtual_time(mut self) -> Self {
        self.virtual_time = true;
        self
    }

    /// Any other hardware, as an option of QEMU (`-device`) and its value.
    pub fn with(mut self, option: &str, value: impl Into<OsString>) -> Self {
        self.more.extend([option.into(), value.into()]);
        self
    }

    /// Whether a guest's reboot starts it again in the same process (the default) or ends the process.
    pub fn reboot(mut self, reboot: bool) -> Self {
        self.reboot = reboot;
        self
    }

    pub fn start(self) -> Result<Vm, VmError> {
        Vm::start(self)
    }

    pub(super) fn not_started(&self, source: io::Error) -> VmError {
        VmError::Spawn { vm: self.name.clone(), qemu: self.arch.qemu, package: self.arch.qemu_package, source }
    }

    /// QEMU's arguments; its sockets and its UEFI variables are in `dir`.
    pub(super) fn arguments(&self, dir: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| args.extend([name.into(), value]);
        add("-name", self.name.clone().into());
        let accel = accel::choose_for(self.arch);
        if accel == Accel::Tcg && self.virtual_time {
            // One nanosecond an instruction.
            add("-icount", "shift=0,sleep=off".into());
        }
        add("-accel", accel.argument().into());
        add("-machine", self.machine.as_deref().unwrap_or(self.arch.machine).into());
        add("-smp", self.processors.clone().into());
        for (name, value) in [("-cpu", self.arch.cpu), ("-display", "none"), ("-serial", "stdio")] {
            add(name, value.into());
        }
        add("-m", self.memory_mib.to_string().into());
        add("-qmp", with_path("unix:", &dir.join(paths_in::QMP), ",server=on,wait=off"));
        if let Ok(date) = env::var(TEST_DATE) {
            add("-rtc", clock(&date, Timestamp::now()).into());
        }
        if let Some(uuid) = &self.uuid {
            add("-uuid", uuid.into());
        }
        if let Some(serial) = &self.serial {
            add("-smbios", format!("type=1,manufacturer=Landfall,product=Test machine,serial={serial}").into());
        }
        if let Some((code, _)) = self.firmware.uefi(self.arch) {
            add("-drive", with_path("if=pflash,format=raw,unit=0,readonly=on,file=", Path::new(code), ""));
            add("-drive", with_path("if=pflash,format=raw,unit=1,file=", &dir.join(paths_in::UEFI_VARIABLES), ""));
        }
        if self.tpm {
            add("-chardev", with_path("socket,id=tpm,path=", &dir.join(paths_in::TPM), ""));
            add("-tpmdev", "emulator,id=tpm,chardev=tpm".into());
            add("-device", format!("{},tpmdev=tpm", self.arch.tpm_device).into());
        }
        if self.shell {
            add("-device", "virtio-serial-pci".into());
            add("-chardev", with_path("socket,id=shell,server=on,wait=off,path=", &dir.join(paths_in::SHELL), ""));
            add("-device", "virtserialport,chardev=shell,name=shell".into());
        }
        for (index, disk) in self.disks.iter().enumerate() {
            // The host's page cache outlives QEMU, so "unsafe" risks a disk only if the host itself crashes.
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
            let mut devices = disk.bus.devices(index);
            let device = devices.pop().unwrap_or_default();
            for adapter in devices {
                add("-device", adapter.into());
            }
            add("-device", format!("{device},drive=disk{index},serial={serial},{sectors},bootindex={boot}").into());
        }
        if let Some(iso) = &self.iso {
            add("-drive", with_path("if=none,id=cd,media=cdrom,format=raw,readonly=on,file=", iso, ""));
            let boot = if self.iso_first { 0 } else { self.disks.len() + 1 };
            if let Some((drive, adapters)) = self.arch.cd_devices.split_last() {
                for adapter in adapters {
                    add("-device", adapter.into());
                }
                add("-device", format!("{drive},drive=cd,bootindex={boot}").into());
            }
        }
        for (index, nic) in self.nics.iter().enumerate() {
            add(
                "-netdev",
                with_path(&format!("stream,id=net{index},server=off,addr.type=unix,addr.path="), &nic.port, ""),
            );
            // With QEMU's own ROM for it, or none.
            let boot = if self.netboot && index == 0 {
                format!("bootindex={}", self.disks.len() + 2)
            } else {
                "romfile=".to_owned()
            };
            add("-device", format!("virtio-net-pci,netdev=net{index},mac={},{boot}", nic.mac).into());
        }
        if let Some(direct) = &self.kernel {
            add("-kernel", direct.kernel.clone().into());
            add("-initrd", direct.initrd.clone().into());
            add("-append", direct.arguments.clone().into());
        }
        args.extend(self.more.iter().cloned());
        args.push("-nodefaults".into());
        if !self.reboot {
            args.push("-no-reboot".into());
        }
        args
    }
}

/// Where the guest's clock begins. If this program's began at the same date (`.ci/at-date`), it is what that shows by now, so that the
/// guest and the services it meets agree. A date that is none is QEMU's to refuse.
fn clock(date: &str, now: Timestamp) -> String {
    let date = date.strip_suffix('Z').unwrap_or(date);
    let midnight = if date.contains('T') { "Z" } else { "T00:00:00Z" };
    let began = serde_json::from_value::<Timestamp>(format!("{date}{midnight}").into());
    let runs = began.is_ok_and(|began| (0..LONGEST_RUN_S).contains(&now.seconds_since(began)));
    let now = now.to_string();
    format!("base={}", if runs { now.split('.').next().unwrap_or_default() } else { date })
}

/// An option value with a path in it; QEMU wants commas there doubled.
pub fn with_path(before: &str, path: &Path, after: &str) -> OsString {
    let mut value = OsString::from(before);
    value.push(path.to_string_lossy().replace(',', ",,"));
    value.push(after);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_s_clock_goes_with_the_tests() {
        let now = |text: &str| serde_json::from_value::<Timestamp>(text.into()).unwrap();
        // The tests' own clock was left as it is.
        assert_eq!(clock("2028-02-29", now("2026-11-29T01:02:03.456Z")), "base=2028-02-29");
        assert_eq!(clock("2036-02-07T06:28:00Z", now("2038-01-20T00:00:00Z")), "base=2036-02-07T06:28:00");
        // It was set too, some minutes ago.
        assert_eq!(clock("2028-02-29", now("2028-02-29T00:12:03.456Z")), "base=2028-02-29T00:12:03");
        assert_eq!(clock("2026-12-31T23:58:00Z", now("2027-01-01T00:01:00Z")), "base=2027-01-01T00:01:00");
        assert_eq!(clock("soon", now("2028-02-29T00:12:03.456Z")), "base=soon");
    }
}
