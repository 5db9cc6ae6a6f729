//! Boot entries: `EFI_LOAD_OPTION` (UEFI 2.10, section 3.1.3).

use super::device_path::{self, HardDrive, Node, PathError, utf16};

/// The firmware tries the entry by itself.
pub(super) const ACTIVE: u32 = 1;
/// Attributes and the length of the paths.
const HEADER_BYTES: usize = 6;

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadOptionError {
    #[error("it has only {0} bytes")]
    Short(usize),
    /// No NUL.
    #[error("its description is not terminated")]
    Description,
    #[error("its device paths should have {len} bytes, but {remaining} are left")]
    Paths { len: usize, remaining: usize },
    #[error(transparent)]
    Path(#[from] PathError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOption {
    /// `ACTIVE` and others.
    pub attributes: u32,
    /// What the firmware's menu shows.
    pub description: String,
    pub path: Vec<Node>,
    /// Further paths, which hardly any entry has.
    pub more_paths: Vec<u8>,
    /// Passed to the loader.
    pub optional_data: Vec<u8>,
}

impl LoadOption {
    /// An active entry that starts a file of a partition.
    pub fn file(description: &str, partition: HardDrive, path: &str) -> Self {
        Self {
            attributes: ACTIVE,
            description: description.to_owned(),
            path: vec![Node::HardDrive(partition), Node::File(path.to_owned())],
            more_paths: Vec::new(),
            optional_data: Vec::new(),
        }
    }

    /// Reads an entry. Work and memory are bound by the length of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, LoadOptionError> {
        let short = LoadOptionError::Short(bytes.len());
        let (&[a, b, c, d, low, high], rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(short)?;
        let (units, _) = rest.as_chunks();
        let units: Vec<u16> =
            units.iter().map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0).collect();
        let after = units.len().saturating_add(1).saturating_mul(2);
        let rest = rest.get(after..).ok_or(LoadOptionError::Description)?;
        let len = usize::from(u16::from_le_bytes([low, high]));
        let paths = rest.split_at_checked(len).ok_or(LoadOptionError::Paths { len, remaining: rest.len() });
        let (paths, optional_data) = paths?;
        let (path, more_paths) = device_path::parse(paths)?;
        Ok(Self {
            attributes: u32::from_le_bytes([a, b, c, d]),
            description: String::from_utf16_lossy(&units),
            path,
            more_paths: more_paths.to_vec(),
            optional_data: optional_data.to_vec(),
        })
    }

    /// The bytes of the entry.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut paths = device_path::write(&self.path);
        paths.extend(&self.more_paths);
        let mut bytes = self.attributes.to_le_bytes().to_vec();
        // What was read has a length of 16 bits, and what we make is short.
        bytes.extend(u16::try_from(paths.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend(utf16(&self.description));
        bytes.extend(paths);
        bytes.extend(&self.optional_data);
        bytes
    }

    /// Whether the firmware tries it by itself.
    pub fn is_active(&self) -> bool {
        self.attributes & ACTIVE != 0
    }

    /// The partition it leads to, if any.
    pub fn partition(&self) -> Option<&HardDrive> {
        self.path.iter().find_map(|node| match node {
            Node::HardDrive(drive) => Some(drive),
            _ => None,
        })
    }

    /// The file it starts, if it names one.
    pub fn loader(&self) -> Option<&str> {
        self.path.iter().rev().find_map(|node| match node {
            Node::File(path) => Some(path.as_str()),
            _ => None,
        })
    }

    /// The description as it may be printed.
    pub fn label(&self) -> String {
        self.description.chars().map(super::printable).collect()
    }

    /// The path as the specification writes it.
    pub fn path_text(&self) -> String {
        device_path::text(&self.path)
    }
}

#[cfg(test)]
#[path = "load_option_tests.rs"]
mod tests;
