//! Initramfs archives: "newc" cpio, compressed or not, one after another, as the kernel unpacks them.

mod compress;
mod read;
mod scan;
#[cfg(test)]
mod tests;
mod write;
mod xz;

pub use compress::Compression;
pub use read::Limits;
pub(crate) use scan::{Bounds, scan_within};
pub use scan::{Names, NamesError, ScanError, scan};

use kernel::newc;
use std::collections::BTreeMap;
use std::{fmt, io};

/// A member of an archive. Its `Debug` doesn't show the content of a file, which may be secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Member {
    File {
        /// Permission bits.
        mode: u32,
        /// Its content.
        data: Vec<u8>,
    },
    Symlink {
        /// Where it points to.
        target: String,
    },
    Directory {
        /// Permission bits.
        mode: u32,
    },
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { mode, data } => write!(f, "File({mode:04o}, {} bytes)", data.len()),
            Self::Symlink { target } => write!(f, "Symlink({target:?})"),
            Self::Directory { mode } => write!(f, "Directory({mode:04o})"),
        }
    }
}

/// Why an archive can't be read or written. Offsets count from the start of the given bytes, or in a compressed archive from the
/// start of its content.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An invalid member name.
    #[error("'{name}' is not a valid archive member: it must be a relative path without '.', '..' and empty parts")]
    Name {
        /// The name, cut.
        name: String,
    },
    /// A member below one that is not a directory.
    #[error("cannot add '{name}' to the archive: its '{parent}' is not a directory")]
    BelowFile {
        name: String,
        /// The one above it.
        parent: String,
    },
    /// A member is too large for the format.
    #[error(transparent)]
    TooLarge(#[from] newc::MemberTooLarge),
    #[error("cannot compress the archive")]
    Compress(#[source] io::Error),
    /// Its first bytes are not an archive's.
    #[error("no archive at offset {offset}: it starts with {found}, which is neither cpio (newc) nor gzip, xz or zstd")]
    Format {
        offset: usize,
        /// The first bytes, in hexadecimal.
        found: String,
    },
    /// A compressed archive that can't be unpacked.
    #[error("cannot unpack the {format} archive at offset {offset}")]
    Decompress {
        /// How it is compressed.
        format: &'static str,
        offset: usize,
        source: io::Error,
    },
    /// A member header that is invalid, or exceeds the archive.
    #[error("the archive is damaged or truncated: cannot read {what} of the member at offset {offset}")]
    Member {
        /// Where the member starts.
        offset: usize,
        what: &'static str,
    },
    /// More than the limits allow.
    #[error("the archive has more than {limit} {what}, the limit for unpacking")]
    Limit { limit: u64, what: &'static str },
}

/// Members by name, sorted. Parent directories need not be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    members: BTreeMap<String, Member>,
}

impl Archive {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a regular file of permission bits `mode`, or replaces what has its name.
    pub fn add(&mut self, path: &str, mode: u32, data: impl Into<Vec<u8>>) -> Result<(), ArchiveError> {
        self.add_member(path, Member::File { mode: mode & 0o7777, data: data.into() })
    }

    /// Adds a symbolic link.
    pub fn add_symlink(&mut self, path: &str, target: &str) -> Result<(), ArchiveError> {
        self.add_member(path, Member::Symlink { target: target.to_owned() })
    }

    /// Adds a member, or replaces what has its name.
    fn add_member(&mut self, path: &str, member: Member) -> Result<(), ArchiveError> {
        let name = clean_name(path)?;
        for parent in parents(&name) {
            if self.members.get(parent).is_some_and(|member| !matches!(member, Member::Directory { .. })) {
                return Err(ArchiveError::BelowFile { name: name.clone(), parent: parent.to_owned() });
            }
        }
        self.members.insert(name, member);
        Ok(())
    }

    /// The content of the regular file at `path`.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        match self.members.get(path.trim_start_matches('/'))? {
            Member::File { data, .. } => Some(data),
            _ => None,
        }
    }

    /// Removes the member at `path`.
    pub fn remove(&mut self, path: &str) -> Option<Member> {
        self.members.remove(path.trim_start_matches('/'))
    }

    /// The members in the order of their names.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.members.iter().map(|(name, member)| (name.as_str(), member))
    }

    /// Whether there are files or links in it.
    pub fn is_empty(&self) -> bool {
        self.members.values().all(|member| matches!(member, Member::Directory { .. }))
    }

    /// The cpio archive, not compressed: sorted, with the directories above each member, without owners and times.
    pub fn to_cpio(&self) -> Result<Vec<u8>, ArchiveError> {
        Ok(write::cpio(self)?.0)
    }

    /// The archive, compressed.
    pub fn pack(&self, compression: Compression) -> Result<Vec<u8>, ArchiveError> {
        let (cpio, ends) = write::cpio(self)?;
        compress::compress(cpio, &ends, compression).map_err(ArchiveError::Compress)
    }

    /// Reads archives that follow each other, each compressed or not, with zeros between and after them. Of members of the same
    /// name the last stays, as with the kernel. Devices and other special files are left out.
    pub fn unpack(bytes: &[u8]) -> Result<Self, ArchiveError> {
        Self::unpack_limited(bytes, Limits::default())
    }

    /// [`Archive::unpack`] with other limits.
    pub(crate) fn unpack_limited(bytes: &[u8], limits: Limits) -> Result<Self, ArchiveError> {
        read::unpack(bytes, limits)
    }

    /// The regular files, with mode 0600, as coreos-installer reads and writes them.
    pub fn into_files(mut self) -> Self {
        self.members.retain(|_, member| matches!(member, Member::File { .. }));
        for member in self.members.values_mut() {
            if let Member::File { mode, .. } = member {
                *mode = 0o600;
            }
        }
        self
    }

    /// The names of the regular files that start with `prefix` and have more behind it, in their order.
    pub fn names_below(&self, prefix: &str) -> Vec<String> {
        let names = self.members().filter(|(_, member)| matches!(member, Member::File { .. })).map(|(name, _)| name);
        names.filter(|name| name.len() > prefix.len() && name.starts_with(prefix)).map(str::to_owned).collect()
    }

    /// Adds what was read. A file that replaces a directory removes all below it, as in the kernel.
    fn put(&mut self, name: String, member: Member) {
        if !matches!(member, Member::Directory { .. }) {
            let below = format!("{name}/");
            let gone: Vec<String> = self
                .members
                .range(below.clone()..)
                .take_while(|(n, _)| n.starts_with(&below))
                .map(|(n, _)| n.clone())
                .collect();
            for name in gone {
                self.members.remove(&name);
            }
        }
        for parent in parents(&name) {
            if self.members.get(parent).is_some_and(|member| !matches!(member, Member::Directory { .. })) {
                self.members.remove(parent);
            }
        }
        self.members.insert(name, member);
    }
}

/// `usr/bin/x`: `usr`, `usr/bin`.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// The name without `/` or `./` before it.
fn clean_name(path: &str) -> Result<String, ArchiveError> {
    let mut name = path;
    while let Some(rest) = name.strip_prefix('/').or_else(|| name.strip_prefix("./")) {
        name = rest;
    }
    let bad = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
    if name.len() > read::MAX_NAME_BYTES || name.split('/').any(bad) || name == newc::TRAILER {
        return Err(ArchiveError::Name { name: path.chars().take(100).collect() });
    }
    Ok(name.to_owned())
}
