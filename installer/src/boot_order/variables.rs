//! The firmware's variables, by the kernel's efivarfs (Documentation/filesystems/efivarfs.rst): a file each, of four bytes of
//! attributes and the value.

use crate::sys;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

/// `EFI_GLOBAL_VARIABLE` (UEFI 2.10, section 3.3), the owner of the variables that the specification names.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Kept without power, and there for the firmware and the system (section 8.2.1): how boot entries are.
pub const KEPT: u32 = 7;
/// Firmware gives 32 KiB or so to one variable.
const MAX_VARIABLE_BYTES: u64 = 64 << 10;
/// Where efivarfs is, below the root.
const DIRECTORY: &str = "sys/firmware/efi/efivars";

/// Why a variable can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    #[error("cannot list the firmware's variables in {}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot read the firmware's variable {name}")]
    Read { name: String, source: io::Error },
    /// No attributes, or no end.
    #[error("the firmware's variable {name} has {len} bytes, which cannot be")]
    Length {
        name: String,
        /// Bytes that were read.
        len: usize,
    },
    /// The firmware or the kernel refuses.
    #[error("cannot {action} the firmware's variable {name}: {}", refusal(source))]
    Change { action: &'static str, name: String, source: io::Error },
}

/// What the kernel's number means for a variable, and what to do.
fn refusal(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EROFS) => "they are mounted read-only, or the kernel was told to leave them alone (efi=noruntime)",
        Some(libc::ENOSPC) => "the firmware has no room; delete entries nobody needs in its set-up",
        Some(libc::EINVAL) => "the firmware does not take it",
        Some(libc::EIO) => "the firmware failed; it may do so until the next reboot",
        Some(libc::EPERM | libc::EACCES) => "not allowed: is efivarfs mounted, and is this root?",
        _ => "the kernel refuses",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// How it is kept and who sees it.
    pub attributes: u32,
    pub value: Vec<u8>,
}

/// The variables of a machine that the UEFI specification names.
#[derive(Clone, Debug)]
pub struct Variables {
    directory: PathBuf,
}

impl Variables {
    /// Those of the system at `root`; None if it was started by BIOS or by no firmware at all.
    pub fn of(root: &Path) -> Option<Self> {
        // What systemd and efibootmgr go by, too. The directory of the variables may be missing while this one is there.
        root.join("sys/firmware/efi").is_dir().then(|| Self { directory: root.join(DIRECTORY) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{GLOBAL}"))
    }

    /// Names of all that the specification names, sorted.
    pub fn names(&self) -> Result<Vec<String>, VariableError> {
        let error = |source| VariableError::List { path: self.directory.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(GLOBAL)?.strip_suffix('-'));
            names.extend(name.map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// A variable; None if there is none of that name.
    pub fn read(&self, name: &str) -> Result<Option<Variable>, VariableError> {
        let error = |source| VariableError::Read { name: name.to_owned(), source };
        let file = match File::open(self.path(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(error)?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_VARIABLE_BYTES + 1).read_to_end(&mut bytes).map_err(error)?;
        let wrong = VariableError::Length { name: name.to_owned(), len: bytes.len() };
        if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_VARIABLE_BYTES) {
            return Err(wrong);
        }
        let Some((attributes, value)) = bytes.split_first_chunk() else { return Err(wrong) };
        Ok(Some(Variable { attributes: u32::from_le_bytes(*attributes), value: value.to_vec() }))
    }

    /// Makes a variable, or gives it another value. It has the old value or the new one, whatever the moment of a crash.
    pub fn write(&self, name: &str, value: &[u8]) -> Result<(), VariableError> {
        let error = |source| VariableError::Change { action: "write", name: name.to_owned(), source };
        let path = self.path(name);
        make_changeable(&path).map_err(error)?;
        let mut bytes = KEPT.to_le_bytes().to_vec();
        bytes.extend(value);
        // Not truncated before: to efivarfs an empty file is a variable to be removed.
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(error)?;
        // Each write(2) is a change of its own, so it must be one.
        let written = file.write(&bytes).map_err(error)?;
        if written != bytes.len() {
            return Err(error(ErrorKind::WriteZero.into()));
        }
        // Where it is no efivarfs, something longer has its rest left.
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if file.metadata().map_err(error)?.len() > len { file.set_len(len).map_err(error) } else { Ok(()) }
    }

    /// Removes a variable; it is no error if there is none.
    pub fn delete(&self, name: &str) -> Result<(), VariableError> {
        let error = |source| VariableError::Change { action: "delete", name: name.to_owned(), source };
        let path = self.path(name);
        make_changeable(&path).map_err(error)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.map_err(error),
        }
    }
}

/// Variables whose loss could break a machine are immutable files. The flag is the open file system's, not the firmware's, and comes
/// back with it.
fn make_changeable(path: &Path) -> io::Result<()> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        file => sys::clear_immutable(&file?),
    }
}
