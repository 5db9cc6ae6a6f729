//! The firmware's variables in the kernel's efivarfs (Documentation/filesystems/efivarfs.rst): a file each, of four bytes of
//! attributes and the value.

use crate::{Root, file_system::clear_immutable, order};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

/// `EFI_GLOBAL_VARIABLE` (UEFI 2.10, section 3.3), the owner of the variables that the specification names.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// `EFI_VARIABLE_NON_VOLATILE`, `_BOOTSERVICE_ACCESS` and `_RUNTIME_ACCESS` (section 8.2.1), which boot entries have.
const BOOT_ENTRY: u32 = 7;
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
    /// No attributes, or too long.
    #[error("the firmware's variable {name} has an invalid length of {len} bytes")]
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
        Some(libc::EROFS) => "they are mounted read-only, or disabled on the kernel's command line (efi=noruntime)",
        Some(libc::ENOSPC) => "the firmware has no space left; delete unused entries in its setup",
        Some(libc::EINVAL) => "the firmware rejects it",
        Some(libc::EIO) => "the firmware failed, and may fail until the next reboot",
        Some(libc::EPERM | libc::EACCES) => "not allowed: is efivarfs mounted, and is this root?",
        _ => "the kernel refuses",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// `EFI_VARIABLE_…`
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
    pub fn open(root: &Path) -> Option<Self> {
        // systemd and efibootmgr check the same. The directory of the variables may be missing while this one exists.
        root.join("sys/firmware/efi").is_dir().then(|| Self { directory: root.join(DIRECTORY) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{GLOBAL}"))
    }

    /// All that the specification names, sorted.
    pub fn names(&self) -> Result<Vec<String>, VariableError> {
        let error = |source| VariableError::List { path: self.directory.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(GLOBAL)?.strip_suffix('-'));
            names.extend(name.map(str::to_owned));
        }
        order::sort(&mut names);
        Ok(names)
    }

    /// A variable; None if it does not exist.
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

    /// Creates or changes a variable. After a crash it has the old value or the new one.
    pub fn write(&self, name: &str, value: &[u8]) -> Result<(), VariableError> {
        let error = |source| VariableError::Change { action: "write", name: name.to_owned(), source };
        let path = self.path(name);
        make_changeable(&path).map_err(error)?;
        let mut bytes = BOOT_ENTRY.to_le_bytes().to_vec();
        bytes.extend(value);
        // Not truncated before: to efivarfs an empty file is a variable to be removed.
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(error)?;
        // Each write(2) is a separate change, so it must be one.
        let written = file.write(&bytes).map_err(error)?;
        if written != bytes.len() {
            return Err(error(ErrorKind::WriteZero.into()));
        }
        // On another file system the end of a longer value is left.
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if file.metadata().map_err(error)?.len() > len { file.set_len(len).map_err(error) } else { Ok(()) }
    }

    /// Removes a variable, if it exists.
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
        file => clear_immutable(&file?),
    }
}

/// A variable that is one byte, 0 or 1; `None` for any other value.
pub fn flag(root: &Root, name: &str) -> io::Result<Option<bool>> {
    Ok(match root.read(format!("/{DIRECTORY}/{name}-{GLOBAL}"), 64)?.as_slice() {
        [_, _, _, _, 0] => Some(false),
        [_, _, _, _, 1] => Some(true),
        _ => None,
    })
}
