//! The program to bake in: its processor, and whether it runs on its own.

use sha2::{Digest, Sha256};
use std::{
    fmt, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The mark before the version in our programs.
const MARK: &str = "landfall program, version ";
/// The same in programs with the service; the package's `main.rs` has it in full.
const SERVICE_MARK: &str = "landfall with the service, version ";
/// Makes the mark and the version one text in the file. Nothing else reads it.
#[used]
static VERSION: &str = concat!("landfall program, version ", env!("CARGO_PKG_VERSION"), "\n");
/// A larger program is not ours; in a config it takes a bit less than half.
const MAX_BYTES: u64 = 512 << 20;
/// The running program.
pub const RUNNING: &str = "/proc/self/exe";
/// Type of the program header that names a dynamic loader (elf(5)).
const PT_INTERP: u32 = 3;

/// A processor, by its number in ELF (e_machine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 62.
    X86_64,
    /// 183.
    Aarch64,
    /// 21, little-endian.
    Ppc64le,
    /// 22.
    S390x,
}

impl Machine {
    /// As `uname -m` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        }
    }

    /// The processor of a kernel image or program, by its first bytes: ELF, PE (for UEFI), or the boot protocol's header.
    pub fn of_start(start: &[u8]) -> Option<Self> {
        if let Ok((machine, _)) = elf(start) {
            return Some(machine);
        }
        let at = |range: std::ops::Range<usize>| start.get(range).unwrap_or_default();
        if let (b"MZ", Some(offset)) = (at(0..2), word(start, 60)) {
            let pe = usize::try_from(offset).ok().and_then(|offset| start.get(offset..)?.first_chunk::<6>());
            match pe {
                Some([b'P', b'E', 0, 0, 0x64, 0x86]) => return Some(Self::X86_64),
                Some([b'P', b'E', 0, 0, 0x64, 0xaa]) => return Some(Self::Aarch64),
                _ => {}
            }
        }
        if at(514..518) == b"HdrS" {
            return Some(Self::X86_64);
        }
        (at(56..60) == b"ARM\x64").then_some(Self::Aarch64)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a program can't be baked in.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("cannot read the program {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It would not start on the live system.
    #[error("cannot bake in {}: {what}; give the static landfall for the live system's processor with --binary FILE", path.display())]
    Unfit { path: PathBuf, what: String },
}

/// A static program.
#[derive(Clone)]
pub struct Program {
    /// All of it.
    pub bytes: Vec<u8>,
    /// What it runs on.
    pub machine: Machine,
    /// The version of Landfall in it, if any.
    pub version: Option<String>,
    /// Whether it has the service.
    pub has_service: bool,
    /// Of the bytes, hexadecimal.
    pub sha256: String,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} bytes, sha256 {})", self.machine, self.bytes.len(), self.sha256)
    }
}

impl Program {
    /// The one at `path`, or [`for_images`].
    pub fn read(path: Option<&Path>) -> Result<Self, ProgramError> {
        let path = &path.map_or_else(for_images, Path::to_owned);
        let failed = |source| ProgramError::Read { path: path.to_owned(), source };
        let len_bytes = std::fs::metadata(path).map_err(failed)?.len();
        if len_bytes > MAX_BYTES {
            let what = format!("it has {len_bytes} bytes; the limit is {MAX_BYTES}");
            return Err(ProgramError::Unfit { path: path.to_owned(), what });
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        Self::parse(bytes).map_err(|what| ProgramError::Unfit { path: path.to_owned(), what: what.to_owned() })
    }

    /// The program with these bytes; the error says what is wrong with them.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let (machine, is_static) = elf(&bytes)?;
        if !is_static {
            return Err("it is dynamically linked, and the live system may lack its libraries");
        }
        let (version, has_service) = (version(&bytes, MARK), version(&bytes, SERVICE_MARK).is_some());
        let sha256 = kernel::hex::lower(Sha256::digest(&bytes));
        Ok(Self { bytes, machine, version, has_service, sha256 })
    }
}

/// Whether the running program includes the service, however it is linked.
pub(super) fn can_serve() -> io::Result<bool> {
    Ok(version(&std::fs::read(RUNNING)?, SERVICE_MARK).is_some())
}

/// Where the host's program is installed, relative to the full program's directory.
const HOST_PROGRAM: [&str; 2] = ["landfall-host", "../lib/landfall/landfall-host"];

/// The default program for images: the host's, if installed with the running one, else the running one.
pub fn for_images() -> PathBuf {
    let beside = || {
        let running = std::env::current_exe().ok()?;
        let owner = std::fs::metadata(&running).ok()?.uid();
        HOST_PROGRAM.iter().map(|place| running.with_file_name(place)).find(|path| is_trusted(path, owner))
    };
    beside().unwrap_or_else(|| RUNNING.into())
}

/// Whether it is a file that only `owner` or root can have created: the directory may be writable by any user.
fn is_trusted(path: &Path, owner: u32) -> bool {
    path.symlink_metadata()
        .is_ok_and(|file| file.is_file() && (file.uid() == owner || file.uid() == 0) && file.mode() & 0o022 == 0)
}

/// Processor of an ELF file, and whether it starts without a loader.
fn elf(bytes: &[u8]) -> Result<(Machine, bool), &'static str> {
    let header = bytes.get(..64).ok_or("it is shorter than an ELF header")?;
    let (is_little, machine) = match header {
        [0x7f, b'E', b'L', b'F', 2, 1, ..] => (true, [header[18], header[19]]),
        [0x7f, b'E', b'L', b'F', 2, 2, ..] => (false, [header[19], header[18]]),
        _ => return Err("it is not a 64-bit ELF program"),
    };
    let machine = match (u16::from_le_bytes(machine), is_little) {
        (62, true) => Machine::X86_64,
        (183, true) => Machine::Aarch64,
        (21, true) => Machine::Ppc64le,
        (22, false) => Machine::S390x,
        _ => return Err("it is for a processor that Landfall does not support"),
    };
    let number = |at: usize, len: usize| {
        let mut digits = bytes.get(at..at.checked_add(len)?)?.to_vec();
        if is_little {
            digits.reverse();
        }
        digits.iter().try_fold(0_usize, |value, digit| value.checked_mul(256)?.checked_add(usize::from(*digit)))
    };
    // Program headers: offset, size of each, number.
    let (Some(start), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2)) else {
        return Err("its header is damaged");
    };
    let kinds = (0..count).map(|index| number(start.checked_add(size.checked_mul(index)?)?, 4));
    let interpreter = usize::try_from(PT_INTERP).ok();
    Ok((machine, kinds.flatten().all(|kind| Some(kind) != interpreter)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    kernel::bytes::le32(bytes, at)
}

fn version(bytes: &[u8], mark: &str) -> Option<String> {
    let mark = mark.as_bytes();
    // The file also contains the bare mark, from this search.
    let texts = bytes.windows(mark.len()).enumerate().filter(|(_, window)| *window == mark);
    let mut versions = texts.filter_map(|(at, _)| {
        let rest = bytes.get(at + mark.len()..)?;
        let text = rest.iter().take(64).position(|byte| *byte == b'\n').and_then(|end| rest.get(..end))?;
        let text = std::str::from_utf8(text).ok()?;
        let is_version = text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(char::is_whitespace);
        is_version.then(|| text.to_owned())
    });
    versions.next()
}

/// A program for tests: a header, and a program header of `kind`.
#[cfg(test)]
pub(crate) fn sample(kind: u8, machine: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = machine;
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = kind;
    bytes.extend_from_slice(VERSION.as_bytes());
    bytes.extend_from_slice(SERVICE_MARK.as_bytes());
    bytes.extend_from_slice(b"1\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_file_that_its_owner_alone_can_write_is_taken_from_beside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("landfall-host");
        assert!(!is_trusted(&path, 0));
        std::fs::write(&path, "").unwrap();
        let owner = path.metadata().unwrap().uid();
        for (mode, expected) in [(0o755, true), (0o775, false), (0o757, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_trusted(&path, owner), expected, "{mode:o}");
        }
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(!is_trusted(&link, owner));
    }

    #[test]
    fn a_static_program_is_recognised() {
        let good = Program::parse(sample(1, 62)).unwrap();
        assert_eq!((good.machine, good.version.as_deref()), (Machine::X86_64, Some(env!("CARGO_PKG_VERSION"))));
        assert!(good.has_service);
        let without = good.bytes.strip_suffix(b"1\n").unwrap().to_vec();
        assert!(!Program::parse(without).unwrap().has_service, "the mark alone is in each program, to be looked for");
        assert_eq!(Program::parse(sample(1, 183)).unwrap().machine, Machine::Aarch64);
        for (bytes, what) in [
            (sample(3, 62), "dynamically linked"),
            (sample(1, 8), "processor"),
            (b"#!/bin/sh\n".to_vec(), "shorter"),
            (vec![b'x'; 100], "ELF"),
        ] {
            let error = Program::parse(bytes).map(|_| ()).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn kernels_say_what_they_are_for() {
        let mut bios = vec![0; 600];
        bios[514..518].copy_from_slice(b"HdrS");
        assert_eq!(Machine::of_start(&bios), Some(Machine::X86_64));
        let mut uefi = vec![0; 600];
        uefi[..2].copy_from_slice(b"MZ");
        uefi[60] = 128;
        uefi[128..134].copy_from_slice(b"PE\0\0\x64\xaa");
        assert_eq!(Machine::of_start(&uefi), Some(Machine::Aarch64));
        assert_eq!(Machine::of_start(b"kernel"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(changes in proptest::collection::vec((0_usize..120, any::<u8>()), 0..20)) {
            let mut bytes = sample(1, 62);
            for (at, byte) in changes { bytes[at] = byte; }
            let _ = Machine::of_start(&bytes);
            let _ = Program::parse(bytes);
        }
    }
}
