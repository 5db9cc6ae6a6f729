//! Which file of the EFI system partition to start.

use super::fat::{Fat, FatError};

/// What firmware runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// Of this program, which is the machine's; None where there is no UEFI.
    pub fn current() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// As it ends the name of a loader.
    fn suffix(self) -> &'static str {
        match self {
            Self::X86_64 => "x64",
            Self::Aarch64 => "aa64",
        }
    }
}

/// Vendors by the names of their directories, with what the entry is called. The first that exists is taken
/// (docs/compatibility.md#boot-entry; the last was not looked for there, so hosts of Fedora CoreOS got no entry).
const VENDORS: [(&str, &str); 3] =
    [("redhat", "Red Hat Enterprise Linux"), ("centos", "CentOS Stream CoreOS"), ("fedora", "Fedora CoreOS")];
/// What an entry for the fall-back path is called.
const FALLBACK_LABEL: &str = "CoreOS";

/// Why there is nothing to start.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    #[error(transparent)]
    Fat(#[from] FatError),
    #[error("the EFI system partition has no boot loader; looked for {}", looked_for.join(", "))]
    None {
        /// Paths that were tried.
        looked_for: Vec<String>,
    },
}

/// What an entry starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loader {
    /// What the entry is called.
    pub label: &'static str,
    /// The file, as in entries.
    pub path: String,
    /// Whether firmware that lost its entries finds the fall-back path (UEFI 2.10, section 3.5.1.1).
    pub has_fallback: bool,
}

/// Paths of every loader that entries of ours start, for this architecture.
pub(super) fn all_paths(architecture: Architecture) -> Vec<String> {
    let files = ["shim", "grub"].map(|program| format!("{program}{}.efi", architecture.suffix()));
    VENDORS.iter().flat_map(|(vendor, _)| files.iter().map(move |file| format!(r"\EFI\{vendor}\{file}"))).collect()
}

/// What entries of ours are called.
pub(super) fn all_labels() -> impl Iterator<Item = &'static str> {
    VENDORS.iter().map(|(_, label)| *label).chain([FALLBACK_LABEL])
}

/// The first vendor's shim; where there is none, and Secure Boot would not refuse it, the first vendor's GRUB, or the fall-back path.
pub(super) fn find(esp: &Fat<'_>, architecture: Architecture, secure_boot: bool) -> Result<Loader, LoaderError> {
    let suffix = architecture.suffix();
    let fallback = format!("BOOT{}.EFI", suffix.to_uppercase());
    let has_fallback = esp.has_file(&["EFI", "BOOT", &fallback])?;
    let mut looked_for = Vec::new();
    let programs: &[&str] = if secure_boot { &["shim"] } else { &["shim", "grub"] };
    for program in programs {
        let file = format!("{program}{suffix}.efi");
        for (vendor, label) in VENDORS {
            let path = format!(r"\EFI\{vendor}\{file}");
            if esp.has_file(&["EFI", vendor, &file])? {
                return Ok(Loader { label, path, has_fallback });
            }
            looked_for.push(path);
        }
    }
    let path = format!(r"\EFI\BOOT\{fallback}");
    if has_fallback && !secure_boot {
        return Ok(Loader { label: FALLBACK_LABEL, path, has_fallback });
    }
    if !secure_boot {
        looked_for.push(path);
    }
    Err(LoaderError::None { looked_for })
}
