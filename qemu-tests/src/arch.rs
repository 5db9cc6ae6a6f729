//! Processors of test machines, and all that differs with them.

/// A test machine's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch {
    /// The kernel's name for it, and the agent's.
    pub name: &'static str,
    /// The kernel's name for the first serial port.
    pub console: &'static str,
    /// Kernel arguments of every test image.
    pub kernel_arguments: &'static str,
    /// The QEMU program.
    pub qemu: &'static str,
    /// Debian's package of that program.
    pub qemu_package: &'static str,
    /// QEMU's `-machine`, unless a test wants another.
    pub(crate) machine: &'static str,
    /// QEMU's `-cpu`.
    pub(crate) cpu: &'static str,
    /// QEMU's devices of a CD drive; the drive itself comes last.
    pub(crate) cd_devices: &'static [&'static str],
    /// QEMU's device for a TPM.
    pub(crate) tpm_device: &'static str,
    /// Whether its machines have a BIOS.
    pub(crate) has_bios: bool,
    /// UEFI's program, and the variables it begins with.
    pub(crate) uefi: (&'static str, &'static str),
    /// Debian's package of both.
    pub(crate) uefi_package: &'static str,
    /// How the names of UEFI's files for it end, before `.efi` (UEFI 2.10, 3.5.1.1).
    pub(crate) efi_suffix: &'static str,
    /// GRUB's name for its UEFI.
    pub(crate) grub_efi: &'static str,
    /// Where its libraries are below `usr/lib`.
    pub(crate) library_dir: &'static str,
    /// The path that programs name the GNU C library's loader by.
    pub(crate) loader: &'static str,
    /// The directory of unpacked packages, below `vm` in the target directory.
    pub(crate) packages: &'static str,
    /// The command that prepares the host for its machines.
    pub(crate) set_up_with: &'static str,
    /// Rust's target.
    pub(crate) target: &'static str,
    /// Names the `landfall` of it to use.
    pub(crate) program_env: &'static str,
    /// The program that runs programs of this processor on another one.
    pub(crate) emulator: &'static str,
}

impl Arch {
    pub const X86_64: Self = Self {
        name: "x86_64",
        console: "ttyS0",
        // No timer check, which fails under emulation on a busy host; no time from the processor's counter, which is the host's there,
        // measured once and wrongly at a bad moment; no cipher self-tests, which take a second there.
        kernel_arguments: "console=ttyS0 quiet no_timer_check tsc=unstable cryptomgr.notests",
        qemu: "qemu-system-x86_64",
        qemu_package: "qemu-system-x86",
        machine: "pc",
        cpu: "max",
        cd_devices: &["ide-cd"],
        tpm_device: "tpm-tis",
        has_bios: true,
        uefi: ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
        uefi_package: "ovmf",
        efi_suffix: "x64",
        grub_efi: "x86_64-efi",
        library_dir: "x86_64-linux-gnu",
        loader: "usr/lib64/ld-linux-x86-64.so.2",
        packages: "packages",
        set_up_with: ".ci/setup",
        target: "x86_64-unknown-linux-musl",
        program_env: "LANDFALL_BIN",
        emulator: "qemu-x86_64-static",
    };

    /// 64-bit Arm, as server firmware presents it: UEFI and ACPI.
    pub const AARCH64: Self = Self {
        name: "aarch64",
        console: "ttyAMA0",
        kernel_arguments: "console=ttyAMA0 quiet cryptomgr.notests",
        qemu: "qemu-system-aarch64",
        qemu_package: "qemu-system-arm",
        machine: "virt",
        // Signing pointers with the real cipher takes half of all the time.
        cpu: "max,pauth-impdef=on",
        cd_devices: &["virtio-scsi-pci,id=cd-scsi", "scsi-cd,bus=cd-scsi.0"],
        tpm_device: "tpm-tis-device",
        has_bios: false,
        uefi: ("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),
        uefi_package: "qemu-efi-aarch64",
        efi_suffix: "aa64",
        grub_efi: "arm64-efi",
        library_dir: "aarch64-linux-gnu",
        loader: "usr/lib/ld-linux-aarch64.so.1",
        packages: "packages-arm64",
        set_up_with: ".ci/setup-aarch64 --machines",
        target: "aarch64-unknown-linux-musl",
        program_env: "LANDFALL_BIN_AARCH64",
        emulator: "qemu-aarch64-static",
    };

    /// Whether the tests themselves run on it.
    pub fn is_host(&self) -> bool {
        self.name == std::env::consts::ARCH
    }

    /// The name of a build: unchanged for x86_64.
    pub(crate) fn build_name(&self, name: &str) -> String {
        if *self == Self::X86_64 { name.to_owned() } else { format!("{name}-{}", self.name) }
    }
}

impl Default for Arch {
    fn default() -> Self {
        Self::X86_64
    }
}
